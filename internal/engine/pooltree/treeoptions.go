package pooltree

import (
	"time"

	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/nodefilter"
	"github.com/weirhq/weir/internal/value/resource"
)

var treeIntegralTable = document.NewTable(
	document.Maybe("smooth_period", "The shortest time in which an integral pool may spend everything it has saved.",
		func(c *TreeIntegral) *opt[time.Duration] { return &c.SmoothPeriod }, period.Default(time.Minute)),
	document.Maybe("pool_capacity_saturation_period", "The k of the user documents: a pool saves at most its flow over this time.",
		func(c *TreeIntegral) *opt[time.Duration] { return &c.CapacitySaturationPeriod }, period.Default(24*time.Hour)),
	document.Maybe("relaxed_share_multiplier_limit", "A relaxed pool spends at most this many times its flow.",
		func(c *TreeIntegral) *opt[float64] { return &c.RelaxedMultiplier }, multiplierLimit.Default(3)),
)

var batchTable = document.NewTable(
	document.Maybe("batch_size", "Operations in one slice.",
		func(c *BatchScheduling) *opt[int] { return &c.BatchSize }, positive.Default(1000)),
	document.Maybe("fallback_min_spare_allocation_resources", "Once a job has started, the remaining slices are skipped if the node has less than this free.",
		func(c *BatchScheduling) *opt[resource.Partial] { return &c.FallbackSpareResources },
		guarantee.Default(resource.Partial{}.With(resource.UserSlots, 1).With(resource.CPU, 500).With(resource.Memory, 1<<30))).
		Alias("fallback_min_spare_job_resources"),
)

var packingTable = document.NewTable(
	document.Maybe("enable", "Enables packing.",
		func(c *Packing) *opt[bool] { return &c.Enable }, switched.Default(false)),
	document.Maybe("metric", "What is compared: the angle between a job's resources and a node's free resources, with or without their lengths.",
		func(c *Packing) *opt[PackingMetric] { return &c.Metric }, document.Enum(metricWords...).Default(AngleLength)),
	document.Maybe("max_better_past_snapshots", "A job waits while at least this many recent nodes suited it better.",
		func(c *Packing) *opt[int] { return &c.MaxBetterPastSnapshots }, count.Default(2)),
	document.Maybe("absolute_metric_value_tolerance", "Better means that the metric is smaller by more than this.",
		func(c *Packing) *opt[float64] { return &c.AbsoluteTolerance }, document.AtLeast(document.Numbers, 0).Default(0.05)),
	document.Maybe("relative_metric_value_tolerance", "Better means that the metric is smaller by more than this factor.",
		func(c *Packing) *opt[float64] { return &c.RelativeTolerance }, document.AtLeast(document.Numbers, 1).Default(1.5)),
	document.Maybe("min_window_size_for_schedule", "How many heartbeats must arrive before a job may start.",
		func(c *Packing) *opt[int] { return &c.MinWindowSize }, count.Default(0)),
	document.Maybe("max_heartbeat_window_size", "How many heartbeats are remembered.",
		func(c *Packing) *opt[int] { return &c.MaxWindowSize }, count.Default(10)),
	document.Maybe("max_heartbeat_age", "How long heartbeats are remembered.",
		func(c *Packing) *opt[time.Duration] { return &c.MaxHeartbeatAge }, duration.Default(time.Hour)),
)

