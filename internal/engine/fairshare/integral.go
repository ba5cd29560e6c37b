package fairshare

import (
	"math"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/value/resource"
)

// largestRatio is the largest component of a share of what the tree has.
func largestRatio(amounts, total resource.Amounts) float64 {
	return amounts.Share(total).Largest()
}

// measureIntegral computes the burst and flow ratios of a pool and the totals
// of its subtree. Integral guarantees are scalars: {cpu=100} of 1000 cores is a
// tenth of every resource.
func (e *Engine) measureIntegral(p *pool) {
	p.burstRatio, p.flowRatio = 0, 0
	if integral := &p.settings.Integral; integral.Type != NoIntegral {
		p.burstRatio = largestRatio(integral.Burst, e.total)
		p.flowRatio = largestRatio(integral.Flow, e.total)
	}
	p.totalBurst, p.totalFlow = p.burstRatio, p.flowRatio
	for _, at := range p.subpools {
		p.totalBurst += e.pools[at].totalBurst
		p.totalFlow += e.pools[at].totalFlow
	}
}

// turnVolumes charges and refills the volumes of integral pools for the time
// since the previous update, and hands what some could not store to others.
func (e *Engine) turnVolumes(elapsed time.Duration) {
	if e.light {
		return
	}
	for _, at := range e.order {
		p := &e.pools[at]
		p.overflow, p.acceptable, p.accepted = resource.Volume{}, resource.Volume{}, resource.Volume{}
		p.childrenOverflow = resource.Volume{}
	}
	if elapsed < 0 || e.total.IsZero() {
		return
	}
	seconds := elapsed.Seconds()
	for _, at := range e.order {
		if p := &e.pools[at]; p.isIntegral() {
			e.turnVolume(p, seconds)
		}
	}
	e.collectOverflow(&e.pools[0])
	e.spreadOverflow(&e.pools[0])
}

// Capacity is the most an integral pool with this flow ratio can save.
func (o *Options) Capacity(total resource.Amounts, flowRatio float64) resource.Volume {
	return resource.VolumeOf(total, flowRatio, o.CapacitySaturationPeriod.Seconds())
}

// BurstDuration estimates for how many seconds a burst pool can use its burst
// guarantee, with the flow coming in meanwhile. ok is false if the flow
// sustains it permanently.
func BurstDuration(ratioVolume, burstRatio, flowRatio float64) (seconds float64, ok bool) {
	if burstRatio <= flowRatio*(1+LargeEpsilon) {
		return 0, false
	}
	return ratioVolume / (burstRatio - flowRatio), true
}

// turnVolume charges what the previous update granted, used or not, and adds
// the flow. A bucket that shrinks under what it holds spills nothing.
func (e *Engine) turnVolume(p *pool, seconds float64) {
	capacity := e.options.Capacity(e.total, p.flowRatio)
	old := p.state.Volume
	volume := old.
		Add(resource.VolumeOf(e.total, p.flowRatio, seconds)).
		Sub(resource.VolumeOf(e.total, p.state.LastShareRatio, seconds)).
		Max(resource.Volume{})
	most := old.Max(capacity)
	p.overflow = volume.Sub(most).Max(resource.Volume{})
	if !p.settings.Integral.RefuseFreeVolume {
		p.acceptable = capacity.Sub(volume).Max(resource.Volume{})
	}
	p.state.Volume = volume.Min(most)
}

// collectOverflow sums up, below a pool that is not integral, what its children
// could not store and what they could still accept.
func (e *Engine) collectOverflow(p *pool) {
	if p.isIntegral() {
		return
	}
	var overflow, acceptable resource.Volume
	for _, at := range p.subpools {
		c := &e.pools[at]
		e.collectOverflow(c)
		overflow = overflow.Add(c.overflow)
		acceptable = acceptable.Add(c.acceptable)
	}
	p.childrenOverflow = overflow
	for k := range overflow {
		switch rest := overflow[k] - acceptable[k]; {
		case rest > 0:
			p.overflow[k] = rest
		case p.slot != 0 && !p.settings.Integral.RefuseFreeVolume:
			p.acceptable[k] = -rest
		}
	}
}

// spreadOverflow hands the overflow below a pool to those of its children that
// can accept it, in proportion to their flows.
func (e *Engine) spreadOverflow(p *pool) {
	if p.isIntegral() {
		p.state.Volume = p.state.Volume.Add(p.accepted)
		return
	}
	if p.settings.Integral.DistributeFreeVolume.or(e.options.DistributeFreeVolume && p.slot != 0) {
		free := p.accepted.Add(p.childrenOverflow)
		for k := range free {
			e.fillEvenly(p, k, free[k])
		}
	}
	for _, at := range p.subpools {
		e.spreadOverflow(&e.pools[at])
	}
}

