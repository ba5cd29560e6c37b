package core

import (
	"time"

	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/value/resource"
)

// updateOperation changes the parameters of an operation, each tree's own
// included: all of them, or none if a pool does not take the operation. Limits of
// the new pools are checked, so a change never makes a running operation wait.
func (c *Core) updateOperation(now time.Time, id OperationID, update operation.Update, out *Decisions) error {
	op := c.operationAt(id)
	if op == nil {
		return ErrNoOperation
	}
	if state := op.controller.State(); !state.AllowsUpdate() {
		return &operation.StateError{State: state, What: "change the parameters of"}
	}
	before, after := op.controller.Spec(), op.controller.Spec().With(update)
	var moved []int
	pools := make([]string, len(op.places))
	for i := range op.places {
		at := &op.places[i]
		t := c.trees[at.tree]
		pools[i] = at.pool
		old, wanted := before.OperationOptions.For(t.name).Pool, after.OperationOptions.For(t.name).Pool
		if wanted == old {
			continue
		}
		if err := c.move(now, op, at, t, wanted.Or(op.user), out); err != nil {
			for _, j := range moved {
				c.moveBack(now, &op.places[j], pools[j], out)
			}
			return err
		}
		moved = append(moved, i)
	}
	effects, err := op.controller.Update(update, now)
	if err != nil {
		for _, j := range moved {
			c.moveBack(now, &op.places[j], pools[j], out)
		}
		return err
	}
	out.Changed = append(out.Changed, id)
	for i := range op.places {
		at := &op.places[i]
		t := c.trees[at.tree]
		at.options = after.OperationOptions.For(t.name)
		t.state.SetOperation(at.slot, t.operationParameters(op, at))
	}
	c.carryOut(now, op, effects, out)
	return nil
}

// moveBack undoes a move. The pool that the operation was in may have been
// ephemeral and gone; then it is made again by the operation's own wish.
func (c *Core) moveBack(now time.Time, at *place, pool string, out *Decisions) {
	t := c.trees[at.tree]
	p := t.pools[pool]
	if p == nil {
		return
	}
	old := t.pools[at.pool]
	if t.state.Transfer(at.slot, p.slot) {
		c.admitted(now, t, at.slot, out)
	}
	t.leavePool(old, at)
	t.enterPool(p, at)
	t.drop(old)
}

// ControllerOf returns the controller of an operation that has not ended, to be
// read at once and not kept.
func (c *Core) ControllerOf(id OperationID) *operation.Controller {
	if op := c.operationAt(id); op != nil {
		return op.controller
	}
	return nil
}

// NodeTree returns the tree that a node belongs to, and whether it belongs to
// one.
func (c *Core) NodeTree(id NodeID) (TreeID, bool) {
	if int(id) >= len(c.nodes) || c.nodes[id] == nil || c.nodes[id].tree == none {
		return none, false
	}
	return c.nodes[id].tree, true
}

// setJobUsage changes what a running job holds: its CPU, which a monitor has found
// it to need, or its memory. A job that is being preempted holds nothing any more.
func (c *Core) setJobUsage(id JobID, usage resource.Amounts) {
	if where, known := c.jobs[id]; known && c.trees[where.tree].jobs[where.at].stopping == operation.NotAborted {
		c.trees[where.tree].state.SetAllocationUsage(where.at, usage)
	}
}

// LastSeen is when a node was last heard of.
func (c *Core) LastSeen(id NodeID) time.Time {
	if int(id) >= len(c.nodes) || c.nodes[id] == nil {
		return time.Time{}
	}
	return c.nodes[id].seen
}
