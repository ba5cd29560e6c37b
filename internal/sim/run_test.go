package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/sim/outcome"
	"github.com/weirhq/weir/internal/sim/scenario"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

func read(t testing.TB, text string) *scenario.Scenario {
	t.Helper()
	s, _, err := scenario.Read("test.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// simulate runs a scenario and fails if an expectation does not hold.
func simulate(t testing.TB, text string) *outcome.Result {
	t.Helper()
	result, err := Run(context.Background(), read(t, text), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range result.Failed() {
		t.Error(e)
	}
	return result
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got-want) > tolerance {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

func operationNamed(t testing.TB, r *outcome.Result, name string) outcome.Operation {
	t.Helper()
	for _, o := range r.Operations {
		if o.Name == name {
			return o
		}
	}
	t.Fatalf("there is no operation %q", name)
	return outcome.Operation{}
}

func poolNamed(t testing.TB, r *outcome.Result, name string) outcome.Pool {
	t.Helper()
	for _, p := range r.Pools {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("there is no pool %q", name)
	return outcome.Pool{}
}

// Six jobs of ten minutes on a node that holds four. Computed by hand: two rounds,
// 3600 core-seconds, and two jobs that wait for the first round.
func TestFiguresOfAHandComputedRun(t *testing.T) {
	r := simulate(t, `
nodes: [{name: n, resources: {cpu: 4, memory: 8GiB}}]
pools: {a: {pools: {b: {}}}}
scheduler: {heartbeat_period: 1s}
statistics: {period: 1s}
operations: {x: {pool: b, job_count: 6, duration: 10m, job_resources: {cpu: 1, memory: 1GiB}}}
`)
	d := operationNamed(t, r, "x").Started // the first heartbeat
	if d < 0 || d >= 1 {
		t.Fatalf("the first job starts at %v", d)
	}
	x := operationNamed(t, r, "x")
	near(t, "the end of x", x.Finished, d+1200, 1e-6)
	near(t, "what x got", x.Got[resource.CPU], 3600, 1e-6)
	near(t, "the memory x got", x.Got[resource.Memory]/(3600<<30), 1, 1e-5)
	near(t, "the mean wait of x", x.MeanWait, (6*d+2*600)/6, 1e-3)
	near(t, "the longest wait of x", x.MaxWait, d+600, 1e-3)
	if x.State != "completed" || x.Jobs != (outcome.Jobs{Started: 6, Completed: 6}) || x.Pool != "b" {
		t.Errorf("x: %+v", x)
	}
	near(t, "the run", r.Seconds, math.Ceil(d+1200), 1e-9)
	for _, name := range []string{"b", "a", "<Root>"} {
		p := poolNamed(t, r, name)
		near(t, "what pool "+name+" got", p.Got[resource.CPU], 3600, 1e-6)
		// It demands six cores until four jobs run, and so on; observed once a
		// second.
		near(t, "what pool "+name+" asked for", p.Asked[resource.CPU], 6*600+2*600, 8)
		near(t, "what pool "+name+" is entitled to", p.Entitled[resource.CPU], 4*600+2*600, 8)
		if p.Waits.Count != 6 || p.Jobs.Completed != 6 || p.Operations != 1 {
			t.Errorf("pool %s: %+v", name, p)
		}
		near(t, "the median wait in "+name, p.Waits.P50, d, 0.011)
		near(t, "the 90th percentile in "+name, p.Waits.P90, d+600, 0.011)
	}
	c := r.Cluster
	near(t, "the utilisation", c.Utilisation[resource.CPU], 3600/(4*r.Seconds), 1e-5)
	near(t, "the capacity", c.Capacity[resource.CPU], 4, 1e-6)
	if c.Operations != (outcome.OperationCounts{Arrived: 1, Completed: 1}) || c.Work.Decisions != 6 || c.Nodes != 1 {
		t.Errorf("cluster: %+v", c)
	}
	sum := 0.0
	for _, v := range r.Series.Cluster.Usage[resource.CPU] {
		sum += v * r.Series.Step
	}
	near(t, "the integral of the usage curve", sum, 3600, 2)
}

const busy = `
seed: 5
duration: 6h
nodes:
  - {name: plain, count: 8, resources: {cpu: 16, memory: 64GiB}}
pools:
  a: {weight: 3}
  b: {pools: {c: {min_share_resources: {}}}}
  users: {create_ephemeral_subpools: true}
operations:
  - {name: stream, pool: a, arrival: {poisson: 4m}, job_count: {distribution: uniform, from: 5, to: 60}, duration: {distribution: lognormal, median: 6m, sigma: 1}}
  - {name: wave, pool: c, demand: {jobs: 60, active: 1h-3h every 4h}, duration: {distribution: exponential, mean: 3m}}
  - {name: anna, pool: users, user: anna, arrival: [1h, 2h], job_count: 40, duration: 5m, job_resources: {cpu: 2, memory: 3GiB}}
events:
  - {at: 90m, lose_nodes: {group: plain, count: 3}}
  - {at: 2h, return_nodes: {group: plain}}
  - {at: 2h30m, lose_nodes: {group: plain, count: 2, silently: true}}
  - {at: 3h, return_nodes: {group: plain, count: 2}}
  - {at: 3h, pool: a, set: {weight: 1}}
  - {at: 4h, abort: stream}
`

func TestTheSameSeedGivesTheSameBytes(t *testing.T) {
	write := func(text string) []byte {
		result, err := Run(context.Background(), read(t, text), Options{})
		if err != nil {
			t.Fatal(err)
		}
		data, err := result.JSON()
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	first := write(busy)
	if !bytes.Equal(first, write(busy)) {
		t.Error("two runs differ")
	}
	if bytes.Equal(first, write(strings.Replace(busy, "seed: 5", "seed: 6", 1))) {
		t.Error("another seed gives the same run")
	}
	back, err := outcome.Parse("result.json", first)
	if err != nil {
		t.Fatal(err)
	}
	again, err := back.JSON()
	if err != nil || !bytes.Equal(first, again) {
		t.Errorf("the result does not survive being read: %v", err)
	}
	if back.Cluster.Jobs.Preempted == 0 || back.Cluster.Jobs.LostWithNodes == 0 || back.Cluster.Jobs.Ended == 0 {
		t.Errorf("the scenario is too tame: %+v", back.Cluster.Jobs)
	}
}

func TestLeavingOutPointlessHeartbeatsChangesNothingElse(t *testing.T) {
	results := make([][]byte, 2)
	beats := make([]int64, 2)
	for i, everyBeat := range []bool{false, true} {
		s := read(t, strings.Replace(busy, ", silently: true", "", 1))
		r := newRun(s, core.New(SettingsOf(s)), Options{})
		r.everyBeat = everyBeat
		result, err := r.complete(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		beats[i] = result.Cluster.Work.Heartbeats
		result.Cluster.Work.Heartbeats = 0
		results[i], _ = result.JSON()
	}
	if !bytes.Equal(results[0], results[1]) {
		t.Error("the runs differ")
	}
	if beats[0] >= beats[1] {
		t.Errorf("%d heartbeats with idling, %d without", beats[0], beats[1])
	}
}

// A run that is watched sends every heartbeat through the core's inputs, and catching up after
// every update adds up the figures of all pools.
func TestShortcutsChangeNothing(t *testing.T) {
	var results [2][]byte
	var states [2][32]byte
	for i := range results {
		s := read(t, busy)
		r := newRun(s, core.New(SettingsOf(s)), Options{})
		if i == 1 {
			r.options.Watch = func(time.Time, core.Input, *core.Decisions) {}
			r.options.Enough = func() bool { r.books.catchUp(); return false }
		}
		result, err := r.complete(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		results[i], _ = result.JSON()
		states[i] = hashOf(t, r.core)
	}
	if !bytes.Equal(results[0], results[1]) {
		t.Error("the results differ")
	}
	if states[0] != states[1] {
		t.Error("the states differ")
	}
}

func TestLeavingOutPointlessUpdatesChangesNothing(t *testing.T) {
	for name, text := range map[string]string{
		"busy": busy,
		"quiet": `
duration: 6h
nodes: [{name: n, count: 2, resources: {cpu: 4}}]
pools: {low: {}, high: {min_share_resources: {cpu: 4}}}
scheduler: {heartbeat_period: 1s}
operations:
  - {name: old, pool: low, job_count: 8, duration: 1h}
  - {name: new, pool: high, arrival: 30m, job_count: 4, duration: 10m}
  - {name: late, pool: high, arrival: 3h, job_count: 40, duration: 7m}
`,
	} {
		results := make([][]byte, 2)
		due := make([]int, 2)
		for i, every := range []bool{false, true} {
			s := read(t, text)
			settings := SettingsOf(s)
			r := newRun(s, core.New(settings), Options{})
			r.options.Watch = func(now time.Time, input core.Input, _ *core.Decisions) {
				if every { // an input that may change anything makes the next update due
					if err := r.core.Apply(now, &core.SettingsInput{Settings: settings}, &core.Decisions{}); err != nil {
						t.Fatal(err)
					}
				}
				if r.core.UpdateDue(now.Add(time.Millisecond)) {
					due[i]++
				}
			}
			result, err := r.complete(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			results[i], _ = result.JSON()
		}
		if !bytes.Equal(results[0], results[1]) {
			t.Errorf("%s: the runs differ", name)
		}
		t.Logf("%s: an update is due after %d inputs, of %d", name, due[0], due[1])
		if name == "quiet" && due[0] > due[1]/10 {
			t.Errorf("an update is due after %d inputs, of %d", due[0], due[1])
		}
	}
}

// A preempted job restarts and runs for its whole duration; its old event has no
// effect.
func TestAPreemptedJobBeginsAgain(t *testing.T) {
	r := simulate(t, `
nodes: [{name: n, count: 2, resources: {cpu: 4}}]
pools: {low: {}, high: {min_share_resources: {cpu: 4}}}
scheduler: {heartbeat_period: 1s}
operations:
  - {name: old, pool: low, job_count: 8, duration: 1h}
  - {name: new, pool: high, arrival: 30m, job_count: 4, duration: 10m}
expect:
  - {operation: new, started_by: 31m, finished_by: 42m, preemptions: 0, preemptions_caused: {at_least: 4}}
  - {operation: new, starts_by_stage: {preemptive: 4}}
  - {operation: old, state: completed, preemptions: 4, completed_jobs: 8, started_jobs: 12, finished_by: 1h42m}
  - {operation: old, preempted_for: {new: 4}, preemptions_by_reason: {preemption: 4}, lost: {cpu: [7200, 7400]}}
  - {at: 35m, operation: old, running_jobs: 4, status: normal, state: running}
  - {at: 35m, operation: new, fair_share: {cpu: 4}, usage: {cpu: 4}, status: normal, starvation: non_starving}
  - {at: 30m20s, operation: new, status: below_fair_share, starvation: non_starving}
  - {pool: high, preemptions_caused: 4, below_guarantee: 60s}
  - {pool: low, preemptions: 4}
  - {cluster: true, preemptions: 4, completed_jobs: 12, preemptions_by_reason: {preemption: 4}}
`)
	old := operationNamed(t, r, "old")
	if old.Finished < 3600+1800+600 {
		t.Errorf("old has finished at %v, before its jobs could", old.Finished)
	}
	near(t, "what old got", old.Got[resource.CPU], 8*3600+old.Lost[resource.CPU], 0.1)
}

func TestLostNodesLoseTheirJobs(t *testing.T) {
	for _, silently := range []bool{false, true} {
		t.Run(fmt.Sprintf("silently %v", silently), func(t *testing.T) {
			r := simulate(t, fmt.Sprintf(`
nodes: [{name: n, count: 2, resources: {cpu: 2}}]
scheduler: {heartbeat_period: 1s}
operations: {x: {job_count: 4, duration: 30m}}
events:
  - {at: 10m, lose_nodes: {group: n, count: 1, silently: %v}}
  - {at: 20m, return_nodes: {group: n}}
expect:
  - {at: 15m, node: n-1, running_jobs: 0}
  - {at: 15m, node: n-2, running_jobs: 2, usage: {cpu: 2}}
  - {at: 15m, operation: x, running_jobs: 2}
  - {at: 25m, node: n-1, running_jobs: 2}
  - {operation: x, state: completed, finished_by: 50m1s, completed_jobs: 4, started_jobs: 6, preemptions: 0}
`, silently))
			near(t, "lost", r.Cluster.Lost[resource.CPU], 2*600, 2)
			if r.Cluster.Jobs.LostWithNodes != 2 {
				t.Errorf("%+v", r.Cluster.Jobs)
			}
			near(t, "the average capacity", r.Cluster.Capacity[resource.CPU]*r.Seconds, 4*r.Seconds-2*600, 1)
		})
	}
}

func TestNodesThatShrinkArePreempted(t *testing.T) {
	r := simulate(t, `
nodes: [{name: n, count: 2, resources: {cpu: 4, memory: 1GiB}}]
scheduler: {heartbeat_period: 1s}
operations: {x: {job_count: 8, duration: 30m}}
events:
  - {at: 10m, resize_nodes: {group: n, count: 1, resources: {cpu: 1}}}
  - {at: 20m, resize_nodes: {group: n, count: 1, resources: {cpu: 4}}}
expect:
  - {at: 15m, node: n-1, running_jobs: 1}
  - {at: 15m, node: n-2, running_jobs: 4}
  - {at: 21m, node: n-1, running_jobs: 4}
  - {operation: x, preemptions_by_reason: {node_resource_overcommit: 3}, preemptions: 3, completed_jobs: 8, finished_by: 50m2s}
`)
	near(t, "the average capacity", r.Cluster.Capacity[resource.CPU]*r.Seconds, 8*r.Seconds-3*600, 1)
}

func TestDemandOverTimeIsKeptUp(t *testing.T) {
	r := simulate(t, `
duration: 1d
nodes: [{name: n, count: 4, resources: {cpu: 10}}]
pools: {a: {}}
statistics: {period: 10s}
operations: {wave: {pool: a, demand: {jobs: 30, active: 2h-6h every 12h}, duration: {distribution: exponential, mean: 4m}}}
expect:
  - {at: 1h, pool: a, usage: {cpu: 0}}
  - {at: 4h, pool: a, usage: {cpu: 30}, demand: {cpu: 30}, tolerance: 10%}
  - {at: 8h, pool: a, usage: {cpu: 0}, demand: {cpu: 0}}
  - {at: 16h, pool: a, usage: {cpu: 30}, tolerance: 10%}
  - {operation: wave-1, state: completed, finished_by: 7h}
  - {pool: a, average_usage: {cpu: 10}, tolerance: 3%}
  - {pool: a, from: 2h, at: 6h, average_usage: {cpu: 30}, tolerance: 1%}
`)
	if len(r.Operations) != 2 {
		t.Errorf("%d operations", len(r.Operations))
	}
}

func TestASupplyOfJobsThatRunsOutIsRenewed(t *testing.T) {
	text := `
duration: 2h
nodes: [{name: n, resources: {cpu: 4}}]
pools: {a: {}}
operations: {x: {pool: a, demand: {jobs: 4}, duration: {distribution: pareto, minimum: 1s, shape: 1.01, at_most: 1m}}}
expect:
  - {at: 119m, pool: a, running_jobs: 4}
  - {pool: a, average_usage: {cpu: {at_least: 3.9}}}
`
	r := simulate(t, text)
	if len(r.Operations) < 2 || r.Operations[1].Name != "x+" {
		t.Errorf("%d operations: the supply lasted", len(r.Operations))
	}
}

func TestEventsChangeTheRun(t *testing.T) {
	simulate(t, `
duration: 3h
nodes: [{name: n, count: 2, resources: {cpu: 4}}]
pools: {a: {}, b: {}, closed: {forbid_immediate_operations: true}}
scheduler: {heartbeat_period: 1s}
statistics: {period: 1s}
operations:
  - {name: x, pool: a, job_count: 200, duration: 5m}
  - {name: y, pool: b, arrival: 1h, job_count: 200, duration: 5m}
events:
  - {at: 30m, suspend: x}
  - {at: 40m, resume: x}
  - {at: 1h, pool: b, set: {weight: 3}}
  - {at: 80m, operation: y, set: {resource_limits: {cpu: 1}}}
  - {at: 90m, operation: y, set: {pool: closed}, refused: true}
  - {at: 90m, operation: y, set: {pool: a}}
  - {at: 100m, abort: x}
  - {at: 110m, add_pool: {name: c, weight: 2}}
  - {at: 120m, remove_pool: c}
  - {at: 130m, complete: y}
expect:
  - {at: 29m, operation: x, running_jobs: 8, state: running}
  - {at: 36m, operation: x, running_jobs: 0, state: suspended}
  - {at: 41m, operation: x, running_jobs: 8}
  - {at: 70m, pool: b, fair_share: {cpu: 6}, tolerance: 1%}
  - {at: 88m, operation: y, running_jobs: 1}
  - {at: 95m, pool: a, running_jobs: 8, operations: 2}
  - {at: 95m, pool: b, running_jobs: 0, operations: 0}
  - {at: 105m, operation: x, state: aborted, error: operation aborted}
  - {at: 115m, pool: c, exists: true}
  - {operation: y, state: completed, finished_by: 130m}
  - {cluster: true, operations: 0}
`)
}

func TestOperationsThatAreRefusedAreCounted(t *testing.T) {
	r := simulate(t, `
nodes: [{resources: {cpu: 1}}]
pools: {a: {max_operation_count: 2, max_running_operation_count: 1}}
operations:
  - {name: x, pool: a, arrival: {every: 1s, count: 4}, duration: 1m}
expect:
  - {operation: x-1, state: completed, started_before: x-2}
  - {operation: x-2, state: completed, started_after: 1m}
  - {operation: x-3, state: rejected, error: pool a has reached its limit of 2 operations}
  - {at: 10s, operation: x-2, state: pending}
`)
	want := outcome.OperationCounts{Arrived: 4, Completed: 2, Rejected: 2}
	if r.Cluster.Operations != want {
		t.Errorf("got %+v, want %+v", r.Cluster.Operations, want)
	}
}

func TestEphemeralPoolsAndSeveralTreesHaveTheirBooks(t *testing.T) {
	r := simulate(t, `
nodes:
  - {name: c, count: 2, resources: {cpu: 4}, tags: [cpu]}
  - {name: g, resources: {cpu: 4, gpu: 2}, tags: [gpu]}
pool_trees:
  main: {nodes_filter: cpu, pools: {users: {create_ephemeral_subpools: true}}}
  gpus: {nodes_filter: gpu, pools: {training: {}}}
default_tree: main
operations:
  - {name: x, pool: users, user: anna, job_count: 4, duration: 5m}
  - {name: y, pool: users, user: boris, job_count: 4, duration: 5m}
  - {name: z, pool: training, pool_trees: [gpus], job_count: 2, duration: 5m, job_resources: {cpu: 1, gpu: 1}}
expect:
  - {at: 1m, pool: users$anna, exists: true, usage: {cpu: 4}}
  - {at: 6m, pool: users$anna, exists: false}
  - {at: 1m, pool: users, usage: {cpu: 8}}
  - {at: 1m, pool: training, tree: gpus, usage: {gpu: 2}, fair_share: {gpu: 2}}
`)
	var lines []string
	for _, p := range r.Pools {
		lines = append(lines, fmt.Sprintf("%*s%s/%s got %.0f", p.Depth, "", p.Tree, p.Name, p.Got[resource.CPU]))
	}
	want := `main/<Root> got 2400
 main/users got 2400
  main/users$anna got 1200
  main/users$boris got 1200
gpus/<Root> got 600
 gpus/training got 600`
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestRunsThatCannotGoOnEnd(t *testing.T) {
	r, err := Run(context.Background(), read(t, `
nodes: [{resources: {cpu: 1}}]
operations: {x: {job_count: 2, duration: 1m}}
events: [{at: 30s, suspend: x}]
`), Options{})
	if err != nil || !r.Stalled || r.Cluster.Operations.Unfinished != 1 {
		t.Errorf("%v, %+v", err, r)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Run(ctx, read(t, busy), Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled run ends with %v", err)
	}
}

func TestEventsThatAreRefusedEndTheRun(t *testing.T) {
	tests := []struct{ event, want string }{
		{"{at: 1h, abort: x}", `test.yaml:6:4: events/0: at 1h: no operation "x" runs at this time`},
		{"{at: 1m, operation: x, set: {pool: closed}}", `test.yaml:6:4: events/0: at 1m: pool closed of tree default accepts operations only in its subpools (forbid_immediate_operations)`},
		{"{at: 1m, return_nodes: {group: n}}", `test.yaml:6:4: events/0: at 1m: no node of group "n" is away`},
		{"{at: 1m, suspend: x, refused: true}", `test.yaml:6:4: events/0: at 1m: it was to be refused, but was not`},
	}
	for _, test := range tests {
		text := "duration: 2h\nnodes: [{name: n, resources: {cpu: 1}}]\npools: {a: {}, closed: {forbid_immediate_operations: true}}\noperations: {x: {pool: a, duration: 10m}}\nevents:\n - " + test.event
		if _, err := Run(context.Background(), read(t, text), Options{}); err == nil || err.Error() != test.want {
			t.Errorf("got  %v\nwant %s", err, test.want)
		}
	}
}

func TestExpectationsThatDoNotHoldSayWhatWasFound(t *testing.T) {
	s := read(t, `
duration: 2h
nodes: [{name: n, resources: {cpu: 4, memory: 4GiB}}]
pools: {a: {}}
scheduler: {heartbeat_period: 1s}
operations: {x: {pool: a, job_count: 2, duration: 10m, job_resources: {cpu: 1, memory: 1GiB}}}
expect:
  - {at: 5m, pool: a, usage: {cpu: 3, memory: 3GiB}}
  - {at: 5m, operation: x, running_jobs: {at_least: 3}, state: completed}
  - {operation: x, finished_by: 5m, waits_at_most: {max: 1ms}}
  - {at: 20m, node: n, running_jobs: [1, 5]}
  - {at: 2h, cluster: true, completed_jobs: 3}
`)
	s.Duration = document.Some(time.Hour) // shorter than a file may be
	r, err := Run(context.Background(), s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, e := range r.Failed() {
		lines = append(lines, e.String())
	}
	got := strings.Join(lines, "\n")
	want := `test.yaml:8:5: expect/0: usage/cpu at 5m of pool a is 2, expected 3
test.yaml:8:5: expect/0: usage/memory at 5m of pool a is 2 GiB, expected 3 GiB
test.yaml:9:5: expect/1: running_jobs at 5m of operation x is 2, expected at least 3
test.yaml:9:5: expect/1: state at 5m of operation x is running, expected completed
test.yaml:10:5: expect/2: finished_by at the end of operation x is 10m0.592s, expected at most 5m
test.yaml:10:5: expect/2: waits_at_most/max at the end of operation x is 590ms, expected at most 1ms
test.yaml:11:5: expect/3: running_jobs at 20m of node n is 0, expected from 1 to 5
test.yaml:12:5: expect/4: completed_jobs at 2h (the run ended before, at 1h) of the cluster is 2, expected 3`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestProgressGoesForward(t *testing.T) {
	var dates []time.Time
	last := -1.0
	_, err := Run(context.Background(), read(t, busy), Options{Progress: func(p Progress) {
		if p.Fraction < last || p.Fraction > 1 {
			t.Errorf("progress went from %v to %v", last, p.Fraction)
		}
		last = p.Fraction
		dates = append(dates, p.Now)
	}})
	if err != nil {
		t.Fatal(err)
	}
	if len(dates) < 100 || len(dates) > 600 || last < 0.99 {
		t.Errorf("%d reports, the last at %v", len(dates), last)
	}
}

func TestRingsOfOneNodeAndLongPeriodsWork(t *testing.T) {
	r := simulate(t, `
duration: 1h
nodes: [{resources: {cpu: 1}}]
scheduler: {heartbeat_period: 10m}
operations: {x: {job_count: 3, duration: 1m}}
expect: [{operation: x, started_by: 10m, state: completed}]
`)
	if r.Cluster.Work.Heartbeats > 10 {
		t.Errorf("%d heartbeats", r.Cluster.Work.Heartbeats)
	}
}

// A pool with a guarantee of two cores that demands two, and gets only one of them
// for ten of twenty minutes.
func TestComplianceWithAGuaranteeByHand(t *testing.T) {
	r := simulate(t, `
duration: 20m
nodes: [{name: n, count: 2, resources: {cpu: 1}}]
pools: {a: {min_share_resources: {cpu: 2}}}
scheduler: {heartbeat_period: 1s}
statistics: {period: 1s}
operations: {x: {pool: a, job_count: 2, duration: 1h}}
events:
  - {at: 0s, lose_nodes: {group: n, count: 1}}
  - {at: 10m, return_nodes: {group: n}}
`)
	c := poolNamed(t, r, "a").Guarantee
	near(t, "demanding", c.DemandingSeconds, 1200, 1.1)
	near(t, "below", c.BelowSeconds, 600, 3)
	near(t, "the longest time below", c.LongestSeconds, 600, 3)
	near(t, "missing", c.Missing[resource.CPU], 600, 4)
}

func TestARunThatGrowsBeyondABoundEnds(t *testing.T) {
	for _, test := range []struct {
		bounds Bounds
		want   BoundError
	}{
		{Bounds{Operations: 9}, BoundError{"operations come", 9}},
		{Bounds{RunningJobs: 20}, BoundError{"jobs run at once", 20}},
	} {
		_, err := Run(context.Background(), read(t, busy), Options{Bounds: test.bounds})
		var bound *BoundError
		if !errors.As(err, &bound) || *bound != test.want {
			t.Errorf("got %v, want %v", err, &test.want)
		}
	}
}
