package scheduling

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/value/resource"
)

// Verify checks the invariants of the state against sums computed from
// scratch. It is for tests, for the simulator, and for samples in production.
func (t *Tree) Verify() error {
	v := verifier{
		tree: t, usage: make([]resource.Amounts, len(t.elements)), running: make([]int, len(t.elements)),
		operations: make([]int, len(t.elements)), nodes: make([]resource.Amounts, len(t.nodes)),
	}
	v.sumUp()
	for slot := range t.elements {
		v.element(int32(slot))
	}
	v.checkNodes()
	return errors.Join(v.found...)
}

type verifier struct {
	tree                *Tree
	usage               []resource.Amounts // by slot
	nodes               []resource.Amounts // by node
	running, operations []int              // by slot
	found               []error
}

func (v *verifier) report(format string, args ...any) {
	v.found = append(v.found, fmt.Errorf(format, args...))
}

// sumUp recounts allocations and operations.
func (v *verifier) sumUp() {
	t := v.tree
	for id := range t.allocations {
		a := &t.allocations[id]
		if !a.alive {
			continue
		}
		if !a.tentative {
			v.nodes[a.node] = v.nodes[a.node].Add(a.usage)
		}
		for slot := a.operation; ; slot = t.elements[slot].parent {
			v.usage[slot] = v.usage[slot].Add(a.usage)
			if slot == 0 {
				break
			}
		}
	}
	v.sumUpGang()
	for slot := range t.elements {
		op := t.elements[slot].operation
		if op == nil {
			continue
		}
		for above := t.elements[slot].parent; ; above = t.elements[above].parent {
			v.operations[above]++
			if op.running {
				v.running[above]++
			}
			if above == 0 {
				break
			}
		}
	}
}

// sumUpGang adds what is kept for the gang that assembles, and checks that nothing else
// is tentative.
func (v *verifier) sumUpGang() {
	t := v.tree
	a := &t.assembly
	if a.slot == none && len(a.members)+len(a.victims) > 0 {
		v.report("room is kept for %d members and %d victims, but no gang assembles", len(a.members), len(a.victims))
		return
	}
	for _, m := range a.members {
		v.nodes[m.node] = v.nodes[m.node].Add(m.resources)
		for slot := a.slot; ; slot = t.elements[slot].parent {
			v.usage[slot] = v.usage[slot].Add(m.resources)
			if slot == 0 {
				break
			}
		}
	}
	lent := 0
	for id := range t.allocations {
		if t.allocations[id].tentative {
			lent++
		}
	}
	if lent != len(a.victims) {
		v.report("%d allocations are tentative victims, not %d", lent, len(a.victims))
	}
	if a.slot != none && len(a.members) >= int(t.elements[a.slot].operation.gang.lack) {
		v.report("operation %d: all %d members have room, but it has not started", a.slot, len(a.members))
	}
}

func (v *verifier) element(slot int32) {
	t := v.tree
	e := &t.elements[slot]
	if e.kind == fairshare.KindNone {
		return
	}
	if e.usage != v.usage[slot] {
		v.report("element %d: usage is %v, its allocations hold %v", slot, e.usage, v.usage[slot])
	}
	if e.pool != nil {
		v.pool(slot, e.pool)
	} else {
		v.operation(slot, e)
	}
	if slot == 0 {
		return
	}
	if excess := !e.limits.Dominates(e.usage) || e.operation != nil && e.operation.graceful; excess != e.excess {
		v.report("element %d: is above its limits: %v, counts as such: %v", slot, excess, e.excess)
	}
	if !e.belowSince.IsZero() && !slices.Contains(t.below, slot) {
		v.report("element %d: nothing watches its clock", slot)
	}
	candidate := e.operation != nil && e.operation.isCandidate() || e.pool != nil && len(e.pool.heap) > 0
	parent := t.elements[e.parent].pool
	switch {
	case candidate != (e.place != none):
		v.report("element %d: is a candidate: %v, is in the heap: %v", slot, candidate, e.place != none)
	case e.place != none && parent.heap[e.place] != slot:
		v.report("element %d: another one is in its place", slot)
	}
}

