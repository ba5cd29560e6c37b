package fairshare

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/value/resource"
)

// What the user documents state about pools, operations and integral guarantees,
// and rules of the specification without a worked example.

func TestSiblingsShareInProportionToTheirWeights(t *testing.T) {
	t.Run("pools of weight 2 and 1", func(t *testing.T) {
		tree := newTestTree(cores(90))
		tree.hungryPool("root", "two", Pool{}).Weight = 2
		tree.hungryPool("root", "one", Pool{}).Weight = 1
		r := tree.run(t, FirstUpdate)
		near(t, "two", r.fair("two"), 60, 1e-6)
		near(t, "one", r.fair("one"), 30, 1e-6)
	})
	t.Run("a pool without a weight weighs 1", func(t *testing.T) {
		tree := newTestTree(cores(90))
		tree.hungryPool("root", "two", Pool{}).Weight = 2
		tree.hungryPool("root", "unset", Pool{})
		r := tree.run(t, FirstUpdate)
		near(t, "unset", r.fair("unset"), 30, 1e-6)
	})
	t.Run("operations of weight 2 and 1 divide their pool's share", func(t *testing.T) {
		tree := newTestTree(cores(90))
		tree.pool("root", "p", Pool{}).Limits = onlyCPU(60)
		tree.operation("p", "two", cores(900)).Weight = 2
		tree.operation("p", "one", cores(900)).Weight = 1
		r := tree.run(t, FirstUpdate)
		near(t, "two", r.fair("two"), 40, 1e-6)
		near(t, "one", r.fair("one"), 20, 1e-6)
	})
}

func TestAGuaranteeHoldsWhereTheGuaranteedResourceIsDominant(t *testing.T) {
	for _, c := range []struct {
		name   string
		demand resource.Amounts
		strong resource.Partial
		want   float64 // cores accounted to the guarantee
	}{
		{"cpu is dominant", resource.Amounts{100, 100_00, 0, 50e6, 0}, onlyCPU(50), 50},
		{"cpu and memory are in the cluster's proportion", cores(100), onlyCPU(50), 50},
		{"memory is dominant", resource.Amounts{50, 50_00, 0, 100e6, 0}, onlyCPU(50), 25},
		{"memory is dominant and guaranteed", resource.Amounts{50, 50_00, 0, 100e6, 0}, onlyCPU(50).With(resource.Memory, 100e6), 50},
		{"no memory is guaranteed", cores(100), onlyCPU(50).With(resource.Memory, 0), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			tree := newTestTree(cores(100))
			tree.pool("root", "p", Pool{Strong: c.strong})
			tree.operation("p", "op", c.demand)
			tree.hungryPool("root", "neighbour", Pool{}).Weight = 1e6 // gets everything that is not guaranteed
			near(t, "strong part", tree.run(t, FirstUpdate).split("p")[0], c.want, 1e-3)
		})
	}
}

func TestStrongGuaranteesLastForEver(t *testing.T) {
	tree := newTestTree(cores(100))
	tree.hungryPool("root", "p", Pool{Strong: onlyCPU(30)})
	tree.hungryPool("root", "neighbour", Pool{}).Weight = 1e6
	tree.run(t, FirstUpdate)
	for range 100 {
		r := tree.run(t, 24*time.Hour)
		near(t, "strong part", r.split("p")[0], 30, 1e-6)
		near(t, "share of the cluster", r.Pool(tree.slots["p"]).StrongGuarantee.Largest(), 0.3, 1e-9)
	}
}

func TestLimitsBoundThePoolsShare(t *testing.T) {
	for _, kind := range []resource.Kind{resource.UserSlots, resource.CPU, resource.Memory} {
		t.Run(kind.String(), func(t *testing.T) {
			tree := newTestTree(cores(100))
			tree.hungryPool("root", "p", Pool{}).Limits = resource.Partial{}.With(kind, tree.Total[kind]/5)
			tree.hungryPool("root", "neighbour", Pool{})
			r := tree.run(t, FirstUpdate)
			near(t, "limited pool", r.fair("p"), 20, 1e-6)
			near(t, "neighbour", r.fair("neighbour"), 80, 1e-6)
		})
	}
}

