package core

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/value/resource"
)

const gangPools = `
fair_share_preemption_timeout: 10s
fair_share_aggressive_starvation_timeout: 20s
pools:
  production: {weight: 3, max_running_operation_count: 20}
  batch: {max_running_operation_count: 20, enable_aggressive_starvation: true}
  adhoc: {mode: fifo, max_running_operation_count: 20}
`

// gang starts a gang of equal jobs.
func (w *world) gang(pool string, jobs, cpu int) OperationID {
	w.tb.Helper()
	id, err := w.start("anna", fmt.Sprintf(`{pool: %s, is_gang: true, tasks: {a: {job_count: %d, cpu_limit: %d, memory_limit: 1MiB}}}`, pool, jobs, cpu))
	if err != nil {
		w.tb.Fatal(err)
	}
	return id
}

// round lets time pass and sends a heartbeat of every node.
func (w *world) round() {
	w.tb.Helper()
	w.pass(time.Second)
	for id := range NodeID(len(w.nodes)) {
		w.beat(id)
	}
}

// checkGangs fails if a gang runs in part, or if room is kept for two gangs of a tree.
func (w *world) checkGangs(r reporter) {
	r.Helper()
	keepers := map[TreeID]OperationID{}
	for _, id := range w.live {
		op := w.operations[id]
		if !op.controller.Spec().IsGang.Value() {
			continue
		}
		if running, pending := op.controller.RunningJobCount(), op.controller.PendingJobCount(); running > 0 && pending > 0 {
			r.Fatalf("gang %d runs %d jobs, and %d wait", id, running, pending)
		}
		for i := range op.places {
			at := &op.places[i]
			var held resource.Amounts
			for _, j := range w.JobsOf(id) {
				if j.Tree == at.tree {
					held = held.Add(j.Resources)
				}
			}
			if w.trees[at.tree].state.Usage(at.slot) == held {
				continue
			}
			if other, kept := keepers[at.tree]; kept {
				r.Fatalf("room is kept for gangs %d and %d", other, id)
			}
			keepers[at.tree] = id
		}
	}
}

func TestAGangStartsWhenThereIsRoomForAllOfIt(t *testing.T) {
	w := newWorld(t, gangPools)
	w.addNode(0, 3)
	first := w.gang("production", 2, 1)
	second := w.gang("batch", 2, 1)
	w.round()
	if w.running(first) != 2 || w.running(second) != 0 {
		t.Fatalf("%d and %d jobs run, want 2 and 0", w.running(first), w.running(second))
	}
	x, err := w.ExplainOperation(w.now, second, nil, true)
	if err != nil {
		t.Fatal(err)
	}
	g := x.Trees[0].Gang
	if g == nil || g.Lack != 2 || g.Waiting != 2 || g.Fitting != 1 || g.Assembling || g.Ahead != NoOperation {
		t.Errorf("the gang waits for %+v", g)
	}
	found := false
	for _, o := range x.Trees[0].Obstacles {
		found = found || o.Refusal == scheduling.RefusedGang && o.Needed == 2 && o.Available == 1
	}
	if !found {
		t.Errorf("no obstacle is the gang: %+v", x.Trees[0].Obstacles)
	}
	w.addNode(1, 1)
	w.round()
	if w.running(second) != 2 {
		t.Errorf("%d jobs of the second gang run on two nodes, want 2", w.running(second))
	}
}

