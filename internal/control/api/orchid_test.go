package api

import (
	"fmt"
	"math"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/internal/value/yson"
	"github.com/weirhq/weir/test/expected"
)

const (
	newView = "//sys/scheduler/orchid/scheduler/pool_trees/default/"
	oldView = "//sys/scheduler/orchid/scheduler/scheduling_info_per_pool_tree/default/fair_share_info/"
)

// busy returns a cluster of 10 nodes with 4 cores each, and operations in a burst, a relaxed, a
// FIFO and a guaranteed pool.
func busy(t *testing.T) (c *cluster, operations map[string]string) {
	c = withPools(t, "root-pool", "root-pool/burst", "root-pool/relaxed", "fifo", "strong")
	c.set("//sys/pools/root-pool/@integral_guarantees", "{resource_flow={cpu=20};burst_guarantee_resources={cpu=20}}")
	c.set("//sys/pools/root-pool/burst/@integral-guarantees", "{guarantee_type=burst;resource_flow={cpu=10};burst_guarantee_resources={cpu=20}}")
	c.set("//sys/pools/root-pool/relaxed/@integral-guarantees", "{guarantee_type=relaxed;resource_flow={cpu=10}}")
	c.set("//sys/pools/fifo/@mode", "fifo")
	c.set("//sys/pools/strong/@min_share_resources", "{cpu=8}")
	c.set("//sys/pools/strong/@weight", "2.5")
	// Keep the scheduler from preempting jobs during a slow test.
	c.set("//sys/pool_trees/default/@config/fair_share_starvation_timeout", "120000")
	c.withNodes(10)
	operations = map[string]string{}
	shown := func(pool string, holds func(p *core.Pool) bool) bool {
		tree, there := c.View().Tree("default")
		if !there {
			return false
		}
		p, there := tree.Pool(pool)
		return there && holds(p)
	}
	// An operation that starts before the next update gets whatever is free.
	operations["strong"] = c.start(job("strong", "sleep", 15))
	c.eventually("the guaranteed pool has jobs", func() bool {
		return shown("strong", func(p *core.Pool) bool { return p.RunningJobs > 0 })
	})
	for _, pool := range []string{"burst", "relaxed", "fifo"} {
		operations[pool] = c.start(job(pool, "sleep", 15))
	}
	operations["second"] = c.start(job("fifo", "sleep", 15))
	c.eventually("an update has all operations, and all cores are used", func() bool {
		return shown(core.RootName, func(p *core.Pool) bool { return p.Operations == 5 && p.Usage[resource.CPU] == 40_00 })
	})
	return c, operations
}

func (c *cluster) tree(path string) yson.Node {
	c.t.Helper()
	n, err := yson.Parse([]byte(c.get(path)))
	if err != nil {
		c.t.Fatal(err)
	}
	return n
}

func real(n yson.Node, keys ...string) float64 {
	f, ok := dug(n, keys...).Double()
	if !ok {
		return math.NaN()
	}
	return f
}

