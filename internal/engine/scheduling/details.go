package scheduling

import (
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/resource"
)

// Details is everything that is known of an element. It shares nothing with the
// tree, so that it may be read while the tree goes on.
type Details struct {
	View
	// Shares are usage, demand, limits and guarantees as of the last update, and
	// the dominant resource. UsageShare is that of now.
	Shares     fairshare.Attributes
	UsageShare resource.Shares
	Weight     float64
	// Promised is the part of the fair share that guarantees alone promise.
	Promised  fairshare.Split
	BestShare resource.Shares
	// Limits are what the element may use, Specified what was configured of them,
	// and Filtered the least of that and of what nodes that match its filter have.
	// LimitedDemand is what it asks for within its limits.
	Limits              resource.Amounts
	Specified, Filtered resource.Partial
	LimitedDemand       resource.Amounts
	// Patience is what holds for it after inheritance.
	Patience                  pooltree.Starvation
	BelowSince, StarvingSince time.Time
	// LowestStarving and LowestAggressivelyStarving are the lowest elements, from
	// this one up, that starve and that starve aggressively, none if none does.
	LowestStarving, LowestAggressivelyStarving int32
	// LocalSatisfaction is usage divided by fair share; Satisfaction of a pool is
	// that of its least satisfied child.
	LocalSatisfaction float64
	// Schedulable says whether jobs of it may be started.
	Schedulable bool

	Pool      PoolDetails      // of pools
	Operation OperationDetails // of operations
}

// PoolDetails is what only pools have.
type PoolDetails struct {
	MaxRunning, MaxOperations int
	// Waiting is how many operations wait for its limit on running ones.
	Waiting int
	// StrongGuarantee is the effective one; InferredGuarantee has absent resources
	// filled in.
	StrongGuarantee   resource.Shares
	InferredGuarantee resource.Amounts
	ProposedIntegral  resource.Shares
	// Volume is what an integral pool has saved, and Capacity the most it can.
	Volume, Capacity resource.Volume
	// CapacityRatio is Capacity in seconds of the whole tree.
	CapacityRatio                   float64
	SpecifiedBurstRatio, FlowRatio  float64
	TotalBurstRatio, TotalFlowRatio float64
	// BurstSeconds is how long the volume lasts at the burst rate, if HasBurst.
	BurstSeconds float64
	HasBurst     bool
}

// OperationDetails is what only operations have.
type OperationDetails struct {
	Running bool
	// Unschedulable is why none of its jobs may start, RefusedNothing if they may.
	Unschedulable Refusal
	// WaitsAt is the pool whose limit on running operations keeps it waiting, none
	// if it runs.
	WaitsAt   int32
	Groups    []Group
	MinNeeded resource.Amounts
	// ClassUsage is what its allocations hold, by class.
	ClassUsage [classCount]resource.Amounts
	// Priority is the worst starvation of it and of the pools above it.
	Priority               Starvation
	Graceful               bool
	Starts                 uint32
	BannedNodes            int
	ActivatedAt, StartedAt time.Time
}

// Details returns everything that is known of an element.
func (t *Tree) Details(slot int32) Details {
	e := &t.elements[slot]
	d := Details{
		View: t.View(slot), UsageShare: e.usage.Share(t.total), Specified: e.rest().specified, Limits: e.limits.Min(t.total),
		Patience: e.patience, BelowSince: e.belowSince, StarvingSince: e.rest().starvingSince,
		LowestStarving: t.lowest(slot, Starving), LowestAggressivelyStarving: t.lowest(slot, AggressivelyStarving),
		BestShare: t.shares.Elements[slot].BestShare, Filtered: t.shares.Elements[slot].Limits,
	}
	d.LocalSatisfaction = e.entitlement.satisfaction(&d.UsageShare)
	d.LimitedDemand = d.Demand.Min(d.Limits)
	if e.known {
		d.Shares, d.Weight = t.result.Attributes(&t.shares, slot), t.result.Elements[slot].Weight
		d.Promised = t.result.PromisedSplit(slot)
	}
	if e.pool != nil {
		d.Schedulable = len(e.pool.heap) > 0
		d.Pool = t.poolDetails(slot)
		return d
	}
	d.Schedulable = e.operation.isCandidate()
	d.Operation = t.operationDetails(slot)
	return d
}

