package fairshare

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/value/resource"
)

// The worked examples of the specification (E1–E18) and of the documents.

func TestE1VolumeIsCoresTimesSeconds(t *testing.T) {
	for _, c := range []struct {
		usage, flow float64
		want        time.Duration
	}{
		{100, 0, 10 * time.Minute},
		{50, 0, 20 * time.Minute},
		{100, 50, 20 * time.Minute},
	} {
		t.Run(fmt.Sprintf("%g cpu, flow %g", c.usage, c.flow), func(t *testing.T) {
			tree := newTestTree(cores(1000))
			tree.Options.SmoothPeriod = time.Second // spend at full speed to the end
			tree.pool("root", "p", Pool{Integral: Integral{Type: Burst, Flow: cores(c.flow), Burst: cores(c.usage)}})
			tree.operation("p", "op", cores(c.usage))
			tree.setVolume("p", 60)
			near(t, "core seconds at the start", tree.States[tree.slots["p"]].Volume[resource.CPU], 60_000, 1e-9)
			elapsed, lasted := FirstUpdate, time.Duration(0)
			for {
				r := tree.run(t, elapsed)
				if r.split("p")[1] < c.usage*(1-1e-9) {
					break
				}
				elapsed = time.Second
				lasted += elapsed
			}
			near(t, "seconds at full speed", lasted.Seconds(), c.want.Seconds(), 2)
		})
	}
	t.Run("a flow of 100 sustains 100 for ever", func(t *testing.T) {
		tree := newTestTree(cores(1000))
		tree.hungryPool("root", "other", Pool{})
		tree.pool("root", "p", Pool{Integral: Integral{Type: Burst, Flow: cores(100), Burst: cores(100)}})
		tree.operation("p", "op", cores(100))
		tree.run(t, FirstUpdate)
		for range 500 {
			tree.run(t, time.Minute)
		}
		r := tree.run(t, time.Minute)
		near(t, "fair share", r.fair("p"), 100, 1e-6)
		near(t, "integral part", r.split("p")[1], 100, 1e-6)
	})
}

func TestE2BurstOfTwiceTheFlowLastsHalfTheTime(t *testing.T) {
	tree := newTestTree(cores(2000))
	tree.pool("root", "p", Pool{Integral: Integral{Type: Burst, Flow: cores(1000), Burst: cores(2000)}})
	op := tree.operation("p", "op", resource.Amounts{})
	r := tree.run(t, FirstUpdate)
	capacity := tree.Options.Capacity(tree.Total, r.Pool(1).FlowRatio)
	near(t, "flow ratio", r.Pool(1).FlowRatio, 0.5, 1e-12)
	near(t, "burst ratio", r.Pool(1).BurstRatio, 1, 1e-12)
	near(t, "capacity ratio", capacity.Ratio(tree.Total), 43_200, 1e-6)
	near(t, "capacity", capacity[resource.CPU], 86.4e6, 1e-3)
	for range 12 * 60 {
		r = tree.run(t, time.Minute)
	}
	near(t, "saved in 12 idle hours", r.volume("p"), 43.2e6, 1e-3)
	op.Demand = cores(4000)
	tree.run(t, 0)
	minutes := 0
	for r = tree.run(t, time.Minute); r.split("p")[1] > 1999.999; r = tree.run(t, time.Minute) {
		minutes++
	}
	// During the last smoothing period the speed falls.
	near(t, "minutes at 2000", float64(minutes), 12*60, 3)

	seconds, ok := BurstDuration(43_200, 1, 0.5)
	if !ok {
		t.Fatal("a burst above the flow has a duration")
	}
	near(t, "estimated burst usage duration of a full bucket", seconds, 86_400, 1e-9)
	if _, ok := BurstDuration(43_200, 0.5, 0.5); ok {
		t.Error("a burst that the flow sustains has no duration")
	}
}

