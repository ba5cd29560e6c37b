package fairshare

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/value/resource"
)

// load reads the tree and finds what differs from the last one.
func (e *Engine) load(tree *Tree) {
	everything := e.total != tree.Total || e.options != tree.Options || len(e.previous) == 0
	e.total, e.options = tree.Total, tree.Options
	for _, at := range e.marked {
		e.pools[at].touched = false
	}
	e.marked = e.marked[:0]
	for _, slot := range e.differ {
		e.touched[slot] = false
	}
	e.differ = e.differ[:0]
	e.reconfigured, e.recounted = everything, everything
	tracked := tree.Tracked && !everything
	switch {
	case !e.isRebuilt(tree, tracked):
	case tracked && e.onlyOperationsMove(tree):
		e.moveOperations(tree)
	default:
		e.rebuild(tree)
		e.reconfigured, e.recounted, tracked = true, true, false
	}
	if tracked {
		for _, slot := range tree.Touched {
			e.compareElement(tree, slot, false)
		}
	} else {
		for slot := range tree.Elements {
			e.compareElement(tree, int32(slot), everything)
		}
	}
	if e.recounted {
		e.sumUp()
	}
}

// compareElement reads an element if it differs from the last input.
func (e *Engine) compareElement(tree *Tree, slot int32, everything bool) {
	element := &tree.Elements[slot]
	if !everything && *element == e.previous[slot] {
		return
	}
	if !e.touched[slot] {
		e.touched[slot] = true
		e.differ = append(e.differ, slot)
	}
	e.loadElement(slot, element, everything)
}

// loadElement reads an element that differs from the last input.
func (e *Engine) loadElement(slot int32, element *Element, everything bool) {
	n := &e.nodes[slot]
	parent := e.poolOf(n.parent)
	switch n.kind {
	case KindPool:
		p := &e.pools[n.pool]
		if settings := settingsOf(element); everything || p.settings != settings {
			p.settings, p.stale, p.unsorted, p.regrouped, p.settledAt = settings, true, true, true, e.updates
			p.record = record{}
			e.mark(n.pool)
			e.reconfigured = true
		}
	case KindOperation:
		n.usage = element.Usage.Share(e.total)
		n.demand = element.Demand.Share(e.total)
		e.renew(parent, slot)
		if old := &e.previous[slot]; !e.recounted && parent != nil {
			e.recount(n.parent, element.Usage.Sub(old.Usage), element.Demand.Sub(old.Demand))
		}
	}
	if slot != 0 && parent != nil && n.kind != KindNone {
		parent.stale, parent.unsorted = true, true
		e.mark(e.nodes[n.parent].pool)
	}
	e.previous[slot] = *element
}

// mark notes that some child of a pool, or its settings, differ from the last
// input.
func (e *Engine) mark(at int32) {
	if p := &e.pools[at]; !p.touched {
		p.touched = true
		e.marked = append(e.marked, at)
	}
}

// recount changes the usage and demand of a pool and of all pools above it.
func (e *Engine) recount(slot int32, usage, demand resource.Amounts) {
	if usage.IsZero() && demand.IsZero() || !e.poolOf(slot).reached {
		return
	}
	for p := e.poolOf(slot); p != nil; p = e.poolOf(e.nodes[p.slot].parent) {
		p.usageSum, p.demandSum = p.usageSum.Add(usage), p.demandSum.Add(demand)
		n := &e.nodes[p.slot]
		n.usage, n.demand = p.usageSum.Share(e.total), p.demandSum.Share(e.total)
	}
}

func settingsOf(element *Element) *Pool {
	if element.Pool == nil {
		return &defaultPool
	}
	return element.Pool
}

// poolOf returns the pool in a slot, nil if there is none.
func (e *Engine) poolOf(slot int32) *pool {
	if slot < 0 || int(slot) >= len(e.nodes) || e.nodes[slot].pool < 0 {
		return nil
	}
	return &e.pools[e.nodes[slot].pool]
}

// isRebuilt reports whether the edges of the tree differ from the last input.
func (e *Engine) isRebuilt(tree *Tree, tracked bool) bool {
	if len(tree.Elements) != len(e.previous) {
		return true
	}
	differs := func(slot int) bool {
		old, now := &e.previous[slot], &tree.Elements[slot]
		return old.Kind != now.Kind || old.Parent != now.Parent
	}
	if tracked {
		return slices.ContainsFunc(tree.Touched, func(slot int32) bool { return differs(int(slot)) })
	}
	for slot := range tree.Elements {
		if differs(slot) {
			return true
		}
	}
	return false
}

