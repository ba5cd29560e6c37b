package pooltree

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/value/document"
)

// parse reads a tree from YAML and returns the errors and the warnings.
func parse(t testing.TB, text string) (*Tree, document.Problems, document.Problems) {
	t.Helper()
	tree, warnings, err := parseFile("", []byte(text), Options{})
	var problems document.Problems
	if err != nil {
		problems = err.(document.Problems)
	}
	return tree, problems, warnings
}

func mustParse(t testing.TB, text string) *Tree {
	t.Helper()
	tree, problems, _ := parse(t, text)
	if tree == nil {
		t.Fatal(problems)
	}
	return tree
}

// Every rule for whole trees has a tree that just obeys it and one that breaks it.
func TestRules(t *testing.T) {
	chain := func(n int) string {
		var b strings.Builder
		b.WriteString("pools:\n- {name: p0}\n")
		for i := 1; i < n; i++ {
			fmt.Fprintf(&b, "- {name: p%d, parent: p%d}\n", i, i-1)
		}
		return b.String()
	}
	fan := func(n int) string {
		var b strings.Builder
		b.WriteString("pools:\n  top:\n    pools:\n")
		for i := 1; i < n; i++ {
			fmt.Fprintf(&b, "      p%d: {}\n", i)
		}
		return b.String()
	}
	tags := func(n int) string {
		return "pools: {a: {allowed_profiling_tags: [" + strings.TrimSuffix(strings.Repeat("x, ", n), ", ") + "]}}"
	}
	cases := []struct {
		rule      document.Rule
		good, bad string
		path      string
	}{
		{RuleBadName, "pools: {Prod:a_b-c.1: {}}", "pools: {a$b: {}}", "pools/a$b"},
		{RuleBadName, "pools: {" + strings.Repeat("a", 100) + ": {}}", "pools: {" + strings.Repeat("a", 101) + ": {}}", ""},
		{RuleDuplicateName, "pools: {a: {pools: {b: }}, c: }", "pools: {a: {pools: {b: }}, b: }", "pools/b"},
		{RuleUnknownParent, "pools: [{name: a, parent: b}, {name: b}]", "pools: [{name: a, parent: b}]", "pools/a"},
		{RuleTwoParents, "pools: {a: {pools: {b: {parent: a}}}}", "pools: {a: {pools: {b: {parent: c}}}, c: }", "pools/a/b"},
		{RuleCycle, "pools: [{name: a, parent: b}, {name: b, parent: <Root>}]", "pools: [{name: a, parent: b}, {name: b, parent: a}]", "pools/a"},
		{RuleTooDeep, chain(30), chain(31), ""},
		{RuleSubtreeSize, fan(1000), fan(1001), "pools/top"},
		{RuleFIFOWithSubpools, "pools: {a: {mode: fair-share, pools: {b: }}}", "pools: {a: {mode: fifo, pools: {b: }}}", "pools/a/mode"},
		{RuleFIFOWithEphemeral, "pools: {a: {create_ephemeral_subpools: true}}", "pools: {a: {mode: fifo, create_ephemeral_subpools: true}}", "pools/a/create_ephemeral_subpools"},
		{RuleCountPair, "pools: {a: {max_operation_count: 5, max_running_operation_count: 5}}", "pools: {a: {max_operation_count: 5, max_running_operation_count: 6}}", "pools/a/max_operation_count"},
		{RuleCountPair, "{max_operation_count: 5, max_running_operation_count: 5}", "{max_operation_count: 5, max_running_operation_count: 6}", "max_operation_count"},
		{RuleTimeoutOrder, "{fair_share_preemption_timeout: 2m}", "{fair_share_preemption_timeout: 121s}", "fair_share_preemption_timeout"},
		{RuleThresholdOrder, "{aggressive_preemption_satisfaction_threshold: 1}", "{aggressive_preemption_satisfaction_threshold: 1.1}", "aggressive_preemption_satisfaction_threshold"},
		{RuleNeedsPrecommit, "{enable_infinite_resource_limits_overcommit: true, use_precommit_for_preemption: true}", "{enable_infinite_resource_limits_overcommit: true}", "enable_infinite_resource_limits_overcommit"},
		{RuleUnknownPreset, "{pool_config_presets: {x: {}}, pools: {a: {config_preset: x}}}", "pools: {a: {config_preset: x}}", "pools/a/config_presets"},
		{RuleNotInPreset, "{pool_config_presets: {x: {allow_normal_preemption: false}}}", "{pool_config_presets: {x: {weight: 1}}}", "pool_config_presets/x/weight"},
		{RuleTooManyTags, tags(200), tags(201), "pools/a/allowed_profiling_tags"},
		{RuleTagsWithoutABC, "pools: {a: {metering_tags: {x: y}, abc: {id: 1}}}", "pools: {a: {metering_tags: {x: y}}}", "pools/a/metering_tags"},
		{RuleSumOverParent, "pools: {a: {min_share_resources: {cpu: 3}, pools: {b: {min_share_resources: {cpu: 1.5}}, c: {min_share_resources: {cpu: 1.5}}}}}",
			"pools: {a: {min_share_resources: {cpu: 3}, pools: {b: {min_share_resources: {cpu: 1.5}}, c: {min_share_resources: {cpu: 1.51}}}}}", "pools/a/min_share_resources"},
		{RuleSumOverParent, "pools: {b: {min_share_resources: {cpu: 15}}, c: {min_share_resources: {cpu: 1000000}}}",
			"pools: {a: {integral_guarantees: {resource_flow: {gpu: 3}}, pools: {b: {integral_guarantees: {guarantee_type: relaxed, resource_flow: {gpu: 4}}}}}}", "pools/a/integral_guarantees/resource_flow"},
		{RuleSumOverParent, "pools: {a: {integral_guarantees: {resource_flow: {cpu: 3}, burst_guarantee_resources: {cpu: 4}}, pools: {b: {integral_guarantees: {guarantee_type: burst, resource_flow: {cpu: 3}, burst_guarantee_resources: {cpu: 4}}}}}}",
			"pools: {a: {integral_guarantees: {resource_flow: {cpu: 3}, burst_guarantee_resources: {cpu: 4}}, pools: {b: {integral_guarantees: {guarantee_type: burst, resource_flow: {cpu: 3}, burst_guarantee_resources: {cpu: 5}}}}}}", "pools/a/integral_guarantees/burst_guarantee_resources"},
		{RuleChildWithoutParent, "pools: {a: {min_share_resources: {cpu: 3, memory: 0}, pools: {b: {min_share_resources: {cpu: 1, memory: 0}}}}}",
			"pools: {a: {min_share_resources: {cpu: 3}, pools: {b: {min_share_resources: {cpu: 1, memory: 0}}}}}", "pools/a/b/min_share_resources"},
		{RuleChildWithoutParent, "pools: {a: {pools: {b: {pools: {c: {pools: {d: {integral_guarantees: {guarantee_type: relaxed, resource_flow: {cpu: 1}}}}}}}}}}",
			"pools: {a: {integral_guarantees: {resource_flow: {gpu: 1}}, pools: {b: {pools: {c: {integral_guarantees: {guarantee_type: relaxed, resource_flow: {cpu: 1}}}}}}}}", "pools/a/b/c/integral_guarantees/resource_flow"},
		{RuleChildWithoutParent, "pools: {a: {min_share_resources: {cpu: 1}}}",
			"pools: {a: {pools: {b: {min_share_resources: {cpu: 1}}}}}", "pools/a/b/min_share_resources"},
		{RuleSumOverParent, "pools: {a: {integral_guarantees: {resource_flow: {cpu: 3}}, pools: {b: {pools: {c: {integral_guarantees: {guarantee_type: relaxed, resource_flow: {cpu: 2}}}, d: {integral_guarantees: {guarantee_type: relaxed, resource_flow: {cpu: 1}}}}}}}}",
			"pools: {a: {integral_guarantees: {resource_flow: {cpu: 3}}, pools: {b: {pools: {c: {integral_guarantees: {guarantee_type: relaxed, resource_flow: {cpu: 2}}}}}, d: {integral_guarantees: {guarantee_type: relaxed, resource_flow: {cpu: 2}}}}}}", "pools/a/integral_guarantees/resource_flow"},
		{RuleChildrenForbidden, "pools: {a: {allow_children_guarantees: false, pools: {b: {pools: {c: }}}}}",
			"pools: {a: {allow_children_guarantees: false, pools: {b: {pools: {c: {integral_guarantees: {guarantee_type: relaxed, resource_flow: {cpu: 1}}}}}}}}", "pools/a/b/c/integral_guarantees/resource_flow"},
		{RuleIntegralInIntegral, "pools: {a: {pools: {b: {integral_guarantees: {guarantee_type: relaxed, resource_flow: {cpu: 1}}}}}}",
			"pools: {a: {integral_guarantees: {guarantee_type: relaxed, resource_flow: {cpu: 1}}, pools: {b: {pools: {c: {integral_guarantees: {resource_flow: {cpu: 1}}}}}}}}", "pools/a/b/c/integral_guarantees"},
		{RuleChildWithoutParent, "pools: {a: {pools: {b: {integral_guarantees: {resource_flow: {cpu: 1}}}}}}",
			"pools: {a: {integral_guarantees: {resource_flow: {gpu: 1}}, pools: {b: {integral_guarantees: {guarantee_type: relaxed, resource_flow: {cpu: 1}}}}}}", "pools/a/b/integral_guarantees/resource_flow"},
		{RuleChildrenForbidden, "pools: {a: {min_share_resources: {cpu: 3}, allow_children_guarantees: false, pools: {b: }}}",
			"pools: {a: {min_share_resources: {cpu: 3}, allow_children_guarantees: false, pools: {b: {min_share_resources: {cpu: 1}}}}}", "pools/a/b/min_share_resources"},
		{RuleIntegralInIntegral, "pools: {a: {integral_guarantees: {guarantee_type: relaxed, resource_flow: {cpu: 1}}, pools: {b: }}}",
			"pools: {a: {integral_guarantees: {guarantee_type: relaxed, resource_flow: {cpu: 1}}, pools: {b: {integral_guarantees: {resource_flow: {cpu: 1}}}}}}", "pools/a/b/integral_guarantees"},
		{RuleMainResource, "{main_resource: gpu, pools: {a: {min_share_resources: {gpu: 0, cpu: 1}}}}", "{main_resource: gpu, pools: {a: {min_share_resources: {cpu: 1}}}}", "pools/a/min_share_resources"},
		{RuleBurstIncomplete, "pools: {a: {integral_guarantees: {guarantee_type: burst, resource_flow: {cpu: 1}, burst_guarantee_resources: {cpu: 1}}}}",
			"pools: {a: {integral_guarantees: {guarantee_type: burst, resource_flow: {cpu: 1}, burst_guarantee_resources: {}}}}", "pools/a/integral_guarantees"},
		{RuleRelaxedIncomplete, "pools: {a: {integral_guarantees: {guarantee_type: relaxed, resource_flow: {cpu: 1}}}}", "pools: {a: {integral_guarantees: {guarantee_type: relaxed}}}", "pools/a/integral_guarantees"},
		{RuleRelaxedWithBurst, "pools: {a: {integral_guarantees: {guarantee_type: relaxed, resource_flow: {cpu: 1}, burst_guarantee_resources: {}}}}",
			"pools: {a: {integral_guarantees: {guarantee_type: relaxed, resource_flow: {cpu: 1}, burst_guarantee_resources: {cpu: 1}}}}", "pools/a/integral_guarantees/burst_guarantee_resources"},
	}
	for _, c := range cases {
		t.Run(string(c.rule), func(t *testing.T) {
			if tree, problems, _ := parse(t, c.good); tree == nil {
				t.Errorf("the good tree is refused: %v", problems)
			}
			tree, problems, _ := parse(t, c.bad)
			if tree != nil || len(problems) != 1 || problems[0].Rule != c.rule {
				t.Fatalf("the bad tree is refused for %v", problems)
			}
			if p := problems[0]; c.path != "" && p.Path != c.path || p.Position.IsZero() {
				t.Errorf("the problem is at %q (%v), want %q", p.Path, p.Position, c.path)
			}
		})
	}
}

