package fairshare

import (
	"math"
	"slices"

	"github.com/weirhq/weir/internal/value/resource"
)

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
	if p.preparedAt == e.updates {
		return
	}
	p.preparedAt = e.updates
	e.refit(p)
	p.bounds = fitted(&p.first, p.strong.Add(p.proposed), p.limits)
	if !p.sealed && (p.fitStamp > p.curveStamp || p.seen != p.bounds) {
		e.stamp++
		p.curveStamp, p.seen = e.stamp, p.bounds
		p.zero = e.curveStart(p)
	}
}

// refit discards what is known about the pool's fit if a child has changed
// since.
func (e *Engine) refit(p *pool) {
	spoiled := p.stale
	for _, at := range p.subpools {
		spoiled = spoiled || e.pools[at].curveStamp > p.fitStamp
	}
	if !spoiled {
		return
	}
	e.stamp++
	p.stale, p.fitStamp, p.sites, p.first = false, e.stamp, p.sites[:0], nothing
	if p.regrouped {
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
			e.renewSource(p, &p.sources[i])
		}
	default:
		for _, slot := range p.renewed {
			e.renewSource(p, p.sourceOf(slot))
		}
		for _, at := range p.subpools {
			e.renewSource(p, p.sourceOf(e.pools[at].slot))
		}
	}
	p.regrouped, p.renewed = false, p.renewed[:0]
	if p.settings.Mode != FIFO {
		for _, at := range p.subpools {
			p.first = p.first.Add(e.pools[at].zero)
		}
	}
}

// sourceOf returns the source of a child.
func (p *pool) sourceOf(slot int32) *source {
	i, _ := slices.BinarySearch(p.children, slot)
	return &p.sources[i]
}

// renewSource makes a source forget its pieces if the child's function or scale has
// changed.
func (e *Engine) renewSource(p *pool, s *source) {
	n := &e.nodes[s.child]
	changed := n.stamp
	if n.pool >= 0 {
		changed = e.pools[n.pool].curveStamp
	}
	if scale := n.weight / p.leastWeight; scale != s.scale || changed > s.stamp {
		s.scale, s.stamp = scale, p.fitStamp
		s.forget()
	}
}

// openSources makes the sources of a pool those of its children. Children that
// stay keep theirs.
func (e *Engine) openSources(p *pool) {
	same := len(p.sources) == len(p.children)
	for i := 0; same && i < len(p.sources); i++ {
		same = p.sources[i].child == p.children[i]
	}
	if same {
		return
	}
	old := append(e.oldSources[:0], p.sources...)
	e.oldSources = old
	p.sources = p.sources[:0]
	for _, slot := range p.children {
		for len(old) > 0 && old[0].child < slot {
			old = old[1:]
		}
		if len(old) > 0 && old[0].child == slot {
			p.sources = append(p.sources, old[0])
		} else {
			p.sources = append(p.sources, source{child: slot})
		}
	}
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
