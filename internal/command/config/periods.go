package config

import (
	"time"

	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// Periods are the intervals of the scheduler's periodic work.
type Periods struct {
	FairShareUpdate, Snapshot, OperationsUpdate, DemandSanityCheck opt[time.Duration]
}

func periodRows() []row[Periods] {
	return []row[Periods]{
		live("fair_share_update_period", "How often fair shares of all pools and operations are computed.",
			func(c *Periods) *opt[time.Duration] { return &c.FairShareUpdate }, fairSharePeriods.Default(200*time.Millisecond)).common(),
		live("snapshot_period", "How often the whole state of an operation's controller is saved.",
			func(c *Periods) *opt[time.Duration] { return &c.Snapshot }, periods.Default(5*time.Minute)),
		live("operations_update_period", "How often the progress of operations is published.",
			func(c *Periods) *opt[time.Duration] { return &c.OperationsUpdate }, periods.Default(3*time.Second)),
		live("resource_demand_sanity_check_period", "How often the scheduler checks that every operation has nodes that could run its jobs and that it has not banned.",
			func(c *Periods) *opt[time.Duration] { return &c.DemandSanityCheck }, periods.Default(15*time.Second)),
	}
}

// NodeRules are the scheduler's rules for nodes.
type NodeRules struct {
	HeartbeatPeriod, HeartbeatTimeout, UnseenToAbort opt[time.Duration]
	OvercommitDuration, JobConfirmationTimeout       opt[time.Duration]
	WaitingTimeout                                   opt[time.Duration]
	MinSpare                                         opt[resource.Partial]
}

func nodeRuleRows() []row[NodeRules] {
	return []row[NodeRules]{
		live("node_heartbeat_period", "How often nodes report, unless a node sets its own period.",
			func(c *NodeRules) *opt[time.Duration] { return &c.HeartbeatPeriod }, periods.Default(5*time.Second)).common(),
		live("node_heartbeat_timeout", "A node that is silent for this long is shown as offline. Its jobs are kept.",
			func(c *NodeRules) *opt[time.Duration] { return &c.HeartbeatTimeout }, periods.Default(time.Minute)),
		live("max_node_unseen_period_to_abort_allocations", "When a node is silent for this long, its jobs are aborted and restart elsewhere.",
			func(c *NodeRules) *opt[time.Duration] { return &c.UnseenToAbort }, periods.Default(5*time.Minute)).
			alias("max_node_unseen_period_to_abort_jobs"),
		live("allowed_node_resources_overcommit_duration", "How long the jobs of a node may hold more resources than it has.",
			func(c *NodeRules) *opt[time.Duration] { return &c.OvercommitDuration }, timeouts.Default(15*time.Second)),
		live("waiting_for_resources_on_node_timeout", "How long a job waits on its node for resources that others still hold, unless its tree, pool or specification sets it.",
			func(c *NodeRules) *opt[time.Duration] { return &c.WaitingTimeout }, timeouts.Default(30*time.Second)).alias("waiting_job_timeout"),
		live("job_confirmation_timeout", "How long a node has to confirm, after a restart of the scheduler, that a job still runs.",
			func(c *NodeRules) *opt[time.Duration] { return &c.JobConfirmationTimeout }, periods.Default(4*time.Minute)),
		live("min_spare_allocation_resources_on_node", "The least a node must have free to get jobs, unless its tree sets it.",
			func(c *NodeRules) *opt[resource.Partial] { return &c.MinSpare }, resources.Default(defaultSpare)).
			alias("min_spare_job_resources_on_node"),
	}
}

// OperationRules apply to operations of all trees.
type OperationRules struct {
	MaxCount   opt[int]
	PoolChange opt[bool]
	// RequirePools reports whether pools that operations name must be configured.
	RequirePools opt[bool]
	Stuck        StuckCheck
}

// StuckCheck configures when an operation that makes no progress fails.
type StuckCheck struct {
	Period, SafeTimeout, LimitingAncestorSafeTimeout opt[time.Duration]
	MinAttempts                                      opt[int]

	// Extras are options of YTsaurus's check that have no effect here.
	Extras document.Extras
}

func stuckCheck() *group[StuckCheck] {
	return newGroup([]row[StuckCheck]{
		live("period", "How often operations are checked.",
			func(c *StuckCheck) *opt[time.Duration] { return &c.Period }, periods.Default(time.Minute)),
		live("safe_timeout", "How long an operation may go without progress.",
			func(c *StuckCheck) *opt[time.Duration] { return &c.SafeTimeout }, timeouts.Default(time.Hour)),
		live("limiting_ancestor_safe_timeout", "How long it may be in a pool, or below one, whose limits are too small for any of its jobs.",
			func(c *StuckCheck) *opt[time.Duration] { return &c.LimitingAncestorSafeTimeout }, timeouts.Default(5*time.Minute)),
		live("min_schedule_allocation_attempts", "How many attempts to start a job must have failed.",
			func(c *StuckCheck) *opt[int] { return &c.MinAttempts }, counts.Default(1000)).alias("min_schedule_job_attempts"),
	}, kept(func(c *StuckCheck) *document.Extras { return &c.Extras }, "every failed attempt to start a job counts", "deactivation_reasons"))
}

func operationRuleRows() []row[OperationRules] {
	return []row[OperationRules]{
		live("max_operation_count", "The most operations in all trees together.",
			func(c *OperationRules) *opt[int] { return &c.MaxCount }, counts.Default(5000)),
		live("pool_change_is_allowed", "Whether the pool of a running operation may change.",
			func(c *OperationRules) *opt[bool] { return &c.PoolChange }, document.Bools.Default(true)),
		live("require_specified_operation_pools_existence", "Whether a pool that an operation names must be configured; otherwise an ephemeral pool is created. Operations can request the same with `require_specified_pools_existence`.",
			func(c *OperationRules) *opt[bool] { return &c.RequirePools }, document.Bools.Default(false)),
		part("operation_stuck_check", "When an operation that makes no progress fails.",
			func(c *OperationRules) *StuckCheck { return &c.Stuck }, stuckCheck()).alias("operation_hangup_check", "operation_unschedulable_check"),
	}
}
