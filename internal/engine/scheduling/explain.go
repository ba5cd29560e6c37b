package scheduling

import (
	"slices"
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
	// Limit, Used, Option and Since describe a limit: its amount, what the element
	// uses, the option that sets it, and since when updates have found no room
	// under it for the smallest waiting job (zero if that is unknown).
	Limit, Used int64
	Option      LimitOption
	Since       time.Time
	// Nodes is the number of nodes with this obstacle, TooSmall the number of
	// them that would have it even if they were empty. At lists them.
	Nodes, TooSmall int
	At              []Node
}

// LimitOption is the option that sets a limit.
type LimitOption uint8

const (
	ByResourceLimits LimitOption = iota
	ByMaxShareRatio
	// ByTagFilter: the nodes that match the element's filter have no more.
	ByTagFilter
)

// String returns the name of the option in outputs.
func (o LimitOption) String() string {
	return [...]string{"resource_limits", "max_share_ratio", "scheduling_tag_filter"}[o]
}

// Explanation is why waiting jobs of an operation do not start.
type Explanation struct {
	Waiting int32
	// Nodes is the number of nodes in the tree; Fitting is the number of open and
	// matching nodes with room for a waiting job, whatever the limits say. Closed is
	// the number of nodes that get no jobs for reasons outside the tree.
	Nodes, Fitting, Closed int
	Obstacles              []Obstacle
	Groups                 []GroupExplanation
	Starvation             StarvationOutlook
	Preemption             PreemptionOutlook
	// Share derives the fair share; HasShare is false before the first update.
	Share    fairshare.Derivation
	HasShare bool
	// Gang is nil unless jobs start only together.
	Gang *GangOutlook
}

