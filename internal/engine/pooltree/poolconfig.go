package pooltree

import (
	"time"

	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/nodefilter"
	"github.com/weirhq/weir/internal/value/resource"
)

// opt shortens the tables.
type opt[F any] = document.Optional[F]

// PoolConfig is what was explicitly set on a pool. Unset options are inherited,
// inferred or have defaults; see [Pool.Effective]. Slices in it must not be
// modified.
type PoolConfig struct {
	Weight              document.Optional[float64]
	MaxShareRatio       document.Optional[float64]
	StrongGuarantee     document.Optional[resource.Partial]
	ResourceLimits      document.Optional[resource.Partial]
	OvercommitTolerance document.Optional[resource.Partial]
	Integral            IntegralGuarantees

	Mode               document.Optional[Mode]
	FIFOSortParameters document.Optional[[]SortKey]

	MaxRunningOperationCount  document.Optional[int]
	MaxOperationCount         document.Optional[int]
	ForbidImmediateOperations document.Optional[bool]
	CreateEphemeralSubpools   document.Optional[bool]
	EphemeralSubpoolConfig    document.Optional[EphemeralConfig]
	SchedulingTagFilter       document.Optional[nodefilter.Filter]

	Preemption PoolPreemption

	AllowChildrenGuarantees     document.Optional[bool]
	PriorityGuaranteeAdjustment document.Optional[bool]
	PriorityGuaranteeDonorship  document.Optional[bool]
	ComputePromisedGuarantee    document.Optional[bool]
	GangSteps                   document.Optional[bool]
	TruncateFIFO                document.Optional[bool]
	HistoricUsagePeriod         document.Optional[time.Duration]
	AlwaysAllowGangOperations   document.Optional[bool]

	Kubernetes PoolKubernetes

	Presets document.Optional[[]string]
	ABC     document.Optional[document.Value]
	// Extras holds options that are known but not supported, under their
	// primary names, and unknown ones where they are kept.
	Extras document.Extras
	// Spelling has the names that the user wrote.
	Spelling document.Spelling
}

// IntegralGuarantees is the integral_guarantees of a pool.
type IntegralGuarantees struct {
	Type                 document.Optional[GuaranteeType]
	ResourceFlow         document.Optional[resource.Partial]
	Burst                document.Optional[resource.Partial]
	RelaxedMultiplier    document.Optional[float64]
	CanAcceptFreeVolume  document.Optional[bool]
	DistributeFreeVolume document.Optional[bool]
}

// PoolKubernetes is the section kubernetes of a pool.
type PoolKubernetes struct {
	// Namespaces are patterns of names.
	Namespaces document.Optional[[]string]
}

var kubernetesTable = document.NewTable(
	document.Maybe("namespaces", "The namespaces whose pods may run in this pool and below it: names, in which * stands for any characters. Pods of other namespaces are denied. It replaces the parent's list. Unset: the parent's; if no pool above has a list, permissions decide.",
		func(c *PoolKubernetes) *opt[[]string] { return &c.Namespaces },
		document.Distinct(document.OneOrMore(namespacePattern), func(a, b string) bool { return a == b })),
)

// PoolPreemption has the options that decide when a pool starves and what may be
// preempted from it. They are also what a preset can set.
type PoolPreemption struct {
	FairSharePreemptionTimeout      document.Optional[time.Duration]
	MinSharePreemptionTimeout       document.Optional[time.Duration]
	FairShareStarvationTolerance    document.Optional[float64]
	EnableAggressiveStarvation      document.Optional[bool]
	AllowAggressivePreemption       document.Optional[bool]
	AllowNormalPreemption           document.Optional[bool]
	NonPreemptibleThreshold         document.Optional[resource.Partial]
	MaxUnpreemptableRunningJobCount document.Optional[int]
	WaitingForResourcesTimeout      document.Optional[time.Duration]
	Limits                          PatienceLimits
}

// EphemeralConfig is the ephemeral_subpool_config of a pool: the configuration
// of subpools that are created for users.
type EphemeralConfig struct {
	Mode                     document.Optional[Mode]
	MaxRunningOperationCount document.Optional[int]
	MaxOperationCount        document.Optional[int]
	ResourceLimits           document.Optional[resource.Partial]
}

