package sim

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/sim/distribution"
	"github.com/weirhq/weir/internal/value/document"
)

const day = `
seed: 7
duration: 4h
scheduler: {fair_share_update_period: 5s}
statistics: {period: 1m}
nodes:
  - {name: n, count: 6, resources: {cpu: 8, memory: 32GiB}}
pools:
  a: {weight: 3, min_share_resources: {cpu: 12}}
  b: {max_running_operation_count: 3}
  users: {create_ephemeral_subpools: true}
operations:
  - {name: stream, pool: a, arrival: {poisson: 6m}, job_count: {distribution: uniform, from: 5, to: 40}, duration: {distribution: lognormal, median: 6m, sigma: 1}}
  - {name: batch, pool: b, arrival: {every: 20m}, job_count: 30, duration: {distribution: exponential, mean: 10m}}
  - {name: anna, pool: users, user: anna, arrival: [61m, 121m], job_count: 20, duration: 15m, job_resources: {cpu: 2, memory: 3GiB}}
events:
  - {at: 2h30m, pool: a, set: {weight: 1}}
`

// loss ends before a run that starts after two hours.
const loss = `
  - {at: 90m, lose_nodes: {group: n, count: 2}}
  - {at: 2h, return_nodes: {group: n}}
`

// told records the decisions of a core.
func told(into *[]string) func(time.Time, core.Input, *core.Decisions) {
	return func(now time.Time, input core.Input, out *core.Decisions) {
		if len(out.Started)+len(out.Stopped)+len(out.Operations) > 0 {
			*into = append(*into, fmt.Sprintf("%v %T %v %v", now, input, out.Started, out.Stopped))
			for i := range out.Operations {
				*into = append(*into, fmt.Sprint(out.Operations[i].Operation, out.Operations[i].State))
			}
		}
	}
}

// until prepares a run of a scenario and processes all events before this time.
func until(t *testing.T, text string, moment time.Duration) *run {
	t.Helper()
	s := read(t, text)
	r := newRun(s, core.New(SettingsOf(s)), Options{})
	if err := r.prepare(); err != nil {
		t.Fatal(err)
	}
	for r.err == nil && min(r.queue.top().at, r.ring.at()) < moment {
		r.step()
	}
	if r.err != nil {
		t.Fatal(r.err)
	}
	return r
}

// present is a start from the current state of a run, in which jobs continue as
// they would have.
func (r *run) present(moment time.Duration) *Start {
	lasting := slices.Clone(r.operations)
	start := From(r.core, r.scenario.Start.Add(moment), func(a Attempt) time.Duration {
		return lasting[a.Operation].durations.Of(int(a.Cookie))
	})
	start.Phases = map[core.NodeID]time.Duration{}
	for _, p := range r.ring.places {
		start.Phases[p.Node] = p.After
	}
	start.Name = func(id core.OperationID) string { return lasting[id].name }
	return start
}

