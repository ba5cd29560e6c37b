package core

import (
	"github.com/weirhq/weir/internal/engine/ledger"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// Configuration returns the configuration of all trees, as TreesInput takes it.
func (c *Core) Configuration() TreesInput {
	in := TreesInput{Trees: make([]document.Named[*pooltree.Tree], len(c.trees))}
	for i, t := range c.trees {
		in.Trees[i] = document.Named[*pooltree.Tree]{Name: t.name, Value: t.config}
	}
	if c.defaultTree != none {
		in.Default = c.trees[c.defaultTree].name
	}
	return in
}

// UserOf returns the user who started an operation, empty if it does not exist.
func (c *Core) UserOf(id OperationID) string {
	if op := c.operationAt(id); op != nil {
		return op.user
	}
	return ""
}

// NodeResources returns what a node has reported to have.
func (c *Core) NodeResources(id NodeID) resource.Amounts { return c.nodes[id].resources }

// Guarantee is what a pool gets of what it is guaranteed at every moment, in the terms of the
// ledger: of the dominant resource of what it asks for.
type Guarantee struct {
	Tree     TreeID
	Pool     string
	Resource resource.Kind
	// Amount is its strong guarantee and, for a burst pool, its burst guarantee. Due is the part
	// that it asks for, Got what its jobs hold, and Short what it lacks of what is due.
	Amount, Due, Got, Short int64
}

// GuaranteeOf returns what a pool gets of its guarantee. What it asks for is as of the
// last update. ok is false if it has none. It may be called concurrently.
func (c *Core) GuaranteeOf(tree TreeID, pool string) (g Guarantee, ok bool) {
	for _, g := range c.guarantees(c.trees[tree]) {
		if g.Pool == pool {
			return g, true
		}
	}
	return g, false
}

// BrokenGuarantees returns the pools that lack some of their guarantees, in the order of trees
// and of the pools' numbers. It may be called concurrently.
func (c *Core) BrokenGuarantees() (list []Guarantee) {
	for _, t := range c.trees {
		for _, g := range c.guarantees(t) {
			if g.Short > 0 {
				list = append(list, g)
			}
		}
	}
	return list
}

// guarantees returns what the pools of a tree get of their guarantees, as the ledger does; see
// [Core.Claims].
func (c *Core) guarantees(t *tree) (list []Guarantee) {
	for _, p := range t.state.LookAtPromises(t.pendingNeed) {
		claim := ledger.Claim{Promise: p}
		if claim.Promised() > 0 {
			list = append(list, Guarantee{
				Tree: t.id, Pool: t.state.PoolName(p.Slot), Resource: p.Resource,
				Amount: claim.Promised(), Due: claim.Due(), Got: p.Got, Short: max(claim.Due()-p.Got, 0),
			})
		}
	}
	return list
}
