package app

import (
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/command/config"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/test/expected"
)

// call sends a command with a value in JSON and returns the answer. It repeats a command that is refused because the disk
// is too slow.
func call(t *testing.T, s *Scheduler, method, command, path, body string) (status int, text string) {
	t.Helper()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		if status, text = callOnce(t, s, method, command, path, body); status != http.StatusServiceUnavailable {
			return status, text
		}
		<-ticker.C
	}
}

func callOnce(t *testing.T, s *Scheduler, method, command, path, body string) (int, string) {
	t.Helper()
	query := url.Values{"path": {path}}
	request, err := http.NewRequestWithContext(t.Context(), method, s.URL+"/api/v4/"+command+"?"+query.Encode(), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// A change of //sys/scheduler/config takes effect at once, is refused if it cannot,
// and also holds after a restart, when it reaches the core too.
func TestTheConfigurationChangesWhileTheSchedulerRuns(t *testing.T) {
	c := &cluster{t: t, directory: t.TempDir()}
	start := func() (*Scheduler, func()) {
		settings := config.Default()
		s := &settings.Scheduler
		s.Listen, s.DataDir = document.Some("127.0.0.1:0"), document.Some(filepath.Join(c.directory, "scheduler"))
		s.TrustLoopback = document.Some(true)
		s.Leader.LeaseTTL = document.Some(time.Minute)
		scheduler, err := NewScheduler(t.Context(), s, "test", slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		stop := c.run(scheduler.Run)
		t.Cleanup(stop)
		<-scheduler.Server.Led()
		return scheduler, stop
	}
	s, stop := start()
	set := func(path, value string, want int) string {
		t.Helper()
		status, text := call(t, s, http.MethodPut, "set", "//sys/scheduler/config"+path, value)
		if status != want {
			t.Errorf("%s = %s: %d, %s", path, value, status, text)
		}
		return text
	}
	set("/snapshot_period", "120000", http.StatusOK)
	set("/pool_change_is_allowed", "false", http.StatusOK)
	set("/max_operation_count", "3", http.StatusOK)
	if got := s.Server.Settings(); got.SnapshotPeriod != 2*time.Minute || got.PoolChange || got.UpdatePeriod != 200*time.Millisecond {
		t.Errorf("%+v", got)
	}
	for _, wrong := range []struct{ path, value, says string }{
		{"/listen", `":1"`, "cannot change while the scheduler runs"},
		{"/snapshot_period", `"soon"`, "must be a duration"},
		{"/node_heartbeat_timeout", "1000", "must be at least twice node_heartbeat_period"},
	} {
		if text := set(wrong.path, wrong.value, http.StatusBadRequest); !strings.Contains(text, wrong.says) {
			t.Errorf("%s: %s", wrong.path, text)
		}
	}
	if got := s.Server.Settings().SnapshotPeriod; got != 2*time.Minute {
		t.Errorf("what is refused holds: %v", got)
	}
	stop()
	s, _ = start()
	if got := s.Server.Settings(); got.SnapshotPeriod != 2*time.Minute || got.Core.MaxOperations != 3 || got.PoolChange {
		t.Errorf("after a restart: %+v", got)
	}
	if status, text := call(t, s, http.MethodPost, "remove", "//sys/scheduler/config/snapshot_period", ""); status != http.StatusOK {
		t.Fatal(text)
	}
	if got := s.Server.Settings().SnapshotPeriod; got != 5*time.Minute {
		t.Errorf("what is removed holds: %v", got)
	}
}

// Options that a tree does not set come from the templates whose filters match its name, the one with the
// highest priority first. Templates change while the scheduler runs; the trees' own options stay as written.
func TestTreesFollowTheirTemplates(t *testing.T) {
	c := newCluster(t, 1, 1)
	s := c.scheduler
	const templates = "//sys/scheduler/config/template_pool_tree_config_map"
	must := func(method, command, path, value string) string {
		t.Helper()
		status, text := call(t, s, method, command, path, value)
		if status != http.StatusOK {
			t.Fatalf("%s %s %s: %d, %s", command, path, value, status, text)
		}
		return text
	}
	setting := func(option string) int {
		t.Helper()
		tree, there := s.Server.Trees().Find("default")
		if !there {
			t.Fatal("there is no default tree")
		}
		settings := tree.Tree.Settings()
		switch option {
		case "max_operation_count":
			return settings.MaxOperationCount.Value()
		case "max_running_operation_count_per_pool":
			return settings.MaxRunningOperationCountPerPool.Value()
		}
		return settings.MaxOperationCountPerPool.Value()
	}
	// becomes waits until the loop has published the trees.
	becomes := func(option string, want int) {
		t.Helper()
		if !expected.Soon(func() bool { return setting(option) == want }) {
			t.Errorf("%s is %d, want %d", option, setting(option), want)
		}
	}
	must(http.MethodPut, "set", "//sys/pool_trees/default/@config/max_operation_count", "3000")
	must(http.MethodPut, "set", templates, `{
		"all": {"priority": 1, "filter": ".*", "config": {"max_operation_count": 4000, "max_operation_count_per_pool": 7, "max_running_operation_count_per_pool": 5}},
		"some": {"priority": 2, "filter": "def.*", "config": {"max_running_operation_count_per_pool": 4}},
		"others": {"priority": 3, "filter": "def", "config": {"max_running_operation_count_per_pool": 3}}}`)
	becomes("max_running_operation_count_per_pool", 4) // by the higher priority; "def" is not the whole name
	becomes("max_operation_count_per_pool", 7)         // by the lower
	becomes("max_operation_count", 3000)               // by the tree itself
	if got := must(http.MethodGet, "get", "//sys/pool_trees/default/@config", ""); strings.Contains(got, "per_pool") {
		t.Errorf("the tree's own configuration is %s", got)
	}
	if got := must(http.MethodGet, "get", "//sys/pool_trees/default/@max_operation_count_per_pool", ""); !strings.Contains(got, "7") {
		t.Errorf("the option reads as %s", got)
	}
	// An edit of the tree keeps the templates.
	must(http.MethodPut, "set", "//sys/pool_trees/default/@config/max_operation_count", "3500")
	becomes("max_operation_count", 3500)
	becomes("max_operation_count_per_pool", 7)

	for value, says := range map[string]string{
		`{"a": {"filter": "x"}, "b": {"filter": "y"}}`:                  "has the same priority",
		`{"a": {"config": {}}}`:                                         "a template needs a filter",
		`{"a": {"filter": "("}}`:                                        "a regular expression",
		`{"a": {"filter": "x", "config": {"nodes_filter": "ssd"}}}`:     "every tree sets its own nodes_filter",
		`{"a": {"filter": "x", "config": {"max_operation_count": -1}}}`: "max_operation_count",
	} {
		status, text := call(t, s, http.MethodPut, "set", templates, value)
		if status != http.StatusBadRequest || !strings.Contains(text, says) {
			t.Errorf("%s: %d, %s, want %q", value, status, text, says)
		}
	}
	becomes("max_operation_count_per_pool", 7)

	// A template that would make a tree invalid does not hold for it, and an alert reports this.
	must(http.MethodPut, "set", templates, `{"all": {"filter": ".*", "config": {"max_operation_count_per_pool": 6, "max_running_operation_count_per_pool": 9}}}`)
	alerted := func() bool {
		return strings.Contains(must(http.MethodGet, "get", "//sys/scheduler/@alerts", ""), "does not follow template_pool_tree_config_map")
	}
	if !expected.Soon(alerted) {
		t.Error("there is no alert about the template")
	}
	becomes("max_operation_count_per_pool", 7)
	must(http.MethodPost, "remove", templates, "")
	becomes("max_operation_count_per_pool", 50)
	if !expected.Soon(func() bool { return !alerted() }) {
		t.Error("the alert stays")
	}
}

func TestAStoredPatchThatDoesNotFitIsLeftOut(t *testing.T) {
	c := newCluster(t, 1, 1)
	status, text := call(t, c.scheduler, http.MethodPut, "set", "//sys/scheduler/config", `{"node_heartbeat_period": 20000}`)
	if status != http.StatusOK {
		t.Fatal(text)
	}
	settings := config.Default()
	settings.Scheduler.Nodes.HeartbeatTimeout = document.Some(30 * time.Second)
	var log strings.Builder
	changed := &Scheduler{log: slog.New(slog.NewTextHandler(&log, nil))}
	changed.running.Store(&settings.Scheduler)
	got := changed.derived(c.scheduler.Server.Registry())
	if got.HeartbeatPeriod != 5*time.Second || !strings.Contains(log.String(), "must be at least twice") {
		t.Errorf("%v, %s", got.HeartbeatPeriod, log.String())
	}
}

// A node reports that it is alive and whether the scheduler answers, and serves
// profiles if that is enabled.
func TestANodeServesItsHealth(t *testing.T) {
	c := newCluster(t, 1, 1)
	settings := config.Default()
	n := &settings.Node
	n.Schedulers, n.Name = document.Some([]string{c.scheduler.Address}), document.Some("healthy")
	n.DataDir = document.Some(filepath.Join(c.directory, "healthy"))
	n.Listen = document.Some("127.0.7.1:0") // where nobody else takes the port when it is free again
	n.Pprof, n.Cgroup.Mode = document.Some(true), document.Some("off")
	node, err := NewNode(t.Context(), n, "test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	address := node.health.addressOr("")
	get := func(path string) (int, string) {
		response, err := http.Get("http://" + address + path)
		if err != nil {
			return 0, err.Error()
		}
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		return response.StatusCode, string(text)
	}
	stop := c.run(node.Run)
	c.await("the node is ready", func() bool { status, _ := get("/readyz"); return status == http.StatusOK })
	for path, want := range map[string]string{"/healthz": "ok\n", "/debug/pprof/cmdline": "app.test", "/nothing": "404"} {
		if _, text := get(path); !strings.Contains(text, want) {
			t.Errorf("%s says %q", path, text)
		}
	}
	if record, _ := c.scheduler.Server.Node("healthy"); record == nil || record.Address != address {
		t.Errorf("the scheduler knows %+v, not %s", record, address)
	}
	stop()
	if status, _ := get("/healthz"); status != 0 {
		t.Error("it is served after the end")
	}
	if err := node.End(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestWithoutAnAddressNothingIsServed(t *testing.T) {
	h, err := newHealth(&config.Node{}, slog.New(slog.DiscardHandler))
	if err != nil || h != nil {
		t.Fatal(h, err)
	}
	if err := h.serve(nil)(); err != nil || h.close() != nil || h.addressOr("n") != "n" {
		t.Error("nothing is not nothing")
	}
	everywhere, err := newHealth(&config.Node{Listen: document.Some(":0")}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if address := everywhere.addressOr("n"); !strings.HasPrefix(address, "n:") {
		t.Errorf("others are told %s", address)
	}
	if err := everywhere.close(); err != nil {
		t.Error(err)
	}
}
