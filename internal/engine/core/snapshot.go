package core

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/value/resource"
)

// Snapshot is the whole state for readers. It shares nothing that changes with
// the core, so that it may be read by others while the core goes on.
type Snapshot struct {
	Time time.Time
	// Default is the default tree, -1 if there is none.
	Default    TreeID
	Trees      []TreeInfo
	Nodes      []NodeInfo // by their numbers
	Operations []OperationInfo
}

// TreeInfo is a pool tree.
type TreeInfo struct {
	ID   TreeID
	Name string
	// Config is the configuration, which does not change: another one replaces it.
	Config *pooltree.Tree
	// Limits are what all nodes have together.
	Limits, Usage resource.Amounts
	Nodes         []NodeID
	Pools         []PoolInfo // parents before their children
	// Updated is when shares were last computed, and Alerts what was wrong then.
	Updated time.Time
	Alerts  []fairshare.Alert
}

// PoolInfo is a pool.
type PoolInfo struct {
	Name string
	// Path has the names from below the root, with slashes.
	Path string
	// Parent is the index in TreeInfo.Pools, -1 for a root.
	Parent    int32
	Ephemeral bool
	// User is who made an ephemeral pool by starting an operation.
	User string
	// Config is what was set, nil for ephemeral pools and the root; Effective is
	// what holds after inheritance.
	Config    *pooltree.PoolConfig
	Effective pooltree.Effective
	// DirectOperations and ChildPools are those directly in it.
	DirectOperations, ChildPools int
	// LowestStarving and LowestAggressivelyStarving name the lowest pools, from
	// this one up, that starve.
	LowestStarving, LowestAggressivelyStarving string
	scheduling.Details
}

// OperationInfo is an operation that has not ended.
type OperationInfo struct {
	Operation OperationID
	User      string
	State     operation.State
	Suspended bool
	Started   time.Time
	// Spec is the specification as it is now, which does not change.
	Spec       *operation.Spec
	Statistics operation.Statistics
	Places     []PlaceInfo
}

// PlaceInfo is an operation in one of its trees.
type PlaceInfo struct {
	Tree TreeID
	Pool string
	// SlotIndex is the smallest number that no other operation of the pool had
	// when it came.
	SlotIndex int
	// Options are those that hold in the tree, with changes at run time.
	Options pooltree.SchedulingOptions
	// WaitsFor is the pool whose limit keeps it from running, empty if it runs.
	WaitsFor string
	// WaitTimeout is how long its jobs wait on a node for preempted ones.
	WaitTimeout                                time.Duration
	LowestStarving, LowestAggressivelyStarving string
	scheduling.Details
}

// NodeInfo is a node.
type NodeInfo struct {
	Node NodeID
	Name string
	Tags []string
	// Tree is -1 if it belongs to no tree or is not online.
	Tree TreeID
	// Online is false for nodes that fell silent and were given up.
	Online bool
	Seen   time.Time
	// Resources are what it reported; the rest is empty for nodes without a tree.
	Resources resource.Amounts
	scheduling.NodeDetails
}

// JobInfo is a running job.
type JobInfo struct {
	Job       JobID
	Operation OperationID
	Tree      TreeID
	Node      NodeID
	NodeName  string
	Task      string
	operation.JobRef
	// Resources is what it holds, nothing once it is preempted.
	Resources resource.Amounts
	Started   time.Time
	Class     scheduling.Class
	Preempted bool
	// Stopping is why it is being stopped, NotAborted if it is not.
	Stopping operation.AbortReason
}

// Snapshot returns the whole state for readers. It takes time in proportion to
// pools, operations, nodes and running jobs; jobs themselves are asked for by
// JobsOf and JobsOn.
func (c *Core) Snapshot(now time.Time) *Snapshot {
	s := &Snapshot{
		Time: now, Default: c.defaultTree, Nodes: make([]NodeInfo, 0, len(c.nodes)), Operations: make([]OperationInfo, 0, len(c.live)),
	}
	for _, t := range c.trees {
		s.Trees = append(s.Trees, c.treeInfo(t))
	}
	for id := range c.nodes {
		if info, ok := c.NodeInfo(NodeID(id)); ok {
			s.Nodes = append(s.Nodes, info)
		}
	}
	for _, id := range c.live {
		info, _ := c.OperationInfo(id)
		s.Operations = append(s.Operations, info)
	}
	return s
}

