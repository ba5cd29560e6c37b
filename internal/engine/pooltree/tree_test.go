package pooltree

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/notation"
	"github.com/weirhq/weir/internal/value/resource"
)

func pool(t testing.TB, tree *Tree, name string) *Pool {
	t.Helper()
	p, ok := tree.Pool(name)
	if !ok {
		t.Fatalf("no pool %s", name)
	}
	return p
}

func names(pools []*Pool) string {
	var names []string
	for _, p := range pools {
		names = append(names, p.Name())
	}
	return strings.Join(names, " ")
}

func TestPoolsComeDepthFirstInTheOrderOfTheDocument(t *testing.T) {
	tree := mustParse(t, `
pools:
  - {name: z1, parent: z}
  - {name: b}
  - {name: z, pools: {z2: {pools: {deep: }}}}
  - {name: a}
  - {name: b1, parent: b}
`)
	if got, want := names(slices.Collect(tree.Pools())), "b b1 z z1 z2 deep a"; got != want {
		t.Errorf("order is %s, want %s", got, want)
	}
	z := pool(t, tree, "z")
	if got := names(z.Children()); got != "z1 z2" {
		t.Errorf("children of z are %s", got)
	}
	deep := pool(t, tree, "deep")
	parent, _ := deep.Parent()
	if parent.Name() != "z2" || deep.Depth() != 3 || deep.Path() != "/z/z2/deep" || tree.Len() != 7 {
		t.Errorf("deep is in %v at depth %d, path %s of %d pools", parent, deep.Depth(), deep.Path(), tree.Len())
	}
	root := tree.Root()
	if _, ok := root.Parent(); ok || !root.IsRoot() || root.Name() != RootName || root.Index() != 0 || root.Path() != "/" ||
		names(root.Children()) != "b z a" || pool(t, tree, RootName) != root {
		t.Errorf("the root is %+v", root)
	}
	for i, p := range slices.Collect(tree.Pools()) {
		if p.Index() != i+1 {
			t.Errorf("%s has index %d, want %d", p, p.Index(), i+1)
		}
	}
	if _, ok := tree.Pool("nobody"); ok {
		t.Error("a pool was found that is not there")
	}
}

func TestEffectiveValuesOfATreeWithoutOptions(t *testing.T) {
	tree := mustParse(t, "pools: {a: {pools: {b: }}}")
	root, b := tree.Root().Effective(), pool(t, tree, "b").Effective()
	if root.MaxOperationCount != 50000 || root.MaxRunningOperationCount != 2000 || root.Mode != FairShare || !root.ForbidImmediateOperations {
		t.Errorf("the root has %+v", root)
	}
	if b.MaxOperationCount != 50 || b.MaxRunningOperationCount != 8 || b.Tolerance != 0.8 || b.FairShareTimeout != 30*time.Second ||
		b.MinShareTimeout != 30*time.Second || b.Aggressive || b.AggressiveTimeout != 2*time.Minute || !b.Threshold.IsTrivial() ||
		!b.AllowAggressivePreemption || !b.AllowNormalPreemption || b.WaitingForResourcesTimeout.IsSet() ||
		b.RelaxedMultiplier != 3 || b.DistributeFreeVolume || !b.CanAcceptFreeVolume || b.GangSteps || b.TruncateFIFO ||
		!b.AllowGangOperations || b.ForbidImmediateOperations || !slices.Equal(b.FIFOSortParameters, DefaultFIFOSort) {
		t.Errorf("a pool has %+v", b)
	}
	s := tree.Settings()
	if s.MainResource.Value() != resource.CPU || s.Integral.CapacitySaturationPeriod.Value() != 24*time.Hour || s.Packing.Enable.Value() ||
		tree.Config().MainResource.IsSet() {
		t.Errorf("settings are %+v", s)
	}
}

