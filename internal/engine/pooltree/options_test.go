package pooltree

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/notation"
)

// sampleOf returns a valid value of a shape.
func sampleOf(s document.Shape) document.Value {
	switch {
	case len(s.Values) > 0:
		return document.Text(s.Values[len(s.Values)-1])
	case s.Item != nil && s.Kind == "list":
		return document.List(sampleOf(*s.Item))
	case s.Item != nil:
		return document.Map(document.Pair("some_name", sampleOf(*s.Item)))
	}
	switch s.Kind {
	case "boolean":
		return document.Bool(true)
	case "integer":
		return document.Int(7)
	case "number":
		return document.Int(1)
	case "duration":
		return document.Text("45s")
	case "resources":
		return document.Map(document.Pair("cpu", document.Float(1.5)), document.Pair("memory", document.Text("2GiB")))
	case "map":
		return document.Map(document.Pair(s.Options[0].Name, sampleOf(s.Options[0].Shape)))
	}
	return document.Text("word")
}

// tableTest hides the type of a table's struct.
type tableTest struct {
	name    string
	options []*document.Info
	// read decodes a map into the struct and returns the struct encoded again, with
	// the problems.
	read func(v document.Value) (document.Value, document.Problems)
}

func testOf[T any](name string, table *document.Table[T]) tableTest {
	return tableTest{name, table.Options(), func(v document.Value) (document.Value, document.Problems) {
		r := document.NewReader("")
		var config T
		table.Read(r, v, &config)
		return table.Write(&config, document.ForPeople), r.Problems()
	}}
}

var allTables = []tableTest{
	testOf("tree", TreeOptions),
	testOf("tree/integral_guarantees", treeIntegralTable),
	testOf("tree/packing", packingTable),
	testOf("tree/batch_operation_scheduling", batchTable),
	testOf("preset", presetTable),
	testOf("pool", PoolOptions),
	testOf("pool/integral_guarantees", integralTable),
	testOf("pool/ephemeral_subpool_config", ephemeralTable),
	testOf("operation", OperationTable),
	testOf("operation/scheduling_options_per_pool_tree", schedulingOptionsTable),
}

func TestEveryNameOfAnOptionMeansTheSame(t *testing.T) {
	aliases := 0
	for _, table := range allTables {
		for _, o := range table.options {
			sample := sampleOf(o.Shape)
			want, problems := table.read(document.Map(document.Pair(o.Name, sample)))
			if len(problems) > 0 || len(want.Entries()) != 1 || want.Entries()[0].Key != o.Name {
				t.Errorf("%s: %s: %v is read as %v: %v", table.name, o.Name, sample, want, problems)
				continue
			}
			names := append([]string{o.Name}, o.Aliases...)
			aliases += len(o.Aliases)
			for _, name := range names {
				names = append(names, strings.ReplaceAll(name, "_", "-"))
			}
			for i, name := range names {
				got, problems := table.read(document.Map(document.Pair(name, sample)))
				if len(problems) > 0 || !got.Equal(want) {
					t.Errorf("%s: %s: %v is read as %v: %v", table.name, name, sample, got, problems)
				}
				for _, other := range names[:i] {
					if other == name {
						continue
					}
					_, problems := table.read(document.Map(document.Pair(name, sample), document.Pair(other, sample)))
					if len(problems) != 1 || problems[0].Rule != document.RuleTwoNames ||
						!strings.Contains(problems[0].Message, fmt.Sprintf("%q", name)) ||
						!strings.Contains(problems[0].Message, fmt.Sprintf("%q", other)) {
						t.Errorf("%s: %s and %s together: %v", table.name, name, other, problems)
					}
				}
			}
		}
	}
	if aliases < 40 {
		t.Errorf("only %d aliases were tried", aliases)
	}
}

func TestEveryOptionIsDocumentedAndRefusesAWrongType(t *testing.T) {
	for _, table := range allTables {
		for _, o := range table.options {
			if o.NotSupported == "" && (o.Doc == "" || !strings.HasSuffix(o.Doc, ".")) {
				t.Errorf("%s: %s has no sentence: %q", table.name, o.Name, o.Doc)
			}
			if o.Shape.Kind == "any" {
				continue
			}
			wrong := document.Text("@nonsense&")
			if o.Shape.Kind == "string" || o.Shape.Kind == "list" {
				wrong = document.Map()
			}
			_, problems := table.read(document.Map(document.Pair(o.Name, wrong)))
			if len(problems) == 0 || problems[0].Path != o.Name {
				t.Errorf("%s: %s: %v was accepted: %v", table.name, o.Name, wrong, problems)
			}
		}
	}
}