// fairShareOptions decide what belongs to the tree, how much may run in it and
// how shares are computed.
var fairShareOptions = []document.Option[TreeConfig]{
	document.Maybe("nodes_filter", "The nodes of the tree, as a formula over tags with & | ! and parentheses. Empty: all nodes. Trees must not share nodes: a filter that would put a known node into two trees is stored, but the last valid one stays in force, with an alert.",
		func(c *TreeConfig) *opt[nodefilter.Filter] { return &c.NodesFilter }, treeFilter.Default(nodefilter.Filter{})).
		Alias("node_tag_filter"),
	document.Maybe("main_resource", "The resource from which guarantees for the others are inferred.",
		func(c *TreeConfig) *opt[resource.Kind] { return &c.MainResource }, mainResource.Default(resource.CPU)),
	document.Maybe("max_operation_count", "The most operations that may run or wait in the whole tree.",
		func(c *TreeConfig) *opt[int] { return &c.MaxOperationCount }, positive.Default(50000)),
	document.Maybe("max_running_operation_count", "The most operations that may run in the whole tree.",
		func(c *TreeConfig) *opt[int] { return &c.MaxRunningOperationCount }, positive.Default(2000)),
	document.Maybe("max_operation_count_per_pool", "max_operation_count of pools that do not set it.",
		func(c *TreeConfig) *opt[int] { return &c.MaxOperationCountPerPool }, positive.Default(50)),
	document.Maybe("max_running_operation_count_per_pool", "max_running_operation_count of pools that do not set it.",
		func(c *TreeConfig) *opt[int] { return &c.MaxRunningOperationCountPerPool }, positive.Default(8)),
	document.Maybe("default_parent_pool", "The parent of pools created for operations that name a pool that does not exist.",
		func(c *TreeConfig) *opt[string] { return &c.DefaultParentPool }, poolName.Default(RootName)),
	document.Maybe("use_user_default_parent_pool_map", "First look up the parent of such a pool in a map from users to pools.",
		func(c *TreeConfig) *opt[bool] { return &c.UseUserDefaultParentPoolMap }, switched.Default(false)),
	document.Maybe("forbid_immediate_operations_in_root", "Operations must not be started in the root pool itself.",
		func(c *TreeConfig) *opt[bool] { return &c.ForbidImmediateOperationsInRoot }, switched.Default(true)),
	document.Maybe("max_ephemeral_pool_per_user", "The most ephemeral pools that one user may have because operations named them.",
		func(c *TreeConfig) *opt[int] { return &c.MaxEphemeralPoolPerUser }, positive.Default(1)).
		Alias("max_ephemeral_pools_per_user"),
	document.Maybe("infer_weight_from_guarantees_share_multiplier", "A pool without a weight gets this number times its fraction of the parent's guarantee. Unset: it has weight 1.",
		func(c *TreeConfig) *opt[float64] { return &c.InferWeightMultiplier }, document.AtLeast(document.Numbers, 1)).
		Alias("infer_weight_from_strong_guarantee_share_multiplier"),
	document.Section("integral_guarantees", "Guarantees over time.",
		func(c *TreeConfig) *TreeIntegral { return &c.Integral }, treeIntegralTable),
	document.Maybe("should_distribute_free_volume_among_children", "Whether volume that a pool could not store goes to its siblings, unless the parent pool sets it.",
		func(c *TreeConfig) *opt[bool] { return &c.DistributeFreeVolume }, switched.Default(false)),
	document.Maybe("enable_step_function_for_gang_operations", "A gang operation gets all of its demand or nothing.",
		func(c *TreeConfig) *opt[bool] { return &c.GangSteps }, switched.Default(false)),
	document.Maybe("consider_single_allocation_vanilla_operations_as_gang", "Treat a vanilla operation with one job as a gang operation.",
		func(c *TreeConfig) *opt[bool] { return &c.SingleJobVanillaIsGang }, switched.Default(true)).
		Alias("consider_single_job_vanilla_operations_as_gang"),
	document.Maybe("allow_gang_operations_only_in_fifo_pools", "Allow gang operations only in FIFO pools.",
		func(c *TreeConfig) *opt[bool] { return &c.GangOnlyInFIFOPools }, switched.Default(false)),
	document.Maybe("enable_improved_fair_share_by_fit_factor_computation", "Gang operations that would get their shares at the same fit factor get them one after another.",
		func(c *TreeConfig) *opt[bool] { return &c.ImprovedFairShare }, switched.Default(false)),
	document.Maybe("enable_improved_fair_share_by_fit_factor_computation_distribution_gap", "The improved computation also distributes remainders below the rounding error.",
		func(c *TreeConfig) *opt[bool] { return &c.ImprovedDistributionGap }, switched.Default(false)),
	document.Maybe("enable_fair_share_truncation_in_fifo_pool", "Set the share of a gang operation in a FIFO pool to zero if it is less than the operation demands.",
		func(c *TreeConfig) *opt[bool] { return &c.TruncateFIFO }, switched.Default(false)).
		Alias("truncate_fifo_pool_unsatisfied_child_fair_share"),
	document.Maybe("best_allocation_share_update_period", "How often the scheduler recomputes how much of an operation fits on the nodes.",
		func(c *TreeConfig) *opt[time.Duration] { return &c.BestAllocationPeriod }, duration.Default(time.Minute)).
		Alias("best_allocation_ratio_update_period"),
	document.Maybe("node_reconnection_timeout", "How long after a start nodes may still be reconnecting; until then limits by tags are not applied.",
		func(c *TreeConfig) *opt[time.Duration] { return &c.NodeReconnectionTimeout }, duration.Default(5*time.Minute)).
		Alias("total_resource_limits_consider_delay"),
}