func TestFIFOSortParametersAreComparedOneAfterAnother(t *testing.T) {
	type op struct {
		name           string
		weight         float64
		start, pending int64
	}
	operations := []op{{"a", 1, 30, 5}, {"b", 2, 20, 5}, {"c", 2, 10, 9}, {"d", 1, 10, 1}, {"e", 1, 10, 1}}
	for _, c := range []struct {
		name string
		keys []FIFOKey
		want string
	}{
		{"start_time: older first, ties in the order of the tree", []FIFOKey{ByStartTime}, "c d e b a"},
		{"weight: heavier first", []FIFOKey{ByWeight}, "b c a d e"},
		{"pending_job_count: small ones first", []FIFOKey{ByPending}, "d e a b c"},
		{"the default is weight, then start_time", nil, "c b d e a"},
		{"pending_job_count, then weight", []FIFOKey{ByPending, ByWeight}, "d e b a c"},
		{"start_time, then weight, then pending_job_count", []FIFOKey{ByStartTime, ByWeight, ByPending}, "c d e b a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tree := newTestTree(cores(100))
			tree.pool("root", "p", Pool{Mode: FIFO, FIFOKeys: c.keys})
			for _, o := range operations {
				e := tree.operation("p", o.name, cores(60))
				e.Weight, e.StartTime, e.Pending = o.weight, o.start, o.pending
			}
			r := tree.run(t, FirstUpdate)
			order := make([]string, len(operations))
			for _, o := range operations {
				order[r.Elements[tree.slots[o.name]].FIFOIndex] = o.name
			}
			if got := strings.Join(order, " "); got != c.want {
				t.Errorf("order %s, want %s", got, c.want)
			}
			// The first gets its demand, the second the rest.
			near(t, "first", r.fair(order[0]), 60, 1e-6)
			near(t, "second", r.fair(order[1]), 40, 1e-6)
			near(t, "third", r.fair(order[2]), 0, 1e-6)
		})
	}
}

func TestWeightsAndLimitsOfAnOperationActInItsShare(t *testing.T) {
	tree := newTestTree(cores(1000))
	tree.pool("root", "p", Pool{})
	tree.operation("p", "heavy", cores(5000)).Weight = 3
	tree.operation("p", "light", cores(5000))
	tree.operation("p", "200 slots", cores(5000)).Limits = resource.Partial{}.With(resource.UserSlots, 200)
	tree.operation("p", "a tenth", cores(5000)).MaxShareRatio = 0.1
	r := tree.run(t, FirstUpdate)
	for name, want := range map[string]float64{"heavy": 540, "light": 180, "200 slots": 180, "a tenth": 100} {
		near(t, name, r.fair(name), want, 1e-6)
	}
	tree.Elements[tree.slots["heavy"]].Demand = cores(100)
	r = tree.run(t, FirstUpdate)
	for name, want := range map[string]float64{"heavy": 100, "light": 600, "200 slots": 200, "a tenth": 100} {
		near(t, name+", when there is more", r.fair(name), want, 1e-6)
	}
}

