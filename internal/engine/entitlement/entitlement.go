// Package entitlement translates the configuration of pools and operations
// into the elements of the fair-share engine, which divides a tree among
// them.
package entitlement

import (
	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/nodefilter"
	"github.com/weirhq/weir/internal/value/resource"
)

// Nodes are the nodes of a tree.
type Nodes interface {
	// Matching returns the sum of the resources of the nodes that match a
	// filter, and whether it is known.
	Matching(nodefilter.Filter) (resource.Amounts, bool)
	// BestShare bounds the share of a demand by what can be placed on the nodes.
	// The zero value means no bound.
	BestShare(demand resource.Amounts) resource.Shares
}

// limits returns the minimum of the specified limits and the resources of the
// nodes that match a filter.
func limits(nodes Nodes, specified resource.Partial, filter nodefilter.Filter) resource.Partial {
	if filter.IsEmpty() {
		return specified
	}
	matching, known := nodes.Matching(filter)
	if !known {
		return specified
	}
	return resource.PartialOf(specified.OrUnlimited().Min(matching))
}

// Options returns the fair-share options of a tree.
func Options(tree *pooltree.Tree) fairshare.Options {
	s := tree.Settings()
	return fairshare.Options{
		MainResource:                s.MainResource.Value(),
		SmoothPeriod:                s.Integral.SmoothPeriod.Value(),
		CapacitySaturationPeriod:    s.Integral.CapacitySaturationPeriod.Value(),
		RelaxedShareMultiplierLimit: s.Integral.RelaxedMultiplier.Value(),
		DistributeFreeVolume:        s.DistributeFreeVolume.Value(),
		InferWeightMultiplier:       s.InferWeightMultiplier.Value(),
		GangSteps:                   s.GangSteps.Value(),
		Improved:                    s.ImprovedFairShare.Value(),
		ImprovedDistributionGap:     s.ImprovedDistributionGap.Value(),
		TruncateFIFO:                s.TruncateFIFO.Value(),
	}
}

// Root returns the root pool for the engine.
func Root() fairshare.Element {
	return fairshare.Element{Kind: fairshare.KindPool, Pool: &fairshare.Pool{
		// The root never passes the overflow of some children to others.
		Integral: fairshare.Integral{DistributeFreeVolume: fairshare.Off},
	}}
}

// Pool returns a pool for the engine; the caller sets the slot of its parent.
func Pool(c *pooltree.PoolConfig, nodes Nodes) fairshare.Element {
	e := fairshare.Element{
		Kind:   fairshare.KindPool,
		Weight: c.Weight.Value(),
		Limits: limits(nodes, c.ResourceLimits.Value(), c.SchedulingTagFilter.Value()),
		Pool: &fairshare.Pool{
			Mode:     modes[c.Mode.Value()],
			FIFOKeys: sortKeys(c.FIFOSortParameters.Value()),
			Strong:   c.StrongGuarantee.Value(),
			Integral: fairshare.Integral{
				Type:                 guaranteeTypes[c.Integral.Type.Value()],
				Flow:                 c.Integral.ResourceFlow.Value().OrZero(),
				Burst:                c.Integral.Burst.Value().OrZero(),
				RelaxedMultiplier:    c.Integral.RelaxedMultiplier.Value(),
				RefuseFreeVolume:     !c.Integral.CanAcceptFreeVolume.Or(true),
				DistributeFreeVolume: maybeSwitch(c.Integral.DistributeFreeVolume),
			},
			GangStepsOff:        !c.GangSteps.Or(true),
			TruncateFIFO:        maybeSwitch(c.TruncateFIFO),
			Promised:            c.ComputePromisedGuarantee.Value(),
			PriorityAdjustment:  c.PriorityGuaranteeAdjustment.Value(),
			PriorityDonor:       c.PriorityGuaranteeDonorship.Value(),
			HistoricUsagePeriod: c.HistoricUsagePeriod.Value(),
		},
	}
	limitRatio(&e, c.MaxShareRatio)
	return e
}

var modes = [...]fairshare.Mode{pooltree.FairShare: fairshare.FairShare, pooltree.FIFO: fairshare.FIFO}

var guaranteeTypes = [...]fairshare.GuaranteeType{
	pooltree.NoIntegral: fairshare.NoIntegral, pooltree.Burst: fairshare.Burst, pooltree.Relaxed: fairshare.Relaxed,
}

func sortKeys(keys []pooltree.SortKey) (list []fairshare.FIFOKey) {
	for _, key := range keys {
		list = append(list, [...]fairshare.FIFOKey{
			pooltree.ByWeight: fairshare.ByWeight, pooltree.ByStartTime: fairshare.ByStartTime, pooltree.ByPendingJobCount: fairshare.ByPending,
		}[key])
	}
	return list
}

func maybeSwitch(o document.Optional[bool]) fairshare.Switch {
	if on, ok := o.Get(); ok {
		return fairshare.SwitchOf(on)
	}
	return fairshare.Inherit
}

// limitRatio sets max_share_ratio. The engine treats a ratio of zero as no
// limit, so zero becomes a limit of zero resources.
func limitRatio(e *fairshare.Element, ratio document.Optional[float64]) {
	if value, ok := ratio.Get(); ok && value == 0 {
		e.Limits = resource.PartialOf(resource.Amounts{})
	}
	e.MaxShareRatio = ratio.Value()
}

// Operation returns an operation for the engine; the caller sets the slot of
// its parent, its start time and its number of pending jobs.
func Operation(o *pooltree.OperationOptions, demand, usage resource.Amounts, nodes Nodes) fairshare.Element {
	if specified := o.ResourceLimits.Value(); o.ApplyLimitsToDemand.Value() && !specified.IsTrivial() {
		demand = demand.Min(specified.OrUnlimited()).Max(usage)
	}
	e := fairshare.Element{
		Kind:      fairshare.KindOperation,
		Weight:    o.Weight.Or(1),
		Limits:    limits(nodes, o.ResourceLimits.Value(), o.SchedulingTagFilter.Value()),
		Demand:    demand,
		Usage:     usage,
		BestShare: nodes.BestShare(demand),
		Gang:      o.IsGang.Value(),
	}
	limitRatio(&e, o.MaxShareRatio)
	return e
}
