package feasibility_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/engine/feasibility"
	"github.com/weirhq/weir/internal/value/resource"
)

const gib = 1 << 30

// proportional is a cluster with one slot and 4 GiB for every core.
func proportional(cores float64) feasibility.Cluster {
	var total resource.Amounts
	total[resource.CPU] = resource.FromFloat(resource.CPU, cores)
	total[resource.UserSlots] = int64(cores)
	total[resource.Memory] = int64(cores * 4 * gib)
	return feasibility.Cluster{Total: total}
}

func cores(v float64) (a resource.Amounts) {
	a[resource.CPU] = resource.FromFloat(resource.CPU, v)
	return a
}

func someCores(v float64) resource.Partial {
	return resource.Partial{}.With(resource.CPU, resource.FromFloat(resource.CPU, v))
}

func strong(name string, parent int, v float64) feasibility.Pool {
	return feasibility.Pool{Name: name, Parent: parent, Strong: someCores(v)}
}

func burst(name string, parent int, peak, flow float64) feasibility.Pool {
	return feasibility.Pool{Name: name, Parent: parent, Type: feasibility.Burst, Burst: cores(peak), Flow: cores(flow)}
}

func relaxed(name string, parent int, flow float64) feasibility.Pool {
	return feasibility.Pool{Name: name, Parent: parent, Type: feasibility.Relaxed, Flow: cores(flow)}
}

const root = feasibility.Root

