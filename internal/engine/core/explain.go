package core

import (
	"time"

	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/value/resource"
)

// OperationExplanation explains the situation of an operation: tree by tree,
// what keeps its jobs waiting and how its share is derived. It shares nothing
// with the core.
type OperationExplanation struct {
	Operation OperationID
	State     operation.State
	Suspended bool
	// Block is why no job can start, whatever resources are free.
	Block operation.Block
	// BacksOffUntil is when jobs start again after nodes failed to start any;
	// zero while the operation does not back off.
	BacksOffUntil time.Time
	// Age is the time since it was started.
	Age   time.Duration
	Trees []TreeExplanation
}

// TreeExplanation explains an operation in one of its trees.
type TreeExplanation struct {
	Tree, Pool string
	// Waits is set while limits on the number of operations keep it from
	// running.
	Waits *CountLimit

	RunningJobs, WaitingJobs int32
	// Nodes is the number of nodes in the tree; Fitting is the number of them on
	// which a waiting job would fit right now, if it were this operation's turn.
	Nodes, Fitting int
	// Obstacles apply to all waiting jobs; those of single tasks are in Tasks.
	Obstacles []Obstacle
	Tasks     []TaskExplanation

	Starvation scheduling.StarvationOutlook
	// Clamps are the options of the operation that limits of its pools replace.
	Clamps     []pooltree.Clamp
	Preemption PreemptionExplanation
	// Share is nil before the first update.
	Share *ShareExplanation
}

// CountLimit is a pool that cannot run more operations.
type CountLimit struct {
	Pool           string
	Running, Limit int
	// Ahead is the number of operations in front of it that wait for the same
	// pool.
	Ahead int
}

// TaskExplanation explains the waiting jobs of one task.
type TaskExplanation struct {
	Task      string
	Resources resource.Amounts
	Waiting   int32
	// Fitting is the number of nodes on which a job would fit right now.
	Fitting   int
	Obstacles []Obstacle
}

// Obstacle is one thing that keeps jobs waiting, with the amounts that show it.
type Obstacle struct {
	Refusal scheduling.Refusal
	// Pool is the pool with the limit or the filter; empty if it is the
	// operation's own, or there is none.
	Pool string
	// Resource is the scarce resource, Needed how much of it a job needs, and
	// Available the most there is: under the limit, or on the best node.
	Resource          resource.Kind
	Needed, Available int64
	// Nodes is the number of nodes with this obstacle, TooSmall the number of
	// them that would have it even if they were empty.
	Nodes, TooSmall int
}

// PreemptionExplanation states whether preemption can help the operation.
type PreemptionExplanation struct {
	scheduling.PreemptionOutlook
	// Starver is the pool on whose behalf the operation may preempt; empty if it
	// is the operation itself or nothing starves.
	Starver string
}

// ShareExplanation derives a fair share.
type ShareExplanation struct {
	Share fairshare.Split
	// Bound is what keeps the share from being larger, By the pool concerned
	// (empty: the operation itself) and Resource the scarce resource there.
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

// ExplainOperation explains the situation of an operation. It visits all
// nodes of its trees, so call it on a user's request, not on every update.
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
		Nodes: found.Nodes, Fitting: found.Fitting, Starvation: found.Starvation, Clamps: t.state.Patience(at.slot).Clamped(&at.options),
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

// poolAt returns the name of a pool; empty for the operation itself and for
// none.
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
