package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/blob"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/value/yson"
)

var quiet = slog.New(slog.DiscardHandler)

// cluster is a leading server with an HTTP listener.
type cluster struct {
	t *testing.T
	*server.Server
	url  string
	stop func()
	// headers are sent with every request.
	headers http.Header
}

// patience is how long tests wait for an event that happens at once on an idle machine.
const patience = 2 * time.Minute

func quickSettings() server.Settings {
	s := server.DefaultSettings()
	s.UpdatePeriod, s.ProgressPeriod = 10*time.Millisecond, 10*time.Millisecond
	s.AnalysisCPU, s.QuestionsPerMinute = 64, 1_000_000
	s.ForecastCPU = 0 // only the test of forecasts makes some
	// On a busy machine, renewing the lease or committing may take long.
	s.StandbyPoll, s.LeaseTTL, s.StallPatience = 20*time.Millisecond, time.Minute, time.Hour
	return s
}

// newCluster starts a server on its own database and waits until it leads.
func newCluster(t testing.TB) *cluster { return startCluster(t, t.TempDir()) }

func startCluster(t testing.TB, directory string) *cluster {
	t.Helper()
	c := launch(t, directory)
	select {
	case <-c.Led():
	case <-time.After(patience):
		t.Fatal("nobody leads")
	}
	return c
}

