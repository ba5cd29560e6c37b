package orchid

import (
	"math"
	"slices"

	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/internal/value/yson"
)

// element is a pool or an operation of a tree in one state. Only one goroutine reads it.
type element struct {
	tree    *Tree
	details *scheduling.Details
	jobs    *scheduling.JobCounts
	// guarantees are a pool's; an operation has none.
	guarantees *scheduling.PoolDetails
	// pool is set for pools, operation and seat for operations.
	pool      *core.Pool
	operation *core.Operation
	seat      *core.Seat
	// record is the server's record of an operation; nil if the operation has just ended.
	record *server.Operation

	// The options that were set and those in effect, computed on first use.
	own   *pooltree.PoolConfig
	holds *pooltree.Effective
}

// field is a key of an element in the scheduler's view.
type field struct {
	name string
	// of returns the value; false if the element has none.
	of func(v *wire.Vectors, e *element) (yson.Node, bool)
}

// always returns a field that every element has.
func always(name string, of func(v *wire.Vectors, e *element) yson.Node) field {
	return field{name, func(v *wire.Vectors, e *element) (yson.Node, bool) { return of(v, e), true }}
}

// sharesField, amountsField and numberField return fields of the most common kinds.
func sharesField(name string, of func(e *element) resource.Shares) field {
	return always(name, func(v *wire.Vectors, e *element) yson.Node { return v.Shares(of(e)) })
}

func amountsField(name string, of func(e *element) resource.Amounts) field {
	return always(name, func(v *wire.Vectors, e *element) yson.Node { return v.Amounts(of(e)) })
}

func numberField(name string, of func(e *element) float64) field {
	return always(name, func(_ *wire.Vectors, e *element) yson.Node { return Number(of(e)) })
}

func countField(name string, of func(e *element) int) field {
	return always(name, func(_ *wire.Vectors, e *element) yson.Node { return yson.Int64(int64(of(e))) })
}

func textField(name string, of func(e *element) string) field {
	return always(name, func(_ *wire.Vectors, e *element) yson.Node { return yson.String(of(e)) })
}

func flagField(name string, of func(e *element) bool) field {
	return always(name, func(_ *wire.Vectors, e *element) yson.Node { return yson.Boolean(of(e)) })
}

// only restricts a field to elements for which a condition holds.
func only(f field, when func(e *element) bool) field {
	return field{f.name, func(v *wire.Vectors, e *element) (yson.Node, bool) {
		if !when(e) {
			return yson.Entity(), false
		}
		return f.of(v, e)
	}}
}

// Number writes a number. It replaces infinities, which JSON does not have and people do not
// expect.
func Number(f float64) yson.Node {
	switch {
	case math.IsNaN(f):
		return yson.Double(0)
	case math.IsInf(f, 0):
		return yson.Double(math.Copysign(maxRatio, f))
	}
	return yson.Double(f)
}

// maxRatio represents an unbounded ratio.
const maxRatio = 1e9

// optionNode writes an option as it was set; an unset one is the entity.
func optionNode[T any](o document.Optional[T], write func(T) yson.Node) yson.Node {
	if value, set := o.Get(); set {
		return write(value)
	}
	return yson.Entity()
}

func (e *element) total() resource.Amounts { return e.tree.Info.Total }

func (e *element) isRoot() bool { return e.pool != nil && e.pool.Parent < 0 }

// effective are the options in effect for a pool, or for an operation's pool.
func (e *element) effective() *pooltree.Effective {
	if e.holds == nil {
		pool := e.pool
		if pool == nil {
			pool = e.tree.Info.PoolIn(e.seat.Parent)
		}
		holds := e.tree.Info.Effective(pool)
		e.holds = &holds
	}
	return e.holds
}

// config has the options that were set on a pool; an ephemeral pool and the root have none.
func (e *element) config() *pooltree.PoolConfig {
	if e.own == nil {
		e.own = &pooltree.PoolConfig{}
		if e.pool != nil {
			if configured, there := e.tree.Info.Configured(e.pool); there {
				*e.own = configured.Config()
			}
		}
	}
	return e.own
}

// lowestStarving names the lowest pool, from the element up, whose starvation is at least the given
// one.
func (e *element) lowestStarving(least scheduling.Starvation) string {
	if e.seat != nil {
		return e.tree.Info.LowestStarvingAbove(e.seat, least)
	}
	return e.tree.Info.LowestStarving(e.pool.Slot, least)
}

// strong is the configured guarantee. The root has the whole tree.
func (e *element) strong() resource.Amounts {
	if e.isRoot() {
		return e.total()
	}
	return e.config().StrongGuarantee.Value().OrZero()
}

