package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/wire"
)

const unnamed = "{tasks={work={job_count=1;command=sleep;cpu_limit=1.0;memory_limit=536870912}}}"

// parentOf returns the parent of an operation's pool.
func (c *cluster) parentOf(pool string) (parent string) {
	c.t.Helper()
	c.eventually("pool "+pool+" is there", func() bool {
		a := c.do("get", fmt.Sprintf(`{path="//sys/scheduler/orchid/scheduler/pool_trees/default/pools/%s/parent";return_only_value=%%true}`, pool), "")
		parent = strings.Trim(a.body, `"`)
		return a.status == 200
	})
	return parent
}

func TestPoolsOfUsersAreMadeWhereTheMapOfUsersSays(t *testing.T) {
	t.Parallel()
	c := withPools(t, "common", "analysts", "queue", "closed")
	for _, user := range []string{"anna", "boris", "clara", "daria"} {
		c.must("create", fmt.Sprintf("{type=user;attributes={name=%s}}", user), "")
	}
	c.set("//sys/pools/queue/@mode", "fifo")
	c.set("//sys/pools/closed/@acl", "[{action=deny;subjects=[daria];permissions=[use]}]")
	c.set("//sys/pool_trees/default/@config/default_parent_pool", "common")
	c.set("//sys/scheduler/user_to_default_pool", "{anna=analysts;boris=queue;clara=nowhere;daria=closed}")
	c.refused("set", `{path="//sys/scheduler/user_to_default_pool/anna"}`, "5", wire.CodeGeneric, "has invalid type: expected string")

	c.actingAs("anna").start(unnamed)
	if got := c.parentOf("anna"); got != "common" {
		t.Errorf("a tree that does not want the map has anna below %s", got)
	}
	c.set("//sys/pool_trees/default/@config/use_user_default_parent_pool_map", "%true")
	c.eventually("the pool moves", func() bool { return c.parentOf("anna") == "analysts" })
	for _, user := range []string{"boris", "clara"} { // a FIFO pool, and a pool that does not exist
		c.actingAs(user).start(unnamed)
		if got := c.parentOf(user); got != "common" {
			t.Errorf("%s is below %s", user, got)
		}
	}
	// A pool that is created on demand has the permissions of its parent.
	c.actingAs("daria").refused("start_operation", "{operation_type=vanilla;spec="+unnamed+"}", "", auth.CodeAuthorization, "closed")
	c.set("//sys/scheduler/user_to_default_pool/anna", "common")
	c.eventually("the pool moves back", func() bool { return c.parentOf("anna") == "common" })
	c.set("//sys/scheduler/user_to_default_pool/anna", "analysts")
	c.eventually("the pool moves", func() bool { return c.parentOf("anna") == "analysts" })
}

func TestTheMapOfUsersOutlivesTheServer(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	c := startCluster(t, directory)
	c.t = t
	c.must("create", "{type=scheduler_pool_tree;attributes={name=default;config={use_user_default_parent_pool_map=%true}}}", "")
	c.must("create", "{type=scheduler_pool;attributes={name=analysts;pool_tree=default}}", "")
	c.set("//sys/scheduler/user_to_default_pool", "{root=analysts}")
	c.start(unnamed)
	if got := c.parentOf("root"); got != "analysts" {
		t.Errorf("root is below %s", got)
	}
	c.stop()
	next := startCluster(t, directory)
	next.t = t
	if got := next.parentOf("root"); got != "analysts" {
		t.Errorf("after a restart root is below %s", got)
	}
}

func TestPoolsThatMustExist(t *testing.T) {
	t.Parallel()
	c := withPools(t, "here")
	named := func(pool, more string) string {
		return "{operation_type=vanilla;spec={pool=" + pool + ";" + more + strings.TrimPrefix(unnamed, "{") + "}"
	}
	const wish = "require_specified_pools_existence=%true;"
	c.refused("start_operation", named("nowhere", wish), "", wire.CodeNoSuchPool, "Operation is launched in nonexistent pool", "does not exist")
	id := text(c.node("start_operation", named("here", wish)), "operation_id")
	c.node("start_operation", "{operation_type=vanilla;spec={"+wish+strings.TrimPrefix(unnamed, "{")+"}") // names no pool
	c.refused("update_operation_parameters", fmt.Sprintf("{operation_id=%q;parameters={pool=nowhere}}", id), "", wire.CodeNoSuchPool, "nonexistent pool")
	c.refused("update_operation_parameters",
		fmt.Sprintf("{operation_id=%q;parameters={scheduling_options_per_pool_tree={default={pool=nowhere}}}}", id), "", wire.CodeNoSuchPool, "nonexistent pool")

	settings := c.Settings()
	settings.RequirePools = true
	c.Configure(settings)
	c.refused("start_operation", named("nowhere", ""), "", wire.CodeNoSuchPool, "nonexistent pool")
	c.node("start_operation", named("here", ""))
}

func TestRefusalsOfPoolsHaveTheWordsOfTheReference(t *testing.T) {
	t.Parallel()
	c := withPools(t, "closed")
	c.set("//sys/pools/closed/@forbid_immediate_operations", "%true")
	start := func(pool string) string {
		return "{operation_type=vanilla;spec={pool=" + pool + ";" + strings.TrimPrefix(unnamed, "{") + "}"
	}
	c.refused("start_operation", start("closed"), "", wire.CodeGeneric, `Starting operations immediately in pool "closed" of tree "default" is forbidden`)
	c.set("//sys/pool_trees/default/@config/max_ephemeral_pool_per_user", "1")
	c.node("start_operation", start("first"))
	c.refused("start_operation", start("second"), "", wire.CodeGeneric,
		`Cannot create new ephemeral pool "second" as limit for number of ephemeral pools 1 for user "root" in tree "default" has been reached`)
}
