package entitlement

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/nodefilter"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/test/expected"
)

// cluster returns the same total for every filter, and the same bound, best, for
// every demand.
type cluster struct {
	matching resource.Amounts
	known    bool
	best     resource.Shares
	asked    resource.Amounts
}

func (c *cluster) Matching(nodefilter.Filter) (resource.Amounts, bool) { return c.matching, c.known }

func (c *cluster) BestShare(demand resource.Amounts) resource.Shares {
	c.asked = demand
	return c.best
}

func parse(t *testing.T, text string) *pooltree.Tree {
	t.Helper()
	tree, _, err := pooltree.FromValue(expected.Document(t, text), pooltree.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func cpu(cores int64) resource.Partial { return resource.Partial{}.With(resource.CPU, cores*100) }

func configOf(t *testing.T, options string) *pooltree.PoolConfig {
	t.Helper()
	pool, ok := parse(t, "pools: {p: "+options+"}").Pool("p")
	if !ok {
		t.Fatal("there is no pool p")
	}
	config := pool.Config()
	return &config
}

func sameElement(t *testing.T, name string, got, want fairshare.Element) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b resource.Partial) bool { return a == b })); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func TestPoolsBecomeElements(t *testing.T) {
	nodes := &cluster{matching: resource.Amounts{resource.CPU: 30_00, resource.Memory: 8 << 30}, known: true}
	some := resource.PartialOf(resource.Amounts{resource.CPU: 30_00, resource.Memory: 8 << 30})
	fewer := resource.PartialOf(resource.Amounts{resource.CPU: 20_00, resource.Memory: 8 << 30})
	for _, c := range []struct {
		name, options string
		want          fairshare.Element
	}{
		{"nothing set", "{}", fairshare.Element{Pool: &fairshare.Pool{}}},
		{
			"weight, limits, guarantee", "{weight: 2.5, resource_limits: {cpu: 20}, min_share_resources: {cpu: 10}}",
			fairshare.Element{Weight: 2.5, Limits: cpu(20), Pool: &fairshare.Pool{Strong: cpu(10)}},
		},
		{"max_share_ratio", "{max_share_ratio: 0.25}", fairshare.Element{MaxShareRatio: 0.25, Pool: &fairshare.Pool{}}},
		{
			"a ratio of zero forbids everything", "{max_share_ratio: 0}",
			fairshare.Element{Limits: resource.PartialOf(resource.Amounts{}), Pool: &fairshare.Pool{}},
		},
		{"a filter limits to its nodes", "{scheduling_tag_filter: ssd}", fairshare.Element{Limits: some, Pool: &fairshare.Pool{}}},
		{
			"the smaller of filter and limits", "{scheduling_tag_filter: ssd, resource_limits: {cpu: 20, memory: 1TiB}}",
			fairshare.Element{Limits: fewer, Pool: &fairshare.Pool{}},
		},
		{
			"FIFO with its keys", "{mode: fifo, fifo_sort_parameters: [pending_job_count, start_time, weight]}",
			fairshare.Element{Pool: &fairshare.Pool{
				Mode: fairshare.FIFO, FIFOKeys: []fairshare.FIFOKey{fairshare.ByPending, fairshare.ByStartTime, fairshare.ByWeight},
			}},
		},
		{
			"guarantees over time", "{integral_guarantees: {guarantee_type: burst, resource_flow: {cpu: 5}, burst_guarantee_resources: {cpu: 9}, can_accept_free_volume: false, should_distribute_free_volume_among_children: true}}",
			fairshare.Element{Pool: &fairshare.Pool{Integral: fairshare.Integral{
				Type: fairshare.Burst, Flow: resource.Amounts{resource.CPU: 5_00}, Burst: resource.Amounts{resource.CPU: 9_00},
				RefuseFreeVolume: true, DistributeFreeVolume: fairshare.On,
			}}},
		},
		{
			"relaxed", "{integral_guarantees: {guarantee_type: relaxed, resource_flow: {cpu: 5}, relaxed_share_multiplier_limit: 2}}",
			fairshare.Element{Pool: &fairshare.Pool{Integral: fairshare.Integral{
				Type: fairshare.Relaxed, Flow: resource.Amounts{resource.CPU: 5_00}, RelaxedMultiplier: 2,
			}}},
		},
		{
			"switches", "{enable_step_function_for_gang_operations: false, enable_fair_share_truncation_in_fifo_pool: false, compute_promised_guarantee_fair_share: true, historic_usage_aggregation_period: 10m}",
			fairshare.Element{Pool: &fairshare.Pool{
				GangStepsOff: true, TruncateFIFO: fairshare.Off, Promised: true, HistoricUsagePeriod: 10 * time.Minute,
			}},
		},
	} {
		c.want.Kind = fairshare.KindPool
		sameElement(t, c.name, Pool(configOf(t, c.options), nodes), c.want)
	}
	nodes.known = false
	unknown := Pool(configOf(t, "{scheduling_tag_filter: ssd, resource_limits: {cpu: 20}}"), nodes)
	if unknown.Limits != cpu(20) {
		t.Errorf("where nodes are not known a filter is no limit: %v", unknown.Limits)
	}
}

