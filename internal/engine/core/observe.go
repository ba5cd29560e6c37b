package core

import (
	"slices"

	"github.com/weirhq/weir/internal/value/resource"
)

// The methods here answer single questions of a core's owner. Readers use pictures.

// TreeTotal returns the resources of all nodes of a tree together.
func (c *Core) TreeTotal(id TreeID) resource.Amounts { return c.trees[id].state.Total() }

// PoolOf returns the pool of an operation in a tree, and whether the
// operation is in that tree.
func (c *Core) PoolOf(id OperationID, tree TreeID) (string, bool) {
	op := c.operationAt(id)
	if op == nil {
		return "", false
	}
	i := slices.IndexFunc(op.places, func(p place) bool { return p.tree == tree })
	if i < 0 {
		return "", false
	}
	return op.places[i].pool, true
}

// NodeFree is what a node has left, nothing if it is in no tree.
func (c *Core) NodeFree(id NodeID) resource.Amounts {
	tree, there := c.NodeTree(id)
	if !there {
		return resource.Amounts{}
	}
	return c.trees[tree].state.NodeFree(c.nodes[id].at)
}
