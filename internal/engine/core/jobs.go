package core

import (
	"cmp"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/value/resource"
)

// JobInfo is a running job.
type JobInfo struct {
	Job       JobID
	Operation OperationID
	Tree      TreeID
	Node      NodeID
	NodeName  string
	Task      string
	operation.JobRef
	// Resources is what it holds; zero once it is preempted.
	Resources resource.Amounts
	Started   time.Time
	Class     scheduling.Class
	Preempted bool
	// Stopping is why it is being stopped, NotAborted if it is not.
	Stopping operation.AbortReason
	// PinnedUntil is until when it is not preempted; zero if it is not pinned.
	PinnedUntil time.Time
}

// JobsOf returns the running jobs of an operation, tree by tree, oldest first.
func (c *Core) JobsOf(id OperationID) (list []JobInfo) {
	op := c.operationAt(id)
	if op == nil {
		return nil
	}
	for i := range op.places {
		t := c.trees[op.places[i].tree]
		for _, at := range t.state.AllocationsOf(op.places[i].slot, nil) {
			list = append(list, c.jobInfo(t, at))
		}
	}
	return list
}

// JobsOn returns the jobs of a node, ordered by number.
func (c *Core) JobsOn(id NodeID) (list []JobInfo) {
	if id < 0 || int(id) >= len(c.nodes) || c.nodes[id] == nil || c.nodes[id].tree == none {
		return nil
	}
	n := c.nodes[id]
	t := c.trees[n.tree]
	for _, at := range t.state.NodeAllocations(n.at) {
		list = append(list, c.jobInfo(t, at))
	}
	slices.SortFunc(list, func(a, b JobInfo) int { return cmp.Compare(a.Job, b.Job) })
	return list
}

// JobInfo returns a running job.
func (c *Core) JobInfo(id JobID) (JobInfo, bool) {
	where, known := c.jobs[id]
	if !known {
		return JobInfo{}, false
	}
	return c.jobInfo(c.trees[where.tree], where.at), true
}

func (c *Core) jobInfo(t *tree, at scheduling.Allocation) JobInfo {
	j := t.jobs[at]
	d := t.state.AllocationDetails(at)
	node := t.nodes[d.Node]
	return JobInfo{
		Job: j.id, Operation: j.operation, Tree: t.id, Node: node, NodeName: c.nodes[node].name, JobRef: j.ref,
		Task:      c.operations[j.operation].controller.Spec().Tasks[j.ref.Task].Name,
		Resources: d.Usage, Started: d.Started, Class: d.Class, Preempted: d.Preempted, Stopping: j.stopping,
		PinnedUntil: t.state.PinnedUntil(at),
	}
}
