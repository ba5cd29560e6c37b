package scheduling

import (
	"cmp"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/value/resource"
)

// schedulePreemptively starts at most one job of a starving operation, using
// what is free and what allocations of the stage's classes hold. It preempts
// as little as necessary. It reports whether it started a job. It does not try
// operations whose jobs would not fit if everything were preempted.
func (t *Tree) schedulePreemptively(now time.Time, at Node, stage Stage, d *Decisions) bool {
	n := &t.nodes[at]
	candidates := t.starving[stage-StageAggressive]
	if len(candidates) == 0 && stage == StageAggressive {
		return false
	}
	all := t.victims(n.allocations[:n.settled], stage)
	victims := all
	started := Allocation(none)
	most := n.free() // with everything preempted that any operation may preempt
	for _, id := range all {
		most = most.Add(t.allocations[id].usage)
	}
	if !most.Dominates(t.starvingLeast) {
		candidates = nil
	}
	for _, slot := range candidates {
		op := t.elements[slot].operation
		if op == nil || !op.isCandidate() || op.isWaitingGang() || !op.mayFit(&most) {
			continue
		}
		d.Attempts[stage]++
		usable := t.usable(slot, t.starver(slot, stage), all)
		room := n.free()
		for _, id := range usable {
			room = room.Add(t.allocations[id].usage)
		}
		group, refusal := t.fits(slot, n, room, true)
		if refusal != RefusedNothing {
			t.refuse(slot, refusal)
			continue
		}
		t.winner = t.standingOf(slot)
		started = t.startAllocation(now, slot, group, at)
		d.Starts = append(d.Starts, Start{Allocation: started, Operation: slot, Group: group, Stage: stage})
		victims = usable
		break
	}
	t.preempt(n, victims, started, d)
	return started != none
}

// mayFit reports whether a waiting job needs no more than most.
func (o *operationState) mayFit(most *resource.Amounts) bool {
	for i := range o.groups {
		if g := &o.groups[i]; g.Waiting > 0 && most.Dominates(g.Resources) {
			return true
		}
	}
	return false
}

// usable lists the victims that may be preempted for an operation, because it
// or a pool above it, the starver, starves. Two kinds are excluded, because
// preempting them could repeat endlessly:
//
// Victims inside the starving element gain it nothing: operations of a pool
// that are above their own shares would preempt each other.
//
// Aggressively preemptible victims are within the fair share of their
// operation. If the victim's operation became no more satisfied than the
// operation that gets the resources is now, the two would only swap places.
// With this rule every preemption leaves the worse off of the two better off
// than before, so preemptions come to an end.
func (t *Tree) usable(slot, starver int32, victims []Allocation) []Allocation {
	used := t.elements[slot].usage.Share(t.total)
	return t.usableBeyond(starver, t.elements[slot].entitlement.satisfaction(&used), victims, t.taken[:0], false)
}

// usableBeyond is usable for an operation that is that satisfied and for which taken is
// preempted already. whole reports that a victim counts as all that its operation loses
// with it.
func (t *Tree) usableBeyond(starver int32, satisfied float64, victims []Allocation, taken []takenFrom, whole bool) []Allocation {
	usable := t.usableList[:0]
	for _, id := range victims {
		a := &t.allocations[id]
		if t.isWithin(starver, a.operation) {
			continue
		}
		i := takenIndex(&taken, a.operation)
		sum, compare := taken[i].amounts.Add(a.usage), a.class == AggressivelyPreemptible
		if op := t.elements[a.operation].operation; whole && op.isWhole() {
			sum, compare = op.ledger.total(), true // it loses more than what is above its share
		}
		if compare {
			victim := &t.elements[a.operation]
			left := victim.usage.Sub(sum).Share(t.total)
			if victim.entitlement.satisfaction(&left) <= satisfied {
				continue
			}
		}
		taken[i].amounts = sum
		usable = append(usable, id)
	}
	t.usableList, t.taken = usable, taken
	return usable
}

// takenIndex returns the entry of an operation in a list, and adds it if necessary.
func takenIndex(taken *[]takenFrom, operation int32) int {
	i := slices.IndexFunc(*taken, func(x takenFrom) bool { return x.operation == operation })
	if i < 0 {
		i = len(*taken)
		*taken = append(*taken, takenFrom{operation: operation})
	}
	return i
}

// takenFrom is what an operation would lose.
type takenFrom struct {
	operation int32
	amounts   resource.Amounts
}

// starver returns the lowest element, from an operation up, that starves
// enough for a stage to serve it.
func (t *Tree) starver(slot int32, stage Stage) int32 {
	least := Starving
	if stage == StageAggressive {
		least = AggressivelyStarving
	}
	for slot != 0 && t.elements[slot].starvation < least {
		slot = t.elements[slot].parent
	}
	return slot
}

// isWithin reports whether an operation is an element or somewhere below it.
func (t *Tree) isWithin(slot, operation int32) bool {
	return slot == operation || t.contains(slot, operation)
}

// victims lists the allocations of a node that a stage may preempt, in the
// order of preemption: preemptible ones before aggressively preemptible ones,
// and the newest first.
func (t *Tree) victims(allocations []Allocation, stage Stage) []Allocation {
	victims := t.victimList[:0]
	for _, id := range allocations {
		if t.isVictim(&t.allocations[id], stage) {
			victims = append(victims, id)
		}
	}
	t.victimList = victims
	slices.SortFunc(victims, t.goesBefore)
	return victims
}

func (t *Tree) goesBefore(i, j Allocation) int {
	a, b := &t.allocations[i], &t.allocations[j]
	return cmp.Or(cmp.Compare(b.class, a.class), b.progress.Compare(a.progress), cmp.Compare(j, i))
}

