package scheduling

import (
	"time"

	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/value/resource"
)

// Allocation is the index of an allocation in its tree. Indices of ended
// allocations are reused.
type Allocation int32

// none is the index that means "no element".
const none = -1

// allocation is resources of one node given to one operation.
type allocation struct {
	usage     resource.Amounts // zero once it is preempted
	progress  time.Time        // start of the last job
	operation int32            // slot of the operation
	node      Node
	// place is the position in the node's list.
	place int32
	// before and after are the neighbours in the operation's list, oldest
	// progress first.
	before, after Allocation
	group         int32
	// pinned is until when it is no victim, in microseconds since 1970.
	pinned    int64
	class     Class
	preempted bool
	tentative bool // it leaves if the gang that assembles starts
	alive     bool
}

// ledger has the allocations of an operation in the order of their progress,
// divided into three classes by two cuts: non_preemptible up to
// firstAggressive, aggressively_preemptible up to firstPreemptible, then
// preemptible.
//
// Invariants: firstAggressive is not after firstPreemptible; the class of
// every allocation matches its part; usage[c] is the sum of the part c and
// counts[c] its length.
type ledger struct {
	oldest, newest   Allocation
	firstAggressive  Allocation
	firstPreemptible Allocation
	count            int32
	counts           [classCount]int32
	usage            [classCount]resource.Amounts
}

// total returns what all allocations hold.
func (l *ledger) total() (sum resource.Amounts) {
	for c := range l.usage {
		sum = sum.Add(l.usage[c])
	}
	return sum
}

func newLedger() ledger {
	return ledger{oldest: none, newest: none, firstAggressive: none, firstPreemptible: none}
}

// appendAllocation adds an allocation at the end: it is the newest, and
// preemptible until rebalance.
func (t *Tree) appendAllocation(l *ledger, at Allocation) {
	a := &t.allocations[at]
	a.before, a.after, a.class = l.newest, none, Preemptible
	if l.newest == none {
		l.oldest = at
	} else {
		t.allocations[l.newest].after = at
	}
	l.newest = at
	if l.firstPreemptible == none {
		l.firstPreemptible = at
	}
	if l.firstAggressive == none {
		l.firstAggressive = at
	}
	l.usage[Preemptible] = l.usage[Preemptible].Add(a.usage)
	l.counts[Preemptible]++
	l.count++
}

// removeAllocation removes an allocation from its operation's list.
func (t *Tree) removeAllocation(l *ledger, at Allocation) {
	a := &t.allocations[at]
	if l.firstAggressive == at {
		l.firstAggressive = a.after
	}
	if l.firstPreemptible == at {
		l.firstPreemptible = a.after
	}
	if a.before == none {
		l.oldest = a.after
	} else {
		t.allocations[a.before].after = a.after
	}
	if a.after == none {
		l.newest = a.before
	} else {
		t.allocations[a.after].before = a.before
	}
	l.usage[a.class] = l.usage[a.class].Sub(a.usage)
	l.counts[a.class]--
	l.count--
}

// setAllocationUsage changes what an allocation holds.
func (t *Tree) setAllocationUsage(l *ledger, at Allocation, usage resource.Amounts) {
	a := &t.allocations[at]
	l.usage[a.class] = l.usage[a.class].Sub(a.usage).Add(usage)
	a.usage = usage
}

// reclass moves an allocation at a cut from one class to another.
func (t *Tree) reclass(l *ledger, at Allocation, to Class) {
	a := &t.allocations[at]
	t.stir(a.node)
	t.mark(a.operation, forReaders)
	l.usage[a.class] = l.usage[a.class].Sub(a.usage)
	l.counts[a.class]--
	a.class = to
	l.usage[to] = l.usage[to].Add(a.usage)
	l.counts[to]++
}

// last returns the allocation in front of a cut.
func (t *Tree) last(l *ledger, cut Allocation) Allocation {
	if cut == none {
		return l.newest
	}
	return t.allocations[cut].before
}

// classBounds are the two shares that divide the allocations of an operation.
type classBounds struct {
	aggressive, normal resource.Shares
	// guard is the usage within which nothing is preemptible; unset components
	// do not bind. It is ignored if it has no components.
	guard      resource.Partial
	guarded    bool
	boundaryIn bool // the allocation that crosses a bound is on the far side
}

// rebalance divides the allocations of an operation into classes: the oldest
// allocations whose total usage is below a bound are on its safe side. The
// allocation that crosses a bound is also safe, unless boundaryIn is set.
//
// It moves the cuts from their current positions, so its cost is proportional
// to the distance. If it moves any, it needs a second round, because an allocation may
// have to cross the middle class.
func (t *Tree) rebalance(l *ledger, e *entitlement, b *classBounds) {
	for range 2 {
		moved := t.balance(l, e, b, &b.aggressive, NonPreemptible)
		if !t.balance(l, e, b, &b.normal, AggressivelyPreemptible) && !moved {
			return
		}
	}
}

// balance moves the cut between the class safe and the next one, and reports whether it
// has moved.
func (t *Tree) balance(l *ledger, e *entitlement, b *classBounds, bound *resource.Shares, safe Class) (moved bool) {
	cut, start := &l.firstAggressive, &l.oldest
	usage := l.usage[NonPreemptible]
	if safe == AggressivelyPreemptible {
		cut, start = &l.firstPreemptible, &l.firstAggressive
		usage = usage.Add(l.usage[AggressivelyPreemptible])
	}
	for *cut != *start { // the safe part is not empty
		at := t.last(l, *cut)
		if at == none {
			break
		}
		rest := usage.Sub(t.allocations[at].usage)
		tested := rest
		if b.boundaryIn {
			tested = usage
		}
		if t.isBelow(e, b, bound, tested) {
			break
		}
		t.reclass(l, at, safe+1)
		*cut, usage, moved = at, rest, true
	}
	for at := *cut; at != none && t.allocations[at].class == safe+1; at = *cut {
		grown := usage.Add(t.allocations[at].usage)
		tested := usage
		if b.boundaryIn {
			tested = grown
		}
		if !t.isBelow(e, b, bound, tested) {
			break
		}
		t.reclass(l, at, safe)
		*cut, usage, moved = t.allocations[at].after, grown, true
	}
	return moved
}

// isBelow reports whether a usage is below a bound or guarded.
func (t *Tree) isBelow(e *entitlement, b *classBounds, bound *resource.Shares, usage resource.Amounts) bool {
	if b.guarded {
		within := true
		for _, k := range resource.Kinds {
			if limit, ok := b.guard.Get(k); ok && usage[k] >= limit {
				within = false
			}
		}
		if within {
			return true
		}
	}
	share := usage.Share(t.total)
	if b.boundaryIn {
		// A usage that reaches the bound exactly is inside.
		reached := bound.Times(1 + 2*fairshare.Epsilon)
		bound = &reached
	}
	return e.exceeds(bound, &share)
}
