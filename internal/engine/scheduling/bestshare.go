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

// bestShares knows how much can be placed on the nodes at best. Whatever changes
// nodes, filters or the edges of the tree discards it. Operations with equal
// filters share the list of node sizes, and operations with equal jobs share the
// answer.
type bestShares struct {
	sizes   map[nodeClass][]fairshare.NodeSize
	answers map[jobClass]resource.Shares
}

// mostAnswers bounds the memory for answers.
const mostAnswers = 10_000

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
	if t.boundedAt.IsZero() || now.Sub(t.boundedAt) >= t.settings.BestSharePeriod {
		if t.boundedAt.IsZero() || t.rebound {
			for slot := range t.elements {
				t.boundByNodesAt(int32(slot))
			}
		}
		for _, slot := range t.resized {
			t.boundByNodesAt(slot)
			t.elements[slot].resized = false
		}
		t.boundedAt, t.rebound, t.resized = now, false, t.resized[:0]
	}
	for i := 0; i < len(t.toUpdate); i++ { // which may grow
		if op := t.elements[t.toUpdate[i]].operation; op != nil && !op.bounded {
			t.boundByNodesAt(t.toUpdate[i])
		}
	}
}

// boundByNodesAt bounds the share of an operation.
func (t *Tree) boundByNodesAt(slot int32) {
	op := t.elements[slot].operation
	if op == nil {
		return
	}
	op.bounded, op.boundedFor = true, sizeOf(&t.shares.Elements[slot].Demand)
	if share := t.best.of(t, slot); share != t.shares.Elements[slot].BestShare {
		t.shares.Elements[slot].BestShare = share
		t.mark(slot, forBoth)
	}
}

// forgetBest discards what is known about nodes. All operations are bounded again
// after the period.
func (t *Tree) forgetBest() { t.best, t.rebound = bestShares{}, true }

// resize lets an operation be bounded again after the period, because its jobs or
// its filter have changed.
func (t *Tree) resize(slot int32) {
	if e := &t.elements[slot]; !e.resized {
		e.resized = true
		t.resized = append(t.resized, slot)
	}
}

// sizeOf returns the memory of a job of an operation on average, -1 if it demands
// none.
func sizeOf(demand *resource.Amounts) int64 {
	if demand[resource.UserSlots] <= 0 {
		return -1
	}
	return demand[resource.Memory] / demand[resource.UserSlots]
}

// of returns the bound for an operation; zero means no bound.
func (b *bestShares) of(t *Tree, slot int32) resource.Shares {
	demand := t.shares.Elements[slot].Demand
	size := sizeOf(&demand)
	if size < 0 {
		return resource.Shares{}
	}
	job := jobClass{nodeClass{t.elements[slot].operation.filter, none}, size}
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
	if b.answers == nil || len(b.answers) > mostAnswers {
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
