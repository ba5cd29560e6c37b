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
		p.factor, p.passed = p.record.factor, p.record.passed
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
				return most.Dominates(e.sumOf(p, f))
			})
			e.divide(p, p.factor, shares)
		}
	}
	for _, at := range p.subpools {
		if e.assign(&e.pools[at], shares) {
			e.assigned = append(e.assigned, at)
		}
	}
	return true
}

// divide records what the pool's children get at fit factor f, and returns the
// sum. Shares that are the same as in the last record are left alone.
func (e *Engine) divide(p *pool, f float64, shares []resource.Shares) (sum resource.Shares) {
	last := p.record
	p.record = record{factor: f, passed: p.passed}
	if e.canSkip {
		p.record.fitStamp = p.fitStamp
	}
	switch {
	case p.settings.Mode == FIFO:
		e.divideFIFO(p, f, &last, shares)
		return e.fifoSum(p, f)
	case e.options.Improved:
		e.divideImproved(p, f, &last, shares)
		return sum // nobody asks for it
	}
	for i := range p.sources {
		source := &p.sources[i]
		s := min(1, f*source.scale)
		if source.isPool {
			child := e.poolOf(source.child)
			child.factor, shares[source.child] = e.poolShare(child, s)
			sum = sum.Add(shares[source.child])
			continue
		}
		if s <= source.fullAt {
			v := operationAt(&e.nodes[source.child], s)
			e.give(shares, source.child, &v)
			sum = sum.Add(v)
			continue
		}
		if source.stamp > last.fitStamp || min(1, last.factor*source.scale) <= source.fullAt {
			e.give(shares, source.child, &source.most)
		}
		for k, v := range &source.most {
			sum[k] += v
		}
	}
	return sum
}

// give records the share of an operation, and notes that it differs from before.
func (e *Engine) give(shares []resource.Shares, slot int32, share *resource.Shares) {
	if shares[slot] != *share {
		shares[slot] = *share
		e.given = append(e.given, slot)
	}
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

// divideFIFO records what the operations of a FIFO pool get at fit factor f. If none
// of them has changed, only those between the last fit factor and this one differ.
func (e *Engine) divideFIFO(p *pool, f float64, last *record, shares []resource.Shares) {
	from, end := 0, len(p.sorted)
	if last.fitStamp == p.fitStamp {
		from, end = int(min(f, last.factor)), min(int(max(f, last.factor))+1, end)
	}
	for i := from; i < end; i++ {
		slot := p.sorted[i]
		v := nothing
		if s := f - float64(i); s > 0 {
			v = operationShare(&e.nodes[slot], min(1, s))
		}
		e.give(shares, slot, &v)
	}
}

// sumOf returns what the pool's children get together at fit factor f.
func (e *Engine) sumOf(p *pool, f float64) (sum resource.Shares) {
	switch {
	case p.settings.Mode == FIFO:
		return e.fifoSum(p, f)
	case e.options.Improved:
		for i := range p.sources {
			sum = sum.Add(e.childAt(p, i, f, i < int(p.passed)))
		}
		return sum
	}
	for i := range p.sources {
		source := &p.sources[i]
		s := min(1, f*source.scale)
		switch {
		case source.isPool:
			_, v := e.poolShare(e.poolOf(source.child), s)
			sum = sum.Add(v)
		case s > source.fullAt:
			sum = sum.Add(source.most)
		default:
			sum = sum.Add(operationAt(&e.nodes[source.child], s))
		}
	}
	return sum
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
func (e *Engine) divideImproved(p *pool, f float64, last *record, shares []resource.Shares) {
	jumps := p.passed > 0 || last.passed > 0
	for i := range p.sources {
		s, q := &p.sources[i], &p.pieces[i]
		if !jumps && q.flat && s.stamp <= last.fitStamp && q.covers(f) && q.covers(last.factor) {
			continue
		}
		v := e.childAt(p, i, f, i < int(p.passed))
		if s.isPool {
			shares[s.child] = v
		} else {
			e.give(shares, s.child, &v)
		}
	}
}

// improve finds the largest fit factor whose division fits into given.
func (e *Engine) improve(p *pool, given *resource.Shares) {
	p.factor, p.passed = e.largestFactor(p, 0, given)
	if !e.options.ImprovedDistributionGap {
		return
	}
	if rest := given.Sub(e.sumOf(p, p.factor)); rest.Largest() > Epsilon {
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
