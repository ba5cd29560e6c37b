package treefile

import (
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/value/resource"
)

// mustRead reads a readable file that must be valid.
func mustRead(t *testing.T, text string) *File {
	t.Helper()
	file, _, err := Read("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// mustSlot finds an element that must exist.
func (f *File) mustSlot(t *testing.T, name string) int32 {
	t.Helper()
	slot, ok := f.Slot(name)
	if !ok {
		t.Fatalf("there is no %s among %v", name, f.Names)
	}
	return slot
}

const everyOption = `
name: all
cluster: {total: {user_slots: 1000, cpu: 1000, gpu: 10, memory: 4TiB, network: 100}}
tree:
  main_resource: memory
  integral_guarantees: {smooth_period: 30s, pool_capacity_saturation_period: 1h, relaxed_share_multiplier_limit: 2}
  should_distribute_free_volume_among_children: true
  infer_weight_from_guarantees_share_multiplier: 10
  enable_step_function_for_gang_operations: true
  enable_improved_fair_share_by_fit_factor_computation: true
  enable_improved_fair_share_by_fit_factor_computation_distribution_gap: true
  enable_fair_share_truncation_in_fifo_pool: true
pools:
  strong:
    weight: 2.5
    max_share_ratio: 0.5
    min_share_resources: {memory: 1TiB, gpu: 0}
    resource-limits: {cpu: 500, gpu: unlimited}
    compute_promised_guarantee_fair_share: true
    enable_priority_strong_guarantee_adjustment_donorship: true
    historic_usage_aggregation_period: 1h
    pools:
      fifo:
        mode: fifo
        fifo_sort_parameters: [pending_job_count, start_time, weight]
        enable_step_function_for_gang_operations: false
        enable_fair_share_truncation_in_fifo_pool: false
        enable_priority_strong_guarantee_adjustment: true
        max_share_ratio: 0
  burst:
    integral-guarantees:
      guarantee_type: burst
      resource_flow: {cpu: 100}
      burst_guarantee_resources: {cpu: 200}
      can_accept_free_volume: false
  relaxed:
    integral_guarantees:
      guarantee_type: relaxed
      resource_flow: {cpu: 100}
      relaxed_share_multiplier_limit: 5
      should_distribute_free_volume_among_children: false
operations:
  - name: direct
    pool: fifo
    weight: 3
    max_share_ratio: 0.25
    demand: {cpu: 40.5, memory: 64GiB, user_slots: 30}
    usage: {cpu: 10, memory: 1GiB, user_slots: 10}
    resource_limits: {cpu: 20}
    gang: true
    start_time: 1970-01-01T00:00:02.5Z
  - name: counted
    pool: burst
    job_count: 100
    running_job_count: 40
    job_resources: {cpu: 0.5, memory: 4GiB}
    start_time: 7
    pending_job_count: 5
  - name: limited
    pool: relaxed
    demand: {cpu: 50, user_slots: 50}
    usage: {user_slots: 30}
    resource_limits: {user_slots: 20, cpu: 10}
    apply_specified_resource_limits_to_demand: true
    max_share_ratio: 0
state:
  burst: {accumulated_resource_ratio_volume: 60, last_share_ratio: 0.125}
  relaxed: {accumulated_resource_volume: {cpu: 2000, gpu: 30}}
elapsed: 1500ms
`

func TestEveryOptionReachesTheEngine(t *testing.T) {
	file := mustRead(t, everyOption)
	wantOptions := fairshare.Options{
		MainResource: resource.Memory, SmoothPeriod: 30 * time.Second, CapacitySaturationPeriod: time.Hour, RelaxedShareMultiplierLimit: 2,
		DistributeFreeVolume: true, InferWeightMultiplier: 10, GangSteps: true, Improved: true, ImprovedDistributionGap: true, TruncateFIFO: true,
	}
	if file.Tree.Options != wantOptions {
		t.Errorf("options:\n%+v\nwant:\n%+v", file.Tree.Options, wantOptions)
	}
	if total := (resource.Amounts{1000, 100000, 10, 4 << 40, 100}); file.Tree.Total != total || file.Elapsed != 1500*time.Millisecond || file.ID != "all" {
		t.Errorf("total %v, elapsed %v, id %q", file.Tree.Total, file.Elapsed, file.ID)
	}
	nothing := resource.PartialOf(resource.Amounts{})
	compareElements(t, file.Tree.Elements, []fairshare.Element{
		{Kind: fairshare.KindPool, Pool: &fairshare.Pool{Integral: fairshare.Integral{DistributeFreeVolume: fairshare.Off}}},
		{
			Kind: fairshare.KindPool, Weight: 2.5, MaxShareRatio: 0.5,
			Limits: resource.Partial{}.With(resource.CPU, 50000).With(resource.GPU, resource.Unlimited),
			Pool: &fairshare.Pool{
				Strong:   resource.Partial{}.With(resource.Memory, 1<<40).With(resource.GPU, 0),
				Promised: true, PriorityDonor: true, HistoricUsagePeriod: time.Hour,
			},
		},
		{
			Kind: fairshare.KindPool, Parent: 1, Limits: nothing,
			Pool: &fairshare.Pool{
				Mode: fairshare.FIFO, FIFOKeys: []fairshare.FIFOKey{fairshare.ByPending, fairshare.ByStartTime, fairshare.ByWeight},
				GangStepsOff: true, TruncateFIFO: fairshare.Off, PriorityAdjustment: true,
			},
		},
		{Kind: fairshare.KindPool, Pool: &fairshare.Pool{Integral: fairshare.Integral{
			Type: fairshare.Burst, Flow: resource.Amounts{0, 10000}, Burst: resource.Amounts{0, 20000}, RefuseFreeVolume: true,
		}}},
		{Kind: fairshare.KindPool, Pool: &fairshare.Pool{Integral: fairshare.Integral{
			Type: fairshare.Relaxed, Flow: resource.Amounts{0, 10000}, RelaxedMultiplier: 5, DistributeFreeVolume: fairshare.Off,
		}}},
		{
			Kind: fairshare.KindOperation, Parent: 2, Weight: 3, MaxShareRatio: 0.25, Limits: resource.Partial{}.With(resource.CPU, 2000),
			Demand: resource.Amounts{30, 4050, 0, 64 << 30, 0}, Usage: resource.Amounts{10, 1000, 0, 1 << 30, 0},
			Gang: true, StartTime: 2_500_000, Pending: 20,
		},
		{
			Kind: fairshare.KindOperation, Parent: 3, Weight: 1,
			Demand: resource.Amounts{100, 5000, 0, 400 << 30, 0}, Usage: resource.Amounts{40, 2000, 0, 160 << 30, 0},
			StartTime: 7_000_000, Pending: 5,
		},
		{
			Kind: fairshare.KindOperation, Parent: 4, Weight: 1, Limits: nothing,
			Demand: resource.Amounts{30, 1000, 0, 0, 0}, Usage: resource.Amounts{30, 0, 0, 0, 0}, Pending: 20,
		},
	})
	burst := fairshare.State{Volume: resource.Volume{60e3, 60e3, 600, 60 * (4 << 40), 6000}, LastShareRatio: 0.125}
	// Its volume is 2 seconds of the cluster's cpu and 3 of its gpu; the other
	// resources follow the smaller one.
	relaxed := fairshare.State{Volume: resource.Volume{2000, 2000, 30, 2 * (4 << 40), 200}}
	if file.Tree.States[3] != burst || file.Tree.States[4] != relaxed {
		t.Errorf("states %+v and %+v, want %+v and %+v", file.Tree.States[3], file.Tree.States[4], burst, relaxed)
	}
}

func TestFormatsAreToldApart(t *testing.T) {
	for _, test := range []struct {
		name, file, text string
		elements         int
	}{
		{"YAML", "x.yaml", "cluster: {total: {cpu: 1}}\npools: {a: {}}", 2},
		{"YAML without a name", "", "cluster: {total: {cpu: 1}}\npools: {a: {}}", 2},
		{"readable JSON", "x.json", `{"cluster": {"total": {"cpu": 1}}, "pools": {"a": {}}}`, 2},
		{"readable JSON without a name", "stdin", `{"cluster": {"total": {"cpu": 1}}, "pools": {"a": {}}}`, 2},
		{"readable JSON with tabs", "stdin", "{\n\t\"cluster\": {\"total\": {\"cpu\": 1}},\n\t\"pools\": {\"a\": {}}\n}", 2},
		{"a vector", "x.json", `{"id": "v", "total_resources": {"cpu": 1}, "elements": [{"type": "pool", "id": "a"}]}`, 2},
		{"a vector under another name", "x.yaml", `{"elements": [], "total_resources": {}}`, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			file, _, err := Read(test.file, []byte(test.text))
			if err != nil {
				t.Fatal(err)
			}
			if len(file.Tree.Elements) != test.elements {
				t.Errorf("%d elements, want %d", len(file.Tree.Elements), test.elements)
			}
		})
	}
}

const nodes = `
cluster:
  nodes:
    - {count: 8, resources: {cpu: 10, memory: 100GiB, user_slots: 10}, tags: [a]}
    - {count: 2, resources: {cpu: 50, memory: 500GiB, user_slots: 10}, tags: [a, big]}
    - {resources: {cpu: 1000}, tags: [other]}
tree: {nodes_filter: a}
pools:
  all: {}
  big: {scheduling_tag_filter: big, resource_limits: {cpu: 30}}
operations:
  - {name: filtered, pool: all, demand: {cpu: 1}, scheduling_tag_filter: "!big"}
  - {name: whole, pool: all, job_count: 4, job_resources: {cpu: 1, memory: 50GiB}}
  - {name: coarse, pool: all, job_count: 4, job_resources: {cpu: 1, memory: 60GiB}}
  - {name: huge, pool: all, job_count: 4, job_resources: {cpu: 1, memory: 2TiB}}
`

func TestNodesGiveTotalsLimitsAndBestShares(t *testing.T) {
	file := mustRead(t, nodes)
	if want := (resource.Amounts{100, 18000, 0, 1800 << 30, 0}); file.Tree.Total != want {
		t.Errorf("total %v, want %v", file.Tree.Total, want)
	}
	element := func(name string) *fairshare.Element { return &file.Tree.Elements[file.mustSlot(t, name)] }
	if got, want := element("big").Limits, resource.PartialOf(resource.Amounts{20, 3000, 0, 1000 << 30, 0}); got != want {
		t.Errorf("limits of a pool %v, want %v", got, want)
	}
	if got, want := element("filtered").Limits, resource.PartialOf(resource.Amounts{80, 8000, 0, 800 << 30, 0}); got != want {
		t.Errorf("limits of an operation %v, want %v", got, want)
	}
	if got := element("whole").BestShare; got != (resource.Shares{}) {
		t.Errorf("a job that fills nodes is bound to %v", got)
	}
	// One job of 60 GiB on each of 8 nodes, eight on each of 2.
	if got, want := element("coarse").BestShare[resource.Memory], (8*60+2*480)/1800.0; got != want {
		t.Errorf("best share of memory %v, want %v", got, want)
	}
	if got := element("huge").BestShare; got[resource.Memory] != 0 || got[resource.CPU] != 1 {
		t.Errorf("best share of a job that fits nowhere is %v", got)
	}
}

func TestOperationsBeyondCountLimitsWait(t *testing.T) {
	file := mustRead(t, `
cluster: {total: {cpu: 100}}
pools:
  top:
    max_running_operation_count: 3
    pools:
      one: {max_running_operation_count: 1, max_operation_count: 2}
      two: {}
operations:
  - {name: a, pool: one, demand: {cpu: 1}}
  - {name: b, pool: one, demand: {cpu: 1}}
  - {name: c, pool: one, demand: {cpu: 1}}
  - {name: d, pool: two, demand: {cpu: 1}}
  - {name: e, pool: two, demand: {cpu: 1}, active: 1h-}
  - {name: f, pool: two, demand: {cpu: 1}}
  - {name: g, pool: two, demand: {cpu: 1}}
`)
	waits := func() string {
		var list []string
		for _, o := range file.Operations() {
			text := file.Names[o.Slot] + ":"
			if o.Waits != "" {
				text += " " + o.Waits
			}
			if took := file.Tree.Elements[o.Slot].Kind == fairshare.KindOperation; took != (o.Waits == "") {
				t.Errorf("%s takes part: %v", text, took)
			}
			list = append(list, text)
		}
		return strings.Join(list, "\n")
	}
	const limited = "\nb: is pending: one runs at most 1 operation (max_running_operation_count)" +
		"\nc: is refused: one takes at most 2 operations (max_operation_count)\nd:"
	const pending = " is pending: top runs at most 3 operations (max_running_operation_count)"
	if got, want := waits(), "a:"+limited+"\ne: is not active now\nf:\ng:"+pending; got != want {
		t.Errorf("at first:\n%s\nwant:\n%s", got, want)
	}
	if !file.Settle(2 * time.Hour) {
		t.Error("nothing changed after two hours")
	}
	if got, want := waits(), "a:"+limited+"\ne:\nf:"+pending+"\ng:"+pending; got != want {
		t.Errorf("later:\n%s\nwant:\n%s", got, want)
	}
	if file.Settle(3 * time.Hour) {
		t.Error("something changed without a reason")
	}
}

func TestUsersGetEphemeralPools(t *testing.T) {
	file := mustRead(t, `
cluster: {total: {cpu: 100}}
pools:
  hub: {create_ephemeral_subpools: true, ephemeral_subpool_config: {mode: fifo, max_running_operation_count: 1, resource_limits: {cpu: 7}}}
  plain: {}
operations:
  - {name: a, pool: hub, user: anna, demand: {cpu: 10}}
  - {name: b, pool: hub, user: anna, demand: {cpu: 10}}
  - {name: c, pool: hub, user: boris, demand: {cpu: 10}}
  - {name: d, pool: hub, demand: {cpu: 10}}
  - {name: e, pool: plain, user: anna, demand: {cpu: 10}}
`)
	parents := map[string]string{"a": "hub$anna", "c": "hub$boris", "d": "hub", "e": "plain", "hub$anna": "hub"}
	for child, parent := range parents {
		slot := file.mustSlot(t, child)
		if got := file.Names[file.Tree.Elements[slot].Parent]; got != parent {
			t.Errorf("%s is in %s, want %s", child, got, parent)
		}
	}
	pool := file.Tree.Elements[file.mustSlot(t, "hub$anna")]
	if pool.Pool.Mode != fairshare.FIFO || pool.Limits != (resource.Partial{}.With(resource.CPU, 700)) {
		t.Errorf("the ephemeral pool is %+v with %+v", pool, pool.Pool)
	}
	if waits := file.Operations()[1].Waits; !strings.Contains(waits, "hub$anna runs at most 1 operation") {
		t.Errorf("the second operation waits: %q", waits)
	}
}

func TestWarningsSayWhatHasNoEffect(t *testing.T) {
	_, warnings, err := Read("w.yaml", []byte(`
cluster: {total: {cpu: 100}}
pools:
  a: {scheduling_tag_filter: x, weight: 0}
operations:
  - {name: o, pool: a, demand: {cpu: 1}, scheduling_tag_filter: y, tentative_pool_trees: [b]}
`))
	if err != nil {
		t.Fatal(err)
	}
	text := warnings.Error()
	for _, want := range []string{
		"pools/a/scheduling_tag_filter: has no effect here",
		"w.yaml:4:", "least weight",
		"operations/o: scheduling_tag_filter has no effect here",
		"tentative_pool_trees: not supported",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no warning %q in:\n%s", want, text)
		}
	}
}