func (t *Tree) isVictim(a *allocation, stage Stage) bool {
	e := &t.elements[a.operation]
	switch {
	case a.preempted, a.tentative, a.class == NonPreemptible, e.operation.graceful, t.isPinned(a):
		return false
	case e.starvation != NonStarving && !t.settings.FromStarvingOperations.Value():
		return false
	case a.class == AggressivelyPreemptible:
		return stage == StageAggressive && !t.elements[e.parent].pool.protectsAggressive
	}
	return stage != StageNormal || !t.elements[e.parent].pool.protectsNormal
}

// preempt preempts allocations until the rest fit into the node, and
// allocations whose limits are violated.
func (t *Tree) preempt(n *node, victims []Allocation, started Allocation, d *Decisions) {
	chosen := 0
	usage := n.usage
	for chosen < len(victims) && !n.limits.Dominates(usage) {
		usage = usage.Sub(t.allocations[victims[chosen]].usage)
		chosen++
	}
	spared := t.spare(n, victims[:chosen], usage)
	reason := PreemptedForStarving
	if started == none {
		reason = PreemptedForNode
	}
	for i, id := range victims[:chosen] {
		if !spared[i] {
			t.takeAway(id, Preemption{Reason: reason, For: started, Limiter: none}, d)
		}
	}
	for i, id := range victims {
		if i < chosen && !spared[i] {
			continue
		}
		if limiter := t.violated(t.allocations[id].operation); limiter != none {
			t.takeAway(id, Preemption{Reason: PreemptedForLimit, For: none, Limiter: limiter}, d)
		}
	}
}

// spare reports which chosen victims need not be preempted, oldest first: the
// first victims may hold nothing of the scarce resource.
func (t *Tree) spare(n *node, chosen []Allocation, usage resource.Amounts) []bool {
	t.spared = append(t.spared[:0], make([]bool, len(chosen))...)
	if !t.settings.MinimizePreemptedSet.Or(true) {
		return t.spared
	}
	for i := len(chosen) - 1; i >= 0; i-- {
		if grown := usage.Add(t.allocations[chosen[i]].usage); n.limits.Dominates(grown) {
			usage = grown
			t.spared[i] = true
		}
	}
	return t.spared
}

// violated returns the lowest element, from an operation up, whose usage is
// above its limits, or none.
func (t *Tree) violated(slot int32) int32 {
	for {
		e := &t.elements[slot]
		if !e.limits.Dominates(e.usage) {
			return slot
		}
		if slot == 0 {
			return none
		}
		slot = e.parent
	}
}

// takeAway preempts an allocation. The scheduler counts its resources as free
// at once; the node frees them within the timeout.
func (t *Tree) takeAway(id Allocation, p Preemption, d *Decisions) {
	a := &t.allocations[id]
	p.Allocation, p.Operation, p.Class, p.Held = id, a.operation, a.class, a.usage
	p.Timeout = t.settings.PreemptionTimeout.Value()
	a.preempted = true
	t.stir(a.node)
	t.holdNothing(id)
	if p.For != none {
		victim := t.standingOf(a.operation)
		p.Balance = Balance{victim.satisfaction, victim.tolerance, victim.share, t.winner.satisfaction, t.winner.tolerance, t.winner.share}
	}
	d.Preemptions = append(d.Preemptions, p)
}

// standing is how an operation stands before or after a preemption.
type standing struct{ satisfaction, tolerance, share float64 }

func (t *Tree) standingOf(slot int32) standing {
	e := &t.elements[slot]
	used := e.usage.Share(t.total)
	return standing{e.entitlement.satisfaction(&used), e.patience.Tolerance, e.share.Largest()}
}

// preemptGracefully asks preemptible allocations to end if their operation
// has chosen graceful preemption. Their resources are free when they have
// ended.
func (t *Tree) preemptGracefully(n *node, d *Decisions) {
	for _, id := range n.allocations {
		a := &t.allocations[id]
		if a.preempted || a.tentative || a.pinned > t.clock || a.class != Preemptible || !t.elements[a.operation].operation.graceful {
			continue
		}
		a.preempted = true
		t.stir(n.id)
		d.Preemptions = append(d.Preemptions, Preemption{
			Allocation: id, Operation: a.operation, Reason: PreemptedGracefully, Class: a.class,
			For: none, Limiter: none, Held: a.usage, Timeout: t.settings.GracefulPreemptionTimeout.Value(),
		})
	}
}

// preemptOvercommit preempts allocations that have not fitted into their node
// for too long. It keeps safe and old allocations first.
func (t *Tree) preemptOvercommit(now time.Time, n *node, d *Decisions) {
	if n.limits.Dominates(n.usage) {
		if !n.overcommitted.IsZero() {
			n.overcommitted = time.Time{}
			t.stir(n.id)
		}
		return
	}
	if n.overcommitted.IsZero() {
		n.overcommitted = now
		t.pulses[n.id].changed, t.pulses[n.id].full = true, 0
	}
	if now.Sub(n.overcommitted) <= t.settings.OvercommitPatience {
		return
	}
	t.abandonAt(n.id)
	all := t.victimList[:0]
	var kept resource.Amounts
	for _, id := range n.allocations[:n.settled] {
		switch a := &t.allocations[id]; {
		case a.preempted:
		case a.pinned > t.clock:
			kept = kept.Add(a.usage)
		default:
			all = append(all, id)
		}
	}
	t.victimList = all
	slices.SortFunc(all, t.goesBefore)
	for i := len(all) - 1; i >= 0; i-- {
		if grown := kept.Add(t.allocations[all[i]].usage); n.limits.Dominates(grown) {
			kept = grown
		} else {
			t.takeAway(all[i], Preemption{Reason: PreemptedForNode, For: none, Limiter: none}, d)
		}
	}
}
