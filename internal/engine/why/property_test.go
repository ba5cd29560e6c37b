package why_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/why"
	"github.com/weirhq/weir/internal/value/resource"
)

func always() bool { return true }

// kindOf identifies a kind in tests.
type kindOf struct {
	operation  core.OperationID
	tree, task string
}

// startsOf counts the starts of each kind and finds the node of the first.
func (w *world) startsOf(list []core.Started) (counts map[kindOf]int, first map[kindOf]string) {
	counts, first = map[kindOf]int{}, map[kindOf]string{}
	for _, s := range list {
		key := kindOf{s.Operation, w.Trees()[s.Tree], w.ControllerOf(s.Operation).Spec().Tasks[s.Task].Name}
		if counts[key]++; counts[key] == 1 {
			first[key] = w.NodeName(s.Node)
		}
	}
	return counts, first
}

// TestPropertyStartsAndBlockersExcludeEachOther is W1 and W2: a kind of which a round on a fork
// starts no job has blockers; one of which it starts jobs has none, and names the node.
func TestPropertyStartsAndBlockersExcludeEachOther(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := draw(r)
		before, err := w.Hash()
		if err != nil {
			r.Fatal(err)
		}
		counts, first := w.startsOf(w.twin())
		scene := w.look()
		for _, id := range w.Live() {
			x, err := scene.Operation(id)
			if err != nil {
				continue // its time limit ends it in the round
			}
			total := 0
			for _, k := range x.Kinds {
				key := kindOf{id, k.Tree, k.Task}
				if k.Starts != counts[key] || k.Node != first[key] {
					r.Fatalf("operation %d, task %s: %d start on %q, want %d on %q", id, k.Task, k.Starts, k.Node, counts[key], first[key])
				}
				if (k.Starts > 0) == (len(k.Blockers) > 0) {
					r.Fatalf("operation %d, task %s of tree %s: %d jobs start, and there are %d blockers", id, k.Task, k.Tree, k.Starts, len(k.Blockers))
				}
				total += k.Starts
			}
			if (total > 0) == (len(x.Blockers) > 0) || x.Starts != total {
				r.Fatalf("operation %d: %d jobs start, and there are %d blockers", id, total, len(x.Blockers))
			}
			for i := 1; i < len(x.Blockers); i++ {
				if x.Blockers[i-1].Code.Class() > x.Blockers[i].Code.Class() {
					r.Fatalf("operation %d: %v comes before %v", id, x.Blockers[i-1].Code, x.Blockers[i].Code)
				}
			}
		}
		if after, err := w.Hash(); err != nil || after != before {
			r.Fatalf("questions change the core: %v", err)
		}
	})
}

// TestPropertyWithoutASoleBlockerAJobStarts is W3. Only conditions that the user or an
// administrator can change are changed here, by the inputs that change them for real.
func TestPropertyWithoutASoleBlockerAJobStarts(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := draw(r)
		scene := w.look()
		for _, id := range w.Live() {
			x, err := scene.Operation(id)
			if err != nil || len(x.Blockers) == 0 {
				continue
			}
			scene.Sole(x.Blockers, always)
			for i, b := range x.Blockers {
				if b.Sole == why.SoleYes && b.Starts == 0 || b.Sole == why.SoleNo && b.Starts > 0 {
					r.Fatalf("operation %d: %v is sole: %v, and %d jobs start without it", id, b.Code, b.Sole, b.Starts)
				}
				if i > 0 && x.Blockers[i-1].Code.Class() == b.Code.Class() && x.Blockers[i-1].Sole != why.SoleYes && b.Sole == why.SoleYes {
					r.Fatalf("operation %d: the sole blocker %v comes late", id, b.Code)
				}
				if b.Sole != why.SoleYes {
					continue
				}
				live := &world{Core: w.Fork(), tb: r, now: w.now, jobs: map[core.JobID]core.Started{}, gates: w.gates}
				switch b.Code {
				case why.OperationSuspended:
					live.must(&core.ResumeInput{Operation: id})
				case why.SchedulerReviving, why.SchedulerOverloaded, why.StoreUnavailable:
					live.gates.Cluster = nil
				default:
					continue
				}
				started := false
				for _, s := range live.twin() {
					started = started || s.Operation == id
				}
				if !started {
					r.Fatalf("operation %d: without %v no job starts", id, b.Code)
				}
			}
		}
	})
}

// TestPropertyGapsSum is W4: the rows of a pool sum to its demand minus its usage, and so do its
// children and own operations.
func TestPropertyGapsSum(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := draw(r)
		scene := w.look()
		for _, tree := range scene.Trees() {
			pools := []string{core.RootName}
			for len(pools) > 0 {
				x, err := scene.Pool(tree, pools[0], always)
				if err != nil {
					r.Fatal(err)
				}
				pools = pools[1:]
				sum := int64(0)
				for _, row := range x.Rows {
					sum += row.Amount
				}
				if want := x.Demand[x.Resource] - x.Usage[x.Resource]; sum != want || x.Gap != want {
					r.Fatalf("pool %s: rows sum to %d, want %d", x.Pool, sum, want)
				}
				for _, child := range x.Children {
					pools = append(pools, child.Pool)
				}
			}
		}
	})
}

