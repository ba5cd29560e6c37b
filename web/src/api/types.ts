import type {ErrorDocument} from './client';

export const resources = ['cpu', 'memory', 'user_slots', 'gpu', 'network'] as const;
export type Resource = (typeof resources)[number];
export type Amounts = Partial<Record<Resource, number>>;

export interface Split<T> {
  strong_guarantee: T;
  integral_guarantee: T;
  weight_proportional: T;
  total: T;
}

export interface TreeSummary {
  capacity: Amounts;
  used: Amounts;
  free: Amounts;
  demanded: Amounts;
  guaranteed: Amounts;
  resource_flow: Amounts;
  burst_guarantee: Amounts;
  usage_ratio: number;
  node_count: number;
  pool_count: number;
  operation_count: number;
  running_operation_count: number;
  running_job_count: number;
  update_time: string;
  alerts: string[];
}

/** HeldNode is a node of the last leader that has not reported yet, with what is held back for it. */
export interface HeldNode {
  address: string;
  pool_tree: string | null;
  job_count: number;
  operation_count: number;
  resource_usage: Amounts;
  /** until is when the leader gives it up; null means never. */
  until: string | null;
  /** everything means that nothing at all is scheduled before the node has reported. */
  everything: boolean;
}

export interface Cluster {
  time: string;
  leader: string;
  epoch: number;
  reviving: boolean;
  node_count: number;
  online_node_count: number;
  operation_count: number;
  running_job_count: number;
  pending_job_count: number;
  update_duration: number;
  default_pool_tree: string | null;
  /** Whether jobs are pods of Kubernetes. */
  kubernetes?: boolean;
  pool_trees: Record<string, TreeSummary>;
  held_back?: HeldNode[];
  alerts: ErrorDocument[];
}

/** Element is the common part of pools and operations in the scheduler's view. */
export interface Element {
  weight: number;
  dominant_resource: Resource;
  scheduling_status: string;
  starvation_status: string;
  usage_ratio: number;
  demand_ratio: number;
  dominant_limited_demand_share: number;
  fair_share_ratio: number;
  min_share_ratio: number;
  satisfaction_ratio: number;
  resource_usage: Amounts;
  resource_demand: Amounts;
  resource_limits: Amounts;
  specified_resource_limits: Amounts;
  strong_guarantee_resources: Amounts;
  effective_strong_guarantee_resources: Amounts;
  estimated_guarantee_resources: Amounts;
  fair_resources: Amounts;
  usage_share: Amounts;
  demand_share: Amounts;
  fair_share: Amounts;
  limits_share: Amounts;
  strong_guarantee_share: Amounts;
  estimated_guarantee_share: Amounts;
  detailed_fair_share: Split<Amounts>;
  detailed_dominant_fair_share: Split<number>;
  running_job_count: number;
  pending_job_count: number;
}

export interface Pool extends Element {
  parent?: string;
  full_path: string;
  mode: string;
  is_ephemeral: boolean;
  user?: string;
  running_operation_count: number;
  operation_count: number;
  waiting_operation_count: number;
  max_running_operation_count: number;
  max_operation_count: number;
  child_pool_count: number;
  integral_guarantee_type: string;
  total_resource_flow_ratio: number;
  total_burst_ratio: number;
  integral_pool_capacity?: Amounts;
  integral_pool_capacity_ratio?: number;
  /** integral_smooth_period is in milliseconds. */
  integral_smooth_period?: number;
  specified_burst_ratio?: number;
  specified_resource_flow_ratio?: number;
  specified_burst_guarantee_resources?: Amounts;
  specified_resource_flow?: Amounts;
  accumulated_resource_ratio_volume?: number;
  accumulated_resource_volume?: Amounts;
  estimated_burst_usage_duration_seconds?: number;
}

export interface LiveOperation extends Element {
  pool: string;
  title: string;
  user: string;
  type: string;
  state: string;
  start_time: string;
  fifo_index?: number;
  waiting_for_pool: string | null;
  suspended: boolean;
}

export interface Counter {
  total: number;
  pending: number;
  running: number;
  completed: {total: number};
  failed: number;
  aborted: {total: number};
  lost: number;
}

export interface TreeOptions {
  pool: string;
  weight: number | null;
  resource_limits?: Amounts;
}

/** ForecastTimes are an interval that holds in 90 % of all cases, and its median; null is more than a day ahead. */
export interface ForecastTimes {
  earliest: string | null;
  median: string | null;
  latest: string | null;
  made: string;
  method: string;
  calibrated: boolean;
  held: number;
  settled: number;
}

/** Forecast is when an operation starts and finishes; start is null once it has started. */
export interface Forecast {
  start: ForecastTimes | null;
  finish: ForecastTimes | null;
}