var integralTable = document.NewTable(
	document.Maybe("guarantee_type", "A burst pool receives its guarantee at once while it has saved volume; a relaxed pool receives it over the course of a day.",
		func(c *IntegralGuarantees) *opt[GuaranteeType] { return &c.Type }, document.Enum(guaranteeWords...).Default(NoIntegral)),
	document.Maybe("resource_flow", "How fast the pool saves volume: resources that it may use continuously. Required for burst and relaxed pools. On a pool with guarantee_type none it is the most that its subpools may have in total.",
		func(c *IntegralGuarantees) *opt[resource.Partial] { return &c.ResourceFlow }, guarantee),
	document.Maybe("burst_guarantee_resources", "What a burst pool is guaranteed at any moment while it has volume, and the fastest it may spend its volume. Required for burst pools, not allowed for relaxed pools.",
		func(c *IntegralGuarantees) *opt[resource.Partial] { return &c.Burst }, guarantee),
	document.Maybe("relaxed_share_multiplier_limit", "A relaxed pool spends at most this many times its flow. Unset: the tree's.",
		func(c *IntegralGuarantees) *opt[float64] { return &c.RelaxedMultiplier }, multiplierLimit),
	document.Maybe("can_accept_free_volume", "Whether the pool receives volume that other pools could not store.",
		func(c *IntegralGuarantees) *opt[bool] { return &c.CanAcceptFreeVolume }, switched.Default(true)),
	document.Maybe("should_distribute_free_volume_among_children", "Whether volume that a subpool could not store goes to other subpools. Unset: the tree's.",
		func(c *IntegralGuarantees) *opt[bool] { return &c.DistributeFreeVolume }, switched),
)

var ephemeralTable = document.NewTable(
	document.Maybe("mode", "Same as for a pool.",
		func(c *EphemeralConfig) *opt[Mode] { return &c.Mode }, document.Enum(modeWords...).Default(FairShare)),
	document.Maybe("max_running_operation_count", "Same as for a pool.",
		func(c *EphemeralConfig) *opt[int] { return &c.MaxRunningOperationCount }, count),
	document.Maybe("max_operation_count", "Same as for a pool.",
		func(c *EphemeralConfig) *opt[int] { return &c.MaxOperationCount }, count),
	document.Maybe("resource_limits", "Same as for a pool.",
		func(c *EphemeralConfig) *opt[resource.Partial] { return &c.ResourceLimits }, limits),
)

// patienceLimitOptions bound what is set below: on a tree in all pools, on a pool
// in subpools and operations.
var patienceLimitOptions = []document.Option[PatienceLimits]{
	document.Maybe("fair_share_preemption_timeout_limit", "The shortest fair_share_preemption_timeout that subpools and operations may set; a shorter one is replaced by it, with a warning. Unset: no limit.",
		func(c *PatienceLimits) *opt[time.Duration] { return &c.FairShareTimeout }, duration).
		Alias("fair_share_starvation_timeout_limit"),
	document.Maybe("min_share_preemption_timeout_limit", "The shortest min_share_preemption_timeout that subpools and operations may set; a shorter one is replaced by it, with a warning. Unset: no limit.",
		func(c *PatienceLimits) *opt[time.Duration] { return &c.MinShareTimeout }, duration),
	document.Maybe("fair_share_starvation_tolerance_limit", "The largest fair_share_starvation_tolerance that subpools and operations may set; a larger one is replaced by it, with a warning. Unset: no limit.",
		func(c *PatienceLimits) *opt[float64] { return &c.Tolerance }, ratio),
}

// preemptionOptions are allowed on a pool and in a preset.
var preemptionOptions = concat([]document.Option[PoolPreemption]{
	document.Maybe("fair_share_preemption_timeout", "How long an operation or pool must be below its fair share before it starves and may preempt. Unset: the parent's.",
		func(c *PoolPreemption) *opt[time.Duration] { return &c.FairSharePreemptionTimeout }, duration).
		Alias("fair_share_starvation_timeout"),
	document.Maybe("min_share_preemption_timeout", "How long an operation or pool must be below its strong guarantee before it starves, if shorter. Unset: the parent's, or fair_share_preemption_timeout if no ancestor sets it.",
		func(c *PoolPreemption) *opt[time.Duration] { return &c.MinSharePreemptionTimeout }, duration),
	document.Maybe("fair_share_starvation_tolerance", "Below fair share means usage < fair share × tolerance. Unset: the parent's.",
		func(c *PoolPreemption) *opt[float64] { return &c.FairShareStarvationTolerance }, ratio),
	document.Maybe("enable_aggressive_starvation", "Whether operations in this pool may starve aggressively. Unset: the parent's.",
		func(c *PoolPreemption) *opt[bool] { return &c.EnableAggressiveStarvation }, switched),
	document.Maybe("allow_aggressive_preemption", "Whether aggressive preemption may preempt jobs of this pool. Unset: the parent's; true at the root.",
		func(c *PoolPreemption) *opt[bool] { return &c.AllowAggressivePreemption }, switched).
		Alias("allow_aggressive_starvation_preemption"),
	document.Maybe("allow_normal_preemption", "Whether normal preemption may preempt jobs of this pool and everything below it.",
		func(c *PoolPreemption) *opt[bool] { return &c.AllowNormalPreemption }, switched.Default(true)),
	document.Maybe("non_preemptible_resource_usage_threshold", "An operation is not preempted while its usage is within this. It replaces the parent's as a whole. Unset: the parent's.",
		func(c *PoolPreemption) *opt[resource.Partial] { return &c.NonPreemptibleThreshold }, guarantee),
	document.Maybe("max_unpreemptable_running_job_count", "An operation with fewer jobs than this is not preempted. It sets user_slots of non_preemptible_resource_usage_threshold to one less if that leaves them out. Unset: the parent's.",
		func(c *PoolPreemption) *opt[int] { return &c.MaxUnpreemptableRunningJobCount }, count).
		Alias(unpreemptableAliases...),
	document.Maybe("waiting_for_resources_on_node_timeout", "How long a job waits on a node for preempted jobs to end. Unset: the parent's.",
		func(c *PoolPreemption) *opt[time.Duration] { return &c.WaitingForResourcesTimeout }, duration).
		Alias("waiting_job_timeout"),
}, document.Within(patienceLimitOptions, func(c *PoolPreemption) *PatienceLimits { return &c.Limits }))

