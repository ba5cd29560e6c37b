package core

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/value/resource"
)

// cookieKey identifies a job that must not run twice at the same time.
type cookieKey struct {
	operation OperationID
	operation.JobRef
}

// cookiesOf returns the cookies that run in a core, by job.
func cookiesOf(c *Core) map[JobID]cookieKey {
	all := map[JobID]cookieKey{}
	for id, where := range c.jobs {
		j := c.trees[where.tree].jobs[where.at]
		all[id] = cookieKey{j.operation, j.ref}
	}
	return all
}

// isAnyoneStarving reports whether a pool or an operation may preempt others.
func isAnyoneStarving(c *Core) bool {
	for _, s := range c.PoolStates(nil) {
		if s.Clock.Starvation != scheduling.NonStarving {
			return true
		}
	}
	for _, id := range c.live {
		for _, p := range c.PlacesOf(id) {
			if p.Clock.Starvation != scheduling.NonStarving {
				return true
			}
		}
	}
	return false
}

// TestPropertyATakeoverHoldsBackWhatSilentNodesMayRun stops a core at a random
// moment together with some of the nodes. Its successor continues at once with the
// other nodes.
func TestPropertyATakeoverHoldsBackWhatSilentNodesMayRun(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(r, threePools)
		kept := archive{}
		w.onTake = func() { kept.keep(w, false) }
		w.addNode(0, 8)
		w.addNode(1, 5)
		w.addNode(2, 5, "gpu")
		w.pass(time.Second)
		for range rapid.IntRange(5, 40).Draw(r, "steps") {
			w.step(r)
		}
		w.configure(func(s *Settings) { *s = DefaultSettings() })
		next, _ := w.successor(r, kept)
		var nodes, silent []NodeID
		for id := range next.nodes {
			if next.nodes[id] == nil {
				continue
			}
			nodes = append(nodes, NodeID(id))
			if rapid.Bool().Draw(r, "silent") {
				silent = append(silent, NodeID(id))
			}
		}
		running := cookiesOf(next)
		taken := map[cookieKey]JobID{}
		for job, key := range running {
			taken[key] = job
		}
		onNode := map[NodeID][]JobID{}
		for job, where := range next.jobs {
			at := next.trees[where.tree]
			id := at.nodes[at.state.NodeOf(where.at)]
			onNode[id] = append(onNode[id], job)
		}
		isSilent := map[NodeID]bool{}
		now := w.now
		deadline := now.Add(rapid.SampledFrom([]time.Duration{5 * time.Minute, 4*time.Minute + time.Second}).Draw(r, "patience"))
		held := map[TreeID]bool{}
		do := func(input Input) (out Decisions) {
			if err := next.Apply(now, input, &out); err != nil {
				r.Fatalf("%+v: %v", input, err)
			}
			release := func(job JobID) {
				if key, there := running[job]; there {
					delete(running, job)
					delete(taken, key)
				}
			}
			for _, e := range out.Ended {
				release(e.Job)
			}
			for _, job := range out.TakenBack {
				release(job)
			}
			for _, s := range out.Stopped {
				if s.Timeout == 0 {
					release(s.Job)
				}
				if s.Reason == operation.AbortNodeOffline && now.Before(deadline) {
					r.Fatalf("job %d of a silent node is given up before its time", s.Job)
				}
			}
			for _, s := range out.Started {
				key := cookieKey{s.Operation, s.JobRef}
				if other, twice := taken[key]; twice {
					r.Fatalf("cookie %+v runs as job %d and as job %d", key, other, s.Job)
				}
				running[s.Job], taken[key] = key, s.Job
			}
			return out
		}
		totals := make([]resource.Amounts, len(next.trees))
		for i, tree := range next.trees {
			totals[i] = tree.state.Total()
		}
		for _, id := range silent {
			isSilent[id] = true
			held[next.nodes[id].tree] = true
			do(&AwaitInput{Node: id, Until: deadline})
		}
		starving := isAnyoneStarving(next)
		for range 4 { // less than NodeTimeout in total
			now = now.Add(time.Minute)
			for _, id := range nodes {
				if !isSilent[id] {
					do(&SeenInput{id})
				}
			}
			do(&UpdateInput{})
			if err := next.Verify(); err != nil {
				r.Fatal(err)
			}
			if len(next.Awaited()) > len(silent) {
				r.Fatalf("%d nodes are silent, awaited are %+v", len(silent), next.Awaited())
			}
			for _, id := range nodes {
				if isSilent[id] {
					continue
				}
				out := do(&HeartbeatInput{Node: id})
				for _, s := range out.Stopped {
					if s.Preemption == scheduling.PreemptedForStarving && !starving && held[next.nodes[id].tree] {
						r.Fatalf("job %d is preempted while clocks stand still", s.Job)
					}
				}
			}
		}
		for i, tree := range next.trees {
			if tree.state.Total() != totals[i] {
				r.Fatalf("tree %s had %v, and has %v while nodes are awaited", tree.name, totals[i], tree.state.Total())
			}
		}
		// Some nodes come back with their jobs; others never do.
		for _, id := range silent {
			if !rapid.Bool().Draw(r, "comes back") {
				continue
			}
			// Some orders never reached their nodes.
			if jobs := onNode[id]; len(jobs) > 0 && rapid.Bool().Draw(r, "an order was lost") {
				slices.Sort(jobs)
				if where, known := next.jobs[jobs[0]]; known {
					next.trees[where.tree].jobs[where.at].unconfirmed = true
				}
				onNode[id] = jobs[1:]
			}
			there := slices.DeleteFunc(onNode[id], func(job JobID) bool { _, known := next.jobs[job]; return !known })
			out := do(&ReconcileInput{id, there})
			do(&SeenInput{id})
			for _, s := range out.Stopped {
				r.Fatalf("job %d of a node that is back is stopped: %v", s.Job, s.Reason)
			}
			isSilent[id] = false
		}
		now = now.Add(w.settings.NodeTimeout + time.Second)
		for _, id := range nodes {
			if !isSilent[id] {
				do(&SeenInput{id})
			}
		}
		do(&UpdateInput{})
		if left := next.Awaited(); len(left) > 0 {
			r.Fatalf("after the deadline these are awaited: %+v", left)
		}
		for _, id := range nodes {
			if !isSilent[id] {
				do(&HeartbeatInput{Node: id})
			}
		}
		if err := next.Verify(); err != nil {
			r.Fatal(err)
		}
	})
}

// starves reports whether an operation that fits only on a silent node starts to
// starve.
func starves(t *testing.T, awaited bool) bool {
	w := newWorld(t, "pools: {p: {}, q: {}}")
	w.addNode(0, 8)
	w.addNode(1, 8)
	if _, err := w.start("anna", "{pool: p, tasks: {t: {job_count: 8, cpu_limit: 1, memory_limit: 512MiB}}}"); err != nil {
		t.Fatal(err)
	}
	w.pass(time.Second)
	w.beat(0)
	id, err := w.start("boris", "{pool: q, tasks: {t: {job_count: 8, cpu_limit: 1, memory_limit: 512MiB}}}")
	if err != nil {
		t.Fatal(err)
	}
	if awaited {
		_ = w.do(&AwaitInput{Node: 1}) // never refused
	}
	for range 4 {
		w.pass(time.Minute)
		w.beat(0)
	}
	return w.PlacesOf(id)[0].Clock.Starvation != scheduling.NonStarving
}

func TestNobodyBeginsToStarveWhileANodeIsAwaited(t *testing.T) {
	if !starves(t, false) {
		t.Error("nobody starves although nobody is awaited: this test shows nothing")
	}
	if starves(t, true) {
		t.Error("somebody starves for room that may come back")
	}
}
