package scheduling

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/value/resource"
)

// A gang is an operation whose jobs, its members, start together. In a tree at most
// one gang assembles at a time:
//
//	chooseGang   takes the least satisfied gang that may fit          (updates)
//	seat         keeps room for a member on a node                    (heartbeats)
//	assemble     does so where others must leave first                (heartbeats)
//	conclude     starts all members when there is room for all
//	giveUp       gives all room back after GangAssembly
//
// Room that is kept counts as used by the gang. Allocations that must leave are
// tentative victims: their room is kept for the gang, but they run on and their
// operations still own them. Nobody outside the tree hears of either before conclude,
// so taking them back changes nothing.

// gang is what an operation whose jobs start together has beyond others.
type gang struct {
	// lack is how many members must start together; if it is below two, jobs start
	// as those of other operations do.
	lack int32
	// whole reports that a gang that loses one member loses all.
	whole bool
	// elsewhere reports that it assembles in another tree.
	elsewhere bool
	// roomless is the update that found too few places for the members.
	roomless uint64
	aside    time.Time // until when it steps aside
	retreats int32     // how often in a row it had to
}

// Limits of the time for which a gang steps aside after it could not assemble. The
// time doubles with every attempt in a row.
const (
	leastAside = 10 * time.Second
	mostAside  = 5 * time.Minute
)

// assembly is the gang that is being assembled.
type assembly struct {
	slot  int32 // none: no gang is
	since time.Time
	// right is the worst starvation of the gang and of the pools above it since it
	// was chosen: kept room satisfies it before it runs. starver is the element that
	// starves.
	right   Starvation
	starver int32
	members []member
	victims []tentative
}

// member is room that is kept for a member of a gang.
type member struct {
	node      Node
	group     int32
	stage     Stage
	resources resource.Amounts
}

// tentative is an allocation that leaves if the gang starts.
type tentative struct {
	allocation Allocation
	member     int32 // the first one that needs its room
}

// GangResult is how an assembly ended.
type GangResult uint8

const (
	// GangStarted: all members start.
	GangStarted GangResult = iota
	// GangTimedOut: there was no room for all members in time.
	GangTimedOut
	// GangChanged: the gang, or a node where room was kept for it, has changed.
	GangChanged

	// GangResultCount is how many results there are.
	GangResultCount
)

var gangResultNames = [GangResultCount]string{"started", "scheduling_timeout", "changed"}

// String returns the name of the result in outputs.
func (r GangResult) String() string { return gangResultNames[r] }

// Assembled reports how the assembly of a gang ended.
type Assembled struct {
	Operation int32 // slot
	Result    GangResult
	Since     time.Time
	// Members is for how many there was room, Needed how many were needed, Victims
	// how many allocations had to leave.
	Members, Needed, Victims int
	// Aside is until when the gang steps aside; zero if it does not.
	Aside time.Time
}

// SetGang makes an operation a gang of which lack members must start together. whole
// reports that it loses all members if it loses one. A gang of which fewer than two
// must start together starts jobs as other operations do.
func (t *Tree) SetGang(slot, lack int32, whole bool) {
	op := t.elements[slot].operation
	if op.gang == nil {
		op.gang = &gang{}
		t.gangs = append(t.gangs, slot)
	}
	if op.gang.lack == lack && op.gang.whole == whole {
		return
	}
	t.abandon(slot)
	op.gang.lack, op.gang.whole, op.gang.roomless = lack, whole, 0
	t.mark(slot, forBoth)
}

// SetElsewhere notes whether a gang assembles in another tree. Meanwhile it does not
// assemble here.
func (t *Tree) SetElsewhere(slot int32, elsewhere bool) {
	if elsewhere {
		t.abandon(slot)
	}
	t.elements[slot].operation.gang.elsewhere = elsewhere
}

// isWaitingGang reports whether jobs of the operation start only together.
func (o *operationState) isWaitingGang() bool { return o.gang != nil && o.gang.lack > 1 }