func TestOperationsBecomeElements(t *testing.T) {
	nodes := &cluster{best: resource.Uniform(0.5)}
	demand, usage := resource.Amounts{resource.CPU: 50_00}, resource.Amounts{resource.CPU: 12_00}
	got := Operation(&pooltree.OperationOptions{}, demand, usage, nodes)
	sameElement(t, "nothing set", got, fairshare.Element{
		Kind: fairshare.KindOperation, Weight: 1, Demand: demand, Usage: usage, BestShare: resource.Uniform(0.5),
	})
	options := &pooltree.OperationOptions{IsGang: document.Some(true), ApplyLimitsToDemand: document.Some(true)}
	options.Weight, options.MaxShareRatio = document.Some(3.0), document.Some(0.5)
	options.ResourceLimits = document.Some(cpu(20))
	limited := resource.Amounts{resource.CPU: 20_00}
	sameElement(t, "its limits bound its demand", Operation(options, demand, usage, nodes), fairshare.Element{
		Kind: fairshare.KindOperation, Weight: 3, Limits: cpu(20), MaxShareRatio: 0.5, Demand: limited, Usage: usage,
		BestShare: resource.Uniform(0.5), Gang: true,
	})
	if nodes.asked != limited {
		t.Errorf("the best share is that of %v", nodes.asked)
	}
	options.ResourceLimits = document.Some(cpu(5))
	if got := Operation(options, demand, usage, nodes); got.Demand != usage {
		t.Errorf("what it uses it also demands: %v", got.Demand)
	}
}

func TestTheRootKeepsWhatItsChildrenCannotStore(t *testing.T) {
	root := Root()
	if root.Kind != fairshare.KindPool || root.Pool.Integral.DistributeFreeVolume != fairshare.Off {
		t.Errorf("%+v", root.Pool)
	}
}

func TestOptionsOfATreeReachTheEngine(t *testing.T) {
	if diff := cmp.Diff(fairshare.DefaultOptions(), Options(parse(t, "pools: {}"))); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
	got := Options(parse(t, `
main_resource: gpu
integral_guarantees: {smooth_period: 2m, pool_capacity_saturation_period: 1h, relaxed_share_multiplier_limit: 5}
should_distribute_free_volume_among_children: true
infer_weight_from_guarantees_share_multiplier: 10
enable_step_function_for_gang_operations: true
enable_improved_fair_share_by_fit_factor_computation: true
enable_improved_fair_share_by_fit_factor_computation_distribution_gap: true
enable_fair_share_truncation_in_fifo_pool: true
pools: {}`))
	want := fairshare.Options{
		MainResource: resource.GPU, SmoothPeriod: 2 * time.Minute, CapacitySaturationPeriod: time.Hour, RelaxedShareMultiplierLimit: 5,
		DistributeFreeVolume: true, InferWeightMultiplier: 10, GangSteps: true, Improved: true, ImprovedDistributionGap: true, TruncateFIFO: true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