// productionAndResearch runs the documents' example: production demands 2000 cores
// in the second half of each day, research always demands everything.
func productionAndResearch(t *testing.T, days int, step time.Duration, look func(at time.Duration, r *testResult)) {
	tree := newTestTree(cores(2000))
	tree.pool("root", "production", Pool{Integral: Integral{Type: Burst, Flow: cores(1000), Burst: cores(2000)}})
	tree.operation("production", "nightly", resource.Amounts{})
	opSlot := tree.slots["nightly"]
	tree.hungryPool("root", "research", Pool{Integral: Integral{Type: Relaxed, Flow: cores(1000)}})
	elapsed := FirstUpdate
	for at := time.Duration(0); at <= time.Duration(days)*24*time.Hour; at += step {
		busy := at%(24*time.Hour) >= 12*time.Hour
		tree.Elements[opSlot].Demand = resource.Amounts{}
		if busy {
			tree.Elements[opSlot].Demand = cores(2000)
		}
		r := tree.run(t, elapsed)
		if len(r.Alerts) > 0 {
			t.Fatalf("alerts: %v", r.Alerts)
		}
		look(at, r)
		elapsed = step
	}
}

func TestE3ProductionAndResearchShareTwoThousandCores(t *testing.T) {
	type row struct{ integral, researchIntegral, researchWeight, volume, researchVolume float64 }
	want := map[time.Duration]row{
		6 * time.Hour:  {0, 1000, 1000, 21.6e6, 0.06e6},
		12 * time.Hour: {2000, 0, 0, 43.2e6, 0.06e6},
		18 * time.Hour: {2000, 0, 0, 21.6e6, 21.7e6},
		24 * time.Hour: {0, 2000, 0, 0.06e6, 43.2e6},
		36 * time.Hour: {2000, 0, 0, 43.3e6, 0.06e6},
	}
	const step = 10 * time.Second
	production, research, integral, samples := 0.0, 0.0, 0.0, 0.0
	productionAndResearch(t, 3, step, func(at time.Duration, r *testResult) {
		if at >= 48*time.Hour && at < 72*time.Hour {
			production += r.fair("production")
			research += r.fair("research")
			integral += r.split("research")[1]
			samples++
		}
		w, ok := want[at]
		if !ok {
			return
		}
		name := at.String()
		near(t, name+" production integral", r.split("production")[1], w.integral, 1)
		near(t, name+" research integral", r.split("research")[1], w.researchIntegral, 1)
		near(t, name+" research by weight", r.split("research")[2], w.researchWeight, 1)
		near(t, name+" production volume", r.volume("production"), w.volume, 0.06e6)
		near(t, name+" research volume", r.volume("research"), w.researchVolume, 0.06e6)
	})
	near(t, "third day, production", production/samples, 999.9, 0.5)
	near(t, "third day, research", research/samples, 1000.8, 1)
	near(t, "third day, research integral", integral/samples, 1000.5, 1)
}

func TestE4BurstPoolSlidesToItsFlow(t *testing.T) {
	tree := newTestTree(cores(1000))
	tree.hungryPool("root", "burst", Pool{Integral: Integral{Type: Burst, Flow: cores(100), Burst: cores(500)}})
	tree.hungryPool("root", "neighbour", Pool{})
	tree.setVolume("burst", 8640)
	r := tree.run(t, FirstUpdate)
	nearAll(t, "full bucket", r.split("burst"), [3]float64{0, 500, 250})
	near(t, "neighbour", r.fair("neighbour"), 250, 1e-6)
	const step = time.Second
	lasted := 0
	for r = tree.run(t, step); r.split("burst")[1] > 499.999; r = tree.run(t, step) {
		lasted++
	}
	near(t, "seconds at 500", float64(lasted), 21_530, 15)
	for range 600 {
		r = tree.run(t, step)
	}
	near(t, "integral part when exhausted", r.split("burst")[1], 100, 0.1)
	near(t, "weight part when exhausted", r.split("burst")[2], 450, 0.1)
	near(t, "neighbour then", r.fair("neighbour"), 450, 0.1)
	near(t, "volume settles at flow times the smooth period", r.volume("burst"), 6000, 10)
}