// GroupExplanation explains one kind of jobs.
type GroupExplanation struct {
	Group
	// Fitting is the number of nodes with room for a job, Lacking the number of open
	// and matching ones without, TooSmall the number of these that lack room even if
	// empty. Free is what the lacking nodes have left together.
	Fitting, Lacking, TooSmall int
	// Denied is the number of nodes that deny the constraint class of the jobs.
	Denied int
	Free   resource.Amounts
	// Largest is the most of every resource that a matching node has.
	Largest resource.Amounts
	// Need is what a node must have free: what a job needs, and at least the tree's
	// min_spare_resources.
	Need resource.Amounts
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

// Explain finds every obstacle for an operation's waiting jobs. closed reports
// nodes that get no jobs for reasons outside the tree; nil means none. It visits
// all nodes, so call it on a user's request, not on heartbeats. It changes
// nothing: explanations of one tree may run concurrently. Only with preemption does
// it find out what preemption could do, which costs the most.
func (t *Tree) Explain(slot int32, closed func(Node) bool, preemption bool) Explanation {
	own := *t // with its own scratch memory
	own.victimList, own.usableList, own.taken = nil, nil, nil
	return own.explain(slot, closed, preemption)
}

func (t *Tree) explain(slot int32, closed func(Node) bool, preemption bool) Explanation {
	op := t.elements[slot].operation
	x := Explanation{Waiting: op.waiting, Starvation: t.starvationOutlook(slot)}
	x.Preemption.Priority, x.Preemption.By = t.priority(slot), none
	if x.Preemption.Priority != NonStarving {
		x.Preemption.By = t.starver(slot, StageNormal)
	}
	if x.HasShare = t.elements[slot].known && t.result.Pool(t.elements[slot].parent) != nil; x.HasShare {
		x.Share = fairshare.Explain(&t.shares, &t.result, slot)
		x.Share.Share = t.SplitByCause(slot)
	}
	for _, g := range op.groups {
		x.Groups = append(x.Groups, GroupExplanation{Group: g, Need: g.Resources.Max(t.settings.MinSpare)})
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
	t.explainNodes(slot, &x, closed, add)
	if op.isWaitingGang() {
		x.Gang = t.gangOutlook(slot, closed)
		add(Obstacle{Refusal: RefusedGang, Group: none, Element: none, Needed: x.Gang.Lack, Available: min(x.Gang.Fitting, x.Gang.Waiting)})
	}
	if preemption && t.mayStart(slot) { // else limits leave no room, whatever is preempted
		worse := t.worseOff(slot)
		for at := range t.nodes {
			if n := &t.nodes[at]; n.alive && t.excluder(slot, n) == none && !op.avoids(n.id) && (closed == nil || !closed(n.id)) {
				t.explainPreemption(slot, n, worse, &x.Preemption)
			}
		}
	}
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

// Queue is what decides when an operation is served.
type Queue struct {
	// LastStart is when a job last started, or when the operation entered the tree.
	LastStart    time.Time
	Satisfaction float64
	FIFO         bool // its pool orders operations by age
	// PackingRefusals counts the nodes on which only packing kept jobs waiting.
	PackingRefusals uint32
	// Usage and Demand are those of the last update.
	Usage, Demand resource.Amounts
}

// Queue returns what decides when an operation is served.
func (t *Tree) Queue(slot int32) Queue {
	e := &t.elements[slot]
	op := e.operation
	share := &t.shares.Elements[slot]
	return Queue{
		LastStart: latest(op.startedAt, op.activatedAt), Satisfaction: e.satisfaction, FIFO: t.elements[e.parent].pool.fifo,
		PackingRefusals: op.refusals[RefusedPacking], Usage: share.Usage, Demand: share.Demand,
	}
}

// Usage returns what an element uses now.
func (t *Tree) Usage(slot int32) resource.Amounts { return t.elements[slot].usage }

// UsageOn returns what each operation, by slot, uses of a resource on some nodes.
func (t *Tree) UsageOn(nodes []Node, k resource.Kind) []int64 {
	amounts := make([]int64, len(t.elements))
	add := func(n Node, sign int64) {
		for _, id := range t.nodes[n].allocations {
			amounts[t.allocations[id].operation] += sign * t.allocations[id].usage[k]
		}
	}
	if 2*len(nodes) <= len(t.nodes) {
		for _, n := range nodes {
			add(n, 1)
		}
		return amounts
	}
	// Most nodes: what all use, less what the others have.
	listed := make([]bool, len(t.nodes))
	for _, n := range nodes {
		listed[n] = true
	}
	for slot := range t.elements {
		if e := &t.elements[slot]; e.kind == fairshare.KindOperation {
			amounts[slot] = e.usage[k]
		}
	}
	for n := range t.nodes {
		if t.nodes[n].alive && !listed[n] {
			add(Node(n), -1)
		}
	}
	return amounts
}

// OldestStart returns when the oldest running job of an operation started; zero if
// none runs.
func (t *Tree) OldestStart(slot int32) time.Time {
	at := t.elements[slot].operation.oldest
	if at == none {
		return time.Time{}
	}
	return t.allocations[at].progress
}

// IsBelow reports whether an element is a pool or somewhere below it.
func (t *Tree) IsBelow(pool, slot int32) bool { return t.isWithin(pool, slot) }

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
		byRatio := Obstacle{Element: none}
		for _, k := range resource.Kinds {
			room := e.limits[k] - e.usage[k]
			if need[k] == 0 || room >= need[k] {
				continue
			}
			o := Obstacle{
				Refusal: refusal, Group: group, Element: at, Resource: k, Needed: need[k], Available: max(room, 0),
				Limit: e.limits[k], Used: e.usage[k], Option: t.limitOption(at, k), Since: e.rest().fullSince(k),
			}
			if o.Option != ByMaxShareRatio {
				add(o)
			} else if byRatio.Element == none || t.part(&need, k) > t.part(&need, byRatio.Resource) {
				byRatio = o // one option is one obstacle: that of the largest part of the tree
			}
		}
		if byRatio.Element != none {
			add(byRatio)
		}
		if at == 0 {
			return
		}
		refusal = RefusedPoolLimit
	}
}

// part returns what share of the tree's total an amount is.
func (t *Tree) part(amounts *resource.Amounts, k resource.Kind) float64 {
	return amounts.Share(t.total)[k]
}

// limitOption returns the option that sets the limit of an element on a resource.
func (t *Tree) limitOption(slot int32, k resource.Kind) LimitOption {
	e := &t.elements[slot]
	if specified, ok := e.rest().specified.Get(k); ok && specified <= e.limits[k] {
		return ByResourceLimits
	}
	own := t.shares.Elements[slot].Limits.OrUnlimited()[k]
	filtered := e.operation != nil && !e.operation.filter.IsEmpty() || e.pool != nil && !e.pool.filter.IsEmpty()
	if filtered && own <= e.limits[k] {
		return ByTagFilter
	}
	return ByMaxShareRatio
}

// SplitByCause returns an element's fair share by cause. An operation has its part
// of what its pool has by each cause: the parts of a pool's operations and pools
// sum to the pool's.
func (t *Tree) SplitByCause(slot int32) fairshare.Split {
	split := t.result.Split(slot)
	e := &t.elements[slot]
	if e.operation == nil || t.result.Pool(e.parent) == nil {
		return split
	}
	left := t.result.Split(e.parent) // by the pool's operations together
	var siblings resource.Shares
	for other := range t.elements {
		o := &t.elements[other]
		switch {
		case o.parent != e.parent || other == 0 || o.kind == fairshare.KindNone || !o.known:
		case o.operation != nil:
			siblings = siblings.Add(t.result.Elements[other].FairShare)
		default:
			own := t.result.Split(int32(other))
			left.Strong, left.Integral = left.Strong.Sub(own.Strong), left.Integral.Sub(own.Integral)
		}
	}
	for k, share := range split.Total {
		if siblings[k] <= 0 {
			continue
		}
		part := share / siblings[k]
		split.Strong[k] = min(max(left.Strong[k], 0)*part, share)
		split.Integral[k] = min(max(left.Integral[k], 0)*part, share-split.Strong[k])
		split.WeightProportional[k] = share - split.Strong[k] - split.Integral[k]
	}
	return split
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
func (t *Tree) explainNodes(slot int32, x *Explanation, closed func(Node) bool, add func(Obstacle)) {
	op := t.elements[slot].operation
	var excluded []Obstacle // by excluder, from the operation up
	for at := slot; at != 0; at = t.elements[at].parent {
		excluded = append(excluded, Obstacle{Refusal: RefusedTag, Group: none, Element: at})
	}
	banned := Obstacle{Refusal: RefusedBanned, Group: none, Element: slot}
	denied := make([]Obstacle, len(op.groups))
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
					excluded[i].meets(n)
				}
			}
			continue
		}
		if op.avoids(n.id) {
			banned.meets(n)
			continue
		}
		if closed != nil && closed(n.id) {
			x.Closed++
			continue
		}
		if t.explainNode(op, n, short, denied, x) {
			x.Fitting++
		}
	}
	for _, o := range append(excluded, banned) {
		if o.Nodes > 0 {
			add(o)
		}
	}
	for g, o := range denied {
		if o.Nodes > 0 {
			o.Refusal, o.Group, o.Element = RefusedConstraints, int32(g), none
			add(o)
		}
	}
	for g := range short {
		for k, o := range short[g] {
			if o.Nodes > 0 {
				o.Refusal, o.Group, o.Element = RefusedNodeResources, int32(g), none
				o.Resource, o.Needed = resource.Kind(k), x.Groups[g].Need[k]
				add(o)
			}
		}
	}
}

