package core

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/test/expected"
)

// TestPropertyRefusedInputChangesNothing applies random changes to operations in
// random states. A refused change leaves the state unchanged and makes no
// decisions.
func TestPropertyRefusedInputChangesNothing(t *testing.T) {
	expected.Tenth(t)
	refused := 0
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(r, threePools)
		for id := range NodeID(3) {
			w.addNode(id, 4, tagsOf(id)...)
		}
		w.pass(time.Second)
		for range rapid.IntRange(5, 40).Draw(r, "steps") {
			w.step(r)
			op := OperationID(rapid.IntRange(0, int(w.next)).Draw(r, "changed operation"))
			before := w.hash()
			if w.do(w.randomChange(r, op)) == nil {
				w.take()
				continue
			}
			refused++
			if w.hash() != before {
				r.Fatalf("a refused change of operation %d changed the state", op)
			}
			if n := len(w.out.Operations) + len(w.out.Stopped) + len(w.out.Changed); n > 0 {
				r.Fatalf("a refused change of operation %d decided %d things: %+v", op, n, w.out)
			}
		}
	})
	if refused == 0 {
		t.Fatal("nothing was refused")
	}
}

// randomChange draws a change of an operation that a tree may refuse: the pool is
// full, forbids operations or cannot be created, or an annotation is too long.
func (w *world) randomChange(r *rapid.T, op OperationID) Input {
	pool := rapid.SampledFrom([]string{"production", "batch", "adhoc", "new", "newer", "no pool", RootName}).Draw(r, "new pool")
	update := operation.Update{MaxFailedJobCount: document.Some(rapid.IntRange(0, 3).Draw(r, "failures"))}
	update.Trees.Pool, update.Trees.Weight = document.Some(pool), document.Some(7.0)
	if rapid.IntRange(0, 3).Draw(r, "long") == 0 {
		update.Annotations = document.Some(document.Map(document.Pair("a", document.Text(strings.Repeat("x", 10<<10)))))
	}
	return &ParametersInput{op, update}
}

// TestRefusedPoolOfOneTreeMovesInNone moves an operation of two trees into a pool
// that the second tree refuses.
func TestRefusedPoolOfOneTreeMovesInNone(t *testing.T) {
	w := newWorld(t, threePools)
	for range 2 { // the tree gpu allows two operations in this pool
		if _, err := w.start("anna", "{pool: production, pool_trees: [gpu], tasks: {a: {job_count: 1, cpu_limit: 1, memory_limit: 1GiB}}}"); err != nil {
			t.Fatal(err)
		}
	}
	id, err := w.start("boris", "{pool: mine, pool_trees: [default, gpu], tasks: {a: {job_count: 1, cpu_limit: 1, memory_limit: 1GiB}}}")
	if err != nil {
		t.Fatal(err)
	}
	before, update := w.hash(), operation.Update{}
	update.Trees.Pool = document.Some("production")
	if err := w.do(&ParametersInput{id, update}); err == nil {
		t.Fatal("the full pool accepted the operation")
	}
	for _, place := range w.PlacesOf(id) {
		if place.Pool != "mine" {
			t.Errorf("in tree %s the operation is in pool %s, want mine", place.Tree, place.Pool)
		}
	}
	if w.hash() != before {
		t.Error("the refused change changed the state")
	}
}

// TestPoolWithoutRoomRefusesItsFirstOperation starts an operation in a pool that
// would be created but allows no operations.
func TestPoolWithoutRoomRefusesItsFirstOperation(t *testing.T) {
	w := newWorld(t, "pools: {adhoc: {create_ephemeral_subpools: true, ephemeral_subpool_config: {max_operation_count: 0, max_running_operation_count: 0}}}")
	if _, err := w.start("anna", "{pool: adhoc, tasks: {a: {job_count: 1, cpu_limit: 1, memory_limit: 1GiB}}}"); err == nil {
		t.Error("a pool for no operations accepted one")
	}
}
