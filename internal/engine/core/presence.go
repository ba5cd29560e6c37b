package core

import (
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/value/resource"
)

// seen notes that a node is online. A node that went offline comes back,
// empty.
func (c *Core) seen(now time.Time, id NodeID, out *Decisions) {
	if int(id) >= len(c.nodes) || c.nodes[id] == nil {
		return
	}
	n := c.nodes[id]
	c.seenAt[id] = now
	if n.awaited || n.silent {
		n.awaited = false
		if n.silent {
			n.silent = false
			c.rejoin(now, id, out)
		}
		c.calmDown(id)
	}
}

// giveUpSilent takes nodes offline that have not reported for too long: their
// jobs are aborted and restart elsewhere. A shorter silence does no harm,
// because a node keeps running its jobs while it is disconnected.
func (c *Core) giveUpSilent(now time.Time, out *Decisions) {
	for id, n := range c.nodes {
		if n == nil || n.silent {
			continue
		}
		if deadline := c.deadlineOf(NodeID(id)); deadline.IsZero() || !now.After(deadline) {
			continue
		}
		c.leaveTree(now, NodeID(id), operation.AbortNodeOffline, out)
		n.silent, n.awaited = true, false
		c.calmDown(NodeID(id))
	}
}

// deadlineOf returns when a node goes offline if it stays silent; zero means
// never.
func (c *Core) deadlineOf(id NodeID) (deadline time.Time) {
	n := c.nodes[id]
	if c.settings.NodeTimeout > 0 {
		deadline = c.seenAt[id].Add(c.settings.NodeTimeout)
	}
	if n.awaited && !n.until.IsZero() && (deadline.IsZero() || n.until.Before(deadline)) {
		deadline = n.until
	}
	return deadline
}

// await notes that a node has not reported yet.
func (c *Core) await(id NodeID, until time.Time) {
	if int(id) < len(c.nodes) && c.nodes[id] != nil {
		c.nodes[id].awaited, c.nodes[id].until = true, until
		c.awaits = true
		c.calmDown(id)
	}
}

// holdClocks stops the starvation clocks in trees with awaited nodes.
func (c *Core) holdClocks() {
	held := make([]bool, len(c.trees))
	c.awaits = false
	for _, n := range c.nodes {
		if n != nil && n.awaited {
			c.awaits = true
			if n.tree != none {
				held[n.tree] = true
			}
		}
	}
	for i, t := range c.trees {
		t.state.HoldClocks(held[i])
	}
}

// IsAwaited reports whether a node has not reported to this core yet; see
// AwaitInput.
func (c *Core) IsAwaited(id NodeID) bool {
	return int(id) < len(c.nodes) && c.nodes[id] != nil && c.nodes[id].awaited
}

// Awaited is a node that has not reported to this core, with the resources
// held back for it.
type Awaited struct {
	Node NodeID
	Tree TreeID
	// Jobs is the number of jobs it may still run, and Operations are their
	// operations, in the order of the node's jobs.
	Jobs       int
	Operations []OperationID
	// Usage is what these jobs hold.
	Usage resource.Amounts
	// Until is when the node goes offline; zero means never.
	Until time.Time
}

// Awaited returns the nodes that have not reported yet, ordered by number.
func (c *Core) Awaited() (list []Awaited) {
	for id, n := range c.nodes {
		if n == nil || !n.awaited || n.tree == none {
			continue
		}
		t := c.trees[n.tree]
		a := Awaited{Node: NodeID(id), Tree: n.tree, Until: c.deadlineOf(NodeID(id))}
		for _, at := range t.state.NodeAllocations(n.at) {
			a.Jobs++
			a.Usage = a.Usage.Add(t.state.AllocationUsage(at))
			if of := t.jobs[at].operation; !slices.Contains(a.Operations, of) {
				a.Operations = append(a.Operations, of)
			}
		}
		list = append(list, a)
	}
	return list
}

// reconcile compares the jobs that a node reports as running with those that
// the core counts on it. Jobs that the node does not have are aborted; jobs
// that the core does not know are stopped.
func (c *Core) reconcile(now time.Time, id NodeID, running []JobID, out *Decisions) {
	if int(id) >= len(c.nodes) || c.nodes[id] == nil {
		return
	}
	n := c.nodes[id]
	for _, job := range running {
		place, known := c.jobs[job]
		if known && place.tree == n.tree && c.trees[place.tree].state.NodeOf(place.at) == n.at {
			c.trees[place.tree].jobs[place.at].unconfirmed = false
			continue
		}
		reason := operation.AbortOther
		if known {
			reason = operation.AbortUnexpectedNode
		}
		out.Stopped = append(out.Stopped, Stopped{Job: job, Operation: NoOperation, Node: id, Reason: reason, For: NoOperation})
	}
	if n.tree == none {
		return
	}
	t := c.trees[n.tree]
	for _, at := range slices.Clone(t.state.NodeAllocations(n.at)) {
		switch job := t.jobs[at].id; {
		case job == 0 || slices.Contains(running, job):
		case t.jobs[at].unconfirmed:
			c.takeBack(t, at, out)
		default:
			c.jobEnded(now, job, Finished{State: JobAborted, Reason: operation.AbortDisappearedFromNode}, out)
		}
	}
}

// takeBack undoes the order of a job that never arrived.
func (c *Core) takeBack(t *tree, at scheduling.Allocation, out *Decisions) {
	j := t.jobs[at]
	op := c.operationAt(j.operation)
	c.release(t, at)
	if op.controller.TakeBack(j.ref) == nil {
		c.sync(op)
	}
	out.TakenBack = append(out.TakenBack, j.id)
}

// Idle reports whether heartbeats of nodes on which nothing has finished
// would change nothing before the next update or change.
func (c *Core) Idle() bool {
	for _, t := range c.trees {
		if !t.state.Idle() {
			return false
		}
	}
	return true
}
