package core

import (
	"slices"

	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/value/resource"
)

// PoolView is a pool as of now.
type PoolView struct {
	Tree TreeID
	Name string
	// Parent is the index in the list of views, -1 for a root.
	Parent    int32
	Ephemeral bool
	// Integral reports whether the pool saves what it does not use.
	Integral bool
	scheduling.JobCounts
	RunningOperations int
	Volume            float64
	scheduling.Details
}

// OperationView is an operation in one of its trees as of now.
type OperationView struct {
	Operation OperationID
	Tree      TreeID
	Pool      string
	State     operation.State
	Suspended bool
	scheduling.OperationDetails
}

// TreeTotal returns the resources of all nodes of a tree together.
func (c *Core) TreeTotal(id TreeID) resource.Amounts { return c.trees[id].state.Total() }

// TreeCount returns the number of trees.
func (c *Core) TreeCount() int { return len(c.trees) }

// Pools appends all pools of all trees, tree after tree, parents before their
// children. Job counts of a pool are the sums over its operations.
func (c *Core) Pools(into []PoolView) []PoolView {
	for _, t := range c.trees {
		first := len(into)
		at := make(map[*pool]int32, len(t.order))
		for _, p := range t.parentsFirst() {
			v := PoolView{Tree: t.id, Name: p.name, Parent: none, Ephemeral: p.ephemeral}
			now := t.state.Pool(p.slot)
			v.Details, v.RunningOperations, v.Volume = now.Details, now.RunningOperations, now.VolumeRatio
			if p.parent != nil {
				v.Parent = at[p.parent]
			}
			if configured, ok := t.config.Pool(p.name); ok {
				v.Integral = configured.Config().Integral.Type.Value() != pooltree.NoIntegral
			}
			at[p] = int32(len(into))
			into = append(into, v)
		}
		for _, id := range c.live {
			op := c.operations[id]
			for i := range op.places {
				if op.places[i].tree != t.id {
					continue
				}
				view := t.state.Jobs(op.places[i].slot)
				for above := at[t.pools[op.places[i].pool]]; above >= int32(first); above = into[above].Parent {
					into[above].RunningJobs += view.RunningJobs
					into[above].WaitingJobs += view.WaitingJobs
				}
			}
		}
	}
	return into
}

// Operations appends the operations that have not ended, in the order they
// were started, once for each of their trees.
func (c *Core) Operations(into []OperationView) []OperationView {
	for _, id := range c.live {
		op := c.operations[id]
		for i := range op.places {
			at := &op.places[i]
			into = append(into, OperationView{
				Operation: id, Tree: at.tree, Pool: at.pool, State: op.controller.State(),
				Suspended: op.controller.Life().Suspended, OperationDetails: c.trees[at.tree].state.Operation(at.slot),
			})
		}
	}
	return into
}

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

// OperationInfo returns an operation that has not ended.
func (c *Core) OperationInfo(id OperationID) (Operation, bool) {
	op := c.operationAt(id)
	if op == nil {
		return Operation{}, false
	}
	return c.operation(op), true
}

// NodeInfo returns a node.
func (c *Core) NodeInfo(id NodeID) (Node, bool) {
	if id < 0 || int(id) >= len(c.nodes) || c.nodes[id] == nil {
		return Node{}, false
	}
	return c.node(id, c.nodes[id]), true
}
