package sim

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/engine/why"
	"github.com/weirhq/weir/internal/sim/distribution"
	"github.com/weirhq/weir/internal/sim/outcome"
	"github.com/weirhq/weir/internal/sim/scenario"
	"github.com/weirhq/weir/internal/value/document"
)

// Start is a core with nodes, jobs and operations from which a run continues. The
// run reads these from the core; the other fields add what a core does not know.
type Start struct {
	// Core belongs to the run, which changes it: see From.
	Core *core.Core
	// Now is the time of the core. It is not before the Start of the scenario that
	// the run follows.
	Now time.Time
	// Durations returns how long the jobs of existing operations run.
	Durations Durations
	// Phases are when nodes report within the heartbeat period, counted from the
	// Start of the scenario. A node without a phase keeps the one of its last
	// report.
	Phases map[core.NodeID]time.Duration
	// Name returns the name of an operation; nil names it by its number.
	Name func(core.OperationID) string
	// Gates keep nodes from getting jobs: single nodes for the whole run, unless an
	// event opens them, and all nodes until the latest time that a gate has. Nodes that
	// are awaited report at once.
	Gates why.Gates
}

// From returns a start at the present state of a core that another component owns.
// It forks the core, so that the run does not change the original.
func From(c *core.Core, now time.Time, durations Durations) *Start {
	fork := c.Fork()
	fork.Together(nil) // a run uses one processor
	return &Start{Core: fork, Now: now, Durations: durations}
}

// Attempt is one start of a job.
type Attempt struct {
	Operation    core.OperationID
	Task, Cookie int32
	// Number counts the starts of this job in the run, from zero; a job that was
	// running at the start has the number zero.
	Number int
	// Age is how long it has been running.
	Age time.Duration
}

// Durations returns how long an attempt runs from its start, more than its age. It
// must depend on its argument alone: then two runs that differ in one change differ
// only by its consequences.
type Durations func(Attempt) time.Duration

// Drawn draws durations, in seconds, from a distribution. Each attempt has a
// separate sequence. A job that is older than many draws gets a Pareto tail: it
// runs up to ten times its age.
func Drawn(seed distribution.Seed, law distribution.Distribution) Durations {
	const tries = 64
	return func(a Attempt) time.Duration {
		stream := seed.At(int(a.Operation)).At(int(a.Task)).At(int(a.Cookie)).At(a.Number).Stream()
		for range tries {
			if d := time.Duration(law.Draw(&stream) * float64(time.Second)).Round(time.Millisecond); d > a.Age {
				return d
			}
		}
		return time.Duration(float64(a.Age) * min(1/(1-stream.Float64()), 10)).Round(time.Millisecond)
	}
}

// Resume continues a scenario from a start, up to the scenario's duration. Events
// of the scenario before the start have happened already; its nodes are added to
// those of the core, and its trees, if it has any, replace the core's. Jobs that
// the core is stopping end at once. The core watches for silent nodes only if the
// scenario has them. Operations with demand over time are not continued, and
// operations of two sources that arrive at the same moment arrive in the order of
// the sources.
func Resume(ctx context.Context, start *Start, s *scenario.Scenario, options Options) (*outcome.Result, error) {
	r, err := newResumed(start, s, options)
	if err != nil {
		return nil, err
	}
	return r.complete(ctx)
}

func newResumed(start *Start, s *scenario.Scenario, options Options) (*run, error) {
	from := start.Now.Sub(s.Start)
	if from < 0 {
		return nil, fmt.Errorf("the run begins at %v, before the scenario, which begins at %v", start.Now, s.Start)
	}
	r := newRun(s, start.Core, options)
	r.start, r.from, r.now, r.lastChange, r.reported = start, from, from, from, from
	return r, nil
}

// phase is when a node reports within the heartbeat period.
func (s *Start) phase(id core.NodeID, to *scenario.Scenario) time.Duration {
	if phase, ok := s.Phases[id]; ok {
		return phase
	}
	phase := s.Core.LastSeen(id).Sub(to.Start) % to.HeartbeatPeriod
	if phase < 0 {
		phase += to.HeartbeatPeriod
	}
	return phase.Truncate(time.Millisecond)
}