func TestWrongFilesAreRefusedWithAllTheirProblems(t *testing.T) {
	// Files with bad input are tested through the command line, in package cli.
	// These cases need no file.
	for _, test := range []struct {
		name, text string
		want       []string
	}{
		{"an empty file", "", []string{"the file is empty"}},
		{"a list", "[1]", []string{"must be a map"}},
		{"no cluster", "pools: {}", []string{"cluster: the cluster needs a total or nodes"}},
		{"total and nodes", "cluster: {total: {cpu: 1}, nodes: []}", []string{"has both total and nodes"}},
		{"nodes without resources", "cluster: {nodes: [{count: 1}]}", []string{"cluster/nodes: group 1 needs resources"}},
		{"more than can be counted", "cluster: {nodes: [{count: 10000000, resources: {memory: 1EiB}}]}", []string{"more memory than can be counted"}},
		{"a window without an end", "cluster: {total: {cpu: 1}}\npools: {a: {}}\noperations: [{name: x, pool: a, demand: {}, active: 1h}]", []string{`operations/x/active: must be a time like "12h-24h"`}},
		{"everything at once", "cluster: {total: {cpu: -1}}\npools: {a: {wieght: 1}}\noperations: [{demand: {cpus: 1}}]\nelapsed: -5", []string{
			"cluster/total/cpu", `pools/a/wieght: unknown option; did you mean "weight"?`, `operations/0/demand/cpus: unknown resource; did you mean "cpu"?`,
			"operations/0: an operation in a list needs a name", "operations/0: needs a pool", "elapsed: must be a duration that is not negative",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, _, err := Read("bad.yaml", []byte(test.text))
			if err == nil {
				t.Fatal("was read")
			}
			checkProblems(t, err)
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got:\n%v\nwant in it: %s", err, want)
				}
			}
		})
	}
}
