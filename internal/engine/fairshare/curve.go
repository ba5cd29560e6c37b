package fairshare

import "github.com/weirhq/weir/internal/value/resource"

// A pool's curve is its share by suggestion: its fit, measured by the suggestion
// that each part of it needs, and stopped by the pool's limits.

// fitted fits a guarantee and limits to the least share of a pool: it always
// includes the children's guarantees, at fit factor zero.
func fitted(least *resource.Shares, guarantee, limit resource.Shares) bounds {
	limit = limit.Max(*least)
	return bounds{guarantee.Max(*least).Min(limit), limit}
}

// curvePiece returns the straight piece of the pool's curve, as its parent sees
// it, that covers a positive suggestion: after a.x, up to and including b.x.
func (e *Engine) curvePiece(p *pool, s float64) (a, b point) {
	seen := &p.seen
	at := e.locate(p, seen, s)
	a = point{needed(&at.low.v, &seen.guarantee), at.low.v}
	if at.low.x == at.high.x {
		b = point{1, a.v}
		if !at.end && seen.limit.Dominates(at.high.v) {
			b.x = needed(&at.high.v, &seen.guarantee)
		}
		return a, b
	}
	walk := newClimb(&at.low.v, &at.high.v, &seen.guarantee, &seen.limit)
	if walk.reach <= 0 { // a limit is met at low.x itself
		a.v = e.below(p, &at)
		return a, point{1, a.v}
	}
	for more := true; more; {
		before := walk.t
		more = walk.next()
		if walk.t <= before {
			continue
		}
		v := walk.value()
		b = point{max(walk.need(&v), a.x), v}
		if b.x >= s {
			return a, b
		}
		a = b
	}
	// It ends at the guarantee, give or take the last bit. If what is needed there is
	// less than s, a limit stops it at the last bit: the piece must cover s.
	if end := needed(&at.high.v, &seen.guarantee); walk.reach >= 1 && end >= s {
		return a, point{end, a.v}
	}
	return a, point{1, a.v} // a limit stops it
}

// curveStart returns the value of the pool's curve at suggestion zero: as much
// as the guarantee covers.
func (e *Engine) curveStart(p *pool) resource.Shares {
	seen := &p.seen
	if seen.guarantee == p.first {
		return p.first
	}
	at := e.locateFrom(p, seen, 0, &p.start)
	if at.low.x == at.high.x {
		return at.low.v
	}
	v, moved := at.low.v, false
	walk := newClimb(&at.low.v, &at.high.v, &seen.guarantee, &seen.limit)
	for more := walk.reach > 0; more; {
		before, free := walk.t, walk.base == 0 && walk.slope == 0
		more = walk.next()
		if walk.t <= before {
			continue
		}
		if !free {
			break
		}
		v, moved = walk.value(), true
	}
	if !moved {
		return e.below(p, &at)
	}
	return v
}

// poolAt returns the largest fit factor that suggestion s admits and the share
// there, under the given bounds.
func (e *Engine) poolAt(p *pool, s float64, b *bounds) (float64, resource.Shares) {
	at := e.locate(p, b, s)
	low, high := &at.low, &at.high
	if low.x == high.x {
		return low.x, low.v
	}
	t := 1.0
	for k := range high.v {
		if high.v[k] > b.limit[k] {
			t = min(t, (b.limit[k]-low.v[k])/(high.v[k]-low.v[k]))
		}
		if from, to := low.v[k]-b.guarantee[k], high.v[k]-b.guarantee[k]; to > s {
			t = min(t, (s-from)/(to-from))
		}
	}
	if t <= 0 {
		return low.x, e.below(p, &at)
	}
	// The share is read at the fit factor as rounded, so that the two agree to
	// the last bit, unless the piece is so steep that rounding matters.
	f := betweenNumbers(low.x, high.x, t)
	v := between(&low.v, &high.v, (f-low.x)/(high.x-low.x))
	if exact := between(&low.v, &high.v, t); !v.Near(exact, Epsilon) {
		v = exact
	}
	return f, v
}
