package scheduling

import (
	"time"

	"github.com/weirhq/weir/internal/value/resource"
)

// Start is the decision to start a job.
type Start struct {
	Allocation Allocation
	Operation  int32 // slot
	Group      int32
	Stage      Stage
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
}

func (d *Decisions) reset() {
	*d = Decisions{Starts: d.Starts[:0], Preemptions: d.Preemptions[:0]}
}

// Heartbeat decides which jobs start on a node and which allocations are
// preempted there.
func (t *Tree) Heartbeat(now time.Time, at Node, d *Decisions) {
	d.reset()
	t.heartbeats++
	n := &t.nodes[at]
	n.settled = len(n.allocations)
	t.preemptGracefully(n, d)
	t.scheduleGuaranteed(now, at, d)
	t.scheduleRegularly(now, at, d)
	if len(t.misfits) > 0 {
		t.scheduleMisfits(now, at, d)
	}
	if now.Sub(n.preemptedAt) > t.settings.Backoff.Value() || n.preemptedAt.IsZero() {
		n.preemptedAt, n.changed = now, true
		d.Preemptive = true
		if !t.schedulePreemptively(now, at, StageAggressive, d) {
			t.schedulePreemptively(now, at, StageNormal, d)
		}
	}
	t.preemptOvercommit(now, n, d)
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
			id := t.startAllocation(now, slot, group, at)
			d.Starts = append(d.Starts, Start{id, slot, group, StageRegularHigh})
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
		id := t.startAllocation(now, slot, group, at)
		d.Starts = append(d.Starts, Start{id, slot, group, StageRegular})
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
	e.changed |= forReaders
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
	}
	refusal := RefusedNoDemand
	for i := range op.groups {
		g := &op.groups[i]
		if g.Waiting == 0 {
			continue
		}
		if !free.Dominates(g.Resources) {
			refusal = RefusedNodeResources
			continue
		}
		if r := t.withinLimits(slot, g.Resources); r != RefusedNothing {
			refusal = r
			continue
		}
		return int32(i), RefusedNothing
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