// meets counts a node with the obstacle.
func (o *Obstacle) meets(n *node) {
	o.Nodes++
	o.At = append(o.At, n.id)
}

// explainNode notes what a node lacks for each kind of waiting jobs, and
// reports whether one of them would fit.
func (t *Tree) explainNode(op *operationState, n *node, short [][resource.KindCount]Obstacle, denied []Obstacle, x *Explanation) (fits bool) {
	free := n.free()
	for g := range op.groups {
		if op.groups[g].Waiting == 0 {
			continue
		}
		group := &x.Groups[g]
		if n.denied.Has(op.groups[g].Class) {
			group.Denied++
			denied[g].meets(n)
			continue
		}
		need := group.Need
		group.Largest = group.Largest.Max(n.limits)
		if free.Dominates(need) {
			group.Fitting++
			fits = true
			continue
		}
		group.Lacking++
		group.Free = group.Free.Add(free.Max(resource.Amounts{}))
		if !n.limits.Dominates(need) {
			group.TooSmall++
		}
		for k := range need {
			if free[k] >= need[k] {
				continue
			}
			o := &short[g][k]
			o.meets(n)
			o.Available = max(o.Available, free[k])
			if n.limits[k] < need[k] {
				o.TooSmall++
			}
		}
	}
	return fits
}

