package config

import (
	"time"

	"github.com/weirhq/weir/internal/document"
	"github.com/weirhq/weir/internal/resource"
)

// Periods are how often the scheduler does what it does again and again.
type Periods struct {
	FairShareUpdate, MinNeededResources, Snapshot, OperationsUpdate opt[time.Duration]
	Alerts, TreeAlerts, StaticOrchid                                opt[time.Duration]
	OperationQueueScan, PendingByPoolScan                           opt[time.Duration]
	AvailableNodesCheck, BannedNodesCheck, DemandSanityCheck        opt[time.Duration]
}

var periodRows = []row[Periods]{
	live("fair_share_update_period", "How often the shares of all pools and operations are computed.",
		func(c *Periods) *opt[time.Duration] { return &c.FairShareUpdate }, fairSharePeriods.Default(200*time.Millisecond)).common(),
	live("min_needed_resources_update_period", "How often the smallest waiting jobs of an operation are looked up.",
		func(c *Periods) *opt[time.Duration] { return &c.MinNeededResources }, periods.Default(3*time.Second)),
	live("snapshot_period", "How often the state of an operation's controller is saved whole.",
		func(c *Periods) *opt[time.Duration] { return &c.Snapshot }, periods.Default(5*time.Minute)),
	live("operations_update_period", "How often progress of operations is saved.",
		func(c *Periods) *opt[time.Duration] { return &c.OperationsUpdate }, periods.Default(3*time.Second)),
	live("alerts_update_period", "How often alerts of the scheduler are published.",
		func(c *Periods) *opt[time.Duration] { return &c.Alerts }, periods.Default(time.Second)),
	live("scheduler_tree_alerts_update_period", "How often alerts of pool trees are published.",
		func(c *Periods) *opt[time.Duration] { return &c.TreeAlerts }, periods.Default(time.Second)),
	live("static_orchid_cache_update_period", "How old the answers under the scheduler's orchid may be.",
		func(c *Periods) *opt[time.Duration] { return &c.StaticOrchid }, periods.Default(time.Second)),
	live("transient_operation_queue_scan_period", "How often operations that wait to be taken up are looked at.",
		func(c *Periods) *opt[time.Duration] { return &c.OperationQueueScan }, periods.Default(100*time.Millisecond)),
	live("pending_by_pool_operation_scan_period", "How often all queues of pending operations are looked through from scratch.",
		func(c *Periods) *opt[time.Duration] { return &c.PendingByPoolScan }, periods.Default(time.Minute)),
	live("available_exec_nodes_check_period", "How often an operation checks that some node could run its jobs.",
		func(c *Periods) *opt[time.Duration] { return &c.AvailableNodesCheck }, periods.Default(5*time.Second)),
	live("banned_exec_nodes_check_period", "How often an operation checks that it has not banned all nodes.",
		func(c *Periods) *opt[time.Duration] { return &c.BannedNodesCheck }, periods.Default(5*time.Minute)),
	live("resource_demand_sanity_check_period", "How often demands of jobs are compared with what nodes have.",
		func(c *Periods) *opt[time.Duration] { return &c.DemandSanityCheck }, periods.Default(15*time.Second)),
}

// NodeRules are what the scheduler expects of nodes.
type NodeRules struct {
	HeartbeatPeriod, HeartbeatTimeout, RegistrationTimeout opt[time.Duration]
	UnseenToAbort, MaxOfflineAge, TagsCheckPeriod          opt[time.Duration]
	RunningUpdatePeriod, MissingCheckPeriod                opt[time.Duration]
	OvercommitDuration, JobConfirmationTimeout             opt[time.Duration]
	MinSpare                                               opt[resource.Partial]
	NoSchedulingWithWaiting, AbortOnZeroSlots              opt[bool]
}