// onlyOperationsMove reports whether the edges of the tree differ from the last
// input only in operations that came, went or moved.
func (e *Engine) onlyOperationsMove(tree *Tree) bool {
	if len(tree.Elements) < len(e.previous) {
		return false
	}
	for slot := len(e.previous); slot < len(tree.Elements); slot++ {
		if _, listed := slices.BinarySearch(tree.Touched, int32(slot)); !listed {
			return false
		}
	}
	return !slices.ContainsFunc(tree.Touched, func(slot int32) bool {
		now := &tree.Elements[slot]
		if int(slot) >= len(e.previous) {
			return slot == 0 || now.Kind == KindPool
		}
		old := &e.previous[slot]
		return (old.Kind == KindPool || now.Kind == KindPool) && (old.Kind != now.Kind || old.Parent != now.Parent)
	})
}

// moveOperations changes the lists of children where operations came, went or
// moved.
func (e *Engine) moveOperations(tree *Tree) {
	for len(e.nodes) < len(tree.Elements) {
		e.nodes = append(e.nodes, node{pool: -1, fifoIndex: -1})
		e.previous = append(e.previous, Element{})
		e.touched, e.shares = append(e.touched, false), append(e.shares, nothing)
	}
	for _, slot := range tree.Touched {
		old, now := &e.previous[slot], &tree.Elements[slot]
		if old.Kind == now.Kind && old.Parent == now.Parent {
			continue
		}
		n := &e.nodes[slot]
		if at, _ := e.parentPool(int(slot)); at >= 0 {
			p := &e.pools[at]
			if i, found := slices.BinarySearch(p.children, slot); found {
				p.children = slices.Delete(p.children, i, i+1)
			}
			p.stale, p.unsorted, p.regrouped = true, true, true
			e.mark(at)
			e.recount(n.parent, resource.Amounts{}.Sub(old.Usage), resource.Amounts{}.Sub(old.Demand))
		}
		*n = node{kind: now.Kind, parent: now.Parent, pool: -1, fifoIndex: -1, stamp: n.stamp, wholeStamp: n.wholeStamp, mostStamp: n.mostStamp}
		e.shares[slot] = nothing
		// Unequal to what is there now, and with nothing to subtract.
		*old = Element{Kind: now.Kind, Parent: now.Parent, Weight: math.NaN()}
		if at, _ := e.parentPool(int(slot)); at >= 0 {
			p := &e.pools[at]
			i, _ := slices.BinarySearch(p.children, slot)
			p.children = slices.Insert(p.children, i, slot)
			p.regrouped = true
		}
	}
}

// rebuild rebuilds the lists of pools and children. Pools that stay in their
// slots keep their functions; pools that lose or gain a child are marked.
func (e *Engine) rebuild(tree *Tree) {
	old, known := e.pools, len(e.nodes)
	oldNodes := e.nodes
	for slot := range oldNodes {
		n := &oldNodes[slot]
		if slot >= len(tree.Elements) || tree.Elements[slot].Kind != n.kind || tree.Elements[slot].Parent != n.parent {
			if parent := e.poolOf(n.parent); parent != nil {
				parent.stale, parent.unsorted, parent.touched = true, true, true
			}
		}
	}
	e.marked = e.marked[:0]
	e.nodes = resize(e.nodes, len(tree.Elements))
	if known < len(e.nodes) {
		clear(e.nodes[known:])
	}
	e.pools, e.oldPools = e.oldPools[:0], old
	for slot := range tree.Elements {
		element := &tree.Elements[slot]
		n := &e.nodes[slot]
		kept := n.pool
		wasPool := slot < known && n.kind == KindPool
		n.kind, n.parent, n.pool, n.fifoIndex = element.Kind, element.Parent, -1, -1
		if slot == 0 {
			n.kind, n.parent = KindPool, -1
		}
		if n.kind != KindPool {
			continue
		}
		n.pool = int32(len(e.pools))
		if wasPool {
			e.pools = append(e.pools, old[kept])
		} else {
			e.pools = append(e.pools, pool{slot: int32(slot), settings: settingsOf(element), stale: true, unsorted: true, touched: true})
		}
		if e.pools[n.pool].touched {
			e.marked = append(e.marked, n.pool)
		}
	}
	e.previous = resize(e.previous, len(tree.Elements))
	for slot := known; slot < len(e.previous); slot++ {
		e.previous[slot] = Element{Weight: math.NaN()} // unequal to anything
	}
	e.touched = resize(e.touched, len(tree.Elements))
	e.shares = resize(e.shares, len(tree.Elements))
	clear(e.touched)
	clear(e.shares)
	e.rebuiltAt = e.updates
	e.link()
}

