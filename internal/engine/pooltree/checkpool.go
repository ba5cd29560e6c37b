package pooltree

import (
	"fmt"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// poolRules applies the rules of one pool and of its children.
func (c *checker) poolRules(p *Pool) {
	c.counts(p, "", p.config.MaxOperationCount, p.config.MaxRunningOperationCount)
	if sub, ok := p.config.EphemeralSubpoolConfig.Get(); ok {
		c.counts(p, "ephemeral_subpool_config/", sub.MaxOperationCount, sub.MaxRunningOperationCount)
	}
	c.modeRules(p)
	c.presetRules(p)
	c.preemptionRules(p)
	c.keptRules(p)
	c.mainResource(p)
	c.integralRules(p)
	c.priorityRules(p)
	c.limitRules(p)
	for _, g := range guaranteeKinds {
		c.guaranteeRules(p, g)
	}
}

func (c *checker) counts(p *Pool, prefix string, total, running document.Optional[int]) {
	s := &c.tree.settings
	t, r := total.Or(s.MaxOperationCountPerPool.Value()), running.Or(s.MaxRunningOperationCountPerPool.Value())
	if t >= r || !total.IsSet() && !running.IsSet() {
		return
	}
	facts := []document.Entry{intFact("max_operation_count", t), intFact("max_running_operation_count", r)}
	if total.IsSet() && running.IsSet() {
		c.refusePool(p, prefix+"max_operation_count", RuleCountPair,
			fmt.Sprintf("is %d, which is less than max_running_operation_count, %d", t, r), facts...)
		return
	}
	// A total below the default of the running limit is a common way to write
	// "few operations" and needs no warning.
	if running.IsSet() {
		c.warnPool(p, prefix+"max_running_operation_count", RuleIneffective,
			fmt.Sprintf("is %d, but max_operation_count is %d: no more than %d will ever run", r, t, t), facts...)
	}
}

func (c *checker) modeRules(p *Pool) {
	ephemeral := p.config.CreateEphemeralSubpools.Value()
	if p.effective.Mode == FIFO {
		if len(p.children) > 0 {
			c.refusePool(p, "mode", RuleFIFOWithSubpools,
				fmt.Sprintf("a FIFO pool cannot have subpools, but it has %s", c.names(p.children)))
		}
		if ephemeral {
			c.refusePool(p, "create_ephemeral_subpools", RuleFIFOWithEphemeral, "a FIFO pool cannot have subpools, ephemeral ones neither")
		}
	}
	if p.config.EphemeralSubpoolConfig.IsSet() && !ephemeral && c.tree.settings.DefaultParentPool.Value() != p.name {
		c.warnPool(p, "ephemeral_subpool_config", RuleIneffective,
			"has no effect: the pool has no create_ephemeral_subpools and is not the default_parent_pool")
	}
}

// names lists pools for a message.
func (c *checker) names(indices []int) string {
	const most = 3
	var names []string
	for i, n := range indices {
		if i == most {
			names = append(names, fmt.Sprintf("%d more", len(indices)-most))
			break
		}
		names = append(names, fmt.Sprintf("%q", c.tree.pools[n].name))
	}
	return strings.Join(names, ", ")
}

func (c *checker) presetRules(p *Pool) {
	for _, name := range p.config.Presets.Value() {
		if _, ok := c.tree.settings.preset(name); ok || hasWrong(c.draft.wrong, "pool_config_presets") {
			continue
		}
		message := fmt.Sprintf("the tree has no preset %q in pool_config_presets", name)
		var known []string
		for _, preset := range c.tree.settings.PoolConfigPresets {
			known = append(known, preset.Name)
		}
		if nearest, found := document.Nearest(name, known); found {
			message += fmt.Sprintf("; did you mean %q?", nearest)
		}
		if c.tree.lenient {
			c.warnPool(p, "config_presets", RuleUnknownPreset, message+"; it has no effect", document.Pair("preset", document.Text(name)))
			continue
		}
		c.refusePool(p, "config_presets", RuleUnknownPreset, message, document.Pair("preset", document.Text(name)))
	}
}

// UnknownPresets returns the names of presets that the tree does not have, with the
// pools that name them, in the order of Pools.
func (t *Tree) UnknownPresets() (list []document.Named[string]) {
	for p := range t.Pools() {
		for _, name := range p.config.Presets.Value() {
			if _, ok := t.settings.preset(name); !ok {
				list = append(list, document.Named[string]{Name: p.name, Value: name})
			}
		}
	}
	return list
}

// thresholdHidesJobs reports whether a number of jobs has no effect because
// the threshold itself sets user_slots.
func thresholdHidesJobs(threshold document.Optional[resource.Partial], jobs document.Optional[int]) bool {
	return jobs.IsSet() && threshold.Value().Has(resource.UserSlots)
}

func (c *checker) preemptionRules(p *Pool) {
	own, parent := &p.config.Preemption, &c.tree.pools[p.parent].effective
	if thresholdHidesJobs(own.NonPreemptibleThreshold, own.MaxUnpreemptableRunningJobCount) {
		c.warnPool(p, "max_unpreemptable_running_job_count", RuleIneffective, hiddenJobs)
	}
	e := &p.effective
	c.clamped(p, "fair_share_preemption_timeout", own.FairSharePreemptionTimeout, parent.PatienceLimits.FairShareTimeout)
	c.clamped(p, "min_share_preemption_timeout", own.MinSharePreemptionTimeout, parent.PatienceLimits.MinShareTimeout)
	if v, ok := own.FairShareStarvationTolerance.Get(); ok && v > e.Tolerance {
		c.warnPool(p, "fair_share_starvation_tolerance", RuleIneffective,
			fmt.Sprintf("%v has no effect: fair_share_starvation_tolerance_limit from above is %v", v, e.Tolerance))
	}
	if v, ok := own.MinSharePreemptionTimeout.Get(); ok && v > e.FairShareTimeout {
		c.warnPool(p, "min_share_preemption_timeout", RuleIneffective,
			fmt.Sprintf("%s has no effect: fair_share_preemption_timeout, %s, is shorter",
				document.FormatDuration(v), document.FormatDuration(e.FairShareTimeout)))
	}
	if own.FairSharePreemptionTimeout.IsSet() && e.Aggressive && e.FairShareTimeout > e.AggressiveTimeout {
		c.warnPool(p, "fair_share_preemption_timeout", RuleTimeoutOrder,
			fmt.Sprintf("%s is more than the tree's fair_share_aggressive_starvation_timeout, %s: operations will starve aggressively at once",
				document.FormatDuration(e.FairShareTimeout), document.FormatDuration(e.AggressiveTimeout)))
	}
}

// clamped warns about a timeout of a pool that a limit from above replaces.
func (c *checker) clamped(p *Pool, option string, own, limit document.Optional[time.Duration]) {
	if v, ok := own.Get(); ok && v < limit.Value() {
		c.warnPool(p, option, RuleIneffective, fmt.Sprintf("%s has no effect: %s_limit from above is %s",
			document.FormatDuration(v), option, document.FormatDuration(limit.Value())))
	}
}

// keptRules checks what is wrong with options that have no effect otherwise.
func (c *checker) keptRules(p *Pool) {
	const most = 200
	if tags, ok := p.config.Extras.Get("allowed_profiling_tags"); ok && len(tags.Items()) > most {
		c.refusePool(p, "allowed_profiling_tags", RuleTooManyTags,
			fmt.Sprintf("there are %d tags; the limit is %d", len(tags.Items()), most))
	}
	if tags, ok := p.config.Extras.Get("metering_tags"); ok && len(tags.Entries()) > 0 && !p.config.ABC.IsSet() {
		c.refusePool(p, "metering_tags", RuleTagsWithoutABC, "a pool with metering_tags needs abc")
	}
}

func (c *checker) mainResource(p *Pool) {
	strong, main := p.config.StrongGuarantee.Value(), c.tree.settings.MainResource.Value()
	if strong.IsTrivial() || strong.Has(main) || !c.readable(p, strongOption) || hasWrong(c.draft.wrong, "main_resource") {
		return
	}
	c.refusePool(p, strongOption, RuleMainResource,
		fmt.Sprintf("has %v but not %v, the main resource of the tree, from which the rest is inferred", strong, main),
		document.Pair("main_resource", document.Text(main.String())))
}

func (c *checker) integralRules(p *Pool) {
	if !c.readable(p, "integral_guarantees") {
		return
	}
	in := &p.config.Integral
	burst, flow := in.Burst.Value(), in.ResourceFlow.Value()
	switch in.Type.Value() {
	case Burst:
		if flow.IsTrivial() || burst.IsTrivial() {
			c.refusePool(p, "integral_guarantees", RuleBurstIncomplete,
				"a burst pool needs resource_flow and burst_guarantee_resources")
			break
		}
		for _, k := range resource.Kinds {
			b, hasBurst := burst.Get(k)
			f, hasFlow := flow.Get(k)
			if hasBurst && hasFlow && b < f {
				c.warnPool(p, burstOption, RuleBurstBelowFlow,
					fmt.Sprintf("%v is %s, less than resource_flow, %s: the pool can never spend all that flows in",
						k, resource.FormatExact(k, b), resource.FormatExact(k, f)),
					resourceFact(k), amountFact("burst", k, b), amountFact("flow", k, f))
			}
		}
	case Relaxed:
		if flow.IsTrivial() {
			c.refusePool(p, "integral_guarantees", RuleRelaxedIncomplete, "a relaxed pool needs resource_flow")
		}
		if !burst.IsTrivial() {
			c.refusePool(p, burstOption, RuleRelaxedWithBurst, "a relaxed pool has no burst guarantee, only resource_flow")
		}
	case NoIntegral:
		if !(burst.IsTrivial() && flow.IsTrivial()) && !c.integralBelow(p) {
			c.warnPool(p, "integral_guarantees", RuleGuaranteeUnused,
				"has no effect: guarantee_type is none and no pool below has an integral guarantee")
		}
		return
	}
	for _, below := range p.nearestBelow(hasIntegral) {
		c.refusePool(below, "integral_guarantees", RuleIntegralInIntegral,
			fmt.Sprintf("the pool is inside %q, which is itself %v; integral pools cannot be nested", p.name, in.Type.Value()),
			document.Pair("parent", document.Text(p.name)))
	}
}

// hasIntegral reports whether a pool has a flow or a burst guarantee.
func hasIntegral(p *Pool) bool {
	in := &p.config.Integral
	return !in.Burst.Value().IsTrivial() || !in.ResourceFlow.Value().IsTrivial()
}

// integralBelow reports whether a pool below p has a flow or a burst guarantee,
// or one that could not be read.
func (c *checker) integralBelow(p *Pool) bool {
	return len(p.nearestBelow(func(p *Pool) bool { return hasIntegral(p) || !c.readable(p, "integral_guarantees") })) > 0
}

// priorityRules warns about options that the share computation would ignore.
func (c *checker) priorityRules(p *Pool) {
	if p.config.PriorityGuaranteeAdjustment.Value() && !c.donorAbove(p) {
		c.warnPool(p, "enable_priority_strong_guarantee_adjustment", RulePriorityWithoutDonor,
			"has no effect: no pool above is a donor (enable_priority_strong_guarantee_adjustment_donorship)")
	}
	if !p.config.ComputePromisedGuarantee.Value() {
		return
	}
	for above, ok := p.Parent(); ok; above, ok = above.Parent() {
		if above.config.ComputePromisedGuarantee.Value() {
			c.warnPool(p, "compute_promised_guarantee_fair_share", RuleNestedPromised,
				fmt.Sprintf("has no effect: it is already computed for %q above", above.name),
				document.Pair("above", document.Text(above.name)))
			return
		}
	}
}

// donorAbove searches for a donor up to the next priority pool, which hides
// it.
func (c *checker) donorAbove(p *Pool) bool {
	for above, ok := p.Parent(); ok; above, ok = above.Parent() {
		if above.config.PriorityGuaranteeDonorship.Value() {
			return true
		}
		if above.config.PriorityGuaranteeAdjustment.Value() {
			return false
		}
	}
	return false
}

// limitRules warns about a guarantee that the pool's own limits make useless.
func (c *checker) limitRules(p *Pool) {
	limits := p.config.ResourceLimits.Value()
	strong := p.config.StrongGuarantee.Value()
	for _, k := range resource.Kinds {
		g, guaranteed := strong.Get(k)
		l, limited := limits.Get(k)
		if guaranteed && limited && g > l {
			c.warnPool(p, strongOption, RuleGuaranteeOverLimit,
				fmt.Sprintf("%v is %s, more than resource_limits, %s", k, resource.FormatExact(k, g), resource.FormatExact(k, l)),
				resourceFact(k), amountFact("guarantee", k, g), amountFact("limit", k, l))
		}
	}
}

func resourceFact(k resource.Kind) document.Entry {
	return document.Pair("resource", document.Text(k.String()))
}

// amountFact is an amount in the unit that users write.
func amountFact(name string, k resource.Kind, v int64) document.Entry {
	return document.Pair(name, amountValue(k, v, document.ForPrograms))
}

// guaranteeRules compares one guarantee of a pool, resource by resource, with
// those of its children, or of the nearest pools below that have it if the pools
// between them pass it on.
func (c *checker) guaranteeRules(p *Pool, g guaranteeKind) {
	own, allowed := g.of(p.config), p.config.AllowChildrenGuarantees.Or(true)
	if len(p.children) == 0 || !c.readable(p, g.option) || g.passes && own.IsTrivial() && allowed {
		return
	}
	claims := p.nearestBelow(func(below *Pool) bool { return !g.passes || g.has(below) || !c.readable(below, g.option) })
	var sum resource.Amounts
	for _, below := range claims {
		given := g.of(below.config)
		if given.IsTrivial() {
			continue
		}
		sum = sum.Add(given.OrZero())
		if !allowed {
			c.refusePool(below, g.option, RuleChildrenForbidden,
				fmt.Sprintf("the pool %q above does not allow guarantees of its subpools (allow_children_guarantees)", p.name),
				document.Pair("parent", document.Text(p.name)))
			continue
		}
		for _, k := range resource.Kinds {
			if v, ok := given.Get(k); ok && !own.Has(k) {
				c.refusePool(below, g.option, RuleChildWithoutParent,
					fmt.Sprintf("has %v=%s, but the pool %q above has no %v there; a guarantee must be covered by it",
						k, resource.FormatExact(k, v), p.name, k),
					document.Pair("parent", document.Text(p.name)), resourceFact(k), amountFact("amount", k, v))
			}
		}
	}
	if !allowed {
		return
	}
	for _, k := range resource.Kinds {
		if limit, ok := own.Get(k); ok && sum[k] > limit {
			c.refusePool(p, g.option, RuleSumOverParent,
				fmt.Sprintf("%v of the subpools is %s together (%s), more than %s of the pool itself",
					k, resource.FormatExact(k, sum[k]), contributions(claims, g, k), resource.FormatExact(k, limit)),
				resourceFact(k), amountFact("children", k, sum[k]), amountFact("parent", k, limit))
		}
	}
}

// contributions lists the parts of a sum by pool.
func contributions(claims []*Pool, g guaranteeKind, k resource.Kind) string {
	const most = 5
	var parts []string
	rest := 0
	for _, p := range claims {
		v, ok := g.of(p.config).Get(k)
		switch {
		case !ok || v == 0:
		case len(parts) == most:
			rest++
		default:
			parts = append(parts, fmt.Sprintf("%s %s", p.name, resource.FormatExact(k, v)))
		}
	}
	if rest > 0 {
		parts = append(parts, fmt.Sprintf("%d more", rest))
	}
	return strings.Join(parts, ", ")
}