export interface OperationRow {
  id: string;
  state: string;
  type: string;
  authenticated_user: string;
  start_time: string;
  finish_time?: string;
  suspended: boolean;
  brief_spec: {title?: string; pool?: string; alias?: string};
  brief_progress?: {jobs?: Counter};
  runtime_parameters?: {scheduling_options_per_pool_tree?: Record<string, TreeOptions>; annotations?: Record<string, unknown>};
  has_failed_jobs?: boolean;
  forecast?: Forecast;
}

export interface OperationList {
  operations: OperationRow[];
  incomplete: boolean;
  state_counts?: Record<string, number>;
  user_counts?: Record<string, number>;
  pool_counts?: Record<string, number>;
  pool_tree_counts?: Record<string, number>;
  failed_jobs_count?: number;
}

export interface MemoryReserve {
  user_job: number;
  job_proxy: number;
  footprint: number;
  job_proxy_estimate: number;
  user_job_factor: number;
  job_proxy_factor: number;
}

export interface OperationDetails extends OperationRow {
  progress?: {
    jobs?: Counter;
    tasks?: {task_name: string; job_counter: Counter}[];
    job_statistics_v2?: Record<string, unknown>;
    job_statistics?: Record<string, unknown>;
    memory_reserves?: Record<string, MemoryReserve>;
    scheduling_info_per_pool_tree?: Record<string, LiveOperation>;
  };
  provided_spec?: Record<string, unknown>;
  spec?: Record<string, unknown>;
  full_spec?: Record<string, unknown>;
  unrecognized_spec?: Record<string, unknown>;
  events?: {time: string; state: string}[];
  alerts?: Record<string, ErrorDocument>;
  result?: {error?: ErrorDocument};
  waiting_for_pools?: unknown[];
}

export interface Job {
  id: string;
  state: string;
  address: string | null;
  start_time: string;
  finish_time?: string;
  task_name: string;
  stderr_size?: number;
  progress?: number;
  error?: ErrorDocument;
  statistics?: Record<string, unknown>;
  pool?: string;
  abort_reason?: string;
  resources?: Amounts;
  resource_usage?: Amounts;
  brief_statistics?: {user_job_memory?: number; smoothed_cpu?: number};
  cpu_history?: CpuHistory;
}

/** CpuHistory holds the CPU limit and usage in steps of equal length from the start of a job; null where
 * unknown. */
export interface CpuHistory {
  /** step is in milliseconds. */
  step: number;
  limit: (number | null)[];
  usage: (number | null)[];
}

export interface JobList {
  jobs: Job[];
  state_counts?: Record<string, number>;
  scheduler_job_count: number;
  archive_job_count: number;
  continuation_token: string | null;
}

export interface MaintenanceRequest {
  type: string;
  comment: string;
  user: string;
  timestamp: string;
}

export interface Node {
  address: string;
  state: string;
  pool_tree: string | null;
  tags: string[];
  resource_limits: Amounts;
  resource_usage: Amounts;
  running_job_count: number;
  jobs_disabled: boolean;
  maintenance_requests: Record<string, MaintenanceRequest>;
  draining: boolean;
  version: string;
  registered_time: string;
  last_seen_time: string;
  alerts: string[];
  gpus: GPU[];
  /** isolation is null for a node whose agent is too old to say. */
  isolation: Isolation | null;
}

/** Isolation is how a node keeps jobs apart from itself and from each other. */
export interface Isolation {
  level: string;
  run_as: string;
  cause: string | null;
  detail: string | null;
}

/** JobArtifacts are the files that a job left behind. */
export interface JobArtifacts {
  job_id: string;
  archive_size: number;
  files: {path: string; size: number; mode: number}[];
  truncated: boolean;
  message: string;
}

export interface GPU {
  id: string;
  model: string;
  memory: number;
  memory_in_use: number;
  utilization: number | null;
  job_id: string | null;
  fault: string | null;
}

export interface NodeJobs {
  non_preemptible_job_count: number;
  non_preemptible_resource_usage: Amounts;
  aggressively_preemptible_job_count: number;
  aggressively_preemptible_resource_usage: Amounts;
  preemptible_job_count: number;
  preemptible_resource_usage: Amounts;
  preempted_job_count: number;
}

export interface Event {
  id: number;
  timestamp: string;
  event_type: string;
  operation_id?: string | null;
  job_id?: string;
  pool_tree?: string;
  pool?: string;
  node?: string;
  [detail: string]: unknown;
}

export interface AuditRecord {
  id: number;
  timestamp: string;
  user: string;
  command: string;
  object: string;
  before: unknown;
  after: unknown;
}

