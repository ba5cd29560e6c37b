// Package sim runs a scheduler on virtual time. It models nodes, jobs and users
// as a scenario describes them, drives a [System] with what they do, and keeps
// the books: who was entitled to what, asked for what, got what, waited how long
// and was preempted how often.
//
// A run is a sequence of events in a stated order: by time, then by kind, then by
// insertion. Nothing depends on the clock on the wall, on goroutines or on the
// order of maps, so that the same scenario gives the same result, byte for byte.
//
// The scheduler is behind the interface [System]. The package imports scenario,
// workload, distribution and outcome, and rooms of lower layers; it opens no file
// and prints nothing.
package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/sim/distribution"
	"github.com/weirhq/weir/internal/sim/outcome"
	"github.com/weirhq/weir/internal/sim/scenario"
	"github.com/weirhq/weir/internal/sim/workload"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// Progress is how far a run has come.
type Progress struct {
	// Now is the virtual date.
	Now time.Time
	// Fraction of the run that is done, from 0 to 1. It is an estimate where the
	// scenario has no duration.
	Fraction float64
	// Operations and RunningJobs are how many there are now.
	Operations  int
	RunningJobs int
}

// Run simulates a scenario. Progress is called now and then if it is not nil. An
// error means that the run could not be finished: the context ended, an event of
// the scenario was refused, or the system broke its contract. Expectations that
// did not hold are no error; see [outcome.Result.Failed].
func Run(ctx context.Context, s *scenario.Scenario, system System, progress func(Progress)) (*outcome.Result, error) {
	began := time.Now()
	r := newRun(s, system)
	r.progress = progress
	if err := r.prepare(); err != nil {
		return nil, err
	}
	if err := r.loop(ctx); err != nil {
		return nil, err
	}
	result := r.result()
	result.Wall = time.Since(began)
	return result, nil
}

// run is a simulation that is going on.
type run struct {
	scenario *scenario.Scenario
	system   System
	idler    Idler // nil if the system is none
	progress func(Progress)

	now   time.Duration
	queue queue
	ring  ring
	out   Decisions

	trees      []document.Named[*pooltree.Tree]
	nodes      []node
	jobs       jobTable
	operations []operation
	sources    []*workload.Source
	// waiting is the next operation of each source, for which there is an event.
	waiting []workload.Operation
	// closing are operations whose window of demand has closed and whose last
	// jobs still run.
	closing []OperationID

	books       books
	observation Observation
	// poolsKnown and viewsKnown say that the system has been told nothing since
	// its pools, and its operations, were last observed.
	poolsKnown, viewsKnown bool
	expectations           expectations

	toCome      int           // sources and single events that still bring something
	active      int           // operations that have not ended
	lastChange  time.Duration // when a job last started or ended
	ended       bool
	stalled     bool
	work        outcome.Work
	err         error
	reportEvery time.Duration // virtual time between two reports
	reported    time.Duration // when the last one was
}

func newRun(s *scenario.Scenario, system System) *run {
	r := &run{scenario: s, system: system, sources: workload.Sources(s)}
	r.idler, _ = system.(Idler)
	r.trees = append(r.trees, s.Trees...)
	r.jobs.byID = map[JobID]int32{}
	return r
}

// date turns the run's time into the system's.
func (r *run) date() time.Time { return r.scenario.Start.Add(r.now) }

// fail ends the run because the system broke its contract.
func (r *run) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("at %s: the scheduler %s", document.FormatDuration(r.now), fmt.Sprintf(format, args...))
	}
}

// prepare tells the system what there is at the beginning.
func (r *run) prepare() error {
	seed := distribution.Seed(r.scenario.Seed)
	r.makeNodes()
	r.ring = newRing(len(r.nodes), r.scenario.HeartbeatPeriod, seed.Named("heartbeats"))
	r.books.open(r)
	if err := r.apply(SetTrees{Trees: r.trees, Default: r.scenario.DefaultTree}); err != nil {
		return fmt.Errorf("pool trees: %w", err)
	}
	for i := range r.nodes {
		if err := r.addNode(NodeID(i)); err != nil {
			return fmt.Errorf("node %s: %w", r.nodes[i].name, err)
		}
	}
	for _, v := range r.scenario.Volumes {
		if err := r.setVolume(v); err != nil {
			return fmt.Errorf("state of pool %s: %w", v.Pool, err)
		}
	}
	r.waiting = make([]workload.Operation, len(r.sources))
	for i := range r.sources {
		r.toCome++
		r.nextArrival(int32(i))
	}
	for i, e := range r.scenario.Events {
		if end, ok := r.scenario.Duration.Get(); !ok || e.At <= end {
			r.toCome++
			r.queue.push(e.At, kindAction, int32(i), 0)
		}
	}
	r.expectations.schedule(r)
	r.queue.push(0, kindUpdate, 0, 0)
	r.queue.push(0, kindObserve, 0, 0)
	if end, ok := r.scenario.Duration.Get(); ok {
		r.queue.push(end, kindEnd, 0, 0)
	}
	r.reportEvery = r.expectedEnd() / 500
	return r.err
}

