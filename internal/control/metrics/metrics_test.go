package metrics

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/control/notify"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/node/kube"
	"github.com/weirhq/weir/internal/node/picture"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/test/expected"
	"github.com/weirhq/weir/test/fakenode"
)

// newServer starts a leading server with pools and nodes of ten cores each.
func newServer(t testing.TB, pools string, nodes int) *server.Server {
	t.Helper()
	db, err := store.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "weir.db"))
	if err != nil {
		t.Fatal(err)
	}
	settings := server.DefaultSettings()
	settings.UpdatePeriod, settings.HeartbeatPeriod, settings.HeartbeatSplay = 20*time.Millisecond, 50*time.Millisecond, 0
	// On a busy machine, renewing the lease or committing may take long.
	settings.LeaseTTL, settings.StallPatience = time.Minute, time.Hour
	s := server.New(server.Options{Store: db, Name: t.Name(), Address: "test:1", Settings: settings, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	<-s.Led()
	setPools(t, s, pools)
	if nodes == 0 {
		return s
	}
	cluster := fakenode.New(fakenode.Config{
		Count: nodes, Resources: resource.Amounts{resource.UserSlots: 10, resource.CPU: 1000, resource.Memory: 40 << 30, resource.GPU: 2},
		Caller: func(int) fakenode.Caller { return fakenode.Direct(s.NodeService()) }, Script: fakenode.Steady(time.Hour), Seed: 1,
	})
	t.Cleanup(cluster.Close)
	if err := cluster.Await(t.Context(), func(totals fakenode.Totals) bool { return totals.Registered == nodes }); err != nil {
		t.Fatal(err)
	}
	return s
}

func setPools(t testing.TB, s *server.Server, text string) {
	t.Helper()
	tree, _, err := pooltree.FromValue(expected.Document(t, text), pooltree.Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = s.EditTrees(t.Context(), server.Caller{User: "root"}, func(trees *server.Trees) (*server.Trees, error) {
		next := trees.Put("default", tree)
		next.Default = "default"
		return next, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func start(t testing.TB, s *server.Server, spec string) {
	t.Helper()
	read, err := operation.Read(expected.Document(t, spec), operation.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.StartOperation(t.Context(), server.Caller{User: "anna"}, server.Start{Type: "vanilla", User: "anna", Spec: read}); err != nil {
		t.Fatal(err)
	}
}

// await waits until a view of the server satisfies the condition.
func await(t testing.TB, s *server.Server, what string, holds func(*server.View) bool) {
	t.Helper()
	if !expected.Soon(func() bool { return holds(s.View()) }) {
		t.Fatalf("it never happened: %s", what)
	}
}

func poolOf(v *server.View, name string) *core.Pool {
	tree, there := v.Tree("default")
	if !there {
		return &core.Pool{}
	}
	pool, there := tree.Pool(name)
	if !there {
		return &core.Pool{}
	}
	return pool
}

// The scheduler preempts nothing, even if a test takes long.
const busyPools = `
fair_share_starvation_timeout: 2m
pools:
  production: {strong_guarantee_resources: {cpu: 12}, resource_limits: {cpu: 25, memory: 100GiB}}
  research:
    integral_guarantees: {guarantee_type: relaxed, resource_flow: {cpu: 4}}
    pools: {vision: {weight: 2}}
  tagged: {strong_guarantee_resources: {cpu: 4}, scheduling_tag_filter: nowhere}
`

// busy returns a server with running and waiting jobs.
func busy(t testing.TB) *server.Server {
	t.Helper()
	s := newServer(t, busyPools, 3)
	start(t, s, "{pool: production, tasks: {t: {job_count: 10, command: x, cpu_limit: 1, memory_limit: 1GiB}}}")
	start(t, s, "{pool: vision, tasks: {t: {job_count: 40, command: x, cpu_limit: 1, memory_limit: 1GiB}}}")
	start(t, s, "{tasks: {t: {job_count: 5, command: x, cpu_limit: 1, memory_limit: 1GiB}}}")
	await(t, s, "jobs fill the nodes", func(v *server.View) bool { return poolOf(v, core.RootName).RunningJobs == 30 })
	return s
}

// gathered returns the metric families of one scrape.
func gathered(t testing.TB, m *Metrics) map[string]*dto.MetricFamily {
	t.Helper()
	families, done, err := (*gatherer)(m).Gather()
	defer done()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*dto.MetricFamily{}
	for _, family := range families {
		found[family.GetName()] = family
	}
	return found
}

// valueOf returns the value of the series with these labels, given as alternating names and
// values.
func valueOf(t testing.TB, family *dto.MetricFamily, labels ...string) float64 {
	t.Helper()
	for _, series := range family.GetMetric() {
		matches := 0
		for i := 0; i < len(labels); i += 2 {
			if slices.ContainsFunc(series.GetLabel(), func(p *dto.LabelPair) bool { return p.GetName() == labels[i] && p.GetValue() == labels[i+1] }) {
				matches += 2
			}
		}
		if matches == len(labels) {
			return series.GetGauge().GetValue() + series.GetCounter().GetValue()
		}
	}
	t.Errorf("%s has no series %q", family.GetName(), labels)
	return math.NaN()
}

func page0(t testing.TB, handler http.Handler) string {
	t.Helper()
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if answer.Code != http.StatusOK {
		t.Fatalf("%d: %s", answer.Code, answer.Body)
	}
	return answer.Body.String()
}

// someCounts are those of a driver that has done everything.
func someCounts() kube.Counts {
	return kube.Counts{
		Writes: []kube.WriteCount{{Verb: "create", Code: "200", Count: 7}}, Binds: []kube.ResultCount{{Result: "done", Count: 7}}, Rate: 200,
		Evictions: []kube.ResultCount{{Result: "protected", Count: 1}}, Resizes: []kube.ResultCount{{Result: "done", Count: 2}},
		BindTimes: kube.Times{Bounds: []time.Duration{time.Second}, Counts: []uint64{7}, Count: 7, Sum: time.Second},
		Waits:     []kube.WaitTimes{{Tree: "default", Pool: "lab", Times: kube.Times{Bounds: []time.Duration{time.Second}, Counts: []uint64{6}, Count: 7, Sum: time.Minute}}},
		Standing:  picture.Standing{Pending: []picture.Pending{{Tree: "default", Pool: "lab", Reason: "Unschedulable", Count: 3}}, Classes: 2, FiguresAge: 3 * time.Second},
		Watches:   []kube.WatchAge{{Resource: "pods", Age: time.Second}},
	}
}

func TestThePageIsAsPrometheusLikesIt(t *testing.T) {
	notifier := notify.New([]*notify.Target{{Name: "chat"}}, nil, nil, nil, nil)
	m := New(busy(t), Options{Version: "1.2.3", Notifier: notifier, Kube: someCounts})
	m.cluster.patience = time.Minute // show the size of the store however busy the machine is
	m.Instrument(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	text := page0(t, m.Handler())
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	found := gathered(t, m)
	for _, d := range Definitions {
		family := found[d.Name]
		if family == nil {
			// No pool here has a burst guarantee, no forecast has an outcome, and there is no budget.
			if d.Name != Definitions[poolBurst].Name && !strings.Contains(d.Name, "forecast") && !strings.Contains(d.Name, "budget") {
				t.Errorf("%s is not on the page", d.Name)
			}
			continue
		}
		if family.GetHelp() != d.Help || !strings.EqualFold(family.GetType().String(), d.Type) {
			t.Errorf("%s: %s, %q", d.Name, family.GetType(), family.GetHelp())
		}
		for _, series := range family.GetMetric() {
			var names []string
			for _, label := range series.GetLabel() {
				names = append(names, label.GetName())
			}
			want := slices.Sorted(slices.Values(d.Labels))
			if !slices.Equal(names, want) {
				t.Fatalf("%s has labels %q, want %q", d.Name, names, want)
			}
		}
	}
	for name := range found {
		if !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") &&
			!slices.ContainsFunc(Definitions[:], func(d Definition) bool { return d.Name == name }) {
			t.Errorf("%s is not defined", name)
		}
	}
}

func TestThePageIsCompressedOnRequest(t *testing.T) {
	m := New(newServer(t, busyPools, 1), Options{})
	request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	request.Header.Set("Accept-Encoding", "gzip")
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, request)
	reader, err := gzip.NewReader(bytes.NewReader(answer.Body.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(reader)
	if err != nil || !strings.Contains(string(text), "\nweir_leading_status 1\n") {
		t.Errorf("%v: %.200s", err, text)
	}
}

// The metrics equal what the server shows to its other readers.
func TestThePageAgreesWithTheServer(t *testing.T) {
	s := busy(t)
	m := New(s, Options{Version: "1.2.3"})
	found := gathered(t, m)
	for _, c := range []struct {
		metric metric
		want   float64
		labels []string
	}{
		{leadingStatus, 1, nil},
		{leaderEpoch, 1, nil},
		{treeResources, 30, []string{"resource", "cpu"}},
		{treeUsage, 30, []string{"resource", "cpu"}},
		{treeDemand, 55, []string{"resource", "cpu"}},
		{treeRunningJobs, 30, nil},
		{treePendingJobs, 25, nil},
		{treePools, 5, nil},
		{nodesByState, 3, []string{"tree", "default", "state", "online"}},
		{operationsByState, 3, []string{"state", "running"}},
		{operationsStarted, 3, nil},
		{poolUsage, 10, []string{"pool", "production", "resource", "cpu"}},
		{poolUsage, poolOf(s.View(), "production").Usage.Float(resource.Memory), []string{"pool", "production", "resource", "memory"}},
		{poolDemand, 40, []string{"pool", "research", "resource", "cpu"}},
		{poolStrong, 12, []string{"pool", "production", "resource", "cpu"}},
		{poolLimit, 25, []string{"pool", "production", "resource", "cpu"}},
		{poolFlow, 4, []string{"pool", "research", "resource", "cpu"}},
		{poolEffectiveStrong, 0, []string{"pool", "tagged", "resource", "cpu"}},
		{poolVolumeCapacity, 86400 * 4 / 30., []string{"pool", "research"}},
		{poolRunningJobs, 10, []string{"pool", "production"}},
		{poolOperations, 1, []string{"pool", "vision"}},
		{poolInfo, 1, []string{"pool", "vision", "parent", "research", "mode", "fair_share"}},
		{poolInfo, 1, []string{"pool", "anna", "mode", "ephemeral"}},
		{alertStatus, 0, []string{"alert", "store_unavailable"}},
		{storeInfo, 1, []string{"engine", "sqlite"}},
		{buildInfo, 1, []string{"version", "1.2.3"}},
	} {
		d := &Definitions[c.metric]
		if got := valueOf(t, found[d.Name], c.labels...); math.Abs(got-c.want) > 1e-9*c.want {
			t.Errorf("%s%q is %v, want %v", d.Name, c.labels, got, c.want)
		}
	}
	started := 0.0
	for _, series := range found["weir_jobs_started_total"].GetMetric() {
		started += series.GetCounter().GetValue()
	}
	if started < 30 {
		t.Errorf("%v jobs were started", started)
	}
	tree := s.View().Trees[0]
	for pool := range tree.Pools() {
		configured, there := tree.Configured(pool)
		if !there {
			continue
		}
		want := pool.StrongGuarantee.Of(tree.Total)
		for _, k := range []resource.Kind{resource.CPU, resource.Memory, resource.UserSlots} {
			got := valueOf(t, found["weir_pool_effective_strong_guarantee_amount"], "pool", pool.Name, "resource", k.String())
			if got != want.Float(k) {
				t.Errorf("effective guarantee of %s in %v: %v, want %v", pool.Name, k, got, want.Float(k))
			}
		}
		if configured.Config().Integral.Type.Value() != pooltree.NoIntegral {
			if got := valueOf(t, found["weir_pool_volume_capacity_seconds"], "pool", pool.Name); math.Abs(got-pool.CapacityRatio) > 1e-9 {
				t.Errorf("capacity of %s: %v, want %v", pool.Name, got, pool.CapacityRatio)
			}
		}
		total := 0.0
		for _, cause := range causes[:3] {
			total += valueOf(t, found["weir_pool_fair_share_ratio"], "pool", pool.Name, "resource", "cpu", "cause", cause)
		}
		if all := valueOf(t, found["weir_pool_fair_share_ratio"], "pool", pool.Name, "resource", "cpu", "cause", "total"); math.Abs(all-total) > 1e-9 {
			t.Errorf("%s: causes add up to %v, not to %v", pool.Name, total, all)
		}
	}
}

// A second scrape updates the series of the first, and a new configuration creates other series.
func TestSeriesFollowValuesAndConfiguration(t *testing.T) {
	s := busy(t)
	m := New(s, Options{})
	before := gathered(t, m)["weir_pool_usage_amount"]
	start(t, s, "{pool: tagged, tasks: {t: {job_count: 7, command: x, cpu_limit: 1, memory_limit: 1GiB}}}")
	await(t, s, "the demand is seen", func(v *server.View) bool { return poolOf(v, "tagged").Demand[resource.CPU] == 700 })
	second := gathered(t, m)
	if second["weir_pool_usage_amount"] != before {
		t.Error("series were made again although nothing but values changed")
	}
	if got := valueOf(t, second["weir_pool_demand_amount"], "pool", "tagged", "resource", "cpu"); got != 7 {
		t.Errorf("demand is %v, want 7", got)
	}
	setPools(t, s, busyPools+"  more: {integral_guarantees: {guarantee_type: burst, burst_guarantee_resources: {cpu: 5}, resource_flow: {cpu: 1}}}\n")
	await(t, s, "the pool is there", func(v *server.View) bool { return poolOf(v, "more").Name == "more" })
	third := gathered(t, m)
	if got := valueOf(t, third["weir_pool_burst_guarantee_amount"], "pool", "more", "resource", "cpu"); got != 5 {
		t.Errorf("burst guarantee is %v, want 5", got)
	}
	if got := valueOf(t, third["weir_pool_usage_amount"], "pool", "production", "resource", "cpu"); got != 10 {
		t.Errorf("usage is %v, want 10", got)
	}
}

// A guaranteed pool preempts jobs of a pool that used everything.
func TestPreemptionsAreCountedOnBothSides(t *testing.T) {
	s := newServer(t, "{preemptive_scheduling_backoff: 0s, pools: {greedy: {}, owner: {strong_guarantee_resources: {cpu: 15}, fair_share_starvation_timeout: 50ms}}}", 2)
	start(t, s, "{pool: greedy, tasks: {t: {job_count: 40, command: x, cpu_limit: 1, memory_limit: 1GiB}}}")
	await(t, s, "the greedy pool has all", func(v *server.View) bool { return poolOf(v, "greedy").RunningJobs == 20 })
	start(t, s, "{pool: owner, tasks: {t: {job_count: 15, command: x, cpu_limit: 1, memory_limit: 1GiB}}}")
	await(t, s, "the owner has most of its guarantee", func(v *server.View) bool { return poolOf(v, "owner").RunningJobs >= 10 })
	found := gathered(t, New(s, Options{}))
	suffered := valueOf(t, found["weir_pool_preemptions_suffered_total"], "pool", "greedy")
	caused := valueOf(t, found["weir_pool_preemptions_caused_total"], "pool", "owner")
	total := valueOf(t, found["weir_preemptions_total"], "reason", "preemption")
	aborted := valueOf(t, found["weir_jobs_aborted_total"], "reason", "preemption")
	// The counters grow during the scrape, and they are read one after the other.
	if aborted == 0 || total < max(10, aborted) || suffered < total || caused < suffered {
		t.Errorf("suffered %v, caused %v, all %v, aborted %v", suffered, caused, total, aborted)
	}
	if got := valueOf(t, found["weir_pool_preemptions_suffered_total"], "pool", "owner"); got != 0 {
		t.Errorf("the owner suffered %v", got)
	}
	if got := valueOf(t, found["weir_preemption_lost_amount_seconds_total"], "rule", "starving", "resource", "cpu"); got <= 0 {
		t.Errorf("%v core·s are lost", got)
	}
	if got := valueOf(t, found["weir_preemption_cycles_total"]); got != 0 {
		t.Errorf("%v cycles", got)
	}
}

// A scrape does not wait while a request blocks the loop.
func TestAScrapeDoesNotWaitForTheLoop(t *testing.T) {
	s := busy(t)
	m := New(s, Options{})
	held, release, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- s.EditRegistry(context.Background(), server.Caller{User: "root"}, func(*server.Registry) (*store.Batch, error) {
			close(held)
			<-release
			return &store.Batch{}, nil
		})
	}()
	<-held
	text := page0(t, m.Handler())
	close(release)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text, `weir_pool_running_jobs{pool="production",tree="default"} 10`) {
		t.Error("the page has no pools")
	}
}

func TestAStandbyShowsThatItStandsBy(t *testing.T) {
	db, err := store.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "weir.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	text := page0(t, Handler(server.New(server.Options{Store: db, Name: "standby"}), "1"))
	for _, want := range []string{"\nweir_leading_status 0\n", "\nweir_leader_known_status 0\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q", want)
		}
	}
	if strings.Contains(text, "weir_pool_") || strings.Contains(text, "weir_last_update_timestamp_seconds ") {
		t.Error("it shows pools")
	}
}

func TestTheRestOfThePoolsIsSummedUp(t *testing.T) {
	pools := "pools:\n  large: {pools: {a: {}, b: {}}}\n  promised: {strong_guarantee_resources: {cpu: 20}}\n"
	for i := range 10 {
		pools += fmt.Sprintf("  small-%d: {pools: {inner-%d: {}}}\n", i, i)
	}
	s := newServer(t, pools, 3)
	start(t, s, "{pool: a, tasks: {t: {job_count: 12, command: x, cpu_limit: 1, memory_limit: 1GiB}}}")
	await(t, s, "large jobs run", func(v *server.View) bool { return poolOf(v, "a").RunningJobs == 12 })
	for i := range 10 {
		start(t, s, fmt.Sprintf("{pool: inner-%d, tasks: {t: {job_count: 1, command: x, cpu_limit: 1, memory_limit: 1GiB}}}", i))
	}
	await(t, s, "small jobs run", func(v *server.View) bool { return poolOf(v, core.RootName).RunningJobs == 22 })
	found := gathered(t, New(s, Options{MaxPools: 3}))
	var shown []string
	for _, series := range found["weir_pool_running_jobs"].GetMetric() {
		shown = append(shown, series.GetLabel()[0].GetValue())
	}
	if want := []string{core.RootName, "large", "a", "promised", Others}; !slices.Equal(slices.Sorted(slices.Values(shown)), slices.Sorted(slices.Values(want))) {
		t.Errorf("shown: %q, want %q", shown, want)
	}
	if got := valueOf(t, found["weir_pool_running_jobs"], "pool", Others); got != 10 {
		t.Errorf("others run %v jobs, want 10", got)
	}
	if got := valueOf(t, found["weir_pool_usage_amount"], "pool", Others, "resource", "cpu"); got != 10 {
		t.Errorf("others use %v cores, want 10", got)
	}
}

// Whatever the tree and the limit, at most limit pools are shown, together with their parents,
// and every hidden pool is below exactly one that is summed up.
func TestChoiceOfPoolsIsClosedAndBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		trees := make([]poolTree, rapid.IntRange(1, 3).Draw(t, "trees"))
		all := 0
		for i := range trees {
			tree := poolTree{name: fmt.Sprint(i), total: resource.Amounts{resource.CPU: 1000}}
			count := rapid.IntRange(1, 30).Draw(t, "pools")
			for at := range count {
				p, parent := &core.Pool{Name: fmt.Sprint(at)}, int32(-1)
				if at > 0 {
					parent = int32(rapid.IntRange(0, at-1).Draw(t, "parent"))
				}
				p.Usage[resource.CPU] = rapid.Int64Range(0, 5).Draw(t, "usage")
				tree.pools, tree.parents = append(tree.pools, p), append(tree.parents, parent)
			}
			trees[i] = tree
			all += count - 1
		}
		limit := rapid.IntRange(0, 60).Draw(t, "limit")
		choose(trees, limit)
		shown := 0
		for i := range trees {
			tree := &trees[i]
			shown += len(tree.shown) - 1
			covered := map[int32]int{}
			for _, at := range tree.hidden {
				covered[at]++
			}
			for at := range tree.pools {
				visible := slices.Contains(tree.shown, int32(at))
				if parent := tree.parents[at]; visible && parent >= 0 && !slices.Contains(tree.shown, parent) {
					t.Fatalf("pool %d is shown, its parent %d is not", at, parent)
				}
				sums := 0
				for above := int32(at); above >= 0; above = tree.parents[above] {
					sums += covered[above]
				}
				if visible == (sums == 1) || sums > 1 {
					t.Fatalf("pool %d: shown %v, summed up %d times", at, visible, sums)
				}
			}
		}
		if want := min(limit, all); shown != want {
			t.Fatalf("%d pools are shown, want %d", shown, want)
		}
	})
}

func TestRequestsAreCountedByKnownCommandsOnly(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v4", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `[{"name": "get", "is_heavy": false}, {"name": "list"}]`)
	})
	mux.HandleFunc("/api/v4/get", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/api/v4/list", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		w.(http.Flusher).Flush()
	})
	m := New(newServer(t, busyPools, 0), Options{})
	handler := m.Instrument(mux)
	for _, path := range []string{"/api/v4/get", "/api/v4/get", "/api/v3/get", "/api/v4/list", "/api/v4/nonsense", "/api/v4/nonsense/2", "/x"} {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil))
	}
	family := gathered(t, m)["weir_api_requests_total"]
	for _, c := range []struct {
		command, code string
		want          float64
	}{{"get", "2xx", 2}, {"get", "4xx", 1}, {"list", "5xx", 1}, {otherCommand, "4xx", 3}} {
		if got := valueOf(t, family, "command", c.command, "code", c.code); got != c.want {
			t.Errorf("%s %s: %v, want %v", c.command, c.code, got, c.want)
		}
	}
	if n := len(family.GetMetric()); n != 4 {
		t.Errorf("%d series, want 4", n)
	}
}