// unpreemptableAliases are the spellings that max_unpreemptable_running_job_count
// has had.
var unpreemptableAliases = []string{
	"max_unpreemptible_running_job_count", "max_unpreemptible_running_allocation_count",
	"max_unpreemptible_job_count", "max_unpreemptible_allocation_count",
}

// poolOptions are all options of a pool, without its name and place.
var poolOptions = concat(
	[]document.Option[PoolConfig]{
		document.Maybe("weight", "The proportion in which siblings share what is above their guarantees: twice the weight, twice the resources. 0 means the smallest weight. Unset: 1, or inferred from guarantees if the tree is configured to do so.",
			func(c *PoolConfig) *opt[float64] { return &c.Weight }, weight),
		document.Maybe("max_share_ratio", "The largest fraction of the parent pool's resources that the pool may get.",
			func(c *PoolConfig) *opt[float64] { return &c.MaxShareRatio }, ratio),
		document.Maybe("min_share_resources", "The strong guarantee: resources that the pool can have at any time, for as long as it needs them. Resources left out are inferred from the tree's main resource, which is required.",
			func(c *PoolConfig) *opt[resource.Partial] { return &c.StrongGuarantee }, guarantee).
			Alias("strong_guarantee_resources"),
		document.Maybe("resource_limits", "The most that all jobs of the pool may use in total.",
			func(c *PoolConfig) *opt[resource.Partial] { return &c.ResourceLimits }, limits),
		document.Maybe("resource_limits_overcommit_tolerance", "How far usage may briefly exceed resource_limits while jobs are being preempted.",
			func(c *PoolConfig) *opt[resource.Partial] { return &c.OvercommitTolerance }, guarantee),
		document.Section("integral_guarantees", "Guarantees over time.",
			func(c *PoolConfig) *IntegralGuarantees { return &c.Integral }, integralTable),
		document.Maybe("mode", "How the pool divides its resources: in proportion to weights, or first in, first out. A FIFO pool has no subpools.",
			func(c *PoolConfig) *opt[Mode] { return &c.Mode }, document.Enum(modeWords...).Default(FairShare)),
		document.Maybe("fifo_sort_parameters", "The order of operations in a FIFO pool: weight (heavier first), start_time (older first), pending_job_count (fewer first).",
			func(c *PoolConfig) *opt[[]SortKey] { return &c.FIFOSortParameters }, fifoKeys.Default(DefaultFIFOSort)),
		document.Maybe("max_running_operation_count", "The most operations that may run in the pool and everything below it; more wait. Unset: the tree's max_running_operation_count_per_pool (8).",
			func(c *PoolConfig) *opt[int] { return &c.MaxRunningOperationCount }, count),
		document.Maybe("max_operation_count", "The most operations that may run or wait in the pool and everything below it; more are refused. Unset: the tree's max_operation_count_per_pool (50).",
			func(c *PoolConfig) *opt[int] { return &c.MaxOperationCount }, count),
		document.Maybe("forbid_immediate_operations", "Allow operations only in subpools.",
			func(c *PoolConfig) *opt[bool] { return &c.ForbidImmediateOperations }, switched.Default(false)),
		document.Maybe("create_ephemeral_subpools", "An operation in this pool runs in a subpool pool$user that is created for it. Not allowed for FIFO pools.",
			func(c *PoolConfig) *opt[bool] { return &c.CreateEphemeralSubpools }, switched.Default(false)),
		document.Maybe("ephemeral_subpool_config", "Configuration of the subpools that create_ephemeral_subpools creates, and of pools created in the default_parent_pool.",
			func(c *PoolConfig) *opt[EphemeralConfig] { return &c.EphemeralSubpoolConfig }, ephemeralTable.Type()),
		document.Maybe("scheduling_tag_filter", "The nodes that the pool may use, as a formula over tags, with at most 100 tags and operators.",
			func(c *PoolConfig) *opt[nodefilter.Filter] { return &c.SchedulingTagFilter }, poolFilter).
			Alias("scheduling_tag"),
	},
	document.Within(preemptionOptions, func(c *PoolConfig) *PoolPreemption { return &c.Preemption }),
	[]document.Option[PoolConfig]{
		document.Maybe("allow_children_guarantees", "Whether subpools may have guarantees.",
			func(c *PoolConfig) *opt[bool] { return &c.AllowChildrenGuarantees }, switched.Default(true)),
		document.Maybe("enable_priority_strong_guarantee_adjustment", "When the strong guarantees of its level are scaled down, the pool keeps its own in full, at the expense of a donor above it.",
			func(c *PoolConfig) *opt[bool] { return &c.PriorityGuaranteeAdjustment }, switched.Default(false)),
		document.Maybe("enable_priority_strong_guarantee_adjustment_donorship", "Pools below it with enable_priority_strong_guarantee_adjustment may keep their guarantees at this pool's expense.",
			func(c *PoolConfig) *opt[bool] { return &c.PriorityGuaranteeDonorship }, switched.Default(false)),
		document.Maybe("compute_promised_guarantee_fair_share", "Also compute what the pool's operations would get from its guarantees alone.",
			func(c *PoolConfig) *opt[bool] { return &c.ComputePromisedGuarantee }, switched.Default(false)),
		document.Maybe("enable_step_function_for_gang_operations", "A gang operation of this pool gets all of its demand or nothing. Requires the tree's option of the same name.",
			func(c *PoolConfig) *opt[bool] { return &c.GangSteps }, switched.Default(true)),
		document.Maybe("enable_fair_share_truncation_in_fifo_pool", "Set the share of a gang operation in this FIFO pool to zero if it is less than the operation demands. Unset: the tree's.",
			func(c *PoolConfig) *opt[bool] { return &c.TruncateFIFO }, switched).
			Alias("truncate_fifo_pool_unsatisfied_child_fair_share"),
		document.Maybe("historic_usage_aggregation_period", "Children that recently used more get a lower weight; this is the half-life of recent usage.",
			func(c *PoolConfig) *opt[time.Duration] { return &c.HistoricUsagePeriod }, period),
		document.Maybe("always_allow_gang_operations", "Allow gang operations in this pool even if the tree allows them only in FIFO pools.",
			func(c *PoolConfig) *opt[bool] { return &c.AlwaysAllowGangOperations }, switched.Default(false)),
		document.Section("kubernetes", "What the pool is for pods of others on Kubernetes.",
			func(c *PoolConfig) *PoolKubernetes { return &c.Kubernetes }, kubernetesTable),
		document.Maybe("config_presets", "Names of the tree's pool_config_presets that apply to the pool. The pool's own options override them; an earlier preset overrides a later one.",
			func(c *PoolConfig) *opt[[]string] { return &c.Presets },
			document.Distinct(document.OneOrMore(document.Words), func(a, b string) bool { return a == b })).
			Alias("config_preset"),
		document.Maybe("abc", "The owner of the pool, in any form; stored and shown.",
			func(c *PoolConfig) *opt[document.Value] { return &c.ABC }, document.Anything),
	},
	kept(func(c *PoolConfig) *document.Extras { return &c.Extras }, unsupportedPoolOptions),
)

