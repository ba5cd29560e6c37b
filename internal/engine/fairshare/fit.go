package fairshare

import (
	"math"

	"github.com/weirhq/weir/internal/value/resource"
)

// fit is a pool's share by fit factor, ignoring its own limits: how its
// children would spend growing permission. It is generated as far as callers
// need it.
//
//	fair share  the fit factor f is in [0, 1]; child i gets the suggestion
//	            min(1, f × weight / least weight)
//	improved    the same walk, but the fit factor counts break points of
//	            children, so that children that jump at one suggestion do so
//	            one after another
//	FIFO        the whole part of f is the number of children that got all they
//	            want, the fraction is the suggestion of the next one
type fit struct {
	points []point
	done   bool

	sources []source          // fair share: the children, in their order
	idle    []int32           // slots of children that demand nothing and are left out
	heads   []float64         // where each source has its next point
	values  []resource.Shares // the value of each source at the last point
	steps   []step            // improved: what fit factor 0, 1, 2, … stand for
	own     []point           // curves of children that are operations

	lines []line  // many children: the piece each of them is in
	sum   lineSum // of all lines
	heap  []int32 // sources by where their pieces end

	head   int             // FIFO: the first child not joined yet
	served resource.Shares // FIFO: what the children before it take
}

// source is a child as its parent walks along its curve, with arguments on the
// parent's scale.
type source struct {
	a, b   point // the piece the walk is in
	scale  float64
	child  int32 // slot
	next   int32 // index of the point after b
	first  int32 // operations: the child's points are fit.own[first:end]
	end    int32
	isPool bool
	flat   bool // a and b have one value
	steep  bool // the piece is too steep for a line
}

// step is a break point of one child: the improved fit factor counts them.
type step struct {
	x      float64
	source int32
}

func (f *fit) reset() {
	*f = fit{
		points: f.points[:0], sources: f.sources[:0], heads: f.heads[:0],
		values: f.values[:0], steps: f.steps[:0], own: f.own[:0],
		lines: f.lines[:0], heap: f.heap[:0], idle: f.idle[:0],
	}
}

// growFit generates the next points of the pool's fit: at least one, or it is
// done.
func (e *Engine) growFit(p *pool) {
	f := &p.fit
	switch {
	case len(p.children) == 0:
		f.points = append(f.points[:0], point{}, point{x: 1})
		f.done = true
	case p.settings.Mode == FIFO:
		e.growFIFO(p)
	case len(f.points) == 0:
		e.openSources(p)
	case e.options.Improved:
		e.growImproved(p)
	case len(f.lines) > 0:
		e.growLines(p)
	default:
		e.growSum(p)
	}
}

// growFIFO appends the curve of the next child.
func (e *Engine) growFIFO(p *pool) {
	f := &p.fit
	if f.head == len(p.sorted) {
		f.points = push(f.points, float64(len(p.sorted)), &f.served)
		f.done = true
		return
	}
	base := f.served
	f.own = appendOperationCurve(f.own[:0], &e.nodes[p.sorted[f.head]])
	for _, q := range f.own {
		f.served = base.Add(q.v)
		f.points = push(f.points, float64(f.head)+q.x, &f.served)
	}
	f.head++
}

// openSources puts every child at the start of its curve and writes the first
// point of the fit.
func (e *Engine) openSources(p *pool) {
	f := &p.fit
	var first resource.Shares
	for _, slot := range p.children {
		n := &e.nodes[slot]
		s := source{child: slot, scale: n.weight / p.leastWeight, isPool: n.pool >= 0}
		if !s.isPool {
			s.first = int32(len(f.own))
			s.next = s.first
			f.own = appendOperationCurve(f.own, n)
			s.end = int32(len(f.own))
		}
		s.b, _ = e.sourcePoint(f, &s)
		start := s.b.v
		head := e.advance(f, &s)
		if start == nothing && math.IsInf(head, 1) {
			f.idle = append(f.idle, slot)
			continue
		}
		f.sources = append(f.sources, s)
		f.heads = append(f.heads, head)
		f.values = append(f.values, start)
		first = first.Add(start)
	}
	f.points = append(f.points, point{0, first})
	if e.options.Improved {
		f.steps = append(f.steps, step{0, -1})
	}
	if !e.options.Improved && len(f.sources) >= wideFrom {
		f.openLines()
		if e.passLines(f, 0) {
			v := f.sum.at(0, &first)
			f.points = push(f.points, 0, &v)
		}
		return
	}
	e.stepAll(p, 0)
}