// schedulingOptions decide how operations get their jobs.
var schedulingOptions = []document.Option[TreeConfig]{
	document.Maybe("max_schedulable_element_count_in_fifo_pool", "In a FIFO pool, operations beyond this number that have no fair share are not tried. Unset: all are tried.",
		func(c *TreeConfig) *opt[int] { return &c.MaxSchedulableInFIFOPool }, count),
	document.Maybe("fifo_pool_scheduling_order", "The order in which operations of a FIFO pool are tried on a node.",
		func(c *TreeConfig) *opt[FIFOOrder] { return &c.FIFOOrder }, document.Enum(orderWords...).Default(StrictFIFO)),
	document.Maybe("enable_guarantee_priority_scheduling", "Try operations below their promised guarantee before all others.",
		func(c *TreeConfig) *opt[bool] { return &c.GuaranteePriorityScheduling }, switched.Default(true)),
	document.Maybe("enable_preliminary_resource_limits_check", "Check limits before asking the controller for a job.",
		func(c *TreeConfig) *opt[bool] { return &c.PreliminaryLimitsCheck }, switched.Default(true)),
	document.Maybe("enable_limiting_ancestor_check", "Fail an operation if its smallest job exceeds the limits of a pool above it.",
		func(c *TreeConfig) *opt[bool] { return &c.LimitingAncestorCheck }, switched.Default(true)),
	document.Maybe("min_spare_allocation_resources_on_node", "A node with less than this free gets no jobs.",
		func(c *TreeConfig) *opt[resource.Partial] { return &c.MinSpareResources },
		guarantee.Default(resource.Partial{}.With(resource.UserSlots, 1).With(resource.CPU, 100).With(resource.Memory, 256<<20))).
		Alias("min_spare_job_resources_on_node"),
	document.Maybe("min_job_resource_limits", "Refuse operations with smaller jobs.",
		func(c *TreeConfig) *opt[resource.Partial] { return &c.MinJobResources }, limits).
		Alias("min_allocation_resource_limits"),
	document.Maybe("max_job_resource_limits", "Refuse operations with larger jobs.",
		func(c *TreeConfig) *opt[resource.Partial] { return &c.MaxJobResources }, limits).
		Alias("max_allocation_resource_limits"),
	document.Maybe("guaranteed_job_resources", "Assume that a job of this size can always be placed; check larger ones against the nodes.",
		func(c *TreeConfig) *opt[resource.Partial] { return &c.GuaranteedJobResources }, guarantee).
		Alias("guaranteed_allocation_resources"),
	document.Maybe("batch_operation_scheduling", "Try operations on a node in slices. Unset: all at once.",
		func(c *TreeConfig) *opt[BatchScheduling] { return &c.Batch }, batchTable.Type()),
	document.Section("packing", "Let jobs wait for a node whose free resources suit them better.",
		func(c *TreeConfig) *Packing { return &c.Packing }, packingTable),
	document.Maybe("gang_assembly_timeout", "How long the scheduler keeps room for some jobs of a gang while it looks for room for the others. It is at least two heartbeat periods.",
		func(c *TreeConfig) *opt[time.Duration] { return &c.GangAssemblyTimeout }, duration.Default(5*time.Second)),
}

