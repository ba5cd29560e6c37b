package pooltree

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/value/document"
)

// documentedOption is what the user documents state about one option, and what the
// reference states if the documents only include its page.
type documentedOption struct {
	name  string // as the documents spell it; it is also the name of the case
	alias string // another name of today's YTsaurus, if there is one
	value string // a value in YAML
	kept  string // the value as the tree returns it
	// fallback is the default; "unset" where a pool inherits or infers.
	fallback string
	refused  []string // values that must be refused
	beside   string   // options that it requires
}

// optionPlace is a map in a tree's document that holds options.
type optionPlace struct {
	write string   // the document around the options, with a hole
	path  []string // the path to the map
	table []*document.Info
}

var (
	onTheTree      = optionPlace{"{%s}", nil, TreeOptions.Options()}
	onATreesFlows  = optionPlace{"{integral_guarantees: {%s}}", []string{"integral_guarantees"}, treeIntegralTable.Options()}
	onAPool        = optionPlace{"{pools: {p: {%s}}}", []string{"pools", "p"}, PoolOptions.Options()}
	onAPoolsFlows  = optionPlace{"{pools: {p: {integral-guarantees: {%s}}}}", []string{"pools", "p", "integral_guarantees"}, integralTable.Options()}
	onUsersPools   = optionPlace{"{pools: {p: {create_ephemeral_subpools: true, ephemeral_subpool_config: {%s}}}}", []string{"pools", "p", "ephemeral_subpool_config"}, ephemeralTable.Options()}
	wrongAmounts   = []string{"5", "{cpu: -1}", "{cpu: .nan}", "{cores: 1}", "{memory: 1.5}", "{cpu: many}"}
	wrongSwitches  = []string{"1", `"yes"`, "[true]"}
	wrongCounts    = []string{"0", "-1", "1.5", "many"}
	wrongDurations = []string{"-1s", "soon", "true"}
)

// check reads the option by each of its names, finds it in the tree, and tries the
// values that must be refused.
func (o documentedOption) check(t *testing.T, in optionPlace) {
	t.Helper()
	primary := document.Normal(o.name)
	around := func(name, value string) string {
		options := name + ": " + value
		if o.beside != "" {
			options += ", " + o.beside
		}
		return fmt.Sprintf(in.write, options)
	}
	names := []string{o.name, primary, strings.ReplaceAll(primary, "_", "-")}
	if o.alias != "" {
		names = append(names, o.alias)
	}
	for _, name := range names {
		tree, problems, _ := parse(t, around(name, o.value))
		if tree == nil {
			t.Errorf("%s: %s is refused: %v", name, o.value, problems)
			continue
		}
		at := tree.Document(document.ForPeople)
		for _, key := range in.path {
			at, _ = at.Get(key)
		}
		if kept, ok := at.Get(primary); !ok || kept.String() != o.kept {
			t.Errorf("%s: %s is kept as %v, want %s", name, o.value, kept, o.kept)
		}
	}
	for _, value := range o.refused {
		tree, problems, _ := parse(t, around(o.name, value))
		path := strings.Join(append(slices.Clone(in.path), primary), "/")
		if tree != nil || len(problems) != 1 || !strings.HasPrefix(document.Normal(problems[0].Path), path) {
			t.Errorf("%s: %s is not refused once, at %s: %v", o.name, value, path, problems)
		}
	}
	i := slices.IndexFunc(in.table, func(i *document.Info) bool { return i.Name == primary })
	if i < 0 {
		t.Fatalf("there is no option %s", primary)
	}
	fallback := "unset"
	if !in.table[i].Default.IsNull() {
		fallback = in.table[i].Default.String()
	}
	if fallback != o.fallback {
		t.Errorf("the default of %s is %s, want %s", primary, fallback, o.fallback)
	}
}

func checkOptions(t *testing.T, in optionPlace, options []documentedOption) {
	t.Helper()
	for _, o := range options {
		t.Run(o.name, func(t *testing.T) { o.check(t, in) })
	}
}

