package forecast

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/sim"
	"github.com/weirhq/weir/internal/sim/ahead"
	"github.com/weirhq/weir/internal/sim/distribution"
	"github.com/weirhq/weir/internal/sim/scenario"
	"github.com/weirhq/weir/internal/value/document"
)

// Replicas is how many possible futures an ensemble has, and Horizon how far they
// go.
const (
	Replicas = 20
	Horizon  = 24 * time.Hour
)

// Bounds of one replica. A replica that reaches them counts until there.
const (
	maxEvents      = 1_000_000
	maxRunningJobs = 200_000
)

// Target is what a forecast is about.
type Target uint8

const (
	Start  Target = iota // of the first job
	Finish               // of the operation
	TargetCount
)

// String returns the name that documents use.
func (t Target) String() string { return [...]string{"start", "finish"}[t] }

// Levels are the quantiles of a forecast: an interval that holds in 90 % of all
// cases, and the median.
var Levels = [3]float64{0.05, 0.5, 0.95}

// Quantiles are the times at the three levels, in seconds from the moment of the
// forecast. Infinity means beyond the horizon.
type Quantiles [3]float64

// Future is what an ensemble says about one operation.
type Future struct {
	Operation core.OperationID
	// Waits reports whether no job of the operation has started; then Quantiles has
	// its start.
	Waits     bool
	Quantiles [TargetCount]Quantiles
}

// Futures are the answers of an ensemble.
type Futures struct {
	List []Future // by number of the operation
	all  *outcomes
}

// Backlog returns when the last of some operations finishes.
func (f *Futures) Backlog(of func(core.OperationID) bool) Quantiles {
	last := make([]float64, len(f.all.ends))
	for i, id := range f.all.operations {
		if of(id) {
			for r := range last {
				last[r] = max(last[r], f.all.ends[r][i])
			}
		}
	}
	slices.Sort(last)
	return quantiles(last)
}

// Ensemble describes the runs.
type Ensemble struct {
	ahead.Base
	Seed     uint64
	Replicas int           // zero: Replicas
	Horizon  time.Duration // zero: Horizon
	// Only, if not nil, chooses the operations to answer for. A replica stops when they
	// have ended, which changes no answer.
	Only func(core.OperationID) bool
}

// Started reports whether a job of an operation has started already.
type Started func(core.OperationID) bool

// Run runs an ensemble. It answers for all operations of the core that have not
// ended. The core is not changed.
func (e *Ensemble) Run(ctx context.Context, model *Model, started Started) (*Futures, error) {
	laws := model.Laws(e.Core, e.Now)
	seed := distribution.Seed(e.Seed).Named("forecast")
	replicas := e.Replicas
	if replicas == 0 {
		replicas = Replicas
	}
	all := newOutcomes(e.Core, replicas, e.Only)
	for i := range replicas {
		if err := e.replica(ctx, model.Replica(seed.At(i), laws), all.at(i)); err != nil {
			return nil, err
		}
	}
	return &Futures{List: all.futures(started), all: all}, nil
}

// times are when operations start and finish in one replica, in seconds from now.
type times struct {
	index map[core.OperationID]int
	start []float64
	end   []float64
	open  int // operations that have not ended
}

// replica runs one future.
func (e *Ensemble) replica(ctx context.Context, durations sim.Durations, into *times) error {
	start := sim.From(e.Core, e.Now, durations)
	start.Gates = e.Gates
	horizon := e.Horizon
	if horizon == 0 {
		horizon = Horizon
	}
	s := &scenario.Scenario{
		Start: e.Now, Duration: document.Some(horizon), Seed: 1,
		Scheduler:  scenario.Scheduler{HeartbeatPeriod: e.HeartbeatPeriod, UpdatePeriod: max(e.UpdatePeriod, time.Second)},
		Statistics: scenario.Statistics{Period: horizon, Samples: 1},
	}
	options := sim.Options{
		Bounds:  sim.Bounds{Events: maxEvents, RunningJobs: maxRunningJobs},
		Enough:  func() bool { return into.open == 0 },
		Pace:    e.Pace,
		Decided: func(now time.Time, _ core.Input, out *core.Decisions) { into.watch(now.Sub(e.Now).Seconds(), out) },
	}
	_, err := sim.Resume(ctx, start, s, options)
	if bound := (*sim.BoundError)(nil); errors.As(err, &bound) {
		return nil // what happens later is beyond the horizon
	}
	return err
}

// watch notes what a step of a replica decided.
func (t *times) watch(now float64, out *core.Decisions) {
	for i := range out.Started {
		if at, ok := t.index[out.Started[i].Operation]; ok && math.IsInf(t.start[at], 1) {
			t.start[at] = now
		}
	}
	for i := range out.Operations {
		if c := &out.Operations[i]; c.State.IsFinished() {
			if at, ok := t.index[c.Operation]; ok && math.IsInf(t.end[at], 1) {
				if c.State == operation.Completed {
					t.end[at] = now
				}
				t.open--
			}
		}
	}
}

// outcomes are the times of all replicas.
type outcomes struct {
	operations []core.OperationID
	index      map[core.OperationID]int
	starts     [][]float64 // by replica
	ends       [][]float64
}

func newOutcomes(c *core.Core, replicas int, only func(core.OperationID) bool) *outcomes {
	o := &outcomes{operations: c.Live(), index: map[core.OperationID]int{}}
	if only != nil {
		o.operations = slices.DeleteFunc(o.operations, func(id core.OperationID) bool { return !only(id) })
	}
	slices.Sort(o.operations)
	for i, id := range o.operations {
		o.index[id] = i
	}
	for range replicas {
		for _, list := range []*[][]float64{&o.starts, &o.ends} {
			row := make([]float64, len(o.operations))
			for i := range row {
				row[i] = math.Inf(1)
			}
			*list = append(*list, row)
		}
	}
	return o
}

func (o *outcomes) at(replica int) *times {
	return &times{index: o.index, start: o.starts[replica], end: o.ends[replica], open: len(o.operations)}
}

func (o *outcomes) futures(started Started) []Future {
	list := make([]Future, len(o.operations))
	column := make([]float64, len(o.starts))
	for i, id := range o.operations {
		f := &list[i]
		f.Operation, f.Waits = id, !started(id)
		for target, rows := range [][][]float64{o.starts, o.ends} {
			if Target(target) == Start && !f.Waits {
				continue
			}
			for r := range rows {
				column[r] = rows[r][i]
			}
			slices.Sort(column)
			f.Quantiles[target] = quantiles(column)
		}
	}
	return list
}

// quantiles returns the quantiles of sorted values: the k-th of n is the quantile
// (k−½)/n, and between two they are interpolated.
func quantiles(sorted []float64) (q Quantiles) {
	for i, level := range Levels {
		q[i] = quantile(sorted, level)
	}
	return q
}

func quantile(sorted []float64, level float64) float64 {
	if len(sorted) == 0 {
		return math.Inf(1)
	}
	at := level*float64(len(sorted)) - 0.5
	below := int(math.Floor(at))
	switch {
	case below < 0:
		return sorted[0]
	case below >= len(sorted)-1:
		return sorted[len(sorted)-1]
	case math.IsInf(sorted[below+1], 1):
		if at-float64(below) < 0.5 {
			return sorted[below]
		}
		return sorted[below+1]
	}
	return sorted[below] + (at-float64(below))*(sorted[below+1]-sorted[below])
}