func TestDynamicCharacteristics(t *testing.T) {
	tree := newTestTree(resource.Amounts{100, 100_00, 0, 1000, 0})
	tree.pool("root", "p", Pool{Strong: onlyCPU(30)})
	x := tree.operation("p", "x", resource.Amounts{60, 80_00, 0, 100, 0})
	x.Usage = resource.Amounts{30, 60_00, 0, 100, 0}
	y := tree.operation("root", "y", resource.Amounts{20, 20_00, 0, 900, 0})
	y.Usage = resource.Amounts{10, 20_00, 0, 700, 0}
	r := tree.run(t, FirstUpdate)
	attributes := func(name string) Attributes { return r.Attributes(&tree.Tree, tree.slots[name]) }
	usage := 0.0
	for _, c := range []struct {
		name                  string
		usage, demand, shared float64 // ratios
		dominant              resource.Kind
	}{
		{"x", 0.6, 0.8, 0.8, resource.CPU},
		{"y", 0.7, 0.9, 0.9, resource.Memory},
		{"p", 0.6, 0.8, 0.8, resource.CPU},
	} {
		a := attributes(c.name)
		near(t, c.name+": usage ratio", a.Usage.Largest(), c.usage, 1e-12)
		near(t, c.name+": demand ratio", a.Demand.Largest(), c.demand, 1e-12)
		near(t, c.name+": fair share ratio", r.Elements[tree.slots[c.name]].FairShare.Largest(), c.shared, 1e-9)
		if a.Dominant != c.dominant {
			t.Errorf("%s: dominant resource %s, want %s", c.name, a.Dominant, c.dominant)
		}
		if c.name != "p" {
			usage += a.Usage.Largest()
		}
	}
	if usage <= 1 {
		t.Errorf("usage ratios of operations with different dominant resources sum to %g, not to more than one", usage)
	}
	if root := r.Elements[0].FairShare.Largest(); root > 1+Epsilon {
		t.Errorf("fair shares sum to %g of a resource", root)
	}
	near(t, "min share ratio", r.Pool(tree.slots["p"]).StrongGuarantee.Largest(), 0.3, 1e-12)
	near(t, "pool's demand is the sum of its operations'", attributes("p").Demand[resource.UserSlots], 0.6, 1e-12)
	near(t, "root's usage", attributes("root").Usage[resource.CPU], 0.8, 1e-12)
}

func TestAnIdlePoolFillsInADayAndStops(t *testing.T) {
	tree := newTestTree(cores(1000))
	tree.pool("root", "p", Pool{Integral: Integral{Type: Burst, Flow: cores(100), Burst: cores(500)}})
	r := tree.run(t, FirstUpdate)
	near(t, "nothing flows in before time passes", r.volume("p"), 0, 0)
	for hour := 1; hour <= 30; hour++ {
		r = tree.run(t, time.Hour)
		near(t, fmt.Sprint("volume after ", hour, " hours"), r.volume("p"), float64(min(hour, 24))*3600*100, 1e-3)
	}
	near(t, "k × resource_flow_ratio", r.States[tree.slots["p"]].Volume.Ratio(tree.Total), 86_400*0.1, 1e-9)
}

func TestStrongGuaranteesComeBeforeVolume(t *testing.T) {
	for name, kind := range map[string]GuaranteeType{"burst": Burst, "relaxed": Relaxed} {
		t.Run(name, func(t *testing.T) {
			tree := newTestTree(cores(100))
			tree.pool("root", "p", Pool{Strong: onlyCPU(40), Integral: Integral{Type: kind, Flow: cores(20), Burst: cores(60)}})
			tree.operation("p", "op", cores(30))
			op := tree.slots["op"]
			tree.hungryPool("root", "neighbour", Pool{}).Weight = 1e6
			tree.setVolume("p", 600)
			r := tree.run(t, FirstUpdate)
			nearAll(t, "demand within the strong guarantee", r.split("p"), [3]float64{30, 0, 0})
			before := r.volume("p")
			r = tree.run(t, 10*time.Second)
			near(t, "volume only grows", r.volume("p")-before, 200, 1e-6)

			tree.Elements[op].Demand = cores(70)
			r = tree.run(t, 0)
			nearAll(t, "demand above it", r.split("p"), [3]float64{40, 30, 0})
			before = r.volume("p")
			r = tree.run(t, 10*time.Second)
			near(t, "only the rest spends volume", before-r.volume("p"), (30-20)*10, 1e-6)
		})
	}
}