// TestOrdersForAGangAreHeldBackUntilItIsComplete sends heartbeats of nodes one by one:
// the last one starts all members and preempts on all nodes.
func TestOrdersForAGangAreHeldBackUntilItIsComplete(t *testing.T) {
	w := newWorld(t, gangPools)
	for id := range NodeID(4) {
		w.addNode(id, 2)
	}
	hog, err := w.start("anna", `{pool: batch, tasks: {a: {job_count: 8, memory_limit: 1MiB}}}`)
	if err != nil {
		t.Fatal(err)
	}
	w.round()
	gang := w.gang("production", 3, 2)
	w.pass(time.Second)
	w.pass(11 * time.Second) // it starves, and the jobs of the hog on node 0 are within its share
	for id := range NodeID(3) {
		w.beat(id)
		if w.running(hog) != 8 || w.running(gang) != 0 {
			t.Fatalf("after %d heartbeats %d jobs of the hog and %d of the gang run, want 8 and 0", id+1, w.running(hog), w.running(gang))
		}
	}
	w.checkGangs(t)
	if err := w.do(&HeartbeatInput{Node: 3}); err != nil {
		t.Fatal(err)
	}
	if len(w.out.Started) != 3 || len(w.out.Stopped) != 6 {
		t.Fatalf("the last heartbeat starts %d jobs and stops %d, want 3 and 6", len(w.out.Started), len(w.out.Stopped))
	}
	for i, s := range w.out.Started {
		if s.Node != NodeID(i+1) || s.Operation != gang {
			t.Errorf("job %d of operation %d starts on node %d", s.Job, s.Operation, s.Node)
		}
	}
	for _, s := range w.out.Stopped {
		if s.For != gang || s.Preemption != scheduling.PreemptedForStarving || s.Node == 0 {
			t.Errorf("job %d on node %d is stopped for operation %d: %s", s.Job, s.Node, s.For, s.Preemption)
		}
	}
	if g := w.out.Gangs; len(g) != 1 || g[0].Result != scheduling.GangStarted || g[0].Members != 3 || g[0].Victims != 6 || g[0].Operation != gang {
		t.Errorf("assemblies: %+v", g)
	}
}

// TestAGangThatFindsNoRoomInTimeStepsAside loses the room for the last member between
// the update that chose the gang and the heartbeats.
func TestAGangThatFindsNoRoomInTimeStepsAside(t *testing.T) {
	w := newWorld(t, gangPools)
	for id := range NodeID(2) {
		w.addNode(id, 1)
	}
	gang := w.gang("production", 2, 1)
	w.pass(time.Second)
	wait := 10 * time.Second
	for attempt := range 7 {
		w.beat(0)
		if !w.Assembles() {
			t.Fatalf("attempt %d: nothing assembles", attempt)
		}
		w.now = w.now.Add(10 * time.Second)
		_ = w.do(&UpdateInput{}) // never refused
		g := w.out.Gangs
		if len(g) != 1 || g[0].Result != scheduling.GangTimedOut || g[0].Members != 1 || g[0].Aside.Sub(w.now) != wait {
			t.Fatalf("attempt %d: assemblies: %+v, want one that steps aside for %v", attempt, g, wait)
		}
		if g[0].Result.String() != "scheduling_timeout" {
			t.Errorf("the reason is %s", g[0].Result)
		}
		w.take()
		if free := w.NodeFree(0); free[resource.CPU] != 100 {
			t.Fatalf("node 0 has %v free", free)
		}
		w.beat(0)
		w.beat(1)
		if w.running(gang) != 0 {
			t.Fatal("the gang does not step aside")
		}
		w.pass(wait)
		wait = min(2*wait, 5*time.Minute)
	}
	w.beat(0)
	w.beat(1)
	if w.running(gang) != 2 {
		t.Errorf("%d jobs run, want 2", w.running(gang))
	}
}

// TestAGangInTwoTreesAssemblesInOne gives each tree room for half of the gang and then
// one of them room for all.
func TestAGangInTwoTreesAssemblesInOne(t *testing.T) {
	w := newWorld(t, gangPools)
	w.addNode(0, 1)
	w.addNode(1, 1, "gpu")
	gang, err := w.start("anna", `{pool: production, pool_trees: [default, gpu], is_gang: true, tasks: {a: {job_count: 2, memory_limit: 1MiB}}}`)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		w.round()
		w.checkGangs(t)
	}
	if w.running(gang) != 0 {
		t.Fatalf("%d jobs run in two trees", w.running(gang))
	}
	w.addNode(2, 1, "gpu")
	for range 2 {
		w.round()
		w.checkGangs(t)
	}
	if w.running(gang) != 2 {
		t.Errorf("%d jobs run, want 2", w.running(gang))
	}
	for _, s := range w.jobs {
		if s.Tree != 1 {
			t.Errorf("job %d runs in tree %d", s.Job, s.Tree)
		}
	}
}

