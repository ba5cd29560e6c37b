package fairshare

import (
	"sort"

	"github.com/weirhq/weir/internal/value/resource"
)

// curve is a pool's share by suggestion, generated from the pool's fit as far
// as callers need it. After the last point the value is constant up to 1.
type curve struct {
	points []point
	done   bool

	next    int             // the first point of the fit that is not walked yet
	value   resource.Shares // the current value of the walk
	need    float64         // the suggestion needed there
	started bool            // the point at suggestion 0 is known
	jump    bool            // value is the upper end of a jump not yet passed
	below   resource.Shares // its lower end
	squeeze compressor
}

func (c *curve) reset() {
	*c = curve{points: c.points[:0]}
}

// growCurve walks one more piece of the pool's fit.
func (e *Engine) growCurve(p *pool) {
	c := &p.curve
	if c.next == 0 {
		c.value, c.next = p.fit.points[0].v, 1
	}
	for c.next >= len(p.fit.points) {
		if p.fit.done {
			c.finish()
			return
		}
		e.growFit(p)
	}
	a, b := &p.fit.points[c.next-1], &p.fit.points[c.next]
	switch {
	case a.x == b.x:
		if !p.limit.Dominates(b.v) {
			c.finish()
			return
		}
		c.jump, c.below, c.value = true, a.v, b.v
	case a.v == b.v:
		// The fit factor grows for nothing, and leaves behind a jump it met.
		if c.jump && !c.started && needed(&c.value, &p.guarantee) == 0 {
			c.jump = false
		}
		c.passJump(p)
	default:
		if !c.climb(p, a, b) {
			c.finish()
			return
		}
	}
	c.next++
}

// climb walks a rising piece of the fit and reports whether it reached its end.
func (c *curve) climb(p *pool, a, b *point) bool {
	walk := newClimb(&a.v, &b.v, &p.guarantee, &p.limit)
	if walk.reach <= 0 {
		return false
	}
	for more := true; more; {
		before, free := walk.t, !c.started && walk.base == 0 && walk.slope == 0
		more = walk.next()
		if walk.t <= before {
			continue
		}
		v := walk.value()
		if free { // still within the guarantee: suggestion 0 reaches this far
			c.value, c.jump = v, false
			continue
		}
		c.passJump(p)
		c.start()
		c.value, c.need = v, max(c.need, needed(&v, &p.guarantee))
		c.points = c.squeeze.add(c.points, c.need, &c.value)
	}
	return walk.reach >= 1
}

// start writes the point at suggestion 0.
func (c *curve) start() {
	if !c.started {
		c.started = true
		c.points = c.squeeze.add(c.points, 0, &c.value)
	}
}

// passJump writes the jump that the walk has met: the lower end up to the
// suggestion that the upper end needs, then the upper end.
func (c *curve) passJump(p *pool) {
	if !c.jump {
		return
	}
	c.jump = false
	upper := c.value
	need := max(c.need, needed(&upper, &p.guarantee))
	if !c.started {
		c.value = c.below
		c.start()
	}
	c.points = c.squeeze.add(c.points, need, &c.below)
	c.points = c.squeeze.add(c.points, need, &upper)
	c.value, c.need = upper, need
}

func (c *curve) finish() {
	if c.jump {
		c.value, c.jump = c.below, false
	}
	c.start()
	c.points = c.squeeze.flush(c.points)
	c.done = true
}

// curvePoint returns point i of the pool's curve, generating it if necessary,
// or false if the curve has fewer points. It generates many points at a time: a
// parent asks its children in turn, and the data that a child needs for the
// next point would have left the processor's cache by its next turn.
func (e *Engine) curvePoint(p *pool, i int) (point, bool) {
	c := &p.curve
	if i >= len(c.points) && !c.done {
		for target := i + max(batch, len(c.points)); len(c.points) <= target && !c.done; {
			e.growCurve(p)
		}
	}
	if i >= len(c.points) {
		return point{}, false
	}
	return c.points[i], true
}

// batch is the least number of points of a curve that are generated at a time.
const batch = 16

// bounds are what a pool may take without a suggestion and at most.
type bounds struct{ guarantee, limit resource.Shares }

// fitted fits a guarantee and limits to the least share of a pool: it always
// includes the children's guarantees, at fit factor zero.
func fitted(least *resource.Shares, guarantee, limit resource.Shares) bounds {
	limit = limit.Max(*least)
	return bounds{guarantee.Max(*least).Min(limit), limit}
}

// poolAt returns the largest fit factor that suggestion s admits and the share
// there, under the given bounds.
func (e *Engine) poolAt(p *pool, s float64, b *bounds) (float64, resource.Shares) {
	exceeds := func(v *resource.Shares) bool {
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
	for !p.fit.done && (len(p.fit.points) == 0 || !exceeds(&p.fit.points[len(p.fit.points)-1].v)) {
		e.growFit(p)
	}
	points := p.fit.points
	i := sort.Search(len(points), func(i int) bool { return exceeds(&points[i].v) })
	if i == len(points) {
		last := points[i-1]
		return last.x, last.v
	}
	low, high := &points[i-1], &points[i]
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
		if i > 1 && points[i-2].x == low.x {
			return low.x, points[i-2].v
		}
		return low.x, low.v
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