// The attributes that the document about integral guarantees names, and their values on 40 cores.
func TestAttributesOfIntegralPoolsAreThereAsTheDocumentNamesThem(t *testing.T) {
	t.Parallel()
	c, _ := busy(t)
	for _, x := range []struct {
		pool, attribute string
		check           func(n yson.Node) bool
	}{
		{"burst", "accumulated_resource_ratio_volume", positive},
		{"burst", "accumulated_resource_volume/cpu", positive},
		{"burst", "integral_pool_capacity/cpu", about(10 * 86400)},
		{"burst", "integral_pool_capacity_ratio", about(0.25 * 86400)},
		{"burst", "specified_burst_ratio", about(0.5)},
		{"burst", "specified_resource_flow_ratio", about(0.25)},
		{"burst", "total_burst_ratio", about(0.5)},
		{"burst", "total_resource_flow_ratio", about(0.25)},
		{"burst", "estimated_burst_usage_duration_seconds", positive},
		{"burst", "specified_burst_guarantee_resources/cpu", about(20)},
		{"burst", "specified_resource_flow/cpu", about(10)},
		{"relaxed", "accumulated_resource_ratio_volume", positive},
		{"relaxed", "accumulated_resource_volume/cpu", positive},
		{"relaxed", "integral_pool_capacity/cpu", about(10 * 86400)},
		{"relaxed", "specified_burst_ratio", about(0)},
		{"relaxed", "specified_resource_flow_ratio", about(0.25)},
		{"root-pool", "total_burst_ratio", about(0.5)},
		{"root-pool", "total_resource_flow_ratio", about(0.5)},
		{"<Root>", "total_resource_flow_ratio", about(0.5)},
	} {
		for _, view := range []string{newView, oldView} {
			n := c.tree(view + "pools/" + x.pool + "/" + x.attribute)
			if !x.check(n) {
				t.Errorf("%s of %s: %s", x.attribute, x.pool, n)
			}
		}
	}
	for pool, missing := range map[string][]string{
		"relaxed": {"estimated_burst_usage_duration_seconds"},
		"strong":  {"accumulated_resource_volume", "integral_pool_capacity", "specified_burst_ratio", "fifo_sort_parameters"},
	} {
		for _, name := range missing {
			if got := c.must("exists", fmt.Sprintf("{path=%q;return_only_value=%%true}", newView+"pools/"+pool+"/"+name), ""); got != "%false" {
				t.Errorf("%s has %s", pool, name)
			}
		}
	}
	if got := c.get(newView + "pools/burst/integral_guarantee_type"); got != `"burst"` {
		t.Error(got)
	}
}

func positive(n yson.Node) bool { f, ok := n.Double(); return ok && f > 0 }

func about(want float64) func(yson.Node) bool {
	return func(n yson.Node) bool {
		f, ok := n.Double()
		return ok && math.Abs(f-want) <= 1e-6*math.Max(1, math.Abs(want))
	}
}

// commonNames are the names in the reference that pools and operations share, under their new and
// old names. poolNames and operationNames are those that only one of them has.
var (
	commonNames = strings.Fields(`scheduling_status starvation_status fair_share_starvation_tolerance fair_share_starvation_timeout
		effective_fair_share_starvation_tolerance effective_fair_share_starvation_timeout effective_aggressive_starvation_enabled
		effective_non_preemptible_resource_usage_threshold lowest_starving_ancestor lowest_aggressively_starving_ancestor
		dominant_resource resource_usage usage_share usage_ratio dominant_usage_share resource_demand demand_share demand_ratio
		dominant_demand_share limited_resource_demand limited_demand_share resource_limits limits_share specified_resource_limits
		strong_guarantee_share min_share strong_guarantee_resources min_share_resources effective_strong_guarantee_resources
		inferred_strong_guarantee_resources min_share_ratio fair_share_ratio detailed_fair_share detailed_dominant_fair_share
		fair_resources estimated_guarantee_share dominant_estimated_guarantee_share estimated_guarantee_resources
		proposed_integral_share best_allocation_share satisfaction_ratio local_satisfaction_ratio schedulable weight
		guaranteed_ratio starving effective_waiting_for_resources_on_node_timeout aggressive_preemption_allowed
		effective_aggressive_preemption_allowed scheduling_tag_filter_resource_limits detailed_promised_guarantee_fair_share
		dominant_limited_demand_share effective_min_share_resources`)
	poolNames = strings.Fields(`parent mode is_ephemeral running_operation_count lightweight_running_operation_count operation_count
		pool_operation_count schedulable_operation_count max_running_operation_count max_operation_count forbid_immediate_operations
		child_pool_count full_path abc aggressive_starvation_enabled total_resource_flow_ratio total_burst_ratio integral_guarantee_type`)
	operationNames = strings.Fields(`pool slot_index start_time user type title tentative probing offloading is_gang lightweight starving_since
		preemptible_job_count aggressively_preemptible_job_count deactivation_reasons min_needed_resources_unsatisfied_count
		unschedulable_reason allocation_preemption_timeout allocation_graceful_preemption_timeout grouped_needed_resources
		detailed_min_needed_job_resources aggregated_min_needed_job_resources disk_request_media disk_quota_usage scheduling_priority enabled`)
)

