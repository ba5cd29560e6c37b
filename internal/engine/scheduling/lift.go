package scheduling

import (
	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/value/nodefilter"
	"github.com/weirhq/weir/internal/value/resource"
)

// Lifts remove one obstacle each. They answer what-if questions on a clone: the
// options of pools and operations would restore what they remove.

// LiftLimit removes the limit of an element on a resource, or all that
// max_share_ratio sets.
func (t *Tree) LiftLimit(slot int32, k resource.Kind, option LimitOption) {
	e := &t.shares.Elements[slot]
	kinds := []resource.Kind{k}
	if option == ByMaxShareRatio {
		e.MaxShareRatio, kinds = 0, resource.Kinds[:]
	}
	var kept resource.Partial
	for _, kind := range resource.Kinds {
		limit, set := e.Limits.Get(kind)
		lifted := false
		for _, k := range kinds {
			lifted = lifted || k == kind && (option != ByMaxShareRatio || !t.elements[slot].rest().specified.Has(kind))
		}
		if set && !lifted {
			kept = kept.With(kind, limit)
		}
	}
	e.Limits = kept
	t.elements[slot].limits, t.relimit = t.limitsOf(slot), true
	t.weigh(slot)
	t.mark(slot, forBoth)
}

// LiftFilter lets an element use all nodes. Limits that follow from the filter are
// removed with it.
func (t *Tree) LiftFilter(slot int32) {
	e := &t.elements[slot]
	if e.pool != nil {
		e.pool.filter = nodefilter.Filter{}
	} else {
		e.operation.filter = nodefilter.Filter{}
	}
	t.forgetBest()
	for _, k := range resource.Kinds {
		if t.limitOption(slot, k) != ByResourceLimits {
			t.LiftLimit(slot, k, ByTagFilter)
		}
	}
	t.mark(slot, forBoth)
}

// LiftBans lets an operation use the nodes that it avoids.
func (t *Tree) LiftBans(slot int32) {
	t.elements[slot].operation.banned = nil
	t.mark(slot, forBoth)
}

// LiftGrace lets an operation get more than its fair share.
func (t *Tree) LiftGrace(slot int32) {
	t.elements[slot].operation.graceful = false
	t.weigh(slot)
	t.mark(slot, forBoth)
}

// LiftPacking lets jobs start on any node with room.
func (t *Tree) LiftPacking() { t.settings.Packing.Enabled = false }

// LiftCount raises the limit of the pool that an operation waits for, so that it
// runs now. It returns the operations that run because of it.
func (t *Tree) LiftCount(slot int32) []int32 {
	at := t.elements[slot].operation.waitsAt
	if at == none {
		return nil
	}
	p := t.elements[at].pool
	t.leaveQueue(at, slot)
	p.maxRunning = max(p.maxRunning, p.running+1)
	if t.admit(slot) {
		return []int32{slot}
	}
	return nil
}

// leaveQueue removes an operation from the queue of a pool.
func (t *Tree) leaveQueue(pool, slot int32) {
	p := t.elements[pool].pool
	t.mark(pool, forBoth)
	for i, waiting := range p.waiting {
		if waiting == slot {
			p.waiting = append(p.waiting[:i], p.waiting[i+1:]...)
			break
		}
	}
	t.elements[slot].operation.waitsAt = none
}

// LiftRivals keeps all other operations, and the operation's other groups, from
// starting jobs.
func (t *Tree) LiftRivals(slot, group int32) {
	for other := range t.elements {
		e := &t.elements[other]
		if e.kind == fairshare.KindOperation && int32(other) != slot && !e.operation.suspended {
			t.Suspend(int32(other), true)
		}
	}
	groups := append([]Group(nil), t.elements[slot].operation.groups...)
	for g := range groups {
		if int32(g) != group {
			groups[g].Waiting = 0
		}
	}
	t.SetWaiting(slot, groups)
}
