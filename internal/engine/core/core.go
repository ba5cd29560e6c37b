// Package core joins pool trees, operations and nodes into one deterministic
// state machine: inputs are values and a time, outputs are decisions with
// reasons. It has no clock, goroutine, lock or log; the daemon and the simulator
// drive it alike.
//
//	Apply                          applies an Input: the only way to change a core
//	PassHeartbeats                 the same, for heartbeats that decide nothing
//	Picture, ExplainOperation, …   for readers, which may keep the results
//	Fork, Hash                     an independent copy; a fingerprint of the state
//
// input.go lists all inputs.
package core

import (
	"time"

	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/value/resource"
)

// The owner chooses identifiers of nodes and trees small and dense, because they index slices.
type (
	// NodeID identifies a node.
	NodeID int32
	// OperationID identifies an operation. It is never reused.
	OperationID int32
	// TreeID identifies a pool tree: its position in TreesInput.
	TreeID int32
)

// JobID identifies a running job. It is the number of the start and is never
// reused.
type JobID uint64

// NoOperation means that there is no operation.
const NoOperation OperationID = -1

// none is the index that means "no element".
const none = -1

// Core is the whole scheduling state: trees, nodes, operations and jobs.
type Core struct {
	settings    Settings
	trees       []*tree
	defaultTree TreeID
	nodes       []*node
	// calm and seenAt are, by node, what a heartbeat that decides nothing needs. They are
	// lists of their own because most heartbeats of a large cluster are such: its place
	// if it is online and has reported to this core, and when it last reported.
	calm   []nodePlace
	seenAt []time.Time
	// operations are those that have not ended; nextOperation is larger than every
	// identifier that was ever used.
	operations    map[OperationID]*running
	nextOperation OperationID
	live          []OperationID // operations that have not ended, in the order they were started
	jobs          map[JobID]jobPlace
	nextJob       JobID
	// userPools maps users to the pools in which their ephemeral pools are
	// created.
	userPools map[string]string

	// stirred are operations whose controllers may have changed since they were
	// last looked at; pending is how many of the others have jobs to start, and
	// timed are those that have a deadline, in the order they were started.
	// suspects are those that have jobs to start or had some when checkProgress last
	// ran, in that order too: no other operation can be stuck.
	stirred   []OperationID
	pending   int
	timed     []OperationID
	suspects  []OperationID
	lastOrder uint64

	begun        time.Time // the first update
	nodesChecked time.Time // the last check for operations without nodes
	stuckChecked time.Time // the last check for stuck operations
	quiet        time.Time // until when updates change nothing; see UpdateDue
	wasQuiet     time.Time // the same before the input that is being applied
	idle         bool      // the input changes nothing that an update would notice
	awaits       bool      // some node may be awaited

	decisions scheduling.Decisions          `save:"-"`
	scratch   []scheduling.Allocation       `save:"-"`
	promised  []scheduling.Promise          `save:"-"` // memory of Claims
	painter   painter                       `save:"-"`
	together  func(count int, do func(int)) `save:"-"`
}

// Together lets the core run independent work in parallel. run calls do(0) …
// do(count-1), in any order or at once, and returns when all calls have
// returned. Pool trees share nothing that an update changes, so decisions do
// not depend on it. Without it the core updates trees one after the other.
func (c *Core) Together(run func(count int, do func(int))) { c.together = run }

// Settings returns the settings.
func (c *Core) Settings() Settings { return c.settings }

// Settings apply to the whole core.
type Settings struct {
	// MaxOperations is the maximum number of operations in all trees together.
	MaxOperations int
	// MinSpare is the least a node must have free for the scheduler to consider
	// it, unless its tree sets another value.
	MinSpare resource.Amounts
	// OvercommitPatience is how long the jobs of a node may hold more than the
	// node has.
	OvercommitPatience time.Duration
	// NodeTimeout is the silence after which a node goes offline and its jobs
	// are aborted; zero disables this.
	NodeTimeout time.Duration
	// NodeCheckPeriod is the interval between checks that every operation has a
	// node that could run its jobs; zero disables them. For SanityCheckDelay
	// after the first update, and after an operation's start, a missing node
	// does not fail the operation.
	NodeCheckPeriod  time.Duration
	SanityCheckDelay time.Duration
	// StuckCheckPeriod is the interval between checks for stuck operations; zero
	// disables them. Stuck states how long an operation may be stuck.
	StuckCheckPeriod time.Duration
	Stuck            scheduling.StuckPatience
	// WaitTimeout is how long a job waits on its node for preempted jobs to end,
	// unless the operation or its pools set another value.
	WaitTimeout time.Duration
	// HeartbeatPeriod is the usual time between two heartbeats of a node. Within two of
	// them every node can take part in the assembly of a gang.
	HeartbeatPeriod time.Duration
	// Memory configures how memory reserves of jobs are learnt. It is nil if
	// nothing measures memory; then reserves are not learnt.
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
		WaitTimeout:     30 * time.Second,
		HeartbeatPeriod: 5 * time.Second,
	}
}

// New returns a core without trees, nodes and operations.
func New(settings Settings) *Core {
	return &Core{settings: settings, operations: map[OperationID]*running{}, jobs: map[JobID]jobPlace{}, defaultTree: none}
}

// node is a machine.
type node struct {
	name      string
	resources resource.Amounts
	tags      []string
	tree      TreeID // none if it belongs to no tree
	at        scheduling.Node
	silent    bool      // it went offline after a silence
	awaited   bool      // it has not reported to this core yet; see AwaitInput
	until     time.Time // when an awaited node goes offline; zero: like any other node
	denied    scheduling.Classes
}