// TestPropertyAmountsAreThoseOfJobs is W5: what limits and nodes show is a recount over jobs.
func TestPropertyAmountsAreThoseOfJobs(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := draw(r)
		w.must(&core.UpdateInput{})
		if w.Assembles() {
			return // room may be kept for a gang, which no job holds
		}
		scene := w.look()
		parents := map[[2]string]string{}
		for _, tree := range w.Picture(w.now).Trees {
			slots := map[int32]string{}
			for p := range tree.Pools() {
				slots[p.Slot] = p.Name
			}
			for p := range tree.Pools() {
				parents[[2]string{tree.Name, p.Name}] = slots[p.Parent]
			}
		}
		within := func(tree core.TreeID, id core.OperationID, pool string) bool {
			at, ok := w.PoolOf(id, tree)
			for ok && at != pool && at != core.RootName {
				at = parents[[2]string{w.Trees()[tree], at}]
			}
			return ok && at == pool
		}
		recount := func(tree core.TreeID, id core.OperationID, k resource.Kind) (sum int64) {
			for _, j := range w.JobsOf(id) {
				if j.Tree == tree {
					sum += j.Resources[k]
				}
			}
			return sum
		}
		for _, id := range w.Live() {
			x, err := scene.Operation(id)
			if err != nil {
				continue
			}
			for _, b := range x.Blockers {
				if b.HasResource && b.Short <= 0 && b.Detail == "" {
					r.Fatalf("operation %d: %v is %d short", id, b.Code, b.Short)
				}
				if b.Code == why.NodeResources && len(b.Names) < 5 { // all nodes are named
					onNodes := int64(0)
					for n := range w.NextNode() {
						if !slices.Contains(b.Names, w.NodeName(n)) {
							continue
						}
						for _, j := range w.JobsOn(n) {
							onNodes += j.Resources[b.Resource]
						}
					}
					held := b.OthersAmount
					for _, h := range b.Holders {
						held += h.Amount
					}
					if held != onNodes {
						r.Fatalf("nodes %v: holders have %d %v, want %d", b.Names, held, b.Resource, onNodes)
					}
				}
				if b.Code != why.Limit {
					continue
				}
				tree := core.TreeID(0)
				if b.Tree == "gpu" {
					tree = 1
				}
				used, held := int64(0), b.OthersAmount
				for _, other := range w.Live() {
					if b.Pool == "" && other == id || b.Pool != "" && within(tree, other, b.Pool) {
						used += recount(tree, other, b.Resource)
					}
				}
				for _, h := range b.Holders {
					held += h.Amount
					if got := recount(tree, h.Operation, b.Resource); got != h.Amount {
						r.Fatalf("operation %d holds %d, want %d", h.Operation, h.Amount, got)
					}
				}
				if b.Used != used || b.Short != used+b.Need-b.Limit || b.Pool != "" && held != used {
					r.Fatalf("limit of %q on %v: used %d, held %d, want %d; short %d of %d", b.Pool, b.Resource, b.Used, held, used, b.Short, b.Need)
				}
			}
		}
	})
}

// TestPropertySinceIsMonotone is W6: while a limit blocks, its since does not change, and a
// successor that restores clocks keeps it.
func TestPropertySinceIsMonotone(t *testing.T) {
	type limit struct {
		tree, pool string
		resource   resource.Kind
	}
	since := func(w *world) map[limit]time.Time {
		found := map[limit]time.Time{}
		scene := w.look()
		for _, id := range w.Live() {
			x, err := scene.Operation(id)
			if err != nil {
				continue
			}
			for _, b := range x.Blockers {
				if b.Code == why.Limit && b.Pool != "" {
					found[limit{b.Tree, b.Pool, b.Resource}] = b.Since
				}
			}
		}
		return found
	}
	rapid.Check(t, func(r *rapid.T) {
		w := draw(r)
		w.must(&core.UpdateInput{})
		before := since(w)
		for key, at := range before {
			if at.After(w.now) {
				r.Fatalf("%v blocks since %v, and it is %v", key, at, w.now)
			}
		}
		for _, state := range w.PoolStates(nil) { // as a successor does
			w.must(&core.PoolStateInput{PoolState: state})
		}
		w.now = w.now.Add(time.Second)
		after := since(w)
		for key, at := range before {
			if later, still := after[key]; still && !later.Equal(at) {
				r.Fatalf("%v blocked since %v, now since %v", key, at, later)
			}
		}
	})
}
