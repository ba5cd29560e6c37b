package fairshare

import (
	"time"

	"github.com/weirhq/weir/internal/value/resource"
)

// FirstUpdate is the elapsed time of an update that has no predecessor: volumes
// are neither refilled nor charged.
const FirstUpdate time.Duration = -1

// Compute is one update with nothing kept from earlier ones.
func Compute(tree *Tree, elapsed time.Duration) *Result {
	var engine Engine
	var result Result
	engine.Update(tree, elapsed, &result)
	return &result
}

// Engine computes updates of one tree, one after another. Between them it keeps
// its memory and the functions of pools in which nothing changed, so an update
// that changes little costs little. The zero value is ready to use. An Engine
// is not safe for concurrent use.
type Engine struct {
	total        resource.Amounts
	options      Options
	previous     []Element // the last input, to see what changed
	nodes        []node    // by slot
	pools        []pool    // the root first, then in order of slots
	order        []int32   // pools, depth first, parents before children
	burst        []int32   // burst pools in that order
	relaxed      []int32   // relaxed pools in that order
	promising    []int32   // topmost pools that compute promised shares
	shares       []resource.Shares
	promised     []resource.Shares
	alerts       []Alert
	updates      uint64 // how many updates there were
	rebuiltAt    uint64 // the last update that changed the edges of the tree
	reconfigured bool   // settings, limits or totals differ from the last input
	recounted    bool   // usage and demand of all pools are computed again
	plain        bool   // see findPlain
	timeless     bool   // see Timeless
	reweighed    bool   // weights differ, so that estimates of pools may
	light        bool   // nothing changes but on paths to changed elements
	truncates    bool   // see truncate
	canSkip      bool   // unchanged divisions need not be recomputed
	stamp        uint64 // grows whenever a function is discarded

	own, row    []point // the function of one operation
	jumps       []jump
	origins     []int32
	newSources  []source
	newPieces   []piece
	oldPools    []pool
	counts      []int32
	openBuckets []int32
	takers      []relaxedPool
	childSlots  []int32
	childPools  []int32
	touched     []bool          // by slot: the element differs from the last input
	differ      []int32         // the slots of those
	marked      []int32         // pools that are touched
	path        []int32         // pools below which something differs
	ascent      []int32         // the same, the deepest first
	pledged     []int32         // pools directly below the root that have a strong guarantee
	assigned    []int32         // pools whose share was computed again
	given       []int32         // operations that got another share in this update than before
	history     []HistoricUsage // by slot, where it is kept
}

// node is the engine's view of an element.
type node struct {
	kind      Kind
	steps     bool  // a gang that gets all or nothing
	parent    int32 // slot
	pool      int32 // index in Engine.pools, -1 for operations
	fifoIndex int32
	weight    float64
	stamp     uint64 // operations: when the function changed
	usage     resource.Shares
	demand    resource.Shares
	limits    resource.Shares

	// In a FIFO pool, all it takes: the end of its function, and the value at
	// suggestion 1, which may differ in the last bit. They are as of the stamps.
	whole, most           resource.Shares
	wholeStamp, mostStamp uint64
}

// pool is the engine's view of a pool.
type pool struct {
	slot     int32
	reached  bool // from the root
	settings *Pool
	children []int32 // slots, in order
	subpools []int32 // those that are pools, as indices in Engine.pools
	sorted   []int32 // FIFO: children in the order they are served

	limits                resource.Shares // the node's
	usageSum, demandSum   resource.Amounts
	inferred              resource.Amounts
	strong, proposed      resource.Shares
	tiers                 [tierCount]resource.Shares
	donorSeen, promises   bool
	clipped               bool // rounding put guarantee and proposal above a limit
	burstRatio, flowRatio float64
	totalBurst, totalFlow float64
	state                 State
	overflow, acceptable  resource.Volume
	accepted              resource.Volume
	childrenOverflow      resource.Volume

	estimated, guaranteed         resource.Shares
	estimatedRest, guaranteedRest resource.Shares // what children divide by weight
	weights                       float64         // the sum of children's
	leastWeight                   float64
	factor                        float64 // the fit factor of the division
	passed                        int32   // improved: the children that have jumped there

	answer    answer   // what it was last asked for in a division
	touched   bool     // some child differs from the last input
	division  division // the last one recorded in Engine.shares
	record    record   // where it was made
	changedAt uint64   // the last update that changed what children got
	groupedAt uint64   // the last update that changed its children or their weights

	preparedAt uint64 // the last update in which its functions were fixed
	tracedAt   uint64 // the last update in which something below it changed
	settledAt  uint64 // the last update that changed its settings
	sealed     bool   // the functions above it were fixed before its guarantee changed
	stale      bool   // a child changed in a way that invalidates the fit
	unsorted   bool   // FIFO: the order may have changed
	regrouped  bool   // children came, went or have other weights
	firstMoved bool   // the curve of some child has another start
	depth      int32  // of the root: zero
	fitStamp   uint64
	curveStamp uint64
	bounds     bounds // what it may take
	seen       bounds // the same as the functions above it see it

	renewed []int32           // operations in it whose functions have changed since the fit was discarded
	moved   []int32           // the same for pools: their slots
	sources []source          // fair share: the children, in their order
	pieces  []piece           // by child, the last piece of its function that was needed
	others  []piece           // the one before
	sites   []site            // known parts of the fit, in order
	served  []resource.Shares // FIFO: what the first children take together
	first   resource.Shares   // the fit at fit factor zero
	zero    resource.Shares   // the curve at suggestion zero
	hint    float64           // where the last site was found
	start   float64           // the same for the curve at suggestion zero
}

// division is everything that the shares of a pool's subtree depend on.
type division struct {
	fitStamp uint64
	factor   float64
	given    resource.Shares
}