// nodePlace is the tree of a node, which may be none, and its index there.
type nodePlace struct {
	tree TreeID
	at   scheduling.Node
}

// running is an operation that has not ended.
type running struct {
	id         OperationID
	user       string
	controller *operation.Controller
	places     []place
	started    bool // at least one tree lets it run
	// choosing reports whether a revived operation has yet to choose its single
	// tree.
	choosing bool
	touched  bool // it may differ from the last picture
	stirred  bool // it is in Core.stirred
	pends    bool // it counts in Core.pending
	suspect  bool // it is in Core.suspects
	timed    bool // it is in Core.timed
	// order is its position among all operations in the order they were started.
	order uint64
	// hosted is, by task, the largest job for which there once was a node.
	hosted []resource.Amounts
}

// place is an operation's position in one tree.
type place struct {
	tree    TreeID
	slot    int32
	pool    string
	options pooltree.SchedulingOptions
	// number is the smallest number, counted from one, that no other operation
	// of the pool had; zero while it has none.
	number int
	// waitTimeout is how long a job waits on its node for preempted jobs to end.
	waitTimeout time.Duration
}

// job is what runs in an allocation.
type job struct {
	id        JobID
	operation OperationID
	ref       operation.JobRef
	stopping  operation.AbortReason // why it is being stopped
	// unconfirmed is set while an earlier core is known to have ordered the job and its
	// node has not reported it.
	unconfirmed bool
}

// jobPlace is the tree and the allocation of a job.
type jobPlace struct {
	tree TreeID
	at   scheduling.Allocation
}

// Decisions are what the owner must carry out and report, in the order of
// each slice. The owner stops jobs before it starts new ones.
type Decisions struct {
	Operations []OperationChange
	// Moved are operations whose pools changed without a request of the user.
	Moved   []Moved
	Stopped []Stopped
	Started []Started
	// Ended are jobs whose ends the controllers have recorded, and Changed are
	// operations with other changes. To be able to revive an operation, it is
	// enough to store a snapshot of each operation in Changed, and the jobs in
	// Ended since the last snapshot.
	Ended   []Ended
	Changed []OperationID
	// TakenBack are adopted jobs that never reached a node. They are pending again, as if
	// they had not been ordered.
	TakenBack []JobID
	// FailRunning are operations whose running jobs must be asked to fail by
	// themselves; nodes report their ends as usual.
	FailRunning []OperationID
	// Gangs are assemblies of gangs that have ended.
	Gangs []Assembled
	// Kept counts the members of gangs for which a heartbeat has kept room.
	Kept int
}

// Ended is the end of a job.
type Ended struct {
	Operation OperationID
	operation.JobRef
	Finished
}

// Reset empties the decisions and keeps their allocated memory.
func (d *Decisions) Reset() {
	d.Operations, d.Moved = d.Operations[:0], d.Moved[:0]
	d.Stopped, d.Started = d.Stopped[:0], d.Started[:0]
	d.Ended, d.Changed, d.FailRunning = d.Ended[:0], d.Changed[:0], d.FailRunning[:0]
	d.TakenBack = d.TakenBack[:0]
	d.Gangs, d.Kept = d.Gangs[:0], 0
}

// OperationChange reports that an operation entered a state.
type OperationChange struct {
	Operation OperationID
	State     operation.State
	// Waiting is the pool whose limit on running operations keeps a pending
	// operation waiting.
	Waiting string
	Error   *operation.Error
	// Last is the controller of an operation that has ended; the core keeps no
	// reference to it.
	Last *operation.Controller
	// Stuck states, tree by tree, why the operation was stuck, if it failed for
	// that reason.
	Stuck []Stuck
}

// Moved reports the pool of a tree that an operation is in now.
type Moved struct {
	Operation OperationID
	Tree      TreeID
	Pool      string
}

// Started is a job that starts on a node.
type Started struct {
	Job       JobID
	Operation OperationID
	Tree      TreeID
	Node      NodeID
	Stage     scheduling.Stage
	Resources resource.Amounts
	// WaitTimeout is how long the job may wait on the node for preempted jobs to
	// end.
	WaitTimeout time.Duration
	// Index is the number of the job in its operation; a job that runs again has
	// another one.
	Index uint64
	// TaskIndex is the same in its task.
	TaskIndex uint64
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
	// For is the operation that gets its resources, NoOperation if none, ForJob the job
	// of it that starts, and Balance how the two operations stand.
	For     OperationID
	ForJob  JobID
	Balance scheduling.Balance
	// Limiter is the pool or operation whose limits were violated.
	Limiter string
	// Timeout is how long the job may take to end by itself; the core counts the
	// job until its node reports its end. Zero means that the job has already
	// ended for the core.
	Timeout time.Duration
	Held    resource.Amounts
}

// NextOperation returns the smallest identifier that a new operation may get.
func (c *Core) NextOperation() OperationID { return c.nextOperation }

// operationAt returns an operation that has not ended, or nil.
func (c *Core) operationAt(id OperationID) *running { return c.operations[id] }

// addOperation adds an operation as the last one.
func (c *Core) addOperation(op *running) {
	c.operations[op.id] = op
	c.nextOperation = max(c.nextOperation, op.id+1)
	c.enlist(op)
	c.painter.renumbered = true
}