// launch starts a server that might stand by.
func launch(t testing.TB, directory string) *cluster {
	t.Helper()
	db, err := store.Open(context.Background(), "sqlite:"+filepath.Join(directory, "weir.db"))
	if err != nil {
		t.Fatal(err)
	}
	listener := httptest.NewUnstartedServer(nil)
	address := listener.Listener.Addr().String()
	blobs, err := blob.Directory(filepath.Join(directory, "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(server.Options{Store: db, Blobs: blobs, Name: address, Address: address, Settings: quickSettings(), Log: quiet})
	listener.Config.Handler = New(s, Options{Version: "test", Log: quiet, TrustLoopback: true})
	listener.Start()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	c := &cluster{Server: s, url: listener.URL, headers: http.Header{}}
	c.stop = sync.OnceFunc(func() {
		listener.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := errors.Join(blobs.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(c.stop)
	c.t, _ = t.(*testing.T)
	return c
}

// answer is an HTTP response.
type answer struct {
	status int
	header http.Header
	body   string
}

func (c *cluster) send(method, path string, header http.Header, body []byte) answer {
	c.t.Helper()
	request, err := http.NewRequest(method, c.url+path, bytes.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, more := range []http.Header{c.headers, header} {
		for name, values := range more {
			request.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(data)}
}

// do sends a command as YTsaurus's client does: parameters as YSON in a header, data in the body.
func (c *cluster) do(command, parameters, data string) answer {
	c.t.Helper()
	return c.send(http.MethodPut, "/api/v4/"+command, http.Header{
		"X-YT-Header-Format": {"<format=text>yson"}, "X-YT-Parameters": {parameters},
		"Accept": {"application/x-yt-yson-text"},
	}, []byte(data))
}

// must sends a command that must succeed and returns its answer as text YSON.
func (c *cluster) must(command, parameters, data string) string {
	c.t.Helper()
	a := c.do(command, parameters, data)
	if a.status != http.StatusOK {
		c.t.Fatalf("%s %s %s: %d %s", command, parameters, data, a.status, a.body)
	}
	return a.body
}

// refused sends a command that must be refused with this code and a message that contains the
// words.
func (c *cluster) refused(command, parameters, data string, code int, words ...string) {
	c.t.Helper()
	a := c.do(command, parameters, data)
	if a.status == http.StatusOK {
		c.t.Fatalf("%s %s %s was not refused: %s", command, parameters, data, a.body)
	}
	e := parseError(c.t, a)
	if !e.HasCode(code) {
		c.t.Errorf("%s %s %s: code %d is not in %s", command, parameters, data, code, a.body)
	}
	for _, word := range words {
		if !strings.Contains(e.Error(), word) {
			c.t.Errorf("%s %s %s: %q is not in %s", command, parameters, data, word, e.Error())
		}
	}
}

// parseError decodes a refusal and checks its form.
func parseError(t testing.TB, a answer) *wire.Error {
	t.Helper()
	if a.status < 400 || a.status >= 500 {
		t.Errorf("status %d: %s", a.status, a.body)
	}
	n, err := yson.ParseJSON([]byte(a.body), yson.JSONOptions{UTF8: true})
	if err != nil {
		t.Fatalf("a refusal is not JSON: %v\n%s", err, a.body)
	}
	e := errorFrom(t, n)
	if a.header.Get("X-YT-Response-Code") != fmt.Sprint(e.Code) || a.header.Get("X-YT-Error") == "" || e.Code == 0 {
		t.Errorf("headers of a refusal: %v\n%s", a.header, a.body)
	}
	return e
}

func errorFrom(t tester, n yson.Node) *wire.Error {
	t.Helper()
	e := &wire.Error{}
	code, ok1 := n.Get("code")
	message, ok2 := n.Get("message")
	attributes, ok3 := n.Get("attributes")
	inner, ok4 := n.Get("inner_errors")
	if !ok1 || !ok2 || !ok3 || !ok4 {
		t.Fatalf("an error has not all four keys: %s", n)
	}
	number, _ := code.Int64()
	e.Code = int(number)
	e.Message, _ = message.Text()
	e.Attributes = attributes.Entries()
	for _, cause := range inner.Items() {
		e.Inner = append(e.Inner, errorFrom(t, cause))
	}
	return e
}

// get reads a path.
func (c *cluster) get(path string) string {
	c.t.Helper()
	return c.must("get", fmt.Sprintf("{path=%q;return_only_value=%%true}", path), "")
}

func (c *cluster) set(path, value string) {
	c.t.Helper()
	c.must("set", fmt.Sprintf("{path=%q}", path), value)
}

// withPools returns a cluster with a default tree and these pools, parents first: "a", "a/b".
func withPools(t *testing.T, paths ...string) *cluster {
	t.Helper()
	c := newCluster(t)
	c.must("create", `{type=scheduler_pool_tree;attributes={name=default}}`, "")
	for _, path := range paths {
		attributes := fmt.Sprintf("name=%q;pool_tree=default", path[strings.LastIndexByte(path, '/')+1:])
		if parts := strings.Split(path, "/"); len(parts) > 1 {
			attributes += fmt.Sprintf(";parent_name=%q", parts[len(parts)-2])
		}
		c.must("create", "{type=scheduler_pool;attributes={"+attributes+"}}", "")
	}
	return c
}

// Flow and burst pass through pools that have none of their own, from the nearest pool above that
// has some or from the tree, and the one that gives it decides; docs/adr/0004.
func TestFlowAndBurstPassThroughPoolsThatHaveNone(t *testing.T) {
	t.Parallel()
	c := withPools(t, "team", "team/a", "team/a/deep", "team/a/deep/down", "team/b")
	c.must("create", "{type=user;attributes={name=boss}}", "")
	c.set("//sys/pools/team/@acl", "[{action=allow;subjects=[boss];permissions=[write;use]}]")
	const flow = "{guarantee_type=relaxed;resource_flow={cpu=10}}"

	// The owner of a pool of the first level cannot give away the cluster, at any depth.
	owner := c.actingAs("boss")
	for _, pool := range []string{"a", "a/deep", "a/deep/down"} {
		owner.refused("set", fmt.Sprintf("{path=\"//sys/pools/team/%s/@integral_guarantees\"}", pool), flow, auth.CodeAuthorization, "pool tree \"default\"")
	}
	owner.refused("apply_pools", `{document={pools={team={pools={a={pools={deep={integral_guarantees={guarantee_type=relaxed;resource_flow={cpu=10}};pools={down={}}}}};b={}}}}}}`, "",
		auth.CodeAuthorization, "pool tree \"default\"")
	owner.refused("create", `{type=scheduler_pool;attributes={name=c;pool_tree=default;parent_name=team;integral_guarantees={resource_flow={cpu=1}}}}`, "",
		auth.CodeAuthorization, "pool tree \"default\"")
	c.set("//sys/pools/team/a/deep/down/@integral_guarantees", flow)
	c.refused("set", `{path="//sys/pools/team/a/deep/down/@strong_guarantee_resources"}`, "{cpu=2}", wire.CodeGeneric,
		`Strong guarantee is explicitly configured at child pool "down" but is not configured at parent "deep"`,
		"pools/team/a/deep/down/strong_guarantee_resources: has cpu=2")

	// They may divide it differently, but not add to it.
	owner.set("//sys/pools/team/a/deep/down/@integral_guarantees", "{guarantee_type=relaxed;resource_flow={cpu=6}}")
	owner.set("//sys/pools/team/b/@integral_guarantees", "{guarantee_type=relaxed;resource_flow={cpu=0}}")
	owner.refused("set", `{path="//sys/pools/team/b/@integral_guarantees"}`, "{guarantee_type=relaxed;resource_flow={cpu=1}}", auth.CodeAuthorization)

	// Once a pool above has it, its amount bounds what is below, through pools that have none.
	c.refused("set", `{path="//sys/pools/team/@integral_guarantees"}`, "{resource_flow={cpu=5}}", wire.CodeGeneric, "less than the sum of children guarantees")
	c.set("//sys/pools/team/@integral_guarantees", "{resource_flow={cpu=10}}")
	owner.set("//sys/pools/team/b/@integral_guarantees", "{guarantee_type=relaxed;resource_flow={cpu=4}}")
	owner.refused("set", `{path="//sys/pools/team/b/@integral_guarantees/resource_flow"}`, "{cpu=5}", wire.CodeGeneric, "less than the sum of children guarantees")
	owner.refused("set", `{path="//sys/pools/team/a/deep/down/@integral_guarantees/resource_flow"}`, "{cpu=6;gpu=1}", wire.CodeGeneric, "is not configured at parent \"team\"")

	// The owner of a pool in between has nothing to give either.
	c.must("create", "{type=user;attributes={name=lead}}", "")
	c.set("//sys/pools/team/a/@acl", "[{action=allow;subjects=[lead];permissions=[write;use]}]")
	owner.set("//sys/pools/team/b/@integral_guarantees", "{guarantee_type=relaxed;resource_flow={cpu=1}}")
	lead := c.actingAs("lead")
	lead.refused("set", `{path="//sys/pools/team/a/deep/down/@integral_guarantees/resource_flow"}`, "{cpu=7}", auth.CodeAuthorization, "pool \"team\"")
	owner.set("//sys/pools/team/a/deep/down/@integral_guarantees/resource_flow", "{cpu=7}")
}

func TestTheDefaultTreeMayBeMissing(t *testing.T) {
	t.Parallel()
	c := withPools(t, "p")
	alert := func(kind server.AlertKind) (text string) {
		for _, a := range c.Alerts() {
			if a.Kind == kind {
				text = a.Message
			}
		}
		return text
	}
	c.set("//sys/pool_trees/@default_tree", "later")
	if got := alert(server.AlertDefaultTree); !strings.Contains(got, `Default tree "later" is missing`) {
		t.Errorf("the alert says %q", got)
	}
	c.refused("start_operation", "{operation_type=vanilla;spec="+job("p", "sleep", 1)+"}", "", wire.CodePoolTrees, `"later" does not exist`)
	c.refused("get", `{path="//sys/pools/p"}`, "", wire.CodeResolve, `"later" does not exist`)
	c.must("create", "{type=scheduler_pool_tree;attributes={name=later;config={nodes_filter=none}}}", "")
	if got := alert(server.AlertDefaultTree); got != "" {
		t.Errorf("the tree is there, and the alert says %q", got)
	}
	c.must("remove", `{path="//sys/pool_trees/@default_tree"}`, "")
	c.refused("get", `{path="//sys/pool_trees/@default_tree"}`, "", wire.CodeResolve)
	c.refused("set", `{path="//sys/pool_trees/later/@parent_name"}`, "p", wire.CodeGeneric, "cannot be set")
	c.set("//sys/pool_trees/default/p/@mode", "fifo")
	c.set("//sys/pool_trees/default/@default_parent_pool", "p")
	if got := alert(server.AlertDefaultParent); !strings.Contains(got, `Default parent pool "p" of tree "default" is FIFO`) {
		t.Errorf("the alert says %q", got)
	}
	c.set("//sys/pool_trees/default/p/@mode", "fair_share")
	if got := alert(server.AlertDefaultParent); got != "" {
		t.Errorf("the pool is usable, and the alert says %q", got)
	}
}

// Clients and tests of YTsaurus match on these sentences; ours are inside.
func TestRefusalsAreInTheWordsOfYTsaurus(t *testing.T) {
	t.Parallel()
	c := withPools(t, "nirvana", "nirvana/prod", "logfeller")
	for _, k := range []struct{ command, parameters, data, outer, inner string }{
		{"set", `{path="//sys/pools/nirvana/@max_operation_count"}`, "-1", "Validation failed at /max_operation_count", "Expected >= 0, found -1"},
		{"set", `{path="//sys/pools/nirvana/@max_share_ratio"}`, "1.5", "Validation failed at /max_share_ratio", "Expected in range [0,1], found 1.5"},
		{"set", `{path="//sys/pools/nirvana/@max_operation_count"}`, "%true", "Error reading parameter /max_operation_count", `"max_operation_count" cannot be parsed from "boolean"`},
		{"set", `{path="//sys/pools/nirvana/prod/@strong_guarantee_resources"}`, "{cpu=1}", `Strong guarantee is explicitly configured at child pool "prod" but is not configured at parent "nirvana"`, "strong_guarantee_resources: has cpu=1"},
		{"set", `{path="//sys/pools/nirvana/@strong_guarantee_resources"}`, "{user_slots=1}", "Main resource guarantee must be specified in order to set guarantees for any other resource", "strong_guarantee_resources"},
		{"set", `{path="//sys/pools/nirvana/@mode"}`, "fifo", `Pool "nirvana" cannot have subpools since it is in FIFO mode`, `it has "prod"`},
		{"set", `{path="//sys/pools/nirvana/@parent_name"}`, "prod", "Cannot copy or move an object to its descendant", ""},
		{"create", "{type=scheduler_pool;attributes={name=prod;pool_tree=default;parent_name=nirvana}}", "", `Scheduler pool "nirvana" already has a child "prod"`, ""},
		{"create", "{type=scheduler_pool;attributes={name=nirvana;pool_tree=default}}", "", `Scheduler pool tree "default" already has a child "nirvana"`, ""},
		{"create", "{type=scheduler_pool;attributes={name=prod;pool_tree=default}}", "", `Pool tree "default" already contains pool with name "prod"`, ""},
		{"create", `{type=scheduler_pool;attributes={name="a$b";pool_tree=default}}`, "", `Pool name "a$b" must match regular expression`, ""},
		{"get", `{path="//sys/pools/nirvana/@max_operation_count"}`, "", `Error resolving path //sys/pools/nirvana/@max_operation_count`, `Attribute "max_operation_count" is not found`},
		{"remove", `{path="//sys"}`, "", "cannot be removed", ""},
	} {
		a := c.do(k.command, k.parameters, k.data)
		e := parseError(t, a)
		if !strings.Contains(e.Message, k.outer) || !strings.Contains(e.Error(), k.inner) {
			t.Errorf("%s %s %s: %s\nwant %q, inside it %q", k.command, k.parameters, k.data, e.Error(), k.outer, k.inner)
		}
	}
}

// Pool characteristics: "the attributes listed above are attributes of this object".
func TestTheAttributesOfATreeAreListedAndHaveTheirDefaults(t *testing.T) {
	t.Parallel()
	c := withPools(t)
	listed := c.get("//sys/pool_trees/default/@")
	for name, fallback := range map[string]string{
		"nodes_filter": `""`, "max_operation_count": "50000", "max_operation_count_per_pool": "50", "max_running_operation_count": "2000",
		"max_running_operation_count_per_pool": "8", "default_parent_pool": `"<Root>"`, "enable_pool_starvation": "%true",
		"forbid_immediate_operations_in_root": "%true", "max_ephemeral_pool_per_user": "1", "fair_share_preemption_timeout": "30000",
		"min_share_preemption_timeout": "30000", "fair_share_starvation_tolerance": "0.8", "max_unpreemptable_running_job_count": "0",
	} {
		if got := c.get("//sys/pool_trees/default/@" + name); got != fallback {
			t.Errorf("@%s is %s, want its default, %s", name, got, fallback)
		}
		if !strings.Contains(listed, fmt.Sprintf("%q=%s;", name, fallback)) {
			t.Errorf("@ does not list %s", name)
		}
	}
	c.set("//sys/pool_trees/default/@fair-share_starvation_tolerance", "0.5")
	c.set("//sys/pool_trees/default/@fair-share_preemption_timeout", "10000")
	for name, want := range map[string]string{
		"fair-share_starvation_tolerance": "0.5", "fair_share_starvation_tolerance": "0.5", "min_share_preemption_timeout": "10000",
		"config": `{"fair_share_preemption_timeout"=10000;"fair_share_starvation_tolerance"=0.5;}`,
	} {
		if got := c.get("//sys/pool_trees/default/@" + name); got != want {
			t.Errorf("@%s is %s, want %s", name, got, want)
		}
	}
}

func TestTheDocumentsCommandsAboutPools(t *testing.T) {
	t.Parallel()
	c := withPools(t, "root-pool", "root-pool/burst", "root-pool/relaxed")
	c.set("//sys/pools/root-pool/burst/@integral-guarantees/resource_flow", "{cpu=100}")
	if got := c.get("//sys/pools/root-pool/burst/@integral_guarantees/resource_flow"); got != `{"cpu"=100;}` {
		t.Error(got)
	}
	c.set("//sys/pools/root-pool/burst/@integral-guarantees", `
   {
     guarantee_type=burst;
     resource_flow={cpu=1000};
     burst_guarantee_resources={cpu=2000}
   }`)
	c.set("//sys/pools/root-pool/relaxed/@integral-guarantees", `
    {
      guarantee_type=relaxed;
      resource_flow={cpu=1000}
    }`)
	if got := c.get("//sys/pools/root-pool/relaxed/@integral-guarantees"); got != `{"guarantee_type"="relaxed";"resource_flow"={"cpu"=1000;};}` {
		t.Error(got)
	}
}
