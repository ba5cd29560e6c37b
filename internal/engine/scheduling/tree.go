package scheduling

import (
	"time"

	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/nodefilter"
	"github.com/weirhq/weir/internal/value/resource"
)

// Tree is the state of one pool tree.
type Tree struct {
	settings Settings
	total    resource.Amounts // of all nodes

	elements    []element // by slot; the root is slot 0
	freeSlots   []int32
	nodes       []node
	pulses      []pulse // by node
	freeNodes   []Node
	allocations []allocation
	freeAllocs  []Allocation

	engine     fairshare.Engine `save:"-"`
	shares     fairshare.Tree   // slots are those of elements
	result     fairshare.Result
	clocksHeld bool // see HoldClocks
	updated    time.Time
	clock      int64     // microseconds since 1970: the last update, or the last heartbeat that was not passed
	begun      time.Time // the first update
	nextClock  time.Time // when the next element starts to starve unless something happens
	// boundedAt is when the shares of all operations were last bounded by nodes.
	boundedAt time.Time
	best      bestShares `save:"-"`
	rebound   bool       // nodes or pools have changed since then
	resized   []int32    // operations whose jobs have changed since they were bounded
	below     []int32    // elements whose starvation clock runs, perhaps others
	relimit   bool       // limits that are parts of others may have changed
	due       []int32    `save:"-"` // elements that an update publishes, in order
	isDue     []bool     `save:"-"` // the same by slot
	// room changes when smaller jobs wait than before, so that full nodes may have
	// room again.
	room    uint32
	updates uint64 // counts updates
	// heartbeats counts the heartbeats of all nodes.
	heartbeats uint64

	lonely   []int32 `save:"-"` // classes of which no more jobs start on the current heartbeat
	benched  []int32 `save:"-"` // elements set aside for the rest of a stage
	misfits  []int32 `save:"-"` // operations that only packing keeps off the current node
	starving [2][]int32
	// starvingLeast bounds from below what any waiting job of a starving
	// operation needs.
	starvingLeast resource.Amounts
	guaranteed    []int32      // operations below what guarantees alone promise them
	overloaded    int          // nodes that hold more than they have
	excesses      int          // elements above their limits, and operations that are preempted gracefully
	victimList    []Allocation `save:"-"`
	usableList    []Allocation `save:"-"`
	taken         []takenFrom  `save:"-"`
	spared        []bool       `save:"-"`
	winner        standing     `save:"-"` // of the operation for which a heartbeat preempts

	toUpdate   []int32  // elements marked forUpdate
	toShow     []int32  // elements marked for readers
	reoffered  []int32  `save:"-"` // pools in which readers see other attributes of operations
	shown      []glance `save:"-"` // by slot: as of the last TakeChanges
	shownTotal resource.Amounts
	spent      []int32        `save:"-"` // elements whose usage has changed; see TakeUsage
	promises   promiseScratch `save:"-"`

	gangs     []int32 // operations that are gangs
	assembly  assembly
	assembled []Assembled // since the last TakeAssembled
	gangQueue []int32     `save:"-"`
}

// Settings are the settings of a tree that concern scheduling.
type Settings struct {
	pooltree.TreePreemption
	// MinSpare is the least a node must have free for the scheduler to consider
	// it.
	MinSpare resource.Amounts
	// FIFOBySatisfaction orders operations in FIFO pools by satisfaction, as in
	// other pools.
	FIFOBySatisfaction bool
	// GuaranteesFirst first serves operations that have less than guarantees
	// alone promise them, in pools that compute such promises.
	GuaranteesFirst bool
	// OvercommitPatience is how long the allocations of a node may hold more
	// than the node has.
	OvercommitPatience time.Duration
	Packing            Packing
	// BestSharePeriod is the interval between computations of how much of an
	// operation fits on nodes of these sizes; zero disables them.
	BestSharePeriod time.Duration
	// NodeReconnection is how long after the first update nodes may still be
	// coming back.
	NodeReconnection time.Duration
	// GangAssembly is how long the members of a gang may take to find room.
	GangAssembly time.Duration
}

// element is a pool or an operation.
type element struct {
	kind   fairshare.Kind
	parent int32
	// place is the position in the parent's heap, none while the element is not
	// a candidate.
	place        int32
	key          float64 // its sort key there
	satisfaction float64
	usage        resource.Amounts
	limits       resource.Amounts // unlimited where there are none
	entitlement
	// promised is the part of the share from guarantees alone, where it is
	// computed.
	promised resource.Shares

	status     Status
	starvation Starvation
	belowSince time.Time
	known      bool // an update has computed its share
	changed    marks
	watched    bool // it is in Tree.below
	resized    bool // it is in Tree.resized
	reoffered  bool // it is in Tree.reoffered
	excess     bool // it counts in Tree.excesses
	spent      bool `save:"-"` // it is in Tree.spent
	patience   pooltree.Starvation

	pool      *poolState
	operation *operationState
}

// background is the part of an element that heartbeats do not read. It is
// separate to keep elements small.
type background struct {
	specified     resource.Partial // the configured part of the limits
	starvingSince time.Time        // when it started to starve, zero while it does not
	full          fullClocks
}

// fullClocks state, by resource, since when updates have found no room under a
// limit for the smallest waiting job, in microseconds since 1970; zero means that
// there was room.
type fullClocks [resource.KindCount]int64

// fullSince returns since when a limit has left no room; zero if it leaves some.
func (b *background) fullSince(k resource.Kind) time.Time {
	if b.full[k] == 0 {
		return time.Time{}
	}
	return time.UnixMicro(b.full[k]).UTC()
}

