package scheduling

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/nodefilter"
	"github.com/weirhq/weir/internal/value/resource"
)

// cores returns a job or a node with n cpu, and a slot and a GiB for each.
func cores(n int64) resource.Amounts {
	return resource.Amounts{resource.UserSlots: n, resource.CPU: n * 100, resource.Memory: n << 30}
}

// job returns one slot with the given cpu and memory.
func job(cpu, gigabytes int64) resource.Amounts {
	return resource.Amounts{resource.UserSlots: 1, resource.CPU: cpu * 100, resource.Memory: gigabytes << 30}
}

func (t *testTree) expectRunning(tb testing.TB, want map[string]int) {
	tb.Helper()
	for name, n := range want {
		if got := t.running(name); got != n {
			tb.Errorf("%s runs %d jobs, want %d", name, got, n)
		}
	}
}

func TestWeightsDivideAParentInTheirProportion(t *testing.T) {
	tree := newTestTree()
	tree.addNodes(3, cores(10))
	tree.pool("root", "heavy", fairshare.Pool{}, 2)
	tree.pool("root", "light", fairshare.Pool{}, 1)
	tree.operation(t, "heavy", "a", job(1, 1), 100)
	tree.operation(t, "light", "b", job(1, 1), 100)
	tree.pass(time.Second)
	tree.beat()
	tree.expectRunning(t, map[string]int{"a": 20, "b": 10})
}

func TestAnOperationInANewPoolNeedNotWaitForAnUpdate(t *testing.T) {
	tree := newTestTree()
	tree.addNodes(1, cores(2))
	tree.pass(time.Second)
	if tree.MayStart(0) {
		t.Error("a node could start a job although none waits")
	}
	tree.pool("root", "new", fairshare.Pool{}, 1)
	tree.operation(t, "new", "a", job(1, 1), 5)
	if !tree.MayStart(0) {
		t.Error("a node with room could not start the job that waits")
	}
	tree.beat()
	tree.expectRunning(t, map[string]int{"a": 2})
	if tree.MayStart(0) {
		t.Error("a full node could start a job")
	}
}

func TestFIFOPoolsHandOutJobsInTheirOrder(t *testing.T) {
	tree := newTestTree()
	tree.addNodes(1, cores(10))
	tree.pool("root", "fifo", fairshare.Pool{Mode: fairshare.FIFO}, 1)
	for i, start := range []int64{3, 1, 2} {
		slot := tree.operation(t, "fifo", fmt.Sprint(i), job(1, 1), 4)
		tree.shares.Elements[slot].StartTime = start
	}
	tree.pass(time.Second)
	tree.beat()
	tree.expectRunning(t, map[string]int{"1": 4, "2": 4, "0": 2})
}

func TestAnOperationRunsNoMoreJobsThanItsLimit(t *testing.T) {
	tree := newTestTree()
	tree.addNodes(1, cores(10))
	slot := tree.operation(t, "root", "op", job(1, 1), 100)
	tree.SetOperation(slot, OperationParameters{
		Element: fairshare.Element{Limits: resource.Partial{}.With(resource.UserSlots, 2)}, Patience: effective(0, 0, 0).Starvation,
	})
	tree.pass(time.Second)
	tree.beat()
	tree.expectRunning(t, map[string]int{"op": 2})
	if tree.elements[slot].operation.refusals[RefusedOperationLimit] == 0 {
		t.Error("the refusal has no reason")
	}
}

func TestLimitsOfEveryAncestorHold(t *testing.T) {
	tree := newTestTree()
	tree.addNodes(2, cores(10))
	outer := tree.pool("root", "outer", fairshare.Pool{}, 1)
	tree.pool("outer", "inner", fairshare.Pool{}, 1)
	tree.operation(t, "inner", "op", job(1, 1), 100)
	tree.SetPool(outer, PoolParameters{
		Name: "outer", Element: fairshare.Element{Limits: resource.Partial{}.With(resource.CPU, 7_00)}, Effective: effective(0, 10, 10),
	})
	tree.pass(time.Second)
	tree.beat()
	tree.expectRunning(t, map[string]int{"op": 7})
}

func TestALoweredLimitPreempts(t *testing.T) {
	tree := newTestTree()
	tree.addNodes(1, cores(10))
	pool := tree.pool("root", "pool", fairshare.Pool{}, 1)
	tree.operation(t, "pool", "op", job(1, 1), 10)
	tree.pass(time.Second)
	tree.beat()
	tree.expectRunning(t, map[string]int{"op": 10})
	tree.SetPool(pool, PoolParameters{
		Name: "pool", Element: fairshare.Element{Limits: resource.Partial{}.With(resource.CPU, 4_00)}, Effective: effective(0, 10, 10),
	})
	tree.operation(t, "root", "hungry", job(1, 1), 10)
	tree.pass(10 * time.Second)
	tree.beat()
	tree.expectRunning(t, map[string]int{"op": 4})
}

