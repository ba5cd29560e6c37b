package core

import (
	"testing"
	"time"

	"github.com/weirhq/weir/internal/engine/operation"
)

// A thousand jobs that no node could start once caused 58,701 aborts in 28 seconds.
func TestAnOperationWhoseJobsCannotStartIsTriedMoreAndMoreSlowly(t *testing.T) {
	w := newWorld(t, "pools: {p: {}}")
	const nodes, cores = 4, 25
	for id := range NodeID(nodes) {
		w.addNode(id, cores)
	}
	id := w.mustStart("{pool: p, tasks: {main: {job_count: 1000, cpu_limit: 1, memory_limit: 1MiB}}}")
	core, out := w.Core, &Decisions{}
	now := w.now
	aborts, explained := 0, false
	for end := now.Add(28 * time.Second); now.Before(end); now = now.Add(100 * time.Millisecond) {
		out.Reset()
		if err := core.Apply(now, &UpdateInput{}, out); err != nil {
			t.Fatal(err)
		}
		for node := range NodeID(nodes) {
			out.Reset()
			if err := core.Apply(now, &HeartbeatInput{Node: node}, out); err != nil {
				t.Fatal(err)
			}
			var ends []Finished
			for _, started := range out.Started {
				ends = append(ends, Finished{Job: started.Job, State: JobAborted, Reason: operation.AbortJobProxyFailed, NotBegun: true})
			}
			aborts += len(ends)
			if err := core.Apply(now, &ReportInput{Finished: ends}, out); err != nil {
				t.Fatal(err)
			}
		}
		x, err := core.ExplainOperation(now, id, nil, true)
		if err != nil {
			t.Fatal(err)
		}
		if x.Block == operation.BlockedBackingOff && x.BacksOffUntil.After(now) {
			explained = true
		}
	}
	// Rounds start at 0, 1, 3, 7 and 15 s; each ends as soon as it is clear that
	// nodes cannot start the jobs.
	if aborts == 0 || aborts > 5*nodes*cores {
		t.Errorf("%d aborts, want at most %d", aborts, 5*nodes*cores)
	}
	if !explained {
		t.Error("the operation never said that it backs off")
	}
}