// isWhole reports whether an operation that loses one allocation loses all.
func (o *operationState) isWhole() bool { return o.gang != nil && o.gang.whole }

// Assembling returns the operation that assembles, none if there is none, and how
// many members have room.
func (t *Tree) Assembling() (slot int32, members int) {
	return t.assembly.slot, len(t.assembly.members)
}

// StepAside makes a gang wait before it assembles again, because its members could
// not start.
func (t *Tree) StepAside(now time.Time, slot int32) {
	if g := t.elements[slot].operation.gang; g != nil && !now.Before(g.aside) {
		t.stepAside(now, slot)
	}
}

// StepBack makes a gang that steps aside next do so for the shortest time again.
func (t *Tree) StepBack(slot int32) {
	if g := t.elements[slot].operation.gang; g != nil {
		g.retreats = 0
	}
}

func (t *Tree) stepAside(now time.Time, slot int32) {
	g := t.elements[slot].operation.gang
	wait := mostAside
	if g.retreats < 5 {
		wait = min(leastAside<<g.retreats, mostAside)
	}
	g.retreats++
	g.aside = now.Add(wait)
	t.mark(slot, forReaders)
}

// TakeAssembled returns how assemblies have ended since the last call. The next
// change of the tree may reuse the slice.
func (t *Tree) TakeAssembled() []Assembled {
	list := t.assembled
	t.assembled = t.assembled[:0]
	return list
}

// updateGangs ends an assembly that takes too long and chooses the next one.
func (t *Tree) updateGangs(now time.Time) {
	if len(t.gangs) == 0 {
		return
	}
	if a := &t.assembly; a.slot != none {
		if now.Sub(a.since) < t.settings.GangAssembly {
			t.claimRight()
			return
		}
		t.giveUp(now)
	}
	t.chooseGang(now)
}

// chooseGang chooses the gang that assembles next.
func (t *Tree) chooseGang(now time.Time) {
	t.gangQueue = t.gangQueue[:0]
	for _, slot := range t.gangs {
		op := t.elements[slot].operation
		g := op.gang
		if op.isWaitingGang() && op.isCandidate() && op.waiting >= g.lack && !g.elsewhere && !now.Before(g.aside) && g.roomless != t.updates {
			t.gangQueue = append(t.gangQueue, slot)
		}
	}
	slices.SortFunc(t.gangQueue, func(a, b int32) int {
		x, y := t.satisfactionOf(a), t.satisfactionOf(b)
		return cmp.Or(cmp.Compare(x, y), cmp.Compare(t.shares.Elements[a].StartTime, t.shares.Elements[b].StartTime), cmp.Compare(a, b))
	})
	for _, slot := range t.gangQueue {
		g := t.elements[slot].operation.gang
		if !t.mayHaveRoom(slot) || t.gangBound(slot, t.priority(slot), nil) < int64(g.lack) {
			g.roomless = t.updates
			continue
		}
		t.assembly = assembly{slot: slot, since: now, members: t.assembly.members[:0], victims: t.assembly.victims[:0], starver: none}
		t.claimRight()
		t.mark(slot, forReaders)
		t.room++ // full nodes may have room after preemption
		return
	}
}

// mayHaveRoom reports whether all nodes together might have room for a gang, while none
// assembles. It saves visits of nodes that have not.
func (t *Tree) mayHaveRoom(slot int32) bool {
	op := t.elements[slot].operation
	if t.overloaded > 0 || t.priority(slot) != NonStarving && !op.freeRoomOnly {
		return true
	}
	return timesIn(op.leastWaiting(), t.total.Sub(t.elements[0].usage)) >= int64(op.gang.lack)
}

func (t *Tree) satisfactionOf(slot int32) float64 {
	e := &t.elements[slot]
	usage := e.usage.Share(t.total)
	return e.entitlement.satisfaction(&usage)
}