// takeUp reads the trees and nodes that the core has.
func (r *run) takeUp() {
	if settings := r.core.Settings(); !r.scenario.LosesNodesSilently() && settings.NodeTimeout > 0 {
		settings.NodeTimeout = 0
		r.happens(&core.SettingsInput{Settings: settings})
		r.everyBeat = false
	}
	picture := r.core.Picture(r.date())
	if len(r.scenario.Trees) == 0 {
		for i, t := range picture.Trees {
			r.trees = append(r.trees, document.Named[*pooltree.Tree]{Name: t.Name, Value: t.Config})
			if core.TreeID(i) == picture.Default {
				r.defaultTree = t.Name
			}
		}
	}
	for n := range picture.Nodes() {
		for len(r.nodes) < int(n.ID) {
			r.nodes, r.pulses = append(r.nodes, node{first: -1}), append(r.pulses, pulse{}) // a number without a node
		}
		r.nodes = append(r.nodes, node{name: n.Name, group: n.Name, tags: n.Tags, resources: n.Resources, first: -1})
		r.pulses = append(r.pulses, pulse{alive: n.Online})
	}
	for i := range r.start.Gates.Nodes {
		if g := &r.start.Gates.Nodes[i]; int(g.Node) < len(r.pulses) && g.Code != why.NodeAwaited {
			r.pulses[g.Node].closed = true
		}
	}
	for _, g := range r.start.Gates.Cluster {
		r.closedUntil = max(r.closedUntil, g.Until.Sub(r.scenario.Start))
	}
	r.firstNew = r.core.NextOperation()
}

// takeUpWork opens the books with the operations and jobs that the core has.
func (r *run) takeUpWork() {
	for i := range r.nodes {
		if n := &r.nodes[i]; r.pulses[i].alive {
			r.books.room.enter(r.now, n.resources, 1)
		}
	}
	r.inherited = map[core.OperationID]int32{}
	var jobs []core.JobInfo
	for op := range r.core.Picture(r.date()).Operations() {
		r.inherit(op)
		jobs = append(jobs, r.core.JobsOf(op.ID)...)
	}
	// Jobs that end at the same moment end in the order in which they started.
	slices.SortFunc(jobs, func(a, b core.JobInfo) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.Job, b.Job))
	})
	var over []core.Finished
	for i := range jobs {
		if jobs[i].Stopping != operation.NotAborted {
			over = append(over, core.Finished{Job: jobs[i].Job, State: core.JobAborted})
		} else {
			r.goOn(&jobs[i])
		}
	}
	if len(over) > 0 {
		r.happens(&core.ReportInput{Finished: over})
	}
}

// inherit opens the account of an operation that the core has.
func (r *run) inherit(info *core.Operation) {
	o := operationAccount{
		id: info.ID, name: fmt.Sprintf("operation-%d", info.ID), state: info.State,
		arrived: info.Started.Sub(r.scenario.Start), started: never, finished: never,
		first: placement{pool: -1}, attempts: map[jobKey]int{},
	}
	if r.start.Name != nil {
		o.name = r.start.Name(info.ID)
	}
	o.template = o.name
	o.jobCount = info.Spec.JobCount()
	if info.Statistics.Counters.Completed > 0 {
		o.started = o.arrived
	}
	if r.expectations.asksForWaits(o.name, o.template) {
		o.allWaits = new(waits)
	}
	r.inherited[info.ID] = int32(len(r.operations))
	r.operations = append(r.operations, o)
	r.active++
	r.settlePlaces(info.ID)
}

// goOn lets a job that the core has continue to run.
func (r *run) goOn(info *core.JobInfo) {
	j := job{
		id: info.Job, startedAt: info.Started.Sub(r.scenario.Start), operation: r.indexOf(info.Operation),
		key: jobKey{info.JobRef.Task, info.Cookie}, node: info.Node, tree: info.Tree, resources: info.Resources, victimOf: nobody,
	}
	o := &r.operations[j.operation]
	slot := r.put(j)
	r.books.entered(r, o, &j)
	if o.started == never || o.started > j.startedAt {
		o.started = j.startedAt
	}
	ends := j.startedAt + r.durationOf(o, j.key, r.now-j.startedAt)
	r.queue.push(max(ends, r.now), kindFinish, slot, r.jobs.table[slot].generation)
}

// durationOf returns how long a job runs that starts now or has run for a while.
func (r *run) durationOf(o *operationAccount, key jobKey, age time.Duration) time.Duration {
	if o.attempts == nil {
		return o.durations.Of(int(key.cookie))
	}
	number := o.attempts[key]
	o.attempts[key]++
	return r.start.Durations(Attempt{Operation: o.id, Task: key.task, Cookie: key.cookie, Number: number, Age: age})
}