// sourcePoint returns the next point of the source's curve on the parent's
// scale.
func (e *Engine) sourcePoint(f *fit, s *source) (q point, ok bool) {
	if s.isPool {
		q, ok = e.curvePoint(&e.pools[e.nodes[s.child].pool], int(s.next))
	} else if ok = s.next < s.end; ok {
		q = f.own[s.next]
	}
	s.next++
	q.x /= s.scale
	return q, ok
}

// advance moves the source to its next piece and returns where that ends.
func (e *Engine) advance(f *fit, s *source) float64 {
	s.a = s.b
	next, ok := e.sourcePoint(f, s)
	if !ok {
		s.flat = true
		return math.Inf(1)
	}
	s.b = next
	s.flat = s.a.v == s.b.v
	return s.b.x
}

// moveTo finds the nearest break point of any child, moves all values there,
// and returns it; 1 is the end of the fit.
func (f *fit) moveTo() float64 {
	x := 1.0
	for _, head := range f.heads {
		if head < x {
			x = head
		}
	}
	for i := range f.sources {
		s := &f.sources[i]
		switch {
		case s.flat:
		case f.heads[i] == x:
			f.values[i] = s.b.v
		default:
			f.values[i] = between(&s.a.v, &s.b.v, (x-s.a.x)/(s.b.x-s.a.x))
		}
	}
	return x
}

// total adds up the children's values in their order; the order matters to the
// last bit.
func (f *fit) total() (v resource.Shares) {
	for i := range f.values {
		for k := range v {
			v[k] += f.values[i][k]
		}
	}
	return v
}

// growSum advances to the next break point of any child; children that jump
// there do so together.
func (e *Engine) growSum(p *pool) {
	f := &p.fit
	x := f.moveTo()
	v := f.total()
	f.points = push(f.points, x, &v)
	if x >= 1 {
		f.done = true
		return
	}
	e.stepAll(p, x)
}

// stepAll passes the break points at x of all children.
func (e *Engine) stepAll(p *pool, x float64) {
	f := &p.fit
	if e.options.Improved {
		e.stepEach(p, x)
		return
	}
	jumped := false
	for i := range f.sources {
		s := &f.sources[i]
		for f.heads[i] == x {
			if f.values[i] != s.b.v {
				f.values[i], jumped = s.b.v, true
			}
			f.heads[i] = e.advance(f, s)
		}
	}
	if jumped {
		v := f.total()
		f.points = push(f.points, x, &v)
	}
}

// growImproved advances to the next break point of any child.
func (e *Engine) growImproved(p *pool) {
	f := &p.fit
	x := f.moveTo()
	if x >= 1 {
		v := f.total()
		f.steps = append(f.steps, step{1, -1})
		f.points = push(f.points, float64(len(f.steps)-1), &v)
		f.done = true
		return
	}
	e.stepEach(p, x)
}

// stepEach passes the break points at x one child after another; each has its
// own fit factor, at which that child alone may jump.
func (e *Engine) stepEach(p *pool, x float64) {
	f := &p.fit
	for i := range f.sources {
		s := &f.sources[i]
		if f.heads[i] != x {
			continue
		}
		v := f.total()
		f.steps = append(f.steps, step{x, int32(i)})
		factor := float64(len(f.steps) - 1)
		f.points = push(f.points, factor, &v)
		before := f.values[i]
		for f.heads[i] == x {
			f.values[i] = s.b.v
			f.heads[i] = e.advance(f, s)
		}
		if f.values[i] != before {
			v = f.total()
			f.points = push(f.points, factor, &v)
		}
	}
}
