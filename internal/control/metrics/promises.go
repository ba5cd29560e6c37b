package metrics

import (
	"slices"

	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/engine/entitlement"
	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/nodefilter"
	"github.com/weirhq/weir/internal/value/resource"
)

// promises are what the pools of a tree are promised in its current cluster. They
// depend only on the configuration and the nodes, so they are computed once and kept
// until one of them changes.
type promises struct {
	config *pooltree.Tree
	total  resource.Amounts
	nodes  []*server.Node // the tree's nodes, if pools' filters need them
	pools  map[string]promise
}

// promise is what one pool is promised.
type promise struct {
	strong   resource.Amounts
	capacity float64 // of volume, in seconds of the whole tree
}

// promisesOf returns the promises of a tree. It returns the previous ones if they
// still hold.
func promisesOf(before *promises, tree string, config *pooltree.Tree, total resource.Amounts, nodes []*server.Node) *promises {
	now := &promises{config: config, total: total}
	if hasFilters(config) {
		for _, n := range nodes {
			if n.Online && n.Tree == tree {
				now.nodes = append(now.nodes, n)
			}
		}
		slices.SortFunc(now.nodes, func(a, b *server.Node) int {
			if a.Name < b.Name {
				return -1
			}
			return 1
		})
	}
	if before != nil && before.config == config && before.total == total && slices.Equal(before.nodes, now.nodes) {
		return before
	}
	now.compute()
	return now
}

func hasFilters(config *pooltree.Tree) bool {
	for pool := range config.Pools() {
		if own := pool.Config(); !own.SchedulingTagFilter.Value().IsEmpty() {
			return true
		}
	}
	return false
}

// compute runs the fair-share engine on the pools without any operations.
func (p *promises) compute() {
	tree := &fairshare.Tree{Total: p.total, Options: entitlement.Options(p.config), Elements: []fairshare.Element{entitlement.Root()}}
	slots := map[string]int32{}
	var names []string
	for pool := range p.config.Pools() {
		own := pool.Config()
		element := entitlement.Pool(&own, p)
		if parent, ok := pool.Parent(); ok {
			element.Parent = slots[parent.Name()] // the root's is 0
		}
		slots[pool.Name()] = int32(len(tree.Elements))
		names = append(names, pool.Name())
		tree.Elements = append(tree.Elements, element)
	}
	result := fairshare.Compute(tree, fairshare.FirstUpdate)
	p.pools = make(map[string]promise, len(names))
	for _, name := range names {
		r := result.Pool(slots[name])
		capacity := tree.Options.Capacity(p.total, r.FlowRatio)
		p.pools[name] = promise{strong: r.StrongGuarantee.Of(p.total), capacity: capacity.Ratio(p.total)}
	}
}

// Matching returns the total resources of the nodes that match a filter.
func (p *promises) Matching(filter nodefilter.Filter) (sum resource.Amounts, known bool) {
	for _, n := range p.nodes {
		if filter.Matches(func(tag string) bool { return slices.Contains(n.Tags, tag) }) {
			sum = sum.Add(n.Limits)
		}
	}
	return sum, true
}

// BestShare limits nothing: there are no operations.
func (p *promises) BestShare(resource.Amounts) resource.Shares { return resource.Shares{} }
