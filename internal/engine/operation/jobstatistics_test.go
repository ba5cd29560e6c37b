package operation

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/internal/value/cpumonitor"
	"github.com/weirhq/weir/internal/value/resource"
)

// The rows of the memory document and of the CPU monitor for one job.
func TestEveryStatisticOfTheDocuments(t *testing.T) {
	config := DefaultMemoryConfig()
	config.ProxyBase = 100 * mib
	b := configured(t, "tasks: {a: {job_count: 2, memory_limit: 10GiB, tmpfs_path: t, tmpfs_size: 1GiB}}", config)
	b.ended(b.schedule(0), Outcome{Usage: &Usage{
		Duration: 90500 * time.Millisecond, UserMaxMemory: 3 * gib, ProxyMaxMemory: 50 * mib,
		TmpfsMaxUsage: 700 * mib, TmpfsVolumes: []int64{700 * mib}, UserMemoryTime: 1234, ProxyMemoryTime: 56,
		CPU: &cpumonitor.Statistics{
			SmoothedUsageX100: 1, PreemptibleX100: 2, AggregatedSmoothedUsageX100: 3, AggregatedMaxUsageX100: 4,
			AggregatedPreemptibleX100: 5, AggregatedPreemptedX100: 6,
		},
		More: []Statistic{
			{"custom/rows", 7}, {"user_job/cpu/user", 8},
			{"user_job/max_memory", 9}, {"", 1}, {"a//b", 1}, {"/a", 1}, {strings.Repeat("x", 300), 1}, // ignored
		},
	}})
	want := map[string]int64{
		"user_job/memory_limit":                        10 * gib,
		"user_job/memory_reserve":                      5 * gib,
		"user_job/memory_reserve_factor_x10000":        5000,
		"user_job/max_memory":                          3 * gib,
		"user_job/tmpfs_max_usage":                     700 * mib,
		"user_job/tmpfs_volumes/0/max_size":            700 * mib,
		"user_job/cumulative_memory_mb_sec":            1234,
		"job_proxy/cumulative_memory_mb_sec":           56,
		"job_proxy/max_memory":                         50 * mib,
		"job_proxy/estimated_memory":                   100 * mib,
		"job_proxy/memory_reserve":                     100 * mib,
		"job_proxy/memory_reserve_factor_x10000":       10000,
		"user_job/cumulative_memory_reserve":           5 * gib * 905 / 10,
		"user_job/cumulative_max_memory":               3 * gib * 905 / 10,
		"user_job/cumulative_memory_saved":             5 * gib * 905 / 10,
		"job_proxy/cumulative_memory_reserve":          100 * mib * 905 / 10,
		"job_proxy/cumulative_max_memory":              50 * mib * 905 / 10,
		"job_proxy/cumulative_estimated_memory":        100 * mib * 905 / 10,
		"job_proxy/smoothed_cpu_usage_x100":            1,
		"job_proxy/preemptible_cpu_x100":               2,
		"job_proxy/aggregated_smoothed_cpu_usage_x100": 3,
		"job_proxy/aggregated_max_cpu_usage_x100":      4,
		"job_proxy/aggregated_preemptible_cpu_x100":    5,
		"job_proxy/aggregated_preempted_cpu_x100":      6,
		"custom/rows":       7,
		"user_job/cpu/user": 8,
	}
	got := map[string]int64{}
	last := ""
	for _, row := range b.TaskJobStatistics(0) {
		v := row.ByState[EndCompleted]
		if v.Count != 1 || v.Min != v.Sum || v.Max != v.Sum || row.Total() != v || row.Path <= last {
			t.Errorf("%+v after %s", row, last)
		}
		got[row.Path], last = v.Sum, row.Path
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestStatisticsAreSummedByTheStateOfJobs(t *testing.T) {
	b := running(t, "max_failed_job_count: 10\ntasks: {a: {job_count: 10, memory_limit: 1GiB}, b: {job_count: 10, memory_limit: 1GiB}}")
	end := func(task int, state EndState, used int64) {
		b.ended(b.schedule(task), Outcome{State: state, Reason: AbortPreemption, Usage: &Usage{UserMaxMemory: used}})
	}
	end(0, EndCompleted, 10)
	end(0, EndCompleted, 30)
	end(1, EndCompleted, 20)
	end(0, EndFailed, 500)
	end(0, EndAborted, 7)
	end(0, EndInterrupted, 9)
	row, ok := b.JobStatistics().Get("user_job/max_memory")
	want := [EndStateCount]Summary{
		EndCompleted: {Count: 3, Sum: 60, Min: 10, Max: 30}, EndFailed: {Count: 1, Sum: 500, Min: 500, Max: 500},
		EndAborted: {Count: 1, Sum: 7, Min: 7, Max: 7}, EndInterrupted: {Count: 1, Sum: 9, Min: 9, Max: 9},
	}
	if !ok || row.ByState != want {
		t.Errorf("%+v, want %+v", row.ByState, want)
	}
	if total := row.Total(); total != (Summary{Count: 6, Sum: 576, Min: 7, Max: 500}) {
		t.Errorf("%+v", total)
	}
	if own, _ := b.TaskJobStatistics(1).Get("user_job/max_memory"); own.Total().Sum != 20 {
		t.Errorf("%+v", own)
	}
	if _, ok := b.JobStatistics().Get("no/such"); ok || b.JobStatistics().Max("no/such") != 0 {
		t.Error("a row that is not there")
	}
}

func TestAFailureOnABannedNodeCountsAsAborted(t *testing.T) {
	b := running(t, "ban_nodes_with_failed_jobs: true\nignore_job_failures_at_banned_nodes: true\ntasks: {a: {job_count: 4}}")
	for range 2 {
		b.ended(b.schedule(0), Outcome{State: EndFailed, Failure: Failure{Node: "n"}, Usage: &Usage{UserMaxMemory: 5}})
	}
	row, _ := b.JobStatistics().Get("user_job/max_memory")
	if row.ByState[EndFailed].Count != 1 || row.ByState[EndAborted].Count != 1 {
		t.Errorf("%+v", row)
	}
}

func TestStatisticsStayWithinBounds(t *testing.T) {
	b := running(t, "tasks: {a: {job_count: 3000, memory_limit: 16TiB}}")
	for i := range 1100 {
		b.Schedule(0, everything)
		b.JobEnded(JobRef{Cookie: int32(i)}, Outcome{Usage: &Usage{
			Duration: 1 << 62, UserMaxMemory: -5, More: []Statistic{{fmt.Sprint("custom/", i), 1 << 62}},
		}}, b.now)
	}
	s := b.JobStatistics()
	if len(s) != MaxStatisticPaths {
		t.Errorf("%d rows", len(s))
	}
	row, _ := s.Get("user_job/cumulative_memory_reserve")
	if row.Total().Sum != resource.Unlimited || row.Total().Max != resource.Unlimited {
		t.Errorf("%+v", row.Total())
	}
	if _, ok := s.Get("user_job/max_memory"); ok {
		t.Error("a negative figure was taken")
	}
	again, err := Restore(b.Spec(), b.Snapshot())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s, again.JobStatistics()); diff != "" {
		t.Error(diff)
	}
}

func TestAlerts(t *testing.T) {
	used := func(user, tmpfs int64) *Usage {
		return &Usage{UserMaxMemory: user, TmpfsMaxUsage: tmpfs, TmpfsVolumes: []int64{tmpfs}}
	}
	cases := []struct {
		name, task string
		usage      *Usage
		want       string
	}{
		{"a reserve that is used", "memory_limit: 40GiB, memory_reserve_factor: 0.9", used(30*gib, 0), ""},
		{"more than 8 GiB and 20 % unused", "memory_limit: 40GiB, user_job_memory_digest_lower_bound: 0.9", used(20*gib, 0),
			"jobs of task a use at most 20 GiB of the 36.36 GiB that are reserved for each"},
		{"a fifth unused but less than 8 GiB", "memory_limit: 10GiB, user_job_memory_digest_lower_bound: 0.9", used(2*gib, 0), ""},
		{"memory_reserve_factor 1 and 80 % unused", "memory_limit: 1GiB, memory_reserve_factor: 1", used(200*mib, 0),
			"jobs of task a use at most 200 MiB of the 1 GiB that are reserved for each"},
		{"memory_reserve_factor 1 and 70 % unused", "memory_limit: 1GiB, memory_reserve_factor: 1", used(300*mib, 0), ""},
		{"tmpfs counts as used", "memory_limit: 1GiB, memory_reserve_factor: 1, tmpfs_path: t, tmpfs_size: 200MiB", used(100*mib, 200*mib), ""},
		{"tmpfs that is not used", "memory_limit: 10GiB, tmpfs_path: t, tmpfs_size: 4GiB", used(gib, gib),
			"jobs of task a use at most 1 GiB of tmpfs volume 0, which has 4 GiB"},
		{"tmpfs of which 80 % are used", "memory_limit: 10GiB, tmpfs_path: t, tmpfs_size: 4GiB", used(0, 33*gib/10), ""},
		{"tmpfs of which less than 512 MiB are not used", "memory_limit: 1GiB, tmpfs_path: t, tmpfs_size: 500MiB", used(1, 0), ""},
		{"tmpfs that is not used, while memory is", "memory_limit: 10GiB, tmpfs_path: t, tmpfs_size: 4GiB", used(8*gib, gib), ""},
		{"nobody knows", "memory_limit: 10GiB, memory_reserve_factor: 1, tmpfs_path: t", &Usage{}, ""},
		{"far more than the reserve", "memory_limit: 40GiB", used(30*gib, 0),
			"a job of task a used 10 GiB of memory more than was reserved for it; jobs are now given 30.25 GiB"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := running(t, "tasks: {a: {job_count: 2, "+c.task+"}}")
			b.ended(b.schedule(0), Outcome{Usage: c.usage})
			var got []string
			for _, a := range b.Alerts() {
				got = append(got, a.String())
				text, err := a.Kind.MarshalText()
				var back AlertKind
				if err != nil || back.UnmarshalText(text) != nil || back != a.Kind {
					t.Errorf("%s: %v", text, err)
				}
			}
			if strings.Join(got, "; ") != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestAlertsGoAwayWhenTheReserveHasAdapted(t *testing.T) {
	b := running(t, "tasks: {a: {job_count: 50, memory_limit: 100GiB}}")
	job := b.schedule(0)
	b.ended(job, Outcome{State: EndAborted, Reason: AbortPreemption, Usage: &Usage{UserMaxMemory: gib}})
	if a := b.Alerts(); len(a) != 1 || a[0].Kind != AlertUnusedMemory || a[0].Given != 50*gib || a[0].Used != gib || a[0].Volume != -1 {
		t.Fatalf("%+v", a)
	}
	b.uses(b.schedule(0), gib)
	if a := b.Alerts(); a != nil {
		t.Errorf("%+v", a)
	}
}
