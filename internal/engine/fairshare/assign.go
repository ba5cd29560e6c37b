package fairshare

import (
	"math"
	"sort"

	"github.com/weirhq/weir/internal/value/resource"
)

// assign divides the share that a pool got, and records in shares what each
// element of its subtree gets. In the normal computation the pool is asked by
// suggestion, in the improved one by vector.
func (e *Engine) assign(p *pool, shares []resource.Shares) {
	if len(p.children) == 0 {
		p.factor = 0
		return
	}
	given := &shares[p.slot]
	asked := division{p.fitStamp, p.factor, *given}
	if e.canSkip && asked == p.division {
		p.factor = p.divided
		return
	}
	p.division, p.changedAt = asked, e.updates
	if e.options.Improved {
		p.factor = e.improvedFactor(p, given)
	} else {
		// The fit factor may be too large by rounding; without this correction
		// the children would get more than the pool, level after level.
		most := given.Add(resource.Uniform(Epsilon))
		p.factor = searchMaxNear(0, p.factor, func(f float64) bool {
			return most.Dominates(e.sumAt(p, f, shares))
		})
	}
	p.divided = p.factor
	e.divide(p, p.factor, shares)
	for _, slot := range p.children {
		if child := e.nodes[slot].pool; child >= 0 {
			e.assign(&e.pools[child], shares)
		}
	}
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
		n.suggestion = min(1, f*(n.weight/p.leastWeight))
		if n.pool < 0 {
			shares[slot] = operationAt(n, n.suggestion)
		} else {
			child := &e.pools[n.pool]
			child.factor, shares[slot] = e.poolAt(child, n.suggestion, &child.bounds)
		}
		sum = sum.Add(shares[slot])
	}
	return sum
}

func (e *Engine) divideFIFO(p *pool, f float64, shares []resource.Shares) (sum resource.Shares) {
	for i, slot := range p.sorted {
		n := &e.nodes[slot]
		n.suggestion = min(1, max(0, f-float64(i)))
		if n.suggestion == 0 {
			shares[slot] = nothing
			continue
		}
		shares[slot] = operationAt(n, n.suggestion)
		sum = sum.Add(shares[slot])
	}
	return sum
}

// fifoPrefix is what the first operations of a FIFO pool take together.
type fifoPrefix struct {
	slot     int32
	fitStamp uint64
	count    int
	sum      resource.Shares
}

// sumAt returns what the pool's children get together at fit factor f. It may
// use shares as scratch space. In a FIFO pool it recomputes only the operation
// at the border.
func (e *Engine) sumAt(p *pool, f float64, shares []resource.Shares) resource.Shares {
	if p.settings.Mode != FIFO {
		return e.divide(p, f, shares)
	}
	whole := min(int(f), len(p.sorted))
	if x := &e.prefix; x.slot != p.slot || x.fitStamp != p.fitStamp || x.count != whole {
		*x = fifoPrefix{slot: p.slot, fitStamp: p.fitStamp, count: whole}
		for _, slot := range p.sorted[:whole] {
			x.sum = x.sum.Add(operationAt(&e.nodes[slot], 1))
		}
	}
	if rest := f - float64(whole); rest > 0 && whole < len(p.sorted) {
		return e.prefix.sum.Add(operationAt(&e.nodes[p.sorted[whole]], rest))
	}
	return e.prefix.sum
}

// divideImproved interpolates between what children get after one step of the
// improved fit and before the next one.
func (e *Engine) divideImproved(p *pool, f float64, shares []resource.Shares) (sum resource.Shares) {
	whole := math.Floor(f)
	last := len(p.fit.steps) - 1
	from := min(int(whole), last)
	t := f - whole
	a := p.fit.steps[from]
	b := p.fit.steps[min(from+1, last)]
	for _, slot := range p.fit.idle {
		shares[slot], e.nodes[slot].suggestion = nothing, 1
	}
	for i := range p.fit.sources {
		s := &p.fit.sources[i]
		n := &e.nodes[s.child]
		var v resource.Shares
		if t == 0 {
			v = e.sourceAt(p, s, a.x, int32(i) < a.source)
		} else {
			low := e.sourceAt(p, s, a.x, int32(i) <= a.source)
			high := e.sourceAt(p, s, b.x, int32(i) < b.source)
			v = between(&low, &high, t)
		}
		n.suggestion = min(1, (a.x+(b.x-a.x)*t)*s.scale)
		shares[s.child] = v
		sum = sum.Add(v)
	}
	return sum
}

// sourceAt returns the value of a child at x on its parent's scale: the lower
// end of a jump, or the upper one after it.
func (e *Engine) sourceAt(p *pool, s *source, x float64, after bool) resource.Shares {
	var points []point
	if s.isPool {
		points = e.pools[e.nodes[s.child].pool].curve.points
	} else {
		points = p.fit.own[s.first:s.end]
	}
	i := sort.Search(len(points), func(i int) bool { return points[i].x/s.scale >= x })
	if i == len(points) {
		return points[i-1].v
	}
	if b := points[i].x / s.scale; b > x && i > 0 {
		a := points[i-1].x / s.scale
		return between(&points[i-1].v, &points[i].v, (x-a)/(b-a))
	}
	for after && i+1 < len(points) && points[i+1].x == points[i].x {
		i++
	}
	return points[i].v
}

// improvedFactor is the largest fit factor whose division fits into given.
func (e *Engine) improvedFactor(p *pool, given *resource.Shares) float64 {
	f := e.largestFactor(p, 0, given)
	if e.options.ImprovedDistributionGap {
		rest := given.Sub(e.sumAt(p, f, e.spare))
		if rest.Largest() > Epsilon {
			most := given.Add(resource.Uniform(Epsilon))
			f = e.largestFactor(p, f, &most)
		}
	}
	if f < Epsilon {
		return 0
	}
	return f
}

// largestFactor is the largest fit factor, at least from, at which the children
// together get no more than most.
func (e *Engine) largestFactor(p *pool, from float64, most *resource.Shares) float64 {
	for !p.fit.done && (len(p.fit.points) == 0 || most.Dominates(p.fit.points[len(p.fit.points)-1].v)) {
		e.growFit(p)
	}
	points := p.fit.points
	i := sort.Search(len(points), func(i int) bool { return !most.Dominates(points[i].v) })
	switch {
	case i == len(points):
		return points[i-1].x
	case i == 0:
		return from
	}
	low, high := &points[i-1], &points[i]
	fits := func(f float64) bool { return most.Dominates(e.sumAt(p, f, e.spare)) }
	if low.x == high.x {
		return searchMaxNear(from, max(from, low.x), fits)
	}
	t := 1.0
	for k := range high.v {
		if high.v[k] > most[k] {
			t = min(t, (most[k]-low.v[k])/(high.v[k]-low.v[k]))
		}
	}
	guess := low.x + (high.x-low.x)*t
	return max(from, searchMaxAround(low.x, guess, high.x, fits))
}
