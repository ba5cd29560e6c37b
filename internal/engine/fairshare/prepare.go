package fairshare

import (
	"math"

	"github.com/weirhq/weir/internal/value/resource"
)

// prepare makes the functions of a pool and its subtree ready for use. It keeps
// what a previous update generated where it is still valid; what this update
// has already prepared stays as it is, even if a guarantee has changed since.
func (e *Engine) prepare(p *pool) {
	for _, at := range p.subpools {
		e.prepare(&e.pools[at])
	}
	if p.prepared {
		return
	}
	p.prepared = true
	e.refit(p)
	key := bounds{p.strong.Add(p.proposed), p.limits}
	if p.fitStamp > p.curveStamp || key != p.boundsKey {
		e.stamp++
		p.curveStamp, p.boundsKey = e.stamp, key
		p.bounds = fitted(&p.fit.points[0].v, key.guarantee, key.limit)
		p.curve.reset()
	}
}

// refit discards the pool's fit if a child has changed since it was made. The
// first point of a fit always exists.
func (e *Engine) refit(p *pool) {
	spoiled := p.stale
	for _, at := range p.subpools {
		spoiled = spoiled || e.pools[at].curveStamp > p.fitStamp
	}
	if !spoiled {
		return
	}
	e.stamp++
	p.stale, p.fitStamp = false, e.stamp
	p.fit.reset()
	p.leastWeight = math.Inf(1)
	for _, slot := range p.children {
		if weight := e.nodes[slot].weight; weight > Epsilon {
			p.leastWeight = min(p.leastWeight, weight)
		}
	}
	e.growFit(p)
}

// tryBounds makes the pool's fit ready and returns the bounds under which an
// integral pool is asked what it needs. A pool inside another integral pool has
// been prepared with that one and keeps the bounds it had then.
func (e *Engine) tryBounds(p *pool, guarantee, limit resource.Shares) bounds {
	for _, at := range p.subpools {
		e.prepare(&e.pools[at])
	}
	if p.prepared {
		return p.bounds
	}
	e.refit(p)
	return fitted(&p.fit.points[0].v, guarantee, limit)
}

// unprepare lets the pool's functions follow its new guarantee. Functions above
// it that are prepared stay as they are and must not see the change, so they
// are generated to their ends first. That concerns integral pools inside
// integral pools only, which the configuration refuses.
func (e *Engine) unprepare(p *pool) {
	p.prepared = false
	for p.slot != 0 {
		p = e.parentOf(p)
		if !p.prepared {
			return
		}
		e.freeze(p)
	}
}

// freeze generates the pool's functions to their ends and makes them
// independent of those of its children.
func (e *Engine) freeze(p *pool) {
	for !p.fit.done {
		e.growFit(p)
	}
	for !p.curve.done {
		e.growCurve(p)
	}
	for i := range p.fit.sources {
		if s := &p.fit.sources[i]; s.isPool {
			s.isPool, s.first = false, int32(len(p.fit.own))
			p.fit.own = append(p.fit.own, e.pools[e.nodes[s.child].pool].curve.points...)
			s.end = int32(len(p.fit.own))
		}
	}
}
