// Package core joins pool trees, operations and nodes into one deterministic
// state machine: inputs are values and a time, outputs are decisions with
// reasons. It has no clock, goroutine, lock or log; the daemon and the simulator
// drive it alike.
//
//	Apply                          makes an Input happen: the only way to change a core
//	Picture, ExplainOperation, …   for readers, who may keep what they get
//	Fork, Hash                     an independent copy, a fingerprint of the state
//
// input.go lists everything that can happen.
package core

import (
	"time"

	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/value/resource"
)

// Identifiers are chosen by the owner, small and dense: they index slices.
type (
	// NodeID is a node.
	NodeID int32
	// OperationID is an operation; it is not used again.
	OperationID int32
	// TreeID is a pool tree: its position in TreesInput.
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
	// userPools is the map from users to the pools in which theirs are made.
	userPools map[string]string

	begun        time.Time // the first update
	nodesChecked time.Time // when it was last looked for operations without nodes
	stuckChecked time.Time // when it was last looked for stuck operations

	decisions scheduling.Decisions
	scratch   []scheduling.Allocation
	painter   painter
	together  func(count int, do func(int))
}

// Together gives the core a way to do several things at the same time: run calls
// do(0) … do(count-1), in any order or at once, and returns when all have returned. Pool trees
// share nothing that an update changes, so what is decided does not depend on it. Without
// it trees are updated one after the other.
func (c *Core) Together(run func(count int, do func(int))) { c.together = run }

// Settings returns the settings.
func (c *Core) Settings() Settings { return c.settings }

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
	// NodeCheckPeriod is how often it is checked that every operation has a node
	// that could run its jobs; zero means never. SanityCheckDelay is for how long
	// after the first update, and after the start of an operation, that is
	// patiently waited for.
	NodeCheckPeriod  time.Duration
	SanityCheckDelay time.Duration
	// StuckCheckPeriod is how often operations are looked for that get nowhere;
	// zero means never. Stuck says for how long they may.
	StuckCheckPeriod time.Duration
	Stuck            scheduling.StuckPatience
	// WaitTimeout is how long a job waits on its node until preempted ones have
	// left, where neither the operation nor its pools say.
	WaitTimeout time.Duration
	// Memory says how memory reserves of jobs are learnt; nil means that they are
	// not, because nobody measures.
	Memory *operation.MemoryConfig
}

// DefaultSettings returns the defaults of the reference.
func DefaultSettings() Settings {
	return Settings{
		MaxOperations:      5000,
		MinSpare:           resource.Amounts{resource.UserSlots: 1, resource.CPU: 1_00, resource.Memory: 256 << 20},
		OvercommitPatience: 15 * time.Second,
		NodeTimeout:        5 * time.Minute,
		NodeCheckPeriod:    15 * time.Second,
		SanityCheckDelay:   5 * time.Minute,
		StuckCheckPeriod:   time.Minute,
		Stuck: scheduling.StuckPatience{
			LimitingAncestor: 5 * time.Minute, NoProgress: time.Hour, Attempts: 1000,
		},
		WaitTimeout: 30 * time.Second,
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
	silent    bool      // it was given up after a silence
	awaited   bool      // it has not reported to this core yet; see AwaitInput
	until     time.Time // when it is given up if it is awaited; zero: as any other
}

// running is an operation that has not ended.
type running struct {
	id         OperationID
	user       string
	controller *operation.Controller
	places     []place
	started    bool // some tree lets it run
	// choosing says that a revived operation has yet to choose its single tree.
	choosing bool
	touched  bool // it may differ from the last picture
	// hosted is, by task, the largest job for which there was a node once.
	hosted []resource.Amounts
}

// place is an operation in one tree.
type place struct {
	tree    TreeID
	slot    int32
	pool    string
	options pooltree.SchedulingOptions
	// number is the smallest that no other operation of the pool had, counted from
	// one; zero while it has none.
	number int
	// waitTimeout is how long a job waits on its node for preempted ones.
	waitTimeout time.Duration
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
	// Moved are operations whose pools have changed without their doing.
	Moved   []Moved
	Stopped []Stopped
	Started []Started
	// Ended are jobs whose ends the controllers have heard of, and Changed are
	// operations with which more happened than that. To store a snapshot of
	// what is in Changed, and what is in Ended after the last snapshot, is
	// enough to revive an operation.
	Ended   []Ended
	Changed []OperationID
	// FailRunning are operations whose running jobs are to be asked to fail by
	// themselves; they are reported as usual.
	FailRunning []OperationID
}

// Ended is the end of a job.
type Ended struct {
	Operation OperationID
	operation.JobRef
	Finished
}

// Reset empties the decisions and keeps their memory.
func (d *Decisions) Reset() {
	d.Operations, d.Moved = d.Operations[:0], d.Moved[:0]
	d.Stopped, d.Started = d.Stopped[:0], d.Started[:0]
	d.Ended, d.Changed, d.FailRunning = d.Ended[:0], d.Changed[:0], d.FailRunning[:0]
}

// OperationChange says that an operation went into a state.
type OperationChange struct {
	Operation OperationID
	State     operation.State
	// Waiting has the pool whose limit on running operations keeps a pending
	// operation waiting.
	Waiting string
	Error   *operation.Error
	// Last is the controller of an operation that has ended, which is forgotten.
	Last *operation.Controller
	// Stuck says, tree by tree, why the operation could not get on, if that is
	// why it failed.
	Stuck []Stuck
}

// Moved says in which pool of a tree an operation is now.
type Moved struct {
	Operation OperationID
	Tree      TreeID
	Pool      string
}

// Started is a job that begins on a node.
type Started struct {
	Job       JobID
	Operation OperationID
	Tree      TreeID
	Node      NodeID
	Stage     scheduling.Stage
	Resources resource.Amounts
	// WaitTimeout is how long the job may wait on the node until preempted ones
	// have left.
	WaitTimeout time.Duration
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

// NextOperation is the smallest identifier that an operation may still get.
func (c *Core) NextOperation() OperationID { return OperationID(len(c.operations)) }

// operationAt returns an operation that has not ended.
func (c *Core) operationAt(id OperationID) *running {
	if id < 0 || int(id) >= len(c.operations) {
		return nil
	}
	return c.operations[id]
}
