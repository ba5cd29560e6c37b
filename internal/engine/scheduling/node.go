package scheduling

import (
	"math"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/value/resource"
)

// Node is the index of a node in its tree.
type Node int32

// node is a machine of the tree.
type node struct {
	limits resource.Amounts
	// usage is what its allocations hold that are not preempted.
	usage       resource.Amounts
	allocations []Allocation
	// settled is how many of them existed before the current heartbeat; a
	// heartbeat does not preempt what it starts itself.
	settled int
	tags    []string // sorted
	denied  Classes
	id      Node
	alive   bool

	overloaded    bool      // its allocations hold more than it has
	overcommitted time.Time // since when allocations hold more than there is
}

// pulse is the part of a node that a heartbeat needs that changes nothing. It is
// separate because most heartbeats of a large, full cluster are such.
type pulse struct {
	preemptedAt int64 // when preemption was last considered, in nanoseconds since 1970, or never
	// full is the value of Tree.room when the node was found to have no room for
	// any waiting job. It still has none if that has not changed.
	full    uint32
	changed bool // readers may have to be shown a new value; see TakeNodeChange
}

// never is the date of what has not happened.
const never = math.MinInt64

// lastPreempted returns when preemption was last considered; zero: never.
func (p *pulse) lastPreempted() time.Time {
	if p.preemptedAt == never {
		return time.Time{}
	}
	return time.Unix(0, p.preemptedAt).UTC()
}

// stir notes that a node has changed.
func (t *Tree) stir(at Node) { t.pulses[at].changed = true }

func (n *node) hasTag(tag string) bool {
	_, found := slices.BinarySearch(n.tags, tag)
	return found
}

// free returns what the node has left.
func (n *node) free() resource.Amounts { return n.limits.Sub(n.usage) }

// NodeFree returns what a node has left. It is negative if the node's
// allocations hold more than the node has.
func (t *Tree) NodeFree(at Node) resource.Amounts { return t.nodes[at].free() }

// MayStart reports whether a heartbeat of a node could start a job: an operation
// waits, and the node has room for the smallest job that does; or a gang that may
// preempt others assembles.
func (t *Tree) MayStart(at Node) bool {
	if t.assembly.slot != none && t.assembly.right != NonStarving {
		return true
	}
	root, free := t.elements[0].pool, t.nodes[at].free()
	return len(root.heap) > 0 && free.Dominates(root.least) && free.Dominates(t.settings.MinSpare)
}

// AddNode adds a node with these resources and tags.
func (t *Tree) AddNode(limits resource.Amounts, tags []string) Node {
	n := node{limits: limits, tags: slices.Clone(tags), alive: true}
	slices.Sort(n.tags)
	t.total = t.total.Add(limits)
	t.forgetBest()
	if last := len(t.freeNodes) - 1; last >= 0 {
		at := t.freeNodes[last]
		t.freeNodes = t.freeNodes[:last]
		n.id, n.allocations = at, t.nodes[at].allocations[:0]
		t.nodes[at], t.pulses[at] = n, pulse{preemptedAt: never, changed: true}
		return at
	}
	n.id = Node(len(t.nodes))
	t.nodes, t.pulses = append(t.nodes, n), append(t.pulses, pulse{preemptedAt: never, changed: true})
	return n.id
}

// SetNodeLimits changes the resources of a node.
func (t *Tree) SetNodeLimits(at Node, limits resource.Amounts) {
	n := &t.nodes[at]
	if limits != n.limits {
		t.abandonAt(at)
	}
	t.total = t.total.Sub(n.limits).Add(limits)
	t.forgetBest()
	n.limits = limits
	t.pulses[at] = pulse{preemptedAt: t.pulses[at].preemptedAt, changed: true}
	t.weighNode(n)
}

// weighNode notes whether a node's allocations hold more than it has.
func (t *Tree) weighNode(n *node) {
	over := n.alive && !n.limits.Dominates(n.usage)
	if over == n.overloaded {
		return
	}
	n.overloaded = over
	t.pulses[n.id].full = 0
	if over {
		t.overloaded++
	} else {
		t.overloaded--
	}
}

// RemoveNode removes a node. Its allocations must have been finished before.
func (t *Tree) RemoveNode(at Node) {
	t.abandonAt(at)
	n := &t.nodes[at]
	t.total = t.total.Sub(n.limits)
	t.forgetBest()
	n.alive = false
	t.weighNode(n)
	t.unban(at)
	t.freeNodes = append(t.freeNodes, at)
}

