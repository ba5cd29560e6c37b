package scheduling

import (
	"cmp"
	"slices"

	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/nodefilter"
	"github.com/weirhq/weir/internal/value/resource"
)

// PoolParameters are the settings of a pool.
type PoolParameters struct {
	Name string
	// Element is the pool for the fair-share computation; the tree sets its
	// parent.
	Element   fairshare.Element
	Effective pooltree.Effective
	Filter    nodefilter.Filter
	// Specified are the configured resource_limits, before filters and shares
	// are applied.
	Specified resource.Partial
}

// OperationParameters are the settings of an operation in one tree.
type OperationParameters struct {
	// Element is the operation for the fair-share computation; the tree sets its
	// parent, demand and usage.
	Element  fairshare.Element
	Patience pooltree.Starvation
	Filter   nodefilter.Filter
	// Specified are the operation's resource_limits.
	Specified resource.Partial
	// LimitDemand reports whether the operation demands no more than its limits.
	LimitDemand bool
	// Graceful operations are asked to release what is above their share; they
	// are never preempted for others.
	Graceful bool
	// FreeRoomOnly operations preempt nothing: their jobs start in free room.
	FreeRoomOnly bool
}

// New returns a tree with only a root pool.
func New(settings Settings, options fairshare.Options, root PoolParameters) *Tree {
	t := &Tree{settings: settings, room: 1, assembly: assembly{slot: none}}
	t.shares.Options = options
	t.addElement(0, root.Element, fairshare.KindPool)
	t.elements[0].pool = &poolState{}
	t.SetPool(0, root)
	return t
}

// Configure changes the settings of the tree.
func (t *Tree) Configure(settings Settings, options fairshare.Options) {
	t.settings, t.shares.Options = settings, options
	t.room++
	t.markAll(forBoth)
	for slot := range t.elements {
		if op := t.elements[slot].operation; op != nil && len(op.sightings) > 0 {
			t.forgetSightings(op)
		}
	}
}

func (t *Tree) addElement(parent int32, e fairshare.Element, kind fairshare.Kind) int32 {
	e.Kind, e.Parent = kind, parent
	added := element{kind: kind, parent: parent, place: none, limits: resource.UnlimitedAmounts()}
	if last := len(t.freeSlots) - 1; last >= 0 {
		slot := t.freeSlots[last]
		t.freeSlots = t.freeSlots[:last]
		old := &t.elements[slot]
		added.changed, added.watched, added.resized, added.excess = old.changed, old.watched, old.resized, old.excess
		t.elements[slot], t.shares.Elements[slot] = added, e
		t.mark(slot, forBoth)
		return slot
	}
	slot := int32(len(t.elements))
	t.elements = append(t.elements, added)
	t.shares.Elements = append(t.shares.Elements, e)
	t.mark(slot, forBoth)
	return slot
}

// AddPool adds a pool below another one and returns its slot.
func (t *Tree) AddPool(parent int32, p PoolParameters) int32 {
	slot := t.addElement(parent, p.Element, fairshare.KindPool)
	t.elements[slot].pool = &poolState{least: resource.UnlimitedAmounts()}
	t.noteUsage(slot) // a removed pool of the same name may have used something
	t.SetPool(slot, p)
	return slot
}

// SetPool changes the settings of a pool. Limits and filters take effect at
// once, fair shares at the next update.
func (t *Tree) SetPool(slot int32, p PoolParameters) {
	e := &t.elements[slot]
	t.mark(slot, forBoth)
	p.Element.Kind, p.Element.Parent = fairshare.KindPool, e.parent
	t.shares.Elements[slot] = p.Element
	e.limits = t.limitsOf(slot)
	e.patience, e.rest().specified = p.Effective.Starvation, p.Specified
	s := e.pool
	if s.filter != p.Filter {
		t.forgetBest()
	}
	s.name, s.filter = p.Name, p.Filter
	t.relimit = true
	t.weigh(slot)
	wasFIFO := s.fifo
	s.fifo = p.Effective.Mode == pooltree.FIFO && !t.settings.FIFOBySatisfaction
	s.protectsNormal = !p.Effective.AllowNormalPreemption
	s.protectsAggressive = !p.Effective.AllowAggressivePreemption
	s.maxRunning, s.maxOperations = p.Effective.MaxRunningOperationCount, p.Effective.MaxOperationCount
	if s.fifo != wasFIFO {
		t.rekey(slot)
	}
}