func TestFiltersKeepJobsOffOtherNodes(t *testing.T) {
	tree := newTestTree()
	tree.AddNode(cores(4), []string{"ssd", "rack1"})
	tree.AddNode(cores(4), []string{"hdd"})
	filter, err := nodefilter.Parse("ssd & !rack2")
	if err != nil {
		t.Fatal(err)
	}
	slot := tree.operation(t, "root", "op", job(1, 1), 100)
	tree.SetOperation(slot, OperationParameters{Filter: filter, Patience: effective(0, 0, 0).Starvation})
	tree.pass(time.Second)
	tree.beat()
	tree.expectRunning(t, map[string]int{"op": 4})
}

// starved returns a full node of an operation above its share, and an operation
// that starves.
func starved(t *testing.T, needs resource.Amounts) *testTree {
	tree := newTestTree()
	tree.addNodes(1, cores(8))
	tree.operation(t, "root", "greedy", job(1, 1), 8)
	tree.pass(time.Second)
	tree.beat()
	tree.expectRunning(t, map[string]int{"greedy": 8})
	tree.AddWaiting(tree.slots["greedy"], 0, 10)
	tree.operation(t, "root", "starved", needs, 1)
	tree.pass(time.Second)
	return tree
}

func TestPreemptionBeginsAfterTheTimeout(t *testing.T) {
	tree := starved(t, job(3, 1))
	e := &tree.elements[tree.slots["starved"]]
	if e.status != BelowFairShare || e.starvation != NonStarving {
		t.Fatalf("at first: %s, %s", e.status, e.starvation)
	}
	tree.pass(29 * time.Second)
	if e.starvation != NonStarving {
		t.Fatalf("before the timeout: %s", e.starvation)
	}
	tree.beat()
	tree.expectRunning(t, map[string]int{"greedy": 8, "starved": 0})
	tree.pass(2 * time.Second)
	if e.starvation != Starving {
		t.Fatalf("after the timeout: %s", e.starvation)
	}
	tree.pass(4 * time.Second)
	tree.beat()
	tree.expectRunning(t, map[string]int{"greedy": 5, "starved": 1})
	tree.pass(time.Second)
	if e.status != Normal || e.starvation != NonStarving {
		t.Errorf("when it gets its share: %s, %s", e.status, e.starvation)
	}
}

func TestVictimsAreTheNewestAndNoMoreThanNeeded(t *testing.T) {
	tree := starved(t, job(3, 1))
	for i := range tree.allocations {
		tree.allocations[i].progress = tree.now.Add(time.Duration(i) * time.Minute)
	}
	tree.pass(40 * time.Second)
	tree.pass(time.Second)
	var d Decisions
	tree.Heartbeat(tree.now, 0, &d)
	if len(d.Starts) != 1 || d.Starts[0].Stage != StageNormal {
		t.Fatalf("starts: %+v", d.Starts)
	}
	if len(d.Preemptions) != 3 {
		t.Fatalf("preemptions: %+v", d.Preemptions)
	}
	for i, p := range d.Preemptions {
		if p.Allocation != Allocation(7-i) || p.Reason != PreemptedForStarving || p.For != d.Starts[0].Allocation ||
			p.Class != Preemptible || p.Held != job(1, 1) {
			t.Errorf("preemption: %+v", p)
		}
	}
}

func TestAtMostOneAllocationIsStartedByPreemption(t *testing.T) {
	tree := newTestTree()
	tree.addNodes(1, cores(8))
	tree.operation(t, "root", "greedy", job(1, 1), 8)
	tree.pass(time.Second)
	tree.beat()
	tree.AddWaiting(tree.slots["greedy"], 0, 10)
	tree.operation(t, "root", "starved", job(1, 1), 4)
	tree.pass(time.Second)
	tree.pass(40 * time.Second)
	for want := range 3 {
		tree.beat()
		tree.expectRunning(t, map[string]int{"starved": want + 1})
		tree.beat() // within the backoff nothing happens
		tree.expectRunning(t, map[string]int{"starved": want + 1})
		tree.pass(6 * time.Second)
	}
}

func TestVictimsThatDoNotHelpAreSpared(t *testing.T) {
	tree := newTestTree()
	tree.AddNode(resource.Amounts{resource.UserSlots: 10, resource.CPU: 8_00, resource.Memory: 8 << 30}, nil)
	tree.operation(t, "root", "memory", job(1, 6), 1)
	tree.operation(t, "root", "cpu", job(2, 0), 3)
	tree.pass(time.Second)
	tree.beat()
	tree.expectRunning(t, map[string]int{"memory": 1, "cpu": 3})
	victims := append([]Allocation(nil), tree.nodes[0].allocations...)
	n := &tree.nodes[0]
	usage := n.usage.Add(job(1, 6))
	for _, id := range victims {
		usage = usage.Sub(tree.allocations[id].usage)
	}
	// The allocation with memory is the oldest, so it is last.
	spared := tree.spare(n, []Allocation{3, 2, 1, 0}, usage)
	if fmt.Sprint(spared) != "[true true true false]" {
		t.Errorf("spared: %v", spared)
	}
}