var nodeRuleRows = []row[NodeRules]{
	live("node_heartbeat_period", "How often nodes report, unless one says otherwise itself.",
		func(c *NodeRules) *opt[time.Duration] { return &c.HeartbeatPeriod }, periods.Default(5*time.Second)).common(),
	live("node_heartbeat_timeout", "After this silence a node is offline. Its jobs are kept.",
		func(c *NodeRules) *opt[time.Duration] { return &c.HeartbeatTimeout }, periods.Default(time.Minute)),
	live("max_node_unseen_period_to_abort_allocations", "After this silence the jobs of a node are given up and start elsewhere.",
		func(c *NodeRules) *opt[time.Duration] { return &c.UnseenToAbort }, periods.Default(5*time.Minute)).
		alias("max_node_unseen_period_to_abort_jobs"),
	live("node_registration_timeout", "After this silence a node leaves its tree and has to register again.",
		func(c *NodeRules) *opt[time.Duration] { return &c.RegistrationTimeout }, periods.Default(10*time.Minute)),
	live("max_offline_node_age", "After this silence a node is forgotten.",
		func(c *NodeRules) *opt[time.Duration] { return &c.MaxOfflineAge }, document.AtLeast(document.Durations, time.Second).Default(12*time.Hour)),
	live("validate_node_tags_period", "How often it is checked that every node is in exactly one tree.",
		func(c *NodeRules) *opt[time.Duration] { return &c.TagsCheckPeriod }, periods.Default(30*time.Second)),
	live("running_allocations_update_period", "How often the usage of a running job is taken over.",
		func(c *NodeRules) *opt[time.Duration] { return &c.RunningUpdatePeriod }, periods.Default(10*time.Second)).
		alias("running_jobs_update_period"),
	live("missing_allocations_check_period", "How often jobs that a node does not report are looked for.",
		func(c *NodeRules) *opt[time.Duration] { return &c.MissingCheckPeriod }, periods.Default(10*time.Second)).
		alias("missing_jobs_check_period"),
	live("allowed_node_resources_overcommit_duration", "How long the jobs of a node may hold more than it has.",
		func(c *NodeRules) *opt[time.Duration] { return &c.OvercommitDuration }, timeouts.Default(15*time.Second)),
	live("job_confirmation_timeout", "After a restart, how long a node has to confirm that a job still runs.",
		func(c *NodeRules) *opt[time.Duration] { return &c.JobConfirmationTimeout }, periods.Default(4*time.Minute)),
	live("min_spare_allocation_resources_on_node", "The least a node must have free to be looked at, unless its tree says otherwise.",
		func(c *NodeRules) *opt[resource.Partial] { return &c.MinSpare }, resources.Default(defaultSpare)).
		alias("min_spare_job_resources_on_node"),
	live("disable_scheduling_on_node_with_waiting_allocations", "Start nothing more on a node where a job still waits for resources.",
		func(c *NodeRules) *opt[bool] { return &c.NoSchedulingWithWaiting }, document.Bools.Default(true)),
	live("enable_allocation_abort_on_zero_user_slots", "Abort the jobs of a node whose slots are set to 0.",
		func(c *NodeRules) *opt[bool] { return &c.AbortOnZeroSlots }, document.Bools.Default(true)).
		alias("enable_job_abort_on_zero_user_slots"),
}

// OperationRules concern operations of all trees.
type OperationRules struct {
	MaxCount                                              opt[int]
	PoolChange, RequirePools, JobRevival, SnapshotLoading opt[bool]
	EphemeralNames                                        opt[string]
	SpecAlertSize                                         opt[int64]
	AllocationStoring                                     opt[time.Duration]
	Stuck                                                 StuckCheck
}

// StuckCheck is when an operation that makes no progress fails.
type StuckCheck struct {
	Period, SafeTimeout, LimitingAncestorSafeTimeout opt[time.Duration]
	MinAttempts                                      opt[int]
}

var stuckCheck = newGroup([]row[StuckCheck]{
	live("period", "How often operations are checked.",
		func(c *StuckCheck) *opt[time.Duration] { return &c.Period }, periods.Default(time.Minute)),
	live("safe_timeout", "How long an operation may go without progress.",
		func(c *StuckCheck) *opt[time.Duration] { return &c.SafeTimeout }, timeouts.Default(time.Hour)),
	live("limiting_ancestor_safe_timeout", "How long it may stand below a pool whose limits no job of it fits.",
		func(c *StuckCheck) *opt[time.Duration] { return &c.LimitingAncestorSafeTimeout }, timeouts.Default(5*time.Minute)),
	live("min_schedule_allocation_attempts", "So many attempts to start a job must have failed.",
		func(c *StuckCheck) *opt[int] { return &c.MinAttempts }, counts.Default(1000)).alias("min_schedule_job_attempts"),
})

var operationRuleRows = []row[OperationRules]{
	live("max_operation_count", "How many operations there may be in all trees.",
		func(c *OperationRules) *opt[int] { return &c.MaxCount }, counts.Default(5000)),
	live("pool_change_is_allowed", "Whether the pool of a running operation may be changed.",
		func(c *OperationRules) *opt[bool] { return &c.PoolChange }, document.Bools.Default(true)),
	live("require_specified_operation_pools_existence", "Refuse operations that name a pool that does not exist, instead of making an ephemeral one.",
		func(c *OperationRules) *opt[bool] { return &c.RequirePools }, document.Bools.Default(false)),
	live("ephemeral_pool_name_regex", "What the names of ephemeral pools must match whole.",
		func(c *OperationRules) *opt[string] { return &c.EphemeralNames }, expressions.Default(`[-_\.a-z0-9:A-Z]+`)),
	live("operation_spec_too_large_alert_threshold", "A larger specification gets an alert.",
		func(c *OperationRules) *opt[int64] { return &c.SpecAlertSize }, memory.Default(10_000_000)),
	live("finished_operation_allocation_storing_timeout", "How long jobs of an operation that has ended are remembered.",
		func(c *OperationRules) *opt[time.Duration] { return &c.AllocationStoring }, timeouts.Default(10*time.Second)),
	live("enable_job_revival", "After a restart take over the jobs that still run, instead of aborting them.",
		func(c *OperationRules) *opt[bool] { return &c.JobRevival }, document.Bools.Default(true)),
	live("enable_snapshot_loading", "After a restart continue operations from their saved state, instead of starting them anew.",
		func(c *OperationRules) *opt[bool] { return &c.SnapshotLoading }, document.Bools.Default(true)),
	part("operation_stuck_check", "When an operation that makes no progress fails.",
		func(c *OperationRules) *StuckCheck { return &c.Stuck }, stuckCheck).alias("operation_hangup_check", "operation_unschedulable_check"),
}
