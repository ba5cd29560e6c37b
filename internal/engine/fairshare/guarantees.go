package fairshare

import (
	"math"

	"github.com/weirhq/weir/internal/value/resource"
)

// inferGuarantees completes strong guarantees: a resource that a pool does not
// name gets the same part of the parent's guarantee as the main resource does.
// Without it {cpu=100} would guarantee no memory, and so nothing.
func (e *Engine) inferGuarantees() {
	root := &e.pools[0]
	root.inferred = e.total
	for _, at := range e.order {
		e.inferChildren(&e.pools[at])
	}
}

func (e *Engine) inferChildren(p *pool) {
	var explicit resource.Amounts
	for _, at := range p.subpools {
		c := &e.pools[at]
		c.inferred = c.settings.Strong.OrZero()
		explicit = explicit.Add(c.inferred)
	}
	residual := p.inferred.Sub(explicit).Max(resource.Amounts{})
	main := e.options.MainResource
	for _, k := range resource.Kinds {
		if k == main {
			continue
		}
		implicit := func(c *pool) float64 {
			if c.settings.Strong.Has(k) || p.inferred[main] == 0 {
				return 0
			}
			return p.inferred.Float(k) * (c.inferred.Float(main) / p.inferred.Float(main))
		}
		sum := 0.0
		for _, at := range p.subpools {
			sum += implicit(&e.pools[at])
		}
		scale := 1.0
		if rest := residual.Float(k); p.slot != 0 && sum > rest {
			scale = rest / sum
		}
		for _, at := range p.subpools {
			c := &e.pools[at]
			if c.settings.Strong.Has(k) {
				continue
			}
			amount := implicit(c) * scale
			if k != resource.CPU {
				amount = math.Trunc(amount) // only cpu is rounded to its unit
			}
			c.inferred[k] = resource.FromFloat(k, amount)
		}
	}
}

// measureGuarantees computes, bottom-up, the shares of strong guarantees and the
// ratios of integral ones, and lists integral pools.
func (e *Engine) measureGuarantees() {
	e.burst, e.relaxed = e.burst[:0], e.relaxed[:0]
	for _, at := range e.order {
		switch e.pools[at].settings.Integral.Type {
		case Burst:
			e.burst = append(e.burst, at)
		case Relaxed:
			e.relaxed = append(e.relaxed, at)
		}
	}
	for i := len(e.order) - 1; i >= 0; i-- {
		p := &e.pools[e.order[i]]
		p.strong = p.inferred.Share(e.total)
		e.measureIntegral(p)
	}
	root := &e.pools[0]
	root.strong = nothing
	for _, at := range root.subpools {
		root.strong = root.strong.Add(e.pools[at].strong)
	}
}

// fitGuarantees makes strong guarantees effective: they are scaled down where
// they exceed the parent's or the pool's own limits.
func (e *Engine) fitGuarantees() {
	e.splitTiers()
	e.nodes[0].weight = 1
	for _, at := range e.order {
		e.adjustChildren(&e.pools[at])
	}
}

// checkOvercommit raises alerts for promises that do not fit into the cluster
// and scales strong and burst guarantees by one factor until they do.
func (e *Engine) checkOvercommit() {
	root := &e.pools[0]
	var strong resource.Amounts
	for _, at := range root.subpools {
		strong = strong.Add(e.pools[at].inferred)
	}
	flow := e.total.Times(root.totalFlow)
	if !e.total.Dominates(strong.Add(flow)) {
		e.alert(AlertOvercommit, "Strong guarantees and resource flows exceed total cluster resources", nil)
	}
	burst := e.total.Times(root.totalBurst)
	if e.total.Dominates(strong.Add(burst)) {
		return
	}
	e.alert(AlertOvercommit, "Strong guarantees and burst guarantees exceed total cluster resources", nil)
	factor := searchMax(0, 1, func(f float64) bool {
		sum := root.strong.Times(f)
		for _, at := range e.burst {
			sum = sum.Add(resource.Uniform(e.pools[at].burstRatio * f))
		}
		return resource.Ones().Dominates(sum)
	})
	root.strong = root.strong.Times(factor)
	for _, at := range e.burst {
		e.pools[at].burstRatio *= factor
	}
}

