package forecast_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/weirhq/weir/internal/sim/forecast"
	"github.com/weirhq/weir/internal/sim/scenario"
)

const traces, nasa = "../../../../shared/traces", "NASA-iPSC-1993-3.1-cln.swf.gz"

// policy is a cluster on which the NASA log has waits, because it has fewer processors
// than the log's.
type policy struct {
	name, scenario string
	// part is the part of the arrivals with forecasts in the long test, enough for 2,000
	// that are scored; excerpt is the same for a few days.
	part, excerpt float64
}

// Both scenarios are in bench/README.md.
var policies = []policy{
	{"fair share", `
scheduler: {heartbeat_period: 10s, fair_share_update_period: 30s}
nodes: [{name: node, count: 80, resources: {cpu: 1, user_slots: 1, memory: 4GiB}}]
traces: [{file: FILE, to: DAYS}]
`, 0.17, 0.05},
	{"one FIFO pool", `
scheduler: {heartbeat_period: 10s, fair_share_update_period: 30s}
nodes: [{name: node, count: 96, resources: {cpu: 1, user_slots: 1, memory: 4GiB}}]
pools: {queue: {mode: fifo}}
traces: [{file: FILE, to: DAYS, users: one_pool, pool: queue}]
`, 0.36, 0.3},
}

// collect makes forecasts on some days of the log. If WEIR_SHARDS is set, as many
// simulations make parts of them at the same time, at arrivals of their own.
func collect(t *testing.T, p *policy, days int, part float64) *forecast.Collection {
	t.Helper()
	if _, err := os.Stat(filepath.Join(traces, nasa)); err != nil {
		t.Skipf("SKIPPED: the log is not beside the project: %v", err)
	}
	shards, _ := strconv.Atoi(os.Getenv("WEIR_SHARDS"))
	shards = max(shards, 1)
	list := make([]*forecast.Collection, shards)
	var group sync.WaitGroup
	for i := range list {
		group.Go(func() { list[i] = collectShard(t, p, days, part/float64(shards), uint64(1+i)) })
	}
	group.Wait()
	all := list[0]
	for _, c := range list[1:] {
		all.Made += c.Made
		all.Records = append(all.Records, c.Records...)
	}
	slices.SortStableFunc(all.Records, func(a, b *forecast.Record) int { return a.Made.Compare(b.Made) })
	return all
}

func collectShard(t *testing.T, p *policy, days int, part float64, seed uint64) *forecast.Collection {
	text := bytes.ReplaceAll([]byte(p.scenario), []byte("FILE"), []byte(nasa))
	s, _, err := scenario.Read("nasa.yaml", bytes.ReplaceAll(text, []byte("DAYS"), fmt.Appendf(nil, "%dd", days)), func(name string) (io.ReadCloser, error) {
		return os.Open(filepath.Join(traces, name))
	})
	if err != nil {
		t.Error(err)
		return &forecast.Collection{}
	}
	c, err := forecast.Collect(context.Background(), s, forecast.Trial{Part: part, Seed: seed})
	if err != nil {
		t.Error(err)
		return &forecast.Collection{}
	}
	return c
}

// The outcomes of 90 % of all forecasts are within their 90 % intervals. The log of the
// test has how much they and simpler methods lose; bench/README.md compares them.
func TestLongForecastsHoldOnTheNASALog(t *testing.T) {
	if os.Getenv("WEIR_LONG") == "" {
		t.Skip("SKIPPED: it takes minutes; make long runs it")
	}
	for i := range policies {
		t.Run(policies[i].name, func(t *testing.T) {
			c := collect(t, &policies[i], 100, policies[i].part)
			if file := os.Getenv("WEIR_FORECASTS_JSON"); file != "" {
				data, _ := json.Marshal(c)
				if err := os.WriteFile(fmt.Sprintf("%s-%d.json", file, i), data, 0o666); err != nil {
					t.Error(err)
				}
			}
			judge(t, c)
		})
	}
}

// judge checks coverage and logs the tables.
func judge(t *testing.T, c *forecast.Collection) {
	accuracy := c.Judge()
	var table bytes.Buffer
	_ = accuracy.Write(&table)
	t.Logf("\n%s", &table)
	for _, target := range accuracy.Targets {
		published := target.Methods[0]
		if target.Scored < 2000 {
			t.Errorf("%s: only %d forecasts are scored", target.Target, target.Scored)
		}
		if published.CoverageFrom > 0.9 || published.CoverageTo < 0.9 || published.CoverageTo-published.CoverageFrom > 0.06 {
			t.Errorf("%s: the 90 %% interval holds in %.1f %% (%.1f–%.1f)", target.Target, 100*published.Coverage, 100*published.CoverageFrom, 100*published.CoverageTo)
		}
	}
}

// A few days of the log: every forecast is made, in order, known later, and the same
// each time.
func TestForecastsOnDaysOfTheNASALog(t *testing.T) {
	for i := range policies {
		p := &policies[i]
		c := collect(t, p, 4, p.excerpt)
		if c.Made < 5 || len(c.Records) != 2*c.Made {
			t.Errorf("%s: %d forecasts, %d records", p.name, c.Made, len(c.Records))
		}
		for _, r := range c.Records {
			q := r.Raw.Quantiles[forecast.ByEnsemble]
			if !r.Raw.There[forecast.ByEnsemble] || !(0 <= q[0] && q[0] <= q[1] && q[1] <= q[2] && q[2] <= forecast.Horizon.Seconds()) || r.Outcome < 0 {
				t.Errorf("%s: %+v", p.name, r)
			}
		}
		if i > 0 {
			again, _ := json.Marshal(collect(t, p, 4, p.excerpt))
			if first, _ := json.Marshal(c); !bytes.Equal(first, again) {
				t.Errorf("%s: the same seed gives other forecasts", p.name)
			}
		}
	}
}
