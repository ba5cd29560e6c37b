package fairshare

import (
	"math"
	"time"

	"github.com/weirhq/weir/internal/value/resource"
)

// truncate removes the shares of gang operations in FIFO pools that got less than
// they demand, from them and from all pools above. No other element gets what is
// freed: a legacy rule, superseded by gang steps.
func (e *Engine) truncate(shares []resource.Shares) {
	if !e.truncates {
		return
	}
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

// historicFactor updates the usage history of an element and returns by how much
// its weight is lowered.
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

// fill writes what changed since the result was filled last.
func (e *Engine) fill(tree *Tree, result *Result) {
	since := result.filled
	before := result.Pools
	result.Reoffered = result.Reoffered[:0]
	if e.light && result.engine == e && since == e.updates-1 && since >= e.rebuiltAt && len(tree.States) == 0 && len(result.States) == 0 {
		e.fillPaths(result)
		return
	}
	if result.engine != e || len(result.Elements) != len(tree.Elements) || since < e.rebuiltAt {
		since = 0
		// Pools may have other numbers now, so old outcomes are kept to compare.
		result.Pools, result.spare = resize(result.spare, len(e.pools)), before
	}
	e.fillChanged(tree, result)
	result.engine, result.filled = e, e.updates
	result.Total = e.total
	result.Alerts = append(result.Alerts[:0], e.alerts...)
	e.fillPromised(result)
	e.fillStates(tree, result)
	for _, at := range e.order {
		p := &e.pools[at]
		offers := e.fillPool(p, at, result, before)
		if p.changedAt > since || !offers {
			e.fillOperations(p, result)
		}
		if !offers {
			result.Reoffered = append(result.Reoffered, p.slot)
		}
	}
	e.fillRoot(result)
}

// fillPaths writes what changed on the paths to changed elements and where shares
// were computed again.
func (e *Engine) fillPaths(result *Result) {
	result.filled = e.updates
	for _, slot := range result.Altered {
		result.Changed[slot] = false
	}
	result.Altered = result.Altered[:0]
	known := len(result.Elements)
	result.Changed = resize(result.Changed, len(e.nodes))
	clear(result.Changed[min(known, len(result.Changed)):])
	result.Elements = resize(result.Elements, len(e.nodes))
	for slot := known; slot < len(e.nodes); slot++ { // free ones among them do not differ from nothing
		result.Elements[slot] = ElementResult{Pool: -1, FIFOIndex: -1}
		result.alter(int32(slot))
	}
	for _, slot := range e.differ {
		result.alter(slot)
		if e.nodes[slot].kind == KindNone {
			result.Elements[slot] = ElementResult{Pool: -1, FIFOIndex: -1}
		}
	}
	pool := func(at int32) {
		p := &e.pools[at]
		offers := e.fillPool(p, at, result, result.Pools)
		if p.groupedAt == e.updates || p.touched && p.settings.Mode == FIFO {
			e.fillOperations(p, result) // their weights or positions may differ
		}
		if !offers {
			result.Reoffered = append(result.Reoffered, p.slot)
		}
	}
	if e.reweighed {
		for _, at := range e.order {
			pool(at)
		}
	} else {
		for _, at := range e.path {
			pool(at)
		}
		for _, at := range e.assigned {
			p := &e.pools[at]
			if p.tracedAt == e.updates {
				continue
			}
			e.fillShare(p, at, result)
		}
		pool(0)
	}
	for _, slot := range e.given {
		if old := &result.Elements[slot]; old.FairShare != e.shares[slot] {
			old.FairShare = e.shares[slot]
			result.alter(slot)
		}
	}
	e.fillRoot(result)
}

// fillShare writes the outcome of a pool whose share was computed again and to which
// nothing else happened.
func (e *Engine) fillShare(p *pool, at int32, result *Result) {
	element, r, share := &result.Elements[p.slot], &result.Pools[at], &e.shares[p.slot]
	if element.FairShare == *share && r.FitFactor == p.factor {
		return
	}
	element.FairShare, r.FitFactor = *share, p.factor
	r.Strong, r.Integral = byCause(*share, p.strong, p.proposed)
	result.alter(p.slot)
}

// fillOperations writes the outcome of the operations directly in a pool.
func (e *Engine) fillOperations(p *pool, result *Result) {
	for _, slot := range p.children {
		if e.nodes[slot].pool >= 0 {
			continue
		}
		e.fillElement(result, slot, -1)
	}
}

// fillChanged allocates space for all elements and marks those that are new,
// removed or differ in the input.
func (e *Engine) fillChanged(tree *Tree, result *Result) {
	known := len(result.Elements)
	result.Changed = resize(result.Changed, len(tree.Elements))
	clear(result.Changed)
	result.Altered = result.Altered[:0]
	all := result.Total != e.total || result.engine != e || result.filled != e.updates-1
	for slot := range result.Changed {
		if all || slot >= known || e.touched[slot] {
			result.alter(int32(slot))
		}
	}
	result.Elements = resize(result.Elements, len(tree.Elements))
	for slot := range result.Elements {
		if slot >= known || e.nodes[slot].kind == KindNone {
			result.Elements[slot] = ElementResult{Pool: -1, FIFOIndex: -1}
		}
	}
}

// fillPromised writes what guarantees alone promise.
func (e *Engine) fillPromised(result *Result) {
	if len(result.Promised)+len(e.promised) == 0 {
		return
	}
	for slot := range result.Changed {
		if sharesAt(result.Promised, slot) != sharesAt(e.promised, slot) {
			result.alter(int32(slot))
		}
	}
	result.Promised = append(result.Promised[:0], e.promised...)
}

// sharesAt returns the shares of a slot; a list that is too short has none.
func sharesAt(list []resource.Shares, slot int) resource.Shares {
	if slot >= len(list) {
		return nothing
	}
	return list[slot]
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

// fillElement writes the outcome of an element, whose number as a pool is given.
func (e *Engine) fillElement(result *Result, slot, pool int32) {
	n := &e.nodes[slot]
	outcome := ElementResult{
		FairShare: e.shares[slot], Weight: n.weight, Pool: pool, FIFOIndex: n.fifoIndex,
	}
	old := &result.Elements[slot]
	if *old == outcome {
		return
	}
	// The index of a pool does not matter to callers, but that it is a pool does.
	called := *old
	called.Pool = pool
	if called != outcome || (old.Pool < 0) != (pool < 0) {
		result.alter(slot)
	}
	*old = outcome
}

// fillPool writes the outcome of a pool, and reports whether operations directly in
// it have the same attributes as before; before has the old outcomes of pools.
func (e *Engine) fillPool(p *pool, at int32, result *Result, before []PoolResult) (offersAsBefore bool) {
	n := &e.nodes[p.slot]
	old := result.Elements[p.slot].Pool
	e.fillElement(result, p.slot, at)
	r := PoolResult{
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
		FitFactor:    p.factor,
		childWeights: p.weights, leastWeight: p.leastWeight, estimatedRest: p.estimatedRest, guaranteedRest: p.guaranteedRest,
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
	if old < 0 || int(old) >= len(before) {
		result.Pools[at] = r
		return false
	}
	was := &before[old]
	if *was != r {
		result.alter(p.slot)
	}
	offersAsBefore = was.offersAs(&r)
	result.Pools[at] = r // was may be this one
	return offersAsBefore
}

// byCause splits a share: the strong guarantee covers the first part of it, the
// integral one the next.
func byCause(share, strong, integral resource.Shares) (byStrong, byIntegral resource.Shares) {
	byStrong = share.Min(strong)
	return byStrong, share.Sub(byStrong).Min(integral)
}

// fillRoot makes the root's share the sum of what its children got: the root hands
// out the cluster, it does not own it.
func (e *Engine) fillRoot(result *Result) {
	root := &e.pools[0]
	sum, strong := nothing, nothing
	for _, slot := range root.children {
		sum = sum.Add(result.Elements[slot].FairShare)
	}
	for _, at := range e.pledged {
		strong = strong.Add(result.Pools[at].Strong)
	}
	result.Elements[0].FairShare = sum
	result.alter(0)
	r := &result.Pools[0]
	r.Strong, r.Integral = byCause(sum, strong, root.proposed)
}