func TestAggressivePreemptionFindsRoomForHalfANode(t *testing.T) {
	tree := newTestTree()
	tree.settings.AggressiveSatisfactionThreshold = document.Some(0.5)
	tree.addNodes(4, cores(8))
	tree.operation(t, "root", "small", job(1, 1), 32)
	tree.pass(time.Second)
	tree.beat()
	slot := tree.operation(t, "root", "large", job(4, 4), 4)
	patience := effective(0, 0, 0).Starvation
	patience.Aggressive = true
	tree.SetOperation(slot, OperationParameters{Patience: patience})
	tree.AddWaiting(tree.slots["small"], 0, 100)
	tree.pass(time.Second)
	tree.pass(130 * time.Second)
	if e := &tree.elements[slot]; e.starvation != AggressivelyStarving {
		t.Fatalf("%s", e.starvation)
	}
	for range 4 {
		tree.beat()
		tree.pass(6 * time.Second)
	}
	tree.expectRunning(t, map[string]int{"large": 4})
}

func TestANodeThatShrinksLosesItsNewestJobsAfterAWhile(t *testing.T) {
	tree := newTestTree()
	tree.addNodes(1, cores(8))
	tree.operation(t, "root", "op", job(1, 1), 8)
	tree.pass(time.Second)
	tree.beat()
	tree.SetNodeLimits(0, cores(5))
	tree.pass(time.Second)
	tree.elements[tree.slots["op"]].operation.suspended = true
	if _, preempted := tree.beat(); preempted > 3 {
		t.Errorf("%d preempted at once", preempted)
	}
	tree.pass(16 * time.Second)
	tree.beat()
	tree.expectRunning(t, map[string]int{"op": 5})
}

func TestOperationCountsAreCheckedAtEveryLevel(t *testing.T) {
	tree := newTestTree()
	add := func(parent, name string, running, total int) {
		tree.slots[name] = tree.AddPool(tree.slots[parent], PoolParameters{Name: name, Effective: effective(0, running, total)})
	}
	add("root", "P", 3, 6)
	add("P", "A", 2, 5)
	add("P", "B", 2, 5)
	start := func(pool string) (int32, error) {
		return tree.AddOperation(tree.slots[pool], OperationParameters{})
	}
	a1, _ := start("A")
	start("A")
	start("B")
	b2, err := start("B")
	if running, at := tree.IsRunning(b2); err != nil || running || at != tree.slots["P"] {
		t.Errorf("B has room, P has none: running %v, waits at %d, %v", running, at, err)
	}
	a3, _ := start("A")
	if running, at := tree.IsRunning(a3); running || at != tree.slots["A"] {
		t.Errorf("A is full: running %v, waits at %d", running, at)
	}
	if admitted := tree.RemoveOperation(a1); len(admitted) != 1 || admitted[0] != a3 {
		t.Errorf("when one of A ends: %v", admitted)
	}
	start("B")
	if _, err := start("A"); err != nil {
		t.Errorf("the sixth: %v", err)
	}
	_, err = start("A")
	if count, ok := err.(*CountError); !ok || count.Pool != "P" || count.Limit != 6 || count.Running {
		t.Errorf("the seventh: %v", err)
	}
}

func TestOperationsBelowTheirGuaranteesAreServedFirst(t *testing.T) {
	tree := newTestTree()
	tree.settings.GuaranteesFirst = true
	tree.addNodes(1, cores(10))
	half := resource.Partial{}.With(resource.CPU, 5_00)
	tree.pool("root", "guaranteed", fairshare.Pool{Strong: half, Promised: true}, 1)
	tree.pool("root", "other", fairshare.Pool{}, 1)
	tree.operation(t, "guaranteed", "a", job(1, 1), 100)
	tree.operation(t, "other", "b", job(1, 1), 100)
	tree.pass(time.Second)
	var d Decisions
	tree.Heartbeat(tree.now, 0, &d)
	for i, s := range d.Starts {
		if wanted := i < 5; wanted != (s.Stage == StageRegularHigh) || wanted && s.Operation != tree.slots["a"] {
			t.Errorf("start %d: operation %d in stage %s", i, s.Operation, s.Stage)
		}
	}
}

func TestGuaranteesDoNotOverrideTheNodeFilterOfAPool(t *testing.T) {
	tree := newTestTree()
	tree.settings.GuaranteesFirst = true
	tree.AddNode(cores(10), []string{"hdd"})
	filter, err := nodefilter.Parse("ssd")
	if err != nil {
		t.Fatal(err)
	}
	half := resource.Partial{}.With(resource.CPU, 5_00)
	slot := tree.pool("root", "guaranteed", fairshare.Pool{Strong: half, Promised: true}, 1)
	tree.SetPool(slot, PoolParameters{
		Name: "guaranteed", Filter: filter, Effective: effective(0, 10, 10),
		Element: fairshare.Element{Pool: &fairshare.Pool{Strong: half, Promised: true}},
	})
	tree.operation(t, "guaranteed", "a", job(1, 1), 100)
	tree.pass(time.Second)
	tree.beat()
	tree.expectRunning(t, map[string]int{"a": 0})
}
