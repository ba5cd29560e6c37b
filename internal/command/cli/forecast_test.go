package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/client"
)

func TestAForecastIsASentenceWithItsRecord(t *testing.T) {
	now := time.Now()
	times := &client.ForecastTimes{Median: now.Add(time.Hour), Earliest: now, Calibrated: true, Held: 9, Settled: 10}
	var b strings.Builder
	writeForecast(&b, &client.Forecast{Start: times, Finish: &client.ForecastTimes{}}, "nightly")
	text := b.String()
	for _, want := range []string{
		"nightly starts " + futureText(now, times.Median) + " (now–after more than a day); 90 % of such intervals held in the last week (n = 10).\n",
		"nightly finishes after more than a day (after more than a day–after more than a day) (uncalibrated).\n", "Too few outcomes",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}
	b.Reset()
	writeForecast(&b, &client.Forecast{}, "nightly")
	if !strings.Contains(b.String(), "no forecast for nightly yet") {
		t.Errorf("without a forecast: %s", &b)
	}
	if got := etaOf(now, &client.Operation{Forecast: &client.Forecast{Start: times}}); !strings.HasPrefix(got, "starts ") {
		t.Errorf("the column is %q", got)
	}
	if got := etaOf(now, &client.Operation{}); got != orNothing("") {
		t.Errorf("without a forecast the column is %q", got)
	}
}

func TestPoolForecastsAndReportsAreTables(t *testing.T) {
	var b strings.Builder
	pool := &client.PoolForecast{Pool: "p", Waiting: 1, Empty: &client.ForecastTimes{}, Operations: []client.Forecast{
		{Operation: "*a", Pool: "p", Start: &client.ForecastTimes{}, Finish: &client.ForecastTimes{}}, {Operation: "*b", Pool: "p", Finish: &client.ForecastTimes{}},
	}}
	if err := writePoolForecast(&b, pool); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"2 operations with a forecast, 1 waiting", "*b", "started", "the last one finishes"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in:\n%s", want, &b)
		}
	}
	b.Reset()
	if err := writeForecastReport(&b, &client.Report{}); err != nil || !strings.Contains(b.String(), "No forecast has an outcome") {
		t.Errorf("an empty report: %s, %v", &b, err)
	}
}
