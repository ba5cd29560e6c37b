package core

import (
	"time"

	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// Input is one event that a core processes. Inputs are the only way to change
// a core. A list of inputs with their times is a journal: applied to a new
// core, it leads to the same state.
//
// Inputs are pointers, so a sender may reuse a value. The core keeps no
// input, but it shares the specifications and configurations to which an
// input points: they are replaced, never changed.
type Input interface {
	apply(c *Core, now time.Time, out *Decisions) error
}

// Apply applies an input and appends the resulting decisions to out. Times
// never go back. An error states why the core refuses the input; then nothing
// has changed. The core never refuses an input whose comment names no reason.
func (c *Core) Apply(now time.Time, input Input, out *Decisions) error {
	c.wasQuiet, c.quiet, c.idle = c.quiet, time.Time{}, false
	err := input.apply(c, now, out)
	if err != nil || c.idle {
		c.quiet = c.wasQuiet // nothing has changed
	}
	return err
}

// Inputs returns one input of every kind, in a fixed order. Add new kinds at the end.
func Inputs() []Input {
	return []Input{
		&SettingsInput{}, &TreesInput{}, &DefaultPoolsInput{}, &VolumeInput{},
		&NodeInput{}, &NodeLossInput{}, &HeartbeatInput{}, &ReportInput{}, &SeenInput{}, &ReconcileInput{}, &JobUsageInput{},
		&StartInput{}, &AbortInput{}, &CompleteInput{}, &SuspendInput{}, &ResumeInput{}, &ParametersInput{},
		&UpdateInput{}, &NextJobInput{}, &ReviveInput{}, &PoolStateInput{}, &AwaitInput{}, &AdoptInput{}, &LiftInput{},
		&DeniedClassesInput{}, &PinInput{}, &OfferInput{}, &WithdrawInput{}, &ClassifyInput{},
	}
}

// Inputs that change the configuration.
type (
	// SettingsInput replaces the settings. It is refused if they are not valid.
	SettingsInput struct{ Settings Settings }
	// TreesInput replaces the configuration of all pool trees. Trees keep their
	// names and positions; new trees are added at the end. It is refused if it
	// would remove or rename a tree, or if a node would match two trees.
	TreesInput struct {
		Trees   []document.Named[*pooltree.Tree]
		Default string
	}
	// DefaultPoolsInput replaces the map from users to the pools below which
	// their ephemeral pools are created.
	DefaultPoolsInput struct{ Pools map[string]string }
	// VolumeInput sets the volume of an integral pool, in seconds of its whole
	// tree. It is refused if the pool does not exist.
	VolumeInput struct {
		Tree    TreeID
		Pool    string
		Seconds float64
	}
)

// Inputs from nodes.
type (
	// NodeInput adds a node, or changes its resources and tags. It is refused if
	// the node matches two trees.
	NodeInput struct {
		Node      NodeID
		Name      string
		Resources resource.Amounts
		Tags      []string
	}
	// NodeLossInput removes a node. Its jobs are aborted.
	NodeLossInput struct{ Node NodeID }
	// HeartbeatInput reports the ends of a node's jobs and requests work for it.
	HeartbeatInput struct {
		Node     NodeID
		Finished []Finished
	}
	// ReportInput reports the ends of jobs and requests no work.
	ReportInput struct{ Finished []Finished }
	// SeenInput notes that a node is online and gives it no work.
	SeenInput struct{ Node NodeID }
	// DeniedClassesInput sets which constraint classes a node denies. It is refused if
	// the node does not exist.
	DeniedClassesInput struct {
		Node   NodeID
		Denied scheduling.Classes
	}
	// PinInput keeps a running job from being preempted before a time; zero lets it be
	// preempted again. A pin of an external operation's job that is being preempted takes
	// the preemption back. Other jobs that are being stopped, and unknown ones, are left
	// as they are.
	PinInput struct {
		Job   JobID
		Until time.Time
	}
	// ReconcileInput lists all jobs that a node reports as running. Jobs that
	// the core counts on the node and the node does not have are aborted; jobs
	// that the core does not know are stopped.
	ReconcileInput struct {
		Node    NodeID
		Running []JobID
	}
	// JobUsageInput changes the resources that a running job holds.
	JobUsageInput struct {
		Job   JobID
		Usage resource.Amounts
	}
)

// Inputs from users.
type (
	// StartInput starts an operation. It is refused if its specification or a
	// limit on the number of operations, at any level, does not allow it.
	StartInput struct {
		Operation OperationID
		User      string
		Spec      *operation.Spec
	}
	// AbortInput ends an operation without a result. This and the following inputs
	// are refused if the operation does not exist, has ended, or is in a state that
	// does not allow it.
	AbortInput struct {
		Operation OperationID
		Message   string
	}
	// CompleteInput ends an operation with the result it has so far.
	CompleteInput struct{ Operation OperationID }
	// SuspendInput stops an operation from starting jobs; its running jobs
	// finish or are aborted.
	SuspendInput struct {
		Operation    OperationID
		AbortRunning bool
	}
	// ResumeInput undoes SuspendInput.
	ResumeInput struct{ Operation OperationID }
	// ParametersInput changes the parameters of an operation. It is also refused
	// if a new pool does not accept the operation.
	ParametersInput struct {
		Operation OperationID
		Update    operation.Update
	}
)

// Inputs from drivers of other systems.
type (
	// OfferInput adds jobs to an external operation. It is refused if the operation
	// does not exist or is not external, if it has too many tasks, or if jobs of the
	// task hold other amounts.
	OfferInput struct {
		Operation OperationID
		Offered   operation.Offered
	}
	// WithdrawInput removes jobs of a task that wait; those that run stay. It is refused
	// if the operation does not exist or is not external.
	WithdrawInput struct {
		Operation OperationID
		Task      string
		Cookies   []int32
	}
	// ClassifyInput sets the constraint class of a task's jobs. It is refused if the
	// operation does not exist, is external, or does not have the task.
	ClassifyInput struct {
		Operation OperationID
		Task      string
		Class     operation.Class
		Alone     bool
	}
)

// UpdateInput advances time: it recomputes fair shares and starvation, and
// enforces time limits.
type UpdateInput struct{}

// Inputs of a core that takes over from another one; revive.go has their order.
type (
	// NextJobInput sets a lower bound on the number of the next job.
	NextJobInput struct{ First JobID }
	// ReviveInput revives an operation. It is refused if none of its trees is
	// left, or if the stored state does not fit its specification.
	ReviveInput struct{ Revived }
	// PoolStateInput restores a pool's state. If the pool no longer exists, its
	// state is dropped.
	PoolStateInput struct{ PoolState }
	// AwaitInput marks a node that has not reported to this core yet. The node
	// keeps its place in totals, and its adopted jobs, until it reports, or
	// until the given time or the usual timeout of silent nodes has passed.
	// Meanwhile the starvation clocks of its tree stop: resources that may come
	// back are no reason to preempt.
	AwaitInput struct {
		Node  NodeID
		Until time.Time
	}
	// AdoptInput adopts a job that a node already runs. It is refused if the
	// node must stop the job: its operation has ended, or the job is done or
	// runs elsewhere.
	AdoptInput struct{ Adopted }
)

func (i *SettingsInput) apply(c *Core, _ time.Time, _ *Decisions) error {
	return c.configure(i.Settings)
}

func (i *TreesInput) apply(c *Core, now time.Time, out *Decisions) error {
	return c.setTrees(now, i.Trees, i.Default, out)
}

func (i *DefaultPoolsInput) apply(c *Core, now time.Time, out *Decisions) error {
	c.setDefaultPools(now, i.Pools, out)
	return nil
}

func (i *VolumeInput) apply(c *Core, _ time.Time, _ *Decisions) error {
	return c.setVolume(i.Tree, i.Pool, i.Seconds)
}

func (i *NodeInput) apply(c *Core, now time.Time, out *Decisions) error {
	return c.addNode(now, i.Node, i.Name, i.Resources, i.Tags, out)
}

func (i *NodeLossInput) apply(c *Core, now time.Time, out *Decisions) error {
	c.removeNode(now, i.Node, out)
	return nil
}

func (i *HeartbeatInput) apply(c *Core, now time.Time, out *Decisions) error {
	c.heartbeat(now, i.Node, i.Finished, out)
	return nil
}

func (i *ReportInput) apply(c *Core, now time.Time, out *Decisions) error {
	c.report(now, i.Finished, out)
	return nil
}

func (i *SeenInput) apply(c *Core, now time.Time, out *Decisions) error {
	c.seen(now, i.Node, out)
	c.takesNoJobs(i.Node, out)
	return nil
}

func (i *DeniedClassesInput) apply(c *Core, _ time.Time, out *Decisions) error {
	return c.denyClasses(i.Node, i.Denied, out)
}

func (i *PinInput) apply(c *Core, _ time.Time, out *Decisions) error {
	c.pin(i.Job, i.Until, out)
	return nil
}

func (i *OfferInput) apply(c *Core, _ time.Time, out *Decisions) error {
	return c.offer(i.Operation, i.Offered, out)
}

func (i *WithdrawInput) apply(c *Core, _ time.Time, _ *Decisions) error {
	return c.withdraw(i.Operation, i.Task, i.Cookies)
}

func (i *ClassifyInput) apply(c *Core, _ time.Time, _ *Decisions) error {
	return c.classify(i.Operation, i.Task, i.Class, i.Alone)
}

func (i *ReconcileInput) apply(c *Core, now time.Time, out *Decisions) error {
	c.reconcile(now, i.Node, i.Running, out)
	return nil
}

func (i *JobUsageInput) apply(c *Core, _ time.Time, _ *Decisions) error {
	c.setJobUsage(i.Job, i.Usage)
	return nil
}

func (i *StartInput) apply(c *Core, now time.Time, out *Decisions) error {
	return c.startOperation(now, i.Operation, i.User, i.Spec, out)
}

func (i *AbortInput) apply(c *Core, now time.Time, out *Decisions) error {
	return c.abortOperation(now, i.Operation, i.Message, out)
}

func (i *CompleteInput) apply(c *Core, now time.Time, out *Decisions) error {
	return c.completeOperation(now, i.Operation, out)
}

func (i *SuspendInput) apply(c *Core, now time.Time, out *Decisions) error {
	return c.suspendOperation(now, i.Operation, i.AbortRunning, out)
}

func (i *ResumeInput) apply(c *Core, _ time.Time, out *Decisions) error {
	return c.resumeOperation(i.Operation, out)
}

func (i *ParametersInput) apply(c *Core, now time.Time, out *Decisions) error {
	return c.updateOperation(now, i.Operation, i.Update, out)
}

func (i *UpdateInput) apply(c *Core, now time.Time, out *Decisions) error {
	c.update(now, out)
	return nil
}

func (i *NextJobInput) apply(c *Core, _ time.Time, _ *Decisions) error {
	c.setNextJob(i.First)
	return nil
}

func (i *ReviveInput) apply(c *Core, now time.Time, out *Decisions) error {
	return c.revive(now, &i.Revived, out)
}

func (i *PoolStateInput) apply(c *Core, _ time.Time, _ *Decisions) error {
	c.setPoolState(&i.PoolState)
	return nil
}

func (i *AwaitInput) apply(c *Core, _ time.Time, _ *Decisions) error {
	c.await(i.Node, i.Until)
	return nil
}

func (i *AdoptInput) apply(c *Core, _ time.Time, _ *Decisions) error {
	return c.adopt(&i.Adopted)
}
