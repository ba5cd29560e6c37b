package api

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/test/expected"
)

// everything returns everything that commands on paths can change, without times and revisions.
func (c *cluster) everything() string {
	c.t.Helper()
	return strings.Join([]string{
		c.must("get", "{path=\"//tmp\";attributes=[id;acl;owner;note;inherit_acl]}", ""),
		c.must("get", "{path=\"//home\";attributes=[id;acl;owner;note;inherit_acl]}", ""),
		c.must("list", "{path=\"//sys/pools\";attributes=[id;acl;weight;mode;note]}", ""),
		c.must("get", "{path=\"//sys/pools/team/@\"}", ""),
		c.must("export_pools", "{}", ""),
	}, "\n")
}

// TestRefusedCommandChangesNothing sends commands of several steps whose last step is refused.
func TestRefusedCommandChangesNothing(t *testing.T) {
	c := withPools(t, "team", "team/batch", "other")
	for _, path := range []string{"//tmp/source", "//tmp/a/b", "//home/kept/child", "//home/dir/one"} {
		c.must("create", "{type=map_node;recursive=%true;path=\""+path+"\"}", "")
	}
	c.must("create", "{type=document;path=\"//tmp/doc\"}", "")
	for _, refused := range []struct{ name, command, parameters, data string }{
		{"a move to where it cannot be", "move", "{source_path=\"//sys/pools/other\";destination_path=\"//home/kept\";force=%true}", ""},
		{"a copy to where it cannot be", "copy", "{source_path=\"//tmp/source\";destination_path=\"//sys/pools/team\";force=%true}", ""},
		{"a move onto what holds it", "move", "{source_path=\"//tmp/a/b\";destination_path=\"//tmp/a\";force=%true}", ""},
		{"a move of a pool onto what holds it", "move", "{source_path=\"//sys/pools/team/batch\";destination_path=\"//sys/pools/team\";force=%true}", ""},
		{"a copy of a pool with pools onto another", "copy", "{source_path=\"//sys/pools/team\";destination_path=\"//sys/pools/other\";force=%true}", ""},
		{"a recursive move of a node into a pool", "move", "{source_path=\"//tmp/source\";destination_path=\"//sys/pools/other/x/y\";recursive=%true}", ""},
		{"a recursive move of a pool to a forbidden name", "move", "{source_path=\"//sys/pools/other\";destination_path=\"//sys/pools/x/y/z!\";recursive=%true}", ""},
		{"options of a pool and an access list of nobody", "multiset_attributes", "{path=\"//sys/pools/team/@\"}", "{weight=7;acl=[{action=allow;subjects=[nobody_knows];permissions=[use]}]}"},
		{"a pool with an access list of nobody", "create", "{type=scheduler_pool;attributes={name=fresh;pool_tree=default;acl=[{action=allow;subjects=[nobody_knows];permissions=[use]}]}}", ""},
		{"a default tree and an access list of nobody", "multiset_attributes", "{path=\"//sys/pool_trees/@\"}", "{default_tree=default;acl=[{action=allow;subjects=[nobody_knows];permissions=[use]}]}"},
		{"options set, and one removed that is not there", "multiset_attributes", "{path=\"//sys/pools/team/@\";remove=[note]}", "{weight=7}"},
		{"an option that is set and removed", "multiset_attributes", "{path=\"//sys/pools/team/@\";remove=[weight]}", "{weight=7}"},
		{"children of which one cannot be removed", "remove", "{path=\"//sys/*\";recursive=%true}", ""},
		{"a file where a document is", "write_file", "{path=\"//tmp/doc\"}", "text"},
		{"a file in a pool", "write_file", "{path=\"//sys/pools/team/file\"}", "text"},
	} {
		before := c.everything()
		if a := c.do(refused.command, refused.parameters, refused.data); a.status == http.StatusOK {
			t.Errorf("%s: accepted: %s", refused.name, a.body)
		}
		if after := c.everything(); after != before {
			t.Errorf("%s: the refused command changed something:\n%s\nbefore:\n%s", refused.name, after, before)
		}
	}
}

