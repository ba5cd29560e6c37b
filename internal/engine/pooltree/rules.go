package pooltree

import "github.com/weirhq/weir/internal/value/document"

// Rules of whole trees. Those of single options are in package document.
const (
	RuleBadName       document.Rule = "bad_pool_name"       // characters, length, or the name of the root
	RuleDuplicateName document.Rule = "duplicate_pool_name" // names are unique in a tree
	RuleUnknownParent document.Rule = "unknown_parent"
	RuleTwoParents    document.Rule = "two_parents" // nested in one pool, but parent names another
	RuleCycle         document.Rule = "cyclic_parent"
	RuleTooDeep       document.Rule = "pool_too_deep"
	RuleSubtreeSize   document.Rule = "subtree_too_large"
	RuleFilterTooLong document.Rule = "filter_too_long"

	RuleFIFOWithSubpools  document.Rule = "fifo_with_subpools"
	RuleFIFOWithEphemeral document.Rule = "fifo_with_ephemeral_subpools"
	RuleCountPair         document.Rule = "operation_counts" // total below running
	RuleTimeoutOrder      document.Rule = "timeout_order"
	RuleThresholdOrder    document.Rule = "threshold_order"
	RuleNeedsPrecommit    document.Rule = "overcommit_needs_precommit"
	RuleUnknownPreset     document.Rule = "unknown_preset"
	RuleNotInPreset       document.Rule = "not_in_preset"
	RuleTooManyTags       document.Rule = "too_many_profiling_tags"
	RuleTagsWithoutABC    document.Rule = "metering_tags_without_abc"

	RuleSumOverParent      document.Rule = "sum_over_parent"         // children's guarantees together exceed the pool's
	RuleChildWithoutParent document.Rule = "guarantee_not_at_parent" // a resource guaranteed to a child, not to the pool
	RuleChildrenForbidden  document.Rule = "children_guarantees_forbidden"
	RuleIntegralInIntegral document.Rule = "integral_in_integral"
	RuleMainResource       document.Rule = "main_resource_missing"
	RuleBurstIncomplete    document.Rule = "burst_incomplete"
	RuleRelaxedIncomplete  document.Rule = "relaxed_incomplete"
	RuleRelaxedWithBurst   document.Rule = "relaxed_with_burst"
)

// Rules that are only worth a warning.
const (
	RuleBurstBelowFlow       document.Rule = "burst_below_flow"
	RuleGuaranteeUnused      document.Rule = "integral_without_type" // flow or burst, but guarantee_type none and no child with either
	RuleGuaranteeOverLimit   document.Rule = "guarantee_over_limit"
	RuleIneffective          document.Rule = "ineffective" // the value has no effect beside another one
	RuleDefaultParent        document.Rule = "default_parent_pool"
	RulePriorityWithoutDonor document.Rule = "priority_without_donor"
	RuleNestedPromised       document.Rule = "nested_promised_guarantee"
)

// Rules of edits.
const (
	RuleUnknownPool  document.Rule = "unknown_pool"
	RuleHasSubpools  document.Rule = "has_subpools"
	RuleNotSet       document.Rule = "not_set"
	RuleNotEnough    document.Rule = "not_enough_to_transfer"
	RuleSameEndpoint document.Rule = "transfer_to_itself"
)
