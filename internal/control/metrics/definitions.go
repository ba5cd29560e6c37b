package metrics

import (
	"strings"

	dto "github.com/prometheus/client_model/go"
)

// Definition is the name and meaning of a metric.
type Definition struct {
	Name string
	// Help has no full stop at the end, as is customary.
	Help string
	// Type is "gauge", "counter" or "histogram".
	Type   string
	Labels []string
}

// Unit returns the last word of the name, which is the unit of the value. See the
// table of units in docs/metrics.md.
func (d *Definition) Unit() string {
	return d.Name[strings.LastIndexByte(d.Name, '_')+1:]
}

// metric numbers the definitions.
type metric int

const (
	buildInfo metric = iota
	leadingStatus
	leaderKnownStatus
	leaderEpoch
	revivingStatus
	heldBackNodes
	heldBackJobs
	heldBackUntil
	updatedTimestamp
	waitingRequests
	alertStatus
	notifications
	notificationsWaiting
	forecastCoverage
	forecastSettled
	forecastLoss
	forecastSeconds

	treeResources
	treeUsage
	treeDemand
	treeGuaranteed
	treePools
	treeStarvingPools
	treeRunningJobs
	treePendingJobs

	poolInfo
	poolFairShare
	poolUsage
	poolDemand
	poolStrong
	poolEffectiveStrong
	poolBurst
	poolFlow
	poolLimit
	poolVolume
	poolVolumeCapacity
	poolStarvation
	poolOperations
	poolRunningOperations
	poolRunningJobs
	poolPendingJobs
	poolSuffered
	poolCaused
	poolDue
	poolShort

	nodesByState
	isolationLevel
	gpuUtilization
	gpuMemory
	gpuMemoryUsed
	gpuUsable

	operationsByState
	operationsStarted
	operationsEnded
	jobsStarted
	jobsEnded
	jobsAborted
	jobsAdopted
	jobStartLatency
	preemptions
	preemptionCycles
	preemptionLost
	budgetSpent
	savedAmounts

	heartbeatLatency
	heartbeatProcessing
	heartbeatsSkipped
	updateDuration
	updateStages

	storeInfo
	storeSize
	storeCommits
	journalBytes
	journalSegments
	journalGaps
	storeRows
	storeCommitLatency
	storeCommitRetries

	apiRequests
	apiDuration
	apiInFlight

	kubeWrites
	kubeBinds
	kubeBindSeconds
	kubeEvictions
	kubeResizes
	kubePendingPods
	kubePodWait
	kubeClasses
	kubeWriteRate
	kubeWatchAge
	kubeGangAssembly
	kubeMetricsAge

	metricCount
)

