package scheduling

import (
	"testing"
	"time"

	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/value/resource"
)

var patience = StuckPatience{LimitingAncestor: 5 * time.Minute, NoProgress: time.Hour, Attempts: 10}

func TestALimitBelowTheSmallestJobIsFoundAfterItsTimeout(t *testing.T) {
	tree := newTestTree()
	tree.addNodes(1, cores(10))
	outer := tree.pool("root", "outer", fairshare.Pool{}, 1)
	tree.pool("outer", "inner", fairshare.Pool{}, 1)
	limit := func(cpu int64) {
		tree.SetPool(outer, PoolParameters{
			Name: "outer", Specified: resource.Partial{}.With(resource.CPU, cpu*100), Effective: effective(0, 10, 10),
		})
	}
	limit(2)
	slot := tree.operation(t, "inner", "op", job(3, 1), 1)
	tree.SetWaiting(slot, []Group{{Resources: job(3, 1), Waiting: 1}, {Resources: job(4, 1), Waiting: 1}, {Resources: job(1, 1)}})
	if s := tree.Stuck(tree.now, slot, patience); s.Reason != NotStuck {
		t.Errorf("before the first update: %+v", s)
	}
	tree.pass(time.Second)
	began := tree.now
	judge := func(after time.Duration, want StuckReason) Stuck {
		t.Helper()
		s := tree.Stuck(began.Add(after), slot, patience)
		if s.Reason != want {
			t.Errorf("after %v: %s", after, s.Reason)
		}
		return s
	}
	judge(time.Minute, NotStuck)
	judge(6*time.Minute, NotStuck) // exactly the timeout
	s := judge(6*time.Minute+1, StuckAtLimit)
	if s.Element != outer || s.Resource != resource.CPU || s.Needed != 3_00 || s.Available != 2_00 || s.Since != began.Add(time.Minute) {
		t.Errorf("%+v", s)
	}
	limit(3)
	judge(7*time.Minute, NotStuck)
	limit(2)
	judge(8*time.Minute, NotStuck) // the timeout starts again
	judge(13*time.Minute+1, StuckAtLimit)
	if s := tree.Stuck(began.Add(time.Hour), slot, StuckPatience{NoProgress: time.Hour, Attempts: 10}); s.Reason != NotStuck {
		t.Errorf("with the check switched off: %+v", s)
	}
	tree.Suspend(slot, true)
	judge(2*time.Hour, NotStuck)
}

func TestAnOperationThatStarvesWithoutAJobIsStuck(t *testing.T) {
	tree := newTestTree()
	tree.addNodes(2, cores(10))
	pool := tree.pool("root", "protected", fairshare.Pool{}, 1)
	protected := effective(0, 10, 10)
	protected.AllowNormalPreemption = false
	tree.SetPool(pool, PoolParameters{Name: "protected", Effective: protected})
	tree.operation(t, "protected", "greedy", job(1, 1), 20)
	tree.pass(time.Second)
	tree.beat()
	slot := tree.operation(t, "root", "large", job(10, 1), 1)
	tree.pass(time.Second)
	tree.pass(31 * time.Second)
	began := tree.now
	if tree.elements[slot].starvation != Starving || tree.elements[slot].rest().starvingSince != began {
		t.Fatalf("%s since %v", tree.elements[slot].starvation, tree.elements[slot].rest().starvingSince)
	}
	for range 5 {
		tree.beat()
	}
	tree.now = began.Add(time.Hour + time.Second)
	if s := tree.Stuck(tree.now, slot, patience); s.Reason != NotStuck {
		t.Errorf("after ten attempts: %+v", s)
	}
	tree.beat()
	s := tree.Stuck(tree.now, slot, patience)
	if s.Reason != StuckWithoutProgress || s.Attempts != 12 || s.Since != began || s.Element != none {
		t.Errorf("%+v", s)
	}
	tree.SetOperation(slot, OperationParameters{Element: fairshare.Element{Limits: resource.Partial{}.With(resource.CPU, 1_00)}})
	if s := tree.Stuck(tree.now, slot, patience); s.Reason != NotStuck {
		t.Errorf("its limits, not nodes, keep it waiting: %+v", s)
	}
}

