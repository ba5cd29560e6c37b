package ledger_test

import (
	"math/big"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/engine/ledger"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/notation"
	"github.com/weirhq/weir/internal/value/resource"
)

const examplePrices = `
currency: EUR
prices:
  - {guarantee: {cpu: 0.02}, surplus: {cpu: 0.01, memory_gib: 0.001}, lost: {cpu: -0.01}, reserved: {cpu: 0.004}}
  - {from: 2026-10-16, surplus: {cpu: 0.03}}
  - {tree: gpu, surplus: {gpu: 1.5}}
`

func read[T any](t *testing.T, table *document.Table[T], text string) (into T) {
	t.Helper()
	value, err := notation.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	r := document.NewReader("test.yaml")
	if table.Read(r, value, &into); r.HasProblems() {
		t.Fatal(r.Problems())
	}
	return into
}

// example is an hour of one core, one GPU and one GiB above guarantees, two cores of a guarantee, and half a core·h lost.
func example() *ledger.UsageSums {
	s := &ledger.UsageSums{}
	held, guaranteed, lost := resource.Amounts{}, resource.Amounts{}, resource.Amounts{}
	held[resource.CPU], held[resource.GPU], held[resource.Memory] = 300, 1, 1<<30
	guaranteed[resource.CPU], lost[resource.CPU] = 200, 50
	s.Held.Add(&held, time.Hour)
	s.Guaranteed.Add(&guaranteed, time.Hour)
	s.Ended[ledger.Preemption].Add(&lost, time.Hour)
	return s
}

func TestPricesHoldFromADayAndForATree(t *testing.T) {
	list := read(t, ledger.PriceListTable, examplePrices)
	october := time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		tree string
		at   time.Time
		want int64
	}{
		{"default", october, 46_000}, // 0.04 + 0.01 + 0.001 − 0.005
		{"default", october.AddDate(0, 0, 15), 30_000},
		{"gpu", october.AddDate(0, 0, 15), 1_500_000},
	} {
		if got := ledger.Micros(list.At(test.tree, test.at).Usage(example())); got != test.want {
			t.Errorf("%s at %v: %d, not %d", test.tree, test.at, got, test.want)
		}
	}
	by := ledger.ByResource{}
	by[resource.CPU].Promised.AddAmount(1000, time.Hour)
	if got := ledger.Micros(list.At("default", october).Reserve(&by)); got != 40_000 {
		t.Errorf("ten reserved cores cost %d", got)
	}
	if later := (&ledger.PriceList{}).At("default", october); later != nil {
		t.Errorf("an empty list has prices: %+v", later)
	}
}

func TestMoneyIsRoundedHalfToEven(t *testing.T) {
	for text, want := range map[string]int64{"1/2": 0, "3/2": 2, "5/2": 2, "-1/2": 0, "-3/2": -2, "7/3": 2, "8/3": 3, "4": 4} {
		cost, _ := new(big.Rat).SetString(text)
		if got := ledger.Micros(cost.Mul(cost, big.NewRat(1, 1_000_000))); got != want {
			t.Errorf("%s is %d, not %d", text, got, want)
		}
	}
}

func TestBudgetsCoverAccountsAndHaveOneUnit(t *testing.T) {
	below := func(_, pool, above string) bool { return pool == above || above == "top" }
	account := &ledger.Account{Tree: "default", Pool: "leaf", User: "ann", Labels: "team=vision"}
	for text, want := range map[string]bool{
		"{name: b}": true, "{name: b, pool: leaf}": true, "{name: b, pool: top}": true, "{name: b, pool: other}": false, "{name: b, user: bob}": false,
		"{name: b, label: team=vision, user: ann}": true, "{name: b, label: team=search}": false, "{name: b, tree: gpu}": false,
	} {
		if b := read(t, ledger.BudgetTable, text); b.Covers(account, below) != want {
			t.Errorf("%s covers the account: %v", text, !want)
		}
	}
	list := read(t, ledger.PriceListTable, examplePrices)
	prices := list.At("default", time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC))
	for text, want := range map[string]float64{"{cost: 1}": 0.046, "{cpu: 9}": 3, "{gpu: 9}": 1, "{memory_gib: 9}": 1} {
		b := read(t, ledger.BudgetTable, text)
		if got, _ := b.Spent(example(), prices).Float64(); got != want {
			t.Errorf("%s: %v is spent, not %v", text, got, want)
		}
	}
	if b := read(t, ledger.BudgetTable, "{cost: 1}"); b.Spent(example(), nil).Sign() != 0 {
		t.Error("without prices something costs money")
	}
	for text, want := range map[string]bool{"{cpu: 1}": true, "{}": false, "{cpu: 1, cost: 2}": false} {
		if b := read(t, ledger.BudgetTable, text); true {
			if _, _, ok := b.Limit(); ok != want {
				t.Errorf("%s has one limit: %v", text, ok)
			}
		}
	}
	b := read(t, ledger.BudgetTable, "{cpu: 1, warn: 0.5}")
	for part, want := range map[float64]ledger.BudgetLevel{0: ledger.BudgetWithin, 0.5: ledger.BudgetLow, 0.999: ledger.BudgetLow, 1: ledger.BudgetSpent, 7: ledger.BudgetSpent} {
		if got := b.Level(part); got != want {
			t.Errorf("%v is %v, not %v", part, got, want)
		}
	}
}
