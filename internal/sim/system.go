package sim

import (
	"fmt"
	"time"

	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// System is a scheduler as the simulator sees it: it is told what changes and
// which node reports, and answers with decisions. The simulator models nodes,
// jobs and users; everything else is the system's.
//
// Times never go back. A system must be deterministic: the same calls get the
// same answers.
type System interface {
	// Apply makes a change. An error means that the system refuses it and is as
	// before; the message is for people. Decisions that follow at once are
	// appended to out: an aborted operation stops its jobs, a removed node those
	// on it.
	Apply(now time.Time, change Change, out *Decisions) error
	// Heartbeat is the report of a node: these jobs have finished since the last
	// one, all others still run. The answer, what starts and what stops, is
	// appended to out. Started jobs are on this node.
	Heartbeat(now time.Time, node NodeID, finished []Finished, out *Decisions)
	// Update lets time pass: fair shares, volumes, starvation, timeouts. It comes
	// once per update period.
	Update(now time.Time, out *Decisions)
	// Observe writes the state into what the caller lends, whose memory it may
	// reuse. Nothing in it may be changed by the system afterwards. What it writes
	// follows from the calls above alone: the simulator does not ask again when
	// only time has passed.
	Observe(now time.Time, into *Observation)
}

// Idler is a System that can tell when heartbeats are pointless.
type Idler interface {
	// Idle says that no heartbeat without finished jobs would lead to a decision
	// or change anything that matters before the next Apply, Update or finished
	// job. The simulator then leaves such heartbeats out. A system that takes
	// silence for a lost node must be idle only when it does not mind.
	Idle() bool
}

// NodeID, OperationID and TreeID count from zero in the order in which the
// simulator made them known.
type (
	// NodeID is a node of the scenario.
	NodeID int32
	// OperationID is an operation, in the order of arrival.
	OperationID int32
	// TreeID is a pool tree, in the order of SetTrees.
	TreeID int32
	// JobID is chosen by the system. It is unique among jobs that the system has
	// started and that are not over.
	JobID uint64
)

// NoOperation stands for no operation at all.
const NoOperation OperationID = -1

// Change is one of the types below.
type Change interface{ isChange() }

// SetTrees replaces the configuration of all pool trees. The first call makes the
// trees known; later ones have the same names in the same order.
type SetTrees struct {
	Trees   []document.Named[*pooltree.Tree]
	Default string
}

// SetVolume sets what an integral pool has saved, in seconds of its whole tree.
type SetVolume struct {
	Tree    TreeID
	Pool    string
	Seconds float64
}

// AddNode brings a node, which is empty. The same node may come again after it
// was lost; jobs that the system still counts on it are over, and it stops them
// with the kind NodeLost.
type AddNode struct {
	Node      NodeID
	Name      string
	Resources resource.Amounts
	Tags      []string
}

// RemoveNode takes a node away with everything on it. The system stops its jobs
// with the kind NodeLost.
type RemoveNode struct {
	Node NodeID
}

// ResizeNode changes what a node has. Jobs on it go on; if they use more than it
// has now, it is the system's to stop some.
type ResizeNode struct {
	Node      NodeID
	Resources resource.Amounts
}

// StartOperation is an operation that a user starts: Jobs jobs of equal size.
type StartOperation struct {
	Operation OperationID
	Name      string
	User      string
	// Options are those that concern pools; Spec has whatever else the scenario
	// wrote for the specification, null if nothing.
	Options   pooltree.OperationOptions
	Spec      document.Value
	Jobs      int
	Resources resource.Amounts // of one job
}

// ChangeOperation changes an operation at run time. Unset fields stay.
type ChangeOperation struct {
	Operation      OperationID
	Pool           document.Optional[string]
	Weight         document.Optional[float64]
	ResourceLimits document.Optional[resource.Partial]
}

// AbortOperation ends an operation without a result. The system stops its jobs
// with the kind OperationEnded.
type AbortOperation struct {
	Operation OperationID
}

// CompleteOperation ends an operation with what it has done. The system stops its
// jobs with the kind OperationEnded.
type CompleteOperation struct {
	Operation OperationID
}

// SuspendOperation lets the jobs of an operation finish and starts no new ones.
type SuspendOperation struct {
	Operation OperationID
}

// ResumeOperation undoes SuspendOperation.
type ResumeOperation struct {
	Operation OperationID
}

func (SetTrees) isChange()          {}
func (SetVolume) isChange()         {}
func (AddNode) isChange()           {}
func (RemoveNode) isChange()        {}
func (ResizeNode) isChange()        {}
func (StartOperation) isChange()    {}
func (ChangeOperation) isChange()   {}
func (AbortOperation) isChange()    {}
func (CompleteOperation) isChange() {}
func (SuspendOperation) isChange()  {}
func (ResumeOperation) isChange()   {}

// Finished is a job that is over on its node.
type Finished struct {
	Job JobID
	// Aborted says that it was ended by the node after the grace that the system
	// gave it, and has to begin again.
	Aborted bool
}

// Decisions are what a system wants done, in the order of the slices within each
// kind. Stopped jobs leave before started ones come: a job is not stopped in the
// answer that starts it, and a node is never used beyond its resources.
type Decisions struct {
	Placed     []Placed
	Operations []OperationChange
	Stopped    []Stopped
	Started    []Started
}

func (d *Decisions) reset() {
	d.Placed, d.Operations = d.Placed[:0], d.Operations[:0]
	d.Stopped, d.Started = d.Stopped[:0], d.Started[:0]
}

// Placed says in which pool of a tree an operation is: when it is accepted and
// whenever that changes.
type Placed struct {
	Operation OperationID
	Tree      TreeID
	Pool      string
}

// OperationState is where an operation is in its life.
type OperationState uint8

const (
	// Pending operations wait for other operations to end.
	Pending OperationState = iota
	Running
	Completed
	Failed
	Aborted
)

// OperationChange says that an operation has a new state. The first three kinds
// of end are final.
type OperationChange struct {
	Operation OperationID
	State     OperationState
	Reason    string
}

// Started is a job that begins on a node now.
type Started struct {
	Job       JobID
	Operation OperationID
	// Index says which of the operation's jobs it is, from 0 to Jobs-1. A job
	// that begins again has its index again.
	Index int32
	Node  NodeID
	Tree  TreeID
	// Stage of scheduling in which it was found, by its name.
	Stage string
}

// StopKind says why a job is stopped, in the coarse.
type StopKind uint8

const (
	// Preempted jobs begin again later.
	Preempted StopKind = iota
	// NodeLost jobs were on a node that is gone, and begin again.
	NodeLost
	// OperationEnded jobs belong to an operation that has ended.
	OperationEnded
)

// Stopped is a job that ends now, or within Grace.
type Stopped struct {
	Job  JobID
	Kind StopKind
	// Reason is the name of the reason: starvation, resource_overcommit, ….
	Reason string
	// For is the operation that gets the room; NoOperation if none.
	For OperationID
	// Grace lets a preempted job go on for so long and keep its resources. Zero
	// ends it at once.
	Grace time.Duration
}

// Observation is the state of a system at one moment.
type Observation struct {
	// WithOperations asks for Operations, which are left empty otherwise.
	WithOperations bool
	Trees          []TreeState
	// Pools are all pools of all trees, roots included, tree after tree and
	// parents before their children.
	Pools []PoolState
	// Operations are those that have not ended, in each tree that they are in.
	Operations []OperationView
}

// TreeState is a tree at one moment.
type TreeState struct {
	Total resource.Amounts
}

// Status says whether an element has what it is entitled to.
type Status uint8

const (
	Normal Status = iota
	BelowFairShare
)

// Starvation says how long an element has been below its fair share.
type Starvation uint8

const (
	NonStarving Starvation = iota
	Starving
	AggressivelyStarving
)

// PoolState is a pool at one moment. Amounts include everything below it.
type PoolState struct {
	Tree TreeID
	Name string
	// Parent is the index in Observation.Pools; -1 for a root.
	Parent    int32
	Ephemeral bool
	FairShare fairshare.Split
	Demand    resource.Amounts
	Usage     resource.Amounts
	// Volume is what an integral pool has saved, in seconds of its tree.
	Volume            float64
	Integral          bool
	Status            Status
	Starvation        Starvation
	RunningOperations int32
	RunningJobs       int32
	PendingJobs       int32
}

// JobClass is how easily a job may be preempted.
type JobClass uint8

const (
	NonPreemptible JobClass = iota
	AggressivelyPreemptible
	Preemptible

	jobClassCount
)

// OperationView is an operation in one tree at one moment.
type OperationView struct {
	Operation   OperationID
	Tree        TreeID
	FairShare   resource.Shares
	Demand      resource.Amounts
	Usage       resource.Amounts
	Status      Status
	Starvation  Starvation
	Suspended   bool
	RunningJobs int32
	PendingJobs int32
	// Classes counts running jobs by JobClass.
	Classes [jobClassCount]int32
}

func nameOf[E ~uint8](names []string, e E) string {
	if int(e) < len(names) {
		return names[e]
	}
	return fmt.Sprintf("%T(%d)", e, uint8(e))
}

var (
	stateNames      = []string{"pending", "running", "completed", "failed", "aborted"}
	statusNames     = []string{"normal", "below_fair_share"}
	starvationNames = []string{"non_starving", "starving", "aggressively_starving"}
	classNames      = []string{"non_preemptible", "aggressively_preemptible", "preemptible"}
)

// String returns the name that documents use.
func (s OperationState) String() string { return nameOf(stateNames, s) }

// String returns the name that documents use.
func (s Status) String() string { return nameOf(statusNames, s) }

// String returns the name that documents use.
func (s Starvation) String() string { return nameOf(starvationNames, s) }

// hasEnded says whether nothing follows the state.
func (s OperationState) hasEnded() bool { return s >= Completed }
