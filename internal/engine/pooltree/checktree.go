package pooltree

import (
	"fmt"
	"time"

	"github.com/weirhq/weir/internal/value/document"
)

func durationFact(name string, d time.Duration) document.Entry {
	return document.Pair(name, document.Text(document.FormatDuration(d)))
}

func intFact(name string, n int) document.Entry { return document.Pair(name, document.Int(int64(n))) }

// treeRules applies the rules between options of the tree.
func (c *checker) treeRules() {
	explicit, settings := c.tree.Chosen(), &c.tree.settings
	c.treeCounts("max_operation_count", explicit.MaxOperationCount, settings.MaxOperationCount.Value(),
		"max_running_operation_count", explicit.MaxRunningOperationCount, settings.MaxRunningOperationCount.Value())
	c.treeCounts("max_operation_count_per_pool", explicit.MaxOperationCountPerPool, settings.MaxOperationCountPerPool.Value(),
		"max_running_operation_count_per_pool", explicit.MaxRunningOperationCountPerPool, settings.MaxRunningOperationCountPerPool.Value())

	p := &settings.Preemption
	fairShare, aggressive := p.FairSharePreemptionTimeout.Value(), p.AggressiveStarvationTimeout.Value()
	if aggressive < fairShare {
		c.refuseOrder(RuleTimeoutOrder,
			setting{"fair_share_preemption_timeout", explicit.Preemption.FairSharePreemptionTimeout.IsSet(), document.Text(document.FormatDuration(fairShare))},
			setting{"fair_share_aggressive_starvation_timeout", explicit.Preemption.AggressiveStarvationTimeout.IsSet(), document.Text(document.FormatDuration(aggressive))})
	}
	if minShare, ok := p.MinSharePreemptionTimeout.Get(); ok && minShare > fairShare {
		c.warn("min_share_preemption_timeout", RuleIneffective,
			fmt.Sprintf("%s has no effect: fair_share_preemption_timeout, %s, is shorter",
				document.FormatDuration(minShare), document.FormatDuration(fairShare)),
			durationFact("min_share_preemption_timeout", minShare), durationFact("fair_share_preemption_timeout", fairShare))
	}
	normal, strict := p.SatisfactionThreshold.Value(), p.AggressiveSatisfactionThreshold.Value()
	if strict > normal {
		c.refuseOrder(RuleThresholdOrder,
			setting{"aggressive_preemption_satisfaction_threshold", explicit.Preemption.AggressiveSatisfactionThreshold.IsSet(), document.Number(strict)},
			setting{"preemption_satisfaction_threshold", explicit.Preemption.SatisfactionThreshold.IsSet(), document.Number(normal)})
	}
	if p.InfiniteLimitsOvercommit.Value() && !p.UsePrecommit.Value() {
		c.refuse("enable_infinite_resource_limits_overcommit", RuleNeedsPrecommit, "needs use_precommit_for_preemption")
	}
	if thresholdHidesJobs(explicit.Preemption.NonPreemptibleThreshold, explicit.Preemption.MaxUnpreemptableRunningJobCount) {
		c.warn("max_unpreemptable_running_job_count", RuleIneffective, hiddenJobs)
	}
	if min, max := settings.Packing.MinWindowSize.Value(), settings.Packing.MaxWindowSize.Value(); min > max {
		c.refuse("packing/min_window_size_for_schedule", document.RuleOutOfRange,
			fmt.Sprintf("is %d, but only %d heartbeats (max_heartbeat_window_size) are remembered", min, max))
	}
	c.defaultParent()
}

// setting is an option with its effective value.
type setting struct {
	option   string
	explicit bool
	value    document.Value
}

// refuseOrder reports that a value exceeds another one that must not be below
// it, at the place of the one that was written.
func (c *checker) refuseOrder(rule document.Rule, low, high setting) {
	facts := []document.Entry{document.Pair(low.option, low.value), document.Pair(high.option, high.value)}
	if high.explicit || !low.explicit {
		c.refuse(high.option, rule, fmt.Sprintf("is %v, which is less than %s, %v", high.value, low.option, low.value), facts...)
		return
	}
	c.refuse(low.option, rule, fmt.Sprintf("is %v, which is more than %s, %v", low.value, high.option, high.value), facts...)
}

const hiddenJobs = "has no effect: non_preemptible_resource_usage_threshold beside it has user_slots"

// treeCounts compares two limits on operation counts. A total below the running
// limit is an error if both were written, and a warning if one is a default.
func (c *checker) treeCounts(totalName string, total document.Optional[int], effectiveTotal int,
	runningName string, running document.Optional[int], effectiveRunning int,
) {
	if effectiveTotal >= effectiveRunning {
		return
	}
	facts := []document.Entry{intFact(totalName, effectiveTotal), intFact(runningName, effectiveRunning)}
	if total.IsSet() && running.IsSet() {
		c.refuse(totalName, RuleCountPair,
			fmt.Sprintf("is %d, which is less than %s, %d", effectiveTotal, runningName, effectiveRunning), facts...)
		return
	}
	option := totalName
	if running.IsSet() {
		option = runningName
	}
	c.warn(option, RuleIneffective,
		fmt.Sprintf("%s is %d and %s is %d: no more than %d will ever run", runningName, effectiveRunning, totalName, effectiveTotal, effectiveTotal), facts...)
}

// defaultParent warns about a default_parent_pool that cannot be used. It is not
// an error, because pools are added and removed: new pools are then created
// below the root.
func (c *checker) defaultParent() {
	name := c.tree.settings.DefaultParentPool.Value()
	pool, ok := c.tree.Pool(name)
	fact := document.Pair("pool", document.Text(name))
	switch {
	case !ok:
		c.warn("default_parent_pool", RuleDefaultParent,
			fmt.Sprintf("the pool %q does not exist; pools of users will be made below the root", name), fact)
	case pool.effective.Mode == FIFO:
		c.warn("default_parent_pool", RuleDefaultParent,
			fmt.Sprintf("the pool %q is FIFO and cannot have subpools; pools of users will be made below the root", name), fact)
	}
}
