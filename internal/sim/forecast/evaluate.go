package forecast

import (
	"context"
	"fmt"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/sim"
	"github.com/weirhq/weir/internal/sim/ahead"
	"github.com/weirhq/weir/internal/sim/distribution"
	"github.com/weirhq/weir/internal/sim/scenario"
)

// Trial describes an evaluation.
type Trial struct {
	// Part is the part of the arrivals for which forecasts are made, from 0 to 1.
	Part float64
	Seed uint64
	// Progress is called from time to time if it is not nil.
	Progress func(sim.Progress)
}

// Collection is the forecasts of a trial with their outcomes.
type Collection struct {
	Arrived int       `json:"arrived"` // operations
	Waited  int       `json:"waited"`  // those that could not start at once
	Made    int       `json:"made"`    // those of them with forecasts
	Seed    uint64    `json:"seed"`
	Records []*Record `json:"records"` // in the order in which they were made
}

// Record is what the methods said about a target of an operation, before correction.
type Record struct {
	Place
	Target Target    `json:"target"`
	Made   time.Time `json:"made"`
	Raw    Raw       `json:"raw"`
	// OfAll are the quantiles of recent waits of all sizes and Mean their mean. Runs
	// are the answers of one run with mean run times and with limits.
	OfAll Quantiles  `json:"of_all"`
	Mean  float64    `json:"mean"`
	Runs  [2]float64 `json:"runs"`
	// Outcome is what happened, in seconds from Made; -1 if it is not known.
	Outcome float64 `json:"outcome"`
}

// Collect simulates a scenario and makes forecasts at random arrivals of operations
// that cannot start at once. A forecast uses only what has happened by then; the
// simulation goes on and shows the outcome.
func Collect(ctx context.Context, s *scenario.Scenario, t Trial) (*Collection, error) {
	e := &evaluation{
		ctx: ctx, scenario: s, seed: distribution.Seed(t.Seed), part: t.Part, model: NewModel(), history: NewHistory(),
		operations: map[core.OperationID]*arrival{}, jobs: map[core.JobID]jobStart{}, longest: map[string]time.Duration{},
		core: core.New(sim.SettingsOf(s)),
	}
	start := &sim.Start{Core: e.core, Now: s.Start}
	if _, err := sim.Resume(ctx, start, s, sim.Options{Decided: e.watch, Progress: t.Progress}); err != nil {
		return nil, err
	}
	if e.err != nil {
		return nil, e.err
	}
	return &Collection{Arrived: e.arrived, Waited: e.waited, Made: e.made, Seed: t.Seed, Records: e.records}, nil
}

// evaluation is an evaluation in progress.
type evaluation struct {
	ctx      context.Context
	scenario *scenario.Scenario
	core     *core.Core
	seed     distribution.Seed
	part     float64
	err      error

	model   *Model
	history *History
	// operations and jobs are those that have not ended; longest is the longest run of
	// a job by user.
	operations map[core.OperationID]*arrival
	jobs       map[core.JobID]jobStart
	longest    map[string]time.Duration

	arrived, waited, made int
	records               []*Record
}

// arrival is an operation that has not ended.
type arrival struct {
	place     Place
	user      string
	at        time.Time
	started   bool
	waits     bool // it could not start at once
	forecasts [TargetCount]*Record
}

type jobStart struct {
	operation core.OperationID
	task      int32
	at        time.Time
}

// watch follows the simulation.
func (e *evaluation) watch(now time.Time, input core.Input, out *core.Decisions) {
	if e.err != nil {
		return
	}
	if start, ok := input.(*core.StartInput); ok {
		e.arrive(now, start)
	}
	for i := range out.Ended {
		end := Cut
		if out.Ended[i].State == core.JobCompleted {
			end = Completed
		}
		e.jobEnds(now, out.Ended[i].Job, end)
	}
	for i := range out.Stopped {
		if out.Stopped[i].Timeout == 0 {
			e.jobEnds(now, out.Stopped[i].Job, Cut)
		}
	}
	for i := range out.Started {
		s := &out.Started[i]
		e.jobs[s.Job] = jobStart{s.Operation, s.Task, now}
		if a := e.operations[s.Operation]; a != nil && !a.started {
			a.started = true
			e.outcome(a, Start, now)
		}
	}
	for i := range out.Operations {
		c := &out.Operations[i]
		if a := e.operations[c.Operation]; a != nil && c.State.IsFinished() {
			if c.State == operation.Completed {
				e.outcome(a, Finish, now)
			}
			e.model.Leave(c.Operation)
			delete(e.operations, c.Operation)
		}
	}
}

func (e *evaluation) jobEnds(now time.Time, id core.JobID, end End) {
	j, ok := e.jobs[id]
	if !ok {
		return
	}
	delete(e.jobs, id)
	ran := now.Sub(j.at)
	e.model.Ended(j.operation, j.task, ran, end)
	if a := e.operations[j.operation]; a != nil {
		e.longest[a.user] = max(e.longest[a.user], ran)
	}
}

