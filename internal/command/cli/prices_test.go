package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/client"
)

func TestMoneyHasSixDecimals(t *testing.T) {
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
		name := filepath.Join(t.TempDir(), "prices.yaml")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readPrices(name); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// reportOf makes a report from its answer.
func reportOf(t *testing.T, columns, text string) *client.Report {
	t.Helper()
	raw, err := client.ParseValue(text)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	report := &client.Report{From: at, To: at.AddDate(0, 1, 0), Columns: strings.Split(columns, ","), Raw: raw}
	report.Lines = raw.Get("lines").Items()
	return report
}

func TestCostsAreAtTheEndOfEachLine(t *testing.T) {
	report := reportOf(t, "pool,user,jobs,held_cpu_core_s,line,cost_micros", `{currency=EUR;total_micros=3000000;lines=[
		{pool=prod;user=ann;jobs=2;held_cpu_core_s=7.;line=usage;cost_micros=1250000};
		{pool=prod;user=bob;jobs=2;held_cpu_core_s=7.;line=usage;cost_micros=1250000};
		{pool=prod;user="";jobs=0;held_cpu_core_s=0.;line=reserved;cost_micros=500000}]}`)
	var table, lines bytes.Buffer
	if err := writeUsage(&table, report); err != nil {
		t.Fatal(err)
	}
	if err := writeUsageCSV(&lines, report); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Total: 3.000000 EUR", "reserved", "7 core·s", "1.250000"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, table.String())
		}
	}
	if !strings.Contains(lines.String(), "prod,bob,2,7,usage,1.250000,EUR") || !strings.Contains(lines.String(), "prod,,,,reserved,0.500000,EUR") {
		t.Errorf("the CSV is\n%s", lines.String())
	}
}

func TestBudgetsArePrintedWithWhatTheyAreOf(t *testing.T) {
	report := reportOf(t, "budget", `{lines=[
		{budget=vision;tree="";pool=research;user="";label="team=vision";unit=EUR;limit=500.;spent=412.5;part=0.825;level=low;lasts_until="2026-11-19T08:00:00Z"};
		{budget=all;tree="";pool="";user="";label="";unit="core·h";limit=10.;spent=0.;part=0.;level=within;lasts_until=#}]}`)
	var table bytes.Buffer
	if err := writeBudgets(&table, report); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"pool research, label team=vision", "412.50", "82.5%", "low", "2026-11-19 08:00", "everything"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, table.String())
		}
	}
}