// claimRight notes which allocations the gang that assembles may preempt. The right
// only grows while it assembles.
func (t *Tree) claimRight() {
	a := &t.assembly
	if t.elements[a.slot].operation.freeRoomOnly {
		return
	}
	if right := t.priority(a.slot); right > a.right {
		a.right, a.starver = right, t.starver(a.slot, stageOf(right))
	}
}

// stageOf returns the preemptive stage of an operation that starves.
func stageOf(right Starvation) Stage {
	if right == AggressivelyStarving {
		return StageAggressive
	}
	return StageNormal
}

// gangBound returns how many more members of a gang may find room, at most, if all
// allocations leave that an operation with this right may preempt. It is never less
// than what an assembly can reach. closed reports nodes that get no jobs; nil means none.
func (t *Tree) gangBound(slot int32, right Starvation, closed func(Node) bool) int64 {
	e := &t.elements[slot]
	op := e.operation
	lack, least := int64(op.gang.lack), op.leastWaiting()
	if op.waiting == 0 || t.limitBound(slot, least) < lack {
		return t.limitBound(slot, least)
	}
	if op.freeRoomOnly {
		right = NonStarving
	}
	satisfied := t.satisfactionOf(slot)
	fitting := make([]int64, len(op.groups))
	smallest := int64(0)
	for at := range t.nodes {
		n := &t.nodes[at]
		if !n.alive || closed != nil && closed(n.id) || t.excluder(slot, n) != none || op.avoids(n.id) {
			continue
		}
		room := n.free()
		if right != NonStarving {
			for _, id := range n.allocations {
				if a := &t.allocations[id]; a.operation != slot && t.isVictim(a, stageOf(right)) && t.mayLose(a.operation, satisfied) {
					room = room.Add(a.usage)
				}
			}
		}
		enough := true
		for g := range op.groups {
			group := &op.groups[g]
			if fitting[g] < int64(group.Waiting) && !n.denied.Has(group.Class) {
				fitting[g] += timesIn(group.Resources, room)
			}
			enough = enough && fitting[g] >= int64(group.Waiting)
		}
		smallest += timesIn(least, room)
		if enough && smallest >= int64(op.waiting) {
			break
		}
	}
	total := int64(0)
	for g := range fitting {
		total += min(fitting[g], int64(op.groups[g].Waiting))
	}
	return min(total, smallest)
}

// mayLose reports whether allocations of an operation may leave for one that is that
// satisfied, if it loses all of them with one.
func (t *Tree) mayLose(slot int32, satisfied float64) bool {
	e := &t.elements[slot]
	return !e.operation.isWhole() || e.entitlement.satisfaction(&resource.Shares{}) > satisfied
}

// limitBound returns how many jobs of a size the limits of an operation and of the
// pools above it leave room for.
func (t *Tree) limitBound(slot int32, job resource.Amounts) int64 {
	bound := int64(math.MaxInt32)
	for {
		e := &t.elements[slot]
		bound = min(bound, timesIn(job, e.limits.Sub(e.usage)))
		if slot == 0 {
			return bound
		}
		slot = e.parent
	}
}

// timesIn returns how many jobs of a size fit into an amount.
func timesIn(job, room resource.Amounts) int64 {
	times := int64(math.MaxInt32)
	for k := range job {
		if job[k] > 0 {
			times = min(times, max(room[k], 0)/job[k])
		}
	}
	return times
}

// give starts a job of an operation on a node, or keeps room for a member of the gang
// that assembles. It returns none if it only kept room.
func (t *Tree) give(now time.Time, slot, group int32, at Node, stage Stage, d *Decisions) Allocation {
	if t.elements[slot].operation.isWaitingGang() {
		t.seat(slot, group, at, stage)
		d.Kept++
		return none
	}
	id := t.startAllocation(now, slot, group, at)
	d.Starts = append(d.Starts, Start{Allocation: id, Operation: slot, Group: group, Stage: stage})
	return id
}