// outcome settles the forecasts of a target.
func (e *evaluation) outcome(a *arrival, target Target, now time.Time) {
	if a.waits {
		e.history.Add(a.place, target, now.Sub(a.at).Seconds())
	}
	if f := a.forecasts[target]; f != nil {
		f.Outcome = now.Sub(f.Made).Seconds()
	}
}

// arrive takes note of an operation, and makes a forecast for some.
func (e *evaluation) arrive(now time.Time, input *core.StartInput) {
	id := input.Operation
	trees := e.core.Trees()
	a := &arrival{user: input.User, at: now}
	for tree := range trees {
		if pool, ok := e.core.PoolOf(id, core.TreeID(tree)); ok {
			a.place = Place{Tree: trees[tree], Pool: pool}
		}
	}
	facts := FactsOf(input.User, a.place.Tree, a.place.Pool, input.Spec)
	a.place.Size = SizeClass(facts.Tasks[0].Jobs, facts.Tasks[0].Need)
	e.operations[id] = a
	e.model.Enter(id, facts)
	e.arrived++
	if a.waits = !e.startsNow(now, id); !a.waits {
		return
	}
	e.waited++
	stream := e.seed.Named("arrivals").At(int(id)).Stream()
	if stream.Float64() < e.part {
		e.forecast(now, id, a)
	}
}

// startsNow reports whether a job of an operation starts in one round: an update and
// a heartbeat of every node.
func (e *evaluation) startsNow(now time.Time, id core.OperationID) bool {
	fork := e.core.Fork()
	var out core.Decisions
	inputs := []core.Input{&core.UpdateInput{}}
	for _, node := range fork.OpenNodes() {
		inputs = append(inputs, &core.HeartbeatInput{Node: node})
	}
	for _, input := range inputs {
		out.Reset()
		if err := fork.Apply(now, input, &out); err != nil {
			e.err = fmt.Errorf("one round: %w", err)
			return false
		}
		for i := range out.Started {
			if out.Started[i].Operation == id {
				return true
			}
		}
	}
	return false
}

// forecast makes forecasts for an operation by all methods.
func (e *evaluation) forecast(now time.Time, id core.OperationID, a *arrival) {
	ensemble := Ensemble{
		Base: ahead.Base{Core: e.core, Now: now, HeartbeatPeriod: e.scenario.HeartbeatPeriod, UpdatePeriod: e.scenario.UpdatePeriod},
		Seed: uint64(e.seed.At(int(id))),
		Only: func(other core.OperationID) bool { return other == id },
	}
	futures, err := ensemble.Run(e.ctx, e.model, func(other core.OperationID) bool { return e.operations[other].started })
	if err != nil {
		e.err = err
		return
	}
	future := futures.List[0]
	single := e.singleRuns(&ensemble)
	if e.err != nil {
		return
	}
	e.made++
	for target := range TargetCount {
		r := &Record{Place: a.place, Target: target, Made: now, Outcome: -1}
		r.Raw.Set(ByEnsemble, future.Quantiles[target])
		if q, ok := e.history.Forecast(a.place, target, 0); ok {
			r.Raw.Set(ByHistory, q)
		}
		r.OfAll, _ = e.history.Forecast(Place{Tree: a.place.Tree, Pool: a.place.Pool}, target, 0)
		r.Mean, _ = e.history.Mean(a.place, target)
		for i, q := range single {
			r.Runs[i] = finite(q[target], Horizon.Seconds())[1]
		}
		a.forecasts[target] = r
		e.records = append(e.records, r)
	}
}

// singleRuns returns what one run says, with mean run times and with limits. The log
// has no limits: the longest run of the user so far is used.
func (e *evaluation) singleRuns(ensemble *Ensemble) (answers [2][TargetCount]Quantiles) {
	laws := e.model.Laws(e.core, ensemble.Now)
	for i, durations := range [2]sim.Durations{
		func(a sim.Attempt) time.Duration {
			return older(laws.of(taskKey{a.Operation, a.Task}).law.mean(a.Age.Seconds()), a.Age)
		},
		func(a sim.Attempt) time.Duration {
			longest, ok := e.longest[e.operations[a.Operation].user]
			if !ok {
				longest = Horizon
			}
			return older(longest.Seconds(), a.Age)
		},
	} {
		outcomes := newOutcomes(e.core, 1, ensemble.Only)
		if err := ensemble.replica(e.ctx, durations, outcomes.at(0)); err != nil {
			e.err = err
			return answers
		}
		for target, t := range [TargetCount]float64{outcomes.starts[0][0], outcomes.ends[0][0]} {
			answers[i][target] = Quantiles{t, t, t}
		}
	}
	return answers
}

// older returns a duration above an age; a job that is older runs for twice its age.
func older(seconds float64, age time.Duration) time.Duration {
	d := time.Duration(min(seconds, 100*24*3600) * float64(time.Second)).Round(time.Millisecond)
	if d <= age {
		return max(2*age, time.Millisecond)
	}
	return d
}
