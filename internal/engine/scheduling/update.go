package scheduling

import (
	"math"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/value/resource"
)

// Update computes fair shares as of now and everything that follows from them
// until the next update: satisfaction, starvation, classes of allocations.
func (t *Tree) Update(now time.Time) *fairshare.Result {
	elapsed := fairshare.FirstUpdate
	if !t.updated.IsZero() {
		elapsed = max(now.Sub(t.updated), 0)
		if t.clocksHeld {
			t.delayClocks(elapsed)
		}
	}
	t.updated, t.clock = now, now.UnixMicro()
	if t.begun.IsZero() {
		t.begun = now
	}
	if t.shares.Total != t.total {
		t.shares.Total, t.relimit = t.total, true
	}
	for _, slot := range t.toUpdate {
		t.measure(slot)
	}
	t.boundByNodes(now)
	slices.Sort(t.toUpdate)
	t.shares.Tracked, t.shares.Touched = true, append(t.shares.Touched[:0], t.toUpdate...)
	t.engine.Update(&t.shares, elapsed, &t.result)
	t.keepStates()
	for _, slot := range t.result.Reoffered {
		if e := &t.elements[slot]; !e.reoffered {
			e.reoffered = true
			t.reoffered = append(t.reoffered, slot)
		}
	}
	t.publishAll(now)
	t.listStarving()
	t.updateGangs(now)
	return &t.result
}

// publishAll stores the results of elements for which anything may be different
// since the last update: its result, its usage, or the time since which it is
// below its fair share.
func (t *Tree) publishAll(now time.Time) {
	t.nextClock = time.Time{}
	for len(t.isDue) < len(t.elements) {
		t.isDue = append(t.isDue, false)
	}
	t.raiseLeast()
	t.mergeDue()
	for _, slot := range t.due {
		e := &t.elements[slot]
		e.changed &^= forUpdate
		if e.kind == fairshare.KindNone {
			continue
		}
		t.publish(now, slot)
		t.watchClock(slot)
	}
	t.updates++
	for _, slot := range t.due {
		t.watchAbove(now, slot)
	}
	t.toUpdate = t.toUpdate[:0]
	t.forgetClocks()
}

// mergeDue lists the elements to publish, in order.
func (t *Tree) mergeDue() {
	t.due = t.due[:0]
	add := func(slot int32) {
		if !t.isDue[slot] {
			t.isDue[slot] = true
			t.due = append(t.due, slot)
		}
	}
	for _, list := range [...][]int32{t.toUpdate, t.result.Altered, t.below} {
		for _, slot := range list {
			add(slot)
		}
	}
	if t.relimit { // what max_share_ratio allows may differ
		t.relimit = false
		for slot := range t.elements {
			if t.shares.Elements[slot].MaxShareRatio > 0 {
				add(int32(slot))
			}
		}
	}
	if len(t.due) < len(t.elements)/8 {
		slices.Sort(t.due)
		for _, slot := range t.due {
			t.isDue[slot] = false
		}
		return
	}
	t.due = t.due[:0]
	for slot, due := range t.isDue {
		if due {
			t.due = append(t.due, int32(slot))
		}
	}
	clear(t.isDue)
}

// watchAbove watches the limits of an element and of the pools above it, each pool
// once an update: what waits or runs in an element changes their room.
func (t *Tree) watchAbove(now time.Time, slot int32) {
	for t.elements[slot].kind != fairshare.KindNone {
		if p := t.elements[slot].pool; p != nil {
			if p.watched == t.updates {
				return
			}
			p.watched = t.updates
		}
		t.watchLimits(now, slot)
		if slot == 0 {
			return
		}
		slot = t.elements[slot].parent
	}
}

// watchLimits notes since when the limits of an element leave no room for the
// smallest job that waits in it. The clocks are exact to one update.
func (t *Tree) watchLimits(now time.Time, slot int32) {
	e := &t.elements[slot]
	full := &e.rest().full
	if e.limits == resource.UnlimitedAmounts() {
		*full = fullClocks{}
		return
	}
	var least resource.Amounts
	switch {
	case e.pool != nil && len(e.pool.heap) > 0:
		least = e.pool.least
	case e.operation != nil && e.operation.isCandidate():
		least = e.operation.leastWaiting()
	}
	for k := range least {
		switch {
		case least[k] <= 0 || e.limits[k]-e.usage[k] >= least[k]:
			full[k] = 0
		case full[k] == 0:
			full[k] = now.UnixMicro()
		}
	}
}