// The attributes of a pool tree in the document on pool characteristics.
func TestTreeOptionsOfTheDocuments(t *testing.T) {
	checkOptions(t, onTheTree, []documentedOption{
		{name: "nodes_filter", alias: "node_tag_filter", value: `"(internal & !gpu) | testing"`, kept: `"internal & !gpu | testing"`, fallback: `""`, refused: []string{"5", `"a &"`, `"(a"`}},
		{name: "max_operation_count", value: "60000", kept: "60000", fallback: "50000", refused: wrongCounts},
		{name: "max_operation_count_per_pool", value: "60", kept: "60", fallback: "50", refused: wrongCounts},
		{name: "max_running_operation_count", value: "7", kept: "7", fallback: "2000", refused: wrongCounts},
		{name: "max_running_operation_count_per_pool", value: "7", kept: "7", fallback: "8", refused: wrongCounts},
		{name: "default_parent_pool", value: "p", kept: "p", fallback: RootName, refused: []string{"5", "[p]"}, beside: "pools: {p: {}}"},
		{name: "enable_pool_starvation", value: "false", kept: "false", fallback: "true", refused: wrongSwitches},
		{name: "forbid_immediate_operations_in_root", value: "false", kept: "false", fallback: "true", refused: wrongSwitches},
		{name: "max_ephemeral_pool_per_user", alias: "max_ephemeral_pools_per_user", value: "3", kept: "3", fallback: "1", refused: wrongCounts},
		{name: "fair-share_preemption_timeout", alias: "fair_share_starvation_timeout", value: "15000", kept: "15s", fallback: "30s", refused: wrongDurations},
		{name: "min_share_preemption_timeout", value: "15s", kept: "15s", fallback: "unset", refused: wrongDurations},
		{name: "fair-share_starvation_tolerance", value: "0.7", kept: "0.7", fallback: "0.8", refused: []string{"-0.1", "1.1", ".nan", "much"}},
		{name: "max_unpreemptable_running_job_count", alias: "max_unpreemptible_running_job_count", value: "10", kept: "10", fallback: "unset", refused: []string{"-1", "1.5"}},
	})
}

// A tree's preemption settings, which the document includes from another page.
func TestPreemptionOptionsOfATree(t *testing.T) {
	checkOptions(t, onTheTree, []documentedOption{
		{name: "fair_share_aggressive_starvation_timeout", value: "3m", kept: "3m", fallback: "2m", refused: append([]string{"29s"}, wrongDurations...)},
		{name: "enable_aggressive_starvation", value: "true", kept: "true", fallback: "false", refused: wrongSwitches},
		{name: "preemption_satisfaction_threshold", value: "0.9", kept: "0.9", fallback: "1", refused: []string{"0", "-1", ".nan", "0.1"}},
		{name: "aggressive_preemption_satisfaction_threshold", value: "0.5", kept: "0.5", fallback: "0.2", refused: []string{"-1", ".inf", "1.1"}},
		{name: "non_preemptible_resource_usage_threshold", value: "{user_slots: 10, cpu: 1.5}", kept: "{user_slots: 10, cpu: 1.5}", fallback: "unset", refused: wrongAmounts},
		{name: "allocation_count_preemption_timeout_coefficient", alias: "job_count_preemption_timeout_coefficient", value: "2", kept: "2", fallback: "1", refused: []string{"0.9", "x"}},
		{name: "preemptive_scheduling_backoff", value: "1s", kept: "1s", fallback: "5s", refused: wrongDurations},
		{name: "allocation_preemption_timeout", alias: "job_interrupt_timeout", value: "10s", kept: "10s", fallback: "30s", refused: wrongDurations},
		{name: "allocation_graceful_preemption_timeout", alias: "job_graceful_interrupt_timeout", value: "10s", kept: "10s", fallback: "1m", refused: wrongDurations},
	})
}

