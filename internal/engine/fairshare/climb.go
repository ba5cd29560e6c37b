package fairshare

import "github.com/weirhq/weir/internal/value/resource"

// climb walks a straight piece of a function, from value a to value b, and
// computes which suggestion each part of it needs: the largest excess over the
// guarantee in any component, and at least zero. Over a straight piece that is
// the upper envelope of a handful of lines, so the walk stops wherever another
// component becomes the scarcest.
type climb struct {
	a, b      *resource.Shares
	guarantee *resource.Shares
	excess    resource.Shares // a - guarantee
	rise      resource.Shares // b - a
	reach     float64         // the part of the piece that is within limits
	t         float64         // the progress of the walk

	// The scarcest component needs base + slope×t; both are zero while
	// everything is within the guarantee.
	base, slope float64
	scarce      int // the component, -1 within the guarantee
	walked      int // the one that was scarcest up to t
}

// newClimb starts at a. The climb ends at b or where a limit is met.
func newClimb(a, b, guarantee, limit *resource.Shares) climb {
	c := climb{a: a, b: b, guarantee: guarantee, reach: 1, scarce: -1, walked: -1}
	for k := range a {
		c.excess[k] = a[k] - guarantee[k]
		c.rise[k] = b[k] - a[k]
		if b[k] > limit[k] {
			c.reach = min(c.reach, (limit[k]-a[k])/c.rise[k])
		}
	}
	for k := range a {
		if c.excess[k] > c.base || c.excess[k] == c.base && c.rise[k] > c.slope {
			c.base, c.slope, c.scarce = c.excess[k], c.rise[k], k
		}
	}
	return c
}

// next advances to the next point where the scarcest component changes, or to
// the end, and reports whether the walk continues. It might not move if two
// components are equally scarce.
func (c *climb) next() (more bool) {
	t, base, slope, scarce := c.reach, c.base, c.slope, c.scarce
	for k := range c.rise {
		if c.rise[k] <= c.slope {
			continue
		}
		crossing := max((c.base-c.excess[k])/(c.rise[k]-c.slope), c.t)
		if crossing < t || crossing == t && c.rise[k] > slope {
			t, base, slope, scarce = crossing, c.excess[k], c.rise[k], k
		}
	}
	c.walked = c.scarce
	c.t, c.base, c.slope, c.scarce = t, base, slope, scarce
	return t < c.reach
}

// value is the share at the current point of the walk.
func (c *climb) value() resource.Shares { return between(c.a, c.b, c.t) }

// need is the suggestion that v, the value at the current point of the walk,
// needs. Where two components cross it is read from the one that was scarcest
// before: the other is rounded, and if the first one is constant, the rounding
// would make a jump look like a steep climb.
func (c *climb) need(v *resource.Shares) float64 {
	switch {
	case c.walked < 0:
		return 0
	case c.t >= c.reach:
		return needed(v, c.guarantee)
	}
	return max(v[c.walked]-c.guarantee[c.walked], 0)
}

// needed is the suggestion that the share v needs under a guarantee.
func needed(v, guarantee *resource.Shares) float64 {
	s := 0.0
	for k := range v {
		if excess := v[k] - guarantee[k]; excess > s {
			s = excess
		}
	}
	return s
}
