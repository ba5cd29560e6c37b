package server

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/ledger"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// preemptionsOf returns the lines of the last hour, as a server reads them.
func preemptionsOf(t *testing.T, s *Server) []PreemptionLine {
	t.Helper()
	now := time.Now()
	report, err := s.Preemptions(t.Context(), ReportQuery{Tree: "default", From: now.Add(-time.Hour), To: now.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	return report.Lines
}

func TestPreemptionsAreReportedAndStored(t *testing.T) {
	s := lead(t, t.TempDir())
	s.pools("{preemptive_scheduling_backoff: 0s, pools: {greedy: {}, owner: {strong_guarantee_resources: {cpu: 2}, fair_share_starvation_timeout: 50ms}}}")
	m := newMachine(t, "node-1", 2)
	m.beat(s)
	s.start(fmt.Sprintf(small, "greedy", 10))
	s.eventually("the greedy pool has all", func() bool { m.beat(s); return len(m.jobs) == 2 })
	s.start(fmt.Sprintf(small, "owner", 10))
	var lines []PreemptionLine
	s.eventually("both jobs have lost their work", func() bool {
		m.beat(s)
		lines = preemptionsOf(t, s.Server)
		return len(lines) == 1 && lines[0].Jobs == 2 && !lines[0].Lost[resource.CPU].IsZero()
	})
	if want := (ledger.Edge{Tree: "default", Victim: "greedy", Winner: "owner", Rule: ledger.Starving}); lines[0].Edge != want {
		t.Errorf("got %+v", lines[0].Edge)
	}
	flushNow(s)
	lines = preemptionsOf(t, s.Server)
	if stored := preemptionsOf(t, New(Options{Store: s.Store()})); len(stored) != 1 || stored[0] != lines[0] {
		t.Errorf("stored are %+v, not %+v", stored, lines)
	}
	s.stop()
}

// usageOfUser returns the sums of a user, as a server reads them.
func usageOfUser(t *testing.T, s *Server, by string) map[string]ledger.UsageSums {
	t.Helper()
	now := time.Now()
	report, err := s.Usage(t.Context(), UsageQuery{
		ReportQuery: ReportQuery{From: now.Add(-time.Hour), To: now.Add(time.Hour)}, By: []string{by}, Readable: func(ledger.Pool) bool { return true },
	})
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]ledger.UsageSums{}
	for _, line := range report.Lines {
		lines[line.Keys[0]] = line.UsageSums
	}
	return lines
}

// checkCosts checks what usage costs at one unit of money for a core·s, used or promised, and that budgets are logged once.
func checkCosts(t *testing.T, s *scheduler, seconds float64) {
	t.Helper()
	now := time.Now()
	report, err := s.Usage(t.Context(), UsageQuery{
		ReportQuery: ReportQuery{From: now.Add(-time.Hour), To: now.Add(time.Hour)}, By: []string{"pool"},
		Readable: func(ledger.Pool) bool { return true }, Prices: &s.settings().Prices,
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Lines) != 2 || report.Lines[0].Reserved || !report.Lines[1].Reserved || report.Lines[1].Micros == 0 {
		t.Fatalf("lines are %+v", report.Lines)
	}
	if got := float64(report.Lines[0].Micros) / 1e6; math.Abs(got-seconds) > 1e-5 || report.Total != report.Lines[0].Micros+report.Lines[1].Micros {
		t.Errorf("%v core·s cost %v, all %d", seconds, got, report.Total)
	}
	for range 2 {
		if err := s.tellBudgets(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	states := s.BudgetParts()
	if len(states) != 2 || math.Abs(states[0].Spent-seconds) > 1e-5 || states[0].Level != ledger.BudgetSpent || states[1].Spent != 0 || states[1].Level != ledger.BudgetWithin {
		t.Errorf("budgets are %+v", states)
	}
	s.eventually("the log says once that the budget is spent", func() bool {
		events, _, err := s.Store().Events(t.Context(), store.EventFilter{Types: []string{"budget"}, Limit: 10})
		if err != nil || len(events) > 1 {
			t.Fatalf("%+v, %v", events, err)
		}
		return len(events) == 1
	})
}

func TestUsageIsAccountedByUserAndLabel(t *testing.T) {
	settings := quickSettings()
	settings.AccountingLabels = []string{"team"}
	price := ledger.Prices{CPU: document.Some(3600.)}
	settings.Prices = ledger.PriceList{Periods: document.Some([]ledger.PricePeriod{{Guarantee: document.Some(price), Surplus: document.Some(price), Reserved: document.Some(price)}})}
	settings.Budgets = []ledger.Budget{
		{Name: document.Some("search"), Label: document.Some("team=search"), Pool: document.Some(pooltree.RootName), Cost: document.Some(1e-3)},
		{Name: document.Some("other"), Label: document.Some("team=other"), CPU: document.Some(1e-3)},
	}
	s := leadWith(t, t.TempDir(), Options{Settings: settings})
	s.pools("{pools: {p: {strong_guarantee_resources: {cpu: 1}}}}")
	m := newMachine(t, "node-1", 2)
	m.beat(s)
	s.start(`{pool: p, annotations: {team: search}, tasks: {main: {job_count: 2, command: x, cpu_limit: 1, memory_limit: 1GiB}}}`)
	s.eventually("both jobs run", func() bool { m.beat(s); return len(m.jobs) == 2 })
	s.eventually("half of the usage is that of the guarantee", func() bool {
		flushNow(s)
		got := usageOfUser(t, s.Server, "label:team")["search"]
		return !got.Guaranteed[resource.CPU].IsZero()
	})
	for id := range m.jobs {
		m.end(id, nodev1.JobState_JOB_STATE_COMPLETED, "")
	}
	s.eventually("both jobs have ended", func() bool {
		m.beat(s)
		return usageOfUser(t, s.Server, "label:team")["search"].Jobs[ledger.Completed] == 2
	})
	flushNow(s)
	got := usageOfUser(t, s.Server, "label:team")["search"]
	if got.Held[resource.CPU].IsZero() || got.Ended[ledger.Completed][resource.CPU].IsZero() || got.Started != 1 {
		t.Errorf("got %+v", got)
	}
	checkCosts(t, s, got.Held[resource.CPU].Seconds()/100)
	users := usageOfUser(t, New(Options{Store: s.Store()}), "user")
	for user, sums := range users {
		if sums != got {
			t.Errorf("stored for %s: %+v, not %+v", user, sums, got)
		}
	}
	if len(users) != 1 {
		t.Errorf("stored are %v", users)
	}
	s.stop()
}