func TestE5StrongGuaranteesComeBeforeWeights(t *testing.T) {
	build := func(adhoc float64) *testResult {
		tree := newTestTree(cores(100))
		tree.pool("root", "project", Pool{Strong: onlyCPU(100)})
		tree.pool("project", "adhoc", Pool{Strong: onlyCPU(80)})
		tree.operation("adhoc", "adhoc.op", cores(adhoc))
		tree.hungryPool("project", "batch", Pool{}).Weight = 10
		tree.hungryPool("project", "backup", Pool{Strong: onlyCPU(20)})
		return tree.run(t, FirstUpdate)
	}
	r := build(40)
	near(t, "adhoc", r.fair("adhoc"), 40, 1e-6)
	near(t, "batch", r.fair("batch"), 400.0/11, 1e-6)
	nearAll(t, "backup", r.split("backup"), [3]float64{20, 0, 40.0 / 11})
	r = build(1000)
	near(t, "hungry adhoc", r.fair("adhoc"), 80, 1e-6)
	near(t, "batch then", r.fair("batch"), 0, 1e-6)
	near(t, "backup then", r.fair("backup"), 20, 1e-6)
}

func TestE6SharesGrowInAllResourcesAtOnce(t *testing.T) {
	tree := newTestTree(resource.Amounts{100, 100_00, 0, 1000, 0})
	tree.operation("root", "X", resource.Amounts{100, 100_00, 0, 2000, 0})
	tree.operation("root", "Y", resource.Amounts{100, 200_00, 0, 1000, 0})
	r := tree.run(t, FirstUpdate)
	for name, want := range map[string]resource.Shares{
		"X": {1. / 3, 1. / 3, 0, 2. / 3, 0},
		"Y": {1. / 3, 2. / 3, 0, 1. / 3, 0},
	} {
		if got := r.Elements[tree.slots[name]].FairShare; !got.Near(want, 1e-7) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

func TestE7UsageIsKeptFirst(t *testing.T) {
	n := node{usage: resource.Shares{.1, .2, 0, .1, 0}, demand: resource.Shares{.4, .8, 0, .4, 0}, limits: resource.Ones()}
	points := appendOperationCurve(nil, &n)
	for _, c := range []struct {
		s    float64
		want resource.Shares
	}{
		{0, resource.Shares{}},
		{.1, resource.Shares{.1, .1, 0, .1, 0}},
		{.2, resource.Shares{.1, .2, 0, .1, 0}},
		{.5, resource.Shares{.25, .5, 0, .25, 0}},
		{.8, resource.Shares{.4, .8, 0, .4, 0}},
		{1, resource.Shares{.4, .8, 0, .4, 0}},
	} {
		if got := operationAt(&n, c.s); !got.Near(c.want, 1e-12) {
			t.Errorf("at %g: got %v, want %v", c.s, got, c.want)
		}
		if got := valueAt(points, c.s); !got.Near(c.want, 1e-12) {
			t.Errorf("curve at %g: got %v, want %v", c.s, got, c.want)
		}
	}
}

func TestE8FourKindsOfPools(t *testing.T) {
	tree := newTestTree(cores(100))
	tree.hungryPool("root", "strong", Pool{Strong: onlyCPU(10)})
	tree.hungryPool("root", "burst", Pool{Integral: Integral{Type: Burst, Flow: cores(10), Burst: cores(10)}})
	tree.hungryPool("root", "relaxed", Pool{Integral: Integral{Type: Relaxed, Flow: cores(10)}}).Weight = 2
	tree.hungryPool("root", "none", Pool{}).Weight = 3
	tree.run(t, FirstUpdate)
	r := tree.run(t, time.Minute)
	nearAll(t, "strong", r.split("strong"), [3]float64{10, 0, 10})
	nearAll(t, "burst", r.split("burst"), [3]float64{0, 10, 10})
	nearAll(t, "relaxed", r.split("relaxed"), [3]float64{0, 10, 20})
	nearAll(t, "none", r.split("none"), [3]float64{0, 0, 30})
}

func TestE9OvercommitIsScaledByOneFactor(t *testing.T) {
	tree := newTestTree(cores(100))
	tree.hungryPool("root", "a", Pool{Strong: onlyCPU(30)})
	tree.hungryPool("root", "b", Pool{Strong: onlyCPU(120)})
	r := tree.run(t, FirstUpdate)
	near(t, "a", r.fair("a"), 20, 1e-6)
	near(t, "b", r.fair("b"), 80, 1e-6)
	if len(r.Alerts) == 0 || r.Alerts[0].Code != AlertOvercommit {
		t.Errorf("alerts: %v", r.Alerts)
	}

	tree = newTestTree(cores(100))
	tree.hungryPool("root", "strong", Pool{Strong: onlyCPU(90)})
	tree.hungryPool("root", "burst", Pool{Integral: Integral{Type: Burst, Flow: cores(60), Burst: cores(60)}})
	tree.setVolume("burst", 3600)
	r = tree.run(t, FirstUpdate)
	nearAll(t, "strong", r.split("strong"), [3]float64{60, 0, 0})
	nearAll(t, "burst", r.split("burst"), [3]float64{0, 40, 0})
}

func TestE10RelaxedPoolsDivideByVolume(t *testing.T) {
	tree := newTestTree(cores(100))
	tree.hungryPool("root", "a", Pool{Integral: Integral{Type: Relaxed, Flow: cores(100)}})
	tree.hungryPool("root", "b", Pool{Integral: Integral{Type: Relaxed, Flow: cores(100)}})
	tree.setVolume("a", 6)
	tree.setVolume("b", 18)
	r := tree.run(t, FirstUpdate)
	nearAll(t, "a", r.split("a"), [3]float64{0, 10, 30})
	nearAll(t, "b", r.split("b"), [3]float64{0, 30, 30})

	tree = newTestTree(cores(100))
	tree.hungryPool("root", "strong", Pool{Strong: onlyCPU(50)})
	tree.hungryPool("root", "relaxed", Pool{Integral: Integral{Type: Relaxed, Flow: cores(100)}})
	tree.setVolume("relaxed", 3600)
	r = tree.run(t, FirstUpdate)
	near(t, "relaxed beside strong 50", r.split("relaxed")[1], 50, 1e-6)

	tree = newTestTree(cores(100))
	tree.hungryPool("root", "both", Pool{Strong: onlyCPU(40), Integral: Integral{Type: Relaxed, Flow: cores(100)}})
	tree.hungryPool("root", "relaxed", Pool{Integral: Integral{Type: Relaxed, Flow: cores(100)}})
	tree.setVolume("both", 3600)
	tree.setVolume("relaxed", 3600)
	r = tree.run(t, FirstUpdate)
	nearAll(t, "strong 40 and relaxed", r.split("both"), [3]float64{40, 30, 0})
	nearAll(t, "relaxed", r.split("relaxed"), [3]float64{0, 30, 0})
}

func TestE11RelaxedPoolsSpendAtMostThreeTimesTheirFlow(t *testing.T) {
	for multiplier, want := range map[float64]float64{0: 30, 5: 50} {
		tree := newTestTree(cores(100))
		tree.hungryPool("root", "relaxed", Pool{Integral: Integral{Type: Relaxed, Flow: cores(10), RelaxedMultiplier: multiplier}})
		tree.setVolume("relaxed", 1e6)
		r := tree.run(t, FirstUpdate)
		nearAll(t, "relaxed", r.split("relaxed"), [3]float64{0, want, 100 - want})
	}
}

func TestE12GuaranteesOfAncestorsLeaveRoomForIntegralShares(t *testing.T) {
	tree := newTestTree(cores(100))
	tree.pool("root", "parent", Pool{Strong: onlyCPU(50)}).Limits = onlyCPU(50)
	tree.hungryPool("parent", "burst", Pool{Integral: Integral{Type: Burst, Flow: cores(10), Burst: cores(10)}})
	tree.setVolume("burst", 3600)
	r := tree.run(t, FirstUpdate)
	nearAll(t, "child of a pool whose guarantee fills its limit", r.split("burst"), [3]float64{0, 0, 50})

	tree = newTestTree(cores(100))
	tree.pool("root", "parent", Pool{}).Limits = onlyCPU(50)
	tree.hungryPool("parent", "burst", Pool{Integral: Integral{Type: Burst, Flow: cores(100), Burst: cores(100)}})
	tree.setVolume("burst", 3600)
	r = tree.run(t, FirstUpdate)
	nearAll(t, "child of a limited pool", r.split("burst"), [3]float64{0, 50, 0})
}

func TestE13FIFOPoolsServeOneAfterAnother(t *testing.T) {
	build := func(gang, steps, truncate, neighbour bool) *testResult {
		tree := newTestTree(cores(100))
		tree.Options.GangSteps, tree.Options.TruncateFIFO = steps, truncate
		tree.pool("root", "fifo", Pool{Mode: FIFO})
		for i, demand := range []float64{30, 50, 60} {
			op := tree.operation("fifo", fmt.Sprint(i), cores(demand))
			op.StartTime, op.Gang = int64(i), gang
		}
		if neighbour {
			tree.hungryPool("root", "other", Pool{})
		}
		return tree.run(t, FirstUpdate)
	}
	for _, c := range []struct {
		name                             string
		gang, steps, truncate, neighbour bool
		want                             [3]float64
		pool, other                      float64
	}{
		{"alone", false, false, false, false, [3]float64{30, 50, 20}, 100, 0},
		{"beside a hungry pool", false, false, false, true, [3]float64{30, 20, 0}, 50, 50},
		{"gangs alone", true, true, false, false, [3]float64{30, 50, 0}, 80, 0},
		{"gangs beside a hungry pool", true, true, false, true, [3]float64{30, 0, 0}, 30, 70},
		{"truncated gangs beside a hungry pool", true, false, true, true, [3]float64{30, 0, 0}, 30, 50},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := build(c.gang, c.steps, c.truncate, c.neighbour)
			for i, want := range c.want {
				near(t, fmt.Sprint("operation ", i), r.fair(fmt.Sprint(i)), want, 1e-6)
			}
			near(t, "pool", r.fair("fifo"), c.pool, 1e-6)
			if c.neighbour {
				near(t, "other", r.fair("other"), c.other, 1e-6)
			}
		})
	}
}