func check(t testing.TB, cluster feasibility.Cluster, pools ...feasibility.Pool) feasibility.Verdict {
	t.Helper()
	v, err := feasibility.Check(cluster, pools, nil, feasibility.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// broken returns the codes of broken findings, each with its conflict.
func broken(v feasibility.Verdict) []string {
	var list []string
	for _, f := range v.Findings {
		if f.Severity == feasibility.Broken {
			list = append(list, strings.TrimSuffix(string(f.Code)+": "+strings.Join(f.Pools(), " "), ": "))
		}
	}
	return list
}

func TestTheDocumentsExampleFitsTwoThousandCores(t *testing.T) {
	promises := []feasibility.Pool{burst("production", root, 2000, 1000), relaxed("research", root, 1000)}

	v := check(t, proportional(2000), promises...)
	if !v.OK {
		t.Fatalf("2000 cores: %v", v.Findings)
	}
	if v.Needs.String() != "2000 cpu" {
		t.Errorf("needs %v", v.Needs)
	}
	// Production starts with a full bucket and uses everything for a day.
	want := &feasibility.Starvation{
		Resource: resource.CPU, Available: 200_000, Flow: 100_000, Multiplier: 3,
		Period: 24 * time.Hour, CatchesUp: true, Delay: 24 * time.Hour, Window: 24 * time.Hour,
		Backlog: 86.4e6, Capacity: 86.4e6, Proved: true,
		Breakpoints: []feasibility.Breakpoint{{Window: 24 * time.Hour, Burst: 172.8e6, Promised: 86.4e6}},
	}
	if diff := cmp.Diff(want, v.Proof.Relaxed); diff != "" {
		t.Error(diff)
	}

	v = check(t, proportional(1900), promises...)
	if diff := cmp.Diff([]string{"flow_over_cluster: production research", "burst_over_cluster: production"}, broken(v)); diff != "" || v.OK {
		t.Errorf("1900 cores: %s", diff)
	}
	if v.Needs.String() != "2000 cpu" {
		t.Errorf("1900 cores: needs %v", v.Needs)
	}
	for _, f := range v.Findings[:2] {
		if f.Required != 200_000 || f.Available != 190_000 || f.Resource != resource.CPU || !f.Smallest || f.ConflictRequired != 200_000 {
			t.Errorf("1900 cores: %+v", f)
		}
	}
	const says = "strong and burst guarantees need 2000 cpu, the cluster has 1900 cpu; in conflict: production (burst 2000)"
	if got := v.Findings[1].String(); got != says {
		t.Errorf("got %q\nwant %q", got, says)
	}

	// Not one of the 2000 cores can be spared.
	if v := check(t, proportional(1999), promises...); v.OK {
		t.Error("1999 cores are enough")
	}
}

func TestTheDocumentsExampleAsStrongGuaranteesNeedsThreeThousandCores(t *testing.T) {
	promises := []feasibility.Pool{strong("production", root, 2000), strong("research", root, 1000)}
	if v := check(t, proportional(3000), promises...); !v.OK || v.Needs.String() != "3000 cpu" {
		t.Errorf("3000 cores: needs %v, %v", v.Needs, v.Findings)
	}
	for _, size := range []float64{2999, 2000} {
		v := check(t, proportional(size), promises...)
		if diff := cmp.Diff([]string{"strong_over_cluster: production research"}, broken(v)); diff != "" || v.Needs.String() != "3000 cpu" {
			t.Errorf("%g cores: needs %v, %s", size, v.Needs, diff)
		}
	}
}

func TestReferenceE9Overcommit(t *testing.T) {
	v := check(t, proportional(100), strong("a", root, 30), strong("b", root, 120))
	if diff := cmp.Diff([]string{"strong_over_cluster: b"}, broken(v)); diff != "" || v.Needs.String() != "150 cpu" {
		t.Errorf("needs %v, %s", v.Needs, diff)
	}
	v = check(t, proportional(100), strong("a", root, 90), burst("b", root, 60, 60))
	if diff := cmp.Diff([]string{"flow_over_cluster: a b", "burst_over_cluster: a b"}, broken(v)); diff != "" || v.Needs.String() != "150 cpu" {
		t.Errorf("needs %v, %s", v.Needs, diff)
	}
}

func TestReferenceE15Completion(t *testing.T) {
	const gb = 1_000_000_000
	cluster := feasibility.Cluster{Total: resource.Amounts{10_000, 100_000, 0, 4000 * gb, 0}}
	pools := []feasibility.Pool{
		strong("a", root, 100),
		{Name: "a1", Parent: 0, Strong: someCores(50).With(resource.Memory, 300*gb)},
		strong("a2", 0, 50),
	}
	if v := check(t, cluster, pools...); !v.OK {
		t.Errorf("a1 leaves 100 GB to a2: %v", v.Findings)
	}
	// The guarantee of a is completed to 400 GB.
	pools[1].Strong = pools[1].Strong.With(resource.Memory, 401*gb)
	v := check(t, cluster, pools...)
	if diff := cmp.Diff([]string{"strong_over_parent: a1"}, broken(v)); diff != "" {
		t.Fatal(diff)
	}
	if f := v.Findings[0]; f.Pool != "a" || f.Resource != resource.Memory || f.Required != 401*gb || f.Available != 400*gb {
		t.Errorf("%+v", f)
	}
	if v.Needs.Known {
		t.Errorf("needs %v: no cluster of these proportions helps", v.Needs)
	}
}

func TestStrongSumsAtEveryLevel(t *testing.T) {
	v := check(t, proportional(1000),
		strong("a", root, 100),
		strong("a1", 0, 60), strong("a2", 0, 30), strong("a3", 0, 20),
		strong("a11", 1, 61),
		feasibility.Pool{Name: "b", Parent: root}, strong("b1", 5, 1),
	)
	want := []string{"strong_over_parent: a1 a2 a3", "strong_over_parent: a11", "strong_over_parent: b1"}
	if diff := cmp.Diff(want, broken(v)); diff != "" {
		t.Error(diff)
	}
	var places []string
	for _, f := range v.Findings {
		places = append(places, f.Pool)
	}
	if diff := cmp.Diff([]string{"a", "a1", "b"}, places); diff != "" {
		t.Error(diff)
	}
}

func TestSeveralResourcesCanBeShort(t *testing.T) {
	cluster := proportional(100) // 400 GiB
	v := check(t, cluster,
		feasibility.Pool{Name: "a", Parent: root, Strong: someCores(10).With(resource.Memory, 300*gib)},
		feasibility.Pool{Name: "b", Parent: root, Strong: someCores(10).With(resource.Memory, 200*gib).With(resource.UserSlots, 101)},
	)
	f := v.Findings[0]
	if f.Resource != resource.Memory || !slices.Equal(f.Others, []resource.Kind{resource.UserSlots}) || f.Required != 500*gib {
		t.Errorf("%+v", f)
	}
	if diff := cmp.Diff([]string{"strong_over_cluster: a b"}, broken(v)); diff != "" {
		t.Error(diff)
	}
	if got, want := v.Needs.Total[resource.Memory], int64(500*gib); got < want || got > want+4*gib/100 {
		t.Errorf("needs %v", v.Needs.Total)
	}
}

func TestIntegralGuaranteesAreSharesOfEveryResource(t *testing.T) {
	// 10 % of the cores correspond to 10 % of the memory, half of which is
	// guaranteed.
	cluster := proportional(100)
	a := feasibility.Pool{Name: "a", Parent: root, Strong: someCores(1).With(resource.Memory, 200*gib)}
	if v := check(t, cluster, a, burst("b", root, 50, 20)); !v.OK {
		t.Error(v.Findings)
	}
	v := check(t, cluster, a, burst("b", root, 51, 20))
	if diff := cmp.Diff([]string{"burst_over_cluster: a b"}, broken(v)); diff != "" {
		t.Fatal(diff)
	}
	if f := v.Findings[0]; f.Resource != resource.Memory || f.Required != 404*gib || f.Available != 400*gib {
		t.Errorf("%+v", f)
	}
}

func TestPromisesOfAResourceTheClusterLacks(t *testing.T) {
	pool := feasibility.Pool{Name: "a", Parent: root, Strong: resource.Partial{}.With(resource.GPU, 8)}
	v := check(t, proportional(100), pool)
	if diff := cmp.Diff([]string{"resource_missing"}, broken(v)); diff != "" {
		t.Error(diff)
	}
	if got, want := v.Findings[0].String(), "pool a is promised 8 gpu, but the cluster has none"; got != want {
		t.Errorf("got %q; want %q", got, want)
	}
}

func TestRelaxedPoolsLoseVolumeWhenBurstsLastTooLong(t *testing.T) {
	// The sums fit: 1500 at every moment, 1000 + 500 on average. But a full bucket
	// lasts two days.
	v := check(t, proportional(1500), strong("idle", root, 0), burst("production", root, 1500, 1000), relaxed("research", root, 500))
	if diff := cmp.Diff([]string{"relaxed_volume_lost: production research"}, broken(v)); diff != "" {
		t.Fatal(diff)
	}
	f := v.Findings[0]
	s := f.Starvation
	if s.Delay != 48*time.Hour || s.Window != 48*time.Hour || s.Backlog != 2*s.Capacity || !s.Proved || !f.Smallest || f.ConflictRequired != 175_000 {
		t.Errorf("%+v", s)
	}
	const says = "averages fit the cluster, but when burst pools spend what they saved, relaxed pools wait 48h0m0s for volume that they can keep for 24h0m0s, and lose 43.2M core·s; 1750 cpu would be enough, there is 1500 cpu; in conflict: production (burst 1500, flow 1000), research (flow 500)"
	if f.String() != says {
		t.Errorf("got %q\nwant %q", f, says)
	}
	// In two days with 1500 + x cores, production uses 1500: research needs half of
	// its flow from the rest.
	if v.Needs.String() != "1750 cpu" {
		t.Errorf("needs %v", v.Needs)
	}
}

func TestRelaxedPoolsWithALowCapNeverCatchUp(t *testing.T) {
	// Half of the time nothing is left; in the other half research may use 1500.
	slow := relaxed("research", root, 1000)
	slow.RelaxedMultiplier = 1.5
	v := check(t, proportional(2000), burst("production", root, 2000, 1000), slow)
	if diff := cmp.Diff([]string{"relaxed_never_catches_up: production research"}, broken(v)); diff != "" {
		t.Fatal(diff)
	}
	if s := v.Findings[0].Starvation; s.CatchesUp || s.Multiplier != 1.5 {
		t.Errorf("%+v", s)
	}
	// Research gets x while production uses 2000, otherwise 1500, and 1000 on
	// average.
	if f := v.Findings[0]; f.Required != 250_000 || v.Needs.String() != "2500 cpu" {
		t.Errorf("%v; needs %v", f, v.Needs)
	}
	slow.RelaxedMultiplier = 2
	if v := check(t, proportional(2000), burst("production", root, 2000, 1000), slow); !v.OK {
		t.Error(v.Findings)
	}
}

func TestStrongGuaranteesTakeFromRelaxedPools(t *testing.T) {
	pools := []feasibility.Pool{burst("production", root, 1500, 1000), relaxed("research", root, 500), strong("critical", root, 700), strong("small", root, 50)}
	if v := check(t, proportional(2500), pools...); !v.OK || v.Needs.String() != "2500 cpu" {
		t.Errorf("needs %v, %v", v.Needs, v.Findings)
	}
	// Without the small pool it would fit.
	v := check(t, proportional(2460), pools...)
	if diff := cmp.Diff([]string{"relaxed_volume_lost: production research critical small"}, broken(v)); diff != "" {
		t.Error(diff)
	}
	v = check(t, proportional(2440), pools...)
	if diff := cmp.Diff([]string{"relaxed_volume_lost: production research critical"}, broken(v)); diff != "" {
		t.Error(diff)
	}
}

func TestDifferentMultipliersAreABoundOnly(t *testing.T) {
	fast, slow := relaxed("fast", root, 250), relaxed("slow", root, 250)
	slow.RelaxedMultiplier = 1.5
	v := check(t, proportional(1500), burst("production", root, 1500, 1000), fast, slow)
	f := v.Findings[0]
	if f.Code != feasibility.RelaxedNeverCatchesUp {
		t.Fatal(v.Findings)
	}
	// One of them together with production is enough, and then the bound is exact.
	if diff := cmp.Diff([]string{"production", "slow"}, f.Pools()); diff != "" || !f.Starvation.Proved {
		t.Errorf("%s %+v", diff, f.Starvation)
	}
	v = check(t, proportional(2000), burst("production", root, 1000, 500), fast, slow)
	if !v.OK || v.Proof.Relaxed.Proved {
		t.Errorf("%+v", v.Proof.Relaxed)
	}
}

func TestLimitsBelowGuarantees(t *testing.T) {
	limited := func(p feasibility.Pool, limit float64) feasibility.Pool {
		p.Limits = someCores(limit)
		return p
	}
	cases := []struct {
		name  string
		pools []feasibility.Pool
		want  []string
	}{
		{"strong", []feasibility.Pool{limited(strong("a", root, 50), 49)}, []string{"limits_below_strong: a"}},
		{"strong that fits", []feasibility.Pool{limited(strong("a", root, 50), 50)}, nil},
		{"burst", []feasibility.Pool{limited(burst("a", root, 50, 20), 49)}, []string{"limits_below_burst: a"}},
		{"flow", []feasibility.Pool{limited(relaxed("a", root, 50), 49)}, []string{"limits_below_flow: a"}},
		{"a parent full of its own guarantee (E12)",
			[]feasibility.Pool{limited(strong("a", root, 50), 50), burst("b", 0, 10, 10)},
			[]string{"limits_below_flow: a b", "limits_below_burst: a b"}},
		{"relaxed pools behind a parent's limits",
			[]feasibility.Pool{limited(feasibility.Pool{Name: "a", Parent: root}, 1.5), burst("b", 0, 1.5, 1), relaxed("c", 0, 0.5)},
			[]string{"relaxed_volume_lost: b c"}},
		{"the documents' example inside of a pool",
			[]feasibility.Pool{limited(feasibility.Pool{Name: "a", Parent: root}, 2), burst("b", 0, 2, 1), relaxed("c", 0, 1)}, nil},
		{"max_share_ratio of the parent's limits", []feasibility.Pool{
			limited(feasibility.Pool{Name: "a", Parent: root}, 10),
			{Name: "b", Parent: 0, MaxShareRatio: 0.5, Strong: someCores(0)},
			burst("c", 1, 6, 1)}, []string{"limits_below_burst: c"}},
		{"other resources bind integral guarantees too", []feasibility.Pool{
			{Name: "a", Parent: root, Type: feasibility.Burst, Burst: cores(50), Flow: cores(10), Limits: resource.Partial{}.With(resource.UserSlots, 40)}},
			[]string{"limits_below_burst: a"}},
	}
	for _, c := range cases {
		v := check(t, proportional(100), c.pools...)
		if diff := cmp.Diff(c.want, broken(v)); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
	// The guarantee's memory was not written, only completed.
	v := check(t, proportional(100), feasibility.Pool{Name: "a", Parent: root, Strong: someCores(50), Limits: resource.Partial{}.With(resource.Memory, gib)})
	if !v.OK || len(v.Findings) != 1 || v.Findings[0].Code != feasibility.LimitsBelowStrong || v.Findings[0].Severity != feasibility.Warning {
		t.Error(v.Findings)
	}
}

func TestRemarks(t *testing.T) {
	slow := relaxed("slow", root, 10)
	slow.Limits = someCores(20)
	v := check(t, proportional(100), burst("lazy", root, 10, 20), slow, relaxed("wide", root, 40))
	want := []string{
		"warning: burst pool lazy receives 20 cpu but may spend only 10 cpu at a moment",
		"warning: relaxed pool slow may spend up to 30 cpu at a moment, but limits leave it 20 cpu",
		"note: relaxed pool wide may spend up to 120 cpu at a moment, more than the cluster's 100 cpu",
	}
	var got []string
	for _, f := range v.Findings {
		got = append(got, f.Severity.String()+": "+f.String())
	}
	if diff := cmp.Diff(want, got); diff != "" || !v.OK {
		t.Error(diff)
	}
}

func TestPlacingJobs(t *testing.T) {
	node := func(slots int64, cpu float64, memory int64) (a resource.Amounts) {
		a[resource.UserSlots], a[resource.CPU], a[resource.Memory] = slots, resource.FromFloat(resource.CPU, cpu), memory
		return a
	}
	cluster := feasibility.Cluster{Nodes: []feasibility.NodeGroup{
		{Name: "thin", Count: 10, Each: node(32, 32, 64*gib)},
		{Name: "fat", Count: 2, Each: node(16, 16, 256*gib)},
		{Name: "none", Count: 0, Each: node(99, 99, 999*gib)},
	}}
	jobs := []feasibility.Job{
		{Name: "small", Amount: node(1, 1, 4*gib)},    // 16 and 16
		{Name: "big", Amount: node(1, 10, 100*gib)},   // 0 and 1
		{Name: "huge", Amount: node(1, 1, 300*gib)},   // memory
		{Name: "square", Amount: node(1, 20, 99*gib)}, // each fits somewhere, not together
		{Name: "free"},
		{Name: "gpu", Amount: resource.Amounts{resource.GPU: 1}},
	}
	v, err := feasibility.Check(cluster, nil, jobs, feasibility.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	wantCounts := []int64{16*10 + 16*2, 2, 0, 0, resource.Unlimited, 0}
	for i, p := range v.Placements {
		if p.Count != wantCounts[i] || p.Fits != (wantCounts[i] > 0) || p.Job != jobs[i].Name {
			t.Errorf("%+v; want %d", p, wantCounts[i])
		}
	}
	if diff := cmp.Diff([]int64{0, 1, 0}, v.Placements[1].Groups); diff != "" {
		t.Error(diff)
	}
	var got []string
	for _, f := range v.Findings {
		got = append(got, f.String())
	}
	want := []string{
		"job huge needs 300 GiB memory, the largest node has 256 GiB memory",
		"job square fits no node: no single node has enough of every resource",
		"job gpu needs 1 gpu, the largest node has 0 gpu",
	}
	if diff := cmp.Diff(want, got); diff != "" || v.OK {
		t.Error(diff)
	}
	if !v.Needs.Known || !v.Needs.Total.IsZero() {
		t.Errorf("no promises need %v", v.Needs)
	}

	cluster.Total = cluster.Nodes[0].Each
	v, err = feasibility.Check(cluster, nil, jobs[:1], feasibility.DefaultOptions())
	if err != nil || !v.OK || len(v.Findings) != 1 || v.Findings[0].Code != feasibility.TotalDiffersFromNodes {
		t.Errorf("%v, %v", v.Findings, err)
	}
}

func TestMalformedInputIsAnErrorThatNamesEverything(t *testing.T) {
	pools := []feasibility.Pool{
		{Name: "loop", Parent: 0},
		{Name: "far", Parent: -2},
		{Name: "negative", Parent: root, Flow: cores(-1), MaxShareRatio: 2, RelaxedMultiplier: -1},
		{Name: "endless", Parent: root, Strong: someCores(1).With(resource.Memory, resource.Unlimited), Limits: someCores(-1)},
	}
	cluster := feasibility.Cluster{Nodes: []feasibility.NodeGroup{{Count: -1, Each: cores(-1)}}}
	_, err := feasibility.Check(cluster, pools, []feasibility.Job{{Name: "j", Amount: cores(-1)}}, feasibility.Options{MainResource: 77})
	if err == nil {
		t.Fatal("no error")
	}
	for _, says := range []string{
		`pool "loop": parent 0 is not an earlier pool`, `pool "far": parent -2`, `pool "negative": flow of cpu is negative`,
		"max_share_ratio 2", "relaxed multiplier -1", `pool "endless": strong guarantee of memory is unlimited`, "a limit is negative",
		"node group 0: count", "node group 0: amount of cpu", `job "j"`, "saturation period 0s", "relaxed multiplier 0", "no resource Kind(77)",
	} {
		if !strings.Contains(err.Error(), says) {
			t.Errorf("nothing about %q in:\n%v", says, err)
		}
	}
	if _, err := feasibility.Check(proportional(1), nil, []feasibility.Job{{Name: "j"}}, feasibility.DefaultOptions()); err == nil {
		t.Error("a job was placed without nodes")
	}
}

func TestAClusterWithNothing(t *testing.T) {
	if v := check(t, feasibility.Cluster{}); !v.OK || v.Needs.Known {
		t.Errorf("%+v", v)
	}
	if v := check(t, feasibility.Cluster{}, strong("a", root, 1)); v.OK {
		t.Error("a guarantee fits nothing")
	}
}

func TestJSON(t *testing.T) {
	slow := relaxed("research", root, 500)
	slow.RelaxedMultiplier = 1
	pools := []feasibility.Pool{burst("production", root, 1500, 1000), slow}
	nodes := []feasibility.NodeGroup{{Name: "all", Count: 15, Each: proportional(100).Total}}
	jobs := []feasibility.Job{{Name: "wide", Amount: cores(101)}}
	v, err := feasibility.Check(feasibility.Cluster{Nodes: nodes}, pools, jobs, feasibility.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden, err := os.ReadFile("testdata/verdict.json")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(golden), string(text)+"\n"); diff != "" {
		t.Error(diff)
	}

	text, err = json.Marshal(check(t, feasibility.Cluster{}))
	if want := `{"ok":true,"findings":[],"needs":null,"resources":null}`; err != nil || string(text) != want {
		t.Errorf("%s, %v", text, err)
	}
}

func TestEveryFindingHasAText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := checkRapid(t, proportional(float64(rapid.IntRange(500, 2000).Draw(t, "cores"))), drawPools(t))
		for _, f := range v.Findings {
			if text := f.String(); !strings.Contains(text, " ") || strings.Contains(text, "%!") || strings.Contains(text, "\n") {
				t.Errorf("%s: %q", f.Code, text)
			}
			for _, name := range f.Pools() {
				if !strings.Contains(f.String(), name) && f.Code != feasibility.LimitsBelowStrong {
					t.Errorf("%q does not name pool %s", f, name)
				}
			}
		}
	})
}

// drawPools draws a tree of pools whose promises are close to what 1000 cores can
// keep.
func drawPools(t *rapid.T) []feasibility.Pool {
	n := rapid.IntRange(1, 7).Draw(t, "pools")
	pools := make([]feasibility.Pool, n)
	for i := range pools {
		p := feasibility.Pool{Name: string(rune('a' + i)), Parent: rapid.IntRange(root, i-1).Draw(t, "parent")}
		amount := func(name string) float64 { return float64(rapid.IntRange(1, 1200/n).Draw(t, name)) }
		switch rapid.IntRange(0, 3).Draw(t, "type") {
		case 1:
			p.Type, p.Flow = feasibility.Burst, cores(amount("flow"))
			p.Burst = cores(p.Flow.Float(resource.CPU) * float64(rapid.IntRange(5, 40).Draw(t, "peak")) / 10)
		case 2:
			p.Type, p.Flow = feasibility.Relaxed, cores(amount("flow"))
			p.RelaxedMultiplier = rapid.SampledFrom([]float64{0, 0, 1.5, 2, 5}).Draw(t, "multiplier")
		}
		if p.Parent == root && rapid.Bool().Draw(t, "strong") {
			p.Strong = someCores(amount("strong"))
		}
		if rapid.IntRange(0, 5).Draw(t, "limited") == 0 {
			p.Limits = someCores(amount("limit") * 2)
		}
		pools[i] = p
	}
	return pools
}

func TestWhatFitsFitsALargerCluster(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pools := drawPools(t)
		small := proportional(float64(rapid.IntRange(1, 3000).Draw(t, "cores")))
		v := checkRapid(t, small, pools)
		large := small
		factor := rapid.Int64Range(1, 5).Draw(t, "factor")
		for k := range large.Total {
			large.Total[k] *= factor
		}
		if v.OK && !checkRapid(t, large, pools).OK {
			t.Fatalf("fits %v but not %v", small, large)
		}
		// Without limits, every resource may grow independently.
		for i := range pools {
			pools[i].Limits = resource.Partial{}
		}
		large = small
		for k := range large.Total {
			large.Total[k] += rapid.Int64Range(0, 1<<30).Draw(t, "growth")
		}
		if checkRapid(t, small, pools).OK && !checkRapid(t, large, pools).OK {
			t.Fatalf("fits %v but not %v", small, large)
		}
	})
}

func TestNeedsIsTheSmallestSizeThatFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pools := drawPools(t)
		v := checkRapid(t, proportional(1000), pools)
		if !v.Needs.Known {
			if v.OK {
				t.Fatal("it fits a cluster, but none is large enough")
			}
			return
		}
		needed := v.Needs.Total
		if v.OK != (needed[resource.CPU] <= 100_000) {
			t.Fatalf("ok is %v, needs %v", v.OK, v.Needs)
		}
		if !checkRapid(t, feasibility.Cluster{Total: needed}, pools).OK {
			t.Fatalf("%v is not enough", needed)
		}
		if cpu := needed.Float(resource.CPU); cpu > 1 && checkRapid(t, proportional(cpu-0.01), pools).OK {
			t.Fatalf("less than %v is enough", needed)
		}
	})
}

func TestConflictsAreConflictsAndNothingCanBeLeftOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pools := drawPools(t)
		for i := range pools {
			pools[i].Parent, pools[i].Limits = root, resource.Partial{} // so that pools can be removed
		}
		cluster := proportional(float64(rapid.IntRange(500, 2000).Draw(t, "cores")))
		for _, f := range checkRapid(t, cluster, pools).Findings {
			if f.Severity != feasibility.Broken {
				continue
			}
			if f.Required <= f.Available || f.ConflictRequired <= f.Available || f.ConflictRequired > f.Required {
				t.Fatalf("required %d, by the conflict %d, available %d", f.Required, f.ConflictRequired, f.Available)
			}
			keep := func(without string) (kept []feasibility.Pool) {
				for _, p := range pools {
					if slices.Contains(f.Pools(), p.Name) && p.Name != without {
						kept = append(kept, p)
					}
				}
				return kept
			}
			if checkRapid(t, cluster, keep("")).OK {
				t.Fatalf("%v is no conflict", f)
			}
			for _, name := range f.Pools() {
				for _, g := range checkRapid(t, cluster, keep(name)).Findings {
					if g.Code == f.Code {
						t.Fatalf("%v: still in conflict without %s", f, name)
					}
				}
			}
		}
	})
}

func checkRapid(t *rapid.T, cluster feasibility.Cluster, pools []feasibility.Pool) feasibility.Verdict {
	v, err := feasibility.Check(cluster, pools, nil, feasibility.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestAThousandPoolsAreNoTrouble(t *testing.T) {
	var pools []feasibility.Pool
	for i := range 1000 {
		p := relaxed(fmt.Sprint("relaxed-", i), root, 0.5)
		if i%2 == 0 {
			p = burst(fmt.Sprint("burst-", i), root, 1.2, 1)
		}
		p.Limits = someCores(10)
		pools = append(pools, p)
	}
	v := check(t, proportional(751), pools...)
	if v.OK || v.Findings[0].Code != feasibility.RelaxedVolumeLost || v.Findings[0].Smallest || !v.Needs.Known {
		t.Errorf("%.200v", v.Findings)
	}
}