// Pass records an update that is left out because it would change nothing.
func (t *Tree) Pass(now time.Time) {
	t.updated = now
	if period := t.settings.BestSharePeriod; period > 0 && !t.boundedAt.IsZero() && now.Sub(t.boundedAt) >= period {
		t.boundedAt = now
	}
}

// QuietUntil returns until when updates change nothing if nothing happens, after
// an update now; zero if the next one may.
func (t *Tree) QuietUntil(now time.Time) time.Time {
	if t.clocksHeld || !t.engine.Timeless() || len(t.toUpdate) > 0 { // operations may have ended or started after the update
		return time.Time{}
	}
	end := t.nextClock
	until := func(at time.Time) {
		if end.IsZero() || at.Before(end) {
			end = at
		}
	}
	if period := t.settings.BestSharePeriod; period > 0 {
		if known := t.begun.Add(t.settings.NodeReconnection); now.Before(known) {
			until(known)
		} else if t.rebound || len(t.resized) > 0 {
			until(t.boundedAt.Add(period))
		}
	}
	t.gangsQuietUntil(now, until)
	if end.IsZero() {
		return now.Add(math.MaxInt64)
	}
	return end
}

// keepStates stores what elements carry to the next update.
func (t *Tree) keepStates() {
	for slot := range t.result.States {
		if t.State(int32(slot)).Volume != t.result.States[slot].Volume {
			t.mark(int32(slot), forReaders)
		}
	}
	t.shares.States = append(t.shares.States[:0], t.result.States...)
}

// HoldClocks stops the starvation clocks from update to update, or restarts
// them. While they are stopped no element starts to starve. Elements that
// already starve, or that get enough, are handled as usual.
func (t *Tree) HoldClocks(held bool) { t.clocksHeld = held }

// delayClocks moves the clocks of elements below their fair shares forward by
// the time during which they were stopped.
func (t *Tree) delayClocks(by time.Duration) {
	for _, slot := range t.below {
		if e := &t.elements[slot]; !e.belowSince.IsZero() {
			e.belowSince = e.belowSince.Add(by)
			t.mark(slot, forBoth)
		}
	}
}

// watch lists an element whose clock runs.
func (t *Tree) watch(slot int32) {
	if e := &t.elements[slot]; !e.watched && !e.belowSince.IsZero() {
		e.watched = true
		t.below = append(t.below, slot)
	}
}

// forgetClocks removes elements from the list whose clocks have stopped.
func (t *Tree) forgetClocks() {
	t.below = slices.DeleteFunc(t.below, func(slot int32) bool {
		e := &t.elements[slot]
		e.watched = !e.belowSince.IsZero()
		return !e.watched
	})
}

// measure writes the usage and demand of an operation for the fair-share
// computation. An operation that a limit on running operations keeps waiting takes no
// part in it unless it uses something, so that a long queue costs nothing.
func (t *Tree) measure(slot int32) {
	e := &t.elements[slot]
	op := e.operation
	if op == nil {
		return
	}
	share := &t.shares.Elements[slot]
	demand, pending := e.usage, int64(0)
	if op.running && !op.suspended {
		pending = int64(op.waiting)
		for _, g := range op.groups {
			for k := range g.Resources {
				demand[k] += g.Resources[k] * int64(g.Waiting)
			}
		}
		if op.limitDemand {
			demand = demand.Min(e.limits).Max(e.usage)
		}
	}
	kind := fairshare.KindOperation
	if !op.running && e.usage.IsZero() {
		kind = fairshare.KindNone
	}
	if share.Usage != e.usage || share.Demand != demand || share.Kind != kind {
		t.mark(slot, forReaders)
		if sizeOf(&demand) != op.boundedFor {
			t.resize(slot)
		}
	}
	share.Kind, share.Usage, share.Demand, share.Pending = kind, e.usage, demand, pending
}

// publish stores the result of the fair-share computation in an element.
func (t *Tree) publish(now time.Time, slot int32) {
	e := &t.elements[slot]
	if t.shares.Elements[slot].MaxShareRatio > 0 {
		limits := t.limitsOf(slot) // nodes may have been added or removed
		if limits != e.limits {
			t.mark(slot, forReaders)
			e.limits = limits
			t.weigh(slot)
		}
	}
	if !e.known || t.result.Changed[slot] {
		t.mark(slot, forReaders)
	}
	e.known = true
	result := &t.result.Elements[slot]
	e.share, e.promised = result.FairShare, resource.Shares{}
	if len(t.result.Promised) > 0 {
		e.promised = t.result.Promised[slot]
	}
	if p := t.result.Pool(slot); p != nil {
		e.demand = p.Demand
		t.judge(now, slot)
		return
	}
	e.demand = t.shares.Elements[slot].Demand.Share(t.total)
	op := e.operation
	op.fifoIndex = result.FIFOIndex
	if op.running && op.activatedAt.IsZero() {
		op.activatedAt = now
	}
	t.judge(now, slot)
	t.bound(e)
	t.rebalance(&op.ledger, &e.entitlement, &op.classes)
	if op.isCandidate() {
		t.refresh(slot)
	}
}

