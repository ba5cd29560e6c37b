package cli

import (
	"bytes"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/client"
)

const examplePrices = `
currency: EUR
prices:
  - {guarantee: {cpu: 0.02}, surplus: {cpu: 0.01, memory_gib: 0.001}, lost: {cpu: -0.01}}
  - {from: 2026-10-16, surplus: {cpu: 0.03}}
  - {tree: gpu, surplus: {gpu: 1.5}}
`

func pricesOf(t *testing.T, text string) (*priceList, error) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "prices.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return readPrices(name)
}

func lineOf(t *testing.T, text string) client.Value {
	t.Helper()
	v, err := client.ParseValue(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestPricesHoldFromADayAndForATree(t *testing.T) {
	list, err := pricesOf(t, examplePrices)
	if err != nil {
		t.Fatal(err)
	}
	october := time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	line := lineOf(t, "{guarantee_cpu_core_s=7200.;surplus_cpu_core_s=3600.;surplus_memory_gib_s=3600.;surplus_gpu_s=3600.;lost_cpu_core_s=1800.}")
	for _, test := range []struct {
		tree string
		at   time.Time
		want string
	}{
		{"default", october, "0.046000"}, // 0.04 + 0.01 + 0.001 − 0.005
		{"default", october.AddDate(0, 0, 15), "0.030000"},
		{"gpu", october.AddDate(0, 0, 15), "1.500000"},
	} {
		if got := moneyText(micros(list.at(test.tree, test.at).costOf(line))); got != test.want {
			t.Errorf("%s at %v: %s, not %s", test.tree, test.at, got, test.want)
		}
	}
	if times := list.changes(october, october.AddDate(0, 1, 0)); len(times) != 3 || !times[1].Equal(october.AddDate(0, 0, 15)) {
		t.Errorf("prices change at %v", times)
	}
}

func TestMoneyIsRoundedHalfToEven(t *testing.T) {
	for text, want := range map[string]int64{"1/2": 0, "3/2": 2, "5/2": 2, "-1/2": 0, "-3/2": -2, "7/3": 2, "8/3": 3, "4": 4} {
		cost, _ := new(big.Rat).SetString(text)
		if got := micros(cost); got != want {
			t.Errorf("%s is %d, not %d", text, got, want)
		}
	}
	for micros, want := range map[int64]string{0: "0.000000", 5: "0.000005", -1_500_000: "-1.500000", 12_345_678: "12.345678"} {
		if got := moneyText(micros); got != want {
			t.Errorf("%d is %s, not %s", micros, got, want)
		}
	}
}

func TestWrongPriceListsAreRefused(t *testing.T) {
	for text, word := range map[string]string{
		"prices: [{from: soon}]": "soon", "prices: [{surplus: {cpu: cheap}}]": "cpu", "price: []": "price", "prices: {": "prices.yaml",
	} {
		if _, err := pricesOf(t, text); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestTheTotalOfABillIsTheSumOfItsLines(t *testing.T) {
	report := &client.Report{Columns: []string{"pool", "user", "jobs"}}
	b := &bill{currency: "EUR", by: []string{"pool", "user"}}
	for _, user := range []string{"ann", "bob"} {
		line := lineOf(t, "{pool=prod;user="+user+";jobs=2;held_cpu_core_s=7.}")
		report.Lines = append(report.Lines, line)
		b.put(billLine{keys: []string{"prod", user}, usage: line, micros: 1_250_000})
	}
	b.put(billLine{keys: []string{"prod", ""}, micros: 500_000})
	var table, lines bytes.Buffer
	if err := writeUsage(&table, report, b); err != nil {
		t.Fatal(err)
	}
	if err := b.writeCSV(&lines, report); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Total: 3.000000 EUR", "reserved", "7 core·s"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, table.String())
		}
	}
	if !strings.Contains(lines.String(), "prod,bob,2,usage,1.250000,EUR") || !strings.Contains(lines.String(), "prod,,,reserved,0.500000,EUR") {
		t.Errorf("the CSV is\n%s", lines.String())
	}
}
