package scheduling

import (
	"cmp"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/resource"
)

// Details is what readers may know about an element as of now; shares, status
// and starvation are those of the last update. It shares nothing with the
// tree, so it may be read while the tree changes. It does not depend on
// elements above or below, so a change of one element changes one Details.
type Details struct {
	Share      fairshare.Split
	Demand     resource.Amounts
	Usage      resource.Amounts
	Status     Status
	Starvation Starvation
	// Satisfaction of a pool is that of its least satisfied child;
	// LocalSatisfaction is usage divided by fair share.
	Satisfaction, LocalSatisfaction float64
	// Schedulable reports whether its jobs may start.
	Schedulable bool

	// Shares are usage, demand, limits and guarantees as of the last update, and
	// the dominant resource. UsageShare is current.
	Shares     fairshare.Attributes
	UsageShare resource.Shares
	Weight     float64
	// Promised is the part of the fair share that guarantees alone promise.
	Promised  fairshare.Split
	BestShare resource.Shares
	// Limits are what the element may use, Specified the configured part of
	// them.
	Limits    resource.Amounts
	Specified resource.Partial
	// Patience is the effective setting, after inheritance.
	Patience                  pooltree.Starvation
	BelowSince, StarvingSince time.Time
}

// JobCounts counts the jobs of an operation, or of all operations below a
// pool.
type JobCounts struct {
	RunningJobs, WaitingJobs int32
	// Classes counts running jobs by class.
	Classes [classCount]int32
}

// PoolDetails is a pool as of now, without the jobs below it.
type PoolDetails struct {
	Details
	// Operations and RunningOperations count those below it.
	Operations, RunningOperations int
	MaxRunning, MaxOperations     int
	// Waiting is how many operations wait for its limit on running ones.
	Waiting int
	// StrongGuarantee is the effective guarantee; InferredGuarantee has absent
	// resources filled in.
	StrongGuarantee   resource.Shares
	InferredGuarantee resource.Amounts
	ProposedIntegral  resource.Shares
	// Volume is what an integral pool has saved, and Capacity the most it can
	// save; the ratios are the same in seconds of the whole tree.
	Volume, Capacity                resource.Volume
	VolumeRatio, CapacityRatio      float64
	SpecifiedBurstRatio, FlowRatio  float64
	TotalBurstRatio, TotalFlowRatio float64
	// BurstSeconds is how long the volume lasts at the burst rate. It is valid
	// if HasBurst is set.
	BurstSeconds float64
	HasBurst     bool
}

// OperationDetails is an operation as of now. Groups returns its groups.
type OperationDetails struct {
	Details
	JobCounts
	Running bool
	// FIFOIndex is its position in the order of a FIFO pool, none in other
	// pools.
	FIFOIndex int32
	// WaitsAt is the pool whose limit on running operations keeps it waiting, none
	// if it runs.
	WaitsAt     int32
	MinNeeded   resource.Amounts
	Starts      uint32
	BannedNodes int
	Refusals    [refusalCount]uint32
}

// schedulable reports whether jobs of an element may start.
func (e *element) schedulable() bool {
	switch {
	case e.pool != nil:
		return len(e.pool.heap) > 0
	case e.operation != nil:
		return e.operation.isCandidate()
	}
	return false
}

// details returns what pools and operations have in common.
func (t *Tree) details(slot int32) Details {
	e := &t.elements[slot]
	d := Details{
		Usage: e.usage, Demand: e.demand.Of(t.total), Status: e.status, Starvation: e.starvation, Satisfaction: e.satisfaction,
		Schedulable: e.schedulable(), UsageShare: e.usage.Share(t.total), Specified: e.rest().specified, Limits: e.limits.Min(t.total),
		Patience: e.patience, BelowSince: e.belowSince, StarvingSince: e.rest().starvingSince,
		BestShare: t.shares.Elements[slot].BestShare,
	}
	d.LocalSatisfaction = e.entitlement.satisfaction(&d.UsageShare)
	if e.known {
		d.Share = t.result.Split(slot)
		d.Shares, d.Weight = t.result.Attributes(&t.shares, slot), t.result.Elements[slot].Weight
		d.Promised = t.result.PromisedSplit(slot)
	}
	if element := &t.shares.Elements[slot]; element.Kind == fairshare.KindNone { // it waits, and has only the weight it was given
		d.Weight = cmp.Or(element.Weight, 1)
	}
	return d
}