// DefaultFIFOSort is the order of operations in a FIFO pool that names none. It
// must not be modified.
var DefaultFIFOSort = []SortKey{ByWeight, ByStartTime}

// PoolOptions is the table of a pool's options.
var PoolOptions = document.NewTable(poolOptions...).
	KeepingUnknown(func(c *PoolConfig) *document.Extras { return &c.Extras }).
	KeepingSpelling(func(c *PoolConfig) *document.Spelling { return &c.Spelling })

// unsupported names options that are accepted and stored without any effect.
type unsupported struct {
	name    string
	aliases []string
	reason  string
}

const (
	reasonSSD         = "there is no separate scheduling for SSD nodes"
	reasonLightweight = "there are no lightweight operations"
	reasonOffloading  = "operations are not offloaded to other trees or clusters"
	reasonTelemetry   = "it tunes the logs and metrics of YTsaurus"
	reasonTentative   = "there are no tentative trees"
	reasonTuning      = "it tunes internals of YTsaurus"
)

var unsupportedPoolOptions = []unsupported{
	{"enable_lightweight_operations", nil, reasonLightweight},
	{"allow_regular_allocations_on_ssd_nodes", []string{"allow_regular_jobs_on_ssd_nodes"}, reasonSSD},
	{"offloading_settings", nil, reasonOffloading},
	{"redirect_to_cluster", nil, reasonOffloading},
	{"allow_idle_cpu_policy", nil, "there is no idle CPU policy"},
	{"metering_tags", nil, "usage is not metered by tags"},
	{"allowed_profiling_tags", nil, reasonTelemetry},
	{"enable_by_user_profiling", nil, reasonTelemetry},
	{"enable_detailed_logs", nil, reasonTelemetry},
}

