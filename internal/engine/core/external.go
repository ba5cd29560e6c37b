package core

import (
	"fmt"
	"time"

	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/scheduling"
)

// offer adds jobs to an external operation.
func (c *Core) offer(id OperationID, offered operation.Offered, out *Decisions) error {
	op := c.operationAt(id)
	if op == nil {
		return ErrNoOperation
	}
	added, err := op.controller.Offer(offered)
	if err != nil {
		return err
	}
	if added {
		out.Changed = append(out.Changed, id)
	}
	c.touch(op)
	c.sync(op)
	return nil
}

// withdraw removes jobs of an external operation that wait.
func (c *Core) withdraw(id OperationID, task string, cookies []int32) error {
	op := c.operationAt(id)
	if op == nil {
		return ErrNoOperation
	}
	if err := op.controller.Withdraw(task, cookies); err != nil {
		return err
	}
	c.touch(op)
	c.sync(op)
	return nil
}

// classify sets the constraint class of an ordinary task's jobs.
func (c *Core) classify(id OperationID, task string, class operation.Class, alone bool) error {
	op := c.operationAt(id)
	if op == nil {
		return ErrNoOperation
	}
	if err := op.controller.Classify(task, class, alone); err != nil {
		return err
	}
	c.touch(op)
	c.sync(op)
	return nil
}

// denyClasses sets which constraint classes a node denies.
func (c *Core) denyClasses(id NodeID, denied scheduling.Classes, out *Decisions) error {
	if id < 0 || int(id) >= len(c.nodes) || c.nodes[id] == nil {
		return fmt.Errorf("there is no node %d", id)
	}
	n := c.nodes[id]
	n.denied = denied
	if n.tree != none {
		t := c.trees[n.tree]
		t.state.SetDenied(n.at, denied)
		c.reportGangs(t, out)
	}
	return nil
}

// pin keeps a running job from being preempted before a time. If a job of an external
// operation is being preempted, its owner refuses that: the job runs on.
func (c *Core) pin(id JobID, until time.Time, out *Decisions) {
	where, known := c.jobs[id]
	if !known {
		return
	}
	t := c.trees[where.tree]
	if j := &t.jobs[where.at]; j.stopping != operation.NotAborted {
		controller := c.operationAt(j.operation).controller
		if until.IsZero() || !controller.Spec().IsExternal() || !t.state.AllocationDetails(where.at).Preempted {
			return
		}
		j.stopping = operation.NotAborted
		t.state.Spare(where.at, controller.Groups()[j.ref.Task].Resources)
	}
	t.state.Pin(where.at, until)
	c.reportGangs(t, out)
}