// TestPropertyNoGangRunsInPart lets gangs and other operations compete on random nodes,
// with jobs and nodes that end. No gang ever runs in part, and room is kept for at most
// one gang of a tree.
func TestPropertyNoGangRunsInPart(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(r, gangPools)
		for id := range NodeID(rapid.IntRange(1, 6).Draw(r, "nodes")) {
			w.addNode(id, rapid.Int64Range(1, 4).Draw(r, "cpu"), tagsOf(id)...)
		}
		w.pass(time.Second)
		for range rapid.IntRange(10, 40).Draw(r, "steps") {
			node := NodeID(rapid.IntRange(0, len(w.nodes)-1).Draw(r, "node"))
			switch rapid.IntRange(0, 9).Draw(r, "step") {
			case 0, 1:
				spec := fmt.Sprintf(`{pool: %s, pool_trees: %s, is_gang: %v, tasks: {a: {job_count: %d, cpu_limit: %d, memory_limit: 1MiB}, b: {job_count: 1, memory_limit: 1MiB}}}`,
					rapid.SampledFrom([]string{"production", "batch", "adhoc"}).Draw(r, "pool"),
					rapid.SampledFrom([]string{"[default]", "[default]", "[default, gpu]"}).Draw(r, "trees"), rapid.IntRange(0, 2).Draw(r, "gang") > 0,
					rapid.IntRange(1, 5).Draw(r, "jobs"), rapid.IntRange(1, 2).Draw(r, "cpu"))
				_, _ = w.start("anna", spec)
			case 2:
				if id, ok := w.some(JobID(rapid.IntRange(0, 40).Draw(r, "job"))); ok {
					state := rapid.SampledFrom([]JobState{JobCompleted, JobCompleted, JobFailed, JobAborted}).Draw(r, "state")
					w.beat(w.jobs[id].Node, Finished{Job: id, State: state})
				}
			case 3:
				_ = w.do(&NodeLossInput{node}) // never refused
				w.take()
			case 4:
				w.addNode(node, rapid.Int64Range(1, 4).Draw(r, "cpu"), tagsOf(node)...)
			case 5:
				_ = w.do(&SeenInput{node}) // never refused
				w.take()
			case 6:
				w.pass(rapid.SampledFrom([]time.Duration{0, time.Second, 12 * time.Second, 3 * time.Minute}).Draw(r, "time"))
			default:
				w.beat(node)
			}
			w.checkGangs(r)
		}
		w.pass(6 * time.Minute) // nobody steps aside
		for range 2 {
			w.round()
			w.checkGangs(r)
		}
	})
}

// TestForksOfACoreThatAssemblesAGangGoOnAlike forks a core that keeps room and has
// tentative victims.
func TestForksOfACoreThatAssemblesAGangGoOnAlike(t *testing.T) {
	w := newWorld(t, gangPools)
	for id := range NodeID(3) {
		w.addNode(id, 2)
	}
	if _, err := w.start("anna", `{pool: batch, tasks: {a: {job_count: 4, memory_limit: 1MiB}}}`); err != nil {
		t.Fatal(err)
	}
	w.round()
	w.gang("production", 2, 2)
	w.pass(time.Second)
	w.pass(11 * time.Second)
	w.beat(0)
	fork := w.Fork()
	var there, here Decisions
	for _, c := range []struct {
		core *Core
		out  *Decisions
	}{{fork, &there}, {w.Core, &here}} {
		for id := range NodeID(3) {
			if err := c.core.Apply(w.now, &HeartbeatInput{Node: id}, c.out); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(here.Started) != 2 || len(there.Started) != 2 || len(here.Stopped) != len(there.Stopped) {
		t.Errorf("the core starts %d jobs and stops %d, its fork %d and %d", len(here.Started), len(here.Stopped), len(there.Started), len(there.Stopped))
	}
	mine, err := w.Hash()
	if err != nil {
		t.Fatal(err)
	}
	if other, err := fork.Hash(); err != nil || other != mine {
		t.Errorf("the fork differs (%v)", err)
	}
}
