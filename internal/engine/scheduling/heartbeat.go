package scheduling

import (
	"time"

	"github.com/weirhq/weir/internal/value/resource"
)

// Start is the decision to start a job: on the node of the heartbeat, or on another one
// if it is a member of a gang.
type Start struct {
	Allocation Allocation
	Operation  int32 // slot
	Group      int32
	Stage      Stage
	Gang       bool // it is a member of a gang, all of which starts in this heartbeat
}

// Preemption is the decision to preempt an allocation.
type Preemption struct {
	Allocation Allocation
	Operation  int32
	Reason     PreemptionReason
	Class      Class
	// For is the allocation that needed the resources, none if it was not for a
	// starving operation.
	For Allocation
	// Limiter is the element whose limits are violated, none otherwise.
	Limiter int32
	// Held is what the allocation held.
	Held resource.Amounts
	// Timeout is how long the job may take to end by itself.
	Timeout time.Duration
	// Balance compares the two operations, if one of them is starving.
	Balance Balance
}

// Balance states how an operation that loses an allocation and the one that gets its
// resources stand: their satisfaction, the victim's after it has lost the allocation and
// the winner's before it starts a job; the tolerances below which they starve; and their
// largest fair shares of a resource.
type Balance struct {
	VictimLeft, VictimTolerance, VictimShare float64
	WinnerHad, WinnerTolerance, WinnerShare  float64
}

// Decisions are the outcome of a heartbeat. The next heartbeat that gets the
// same value reuses the slices.
type Decisions struct {
	Starts      []Start
	Preemptions []Preemption
	// Attempts counts the operations tried in each stage.
	Attempts [stageCount]int
	// Preemptive reports whether preemption was considered; not every heartbeat
	// does so.
	Preemptive bool
	// Kept counts the members of a gang for which room was kept.
	Kept int
}

func (d *Decisions) reset() {
	*d = Decisions{Starts: d.Starts[:0], Preemptions: d.Preemptions[:0]}
}

// Heartbeat decides which jobs start on a node and which allocations are
// preempted there.
func (t *Tree) Heartbeat(now time.Time, at Node, d *Decisions) {
	d.reset()
	if t.PassHeartbeat(now, at) {
		return
	}
	t.heartbeats++
	t.clock, t.lonely = now.UnixMicro(), t.lonely[:0]
	n := &t.nodes[at]
	n.settled = len(n.allocations)
	t.preemptGracefully(n, d)
	t.scheduleGuaranteed(now, at, d)
	t.scheduleRegularly(now, at, d)
	if len(t.misfits) > 0 {
		t.scheduleMisfits(now, at, d)
	}
	if t.considersPreemption(now.UnixNano(), at) {
		d.Preemptive = true
		if !t.schedulePreemptively(now, at, StageAggressive, d) {
			t.schedulePreemptively(now, at, StageNormal, d)
		}
	}
	t.assemble(at, d)
	t.conclude(now, d)
	t.preemptOvercommit(now, n, d)
}

// PassHeartbeat processes a heartbeat of a node if it cannot start or preempt
// anything there: nothing exceeds its limits, the node has no room for any waiting
// job, and nothing starves or it is too early to preempt again. Otherwise it returns
// false and does nothing.
func (t *Tree) PassHeartbeat(now time.Time, at Node) bool {
	if !t.Passes(now.UnixNano(), at) && !t.findsFull(now.UnixNano(), at) {
		return false
	}
	t.Passed(now.UnixNano(), at)
	return true
}

// Passes reports whether PassHeartbeat processes a heartbeat of a node that is known
// to have no room. It reads only the node's pulse, and Passed does not change its
// answers for other nodes. now is in nanoseconds since 1970.
func (t *Tree) Passes(now int64, at Node) bool {
	p := &t.pulses[at]
	return p.full == t.room && t.mayPass(now, p)
}

// mayPass reports whether a heartbeat of a node decides nothing if the node has no
// room.
func (t *Tree) mayPass(now int64, p *pulse) bool {
	return t.excesses+len(t.guaranteed) == 0 && t.assembly.slot == none && (!t.isStarving() || !t.mayPreempt(now, p))
}

func (t *Tree) isStarving() bool { return len(t.starving[0])+len(t.starving[1]) > 0 }

// findsFull is Passes for a node that may have no room. It notes that if it has none.
func (t *Tree) findsFull(now int64, at Node) bool {
	n, p := &t.nodes[at], &t.pulses[at]
	if !t.mayPass(now, p) || n.overloaded || !n.overcommitted.IsZero() {
		return false
	}
	root, free := t.elements[0].pool, n.free()
	if !free.Dominates(root.least) || !free.Dominates(t.settings.MinSpare) {
		p.full = t.room
		return true
	}
	return len(root.heap) == 0
}

// Passed processes a heartbeat that PassHeartbeat would process.
func (t *Tree) Passed(now int64, at Node) {
	t.heartbeats++
	if !t.isStarving() {
		t.considersPreemption(now, at)
	}
}

// considersPreemption reports whether it is time to consider preemption on a node
// again, and records that if it is.
func (t *Tree) considersPreemption(now int64, at Node) bool {
	p := &t.pulses[at]
	if !t.mayPreempt(now, p) {
		return false
	}
	p.preemptedAt, p.changed = now, true
	return true
}

// mayPreempt reports whether it is time to consider preemption on a node again.
func (t *Tree) mayPreempt(now int64, p *pulse) bool {
	return p.preemptedAt == never || now-p.preemptedAt > int64(t.settings.Backoff.Value())
}

// setLeast sets the bound of a pool.
func (t *Tree) setLeast(slot int32, least resource.Amounts) {
	p := t.elements[slot].pool
	if slot == 0 && !least.Dominates(p.least) {
		t.room++
	}
	p.least = least
}

