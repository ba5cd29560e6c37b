package core

import (
	"time"

	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// Input is one thing that happens to a core, and inputs are the only way to
// change one. A list of inputs with their times is a journal: applied to a new
// core it leads to the same state.
//
// Inputs are pointers, so that a sender may fill the same value again. The core
// keeps no input, but it shares the specifications and configurations to which
// an input points: they are replaced, never changed.
type Input interface {
	apply(c *Core, now time.Time, out *Decisions) error
}

// Apply makes an input happen and appends what follows from it to the decisions.
// Times never go back. An error says why the core refuses the input; then nothing
// has changed. An input whose comment names no reason is never refused.
func (c *Core) Apply(now time.Time, input Input, out *Decisions) error {
	return input.apply(c, now, out)
}

// Inputs that configure.
type (
	// SettingsInput replaces the settings. It is refused if they are not valid.
	SettingsInput struct{ Settings Settings }
	// TreesInput replaces the configuration of all pool trees. Trees keep their
	// names and positions, new ones come at the end. It is refused if a tree would
	// be gone or renamed, or a node would match two trees.
	TreesInput struct {
		Trees   []document.Named[*pooltree.Tree]
		Default string
	}
	// DefaultPoolsInput replaces the map from users to the pools below which pools
	// of theirs are made.
	DefaultPoolsInput struct{ Pools map[string]string }
	// VolumeInput sets what an integral pool has saved, in seconds of its whole
	// tree. It is refused if there is no such pool.
	VolumeInput struct {
		Tree    TreeID
		Pool    string
		Seconds float64
	}
)

// Inputs from nodes.
type (
	// NodeInput makes a node known, or changes its resources and tags. It is
	// refused if the node matches two trees.
	NodeInput struct {
		Node      NodeID
		Name      string
		Resources resource.Amounts
		Tags      []string
	}
	// NodeLossInput forgets a node. Its jobs are over.
	NodeLossInput struct{ Node NodeID }
	// HeartbeatInput is a node that reports the ends of jobs and asks for work.
	HeartbeatInput struct {
		Node     NodeID
		Finished []Finished
	}
	// ReportInput reports the ends of jobs and asks for no work.
	ReportInput struct{ Finished []Finished }
	// SeenInput notes that a node is there and gives it no work.
	SeenInput struct{ Node NodeID }
	// ReconcileInput has all jobs that a node says it runs. Those that the core
	// counts on it and the node does not have are over; those that the core does
	// not know are stopped.
	ReconcileInput struct {
		Node    NodeID
		Running []JobID
	}
	// JobUsageInput changes what a running job holds.
	JobUsageInput struct {
		Job   JobID
		Usage resource.Amounts
	}
)

// Inputs from users.
type (
	// StartInput starts an operation. It is refused if a limit on numbers of
	// operations, at any level, or its specification stands against it.
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
	// CompleteInput ends an operation with what it has done.
	CompleteInput struct{ Operation OperationID }
	// SuspendInput lets the jobs of an operation finish, or aborts them, and starts
	// no new ones.
	SuspendInput struct {
		Operation    OperationID
		AbortRunning bool
	}
	// ResumeInput undoes SuspendInput.
	ResumeInput struct{ Operation OperationID }
	// ParametersInput changes the parameters of an operation. It is also refused
	// if a new pool does not take the operation.
	ParametersInput struct {
		Operation OperationID
		Update    operation.Update
	}
)

// UpdateInput lets time pass: fair shares, starvation, time limits.
type UpdateInput struct{}

// Inputs of a core that takes over from another one; revive.go has their order.
type (
	// NextJobInput makes the next job have this number or a larger one.
	NextJobInput struct{ First JobID }
	// ReviveInput takes up an operation again. It is refused if none of its trees
	// is left or what was stored does not fit its specification.
	ReviveInput struct{ Revived }
	// PoolStateInput lets a pool go on from where it was. A pool that is not there
	// any more loses what it had.
	PoolStateInput struct{ PoolState }
	// AwaitInput says of a node that it has not reported to this core yet. It keeps its
	// place in totals and the jobs that are adopted on it until it reports, or until the
	// given time or the usual timeout of silent nodes has passed. Meanwhile clocks of starvation in its tree stand still: room
	// that may come back is nobody's reason to preempt.
	AwaitInput struct {
		Node  NodeID
		Until time.Time
	}
	// AdoptInput counts a job that a node runs already. It is refused if the node
	// must stop the job: its operation has ended, or it is done or runs elsewhere.
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
	return nil
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
