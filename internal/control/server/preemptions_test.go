package server

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/engine/ledger"
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