// mayJoin reports whether a member of a waiting gang may get room now.
func (t *Tree) mayJoin(slot int32) bool {
	return t.assembly.slot == slot && len(t.assembly.members) < int(t.elements[slot].operation.gang.lack)
}

// seat keeps room for a member of the gang that assembles.
func (t *Tree) seat(slot, group int32, at Node, stage Stage) {
	op := t.elements[slot].operation
	g := &op.groups[group]
	t.noteAlone(g)
	t.assembly.members = append(t.assembly.members, member{at, group, stage, g.Resources})
	g.Waiting--
	op.waiting--
	n := &t.nodes[at]
	t.stir(at)
	n.usage = n.usage.Add(g.Resources)
	t.weighNode(n)
	t.addUsage(slot, g.Resources)
	t.refresh(slot)
}

// assemble keeps room on a node for members of the gang that assembles, where
// allocations must leave first. Unlike preemptive stages it takes as many as fit: the
// gang starts with all of them or with none.
func (t *Tree) assemble(at Node, d *Decisions) {
	a := &t.assembly
	if a.slot == none || a.right == NonStarving {
		return
	}
	n := &t.nodes[at]
	stage := stageOf(a.right)
	for t.mayJoin(a.slot) {
		d.Attempts[stage]++
		usable := t.gangVictims(n, stage)
		room := n.free()
		for _, id := range usable {
			room = room.Add(t.allocations[id].usage)
		}
		group, refusal := t.fits(a.slot, n, room, true)
		if refusal != RefusedNothing {
			t.refuse(a.slot, refusal)
			return
		}
		t.seat(a.slot, group, at, stage)
		d.Kept++
		t.takeTentatively(n, usable)
	}
}

// gangVictims lists the allocations of a node that may leave for the gang that
// assembles, in the order in which they would: members of gangs that lose all with
// one go last. The rules are those of usable. Satisfaction is compared with what the
// gang had before it assembled, and with what victims would have left without all
// that leaves for it.
func (t *Tree) gangVictims(n *node, stage Stage) []Allocation {
	a := &t.assembly
	all := t.victims(n.allocations[:n.settled], stage)
	slices.SortStableFunc(all, func(i, j Allocation) int {
		x, y := t.elements[t.allocations[i].operation].operation, t.elements[t.allocations[j].operation].operation
		switch {
		case x.isWhole() == y.isWhole():
			return 0
		case x.isWhole():
			return 1
		}
		return -1
	})
	e := &t.elements[a.slot]
	used := e.usage
	for i := range a.members {
		used = used.Sub(a.members[i].resources)
	}
	share := used.Share(t.total)
	taken := t.taken[:0]
	for _, v := range a.victims {
		victim := &t.allocations[v.allocation]
		i := takenIndex(&taken, victim.operation)
		taken[i].amounts = taken[i].amounts.Add(victim.usage)
	}
	return t.usableBeyond(a.starver, e.entitlement.satisfaction(&share), all, taken, true)
}

// takeTentatively makes allocations tentative victims until the others fit into the
// node with the member that was seated last. Where one takes its whole gang along, all
// become victims.
func (t *Tree) takeTentatively(n *node, usable []Allocation) {
	last := int32(len(t.assembly.members) - 1)
	chosen := 0
	usage := n.usage
	for chosen < len(usable) && !n.limits.Dominates(usage) {
		usage = usage.Sub(t.allocations[usable[chosen]].usage)
		chosen++
	}
	spared := t.spare(n, usable[:chosen], usage)
	for i, id := range usable[:chosen] {
		if spared[i] || t.allocations[id].tentative {
			continue
		}
		op := t.elements[t.allocations[id].operation].operation
		if !op.isWhole() {
			t.lend(id, last)
			continue
		}
		for other := op.oldest; other != none; other = t.allocations[other].after {
			if a := &t.allocations[other]; !a.tentative && !a.preempted {
				t.lend(other, last)
			}
		}
	}
}