// starvationOptions decide when operations and pools starve and what is
// preempted for them.
var starvationOptions = concat([]document.Option[TreePreemption]{
	document.Maybe("enable_pool_starvation", "Pools may starve, not only operations.",
		func(c *TreePreemption) *opt[bool] { return &c.EnablePoolStarvation }, switched.Default(true)),
	document.Maybe("fair_share_preemption_timeout", "How long an operation must be below its fair share before it starves and may preempt.",
		func(c *TreePreemption) *opt[time.Duration] { return &c.FairSharePreemptionTimeout }, duration.Default(30*time.Second)).
		Alias("fair_share_starvation_timeout"),
	document.Maybe("min_share_preemption_timeout", "How long an operation must be below its strong guarantee before it starves, if shorter than fair_share_preemption_timeout. Unset: only the fair share counts.",
		func(c *TreePreemption) *opt[time.Duration] { return &c.MinSharePreemptionTimeout }, duration),
	document.Maybe("fair_share_aggressive_starvation_timeout", "How long an operation must be below its fair share before it starves aggressively. Must not be shorter than fair_share_preemption_timeout.",
		func(c *TreePreemption) *opt[time.Duration] { return &c.AggressiveStarvationTimeout }, duration.Default(2*time.Minute)),
	document.Maybe("fair_share_starvation_tolerance", "Below fair share means usage < fair share × tolerance.",
		func(c *TreePreemption) *opt[float64] { return &c.FairShareStarvationTolerance }, ratio.Default(0.8)),
	document.Maybe("enable_absolute_fair_share_starvation_tolerance", "An operation that is short of no more than its smallest waiting job does not starve.",
		func(c *TreePreemption) *opt[bool] { return &c.AbsoluteStarvationTolerance }, switched.Default(false)),
	document.Maybe("ignore_tolerance_when_fair_share_covers_demand", "An operation whose fair share covers its whole demand is below it as soon as it lacks a job, whatever the tolerance, as in YTsaurus.",
		func(c *TreePreemption) *opt[bool] { return &c.ToleranceEndsAtDemand }, switched.Default(false)),
	document.Maybe("enable_aggressive_starvation", "Operations may starve aggressively, unless their pools override it.",
		func(c *TreePreemption) *opt[bool] { return &c.EnableAggressiveStarvation }, switched.Default(false)),
	document.Maybe("max_unpreemptable_running_job_count", "An operation with fewer jobs than this is not preempted. It sets user_slots of non_preemptible_resource_usage_threshold to one less if that leaves them out.",
		func(c *TreePreemption) *opt[int] { return &c.MaxUnpreemptableRunningJobCount }, count).
		Alias(unpreemptableAliases...),
	document.Maybe("non_preemptible_resource_usage_threshold", "An operation is not preempted while its usage is within this.",
		func(c *TreePreemption) *opt[resource.Partial] { return &c.NonPreemptibleThreshold }, guarantee),
	document.Maybe("preemption_satisfaction_threshold", "Jobs beyond this fraction of an operation's fair share may be preempted.",
		func(c *TreePreemption) *opt[float64] { return &c.SatisfactionThreshold }, document.Above(document.Numbers, 0).Default(1)),
	document.Maybe("aggressive_preemption_satisfaction_threshold", "Jobs beyond this fraction of an operation's fair share may be preempted aggressively. Must not exceed preemption_satisfaction_threshold.",
		func(c *TreePreemption) *opt[float64] { return &c.AggressiveSatisfactionThreshold }, document.AtLeast(document.Numbers, 0).Default(0.2)),
	document.Maybe("allocation_count_preemption_timeout_coefficient", "An operation with fewer pending jobs than this starves sooner, in proportion.",
		func(c *TreePreemption) *opt[float64] { return &c.JobCountTimeoutCoefficient }, document.AtLeast(document.Numbers, 1).Default(1)).
		Alias("job_count_preemption_timeout_coefficient"),
	document.Maybe("consider_allocation_on_fair_share_bound_preemptible", "The job that crosses a threshold may be preempted too.",
		func(c *TreePreemption) *opt[bool] { return &c.BoundaryJobIsPreemptible }, switched.Default(false)).
		Alias("consider_job_on_fair_share_bound_preemptible"),
	document.Maybe("allow_preemption_from_starving_operations", "Jobs of starving operations may be preempted.",
		func(c *TreePreemption) *opt[bool] { return &c.FromStarvingOperations }, switched.Default(false)),
	document.Maybe("enable_conditional_preemption", "Jobs below a starving or unsatisfied pool may be preempted for that pool only.",
		func(c *TreePreemption) *opt[bool] { return &c.Conditional }, switched.Default(false)),
	document.Maybe("preemption_check_starvation", "With enable_conditional_preemption: the pool qualifies if it starves.",
		func(c *TreePreemption) *opt[bool] { return &c.CheckStarvation }, switched.Default(false)),
	document.Maybe("preemption_check_satisfaction", "With enable_conditional_preemption: the pool qualifies if it is below its satisfaction threshold.",
		func(c *TreePreemption) *opt[bool] { return &c.CheckSatisfaction }, switched.Default(false)),
	document.Maybe("scheduling_preemption_priority_scope", "Whether an operation may preempt because a pool above it starves.",
		func(c *TreePreemption) *opt[PreemptionScope] { return &c.PriorityScope }, document.Enum(scopeWords...).Default(OperationAndAncestors)),
	document.Maybe("allow_aggressive_preemption_for_gang_operations", "Jobs of gang operations may be preempted aggressively.",
		func(c *TreePreemption) *opt[bool] { return &c.AggressiveForGangOperations }, switched.Default(true)),
	document.Maybe("preemptive_scheduling_backoff", "The least time between two searches for jobs to preempt on one node.",
		func(c *TreePreemption) *opt[time.Duration] { return &c.Backoff }, duration.Default(5*time.Second)),
	document.Maybe("minimize_preempted_set", "After choosing jobs to preempt, spare those that need not be preempted.",
		func(c *TreePreemption) *opt[bool] { return &c.MinimizePreemptedSet }, switched.Default(true)),
	document.Maybe("allocation_preemption_timeout", "How long a preempted job may take to finish on its own.",
		func(c *TreePreemption) *opt[time.Duration] { return &c.PreemptionTimeout }, duration.Default(30*time.Second)).
		Alias("job_preemption_timeout", "job_interrupt_timeout"),
	document.Maybe("allocation_graceful_preemption_timeout", "How long a preempted job may take to finish on its own if its operation uses graceful preemption.",
		func(c *TreePreemption) *opt[time.Duration] { return &c.GracefulPreemptionTimeout }, duration.Default(time.Minute)).
		Alias("job_graceful_preemption_timeout", "job_graceful_interrupt_timeout"),
	document.Maybe("use_precommit_for_preemption", "Reserve limits while jobs are being preempted, to avoid preempting too many.",
		func(c *TreePreemption) *opt[bool] { return &c.UsePrecommit }, switched.Default(false)),
	document.Maybe("enable_infinite_resource_limits_overcommit", "Pools may exceed their limits by any amount while jobs are being preempted. Requires use_precommit_for_preemption.",
		func(c *TreePreemption) *opt[bool] { return &c.InfiniteLimitsOvercommit }, switched.Default(false)),
	document.Maybe("waiting_for_resources_on_node_timeout", "How long a job waits on a node for preempted jobs to end. Unset: the node's default (30s).",
		func(c *TreePreemption) *opt[time.Duration] { return &c.WaitingForResourcesTimeout }, duration).
		Alias("waiting_job_timeout"),
}, document.Within(patienceLimitOptions, func(c *TreePreemption) *PatienceLimits { return &c.Limits }))

