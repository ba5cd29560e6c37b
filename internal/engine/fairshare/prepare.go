package fairshare

import (
	"cmp"
	"math"
	"slices"

	"github.com/weirhq/weir/internal/value/resource"
)

// prepareTree makes the functions of all pools ready for use. If few of them have
// changed, it does not look at the others.
func (e *Engine) prepareTree() {
	if !e.light || len(e.path) > len(e.order)/4 {
		e.prepare(&e.pools[0])
		return
	}
	e.ascent = append(e.ascent[:0], e.path...)
	slices.SortFunc(e.ascent, func(a, b int32) int {
		return cmp.Or(cmp.Compare(e.pools[b].depth, e.pools[a].depth), cmp.Compare(a, b))
	})
	for _, at := range e.ascent {
		e.preparePool(&e.pools[at])
	}
}

// prepare makes the functions of a pool and its subtree ready for use. It keeps
// what is known about them where it is still valid; what this update has already
// prepared stays as it is, even if a guarantee has changed since.
func (e *Engine) prepare(p *pool) {
	if e.light && p.tracedAt != e.updates {
		return
	}
	for _, at := range p.subpools {
		e.prepare(&e.pools[at])
	}
	e.preparePool(p)
}

// preparePool is prepare for a pool whose children are ready.
func (e *Engine) preparePool(p *pool) {
	if p.preparedAt == e.updates {
		return
	}
	p.preparedAt = e.updates
	e.refit(p)
	p.bounds = fitted(&p.first, p.strong.Add(p.proposed), p.limits)
	if !p.sealed && (p.fitStamp > p.curveStamp || p.seen != p.bounds) {
		e.stamp++
		p.curveStamp, p.seen = e.stamp, p.bounds
		if p.slot != 0 { // nobody asks for the curve of the root
			parent, zero := e.parentOf(p), e.curveStart(p)
			parent.moved = append(parent.moved, p.slot)
			parent.firstMoved = parent.firstMoved || zero != p.zero
			p.zero = zero
		}
	}
}

// refit discards what is known about the pool's fit if a child has changed
// since.
func (e *Engine) refit(p *pool) {
	if !p.stale && len(p.moved) == 0 {
		return
	}
	e.stamp++
	p.stale, p.fitStamp, p.sites = false, e.stamp, p.sites[:0]
	if p.regrouped {
		p.groupedAt = e.updates
		p.leastWeight = math.Inf(1)
		for _, slot := range p.children {
			if weight := e.nodes[slot].weight; weight > Epsilon {
				p.leastWeight = min(p.leastWeight, weight)
			}
		}
	}
	switch {
	case p.settings.Mode == FIFO:
		e.lineUp(p)
	case p.regrouped:
		e.openSources(p)
		for i := range p.sources {
			e.renewSource(p, i)
		}
	default:
		for _, slot := range p.renewed {
			e.renewSource(p, p.indexOf(slot))
		}
		for _, slot := range p.moved {
			e.renewSource(p, p.indexOf(slot))
		}
	}
	if p.regrouped || p.firstMoved {
		p.first = nothing
		if p.settings.Mode != FIFO {
			for _, at := range p.subpools {
				p.first = p.first.Add(e.pools[at].zero)
			}
		}
	}
	p.regrouped, p.firstMoved, p.renewed, p.moved = false, false, p.renewed[:0], p.moved[:0]
}

// indexOf returns the index of a child.
func (p *pool) indexOf(slot int32) int {
	i, _ := slices.BinarySearch(p.children, slot)
	return i
}

// renewSource forgets the pieces of a child if its function or scale has changed.
func (e *Engine) renewSource(p *pool, i int) {
	s := &p.sources[i]
	n := &e.nodes[s.child]
	s.isPool = n.pool >= 0
	changed := n.stamp
	if s.isPool {
		changed = e.pools[n.pool].curveStamp
	}
	scale := n.weight / p.leastWeight
	if scale == s.scale && changed <= s.stamp {
		return
	}
	s.scale, s.stamp = scale, p.fitStamp
	p.pieces[i], p.others[i] = noPiece, noPiece
	if !s.isPool {
		s.most, s.fullAt = operationAt(n, 1), fullAt(n)
	}
}

// openSources makes the sources of a pool those of its children. Children that
// stay keep theirs.
func (e *Engine) openSources(p *pool) {
	from, to, end := 0, len(p.sources), len(p.children)
	for from < min(to, end) && p.sources[from].child == p.children[from] {
		from++
	}
	for min(to, end) > from && p.sources[to-1].child == p.children[end-1] {
		to, end = to-1, end-1
	}
	// Sources up to from and after to stay; the rest become those of the children up to end.
	at := from
	e.origins = e.origins[:0]
	for _, slot := range p.children[from:end] {
		for at < to && p.sources[at].child < slot {
			at++
		}
		origin := int32(-1)
		if at < to && p.sources[at].child == slot {
			origin = int32(at)
		}
		e.origins = append(e.origins, origin)
	}
	p.sources, e.newSources = rearrange(p.sources, from, to, e.origins, e.newSources)
	p.pieces, e.newPieces = rearrange(p.pieces, from, to, e.origins, e.newPieces)
	p.others, e.newPieces = rearrange(p.others, from, to, e.origins, e.newPieces)
	for i, slot := range p.children[from:end] {
		p.sources[from+i].child = slot
	}
}

// rearrange replaces list[from:to] by values of the list at these indices, or by zero
// values where an index is negative. It returns the list and the memory it used.
func rearrange[T any](list []T, from, to int, origins []int32, memory []T) (rearranged, used []T) {
	memory = memory[:0]
	for _, at := range origins {
		var value T
		if at >= 0 {
			value = list[at]
		}
		memory = append(memory, value)
	}
	return slices.Replace(list, from, to, memory...), memory
}

// tryBounds makes the pool's fit ready and returns the bounds under which an
// integral pool is asked what it needs. A pool inside another integral pool has
// been prepared with that one and keeps the bounds it had then.
func (e *Engine) tryBounds(p *pool, guarantee, limit resource.Shares) bounds {
	for _, at := range p.subpools {
		e.prepare(&e.pools[at])
	}
	if p.preparedAt == e.updates {
		return p.bounds
	}
	e.refit(p)
	return fitted(&p.first, guarantee, limit)
}

// unprepare lets the pool's functions follow its new guarantee. Functions above
// it that are prepared must not see the change. That concerns integral pools
// inside integral pools only, which the configuration refuses.
func (e *Engine) unprepare(p *pool) {
	p.preparedAt = 0
	p.sealed = p.slot != 0 && e.parentOf(p).preparedAt == e.updates
}