// lend makes an allocation a tentative victim.
func (t *Tree) lend(id Allocation, member int32) {
	a := &t.allocations[id]
	a.tentative = true
	t.assembly.victims = append(t.assembly.victims, tentative{id, member})
	n := &t.nodes[a.node]
	n.usage = n.usage.Sub(a.usage)
	t.pulses[a.node].changed, t.pulses[a.node].full = true, 0
	t.weighNode(n)
}

// returnAll takes back all room that is kept, and all tentative victims.
func (t *Tree) returnAll() {
	a := &t.assembly
	for _, v := range a.victims {
		victim := &t.allocations[v.allocation]
		victim.tentative = false
		n := &t.nodes[victim.node]
		n.usage = n.usage.Add(victim.usage)
		t.stir(victim.node)
		t.weighNode(n)
	}
	op := t.elements[a.slot].operation
	for i := range a.members {
		m := &a.members[i]
		op.groups[m.group].Waiting++
		op.waiting++
		n := &t.nodes[m.node]
		n.usage = n.usage.Sub(m.resources)
		t.pulses[m.node].changed, t.pulses[m.node].full = true, 0
		t.weighNode(n)
		t.addUsage(a.slot, resource.Amounts{}.Sub(m.resources))
	}
	t.lowerLeast(a.slot)
	t.refresh(a.slot)
	a.members, a.victims = a.members[:0], a.victims[:0]
}

// conclude starts the gang that assembles if there is room for all of its members.
func (t *Tree) conclude(now time.Time, d *Decisions) {
	a := &t.assembly
	if a.slot == none || len(a.members) < int(t.elements[a.slot].operation.gang.lack) {
		return
	}
	slot, g := a.slot, t.elements[a.slot].operation.gang
	members, victims := slices.Clone(a.members), slices.Clone(a.victims)
	t.assembled = append(t.assembled, Assembled{
		Operation: slot, Result: GangStarted, Since: a.since, Members: len(members), Needed: int(g.lack), Victims: len(victims),
	})
	t.returnAll()
	a.slot, g.lack = none, 0
	started := make([]Allocation, len(members))
	for i, m := range members {
		started[i] = t.startAllocation(now, slot, m.group, m.node)
		d.Starts = append(d.Starts, Start{Allocation: started[i], Operation: slot, Group: m.group, Stage: m.stage, Gang: true})
	}
	for _, v := range victims {
		t.takeAway(v.allocation, Preemption{Reason: PreemptedForStarving, For: started[v.member], Limiter: none}, d)
	}
	t.chooseGang(now)
}

// giveUp ends an assembly that has taken too long. The gang steps aside.
func (t *Tree) giveUp(now time.Time) {
	slot := t.assembly.slot
	t.endAssembly(GangTimedOut)
	t.stepAside(now, slot)
	t.assembled[len(t.assembled)-1].Aside = t.elements[slot].operation.gang.aside
}

// abandon ends the assembly of an operation, if it assembles, because it changes.
func (t *Tree) abandon(slot int32) {
	if t.assembly.slot == slot {
		t.endAssembly(GangChanged)
	}
}

// TakesNoJobs gives back room for members of a gang on a node that takes no jobs now.
func (t *Tree) TakesNoJobs(at Node) { t.abandonAt(at) }

// abandonAt ends the assembly if room on a node is part of it.
func (t *Tree) abandonAt(at Node) {
	a := &t.assembly
	if a.slot == none {
		return
	}
	if slices.ContainsFunc(a.members, func(m member) bool { return m.node == at }) ||
		slices.ContainsFunc(a.victims, func(v tentative) bool { return t.allocations[v.allocation].node == at }) {
		t.endAssembly(GangChanged)
	}
}

