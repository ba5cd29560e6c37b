package scheduling

// Refusal is why an operation got nothing on a node.
type Refusal uint8

const (
	// RefusedNothing means that there was no refusal.
	RefusedNothing Refusal = iota
	// RefusedNoDemand: the operation has no job waiting.
	RefusedNoDemand
	// RefusedTag: the node does not match the filter of the operation or of a
	// pool above it.
	RefusedTag
	// RefusedNodeResources: no waiting job fits into what the node has left.
	RefusedNodeResources
	// RefusedOperationLimit: the operation's own resource_limits are reached.
	RefusedOperationLimit
	// RefusedPoolLimit: the resource_limits of a pool above it are reached.
	RefusedPoolLimit
	// RefusedGracefulAboveShare: an operation that is preempted gracefully gets
	// nothing above its fair share.
	RefusedGracefulAboveShare
	// RefusedSuspended: the operation is suspended.
	RefusedSuspended
	// RefusedCount: a pool cannot run more operations.
	RefusedCount
	// RefusedPacking: other nodes suited the job better lately.
	RefusedPacking
	// RefusedBanned: the operation avoids the node, because one of its jobs
	// failed there.
	RefusedBanned
	// RefusedGang: the operation is a gang, and there is no room for enough of its
	// members at once.
	RefusedGang
	// RefusedConstraints: the node denies the constraint class of the jobs.
	RefusedConstraints

	refusalCount
)

var refusalNames = [refusalCount]string{
	"none", "no_available_demand", "unmatched_scheduling_tag", "min_needed_resources_unsatisfied",
	"resource_limits_exceeded", "pool_resource_limits_exceeded", "fair_share_exceeded", "operation_suspended", "operation_pending",
	"bad_packing", "node_banned", "gang", "constraints",
}

// String returns the name of the refusal in outputs.
func (r Refusal) String() string { return refusalNames[r] }

// Stage is a part of the processing of a heartbeat.
type Stage uint8

const (
	StageRegularHigh Stage = iota
	StageRegular
	StageAggressive
	StageNormal
	// StagePackingFallback starts one job that packing alone kept waiting.
	StagePackingFallback
	stageCount
)

var stageNames = [stageCount]string{"regular_high", "regular", "aggressively_preemptive", "preemptive", "packing_fallback"}

// String returns the name of the stage in outputs.
func (s Stage) String() string { return stageNames[s] }

// PreemptionReason is why an allocation is preempted.
type PreemptionReason uint8

const (
	// PreemptedForStarving: a starving operation needs what it holds.
	PreemptedForStarving PreemptionReason = iota
	// PreemptedForNode: the allocations of the node hold more than it has.
	PreemptedForNode
	// PreemptedForLimit: resource_limits of its operation or of a pool above
	// are violated.
	PreemptedForLimit
	// PreemptedGracefully: its operation is above its share and has chosen
	// graceful preemption.
	PreemptedGracefully

	preemptionReasonCount
)

var preemptionNames = [preemptionReasonCount]string{
	"preemption", "node_resource_overcommit", "resource_limits_violated", "graceful_preemption",
}

// String returns the name of the reason in outputs.
func (r PreemptionReason) String() string { return preemptionNames[r] }

// Status is whether an element gets enough.
type Status uint8

const (
	Normal Status = iota
	BelowFairShare
)

// String returns the name of the status in outputs.
func (s Status) String() string {
	if s == BelowFairShare {
		return "below_fair_share"
	}
	return "normal"
}

// Starvation is how much an element starves, and so which preemption may help
// it.
type Starvation uint8

const (
	NonStarving Starvation = iota
	Starving
	AggressivelyStarving
)

// String returns the name of the status in outputs.
func (s Starvation) String() string {
	return [...]string{"non_starving", "starving", "aggressively_starving"}[s]
}

// Class is how easily an allocation is preempted.
type Class uint8

const (
	NonPreemptible Class = iota
	AggressivelyPreemptible
	Preemptible
	classCount
)

// String returns the name of the class in outputs.
func (c Class) String() string {
	return [...]string{"non_preemptible", "aggressively_preemptible", "preemptible"}[c]
}
