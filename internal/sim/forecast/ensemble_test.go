package forecast_test

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/sim/ahead"
	"github.com/weirhq/weir/internal/sim/forecast"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/test/expected"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// live is a core in use with a model that follows it.
type live struct {
	*core.Core
	tb      testing.TB
	model   *forecast.Model
	now     time.Time
	started map[core.OperationID]bool
	next    core.OperationID
}

// newLive makes a FIFO queue on some nodes of one core.
func newLive(tb testing.TB, nodes int) *live {
	l := &live{Core: core.New(core.DefaultSettings()), tb: tb, model: forecast.NewModel(), now: noon, started: map[core.OperationID]bool{}}
	tree, _, err := pooltree.FromValue(expected.Document(tb, "pools: {queue: {mode: fifo}}"), pooltree.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	l.apply(&core.TreesInput{Trees: []document.Named[*pooltree.Tree]{{Name: "default", Value: tree}}, Default: "default"})
	for id := range core.NodeID(nodes) {
		l.apply(&core.NodeInput{Node: id, Name: fmt.Sprint("node", id), Resources: resource.Amounts{resource.UserSlots: 1, resource.CPU: 100, resource.Memory: 1 << 30}})
	}
	return l
}

func (l *live) apply(input core.Input) {
	l.tb.Helper()
	var out core.Decisions
	if err := l.Apply(l.now, input, &out); err != nil {
		l.tb.Fatal(err)
	}
	for _, s := range out.Started {
		l.started[s.Operation] = true
	}
}

func (l *live) start(jobs int) core.OperationID {
	l.tb.Helper()
	spec := fmt.Sprintf("{pool: queue, tasks: {a: {job_count: %d, cpu_limit: 1, memory_limit: 1MiB}}}", jobs)
	read, err := operation.Read(expected.Document(l.tb, spec), operation.ReadOptions{CommandOptional: true})
	if err != nil {
		l.tb.Fatal(err)
	}
	l.apply(&core.StartInput{Operation: l.next, User: "anna", Spec: read.Spec})
	l.model.Enter(l.next, forecast.FactsOf("anna", "default", "queue", read.Spec))
	l.next++
	return l.next - 1
}

func (l *live) round() {
	l.apply(&core.UpdateInput{})
	for _, id := range l.OpenNodes() {
		l.apply(&core.HeartbeatInput{Node: id})
	}
}

// learn teaches the model that jobs of one-job operations run for this long.
func (l *live) learn(d time.Duration) {
	for i := range core.OperationID(40) {
		id := 1000 + i
		l.model.Enter(id, forecast.Facts{User: "anna", Tree: "default", Pool: "queue", Tasks: []forecast.TaskFacts{{
			Name: "a", Jobs: 1, Need: resource.Amounts{resource.CPU: 100, resource.Memory: 1 << 20}}}})
		l.model.Ended(id, 0, d, forecast.Completed)
		l.model.Leave(id)
	}
}

func (l *live) ensemble(seed uint64) []forecast.Future {
	l.tb.Helper()
	e := forecast.Ensemble{Base: ahead.Base{Core: l.Core, Now: l.now, HeartbeatPeriod: time.Second, UpdatePeriod: time.Second}, Seed: seed}
	futures, err := e.Run(context.Background(), l.model, func(id core.OperationID) bool { return l.started[id] })
	if err != nil {
		l.tb.Fatal(err)
	}
	if last := futures.Backlog(func(core.OperationID) bool { return true }); last != lastOf(futures.List) {
		l.tb.Errorf("the backlog ends after %v s", last)
	}
	return futures.List
}

// lastOf is when the operation that came last finishes; in a queue it is the last one.
func lastOf(list []forecast.Future) forecast.Quantiles {
	return list[len(list)-1].Quantiles[forecast.Finish]
}

func TestAnEnsembleForecastsAQueue(t *testing.T) {
	l := newLive(t, 1)
	l.learn(100 * time.Second)
	for range 4 {
		l.start(1)
	}
	l.round()
	l.now = l.now.Add(60 * time.Second) // the first job has 40 s to go
	before, err := l.Hash()
	if err != nil {
		t.Fatal(err)
	}
	futures := l.ensemble(1)
	if len(futures) != 4 || futures[0].Waits || !futures[1].Waits {
		t.Fatalf("got %+v", futures)
	}
	for i, f := range futures {
		finish := f.Quantiles[forecast.Finish]
		if want := 40 + 100*float64(i); finish[1] < want-15 || finish[1] > want+30*float64(i+1) {
			t.Errorf("operation %d: half of the futures finish by %v s, want about %v", i, finish[1], want)
		}
		if start := f.Quantiles[forecast.Start]; i > 0 && (start[1] < 40+100*float64(i-1)-15 || start[2] > finish[2] || start[0] > start[1]) {
			t.Errorf("operation %d: starts %v, finishes %v", i, start, finish)
		}
	}
	if after, _ := l.Hash(); after != before {
		t.Error("a forecast has changed the core")
	}
	if again := l.ensemble(1); !reflect.DeepEqual(again, futures) {
		t.Errorf("the same seed gives %+v, then %+v", futures, again)
	}
	if other := l.ensemble(2); reflect.DeepEqual(other, futures) {
		t.Error("another seed gives the same forecasts")
	}
}

func TestWhatNeverStartsIsBeyondTheHorizon(t *testing.T) {
	l := newLive(t, 1)
	l.learn(time.Second)
	l.start(1)
	l.round()
	never := l.start(1)
	l.apply(&core.SuspendInput{Operation: never})
	f := l.ensemble(1)[1]
	if !f.Waits || f.Quantiles[forecast.Start][0] < forecast.Horizon.Seconds() {
		t.Errorf("a suspended operation starts after %v s", f.Quantiles[forecast.Start])
	}
}