// The names in the user documents, their aliases, and the documented defaults.
func TestNamesAndDefaultsOfTheDocuments(t *testing.T) {
	type row struct{ name, alias, fallback string }
	check := func(table string, options []*document.Info, rows []row) {
		t.Helper()
		for _, want := range rows {
			i := slices.IndexFunc(options, func(o *document.Info) bool { return o.Name == want.name })
			if i < 0 {
				t.Errorf("%s has no option %s", table, want.name)
				continue
			}
			o := options[i]
			if want.alias != "" && !slices.Contains(o.Aliases, want.alias) {
				t.Errorf("%s: %s is not called %s", table, want.name, want.alias)
			}
			if want.fallback != "" && o.Default.String() != want.fallback {
				t.Errorf("%s: the default of %s is %v, want %s", table, want.name, o.Default, want.fallback)
			}
			if o.NotSupported != "" {
				t.Errorf("%s: %s is not supported", table, want.name)
			}
		}
	}
	check("tree", TreeOptions.Options(), []row{
		{"nodes_filter", "node_tag_filter", `""`},
		{"max_operation_count", "", "50000"},
		{"max_operation_count_per_pool", "", "50"},
		{"max_running_operation_count", "", "2000"},
		{"max_running_operation_count_per_pool", "", "8"},
		{"default_parent_pool", "", RootName},
		{"enable_pool_starvation", "", "true"},
		{"forbid_immediate_operations_in_root", "", "true"},
		{"max_ephemeral_pool_per_user", "max_ephemeral_pools_per_user", "1"},
		{"fair_share_preemption_timeout", "fair_share_starvation_timeout", "30s"},
		{"min_share_preemption_timeout", "", ""},
		{"fair_share_starvation_tolerance", "", "0.8"},
		{"max_unpreemptable_running_job_count", "max_unpreemptible_job_count", ""},
		{"aggressive_preemption_satisfaction_threshold", "", "0.2"},
		{"preemption_satisfaction_threshold", "", "1"},
		{"preemptive_scheduling_backoff", "", "5s"},
	})
	check("tree/integral_guarantees", treeIntegralTable.Options(), []row{
		{"pool_capacity_saturation_period", "", "1d"},
		{"relaxed_share_multiplier_limit", "", "3"},
		{"smooth_period", "", "1m"},
	})
	check("pool", PoolOptions.Options(), []row{
		{"weight", "", ""}, // 1, or inferred
		{"max_share_ratio", "", ""},
		{"min_share_resources", "strong_guarantee_resources", ""},
		{"resource_limits", "", ""},
		{"mode", "", "fair_share"},
		{"max_running_operation_count", "", ""}, // the tree's: 8
		{"max_operation_count", "", ""},         // the tree's: 50
		{"fifo_sort_parameters", "", "[weight, start_time]"},
		{"forbid_immediate_operations", "", "false"},
		{"create_ephemeral_subpools", "", "false"},
		{"ephemeral_subpool_config", "", ""},
		{"integral_guarantees", "", ""},
	})
	check("pool/integral_guarantees", integralTable.Options(), []row{
		{"guarantee_type", "", "none"}, {"resource_flow", "", ""}, {"burst_guarantee_resources", "", ""},
	})
	check("operation", OperationTable.Options(), []row{
		{"weight", "", ""}, {"max_share_ratio", "", ""}, {"resource_limits", "", ""}, {"pool", "", ""}, {"pool_trees", "", ""},
		{"scheduling_options_per_pool_tree", "fair_share_options_per_pool_tree", ""},
		{"fair_share_preemption_timeout", "fair_share_starvation_timeout", ""},
		{"min_share_preemption_timeout", "", ""}, {"fair_share_starvation_tolerance", "", ""},
	})
}