// fillEvenly divides free volume of one resource by water filling: children
// with the least room for their flow are filled first, the rest share what is
// left in proportion to flow.
func (e *Engine) fillEvenly(p *pool, k int, free float64) {
	open := e.openBuckets[:0]
	flows := 0.0
	for _, at := range p.subpools {
		if c := &e.pools[at]; c.acceptable[k] > Epsilon && c.totalFlow > Epsilon {
			open = append(open, at)
			flows += c.totalFlow
		}
	}
	slices.SortStableFunc(open, func(i, j int32) int {
		a, b := &e.pools[i], &e.pools[j]
		left, right := a.acceptable[k]/a.totalFlow, b.acceptable[k]/b.totalFlow
		switch {
		case left < right:
			return -1
		case left > right:
			return 1
		}
		return 0
	})
	e.openBuckets = open
	for i, at := range open {
		c := &e.pools[at]
		if free*c.totalFlow/flows < c.acceptable[k] {
			for _, later := range open[i:] {
				l := &e.pools[later]
				l.accepted[k] = free * l.totalFlow / flows
			}
			return
		}
		c.accepted[k] = c.acceptable[k]
		free -= c.acceptable[k]
		flows -= c.totalFlow
	}
}

// rate is the share that would spend the pool's volume in one smooth period.
func (e *Engine) rate(p *pool) float64 {
	return p.state.Volume.Ratio(e.total) / e.options.SmoothPeriod.Seconds()
}

// gap is how much more may be promised to a pool: what its limits and those of
// its ancestors leave above the guarantees already given.
func (e *Engine) gap(p *pool) resource.Shares {
	gap := resource.Ones()
	for ; p.slot != 0; p = e.parentOf(p) {
		gap = gap.Min(p.limits.Sub(p.strong).Sub(p.proposed))
	}
	return gap.Max(nothing)
}

// propose adds an integral share to a pool and its ancestors.
func (e *Engine) propose(p *pool, share resource.Shares) {
	p.state.LastShareRatio = share.Largest()
	e.unprepare(p)
	for ; ; p = e.parentOf(p) {
		p.proposed = p.proposed.Add(share)
		if p.slot == 0 {
			return
		}
		if !p.limits.Dominates(p.strong.Add(p.proposed)) {
			p.proposed, p.clipped = withinLimits(p.strong, p.proposed, p.limits), true
		}
	}
}

// withinLimits lowers proposed until strong+proposed, as computed, is within
// limits. Rounding alone brings it above them, and a plain subtraction may
// still be off by a unit in the last place.
func withinLimits(strong, proposed, limits resource.Shares) resource.Shares {
	for k := range proposed {
		if strong[k]+proposed[k] <= limits[k] {
			continue
		}
		proposed[k] = max(limits[k]-strong[k], 0)
		for proposed[k] > 0 && strong[k]+proposed[k] > limits[k] {
			proposed[k] = math.Nextafter(proposed[k], 0)
		}
	}
	return proposed
}

// shareBurst gives burst pools their integral shares: as much as demand needs
// beyond strong guarantees, at most the burst guarantee, while the volume
// lasts.
func (e *Engine) shareBurst() {
	for _, at := range e.burst {
		p := &e.pools[at]
		speed := min(p.burstRatio, e.rate(p))
		proposed := resource.Uniform(speed).Min(e.gap(p))
		proposed = withinLimits(p.strong, proposed, p.limits)
		b := e.tryBounds(p, p.strong.Add(proposed), p.limits)
		_, granted := e.poolAt(p, 0, &b)
		e.propose(p, granted.Sub(p.strong).Max(nothing))
	}
}

// relaxedPool is a relaxed pool as it takes part in the division.
type relaxedPool struct {
	at     int32
	weight float64
	bounds bounds
}

// shareRelaxed divides what strong and burst guarantees leave idle now among
// relaxed pools, in proportion to what they have saved.
func (e *Engine) shareRelaxed() {
	if len(e.relaxed) == 0 {
		return
	}
	available := resource.Ones()
	root := &e.pools[0]
	for _, at := range root.subpools {
		c := &e.pools[at]
		available = available.Sub(c.strong.Add(c.proposed).Min(e.nodes[c.slot].demand))
	}
	available = available.Max(nothing)

	takers := e.takers[:0]
	least := math.Inf(1)
	for _, at := range e.relaxed {
		p := &e.pools[at]
		rate := e.rate(p)
		if rate == 0 {
			p.state.LastShareRatio = 0
			continue
		}
		multiplier := p.settings.Integral.RelaxedMultiplier
		if multiplier == 0 {
			multiplier = e.options.RelaxedShareMultiplierLimit
		}
		speed := min(rate, multiplier*p.flowRatio)
		limit := p.limits.Min(p.strong.Add(resource.Uniform(speed)))
		takers = append(takers, relaxedPool{at, rate, e.tryBounds(p, p.strong, limit)})
		least = min(least, rate)
	}
	e.takers = takers
	for i := range takers {
		takers[i].weight /= least
	}
	taken := func(t *relaxedPool, f float64) resource.Shares {
		p := &e.pools[t.at]
		_, v := e.poolAt(p, min(1, f*t.weight), &t.bounds)
		return v.Sub(p.strong).Max(nothing)
	}
	factor := searchMax(0, 1, func(f float64) bool {
		sum := nothing
		for i := range takers {
			sum = sum.Add(taken(&takers[i], f))
		}
		return available.Dominates(sum)
	})
	for i := range takers {
		p := &e.pools[takers[i].at]
		e.propose(p, taken(&takers[i], factor).Min(e.gap(p)))
	}
}
