package scheduling

import (
	"time"

	"github.com/weirhq/weir/internal/value/resource"
)

// Pin keeps an allocation from being preempted before a time. Zero lets it be
// preempted again.
func (t *Tree) Pin(id Allocation, until time.Time) {
	a := &t.allocations[id]
	a.pinned = 0
	if !until.IsZero() {
		a.pinned = until.UnixMicro()
	}
	op := t.elements[a.operation].operation
	op.pinned = 0
	for at := op.oldest; at != none; at = t.allocations[at].after {
		op.pinned = max(op.pinned, t.allocations[at].pinned)
	}
	if a.tentative {
		t.abandonAt(a.node)
	}
	t.stir(a.node)
}

// Spare takes the preemption of an allocation back, because its node cannot end it: it
// holds its resources again.
func (t *Tree) Spare(id Allocation, usage resource.Amounts) {
	t.allocations[id].preempted = false
	t.SetAllocationUsage(id, usage)
	t.stir(t.allocations[id].node)
}

// PinnedUntil returns until when an allocation is not preempted; zero if it is not
// pinned.
func (t *Tree) PinnedUntil(id Allocation) time.Time {
	if t.allocations[id].pinned == 0 {
		return time.Time{}
	}
	return time.UnixMicro(t.allocations[id].pinned).UTC()
}

// isPinned reports whether an allocation must not be preempted yet: it is pinned, or it
// would take another one along that is.
func (t *Tree) isPinned(a *allocation) bool {
	op := t.elements[a.operation].operation
	return a.pinned > t.clock || op.pinned > t.clock && op.isWhole()
}
