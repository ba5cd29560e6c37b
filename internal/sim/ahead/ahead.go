// Package ahead answers what would happen if something changed: it runs two forks of
// a core in use ahead on virtual time, one as it is and one with the changes, and
// compares pools and operations.
//
//	Run     runs both and compares them
//	Plan    the changes, the horizon and the model of durations
//	Report  before and after, largest differences first
//
// Both runs see the same events, and the duration of a job depends on the job
// alone, so all differences come from the changes. The core that is asked about
// never changes.
package ahead

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/why"
	"github.com/weirhq/weir/internal/sim"
	"github.com/weirhq/weir/internal/sim/outcome"
	"github.com/weirhq/weir/internal/sim/scenario"
	"github.com/weirhq/weir/internal/value/document"
)

// Base is the cluster that a question is about.
type Base struct {
	// Core is forked, and never changed.
	Core *core.Core
	Now  time.Time
	// Gates keep nodes from getting jobs.
	Gates why.Gates
	// The periods of the live scheduler and its nodes.
	HeartbeatPeriod, UpdatePeriod time.Duration
	// Name returns what users call an operation.
	Name func(core.OperationID) string
	// Pace, if not nil, is called every few hundred microseconds of work. It may wait; no answer depends on it.
	Pace func()
}

// Plan is a question.
type Plan struct {
	// For is how far the runs go.
	For       time.Duration
	Durations Model
	// Nodes are added at the start.
	Nodes []scenario.NodeGroup
	// Events are the other changes, in the order of their times.
	Events []scenario.Event
}

// Bounds of a question.
const (
	MaxHorizon     = 24 * time.Hour
	MaxEvents      = 5_000_000
	MaxRunningJobs = 200_000
	maxSteps       = 720 // updates of the shares
	leastUpdate    = time.Second
)

// HorizonError refuses a horizon.
type HorizonError struct{ For time.Duration }

// Error names the bounds.
func (e *HorizonError) Error() string {
	return fmt.Sprintf("for must be more than zero and at most %s, not %s", document.FormatDuration(MaxHorizon), document.FormatDuration(e.For))
}

// Validate returns why a plan is refused before it is run.
func (p *Plan) Validate() error {
	if p.For <= 0 || p.For > MaxHorizon {
		return &HorizonError{p.For}
	}
	for _, e := range p.Events {
		if e.At < 0 || e.At > p.For {
			return fmt.Errorf("%s: at must be between 0 and %s, the end of the run, not %s", e.Where, document.FormatDuration(p.For), document.FormatDuration(e.At))
		}
	}
	return nil
}

// Run runs a cluster ahead without and with the changes of a plan. An error is the
// context's, a refusal of a change in the words of its validator, or a
// sim.BoundError.
func Run(ctx context.Context, base Base, plan *Plan) (*Report, error) {
	if err := plan.Validate(); err != nil {
		return nil, err
	}
	model := learn(base.Core, plan.Durations)
	before, err := run(ctx, &base, model, plan, false)
	if err != nil {
		return nil, err
	}
	after, err := run(ctx, &base, model, plan, true)
	if err != nil {
		return nil, err
	}
	return compare(&base, plan, model, before, after), nil
}

// StartsBy runs a cluster ahead and returns how many jobs of an operation start within
// a time, and when the first does. It changes the core of the base.
func StartsBy(ctx context.Context, base Base, id core.OperationID, by time.Duration) (starts int, first time.Time, err error) {
	plan := &Plan{For: by}
	if err := plan.Validate(); err != nil {
		return 0, first, err
	}
	if base.Name == nil {
		base.Name = func(id core.OperationID) string { return fmt.Sprint(id) }
	}
	name := base.Name(id)
	result, err := run(ctx, &base, learn(base.Core, Expected), plan, false)
	if err != nil {
		return 0, first, err
	}
	for i := range result.Operations {
		if o := &result.Operations[i]; o.Name == name {
			starts = int(o.Jobs.Started)
			if starts > 0 {
				first = base.Now.Add(time.Duration(max(o.Started, 0) * float64(time.Second)))
			}
		}
	}
	return starts, first, nil
}

func run(ctx context.Context, base *Base, model *durations, plan *Plan, changed bool) (*outcome.Result, error) {
	start := sim.From(base.Core, base.Now, model.of)
	start.Gates, start.Name = base.Gates, base.Name
	s := &scenario.Scenario{
		Start: base.Now, Duration: document.Some(plan.For), Seed: 1,
		Scheduler: scenario.Scheduler{
			HeartbeatPeriod: base.HeartbeatPeriod,
			UpdatePeriod:    max(base.UpdatePeriod, (plan.For / maxSteps).Round(leastUpdate), leastUpdate),
		},
		Statistics: scenario.Statistics{Period: max(plan.For/60, 10*time.Second), Samples: 60, Operations: 1 << 30},
	}
	if changed {
		s.Nodes, s.Events = plan.Nodes, plan.Events
	}
	result, err := sim.Resume(ctx, start, s, sim.Options{
		Bounds: sim.Bounds{Events: MaxEvents, RunningJobs: MaxRunningJobs}, Pace: base.Pace,
	})
	if err != nil {
		var bound *sim.BoundError
		if errors.As(err, &bound) {
			return nil, fmt.Errorf("%w, which is all that this question may cost: ask about a shorter time", bound)
		}
		return nil, err
	}
	return result, nil
}