func TestEveryFieldOfTheReferenceIsThereInBothViews(t *testing.T) {
	t.Parallel()
	c, operations := busy(t)
	for _, view := range []string{newView, oldView} {
		pools := c.tree(view + "pools")
		for _, entry := range pools.Entries() {
			names := append(poolNames, commonNames...)
			if entry.Key == "<Root>" {
				names = append(poolNames[1:], commonNames...)
			}
			for _, name := range names {
				if _, there := entry.Value.Get(name); !there {
					t.Errorf("pool %s has no %s", entry.Key, name)
				}
			}
		}
		for pool, id := range operations {
			o := c.tree(view + "operations/" + id)
			for _, name := range append(operationNames, commonNames...) {
				if _, there := o.Get(name); !there {
					t.Errorf("an operation has no %s", name)
				}
			}
			if _, there := o.Get("fifo_index"); there != (pool == "fifo" || pool == "second") {
				t.Errorf("fifo_index of an operation in %s: %t", pool, there)
			}
		}
	}
}

// The limited demand of an element is its share at suggestion 1: what it would get if it were alone. A
// limit on one resource bounds the others with it, by the children's mix.
func TestLimitedDemandIsTheShareAtSuggestionOne(t *testing.T) {
	t.Parallel()
	c := withPools(t, "a", "a/inner", "b", "free")
	c.set("//sys/pools/a/@resource_limits", "{cpu=10}")
	c.set("//sys/pool_trees/default/@config/fair_share_starvation_timeout", "120000") // preempt nothing
	c.withNodes(10)                                                                   // 40 cores
	vector := func(n yson.Node, attribute string) [2]float64 {
		memory, _ := dug(n, attribute, "memory").Int64()
		return [2]float64{real(n, attribute, "cpu"), float64(memory)}
	}
	near := func(a, b [2]float64) bool {
		return math.Abs(a[0]-b[0]) < 0.02 && math.Abs(a[1]-b[1]) < 1e-6*b[1]+16
	}
	// of waits until an element is in the state that is asked for, and returns it: what it has is of one update.
	of := func(path string, is func(n yson.Node) bool) (n yson.Node) {
		t.Helper()
		c.eventually(path+" is as expected", func() bool {
			if c.must("exists", fmt.Sprintf("{path=%q;return_only_value=%%true}", newView+path), "") != "%true" {
				return false
			}
			n = c.tree(newView + path)
			return is(n)
		})
		return n
	}
	c.start(job("inner", "sleep", 20))
	c.start(`{pool=inner;tasks={work={job_count=20;command=sleep;cpu_limit=1.0;memory_limit=2147483648}}}`)
	a := of("pools/a", func(n yson.Node) bool {
		return vector(n, "resource_demand")[0] == 40 && vector(n, "resource_usage")[0] == 10 && near(vector(n, "fair_resources"), vector(n, "limited_resource_demand"))
	})
	alone := vector(a, "limited_resource_demand")
	if demand := vector(a, "resource_demand"); alone[0] != 10 || alone[1] >= demand[1]/2 {
		t.Errorf("it would get %v of %v: the limit on cores does not bound memory", alone, demand)
	}
	// Others take cores away from it, but not what it would get alone.
	c.start(job("b", "sleep", 4000))
	b := of("pools/b", func(n yson.Node) bool { return vector(n, "fair_resources")[0] > 20 })
	if got := vector(b, "limited_resource_demand"); math.Abs(got[0]-40) > 0.02 {
		t.Errorf("a pool that demands more than the cluster would get %v", got)
	}
	if got := vector(c.tree(newView+"pools/a"), "limited_resource_demand"); !near(got, alone) {
		t.Errorf("the limited demand is %v beside others, %v alone", got, alone)
	}
	// Without limits in the way it is the demand, and a limit of an operation bounds all of its resources.
	c.start(job("free", "sleep", 5))
	free := of("pools/free", func(n yson.Node) bool {
		return vector(n, "resource_demand")[0] == 5 && vector(n, "limited_resource_demand")[0] > 0
	})
	if got, want := vector(free, "limited_resource_demand"), vector(free, "resource_demand"); !near(got, want) {
		t.Errorf("the limited demand is %v, the demand %v", got, want)
	}
	limited := c.start(`{pool=b;resource_limits={cpu=5};tasks={work={job_count=10;command=sleep;cpu_limit=1.0;memory_limit=536870912}}}`)
	of("operations/"+limited, func(n yson.Node) bool {
		got, demand := vector(n, "limited_resource_demand"), vector(n, "resource_demand")
		return demand[0] == 10 && math.Abs(got[0]-5) < 0.02 && math.Abs(got[1]/demand[1]-0.5) < 0.01
	})
}