// worseOff marks the operations that are no more satisfied than another. Satisfaction
// only falls when they lose something, so none of their aggressively preemptible
// allocations is usable for it.
func (t *Tree) worseOff(slot int32) []bool {
	used := t.elements[slot].usage.Share(t.total)
	satisfied := t.elements[slot].entitlement.satisfaction(&used)
	worse := make([]bool, len(t.elements))
	for i := range t.elements {
		if e := &t.elements[i]; e.operation != nil && e.kind == fairshare.KindOperation {
			used := e.usage.Share(t.total)
			worse[i] = e.entitlement.satisfaction(&used) <= satisfied
		}
	}
	return worse
}

// explainPreemption checks whether a waiting job would fit on a node without
// the allocations that may be preempted. If nothing starves, it treats the operation
// itself as the starving element.
func (t *Tree) explainPreemption(slot int32, n *node, worse []bool, o *PreemptionOutlook) {
	victims, most := t.victimList[:0], n.free()
	for _, id := range n.allocations {
		a := &t.allocations[id]
		if a.class == AggressivelyPreemptible && worse[a.operation] {
			continue
		}
		if t.isVictim(a, StageAggressive) {
			victims, most = append(victims, id), most.Add(a.usage)
		}
	}
	t.victimList = victims
	if !t.elements[slot].operation.mayFit(&most) {
		return
	}
	slices.SortFunc(victims, t.goesBefore)
	if t.fitsWithout(slot, n, StageAggressive, victims) {
		o.Aggressive++
	}
	// The victims of the normal stage are among those of the aggressive one.
	victims = slices.DeleteFunc(victims, func(id Allocation) bool { return !t.isVictim(&t.allocations[id], StageNormal) })
	if t.fitsWithout(slot, n, StageNormal, victims) {
		o.Normal++
	}
}

// fitsWithout reports whether a waiting job of an operation would fit on a node without
// the victims of a stage, which are in the order of preemption. A few of them are enough
// for most jobs, so it tries the first ones first: a prefix of the victims has a prefix
// of those that may be preempted for the operation.
func (t *Tree) fitsWithout(slot int32, n *node, stage Stage, victims []Allocation) bool {
	starver := t.starver(slot, stage)
	if starver == 0 {
		starver = slot
	}
	for count := 2; ; count *= 4 {
		room, some := n.free(), victims[:min(count, len(victims))]
		for _, id := range t.usable(slot, starver, some) {
			room = room.Add(t.allocations[id].usage)
		}
		for _, g := range t.elements[slot].operation.groups {
			if g.Waiting > 0 && !n.denied.Has(g.Class) && room.Dominates(g.Resources) && t.withinLimits(slot, g.Resources) == RefusedNothing {
				return true
			}
		}
		if count >= len(victims) {
			return false
		}
	}
}
