package scheduling

import (
	"time"

	"github.com/weirhq/weir/internal/value/resource"
)

// ReviveOperation adds an operation that existed before the scheduler
// restarted. A pool that has become full meanwhile does not refuse it.
func (t *Tree) ReviveOperation(pool int32, p OperationParameters) int32 {
	slot := t.addOperation(pool, p)
	t.count(pool, 1, 0)
	t.admit(slot)
	return slot
}

// Adopt allocates resources of a node to a job that has been running there
// since started. It consumes one waiting job of the group.
func (t *Tree) Adopt(started time.Time, slot, group int32, at Node, usage resource.Amounts) Allocation {
	id := t.startAllocation(started, slot, group, at)
	t.SetAllocationUsage(id, usage)
	op := t.elements[slot].operation
	a := &t.allocations[id]
	// Classes follow the order of starts, so move it to its place.
	after := a.before
	for after != none && t.allocations[after].progress.After(started) {
		after = t.allocations[after].before
	}
	if after != a.before {
		t.removeAllocation(&op.ledger, id)
		t.insertAllocation(&op.ledger, id, after)
		t.rebalance(&op.ledger, &t.elements[slot].entitlement, &op.classes)
	}
	return id
}

// insertAllocation inserts an allocation after before, or at the head if
// before is none, but never at the end of the list. It gets the class of the
// allocation that follows it.
func (t *Tree) insertAllocation(l *ledger, at, before Allocation) {
	a := &t.allocations[at]
	after := l.oldest
	if before != none {
		after = t.allocations[before].after
	}
	a.before, a.after, a.class = before, after, t.allocations[after].class
	t.allocations[after].before = at
	if before == none {
		l.oldest = at
	} else {
		t.allocations[before].after = at
	}
	if l.firstAggressive == after {
		l.firstAggressive = at
	}
	if l.firstPreemptible == after {
		l.firstPreemptible = at
	}
	l.usage[a.class] = l.usage[a.class].Add(a.usage)
	l.counts[a.class]++
	l.count++
}

// Clock states since when an element has been below its fair share, and since
// when its limits have left no room, by resource.
type Clock struct {
	BelowSince time.Time
	Starvation Starvation
	// Full is in microseconds since 1970; zero means that there is room.
	Full [resource.KindCount]int64
}

// Clock returns the clock of an element; the zero value means that the
// element has enough.
func (t *Tree) Clock(slot int32) Clock {
	e := &t.elements[slot]
	return Clock{e.belowSince, e.starvation, e.rest().full}
}

// SetClock restores the starvation clock of an element.
func (t *Tree) SetClock(slot int32, c Clock) {
	t.elements[slot].belowSince, t.elements[slot].starvation = c.BelowSince, c.Starvation
	t.elements[slot].rest().full = c.Full
	t.mark(slot, forBoth)
	t.watch(slot)
}
