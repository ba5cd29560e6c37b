package treefile

import (
	"slices"

	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/value/nodefilter"
	"github.com/weirhq/weir/internal/value/resource"
)

// NodeGroup is a number of equal nodes.
type NodeGroup struct {
	Name      string
	Count     int64
	Resources resource.Amounts // of one node
	Tags      []string
}

func (g *NodeGroup) hasTag(tag string) bool { return slices.Contains(g.Tags, tag) }

// Cluster is what a tree divides.
type Cluster struct {
	// Total is what the nodes of the tree have together.
	Total resource.Amounts
	// Nodes are the nodes of the tree; empty if only the total is known.
	Nodes []NodeGroup
}

// newCluster picks the nodes that belong to a tree.
func newCluster(nodes []NodeGroup, filter nodefilter.Filter) Cluster {
	var c Cluster
	for _, group := range nodes {
		if filter.Matches(group.hasTag) {
			c.Nodes = append(c.Nodes, group)
		}
	}
	c.Total = c.matching(nodefilter.Filter{})
	return c
}

// matching is what the nodes that match a filter have together.
func (c *Cluster) matching(filter nodefilter.Filter) (sum resource.Amounts) {
	for i := range c.Nodes {
		if group := &c.Nodes[i]; filter.Matches(group.hasTag) {
			for k, each := range group.Resources {
				sum[k] = min(sum[k]+times(each, group.Count), resource.Unlimited)
			}
		}
	}
	return sum
}

// times multiplies amounts that are not negative and saturates.
func times(a, b int64) int64 {
	if a != 0 && b > resource.Unlimited/a {
		return resource.Unlimited
	}
	return min(a*b, resource.Unlimited)
}

// Matching is what the nodes that match a filter have together; unknown if only
// the total is known.
func (c *Cluster) Matching(filter nodefilter.Filter) (resource.Amounts, bool) {
	return c.matching(filter), len(c.Nodes) > 0
}

// BestShare bounds the share of an operation by what can be placed on the nodes.
// The zero value means no bound.
func (c *Cluster) BestShare(demand resource.Amounts) resource.Shares {
	if len(c.Nodes) == 0 {
		return resource.Shares{}
	}
	sizes := make([]fairshare.NodeSize, len(c.Nodes))
	for i := range c.Nodes {
		sizes[i] = fairshare.NodeSize{Memory: c.Nodes[i].Resources[resource.Memory], Count: c.Nodes[i].Count}
	}
	share := fairshare.BestShare(demand, c.Total, sizes)
	if share == c.Total.Share(c.Total) {
		return resource.Shares{} // all of it
	}
	return share
}