// Definitions are all metrics of this program, by metric. Those of the Go runtime and
// of the process (go_…, process_…) are added to them.
var Definitions = [metricCount]Definition{
	buildInfo:         {"weir_build_info", "What the program was built from; always 1", "gauge", []string{"version", "revision", "go_version"}},
	leadingStatus:     {"weir_leading_status", "Whether this scheduler leads (1) or stands by (0)", "gauge", nil},
	leaderKnownStatus: {"weir_leader_known_status", "Whether this scheduler knows a leader, including itself (1), or none (0)", "gauge", nil},
	leaderEpoch:       {"weir_leader_epoch", "Number of the leader's term, as known to this scheduler; it grows whenever the leader changes", "gauge", nil},
	revivingStatus:    {"weir_reviving_status", "Whether the leader is waiting for the nodes of its predecessor and starts no jobs (1) or not (0)", "gauge", nil},
	heldBackNodes:     {"weir_held_back_nodes", "Nodes of the last leader that have not reported to this one; what they may run is held back", "gauge", nil},
	heldBackJobs:      {"weir_held_back_jobs", "Jobs that these nodes may still run: they count as running and are not started elsewhere", "gauge", nil},
	heldBackUntil:     {"weir_held_back_until_timestamp_seconds", "When the last of these nodes is given up, in seconds since 1970; 0 if there is none or it is never", "gauge", nil},
	updatedTimestamp:  {"weir_last_update_timestamp_seconds", "When this scheduler last computed fair shares, in seconds since 1970; absent before the first time", "gauge", nil},
	waitingRequests:   {"weir_waiting_requests", "Requests waiting for the scheduler's loop", "gauge", nil},
	alertStatus:       {"weir_alert_status", "Whether an alert of the scheduler is active (1) or not (0), as in //sys/scheduler/@alerts", "gauge", []string{"alert"}},
	notifications:     {"weir_notifications_total", "Messages to a notification target by result: delivered, failed or dropped", "counter", []string{"target", "result"}},

	notificationsWaiting: {"weir_waiting_notifications", "Notifications that wait to be delivered to a target", "gauge", []string{"target"}},

	forecastCoverage: {"weir_forecast_coverage_ratio", "The part of the outcomes of the last 7 days that were within the 90 % intervals of calibrated forecasts, by target: start or finish", "gauge", []string{"tree", "target"}},
	forecastSettled:  {"weir_settled_forecasts", "Calibrated forecasts whose outcomes became known in the last 7 days", "gauge", []string{"tree", "target"}},
	forecastLoss:     {"weir_forecast_pinball_seconds", "Mean pinball loss of forecasts whose outcomes became known in the last 7 days, by method: ensemble, history or mixture", "gauge", []string{"tree", "target", "method"}},
	forecastSeconds:  {"weir_forecast_ensemble_seconds_total", "Time that ensembles of forecasts have run", "counter", nil},

	treeResources:     {"weir_tree_resources_amount", "What all nodes of the tree have together", "gauge", []string{"tree", "resource"}},
	treeUsage:         {"weir_tree_usage_amount", "What jobs of the tree hold", "gauge", []string{"tree", "resource"}},
	treeDemand:        {"weir_tree_demand_amount", "What all operations of the tree could use now, including what they hold", "gauge", []string{"tree", "resource"}},
	treeGuaranteed:    {"weir_tree_strong_guarantee_amount", "Effective strong guarantees of the pools directly below the root, together", "gauge", []string{"tree", "resource"}},
	treePools:         {"weir_tree_pools", "Pools of the tree, including ephemeral ones, without the root", "gauge", []string{"tree"}},
	treeStarvingPools: {"weir_tree_starving_pools", "Starving pools of the tree, by degree of starvation", "gauge", []string{"tree", "starvation"}},
	treeRunningJobs:   {"weir_tree_running_jobs", "Running jobs of the tree", "gauge", []string{"tree"}},
	treePendingJobs:   {"weir_tree_pending_jobs", "Jobs waiting for resources of the tree", "gauge", []string{"tree"}},

	poolInfo:              {"weir_pool_info", "What a pool is; always 1", "gauge", []string{"tree", "pool", "parent", "mode", "integral"}},
	poolFairShare:         {"weir_pool_fair_share_ratio", "Fair share as a fraction of the tree's total, by cause; total is the sum of the others", "gauge", []string{"tree", "pool", "resource", "cause"}},
	poolUsage:             {"weir_pool_usage_amount", "What jobs of the pool hold", "gauge", []string{"tree", "pool", "resource"}},
	poolDemand:            {"weir_pool_demand_amount", "What operations of the pool could use now, including what they hold", "gauge", []string{"tree", "pool", "resource"}},
	poolStrong:            {"weir_pool_strong_guarantee_amount", "Strong guarantee as configured, for the resources it names", "gauge", []string{"tree", "pool", "resource"}},
	poolEffectiveStrong:   {"weir_pool_effective_strong_guarantee_amount", "Strong guarantee in force: resources it does not name are inferred from the main resource, and it is reduced by what the cluster lacks", "gauge", []string{"tree", "pool", "resource"}},
	poolBurst:             {"weir_pool_burst_guarantee_amount", "Burst guarantee as configured", "gauge", []string{"tree", "pool", "resource"}},
	poolFlow:              {"weir_pool_resource_flow_amount", "Resource flow as configured", "gauge", []string{"tree", "pool", "resource"}},
	poolLimit:             {"weir_pool_limit_amount", "Resource limits as configured, for the resources they name", "gauge", []string{"tree", "pool", "resource"}},
	poolVolume:            {"weir_pool_volume_seconds", "What a pool with an integral guarantee has saved, in seconds of the whole tree", "gauge", []string{"tree", "pool"}},
	poolVolumeCapacity:    {"weir_pool_volume_capacity_seconds", "The most volume that it can save", "gauge", []string{"tree", "pool"}},
	poolStarvation:        {"weir_pool_starvation_status", "0: does not starve, 1: starving, 2: aggressively starving", "gauge", []string{"tree", "pool"}},
	poolOperations:        {"weir_pool_operations", "Operations of the pool and of pools below it, including waiting ones", "gauge", []string{"tree", "pool"}},
	poolRunningOperations: {"weir_pool_running_operations", "Running operations of the pool and of pools below it", "gauge", []string{"tree", "pool"}},
	poolRunningJobs:       {"weir_pool_running_jobs", "Running jobs of the pool and of pools below it", "gauge", []string{"tree", "pool"}},
	poolPendingJobs:       {"weir_pool_pending_jobs", "Jobs of the pool and of pools below it waiting for resources", "gauge", []string{"tree", "pool"}},
	poolSuffered:          {"weir_pool_preemptions_suffered_total", "Jobs of the pool's own operations that were preempted", "counter", []string{"tree", "pool"}},
	poolCaused:            {"weir_pool_preemptions_caused_total", "Other operations' jobs that were preempted for the pool's own operations", "counter", []string{"tree", "pool"}},
	poolDue:               {"weir_pool_guarantee_due_seconds_total", "What guarantees promised the pool and it asked for, in seconds of the whole tree, since this scheduler leads", "counter", []string{"tree", "pool"}},
	poolShort:             {"weir_pool_guarantee_short_seconds_total", "What the pool lacked of that, by cause", "counter", []string{"cause", "tree", "pool"}},

	nodesByState:   {"weir_nodes", "Nodes by the first state that applies of refused, offline, banned, draining, jobs_disabled, online; tree is empty for nodes in no tree", "gauge", []string{"tree", "state"}},
	isolationLevel: {"weir_node_isolation_status", "How far a node isolates jobs. 0: none, 1: shared_files, 2: full, 3: full, and a user for each job or person", "gauge", []string{"node"}},
	gpuUtilization: {"weir_node_gpu_utilization_ratio", "Part of the last second in which a GPU worked, from 0 to 1, as its node last read it", "gauge", []string{"node", "gpu"}},
	gpuMemory:      {"weir_node_gpu_memory_bytes", "Memory of a GPU", "gauge", []string{"node", "gpu"}},
	gpuMemoryUsed:  {"weir_node_gpu_memory_used_bytes", "Memory of a GPU in use", "gauge", []string{"node", "gpu"}},
	gpuUsable:      {"weir_node_gpu_usable_status", "Whether jobs may use a GPU (1) or it is unwell (0)", "gauge", []string{"node", "gpu"}},

	operationsByState: {"weir_operations", "Operations that have not ended", "gauge", []string{"state"}},
	operationsStarted: {"weir_operations_started_total", "Operations that were accepted", "counter", nil},
	operationsEnded:   {"weir_operations_ended_total", "Operations that ended", "counter", []string{"state"}},
	jobsStarted:       {"weir_jobs_started_total", "Jobs assigned to nodes, by the scheduling stage that started them", "counter", []string{"stage"}},
	jobsEnded:         {"weir_jobs_ended_total", "Jobs that ended, by final state", "counter", []string{"state"}},
	jobsAborted:       {"weir_jobs_aborted_total", "Jobs that were aborted, by reason", "counter", []string{"reason"}},
	jobsAdopted:       {"weir_jobs_adopted_total", "Running jobs that this scheduler adopted from an earlier leader", "counter", nil},
	jobStartLatency:   {"weir_job_start_latency_seconds", "Time from the decision to start a job to the start of its process, by the clock of its node", "histogram", nil},
	preemptions:       {"weir_preemptions_total", "Jobs that were preempted, by reason", "counter", []string{"reason"}},
	preemptionCycles:  {"weir_preemption_cycles_total", "Cycles of operations that preempted each other in turn", "counter", nil},
	preemptionLost:    {"weir_preemption_lost_amount_seconds_total", "Work that preempted jobs lost, in units × seconds, by the rule that preempted them, since this scheduler leads", "counter", []string{"tree", "resource", "rule"}},
	savedAmounts:      {"weir_saved_amount_seconds_total", "What ended jobs did not hold of what they asked for, in units × seconds: memory of limits that was not reserved, and CPU that was reclaimed, since this scheduler leads", "counter", []string{"tree", "resource"}},
	budgetSpent:       {"weir_budget_spent_ratio", "How much of a budget is spent in this month, as a part of it; 1 is all", "gauge", []string{"budget"}},

	heartbeatLatency:    {"weir_heartbeat_latency_seconds", "Time from a node's report to the answer, including commits", "histogram", nil},
	heartbeatProcessing: {"weir_heartbeat_processing_seconds", "Time that the scheduler's loop spent on a heartbeat, all scheduling stages together", "histogram", nil},
	heartbeatsSkipped:   {"weir_heartbeats_skipped_total", "Heartbeats that were processed without giving the node jobs, by reason", "counter", []string{"reason"}},
	updateDuration:      {"weir_update_duration_seconds", "Duration of fair-share updates, including everything done with them", "histogram", nil},
	updateStages:        {"weir_update_stage_seconds_total", "Time spent in updates, by stage", "counter", []string{"stage"}},

	storeInfo:          {"weir_store_info", "The kind of store; always 1", "gauge", []string{"engine"}},
	storeSize:          {"weir_store_size_bytes", "Size of the database; absent while the store does not answer", "gauge", nil},
	journalBytes:       {"weir_journal_bytes_total", "Bytes written to the journal", "counter", nil},
	journalSegments:    {"weir_journal_segments_total", "Segments of the journal that were started", "counter", nil},
	journalGaps:        {"weir_journal_gaps_total", "Gaps in the journal, because the disk was slow or full", "counter", nil},
	storeCommits:       {"weir_store_commits_total", "Commits", "counter", nil},
	storeRows:          {"weir_store_rows_total", "Rows written or deleted by commits", "counter", nil},
	storeCommitLatency: {"weir_store_commit_latency_seconds", "Duration of commits, including retries", "histogram", nil},
	storeCommitRetries: {"weir_store_commit_retries_total", "Commits that failed and were retried", "counter", nil},

	apiRequests: {"weir_api_requests_total", "Requests to the API, by command and status class (2xx, 3xx, 4xx, 5xx); unknown commands count as other", "counter", []string{"command", "code"}},
	apiDuration: {"weir_api_request_duration_seconds", "Duration of requests to the API", "histogram", []string{"command"}},
	apiInFlight: {"weir_api_in_flight_requests", "Requests to the API in progress", "gauge", nil},

	kubeWrites:      {"weir_kube_writes_total", "Calls of the Kubernetes API server by verb and code of the answer; none is no answer", "counter", []string{"verb", "code"}},
	kubeBinds:       {"weir_kube_binds_total", "Attempts to put a pod on a node by result: done, refused, missing or retried", "counter", []string{"result"}},
	kubeBindSeconds: {"weir_kube_bind_seconds", "How long the Kubernetes API server took to answer attempts to put a pod on a node", "histogram", nil},
	kubeEvictions:   {"weir_kube_evictions_total", "Evictions of pods of others by result: done, protected by a disruption budget, refused, missing or retried", "counter", []string{"result"}},
	kubeResizes:     {"weir_kube_resizes_total", "Changes of the CPU that pods of jobs request, by result: done, refused, missing or retried", "counter", []string{"result"}},
	kubePendingPods: {"weir_kube_pending_pods", "Pods of others that wait for a node, by the reason in their condition; none if they have waited for less than three seconds", "gauge", []string{"tree", "pool", "reason"}},
	kubePodWait:     {"weir_kube_pod_wait_seconds", "How long pods of others waited until they had a node", "histogram", []string{"tree", "pool"}},
	kubeClasses:     {"weir_kube_constraint_classes", "Different sets of demands that waiting and running pods of others make on nodes", "gauge", nil},
	kubeWriteRate:   {"weir_kube_write_rate", "How many calls per second the Kubernetes API server gets at most now; it falls when answers take more than a second or say that there are too many", "gauge", nil},
	kubeWatchAge:    {"weir_kube_watch_age_seconds", "How long ago a watch of the Kubernetes API server showed something last", "gauge", []string{"resource"}},

	kubeGangAssembly: {"weir_kube_gang_assembly_seconds", "How long gangs took to find room for all of their jobs, by result: started, scheduling_timeout, or changed because the gang or a node changed meanwhile", "histogram", []string{"result"}},
	kubeMetricsAge:   {"weir_kube_metrics_age_seconds", "Age of the figures of memory and CPU in use, of the node with the oldest among those that run jobs; 0 if none does", "gauge", nil},
}

// family returns an empty family of a metric, for metrics that no registry collects.
func (m metric) family() *dto.MetricFamily {
	d := &Definitions[m]
	kind := dto.MetricType_GAUGE
	if d.Type == "counter" {
		kind = dto.MetricType_COUNTER
	}
	return &dto.MetricFamily{Name: &d.Name, Help: &d.Help, Type: &kind}
}