// limitsOf returns what an element may use: its own limits and, with
// max_share_ratio, that part of what its parent may use.
func (t *Tree) limitsOf(slot int32) resource.Amounts {
	e := &t.shares.Elements[slot]
	limits := e.Limits.OrUnlimited()
	if e.MaxShareRatio <= 0 || slot == 0 {
		return limits
	}
	parent := t.limitsOf(e.Parent).Min(t.total)
	for k := range limits {
		// Round down, but do not let the product's rounding error decide.
		limits[k] = min(limits[k], int64(float64(parent[k])*e.MaxShareRatio*(1+fairshare.Epsilon)))
	}
	return limits
}

// rekey orders the children of a pool according to the pool's mode.
func (t *Tree) rekey(slot int32) {
	for child := range t.elements {
		if e := &t.elements[child]; e.kind == fairshare.KindOperation && e.parent == slot {
			t.refresh(int32(child))
		}
	}
}

// RemovePool removes an empty pool. Operations elsewhere that wait for its
// limit, because they were below it before it was moved, wait for the root
// until AdmitAll.
func (t *Tree) RemovePool(slot int32) {
	root := t.elements[0].pool
	for _, waiting := range t.elements[slot].pool.waiting {
		t.elements[waiting].operation.waitsAt = 0
		t.mark(waiting, forBoth)
		t.mark(0, forBoth)
		root.waiting = append(root.waiting, waiting)
	}
	t.free(slot)
}

func (t *Tree) free(slot int32) {
	t.dropGang(slot)
	t.elements[slot] = t.elements[slot].vacated()
	t.weigh(slot)
	t.mark(slot, forBoth)
	t.shares.Elements[slot] = fairshare.Element{}
	if int(slot) < len(t.shares.States) {
		t.shares.States[slot] = fairshare.State{} // another element may reuse the slot before the next update
	}
	t.freeSlots = append(t.freeSlots, slot)
}

// PoolOf returns the slot of the pool an element is in.
func (t *Tree) PoolOf(slot int32) int32 { return t.elements[slot].parent }

// addOperation adds an operation to a pool and returns its slot. The
// operation is not counted yet and does not run.
func (t *Tree) addOperation(pool int32, p OperationParameters) int32 {
	slot := t.addElement(pool, p.Element, fairshare.KindOperation)
	t.elements[slot].operation = &operationState{ledger: newLedger(), waitsAt: none}
	t.SetOperation(slot, p)
	return slot
}

// SetOperation changes the parameters of an operation.
func (t *Tree) SetOperation(slot int32, p OperationParameters) {
	e := &t.elements[slot]
	t.mark(slot, forBoth)
	p.Element.Kind, p.Element.Parent = fairshare.KindOperation, e.parent
	p.Element.Usage, p.Element.BestShare = e.usage, t.shares.Elements[slot].BestShare
	t.shares.Elements[slot] = p.Element
	e.limits = t.limitsOf(slot)
	e.patience, e.rest().specified = p.Patience, p.Specified
	if e.operation.filter != p.Filter {
		t.resize(slot)
		t.abandon(slot)
	}
	e.operation.filter, e.operation.graceful, e.operation.limitDemand = p.Filter, p.Graceful, p.LimitDemand
	e.operation.freeRoomOnly = p.FreeRoomOnly
	e.operation.classes.guard = p.Patience.Threshold
	e.operation.classes.guarded = !p.Patience.Threshold.IsTrivial()
	t.weigh(slot)
	t.refresh(slot)
}

// SetWaiting sets how many jobs of each kind wait.
func (t *Tree) SetWaiting(slot int32, groups []Group) {
	op := t.elements[slot].operation
	t.mark(slot, forBoth)
	if t.assembly.slot == slot {
		if t.waitsAlike(groups) {
			return
		}
		t.abandon(slot)
	}
	op.groups = append(op.groups[:0], groups...)
	op.waiting, op.ranked = 0, false
	for _, g := range op.groups {
		op.waiting += g.Waiting
		op.ranked = op.ranked || g.Priority != 0
	}
	t.lowerLeast(slot)
	t.refresh(slot)
}

// AddWaiting changes the number of waiting jobs of one kind.
func (t *Tree) AddWaiting(slot int32, group, delta int32) {
	op := t.elements[slot].operation
	t.mark(slot, forBoth)
	op.groups[group].Waiting += delta
	op.waiting += delta
	t.lowerLeast(slot)
	t.refresh(slot)
}