// The dynamic characteristics that the document about pools names.
func TestDynamicCharacteristicsOfOperationsAndPools(t *testing.T) {
	t.Parallel()
	c, operations := busy(t)
	c.eventually("shares are settled", func() bool {
		return math.Abs(real(c.tree(newView+"pools/<Root>"), "fair_share_ratio")-1) < 1e-6
	})
	strong := c.tree(newView + "pools/strong")
	for name, check := range map[string]func(float64) bool{
		"fair_share_ratio": func(f float64) bool { return f >= 0.2 && f <= 1 },
		"guaranteed_ratio": func(f float64) bool { return f >= 0.2 && f <= 1 },
		"min_share_ratio":  func(f float64) bool { return math.Abs(f-0.2) < 1e-6 },
		"usage_ratio":      func(f float64) bool { return f > 0 && f <= 1 },
		"demand_ratio":     func(f float64) bool { return f > 0.3 },
		"weight":           func(f float64) bool { return f == 2.5 },
	} {
		if f := real(strong, name); !check(f) {
			t.Errorf("%s: %v", name, f)
		}
	}
	if text(strong, "dominant_resource") != "cpu" || whole(strong, "operation_count") != 1 || text(strong, "full_path") != "/strong" || text(strong, "parent") != "<Root>" {
		t.Error(strong)
	}
	sum, all := 0.0, c.tree(newView+"operations")
	for _, id := range operations {
		sum += real(all, id, "detailed_fair_share", "total", "cpu")
	}
	if sum > 1+1e-6 {
		t.Errorf("fair shares of operations are %v together", sum)
	}
	detailed := dug(strong, "detailed_fair_share")
	total := real(detailed, "strong_guarantee", "cpu") + real(detailed, "integral_guarantee", "cpu") + real(detailed, "weight_proportional", "cpu")
	if math.Abs(total-real(detailed, "total", "cpu")) > 1e-9 || math.Abs(real(strong, "detailed_dominant_fair_share", "strong_guarantee")-0.2) > 1e-6 {
		t.Error(detailed)
	}
	fifo := c.tree(newView + "pools/fifo")
	if text(fifo, "mode") != "fifo" || dug(fifo, "fifo_sort_parameters").String() != `["weight";"start_time";]` || whole(fifo, "pool_operation_count") != 2 {
		t.Error(fifo)
	}
	burst := c.tree(newView + "pools/burst")
	if text(burst, "parent") != "root-pool" || text(burst, "full_path") != "/root-pool/burst" || real(burst, "detailed_dominant_fair_share", "integral_guarantee") <= 0 {
		t.Error(burst)
	}
}

