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

// pin keeps a running job from being preempted before a time.
func (c *Core) pin(id JobID, until time.Time, out *Decisions) {
	where, known := c.jobs[id]
	if !known || c.trees[where.tree].jobs[where.at].stopping != operation.NotAborted {
		return
	}
	t := c.trees[where.tree]
	t.state.Pin(where.at, until)
	c.reportGangs(t, out)
}