// record says where a division was made: the fit factor, and how many children had
// jumped there. fitStamp is that of the pool then, or zero if Engine.shares does not hold
// the division as it was made.
type record struct {
	fitStamp uint64
	factor   float64
	passed   int32
}

// answer is the share that a pool takes at a suggestion, and the fit factor there.
// It holds while the fit and the bounds are those that it was computed from.
type answer struct {
	fitStamp   uint64
	suggestion float64
	bounds     bounds
	factor     float64
	share      resource.Shares
}

var defaultPool Pool

func (p *pool) isIntegral() bool { return p.settings.Integral.Type != NoIntegral }

func (e *Engine) parentOf(p *pool) *pool {
	return &e.pools[e.nodes[e.nodes[p.slot].parent].pool]
}

func (e *Engine) alert(code AlertCode, message string, slots []int32) {
	e.alerts = append(e.alerts, Alert{code, message, slots})
}

// Update computes the shares of a tree and the next state of its integral
// pools. elapsed is the time since the previous update, or FirstUpdate. What it
// computes depends on its arguments only, never on earlier calls.
//
// The order of the steps is part of the rules: guarantees are satisfied strong
// first, then burst, then relaxed, and the rest goes by weight.
func (e *Engine) Update(tree *Tree, elapsed time.Duration, result *Result) {
	e.updates++
	e.load(tree)
	e.limit()
	if e.reconfigured {
		e.configure()
	}
	e.light = !e.reconfigured && e.plain
	e.tracePaths()
	e.begin(tree)
	e.turnVolumes(elapsed)
	e.weigh(tree, elapsed)
	e.estimateGuarantees()
	e.shareBurst()
	e.shareRelaxed()

	root := &e.pools[0]
	e.prepareTree()
	e.sharePromised()
	e.canSkip = len(e.promising) == 0 && !e.truncates
	e.assigned, e.given = e.assigned[:0], e.given[:0]
	root.factor, e.shares[0] = e.poolAt(root, 1, &root.bounds)
	e.assign(root, e.shares)
	e.truncate(e.shares)
	e.fill(tree, result)
}

// configure computes what follows from settings, limits and totals alone, and
// raises alerts about them.
func (e *Engine) configure() {
	e.alerts = e.alerts[:0]
	e.findPromising()
	e.findDonors()
	e.inferGuarantees()
	e.measureGuarantees()
	e.checkOvercommit()
	e.fitGuarantees()
	e.findPlain()
	e.pledged = e.pledged[:0]
	for _, at := range e.pools[0].subpools {
		if e.pools[at].strong != nothing {
			e.pledged = append(e.pledged, at)
		}
	}
}

// findPlain determines whether shares follow from the elements alone, so that
// nothing can change where no element does: there are no guarantees over time, no
// promised shares, no weights that follow from usage or guarantees, and nothing
// is truncated.
func (e *Engine) findPlain() {
	e.truncates = e.options.TruncateFIFO
	historic := false
	for _, at := range e.order {
		s := e.pools[at].settings
		e.truncates = e.truncates || s.TruncateFIFO == On
		historic = historic || s.HistoricUsagePeriod > 0
	}
	e.timeless = len(e.burst)+len(e.relaxed) == 0 && !historic
	e.plain = e.timeless && len(e.promising) == 0 && e.options.InferWeightMultiplier == 0 && !e.truncates
}

// Timeless reports whether updates of the last tree change nothing while its
// elements stay as they are, however much time passes.
func (e *Engine) Timeless() bool { return e.timeless }

// tracePaths lists the pools below which some element differs from the last
// input.
func (e *Engine) tracePaths() {
	e.path = e.path[:0]
	for _, at := range e.marked {
		for p := &e.pools[at]; p.reached && p.tracedAt != e.updates; p = e.parentOf(p) {
			p.tracedAt = e.updates
			e.path = append(e.path, e.nodes[p.slot].pool)
			if p.slot == 0 {
				break
			}
		}
	}
}

// begin prepares pools for an update: their states, and the order of operations
// in FIFO pools.
func (e *Engine) begin(tree *Tree) {
	if e.light {
		for _, at := range e.marked {
			if p := &e.pools[at]; p.unsorted {
				e.arrange(p)
			}
		}
		return
	}
	for _, at := range e.order {
		p := &e.pools[at]
		p.proposed, p.clipped, p.sealed = nothing, false, false
		p.state = State{}
		if int(p.slot) < len(tree.States) {
			p.state = tree.States[p.slot]
		}
		if p.unsorted {
			e.arrange(p)
		}
	}
}

// sharePromised divides the guarantees of pools that request it, as if no
// element had anything beyond guarantees.
func (e *Engine) sharePromised() {
	e.promised = e.promised[:0]
	if len(e.promising) == 0 {
		return
	}
	e.promised = resize(e.promised, len(e.nodes))
	clear(e.promised)
	e.canSkip = false
	for _, at := range e.promising {
		p := &e.pools[at]
		p.factor, e.promised[p.slot] = e.poolAt(p, 0, &p.bounds)
		e.assign(p, e.promised)
	}
	e.truncate(e.promised)
}

// findPromising lists the topmost pools that request promised shares.
func (e *Engine) findPromising() {
	e.promising = e.promising[:0]
	var nested []int32
	for _, at := range e.order {
		p := &e.pools[at]
		inside := p.slot != 0 && e.parentOf(p).promises
		p.promises = p.settings.Promised || inside
		switch {
		case p.settings.Promised && inside:
			nested = append(nested, p.slot)
		case p.settings.Promised:
			e.promising = append(e.promising, at)
		}
	}
	if len(nested) > 0 {
		e.alert(AlertNestedPromised, "Found pools with enabled promised guarantee fair share computation which are nested inside other such pools", nested)
	}
}
