package fairshare

import (
	"math"

	"github.com/weirhq/weir/internal/value/resource"
)

// source is a child of a pool as the pool sums up its children: the two straight
// pieces of the child's function that were needed last, with arguments on the
// pool's scale. An update asks most pools twice, what their guarantees cover and what
// they get, so that one piece would have to be found again each time.
type source struct {
	piece         // the last one
	other piece   // the one before it
	scale float64 // the child's suggestion is scale × the fit factor
	stamp uint64  // when the pieces were known to be valid
	child int32   // slot
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

// forget makes the source look for its pieces again.
func (s *source) forget() { s.piece, s.other = noPiece, noPiece }

// turn makes the other piece the last one if f is in it, and reports whether it is.
func (s *source) turn(f float64) bool {
	if !s.other.covers(f) {
		return false
	}
	s.piece, s.other = s.other, s.piece
	return true
}

// set stores a piece.
func (s *source) set(a, b *point) {
	s.other = s.piece
	s.a, s.b = *a, *b
	s.flat = a.v == b.v
	s.empty = s.flat && a.v == nothing
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

// seek moves the source to the piece that covers fit factor f, which is
// positive and not in the present piece.
func (e *Engine) seek(s *source, f float64) {
	if s.turn(f) {
		return
	}
	n := &e.nodes[s.child]
	if n.pool >= 0 {
		e.seekPool(s, &e.pools[n.pool], f)
		return
	}
	e.own = appendOperationCurve(e.own[:0], n)
	a := &e.own[0]
	for i := 1; i < len(e.own); i++ {
		b := &e.own[i]
		if b.x /= s.scale; b.x >= f {
			s.set(a, b)
			return
		}
		a = b
	}
	s.set(a, &point{math.Inf(1), a.v})
}

// seekPool is seek for a child that is a pool. Suggestion and fit factor are
// rounded, so the piece may be next to the one that the suggestion finds.
func (e *Engine) seekPool(s *source, child *pool, f float64) {
	a, b := e.curvePiece(child, min(max(f*s.scale, math.SmallestNonzeroFloat64), 1))
	for f > b.x/s.scale {
		if b.x >= 1 {
			s.set(&point{b.x / s.scale, b.v}, &point{math.Inf(1), b.v})
			return
		}
		a, b = e.curvePiece(child, after(b.x))
	}
	for a.x > 0 && f <= a.x/s.scale {
		a, b = e.curvePiece(child, a.x)
	}
	a.x, b.x = a.x/s.scale, b.x/s.scale
	s.set(&a, &b)
}

// after returns the next larger number.
func after(x float64) float64 { return math.Nextafter(x, math.Inf(1)) }
