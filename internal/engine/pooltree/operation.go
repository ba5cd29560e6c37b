package pooltree

import (
	"time"

	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/nodefilter"
	"github.com/weirhq/weir/internal/value/resource"
)

// SchedulingOptions are the options of an operation that may differ from tree to
// tree.
type SchedulingOptions struct {
	Pool                            document.Optional[string]
	Weight                          document.Optional[float64]
	MaxShareRatio                   document.Optional[float64]
	ResourceLimits                  document.Optional[resource.Partial]
	SchedulingTagFilter             document.Optional[nodefilter.Filter]
	FairSharePreemptionTimeout      document.Optional[time.Duration]
	MinSharePreemptionTimeout       document.Optional[time.Duration]
	FairShareStarvationTolerance    document.Optional[float64]
	NonPreemptibleThreshold         document.Optional[resource.Partial]
	MaxUnpreemptableRunningJobCount document.Optional[int]
}

// OperationOptions are the options of an operation that concern pool trees. They
// are at the top level of its specification.
type OperationOptions struct {
	SchedulingOptions
	PoolTrees                    document.Optional[[]string]
	PerTree                      []document.Named[SchedulingOptions]
	ScheduleInSingleTree         document.Optional[bool]
	ConsiderGuaranteesForSingle  document.Optional[bool]
	EraseTreesWithLimitViolation document.Optional[bool]
	ApplyLimitsToDemand          document.Optional[bool]
	IsGang                       document.Optional[bool]
	PreemptionMode               document.Optional[PreemptionMode]
	LimitingAncestorCheck        document.Optional[bool]
	WaitingForResourcesTimeout   document.Optional[time.Duration]
	MaxConcurrentCalls           document.Optional[int]
	Extras                       document.Extras
}

var schedulingTable = []document.Option[SchedulingOptions]{
	document.Maybe("pool", "The pool in which the operation runs. Unset: the pool named after the user.",
		func(c *SchedulingOptions) *opt[string] { return &c.Pool }, poolName),
	document.Maybe("weight", "Same as for a pool: the proportion among sibling operations and pools. Unset: 1.",
		func(c *SchedulingOptions) *opt[float64] { return &c.Weight }, weight),
	document.Maybe("max_share_ratio", "The largest fraction of the pool's resources that the operation may get.",
		func(c *SchedulingOptions) *opt[float64] { return &c.MaxShareRatio }, ratio),
	document.Maybe("resource_limits", "The most that all jobs may use in total in each tree; {user_slots: 200} allows at most 200 jobs.",
		func(c *SchedulingOptions) *opt[resource.Partial] { return &c.ResourceLimits }, limits),
	document.Maybe("scheduling_tag_filter", "The nodes that the operation may use, as a formula over tags.",
		func(c *SchedulingOptions) *opt[nodefilter.Filter] { return &c.SchedulingTagFilter }, poolFilter).
		Alias("scheduling_tag"),
	document.Maybe("fair_share_preemption_timeout", "Same as for a pool; replaces the pool's value, within fair_share_preemption_timeout_limit where that is set.",
		func(c *SchedulingOptions) *opt[time.Duration] { return &c.FairSharePreemptionTimeout }, duration).
		Alias("fair_share_starvation_timeout"),
	document.Maybe("min_share_preemption_timeout", "Same as for a pool; replaces the pool's value, within min_share_preemption_timeout_limit where that is set.",
		func(c *SchedulingOptions) *opt[time.Duration] { return &c.MinSharePreemptionTimeout }, duration),
	document.Maybe("fair_share_starvation_tolerance", "Same as for a pool; replaces the pool's value, within fair_share_starvation_tolerance_limit where that is set.",
		func(c *SchedulingOptions) *opt[float64] { return &c.FairShareStarvationTolerance }, ratio),
	document.Maybe("non_preemptible_resource_usage_threshold", "Same as for a pool; can only lower the pool's value, resource by resource.",
		func(c *SchedulingOptions) *opt[resource.Partial] { return &c.NonPreemptibleThreshold }, guarantee),
	document.Maybe("max_unpreemptable_running_job_count", "Same as for a pool; can only lower the pool's value.",
		func(c *SchedulingOptions) *opt[int] { return &c.MaxUnpreemptableRunningJobCount }, count).
		Alias(unpreemptableAliases...),
}

var schedulingOptionsTable = document.NewTable(schedulingTable...)