func TestVolumeBuysNoMoreThanTheCapAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		integral Integral
		cap      float64
	}{
		"burst: burst_guarantee_resources": {Integral{Type: Burst, Flow: cores(1000), Burst: cores(2000)}, 2000},
		"relaxed: three times the flow":    {Integral{Type: Relaxed, Flow: cores(1000)}, 3000},
	} {
		t.Run(name, func(t *testing.T) {
			tree := newTestTree(cores(10_000))
			tree.hungryPool("root", "p", Pool{Integral: c.integral})
			tree.hungryPool("root", "neighbour", Pool{})
			tree.setVolume("p", 8640)
			r := tree.run(t, FirstUpdate)
			rest := (10_000 - c.cap) / 2
			nearAll(t, "the cap, and a part of the surplus by weight", r.split("p"), [3]float64{0, c.cap, rest})
			before := r.volume("p")
			r = tree.run(t, 10*time.Second)
			near(t, "the surplus is free of charge", before-r.volume("p"), (c.cap-1000)*10, 1e-3)
		})
	}
}

func TestAttributesOfIntegralPools(t *testing.T) {
	tree := newTestTree(cores(1000))
	// The guarantee of a pool without a type is a quota for its children.
	tree.pool("root", "quota", Pool{Integral: Integral{Flow: cores(900), Burst: cores(900)}})
	tree.pool("quota", "burst", Pool{Integral: Integral{Type: Burst, Flow: cores(100), Burst: cores(500)}})
	tree.pool("quota", "relaxed", Pool{Integral: Integral{Type: Relaxed, Flow: cores(200)}})
	tree.pool("root", "other", Pool{Integral: Integral{Type: Burst, Flow: cores(10), Burst: cores(20)}})
	tree.setVolume("burst", 60)
	r := tree.run(t, FirstUpdate)
	for _, c := range []struct {
		name                               string
		burst, flow, totalBurst, totalFlow float64
	}{
		{"burst", .5, .1, .5, .1},
		{"relaxed", 0, .2, 0, .2},
		{"quota", 0, 0, .5, .3},
		{"root", 0, 0, .52, .31},
	} {
		p := r.Pool(tree.slots[c.name])
		near(t, c.name+": specified_burst_ratio", p.SpecifiedBurstRatio, c.burst, 1e-12)
		near(t, c.name+": specified_resource_flow_ratio", p.FlowRatio, c.flow, 1e-12)
		near(t, c.name+": total_burst_ratio", p.TotalBurstRatio, c.totalBurst, 1e-12)
		near(t, c.name+": total_resource_flow_ratio", p.TotalFlowRatio, c.totalFlow, 1e-12)
	}
	p, state := r.Pool(tree.slots["burst"]), r.States[tree.slots["burst"]]
	near(t, "accumulated_resource_ratio_volume", state.Volume.Ratio(tree.Total), 60, 1e-12)
	near(t, "accumulated_resource_volume/cpu", state.Volume[resource.CPU], 60_000, 1e-9)
	near(t, "integral_pool_capacity", tree.Options.Capacity(tree.Total, p.FlowRatio).Ratio(tree.Total), 8640, 1e-9)
	seconds, ok := BurstDuration(60, p.SpecifiedBurstRatio, p.FlowRatio)
	if !ok {
		t.Fatal("a burst above the flow has a duration")
	}
	near(t, "estimated_burst_usage_duration_seconds, refill included", seconds, 60/(0.5-0.1), 1e-9)
}

func TestOvercommittedFlowsOnlyAlert(t *testing.T) {
	tree := newTestTree(cores(100))
	tree.hungryPool("root", "strong", Pool{Strong: onlyCPU(50)})
	tree.hungryPool("root", "burst", Pool{Integral: Integral{Type: Burst, Flow: cores(60), Burst: cores(50)}})
	tree.setVolume("burst", 3600)
	r := tree.run(t, FirstUpdate)
	nearAll(t, "strong", r.split("strong"), [3]float64{50, 0, 0})
	nearAll(t, "burst", r.split("burst"), [3]float64{0, 50, 0})
	if len(r.Alerts) != 1 || r.Alerts[0].Code != AlertOvercommit || !strings.Contains(r.Alerts[0].Message, "resource flows") {
		t.Errorf("alerts: %v", r.Alerts)
	}
}

