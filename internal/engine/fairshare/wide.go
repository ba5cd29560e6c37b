package fairshare

import (
	"math"

	"github.com/weirhq/weir/internal/value/resource"
)

// wideFrom is the number of children from which a pool's fit is summed up line
// by line. Below it, children are added up in their order at every point, which
// costs no more there and rounds exactly as YTsaurus does.
const wideFrom = 17

// steepest is the largest slope that a line may have; anything steeper is a
// jump.
const steepest = 1e15

// line is a straight piece of one child's curve: base + slope×x, the base with
// the rounding error of its computation.
type line struct {
	base, baseError, slope resource.Shares
}

// lineSum is a sum of lines. Every component is stored with its rounding error,
// so that lines can be added and removed without leaving a trace.
type lineSum struct {
	base, baseError   resource.Shares
	slope, slopeError resource.Shares
}

// lineThrough returns the line through a and b, and whether there is one: a
// piece that is too steep is a constant at a, and a jump at b.
func lineThrough(a, b *point) (l line, ok bool) {
	inverse := 1 / (b.x - a.x)
	for k := range a.v {
		rise := b.v[k] - a.v[k]
		if rise == 0 {
			l.base[k] = a.v[k]
			continue
		}
		slope := rise * inverse
		if !(slope < steepest) {
			return line{base: a.v}, false
		}
		back := slope * a.x
		l.slope[k] = slope
		l.base[k], l.baseError[k] = addExactly(a.v[k], -back)
		l.baseError[k] -= math.FMA(slope, a.x, -back)
	}
	return l, true
}

// addExactly returns a+b and the rounding error of that sum.
func addExactly(a, b float64) (sum, rounding float64) {
	sum = a + b
	part := sum - a
	return sum, (a - (sum - part)) + (b - part)
}

func (s *lineSum) add(l *line) {
	for k := range s.base {
		var rounding float64
		s.base[k], rounding = addExactly(s.base[k], l.base[k])
		s.baseError[k] += rounding + l.baseError[k]
		if l.slope[k] != 0 {
			s.slope[k], rounding = addExactly(s.slope[k], l.slope[k])
			s.slopeError[k] += rounding
		}
	}
}

func (s *lineSum) remove(l *line) {
	for k := range s.base {
		var rounding float64
		s.base[k], rounding = addExactly(s.base[k], -l.base[k])
		s.baseError[k] += rounding - l.baseError[k]
		if l.slope[k] != 0 {
			s.slope[k], rounding = addExactly(s.slope[k], -l.slope[k])
			s.slopeError[k] += rounding
		}
	}
}

// at returns the sum at x, but never less than least: functions never fall, not
// even in the last bit.
func (s *lineSum) at(x float64, least *resource.Shares) (v resource.Shares) {
	for k := range v {
		climb := s.slope[k] * x
		sum, rounding := addExactly(s.base[k], climb)
		rounding += math.FMA(s.slope[k], x, -climb)
		v[k] = max(sum+(rounding+s.baseError[k]+s.slopeError[k]*x), least[k])
	}
	return v
}

// openLines makes every source a line and puts them in a heap by where they
// end.
func (f *fit) openLines() {
	f.sum = lineSum{}
	for i := range f.sources {
		l := f.sources[i].line(f.heads[i])
		f.lines = append(f.lines, l)
		f.sum.add(&l)
		f.heap = append(f.heap, int32(i))
	}
	for i := len(f.heap)/2 - 1; i >= 0; i-- {
		f.sink(i)
	}
}

// line returns the line of the piece that the source is in, which ends at head.
func (s *source) line(head float64) line {
	if s.flat || math.IsInf(head, 1) {
		return line{base: s.a.v}
	}
	l, ok := lineThrough(&s.a, &s.b)
	s.steep = !ok
	return l
}

// sink moves the source at position i of the heap down to its place.
func (f *fit) sink(i int) {
	moving := f.heap[i]
	head := f.heads[moving]
	for {
		child := 2*i + 1
		if child >= len(f.heap) {
			break
		}
		if right := child + 1; right < len(f.heap) && f.heads[f.heap[right]] < f.heads[f.heap[child]] {
			child = right
		}
		if head <= f.heads[f.heap[child]] {
			break
		}
		f.heap[i] = f.heap[child]
		i = child
	}
	f.heap[i] = moving
}

// growLines advances to the next break point of any child.
func (e *Engine) growLines(p *pool) {
	f := &p.fit
	x := min(f.heads[f.heap[0]], 1)
	last := &f.points[len(f.points)-1].v
	v := f.sum.at(x, last)
	f.points = push(f.points, x, &v)
	if x >= 1 {
		f.done = true
		return
	}
	if e.passLines(f, x) {
		v = f.sum.at(x, &v)
		f.points = push(f.points, x, &v)
	}
}

// passLines replaces the lines that end at x and reports whether any child
// jumps there.
func (e *Engine) passLines(f *fit, x float64) (jumped bool) {
	for {
		i := f.heap[0]
		if f.heads[i] != x {
			return jumped
		}
		s := &f.sources[i]
		jumped = jumped || s.steep
		s.steep = false
		value := s.b.v
		for f.heads[i] == x {
			f.heads[i] = e.advance(f, s)
		}
		jumped = jumped || s.a.v != value
		f.sum.remove(&f.lines[i])
		f.lines[i] = s.line(f.heads[i])
		f.sum.add(&f.lines[i])
		f.sink(0)
	}
}
