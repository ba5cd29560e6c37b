package sim

import (
	"context"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/ledger"
	"github.com/weirhq/weir/internal/value/resource"
)

// losses enters the preemptions of a simulation into a ledger as the daemon does, and sums up the rows of preempted jobs.
type losses struct {
	*ledger.Preemptions
	started   map[core.JobID]time.Time
	preempted map[core.JobID]resource.Amounts // what they held
	rows      float64                         // core·s lost, job by job
}

func (l *losses) watch(now time.Time, _ core.Input, out *core.Decisions) {
	end := func(id core.JobID, done bool) {
		held, there := l.preempted[id]
		if there && !done {
			l.rows += float64(held[resource.CPU]) / float64(resource.CPU.Scale()) * now.Sub(l.started[id]).Seconds()
		}
		delete(l.preempted, id)
		l.End(now, &ledger.End{Job: uint64(id), Started: l.started[id], Done: done})
	}
	for i := range out.Stopped {
		s := &out.Stopped[i]
		if s.Preemption == 0 && s.For == core.NoOperation {
			continue
		}
		l.preempted[s.Job] = s.Held
		l.Preempt(now, &ledger.Preempted{
			Edge: ledger.Edge{Tree: "default", Victim: "low", Winner: "high", Rule: ledger.RuleOf(s.Preemption, s.Class)}, Job: uint64(s.Job), Operation: int32(s.Operation),
			Started: l.started[s.Job], Held: s.Held, Balance: s.Balance, ForJob: uint64(s.ForJob), For: int32(s.For),
		})
	}
	for i := range out.Ended {
		end(out.Ended[i].Job, out.Ended[i].State == core.JobCompleted || out.Ended[i].State == core.JobInterrupted)
	}
	for i := range out.Stopped {
		if out.Stopped[i].Timeout == 0 {
			end(out.Stopped[i].Job, false)
		}
	}
	for i := range out.Started {
		l.started[out.Started[i].Job] = now
	}
}

// TestWorkLostIsTheSameInEdgesRowsAndResults is L4: the edges of the ledger, the rows of the preempted jobs and the results of the
// simulator state the same loss.
func TestWorkLostIsTheSameInEdgesRowsAndResults(t *testing.T) {
	l := &losses{Preemptions: ledger.NewPreemptions(), started: map[core.JobID]time.Time{}, preempted: map[core.JobID]resource.Amounts{}}
	s := read(t, `
nodes: [{name: n, count: 4, resources: {cpu: 4}}]
pools: {low: {}, high: {min_share_resources: {cpu: 8}}}
scheduler: {heartbeat_period: 1s}
operations:
  - {name: old, pool: low, job_count: 60, duration: {distribution: exponential, mean: 1h}}
  - {name: new-1, pool: high, arrival: 30m, job_count: 6, duration: {distribution: exponential, mean: 10m}}
  - {name: new-2, pool: high, arrival: 80m, job_count: 6, duration: 12m}
  - {name: new-3, pool: high, arrival: 2h10m, job_count: 8, duration: {distribution: exponential, mean: 5m}}
`)
	result, err := Run(context.Background(), s, Options{Decided: l.watch})
	if err != nil {
		t.Fatal(err)
	}
	last := s.Start.Add(1000 * time.Hour)
	sum, jobs := 0.0, int64(0)
	var hours []ledger.TallyRow
	for _, row := range l.Edges.Flush(last) {
		if row.Level == ledger.Hour {
			hours = append(hours, row)
		}
	}
	edges, lines, err := l.Edges.Total(hours)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range edges {
		sum += lines[e].Lost[resource.CPU].Seconds() / float64(resource.CPU.Scale())
		jobs += lines[e].Jobs
	}
	if jobs < 5 {
		t.Errorf("only %d jobs were preempted", jobs)
	}
	near(t, "the loss in rows of jobs", l.rows, sum, 1e-6*sum)
	near(t, "the loss in the results", result.Cluster.Lost[resource.CPU], sum, 1e-5*sum)
}