func TestPriorityPoolsKeepTheirGuaranteesAtADonorsCost(t *testing.T) {
	for _, c := range []struct {
		name            string
		priority, donor bool
		limit           float64
		first, second   float64
		alerts          int
	}{
		{"without priority both are scaled", false, false, 30, 20, 10, 0},
		{"priority is served first", true, true, 45, 40, 5, 0},
		{"priority takes all that there is", true, true, 30, 30, 0, 0},
		{"priority without a donor is none", true, false, 30, 20, 10, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			tree := newTestTree(cores(100))
			tree.pool("root", "donor", Pool{Strong: onlyCPU(60), PriorityDonor: c.donor}).Limits = onlyCPU(c.limit)
			tree.hungryPool("donor", "first", Pool{Strong: onlyCPU(40), PriorityAdjustment: c.priority})
			tree.hungryPool("donor", "second", Pool{Strong: onlyCPU(20)})
			r := tree.run(t, FirstUpdate)
			near(t, "first", r.split("first")[0], c.first, 1e-6)
			near(t, "second", r.split("second")[0], c.second, 1e-6)
			if len(r.Alerts) != c.alerts || c.alerts > 0 && r.Alerts[0].Code != AlertNoDonor {
				t.Errorf("alerts: %v", r.Alerts)
			}
		})
	}
}

func TestPromisedSharesDivideAPoolsOwnGuarantees(t *testing.T) {
	tree := newTestTree(cores(100))
	tree.pool("root", "p", Pool{Strong: onlyCPU(30), Promised: true})
	tree.operation("p", "heavy", cores(1000)).Weight = 2
	tree.operation("p", "light", cores(1000))
	tree.pool("p", "nested", Pool{Promised: true})
	tree.operation("root", "outside", cores(1000))
	r := tree.run(t, FirstUpdate)
	for name, want := range map[string]float64{"p": 30, "heavy": 20, "light": 10, "outside": 0, "nested": 0} {
		near(t, name, r.cpu(r.Promised[tree.slots[name]]), want, 1e-6)
	}
	near(t, "p's fair share is not changed by it", r.fair("p"), 65, 1e-6)
	if len(r.Alerts) != 1 || r.Alerts[0].Code != AlertNestedPromised {
		t.Errorf("alerts: %v", r.Alerts)
	}
}

func TestASmallerClusterBurnsNoVolume(t *testing.T) {
	tree := newTestTree(cores(1000))
	tree.pool("root", "p", Pool{Integral: Integral{Type: Relaxed, Flow: cores(100)}})
	tree.setVolume("p", 8640)
	r := tree.run(t, FirstUpdate)
	full := r.volume("p")
	tree.Total = cores(500)
	r = tree.run(t, time.Hour)
	near(t, "volume of half the cluster", r.volume("p"), full, 1e-3)
	tree.Elements[tree.slots["p"]].Pool = &Pool{Integral: Integral{Type: Relaxed, Flow: cores(10)}}
	r = tree.run(t, time.Hour)
	near(t, "volume after a smaller flow", r.volume("p"), full, 1e-3)
}

func TestFewUnitsOfAResourceAreSavedInFractions(t *testing.T) {
	total := cores(1000)
	total[resource.GPU] = 4
	tree := newTestTree(total)
	tree.hungryPool("root", "p", Pool{Integral: Integral{Type: Relaxed, Flow: cores(100)}})
	tree.run(t, FirstUpdate)
	r := tree.run(t, 10*time.Second)
	volume := r.States[tree.slots["p"]].Volume
	near(t, "a tenth of 4 gpu for ten seconds", volume[resource.GPU], 4, 1e-9)
	near(t, "seconds of the cluster", volume.Ratio(total), 1, 1e-9)
}
