// Package core joins pool trees, operations and nodes into one deterministic
// state machine: inputs are values and a time, outputs are decisions with
// reasons. It has no clock, goroutine, lock or log; the daemon and the simulator
// drive it alike.
//
//	SetTrees, AddNode, RemoveNode, StartOperation, …   change what there is
//	Heartbeat                                          a node reports and is told
//	Update                                             time passes
//
// Every method takes the time it happens at; time does not go back. A method
// that returns an error has changed nothing.
package core

import (
	"time"

	"github.com/weirhq/weir/internal/operation"
	"github.com/weirhq/weir/internal/pooltree"
	"github.com/weirhq/weir/internal/resource"
	"github.com/weirhq/weir/internal/scheduling"
)

// Identifiers are chosen by the owner, small and dense: they index slices.
type (
	// NodeID is a node.
	NodeID int32
	// OperationID is an operation; it is not used again.
	OperationID int32
	// TreeID is a pool tree: its position in SetTrees.
	TreeID int32
)

// JobID is a running job: the number of the start, never used again.
type JobID uint64

// NoOperation is no operation at all.
const NoOperation OperationID = -1

// none is the index of nothing.
const none = -1

// Core is the state.
type Core struct {
	settings    Settings
	trees       []*tree
	defaultTree TreeID
	nodes       []*node
	operations  []*running
	live        []OperationID // those that have not ended, in the order they came
	jobs        map[JobID]jobPlace
	nextJob     JobID

	decisions scheduling.Decisions
	scratch   []scheduling.Allocation
}

// Settings concern the whole core.
type Settings struct {
	// MaxOperations is how many operations there may be in all trees.
	MaxOperations int
	// MinSpare is the least a node must have free to be looked at, unless its
	// tree says otherwise.
	MinSpare resource.Amounts
	// OvercommitPatience is how long the jobs of a node may hold more than it
	// has.
	OvercommitPatience time.Duration
	// NodeTimeout is after how long a silence a node and its jobs are given up;
	// zero means never.
	NodeTimeout time.Duration
}

// DefaultSettings returns the defaults of the reference.
func DefaultSettings() Settings {
	return Settings{
		MaxOperations:      5000,
		MinSpare:           resource.Amounts{resource.UserSlots: 1, resource.CPU: 1_00, resource.Memory: 256 << 20},
		OvercommitPatience: 15 * time.Second,
		NodeTimeout:        5 * time.Minute,
	}
}

// New returns a core without trees, nodes and operations.
func New(settings Settings) *Core {
	return &Core{settings: settings, jobs: map[JobID]jobPlace{}, defaultTree: none}
}

// node is a machine.
type node struct {
	name      string
	resources resource.Amounts
	tags      []string
	tree      TreeID // none if it belongs to no tree
	at        scheduling.Node
	seen      time.Time
	silent    bool // it was given up after a silence
}

// running is an operation that has not ended.
type running struct {
	id         OperationID
	user       string
	controller *operation.Controller
	places     []place
	started    bool // some tree lets it run
}

// place is an operation in one tree.
type place struct {
	tree    TreeID
	slot    int32
	pool    string
	options pooltree.SchedulingOptions
}

// job is what runs in an allocation.
type job struct {
	id        JobID
	operation OperationID
	ref       operation.JobRef
	stopping  operation.AbortReason // what it is being stopped for
}

// jobPlace is where a job is.
type jobPlace struct {
	tree TreeID
	at   scheduling.Allocation
}

// Decisions are what the owner has to do and to tell, in the order of each
// slice. Stopped jobs leave before started ones come.
type Decisions struct {
	Operations []OperationChange
	Stopped    []Stopped
	Started    []Started
	// Ended are jobs whose ends the controllers have heard of, and Changed are
	// operations with which more happened than that. To store a snapshot of
	// what is in Changed, and what is in Ended after the last snapshot, is
	// enough to revive an operation.
	Ended   []Ended
	Changed []OperationID
}

// Ended is the end of a job.
type Ended struct {
	Operation OperationID
	operation.JobRef
	Finished
}

// Reset empties the decisions and keeps their memory.
func (d *Decisions) Reset() {
	d.Operations, d.Stopped, d.Started = d.Operations[:0], d.Stopped[:0], d.Started[:0]
	d.Ended, d.Changed = d.Ended[:0], d.Changed[:0]
}

// OperationChange says that an operation went into a state, or moved to a pool.
type OperationChange struct {
	Operation OperationID
	State     operation.State
	// Waiting has the pool whose limit on running operations keeps a pending
	// operation waiting.
	Waiting string
	Error   *operation.Error
}

// Started is a job that begins on a node.
type Started struct {
	Job       JobID
	Operation OperationID
	Tree      TreeID
	Node      NodeID
	Stage     scheduling.Stage
	Resources resource.Amounts
	operation.JobRef
}

// Stopped is a job that must end.
type Stopped struct {
	Job       JobID
	Operation OperationID
	Node      NodeID
	Reason    operation.AbortReason
	// Preemption has the details if the job is preempted.
	Preemption scheduling.PreemptionReason
	Class      scheduling.Class
	// For is the operation that gets its room, NoOperation if none.
	For OperationID
	// Limiter is the pool or operation whose limits were violated.
	Limiter string
	// Timeout is how long the job may take to end by itself; it counts until it
	// is reported. Zero means that it is over for the core already.
	Timeout time.Duration
	Held    resource.Amounts
}

// operationAt returns an operation that has not ended.
func (c *Core) operationAt(id OperationID) *running {
	if id < 0 || int(id) >= len(c.operations) {
		return nil
	}
	return c.operations[id]
}