// rest returns the background of an element.
func (e *element) rest() *background {
	if e.pool != nil {
		return &e.pool.background
	}
	return &e.operation.background
}

// vacated returns the element of a slot that is free now. The slot stays in the
// lists that it is in.
func (e *element) vacated() element {
	return element{place: none, changed: e.changed, watched: e.watched, resized: e.resized, excess: e.excess, spent: e.spent}
}

// weigh notes whether an element is above its limits, or an operation that is
// preempted gracefully.
func (t *Tree) weigh(slot int32) {
	e := &t.elements[slot]
	excess := e.kind != fairshare.KindNone && (!e.limits.Dominates(e.usage) || e.operation != nil && e.operation.graceful)
	if excess == e.excess {
		return
	}
	e.excess = excess
	if excess {
		t.excesses++
	} else {
		t.excesses--
	}
}

// poolState is what a pool has beyond an element.
type poolState struct {
	name string
	fifo bool
	heap []int32 // active children by key
	// least bounds from below what any waiting job of the subtree needs: if a
	// node has less than that, there is no need to look inside.
	least  resource.Amounts
	doubts int // updates since least was computed in which something below changed
	filter nodefilter.Filter

	protectsNormal, protectsAggressive bool

	maxRunning, maxOperations int
	running, operations       int
	waiting                   []int32 // operations kept from running by this pool's limit
	watched                   uint64  // the last update that watched its limits

	background
}

// Group is a number of equal jobs that wait for resources.
type Group struct {
	Resources resource.Amounts
	Waiting   int32
	// Class is the constraint class of the jobs: they start on no node that denies it.
	// Zero is denied nowhere. Alone reports that at most one job of the class starts
	// on a heartbeat.
	Class int32
	Alone bool
	// Priority orders the groups of an operation, before their positions.
	Priority int32
}

// operationState is what an operation has beyond an element.
type operationState struct {
	ledger
	groups  []Group
	waiting int32 // in all groups
	// ranked reports that some groups have priorities.
	ranked bool
	filter nodefilter.Filter
	// running is false while limits on the number of operations keep it waiting.
	running   bool
	suspended bool
	graceful  bool
	// freeRoomOnly reports that nothing is preempted for it.
	freeRoomOnly bool
	// limitDemand reports whether it demands no more than its limits.
	limitDemand bool
	fifoIndex   int32
	waitsAt     int32 // the pool whose limit keeps it from running
	classes     classBounds
	refusals    [refusalCount]uint32
	starts      uint32
	bounded     bool  // its share was bounded by nodes at least once
	boundedFor  int64 // the size of its jobs then

	activatedAt  time.Time // when an update first saw it running
	startedAt    time.Time // when its last job started
	limitedSince time.Time // since when a limit is smaller than its smallest job
	beatsBefore  uint64    // heartbeats of the tree before it started to starve

	banned    []Node     // nodes that it avoids, sorted
	sightings []sighting // nodes it was tried on, with packing only
	gang      *gang      // nil if its jobs start one by one
	// pinned is the latest time until which an allocation was pinned, in microseconds
	// since 1970.
	pinned int64

	background
}

// isCandidate reports whether jobs of the operation may start.
func (o *operationState) isCandidate() bool {
	return o.running && !o.suspended && o.waiting > 0
}

// less orders children of one pool; slots break ties.
func (t *Tree) less(a, b int32) bool {
	x, y := &t.elements[a], &t.elements[b]
	if x.key != y.key {
		return x.key < y.key
	}
	return a < b
}

// refresh recomputes the satisfaction and the key of an element and of
// everything above it, and restores their order in the heaps. Elements that
// are not candidates leave their heap.
func (t *Tree) refresh(slot int32) {
	for {
		t.mark(slot, atAGlance)
		e := &t.elements[slot]
		candidate := false
		if e.operation != nil {
			candidate = e.operation.isCandidate()
			usage := e.usage.Share(t.total)
			e.satisfaction = e.entitlement.satisfaction(&usage)
		} else if candidate = len(e.pool.heap) > 0; candidate {
			e.satisfaction = t.elements[e.pool.heap[0]].satisfaction
		}
		if slot == 0 {
			return
		}
		parent := t.elements[e.parent].pool
		e.key = e.satisfaction
		if parent.fifo && e.operation != nil {
			e.key = float64(e.operation.fifoIndex)
		}
		switch {
		case !candidate && e.place != none:
			t.heapRemove(parent, slot)
		case candidate && e.place == none:
			t.heapInsert(parent, slot)
		case candidate:
			t.heapFix(parent, slot)
		}
		slot = e.parent
	}
}

// bench sets an element aside until unbench.
func (t *Tree) bench(slot int32) {
	e := &t.elements[slot]
	t.heapRemove(t.elements[e.parent].pool, slot)
	t.benched = append(t.benched, slot)
	t.refresh(e.parent)
}

// unbench restores the benched elements, last ones first, so that a pool is
// back before the elements that were benched in it need it.
func (t *Tree) unbench() {
	for i := len(t.benched) - 1; i >= 0; i-- {
		slot := t.benched[i]
		e := &t.elements[slot]
		if e.operation != nil || len(e.pool.heap) > 0 {
			t.refresh(slot)
		}
	}
	t.benched = t.benched[:0]
}

// addUsage changes the usage of an operation and of all pools above it.
func (t *Tree) addUsage(slot int32, delta resource.Amounts) {
	for {
		e := &t.elements[slot]
		t.mark(slot, forBoth)
		for k := range delta {
			e.usage[k] += delta[k]
		}
		t.weigh(slot)
		t.noteUsage(slot)
		if slot == 0 {
			return
		}
		slot = e.parent
	}
}