export interface History {
  step: number;
  from_time: string;
  to_time: string;
  series: {name: string; resource: Resource | null; points: [string, number, number][]}[];
}

/** Blocker is one reason why jobs wait. */
export interface Blocker {
  code: string;
  text: string;
  pool?: string;
  pool_tree?: string;
  task_name?: string;
}

/** WaterfallRow is how much of what a pool lacks waits for one blocker first. */
export interface WaterfallRow {
  code: string;
  amount: number;
  waiting_job_count: number;
  operation_count: number;
  blocker?: Blocker;
}

/** PoolExplanation is what a pool demands and does not have; the waterfall sums to the gap. */
export interface PoolExplanation {
  pool_tree: string;
  pool: string;
  resource: string;
  gap: number;
  usage: Amounts;
  demand: Amounts;
  guarantee: {resource: string; amount: number; due: number; short: number} | null;
  waterfall: WaterfallRow[];
  waiting_operations: {operation: string; pool: string; amount: number; waiting_job_count: number; code: string; text?: string}[];
  children: {pool: string; usage: number; gap: number}[];
}

export interface ShareLink {
  pool: string | null;
  fair_share: Amounts;
  guarantee: Amounts;
  demand: Amounts;
  limits: Amounts;
  weight: number;
  suggestion: number;
  fifo_index: number | null;
}

export interface TreeExplanation {
  pool_tree: string;
  pool: string;
  running_job_count: number;
  waiting_job_count: number;
  node_count: number;
  fitting_node_count: number;
  waits_for: {pool: string; running: number; max_running_operation_count: number; ahead: number} | null;
  tasks: {
    task_name: string;
    job_resources: Amounts;
    waiting_job_count: number;
    fitting_node_count: number;
  }[];
  starvation: {
    scheduling_status: string;
    starvation_status: string;
    below_fair_share_since: string | null;
    starving_since: string | null;
    timeout: number;
    aggressive_timeout: number | null;
    tolerance: number;
  };
  preemption: {
    priority: string;
    because_of: string | null;
    fitting_node_count: number;
    fitting_node_count_aggressively: number;
  };
  fair_share: {
    detailed_dominant_fair_share: Split<number>;
    bound: string;
    bound_by_pool: string | null;
    scarce_resource: Resource | null;
    chain: ShareLink[];
  } | null;
}

export interface Explanation {
  state: string;
  suspended: boolean;
  blocked_by: string | null;
  starts_at_next_heartbeat: {job_count: number; node: string} | null;
  blockers: Blocker[];
  then: Blocker[];
  age: number;
  pool_trees: TreeExplanation[];
}

/** Advice is the least changes that start jobs of an operation now. */
export interface Advice {
  outcome: 'starts_now' | 'found' | 'wait' | 'never' | 'none_within_bounds';
  job_count: number;
  fixes: Fix[];
  tried: {knob: string; text: string; refused?: string}[];
}

export interface Fix {
  text: string;
  effect: string;
  who: 'user' | 'owner' | 'administrator' | 'nobody';
  commands?: string[];
}

export interface WhatIfPoolFigures {
  usage: number;
  demand: number;
  fair_share: number;
  started_job_count: number;
  /** job_wait_p50 and job_wait_p90 are in seconds. */
  job_wait_p50: number;
  job_wait_p90: number;
  preempted_job_count: number;
  guarantee_kept: number | null;
}

export interface WhatIfOperationFigures {
  pool: string;
  state: string;
  first_start: string | null;
  finish: string | null;
  completed_job_count: number;
  preempted_job_count: number;
}

export interface WhatIfClusterFigures {
  node_count: number;
  started_job_count: number;
  completed_job_count: number;
  preempted_job_count: number;
  lost_core_seconds: number;
  completed_operation_count: number;
}

/** WhatIfPool has no before if the changes create the pool, and no after if they remove it. */
export interface WhatIfPool {
  pool_tree: string;
  pool: string;
  before: WhatIfPoolFigures | null;
  after: WhatIfPoolFigures | null;
}

export interface WhatIfOperation {
  operation: string;
  pool: string;
  before: WhatIfOperationFigures | null;
  after: WhatIfOperationFigures | null;
}

/** WhatIf compares the cluster without and with changes, for milliseconds ahead. */
export interface WhatIf {
  as_of: string;
  for: number;
  model: string[];
  feasibility: {pool_tree: string; is_feasible: boolean; findings: string[]}[];
  cluster: {before: WhatIfClusterFigures; after: WhatIfClusterFigures};
  pools: WhatIfPool[];
  unchanged_pool_count: number;
  operations: WhatIfOperation[];
  unchanged_operation_count: number;
}

