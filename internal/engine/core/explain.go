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
	Age       time.Duration
	StartTime time.Time
	Trees     []TreeExplanation
}

// TreeExplanation explains an operation in one of its trees.
type TreeExplanation struct {
	ID         TreeID
	Tree, Pool string
	// Waits is set while limits on the number of operations keep it from
	// running.
	Waits *CountLimit

	RunningJobs, WaitingJobs int32
	// Nodes is the number of nodes in the tree; Fitting is the number of open and
	// matching nodes with room for a waiting job, whatever the limits say. Closed is
	// the number of nodes that get no jobs for reasons outside the core.
	Nodes, Fitting, Closed int
	// LastStart is when a job last started in this tree, or when the operation
	// entered it. Satisfaction orders operations; FIFO reports that their pool
	// orders them by age instead. PackingRefusals counts the nodes on which only
	// packing kept jobs waiting.
	LastStart       time.Time
	Satisfaction    float64
	FIFO            bool
	PackingRefusals uint32
	// Usage and Demand are as of the last update, or now if there was none.
	Usage, Demand resource.Amounts
	// Obstacles apply to all waiting jobs; those of single tasks are in Tasks.
	Obstacles []Obstacle
	Tasks     []TaskExplanation

	Starvation scheduling.StarvationOutlook
	// Clamps are the options of the operation that limits of its pools replace.
	Clamps     []pooltree.Clamp
	Preemption PreemptionExplanation
	// Share is nil before the first update.
	Share *ShareExplanation
	// Gang is nil unless jobs start only together.
	Gang *GangExplanation
}

// CountLimit is a pool that cannot run more operations.
type CountLimit struct {
	Pool           string
	Running, Limit int
	// Ahead is the number of operations in front of it that wait for the same
	// pool.
	Ahead int
	// Oldest are the operations that have run in the pool for longest, at most
	// three.
	Oldest []OperationID
}

// TaskExplanation explains the waiting jobs of one task.
type TaskExplanation struct {
	Task string
	scheduling.GroupExplanation
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
	// At lists the nodes, and Names the first of them, at most five.
	At    []scheduling.Node
	Names []string
	// Limit, Used, Option and Since describe a limit; see scheduling.Obstacle.
	Limit, Used int64
	Option      scheduling.LimitOption
	Since       time.Time
}

// PreemptionExplanation states whether preemption can help the operation.
type PreemptionExplanation struct {
	scheduling.PreemptionOutlook
	// Starver is the pool on whose behalf the operation may preempt; empty if it
	// is the operation itself or nothing starves.
	Starver string
}

// GangExplanation states what a gang waits for.
type GangExplanation struct {
	scheduling.GangOutlook
	// Ahead is the operation that assembles in the tree meanwhile, NoOperation if
	// there is none.
	Ahead OperationID
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

// ExplainOperation explains the situation of an operation. closed reports nodes
// that get no jobs for reasons that the core does not know; nil means none. It
// visits all nodes of its trees, so call it on a user's request, not on every
// update. Explanations of one core may run concurrently. Only with preemption
// does it find out what preemption could do.
func (c *Core) ExplainOperation(now time.Time, id OperationID, closed func(NodeID) bool, preemption bool) (OperationExplanation, error) {
	op := c.operationAt(id)
	if op == nil {
		return OperationExplanation{}, ErrNoOperation
	}
	x := OperationExplanation{
		Operation: id, State: op.controller.State(), Suspended: op.controller.Life().Suspended,
		Block: op.controller.Blocked(), Age: now.Sub(op.controller.StartTime()), StartTime: op.controller.StartTime(),
	}
	x.BacksOffUntil, _ = op.controller.BacksOffUntil()
	for i := range op.places {
		x.Trees = append(x.Trees, c.explainPlace(op, &op.places[i], closed, preemption))
	}
	return x, nil
}

func (c *Core) explainPlace(op *running, at *place, closed func(NodeID) bool, preemption bool) TreeExplanation {
	t := c.trees[at.tree]
	var shut func(scheduling.Node) bool
	if closed != nil {
		shut = func(n scheduling.Node) bool { return closed(t.nodes[n]) }
	}
	found := t.state.Explain(at.slot, shut, preemption)
	queue := t.state.Queue(at.slot)
	x := TreeExplanation{
		ID: t.id, LastStart: queue.LastStart, Satisfaction: queue.Satisfaction, FIFO: queue.FIFO, PackingRefusals: queue.PackingRefusals,
		Usage: queue.Usage, Demand: queue.Demand,
		Tree: t.name, Pool: at.pool, RunningJobs: t.state.Jobs(at.slot).RunningJobs, WaitingJobs: found.Waiting,
		Nodes: found.Nodes, Fitting: found.Fitting, Closed: found.Closed, Starvation: found.Starvation, Clamps: t.state.Patience(at.slot).Clamped(&at.options),
		Preemption: PreemptionExplanation{PreemptionOutlook: found.Preemption, Starver: t.poolAt(found.Preemption.By, at.slot)},
	}
	if limit, ok := t.state.CountLimit(at.slot); ok {
		x.Waits = &CountLimit{Pool: t.state.PoolName(limit.Pool), Running: limit.Running, Limit: limit.Limit, Ahead: limit.Ahead, Oldest: t.oldest(limit.Pool, 3)}
	}
	spec := op.controller.Spec()
	for g := range found.Groups {
		group := &found.Groups[g]
		x.Tasks = append(x.Tasks, TaskExplanation{Task: spec.Tasks[g].Name, GroupExplanation: *group})
	}
	for i := range found.Obstacles {
		o := &found.Obstacles[i]
		named := Obstacle{
			Refusal: o.Refusal, Pool: t.poolAt(o.Element, at.slot), Resource: o.Resource,
			Needed: o.Needed, Available: o.Available, Nodes: o.Nodes, TooSmall: o.TooSmall, At: o.At,
			Limit: o.Limit, Used: o.Used, Option: o.Option, Since: o.Since,
		}
		for _, n := range o.At[:min(len(o.At), mostNamed)] {
			named.Names = append(named.Names, c.nodes[t.nodes[n]].name)
		}
		if o.Group == none {
			x.Obstacles = append(x.Obstacles, named)
		} else {
			x.Tasks[o.Group].Obstacles = append(x.Tasks[o.Group].Obstacles, named)
		}
	}
	if found.Gang != nil {
		x.Gang = &GangExplanation{GangOutlook: *found.Gang, Ahead: NoOperation}
		if found.Gang.Ahead != none {
			x.Gang.Ahead = t.owners[found.Gang.Ahead]
		}
	}
	if found.HasShare {
		x.Share = t.explainShare(&found.Share, at.slot)
	}
	return x
}

// mostNamed is how many nodes an obstacle names.
const mostNamed = 5

// oldest returns the operations that run below a pool, those that were started
// first, at most count.
func (t *tree) oldest(pool int32, count int) (list []OperationID) {
	for _, id := range t.core.live {
		at := t.core.operations[id].placeIn(t.id)
		if at == nil || len(list) == count {
			continue
		}
		if runs, _ := t.state.IsRunning(at.slot); runs && t.state.IsBelow(pool, at.slot) {
			list = append(list, id)
		}
	}
	return list
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