// TestCommandOfSeveralStepsIsOneRevision sends commands that change several things. Each is one
// transaction: it is applied as a whole, and a repetition gets the first answer.
func TestCommandOfSeveralStepsIsOneRevision(t *testing.T) {
	c := withPools(t, "team", "other", "third")
	c.must("create", "{type=map_node;recursive=%true;path=\"//tmp/source/inner\"}", "")
	c.must("create", "{type=map_node;recursive=%true;path=\"//home/old/gone\"}", "")
	node := c.must("get", "{path=\"//tmp/source/@id\"}", "")
	pool := c.must("get", "{path=\"//sys/pools/other/@id\"}", "")

	c.must("move", "{source_path=\"//tmp/source\";destination_path=\"//home/old\";force=%true}", "")
	if got := c.must("get", "{path=\"//home/old/@id\"}", ""); got != node {
		t.Errorf("the moved node has id %s, want %s", got, node)
	}
	if got := c.must("exists", "{path=\"//home/old/gone\"}", ""); !strings.Contains(got, "false") {
		t.Error("the replaced node's child is still there")
	}
	c.must("move", "{source_path=\"//home/old\";destination_path=\"//home/x/y/z\";recursive=%true}", "")
	if got := c.must("get", "{path=\"//home/x/y/z/@id\"}", ""); got != node {
		t.Errorf("the node that was moved into new directories has id %s, want %s", got, node)
	}
	c.must("move", "{source_path=\"//sys/pools/other\";destination_path=\"//sys/pools/team\";force=%true}", "")
	if got := c.must("get", "{path=\"//sys/pools/team/@id\"}", ""); got != pool {
		t.Errorf("the pool that took another's place has id %s, want %s", got, pool)
	}
	c.must("move", "{source_path=\"//sys/pools/team\";destination_path=\"//sys/pools/a/b/c\";recursive=%true}", "")
	if got := c.must("get", "{path=\"//sys/pools/a/b/c/@id\"}", ""); got != pool {
		t.Errorf("the pool that was moved into new pools has id %s, want %s", got, pool)
	}
	c.must("multiset_attributes", "{path=\"//sys/pools/third/@\"}", "{weight=3.;mode=fifo;owner=root}")
	c.must("multiset_attributes", "{path=\"//sys/pools/third/@\";remove=[mode]}", "{weight=4.}")
	if got := c.must("get", "{path=\"//sys/pools/third/@weight\"}", ""); !strings.Contains(got, "4") {
		t.Errorf("the pool has weight %s, want 4", got)
	}
	if a := c.do("get", "{path=\"//sys/pools/third/@mode\"}", ""); strings.Contains(a.body, "fifo") {
		t.Errorf("the pool still has the removed mode: %s", a.body)
	}
	c.must("write_file", "{path=\"//tmp/file\"}", "text")
	if got := c.must("read_file", "{path=\"//tmp/file\"}", ""); got != "text" {
		t.Errorf("the new file has %q, want text", got)
	}
	first := c.must("create", "{type=scheduler_pool;mutation_id=\"1-2-3-4\";attributes={name=fresh;pool_tree=default;owner=root}}", "")
	again := c.do("create", "{type=scheduler_pool;mutation_id=\"1-2-3-4\";retry=%true;attributes={name=fresh;pool_tree=default;owner=root}}", "")
	if again.body != first {
		t.Errorf("the repeated create answered %s, want %s", again.body, first)
	}
}

// TestIdentityOfReplacedPoolSurvivesRestart replaces a pool by an equal one that differs only in
// its identity.
func TestIdentityOfReplacedPoolSurvivesRestart(t *testing.T) {
	directory := t.TempDir()
	c := startCluster(t, directory)
	c.must("create", "{type=scheduler_pool_tree;attributes={name=default}}", "")
	for _, name := range []string{"one", "two"} {
		c.must("create", "{type=scheduler_pool;attributes={name="+name+";pool_tree=default}}", "")
	}
	want := c.must("get", "{path=\"//sys/pools/one/@id\"}", "")
	c.must("move", "{source_path=\"//sys/pools/one\";destination_path=\"//sys/pools/two\";force=%true}", "")
	c.stop()
	c = startCluster(t, directory)
	if got := c.must("get", "{path=\"//sys/pools/two/@id\"}", ""); got != want {
		t.Errorf("after a restart the pool has id %s, want %s", got, want)
	}
}

