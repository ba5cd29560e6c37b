package core

import (
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/value/resource"
)

func (n *node) hasTag(tag string) bool { return slices.Contains(n.tags, tag) }

// addNode adds a node, or changes its resources and tags. It refuses a node
// that matches two trees. Running jobs stay unless the node changes trees.
func (c *Core) addNode(now time.Time, id NodeID, name string, resources resource.Amounts, tags []string, out *Decisions) error {
	fresh := &node{name: name, resources: resources, tags: slices.Clone(tags), tree: none}
	if _, err := c.treeOf(fresh); err != nil {
		return err
	}
	c.nodes = append(c.nodes, make([]*node, max(0, int(id)+1-len(c.nodes)))...)
	if old := c.nodes[id]; old != nil {
		fresh.tree, fresh.at, fresh.denied = old.tree, old.at, old.denied
		if old.tree != none {
			c.trees[old.tree].state.SetNodeLimits(old.at, resources)
			c.trees[old.tree].state.SetNodeTags(old.at, fresh.tags)
			c.trees[old.tree].nodesChanged = true
		}
	}
	for len(c.calm) < len(c.nodes) {
		c.calm, c.seenAt = append(c.calm, nodePlace{tree: none}), append(c.seenAt, time.Time{})
	}
	c.nodes[id], c.seenAt[id] = fresh, now
	c.rejoin(now, id, out)
	c.calmDown(id)
	return nil
}

// treeOf returns the tree that a node belongs to.
func (c *Core) treeOf(n *node) (TreeID, error) {
	found, names := TreeID(none), []string(nil)
	for _, t := range c.trees {
		if t.filter.Matches(n.hasTag) {
			found, names = t.id, append(names, t.name)
		}
	}
	if len(names) > 1 {
		return none, &TwoTreesError{Node: n.name, Trees: names}
	}
	return found, nil
}

// rejoin adds a node to the tree it belongs to. If the tree differs from the
// previous one, the node's jobs are aborted.
func (c *Core) rejoin(now time.Time, id NodeID, out *Decisions) {
	n := c.nodes[id]
	belongs, err := c.treeOf(n)
	if err != nil || belongs == n.tree || n.silent {
		return
	}
	c.leaveTree(now, id, operation.AbortNodePoolTreeChanged, out)
	n.tree = belongs
	if belongs == none {
		return
	}
	t := c.trees[belongs]
	t.nodesChanged = true
	n.at = t.state.AddNode(n.resources, n.tags)
	t.state.SetDenied(n.at, n.denied)
	t.nodes = append(t.nodes, make([]NodeID, max(0, int(n.at)+1-len(t.nodes)))...)
	t.nodes[n.at] = id
	c.renewBans(n)
	c.calmDown(id)
}

// leaveTree removes a node from its tree and aborts its jobs.
func (c *Core) leaveTree(now time.Time, id NodeID, reason operation.AbortReason, out *Decisions) {
	n := c.nodes[id]
	if n.tree == none {
		return
	}
	t := c.trees[n.tree]
	for _, at := range slices.Clone(t.state.NodeAllocations(n.at)) {
		if job := t.jobs[at]; job.id != 0 {
			out.Stopped = append(out.Stopped, Stopped{Job: job.id, Operation: job.operation, Node: id, Reason: reason, For: NoOperation})
			c.jobEnded(now, job.id, Finished{State: JobAborted, Reason: reason}, out)
		}
	}
	t.state.RemoveNode(n.at)
	t.nodesChanged = true
	n.tree = none
	c.calmDown(id)
}

// removeNode removes a node. Its jobs are aborted.
func (c *Core) removeNode(now time.Time, id NodeID, out *Decisions) {
	if int(id) >= len(c.nodes) || c.nodes[id] == nil {
		return
	}
	c.leaveTree(now, id, operation.AbortNodeOffline, out)
	c.nodes[id] = nil
	c.calmDown(id)
}

// calmDown follows a change of the place or presence of a node.
func (c *Core) calmDown(id NodeID) { c.calm[id] = c.calmOf(id) }

func (c *Core) calmOf(id NodeID) nodePlace {
	if n := c.nodes[id]; n != nil && !n.silent && !n.awaited {
		return nodePlace{n.tree, n.at}
	}
	return nodePlace{tree: none}
}
