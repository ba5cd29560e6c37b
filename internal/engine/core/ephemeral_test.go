package core

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/engine/operation"
)

// parentOf returns the name of a pool's parent in the first tree.
func (w *world) parentOf(name string) string {
	w.tb.Helper()
	tree := w.Picture(w.now).Trees[0]
	if p, there := tree.Pool(name); there {
		return tree.PoolIn(p.Parent).Name
	}
	return ""
}

const oneJob = "tasks: {t: {job_count: 1, cpu_limit: 1, memory_limit: 512MiB}}}"

func TestEphemeralPoolsAreWhereTheMapOfUsersSays(t *testing.T) {
	const pools = `
use_user_default_parent_pool_map: %s
default_parent_pool: rest
pools: {rest: {}, annas: {}, queue: {mode: fifo}}`
	use := func(on string) string { return fmt.Sprintf(pools, on) }
	w := newWorld(t, use("true"))
	set := func(pools map[string]string) {
		t.Helper()
		_ = w.do(&DefaultPoolsInput{pools}) // never refused
		w.take()
	}
	set(map[string]string{"anna": "annas", "boris": "queue"})
	if _, err := w.start("anna", "{pool: hers, "+oneJob); err != nil {
		t.Fatal(err)
	}
	if _, err := w.start("boris", "{pool: his, "+oneJob); err != nil {
		t.Fatal(err)
	}
	expect := func(hers, his string) {
		t.Helper()
		if got := w.parentOf("hers"); got != hers {
			t.Errorf("anna's pool is below %s, not below %s", got, hers)
		}
		if got := w.parentOf("his"); got != his {
			t.Errorf("boris's pool is below %s, not below %s", got, his)
		}
	}
	expect("annas", "rest") // FIFO pools cannot have subpools
	set(map[string]string{"anna": "nowhere", "boris": "annas"})
	expect("rest", "annas")
	w.setTrees(use("false"))
	expect("rest", "rest")
	w.setTrees("pools: {rest: {}}")
	expect(RootName, RootName)
	w.setTrees(use("true"))
	expect("rest", "annas")
	// The map does not move a configured pool.
	w.setTrees("default_parent_pool: rest\npools: {rest: {}, hers: {}}")
	expect(RootName, "rest")
}

func TestARemovedPoolMovesBelowTheDefaultParentUntilItIsEmpty(t *testing.T) {
	w := newWorld(t, "default_parent_pool: rest\npools: {rest: {}, outer: {pools: {inner: {}}}}")
	w.addNode(0, 4)
	id := w.mustStart("{pool: inner, " + oneJob)
	w.pass(time.Second)
	w.beat(0)
	w.setTrees("default_parent_pool: rest\npools: {rest: {}}")
	if got := w.parentOf("inner"); got != "rest" {
		t.Errorf("it is below %q", got)
	}
	if got := w.parentOf("outer"); got != "" {
		t.Errorf("the empty pool is still there, below %q", got)
	}
	job, _ := w.some(0)
	w.beat(0, Finished{Job: job, State: JobCompleted})
	if w.ops[id] != operation.Completed || w.parentOf("inner") != "" {
		t.Errorf("the operation is %s, its pool is below %q", w.ops[id], w.parentOf("inner"))
	}
}

func TestOperationsOfDissolvedSubpoolsMayWait(t *testing.T) {
	pools := func(subpools, running string) string {
		return "pools: {adhoc: {create_ephemeral_subpools: " + subpools + ", max_running_operation_count: " + running + "}}"
	}
	w := newWorld(t, pools("true", "3"))
	w.addNode(0, 8)
	var ids []OperationID
	for _, user := range []string{"anna", "boris", "clara", "dora"} {
		id, err := w.start(user, "{pool: adhoc, tasks: {t: {job_count: 3, cpu_limit: 1, memory_limit: 512MiB}}}")
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	w.pass(time.Second)
	w.beat(0)
	if w.ops[ids[3]] != operation.Pending {
		t.Fatalf("the fourth is %s", w.ops[ids[3]])
	}
	trees := w.journal[0].input.(*TreesInput)
	trees.Trees[0].Value = parseTree(t, pools("false", "2")+"\nnodes_filter: '!gpu'")
	if err := w.do(trees); err != nil {
		t.Fatal(err)
	}
	if len(w.out.Moved) != 4 || w.out.Moved[0] != (Moved{ids[0], 0, "adhoc"}) {
		t.Errorf("moved: %+v", w.out.Moved)
	}
	w.take()
	for i, waits := range []bool{false, false, true, true} {
		_, p := w.seatOf(ids[i])
		if p.Pool != "adhoc" || (p.WaitsFor == "adhoc") != waits || p.Index != i {
			t.Errorf("operation %d is in %s with index %d and waits for %q", i, p.Pool, p.Index, p.WaitsFor)
		}
	}
	if w.running(ids[2]) == 0 {
		t.Error("a running operation that has to wait loses its jobs")
	}
	for _, id := range ids[:2] {
		if err := w.do(&AbortInput{id, ""}); err != nil {
			t.Fatal(err)
		}
		w.take()
	}
	for _, id := range ids[2:] {
		if o, seat := w.seatOf(id); seat.WaitsFor != "" || o.State != operation.Running {
			t.Errorf("operation %d is %s and waits for %q", id, o.State, seat.WaitsFor)
		}
	}
}

func TestTheSmallestFreeNumberIsTheSlotIndex(t *testing.T) {
	w := newWorld(t, "pools: {p: {}, q: {}}")
	index := func(id OperationID) int {
		_, seat := w.seatOf(id)
		return seat.Index
	}
	first, second, third := w.mustStart("{pool: p, "+oneJob), w.mustStart("{pool: p, "+oneJob), w.mustStart("{pool: q, "+oneJob)
	if index(first) != 0 || index(second) != 1 || index(third) != 0 {
		t.Errorf("%d, %d, %d", index(first), index(second), index(third))
	}
	if err := w.do(&AbortInput{first, ""}); err != nil {
		t.Fatal(err)
	}
	w.take()
	if fourth := w.mustStart("{pool: p, " + oneJob); index(fourth) != 0 || index(second) != 1 {
		t.Errorf("%d, %d", index(fourth), index(second))
	}
}