// lowest returns the lowest element, from one up, that starves at least so much.
func (t *Tree) lowest(slot int32, least Starvation) int32 {
	for ; slot != 0; slot = t.elements[slot].parent {
		if t.elements[slot].starvation >= least {
			return slot
		}
	}
	return none
}

func (t *Tree) poolDetails(slot int32) PoolDetails {
	p := t.elements[slot].pool
	d := PoolDetails{MaxRunning: p.maxRunning, MaxOperations: p.maxOperations, Waiting: len(p.waiting), Volume: t.State(slot).Volume}
	r := t.result.Pool(slot)
	if r == nil || !t.elements[slot].known {
		return d
	}
	d.StrongGuarantee, d.InferredGuarantee, d.ProposedIntegral = r.StrongGuarantee, r.Inferred, r.ProposedIntegral
	d.SpecifiedBurstRatio, d.FlowRatio = r.SpecifiedBurstRatio, r.FlowRatio
	d.TotalBurstRatio, d.TotalFlowRatio = r.TotalBurstRatio, r.TotalFlowRatio
	d.Capacity = t.shares.Options.Capacity(t.total, r.FlowRatio)
	d.CapacityRatio = d.Capacity.Ratio(t.total)
	d.BurstSeconds, d.HasBurst = fairshare.BurstDuration(d.Volume.Ratio(t.total), r.SpecifiedBurstRatio, r.FlowRatio)
	return d
}

func (t *Tree) operationDetails(slot int32) OperationDetails {
	op := t.elements[slot].operation
	reason := RefusedNothing
	switch {
	case !op.running:
		reason = RefusedCount
	case op.suspended:
		reason = RefusedSuspended
	case op.waiting == 0:
		reason = RefusedNoDemand
	}
	return OperationDetails{
		Unschedulable: reason,
		Running:       op.running, WaitsAt: op.waitsAt, Groups: slices.Clone(op.groups), MinNeeded: op.leastWaiting(),
		ClassUsage: op.ledger.usage, Priority: t.priority(slot), Graceful: op.graceful, Starts: op.starts,
		BannedNodes: len(op.banned), ActivatedAt: op.activatedAt, StartedAt: op.startedAt,
	}
}

// NodeDetails is a node as of now.
type NodeDetails struct {
	Limits, Usage resource.Amounts
	// Jobs and ClassUsage count allocations that are not preempted by class;
	// Preempted are those that are and have not ended.
	Jobs       [classCount]int
	ClassUsage [classCount]resource.Amounts
	Preempted  int
	// PreemptedAt is when preemption was last considered, and Overcommitted since
	// when its allocations hold more than it has, zero if they do not.
	PreemptedAt, Overcommitted time.Time
}

// NodeDetails returns a node as of now.
func (t *Tree) NodeDetails(at Node) NodeDetails {
	n := &t.nodes[at]
	d := NodeDetails{Limits: n.limits, Usage: n.usage, PreemptedAt: n.preemptedAt, Overcommitted: n.overcommitted}
	for _, id := range n.allocations {
		a := &t.allocations[id]
		if a.preempted {
			d.Preempted++
			continue
		}
		d.Jobs[a.class]++
		d.ClassUsage[a.class] = d.ClassUsage[a.class].Add(a.usage)
	}
	return d
}

// AllocationDetails is an allocation as of now.
type AllocationDetails struct {
	Node  Node
	Usage resource.Amounts // nothing once it is preempted
	// Started is when its job began.
	Started   time.Time
	Class     Class
	Preempted bool
	Group     int32
}

// AllocationDetails returns an allocation as of now.
func (t *Tree) AllocationDetails(id Allocation) AllocationDetails {
	a := &t.allocations[id]
	return AllocationDetails{Node: a.node, Usage: a.usage, Started: a.progress, Class: a.class, Preempted: a.preempted, Group: a.group}
}

// Alerts are what the last update found wrong with the configuration.
func (t *Tree) Alerts() []fairshare.Alert {
	alerts := slices.Clone(t.result.Alerts)
	for i := range alerts {
		alerts[i].Slots = slices.Clone(alerts[i].Slots)
	}
	return alerts
}

// Updated is when shares were last computed.
func (t *Tree) Updated() time.Time { return t.updated }