// link fills the children of every pool and the order of pools.
func (e *Engine) link() {
	e.counts = resize(e.counts, 2*len(e.pools))
	clear(e.counts)
	counts, poolCounts := e.counts[:len(e.pools)], e.counts[len(e.pools):]
	for slot := range e.nodes {
		if at, n := e.parentPool(slot); at >= 0 {
			counts[at]++
			if n.pool >= 0 {
				poolCounts[at]++
			}
		}
	}
	e.childSlots = resize(e.childSlots, len(e.nodes))
	e.childPools = resize(e.childPools, len(e.pools))
	slots, pools := e.childSlots, e.childPools
	for at := range e.pools {
		p := &e.pools[at]
		p.children, slots = slots[:0:counts[at]], slots[counts[at]:]
		p.subpools, pools = pools[:0:poolCounts[at]], pools[poolCounts[at]:]
		p.renewed, p.moved = slices.Grow(p.renewed, int(counts[at])), slices.Grow(p.moved, int(poolCounts[at]))
		p.unsorted, p.regrouped, p.division, p.record, p.reached = true, true, division{}, record{}, false
	}
	for slot := range e.nodes {
		if at, n := e.parentPool(slot); at >= 0 {
			p := &e.pools[at]
			p.children = append(p.children, int32(slot))
			if n.pool >= 0 {
				p.subpools = append(p.subpools, n.pool)
			}
		}
	}
	e.order = e.order[:0]
	stack := []int32{0}
	for len(stack) > 0 {
		at := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		e.order = append(e.order, at)
		p := &e.pools[at]
		p.reached, p.depth = true, 0
		if at > 0 {
			p.depth = e.parentOf(p).depth + 1
		}
		subpools := e.pools[at].subpools
		for i := len(subpools) - 1; i >= 0; i-- {
			stack = append(stack, subpools[i])
		}
	}
}

// parentPool returns the index of the parent pool of the element in a slot, -1
// for the root, free slots and elements whose parent is no pool.
func (e *Engine) parentPool(slot int) (int32, *node) {
	n := &e.nodes[slot]
	if slot == 0 || n.kind == KindNone || e.poolOf(n.parent) == nil {
		return -1, n
	}
	return e.nodes[n.parent].pool, n
}

// sumUp computes the usage and demand of all pools.
func (e *Engine) sumUp() {
	for i := len(e.order) - 1; i >= 0; i-- {
		p := &e.pools[e.order[i]]
		p.usageSum, p.demandSum = resource.Amounts{}, resource.Amounts{}
		for _, slot := range p.children {
			if at := e.nodes[slot].pool; at >= 0 {
				c := &e.pools[at]
				p.usageSum, p.demandSum = p.usageSum.Add(c.usageSum), p.demandSum.Add(c.demandSum)
				continue
			}
			element := &e.previous[slot]
			for k := range element.Usage {
				p.usageSum[k] += element.Usage[k]
				p.demandSum[k] += element.Demand[k]
			}
		}
		n := &e.nodes[p.slot]
		n.usage, n.demand = p.usageSum.Share(e.total), p.demandSum.Share(e.total)
	}
}

// limit computes the limits of elements as shares, top-down, because
// max_share_ratio is a part of what the parent may have.
func (e *Engine) limit() {
	root := &e.pools[0]
	if e.recounted {
		e.limitElement(0, resource.Ones())
		e.limitChildren(root)
		return
	}
	for _, slot := range e.differ {
		n := &e.nodes[slot]
		if slot == 0 {
			before := root.limits
			e.limitElement(0, resource.Ones())
			if before != root.limits {
				e.reconfigured = true
				e.limitChildren(root)
			}
		} else if p := e.poolOf(n.parent); p != nil {
			e.limitChild(p, slot)
		}
		if n.pool >= 0 && e.pools[n.pool].settledAt == e.updates {
			e.limitChildren(&e.pools[n.pool])
		}
	}
}

// limitChildren computes the limits of everything below a pool.
func (e *Engine) limitChildren(p *pool) {
	for _, slot := range p.children {
		e.limitChild(p, slot)
	}
}

// limitChild computes the limits of a child of a pool, and of everything below it
// if they moved.
func (e *Engine) limitChild(p *pool, slot int32) {
	n := &e.nodes[slot]
	before := n.limits
	e.limitElement(slot, p.limits)
	moved := before != n.limits
	if moved {
		p.stale = true
		e.mark(e.nodes[p.slot].pool)
	}
	if n.pool >= 0 {
		e.reconfigured = e.reconfigured || moved
		if moved || e.recounted {
			e.limitChildren(&e.pools[n.pool])
		}
		return
	}
	steps := e.options.GangSteps && e.previous[slot].Gang && !p.settings.GangStepsOff
	if moved || steps != n.steps {
		n.steps = steps
		e.renew(p, slot)
	}
}