// Every warning has a tree that gives none and one that gives it.
func TestWarnings(t *testing.T) {
	const flow = "guarantee_type: burst, resource_flow: {cpu: 10}"
	cases := []struct {
		rule         document.Rule
		silent, loud string
		path         string
	}{
		{RuleBurstBelowFlow, "pools: {a: {integral_guarantees: {" + flow + ", burst_guarantee_resources: {cpu: 10}}}}", "pools: {a: {integral_guarantees: {" + flow + ", burst_guarantee_resources: {cpu: 9.99}}}}", "pools/a/integral_guarantees/burst_guarantee_resources"},
		{RuleGuaranteeUnused, "pools: {a: {integral_guarantees: {resource_flow: {cpu: 1}}, pools: {b: {integral_guarantees: {guarantee_type: relaxed, resource_flow: {cpu: 1}}}}}}", "pools: {a: {integral_guarantees: {resource_flow: {cpu: 1}}}}", "pools/a/integral_guarantees"},
		{RuleGuaranteeOverLimit, "pools: {a: {min_share_resources: {cpu: 5}, resource_limits: {cpu: 5, memory: 1}}}", "pools: {a: {min_share_resources: {cpu: 5}, resource_limits: {cpu: 4}}}", "pools/a/min_share_resources"},
		{RuleIneffective, "pools: {a: {max_operation_count: 5}}", "pools: {a: {max_running_operation_count: 60}}", "pools/a/max_running_operation_count"},
		{RuleIneffective, "{max_running_operation_count_per_pool: 50}", "{max_running_operation_count_per_pool: 60}", "max_running_operation_count_per_pool"},
		{RuleIneffective, "{min_share_preemption_timeout: 30s}", "{min_share_preemption_timeout: 31s}", "min_share_preemption_timeout"},
		{RuleIneffective, "{min_share_preemption_timeout_limit: 10s, pools: {a: {min_share_preemption_timeout: 20s}}}", "{min_share_preemption_timeout_limit: 10s, pools: {a: {min_share_preemption_timeout: 5s}}}", "pools/a/min_share_preemption_timeout"},
		{RuleIneffective, "{fair_share_preemption_timeout_limit: 10s, pools: {a: {fair_share_preemption_timeout: 10s}}}", "{pools: {a: {fair_share_preemption_timeout_limit: 1m, pools: {b: {fair_share_preemption_timeout: 59s}}}}}", "pools/a/b/fair_share_preemption_timeout"},
		{RuleIneffective, "{fair_share_starvation_tolerance_limit: 0.5, pools: {a: {fair_share_starvation_tolerance: 0.5}}}", "{fair_share_starvation_tolerance_limit: 0.5, pools: {a: {fair_share_starvation_tolerance: 0.6}}}", "pools/a/fair_share_starvation_tolerance"},
		{RuleIneffective, "{pools: {a: {min_share_preemption_timeout: 5s}}}", "{pools: {a: {min_share_preemption_timeout: 50s}}}", "pools/a/min_share_preemption_timeout"},
		{RuleIneffective, "{max_unpreemptable_running_job_count: 5, non_preemptible_resource_usage_threshold: {cpu: 1}}", "{max_unpreemptable_running_job_count: 5, non_preemptible_resource_usage_threshold: {user_slots: 1}}", "max_unpreemptable_running_job_count"},
		{RuleIneffective, "{max_unpreemptable_running_job_count: 5, pools: {a: {non_preemptible_resource_usage_threshold: {user_slots: 1}}}}", "{pools: {a: {max_unpreemptable_running_job_count: 5, non_preemptible_resource_usage_threshold: {user_slots: 1}}}}", "pools/a/max_unpreemptable_running_job_count"},
		{RuleIneffective, "{default_parent_pool: a, pools: {a: {ephemeral_subpool_config: {mode: fifo}}}}", "{pools: {a: {ephemeral_subpool_config: {mode: fifo}}}}", "pools/a/ephemeral_subpool_config"},
		{RuleTimeoutOrder, "{enable_aggressive_starvation: true, pools: {a: {fair_share_preemption_timeout: 2m}}}", "{enable_aggressive_starvation: true, pools: {a: {fair_share_preemption_timeout: 3m}}}", "pools/a/fair_share_preemption_timeout"},
		{RuleDefaultParent, "{default_parent_pool: a, pools: {a: }}", "{default_parent_pool: b, pools: {a: }}", "default_parent_pool"},
		{RuleDefaultParent, "{default_parent_pool: <Root>}", "{default_parent_pool: a, pools: {a: {mode: fifo}}}", "default_parent_pool"},
		{RulePriorityWithoutDonor, "pools: {a: {enable_priority_strong_guarantee_adjustment_donorship: true, pools: {b: {pools: {c: {enable_priority_strong_guarantee_adjustment: true}}}}}}", "pools: {c: {enable_priority_strong_guarantee_adjustment: true}}", "pools/c/enable_priority_strong_guarantee_adjustment"},
		{RulePriorityWithoutDonor, "pools: {}", "pools: {a: {enable_priority_strong_guarantee_adjustment_donorship: true, pools: {b: {enable_priority_strong_guarantee_adjustment: true, pools: {c: {enable_priority_strong_guarantee_adjustment: true}}}}}}", "pools/a/b/c/enable_priority_strong_guarantee_adjustment"},
		{RuleNestedPromised, "pools: {a: {compute_promised_guarantee_fair_share: true}, b: {compute_promised_guarantee_fair_share: true}}", "pools: {a: {compute_promised_guarantee_fair_share: true, pools: {b: {pools: {c: {compute_promised_guarantee_fair_share: true}}}}}}", "pools/a/b/c/compute_promised_guarantee_fair_share"},
	}
	for _, c := range cases {
		t.Run(string(c.rule), func(t *testing.T) {
			tree, problems, warnings := parse(t, c.silent)
			if tree == nil || len(warnings) > 0 {
				t.Errorf("the silent tree: %v %v", problems, warnings)
			}
			tree, problems, warnings = parse(t, c.loud)
			if tree == nil || len(warnings) != 1 || warnings[0].Rule != c.rule || warnings[0].Path != c.path {
				t.Errorf("the loud tree: %v %v", problems, warnings)
			}
		})
	}
}