func TestOtherPartsOfTheOrchid(t *testing.T) {
	t.Parallel()
	c, operations := busy(t)
	id := operations["burst"]
	if got := c.get(newView + "operations_by_pool/burst/" + id + "/pool"); got != `"burst"` {
		t.Error(got)
	}
	if got := c.get(newView + "operations_by_pool/root-pool"); got != "{}" {
		t.Error(got)
	}
	if got := c.must("list", fmt.Sprintf("{path=%q;return_only_value=%%true}", newView+"child_pools_by_pool/root-pool"), ""); got != `["burst";"relaxed";]` {
		t.Error(got)
	}
	// The map of all pools does not repeat every pool below its parent.
	all := c.node("get", fmt.Sprintf("{path=%q;return_only_value=%%true}", newView+"child_pools_by_pool"))
	if child, there := all.Get("root-pool"); !there || child.Kind() != yson.EntityKind || len(all.Entries()) != 6 {
		t.Errorf("child_pools_by_pool is %v", all)
	}
	if got := c.must("get", fmt.Sprintf("{path=%q;fields=[full_path];return_only_value=%%true}", newView+"child_pools_by_pool/root-pool"), ""); got !=
		`{"burst"={"full_path"="/root-pool/burst";};"relaxed"={"full_path"="/root-pool/relaxed";};}` {
		t.Error(got)
	}
	// A filter selects the fields that exist and ignores unknown ones.
	n := c.node("get", fmt.Sprintf("{path=%q;fields=[weight;mode;nonsense];return_only_value=%%true}", newView+"pools"))
	for _, pool := range n.Entries() {
		if len(pool.Value.Entries()) != 2 {
			t.Error(pool.Key, pool.Value)
		}
	}
	for path, want := range map[string]string{
		newView + "pool_count":                          "5",
		newView + "node_count":                          "10",
		newView + "resource_limits/cpu":                 "40.",
		newView + "config/main_resource":                `"cpu"`,
		newView + "config/max_ephemeral_pools_per_user": c.get(newView + "config/max_ephemeral_pool_per_user"),
		oldView + "pool_count":                          "5",
		newView + "resource_distribution_info/distributed_strong_guarantee_resources/cpu":                            "8.",
		newView + "resource_distribution_info/distributed_burst_guarantee_resources/cpu":                             "20.",
		newView + "resource_distribution_info/distributed_resources/cpu":                                             "28.",
		newView + "resource_distribution_info/undistributed_resources/cpu":                                           "12.",
		"//sys/scheduler/orchid/scheduler/default_pool_tree":                                                         `"default"`,
		"//sys/scheduler/orchid/scheduler/cluster/exec_node_count":                                                   "10",
		"//sys/scheduler/orchid/scheduler/cluster/resource_usage/cpu":                                                "40.",
		"//sys/scheduler/orchid/scheduler/nodes/node-00003/tree":                                                     `"default"`,
		"//sys/scheduler/orchid/scheduler/nodes/node-00003/scheduler_state":                                          `"online"`,
		"//sys/scheduler/orchid/scheduler/nodes/node-00003/resource_limits/user_slots":                               "8",
		"//sys/scheduler/orchid/scheduler/nodes/node-00003/resource_usage/cpu":                                       "4.",
		"//sys/scheduler/orchid/scheduler/service/connected":                                                         "%true",
		"//sys/scheduler/orchid/scheduler/operations/" + id + "/state":                                               `"running"`,
		"//sys/scheduler/orchid/scheduler/operations/" + id + "/progress/scheduling_info_per_pool_tree/default/pool": `"burst"`,
	} {
		if got := c.get(path); got != want {
			t.Errorf("%s is %s, not %s", path, got, want)
		}
	}
	agent := "//sys/controller_agents/instances/" + strings.Trim(c.must("list", `{path="//sys/controller_agents/instances";return_only_value=%true}`, ""), `[";]`) +
		"/orchid/controller_agent/operations/" + id + "/progress/jobs/running"
	c.eventually("the progress of the operation is shown", func() bool { return c.get(agent) != "0" })
	for path, want := range map[string]string{
		"//sys/cluster_nodes/node-00003/orchid/exec_node/job_resource_manager/resource_limits/cpu": "4.",
		"//sys/cluster_nodes/node-00003/orchid/exec_node/job_resource_manager/resource_usage/cpu":  "4.",
	} {
		if got := c.get(path); got != want {
			t.Errorf("%s is %s, not %s", path, got, want)
		}
	}
	const active = "//sys/cluster_nodes/node-00003/orchid/exec_node/job_controller/active_jobs"
	jobs := c.node("list", `{path="`+active+`";return_only_value=%true}`).Items()
	if len(jobs) != 4 {
		t.Fatal(jobs)
	}
	for _, job := range jobs {
		key, _ := job.Text()
		job := active + "/" + key
		if demand, held := c.get(job+"/initial_resource_demand/cpu"), c.get(job+"/base_resource_usage/cpu"); demand != "1." || held != "1." {
			t.Errorf("%s asked for %s and holds %s CPU", job, demand, held)
		}
		c.must("get_job", fmt.Sprintf("{job_id=%q;operation_id=%s}", key, c.get(job+"/operation_id")), "")
		if got := c.node("get", fmt.Sprintf("{path=%q;return_only_value=%%true}", job+"/statistics")); got.Kind() != yson.MapKind {
			t.Errorf("%s has statistics %v", job, got)
		}
		if used := c.get(job + "/brief_statistics/user_job_memory"); used == "" {
			t.Errorf("%s does not say what it uses", job)
		}
	}
	c.set("//sys/pool_trees/default/@config/fair_share_starvation_timeout", "1234")
	c.eventually("the configuration of the tree is in force", func() bool {
		return c.get(newView+"config/fair_share_starvation_timeout") == "1234"
	})
	c.must("create", `{type=scheduler_pool;attributes={name=late;pool_tree=default;parent_name="root-pool"}}`, "")
	c.eventually("a new pool is in both views", func() bool {
		return c.must("exists", fmt.Sprintf("{path=%q;return_only_value=%%true}", oldView+"pools/late/parent"), "") == "%true" &&
			c.must("exists", fmt.Sprintf("{path=%q;return_only_value=%%true}", newView+"operations_by_pool/late"), "") == "%true"
	})
	c.refused("get", fmt.Sprintf("{path=%q}", newView+"pools/nowhere"), "", wire.CodeResolve, "has no child with key", "nowhere")
	c.refused("get", fmt.Sprintf("{path=%q}", newView+"pools/burst/mood"), "", wire.CodeResolve, "has no child with key", "mood")
	c.refused("set", fmt.Sprintf("{path=%q}", newView+"pools/burst/weight"), "5", wire.CodeGeneric)
	// The whole view can be written as JSON: it contains no infinite number.
	a := c.send(http.MethodGet, "/api/v4/get?path=//sys/scheduler/orchid/scheduler&output_format=json", nil, nil)
	if a.status != http.StatusOK || len(a.body) < 10_000 {
		t.Errorf("%d %.300s", a.status, a.body)
	}
}