func TestE14GangsThatJumpTogether(t *testing.T) {
	for _, c := range []struct {
		name            string
		demands         [2]float64
		steps, improved bool
		want            [2]float64
	}{
		{"no steps", [2]float64{60, 60}, false, false, [2]float64{50, 50}},
		{"steps", [2]float64{60, 60}, true, false, [2]float64{0, 0}},
		{"steps, improved", [2]float64{60, 60}, true, true, [2]float64{60, 0}},
		{"steps, unequal", [2]float64{60, 45}, true, false, [2]float64{0, 45}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tree := newTestTree(cores(100))
			tree.Options.GangSteps, tree.Options.Improved = c.steps, c.improved
			for i, demand := range c.demands {
				name := fmt.Sprint("pool", i)
				tree.pool("root", name, Pool{})
				tree.operation(name, fmt.Sprint("gang", i), cores(demand)).Gang = true
			}
			r := tree.run(t, FirstUpdate)
			near(t, "first", r.fair("gang0"), c.want[0], 1e-6)
			near(t, "second", r.fair("gang1"), c.want[1], 1e-6)
		})
	}
}

func TestE15GuaranteesAreCompletedByTheMainResource(t *testing.T) {
	const gigabyte = 1_000_000_000
	tree := newTestTree(resource.Amounts{10_000, 1000_00, 0, 4000 * gigabyte, 0})
	tree.pool("root", "A", Pool{Strong: onlyCPU(100)})
	tree.pool("A", "A1", Pool{Strong: onlyCPU(50).With(resource.Memory, 300*gigabyte)})
	tree.pool("A", "A2", Pool{Strong: onlyCPU(50)})
	r := tree.run(t, FirstUpdate)
	for name, want := range map[string]resource.Amounts{
		"A":  {1000, 100_00, 0, 400 * gigabyte, 0},
		"A1": {500, 50_00, 0, 300 * gigabyte, 0},
		"A2": {500, 50_00, 0, 100 * gigabyte, 0},
	} {
		if got := r.Pool(tree.slots[name]).Inferred; got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

func TestE16TheLowerValueIsTakenAtAJump(t *testing.T) {
	tree := newTestTree(resource.Amounts{0, 100_00, 0, 0, 100})
	tree.pool("root", "p", Pool{}).Limits = onlyCPU(40)
	tree.operation("p", "X", resource.Amounts{0, 10_00, 0, 0, 40}).Weight = 10
	tree.operation("p", "Y", resource.Amounts{0, 1000_00, 0, 0, 0})
	var e Engine
	var r Result
	e.Update(&tree.Tree, FirstUpdate, &r)
	p := &e.pools[e.nodes[tree.slots["p"]].pool]
	// X reaches its demand where the pool needs suggestion 0.4. Beyond that, Y
	// grows up to the pool's limit without needing a larger suggestion. At 0.4
	// itself, the pool gets 0.14 of the cpu although 0.4 is allowed.
	for suggestion, want := range map[float64]float64{.4: .14, math.Nextafter(.4, 1): .4} {
		factor, share := e.poolAt(p, suggestion, &p.bounds)
		near(t, "share", share[resource.CPU], want, 1e-9)
		near(t, "curve", valueAt(curvePoints(&e, p), suggestion)[resource.CPU], want, 1e-9)
		if suggestion == .4 {
			near(t, "fit factor: Y's share", factor, .04, 1e-12)
			near(t, "X's network", share[resource.Network], .4, 1e-12)
		}
	}
}

func TestE17WeightsAreInferredFromGuarantees(t *testing.T) {
	tree := newTestTree(cores(100))
	tree.Options.InferWeightMultiplier = 10
	tree.pool("root", "parent", Pool{Strong: onlyCPU(60)})
	tree.hungryPool("parent", "strong", Pool{Strong: onlyCPU(20)})
	tree.hungryPool("parent", "both", Pool{Strong: onlyCPU(10), Integral: Integral{Type: Burst, Flow: cores(10)}})
	tree.hungryPool("parent", "nothing", Pool{})
	r := tree.run(t, FirstUpdate)
	for name, want := range map[string]float64{"strong": 20. / 7, "both": 20. / 7, "nothing": 1} {
		near(t, name, r.Elements[tree.slots[name]].Weight, want, 1e-9)
	}
}

func TestE18EstimatedGuaranteeUnderFullLoad(t *testing.T) {
	tree := newTestTree(cores(100))
	tree.pool("root", "a", Pool{Strong: onlyCPU(60)})
	tree.pool("root", "b", Pool{Strong: onlyCPU(20)}).Weight = 2
	tree.pool("a", "a1", Pool{Strong: onlyCPU(20)})
	tree.pool("a", "a2", Pool{}).Weight = 3
	tree.operation("a2", "op", cores(1))
	r := tree.run(t, FirstUpdate)
	for name, want := range map[string]float64{"root": .8, "a": .6, "b": .2, "a1": .3, "a2": .3, "op": .3} {
		near(t, name, r.Attributes(&tree.Tree, tree.slots[name]).Estimated[resource.CPU], want, 1e-9)
	}
}

func TestGuaranteedRatioDividesTheWholeClusterAndCountsFlows(t *testing.T) {
	tree := newTestTree(cores(100))
	tree.pool("root", "strong", Pool{Strong: onlyCPU(40)})
	tree.pool("root", "relaxed", Pool{Integral: Integral{Type: Relaxed, Flow: cores(20)}})
	r := tree.run(t, FirstUpdate)
	for name, want := range map[string]float64{"strong": .6, "relaxed": .4} {
		near(t, name, r.Attributes(&tree.Tree, tree.slots[name]).Guaranteed[resource.CPU], want, 1e-9)
	}
}
