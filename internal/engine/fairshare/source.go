package fairshare

import (
	"math"

	"github.com/weirhq/weir/internal/value/resource"
)

// source is a child of a pool as the pool sums up its children.
//
// The pool keeps, for each child, the two straight pieces of the child's function that
// were needed last, with arguments on the pool's scale. An update asks most pools twice,
// what their guarantees cover and what they get, so that one piece would have to be
// found again each time. The pieces are in lists of their own, pool.pieces and
// pool.others, because sums over many children read nothing else.
type source struct {
	child  int32   // slot
	isPool bool    // else it is an operation
	scale  float64 // the child's suggestion is scale × the fit factor
	stamp  uint64  // when the pieces were known to be valid

	fullAt float64         // operations: above this suggestion it takes most
	most   resource.Shares // what it takes at suggestion 1
}

// piece is a straight piece of a function. It holds after a.x up to and including
// b.x; a.v is the value just after a.x, and b.v the one at b.x.
type piece struct {
	a, b  point
	flat  bool // a and b have one value
	empty bool // which is nothing
}

// noPiece covers nothing.
var noPiece = piece{a: point{x: math.Inf(1)}, b: point{x: math.Inf(-1)}}

// covers reports whether f is in the piece.
func (p *piece) covers(f float64) bool { return p.a.x < f && f <= p.b.x }

// turn makes the other piece of a child the last one if f is in it, and reports whether
// it is.
func (p *pool) turn(i int, f float64) bool {
	if !p.others[i].covers(f) {
		return false
	}
	p.pieces[i], p.others[i] = p.others[i], p.pieces[i]
	return true
}

// keep stores a piece of a child.
func (p *pool) keep(i int, a, b *point) {
	p.others[i] = p.pieces[i]
	flat := a.v == b.v
	p.pieces[i] = piece{*a, *b, flat, flat && a.v == nothing}
}

// at returns the value at x within the piece; at its lower end, the value after it.
func (p *piece) at(x float64) resource.Shares {
	switch {
	case p.flat || x == p.a.x:
		return p.a.v
	case x == p.b.x:
		return p.b.v
	}
	return between(&p.a.v, &p.b.v, (x-p.a.x)/(p.b.x-p.a.x))
}

// addTo adds the value at sum.x within the piece to sum.v; at the lower end of the
// piece, the value after it.
func (p *piece) addTo(sum *point) {
	switch sum.x {
	case p.a.x:
		for k, v := range &p.a.v {
			sum.v[k] += v
		}
	case p.b.x:
		for k, v := range &p.b.v {
			sum.v[k] += v
		}
	default:
		v := between(&p.a.v, &p.b.v, (sum.x-p.a.x)/(p.b.x-p.a.x))
		for k := range v {
			sum.v[k] += v[k]
		}
	}
}

// seek finds the piece of a child's function that covers fit factor f, which is
// positive and not in the present piece.
func (e *Engine) seek(p *pool, i int, f float64) {
	if p.turn(i, f) {
		return
	}
	s := &p.sources[i]
	n := &e.nodes[s.child]
	if s.isPool {
		a, b := e.seekPool(&e.pools[n.pool], s.scale, f)
		p.keep(i, &a, &b)
		return
	}
	e.own = appendOperationCurve(e.own[:0], n)
	a := &e.own[0]
	for j := 1; j < len(e.own); j++ {
		b := &e.own[j]
		if b.x /= s.scale; b.x >= f {
			p.keep(i, a, b)
			return
		}
		a = b
	}
	p.keep(i, a, &point{math.Inf(1), a.v})
}

// seekPool finds the piece of a pool's curve that covers fit factor f of its parent.
// Suggestion and fit factor are rounded, so the piece may be next to the one that the
// suggestion finds.
func (e *Engine) seekPool(p *pool, scale, f float64) (a, b point) {
	a, b = e.curvePiece(p, min(max(f*scale, math.SmallestNonzeroFloat64), 1))
	for f > b.x/scale {
		if b.x >= 1 {
			return point{b.x / scale, b.v}, point{math.Inf(1), b.v}
		}
		a, b = e.curvePiece(p, after(b.x))
	}
	for a.x > 0 && f <= a.x/scale {
		a, b = e.curvePiece(p, a.x)
	}
	a.x, b.x = a.x/scale, b.x/scale
	return a, b
}

// after returns the next larger number.
func after(x float64) float64 { return math.Nextafter(x, math.Inf(1)) }