var presetOption = document.Plain("pool_config_presets", "Named sets of starvation and preemption options for pools.",
	func(c *TreeConfig) *[]document.Named[PresetConfig] { return &c.PoolConfigPresets }, document.MapOf(presetType))

// treeOptions are all options of a tree, without its pools.
var treeOptions = concat(
	fairShareOptions,
	schedulingOptions,
	document.Within(starvationOptions, func(c *TreeConfig) *TreePreemption { return &c.Preemption }),
	[]document.Option[TreeConfig]{presetOption},
	kept(func(c *TreeConfig) *document.Extras { return &c.Extras }, unsupportedTreeOptions),
)

// TreeOptions is the table of a tree's options.
var TreeOptions = document.NewTable(treeOptions...).
	KeepingUnknown(func(c *TreeConfig) *document.Extras { return &c.Extras }).
	KeepingSpelling(func(c *TreeConfig) *document.Spelling { return &c.Spelling })

var unsupportedTreeOptions = []unsupported{
	{"enable_fast_fifo_fair_share_by_fit_factor_computation", nil, "the fast computation is always on"},
	{"ssd_priority_preemption", nil, reasonSSD},
	{"default_gpu_full_host_preemption", nil, "there is no separate stage for jobs that need all GPUs of a host"},
	{"scheduling_segments", nil, "there are no scheduling segments"},
	{"policy_kind", nil, "there is one scheduling policy"},
	{"gpu_scheduling_policy", nil, "there is one scheduling policy"},
	{"allow_single_job_large_gpu_operations_in_multiple_trees", []string{"allow_single_allocation_large_gpu_operations_in_multiple_trees"}, "there are no special rules for large GPU operations"},
	{"tentative_tree_saturation_deactivation_period", nil, reasonTentative},
	{"non_tentative_operation_types", nil, reasonTentative},
	{"min_child_heap_size", nil, reasonTuning},
	{"allowed_resource_usage_staleness", nil, reasonTuning},
	{"check_operation_for_liveness_in_preschedule", nil, reasonTuning},
	{"cached_allocation_preemption_statuses_update_period", []string{"cached_job_preemption_statuses_update_period"}, reasonTuning},
	{"running_allocation_statistics_update_period", []string{"running_job_statistics_update_period"}, reasonTuning},
	{"accumulated_resource_distribution_update_period", []string{"accumulated_resource_usage_update_period"}, reasonTuning},
	{"min_node_resource_limits", nil, "nodes have no minimum size"},
	{"min_node_resource_limits_check_period", nil, "nodes have no minimum size"},
	{"min_node_resource_limits_violation_grace_period", nil, "nodes have no minimum size"},
	{"heartbeat_tree_scheduling_info_log_period", nil, reasonTelemetry},
	{"update_preemptible_list_duration_logging_threshold", nil, reasonTelemetry},
	{"max_event_log_pool_batch_size", nil, reasonTelemetry},
	{"max_event_log_operation_batch_size", nil, reasonTelemetry},
	{"enable_detailed_starvation_logs", nil, reasonTelemetry},
	{"enable_detailed_logs_for_starving_operations", nil, reasonTelemetry},
	{"enable_detailed_logs_for_single_allocation_vanilla_operations", nil, reasonTelemetry},
	{"enable_operations_profiling", nil, reasonTelemetry},
	{"enable_by_user_profiling", nil, reasonTelemetry},
	{"enable_pools_vector_profiling", nil, reasonTelemetry},
	{"enable_operations_vector_profiling", nil, reasonTelemetry},
	{"enable_scheduled_and_preempted_resources_profiling", nil, reasonTelemetry},
	{"sparsify_fair_share_profiling", nil, reasonTelemetry},
	{"profiled_pool_resources", nil, reasonTelemetry},
	{"profiled_operation_resources", nil, reasonTelemetry},
	{"per_pool_starvation_interval_bounds", nil, reasonTelemetry},
	{"per_pool_satisfaction_digest", nil, reasonTelemetry},
	{"per_pool_satisfaction_profiling_quantiles", nil, reasonTelemetry},
	{"custom_profiling_tag_filter", nil, reasonTelemetry},
	{"metering_tags", nil, "usage is not metered by tags"},
	{"enable_unrecognized_alert", nil, "unknown options are always reported"},
}
