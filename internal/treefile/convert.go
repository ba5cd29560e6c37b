package treefile

import (
	"slices"

	"github.com/weirhq/weir/internal/document"
	"github.com/weirhq/weir/internal/fairshare"
	"github.com/weirhq/weir/internal/nodefilter"
	"github.com/weirhq/weir/internal/pooltree"
	"github.com/weirhq/weir/internal/resource"
)

// NodeGroup is a number of equal nodes.
type NodeGroup struct {
	Name      string
	Count     int64
	Resources resource.Amounts // of one node
	Tags      []string
}

func (g *NodeGroup) hasTag(tag string) bool { return slices.Contains(g.Tags, tag) }

// Cluster is what a tree divides.
type Cluster struct {
	// Total is what the nodes of the tree have together.
	Total resource.Amounts
	// Nodes are those of the tree; none if only the total is known.
	Nodes []NodeGroup
}

// newCluster picks the nodes that belong to a tree.
func newCluster(nodes []NodeGroup, filter nodefilter.Filter) Cluster {
	var c Cluster
	for _, group := range nodes {
		if filter.Matches(group.hasTag) {
			c.Nodes = append(c.Nodes, group)
		}
	}
	c.Total = c.matching(nodefilter.Filter{})
	return c
}

// matching is what the nodes that match a filter have together.
func (c *Cluster) matching(filter nodefilter.Filter) (sum resource.Amounts) {
	for i := range c.Nodes {
		if group := &c.Nodes[i]; filter.Matches(group.hasTag) {
			for k, each := range group.Resources {
				sum[k] = min(sum[k]+times(each, group.Count), resource.Unlimited)
			}
		}
	}
	return sum
}

// times multiplies amounts that are not negative and saturates.
func times(a, b int64) int64 {
	if a != 0 && b > resource.Unlimited/a {
		return resource.Unlimited
	}
	return min(a*b, resource.Unlimited)
}

// limits returns the least of specified limits and of what nodes that match the
// filter have.
func (c *Cluster) limits(specified resource.Partial, filter nodefilter.Filter) resource.Partial {
	if filter.IsEmpty() || len(c.Nodes) == 0 {
		return specified
	}
	return resource.PartialOf(specified.OrUnlimited().Min(c.matching(filter)))
}

// bestShare bounds the share of an operation by what can be placed on the nodes.
// The zero value means no bound.
func (c *Cluster) bestShare(demand resource.Amounts) resource.Shares {
	if len(c.Nodes) == 0 {
		return resource.Shares{}
	}
	sizes := make([]fairshare.NodeSize, len(c.Nodes))
	for i := range c.Nodes {
		sizes[i] = fairshare.NodeSize{Memory: c.Nodes[i].Resources[resource.Memory], Count: c.Nodes[i].Count}
	}
	share := fairshare.BestShare(demand, c.Total, sizes)
	if share == c.Total.Share(c.Total) {
		return resource.Shares{} // all of it
	}
	return share
}

// EngineOptions returns the options of a tree that concern fair share.
func EngineOptions(tree *pooltree.Tree) fairshare.Options {
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

// PoolElement returns a pool as the engine sees it; the slot of its parent is
// the caller's to set.
func PoolElement(pool *pooltree.Pool, cluster *Cluster) fairshare.Element {
	if pool.IsRoot() {
		return fairshare.Element{Kind: fairshare.KindPool, Pool: &fairshare.Pool{
			// The root never hands the overflow of some children to others.
			Integral: fairshare.Integral{DistributeFreeVolume: fairshare.Off},
		}}
	}
	config := pool.Config()
	return configElement(&config, cluster)
}

func configElement(c *pooltree.PoolConfig, cluster *Cluster) fairshare.Element {
	e := fairshare.Element{
		Kind:   fairshare.KindPool,
		Weight: c.Weight.Value(),
		Limits: cluster.limits(c.ResourceLimits.Value(), c.SchedulingTagFilter.Value()),
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
		return switchOf(on)
	}
	return fairshare.Inherit
}

// limitRatio sets max_share_ratio. To the engine a ratio of zero means none, so
// zero becomes a limit of nothing.
func limitRatio(e *fairshare.Element, ratio document.Optional[float64]) {
	if value, ok := ratio.Get(); ok && value == 0 {
		e.Limits = resource.PartialOf(resource.Amounts{})
	}
	e.MaxShareRatio = ratio.Value()
}

// OperationElement returns an operation as the engine sees it; the slot of its
// parent, its start time and its number of pending jobs are the caller's to set.
func OperationElement(o *pooltree.OperationOptions, demand, usage resource.Amounts, cluster *Cluster) fairshare.Element {
	if limits := o.ResourceLimits.Value(); o.ApplyLimitsToDemand.Value() && !limits.IsTrivial() {
		demand = demand.Min(limits.OrUnlimited()).Max(usage)
	}
	e := fairshare.Element{
		Kind:      fairshare.KindOperation,
		Weight:    o.Weight.Or(1),
		Limits:    cluster.limits(o.ResourceLimits.Value(), o.SchedulingTagFilter.Value()),
		Demand:    demand,
		Usage:     usage,
		BestShare: cluster.bestShare(demand),
		Gang:      o.IsGang.Value(),
	}
	limitRatio(&e, o.MaxShareRatio)
	return e
}