// orchidOfPools returns a cluster with this number of pools in a tree.
func orchidOfPools(t testing.TB, count int) *cluster {
	t.Helper()
	c := newCluster(t)
	settings := c.Settings()
	settings.UpdatePeriod = time.Second
	c.Configure(settings)
	var document strings.Builder
	document.WriteString("pools:\n")
	for i := range count / 50 {
		fmt.Fprintf(&document, "  top-%d:\n    strong_guarantee_resources: {cpu: 1}\n    pools:\n", i)
		for j := range 49 {
			fmt.Fprintf(&document, "      pool-%d-%d: {weight: %d, strong_guarantee_resources: {cpu: 0.02}}\n", i, j, 1+j%7)
		}
	}
	tree, _, err := pooltree.FromValue(expected.Document(t, document.String()), pooltree.Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = c.EditTrees(t.Context(), server.Caller{User: "root"}, func(trees *server.Trees) (*server.Trees, error) {
		next := trees.Put("default", tree)
		next.Default = "default"
		return next, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	addNodes(t, c, 100)
	await(t, "the pools are there", func() bool {
		view, there := c.View().Tree("default")
		return there && view.PoolCount() == count+1
	})
	return c
}

// must2 sends a command with parameters in the body.
func (c *cluster) must2(command string, parameters yson.Node) yson.Node {
	c.t.Helper()
	body, err := yson.Append(nil, parameters, yson.Text)
	if err != nil {
		c.t.Fatal(err)
	}
	a := c.send(http.MethodPost, "/api/v4/"+command, http.Header{"Content-Type": {"application/x-yt-yson-text"}, "Accept": {"application/x-yt-yson-binary"}}, body)
	n, err := yson.Parse([]byte(a.body))
	if a.status != http.StatusOK || err != nil {
		c.t.Fatalf("%s: %d %v %.1000s", command, a.status, err, a.body)
	}
	return n
}

// Reading a pool, or one of its fields, does not build all the others. The test counts bytes that are allocated, so it runs alone.
func TestOnePoolOfManyIsReadAlone(t *testing.T) {
	c := orchidOfPools(t, 500)
	read := func(path string) uint64 {
		const reads = 10
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range reads {
			a := c.send(http.MethodGet, "/api/v4/get", http.Header{
				"X-YT-Header-Format": {"<format=text>yson"}, "X-YT-Parameters": {fmt.Sprintf("{path=%q}", newView+path)}, "Accept": {"application/x-yt-yson-binary"}}, nil)
			if a.status != http.StatusOK {
				t.Fatalf("%.500s", a.body)
			}
		}
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / reads
	}
	all, one, field := read("pools"), read("pools/pool-7-7"), read("pools/pool-7-7/fair_share_ratio")
	t.Logf("all pools: %d bytes; one pool: %d; one field: %d", all, one, field)
	if one > all/3 || field > all/3 {
		t.Error("reading one pool reads all")
	}
}

// The value of the pools does not depend on how they are requested.
func TestTheWholeTreeIsTheSameInEveryDress(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.must("create", "{type=scheduler_pool_tree;attributes={name=default}}", "")
	c.must("set", `{path="//sys/pool_trees/@default_tree"}`, "default")
	for _, pool := range []string{"a", "b"} {
		c.must("create", "{type=scheduler_pool;attributes={pool_tree=default;weight=3.;name="+pool+"}}", "")
	}
	const path = `path="//sys/scheduler/orchid/scheduler/pool_trees/default/pools";fields=[weight;parent]`
	want := `{"<Root>"={"weight"=1.;};"a"={"parent"="<Root>";"weight"=3.;};"b"={"parent"="<Root>";"weight"=3.;};}`
	c.eventually("an update has the tree", func() bool { _, there := c.View().Tree("default"); return there })
	c.eventually("an update has both pools", func() bool { return c.must("get", `{`+path+`}`, "") == `{"value"=`+want+`;}` })
	if got := c.must("get", `{return_only_value=%true;`+path+`}`, ""); got != want {
		t.Error(got)
	}
	if got := c.must("execute_batch", `{requests=[{command=get;parameters={`+path+`}}]}`, ""); got != `{"results"=[{"output"={"value"=`+want+`;};};];}` {
		t.Error(got)
	}
	for _, header := range []http.Header{
		{"X-Yt-Output-Format": {"<format=pretty>yson"}}, {"X-Yt-Output-Format": {"yson"}}, {"Accept": {"application/json"}},
		{"X-Yt-Output-Format": {"<attributes_mode=always>json"}}, {"X-Yt-Output-Format": {"<format=pretty>json"}},
	} {
		header["X-Yt-Header-Format"], header["X-Yt-Parameters"] = []string{"<format=text>yson"}, []string{`{` + path + `}`}
		for _, version := range []string{"v3", "v4"} {
			a := c.send(http.MethodGet, "/api/"+version+"/get", header, nil)
			n, err := yson.Parse([]byte(a.body))
			if a.header.Get("Content-Type") == "application/json" {
				n, err = yson.ParseJSON([]byte(a.body), yson.JSONOptions{})
			}
			if version == "v4" {
				n, _ = n.Get("value")
			}
			if err != nil || n.String() != want {
				t.Errorf("%v of %s: %v %s", header, version, err, a.body)
			}
		}
	}
}