// bound computes the two shares that divide an operation's allocations into
// classes. An operation that gets all it demands has no preemptible
// allocations.
func (t *Tree) bound(e *element) {
	c := &e.operation.classes
	s := &t.settings
	c.boundaryIn = s.BoundaryJobIsPreemptible.Value()
	c.aggressive = e.share.Times(s.AggressiveSatisfactionThreshold.Value())
	c.normal = e.share.Times(s.SatisfactionThreshold.Value())
	if e.share.Near(e.demand, fairshare.Epsilon) && e.demand.Largest() > fairshare.Epsilon {
		c.normal = resource.Uniform(InfiniteSatisfaction)
	}
}

// judge determines whether an element gets enough and, if not, since when.
func (t *Tree) judge(now time.Time, slot int32) {
	e := &t.elements[slot]
	status, starvation, since := e.status, e.starvation, e.belowSince
	t.judgeStarvation(now, slot)
	if status != e.status || starvation != e.starvation || since != e.belowSince {
		t.mark(slot, forReaders)
		t.watch(slot)
	}
}

func (t *Tree) judgeStarvation(now time.Time, slot int32) {
	e := &t.elements[slot]
	e.status = t.status(slot)
	if e.status == Normal {
		if e.starvation != NonStarving {
			e.starvation, e.rest().starvingSince = NonStarving, time.Time{}
		}
		e.belowSince = time.Time{}
		return
	}
	if e.belowSince.IsZero() {
		e.belowSince = now
		return
	}
	if t.clocksHeld {
		return
	}
	timeout, aggressive := t.timeouts(slot)
	switch below := now.Sub(e.belowSince); {
	case e.patience.Aggressive && below > aggressive:
		e.starvation = AggressivelyStarving
	case below > timeout && e.starvation == NonStarving:
		e.starvation = Starving
	}
	if e.starvation != NonStarving && e.rest().starvingSince.IsZero() {
		e.rest().starvingSince = now
		if e.operation != nil {
			e.operation.beatsBefore = t.heartbeats
		}
	}
}

// watchClock notes when an element that is below its fair share starts to starve,
// or to starve aggressively.
func (t *Tree) watchClock(slot int32) {
	e := &t.elements[slot]
	if e.belowSince.IsZero() || e.starvation == AggressivelyStarving {
		return
	}
	normal, aggressive := t.timeouts(slot)
	wait := time.Duration(math.MaxInt64)
	if e.starvation == NonStarving {
		wait = normal
	}
	if e.patience.Aggressive {
		wait = min(wait, aggressive)
	}
	if wait == math.MaxInt64 {
		return
	}
	if at := e.belowSince.Add(wait + 1); t.nextClock.IsZero() || at.Before(t.nextClock) {
		t.nextClock = at
	}
}

// timeouts returns how long an element may be below its fair share until it
// starves, and until it starves aggressively if it may.
func (t *Tree) timeouts(slot int32) (normal, aggressive time.Duration) {
	e := &t.elements[slot]
	normal, aggressive = e.patience.FairShareTimeout, e.patience.AggressiveTimeout
	if t.isBelowGuarantee(slot) {
		normal = e.patience.MinShareTimeout
	}
	if op := e.operation; op != nil {
		if part := float64(op.waiting) / t.settings.JobCountTimeoutCoefficient.Or(1); part < 1 {
			normal = time.Duration(float64(normal) * part)
			aggressive = time.Duration(float64(aggressive) * part)
		}
	}
	return normal, aggressive
}

// status reports whether an element gets at least its fair share, minus a
// tolerance.
func (t *Tree) status(slot int32) Status {
	e := &t.elements[slot]
	if slot == 0 {
		return Normal
	}
	tolerance := e.patience.Tolerance
	if e.operation != nil {
		switch {
		case !e.operation.isCandidate():
			return Normal
		case t.settings.ToleranceEndsAtDemand.Value() && e.coversDemand():
			tolerance = 1
		case t.settings.AbsoluteStarvationTolerance.Value() && t.lacksOneJobAtMost(slot):
			return Normal
		}
	} else if !t.settings.EnablePoolStarvation.Or(true) {
		return Normal
	}
	bound := e.share.Times(tolerance).Min(e.demand)
	usage := e.usage.Share(t.total)
	if e.exceeds(&bound, &usage) {
		return BelowFairShare
	}
	return Normal
}