// operationOptions are all options of an operation that concern pool trees.
var operationOptions = concat(
	document.Within(schedulingTable, func(c *OperationOptions) *SchedulingOptions { return &c.SchedulingOptions }),
	[]document.Option[OperationOptions]{
		document.Maybe("pool_trees", "The trees in which the operation runs. Unset: the default tree.",
			func(c *OperationOptions) *opt[[]string] { return &c.PoolTrees },
			document.Distinct(document.ListOf(document.Words), func(a, b string) bool { return a == b })),
		document.Plain("scheduling_options_per_pool_tree", "The options above for single trees; they override the values given for all trees.",
			func(c *OperationOptions) *[]document.Named[SchedulingOptions] { return &c.PerTree },
			document.MapOf(schedulingOptionsTable.Type())).
			Alias("fair_share_options_per_pool_tree"),
		document.Maybe("schedule_in_single_tree", "Choose the best of the trees and run only in it.",
			func(c *OperationOptions) *opt[bool] { return &c.ScheduleInSingleTree }, switched.Default(false)),
		document.Maybe("consider_guarantees_for_single_tree", "Choose only among trees where the pool has guarantees.",
			func(c *OperationOptions) *opt[bool] { return &c.ConsiderGuaranteesForSingle }, switched.Default(false)),
		document.Maybe("erase_trees_with_pool_limit_violations", "Skip trees where the pool is full instead of failing.",
			func(c *OperationOptions) *opt[bool] { return &c.EraseTreesWithLimitViolation }, switched.Default(false)),
		document.Maybe("apply_specified_resource_limits_to_demand", "Do not demand more than resource_limits.",
			func(c *OperationOptions) *opt[bool] { return &c.ApplyLimitsToDemand }, switched.Default(false)),
		document.Maybe("is_gang", "The operation needs all of its jobs at once.",
			func(c *OperationOptions) *opt[bool] { return &c.IsGang }, switched.Default(false)),
		document.Maybe("preemption_mode", "With graceful preemption, jobs are asked to finish and keep their resources until they do.",
			func(c *OperationOptions) *opt[PreemptionMode] { return &c.PreemptionMode }, document.Enum(preemptionWords...).Default(NormalPreemption)),
		document.Maybe("enable_limiting_ancestor_check", "Same as for a tree.",
			func(c *OperationOptions) *opt[bool] { return &c.LimitingAncestorCheck }, switched.Default(true)),
		document.Maybe("waiting_for_resources_on_node_timeout", "Same as for a pool; the longer of the two applies.",
			func(c *OperationOptions) *opt[time.Duration] { return &c.WaitingForResourcesTimeout },
			document.Between(duration, 10*time.Second, 10*time.Minute)).
			Alias("waiting_job_timeout"),
		document.Maybe("max_concurrent_schedule_allocation_calls", "How many jobs may be requested from the controller at once.",
			func(c *OperationOptions) *opt[int] { return &c.MaxConcurrentCalls }, positive).
			Alias("max_concurrent_schedule_job_calls"),
	},
	kept(func(c *OperationOptions) *document.Extras { return &c.Extras }, unsupportedOperationOptions),
)

var unsupportedOperationOptions = []unsupported{
	{"min_share_resources", []string{"strong_guarantee_resources"}, "operations have no guarantees; set them on the pool"},
	{"tentative_pool_trees", nil, reasonTentative},
	{"use_default_tentative_pool_trees", nil, reasonTentative},
	{"tentative_tree_eligibility", nil, reasonTentative},
	{"probing_ratio", nil, "there are no probing jobs"},
	{"probing_pool_tree", nil, "there are no probing jobs"},
	{"max_probing_job_count_per_task", nil, "there are no probing jobs"},
	{"scheduling_segment", nil, "there are no scheduling segments"},
	{"scheduling_modules", nil, "there are no scheduling segments"},
	{"allow_offloading", nil, reasonOffloading},
}

// OperationTable is the table of an operation's options that concern pool trees.
// Readers of whole specifications embed it in their own.
var OperationTable = document.NewTable(operationOptions...)

// OperationOptionList is the rows of OperationTable, for document.Within.
func OperationOptionList() []document.Option[OperationOptions] {
	return append([]document.Option[OperationOptions](nil), operationOptions...)
}

// For returns the effective options in one tree: those given for it override
// those given for all. A map of resources replaces the other as a whole.
func (o OperationOptions) For(tree string) SchedulingOptions {
	for _, named := range o.PerTree {
		if named.Name == tree {
			options := named.Value
			schedulingOptionsTable.Fill(&options, &o.SchedulingOptions)
			return options
		}
	}
	return o.SchedulingOptions
}
