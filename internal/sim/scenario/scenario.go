// Package scenario owns the file that describes what to simulate: nodes, pool
// trees, a workload of operations or a recorded trace, events at given times, and
// the expected outcome.
//
// A scenario is YAML or JSON. It is read strictly by tables of package document,
// which report all problems at once, with line and path. [Schema] writes the same
// tables as a JSON schema.
//
// Configuration only: nothing here draws a random number or advances time. The
// caller provides a function that opens the files that a scenario names. The
// package imports document, pooltree, treefile, resource, nodefilter,
// distribution and trace.
package scenario

import (
	"io"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/sim/distribution"
	"github.com/weirhq/weir/internal/sim/trace"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// Forever is later than every moment of a scenario.
const Forever time.Duration = 1<<63 - 1

// Scenario is what to simulate. It is complete: every name in it is known and
// every default is filled in.
type Scenario struct {
	Name        string
	Description string
	// Start is the date of time zero. All other times count from it. Dated
	// reports whether the date is meaningful, because it was given or is that of
	// a trace.
	Start time.Time
	Dated bool
	// Duration is how much time passes. If it is unset, time passes until every
	// operation has finished.
	Duration document.Optional[time.Duration]
	Seed     uint64
	Scheduler
	Statistics

	// GPUThousandths reports whether a trace counts GPUs in thousandths.
	GPUThousandths bool

	Nodes       []NodeGroup
	Trees       []document.Named[*pooltree.Tree]
	DefaultTree string
	// Volumes are what integral pools have saved at time zero.
	Volumes []Volume

	Operations   []Template
	Traces       []Trace
	Events       []Event
	Expectations []Expectation
}

// Scheduler has the periods of the scheduler and its nodes, and those of its
// settings that were given.
type Scheduler struct {
	HeartbeatPeriod time.Duration
	UpdatePeriod    time.Duration
	// MaxOperations bounds the operations of all trees together.
	MaxOperations document.Optional[int]
	// NodeTimeout is how long a node may be silent before it is given up.
	NodeTimeout document.Optional[time.Duration]
	// OvercommitPatience is how long jobs may hold more than their node has.
	OvercommitPatience document.Optional[time.Duration]
}

// LosesNodesSilently reports whether nodes fall silent at some time, so that the
// scheduler has to watch for that.
func (s *Scenario) LosesNodesSilently() bool {
	return slices.ContainsFunc(s.Events, func(e Event) bool {
		loss, ok := e.Action.(LoseNodes)
		return ok && loss.Silently
	})
}

// Statistics set how finely the run is observed.
type Statistics struct {
	// Period is the time between two observations of pools and operations.
	Period time.Duration
	// Samples bounds the points of a time series.
	Samples int
	// Operations bounds how many operations are listed one by one.
	Operations int
}

// NodeGroup is a group of equal nodes. They are named Name-1, Name-2, …; a group
// without a count is one node named Name.
type NodeGroup struct {
	Name      string
	Count     int
	Single    bool
	Resources resource.Amounts
	Tags      []string
}

// Volume is what an integral pool has saved, in seconds of the whole tree, or in
// resources × seconds of one resource if Kind is set.
type Volume struct {
	Tree, Pool string
	Seconds    float64
	Kind       document.Optional[resource.Kind]
	Amount     float64
}

// Template describes operations of one kind.
type Template struct {
	Name    string
	User    string
	Options pooltree.OperationOptions
	// Spec has further options of the specification, as written.
	Spec document.Value
	// Arrival is when operations arrive. It is not used if there is a Demand.
	Arrival  Arrival
	Demand   []DemandWindow
	JobCount distribution.Distribution
	// Resources are those of one job, in the units that users write.
	Resources [resource.KindCount]distribution.Distribution
	// Duration is the duration of a job in seconds.
	Duration distribution.Distribution
}

// Arrival is when the operations of a template arrive: at given times, or with
// Every at regular or Poisson at random intervals.
type Arrival struct {
	Times []time.Duration
	// Repeat repeats the Times after each period of this length; zero: once.
	Repeat time.Duration
	// Every is the interval, or the mean one if Poisson is set.
	Every   time.Duration
	Poisson bool
	// Active restricts Every to windows; empty: always.
	Active []Window
	// Count bounds how many operations arrive; zero: no bound.
	Count int
}

// Window is a span of time that may repeat.
type Window struct {
	From, To time.Duration // To may be Forever
	Every    time.Duration // zero: once
}

// DemandWindow is a time in which an operation demands a number of jobs at once.
type DemandWindow struct {
	Window
	Jobs int
}

// Trace is a recorded workload to replay.
type Trace struct {
	Name string
	Log  *trace.Log
	// Options apply to each of its operations, besides the pool.
	Options pooltree.OperationOptions
	// Parent is the pool whose ephemeral subpools users get. Empty: each user has
	// a pool with the user's name.
	Parent string
	// Pool is one pool for all operations; empty: see Parent.
	Pool string
}

// Opener opens a file that a scenario names. The name is as written.
type Opener func(name string) (io.ReadCloser, error)