func TestProblemsCarryTheirAmounts(t *testing.T) {
	_, problems, _ := parse(t, "pools: {a: {min_share_resources: {cpu: 3, memory: 1KiB}, pools: {b: {min_share_resources: {cpu: 1.5, memory: 2KiB}}, c: {min_share_resources: {cpu: 2}}}}}")
	if len(problems) != 2 {
		t.Fatal(problems)
	}
	for i, want := range []string{
		"{pool: a, option: min_share_resources, resource: cpu, children: 3.5, parent: 3}",
		"{pool: a, option: min_share_resources, resource: memory, children: 2048, parent: 1024}",
	} {
		if got := document.Map(problems[i].Facts...).String(); got != want {
			t.Errorf("facts are %s, want %s", got, want)
		}
	}
	if got := problems[0].Fact("children"); !got.Equal(document.Float(3.5)) {
		t.Errorf("children is %v", got)
	}
}

// Values that could not be read must not cause further problems.
func TestWrongOptionsAreNotCheckedAgain(t *testing.T) {
	for _, text := range []string{
		"pools: {a: {min_share_resources: {cpu: x}, pools: {b: {min_share_resources: {cpu: 1}}}}}",
		"pools: {a: {integral_guarantees: {resource_flow: 5}, pools: {b: {integral_guarantees: {guarantee_type: relaxed, resource_flow: {cpu: 1}}}}}}",
		"{main_resource: foo, pools: {a: {min_share_resources: {gpu: 1}}}}",
		"{pool_config_presets: {x: {weight: 1}}, pools: {a: {config_preset: x}}}",
		"pools: {a: {integral_guarantees: {guarantee_type: burst, resource_flow: {cpu: -1}, burst_guarantee_resources: {cpu: 1}}}}",
	} {
		if _, problems, _ := parse(t, text); len(problems) != 1 {
			t.Errorf("%s: %v", text, problems)
		}
	}
}

func TestLimitsCanBeWidened(t *testing.T) {
	v := wideTree(10000)
	deep := document.Map()
	var list []document.Value
	for i := range 5000 {
		parent := RootName
		if i > 0 {
			parent = fmt.Sprint("p", i-1)
		}
		list = append(list, document.Map(document.Pair("name", document.Text(fmt.Sprint("p", i))), document.Pair("parent", document.Text(parent))))
	}
	deep = deep.With("pools", document.List(list...))
	if _, _, err := FromValue(deep, Options{}); err == nil || len(err.(document.Problems)) != 2 {
		t.Errorf("a chain of 5000 pools: %v", err)
	}
	wide := Limits{MaxNameLength: 100}
	tree, _, err := FromValue(deep, Options{Limits: wide})
	if err != nil {
		t.Fatal(err)
	}
	last, _ := tree.Pool("p4999")
	if last.Depth() != 5000 {
		t.Errorf("the last pool is at depth %d", last.Depth())
	}
	checkRoundTrip(t, tree)
	if _, _, err := FromValue(v, Options{Limits: wide}); err != nil {
		t.Error(err)
	}
}