// rest resumes a scenario from a start, with the nodes and trees of the core.
func rest(t *testing.T, text string, start *Start) *run {
	t.Helper()
	s := read(t, text)
	s.Nodes, s.Trees, s.Volumes = nil, nil, nil
	r, err := newResumed(start, s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func hashOf(t *testing.T, c *core.Core) [32]byte {
	t.Helper()
	sum, err := c.Hash()
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

func TestAScenarioThatIsResumedGoesOnAsIfItHadNotStopped(t *testing.T) {
	for _, test := range []struct {
		text   string
		moment time.Duration
	}{
		{day, time.Minute}, {day, 40*time.Minute + 300*time.Millisecond}, {day, 3 * time.Hour},
		{day, 2*time.Hour + 17*time.Second}, {day, 61 * time.Minute}, {day, 20 * time.Minute},
		{day + loss, 2*time.Hour + time.Second}, {day + loss, 150 * time.Minute}, {day + loss, 121 * time.Minute}, {day + loss, 3*time.Hour + 500*time.Millisecond},
	} {
		t.Run(test.moment.String(), func(t *testing.T) {
			straight := until(t, test.text, test.moment)
			resumed := rest(t, test.text, straight.present(test.moment))
			before := hashOf(t, straight.core)
			var want, got []string
			resumed.options.Watch = told(&got)
			if _, err := resumed.complete(context.Background()); err != nil {
				t.Fatal(err)
			}
			if hashOf(t, straight.core) != before {
				t.Error("the run ahead has changed the original")
			}
			straight.options.Watch = told(&want)
			if err := straight.loop(context.Background()); err != nil {
				t.Fatal(err)
			}
			for i := range max(len(got), len(want)) {
				if i >= len(got) || i >= len(want) || got[i] != want[i] {
					t.Fatalf("decision %d of %d differs from that of %d:\n%v\n%v", i, len(got), len(want), got[i:min(i+1, len(got))], want[i:min(i+1, len(want))])
				}
			}
			if len(want) < 100 || hashOf(t, resumed.core) != hashOf(t, straight.core) {
				t.Errorf("after %d decisions the states differ", len(want))
			}
		})
	}
}

// ahead runs for an hour and a half from the middle of a day, with random durations.
func ahead(t *testing.T, c *core.Core, now time.Time, seed distribution.Seed) []byte {
	t.Helper()
	s := read(t, "{nodes: [{resources: {cpu: 1}}], operations: {x: {duration: 1m}}}")
	s.Nodes, s.Trees, s.Operations, s.Start, s.Duration = nil, nil, nil, now, document.Some(90*time.Minute)
	result, err := Resume(context.Background(), From(c, now, Drawn(seed, distribution.NewExponential(600))), s, Options{Verify: true})
	if err != nil {
		t.Fatal(err)
	}
	if result.Cluster.Jobs.Completed == 0 || result.Cluster.Operations.Completed == 0 || result.Cluster.Utilisation[1] == 0 {
		t.Errorf("nothing happens: %+v", result.Cluster)
	}
	data, err := result.JSON()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestTwoRunsAheadOfOneCoreAreEqualAndLeaveItAlone(t *testing.T) {
	const moment = 70 * time.Minute
	r := until(t, day, moment)
	now, before := r.scenario.Start.Add(moment), hashOf(t, r.core)
	first := ahead(t, r.core, now, 1)
	if !bytes.Equal(first, ahead(t, r.core, now, 1)) {
		t.Error("two runs differ")
	}
	if bytes.Equal(first, ahead(t, r.core, now, 2)) {
		t.Error("another seed gives the same run")
	}
	if hashOf(t, r.core) != before {
		t.Error("a run ahead has changed the core")
	}
}

func TestDrawnDurationsFollowFromTheAttemptAndExceedItsAge(t *testing.T) {
	draw := Drawn(3, distribution.NewExponential(60))
	seen := map[time.Duration]bool{}
	for _, a := range []Attempt{{}, {Operation: 1}, {Task: 1}, {Cookie: 1}, {Number: 1}, {Cookie: 7, Age: 10 * time.Minute}, {Age: 100 * time.Hour}} {
		d := draw(a)
		if d != draw(a) || d <= a.Age || seen[d] || d > max(10*a.Age, time.Hour) {
			t.Errorf("%+v takes %v", a, d)
		}
		seen[d] = true
	}
}

// The inputs that a run has generated are a journal: a new core to which they are
// applied reaches the same state.
func TestTheInputsOfARunReplayToTheSameState(t *testing.T) {
	s := read(t, day+loss)
	r := newRun(s, core.New(SettingsOf(s)), Options{})
	again := core.New(SettingsOf(s))
	r.options.Watch = func(now time.Time, input core.Input, _ *core.Decisions) {
		if err := again.Apply(now, input, &core.Decisions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.complete(context.Background()); err != nil {
		t.Fatal(err)
	}
	if hashOf(t, r.core) != hashOf(t, again) {
		t.Error("the states differ")
	}
}
