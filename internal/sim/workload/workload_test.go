package workload

import (
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/sim/distribution"
	"github.com/weirhq/weir/internal/sim/scenario"
	"github.com/weirhq/weir/internal/value/resource"
)

// read reads the operations section of a scenario.
func read(t rapid.TB, duration, operations string) *scenario.Scenario {
	t.Helper()
	text := "nodes: [{resources: {cpu: 4}}]\npools: {a: {}}\n" + duration + "\noperations:\n" + operations
	s, _, err := scenario.Read("test.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// all returns the operations of all sources.
func all(s *scenario.Scenario) (list []Operation) {
	for _, source := range Sources(s) {
		for o, ok := source.Next(); ok; o, ok = source.Next() {
			list = append(list, o)
		}
	}
	return list
}

// times formats names and times: "a-1 0s, a-2 1h0m0s".
func times(list []Operation) string {
	var parts []string
	for _, o := range list {
		parts = append(parts, fmt.Sprintf("%s %v", o.Name, o.At))
	}
	return strings.Join(parts, ", ")
}

func TestOperationsComeWhenTheirTemplatesSay(t *testing.T) {
	tests := []struct{ name, duration, operation, want string }{
		{"without arrival, at the beginning", "", "a: {duration: 1m}", "a 0s"},
		{"at a time", "", "a: {duration: 1m, arrival: 90m}", "a 1h30m0s"},
		{"at several times", "", "a: {duration: 1m, arrival: [2h, 1h]}", "a-1 1h0m0s, a-2 2h0m0s"},
		{"every day", "duration: 50h", "a: {duration: 1m, arrival: {at: [1h, 3h], repeat: 1d}}", "a-1 1h0m0s, a-2 3h0m0s, a-3 25h0m0s, a-4 27h0m0s, a-5 49h0m0s"},
		{"every hour", "duration: 3h", "a: {duration: 1m, arrival: {every: 1h}}", "a-1 0s, a-2 1h0m0s, a-3 2h0m0s"},
		{"at most so many", "", "a: {duration: 1m, arrival: {every: 1h, count: 2}}", "a-1 0s, a-2 1h0m0s"},
		{"in windows", "duration: 2d", `a: {duration: 1m, arrival: {every: 1h, active: "90m-3h30m every 24h"}}`, "a-1 2h0m0s, a-2 3h0m0s, a-3 26h0m0s, a-4 27h0m0s"},
		{"in windows that end", "", `a: {duration: 1m, arrival: {every: 1h, active: ["90m-150m", "4h-5h"]}}`, "a-1 2h0m0s, a-2 4h0m0s"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := times(all(read(t, test.duration, "  "+test.operation))); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestPoissonArrivalsHaveTheirRateWithinTheirWindows(t *testing.T) {
	s := read(t, "duration: 100d", `  a: {duration: 1m, arrival: {poisson: 2m, active: "6h-18h every 24h"}}`)
	list := all(s)
	if want := 100 * 12 * 30.0; math.Abs(float64(len(list))-want) > 4*math.Sqrt(want) {
		t.Errorf("%d operations in 100 days, want about %.0f", len(list), want)
	}
	last := time.Duration(0)
	for _, o := range list {
		if hour := o.At % (24 * time.Hour); hour < 6*time.Hour || hour >= 18*time.Hour || o.At < last {
			t.Fatalf("%s comes at %v, after %v", o.Name, o.At, last)
		}
		last = o.At
	}
}

func TestAnotherTemplateChangesNothing(t *testing.T) {
	const a = "  a: {arrival: {poisson: 1m}, duration: {distribution: exponential, mean: 5m}, job_count: {distribution: uniform, from: 1, to: 100}, job_resources: {memory: [1GiB, 2GiB, 3GiB]}}\n"
	describe := func(list []Operation) (lines []string) {
		for _, o := range list {
			if o.Template == "a" {
				lines = append(lines, fmt.Sprint(o.Name, o.At, o.Jobs, o.Resources, o.Durations.Of(0), o.Durations.Of(7)))
			}
		}
		return lines
	}
	alone := describe(all(read(t, "duration: 5h", a)))
	beside := describe(all(read(t, "duration: 5h", "  b: {arrival: {poisson: 1m}, duration: [1m, 2m]}\n"+a)))
	if len(alone) < 200 || !slices.Equal(alone, beside) {
		t.Errorf("%d operations alone, %d beside another template:\n%s", len(alone), len(beside), cmp.Diff(alone, beside))
	}
	other := describe(all(read(t, "duration: 5h\nseed: 2", a)))
	if slices.Equal(alone, other) {
		t.Error("another seed draws the same")
	}
}

func TestJobsRunAsLongWhenTheyAreStartedAgain(t *testing.T) {
	o := all(read(t, "", "  a: {duration: {distribution: lognormal, median: 1m, sigma: 1}}"))[0]
	sum, n := 0.0, 20_000
	for i := range n {
		first := o.Durations.Of(i)
		if again := o.Durations.Of(i); again != first {
			t.Fatal("two draws of one job differ")
		}
		sum += math.Log(first.Seconds() / 60)
	}
	if mean := sum / float64(n); math.Abs(mean) > 0.03 {
		t.Errorf("the mean logarithm is %v, want about 0", mean)
	}
	if o.Durations.Of(1) == o.Durations.Of(2) {
		t.Error("two jobs have one duration")
	}
}

func TestSizesAreDrawnOncePerOperation(t *testing.T) {
	s := read(t, "", "  a: {arrival: {every: 1s, count: 1000}, duration: 1m, job_resources: {cpu: [1, 2], gpu: 3}}")
	seen := map[int64]int{}
	for _, o := range all(s) {
		seen[o.Resources[resource.CPU]]++
		if o.Resources[resource.GPU] != 3 || o.Resources[resource.UserSlots] != 1 || o.Resources[resource.Memory] != 0 {
			t.Fatalf("resources %v", o.Resources)
		}
	}
	if len(seen) != 2 || seen[100] < 400 || seen[200] < 400 {
		t.Errorf("cpu is %v", seen)
	}
}

func TestDemandOverTimeBecomesOneOperationForEachWindow(t *testing.T) {
	tests := []struct{ name, operation, want string }{
		{"always", "a: {duration: 10m, demand: {jobs: 5}}", "a 0h 5 jobs to the end"},
		{"every day", "a: {duration: 10m, demand: {jobs: 5, active: 6h-18h every 24h}}", "a-1 6h 5 jobs to 18h, a-2 30h 5 jobs to 42h"},
		{"in steps", "a: {duration: 10m, demand: {steps: [{at: 0h, jobs: 5}, {at: 6h, jobs: 20}, {at: 12h, jobs: 8}, {at: 18h, jobs: 0}]}}",
			"a-1 0h 5 jobs to 18h, a-2 6h 3 jobs to 18h, a-3 6h 12 jobs to 12h"},
		{"in steps every day", "a: {duration: 10m, demand: {steps: [{at: 6h, jobs: 5}, {at: 12h, jobs: 2}], repeat: 24h}}",
			"a-1 6h 2 jobs to 30h, a-2 6h 3 jobs to 12h, a-3 30h 2 jobs to 54h, a-4 30h 3 jobs to 36h"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var parts []string
			for _, o := range all(read(t, "duration: 48h", "  "+test.operation)) {
				until := fmt.Sprintf("%.0fh", o.Until.Hours())
				if o.Until == scenario.Forever {
					until = "the end"
				}
				parts = append(parts, fmt.Sprintf("%s %.0fh %d jobs to %s", o.Name, o.At.Hours(), o.AtOnce, until))
				slots, _ := o.Options.ResourceLimits.Value().Get(resource.UserSlots)
				if cpu, ok := o.Options.ResourceLimits.Value().Get(resource.CPU); !ok || cpu != slots*100 {
					t.Errorf("%s: %d hundredths of a core for %d jobs", o.Name, cpu, slots)
				}
				needed := min(o.Until, 48*time.Hour) - o.At
				if slots != int64(o.AtOnce) || !o.Options.ApplyLimitsToDemand.Value() || o.Jobs < o.AtOnce*int(needed/(10*time.Minute)) {
					t.Errorf("%s: limit %d, supply of %d jobs for %v", o.Name, slots, o.Jobs, needed)
				}
			}
			if got := strings.Join(parts, ", "); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// At any time, the open windows add up to the current step.
func TestStepsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "steps")
		var text []string
		levels := make([]int, 24)
		at, hour := rapid.IntRange(0, 3).Draw(t, "first"), 0
		for range n {
			jobs := rapid.IntRange(0, 9).Draw(t, "jobs")
			text = append(text, fmt.Sprintf("{at: %dh, jobs: %d}", at, jobs))
			for hour = at; hour < 24; hour++ {
				levels[hour] = jobs
			}
			if at += rapid.IntRange(1, 4).Draw(t, "gap"); at >= 24 {
				break
			}
		}
		s := read(t, "duration: 24h", "  a: {duration: 1m, demand: {steps: ["+strings.Join(text, ", ")+"]}}")
		sums := make([]int, 24)
		for _, o := range all(s) {
			for h := range sums {
				if now := time.Duration(h) * time.Hour; o.At <= now && now < o.Until {
					sums[h] += o.AtOnce
				}
			}
		}
		if !slices.Equal(sums, levels) {
			t.Fatalf("steps %v\nwant %v\ngot  %v", text, levels, sums)
		}
	})
}

func TestAnOperationTakesOverWhenTheSupplyOfJobsRunsOut(t *testing.T) {
	o := all(read(t, "duration: 1h", "  a: {duration: [1m, 2m], demand: {jobs: 3}}"))[0]
	again := Again(&o, 20*time.Minute)
	if again.Name != "a+" || again.At != 20*time.Minute || again.AtOnce != 3 {
		t.Errorf("%+v", again)
	}
	same := true
	for i := range 50 {
		same = same && again.Durations.Of(i) == o.Durations.Of(i)
	}
	if same {
		t.Error("the successor repeats the durations")
	}
}

func TestTracesKeepTheirOrderUsersAndSizes(t *testing.T) {
	text := `traces: [{name: nasa, file: x.swf, pool: p, users: ephemeral, parallel: true, weight: 3}]
pools: {p: {create_ephemeral_subpools: true}}`
	excerpt := filepath.Join("..", "trace", "testdata", "nasa-excerpt.swf")
	s, _, err := scenario.Read("test.yaml", []byte(text), func(string) (io.ReadCloser, error) { return os.Open(excerpt) })
	if err != nil {
		t.Fatal(err)
	}
	list := all(s)
	if len(list) != 88 {
		t.Fatalf("%d operations", len(list))
	}
	o := list[6]
	if o.Name != "nasa/job-59" || o.User != "user-4" || o.Options.Pool.Value() != "p" || !o.Options.IsGang.Value() ||
		o.Options.Weight.Value() != 3 || o.Jobs != 32 || o.Durations.Of(5) != 716*time.Second {
		t.Errorf("%+v", o)
	}
}

func TestOccurrencesOfWindowsAgreeWithLookingAtEveryHour(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hours := func(name string, low, high int) time.Duration {
			return time.Duration(rapid.IntRange(low, high).Draw(t, name)) * time.Hour
		}
		var windows []scenario.Window
		for range rapid.IntRange(1, 3).Draw(t, "windows") {
			from := hours("from", 0, 30)
			w := scenario.Window{From: from, To: from + hours("length", 1, 9)}
			if rapid.Bool().Draw(t, "repeats") {
				w.Every = hours("every", int((w.To - w.From).Hours()), 24)
			}
			windows = append(windows, w)
		}
		active := func(now time.Duration) bool {
			return slices.ContainsFunc(windows, func(w scenario.Window) bool {
				if now < w.From {
					return false
				}
				since := now - w.From
				if w.Every > 0 {
					since %= w.Every
				}
				return since < w.To-w.From
			})
		}
		now := hours("now", 0, 60)
		want := scenario.Forever
		for at := now; at < now+200*time.Hour; at += time.Hour {
			if active(at) {
				want = at
				break
			}
		}
		if got := activeFrom(windows, now); got != want {
			t.Fatalf("windows %v: active from %v at %v, want %v", windows, now, got, want)
		}
		if want == now {
			until := activeUntil(windows, now)
			if until <= now || !active(until-time.Nanosecond) {
				t.Fatalf("windows %v: active at %v until %v", windows, now, until)
			}
		}
	})
}

func TestShortDurationsAreAtLeastAMillisecond(t *testing.T) {
	law := distribution.NewConstant(0)
	for _, d := range []Durations{Fixed(0), {law: &law}} {
		if got := d.Of(0); got != time.Millisecond {
			t.Errorf("%v", got)
		}
	}
	if got := duration(math.Inf(1)); got <= 0 {
		t.Errorf("an endless duration became %v", got)
	}
}
