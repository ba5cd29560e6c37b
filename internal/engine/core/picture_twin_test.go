package core

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weirhq/weir/test/expected"
)

// checkPicture compares a picture with the core's current state, all of it computed
// from scratch.
func checkPicture(tb reporter, c *Core, p *Picture) {
	tb.Helper()
	same := func(what string, got, want any) {
		tb.Helper()
		if reflect.DeepEqual(got, want) {
			return
		}
		// Empty lists may be nil.
		if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w {
			tb.Fatalf("%s of a picture differs: %s", what, cmp.Diff(w, g))
		}
	}
	same("the default tree", p.Default, c.defaultTree)
	for i, t := range c.trees {
		checkTree(tb, same, c, t, p.Trees[i])
	}
	ids := slices.Sorted(slices.Values(c.live))
	same("the number of operations", p.OperationCount(), len(ids))
	next := 0
	for o := range p.Operations() {
		op := c.operations[ids[next]]
		want := c.operation(op)
		want.seats = op.seats()
		same("an operation", *o, want)
		if found, there := p.Operation(op.id); !there || found != o {
			tb.Fatalf("operation %d is not found", op.id)
		}
		seats := 0
		for seat := range p.Seats(o) {
			t := c.trees[seat.Tree]
			want := t.seat(op, op.placeIn(t.id).slot)
			want.Groups = t.state.Groups(op.placeIn(t.id).slot)
			same("a seat", *seat, want)
			if p.Seat(o, t.id) != seat {
				tb.Fatalf("the seat of operation %d is not found", op.id)
			}
			seats++
		}
		same("the number of seats", seats, len(op.places))
		next++
	}
	nodes := map[NodeID]*Node{}
	for n := range p.Nodes() {
		nodes[n.ID] = n
	}
	same("the number of nodes", p.NodeCount(), len(nodes))
	for id, n := range c.nodes {
		if n == nil {
			if nodes[NodeID(id)] != nil {
				tb.Fatalf("node %d is gone and in the picture", id)
			}
			continue
		}
		same("a node", *nodes[NodeID(id)], c.node(NodeID(id), n))
	}
}

func checkTree(tb reporter, same func(what string, got, want any), c *Core, t *tree, got *Tree) {
	tb.Helper()
	same("a tree", []any{got.ID, got.Name, got.Total, got.Updated, got.Alerts}, []any{t.id, t.name, t.state.Total(), t.state.Updated(), t.state.Alerts()})
	count := 0
	for _, n := range c.nodes {
		if n != nil && n.tree == t.id {
			count++
		}
	}
	same("the number of nodes", got.NodeCount, count)
	want := map[string]*Pool{}
	for _, q := range t.order {
		pool := t.poolNow(q, &poolCounts{})
		want[q.name] = &pool
	}
	for _, q := range t.order {
		if q.parent != nil {
			want[q.parent.name].ChildPools++
		}
	}
	for _, id := range c.live {
		at := c.operations[id].placeIn(t.id)
		if at == nil {
			continue
		}
		want[at.pool].DirectOperations++
		now := t.state.Operation(at.slot)
		for q := t.pools[at.pool]; q != nil; q = q.parent {
			pool := want[q.name]
			pool.RunningJobs += now.RunningJobs
			pool.WaitingJobs += now.WaitingJobs
			for class := range now.Classes {
				pool.Classes[class] += now.Classes[class]
			}
			if now.Schedulable {
				pool.SchedulableOperations++
			}
		}
	}
	same("the number of pools", got.PoolCount(), len(want))
	listed := map[int32]bool{none: true}
	for pool := range got.Pools() {
		same("a pool", *pool, *want[pool.Name])
		if !listed[pool.Parent] || pool.Slot >= int32(got.Slots()) {
			tb.Fatalf("pool %s comes before its parent", pool.Name)
		}
		listed[pool.Slot] = true
		if found, there := got.Pool(pool.Name); !there || found != pool {
			tb.Fatalf("pool %s is not found", pool.Name)
		}
		q := t.pools[pool.Name]
		same("the path", got.Path(pool), pathOf(q))
		effective := t.effectiveOf(q)
		if _, configured := t.config.Pool(q.name); !configured && q.parent != nil {
			effective = t.ephemeralParameters(q.name, q.parent).Effective
		}
		same("what holds for a pool", got.Effective(pool), effective)
	}
}

func poolsOf(t *Tree) (pools []Pool) {
	for p := range t.Pools() {
		pools = append(pools, *p)
	}
	return pools
}

