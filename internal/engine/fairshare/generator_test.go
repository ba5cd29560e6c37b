package fairshare

import (
	"time"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/value/resource"
)

// treeKind selects the features that a random tree may have.
type treeKind struct {
	fifo, gangs, improved, integral, guarantees, limits, tiers, history bool
	// proportional gives all amounts the proportions of the cluster.
	proportional bool
	// roomy keeps guarantees within the cluster and the parent.
	roomy bool
}

var everyFeature = treeKind{fifo: true, gangs: true, improved: true, integral: true, guarantees: true, limits: true, tiers: true, history: true}

// drawTree draws a tree of up to a dozen pools and two dozen operations.
func drawTree(t *rapid.T, kind treeKind) (*Tree, time.Duration) {
	tree := &Tree{Options: DefaultOptions(), Elements: []Element{{Kind: KindPool}}}
	tree.Total = resource.Amounts{
		rapid.Int64Range(1, 3000).Draw(t, "slots"), rapid.Int64Range(100, 200_000).Draw(t, "cpu"), 0,
		rapid.Int64Range(1000, 1<<40).Draw(t, "memory"), 0,
	}
	if rapid.Bool().Draw(t, "five resources") {
		tree.Total[resource.GPU] = rapid.Int64Range(1, 100).Draw(t, "gpu")
		tree.Total[resource.Network] = rapid.Int64Range(1, 1000).Draw(t, "network")
	}
	if kind.proportional {
		tree.Total = cores(1_000_000)
	}
	tree.Options.GangSteps = kind.gangs && rapid.Bool().Draw(t, "steps")
	tree.Options.Improved = kind.improved && rapid.Bool().Draw(t, "improved")
	tree.Options.ImprovedDistributionGap = kind.improved && rapid.Bool().Draw(t, "gap")
	tree.Options.DistributeFreeVolume = kind.integral && rapid.Bool().Draw(t, "distribute")
	if kind.history && rapid.IntRange(0, 4).Draw(t, "infer") == 0 {
		tree.Options.InferWeightMultiplier = 10
	}
	parents := []int32{0}
	operations := []int32{0}
	for range rapid.IntRange(0, 10).Draw(t, "pools") {
		slot := int32(len(tree.Elements))
		parent := rapid.SampledFrom(parents).Draw(t, "parent")
		tree.Elements = append(tree.Elements, drawPool(t, kind, tree, parent))
		tree.States = append(tree.States, make([]State, len(tree.Elements)-len(tree.States))...)
		if tree.Elements[slot].Pool.Integral.Type != NoIntegral {
			tree.States[slot].Volume = resource.VolumeOf(tree.Total, rapid.SampledFrom([]float64{0, 1, 50, 5000}).Draw(t, "volume"), 1)
			tree.States[slot].LastShareRatio = rapid.SampledFrom([]float64{0, 0.01, 0.5}).Draw(t, "last")
		}
		if tree.Elements[slot].Pool.Mode != FIFO {
			parents = append(parents, slot)
		}
		operations = append(operations, slot)
	}
	for range rapid.IntRange(1, 24).Draw(t, "operations") {
		parent := rapid.SampledFrom(operations).Draw(t, "pool")
		tree.Elements = append(tree.Elements, drawOperation(t, kind, tree, parent))
	}
	elapsed := rapid.SampledFrom([]time.Duration{FirstUpdate, 0, 200 * time.Millisecond, time.Minute, time.Hour}).Draw(t, "elapsed")
	return tree, elapsed
}

func drawWeight(t *rapid.T) float64 {
	return rapid.SampledFrom([]float64{0, 1, 1, 2, 0.5, 10, 1e-3, 3.7}).Draw(t, "weight")
}

