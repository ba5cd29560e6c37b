package why_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/ledger"
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

// TestPropertyExplanationsAgreeWithTheLedger checks that pools state the guarantees that the ledger enters, and that what they
// got is what their jobs hold, also while gangs assemble.
func TestPropertyExplanationsAgreeWithTheLedger(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := draw(r)
		w.setTrees(promises)
		for range rapid.IntRange(1, 3).Draw(r, "more") {
			_, _ = w.start(fmt.Sprintf("{pool: %s, is_gang: %v, tasks: {a: {job_count: %d, cpu_limit: 2, memory_limit: 1GiB}}}",
				rapid.SampledFrom([]string{"production", "inner", "batch"}).Draw(r, "pool"), rapid.Bool().Draw(r, "gang"), rapid.IntRange(1, 6).Draw(r, "jobs")))
			w.pass(time.Second)
			w.beat(core.NodeID(rapid.IntRange(0, 3).Draw(r, "node")))
		}
		w.must(&core.UpdateInput{})
		w.checkGuarantees()
	})
}

// promises has a pool of each kind that promises something at every moment, and others.
const promises = `
pools:
  production: {strong_guarantee_resources: {cpu: 4}, weight: 3}
  batch: {integral_guarantees: {guarantee_type: burst, resource_flow: {cpu: 1}, burst_guarantee_resources: {cpu: 3}}, max_running_operation_count: 1}
  adhoc: {strong_guarantee_resources: {cpu: 6, memory: 6GiB}, pools: {inner: {strong_guarantee_resources: {cpu: 1, memory: 3GiB}}, other: {}}}
`

// checkGuarantees compares the guarantees of all pools with a second of the ledger and with a recount over
// jobs. The core has just been updated.
func (w *world) checkGuarantees() {
	w.tb.Helper()
	scene := w.look()
	books := core.Books{Book: ledger.New()}
	entries := map[ledger.Pool]ledger.Claim{}
	for _, e := range books.Updated(w.now, w.Core, nil, nil, false) {
		entries[e.Pool] = e.Claim
	}
	books.Advance(w.now.Add(time.Second))
	for id, tree := range scene.Trees() {
		pools := []string{core.RootName}
		for len(pools) > 0 {
			x, err := scene.Pool(tree, pools[0], always)
			if err != nil {
				w.tb.Fatal(err)
			}
			pools = pools[1:]
			for _, child := range x.Children {
				pools = append(pools, child.Pool)
			}
			claim, claims := entries[ledger.Pool{Tree: tree, Name: x.Pool}]
			if promised := claims && claim.Promised() > 0; promised != (x.Guarantee != nil) {
				w.tb.Fatalf("pool %s: the ledger has a claim: %v; explained: %+v", x.Pool, promised, x.Guarantee)
			}
			if x.Guarantee == nil {
				continue
			}
			g, held := x.Guarantee, int64(0)
			inside, _ := w.PoolDemand(core.TreeID(id), x.Pool)
			for _, op := range inside.Operations {
				for _, j := range w.JobsOf(op) {
					if j.Tree == core.TreeID(id) {
						held += j.Resources[g.Resource]
					}
				}
			}
			if g.Resource != claim.Resource || g.Amount != claim.Promised() || g.Due != claim.Due() || g.Got != held || g.Short != max(g.Due-held, 0) {
				w.tb.Fatalf("pool %s: its jobs hold %d, the ledger has %+v, explained is %+v", x.Pool, held, claim, g)
			}
			if claim.Total == 0 {
				continue // seconds of an empty tree
			}
			due, causes, _ := books.Seconds(ledger.Pool{Tree: tree, Name: x.Pool})
			short := 0.0
			for _, part := range causes {
				short += part
			}
			if total := float64(claim.Total); math.Abs(due*total-float64(g.Due)) > 1e-6*total || math.Abs(short*total-float64(g.Short)) > 1e-6*total {
				w.tb.Fatalf("pool %s: in a second the ledger enters %v due and %v short, explained is %+v", x.Pool, due*total, short*total, g)
			}
		}
	}
}

func TestRoomKeptForAGangIsNotGot(t *testing.T) {
	w := newWorld(t, "pools: {research: {strong_guarantee_resources: {cpu: 4}}}")
	w.addNode(0, 2)
	w.addNode(1, 20)
	w.mustStart("{pool: research, is_gang: true, tasks: {a: {job_count: 4, cpu_limit: 1, memory_limit: 512MiB}}}")
	w.pass(time.Second)
	w.beat(0)
	w.pass(time.Second)
	if !w.Assembles() || len(w.jobs) != 0 {
		t.Fatalf("a gang assembles: %v; %d jobs run", w.Assembles(), len(w.jobs))
	}
	w.checkGuarantees()
	x, err := w.look().Pool("default", "research", always)
	if g := x.Guarantee; err != nil || g.Due != 4_00 || g.Got != 0 || g.Short != 4_00 {
		t.Errorf("%v, %+v", err, g)
	}
	w.beat(1)
	w.pass(time.Second)
	w.checkGuarantees()
	x, err = w.look().Pool("default", "research", always)
	if g := x.Guarantee; err != nil || g.Got != 4_00 || g.Short != 0 {
		t.Errorf("%v, %+v", err, g)
	}
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
