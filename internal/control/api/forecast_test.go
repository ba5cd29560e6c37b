package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/sim/forecast"
)

func TestForecastsSayWhenOperationsStartAndFinish(t *testing.T) {
	t.Parallel()
	c := withPools(t, "team")
	settings := quickSettings()
	settings.ForecastCPU = 1
	c.Configure(settings)
	c.set("//sys/pools/team/@resource_limits", "{cpu=0}")
	id := c.start(job("team", "sleep", 1))
	key := fmt.Sprintf("{operation_id=%q}", id)
	c.eventually("there is a forecast", func() bool { return !dug(c.node("forecast_operation", key), "finish").IsEntity() })
	f := c.node("forecast_operation", key)
	calibrated, _ := dug(f, "start", "calibrated").Boolean()
	if text(f, "pool") != "team" || text(f, "pool_tree") != "default" || calibrated || text(f, "start", "method") != "ensemble" {
		t.Errorf("the forecast is %v", f)
	}
	if _, err := time.Parse(time.RFC3339, text(f, "start", "made")); err != nil {
		t.Error(err)
	}
	// It cannot start within the horizon.
	if !dug(f, "start", "earliest").IsEntity() || !dug(f, "finish", "latest").IsEntity() {
		t.Errorf("an operation that never starts does so at %v", f)
	}
	if a := c.node("get_operation", fmt.Sprintf("{operation_id=%q;attributes=[forecast]}", id)); text(a, "forecast", "pool") != "team" {
		t.Errorf("the attribute is %v", a)
	}
	p := c.node("forecast_pool", "{pool=team}")
	waiting, _ := dug(p, "waiting_operation_count").Int64()
	if list := dug(p, "operations").Items(); len(list) != 1 || !dug(p, "empty", "median").IsEntity() || waiting != 1 || text(list[0], "operation") == "" {
		t.Errorf("the pool's forecast is %v", p)
	}
	if root := c.node("forecast_pool", "{pool=\"<Root>\"}"); len(dug(root, "operations").Items()) != 1 {
		t.Errorf("the root's forecast is %v", root)
	}
	c.refused("forecast_pool", "{pool=moon}", "", wire.CodeResolve, "moon")
	c.must("abort_operation", key, "")
	c.eventually("it has ended", func() bool { return c.do("forecast_operation", key, "").status != 200 })
	if report := c.must("get_report", "{report=forecasts}", ""); !strings.Contains(report, "coverage") {
		t.Errorf("the report is %s", report)
	}
}

func TestLossesAreComparedOnForecastsThatEveryMethodMade(t *testing.T) {
	t.Parallel()
	var line forecastLine
	both := forecast.Forecast{Raw: forecast.Raw{There: [forecast.MethodCount]bool{true, true}}, Calibrated: true, Method: forecast.ByHistory}
	both.Corrected[forecast.ByEnsemble] = forecast.Quantiles{0, 100, 200}
	both.Corrected[forecast.ByHistory] = forecast.Quantiles{0, 10, 20}
	alone := both
	alone.Raw.There[forecast.ByHistory] = false
	alone.Method = forecast.ByEnsemble
	line.add(&both, 10)
	line.add(&alone, 10)
	var table reportTable
	line.put(&table, "default")
	figures := map[string]float64{}
	for _, entry := range table.line {
		if count, ok := entry.Value.Int64(); ok {
			figures[entry.Key] = float64(count)
		} else if v, ok := entry.Value.Double(); ok {
			figures[entry.Key] = v
		}
	}
	ensemble, history := forecast.Loss(both.Corrected[forecast.ByEnsemble], 10), forecast.Loss(both.Corrected[forecast.ByHistory], 10)
	for column, want := range map[string]float64{
		"settled": 2, "compared": 1, "compared_pinball_s": history, "compared_history_s": history, "compared_ensemble_s": ensemble,
		"pinball_ensemble_s": ensemble, "pinball_s": (ensemble + history) / 2,
	} {
		if figures[column] != want {
			t.Errorf("%s: got %v, want %v", column, figures[column], want)
		}
	}
}
