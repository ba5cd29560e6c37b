// Package sim drives a scheduling core on virtual time. It models nodes, jobs and
// users as a scenario describes them, turns their actions into inputs of the core,
// carries out the core's decisions, and keeps the accounts: what each element was
// entitled to, demanded and got, how long it waited and how often it was
// preempted.
//
// A run starts with a scenario and an empty core ([Run]), or with a fork of a core
// that is in use ([Resume]).
//
// A run is a sequence of events in a fixed order: by time, then by kind, then by
// insertion. Nothing depends on the wall clock, on goroutines or on the order of
// maps, so the same scenario gives the same result, byte for byte.
//
// The package opens no file and prints nothing.
package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/sim/outcome"
	"github.com/weirhq/weir/internal/sim/scenario"
	"github.com/weirhq/weir/internal/sim/workload"
	"github.com/weirhq/weir/internal/value/document"
)

// Progress is how far a run has come.
type Progress struct {
	// Now is the virtual date.
	Now time.Time
	// Fraction is the completed part of the run, from 0 to 1. It is an estimate if
	// the scenario has no duration.
	Fraction float64
	// Operations and RunningJobs are how many there are now.
	Operations  int
	RunningJobs int
}

// Options set how a run is observed and bounded. The zero value is a plain run.
type Options struct {
	// Progress is called from time to time if it is not nil.
	Progress func(Progress)
	// Verify checks the invariants of the core after every input. A violation ends
	// the run.
	Verify bool
	Bounds Bounds
	// Promises keeps the ledger of guarantees: see [outcome.Result.Promises].
	Promises bool
	// Watch, if not nil, sees every accepted input, with the core's decisions.
	Watch func(now time.Time, input core.Input, out *core.Decisions)
	// Decided, if not nil, sees the same inputs except heartbeats of nodes that
	// have no news and no room. There are many of them, and they decide nothing.
	Decided func(now time.Time, input core.Input, out *core.Decisions)
	// Enough, if not nil, is called after every update of fair shares. The run ends
	// when it returns true.
	Enough func() bool
	// Pace, if not nil, is called again and again, at least after every update. It may wait; the run
	// does not depend on it.
	Pace func()
}

// Bounds end a run that grows too large, with a [BoundError]. Zero means no bound.
type Bounds struct {
	Operations  int // that arrive
	RunningJobs int // at the same time
	Events      int // heartbeats included
}

// BoundError ends a run that has exceeded a bound.
type BoundError struct {
	What string
	Most int
}

// Error names the bound.
func (e *BoundError) Error() string { return fmt.Sprintf("more than %d %s", e.Most, e.What) }

// Run simulates a scenario on a new core. An error means that the run could not
// finish: the context ended, the core refused an event of the scenario, a bound
// was reached, or the core broke an invariant. Failed expectations are no error;
// see [outcome.Result.Failed].
func Run(ctx context.Context, s *scenario.Scenario, options Options) (*outcome.Result, error) {
	return newRun(s, core.New(SettingsOf(s)), options).complete(ctx)
}

// SettingsOf returns the core's settings for a scenario. The core watches for
// silent nodes only if the scenario has them: otherwise heartbeats of idle nodes
// need not be simulated.
func SettingsOf(s *scenario.Scenario) core.Settings {
	settings := core.DefaultSettings()
	settings.MaxOperations = s.MaxOperations.Or(settings.MaxOperations)
	settings.OvercommitPatience = s.OvercommitPatience.Or(settings.OvercommitPatience)
	settings.NodeTimeout = s.NodeTimeout.Or(settings.NodeTimeout)
	settings.HeartbeatPeriod = s.HeartbeatPeriod
	if !s.LosesNodesSilently() {
		settings.NodeTimeout = 0
	}
	return settings
}

