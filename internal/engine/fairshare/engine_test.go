package fairshare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/value/resource"
)

func TestSearchMaxFindsTheLastNumberThatSatisfies(t *testing.T) {
	for _, border := range []float64{0, 1e-300, 0.1, 1.0 / 3, 0.999999, 1} {
		ok := func(v float64) bool { return v <= border }
		if got := searchMax(0, 1, ok); got != border {
			t.Errorf("searchMax: got %g, want %g", got, border)
		}
		for _, guess := range []float64{border, math.Nextafter(border, 2), border + 1e-12, border + 0.3} {
			if got := searchMaxNear(0, guess, ok); got != border {
				t.Errorf("searchMaxNear from %g: got %g, want %g", guess, got, border)
			}
			if got := searchMaxAround(0, guess, 2, ok); got != border {
				t.Errorf("searchMaxAround %g: got %g, want %g", guess, got, border)
			}
			if got := searchMaxAround(0, border-(guess-border), 2, ok); got != border {
				t.Errorf("searchMaxAround from below: got %g, want %g", got, border)
			}
		}
	}
	if got := searchMax(-1, 1, func(v float64) bool { return v <= -0.5 }); got != -0.5 {
		t.Errorf("a negative border: got %g", got)
	}
}

// fitPoints generates the whole fit of a fair-share pool, piece by piece.
func fitPoints(e *Engine, p *pool) []point {
	points := []point{{0, p.first}}
	for x := 0.0; x < 1; {
		at := e.evaluate(p, after(x))
		points = push(points, at.low.x, &at.low.v)
		points = push(points, at.high.x, &at.high.v)
		x = at.high.x
	}
	return points
}

// curvePoints generates the whole curve of a pool, piece by piece.
func curvePoints(e *Engine, p *pool) []point {
	points := []point{{0, p.zero}}
	for x := 0.0; x < 1; {
		a, b := e.curvePiece(p, after(x))
		points = push(points, a.x, &a.v)
		points = push(points, b.x, &b.v)
		x = b.x
	}
	return points
}

// TestAnswersDoNotDependOnWhereTheSearchStarts asks a pool about random
// suggestions in random order and compares with the answers of a new engine.
func TestAnswersDoNotDependOnWhereTheSearchStarts(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for children := 1; children < 80; children += 3 {
		tree := newTestTree(resource.Amounts{1e6, 1e8, 0, 1e12, 1e6})
		tree.Options.GangSteps = true
		tree.Options.Improved = children%2 == 0
		tree.pool("root", "p", Pool{})
		for i := range children {
			op := tree.operation("p", fmt.Sprint(i), randomAmounts(rng, tree.Total, 0.02))
			op.Usage = op.Demand.Times(rng.Float64())
			op.Weight = math.Exp(8 * rng.Float64())
			op.Gang = rng.IntN(4) == 0
		}
		var kept Engine
		var r Result
		kept.Update(&tree.Tree, FirstUpdate, &r)
		at := kept.nodes[tree.slots["p"]].pool
		for range 100 {
			s := math.Pow(rng.Float64(), 4)
			var fresh Engine
			fresh.Update(&tree.Tree, FirstUpdate, &r)
			fresh.pools[at].sites = fresh.pools[at].sites[:0]
			fresh.pools[at].hint = 0
			a, b := kept.curvePiece(&kept.pools[at], s)
			c, d := fresh.curvePiece(&fresh.pools[at], s)
			if a != c || b != d || !(a.x < s && s <= b.x) {
				t.Fatalf("%d children, suggestion %g: %v to %v, a new engine says %v to %v", children, s, a, b, c, d)
			}
		}
	}
}

func randomAmounts(rng *rand.Rand, total resource.Amounts, part float64) (a resource.Amounts) {
	for k := range a {
		a[k] = int64(float64(total[k]) * part * rng.Float64())
	}
	return a
}

func TestSteadyUpdatesAllocateNothing(t *testing.T) {
	for _, improved := range []bool{false, true} {
		for _, count := range []int{1, 2} { // results that take turns
			tree := syntheticTree(1000, 1)
			tree.Options.Improved, tree.Options.GangSteps = improved, improved
			var e Engine
			results := make([]Result, count)
			round := 0
			update := func() {
				round++
				churn(tree, round, 0.01)
				e.Update(tree, time.Second, &results[round%count])
			}
			for range 10 {
				update()
			}
			if allocations := testing.AllocsPerRun(100, update); allocations > 1 { // one is by churn
				t.Errorf("improved %v, %d results: an update allocates %g times", improved, count, allocations)
			}
		}
	}
}

