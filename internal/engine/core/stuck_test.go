package core

import (
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/value/resource"
)

// passTo advances time in steps of ten seconds, with heartbeats, and returns the
// operation's last change.
func (w *world) passTo(id OperationID, end time.Duration) (last OperationChange) {
	w.tb.Helper()
	for w.now.Before(midnight.Add(end)) {
		w.now = w.now.Add(10 * time.Second)
		_ = w.do(&UpdateInput{}) // never refused
		for _, change := range w.out.Operations {
			if change.Operation == id {
				last = change
			}
		}
		w.take()
		for node := range NodeID(len(w.nodes)) {
			w.beat(node)
		}
	}
	return last
}

func (w *world) mustStart(spec string) OperationID {
	w.tb.Helper()
	id, err := w.start("anna", spec)
	if err != nil {
		w.tb.Fatal(err)
	}
	return id
}

func TestAnOperationThatNoNodeCanEverRunFails(t *testing.T) {
	w := newWorld(t, "pools: {p: {}}")
	w.addNode(0, 4)
	w.addNode(1, 8)
	w.pass(time.Second)
	id := w.mustStart("{pool: p, tasks: {small: {job_count: 1, cpu_limit: 1, memory_limit: 512MiB}, large: {job_count: 1, cpu_limit: 9, memory_limit: 512MiB}}}")
	if change := w.passTo(id, 290*time.Second); change.State.IsFinished() {
		t.Fatalf("too soon: %+v", change)
	}
	change := w.passTo(id, 6*time.Minute)
	if change.State != operation.Failed || change.Error.Code != CodeNoOnlineNode || len(change.Stuck) != 1 {
		t.Fatalf("%+v", change)
	}
	s := change.Stuck[0]
	if s.Tree != "default" || s.Reason != StuckWithoutNode || s.Task != "large" || s.Resource != resource.CPU || s.Needed != 9_00 ||
		s.Available != 8_00 || s.Hosts.Nodes != 2 || s.Hosts.Small != 2 || s.Hosts.Excluded != 0 {
		t.Errorf("%+v", s)
	}
	if want := "2 are too small (a job needs cpu 9, the largest has 8)"; !strings.Contains(change.Error.Message, want) {
		t.Errorf("%q does not say %q", change.Error.Message, want)
	}
}

func TestAnOperationWithANodeInOneOfItsTreesGoesOn(t *testing.T) {
	w := newWorld(t, "pools: {p: {}}")
	w.addNode(0, 4)
	w.addNode(1, 8, "gpu")
	w.pass(time.Second)
	id := w.mustStart("{pool: p, pool_trees: [default, gpu], tasks: {t: {job_count: 1, cpu_limit: 8, memory_limit: 512MiB}}}")
	if change := w.passTo(id, 20*time.Minute); change.State.IsFinished() {
		t.Errorf("%+v", change)
	}
}

// ban fails one job of an operation on each node in turn and returns what the
// operation then does.
func ban(t *testing.T, options string) (*world, OperationID, OperationChange) {
	w := newWorld(t, "pools: {p: {}}")
	w.addNode(0, 4)
	w.addNode(1, 4)
	w.addNode(2, 1) // too small
	w.pass(time.Second)
	id := w.mustStart("{pool: p, ban_nodes_with_failed_jobs: true, " + options + " tasks: {t: {job_count: 4, cpu_limit: 2, memory_limit: 512MiB}}}")
	w.pass(time.Second)
	for node := range NodeID(2) {
		w.beat(node)
		job, found := JobID(0), false
		for _, info := range w.JobsOn(node) {
			job, found = info.Job, true
		}
		if !found {
			t.Fatalf("nothing runs on node %d", node)
		}
		w.beat(node, Finished{Job: job, State: JobFailed})
		w.pass(time.Second)
		w.beat(node)
		if got := len(w.JobsOn(node)); got != 1 {
			t.Errorf("%d jobs on a banned node, where one was left", got)
		}
	}
	return w, id, w.passTo(id, time.Minute)
}

func TestAnOperationWhoseNodesAreAllBannedFails(t *testing.T) {
	_, _, change := ban(t, "")
	if change.State != operation.Failed || len(change.Stuck) != 1 {
		t.Fatalf("%+v", change)
	}
	if s := change.Stuck[0]; s.Reason != StuckOnBannedNodes || s.Hosts.Banned != 2 || s.Hosts.Small != 1 || s.Task != "t" {
		t.Errorf("%+v", s)
	}
}

func TestAnOperationMayWaitWhenItsNodesAreAllBanned(t *testing.T) {
	w, id, change := ban(t, "fail_on_all_nodes_banned: false,")
	if change.State.IsFinished() {
		t.Fatalf("%+v", change)
	}
	// Nodes are banned by name: a node that goes offline and comes back is still
	// avoided.
	_ = w.do(&NodeLossInput{0})
	w.take()
	w.addNode(0, 4)
	w.pass(time.Second)
	w.beat(0)
	if got := len(w.JobsOn(0)); got != 0 {
		t.Errorf("%d jobs on the banned node", got)
	}
	w.addNode(3, 4)
	w.pass(time.Second)
	w.beat(3)
	if got := len(w.JobsOn(3)); got != 2 {
		t.Errorf("%d jobs on a new node", got)
	}
	x, err := w.ExplainOperation(w.now, id, nil, true)
	if err != nil {
		t.Fatal(err)
	}
	banned := 0
	for _, o := range x.Trees[0].Obstacles {
		if o.Refusal.String() == "node_banned" {
			banned = o.Nodes
		}
	}
	if banned != 2 {
		t.Errorf("%d banned nodes are named: %+v", banned, x.Trees[0].Obstacles)
	}
}

func TestAnOperationThatIsStuckInAllOfItsTreesFailsWithAReasonForEach(t *testing.T) {
	w := newWorld(t, "pools: {production: {resource_limits: {cpu: 2}}}")
	w.addNode(0, 8)
	w.addNode(1, 8, "gpu")
	w.pass(time.Second)
	id := w.mustStart(`{pool: production, pool_trees: [default, gpu], scheduling_options_per_pool_tree: {gpu: {resource_limits: {memory: 1GiB}}},
		tasks: {t: {job_count: 2, cpu_limit: 3, memory_limit: 4GiB}}}`)
	if change := w.passTo(id, 6*time.Minute); change.State.IsFinished() {
		t.Fatalf("too soon: %+v", change)
	}
	change := w.passTo(id, 8*time.Minute)
	if change.State != operation.Failed || len(change.Stuck) != 2 || len(change.Error.Inner) != 2 {
		t.Fatalf("%+v", change)
	}
	first, second := change.Stuck[0], change.Stuck[1]
	if first.Tree != "default" || first.Reason != StuckAtLimit || first.Pool != "production" || first.Needed != 3_00 || first.Available != 2_00 {
		t.Errorf("%+v", first)
	}
	if second.Tree != "gpu" || second.Reason != StuckAtLimit || second.Pool != "" || second.Resource != resource.Memory || second.Available != 1<<30 {
		t.Errorf("%+v", second)
	}
}
