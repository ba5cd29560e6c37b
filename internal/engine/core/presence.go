package core

import (
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/operation"
)

// seen notes that a node is there. One that was given up comes back, empty.
func (c *Core) seen(now time.Time, id NodeID, out *Decisions) {
	if int(id) >= len(c.nodes) || c.nodes[id] == nil {
		return
	}
	n := c.nodes[id]
	n.seen = now
	if n.silent {
		n.silent = false
		c.rejoin(now, id, out)
	}
}

// giveUpSilent gives up nodes that have not been heard of for too long: their
// jobs are aborted and begin elsewhere. A shorter silence does no harm, because
// a node keeps running its jobs while it is cut off.
func (c *Core) giveUpSilent(now time.Time, out *Decisions) {
	if c.settings.NodeTimeout <= 0 {
		return
	}
	for id, n := range c.nodes {
		if n == nil || n.silent || now.Sub(n.seen) <= c.settings.NodeTimeout {
			continue
		}
		c.leaveTree(now, NodeID(id), operation.AbortNodeOffline, out)
		n.silent = true
	}
}

// reconcile compares the jobs that a node says it runs with those that the core
// counts on it. Jobs that the node does not have are aborted; those that the
// core does not know are to be stopped.
func (c *Core) reconcile(now time.Time, id NodeID, running []JobID, out *Decisions) {
	if int(id) >= len(c.nodes) || c.nodes[id] == nil {
		return
	}
	n := c.nodes[id]
	for _, job := range running {
		place, known := c.jobs[job]
		if known && place.tree == n.tree && c.trees[place.tree].state.NodeOf(place.at) == n.at {
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
		if job := t.jobs[at].id; job != 0 && !slices.Contains(running, job) {
			c.jobEnded(now, job, Finished{State: JobAborted, Reason: operation.AbortDisappearedFromNode}, out)
		}
	}
}

// Idle says that heartbeats of nodes on which nothing has finished would change
// nothing before the next update or change.
func (c *Core) Idle() bool {
	for _, t := range c.trees {
		if !t.state.Idle() {
			return false
		}
	}
	return true
}