func TestEffectiveValuesAreInherited(t *testing.T) {
	tree := mustParse(t, `
fair_share_preemption_timeout: 40s
min_share_preemption_timeout: 10s
fair_share_starvation_tolerance: 0.9
enable_aggressive_starvation: true
max_unpreemptable_running_job_count: 3
non_preemptible_resource_usage_threshold: {cpu: 2}
waiting_for_resources_on_node_timeout: 7s
max_running_operation_count_per_pool: 4
enable_step_function_for_gang_operations: true
allow_gang_operations_only_in_fifo_pools: true
should_distribute_free_volume_among_children: true
pool_config_presets:
  calm: {fair_share_starvation_tolerance: 0.5, fair_share_preemption_timeout: 60s}
  calmer: {fair_share_starvation_tolerance: 0.4, allow_aggressive_preemption: false}
pools:
  a:
    fair_share_preemption_timeout: 50s
    min_share_preemption_timeout: 20s
    allow_aggressive_preemption: false
    max_unpreemptable_running_job_count: 5
    max_running_operation_count: 9
    pools:
      b:
        fair_share_preemption_timeout: 15s
        min_share_preemption_timeout: 12s
        allow_normal_preemption: false
        enable_aggressive_starvation: false
        non_preemptible_resource_usage_threshold: {memory: 1GiB}
        enable_step_function_for_gang_operations: false
        pools:
          c: {mode: fifo, allow_aggressive_preemption: true, fifo_sort_parameters: [pending_allocation_count]}
          d: {always_allow_gang_operations: true, non_preemptible_resource_usage_threshold: {user_slots: 1}}
  p: {config_presets: [calm, calmer], fair_share_preemption_timeout: 55s}
  q: {config_presets: [calmer, calm]}
`)
	a, b, c, d := pool(t, tree, "a").Effective(), pool(t, tree, "b").Effective(), pool(t, tree, "c").Effective(), pool(t, tree, "d").Effective()
	p, q := pool(t, tree, "p").Effective(), pool(t, tree, "q").Effective()
	for i, ok := range []bool{
		a.FairShareTimeout == 50*time.Second,
		a.MinShareTimeout == 20*time.Second,
		a.Tolerance == 0.9,
		a.Threshold.String() == "user_slots=4, cpu=2",
		a.MaxRunningOperationCount == 9,
		!a.AllowGangOperations && a.GangSteps && a.DistributeFreeVolume,
		b.FairShareTimeout == 15*time.Second,
		b.MinShareTimeout == 12*time.Second,
		b.Threshold.String() == "user_slots=4, memory=1GiB",
		!b.Aggressive && a.Aggressive,
		!b.GangSteps,
		b.MaxRunningOperationCount == 4,
		!b.AllowAggressivePreemption && c.AllowAggressivePreemption && !d.AllowAggressivePreemption,
		!b.AllowNormalPreemption && !c.AllowNormalPreemption && a.AllowNormalPreemption,
		c.Mode == FIFO && c.AllowGangOperations && d.AllowGangOperations && !b.AllowGangOperations,
		slices.Equal(c.FIFOSortParameters, []SortKey{ByPendingJobCount}),
		d.Threshold.String() == "user_slots=1",
		d.WaitingForResourcesTimeout == document.Some(7*time.Second),
		p.Tolerance == 0.5 && p.FairShareTimeout == 55*time.Second && !p.AllowAggressivePreemption,
		q.Tolerance == 0.4 && q.FairShareTimeout == 60*time.Second,
	} {
		if !ok {
			t.Errorf("expectation %d does not hold", i)
		}
	}
	if config := pool(t, tree, "q").Config(); config.Preemption.FairShareStarvationTolerance.IsSet() {
		t.Error("a preset was written into the pool's own configuration")
	}
}

