package api

import (
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/wire"
)

// The configuration of a tree is read as it was written.
func TestConfigComesBackUnderTheNamesItWasWrittenWith(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	c := startCluster(t, directory)
	c.must("create", "{type=scheduler_pool_tree;attributes={name=default;config={max_running_operation_count=5}}}", "")
	const config = "//sys/pool_trees/default/@config"
	written := `{"node_tag_filter"="a";"max_ephemeral_pools_per_user"=3;"inexistent"=%true;}`
	c.set(config, `{node_tag_filter=a;max_ephemeral_pools_per_user=3;inexistent=%true}`)
	if got := c.get(config); got != written {
		t.Errorf("@config is %s, want %s", got, written)
	}
	for path, want := range map[string]string{
		config + "/node_tag_filter": `"a"`, config + "/nodes_filter": `"a"`, "//sys/pool_trees/default/@nodes_filter": `"a"`,
		"//sys/pool_trees/default/@max_ephemeral_pool_per_user": "3",
	} {
		if got := c.get(path); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
	c.set(config+"/node_tag_filter", "b")
	c.set(config+"/max_operation_count", "7")
	if got, want := c.get(config), `{"node_tag_filter"="b";"max_operation_count"=7;"max_ephemeral_pools_per_user"=3;"inexistent"=%true;}`; got != want {
		t.Errorf("@config is %s, want %s", got, want)
	}

	// A second name of an option is refused while it is set.
	for _, path := range []string{config + "/nodes_filter", "//sys/pool_trees/default/@nodes_filter"} {
		c.refused("set", `{path="`+path+`"}`, "c", wire.CodeGeneric, `different alias: "node_tag_filter" and "nodes_filter"`)
	}
	c.refused("set", `{path="`+config+`"}`, "{node_tag_filter=a;nodes_filter=a}", wire.CodeGeneric, "two names of one option")
	c.must("remove", `{path="`+config+`/nodes_filter"}`, "")
	c.set(config+"/nodes_filter", "d")
	if got := c.get(config + "/nodes_filter"); got != `"d"` {
		t.Error(got)
	}
	c.set(config, "{node_tag_filter=e}")
	c.stop()
	c = startCluster(t, directory)
	if got := c.get(config); got != `{"node_tag_filter"="e";}` {
		t.Errorf("after a restart @config is %s", got)
	}
}

func TestSecondAliasOfAnAttributeOfAPoolIsRefused(t *testing.T) {
	t.Parallel()
	c := withPools(t, "p")
	c.set("//sys/pools/p/@fair_share_starvation_timeout", "5000")
	c.refused("set", `{path="//sys/pools/p/@fair_share_preemption_timeout"}`, "10000", wire.CodeGeneric,
		`Attempt to set the same attribute with different alias: "fair_share_starvation_timeout" and "fair_share_preemption_timeout"`)
	c.refused("set", `{path="//sys/pools/p/@fair-share_preemption_timeout"}`, "10000", wire.CodeGeneric, "different alias")
	c.set("//sys/pools/p/@fair_share_starvation_timeout", "6000")
	if got := c.must("list", `{path="//sys/pools/p/@";return_only_value=%true}`, ""); !strings.Contains(got, `"fair_share_starvation_timeout"`) ||
		strings.Contains(got, `"fair_share_preemption_timeout"`) {
		t.Errorf("the attributes are %s", got)
	}
	c.must("remove", `{path="//sys/pools/p/@fair_share_starvation_timeout"}`, "")
	c.set("//sys/pools/p/@fair-share_preemption_timeout", "10000")
	c.refused("set", `{path="//sys/pools/p/@fair_share_starvation_timeout"}`, "5000", wire.CodeGeneric, "different alias")

	// The two names of a guarantee are both in use.
	c.set("//sys/pools/p/@min_share_resources", "{cpu=1}")
	c.set("//sys/pools/p/@strong_guarantee_resources", "{cpu=2}")
	if got := c.get("//sys/pools/p/@min_share_resources"); got != `{"cpu"=2;}` {
		t.Error(got)
	}
}

func TestUnknownPresetIsStoredWithAnAlert(t *testing.T) {
	t.Parallel()
	c := withPools(t, "p")
	a := c.do("set", `{path="//sys/pools/p/@config_preset"}`, "calm")
	if a.status != 200 || !strings.Contains(a.header.Get("X-Weir-Warnings"), "no preset") {
		t.Errorf("setting it: %d %s, warnings %s", a.status, a.body, a.header.Get("X-Weir-Warnings"))
	}
	if got := c.get("//sys/pools/p/@config_preset"); !strings.Contains(got, "calm") {
		t.Errorf("the attribute is %s", got)
	}
	alerts := func() string { return c.get("//sys/scheduler/@alerts") }
	if got := alerts(); !strings.Contains(got, `\"calm\"`) || !strings.Contains(got, string(server.AlertPoolConfig)) {
		t.Errorf("the alerts are %s", got)
	}
	c.set("//sys/pools/p/@weight", "2") // nothing else is refused because of it
	c.set("//sys/pool_trees/default/@pool_config_presets", "{calm={fair_share_starvation_timeout=7000}}")
	if got := alerts(); strings.Contains(got, "calm") {
		t.Errorf("the preset is there, and the alerts are %s", got)
	}
}

func TestSizeOfSubtreesIsLimitedInTheConfiguration(t *testing.T) {
	t.Parallel()
	c := withPools(t)
	limit := func(most string) {
		c.set("//sys/@config/scheduler_pool_manager/max_scheduler_pool_subtree_size", most)
	}
	create := func(name, parent string) string {
		return `{type=scheduler_pool;attributes={pool_tree=default;name=` + name + `;parent_name="` + parent + `"}}`
	}
	limit("1")
	c.must("create", create("a", "<Root>"), "")
	c.must("create", create("b", "<Root>"), "")
	c.refused("create", create("ba", "b"), "", wire.CodeGeneric, "Subtree size limit exceeded", "the limit is 1")
	limit("2")
	c.must("create", create("ba", "b"), "")
	c.must("create", create("aa", "a"), "")
	c.refused("create", create("ab", "a"), "", wire.CodeGeneric, "the limit is 2")
	limit("3")
	c.refused("move", `{source_path="//sys/pools/b";destination_path="//sys/pools/a/ab"}`, "", wire.CodeGeneric, "the limit is 3")
	c.must("move", `{source_path="//sys/pools/b/ba";destination_path="//sys/pools/a/ab"}`, "")
	limit("1") // what is there stays and can be changed
	c.set("//sys/pools/a/ab/@weight", "2")
}

func TestPoolsMoveBetweenTrees(t *testing.T) {
	t.Parallel()
	c := withPools(t, "nirvana", "nirvana/prod", "nirvana/prod/night", "taken")
	c.must("create", "{type=scheduler_pool_tree;attributes={name=other;config={nodes_filter=none}}}", "")
	c.must("create", "{type=scheduler_pool;attributes={name=logfeller;pool_tree=other}}", "")
	c.must("create", "{type=scheduler_pool;attributes={name=taken;pool_tree=other}}", "")
	c.set("//sys/pools/nirvana/prod/@weight", "3")
	c.must("create", "{type=user;attributes={name=anna}}", "")
	c.set("//sys/pools/nirvana/prod/@acl", "[{action=allow;subjects=[anna];permissions=[use]}]")
	id := c.get("//sys/pools/nirvana/prod/@id")
	c.refused("move", `{source_path="//sys/pools/taken";destination_path="//sys/pool_trees/other/logfeller/taken"}`, "", wire.CodeAlreadyExists)
	c.actingAs("anna").refused("move", `{source_path="//sys/pools/taken";destination_path="//sys/pool_trees/other/t"}`, "", auth.CodeAuthorization)
	c.must("move", `{source_path="//sys/pools/nirvana";destination_path="//sys/pool_trees/other/logfeller/nirvana2"}`, "")
	if got, want := c.get("//sys/pool_trees"), `{"default"={"taken"={};};"other"={"logfeller"={"nirvana2"={"prod"={"night"={};};};};"taken"={};};}`; got != want {
		t.Errorf("the trees are %s, want %s", got, want)
	}
	const prod = "//sys/pool_trees/other/logfeller/nirvana2/prod/@"
	if got := c.get(prod + "id"); got != id {
		t.Errorf("the pool is now %s, it was %s", got, id)
	}
	if got := c.get(prod+"weight") + c.get(prod+"acl"); !strings.HasPrefix(got, "3") || !strings.Contains(got, "anna") {
		t.Errorf("the pool has weight and list %s", got)
	}
	c.refused("set", `{path="//sys/pools/taken/@parent_name"}`, "logfeller", wire.CodeResolve)
	c.refused("move", `{source_path="//sys/pool_trees/other";destination_path="//sys/pool_trees/default/other"}`, "", wire.CodeGeneric)
}

// An entity stands for "nothing": removing an attribute is another command.
func TestEntityIsNoValueOfAnOption(t *testing.T) {
	t.Parallel()
	c := withPools(t, "p")
	for _, path := range []string{
		"//sys/pools/p/@weight", "//sys/pools/p/@max_operation_count", "//sys/pools/p/@fair_share_starvation_timeout",
		"//sys/pool_trees/default/@config/max_operation_count", "//sys/pool_trees/default/@max_operation_count",
	} {
		c.refused("set", `{path="`+path+`"}`, "#", wire.CodeGeneric, `cannot be parsed from "entity"`)
	}
	c.refused("create", "{type=scheduler_pool;attributes={name=q;pool_tree=default;weight=#}}", "", wire.CodeGeneric, `cannot be parsed from "entity"`)
	c.refused("start_operation", `{operation_type=vanilla;spec={pool=p;weight=#;tasks={t={job_count=1;command="true"}}}}`, "", wire.CodeGeneric, `cannot be parsed from "entity"`)
}

// Only pools that operations named are limited by max_ephemeral_pools_per_user, and only they are listed.
func TestEphemeralPoolsAreListedByUser(t *testing.T) {
	t.Parallel()
	c := withPools(t, "hub")
	c.set("//sys/pools/hub/@create_ephemeral_subpools", "%true")
	c.set("//sys/pool_trees/default/@config/max_ephemeral_pools_per_user", "3")
	c.withNodes(1)
	for _, pool := range []string{"mine", "hub", "yours"} {
		c.start(job(pool, "sleep", 1))
	}
	const path = "//sys/scheduler/orchid/scheduler/scheduling_info_per_pool_tree/default/user_to_ephemeral_pools"
	c.eventually("the pools are listed", func() bool { return c.get(path) == `{"root"=["mine";"yours";];}` })
	if got := c.must("exists", `{path="`+newView+`pools/hub$root"}`, ""); got != `{"value"=%true;}` {
		t.Error("the subpool of the hub is not there")
	}
}

// The default parent pool may create subpools for users as well. The pools that operations named are
// counted against the limit there, so they are listed.
func TestEphemeralPoolsBelowAHubAreListed(t *testing.T) {
	t.Parallel()
	c := withPools(t, "hub")
	c.set("//sys/pools/hub/@create_ephemeral_subpools", "%true")
	c.set("//sys/pool_trees/default/@config/default_parent_pool", "hub")
	c.withNodes(1)
	c.start(job("mine", "sleep", 1))
	c.refused("start_operation", "{operation_type=vanilla;spec="+job("yours", "sleep", 1)+"}", "", wire.CodeGeneric,
		"already has 1, the most ephemeral pools of one user (max_ephemeral_pool_per_user)")
	const path = "//sys/scheduler/orchid/scheduler/scheduling_info_per_pool_tree/default/user_to_ephemeral_pools"
	c.eventually("the pool is listed", func() bool { return c.get(path) == `{"root"=["mine";];}` })
}
