package core

import (
	"cmp"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/value/resource"
)

// candidate is a tree in which an operation could run alone.
type candidate struct {
	place      int // in running.places
	name       string
	guaranteed bool // its pool has an estimated guarantee
	empty      bool // the tree has no nodes
	pending    bool
	// room is the minimum, over the tree's resources, of the pool's guarantee
	// minus its demand with the operation, as shares.
	room float64
}

// settleInOneTree keeps an operation with schedule_in_single_tree only in the
// best of its trees. It reports whether the operation continues: with
// consider_guarantees_for_single_tree the operation fails if its pools are
// guaranteed nothing.
func (c *Core) settleInOneTree(now time.Time, op *running, out *Decisions) bool {
	spec := op.controller.Spec()
	if !spec.ScheduleInSingleTree.Value() || len(op.places) < 2 || op.controller.RunningJobCount() > 0 {
		return true
	}
	if op.controller.Life().Revival != operation.NotRevived && !op.choosing {
		op.choosing = true // at the next update: some trees and nodes may still be missing
		return true
	}
	op.choosing = false
	considered := spec.ConsiderGuaranteesForSingle.Value()
	list := make([]candidate, len(op.places))
	names, guaranteed := make([]string, len(op.places)), false
	for i := range op.places {
		list[i] = c.candidateAt(op, i)
		names[i] = list[i].name
		guaranteed = guaranteed || list[i].guaranteed
	}
	if considered && !guaranteed {
		effects, err := op.controller.Fail(operation.Error{
			Code: operation.CodeGeneric,
			Message: "consider_guarantees_for_single_tree: the pools of the operation are guaranteed nothing in any of its trees: " +
				describeTrees(names),
		}, now)
		if err == nil {
			c.carryOut(now, op, effects, out)
		}
		return false
	}
	best := slices.MinFunc(list, func(a, b candidate) int { return a.compare(&b, considered) })
	c.keepOnly(now, op, best.place, out)
	return true
}

// settleRevived lets operations choose a tree that could not when they were
// revived.
func (c *Core) settleRevived(now time.Time, out *Decisions) {
	c.settleStirred()
	c.each(c.timed, func(op *running) { // those that have yet to choose are among them
		if op.choosing && c.settleInOneTree(now, op, out) {
			op.choosing = false
		}
	})
}

// compare orders better trees first; among equals, the one that is named
// first.
func (a *candidate) compare(b *candidate, considerGuarantees bool) int {
	last := func(x, y bool) int { // true goes last
		switch {
		case x == y:
			return 0
		case x:
			return 1
		}
		return -1
	}
	if considerGuarantees {
		if order := last(!a.guaranteed, !b.guaranteed); order != 0 {
			return order
		}
	}
	return cmp.Or(last(a.empty, b.empty), last(a.pending, b.pending), cmp.Compare(b.room, a.room), cmp.Compare(a.place, b.place))
}

// candidateAt judges one tree of an operation.
func (c *Core) candidateAt(op *running, i int) candidate {
	at := &op.places[i]
	t := c.trees[at.tree]
	total := t.state.Total()
	guarantee, demand := t.state.Outlook(t.pools[at.pool].slot, at.slot)
	wanted := demand.Add(op.controller.Needed()).Share(total)
	runs, _ := t.state.IsRunning(at.slot)
	result := candidate{place: i, name: t.name, guaranteed: guarantee.Largest() > 0, empty: total.IsZero(), pending: !runs}
	first := true
	for _, k := range resource.Kinds {
		if total[k] == 0 {
			continue
		}
		if room := guarantee[k] - wanted[k]; first || room < result.room {
			result.room, first = room, false
		}
	}
	return result
}

// keepOnly removes an operation without jobs from all trees but one.
func (c *Core) keepOnly(now time.Time, op *running, kept int, out *Decisions) {
	left := slices.Delete(slices.Clone(op.places), kept, kept+1)
	op.places = []place{op.places[kept]}
	c.touch(op)
	for i := range left {
		c.unseat(now, &left[i], out)
	}
}