func TestTheTimeoutsAndToleranceOfAnOperationOverrideThoseOfItsPool(t *testing.T) {
	tree := mustParse(t, `
fair_share_preemption_timeout: 30s
min_share_preemption_timeout: 10s
fair_share_starvation_tolerance: 0.8
pools: {p: {}}`)
	effective := pool(t, tree, "p").Effective()
	for _, c := range []struct {
		name             string
		timeout, shorter time.Duration
		tolerance        float64
	}{
		{"eager", time.Second, 500 * time.Millisecond, 1},
		{"patient", time.Minute, 20 * time.Second, 0.5},
	} {
		options := SchedulingOptions{
			FairShareStarvationTolerance: document.Some(c.tolerance),
			FairSharePreemptionTimeout:   document.Some(c.timeout),
			MinSharePreemptionTimeout:    document.Some(c.shorter),
		}
		got := effective.ForOperation(&options)
		if got.Tolerance != c.tolerance || got.FairShareTimeout != c.timeout || got.MinShareTimeout != c.shorter {
			t.Errorf("an %s operation has %+v", c.name, got)
		}
		if clamps := got.Clamped(&options); clamps != nil {
			t.Errorf("an %s operation is limited by %v", c.name, clamps)
		}
	}
	without := pool(t, mustParse(t, "pools: {p: {}}"), "p").Effective()
	if got := without.ForOperation(&SchedulingOptions{FairSharePreemptionTimeout: document.Some(time.Minute)}); got.MinShareTimeout != time.Minute {
		t.Errorf("a timeout that nobody set is %v, want that of the fair share", got.MinShareTimeout)
	}
}

func TestOnlyConfiguredLimitsBoundWhatOperationsAndSubpoolsSet(t *testing.T) {
	tree, _, warnings := parse(t, `
fair_share_preemption_timeout_limit: 10s
fair_share_starvation_tolerance_limit: 0.9
pools:
  a:
    fair_share_preemption_timeout: 15s
    fair_share_preemption_timeout_limit: 20s
    min_share_preemption_timeout_limit: 5s
    fair_share_starvation_tolerance_limit: 0.7
    pools: {b: {fair_share_preemption_timeout_limit: 1s, fair_share_preemption_timeout: 18s, fair_share_starvation_tolerance: 0.75}}`)
	if a := pool(t, tree, "a").Effective(); a.FairShareTimeout != 15*time.Second || a.Tolerance != 0.8 {
		t.Errorf("a pool is bound by its own limits, which are for what is below it: %v", a.Starvation)
	}
	b := pool(t, tree, "b").Effective()
	if b.FairShareTimeout != 20*time.Second || b.Tolerance != 0.7 {
		t.Errorf("subpool: %+v, want 20s and 0.7 from above", b.Starvation)
	}
	options := SchedulingOptions{
		FairSharePreemptionTimeout:   document.Some(2 * time.Second),
		MinSharePreemptionTimeout:    document.Some(time.Second),
		FairShareStarvationTolerance: document.Some(1.0),
	}
	got := b.ForOperation(&options)
	if got.FairShareTimeout != 20*time.Second || got.MinShareTimeout != 5*time.Second || got.Tolerance != 0.7 {
		t.Errorf("operation: %+v, want the strictest limits from above", got)
	}
	var texts []string
	for _, clamp := range got.Clamped(&options) {
		texts = append(texts, clamp.String())
	}
	want := []string{
		"fair_share_preemption_timeout is 2s in the specification, but fair_share_preemption_timeout_limit of the pool or of a pool above makes it 20s",
		"min_share_preemption_timeout is 1s in the specification, but min_share_preemption_timeout_limit of the pool or of a pool above makes it 5s",
		"fair_share_starvation_tolerance is 1 in the specification, but fair_share_starvation_tolerance_limit of the pool or of a pool above makes it 0.7",
	}
	if !slices.Equal(texts, want) {
		t.Errorf("the operation is told\n%s\nwant\n%s", strings.Join(texts, "\n"), strings.Join(want, "\n"))
	}
	if len(warnings) != 2 {
		t.Errorf("warnings %v, want one for each value of b that a limit replaces", warnings)
	}
}

