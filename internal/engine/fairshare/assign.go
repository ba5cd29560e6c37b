package fairshare

import "github.com/weirhq/weir/internal/value/resource"

// assign divides the share that a pool got, and records in shares what each
// element of its subtree gets. In the normal computation the pool is asked by
// suggestion, in the improved one by vector. It reports whether anything in the
// subtree may get something else than before.
func (e *Engine) assign(p *pool, shares []resource.Shares) bool {
	if len(p.children) == 0 {
		p.factor = 0
		return true
	}
	given := &shares[p.slot]
	asked := division{p.fitStamp, p.factor, *given}
	if e.canSkip && asked == p.division {
		p.factor, p.passed = p.divided, p.jumped
		return false
	}
	p.division, p.changedAt = asked, e.updates
	if e.options.Improved {
		e.improve(p, given)
		e.divide(p, p.factor, shares)
	} else {
		// The fit factor may be too large by rounding; without this correction
		// the children would get more than the pool, level after level.
		most := given.Add(resource.Uniform(Epsilon))
		if !most.Dominates(e.divide(p, p.factor, shares)) {
			p.factor = searchMaxNear(0, p.factor, func(f float64) bool {
				return most.Dominates(e.sumOf(p, f, shares))
			})
			e.divide(p, p.factor, shares)
		}
	}
	p.divided, p.jumped = p.factor, p.passed
	for _, at := range p.subpools {
		if e.assign(&e.pools[at], shares) {
			e.assigned = append(e.assigned, at)
		}
	}
	return true
}

// divide records what the pool's children get at fit factor f, and returns the
// sum.
func (e *Engine) divide(p *pool, f float64, shares []resource.Shares) (sum resource.Shares) {
	switch {
	case p.settings.Mode == FIFO:
		return e.divideFIFO(p, f, shares)
	case e.options.Improved:
		return e.divideImproved(p, f, shares)
	}
	for _, slot := range p.children {
		n := &e.nodes[slot]
		s := min(1, f*(n.weight/p.leastWeight))
		if n.pool < 0 {
			shares[slot] = operationShare(n, s)
		} else {
			child := &e.pools[n.pool]
			child.factor, shares[slot] = e.poolShare(child, s)
		}
		for k := range sum {
			sum[k] += shares[slot][k]
		}
	}
	return sum
}

// poolShare is poolAt under the pool's own bounds. It keeps the last answer: most
// pools are asked the same again.
func (e *Engine) poolShare(p *pool, s float64) (float64, resource.Shares) {
	a := &p.answer
	if a.fitStamp != p.fitStamp || a.suggestion != s || a.bounds != p.bounds {
		*a = answer{fitStamp: p.fitStamp, suggestion: s, bounds: p.bounds}
		a.factor, a.share = e.poolAt(p, s, &p.bounds)
	}
	return a.factor, a.share
}

func (e *Engine) divideFIFO(p *pool, f float64, shares []resource.Shares) (sum resource.Shares) {
	for i, slot := range p.sorted {
		n := &e.nodes[slot]
		s := min(1, max(0, f-float64(i)))
		if s == 0 {
			shares[slot] = nothing
			continue
		}
		shares[slot] = operationShare(n, s)
		sum = sum.Add(shares[slot])
	}
	return sum
}

// sumOf returns what the pool's children get together at fit factor f. It may use
// shares as scratch space.
func (e *Engine) sumOf(p *pool, f float64, shares []resource.Shares) resource.Shares {
	if p.settings.Mode == FIFO {
		return e.fifoSum(p, f)
	}
	return e.divide(p, f, shares)
}

// fifoSum returns what the operations of a FIFO pool get together at fit factor
// f.
func (e *Engine) fifoSum(p *pool, f float64) resource.Shares {
	whole := min(int(f), len(p.sorted))
	if rest := f - float64(whole); rest > 0 && whole < len(p.sorted) {
		return p.served[whole].Add(operationAt(&e.nodes[p.sorted[whole]], rest))
	}
	return p.served[whole]
}

// divideImproved records what children get at fit factor f, at which the first
// ones of them have jumped.
func (e *Engine) divideImproved(p *pool, f float64, shares []resource.Shares) (sum resource.Shares) {
	for i := range p.sources {
		s := &p.sources[i]
		v := e.childAt(p, i, f, i < int(p.passed))
		shares[s.child] = v
		sum = sum.Add(v)
	}
	return sum
}

// improve finds the largest fit factor whose division fits into given.
func (e *Engine) improve(p *pool, given *resource.Shares) {
	p.factor, p.passed = e.largestFactor(p, 0, given)
	if !e.options.ImprovedDistributionGap {
		return
	}
	if rest := given.Sub(e.sumOf(p, p.factor, e.spare)); rest.Largest() > Epsilon {
		most := given.Add(resource.Uniform(Epsilon))
		p.factor, p.passed = e.largestFactor(p, p.factor, &most)
	}
}

// largestFactor is the largest fit factor, at least from, at which the children
// together get no more than most, and how many of them have jumped there. Within a
// straight piece their sum is the value of the piece, give or take rounding. Less
// than Epsilon of the first step is nothing.
func (e *Engine) largestFactor(p *pool, from float64, most *resource.Shares) (float64, int32) {
	b := upTo(most)
	at := e.locate(p, &b, 0)
	if p.settings.Mode == FIFO {
		f := max(from, searchMaxAround(from, stopping(&at, most), max(from, at.high.x), func(f float64) bool {
			return most.Dominates(e.fifoSum(p, f))
		}))
		if f < Epsilon {
			return 0, 0
		}
		return f, 0
	}
	if at.low.x == at.high.x {
		return at.low.x, at.passed
	}
	f := searchMaxAround(at.low.x, stopping(&at, most), at.high.x, func(f float64) bool {
		return most.Dominates(at.value(f))
	})
	switch {
	case f == at.low.x:
		return f, int32(len(p.sources)) // what jumps there has jumped
	case f < Epsilon*at.high.x && at.low.x == 0 && at.low.v == p.first:
		return 0, 0
	}
	return f, 0
}

// stopping returns about where a part of a fit exceeds most.
func stopping(at *site, most *resource.Shares) float64 {
	t := 1.0
	for k := range most {
		if at.high.v[k] > most[k] && at.high.v[k] > at.low.v[k] {
			t = min(t, (most[k]-at.low.v[k])/(at.high.v[k]-at.low.v[k]))
		}
	}
	return at.low.x + (at.high.x-at.low.x)*t
}
