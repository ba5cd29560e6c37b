package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/test/fakenode"
)

const onNode = `component=cluster_node;address="node-00000";`

// maintain adds a maintenance request to the first node and returns the request's id.
func (c *cluster) maintain(kind, comment string) string {
	c.t.Helper()
	return text(c.node("add_maintenance", fmt.Sprintf("{%stype=%s;comment=%q}", onNode, kind, comment)), "id")
}

// running returns the number of running jobs of an operation.
func (c *cluster) running(id string) string {
	c.t.Helper()
	return c.get("//sys/operations/" + bucketText(id) + "/" + id + "/controller_orchid/progress/jobs/running")
}

// beat waits for a few more heartbeats of the nodes, so that they could have received jobs.
func beat(t *testing.T, nodes *fakenode.Cluster) {
	t.Helper()
	enough := nodes.Totals().Heartbeats + 10
	if err := nodes.Await(t.Context(), func(t fakenode.Totals) bool { return t.Heartbeats >= enough }); err != nil {
		t.Fatal(err)
	}
}

func TestMaintenanceKeepsJobsFromANode(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"decommission", "disable_scheduler_jobs"} {
		t.Run(kind, func(t *testing.T) {
			c := withPools(t, "p")
			nodes := c.withNodes(1)
			before := c.start(job("p", "sleep", 2))
			c.runs(before, 2)
			first, second := c.maintain(kind, "one"), c.maintain(kind, "two")
			slots := func() string {
				return c.get("//sys/cluster_nodes/node-00000/orchid/exec_node/job_resource_manager/resource_limits/user_slots")
			}
			if got := slots(); got != "0" {
				t.Errorf("under maintenance the node's orchid has %s slots", got)
			}
			after := c.start(job("p", "sleep", 1))
			beat(t, nodes)
			c.must("remove_maintenance", "{"+onNode+"id=\""+first+"\"}", "")
			beat(t, nodes)
			if got := c.running(before) + " " + c.running(after); got != "2 0" {
				t.Errorf("under maintenance jobs run that were there before it and after: %s", got)
			}
			c.must("remove_maintenance", "{"+onNode+"id=\""+second+"\"}", "")
			c.runs(after, 1)
			if got := slots(); got == "0" {
				t.Error("after maintenance the node's orchid has no slots")
			}
			if got := c.running(before); got != "2" {
				t.Errorf("of the jobs from before %s run", got)
			}
		})
	}
}

func TestABanEndsJobsUntilTheLastWhoAskedForItTakesItBack(t *testing.T) {
	t.Parallel()
	c := withPools(t, "p")
	nodes := c.withNodes(1)
	id := c.start(job("p", "sleep", 2))
	c.runs(id, 2)
	c.maintain("ban", "one")
	c.runs(id, 0)
	c.set("//sys/cluster_nodes/node-00000/@ban_message", "two")
	second := c.maintain("ban", "two")
	for _, kind := range []string{"disable_write_sessions", "disable_tablet_cells", "pending_restart"} {
		c.maintain(kind, "no matter")
	}
	c.must("remove_maintenance", "{"+onNode+"type=ban;ids=["+quoted(second)+"]}", "")
	beat(t, nodes)
	if got := c.running(id); got != "0" {
		t.Errorf("on a banned node %s jobs run", got)
	}
	if got := c.must("remove_maintenance", "{"+onNode+"type=ban}", ""); got != `{"ban"=1;}` {
		t.Error(got)
	}
	c.runs(id, 2) // requests about disks and tablets have no effect
}

func TestMaintenanceOutlivesTheServer(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	c := startCluster(t, directory)
	c.t = t
	c.must("create", `{type=cluster_node;path="//sys/cluster_nodes/node-00000"}`, "")
	c.must("create", "{type=user;attributes={name=anna}}", "")
	c.must("add_member", "{group=admins;member=anna}", "")
	c.actingAs("anna").maintain("ban", "disk")
	c.maintain("decommission", "old")
	const path = "//sys/cluster_nodes/node-00000/@maintenance_requests"
	before := c.get(path)
	parameters := "{" + onNode + `mine=%true;mutation_id="5-6-7-8"`
	c.stop()
	next := startCluster(t, directory)
	next.t = t
	if got := next.get(path); got != before || !strings.Contains(got, `"user"="anna";"comment"="disk"`) {
		t.Errorf("%s after a restart, %s before", got, before)
	}
	if got := next.actingAs("anna").must("remove_maintenance", parameters+"}", ""); got != `{"ban"=1;}` {
		t.Error(got)
	}
	if got := next.get("//sys/cluster_nodes/node-00000/@banned"); got != "%false" {
		t.Error(got)
	}
	next.stop()
	last := startCluster(t, directory)
	last.t = t
	if got := last.actingAs("anna").must("remove_maintenance", parameters+";retry=%true}", ""); got != `{"ban"=1;}` {
		t.Errorf("a repetition after a restart: %s", got)
	}
	if got := last.get(path); !strings.Contains(got, `"type"="decommission"`) || strings.Contains(got, "anna") {
		t.Error(got)
	}
}

func TestOnlyAdministratorsMaintainNodes(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.must("create", `{type=cluster_node;path="//sys/cluster_nodes/node-00000"}`, "")
	for _, user := range []string{"anna", "boris"} {
		c.must("create", fmt.Sprintf("{type=user;attributes={name=%s}}", user), "")
	}
	c.must("add_member", "{group=admins;member=anna}", "")
	c.actingAs("anna").maintain("ban", "mine")
	boris := c.actingAs("boris")
	boris.refused("add_maintenance", "{"+onNode+"type=ban;comment=x}", "", auth.CodeAuthorization, "boris", "write")
	boris.refused("remove_maintenance", "{"+onNode+"all=%true}", "", auth.CodeAuthorization)
	boris.refused("add_maintenance", `{component=cluster_node;address=moon;type=ban;comment=x}`, "", auth.CodeAuthorization)
	c.refused("add_maintenance", "{"+onNode+"type=ban;comment="+quoted(strings.Repeat("я", maxMaintenanceComment+1))+"}", "", wire.CodeGeneric, "/comment")
	if got := c.must("remove_maintenance", "{"+onNode+"mine=%true}", ""); got != "{}" {
		t.Errorf("root has asked for %s", got)
	}
	if got := c.must("remove_maintenance", "{"+onNode+"user=anna}", ""); got != `{"ban"=1;}` {
		t.Error(got)
	}
}