// The k of the document on integral guarantees and related options, which apply to
// all pools of a tree.
func TestIntegralOptionsOfATree(t *testing.T) {
	checkOptions(t, onATreesFlows, []documentedOption{
		{name: "pool_capacity_saturation_period", value: "12h", kept: "12h", fallback: "1d", refused: append([]string{"0"}, wrongDurations...)},
		{name: "relaxed_share_multiplier_limit", value: "2.5", kept: "2.5", fallback: "3", refused: []string{"0.9", "11", ".nan"}},
		{name: "smooth_period", value: "10s", kept: "10s", fallback: "1m", refused: append([]string{"0"}, wrongDurations...)},
	})
	for _, option := range integralTable.Options() {
		if option.Name == "pool_capacity_saturation_period" {
			t.Error("a pool has a k of its own; it is one for all pools")
		}
	}
}

// The characteristics of a pool in the document on pool characteristics.
func TestPoolOptionsOfTheDocuments(t *testing.T) {
	const guarantee = "{user_slots: 10, cpu: 1.5, memory: 4TiB}"
	checkOptions(t, onAPool, []documentedOption{
		{name: "weight", value: "2.5", kept: "2.5", fallback: "unset", refused: []string{"-1", ".nan", ".inf", "heavy"}},
		{name: "max_share_ratio", value: "0.5", kept: "0.5", fallback: "unset", refused: []string{"-0.1", "1.1", ".nan", "half"}},
		{name: "min_share_resources", alias: "strong_guarantee_resources", value: guarantee, kept: guarantee, fallback: "unset", refused: wrongAmounts},
		{name: "resource_limits", value: guarantee, kept: guarantee, fallback: "unset", refused: wrongAmounts},
		{name: "mode", value: "fifo", kept: "fifo", fallback: "fair_share", refused: []string{"lifo", "5", "[fifo]"}},
		{name: "max_running_operation_count", value: "7", kept: "7", fallback: "unset", refused: []string{"-1", "1.5", "many"}},
		{name: "max_operation_count", value: "60", kept: "60", fallback: "unset", refused: []string{"-1", "1.5", "many"}},
		{
			name: "fifo_sort_parameters", value: "[pending_job_count, weight, start_time]", kept: "[pending_job_count, weight, start_time]",
			fallback: "[weight, start_time]", refused: []string{"[]", "[age]", "[weight, weight]", "weight"}, beside: "mode: fifo",
		},
		{name: "forbid_immediate_operations", value: "true", kept: "true", fallback: "false", refused: wrongSwitches},
		{name: "create_ephemeral_subpools", value: "true", kept: "true", fallback: "false", refused: wrongSwitches},
		{
			name: "ephemeral_subpool_config", value: "{mode: fifo, max_operation_count: 9}", kept: "{mode: fifo, max_operation_count: 9}",
			fallback: "unset", refused: []string{"5", "{weight: 1}", "{mode: 5}"}, beside: "create_ephemeral_subpools: true",
		},
	})
	if got, problems, _ := parse(t, "pools: {p: {mode: fair-share}}"); got == nil {
		t.Errorf("the documents' spelling of fair_share is refused: %v", problems)
	}
}

func TestEphemeralSubpoolOptionsOfTheDocuments(t *testing.T) {
	checkOptions(t, onUsersPools, []documentedOption{
		{name: "mode", value: "fifo", kept: "fifo", fallback: "fair_share", refused: []string{"lifo", "5"}},
		{name: "max_running_operation_count", value: "7", kept: "7", fallback: "unset", refused: []string{"-1", "many"}},
		{name: "max_operation_count", value: "60", kept: "60", fallback: "unset", refused: []string{"-1", "many"}},
	})
}

// The preemption settings that a pool may override.
func TestPreemptionOptionsOfAPool(t *testing.T) {
	checkOptions(t, onAPool, []documentedOption{
		{name: "fair_share_preemption_timeout", alias: "fair_share_starvation_timeout", value: "15s", kept: "15s", fallback: "unset", refused: wrongDurations},
		{name: "fair_share_starvation_tolerance", value: "0.7", kept: "0.7", fallback: "unset", refused: []string{"-0.1", "1.1", ".nan"}},
		{name: "enable_aggressive_starvation", value: "true", kept: "true", fallback: "unset", refused: wrongSwitches},
		{name: "non_preemptible_resource_usage_threshold", value: "{user_slots: 10}", kept: "{user_slots: 10}", fallback: "unset", refused: wrongAmounts},
		{name: "allow_aggressive_preemption", alias: "allow_aggressive_starvation_preemption", value: "false", kept: "false", fallback: "unset", refused: wrongSwitches},
		{name: "allow_normal_preemption", value: "false", kept: "false", fallback: "true", refused: wrongSwitches},
	})
}

