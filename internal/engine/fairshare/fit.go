package fairshare

import (
	"math"
	"slices"
	"sort"

	"github.com/weirhq/weir/internal/value/resource"
)

// A pool's fit is its share by fit factor, ignoring its own limits: how its
// children would spend growing permission.
//
//	fair share  the fit factor f is in [0, 1]; child i gets the suggestion
//	            min(1, f × weight / least weight)
//	improved    the same, but children that jump at one fit factor do so one
//	            after another, in their order
//	FIFO        the whole part of f is the number of children that got all they
//	            want, the fraction is the suggestion of the next one
//
// The fit is never written down. What is asked about it is where its value
// stops being acceptable, and the answer is a site: a straight piece or a jump.
// Finding the site takes a handful of sums over the children. Sites found are
// kept in pool.sites until a child changes.
//
// A site depends on nothing but the children's functions: its ends are
// neighbouring break points of children, and its values are sums in the order
// of the children. So the search may start anywhere and the answer is the same
// to the last bit, whatever was asked before.

// bounds are what a pool may take without a suggestion and at most.
type bounds struct{ guarantee, limit resource.Shares }

// stop reports whether a share is not acceptable under suggestion s. At
// suggestion zero the guarantee itself is acceptable; otherwise functions are
// left-continuous, so that reaching guarantee and suggestion is too much.
func (b *bounds) stop(v *resource.Shares, s float64) bool {
	for k := range v {
		if v[k] > b.limit[k] {
			return true
		}
		if excess := v[k] - b.guarantee[k]; excess > 0 && excess >= s {
			return true
		}
	}
	return false
}

// most returns how much of a resource is acceptable under suggestion s, give or take
// the last bit.
func (b *bounds) most(k int, s float64) float64 { return min(b.limit[k], b.guarantee[k]+s) }

// upTo returns bounds that stop every share that is not within most.
func upTo(most *resource.Shares) bounds { return bounds{*most, *most} }

// site is a part of a fit: a straight piece, after low.x up to high.x, or a jump,
// with low.x == high.x. low.v is the value just after low.x (at a jump, the
// lower end); high.v the one at high.x (at a jump, the upper end).
type site struct {
	low, high point
	// end reports that the fit has no point that stops; low is its last one.
	end bool
	// passed counts, at a jump in the improved computation, the children in
	// order that have jumped at the lower end.
	passed int32
	// below is, in a FIFO pool, the value at low.x itself: the lower end of a
	// jump if there is one.
	below resource.Shares
}

// value returns the value at x within a straight piece; at its lower end, the value
// after it.
func (s *site) value(x float64) resource.Shares {
	if x == s.high.x {
		return s.high.v
	}
	return between(&s.low.v, &s.high.v, (x-s.low.x)/(s.high.x-s.low.x))
}

// sitesKept is how many sites of a pool are kept.
const sitesKept = 16

// locate finds where the pool's fit stops under the bounds and suggestion s: the
// value at low is acceptable and the one at high is not.
func (e *Engine) locate(p *pool, b *bounds, s float64) site {
	return e.locateFrom(p, b, s, &p.hint)
}

// locateFrom is locate with a fit factor at which to begin, which becomes the one where
// the site was found.
func (e *Engine) locateFrom(p *pool, b *bounds, s float64, hint *float64) site {
	if p.settings.Mode == FIFO {
		return e.locateFIFO(p, b, s)
	}
	if len(p.children) == 0 {
		return site{low: point{x: 1}, high: point{x: 1}, end: true}
	}
	if b.stop(&p.first, s) {
		return site{low: point{0, p.first}, high: point{0, p.first}}
	}
	if len(p.sites) >= sitesKept {
		p.sites = p.sites[:0]
	}
	if p.sites == nil {
		p.sites = make([]site, 0, sitesKept)
	}
	for round := 0; ; round++ {
		i := sort.Search(len(p.sites), func(i int) bool { return b.stop(&p.sites[i].high.v, s) })
		if i < len(p.sites) && !b.stop(&p.sites[i].low.v, s) {
			*hint = p.sites[i].high.x
			return p.sites[i]
		}
		low, high := point{0, p.first}, point{x: 1}
		if i > 0 {
			low = p.sites[i-1].high
		}
		known := i < len(p.sites)
		if known {
			high = p.sites[i].low
		}
		switch {
		case low.x < high.x:
		case known:
			*hint = low.x
			return e.jumpAt(p, b, s, low, high)
		default:
			*hint = low.x
			return site{low: low, high: low, end: true}
		}
		f := *hint
		if round > 0 || !(f > low.x && f <= high.x) {
			f = e.guess(p, b, s, i, round, &low, &high)
		}
		p.sites = slices.Insert(p.sites, i, e.evaluate(p, f))
	}
}

