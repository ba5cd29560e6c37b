package fairshare

import (
	"math"
	"time"

	"github.com/weirhq/weir/internal/value/resource"
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

// truncates says whether truncate can change anything.
func (e *Engine) truncates() bool {
	if e.options.TruncateFIFO {
		return true
	}
	for _, at := range e.order {
		if e.pools[at].settings.TruncateFIFO == On {
			return true
		}
	}
	return false
}

// fill writes what changed since the result was filled last.
func (e *Engine) fill(tree *Tree, result *Result) {
	since := result.filled
	if result.engine != e || len(result.Elements) != len(tree.Elements) || since < e.rebuiltAt {
		since = 0
		result.Elements = resize(result.Elements, len(tree.Elements))
		for slot := range result.Elements {
			result.Elements[slot] = ElementResult{Pool: -1, FIFOIndex: -1}
		}
	}
	result.engine, result.filled = e, e.updates
	result.Total = e.total
	result.Alerts = append(result.Alerts[:0], e.alerts...)
	result.Pools = resize(result.Pools, len(e.pools))
	result.Promised = append(result.Promised[:0], e.promised...)
	e.fillStates(tree, result)
	for _, at := range e.order {
		p := &e.pools[at]
		e.fillElement(result, p.slot)
		result.Elements[p.slot].Pool = at
		e.fillPool(p, at, result)
		if p.changedAt > since {
			for _, slot := range p.children {
				if e.nodes[slot].pool < 0 {
					e.fillElement(result, slot)
				}
			}
		}
	}
	e.fillRoot(result)
}

// fillStates writes the next states, up to the last slot that has one.
func (e *Engine) fillStates(tree *Tree, result *Result) {
	result.States = append(result.States[:0], tree.States...)
	state := func(slot int32) *State {
		if int(slot) >= len(result.States) {
			from := len(result.States)
			result.States = resize(result.States, int(slot)+1)
			clear(result.States[from:])
		}
		return &result.States[slot]
	}
	for _, at := range e.order {
		p := &e.pools[at]
		if p.isIntegral() {
			s := state(p.slot)
			s.Volume, s.LastShareRatio = p.state.Volume, p.state.LastShareRatio
		} else if int(p.slot) < len(result.States) {
			result.States[p.slot].LastShareRatio = 0
		}
		if p.settings.HistoricUsagePeriod > 0 {
			for _, slot := range p.children {
				state(slot).Historic = e.history[slot]
			}
		}
	}
}

func (e *Engine) fillElement(result *Result, slot int32) {
	n := &e.nodes[slot]
	result.Elements[slot] = ElementResult{
		FairShare: e.shares[slot], Suggestion: n.suggestion, Weight: n.weight, Pool: -1, FIFOIndex: n.fifoIndex,
	}
}

func (e *Engine) fillPool(p *pool, at int32, result *Result) {
	n := &e.nodes[p.slot]
	r := &result.Pools[at]
	*r = PoolResult{
		Attributes: Attributes{
			Usage: n.usage, Demand: n.demand, Limits: n.limits,
			Estimated: p.estimated, Guaranteed: p.guaranteed,
			Dominant: dominant(&n.usage, &n.demand),
		},
		StrongGuarantee: p.strong, Tiers: p.tiers, ProposedIntegral: p.proposed, Inferred: p.inferred,
		Guarantee:  p.strong.Add(p.proposed),
		BurstRatio: p.burstRatio, FlowRatio: p.flowRatio,
		TotalBurstRatio: p.totalBurst, TotalFlowRatio: p.totalFlow,
		Overflow: p.overflow, Acceptable: p.acceptable,
		Accepted: p.accepted, ChildrenOverflow: p.childrenOverflow,
		FitFactor: p.factor,
		FitPoints: int32(len(p.fit.points)), CurvePoints: int32(len(p.curve.points)),
		childWeights: p.weights, estimatedRest: p.estimatedRest, guaranteedRest: p.guaranteedRest,
	}
	if p.clipped {
		r.ProposedIntegral = p.limits.Sub(p.strong).Max(nothing)
	}
	if integral := &p.settings.Integral; integral.Type != NoIntegral {
		r.SpecifiedBurstRatio = largestRatio(integral.Burst, e.total)
	}
	r.Strong, r.Integral = byCause(e.shares[p.slot], p.strong, p.proposed)
	if len(result.Promised) > 0 {
		r.PromisedStrong, r.PromisedIntegral = byCause(e.promised[p.slot], p.strong, p.proposed)
	}
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
	r := &result.Pools[0]
	r.Strong, r.Integral = byCause(sum, strong, root.proposed)
}
