package scheduling

import (
	"encoding/binary"
	"hash"
	"math"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/value/resource"
)

// Clone returns an independent copy. Settings of pools are shared: they are
// replaced, never changed. The fair-share engine of the copy starts without
// memory, which changes no result. Readers have been shown nothing of the
// copy.
func (t *Tree) Clone() *Tree {
	c := *t
	c.engine = fairshare.Engine{}
	c.result = fairshare.Result{}
	c.misfits = nil
	c.best = bestShares{}
	c.below, c.resized, c.due, c.isDue = slices.Clone(t.below), slices.Clone(t.resized), nil, nil
	c.benched, c.victimList, c.usableList, c.taken, c.spared = nil, nil, nil, nil, nil
	c.elements = slices.Clone(t.elements)
	c.shown, c.toUpdate, c.toShow, c.reoffered, c.spent, c.promises = nil, nil, nil, nil, nil, promiseScratch{}
	for slot := range c.elements {
		e := &c.elements[slot]
		e.changed, e.reoffered, e.spent = 0, false, false
		c.mark(int32(slot), forBoth)
		if e.pool != nil {
			p := *e.pool
			p.heap, p.waiting = slices.Clone(p.heap), slices.Clone(p.waiting)
			e.pool = &p
		}
		if e.operation != nil {
			op := *e.operation
			op.groups = slices.Clone(op.groups)
			op.banned, op.sightings = slices.Clone(op.banned), slices.Clone(op.sightings)
			if op.gang != nil {
				own := *op.gang
				op.gang = &own
			}
			e.operation = &op
		}
	}
	c.freeSlots, c.freeNodes, c.freeAllocs = slices.Clone(t.freeSlots), slices.Clone(t.freeNodes), slices.Clone(t.freeAllocs)
	c.nodes = slices.Clone(t.nodes)
	for i := range c.nodes {
		c.nodes[i].allocations = slices.Clone(c.nodes[i].allocations)
	}
	c.lonely = nil
	c.pulses = slices.Clone(t.pulses)
	for i := range c.pulses {
		c.pulses[i].changed = true
	}
	c.allocations = slices.Clone(t.allocations)
	c.shares.Elements, c.shares.States = slices.Clone(t.shares.Elements), slices.Clone(t.shares.States)
	c.shares.Touched = nil
	for i := range t.starving {
		c.starving[i] = slices.Clone(t.starving[i])
	}
	c.guaranteed = slices.Clone(t.guaranteed)
	c.gangs, c.gangQueue, c.assembled = slices.Clone(t.gangs), nil, slices.Clone(t.assembled)
	c.assembly.members, c.assembly.victims = slices.Clone(t.assembly.members), slices.Clone(t.assembly.victims)
	if len(t.result.Elements) > 0 {
		c.result = fairshare.Result{
			Total: t.result.Total, Elements: slices.Clone(t.result.Elements), Pools: slices.Clone(t.result.Pools),
			States: slices.Clone(t.result.States), Alerts: slices.Clone(t.result.Alerts), Promised: slices.Clone(t.result.Promised),
		}
	}
	return &c
}

// Hash writes the state, in a fixed order, into a hash. Trees that will
// behave alike write the same bytes. What heaps contain follows from the rest.
func (t *Tree) Hash(h hash.Hash) {
	w := writer{h: h}
	w.amounts(t.total)
	w.time(t.updated, t.begun, t.boundedAt)
	w.number(int64(t.heartbeats))
	w.flag(t.clocksHeld)
	for slot := range t.elements {
		e := &t.elements[slot]
		w.number(int64(e.kind))
		if e.kind != fairshare.KindNone {
			w.element(e)
			for _, v := range t.shares.Elements[slot].BestShare {
				w.float(v)
			}
		}
	}
	for i := range t.shares.States {
		s := &t.shares.States[i]
		for _, v := range s.Volume {
			w.float(v)
		}
		w.float(s.LastShareRatio)
		w.float(s.Historic.Weighted)
		w.float(s.Historic.Weight)
	}
	for i := range t.nodes {
		n := &t.nodes[i]
		w.amounts(n.limits)
		w.amounts(n.usage)
		w.number(t.pulses[i].lastPreempted().UnixNano())
		w.number(n.overcommitted.UnixNano())
		for _, id := range n.allocations {
			w.number(int64(id))
		}
		for _, word := range n.denied {
			w.number(int64(word))
		}
	}
	for i := range t.allocations {
		a := &t.allocations[i]
		w.amounts(a.usage)
		w.number(a.progress.UnixNano())
		w.number(int64(a.operation), int64(a.node), int64(a.before), int64(a.after), int64(a.class), int64(a.group))
		w.flag(a.preempted, a.alive, a.tentative)
		w.number(a.pinned)
	}
	t.hashGangs(&w)
	for _, list := range t.starving {
		for _, slot := range list {
			w.number(int64(slot))
		}
	}
}

// writer writes values of fixed size into a hash.
type writer struct {
	h      hash.Hash
	buffer [8]byte
}

func (w *writer) number(values ...int64) {
	for _, v := range values {
		binary.LittleEndian.PutUint64(w.buffer[:], uint64(v))
		w.h.Write(w.buffer[:])
	}
}

func (w *writer) time(values ...time.Time) {
	for _, v := range values {
		w.number(v.UnixNano())
	}
}

func (w *writer) float(v float64) { w.number(int64(math.Float64bits(v))) }

func (w *writer) flag(values ...bool) {
	for _, v := range values {
		if v {
			w.number(1)
		} else {
			w.number(0)
		}
	}
}

func (w *writer) amounts(a resource.Amounts) { w.number(a[:]...) }

func (w *writer) element(e *element) {
	w.number(int64(e.parent), int64(e.status), int64(e.starvation), e.belowSince.UnixNano())
	w.time(e.rest().starvingSince)
	w.flag(e.known)
	w.amounts(e.usage)
	w.amounts(e.limits)
	for k := range e.share {
		w.float(e.share[k])
		w.float(e.demand[k])
	}
	if p := e.pool; p != nil {
		w.number(int64(p.running), int64(p.operations), int64(p.maxRunning), int64(p.maxOperations))
		for _, slot := range p.waiting {
			w.number(int64(slot))
		}
		return
	}
	op := e.operation
	w.flag(op.running, op.suspended, op.graceful, op.bounded)
	w.time(op.activatedAt, op.startedAt, op.limitedSince)
	w.number(int64(op.beatsBefore))
	for _, at := range op.banned {
		w.number(int64(at))
	}
	for _, s := range op.sightings {
		w.time(s.at)
		w.amounts(s.free)
	}
	w.number(int64(op.count), int64(op.waitsAt), int64(op.fifoIndex))
	w.flag(op.freeRoomOnly)
	w.number(op.pinned)
	if g := op.gang; g != nil {
		w.number(int64(g.lack), int64(g.retreats))
		w.flag(g.whole, g.elsewhere)
		w.time(g.aside)
	}
	for _, g := range op.groups {
		w.amounts(g.Resources)
		w.number(int64(g.Waiting), int64(g.Class), int64(g.Priority))
		w.flag(g.Alone)
	}
}
