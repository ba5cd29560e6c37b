package core

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// stored is what a store would hold of an operation.
type stored struct {
	snapshot operation.Snapshot
	ends     []RevivedEnd
}

// archive holds what the core asks to be stored: snapshots of changed operations,
// and the ends of jobs after them.
type archive map[OperationID]*stored

func (a archive) keep(w *world, all bool) {
	for _, end := range w.out.Ended {
		if s := a[end.Operation]; s != nil {
			s.ends = append(s.ends, RevivedEnd{end, w.now})
		}
	}
	for _, id := range w.live {
		if all || a[id] == nil || slices.Contains(w.out.Changed, id) {
			snapshot, _ := w.SnapshotOf(id)
			a[id] = &stored{snapshot: snapshot}
		}
	}
}

// figures are the numbers of an operation that a restart must not change.
type figures struct {
	Pending, Running int
	Suspended        bool
	Counters         operation.Counters
	Pools            []string
	Usage            resource.Amounts // of jobs: room that is kept for a gang is not taken over
}

func figuresOf(c *Core) map[OperationID]figures {
	all := map[OperationID]figures{}
	picture := c.Picture(time.Time{})
	for o := range picture.Operations() {
		f := figures{Pending: o.Statistics.Pending, Running: o.Statistics.Running, Suspended: o.Suspended, Counters: o.Statistics.Counters}
		if c.ControllerOf(o.ID).Spec().IsExternal() {
			f.Pending = 0 // the owner offers its jobs again
		}
		for seat := range picture.Seats(o) {
			f.Pools = append(f.Pools, seat.Pool)
		}
		for _, j := range c.JobsOf(o.ID) {
			f.Usage = f.Usage.Add(j.Resources)
		}
		all[o.ID] = f
	}
	return all
}

// TestPropertyARevivedCoreGoesOnWhereTheOtherStopped stops a core at a random
// moment of a random history and builds another one from the stored rows and the
// nodes' reports.
func TestPropertyARevivedCoreGoesOnWhereTheOtherStopped(t *testing.T) {
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
			if rapid.IntRange(0, 9).Draw(r, "snapshot") == 0 {
				kept.keep(w, true)
			}
		}
		next, journal := w.successor(r, kept)
		if err := next.Verify(); err != nil {
			r.Fatal(err)
		}
		again := New(w.settings)
		for _, e := range journal {
			if err := again.Apply(e.now, e.input, &Decisions{}); err != nil {
				r.Fatalf("%T of a successor's journal: %v", e.input, err)
			}
		}
		sum, err := next.Hash()
		if repeated, failed := again.Hash(); repeated != sum || err != nil || failed != nil {
			r.Fatalf("the journal of a successor leads to another state (%v, %v)", err, failed)
		}
		before, after := figuresOf(w.Core), figuresOf(next)
		if diff := cmp.Diff(before, after); diff != "" {
			r.Fatalf("the revived core differs:\n%s", diff)
		}
		var out Decisions
		_ = next.Apply(w.now.Add(time.Minute), &UpdateInput{}, &out) // never refused
		for id := range w.nodes {
			_ = next.Apply(w.now.Add(time.Minute), &HeartbeatInput{Node: id}, &out) // never refused
		}
		if err := next.Verify(); err != nil {
			r.Fatal(err)
		}
		for _, s := range out.Started {
			if _, known := w.jobs[s.Job]; known || w.over[s.Job] {
				r.Fatalf("the number of job %d is used again", s.Job)
			}
		}
	})
}

// successor builds a core as the daemon does after a restart, and returns the
// inputs that it applied.
func (w *world) successor(r *rapid.T, kept archive) (next *Core, journal []entry) {
	next = New(w.settings)
	do := func(input Input) {
		journal = append(journal, entry{w.now, input})
		if err := next.Apply(w.now, input, &Decisions{}); err != nil {
			r.Fatalf("%+v: %v", input, err)
		}
	}
	var trees []document.Named[*pooltree.Tree]
	for _, t := range w.trees {
		trees = append(trees, document.Named[*pooltree.Tree]{Name: t.name, Value: t.config})
	}
	do(&TreesInput{trees, "default"})
	do(&NextJobInput{w.nextJob + 1})
	revived := slices.Clone(w.live)
	slices.SortStableFunc(revived, func(a, b OperationID) int {
		return boolInt(w.operations[b].started) - boolInt(w.operations[a].started)
	})
	for _, id := range revived {
		op := w.operations[id]
		s := kept[id]
		do(&ReviveInput{Revived{
			Operation: id, User: op.user, Spec: op.controller.Spec(), Snapshot: s.snapshot, Ends: s.ends, Places: w.PlacesOf(id),
		}})
	}
	for _, state := range w.PoolStates(nil) {
		do(&PoolStateInput{state})
	}
	for id, n := range w.Core.nodes {
		if n != nil {
			do(&NodeInput{NodeID(id), n.name, n.resources, n.tags})
		}
	}
	var jobs []JobID
	for id := range w.Core.jobs {
		jobs = append(jobs, id)
	}
	slices.SortFunc(jobs, func(a, b JobID) int { return int(b) - int(a) }) // nodes report in any order
	for _, id := range jobs {
		where := w.Core.jobs[id]
		t := w.trees[where.tree]
		j := t.jobs[where.at]
		do(&AdoptInput{Adopted{
			Job: id, Operation: j.operation, JobRef: j.ref, Node: t.nodes[t.state.NodeOf(where.at)],
			Resources: w.jobs[id].Resources, Started: midnight.Add(time.Duration(id) * time.Second),
		}})
	}
	return next, journal
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