// lacksOneJobAtMost reports whether an operation lacks no more of its fair
// share than its smallest waiting job needs.
func (t *Tree) lacksOneJobAtMost(slot int32) bool {
	e := &t.elements[slot]
	least := resource.UnlimitedAmounts()
	for _, g := range e.operation.groups {
		if g.Waiting > 0 {
			least = least.Min(g.Resources)
		}
	}
	with := e.usage.Add(least).Share(t.total)
	return !e.exceeds(&e.share, &with)
}

// isBelowGuarantee reports whether a pool uses less than the part of its fair
// share that the strong guarantee covers. An operation has only the
// guarantees of the pools above it.
func (t *Tree) isBelowGuarantee(slot int32) bool {
	if t.elements[slot].operation != nil {
		for pool := t.elements[slot].parent; pool != 0; pool = t.elements[pool].parent {
			if t.isBelowGuarantee(pool) {
				return true
			}
		}
		return false
	}
	e, p := &t.elements[slot], t.result.Pool(slot)
	return p != nil && e.usage.Share(t.total).Largest() < p.Strong.Min(e.demand).Largest()
}

// listStarving lists operations that may preempt others, in the order in
// which they are served.
func (t *Tree) listStarving() {
	for i := range t.starving {
		t.starving[i] = t.starving[i][:0]
	}
	t.guaranteed = t.guaranteed[:0]
	t.starvingLeast = resource.UnlimitedAmounts()
	if t.settings.GuaranteesFirst {
		t.listBelow(0, func(slot int32) {
			if t.lacksGuarantee(&t.elements[slot]) {
				t.guaranteed = append(t.guaranteed, slot)
			}
		})
	}
	for _, slot := range t.below {
		e := &t.elements[slot]
		if e.starvation != NonStarving && t.priority(e.parent) == NonStarving { // else it is listed with what is above it
			t.listBelow(slot, t.listStarver)
		}
	}
	for i := range t.starving {
		slices.SortFunc(t.starving[i], t.comesBefore)
	}
	slices.SortFunc(t.guaranteed, t.comesBefore)
}

// listStarver lists an operation that starves, itself or with a pool above it.
func (t *Tree) listStarver(slot int32) {
	if t.elements[slot].operation.freeRoomOnly {
		return
	}
	i := 0
	if t.priority(slot) == Starving {
		i = 1
	}
	t.starving[i] = append(t.starving[i], slot)
	t.starvingLeast = t.starvingLeast.Min(t.elements[slot].operation.leastWaiting())
}

// listBelow visits an operation, or all operations below a pool, that may start
// jobs.
func (t *Tree) listBelow(slot int32, visit func(int32)) {
	switch e := &t.elements[slot]; {
	case e.pool != nil:
		for _, child := range e.pool.heap {
			t.listBelow(child, visit)
		}
	case e.operation.isCandidate():
		visit(slot)
	}
}

// lacksGuarantee reports whether an operation has less than guarantees alone
// promise it.
func (t *Tree) lacksGuarantee(e *element) bool {
	if !t.settings.GuaranteesFirst || e.promised.IsZero() {
		return false
	}
	usage := e.usage.Share(t.total)
	return e.exceeds(&e.promised, &usage)
}

// priority returns the worst starvation of an operation and of the pools
// above it.
func (t *Tree) priority(slot int32) (worst Starvation) {
	for slot != 0 {
		e := &t.elements[slot]
		worst = max(worst, e.starvation)
		slot = e.parent
	}
	return worst
}

// comesBefore compares operations in the order of the walk down the tree.
func (t *Tree) comesBefore(a, b int32) int {
	if a == b {
		return 0
	}
	x, y := a, b
	for t.depth(x) > t.depth(y) {
		x = t.elements[x].parent
	}
	for t.depth(y) > t.depth(x) {
		y = t.elements[y].parent
	}
	for t.elements[x].parent != t.elements[y].parent {
		x, y = t.elements[x].parent, t.elements[y].parent
	}
	if t.less(x, y) {
		return -1
	}
	return 1
}

func (t *Tree) depth(slot int32) (depth int) {
	for slot != 0 {
		slot = t.elements[slot].parent
		depth++
	}
	return depth
}

// Idle reports whether heartbeats of nodes on which nothing has finished
// would change nothing before the next update or change.
func (t *Tree) Idle() bool {
	return len(t.elements[0].pool.heap) == 0 && t.overloaded == 0 && t.excesses == 0
}
