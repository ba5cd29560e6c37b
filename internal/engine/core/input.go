package core

import (
	"time"

	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// Input is one thing that happens to a core. A list of inputs with their times
// is a journal: applied to a new core it leads to the same state.
type Input interface {
	apply(c *Core, now time.Time, out *Decisions) error
}

// Apply makes an input happen. An error means that nothing has changed.
func (c *Core) Apply(now time.Time, input Input, out *Decisions) error {
	return input.apply(c, now, out)
}

// The inputs are the methods of Core as values.
type (
	// TreesInput is SetTrees.
	TreesInput struct {
		Trees   []document.Named[*pooltree.Tree]
		Default string
	}
	// SettingsInput is Configure.
	SettingsInput struct{ Settings Settings }
	// VolumeInput is SetVolume.
	VolumeInput struct {
		Tree    TreeID
		Pool    string
		Seconds float64
	}
	// DefaultPoolsInput is SetDefaultPools.
	DefaultPoolsInput struct{ Pools map[string]string }
	// NodeInput is AddNode.
	NodeInput struct {
		Node      NodeID
		Name      string
		Resources resource.Amounts
		Tags      []string
	}
	// NodeLossInput is RemoveNode.
	NodeLossInput struct{ Node NodeID }
	// StartInput is StartOperation.
	StartInput struct {
		Operation OperationID
		User      string
		Spec      *operation.Spec
	}
	// AbortInput is AbortOperation.
	AbortInput struct {
		Operation OperationID
		Message   string
	}
	// CompleteInput is CompleteOperation.
	CompleteInput struct{ Operation OperationID }
	// SuspendInput is SuspendOperation.
	SuspendInput struct {
		Operation    OperationID
		AbortRunning bool
	}
	// ResumeInput is ResumeOperation.
	ResumeInput struct{ Operation OperationID }
	// ChangeInput is ChangeOperation.
	ChangeInput struct {
		Operation OperationID
		Change    Change
	}
	// HeartbeatInput is Heartbeat.
	HeartbeatInput struct {
		Node     NodeID
		Finished []Finished
	}
	// ReportInput is Report.
	ReportInput struct{ Finished []Finished }
	// UpdateInput is Update.
	UpdateInput struct{}
)

func (i TreesInput) apply(c *Core, now time.Time, out *Decisions) error {
	return c.SetTrees(now, i.Trees, i.Default, out)
}

func (i SettingsInput) apply(c *Core, _ time.Time, _ *Decisions) error {
	return c.Configure(i.Settings)
}

func (i VolumeInput) apply(c *Core, _ time.Time, _ *Decisions) error {
	return c.SetVolume(i.Tree, i.Pool, i.Seconds)
}

func (i DefaultPoolsInput) apply(c *Core, now time.Time, out *Decisions) error {
	c.SetDefaultPools(now, i.Pools, out)
	return nil
}

func (i NodeInput) apply(c *Core, now time.Time, out *Decisions) error {
	return c.AddNode(now, i.Node, i.Name, i.Resources, i.Tags, out)
}

func (i NodeLossInput) apply(c *Core, now time.Time, out *Decisions) error {
	c.RemoveNode(now, i.Node, out)
	return nil
}

func (i StartInput) apply(c *Core, now time.Time, out *Decisions) error {
	return c.StartOperation(now, i.Operation, i.User, i.Spec, out)
}

func (i AbortInput) apply(c *Core, now time.Time, out *Decisions) error {
	return c.AbortOperation(now, i.Operation, i.Message, out)
}

func (i CompleteInput) apply(c *Core, now time.Time, out *Decisions) error {
	return c.CompleteOperation(now, i.Operation, out)
}

func (i SuspendInput) apply(c *Core, now time.Time, out *Decisions) error {
	return c.SuspendOperation(now, i.Operation, i.AbortRunning, out)
}

func (i ResumeInput) apply(c *Core, _ time.Time, out *Decisions) error {
	return c.ResumeOperation(i.Operation, out)
}

func (i ChangeInput) apply(c *Core, now time.Time, out *Decisions) error {
	return c.ChangeOperation(now, i.Operation, i.Change, out)
}

func (i HeartbeatInput) apply(c *Core, now time.Time, out *Decisions) error {
	c.Heartbeat(now, i.Node, i.Finished, out)
	return nil
}

func (i ReportInput) apply(c *Core, now time.Time, out *Decisions) error {
	c.Report(now, i.Finished, out)
	return nil
}

func (i UpdateInput) apply(c *Core, now time.Time, out *Decisions) error {
	c.Update(now, out)
	return nil
}