// bestShare is the largest share that can be placed on nodes; without a bound it is the whole tree.
func (e *element) bestShare() resource.Shares {
	if e.details.BestShare.IsZero() {
		return resource.Ones()
	}
	return e.details.BestShare
}

// filtered is the resources of the nodes that an element may use.
func (e *element) filtered() resource.Amounts {
	filter := e.config().SchedulingTagFilter.Value()
	if e.seat != nil {
		filter = e.seat.Options.SchedulingTagFilter.Value()
	}
	if filter.IsEmpty() {
		return e.total()
	}
	var sum resource.Amounts
	for n := range e.tree.State.View.Picture.Nodes() {
		if n.Tree == e.tree.Info.ID && filter.Matches(func(tag string) bool { return slices.Contains(n.Tags, tag) }) {
			sum = sum.Add(n.Limits)
		}
	}
	return sum
}

// commonFields are the fields that pools and operations share, under new and old names.
var commonFields = []field{
	textField("scheduling_status", func(e *element) string { return e.details.Status.String() }),
	textField("starvation_status", func(e *element) string { return e.details.Starvation.String() }),
	flagField("starving", func(e *element) bool { return e.details.Starvation != scheduling.NonStarving }),
	always("fair_share_starvation_tolerance", func(_ *wire.Vectors, e *element) yson.Node {
		if e.seat != nil {
			return optionNode(e.seat.Options.FairShareStarvationTolerance, yson.Double)
		}
		return optionNode(e.config().Preemption.FairShareStarvationTolerance, yson.Double)
	}),
	always("fair_share_starvation_timeout", func(_ *wire.Vectors, e *element) yson.Node {
		if e.seat != nil {
			return optionNode(e.seat.Options.FairSharePreemptionTimeout, wire.Milliseconds)
		}
		return optionNode(e.config().Preemption.FairSharePreemptionTimeout, wire.Milliseconds)
	}),
	numberField("effective_fair_share_starvation_tolerance", func(e *element) float64 { return e.details.Patience.Tolerance }),
	always("effective_fair_share_starvation_timeout", func(_ *wire.Vectors, e *element) yson.Node {
		return wire.Milliseconds(e.details.Patience.FairShareTimeout)
	}),
	always("effective_min_share_preemption_timeout", func(_ *wire.Vectors, e *element) yson.Node {
		return wire.Milliseconds(e.details.Patience.MinShareTimeout)
	}),
	flagField("effective_aggressive_starvation_enabled", func(e *element) bool { return e.details.Patience.Aggressive }),
	always("effective_non_preemptible_resource_usage_threshold", func(_ *wire.Vectors, e *element) yson.Node {
		return wire.PartialNode(e.details.Patience.Threshold)
	}),
	always("aggressive_preemption_allowed", func(_ *wire.Vectors, e *element) yson.Node {
		return optionNode(e.config().Preemption.AllowAggressivePreemption, yson.Boolean)
	}),
	flagField("effective_aggressive_preemption_allowed", func(e *element) bool { return e.effective().AllowAggressivePreemption }),
	always("effective_waiting_for_resources_on_node_timeout", func(_ *wire.Vectors, e *element) yson.Node {
		if e.seat != nil {
			return wire.Milliseconds(e.seat.WaitTimeout)
		}
		return optionNode(e.effective().WaitingForResourcesTimeout, wire.Milliseconds)
	}),
	always("lowest_starving_ancestor", func(_ *wire.Vectors, e *element) yson.Node {
		return wire.OrEntity(e.lowestStarving(scheduling.Starving))
	}),
	always("lowest_aggressively_starving_ancestor", func(_ *wire.Vectors, e *element) yson.Node {
		return wire.OrEntity(e.lowestStarving(scheduling.AggressivelyStarving))
	}),
	numberField("weight", func(e *element) float64 { return e.details.Weight }),
	textField("dominant_resource", func(e *element) string { return e.details.Shares.Dominant.String() }),

	amountsField("resource_usage", func(e *element) resource.Amounts { return e.details.Usage }),
	sharesField("usage_share", func(e *element) resource.Shares { return e.details.UsageShare }),
	numberField("usage_ratio", func(e *element) float64 { return e.details.UsageShare.Largest() }),
	numberField("dominant_usage_share", func(e *element) float64 { return e.details.UsageShare.Largest() }),
	amountsField("resource_demand", func(e *element) resource.Amounts { return e.details.Demand }),
	sharesField("demand_share", func(e *element) resource.Shares { return e.details.Shares.Demand }),
	numberField("demand_ratio", func(e *element) float64 { return e.details.Shares.Demand.Largest() }),
	numberField("dominant_demand_share", func(e *element) float64 { return e.details.Shares.Demand.Largest() }),
	amountsField("limited_resource_demand", func(e *element) resource.Amounts { return e.limitedDemand().Of(e.total()) }),
	sharesField("limited_demand_share", (*element).limitedDemand),
	numberField("dominant_limited_demand_share", func(e *element) float64 {
		return e.limitedDemand().Largest()
	}),

	amountsField("resource_limits", func(e *element) resource.Amounts { return e.details.Limits }),
	sharesField("limits_share", func(e *element) resource.Shares { return e.details.Shares.Limits }),
	always("specified_resource_limits", func(_ *wire.Vectors, e *element) yson.Node { return wire.PartialNode(e.details.Specified) }),
	amountsField("scheduling_tag_filter_resource_limits", (*element).filtered),

	amountsField("strong_guarantee_resources", (*element).strong),
	amountsField("min_share_resources", (*element).strong),
	amountsField("inferred_strong_guarantee_resources", func(e *element) resource.Amounts { return e.guarantees.InferredGuarantee }),
	sharesField("strong_guarantee_share", func(e *element) resource.Shares { return e.guarantees.StrongGuarantee }),
	sharesField("min_share", func(e *element) resource.Shares { return e.guarantees.StrongGuarantee }),
	numberField("min_share_ratio", func(e *element) float64 { return e.guarantees.StrongGuarantee.Largest() }),
	amountsField("effective_strong_guarantee_resources", (*element).effectiveStrong),
	amountsField("effective_min_share_resources", (*element).effectiveStrong),

	numberField("fair_share_ratio", func(e *element) float64 { return e.details.Share.Total.Largest() }),
	sharesField("fair_share", func(e *element) resource.Shares { return e.details.Share.Total }),
	always("detailed_fair_share", func(v *wire.Vectors, e *element) yson.Node { return v.Split(&e.details.Share) }),
	always("detailed_dominant_fair_share", func(_ *wire.Vectors, e *element) yson.Node { return wire.DominantSplit(&e.details.Share) }),
	amountsField("fair_resources", func(e *element) resource.Amounts { return e.details.Share.Total.Of(e.total()) }),
	always("detailed_promised_guarantee_fair_share", func(v *wire.Vectors, e *element) yson.Node { return v.Split(&e.details.Promised) }),
	always("detailed_dominant_promised_guarantee_fair_share", func(_ *wire.Vectors, e *element) yson.Node {
		return wire.DominantSplit(&e.details.Promised)
	}),
	sharesField("estimated_guarantee_share", func(e *element) resource.Shares { return e.details.Shares.Estimated }),
	numberField("dominant_estimated_guarantee_share", func(e *element) float64 { return e.details.Shares.Estimated.Largest() }),
	amountsField("estimated_guarantee_resources", func(e *element) resource.Amounts {
		return e.details.Shares.Estimated.Of(e.total())
	}),
	sharesField("guaranteed_share", func(e *element) resource.Shares { return e.details.Shares.Guaranteed }),
	numberField("guaranteed_ratio", func(e *element) float64 { return e.details.Shares.Guaranteed.Largest() }),
	sharesField("proposed_integral_share", func(e *element) resource.Shares { return e.guarantees.ProposedIntegral }),
	sharesField("best_allocation_share", (*element).bestShare),

	numberField("satisfaction_ratio", func(e *element) float64 { return e.details.Satisfaction }),
	numberField("local_satisfaction_ratio", func(e *element) float64 { return e.details.LocalSatisfaction }),
	flagField("schedulable", func(e *element) bool { return e.details.Schedulable }),
	countField("running_job_count", func(e *element) int { return int(e.jobs.RunningJobs) }),
	countField("pending_job_count", func(e *element) int { return int(e.jobs.WaitingJobs) }),
	countField("preemptible_job_count", func(e *element) int { return int(e.jobs.Classes[scheduling.Preemptible]) }),
	countField("aggressively_preemptible_job_count", func(e *element) int {
		return int(e.jobs.Classes[scheduling.AggressivelyPreemptible])
	}),
	countField("non_preemptible_job_count", func(e *element) int { return int(e.jobs.Classes[scheduling.NonPreemptible]) }),
}

// effectiveStrong is the guarantee after completion and scaling.
func (e *element) effectiveStrong() resource.Amounts {
	return e.guarantees.StrongGuarantee.Of(e.total())
}
