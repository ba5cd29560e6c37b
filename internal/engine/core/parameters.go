package core

import (
	"time"

	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/value/resource"
)

// updateOperation changes the parameters of an operation, including those of
// each tree: all of them, or none if a pool does not accept the operation. It
// checks limits of the new pools, so a change never makes a running operation
// wait.
func (c *Core) updateOperation(now time.Time, id OperationID, update operation.Update, out *Decisions) error {
	op := c.operationAt(id)
	if op == nil {
		return ErrNoOperation
	}
	if state := op.controller.State(); !state.AllowsUpdate() {
		return &operation.StateError{State: state, What: "change the parameters of"}
	}
	before, after := op.controller.Spec(), op.controller.Spec().With(update)
	var moves []poolMove
	for i := range op.places {
		tree := c.trees[op.places[i].tree].name
		old, wanted := before.OperationOptions.For(tree).Pool, after.OperationOptions.For(tree).Pool
		if wanted == old {
			continue
		}
		var err error
		if moves, err = c.planMove(moves, op, i, wanted.Or(op.user)); err != nil {
			return err
		}
	}
	effects, err := op.controller.Update(update, now)
	if err != nil {
		return err
	}
	admitted := c.moveAll(op, moves)
	out.Changed = append(out.Changed, id)
	for i := range op.places {
		at := &op.places[i]
		t := c.trees[at.tree]
		at.options = after.OperationOptions.For(t.name)
		t.state.SetOperation(at.slot, t.operationParameters(op, at))
	}
	c.carryOut(now, op, effects, out)
	c.admitAll(now, admitted, out)
	return nil
}

// ControllerOf returns the controller of an operation that has not ended. The
// caller must read it at once and not keep it.
func (c *Core) ControllerOf(id OperationID) *operation.Controller {
	if op := c.operationAt(id); op != nil {
		return op.controller
	}
	return nil
}

// NodeTree returns the tree that a node belongs to, and whether there is one.
func (c *Core) NodeTree(id NodeID) (TreeID, bool) {
	if int(id) >= len(c.nodes) || c.nodes[id] == nil || c.nodes[id].tree == none {
		return none, false
	}
	return c.nodes[id].tree, true
}

// MayStart reports whether a heartbeat of a node could start a job: the node has room for the smallest job that waits
// in its tree. It changes nothing.
func (c *Core) MayStart(id NodeID) bool {
	tree, in := c.NodeTree(id)
	return in && c.trees[tree].state.MayStart(c.nodes[id].at)
}

// setJobUsage changes what a running job holds: the CPU that a monitor has
// found it to need, or its memory. A job that is being preempted holds
// nothing.
func (c *Core) setJobUsage(id JobID, usage resource.Amounts) {
	if where, known := c.jobs[id]; known && c.trees[where.tree].jobs[where.at].stopping == operation.NotAborted {
		c.trees[where.tree].state.SetAllocationUsage(where.at, usage)
	}
}

// LastSeen returns the time of a node's last report.
func (c *Core) LastSeen(id NodeID) time.Time {
	if int(id) >= len(c.nodes) || c.nodes[id] == nil {
		return time.Time{}
	}
	return c.seenAt[id]
}