func (v *verifier) pool(slot int32, p *poolState) {
	if p.operations != v.operations[slot] || p.running != v.running[slot] {
		v.report("pool %s: counts %d operations, %d running; there are %d and %d", p.name, p.operations, p.running, v.operations[slot], v.running[slot])
	}
	for at := 1; at < len(p.heap); at++ {
		if v.tree.less(p.heap[at], p.heap[(at-1)/2]) {
			v.report("pool %s: its children are out of order at %d", p.name, at)
		}
	}
}

func (v *verifier) operation(slot int32, e *element) {
	t := v.tree
	op := e.operation
	var usage [classCount]resource.Amounts
	var counts [classCount]int32
	count, waiting, class := int32(0), int32(0), NonPreemptible
	for at := op.oldest; at != none; at = t.allocations[at].after {
		a := &t.allocations[at]
		if a.class < class || a.operation != slot {
			v.report("operation %d: allocation %d is of class %s after %s", slot, at, a.class, class)
		}
		class = a.class
		usage[class] = usage[class].Add(a.usage)
		counts[class]++
		count++
	}
	for _, g := range op.groups {
		waiting += g.Waiting
		if g.Waiting < 0 {
			v.report("operation %d: %d jobs of a group wait", slot, g.Waiting)
		}
	}
	if count != op.count || counts != op.counts || usage != op.ledger.usage || waiting != op.waiting {
		v.report("operation %d: has %d allocations of %v and %d waiting jobs; there are %d of %v and %d",
			slot, op.count, op.ledger.usage, op.waiting, count, usage, waiting)
	}
	if op.running == (op.waitsAt != none) {
		v.report("operation %d: runs: %v, waits at %d", slot, op.running, op.waitsAt)
	}
	v.waiting(slot, op)
	if !slices.IsSorted(op.banned) {
		v.report("operation %d: its banned nodes are out of order", slot)
	}
	for _, at := range op.banned {
		if !t.nodes[at].alive {
			v.report("operation %d: avoids node %d, which is gone", slot, at)
		}
	}
	if most := t.settings.Packing.MaxWindow; len(op.sightings) > 0 && (!t.settings.Packing.Enabled || len(op.sightings) > most) {
		v.report("operation %d: remembers %d nodes, not at most %d", slot, len(op.sightings), most)
	}
}

// waiting checks that an operation that does not run waits exactly once, for
// a pool above it.
func (v *verifier) waiting(slot int32, op *operationState) {
	if op.waitsAt == none {
		return
	}
	if !v.tree.contains(op.waitsAt, slot) {
		v.report("operation %d: waits at %d, which is not above it", slot, op.waitsAt)
		return
	}
	times := 0
	for _, waiting := range v.tree.elements[op.waitsAt].pool.waiting {
		if waiting == slot {
			times++
		}
	}
	if times != 1 {
		v.report("operation %d: is %d times in the queue that it waits in", slot, times)
	}
}

func (v *verifier) checkNodes() {
	total, overloaded := resource.Amounts{}, 0
	for at := range v.tree.nodes {
		n := &v.tree.nodes[at]
		if n.usage != v.nodes[at] && n.alive {
			v.report("node %d: usage is %v, its allocations hold %v", at, n.usage, v.nodes[at])
		}
		if n.alive {
			total = total.Add(n.limits)
			if !n.limits.Dominates(n.usage) {
				overloaded++
			}
		}
		if n.id != Node(at) {
			v.report("node %d: is called %d", at, n.id)
		}
		for place, id := range n.allocations {
			if a := &v.tree.allocations[id]; a.node != Node(at) || a.place != int32(place) || !a.alive {
				v.report("node %d: allocation %d is not on it", at, id)
			}
		}
	}
	if overloaded != v.tree.overloaded {
		v.report("%d nodes are overloaded, not %d", overloaded, v.tree.overloaded)
	}
	if total != v.tree.total {
		v.report("nodes have %v together, not %v", total, v.tree.total)
	}
}