// IsSchedulable reports whether jobs of an element may start.
func (t *Tree) IsSchedulable(slot int32) bool { return t.elements[slot].schedulable() }

// IsPool reports whether a slot holds a pool. A free slot holds neither a
// pool nor an operation.
func (t *Tree) IsPool(slot int32) bool { return t.elements[slot].pool != nil }

// IsOperation reports whether a slot holds an operation.
func (t *Tree) IsOperation(slot int32) bool { return t.elements[slot].operation != nil }

// Pool returns a pool as of now.
func (t *Tree) Pool(slot int32) PoolDetails {
	e := &t.elements[slot]
	p := e.pool
	d := PoolDetails{
		Details: t.details(slot), Operations: p.operations, RunningOperations: p.running,
		MaxRunning: p.maxRunning, MaxOperations: p.maxOperations, Waiting: len(p.waiting), Volume: t.State(slot).Volume,
	}
	d.VolumeRatio = d.Volume.Ratio(t.total)
	r := t.result.Pool(slot)
	if r == nil || !e.known {
		return d
	}
	d.StrongGuarantee, d.InferredGuarantee, d.ProposedIntegral = r.StrongGuarantee, r.Inferred, r.ProposedIntegral
	d.SpecifiedBurstRatio, d.FlowRatio = r.SpecifiedBurstRatio, r.FlowRatio
	d.TotalBurstRatio, d.TotalFlowRatio = r.TotalBurstRatio, r.TotalFlowRatio
	d.Capacity = t.shares.Options.Capacity(t.total, r.FlowRatio)
	d.CapacityRatio = d.Capacity.Ratio(t.total)
	d.BurstSeconds, d.HasBurst = fairshare.BurstDuration(d.VolumeRatio, r.SpecifiedBurstRatio, r.FlowRatio)
	return d
}

// Operation returns an operation as of now.
func (t *Tree) Operation(slot int32) OperationDetails {
	op := t.elements[slot].operation
	return OperationDetails{
		Details: t.details(slot), JobCounts: t.Jobs(slot), Running: op.running, FIFOIndex: op.fifoIndex, WaitsAt: op.waitsAt,
		MinNeeded: op.leastWaiting(), Starts: op.starts, BannedNodes: len(op.banned), Refusals: op.refusals,
	}
}

// Jobs counts the jobs of an operation.
func (t *Tree) Jobs(slot int32) JobCounts {
	op := t.elements[slot].operation
	return JobCounts{RunningJobs: op.count, WaitingJobs: op.waiting, Classes: op.counts}
}

// Groups returns the waiting jobs of an operation. The tree owns the slice:
// callers must not modify it, and it changes with the operation.
func (t *Tree) Groups(slot int32) []Group { return t.elements[slot].operation.groups }

// NodeDetails is a node as of now.
type NodeDetails struct {
	Limits, Usage resource.Amounts
	// Jobs and ClassUsage count allocations that are not preempted, by class;
	// Preempted counts preempted allocations that have not ended.
	Jobs       [classCount]int
	ClassUsage [classCount]resource.Amounts
	Preempted  int
	// PreemptedAt is when preemption was last considered, and Overcommitted
	// since when its allocations hold more than it has; zero if they do not.
	PreemptedAt, Overcommitted time.Time
}

// NodeDetails returns a node as of now.
func (t *Tree) NodeDetails(at Node) NodeDetails {
	n := &t.nodes[at]
	d := NodeDetails{Limits: n.limits, Usage: n.usage, PreemptedAt: t.pulses[at].lastPreempted(), Overcommitted: n.overcommitted}
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
	Usage resource.Amounts // zero once it is preempted
	// Started is when its job started.
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

// Alerts returns the problems of the configuration that the last update
// found.
func (t *Tree) Alerts() []fairshare.Alert {
	alerts := slices.Clone(t.result.Alerts)
	for i := range alerts {
		alerts[i].Slots = slices.Clone(alerts[i].Slots)
	}
	return alerts
}

// Updated returns when shares were last computed.
func (t *Tree) Updated() time.Time { return t.updated }