func TestOptionsThatAreNotSupportedAreKeptWithAWarning(t *testing.T) {
	tree, warnings, err := parseFile("t.yaml", []byte(`
scheduling_segments: {mode: large_gpu}
pools:
  a:
    enable-lightweight-operations: true
    offloading_settings: {other: {pool: b}}
    allow_regular_jobs_on_ssd_nodes: false
`), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, w := range warnings.With(document.RuleNotSupported) {
		paths = append(paths, w.Path)
	}
	want := []string{"scheduling_segments", "pools/a/enable-lightweight-operations", "pools/a/offloading_settings", "pools/a/allow_regular_jobs_on_ssd_nodes"}
	if !slices.Equal(paths, want) {
		t.Errorf("warnings are about %v, want %v", paths, want)
	}
	got := tree.Document(document.ForPeople).String()
	if want := "{scheduling_segments: {mode: large_gpu}, pools: {a: {enable_lightweight_operations: true, " +
		"allow_regular_allocations_on_ssd_nodes: false, offloading_settings: {other: {pool: b}}}}}"; got != want {
		t.Errorf("the tree is\n%s, want\n%s", got, want)
	}
}

func TestUnknownOptionsAreKeptInTheDialectOfYTsaurus(t *testing.T) {
	text := []byte("my_tag: 1\npools: {a: {owner: {name: x}, weight: 2}}")
	if _, _, err := parseFile("t.yaml", text, Options{}); err == nil {
		t.Error("unknown options were accepted")
	}
	tree, warnings, err := parseFile("t.yaml", text, Options{KeepUnknown: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(warnings.With(document.RuleUnknownKey)) != 2 {
		t.Errorf("warnings are %v", warnings)
	}
	checkRoundTrip(t, tree)
	a, _ := tree.Pool("a")
	if v, ok := a.Config().Extras.Get("owner"); !ok || v.String() != "{name: x}" {
		t.Errorf("owner is %v, %v", v, ok)
	}
}

func TestAWeightOfZeroIsTheLeastWeight(t *testing.T) {
	tree, warnings, err := parseFile("", []byte("pools: {a: {weight: 0}, b: {weight: 1.4901161193847656e-08}, c: {weight: 67108864}, d: {weight: 0.5}}"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(warnings) != 1 || warnings[0].Rule != document.RuleValueAdjusted || warnings[0].Path != "pools/a/weight" {
		t.Errorf("warnings are %v", warnings)
	}
	for name, want := range map[string]float64{"a": MinWeight, "b": MinWeight, "c": MaxWeight, "d": 0.5} {
		p, _ := tree.Pool(name)
		if got := p.Config().Weight; got != document.Some(want) {
			t.Errorf("weight of %s is %v, want %v", name, got, want)
		}
	}
	if _, _, err := parseFile("", []byte("pools: {a: {weight: 1e-9}}"), Options{}); err == nil {
		t.Error("a weight below the least was accepted")
	}
}

func TestFiltersOfPoolsHaveAtMost100Tokens(t *testing.T) {
	formula := func(tags int) string { return strings.Repeat("a | ", tags-1) + "a" }
	for tags, ok := range map[int]bool{50: true, 51: false} {
		v := document.Map(document.Pair("pools", document.Map(document.Pair("p", document.Map(
			document.Pair("scheduling_tag_filter", document.Text(formula(tags))))))))
		_, _, err := FromValue(v, Options{})
		if (err == nil) != ok {
			t.Errorf("%d tags: %v", tags, err)
		}
		if err != nil && err.(document.Problems)[0].Rule != RuleFilterTooLong {
			t.Errorf("%d tags: %v", tags, err)
		}
		tree := document.Map(document.Pair("nodes_filter", document.Text(formula(tags))))
		if _, _, err := FromValue(tree, Options{}); err != nil {
			t.Errorf("a tree's filter of %d tags: %v", tags, err)
		}
	}
}

func TestOptionsOfAnOperation(t *testing.T) {
	v, err := notation.ParseYAML("", []byte(`
pool: research
weight: 2
resource_limits: {user_slots: 200}
max_share_ratio: 0.5
fair_share_starvation_tolerance: 0.7
pool_trees: [physical, cloud]
scheduling_options_per_pool_tree:
  cloud: {pool: burst, resource_limits: {cpu: 10}, scheduling_tag: fast}
is_gang: true
preemption_mode: graceful
min_share_resources: {cpu: 1}
waiting_job_timeout: 1m
`))
	if err != nil {
		t.Fatal(err)
	}
	r := document.NewReader("")
	var o OperationOptions
	OperationTable.Read(r, v, &o)
	if err := r.Problems().Err(); err != nil {
		t.Fatal(err)
	}
	if w := r.Warnings(); len(w) != 1 || w[0].Path != "min_share_resources" {
		t.Errorf("warnings are %v", w)
	}
	physical, cloud := o.For("physical"), o.For("cloud")
	text := func(s SchedulingOptions) string { return schedulingOptionsTable.Write(&s, document.ForPeople).String() }
	if got, want := text(physical), "{pool: research, weight: 2, max_share_ratio: 0.5, resource_limits: {user_slots: 200}, fair_share_starvation_tolerance: 0.7}"; got != want {
		t.Errorf("in physical: %s, want %s", got, want)
	}
	if got, want := text(cloud), "{pool: burst, weight: 2, max_share_ratio: 0.5, resource_limits: {cpu: 10}, scheduling_tag_filter: fast, fair_share_starvation_tolerance: 0.7}"; got != want {
		t.Errorf("in cloud: %s, want %s", got, want)
	}
	if o.PreemptionMode.Value() != GracefulPreemption || !o.IsGang.Value() {
		t.Errorf("read %+v", o)
	}
}

func TestUsersMaySetTheirOptionsByAnyName(t *testing.T) {
	for option, want := range map[string]bool{
		"weight": true, "strong_guarantee_resources": true, "min-share-resources": true, "mode": true, "abc": true,
		"integral-guarantees": true, "fair_share_preemption_timeout": false, "config_presets": false, "nonsense": false,
	} {
		if UserMaySet(option) != want {
			t.Errorf("users may set %s: %v", option, !want)
		}
	}
	for name := range userOptions {
		if _, ok := PoolOptions.Resolve(name); !ok {
			t.Errorf("%s is no option", name)
		}
	}
}

// randomOf draws a value of a shape that the table accepts.
func randomOf(t *rapid.T, s document.Shape) document.Value {
	switch {
	case len(s.Values) > 0:
		return document.Text(rapid.SampledFrom(s.Values).Draw(t, "word"))
	case s.Item != nil && s.Kind == "list":
		return document.List(randomOf(t, *s.Item))
	case s.Item != nil:
		name := rapid.StringMatching(`[a-z]{1,5}`).Draw(t, "name")
		return document.Map(document.Pair(name, randomOf(t, *s.Item)))
	case len(s.Options) > 0:
		return randomOptions(t, s.Options)
	}
	switch s.Kind {
	case "boolean":
		return document.Bool(rapid.Bool().Draw(t, "bool"))
	case "integer":
		return document.Int(int64(rapid.IntRange(1, 1000).Draw(t, "int")))
	case "number":
		hi := 1.0
		if f, ok := s.Maximum.Float64(); ok {
			hi = f
		}
		lo := 0.01
		if f, ok := s.Minimum.Float64(); ok {
			lo = max(lo, f)
		}
		return document.Float(rapid.Float64Range(min(lo, hi), max(lo, hi)).Draw(t, "number"))
	case "duration":
		return document.Int(int64(rapid.IntRange(10_000, 600_000).Draw(t, "duration")))
	case "resources":
		var entries []document.Entry
		for _, k := range []string{"cpu", "memory", "user_slots", "gpu", "network"} {
			if rapid.Bool().Draw(t, k) {
				entries = append(entries, document.Pair(k, document.Int(rapid.Int64Range(0, 1<<40).Draw(t, "amount"))))
			}
		}
		return document.Map(entries...)
	case "any":
		return document.Map(document.Pair("x", document.List(document.Int(1), document.Text("y"))))
	}
	return document.Text(rapid.StringMatching(`[a-z]{1,8}`).Draw(t, "text"))
}

func randomOptions(t *rapid.T, options []*document.Info) document.Value {
	var entries []document.Entry
	for _, o := range options {
		if rapid.IntRange(0, 9).Draw(t, o.Name) == 0 {
			entries = append(entries, document.Pair(o.Name, randomOf(t, o.Shape)))
		}
	}
	return document.Map(entries...)
}