func pathOf(q *pool) (path string) {
	for ; q.parent != nil; q = q.parent {
		path = strings.TrimSuffix(q.name+"/"+path, "/")
	}
	return path
}

// TestPropertyPicturesAreAsIfMadeFromNothing generates random histories and
// compares pictures of them with the state. Older pictures must not change.
func TestPropertyPicturesAreAsIfMadeFromNothing(t *testing.T) {
	expected.Tenth(t)
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(r, threePools)
		for id := range NodeID(rapid.IntRange(1, 4).Draw(r, "nodes")) {
			w.addNode(id, rapid.Int64Range(1, 10).Draw(r, "cpu"), tagsOf(id)...)
		}
		w.pass(time.Second)
		held := w.Picture(w.now)
		text := written(held)
		for range rapid.IntRange(5, 60).Draw(r, "steps") {
			w.step(r)
			switch rapid.IntRange(0, 6).Draw(r, "look") {
			case 3:
				w.PictureOfShares(w.now)
			case 6:
				pools := w.PictureOfPools(w.now)
				whole := w.Picture(w.now)
				for i, tree := range whole.Trees {
					if got, want := poolsOf(pools.Trees[i]), poolsOf(tree); !reflect.DeepEqual(got, want) {
						r.Fatalf("a picture of pools has %+v, not %+v", got, want)
					}
				}
			case 0, 1:
				checkPicture(r, w.Core, w.Picture(w.now))
			case 2:
				fork := w.Fork()
				checkPicture(r, fork, fork.Picture(w.now))
			}
		}
		last := w.Picture(w.now)
		checkPicture(r, w.Core, last)
		if written(held) != text {
			r.Fatal("a picture that is held has changed")
		}
		if again := w.Picture(w.now); written(again) != written(last) || w.painter.copied != (copies{}) {
			r.Fatalf("nothing has happened, and %+v were copied", w.painter.copied)
		}
	})
}

// TestAPictureCopiesWhatHasChanged counts copies: if one pool in a hundred changes,
// one in a hundred is copied, with its operation and the pools above it.
func TestAPictureCopiesWhatHasChanged(t *testing.T) {
	c := newCrowd(t, 100, 10, 2)
	c.Picture(c.now)
	if got, want := c.painter.copied, (copies{pools: 1101, seats: 2000, operations: 2000, nodes: 50}); got != want {
		t.Fatalf("the first picture has %+v, not %+v", got, want)
	}
	c.pass()
	before := c.Picture(c.now)
	if got := c.painter.copied; got != (copies{}) {
		t.Errorf("nothing has happened, and %+v were copied", got)
	}
	c.stir(10, 1)
	c.pass()
	after := c.Picture(c.now)
	// Ten pools of one parent below the root, with one operation each.
	if got, most := c.painter.copied, (copies{pools: 12, seats: 10, operations: 0, nodes: 10}); got.pools != most.pools ||
		got.seats != most.seats || got.operations != most.operations || got.nodes > most.nodes {
		t.Errorf("%+v were copied, not %+v", got, most)
	}
	shared := 0
	for i := range after.Trees[0].PoolCount() {
		if after.Trees[0].PoolAt(i) == before.Trees[0].PoolAt(i) {
			shared++
		}
	}
	if want := 1101 - 12; shared != want {
		t.Errorf("%d pools are shared, not %d", shared, want)
	}
	checkPicture(t, c.Core, after)
	c.stir(len(c.jobs), 2)
	c.pass()
	checkPicture(t, c.Core, c.Picture(c.now))
	if got := c.painter.copied; got.pools != 1101 || got.seats != 1000 {
		t.Errorf("everything has changed, and %+v were copied", got)
	}
}

// TestAPictureSharesNothingWithAFork keeps a picture of a core while a fork
// diverges and makes its own pictures.
func TestAPictureSharesNothingWithAFork(t *testing.T) {
	w, hog, _ := busy(t)
	w.Picture(w.now)
	fork := w.Fork()
	if err := fork.abortOperation(w.now, hog, "", &Decisions{}); err != nil {
		t.Fatal(err)
	}
	fork.update(w.now.Add(time.Second), &Decisions{})
	checkPicture(t, fork, fork.Picture(w.now))
	checkPicture(t, w.Core, w.Picture(w.now))
	if w.painter.copied != (copies{}) {
		t.Errorf("what happened to a fork made the core copy %+v", w.painter.copied)
	}
}
