package core

import (
	"time"

	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/value/resource"
)

// OperationExplanation is why an operation is where it is: tree by tree, what
// keeps its jobs waiting and where its share comes from. It shares nothing with
// the core.
type OperationExplanation struct {
	Operation OperationID
	State     operation.State
	Suspended bool
	// Block is why no job can be handed out whatever is free.
	Block operation.Block
	// BacksOffUntil is when jobs are handed out again after nodes could not start
	// any; zero while the operation does not back off.
	BacksOffUntil time.Time
	// Age is how long ago it was started.
	Age   time.Duration
	Trees []TreeExplanation
}

// TreeExplanation is an operation in one of its trees.
type TreeExplanation struct {
	Tree, Pool string
	// Waits is set while limits on numbers of operations keep it from running.
	Waits *CountLimit

	RunningJobs, WaitingJobs int32
	// Nodes is how many nodes the tree has; Fitting on how many of them a waiting
	// job would fit right now, were it this operation's turn.
	Nodes, Fitting int
	// Obstacles concern all waiting jobs; those of single tasks are in Tasks.
	Obstacles []Obstacle
	Tasks     []TaskExplanation

	Starvation scheduling.StarvationOutlook
	Preemption PreemptionExplanation
	// Share is nil before the first update.
	Share *ShareExplanation
}

// CountLimit is a pool that runs no more operations.
type CountLimit struct {
	Pool           string
	Running, Limit int
	// Ahead is how many operations wait for the same pool and came before.
	Ahead int
}

// TaskExplanation is the waiting jobs of one task.
type TaskExplanation struct {
	Task      string
	Resources resource.Amounts
	Waiting   int32
	// Fitting is on how many nodes a job would fit right now.
	Fitting   int
	Obstacles []Obstacle
}

// Obstacle is one thing that keeps jobs waiting, with the amounts that show it.
type Obstacle struct {
	Refusal scheduling.Refusal
	// Pool is the pool with the limit or the filter; empty if it is the
	// operation's own, or nobody's.
	Pool string
	// Resource is what is short, Needed what a job takes of it and Available the
	// most that there is: under the limit, or on the best node.
	Resource          resource.Kind
	Needed, Available int64
	// Nodes is on how many nodes it is so, TooSmall on how many of them it would
	// be so even if they were empty.
	Nodes, TooSmall int
}

// PreemptionExplanation is whether preemption can help the operation.
type PreemptionExplanation struct {
	scheduling.PreemptionOutlook
	// Starver is the pool because of which it may preempt, empty if it is the
	// operation itself or nobody starves.
	Starver string
}

// ShareExplanation derives a fair share.
type ShareExplanation struct {
	Share fairshare.Split
	// Bound is what keeps the share from being larger, By the pool concerned
	// (empty: the operation itself) and Resource what is scarce there.
	Bound    fairshare.Bound
	By       string
	Resource resource.Kind
	// Chain has the operation and all pools above it, up to the root.
	Chain []ShareLink
}

// ShareLink is one level of a derivation.
type ShareLink struct {
	Pool string // empty for the operation itself
	fairshare.Link
}

// ExplainOperation says why an operation is where it is. It looks at all nodes of
// its trees, so it is for people, not for every update.
func (c *Core) ExplainOperation(now time.Time, id OperationID) (OperationExplanation, error) {
	op := c.operationAt(id)
	if op == nil {
		return OperationExplanation{}, ErrNoOperation
	}
	x := OperationExplanation{
		Operation: id, State: op.controller.State(), Suspended: op.controller.Life().Suspended,
		Block: op.controller.Blocked(), Age: now.Sub(op.controller.StartTime()),
	}
	x.BacksOffUntil, _ = op.controller.BacksOffUntil()
	for i := range op.places {
		x.Trees = append(x.Trees, c.explainPlace(op, &op.places[i]))
	}
	return x, nil
}

func (c *Core) explainPlace(op *running, at *place) TreeExplanation {
	t := c.trees[at.tree]
	found := t.state.Explain(at.slot)
	x := TreeExplanation{
		Tree: t.name, Pool: at.pool, RunningJobs: t.state.Jobs(at.slot).RunningJobs, WaitingJobs: found.Waiting,
		Nodes: found.Nodes, Fitting: found.Fitting, Starvation: found.Starvation,
		Preemption: PreemptionExplanation{PreemptionOutlook: found.Preemption, Starver: t.poolAt(found.Preemption.By, at.slot)},
	}
	if limit, ok := t.state.CountLimit(at.slot); ok {
		x.Waits = &CountLimit{Pool: t.state.PoolName(limit.Pool), Running: limit.Running, Limit: limit.Limit, Ahead: limit.Ahead}
	}
	spec := op.controller.Spec()
	for g := range found.Groups {
		group := &found.Groups[g]
		x.Tasks = append(x.Tasks, TaskExplanation{
			Task: spec.Tasks[g].Name, Resources: group.Resources, Waiting: group.Waiting, Fitting: group.Fitting,
		})
	}
	for i := range found.Obstacles {
		o := &found.Obstacles[i]
		named := Obstacle{
			Refusal: o.Refusal, Pool: t.poolAt(o.Element, at.slot), Resource: o.Resource,
			Needed: o.Needed, Available: o.Available, Nodes: o.Nodes, TooSmall: o.TooSmall,
		}
		if o.Group == none {
			x.Obstacles = append(x.Obstacles, named)
		} else {
			x.Tasks[o.Group].Obstacles = append(x.Tasks[o.Group].Obstacles, named)
		}
	}
	if found.HasShare {
		x.Share = t.explainShare(&found.Share, at.slot)
	}
	return x
}

// poolAt names a pool; it is empty for an operation and for nothing.
func (t *tree) poolAt(slot, operation int32) string {
	if slot == none || slot == operation {
		return ""
	}
	return t.state.PoolName(slot)
}

func (t *tree) explainShare(d *fairshare.Derivation, slot int32) *ShareExplanation {
	x := &ShareExplanation{Share: d.Share, Bound: d.Bound, By: t.poolAt(d.By, slot), Resource: d.Resource}
	for _, link := range d.Chain {
		x.Chain = append(x.Chain, ShareLink{Pool: t.poolAt(link.Slot, slot), Link: link})
	}
	return x
}