// renew notes that the function of an operation has changed. It may be in no pool, and its
// slot may be free.
func (e *Engine) renew(parent *pool, slot int32) {
	e.stamp++
	n := &e.nodes[slot]
	n.stamp = e.stamp
	switch {
	case parent == nil || parent.regrouped || n.kind == KindNone:
	case len(parent.renewed) >= len(parent.children):
		parent.regrouped, parent.renewed = true, parent.renewed[:0]
	default:
		parent.renewed = append(parent.renewed, slot)
	}
}

func (e *Engine) limitElement(slot int32, parent resource.Shares) {
	n := &e.nodes[slot]
	n.limits = limitsOf(&e.previous[slot], e.total, parent)
	if n.pool >= 0 {
		e.pools[n.pool].limits = n.limits
	}
}

// arrange assigns positions to operations of FIFO pools, and none to those of
// other pools.
func (e *Engine) arrange(p *pool) {
	p.unsorted = false
	if p.settings.Mode == FIFO {
		e.sortFIFO(p)
		return
	}
	if p.settledAt < e.updates && e.rebuiltAt < e.updates {
		return // it was none before, and new operations have no position
	}
	for _, slot := range p.children {
		e.nodes[slot].fifoIndex = -1
	}
}

// sortFIFO sorts the children of a FIFO pool into the order in which they are
// served.
func (e *Engine) sortFIFO(p *pool) {
	keys := p.settings.FIFOKeys
	if len(keys) == 0 {
		keys = DefaultFIFOKeys
	}
	order := func(i, j int32) int {
		a, b := &e.previous[i], &e.previous[j]
		for _, key := range keys {
			var c int
			switch key {
			case ByWeight:
				c = cmp.Compare(specifiedWeight(b), specifiedWeight(a))
			case ByStartTime:
				c = cmp.Compare(a.StartTime, b.StartTime)
			case ByPending:
				c = cmp.Compare(a.Pending, b.Pending)
			}
			if c != 0 {
				return c
			}
		}
		return cmp.Compare(i, j)
	}
	p.sorted = append(p.sorted[:0], p.children...)
	if !slices.IsSortedFunc(p.sorted, order) {
		slices.SortFunc(p.sorted, order)
	}
	for i, slot := range p.sorted {
		e.nodes[slot].fifoIndex = int32(i)
	}
}

func specifiedWeight(element *Element) float64 {
	if element.Weight == 0 {
		return 1
	}
	return element.Weight
}

// weigh computes the effective weights. It runs after guarantees are fitted,
// because weights may be inferred from them.
func (e *Engine) weigh(tree *Tree, elapsed time.Duration) {
	pools := e.order
	if e.light {
		pools = e.marked
		e.findReweighed()
	}
	e.reweighed = !e.light
	for _, at := range pools {
		p := &e.pools[at]
		if e.light && !p.regrouped {
			continue
		}
		historic := p.settings.HistoricUsagePeriod > 0
		if !p.touched && !historic && e.options.InferWeightMultiplier == 0 {
			continue
		}
		before := p.weights
		p.weights = 0
		for _, slot := range p.children {
			element, n := &e.previous[slot], &e.nodes[slot]
			weight := element.Weight
			switch {
			case historic:
				weight = specifiedWeight(element) * e.historicFactor(tree, slot, p.settings.HistoricUsagePeriod, elapsed)
			case weight == 0:
				weight = e.inferredWeight(p, n)
			}
			if n.weight != weight {
				n.weight, p.stale, p.regrouped = weight, true, true
				e.reweighed = e.reweighed || n.pool >= 0
			}
			p.weights += weight
		}
		e.reweighed = e.reweighed || p.weights != before && len(p.subpools) > 0 // operations have no estimates of their own
	}
}

// findReweighed finds the pools with a child that has another weight than before. Weights
// must follow from the elements alone.
func (e *Engine) findReweighed() {
	for _, slot := range e.differ {
		n := &e.nodes[slot]
		if p := e.poolOf(n.parent); p != nil && n.kind != KindNone && n.weight != specifiedWeight(&e.previous[slot]) {
			p.regrouped = true
		}
	}
}

func (e *Engine) inferredWeight(parent *pool, n *node) float64 {
	if e.options.InferWeightMultiplier == 0 || n.pool < 0 {
		return 1
	}
	p := &e.pools[n.pool]
	own := p.strong.Largest() + p.totalFlow
	all := parent.strong.Largest() + parent.totalFlow
	if own < Epsilon || all < Epsilon {
		return 1
	}
	return own * e.options.InferWeightMultiplier / all
}

func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return append(s[:cap(s)], make([]T, n-cap(s))...)
	}
	return s[:n]
}