func drawPool(t *rapid.T, kind treeKind, tree *Tree, parent int32) Element {
	settings := &Pool{}
	element := Element{Kind: KindPool, Parent: parent, Weight: drawWeight(t), Pool: settings}
	if kind.fifo && rapid.IntRange(0, 2).Draw(t, "fifo") == 0 {
		settings.Mode = FIFO
		settings.FIFOKeys = rapid.SampledFrom([][]FIFOKey{nil, {ByStartTime}, {ByPending, ByWeight}}).Draw(t, "keys")
	}
	part := 0.5
	if kind.roomy {
		part = 0.08
	}
	if kind.guarantees && (parent == 0 || !kind.roomy) && rapid.Bool().Draw(t, "strong") {
		settings.Strong = onlyMain(tree, rapid.Float64Range(0, part).Draw(t, "strong part"))
	}
	if kind.limits && rapid.IntRange(0, 3).Draw(t, "limited") == 0 {
		element.Limits = drawLimits(t, tree)
	}
	if kind.limits && rapid.IntRange(0, 9).Draw(t, "ratio") == 0 {
		element.MaxShareRatio = rapid.Float64Range(0.01, 1).Draw(t, "max share ratio")
	}
	if kind.integral && !insideIntegral(tree, parent) && rapid.IntRange(0, 2).Draw(t, "integral") == 0 {
		settings.Integral = Integral{
			Type:  rapid.SampledFrom([]GuaranteeType{Burst, Relaxed}).Draw(t, "type"),
			Flow:  tree.Total.Times(rapid.Float64Range(0, part).Draw(t, "flow")),
			Burst: tree.Total.Times(rapid.Float64Range(0, part).Draw(t, "burst")),
		}
	}
	if kind.tiers {
		settings.PriorityAdjustment = rapid.IntRange(0, 9).Draw(t, "priority") == 0
		settings.PriorityDonor = rapid.IntRange(0, 9).Draw(t, "donor") == 0
		settings.Promised = rapid.IntRange(0, 9).Draw(t, "promised") == 0
	}
	if kind.history && rapid.IntRange(0, 9).Draw(t, "history") == 0 {
		settings.HistoricUsagePeriod = time.Hour
	}
	return element
}

// insideIntegral reports whether a pool or one of its ancestors is integral: the
// configuration refuses integral pools inside integral ones.
func insideIntegral(tree *Tree, slot int32) bool {
	for ; slot != 0; slot = tree.Elements[slot].Parent {
		if settingsOf(&tree.Elements[slot]).Integral.Type != NoIntegral {
			return true
		}
	}
	return false
}

func onlyMain(tree *Tree, part float64) resource.Partial {
	k := tree.Options.MainResource
	return resource.Partial{}.With(k, int64(float64(tree.Total[k])*part))
}

func drawLimits(t *rapid.T, tree *Tree) (limits resource.Partial) {
	for _, k := range resource.Kinds {
		if rapid.Bool().Draw(t, "limit") {
			limits = limits.With(k, int64(float64(tree.Total[k])*rapid.Float64Range(0, 1).Draw(t, "limit part")))
		}
	}
	return limits
}

func drawOperation(t *rapid.T, kind treeKind, tree *Tree, parent int32) Element {
	element := Element{Kind: KindOperation, Parent: parent, Weight: drawWeight(t)}
	size := rapid.SampledFrom([]float64{0.001, 0.05, 0.4, 3}).Draw(t, "size")
	used := rapid.SampledFrom([]float64{0, 0, 0.3, 1}).Draw(t, "used part")
	for k, total := range tree.Total {
		part := size
		if !kind.proportional {
			part *= rapid.Float64Range(0, 1).Draw(t, "demand part")
		}
		element.Demand[k] = int64(float64(total) * part)
		element.Usage[k] = int64(float64(element.Demand[k]) * used)
	}
	if kind.limits && rapid.IntRange(0, 4).Draw(t, "limited") == 0 {
		element.Limits = drawLimits(t, tree)
	}
	element.Gang = kind.gangs && rapid.Bool().Draw(t, "gang")
	element.StartTime = int64(rapid.IntRange(0, 5).Draw(t, "start"))
	element.Pending = int64(rapid.IntRange(0, 5).Draw(t, "pending"))
	return element
}