// A pool's attribute integral-guarantees in the document on integral guarantees.
func TestIntegralOptionsOfAPool(t *testing.T) {
	checkOptions(t, onAPoolsFlows, []documentedOption{
		{name: "guarantee_type", value: "burst", kept: "burst", fallback: "none", refused: []string{"strong", "5"}, beside: "resource_flow: {cpu: 1}, burst_guarantee_resources: {cpu: 2}"},
		{name: "resource_flow", value: "{cpu: 100}", kept: "{cpu: 100}", fallback: "unset", refused: wrongAmounts, beside: "guarantee_type: relaxed"},
		{name: "burst_guarantee_resources", value: "{cpu: 2000}", kept: "{cpu: 2000}", fallback: "unset", refused: wrongAmounts, beside: "guarantee_type: burst, resource_flow: {cpu: 1}"},
	})
}

// Both count limits apply at every level. Where a pool sets none, the tree's
// default for pools applies.
func TestCountLimitsAreSetAtEveryLevel(t *testing.T) {
	const pools = "pools: {a: {pools: {b: {max_operation_count: 90, max_running_operation_count: 80, pools: {c: }}}}}"
	for _, test := range []struct {
		name, text string
		want       [4][2]int // of root, a, b, c: running, all
	}{
		{"nothing is set on the tree", pools, [4][2]int{{2000, 50000}, {8, 50}, {80, 90}, {8, 50}}},
		{
			"the tree sets them",
			"max_operation_count: 600\nmax_running_operation_count: 500\nmax_operation_count_per_pool: 40\nmax_running_operation_count_per_pool: 30\n" + pools,
			[4][2]int{{500, 600}, {30, 40}, {80, 90}, {30, 40}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			tree := mustParse(t, test.text)
			for i, name := range []string{RootName, "a", "b", "c"} {
				e := pool(t, tree, name).Effective()
				if got := [2]int{e.MaxRunningOperationCount, e.MaxOperationCount}; got != test.want[i] {
					t.Errorf("%s runs %d and takes %d operations, want %v", name, got[0], got[1], test.want[i])
				}
			}
		})
	}
}

// Unlike guarantees, count limits of children may sum to more than the parent's.
func TestCountLimitsMayBeOversubscribed(t *testing.T) {
	tree, problems, warnings := parse(t, `
max_operation_count: 10
max_running_operation_count: 5
pools:
  a:
    {max_operation_count: 10, max_running_operation_count: 5, pools: {b: {max_operation_count: 100, max_running_operation_count: 50}, c: {max_operation_count: 100, max_running_operation_count: 50}}}
  d: {max_operation_count: 1000, max_running_operation_count: 1000}
`)
	if tree == nil || len(warnings) > 0 {
		t.Fatalf("oversubscribed limits are refused or warned of: %v %v", problems, warnings)
	}
	if e := pool(t, tree, "b").Effective(); e.MaxOperationCount != 100 || e.MaxRunningOperationCount != 50 {
		t.Errorf("the limits of a child were changed: %+v", e)
	}
}

func TestForbidImmediateOperationsInRootForbids(t *testing.T) {
	for text, forbids := range map[string]bool{
		"{}": true, "{forbid_immediate_operations_in_root: true}": true, "{forbid_immediate_operations_in_root: false}": false,
	} {
		if got := mustParse(t, text).Root().Effective().ForbidImmediateOperations; got != forbids {
			t.Errorf("%s: operations in the root are forbidden: %v, want %v", text, got, forbids)
		}
	}
}