// TestNewNodeHasNoStaleAccessList replaces nodes that have access lists in every possible way.
func TestNewNodeHasNoStaleAccessList(t *testing.T) {
	c := newCluster(t)
	c.must("create", "{type=user;attributes={name=anna}}", "")
	const list = "[{action=allow;subjects=[anna];permissions=[write]}]"
	for _, replace := range [][3]string{
		{"create", "{type=map_node;path=\"//tmp/dir/child\";force=%true}", ""},
		{"set", "{path=\"//tmp/dir\";force=%true}", "{child={}}"},
		{"copy", "{source_path=\"//tmp/plain\";destination_path=\"//tmp/dir/child\";force=%true}", ""},
		{"move", "{source_path=\"//tmp/plain\";destination_path=\"//tmp/dir/child\";force=%true}", ""},
	} {
		c.must("create", "{type=map_node;path=\"//tmp/plain\";force=%true}", "")
		c.must("create", "{type=map_node;path=\"//tmp/dir/child\";recursive=%true;force=%true}", "")
		c.set("//tmp/dir/child/@acl", list)
		c.must(replace[0], replace[1], replace[2])
		if got := c.must("get", "{path=\"//tmp/dir/child/@acl\"}", ""); strings.Contains(got, "anna") {
			t.Errorf("after %s %s the new node has the access list %s of the one before", replace[0], replace[1], got)
		}
	}
}

// TestPoolNamesThatMeanDirectoriesAreRefused creates pools with names that mean directories in
// paths and file systems.
func TestPoolNamesThatMeanDirectoriesAreRefused(t *testing.T) {
	c := withPools(t, "team")
	for _, name := range []string{".", ".."} {
		if a := c.do("create", "{type=scheduler_pool;attributes={pool_tree=default;name=\""+name+"\"}}", ""); a.status == http.StatusOK {
			t.Errorf("a pool named %q was accepted", name)
		}
	}
	c.must("create", "{type=scheduler_pool;attributes={pool_tree=default;name=\"...\"}}", "")
}

// TestBadTokenRowLetsNobodyInAndKeepsNobodyOut stores a token whose row cannot be read.
func TestBadTokenRowLetsNobodyInAndKeepsNobodyOut(t *testing.T) {
	c := newCluster(t)
	bad := func(*server.Registry) (*store.Batch, error) {
		batch := &store.Batch{}
		batch.Put.Tokens = append(batch.Put.Tokens, store.Token{Hash: "no hash", User: "root", Name: "bad"})
		return batch, nil
	}
	if err := c.EditRegistry(t.Context(), server.Caller{User: "root", Command: "test"}, bad); err != nil {
		t.Fatal(err)
	}
	if a := c.do("create", "{type=map_node;path=\"//tmp/open\"}", ""); a.status != http.StatusUnauthorized {
		t.Errorf("without a token: status %d, want %d", a.status, http.StatusUnauthorized)
	}
	root := c.give("root")
	if !expected.Soon(func() bool {
		return c.as(root, "create", "{type=map_node;path=\"//tmp/mine\"}", "").status == http.StatusOK
	}) {
		t.Error("a good token lets nobody in beside a bad one")
	}
	if a := c.as(root, "list_user_tokens", "{user=root;include_revoked=%true}", ""); a.status != http.StatusOK {
		t.Errorf("the tokens are not listed: %d %s", a.status, a.body)
	}
}

// TestCreateDoesNotReadAllNodes bounds the cost of creating a node beside many others: it
// allocates a fraction of what listing them would.
func TestCreateDoesNotReadAllNodes(t *testing.T) {
	c := newCluster(t)
	many := func(*server.Registry) (*store.Batch, error) {
		batch := &store.Batch{}
		for i := range 20_000 {
			batch.Put.PathNodes = append(batch.Put.PathNodes, store.PathNode{Path: fmt.Sprintf("//tmp/n%d", i), Type: "map_node"})
		}
		return batch, nil
	}
	if err := c.EditRegistry(t.Context(), server.Caller{User: "root", Command: "test"}, many); err != nil {
		t.Fatal(err)
	}
	const creations, all = 20, 20_000 * uint64(unsafe.Sizeof(store.PathNode{}))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range creations {
		c.must("create", fmt.Sprintf("{type=map_node;path=\"//home/new%d\"}", i), "")
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / creations; each > all/2 {
		t.Errorf("a creation allocates %d bytes beside 20,000 nodes, want less than %d", each, all/2)
	}
}