// NodeAllocations returns the allocations of a node, including preempted ones
// until they are finished. The caller must not modify the slice.
func (t *Tree) NodeAllocations(at Node) []Allocation { return t.nodes[at].allocations }

// startAllocation allocates resources of a node to an operation.
func (t *Tree) startAllocation(now time.Time, slot int32, group int32, at Node) Allocation {
	op := t.elements[slot].operation
	g := &op.groups[group]
	a := allocation{
		usage: g.Resources, progress: now, operation: slot, node: at, group: group,
		place: int32(len(t.nodes[at].allocations)), alive: true,
	}
	var id Allocation
	if last := len(t.freeAllocs) - 1; last >= 0 {
		id = t.freeAllocs[last]
		t.freeAllocs = t.freeAllocs[:last]
		t.allocations[id] = a
	} else {
		id = Allocation(len(t.allocations))
		t.allocations = append(t.allocations, a)
	}
	t.noteAlone(g)
	g.Waiting--
	op.waiting--
	op.starts++
	op.startedAt = now
	n := &t.nodes[at]
	t.stir(at)
	n.allocations = append(n.allocations, id)
	n.usage = n.usage.Add(a.usage)
	t.weighNode(n)
	t.appendAllocation(&op.ledger, id)
	t.addUsage(slot, a.usage)
	t.rebalance(&op.ledger, &t.elements[slot].entitlement, &op.classes)
	t.refresh(slot)
	return id
}

// FinishAllocation ends an allocation, whether completed, failed or aborted,
// and frees its resources.
func (t *Tree) FinishAllocation(id Allocation) {
	a := &t.allocations[id]
	t.holdNothing(id)
	if a.tentative {
		t.forgetVictim(id)
	}
	n := &t.nodes[a.node]
	t.stir(a.node)
	last := len(n.allocations) - 1
	moved := n.allocations[last]
	n.allocations[a.place] = moved
	t.allocations[moved].place = a.place
	n.allocations = n.allocations[:last]
	slot := a.operation
	op := t.elements[slot].operation
	t.mark(slot, forBoth)
	t.removeAllocation(&op.ledger, id)
	*a = allocation{}
	t.freeAllocs = append(t.freeAllocs, id)
	t.rebalance(&op.ledger, &t.elements[slot].entitlement, &op.classes)
	t.refresh(slot)
}

// holdNothing frees the resources of an allocation at once, wherever they are
// counted.
func (t *Tree) holdNothing(id Allocation) { t.SetAllocationUsage(id, resource.Amounts{}) }

// SetAllocationUsage changes what an allocation holds: the memory reserved
// for it, or the CPU that a monitor has found it to need.
func (t *Tree) SetAllocationUsage(id Allocation, usage resource.Amounts) {
	a := &t.allocations[id]
	delta := usage.Sub(a.usage)
	if delta.IsZero() {
		return
	}
	n := &t.nodes[a.node]
	t.pulses[a.node].changed, t.pulses[a.node].full = true, 0
	if !a.tentative { // else its room is kept for a gang
		n.usage = n.usage.Add(delta)
		t.weighNode(n)
	}
	t.addUsage(a.operation, delta)
	op := t.elements[a.operation].operation
	t.setAllocationUsage(&op.ledger, id, usage)
	t.rebalance(&op.ledger, &t.elements[a.operation].entitlement, &op.classes)
	t.refresh(a.operation)
}

// AllocationsOf appends the allocations of an operation, oldest first.
func (t *Tree) AllocationsOf(slot int32, into []Allocation) []Allocation {
	for at := t.elements[slot].operation.oldest; at != none; at = t.allocations[at].after {
		into = append(into, at)
	}
	return into
}

// AllocationUsage returns what an allocation holds.
func (t *Tree) AllocationUsage(id Allocation) resource.Amounts { return t.allocations[id].usage }

// NodeOf returns the node of an allocation.
func (t *Tree) NodeOf(id Allocation) Node { return t.allocations[id].node }

// Total returns the sum of the resources of the tree's nodes.
func (t *Tree) Total() resource.Amounts { return t.total }

// SetNodeTags changes the tags of a node.
func (t *Tree) SetNodeTags(at Node, tags []string) {
	t.forgetBest()
	n := &t.nodes[at]
	before := n.tags
	n.tags = slices.Clone(tags)
	slices.Sort(n.tags)
	if !slices.Equal(before, n.tags) {
		t.abandonAt(at)
	}
}
