package core

import (
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

// Guarantee is what a pool gets of its strong guarantee, of the resource of which it
// lacks the largest part of the tree, or is due most.
type Guarantee struct {
	Tree     TreeID
	Pool     string
	Resource resource.Kind
	// Amount is what it is guaranteed, Due the part of that which it demands, and Short
	// what it lacks of that.
	Amount, Due, Short int64
}

// GuaranteeOf returns what a pool gets of its strong guarantee. Demand is as of the
// last update. ok is false if it has none.
func (c *Core) GuaranteeOf(tree TreeID, pool string) (g Guarantee, ok bool) {
	t := c.trees[tree]
	p, there := t.config.Pool(pool)
	if !there || p.IsRoot() {
		return g, false
	}
	guaranteed, given := p.Config().StrongGuarantee.Get()
	if !given || guaranteed.IsTrivial() {
		return g, false
	}
	demand, _ := c.PoolDemand(tree, pool)
	total, usage := t.state.Total(), t.state.Usage(t.pools[pool].slot)
	worst := [2]float64{-1, -1}
	for _, k := range resource.Kinds {
		amount, set := guaranteed.Get(k)
		if !set || total[k] == 0 {
			continue
		}
		due := min(amount, demand.Demand[k])
		short := max(due-usage[k], 0)
		size := [2]float64{float64(short) / float64(total[k]), float64(due) / float64(total[k])}
		if size[0] > worst[0] || size[0] == worst[0] && size[1] > worst[1] {
			worst, g = size, Guarantee{Tree: tree, Pool: pool, Resource: k, Amount: amount, Due: due, Short: short}
		}
	}
	return g, g.Amount > 0
}

// BrokenGuarantees returns the pools that lack some of their strong guarantees, in the
// order of trees and pools.
func (c *Core) BrokenGuarantees() (list []Guarantee) {
	for _, t := range c.trees {
		for p := range t.config.Pools() {
			if g, ok := c.GuaranteeOf(t.id, p.Name()); ok && g.Short > 0 {
				list = append(list, g)
			}
		}
	}
	return list
}