// lowerLeast lowers the bounds of the pools above an operation, because
// smaller jobs wait now. The next update raises them if jobs have become
// larger.
func (t *Tree) lowerLeast(slot int32) {
	op := t.elements[slot].operation
	if op.waiting == 0 {
		return
	}
	least := resource.UnlimitedAmounts()
	for _, g := range op.groups {
		if g.Waiting > 0 {
			least = least.Min(g.Resources)
		}
	}
	t.starvingLeast = t.starvingLeast.Min(least)
	for slot != 0 {
		slot = t.elements[slot].parent
		t.setLeast(slot, t.elements[slot].pool.least.Min(least))
	}
}

// raiseLeast makes the bounds of pools follow what has changed since the last
// update. In large pools it lowers them at once, but raises them only when enough
// has changed to be worth the cost: a bound that is too low costs time and no more.
func (t *Tree) raiseLeast() {
	const few = 64 // children
	pools := t.due[:0]
	for _, slot := range t.toUpdate {
		switch e := &t.elements[slot]; {
		case e.operation != nil:
			if e.operation.isCandidate() {
				t.lowerLeast(slot)
			}
			slot = e.parent
		case e.pool == nil:
			continue // a free slot: the pool that it was in is listed too
		}
		for !t.isDue[slot] {
			t.isDue[slot] = true
			pools = append(pools, slot)
			if slot == 0 {
				break
			}
			slot = t.elements[slot].parent
		}
	}
	slices.SortFunc(pools, func(a, b int32) int { // children before their parents
		return cmp.Or(cmp.Compare(t.depth(b), t.depth(a)), cmp.Compare(a, b))
	})
	for _, slot := range pools {
		t.isDue[slot] = false
		p := t.elements[slot].pool
		p.doubts++
		if len(p.heap) <= few || p.doubts > len(p.heap)/8 {
			p.doubts = 0
			t.setLeast(slot, t.leastOf(p))
		}
	}
	t.due = pools[:0]
}

// leastOf returns the least that a waiting job of a pool needs.
func (t *Tree) leastOf(p *poolState) resource.Amounts {
	least := resource.UnlimitedAmounts()
	for _, slot := range p.heap {
		if e := &t.elements[slot]; e.pool != nil {
			least = least.Min(e.pool.least)
		} else {
			least = least.Min(e.operation.leastWaiting())
		}
	}
	return least
}

// Suspend stops an operation from starting jobs, or lets it start them again.
func (t *Tree) Suspend(slot int32, suspended bool) {
	if suspended {
		t.abandon(slot)
	}
	t.elements[slot].operation.suspended = suspended
	t.mark(slot, forBoth)
	t.refresh(slot)
}

// PoolName returns the name of a pool, or of the pool an operation is in.
func (t *Tree) PoolName(slot int32) string {
	if p := t.elements[slot].pool; p != nil {
		return p.name
	}
	return t.elements[t.elements[slot].parent].pool.name
}

// MovePool moves a pool with everything in it below another one. Limits on
// the number of operations do not prevent it. The caller must then call
// AdmitAll for waiting operations.
func (t *Tree) MovePool(slot, parent int32) {
	e := &t.elements[slot]
	if e.place != none {
		t.heapRemove(t.elements[e.parent].pool, slot)
		t.refresh(e.parent)
	}
	p := e.pool
	t.forgetBest()
	t.relimit = true
	t.addUsage(e.parent, resource.Amounts{}.Sub(e.usage))
	t.count(e.parent, -p.operations, -p.running)
	e.parent, t.shares.Elements[slot].Parent = parent, parent
	t.mark(slot, forBoth)
	t.addUsage(parent, e.usage)
	t.count(parent, p.operations, p.running)
	for above := parent; ; above = t.elements[above].parent {
		t.setLeast(above, t.elements[above].pool.least.Min(p.least))
		if above == 0 {
			break
		}
	}
	t.refresh(slot)
}

// SetState sets what an element carries from update to update, such as the
// volume of an integral pool.
func (t *Tree) SetState(slot int32, state fairshare.State) {
	for len(t.shares.States) <= int(slot) {
		t.shares.States = append(t.shares.States, fairshare.State{})
	}
	t.shares.States[slot] = state
	t.mark(slot, forBoth)
}

// State returns what an element carries from update to update.
func (t *Tree) State(slot int32) fairshare.State {
	if int(slot) >= len(t.shares.States) {
		return fairshare.State{}
	}
	return t.shares.States[slot]
}