// setVolume converts what a pool has saved into seconds of its tree.
func (r *run) setVolume(v scenario.Volume) error {
	tree := r.treeIndex(v.Tree)
	if k, ok := v.Kind.Get(); ok {
		total := r.treeTotal(tree).Float(k)
		if total == 0 {
			return fmt.Errorf("the tree has no %v", k)
		}
		v.Seconds = v.Amount / total
	}
	return r.apply(SetVolume{Tree: tree, Pool: v.Pool, Seconds: v.Seconds})
}

func (r *run) treeIndex(name string) TreeID {
	for i, t := range r.trees {
		if t.Name == name {
			return TreeID(i)
		}
	}
	return -1
}

// treeTotal sums the nodes that match a tree's filter.
func (r *run) treeTotal(tree TreeID) (total resource.Amounts) {
	filter := r.trees[tree].Value.Settings().NodesFilter.Value()
	for i := range r.nodes {
		group := r.group(&r.nodes[i])
		if filter.Matches(func(tag string) bool { return slices.Contains(group.Tags, tag) }) {
			total = total.Add(group.Resources)
		}
	}
	return total
}

// apply tells the system of a change and does what it decides.
func (r *run) apply(change Change) error {
	r.out.reset()
	r.systemMoves()
	if err := r.system.Apply(r.date(), change, &r.out); err != nil {
		return err
	}
	r.absorb()
	return nil
}

// loop lets time pass until the end.
func (r *run) loop(ctx context.Context) error {
	const between = 4096
	for steps := 0; !r.ended && r.err == nil; steps++ {
		if steps%between == 0 {
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("stopped at %s: %w", document.FormatDuration(r.now), err)
			}
		}
		r.step()
	}
	return r.err
}

// step lets the next thing happen: an event of the queue, or the heartbeat that
// comes before it. There is always an update in the queue.
func (r *run) step() {
	top := r.queue.top()
	if beat := r.ring.at(); beat < top.at || beat == top.at && kindHeartbeat < top.kind() {
		if r.idler != nil && r.idler.Idle() {
			r.ring.skipTo(top.at)
			if beat = r.ring.at(); beat > top.at || beat == top.at && top.kind() < kindHeartbeat {
				return
			}
		}
		r.now = beat
		if node := r.ring.take(); r.nodes[node].alive {
			r.heartbeat(node)
		}
		return
	}
	e := r.queue.pop()
	r.now = e.at
	r.work.Events++
	r.handle(e)
}

func (r *run) handle(e event) {
	switch e.kind() {
	case kindFinish:
		r.finish(e.a, e.b)
	case kindGraceOver:
		r.graceOver(e.a, e.b)
	case kindAction:
		r.action(e.a)
	case kindArrival:
		r.arrive(e.a)
	case kindAgain:
		r.again(OperationID(e.a))
	case kindClose:
		r.close(OperationID(e.a))
	case kindUpdate:
		r.update()
	case kindOutOfBand:
		r.outOfBand(NodeID(e.a))
	case kindBaseline:
		r.observe(true)
		r.expectations.begin(r, int(e.a))
	case kindObserve:
		r.observe(false)
		r.queue.push(r.now+r.scenario.Statistics.Period, kindObserve, 0, 0)
	case kindExpect:
		r.observe(true)
		r.expectations.evaluate(r, int(e.a))
	case kindEnd:
		r.end()
	}
}

// update lets the system compute fair shares, and looks whether the run is over.
func (r *run) update() {
	r.work.Updates++
	r.out.reset()
	r.systemMoves()
	r.system.Update(r.date(), &r.out)
	r.absorb()
	r.settleClosing()
	r.queue.push(r.now+r.scenario.UpdatePeriod, kindUpdate, 0, 0)
	r.report()
	if r.scenario.Duration.IsSet() || r.toCome > 0 {
		return
	}
	switch {
	case r.active == 0:
		r.queue.push(r.now, kindEnd, 0, 0)
	case r.jobs.running == 0 && r.now-r.lastChange > patience:
		r.stalled = true
		r.queue.push(r.now, kindEnd, 0, 0)
	}
}

// patience is how long nothing may run or start, with operations waiting and
// nothing more to come, before a run without a duration is given up. It is longer
// than the time after which schedulers give up operations that are stuck.
const patience = 3 * time.Hour

func (r *run) end() {
	r.ended = true
	r.observe(true)
	r.expectations.finish(r)
}

// report tells how far the run has come.
func (r *run) report() {
	if r.progress == nil || r.now-r.reported < r.reportEvery {
		return
	}
	r.reported = r.now
	fraction := 0.0
	if end := r.expectedEnd(); end > 0 {
		fraction = min(r.now.Seconds()/end.Seconds(), 1)
	}
	if !r.scenario.Duration.IsSet() {
		fraction = min(fraction, 0.99)
	}
	r.progress(Progress{Now: r.date(), Fraction: fraction, Operations: r.active, RunningJobs: r.jobs.running})
}

// expectedEnd is the duration of the scenario, or the time of its last operation
// and a little more.
func (r *run) expectedEnd() time.Duration {
	if end, ok := r.scenario.Duration.Get(); ok {
		return end
	}
	last := time.Duration(0)
	for _, s := range r.sources {
		if at := s.Last(); at != scenario.Forever {
			last = max(last, at)
		}
	}
	return last + last/20 + time.Hour
}