// guess returns a fit factor between low, where the fit is acceptable, and high,
// where it is not, near where it stops. Between the two no site is known; site i
// is the one after high, if there is any.
func (e *Engine) guess(p *pool, b *bounds, s float64, i, round int, low, high *point) float64 {
	known := i < len(p.sites)
	if round%4 == 3 || !known && i == 0 {
		if !known && round < 4 {
			return high.x
		}
		return fromOrderedBits(orderedBits(low.x) + (orderedBits(high.x)-orderedBits(low.x)+1)/2)
	}
	f := high.x
	switch {
	case i > 0 && (round%2 == 0 || !known):
		f = p.sites[i-1].onwards(b, s)
	case i == 0:
		f = p.sites[i].backwards(b, s)
	}
	if known && !(f > low.x && f < high.x) { // along the line from low to high
		t := 1.0
		for k := range high.v {
			if most := b.most(k, s); high.v[k] > most {
				t = min(t, (most-low.v[k])/(high.v[k]-low.v[k]))
			}
		}
		f = low.x + (high.x-low.x)*t
	}
	if !(f > low.x) {
		return after(low.x)
	}
	return min(f, high.x)
}

// onwards returns where the fit would stop if it went on like this piece.
func (s *site) onwards(b *bounds, suggestion float64) float64 {
	reach := math.Inf(1)
	for k := range s.high.v {
		if rise := s.high.v[k] - s.low.v[k]; rise > 0 {
			reach = min(reach, (b.most(k, suggestion)-s.high.v[k])/rise)
		}
	}
	return s.high.x + (s.high.x-s.low.x)*reach
}

// backwards returns where the fit would stop if it had come to this piece, which is
// not acceptable, along the same line.
func (s *site) backwards(b *bounds, suggestion float64) float64 {
	back := 0.0
	for k := range s.low.v {
		if excess := s.low.v[k] - b.most(k, suggestion); excess > 0 {
			back = max(back, excess/(s.high.v[k]-s.low.v[k]))
		}
	}
	return s.low.x - (s.high.x-s.low.x)*back
}

// evaluate returns the straight piece of the pool's fit that covers f.
func (e *Engine) evaluate(p *pool, f float64) site {
	at := site{high: point{x: 1}}
	for i := range p.pieces {
		q := &p.pieces[i]
		if !q.covers(f) {
			e.seek(p, i, f)
		}
		if q.a.x > at.low.x {
			at.low.x = q.a.x
		}
		if q.b.x < at.high.x {
			at.high.x = q.b.x
		}
	}
	// The order of the sums matters to the last bit.
	for i := range p.pieces {
		switch q := &p.pieces[i]; {
		case q.empty:
		case q.flat:
			for k, v := range &q.a.v {
				at.low.v[k] += v
				at.high.v[k] += v
			}
		default:
			q.addTo(&at.low)
			q.addTo(&at.high)
		}
	}
	return at
}

// jumpAt returns the jump from low to high, or in the improved computation the
// jump of the one child that stops it.
func (e *Engine) jumpAt(p *pool, b *bounds, s float64, low, high point) site {
	if !e.options.Improved {
		return site{low: low, high: high}
	}
	base := e.openJump(p, low.x)
	passed := sort.Search(len(p.sources), func(i int) bool {
		v := e.afterJumps(base, i+1)
		return b.stop(&v, s)
	})
	at := site{
		low: point{low.x, e.afterJumps(base, passed)}, high: point{low.x, e.afterJumps(base, passed+1)}, passed: int32(passed),
	}
	e.jumps = e.jumps[:base]
	return at
}