func (t *Tree) endAssembly(result GangResult) {
	a := &t.assembly
	t.assembled = append(t.assembled, Assembled{
		Operation: a.slot, Result: result, Since: a.since,
		Members: len(a.members), Needed: int(t.elements[a.slot].operation.gang.lack), Victims: len(a.victims),
	})
	t.mark(a.slot, forReaders)
	t.returnAll()
	a.slot = none
}

// forgetVictim removes an allocation that has ended from the tentative victims.
func (t *Tree) forgetVictim(id Allocation) {
	t.assembly.victims = slices.DeleteFunc(t.assembly.victims, func(v tentative) bool { return v.allocation == id })
	t.allocations[id].tentative = false
}

// waitsAlike reports whether groups are those of the gang that assembles, with the
// jobs for which room is kept.
func (t *Tree) waitsAlike(groups []Group) bool {
	op := t.elements[t.assembly.slot].operation
	if len(groups) != len(op.groups) {
		return false
	}
	for i := range groups {
		waiting := op.groups[i].Waiting
		for _, m := range t.assembly.members {
			if m.group == int32(i) {
				waiting++
			}
		}
		if groups[i].Resources != op.groups[i].Resources || groups[i].Waiting != waiting {
			return false
		}
	}
	return true
}

// gangsQuietUntil calls until with each time at which an update may have to do
// something for gangs.
func (t *Tree) gangsQuietUntil(now time.Time, until func(time.Time)) {
	if t.assembly.slot != none {
		until(t.assembly.since.Add(t.settings.GangAssembly))
	}
	for _, slot := range t.gangs {
		if op := t.elements[slot].operation; op.isWaitingGang() && op.isCandidate() && now.Before(op.gang.aside) {
			until(op.gang.aside)
		}
	}
}

// GangOutlook states what a gang waits for.
type GangOutlook struct {
	// Lack is how many members must start together, Waiting how many wait, Fitting
	// how many find room, at most, with preemption if the gang starves.
	Lack, Waiting, Fitting int64
	// Kept is for how many members room is kept; Assembling reports that the gang
	// assembles, since Since.
	Kept       int64
	Assembling bool
	Since      time.Time
	// Aside is until when it steps aside; it is in the past if it does not.
	Aside time.Time
	// Ahead is the operation that assembles meanwhile, none if there is none.
	Ahead int32
}

// gangOutlook returns what a waiting gang waits for.
func (t *Tree) gangOutlook(slot int32, closed func(Node) bool) *GangOutlook {
	op, a := t.elements[slot].operation, &t.assembly
	o := &GangOutlook{Lack: int64(op.gang.lack), Waiting: int64(op.waiting), Aside: op.gang.aside, Ahead: none}
	right := t.priority(slot)
	switch {
	case a.slot == slot:
		o.Assembling, o.Since, o.Kept, right = true, a.since, int64(len(a.members)), max(right, a.right)
	case a.slot != none:
		o.Ahead = a.slot
	}
	o.Waiting += o.Kept
	o.Fitting = o.Kept + t.gangBound(slot, right, closed)
	return o
}

// dropGang forgets that an operation that leaves the tree is a gang.
func (t *Tree) dropGang(slot int32) {
	if e := &t.elements[slot]; e.kind == fairshare.KindOperation && e.operation.gang != nil {
		t.gangs = slices.DeleteFunc(t.gangs, func(s int32) bool { return s == slot })
	}
}

// hashGangs writes the gang that assembles into a hash.
func (t *Tree) hashGangs(w *writer) {
	a := &t.assembly
	if a.slot == none {
		return
	}
	w.number(int64(a.slot), int64(a.right), int64(a.starver))
	w.time(a.since)
	for _, m := range a.members {
		w.number(int64(m.node), int64(m.group), int64(m.stage))
		w.amounts(m.resources)
	}
	for _, v := range a.victims {
		w.number(int64(v.allocation), int64(v.member))
	}
}
