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

// BrokenGuarantee is a pool that has less than its strong guarantee, although it
// demands more.
type BrokenGuarantee struct {
	Tree     TreeID
	Pool     string
	Resource resource.Kind
	// Due is what it is guaranteed and demands, Short what it lacks of that.
	Due, Short int64
}

// BrokenGuarantees returns the pools that lack some of their strong guarantees,
// in the order of trees and pools, each with the resource of which it lacks the
// largest part of the tree. Demand is as of the last update.
func (c *Core) BrokenGuarantees() (list []BrokenGuarantee) {
	for _, t := range c.trees {
		total := t.state.Total()
		for p := range t.config.Pools() {
			guaranteed, given := p.Config().StrongGuarantee.Get()
			if !given || guaranteed.IsTrivial() {
				continue
			}
			demand, _ := c.PoolDemand(t.id, p.Name())
			usage := t.state.Usage(t.pools[p.Name()].slot)
			worst, broken := 0.0, BrokenGuarantee{Tree: t.id, Pool: p.Name()}
			for _, k := range resource.Kinds {
				amount, set := guaranteed.Get(k)
				due := min(amount, demand.Demand[k])
				if short := due - usage[k]; set && short > 0 && total[k] > 0 {
					if part := float64(short) / float64(total[k]); part > worst {
						worst, broken.Resource, broken.Due, broken.Short = part, k, due, short
					}
				}
			}
			if broken.Short > 0 {
				list = append(list, broken)
			}
		}
	}
	return list
}