// jump is what a child gets at a fit factor and just after it.
type jump struct{ before, behind resource.Shares }

// openJump finds what all children of a pool get on both sides of x, and appends
// it to Engine.jumps. Finding it may need the jumps of a child, so the list is
// used as a stack; the caller removes what is appended.
func (e *Engine) openJump(p *pool, x float64) (base int) {
	base = len(e.jumps)
	for i := range p.sources {
		e.jumps = append(e.jumps, jump{before: e.childAt(p, i, x, false)})
	}
	for i := range p.sources {
		e.jumps[base+i].behind = e.childAt(p, i, x, true)
	}
	return base
}

// childAt returns the value of a child at fit factor x, or just after it.
func (e *Engine) childAt(p *pool, i int, x float64, behind bool) resource.Shares {
	q := &p.pieces[i]
	switch {
	case behind:
		if f := after(x); !q.covers(f) {
			e.seek(p, i, f)
		}
	case x == 0:
		if s := &p.sources[i]; s.isPool {
			return e.poolOf(s.child).zero
		}
		return nothing
	case !q.covers(x):
		e.seek(p, i, x)
	}
	return q.at(x)
}

// afterJumps returns the sum of what the children get when the first ones have
// jumped.
func (e *Engine) afterJumps(base, passed int) (sum resource.Shares) {
	jumps := e.jumps[base:]
	for i := range jumps {
		if i < passed {
			sum = sum.Add(jumps[i].behind)
		} else {
			sum = sum.Add(jumps[i].before)
		}
	}
	return sum
}

// below returns the value of the fit at the lower end of a piece itself: the
// lower end of a jump if there is one.
func (e *Engine) below(p *pool, at *site) resource.Shares {
	if p.settings.Mode == FIFO {
		return at.below
	}
	x := at.low.x
	if e.options.Improved {
		base := e.openJump(p, x)
		defer func() { e.jumps = e.jumps[:base] }()
		for i := len(p.sources) - 1; i >= 0; i-- {
			if q := &e.jumps[base+i]; q.before != q.behind {
				return e.afterJumps(base, i)
			}
		}
		return at.low.v
	}
	if x == 0 {
		return p.first
	}
	return e.evaluate(p, x).high.v
}

// locateFIFO is locate for a FIFO pool: the children's functions one after
// another.
func (e *Engine) locateFIFO(p *pool, b *bounds, s float64) site {
	i := sort.Search(len(p.sorted), func(i int) bool { return b.stop(&p.served[i+1], s) })
	if i == len(p.sorted) {
		last := point{float64(max(i, 1)), p.served[i]}
		return site{low: last, high: last, end: true}
	}
	base := &p.served[i]
	e.own = appendOperationCurve(e.own[:0], &e.nodes[p.sorted[i]])
	e.row = e.row[:0]
	for _, q := range e.own {
		v := base.Add(q.v)
		e.row = push(e.row, float64(i)+q.x, &v)
	}
	j := 1
	for j < len(e.row)-1 && !b.stop(&e.row[j].v, s) {
		j++
	}
	at := site{low: e.row[j-1], high: e.row[j], below: e.row[j-1].v}
	if j > 1 && e.row[j-2].x == at.low.x {
		at.below = e.row[j-2].v
	}
	return at
}

// lineUp puts the operations of a FIFO pool one behind another.
func (e *Engine) lineUp(p *pool) {
	p.served = resize(p.served, len(p.sorted)+1)
	var sum resource.Shares
	for i, slot := range p.sorted {
		p.served[i] = sum
		n := &e.nodes[slot]
		if n.wholeStamp < n.stamp {
			e.own = appendOperationCurve(e.own[:0], n)
			n.whole, n.wholeStamp = e.own[len(e.own)-1].v, n.stamp
		}
		for k := range sum {
			sum[k] += n.whole[k]
		}
	}
	p.served[len(p.sorted)] = sum
}
