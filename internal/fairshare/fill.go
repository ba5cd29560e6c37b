package fairshare

import (
	"math"
	"time"

	"github.com/weirhq/weir/internal/resource"
)

// truncate takes away the shares of gang operations in FIFO pools that got less
// than they demand, from them and from all pools above. What is freed is not
// given to anybody: a legacy rule, superseded by gang steps.
func (e *Engine) truncate(shares []resource.Shares) {
	for _, at := range e.order {
		p := &e.pools[at]
		if p.settings.Mode != FIFO || !p.settings.TruncateFIFO.or(e.options.TruncateFIFO) {
			continue
		}
		for _, slot := range p.sorted {
			n := &e.nodes[slot]
			share := shares[slot]
			if !e.previous[slot].Gang || share == nothing ||
				share.Add(resource.Uniform(LargeEpsilon)).Dominates(n.demand) {
				continue
			}
			shares[slot] = nothing
			for above := p; ; above = e.parentOf(above) {
				shares[above.slot] = shares[above.slot].Sub(share).Max(nothing)
				if above.slot == 0 {
					break
				}
			}
		}
	}
}

// historicFactor brings the usage history of an element up to date and returns
// by how much its weight is lowered.
func (e *Engine) historicFactor(tree *Tree, slot int32, period, elapsed time.Duration) float64 {
	var history HistoricUsage
	if int(slot) < len(tree.States) {
		history = tree.States[slot].Historic
	}
	if elapsed >= 0 {
		fade := math.Exp2(-elapsed.Seconds() / period.Seconds())
		history.Weight = 1 + float64(history.Weight*fade)
		history.Weighted = e.nodes[slot].usage.Largest() + float64(history.Weighted*fade)
	}
	e.history = resize(e.history, len(tree.Elements))
	e.history[slot] = history
	if history.Weight == 0 {
		return 1
	}
	return math.Exp2(-history.Weighted / history.Weight)
}

// fill writes the result.
func (e *Engine) fill(tree *Tree, result *Result) {
	result.Total = e.total
	result.Alerts = append(result.Alerts[:0], e.alerts...)
	result.Elements = resize(result.Elements, len(tree.Elements))
	result.States = resize(result.States, len(tree.Elements))
	result.Pools = resize(result.Pools, len(e.pools))
	clear(result.Elements)
	clear(result.States)
	for slot := range result.Elements {
		result.Elements[slot].Pool = -1
		result.Elements[slot].FIFOIndex = -1
	}
	copy(result.States, tree.States)
	for _, at := range e.order {
		p := &e.pools[at]
		e.fillElement(tree, result, p.slot)
		result.Elements[p.slot].Pool = at
		e.fillPool(p, at, result)
		for _, slot := range p.children {
			if e.nodes[slot].pool < 0 {
				e.fillElement(tree, result, slot)
			}
			if p.settings.HistoricUsagePeriod > 0 {
				result.States[slot].Historic = e.history[slot]
			}
		}
	}
	e.fillRoot(result)
}

func (e *Engine) fillElement(tree *Tree, result *Result, slot int32) {
	n := &e.nodes[slot]
	a := &result.Elements[slot]
	a.Weight, a.Suggestion, a.FIFOIndex = n.weight, n.suggestion, n.fifoIndex
	a.FairShare, a.Promised = e.shares[slot], e.promised[slot]
	a.Usage, a.Demand, a.Limits = n.usage, n.demand, n.limits
	a.Estimated, a.Guaranteed = n.estimated, n.guaranteed
	by := &n.usage
	if *by == nothing {
		by = &n.demand
	}
	a.Dominant = dominant(by)
}

func dominant(v *resource.Shares) resource.Kind {
	best, share := resource.CPU, 0.0
	for k := range v {
		if v[k] > share {
			best, share = resource.Kind(k), v[k]
		}
	}
	return best
}

func (e *Engine) fillPool(p *pool, at int32, result *Result) {
	element := &result.Elements[p.slot]
	result.States[p.slot].Volume = p.state.Volume
	result.States[p.slot].LastShareRatio = p.state.LastShareRatio
	a := &result.Pools[at]
	*a = PoolAttributes{
		StrongGuarantee: p.strong, Tiers: p.tiers, ProposedIntegral: p.proposed, Inferred: p.inferred,
		BurstRatio: p.burstRatio, FlowRatio: p.flowRatio,
		TotalBurstRatio: p.totalBurst, TotalFlowRatio: p.totalFlow,
		Overflow: p.overflow, Acceptable: p.acceptable,
		Accepted: p.accepted, ChildrenOverflow: p.childrenOverflow,
		FitFactor: p.factor,
		FitPoints: int32(len(p.fit.points)), CurvePoints: int32(len(p.curve.points)),
	}
	if integral := &p.settings.Integral; integral.Type != NoIntegral {
		a.SpecifiedBurstRatio = largestRatio(integral.Burst, e.total)
	}
	a.Strong, a.Integral = byCause(element.FairShare, p.strong, p.proposed)
	a.PromisedStrong, a.PromisedIntegral = byCause(element.Promised, p.strong, p.proposed)
}

// byCause splits a share: the strong guarantee covers the first part of it, the
// integral one the next.
func byCause(share, strong, integral resource.Shares) (byStrong, byIntegral resource.Shares) {
	byStrong = share.Min(strong)
	return byStrong, share.Sub(byStrong).Min(integral)
}

// fillRoot makes the root's share the sum of what its children got: it hands
// out the cluster, it does not own it.
func (e *Engine) fillRoot(result *Result) {
	root := &e.pools[0]
	sum, strong := nothing, nothing
	for _, slot := range root.children {
		sum = sum.Add(result.Elements[slot].FairShare)
		if p := result.Pool(slot); p != nil {
			strong = strong.Add(p.Strong)
		}
	}
	result.Elements[0].FairShare = sum
	a := &result.Pools[0]
	a.Strong, a.Integral = byCause(sum, strong, root.proposed)
}
