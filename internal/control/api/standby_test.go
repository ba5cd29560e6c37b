package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/wire"
)

// follows waits until a standby has read the leader's changes.
func (c *cluster) follows(path, want string) {
	c.t.Helper()
	c.eventually(fmt.Sprintf("the standby sees %s = %s", path, want), func() bool {
		a := c.do("get", fmt.Sprintf("{path=%q;return_only_value=%%true;read_from=cache}", path), "")
		return a.status == http.StatusOK && a.body == want
	})
}

func TestAStandbyForwardsToTheLeader(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	leader := startCluster(t, directory)
	leader.t = t
	leader.must("create", "{type=scheduler_pool_tree;attributes={name=default}}", "")
	standby := launch(t, directory)
	standby.t = t
	// Once it has read the leader's rows, the standby knows the leader.
	standby.follows("//sys/pool_trees", `{"default"={};}`)
	if standby.Leading() {
		t.Fatal("there are two leaders")
	}

	if a := standby.do("create", "{type=scheduler_pool;attributes={name=a;pool_tree=default}}", ""); a.status != http.StatusOK {
		t.Fatal(a.body)
	} else if a.header.Get("X-YT-Proxy") != leader.Address() {
		t.Errorf("%s answered", a.header.Get("X-YT-Proxy"))
	}
	// A client that wrote through the standby reads its change there at once.
	if got := standby.get("//sys/pools"); got != `{"a"={};}` {
		t.Error(got)
	}
	standby.follows("//sys/pools", `{"a"={};}`)
	standby.must("write_file", `{path="//home/large"}`, contentOf("forwarded"))
	if got := standby.must("read_file", `{path="//home/large"}`, ""); got != contentOf("forwarded") {
		t.Errorf("the file has %d bytes", len(got))
	}
	standby.refused("get", `{path="//sys/pools/nope"}`, "", wire.CodeResolve)

	// A request is forwarded only once.
	looped := standby.send(http.MethodPost, "/api/v4/remove?path=//sys/pools/a", http.Header{forwardedHeader: {"x"}}, nil)
	if looped.status != http.StatusServiceUnavailable || looped.header.Get("X-YT-Response-Code") != "105" {
		t.Errorf("%d %s", looped.status, looped.body)
	}
	// If the leader cannot be reached, the standby does not answer from its copy.
	looped = standby.send(http.MethodGet, "/api/v4/get?path=//sys/pools/a", http.Header{forwardedHeader: {"x"}}, nil)
	if looped.status != http.StatusServiceUnavailable {
		t.Errorf("%d %s", looped.status, looped.body)
	}
	if a := standby.do("get_version", "{}", ""); a.header.Get("X-YT-Proxy") != standby.Address() {
		t.Error("a local command was forwarded")
	}
}

func TestAServerThatHasReadNothingYetSaysSo(t *testing.T) {
	t.Parallel()
	s := server.New(server.Options{Name: "new", Address: "here"})
	web := httptest.NewServer(New(s, Options{Log: quiet, TrustLoopback: true}))
	defer web.Close()
	for _, from := range []string{"leader", "cache", "follower"} {
		response, err := http.Get(web.URL + "/api/v4/list?path=//sys/pool_trees&read_from=" + from)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("read from %s: status %d", from, response.StatusCode)
		}
	}
}

func TestARepetitionAfterARestartIsAnsweredFromTheStore(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	commandsOnce := []struct{ command, parameters, data string }{
		{"create", `{type=scheduler_pool_tree;attributes={name=default};mutation_id="1-1-1-1"`, ""},
		{"create", `{type=scheduler_pool;attributes={name=a;pool_tree=default};mutation_id="1-1-1-2"`, ""},
		{"set", `{path="//sys/pools/a/@weight";mutation_id="1-1-1-3"`, "2"},
		{"create", `{type=map_node;path="//tmp/d";mutation_id="1-1-1-4"`, ""},
		{"move", `{source_path="//tmp/d";destination_path="//tmp/e";mutation_id="1-1-1-5"`, ""},
		{"link", `{target_path="//tmp/e";link_path="//tmp/l";mutation_id="1-1-1-6"`, ""},
		{"create", `{type=user;attributes={name=u};mutation_id="1-1-1-7"`, ""},
		{"add_member", `{group=admins;member=u;mutation_id="1-1-1-8"`, ""},
		{"execute_batch", `{requests=[{command=set;parameters={path="//tmp/list"};input=[]};{command=set;parameters={path="//tmp/list/end"};input=1}];mutation_id="1-1-1-9"`, ""},
		{"set", `{path="//tmp/list/end";mutation_id="1-1-1-a"`, "2"},
		{"remove", `{path="//tmp/l";mutation_id="1-1-1-b"`, ""},
	}
	answers := map[int]string{}
	t.Run("first", func(t *testing.T) {
		c := startCluster(t, directory)
		c.t = t
		for i, one := range commandsOnce {
			answers[i] = c.must(one.command, one.parameters+";retry=%false}", one.data)
		}
	})
	c := startCluster(t, directory)
	c.t = t
	for i, one := range commandsOnce {
		got := c.must(one.command, one.parameters+";retry=%true}", one.data)
		if got != answers[i] {
			t.Errorf("%s %s\nfirst  %s\nsecond %s", one.command, one.parameters, answers[i], got)
		}
	}
	if got := c.get("//tmp/list"); got != "[1;2;]" {
		t.Errorf("a repetition had an effect: %s", got)
	}
}

func TestChangesInsideOneValueDoNotOverwriteEachOther(t *testing.T) {
	t.Parallel()
	c := withPools(t, "a")
	c.set("//tmp/doc", "{}")
	c.must("create", `{type=document;path="//tmp/d2";attributes={value={}}}`, "")
	var writers sync.WaitGroup
	for i := range 20 {
		writers.Go(func() {
			c.must("set", fmt.Sprintf(`{path="//tmp/d2/k%d"}`, i), "1")
			c.must("set", fmt.Sprintf(`{path="//sys/pools/a/@x%d"}`, i), "1")
			c.must("set", `{path="//sys/pools/a/@resource_limits/cpu"}`, fmt.Sprint(i+1))
		})
	}
	writers.Wait()
	if got := strings.Count(c.get("//tmp/d2"), "="); got != 20 {
		t.Errorf("%d of 20 keys are there", got)
	}
	if got := strings.Count(c.get("//sys/pools/a/@user_attribute_keys"), "x"); got != 20 {
		t.Errorf("%d of 20 attributes are there", got)
	}
}

func TestARepetitionWaitsForTheFirst(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.must("set", `{path="//tmp/list"}`, "[]")
	var senders sync.WaitGroup
	for range 10 {
		senders.Go(func() { c.must("set", `{path="//tmp/list/end";mutation_id="5-5-5-5";retry=%true}`, "1") })
	}
	senders.Wait()
	if got := c.get("//tmp/list"); got != "[1;]" {
		t.Error(got)
	}
}
