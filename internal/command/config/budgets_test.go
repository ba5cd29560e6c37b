package config

import (
	"strings"
	"testing"
)

func TestBudgetsThatCannotWorkAreRefused(t *testing.T) {
	const prices, labels = "WEIR_SCHEDULER_ACCOUNTING_PRICES={prices: [{surplus: {cpu: 1}}]}", "WEIR_SCHEDULER_ACCOUNTING_LABELS=team"
	for budgets, want := range map[string]string{
		"[{name: a, cost: 5, pool: p}]": "", "[{name: a, cpu: 5, label: team=x}, {name: b, gpu: 1, warn: 0.5}]": "",
		"[{cpu: 5}]": "needs a name", "[{name: a}]": "one of cost, cpu, gpu", "[{name: a, cpu: 5, cost: 5}]": "one of cost, cpu, gpu", "[{name: a, cpu: 5}, {name: a, cpu: 6}]": `called "a"`,
		"[{name: a, cpu: 5, label: group=x}]": "accounting/labels", "[{name: a, cpu: 5, label: x}]": "team=vision", "[{name: a, cpu: -5}]": "cpu", "[{name: a, cpu: 5, warn: 2}]": "warn",
	} {
		_, _, err := Load(Sources{Environ: []string{"WEIR_SCHEDULER_ACCOUNTING_BUDGETS=" + budgets, prices, labels}})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", budgets, err)
		}
	}
	if _, _, err := Load(Sources{Environ: []string{"WEIR_SCHEDULER_ACCOUNTING_BUDGETS=[{name: a, cost: 5}]"}}); err == nil || !strings.Contains(err.Error(), "accounting/prices") {
		t.Errorf("money without prices: %v", err)
	}
}