func TestHostsAreCountedByWhatIsWrongWithThem(t *testing.T) {
	tree := newTestTree()
	tree.AddNode(cores(4), []string{"a"})
	tree.AddNode(cores(8), []string{"a"})
	banned := tree.AddNode(cores(8), []string{"a"})
	tree.AddNode(cores(16), []string{"b"})
	slot := tree.operation(t, "root", "op", job(5, 1), 1)
	tree.SetOperation(slot, OperationParameters{Filter: mustParse(t, "a")})
	tree.Ban(slot, banned)
	tree.Ban(slot, banned)
	want := Hosts{Nodes: 4, Excluded: 1, Small: 1, Banned: 1, Suitable: 1, Largest: cores(8)}
	if got := tree.HostsOf(slot, job(5, 1), 0); got != want {
		t.Errorf("%+v", got)
	}
	if got := tree.HostsOf(slot, job(5, 1), 1); got.Suitable != 1 || got.Nodes != 2 {
		t.Errorf("one is enough: %+v", got)
	}
	tree.pass(time.Second)
	tree.beat()
	if at := tree.nodes[banned].allocations; len(at) != 0 {
		t.Errorf("%d jobs on the banned node", len(at))
	}
	tree.RemoveNode(banned)
	if got := tree.elements[slot].operation.banned; len(got) != 0 {
		t.Errorf("a node that is gone is still avoided: %v", got)
	}
	if again := tree.AddNode(cores(8), []string{"a"}); again != banned || tree.elements[slot].operation.avoids(again) {
		t.Error("a new node inherits a ban")
	}
	if err := tree.Verify(); err != nil {
		t.Error(err)
	}
}

func TestTransferredOperationsWaitWhereTheirNewPoolIsFull(t *testing.T) {
	tree := newTestTree()
	tree.addNodes(1, cores(10))
	parent := tree.AddPool(0, PoolParameters{Name: "parent", Effective: effective(0, 3, 10)})
	tree.slots["parent"] = parent
	var moves []Move
	for _, name := range []string{"a", "b", "c"} {
		child := tree.pool("parent", "child "+name, fairshare.Pool{}, 1)
		moves = append(moves, Move{tree.operation(t, "child "+name, name, job(1, 1), 2), parent})
		tree.slots["child "+name] = child
	}
	tree.pass(time.Second)
	tree.beat()
	tree.SetPool(parent, PoolParameters{Name: "parent", Effective: effective(0, 2, 10)})
	if admitted := tree.TransferAll(moves); len(admitted) != 0 {
		t.Errorf("admitted: %v", admitted)
	}
	if err := tree.Verify(); err != nil {
		t.Error(err)
	}
	tree.expectRunning(t, map[string]int{"a": 2, "b": 2, "c": 2})
	limit, waits := tree.CountLimit(tree.slots["c"])
	if !waits || limit != (CountLimit{Pool: parent, Running: 2, Limit: 2}) {
		t.Errorf("the last one: %+v", limit)
	}
	if _, waits := tree.CountLimit(tree.slots["a"]); waits {
		t.Error("the first one waits")
	}
	for _, child := range []string{"child a", "child b", "child c"} {
		tree.RemovePool(tree.slots[child])
	}
	tree.SetPool(parent, PoolParameters{Name: "parent", Effective: effective(0, 3, 10)})
	if admitted := tree.AdmitAll(); len(admitted) != 1 || admitted[0] != tree.slots["c"] {
		t.Errorf("admitted: %v", admitted)
	}
	if err := tree.Verify(); err != nil {
		t.Error(err)
	}
}

func TestAPoolThatIsRemovedLeavesNobodyWaitingForIt(t *testing.T) {
	tree := newTestTree()
	full := tree.AddPool(0, PoolParameters{Name: "full", Effective: effective(0, 1, 10)})
	inner := tree.AddPool(full, PoolParameters{Name: "inner", Effective: effective(0, 10, 10)})
	tree.slots["inner"] = inner
	tree.operation(t, "inner", "first", job(1, 1), 1)
	second := tree.operation(t, "inner", "second", job(1, 1), 1)
	tree.MovePool(inner, 0)
	tree.RemovePool(full)
	if err := tree.Verify(); err != nil {
		t.Error(err)
	}
	if admitted := tree.AdmitAll(); len(admitted) != 1 || admitted[0] != second {
		t.Errorf("admitted: %v", admitted)
	}
}