export interface Plan {
  changes: string[];
  warnings: string[];
  is_empty: boolean;
  is_feasible: boolean | null;
  feasibility: {findings?: {severity?: string; [key: string]: unknown}[]} | null;
}

export interface ScenarioExample {
  name: string;
  title: string;
  description: string;
  text: string;
}

export interface SimulatedWaits {
  count: number;
  mean: number;
  p50: number;
  p90: number;
  p99: number;
  max: number;
}

export interface SimulatedJobs {
  started: number;
  completed: number;
  preempted: number;
  lost_with_nodes: number;
}

export type Curves = Partial<Record<Resource, number[]>>;

export interface SimulatedPool {
  tree: string;
  name: string;
  parent?: string;
  depth: number;
  entitled: Amounts;
  asked: Amounts;
  got: Amounts;
  lost: Amounts;
  jobs: SimulatedJobs;
  preemptions_caused: number;
  waits: SimulatedWaits;
  guarantee: {demanding_seconds: number; below_seconds: number};
  starving_seconds: number;
  integral?: boolean;
}

export interface SimulatedOperation {
  name: string;
  pool: string;
  state: string;
  reason?: string;
  arrived: number;
  started: number;
  finished: number;
  job_count: number;
  jobs: SimulatedJobs;
  lost: Amounts;
  mean_wait: number;
}

export interface SimulationReport {
  scenario: string;
  description?: string;
  seed: number;
  start: string;
  dated?: boolean;
  seconds: number;
  stalled?: boolean;
  cluster: {
    nodes: number;
    capacity: Amounts;
    utilisation: Amounts;
    used: Amounts;
    lost: Amounts;
    jobs: SimulatedJobs;
    waits: SimulatedWaits;
    operations: {arrived: number; completed: number; failed: number; aborted: number; rejected: number; unfinished: number};
    starts_by_stage?: {name: string; count: number}[];
    stops_by_reason?: {name: string; count: number}[];
    work: {heartbeats: number; updates: number; decisions: number};
    wait_histogram?: {up_to: number; count: number}[];
  };
  pools: SimulatedPool[];
  operations: SimulatedOperation[];
  operations_omitted?: number;
  series: {
    step: number;
    cluster: {capacity: Curves; usage: Curves; running_jobs: number[]; pending_jobs: number[]; preemptions: number[]};
    pools: {
      tree: string;
      name: string;
      fair_share: Curves;
      guaranteed: Curves;
      usage: Curves;
      demand: Curves;
      volume?: number[];
      preemptions: number[];
    }[];
  };
  expectations?: {where: string; subject: string; figure: string; want: string; got: string; held: boolean}[];
}

export interface Simulation {
  report: SimulationReport;
  warnings: string[];
  wall_time: number;
}

/** ShortCause is a part of what a pool lacked; own causes, which are settings of the pool itself, break no promise. */
export interface ShortCause {
  cause: string;
  amount: number;
  own: boolean;
}

/** PoolGuarantees are the books of a pool for one resource. Amounts are in units × seconds, those of flow in seconds of the whole tree. */
export interface PoolGuarantees {
  pool_tree: string;
  pool: string;
  resource: Resource;
  promised: number;
  asked: number;
  due: number;
  got: number;
  unclaimed: number;
  short: number;
  broken: number;
  /** kept and kept_time are null if nothing was due. */
  kept: number | null;
  kept_time: number | null;
  causes: ShortCause[];
  /** day is a day of UTC such as 2026-10-31, in reports by day. */
  day?: string;
  flow?: {flowed: number; due: number; got: number; overflowed: number; kept: boolean | null};
}

export interface GuaranteeReport {
  pool_tree: string;
  from_time: string;
  to_time: string;
  pools: PoolGuarantees[];
}

export type ReportLine = Record<string, string | number | null>;

/** Report is a report whose lines have the same columns. */
export interface Report {
  report: string;
  pool_tree: string;
  from_time: string;
  to_time: string;
  columns: string[];
  lines: ReportLine[];
  /** currency is that of costs, in reports about usage with prices. */
  currency?: string;
}

/** PreemptionReport also says in how many of the minutes with preemptions cycles were proven absent. */
export interface PreemptionReport extends Report {
  watch: {minutes: number; proven: number; cycles: number};
  cycles: Event[];
}

/** Pod is a pod of Kubernetes that Weir schedules. */
export interface Pod {
  namespace: string;
  name: string;
  state: string;
  node: string;
  creation_time: string;
  operation_id: string;
  alias: string;
  task_name: string;
  pool_tree: string;
  pool: string;
  reason: string;
  message: string;
}

export interface PodList {
  pods: Pod[];
  total: number;
  namespaces: Record<string, {waiting: number; running: number; all: number}>;
}