// run is a simulation in progress.
type run struct {
	scenario *scenario.Scenario
	core     *core.Core
	options  Options
	// everyBeat reports whether every heartbeat must be simulated, because the
	// core gives up silent nodes.
	everyBeat bool
	start     *Start // nil if the core was empty

	from time.Duration // when the run started
	// closedUntil is when nodes first get jobs.
	closedUntil time.Duration
	now         time.Duration
	queue       queue
	ring        ring
	out         core.Decisions
	beat        core.HeartbeatInput

	trees       []document.Named[*pooltree.Tree]
	defaultTree string
	nodes       []node  // by core.NodeID
	pulses      []pulse // the same
	jobs        jobTable
	// leaving and waiting are jobs for which the core's view differs from the
	// node's; see interrupt.go.
	leaving []leavingJob
	waiting []waitingJob
	// operations are in order of arrival: first those that the core had at the
	// start, whose indices are in inherited, then new ones, whose identifiers
	// start at firstNew.
	operations []operationAccount
	inherited  map[core.OperationID]int32
	firstNew   core.OperationID
	specs      specs
	sources    []*workload.Source
	// next is the next operation of each source, for which there is an event.
	next []workload.Operation
	// closing are operations whose demand window has closed and whose last jobs
	// still run.
	closing []int32

	books    books
	promises *promises // nil if they are not kept
	// poolsKnown and viewsKnown report whether nothing has happened to the core
	// since its pools, and its operations, were last read; looks counts the reads.
	poolsKnown, viewsKnown bool
	looks                  int
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

func newRun(s *scenario.Scenario, c *core.Core, options Options) *run {
	r := &run{
		scenario: s, core: c, options: options, everyBeat: c.Settings().NodeTimeout > 0,
		sources: workload.Sources(s), defaultTree: s.DefaultTree, trees: s.Trees,
		jobs: jobTable{byID: map[core.JobID]int32{}},
	}
	if options.Promises {
		r.promises = newPromises()
	}
	return r
}

// complete runs the simulation and closes the books.
func (r *run) complete(ctx context.Context) (*outcome.Result, error) {
	began := time.Now()
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

// date converts the run's time to the core's.
func (r *run) date() time.Time { return r.scenario.Start.Add(r.now) }

// fail ends the run because the core broke a rule.
func (r *run) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("at %s: the scheduler %s", document.FormatDuration(r.now), fmt.Sprintf(format, args...))
	}
}

// bound ends the run if a number exceeds its bound.
func (r *run) bound(what string, is, most int) {
	if most > 0 && is > most && r.err == nil {
		r.err = &BoundError{What: what, Most: most}
	}
}

// prepare reads what the core has, gives it what the scenario adds, and plans what
// is to come.
func (r *run) prepare() error {
	r.expectations.open(r)
	if r.start != nil {
		r.takeUp()
	}
	known := len(r.nodes)
	r.makeNodes()
	r.ring = newRing(r.places(known), r.scenario.HeartbeatPeriod)
	r.ring.skipTo(r.from)
	r.books.open(r)
	if len(r.scenario.Trees) > 0 {
		if err := r.apply(&core.TreesInput{Trees: r.trees, Default: r.defaultTree}); err != nil {
			return fmt.Errorf("pool trees: %w", err)
		}
	}
	if r.start != nil {
		r.takeUpWork()
	}
	for id := known; id < len(r.nodes); id++ {
		if err := r.addNode(core.NodeID(id)); err != nil {
			return fmt.Errorf("node %s: %w", r.nodes[id].name, err)
		}
	}
	for _, v := range r.scenario.Volumes {
		if err := r.setVolume(v); err != nil {
			return fmt.Errorf("state of pool %s: %w", v.Pool, err)
		}
	}
	r.plan()
	return r.err
}

// plan queues the events that are known in advance.
func (r *run) plan() {
	r.next = make([]workload.Operation, len(r.sources))
	for i := range r.sources {
		r.toCome++
		r.nextArrival(int32(i))
	}
	for i, e := range r.scenario.Events {
		at := e.At
		if e.Every > 0 && at < r.from {
			at += (r.from - at + e.Every - 1) / e.Every * e.Every
		}
		if end, ok := r.scenario.Duration.Get(); at >= r.from && (!ok || at <= end) {
			r.toCome++
			r.queue.push(at, kindAction, int32(i), 0)
		}
	}
	r.expectations.schedule(r)
	r.queue.push(r.nextMultiple(r.scenario.UpdatePeriod), kindUpdate, 0, 0)
	r.queue.push(r.nextMultiple(r.scenario.Statistics.Period), kindObserve, 0, 0)
	if end, ok := r.scenario.Duration.Get(); ok {
		r.queue.push(end, kindEnd, 0, 0)
	}
	r.reportEvery = r.expectedEnd() / 500
}

// nextMultiple is the first multiple of a period that is not before now.
func (r *run) nextMultiple(period time.Duration) time.Duration {
	return (r.now + period - 1) / period * period
}

// setVolume converts a pool's saved volume into seconds of its tree.
func (r *run) setVolume(v scenario.Volume) error {
	tree := r.treeIndex(v.Tree)
	if k, ok := v.Kind.Get(); ok {
		total := r.core.TreeTotal(tree).Float(k)
		if total == 0 {
			return fmt.Errorf("the tree has no %v", k)
		}
		v.Seconds = v.Amount / total
	}
	return r.apply(&core.VolumeInput{Tree: tree, Pool: v.Pool, Seconds: v.Seconds})
}

func (r *run) treeIndex(name string) core.TreeID {
	for i, t := range r.trees {
		if t.Name == name {
			return core.TreeID(i)
		}
	}
	return -1
}

