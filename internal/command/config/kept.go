package config

import (
	"slices"

	"github.com/weirhq/weir/internal/value/document"
)

// Options of YTsaurus's scheduler that have no effect here. Files and patches of clusters that move
// to Weir may have them: each causes a warning with its reason.

// keptRetention is the rest of operations_cleaner.
func keptRetention() []row[Retention] {
	return kept(func(c *Retention) *document.Extras { return &c.Extras },
		"operations move to the archive as soon as they end",
		"clean_delay", "max_operation_age", "max_operation_count_per_user", "soft_retained_operation_count", "hard_retained_operation_count")
}

func keptScheduler() []row[Scheduler] {
	return slices.Concat(
		keptBecause("the work happens at once when there is a reason, or with every fair-share update",
			"min_needed_resources_update_period", "alerts_update_period", "scheduler_tree_alerts_update_period",
			"static_orchid_cache_update_period", "transient_operation_queue_scan_period", "pending_by_pool_operation_scan_period",
			"running_allocations_update_period running_jobs_update_period", "missing_allocations_check_period missing_jobs_check_period",
			"validate_node_tags_period", "watchers_update_period", "nodes_attributes_update_period"),
		keptBecause("resource_demand_sanity_check_period sets the period of this check for all operations",
			"available_exec_nodes_check_period", "banned_exec_nodes_check_period"),
		keptBecause("the event log records decisions as they are made, and the history records states",
			"fair_share_log_period", "accumulated_resource_distribution_log_period accumulated_usage_log_period", "resource_metering_period",
			"cluster_info_logging_period", "nodes_info_logging_period", "allocations_logging_period", "max_event_log_node_batch_size"),
		keptBecause("metrics are computed for each request", "fair_share_profiling_period"),
		keptBecause("no heartbeat is refused: above soft_concurrent_heartbeat_limit nodes report without getting jobs",
			"hard_concurrent_heartbeat_limit", "heartbeat_process_backoff", "use_heartbeat_scheduling_complexity_throttling",
			"scheduling_heartbeat_complexity_limit"),
		keptBecause("a heartbeat starts all due jobs that fit on the node",
			"max_started_allocations_per_heartbeat max_started_jobs_per_heartbeat", "schedule_allocations_timeout schedule_jobs_timeout"),
		keptBecause("controllers are part of the scheduler and answer at once",
			"max_concurrent_controller_schedule_allocation_calls max_concurrent_controller_schedule_job_calls",
			"max_concurrent_controller_schedule_allocation_exec_duration", "enable_concurrent_schedule_allocation_exec_duration_throttling",
			"concurrent_controller_schedule_allocation_calls_regularization", "schedule_allocation_time_limit schedule_job_time_limit",
			"schedule_allocation_fail_backoff_time schedule_job_fail_backoff_time", "enable_per_node_shard_schedule_allocation_backoff",
			"controller_throttling", "schedule_allocation_timeout_alert_reset_time", "long_schedule_allocation_logging_threshold",
			"schedule_allocation_entry_removal_timeout", "schedule_allocation_entry_check_period", "schedule_allocation_duration_logging_threshold"),
		keptBecause("the jobs of a silent node are aborted after max_node_unseen_period_to_abort_allocations; the node stays listed and may come back at any time",
			"node_registration_timeout", "max_offline_node_age"),
		keptBecause("a job that waits on its node counts there like a running one", "disable_scheduling_on_node_with_waiting_allocations"),
		keptBecause("jobs of a node that has lost all resources end after allowed_node_resources_overcommit_duration",
			"enable_allocation_abort_on_zero_user_slots enable_job_abort_on_zero_user_slots"),
		keptBecause("disks are not a resource here", "consider_disk_quota_in_preemptive_scheduling_discount"),
		keptBecause("the naming rules of pools apply to ephemeral pools", "ephemeral_pool_name_regex"),
		keptBecause("specifications longer than the API accepts are refused", "operation_spec_too_large_alert_threshold"),
		keptBecause("jobs move to the archive as soon as they end", "finished_operation_allocation_storing_timeout"),
		keptBecause("operations and their running jobs are always revived", "enable_job_revival", "enable_snapshot_loading"),
		keptBecause("there are no tentative trees", "operations_without_tentative_pool_trees", "default_tentative_pool_trees"),
		keptBecause("an operation is bound to one tree whenever it requests it", "enable_schedule_in_single_tree"),
		keptBecause("it tunes internals of YTsaurus",
			"node_shard_count", "node_shard_submit_allocations_to_strategy_period node_shard_submit_jobs_to_strategy_period",
			"node_shard_exec_nodes_cache_update_period", "node_changes_count_threshold_to_update_cache", "exec_node_descriptors_update_period",
			"operation_to_agent_assignment_backoff", "fair_share_update_thread_count", "background_thread_count", "orchid_worker_thread_count",
			"resource_usage_snapshot_update_period", "scheduling_tag_filter_expire_timeout", "crash_on_allocation_heartbeat_processing_exception"),
	)
}

func keptBecause(because string, names ...string) []row[Scheduler] {
	return kept(func(c *Scheduler) *document.Extras { return &c.Extras }, because, names...)
}