func (c *Core) treeInfo(t *tree) TreeInfo {
	info := TreeInfo{
		ID: t.id, Name: t.name, Config: t.config, Limits: t.state.Total(), Usage: t.state.View(0).Usage,
		Updated: t.state.Updated(), Alerts: t.state.Alerts(),
	}
	for id, n := range c.nodes {
		if n != nil && n.tree == t.id {
			info.Nodes = append(info.Nodes, NodeID(id))
		}
	}
	at := make(map[*pool]int32, len(t.order))
	info.Pools = make([]PoolInfo, 0, len(t.order))
	for _, p := range t.parentsFirst() {
		at[p] = int32(len(info.Pools))
		info.Pools = append(info.Pools, t.poolInfo(p, at, info.Pools))
		if p.parent != nil {
			info.Pools[at[p.parent]].ChildPools++
		}
	}
	for _, id := range c.live {
		place := c.operations[id].placeIn(t.id)
		if place == nil {
			continue
		}
		view := t.state.View(place.slot)
		above := at[t.pools[place.pool]]
		info.Pools[above].DirectOperations++
		for ; above >= 0; above = info.Pools[above].Parent {
			p := &info.Pools[above].View
			p.RunningJobs += view.RunningJobs
			p.WaitingJobs += view.WaitingJobs
			for class, count := range view.Classes {
				p.Classes[class] += count
			}
		}
	}
	return info
}

func (t *tree) poolInfo(p *pool, at map[*pool]int32, above []PoolInfo) PoolInfo {
	info := PoolInfo{
		Name: p.name, Parent: none, Ephemeral: p.ephemeral, User: p.user,
		Effective: t.effectiveOf(p), Details: t.state.Details(p.slot),
	}
	info.LowestStarving = t.poolAt(info.Details.LowestStarving, none)
	info.LowestAggressivelyStarving = t.poolAt(info.Details.LowestAggressivelyStarving, none)
	if p.parent != nil {
		info.Parent = at[p.parent]
		info.Path = strings.TrimPrefix(above[info.Parent].Path+"/"+p.name, "/")
	}
	if configured, ok := t.config.Pool(p.name); ok && p.parent != nil {
		own := configured.Config()
		info.Config = &own
	} else if p.parent != nil {
		info.Effective = t.ephemeralParameters(p.name, p.parent).Effective
	}
	return info
}

// OperationInfo returns an operation that has not ended.
func (c *Core) OperationInfo(id OperationID) (OperationInfo, bool) {
	op := c.operationAt(id)
	if op == nil {
		return OperationInfo{}, false
	}
	info := OperationInfo{
		Operation: id, User: op.user, State: op.controller.State(), Suspended: op.controller.Life().Suspended,
		Started: op.controller.StartTime(), Spec: op.controller.Spec(), Statistics: op.controller.Statistics(),
	}
	for i := range op.places {
		at := &op.places[i]
		t := c.trees[at.tree]
		p := PlaceInfo{
			Tree: at.tree, Pool: at.pool, SlotIndex: at.number - 1, Options: at.options, WaitTimeout: at.waitTimeout,
			Details: t.state.Details(at.slot),
		}
		p.WaitsFor = t.poolAt(p.Details.Operation.WaitsAt, none)
		p.LowestStarving = t.poolAt(p.Details.LowestStarving, at.slot)
		p.LowestAggressivelyStarving = t.poolAt(p.Details.LowestAggressivelyStarving, at.slot)
		info.Places = append(info.Places, p)
	}
	return info, true
}

// NodeInfo returns a node.
func (c *Core) NodeInfo(id NodeID) (NodeInfo, bool) {
	if id < 0 || int(id) >= len(c.nodes) || c.nodes[id] == nil {
		return NodeInfo{}, false
	}
	n := c.nodes[id]
	info := NodeInfo{
		Node: id, Name: n.name, Tags: slices.Clone(n.tags), Tree: n.tree, Online: !n.silent, Seen: n.seen, Resources: n.resources,
	}
	if n.tree != none {
		info.NodeDetails = c.trees[n.tree].state.NodeDetails(n.at)
	}
	return info, true
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

// JobsOn returns the jobs of a node, by their numbers.
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
	}
}
