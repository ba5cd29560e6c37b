package api

import (
	"net/http"
	"strings"
	"testing"
)

// YSON strings are bytes, but the store accepts only text. Whether the server refuses or stores
// them, the leader must keep leading.
func TestBytesThatAreNoTextDoNoHarm(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	c := startCluster(t, directory)
	c.t = t
	c.must("create", `{type=scheduler_pool_tree;attributes={name=default}}`, "")
	c.must("create", `{type=scheduler_pool;attributes={name=a;pool_tree=default}}`, "")
	for _, one := range []struct{ command, parameters, data string }{
		{"set", `{path="//tmp/\\x00\\xff"}`, "1"},
		{"set", `{path="//tmp/x"}`, `"\x00\xff"`},
		{"set", `{path="//tmp/@\\x00\\xff"}`, `"\x00\xff"`},
		{"set", `{path="//sys/pools/a/@note"}`, `"\x00\xff"`},
		{"set", `{path="//sys/pools/a/@\\x00\\xff"}`, `1`},
		{"set", `{path="//sys/pools/a/@abc"}`, `{"\xff"="\x00"}`},
		{"set", `{path="//sys/pool_trees/default/@\\x00\\xff"}`, `"\x00\xff"`},
		{"set", `{path="//sys/pool_trees/default/@config/\\xff"}`, `"\xff"`},
		{"set", `{path="//sys/scheduler/config/\\xff"}`, `"\x00\xff"`},
		{"create", `{type=scheduler_pool;attributes={name="\xff";pool_tree=default}}`, ""},
		{"create", `{type=scheduler_pool;attributes={name=x;pool_tree="\xff"}}`, ""},
		{"create", `{type=scheduler_pool_tree;attributes={name="\x00"}}`, ""},
		{"create", `{type=user;attributes={name="\xff"}}`, ""},
		{"create", `{type=user;attributes={name=u;"\x00\xff"="\x00\xff"}}`, ""},
		{"add_member", `{group="\xff";member="\x00"}`, ""},
		{"create", `{type=cluster_node;path="//sys/cluster_nodes/\\x00\\xff"}`, ""},
		{"create", `{type=cluster_node;path="//sys/cluster_nodes/n:1";attributes={user_tags=["\xff"]}}`, ""},
		{"create", `{type=cluster_node;path="//sys/cluster_nodes/n:1";attributes={ban_message="\x00\xff"}}`, ""},
		{"create", `{type=map_node;path="//home/d";attributes={"\xff"="\x00"}}`, ""},
		{"link", `{target_path="//tmp";link_path="//home/\\x00"}`, ""},
		{"set", `{path="//tmp/@acl"}`, `[{action=allow;subjects=["\xff"];permissions=[read]}]`},
		{"write_file", `{path="//tmp/f"}`, "\x00\xff"},
		{"get", `{path="//tmp"}`, ""},
		{"get", `{path="//sys/pools";attributes=[note;abc]}`, ""},
	} {
		a := c.do(one.command, one.parameters, one.data)
		isProper(t, one.command+" "+one.parameters, a)
		if !c.Leading() || c.do("get", `{path="//sys/pools/@name"}`, "").status != http.StatusOK {
			t.Fatalf("%s %s %q ended the term: %s", one.command, one.parameters, one.data, a.body)
		}
	}
	state := func() string {
		all := c.must("get", `{path="//sys";attributes=[note;abc;config;user_tags]}`, "") + c.get("//tmp") + c.get("//home")
		return strings.ReplaceAll(all, c.Address(), "here")
	}
	before := state()
	c.stop()
	c = startCluster(t, directory)
	c.t = t
	if after := state(); after != before {
		t.Errorf("before the restart %s\nafter it %s", before, after)
	}
}