// apply applies an input to the core and carries out its decisions.
func (r *run) apply(input core.Input) error {
	r.out.Reset()
	r.coreMoves()
	if err := r.core.Apply(r.date(), input, &r.out); err != nil {
		return err
	}
	if r.options.Watch != nil {
		r.options.Watch(r.date(), input, &r.out)
	}
	if r.options.Decided != nil {
		r.options.Decided(r.date(), input, &r.out)
	}
	if r.options.Verify {
		if err := r.core.Verify(); err != nil {
			r.fail("breaks an invariant: %v", err)
		}
	}
	r.absorb()
	r.promises.spent(r)
	return nil
}

// happens applies an input that the core never refuses.
func (r *run) happens(input core.Input) {
	if err := r.apply(input); err != nil {
		panic(fmt.Sprintf("%T was refused: %v", input, err))
	}
}

// loop advances time until the end.
func (r *run) loop(ctx context.Context) error {
	const between, breath = 4096, 64
	check, pace := 0, 0
	for steps := 0; !r.ended && r.err == nil; steps++ {
		if steps >= check {
			check = steps + between
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("stopped at %s: %w", document.FormatDuration(r.now), err)
			}
			r.bound("events happen", steps, r.options.Bounds.Events)
		}
		if steps >= pace && r.options.Pace != nil {
			pace = steps + breath
			r.options.Pace()
		}
		steps += r.passBeats()
		r.step()
	}
	return r.err
}

// passBeats processes heartbeats, one after another, as long as they decide nothing,
// and returns how many it has processed. In a cluster in which jobs wait for room
// most heartbeats are such.
func (r *run) passBeats() (passed int) {
	if len(r.waiting) > 0 || r.now < r.closedUntil || r.options.Watch != nil || r.options.Verify || !r.everyBeat && r.core.Idle() {
		return 0
	}
	top := r.queue.top()
	for beatsFirst(r.ring.at(), top) {
		lap, row := r.ring.lap, r.ring.row()
		if !r.pulses[row[0].Node].alive {
			r.ring.skip(1)
			continue
		}
		end := 0
		for end < len(row) && r.pulses[row[end].Node] == (pulse{alive: true}) && beatsFirst(lap+row[end].After, top) {
			end++
		}
		done := r.core.PassHeartbeats(r.scenario.Start.Add(lap), row[:end])
		if done > 0 {
			r.now = lap + row[done-1].After
			r.ring.skip(done)
			passed += done
		}
		if done < end || end == 0 {
			break
		}
	}
	r.work.Heartbeats += int64(passed)
	return passed
}

// beatsFirst reports whether a heartbeat comes before an event of the queue.
func beatsFirst(beat time.Duration, e *event) bool {
	return beat < e.at || beat == e.at && kindHeartbeat < e.kind()
}

// step processes the next event: one from the queue, or the heartbeat that is due
// before it. The queue always holds an update.
func (r *run) step() {
	top := r.queue.top()
	if beat := r.ring.at(); beatsFirst(beat, top) {
		if !r.everyBeat && r.core.Idle() {
			r.ring.skipTo(top.at)
			if beat = r.ring.at(); !beatsFirst(beat, top) {
				return
			}
		}
		r.now = beat
		if node := r.ring.take(); r.pulses[node].alive {
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
		r.again(e.a)
	case kindClose:
		r.close(e.a)
	case kindUpdate:
		r.update()
	case kindOutOfBand:
		r.outOfBand(core.NodeID(e.a))
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

// update lets the core compute fair shares, and checks whether the run has ended.
func (r *run) update() {
	r.work.Updates++
	due, pools, views := r.core.UpdateDue(r.date()), r.poolsKnown, r.viewsKnown
	r.happens(&core.UpdateInput{})
	if due {
		r.promises.updated(r)
	} else {
		r.poolsKnown, r.viewsKnown = pools, views // nothing has changed
	}
	if len(r.waiting) > 0 {
		r.expireWaiting()
	}
	r.settleClosing()
	r.queue.push(r.now+r.scenario.UpdatePeriod, kindUpdate, 0, 0)
	r.report()
	if r.options.Pace != nil {
		r.options.Pace()
	}
	if r.options.Enough != nil && r.options.Enough() {
		r.queue.push(r.now, kindEnd, 0, 0)
		return
	}
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
// nothing more to come, before a run without a duration ends. It is longer than
// the time after which schedulers fail stuck operations.
const patience = 3 * time.Hour

func (r *run) end() {
	r.ended = true
	r.observe(true)
	r.expectations.finish(r)
}

// report reports the progress of the run.
func (r *run) report() {
	if r.options.Progress == nil || r.now-r.reported < r.reportEvery {
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
	r.options.Progress(Progress{Now: r.date(), Fraction: fraction, Operations: r.active, RunningJobs: r.jobs.running})
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
