package scheduling

import (
	"cmp"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/value/nodefilter"
	"github.com/weirhq/weir/internal/value/resource"
)

// nodeClass is the set of nodes that an operation may use: nodes that match
// its filter and the filters of the pools from pool upwards.
type nodeClass struct {
	filter nodefilter.Filter
	pool   int32 // the lowest pool above the operation that has a filter, none if no pool has
}

// bestShares knows how much can be placed on the nodes at best, as long as nodes
// and pools stay as they are. Operations with equal filters share the list of node
// sizes, and operations with equal jobs share the answer.
type bestShares struct {
	sizes   map[nodeClass][]fairshare.NodeSize
	answers map[jobClass]resource.Shares
}

type jobClass struct {
	nodes  nodeClass
	memory int64 // of one job, on average
}

// boundByNodes bounds the shares of operations by what their jobs can fill of
// the nodes. It runs for all operations once per period, and for new ones at
// once, but not while nodes may still be coming back after a start.
func (t *Tree) boundByNodes(now time.Time) {
	if t.settings.BestSharePeriod <= 0 || now.Sub(t.begun) < t.settings.NodeReconnection {
		return
	}
	all := t.boundedAt.IsZero() || now.Sub(t.boundedAt) >= t.settings.BestSharePeriod
	if all {
		t.boundedAt = now
		t.best = bestShares{}
	}
	for slot := range t.elements {
		op := t.elements[slot].operation
		if op == nil || op.bounded && !all {
			continue
		}
		op.bounded = true
		if share := t.best.of(t, int32(slot)); share != t.shares.Elements[slot].BestShare {
			t.shares.Elements[slot].BestShare, t.elements[slot].changed = share, forBoth
		}
	}
}

// of returns the bound for an operation; zero means no bound.
func (b *bestShares) of(t *Tree, slot int32) resource.Shares {
	demand := t.shares.Elements[slot].Demand
	if demand[resource.UserSlots] <= 0 {
		return resource.Shares{}
	}
	job := jobClass{nodeClass{t.elements[slot].operation.filter, none}, demand[resource.Memory] / demand[resource.UserSlots]}
	for above := t.elements[slot].parent; above != 0; above = t.elements[above].parent {
		if !t.elements[above].pool.filter.IsEmpty() {
			job.nodes.pool = above
			break
		}
	}
	if share, known := b.answers[job]; known {
		return share
	}
	share := fairshare.BestShare(demand, t.total, b.sizesOf(t, job.nodes))
	if share == t.total.Share(t.total) {
		share = resource.Shares{}
	}
	if b.answers == nil {
		b.answers = map[jobClass]resource.Shares{}
	}
	b.answers[job] = share
	return share
}

// sizesOf counts the nodes of a class by their memory, smallest first.
func (b *bestShares) sizesOf(t *Tree, class nodeClass) []fairshare.NodeSize {
	if sizes, known := b.sizes[class]; known {
		return sizes
	}
	var sizes []fairshare.NodeSize
	for i := range t.nodes {
		n := &t.nodes[i]
		if !n.alive || !t.admits(class, n) {
			continue
		}
		size := fairshare.NodeSize{Memory: n.limits[resource.Memory], Count: 1}
		at, found := slices.BinarySearchFunc(sizes, size, func(a, b fairshare.NodeSize) int { return cmp.Compare(a.Memory, b.Memory) })
		if found {
			sizes[at].Count++
		} else {
			sizes = slices.Insert(sizes, at, size)
		}
	}
	if b.sizes == nil {
		b.sizes = map[nodeClass][]fairshare.NodeSize{}
	}
	b.sizes[class] = sizes
	return sizes
}

// admits reports whether a node is in a class.
func (t *Tree) admits(class nodeClass, n *node) bool {
	if !class.filter.Matches(n.hasTag) {
		return false
	}
	for pool := class.pool; pool > 0; pool = t.elements[pool].parent {
		if !t.elements[pool].pool.filter.Matches(n.hasTag) {
			return false
		}
	}
	return true
}