func TestFreeSlotsAndOrphansGetNothing(t *testing.T) {
	tree := newTestTree(cores(100))
	tree.hungryPool("root", "p", Pool{})
	tree.add("free", Element{})
	tree.add("orphan", Element{Kind: KindOperation, Parent: 99, Demand: cores(1)})
	tree.add("child of an operation", Element{Kind: KindOperation, Parent: tree.slots["p.op"], Demand: cores(1)})
	loop := int32(len(tree.Elements))
	tree.add("loop", Element{Kind: KindPool, Parent: loop})
	r := tree.run(t, FirstUpdate)
	near(t, "p", r.fair("p"), 100, 1e-9)
	for _, name := range []string{"free", "orphan", "child of an operation", "loop"} {
		near(t, name, r.fair(name), 0, 0)
	}
}

func TestAClusterWithoutNodesHasNoShares(t *testing.T) {
	tree := newTestTree(resource.Amounts{})
	tree.pool("root", "p", Pool{Strong: onlyCPU(10), Integral: Integral{Type: Burst, Flow: cores(1), Burst: cores(2)}})
	tree.operation("p", "op", cores(10))
	tree.setVolume("p", 10)
	tree.run(t, FirstUpdate)
	r := tree.run(t, time.Minute)
	near(t, "op", r.fair("op"), 0, 0)
	near(t, "volume is kept", r.volume("p"), 0, 0)
}

func TestMaxShareRatioIsAShareOfTheParentsResources(t *testing.T) {
	tree := newTestTree(cores(1000))
	tree.pool("root", "parent", Pool{}).Limits = onlyCPU(400)
	tree.hungryPool("parent", "child", Pool{}).MaxShareRatio = 0.5
	tree.operation("child", "half", cores(1000)).MaxShareRatio = 0.5
	r := tree.run(t, FirstUpdate)
	near(t, "child", r.fair("child"), 200, 1e-6)
	near(t, "operation", r.cpu(r.Attributes(&tree.Tree, tree.slots["half"]).Limits), 100, 1e-6)
}

func TestHistoricUsageLowersWeights(t *testing.T) {
	tree := newTestTree(cores(100))
	tree.pool("root", "p", Pool{HistoricUsagePeriod: time.Hour})
	for _, name := range []string{"greedy", "modest"} {
		tree.operation("p", name, cores(1000))
	}
	tree.Elements[tree.slots["greedy"]].Usage = cores(90)
	tree.Elements[tree.slots["modest"]].Usage = cores(10)
	tree.run(t, FirstUpdate)
	var r *testResult
	for range 200 {
		r = tree.run(t, time.Minute)
	}
	near(t, "weight of the greedy one", r.Elements[tree.slots["greedy"]].Weight, math.Exp2(-0.9), 1e-6)
	near(t, "weight of the modest one", r.Elements[tree.slots["modest"]].Weight, math.Exp2(-0.1), 1e-6)
	near(t, "what the modest one gets", r.fair("modest")/r.fair("greedy"), math.Exp2(0.8), 1e-6)
}

func TestAdmitResourcesStartsANewResourceAtTheCurrentRatio(t *testing.T) {
	before := resource.Amounts{100, 100_00, 0, 1000, 0}
	now := before
	now[resource.GPU] = 8
	states := []State{{Volume: resource.VolumeOf(before, 30, 1)}}
	AdmitResources(states, before, now)
	near(t, "gpu volume", states[0].Volume[resource.GPU], 240, 1e-9)
	near(t, "ratio", states[0].Volume.Ratio(now), 30, 1e-9)
	AdmitResources(states, before, now)
	near(t, "admitted once", states[0].Volume[resource.GPU], 240, 1e-9)
}

func TestBestShareLeavesOutMemoryThatNoJobFitsInto(t *testing.T) {
	total := resource.Amounts{100, 100_00, 0, 1000, 0}
	demand := resource.Amounts{10, 10_00, 0, 600, 0} // jobs of 60
	got := BestShare(demand, total, []NodeSize{{Memory: 100, Count: 10}})
	near(t, "memory", got[resource.Memory], 0.6, 1e-12)
	near(t, "cpu", got[resource.CPU], 1, 0)
	if got := BestShare(resource.Amounts{}, total, nil); got[resource.Memory] != 1 {
		t.Errorf("without jobs: %v", got)
	}
}

func TestARelaxedPoolWithoutVolumeStartsAnew(t *testing.T) {
	// Flow 100, last share 0.3, a gap of 100 s: the charge exceeds the volume.
	tree := newTestTree(cores(1000))
	tree.hungryPool("root", "relaxed", Pool{Integral: Integral{Type: Relaxed, Flow: cores(100)}})
	tree.setVolume("relaxed", 18)
	tree.run(t, FirstUpdate)
	r := tree.run(t, 100*time.Second)
	near(t, "volume after the gap", r.volume("relaxed"), 0, 0)
	near(t, "last share", r.States[tree.slots["relaxed"]].LastShareRatio, 0, 0)
	for range 30 {
		r = tree.run(t, time.Minute)
	}
	near(t, "integral share later", r.split("relaxed")[1], 100, 1)
}

