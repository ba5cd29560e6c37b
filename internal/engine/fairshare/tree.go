package fairshare

import (
	"time"

	"github.com/weirhq/weir/internal/value/resource"
)

// Tree is the input of one update: the elements of one pool tree with their
// limits, guarantees, weights, demands and usages, and the state of integral
// pools.
//
// Elements live in slots. Slot 0 is the root pool; the order of siblings is the
// order of their slots. A slot may be free (KindNone). Callers that keep an
// element in its slot from update to update let an Engine reuse what did not
// change.
type Tree struct {
	// Total is what all nodes of the tree have together.
	Total resource.Amounts
	// Options are the settings of the whole tree.
	Options Options
	// Elements has the root at index 0.
	Elements []Element
	// States is indexed like Elements and may be shorter: missing states are
	// zero. Only pools with integral guarantees and children of pools with
	// historic usage have a state.
	States []State
	// Tracked reports that Touched lists, in order, all slots whose elements may
	// differ from those of the last update of the same engine, new slots included.
	// Otherwise the engine compares all elements.
	Tracked bool
	Touched []int32
}

// Options are the settings of a tree that concern fair share. Zero values are
// not the defaults; see DefaultOptions.
type Options struct {
	// MainResource completes strong guarantees that name only some resources.
	MainResource resource.Kind
	// SmoothPeriod is the time in which an integral pool may spend all it has.
	SmoothPeriod time.Duration
	// CapacitySaturationPeriod is the k of the documents: the volume of an
	// integral pool is at most k × resource flow.
	CapacitySaturationPeriod time.Duration
	// RelaxedShareMultiplierLimit caps a relaxed pool's integral share at this
	// many times its flow, unless the pool has its own multiplier.
	RelaxedShareMultiplierLimit float64
	// DistributeFreeVolume is the default for pools that do not set whether
	// they hand the overflow of some children to others.
	DistributeFreeVolume bool
	// InferWeightMultiplier gives pools without a weight one derived from their
	// guarantees; zero switches inference off.
	InferWeightMultiplier float64
	// GangSteps makes gang operations take all of their demand or nothing.
	GangSteps bool
	// Improved lets children that jump at the same point take their jumps one
	// after another instead of all or none.
	Improved bool
	// ImprovedDistributionGap lets the improved computation hand out a rest
	// smaller than Epsilon.
	ImprovedDistributionGap bool
	// TruncateFIFO removes the share of gang operations in FIFO pools that got
	// less than they demand (a legacy rule).
	TruncateFIFO bool
}

// DefaultOptions returns the defaults of the documents.
func DefaultOptions() Options {
	return Options{
		MainResource:                resource.CPU,
		SmoothPeriod:                time.Minute,
		CapacitySaturationPeriod:    24 * time.Hour,
		RelaxedShareMultiplierLimit: 3,
	}
}

// Kind is what a slot holds.
type Kind uint8

const (
	KindNone Kind = iota
	KindPool
	KindOperation
)

// Element is a pool or an operation.
type Element struct {
	Kind Kind
	// Parent is the slot of the parent pool; ignored for the root.
	Parent int32
	// Weight is the proportion in which siblings share what is above their
	// guarantees. Zero means unset: one, or inferred from guarantees.
	Weight float64
	// Limits are hard limits on amounts: the least of what the nodes matching
	// the element's filter have and of what was specified. Absent components
	// are bounded by the tree's total only.
	Limits resource.Partial
	// MaxShareRatio bounds the element to this fraction of its parent's limits.
	// Zero means unset; use a zero limit to forbid everything.
	MaxShareRatio float64

	// Pool has the settings of a pool; nil means all defaults. Ignored for
	// operations. It must not be changed in place between updates: an Engine
	// compares it by address.
	Pool *Pool

	// The rest concerns operations only.

	// Demand is everything the operation could use now, its usage included.
	Demand resource.Amounts
	// Usage is what its running allocations hold; never above Demand.
	Usage resource.Amounts
	// BestShare bounds the share by what can be placed on nodes of these
	// sizes. The zero value means no bound.
	BestShare resource.Shares
	// Gang operations need all of their demand at once.
	Gang bool
	// StartTime and Pending determine the order of operations in FIFO pools.
	StartTime int64
	Pending   int64
}

// Mode is how a pool divides what it has among its children.
type Mode uint8

const (
	FairShare Mode = iota
	FIFO
)

// FIFOKey is a key of the order of operations in a FIFO pool.
type FIFOKey uint8

const (
	ByWeight    FIFOKey = iota // heavier first
	ByStartTime                // older first
	ByPending                  // fewer pending jobs first
)

// DefaultFIFOKeys is the order of operations in a FIFO pool that names none.
var DefaultFIFOKeys = []FIFOKey{ByWeight, ByStartTime}

// GuaranteeType is the kind of integral guarantee of a pool.
type GuaranteeType uint8

const (
	NoIntegral GuaranteeType = iota
	Burst
	Relaxed
)

// Switch is a setting that a pool may leave to the tree.
type Switch uint8

const (
	Inherit Switch = iota
	On
	Off
)

// SwitchOf is a switch that is set.
func SwitchOf(on bool) Switch {
	if on {
		return On
	}
	return Off
}

func (s Switch) or(inherited bool) bool {
	if s == Inherit {
		return inherited
	}
	return s == On
}

// Pool has the settings of a pool.
type Pool struct {
	Mode     Mode
	FIFOKeys []FIFOKey // nil: DefaultFIFOKeys
	// Strong is the strong guarantee. Absent components are inferred through
	// the main resource.
	Strong   resource.Partial
	Integral Integral
	// GangStepsOff excludes the pool's operations from Options.GangSteps.
	GangStepsOff bool
	// TruncateFIFO overrides Options.TruncateFIFO.
	TruncateFIFO Switch
	// Promised requests the division of the pool's own guarantees alone.
	Promised bool
	// PriorityAdjustment lets the pool keep its whole strong guarantee while
	// its donor ancestor has enough; PriorityDonor makes it such a donor.
	PriorityAdjustment bool
	PriorityDonor      bool
	// HistoricUsagePeriod, when positive, makes children that used more lately
	// weigh less; it is the half-life of "lately".
	HistoricUsagePeriod time.Duration
}

// Integral has the settings of an integral guarantee.
type Integral struct {
	Type  GuaranteeType
	Flow  resource.Amounts
	Burst resource.Amounts
	// RelaxedMultiplier overrides Options.RelaxedShareMultiplierLimit; zero
	// means unset.
	RelaxedMultiplier float64
	// RefuseFreeVolume keeps the pool from receiving what others could not
	// store.
	RefuseFreeVolume bool
	// DistributeFreeVolume overrides Options.DistributeFreeVolume. Ignored on
	// an integral pool.
	DistributeFreeVolume Switch
}

// State is what an element carries from one update to the next.
type State struct {
	// Volume is what an integral pool has saved.
	Volume resource.Volume
	// LastShareRatio is the integral share granted by the previous update; the
	// next one charges it against Volume.
	LastShareRatio float64
	// Historic is the usage of a child of a pool with HistoricUsagePeriod.
	Historic HistoricUsage
}

// HistoricUsage is an exponentially smoothed usage ratio: Weighted/Weight.
type HistoricUsage struct {
	Weighted float64
	Weight   float64
}