// scheduleGuaranteed starts jobs of operations that have less than guarantees
// alone promise them.
func (t *Tree) scheduleGuaranteed(now time.Time, at Node, d *Decisions) {
	n := &t.nodes[at]
	for _, slot := range t.guaranteed {
		e := &t.elements[slot]
		for e.operation != nil && e.operation.isCandidate() && t.lacksGuarantee(e) && n.free().Dominates(t.settings.MinSpare) {
			d.Attempts[StageRegularHigh]++
			group, refusal := t.fits(slot, n, n.free(), true)
			if refusal == RefusedNothing && t.settings.Packing.Enabled && !t.suits(now, slot, group, n.free()) {
				refusal = RefusedPacking
				t.setAside(slot)
			}
			if refusal != RefusedNothing {
				t.refuse(slot, refusal)
				break
			}
			t.give(now, slot, group, at, StageRegularHigh, d)
		}
	}
}

// scheduleRegularly starts jobs, least satisfied operations first, until
// nothing more fits.
func (t *Tree) scheduleRegularly(now time.Time, at Node, d *Decisions) {
	n := &t.nodes[at]
	root := t.elements[0].pool
	if !n.free().Dominates(root.least) {
		return // no waiting job of the tree fits
	}
	for len(root.heap) > 0 {
		free := n.free()
		if !free.Dominates(t.settings.MinSpare) {
			break
		}
		slot := t.descend(n, free)
		if slot == none {
			continue // an element was set aside; descend again
		}
		d.Attempts[StageRegular]++
		group, refusal := t.fits(slot, n, free, false)
		if refusal == RefusedNothing && t.settings.Packing.Enabled && !t.suits(now, slot, group, free) {
			refusal = RefusedPacking
			t.setAside(slot)
		}
		if refusal != RefusedNothing {
			t.refuse(slot, refusal)
			t.bench(slot)
			continue
		}
		t.give(now, slot, group, at, StageRegular, d)
		if len(t.misfits) > 0 {
			t.reconsider()
		}
	}
	t.unbench()
}

// refuse counts why an operation gets nothing on a node.
func (t *Tree) refuse(slot int32, why Refusal) {
	e := &t.elements[slot]
	e.operation.refusals[why]++
	t.mark(slot, forReaders)
}

// descend walks down the heads of the heaps to the next operation to try. It
// sets aside a pool in which nothing can fit the node; then it returns none.
func (t *Tree) descend(n *node, free resource.Amounts) int32 {
	slot := int32(0)
	for {
		p := t.elements[slot].pool
		if p == nil {
			return slot
		}
		if slot != 0 && (!t.leavesRoom(slot, p.least) || !p.filter.Matches(n.hasTag)) || !free.Dominates(p.least) {
			if slot == 0 {
				// No waiting job of the tree fits.
				for len(p.heap) > 0 {
					t.bench(p.heap[0])
				}
			} else {
				t.bench(slot)
			}
			return none
		}
		slot = p.heap[0]
	}
}

// leavesRoom reports whether the limits of an element leave room for an
// amount.
func (t *Tree) leavesRoom(slot int32, amount resource.Amounts) bool {
	e := &t.elements[slot]
	for k := range amount {
		if e.limits[k]-e.usage[k] < amount[k] && amount[k] > 0 {
			return false
		}
	}
	return true
}

// fits finds a group of waiting jobs of which one can start on a node with
// this much free, or the reason why there is none. Stages that use a list of
// operations do not walk down the tree, so listed makes it check the filters
// of pools.
func (t *Tree) fits(slot int32, n *node, free resource.Amounts, listed bool) (int32, Refusal) {
	e := &t.elements[slot]
	op := e.operation
	switch {
	case op.suspended:
		return 0, RefusedSuspended
	case op.waiting == 0:
		return 0, RefusedNoDemand
	case op.graceful && e.status == Normal:
		return 0, RefusedGracefulAboveShare
	case !op.filter.Matches(n.hasTag), listed && !t.poolsMatch(slot, n):
		return 0, RefusedTag
	case op.avoids(n.id):
		return 0, RefusedBanned
	case op.isWaitingGang() && !t.mayJoin(slot):
		return 0, RefusedGang
	}
	refusal, best := RefusedNoDemand, int32(none)
	for i := range op.groups {
		g := &op.groups[i]
		if g.Waiting == 0 || best != none && g.Priority <= op.groups[best].Priority {
			continue
		}
		if !free.Dominates(g.Resources) {
			refusal = RefusedNodeResources
			continue
		}
		if t.denies(n, g) {
			refusal = RefusedConstraints
			continue
		}
		if r := t.withinLimits(slot, g.Resources); r != RefusedNothing {
			refusal = r
			continue
		}
		if !op.ranked {
			return int32(i), RefusedNothing
		}
		best = int32(i)
	}
	if best != none {
		return best, RefusedNothing
	}
	return 0, refusal
}

// poolsMatch reports whether all pools above an operation may use a node.
func (t *Tree) poolsMatch(slot int32, n *node) bool {
	for slot = t.elements[slot].parent; slot != 0; slot = t.elements[slot].parent {
		if !t.elements[slot].pool.filter.Matches(n.hasTag) {
			return false
		}
	}
	return true
}

// withinLimits checks the limits of an operation and of every pool above it.
func (t *Tree) withinLimits(slot int32, amount resource.Amounts) Refusal {
	refusal := RefusedOperationLimit
	for {
		if !t.leavesRoom(slot, amount) {
			return refusal
		}
		if slot == 0 {
			return RefusedNothing
		}
		slot, refusal = t.elements[slot].parent, RefusedPoolLimit
	}
}