func TestFreeVolumeGoesToSiblingsThatCanStoreIt(t *testing.T) {
	tree := newTestTree(cores(1000))
	tree.pool("root", "project", Pool{Integral: Integral{DistributeFreeVolume: On}})
	tree.pool("project", "full", Pool{Integral: Integral{Type: Relaxed, Flow: cores(100)}})
	tree.pool("project", "empty", Pool{Integral: Integral{Type: Relaxed, Flow: cores(100)}})
	tree.pool("project", "closed", Pool{Integral: Integral{Type: Relaxed, Flow: cores(100), RefuseFreeVolume: true}})
	tree.setVolume("full", 8640)
	tree.run(t, FirstUpdate)
	r := tree.run(t, time.Minute)
	near(t, "full", r.volume("full"), 8.64e6, 1e-3)
	near(t, "empty: its flow and the neighbour's", r.volume("empty"), 12_000, 1e-6)
	near(t, "closed: its flow only", r.volume("closed"), 6_000, 1e-6)
}

func TestExplainNamesWhatBinds(t *testing.T) {
	tree := newTestTree(cores(100))
	tree.Options.GangSteps = true
	tree.pool("root", "limited", Pool{}).Limits = onlyCPU(20)
	tree.operation("limited", "below a limit", cores(500))
	tree.operation("root", "satisfied", cores(1))
	tree.operation("root", "limited itself", cores(500)).Limits = onlyCPU(2)
	tree.operation("root", "hungry", cores(500))
	tree.operation("root", "gang", cores(99)).Gang = true
	tree.pool("root", "fifo", Pool{Mode: FIFO})
	tree.operation("fifo", "first", cores(500))
	tree.operation("fifo", "second", cores(500)).StartTime = 1
	r := tree.run(t, FirstUpdate)
	for _, c := range []struct {
		name  string
		bound Bound
		by    string
	}{
		{"satisfied", BoundDemand, "satisfied"},
		{"limited itself", BoundLimit, "limited itself"},
		{"below a limit", BoundAncestorLimit, "limited"},
		{"hungry", BoundCluster, "root"},
		{"first", BoundCluster, "root"},
		{"second", BoundFIFO, "second"},
		{"gang", BoundGang, "gang"},
	} {
		d := Explain(&tree.Tree, r.Result, tree.slots[c.name])
		if d.Bound != c.bound || d.By != tree.slots[c.by] {
			t.Errorf("%s: bound by %s of %d, want %s of %s", c.name, d.Bound, d.By, c.bound, c.by)
		}
	}
	d := Explain(&tree.Tree, r.Result, tree.slots["below a limit"])
	if d.Resource != resource.CPU {
		t.Errorf("scarce there: %s", d.Resource)
	}
}

func TestVerifyFindsAForgedResult(t *testing.T) {
	build := func() (*testTree, *Result) {
		tree := newTestTree(cores(100))
		tree.hungryPool("root", "a", Pool{Strong: onlyCPU(10)}).Limits = onlyCPU(60)
		tree.hungryPool("root", "b", Pool{Integral: Integral{Type: Relaxed, Flow: cores(10)}}).Weight = 2
		tree.pool("root", "c", Pool{Mode: FIFO})
		tree.operation("c", "c.op", cores(3))
		return tree, Compute(&tree.Tree, time.Minute)
	}
	tree, result := build()
	if found := Verify(&tree.Tree, time.Minute, result); len(found) > 0 {
		t.Fatalf("an honest result: %v", found)
	}
	for name, forge := range map[string]func(*Result){
		"a child gets more":       func(r *Result) { r.Elements[tree.slots["a.op"]].FairShare[resource.CPU] += 0.1 },
		"a pool gets more":        func(r *Result) { r.Elements[tree.slots["a"]].FairShare = resource.Uniform(0.9) },
		"an offer is larger":      func(r *Result) { r.Pool(tree.slots["b"]).FitFactor *= 1.5 },
		"a FIFO offer is smaller": func(r *Result) { r.Pool(tree.slots["c"]).FitFactor = 0.01 },
		"volume out of nowhere":   func(r *Result) { r.States[tree.slots["b"]].Volume[resource.CPU] += 1 },
		"a negative part":         func(r *Result) { r.Pools[1].Strong[resource.CPU] = -1 },
	} {
		_, result := build()
		forge(result)
		if found := Verify(&tree.Tree, time.Minute, result); len(found) == 0 {
			t.Errorf("%s: nothing was found", name)
		}
	}
}
