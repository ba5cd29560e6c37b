package scheduling

import (
	"time"

	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/resource"
)

// Obstacle is one reason why waiting jobs of an operation do not start, with
// the amounts that show it.
type Obstacle struct {
	Refusal Refusal
	// Group is the kind of jobs that the obstacle keeps waiting, none for all
	// kinds.
	Group int32
	// Element is the pool or operation whose limit is reached, whose count is full
	// or whose filter excludes nodes; none otherwise.
	Element int32
	// Resource is the scarce resource; Needed is how much of it a job needs and
	// Available the most there is: under the limit, or on the best node.
	Resource          resource.Kind
	Needed, Available int64
	// Nodes is the number of nodes with this obstacle, TooSmall the number of
	// them that would have it even if they were empty.
	Nodes, TooSmall int
}

// Explanation is why waiting jobs of an operation do not start.
type Explanation struct {
	Waiting int32
	// Nodes is the number of nodes in the tree; Fitting is the number of them on
	// which a waiting job would fit right now, if it were this operation's turn.
	Nodes, Fitting int
	Obstacles      []Obstacle
	Groups         []GroupExplanation
	Starvation     StarvationOutlook
	Preemption     PreemptionOutlook
	// Share derives the fair share; HasShare is false before the first update.
	Share    fairshare.Derivation
	HasShare bool
}

// GroupExplanation explains one kind of jobs.
type GroupExplanation struct {
	Group
	// Fitting is the number of nodes on which a job would fit right now.
	Fitting int
}

// StarvationOutlook states whether an element starves, and when it will.
type StarvationOutlook struct {
	Status     Status
	Starvation Starvation
	// BelowSince is since when it has been below its fair share, StarvingSince
	// since when it starves; each is zero if it does not apply.
	BelowSince, StarvingSince time.Time
	// Timeout is how long it may be below until it starves, AggressiveTimeout
	// until it starves aggressively, if Aggressive allows that.
	Timeout, AggressiveTimeout time.Duration
	Aggressive                 bool
	Tolerance                  float64
	// WithinTolerance reports that it has less than its fair share, but not so
	// much less that it is below it; CoversDemand that the fair share is all that
	// it demands.
	WithinTolerance, CoversDemand bool
}

// PreemptionOutlook states whether preemption can help an operation.
type PreemptionOutlook struct {
	// Priority is the worst starvation of the operation and of the pools above
	// it. By is the element with that starvation; it is none if nothing starves,
	// and then nothing is preempted for the operation.
	Priority Starvation
	By       int32
	// Normal and Aggressive are the numbers of nodes on which a waiting job
	// would fit without the allocations that each stage may preempt there,
	// whether or not the operation starves.
	Normal, Aggressive int
}

// Explain finds every obstacle for an operation's waiting jobs. It visits all
// nodes, so call it on a user's request, not on heartbeats.
func (t *Tree) Explain(slot int32) Explanation {
	op := t.elements[slot].operation
	x := Explanation{Waiting: op.waiting, Starvation: t.starvationOutlook(slot)}
	x.Preemption.Priority, x.Preemption.By = t.priority(slot), none
	if x.Preemption.Priority != NonStarving {
		x.Preemption.By = t.starver(slot, StageNormal)
	}
	if x.HasShare = t.elements[slot].known && t.result.Pool(t.elements[slot].parent) != nil; x.HasShare {
		x.Share = fairshare.Explain(&t.shares, &t.result, slot)
	}
	for _, g := range op.groups {
		x.Groups = append(x.Groups, GroupExplanation{Group: g})
	}
	add := func(o Obstacle) { x.Obstacles = append(x.Obstacles, o) }
	if !t.explainState(slot, add) {
		return x
	}
	for g := range op.groups {
		if op.groups[g].Waiting > 0 {
			t.explainLimits(slot, int32(g), add)
		}
	}
	t.explainNodes(slot, &x, add)
	return x
}

// explainState adds the obstacles that do not depend on nodes, and reports
// whether it is worth looking at nodes.
func (t *Tree) explainState(slot int32, add func(Obstacle)) bool {
	e := &t.elements[slot]
	op := e.operation
	switch {
	case !op.running:
		p := t.elements[op.waitsAt].pool
		add(Obstacle{Refusal: RefusedCount, Group: none, Element: op.waitsAt, Needed: int64(p.running) + 1, Available: int64(p.maxRunning)})
		return false
	case op.suspended:
		add(Obstacle{Refusal: RefusedSuspended, Group: none, Element: none})
		return false
	case op.waiting == 0:
		add(Obstacle{Refusal: RefusedNoDemand, Group: none, Element: none})
		return false
	}
	if op.graceful && e.status == Normal {
		add(Obstacle{Refusal: RefusedGracefulAboveShare, Group: none, Element: none})
	}
	return true
}