func kept[T any](at func(*T) *document.Extras, names []unsupported) []document.Option[T] {
	options := make([]document.Option[T], len(names))
	for i, u := range names {
		options[i] = document.Kept(u.name, u.reason, at).Alias(u.aliases...)
	}
	return options
}

func concat[T any](lists ...[]T) (all []T) {
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}

// userOptions are what users may set on their own pools; all other options are
// for administrators.
var userOptions = map[string]bool{
	"weight": true, "max_operation_count": true, "max_running_operation_count": true,
	"min_share_resources": true, "forbid_immediate_operations": true, "mode": true,
	"fifo_sort_parameters": true, "resource_limits": true, "create_ephemeral_subpools": true,
	"ephemeral_subpool_config": true, "abc": true, "integral_guarantees": true,
}

// UserMaySet reports whether a user who is not an administrator may set this
// option, given by any of its names, on their own pool.
func UserMaySet(option string) bool {
	name, _ := PoolOptions.Resolve(option)
	return userOptions[name]
}

// PresetConfig is a named set of options that pools can refer to. It may hold
// only the options of starvation and preemption: the identity of a pool and its
// promises stay on the pool itself.
type PresetConfig struct {
	Preemption PoolPreemption
	Extras     document.Extras
}

var presetTable = document.NewTable(concat(
	document.Within(preemptionOptions, func(c *PresetConfig) *PoolPreemption { return &c.Preemption }),
	kept(func(c *PresetConfig) *document.Extras { return &c.Extras }, []unsupported{
		{"enable_lightweight_operations", nil, reasonLightweight},
		{"allow_regular_allocations_on_ssd_nodes", []string{"allow_regular_jobs_on_ssd_nodes"}, reasonSSD},
	}))...)

// presetType reads a preset and reports pool options that are known but not
// allowed in presets.
var presetType = func() document.Type[PresetConfig] {
	t := presetTable.Type()
	return document.NewType(t.Shape(),
		func(r *document.Reader, v document.Value) (config PresetConfig, ok bool) {
			ok = true
			var beside []string
			for _, e := range v.Entries() {
				if _, known := presetTable.Resolve(e.Key); known {
					continue
				}
				if name, known := PoolOptions.Resolve(e.Key); known {
					beside, ok = append(beside, e.Key), false
					r.Enter(e.Key)
					r.Refuse(e.At, RuleNotInPreset, "a preset cannot set this option; it must stand on the pool itself",
						document.Pair("option", document.Text(name)))
					r.Leave()
				}
			}
			wrong := presetTable.Read(r, v, &config, beside...)
			return config, ok && len(wrong) == 0
		},
		func(config PresetConfig, style document.Style) document.Value {
			return presetTable.Write(&config, style)
		},
		func(a, b PresetConfig) bool { return presetTable.Equal(&a, &b) })
}()

// withPresets returns the preemption options of a pool on top of those of its
// presets. It ignores unknown presets; the checker reports them.
func (c *TreeConfig) withPresets(pool *PoolConfig) PoolPreemption {
	merged := PresetConfig{Preemption: pool.Preemption}
	for _, name := range pool.Presets.Value() {
		if preset, ok := c.preset(name); ok {
			presetTable.Fill(&merged, &preset)
		}
	}
	return merged.Preemption
}

func (c *TreeConfig) preset(name string) (PresetConfig, bool) {
	for _, p := range c.PoolConfigPresets {
		if p.Name == name {
			return p.Value, true
		}
	}
	return PresetConfig{}, false
}