func TestAnOperationCanOnlyBeLessProtectedThanItsPool(t *testing.T) {
	e := Effective{Starvation: Starvation{Threshold: resource.Partial{}.With(resource.UserSlots, 5).With(resource.CPU, 200)}}
	raised := e.ForOperation(&SchedulingOptions{NonPreemptibleThreshold: document.Some(resource.Partial{}.With(resource.CPU, 300))})
	if raised.Threshold != e.Threshold {
		t.Errorf("an operation raises its threshold to %v", raised.Threshold)
	}
	lowered := e.ForOperation(&SchedulingOptions{
		NonPreemptibleThreshold:         document.Some(resource.Partial{}.With(resource.CPU, 100).With(resource.Memory, 7)),
		MaxUnpreemptableRunningJobCount: document.Some(3),
	})
	if got := lowered.Threshold.String(); got != "user_slots=2, cpu=1, memory=7" {
		t.Errorf("an operation lowers its threshold to %v", got)
	}
}

func TestEphemeralPoolsTakeTheConfigurationOfTheirParent(t *testing.T) {
	tree := mustParse(t, "pools: {a: {weight: 5, create_ephemeral_subpools: true, ephemeral_subpool_config: {mode: fifo, max_operation_count: 3, max_running_operation_count: 2, resource_limits: {cpu: 1}}}}")
	c := pool(t, tree, "a").EphemeralPool()
	if got, want := PoolOptions.Write(&c, document.ForPeople).String(), "{resource_limits: {cpu: 1}, mode: fifo, max_running_operation_count: 2, max_operation_count: 3}"; got != want {
		t.Errorf("an ephemeral pool has %s, want %s", got, want)
	}
}

func TestNamesOfPools(t *testing.T) {
	for _, c := range []struct {
		name                string
		user, administrator bool
	}{
		{"etl-2.daily_x", true, true}, {"Etl", false, true}, {"a:b", false, true}, {"a$b", false, false}, {"", false, false},
		{RootName, false, false}, {strings.Repeat("x", 100), true, true}, {strings.Repeat("x", 101), false, false}, {"é", false, false},
	} {
		if user, administrator := CheckName(c.name, false) == nil, CheckName(c.name, true) == nil; user != c.user || administrator != c.administrator {
			t.Errorf("%q: users %v, administrators %v", c.name, user, administrator)
		}
	}
}

func TestKeysOfTheCallerArePassedOverAndFound(t *testing.T) {
	v, err := notation.ParseYAML("", []byte("cluster: {cpu: 10}\npools: {a: {operations: [x], weight: 2, pools: {b: {operations: [y]}}}}"))
	if err != nil {
		t.Fatal(err)
	}
	r := document.NewReader("")
	draft := Read(r, v, Keys{Tree: []string{"cluster"}, Pool: []string{"operations"}})
	if tree := draft.Build(r, Limits{}); tree == nil || len(r.Warnings()) > 0 {
		t.Fatal(r.Problems(), r.Warnings())
	}
	if got, _ := draft.Pools[1].Source().Get("operations"); got.String() != "[y]" {
		t.Errorf("operations of b are %v", got)
	}
	if _, _, err := FromValue(v, Options{Keys: Keys{Tree: []string{"cluster"}}}); err == nil {
		t.Error("unknown keys were accepted")
	}
}

func TestProblemsOfATreeInsideADocumentHaveItsPath(t *testing.T) {
	v, _ := notation.ParseYAML("", []byte("fair_share_preemption_timeout: 10m\npools: {a: {mode: fifo, weight: -1, pools: {b: }}, a$: }"))
	r := document.NewReader("")
	r.Enter("trees/physical")
	Read(r, v, Keys{}).Build(r, Limits{})
	for _, p := range r.Problems() {
		if !strings.HasPrefix(p.Path, "trees/physical/") {
			t.Errorf("%v", p)
		}
	}
	if len(r.Problems()) != 4 {
		t.Errorf("%v", r.Problems())
	}
}