// Tiers of strong guarantees: priority pools keep theirs at the expense of
// regular ones when a donor ancestor has less than it promised.
const (
	priorityTier = iota
	regularTier
	tierCount
)

// findDonors finds which pools with priority have a donor above them. Only pools
// without priority may be between the two.
func (e *Engine) findDonors() {
	var orphans []int32
	for _, at := range e.order {
		p := &e.pools[at]
		p.donorSeen = false
		if p.slot == 0 {
			continue
		}
		above := e.parentOf(p)
		p.donorSeen = above.settings.PriorityDonor || above.donorSeen && !above.settings.PriorityAdjustment
		if p.settings.PriorityAdjustment && !p.donorSeen {
			orphans = append(orphans, p.slot)
		}
	}
	if len(orphans) > 0 {
		e.alert(AlertNoDonor, "Found pools with enabled priority strong guarantee adjustment which do not have a donor", orphans)
	}
}

// splitTiers divides every pool's strong guarantee between tiers, bottom-up.
func (e *Engine) splitTiers() {
	for i := len(e.order) - 1; i > 0; i-- {
		p := &e.pools[e.order[i]]
		priority := nothing
		for _, at := range p.subpools {
			priority = priority.Add(e.pools[at].tiers[priorityTier])
		}
		switch {
		case p.settings.PriorityAdjustment && p.donorSeen:
			p.tiers = [tierCount]resource.Shares{p.strong, nothing}
		case p.settings.PriorityDonor:
			p.tiers = [tierCount]resource.Shares{nothing, p.strong}
		default:
			p.tiers = [tierCount]resource.Shares{priority, p.strong.Sub(priority)}
		}
	}
}

// adjustChildren scales the guarantees of a pool's children until they fit into
// its own, tier by tier.
func (e *Engine) adjustChildren(p *pool) {
	p.strong = p.strong.Min(p.limits)
	granted := nothing
	for tier := range tierCount {
		wanted := nothing
		for _, at := range p.subpools {
			wanted = wanted.Add(e.pools[at].tiers[tier])
		}
		free := p.strong.Sub(granted).Max(nothing)
		if free.Dominates(wanted) {
			granted = granted.Add(wanted)
			continue
		}
		factor := searchMax(0, 1, func(f float64) bool {
			sum := nothing
			for _, at := range p.subpools {
				sum = sum.Add(e.pools[at].tiers[tier].Times(f))
			}
			return free.Dominates(sum)
		})
		for _, at := range p.subpools {
			c := &e.pools[at]
			c.tiers[tier] = c.tiers[tier].Times(factor)
			for later := tier + 1; later < tierCount; later++ {
				c.tiers[later] = nothing
			}
		}
		break
	}
	for _, at := range p.subpools {
		c := &e.pools[at]
		c.strong = c.tiers[priorityTier].Add(c.tiers[regularTier])
	}
}

// estimateGuarantees computes what every pool is guaranteed when all elements
// demand more: its strong guarantee, and by weight a part of what is left of the
// parent's. The older "guaranteed" divides the whole cluster and counts the
// flows of integral pools. What operations get follows from the rests; see
// Result.Attributes.
func (e *Engine) estimateGuarantees() {
	if !e.reweighed {
		return
	}
	root := &e.pools[0]
	root.estimated, root.guaranteed = root.strong, resource.Ones()
	for k := range e.total {
		if e.total[k] == 0 {
			root.guaranteed[k] = 0
		}
	}
	for _, at := range e.order {
		p := &e.pools[at]
		p.estimatedRest, p.guaranteedRest = p.estimated, p.guaranteed
		for _, at := range p.subpools {
			c := &e.pools[at]
			c.estimated = c.strong.Min(p.estimatedRest)
			p.estimatedRest = p.estimatedRest.Sub(c.estimated)
			c.guaranteed = c.strong.Add(resource.Uniform(c.totalFlow)).Min(p.guaranteedRest)
			p.guaranteedRest = p.guaranteedRest.Sub(c.guaranteed)
		}
		for _, at := range p.subpools {
			c := &e.pools[at]
			part := e.nodes[c.slot].weight / p.weights
			c.estimated = c.estimated.Add(p.estimatedRest.Times(part))
			c.guaranteed = c.guaranteed.Add(p.guaranteedRest.Times(part))
		}
	}
}