func (t *Tree) starvationOutlook(slot int32) StarvationOutlook {
	e := &t.elements[slot]
	s := StarvationOutlook{
		Status: e.status, Starvation: e.starvation, BelowSince: e.belowSince, StarvingSince: e.rest().starvingSince,
		Aggressive: e.patience.Aggressive, Tolerance: e.patience.Tolerance,
	}
	s.Timeout, s.AggressiveTimeout = t.timeouts(slot)
	usage := e.usage.Share(t.total)
	s.WithinTolerance = e.known && e.status == Normal && e.operation.isCandidate() && e.exceeds(&e.share, &usage)
	s.CoversDemand = e.coversDemand()
	return s
}

// Patience returns the values that decide about the starvation of an element.
func (t *Tree) Patience(slot int32) *pooltree.Starvation { return &t.elements[slot].patience }

// explainLimits adds the limits, from the operation up, that leave no room
// for one more job.
func (t *Tree) explainLimits(slot, group int32, add func(Obstacle)) {
	need := t.elements[slot].operation.groups[group].Resources
	refusal := RefusedOperationLimit
	for at := slot; ; at = t.elements[at].parent {
		e := &t.elements[at]
		for _, k := range resource.Kinds {
			if room := e.limits[k] - e.usage[k]; need[k] > 0 && room < need[k] {
				add(Obstacle{Refusal: refusal, Group: group, Element: at, Resource: k, Needed: need[k], Available: max(room, 0)})
			}
		}
		if at == 0 {
			return
		}
		refusal = RefusedPoolLimit
	}
}

// excluder returns the operation or the lowest pool above it whose filter
// excludes a node, or none.
func (t *Tree) excluder(slot int32, n *node) int32 {
	if !t.elements[slot].operation.filter.Matches(n.hasTag) {
		return slot
	}
	for at := t.elements[slot].parent; at != 0; at = t.elements[at].parent {
		if !t.elements[at].pool.filter.Matches(n.hasTag) {
			return at
		}
	}
	return none
}

// explainNodes counts nodes by obstacle: filters, bans and, for every kind of
// jobs, the scarce resources.
func (t *Tree) explainNodes(slot int32, x *Explanation, add func(Obstacle)) {
	op := t.elements[slot].operation
	var excluded []Obstacle // by excluder, from the operation up
	for at := slot; at != 0; at = t.elements[at].parent {
		excluded = append(excluded, Obstacle{Refusal: RefusedTag, Group: none, Element: at})
	}
	banned := Obstacle{Refusal: RefusedBanned, Group: none, Element: slot}
	short := make([][resource.KindCount]Obstacle, len(op.groups))
	for at := range t.nodes {
		n := &t.nodes[at]
		if !n.alive {
			continue
		}
		x.Nodes++
		if by := t.excluder(slot, n); by != none {
			for i := range excluded {
				if excluded[i].Element == by {
					excluded[i].Nodes++
				}
			}
			continue
		}
		if op.avoids(n.id) {
			banned.Nodes++
			continue
		}
		if t.explainNode(op, n, short, x) {
			x.Fitting++
		}
		t.explainPreemption(slot, n, &x.Preemption)
	}
	for _, o := range append(excluded, banned) {
		if o.Nodes > 0 {
			add(o)
		}
	}
	for g := range short {
		for k, o := range short[g] {
			if o.Nodes > 0 {
				o.Refusal, o.Group, o.Element = RefusedNodeResources, int32(g), none
				o.Resource, o.Needed = resource.Kind(k), op.groups[g].Resources[k]
				add(o)
			}
		}
	}
}

// explainNode notes what a node lacks for each kind of waiting jobs, and
// reports whether one of them would fit.
func (t *Tree) explainNode(op *operationState, n *node, short [][resource.KindCount]Obstacle, x *Explanation) (fits bool) {
	free := n.free()
	for g := range op.groups {
		if op.groups[g].Waiting == 0 {
			continue
		}
		need, lacks := op.groups[g].Resources, false
		for k := range need {
			if free[k] >= need[k] {
				continue
			}
			lacks = true
			o := &short[g][k]
			o.Nodes++
			o.Available = max(o.Available, free[k])
			if n.limits[k] < need[k] {
				o.TooSmall++
			}
		}
		if !lacks {
			x.Groups[g].Fitting++
			fits = true
		}
	}
	return fits
}

// explainPreemption checks whether a waiting job would fit on a node without
// the allocations that may be preempted. If nothing starves, it treats the
// operation itself as the starving element.
func (t *Tree) explainPreemption(slot int32, n *node, o *PreemptionOutlook) {
	for _, stage := range [...]Stage{StageAggressive, StageNormal} {
		starver := t.starver(slot, stage)
		if starver == 0 {
			starver = slot
		}
		room := n.free()
		for _, id := range t.usable(slot, starver, t.victims(n.allocations, stage)) {
			room = room.Add(t.allocations[id].usage)
		}
		for _, g := range t.elements[slot].operation.groups {
			if g.Waiting == 0 || !room.Dominates(g.Resources) || t.withinLimits(slot, g.Resources) != RefusedNothing {
				continue
			}
			if stage == StageNormal {
				o.Normal++
			} else {
				o.Aggressive++
			}
			break
		}
	}
}
