package core

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// A core that takes over from another one is built in this order:
//
//	TreesInput, NextJobInput         the configuration, and unused job numbers
//	ReviveInput for each operation   operations that ran, then operations that waited
//	PoolStateInput                   the volumes and starvation clocks of pools
//	NodeInput, AwaitInput, AdoptInput   the predecessor's nodes, with the jobs it started there
//	NodeInput, AdoptInput, ReconcileInput   nodes register and report what they run
//
// Scheduling continues once the predecessor's nodes and all of their jobs are
// there. An awaited node requests no work and its jobs count as running, so
// none of their cookies starts twice. The owner must know every job that a
// node may run. If it does not, it sends no HeartbeatInput and no UpdateInput
// until that node has reported or has had time to; jobs that are not adopted
// by then are pending and start again.

// Revived is a stored operation.
type Revived struct {
	Operation OperationID
	User      string
	Spec      *operation.Spec
	Snapshot  operation.Snapshot
	// Ends are jobs that ended after the snapshot was made, in their order.
	Ends   []RevivedEnd
	Places []Place
}

// RevivedEnd is the end of a job of a revived operation.
type RevivedEnd struct {
	Ended
	At time.Time
}

// Place is an operation in one of its trees, with the changes made at run
// time.
type Place struct {
	Tree           string
	Pool           string
	Weight         document.Optional[float64]
	ResourceLimits document.Optional[resource.Partial]
	// Clock states since when the operation has been below its fair share.
	Clock scheduling.Clock
}

// ErrNoTreeLeft reports that an operation cannot be revived because all of
// its trees were removed.
var ErrNoTreeLeft = errors.New("none of the operation's pool trees exists any more")

// setNextJob sets a lower bound on the number of the next job.
func (c *Core) setNextJob(first JobID) { c.nextJob = max(c.nextJob+1, first) - 1 }

// revive revives an operation. Limits on the number of operations do not
// refuse it, because it was accepted before; it may have to wait.
func (c *Core) revive(now time.Time, r *Revived, out *Decisions) error {
	if c.operationAt(r.Operation) != nil {
		return fmt.Errorf("operation %d already exists", r.Operation)
	}
	controller, err := operation.Restore(r.Spec, r.Snapshot)
	if err != nil {
		return err
	}
	controller.Disown()
	for i := range r.Ends {
		if err := replayEnd(controller, &r.Ends[i]); err != nil {
			return fmt.Errorf("end of job %d: %w", r.Ends[i].Job, err)
		}
	}
	op := &running{id: r.Operation, user: r.User, controller: controller}
	var trees []*tree
	var clocks []scheduling.Clock
	for _, p := range r.Places {
		i := slices.IndexFunc(c.trees, func(t *tree) bool { return t.name == p.Tree })
		if i < 0 {
			continue
		}
		t := c.trees[i]
		at := place{tree: t.id, pool: p.Pool, options: r.Spec.OperationOptions.For(t.name)}
		at.options.Weight = p.Weight.OrElse(at.options.Weight)
		at.options.ResourceLimits = p.ResourceLimits.OrElse(at.options.ResourceLimits)
		op.places = append(op.places, at)
		trees, clocks = append(trees, t), append(clocks, p.Clock)
	}
	if len(trees) == 0 {
		return ErrNoTreeLeft
	}
	if err := orphan(controller, now); err != nil {
		return err
	}
	c.addOperation(op)
	for i, t := range trees {
		c.reseat(op, &op.places[i], t)
		t.state.SetClock(op.places[i].slot, clocks[i])
	}
	c.setSuspended(op, controller.Life().Suspended)
	for i, t := range trees {
		if isRunning, _ := t.state.IsRunning(op.places[i].slot); isRunning {
			c.admitted(now, t, op.places[i].slot, out)
		}
	}
	return nil
}

// replayEnd reports the end of a job to a controller again.
func replayEnd(controller *operation.Controller, end *RevivedEnd) error {
	if err := controller.Adopt(end.JobRef); err != nil {
		return err
	}
	_, err := tellEnd(controller, end.JobRef, end.Finished, end.Reason, end.At)
	return err
}

// orphan advances a controller from the state it was in, through revival, to
// the state before admission.
func orphan(controller *operation.Controller, now time.Time) error {
	steps := []operation.Step{
		operation.Orphan, operation.ReviveWithJobs, operation.Assign, operation.Initialize, operation.Prepare,
	}
	for _, step := range steps {
		if _, err := controller.Advance(step, now); err != nil {
			return err
		}
	}
	return nil
}

// reseat adds a revived operation to its pool. It creates the pool again if
// the pool is not configured.
func (c *Core) reseat(op *running, at *place, t *tree) {
	p := t.pools[at.pool]
	if p == nil {
		parent := t.defaultParent(op.user)
		hub, _, isHub := hubOf(at.pool)
		if above := t.pools[hub]; isHub && above != nil {
			parent = above
		}
		p = &pool{name: at.pool, parent: parent, ephemeral: true, user: op.user, hub: isHub}
		p.slot = t.state.AddPool(parent.slot, t.ephemeralParameters(at.pool, parent))
		t.addPool(p)
	}
	at.slot = t.state.ReviveOperation(p.slot, t.operationParameters(op, at))
	p.members++
	t.owners = append(t.owners, make([]OperationID, max(0, int(at.slot)+1-len(t.owners)))...)
	t.owners[at.slot] = op.id
}

// hubOf splits the name of a pool that was created for a user below another
// one.
func hubOf(name string) (hub, user string, ok bool) {
	for i := range name {
		if name[i] == '$' {
			return name[:i], name[i+1:], true
		}
	}
	return "", "", false
}

// Adopted is a job that a node reports as running.
type Adopted struct {
	Job       JobID
	Operation OperationID
	operation.JobRef
	Node      NodeID
	Resources resource.Amounts
	Started   time.Time
	// UserFactor and ProxyFactor are the factors by which its memory was chosen;
	// zero if unknown.
	UserFactor, ProxyFactor float64
	// Unconfirmed says that the job is known to have been ordered, and not from the node
	// itself. If the node turns out not to have it, it never began.
	Unconfirmed bool
}

// adopt adopts a job that a node already runs. An error states why the node
// must stop it: its operation has ended, or the job is done or runs
// elsewhere.
func (c *Core) adopt(a *Adopted) error {
	if place, known := c.jobs[a.Job]; known {
		if t := c.trees[place.tree]; t.nodes[t.state.NodeOf(place.at)] != a.Node {
			return fmt.Errorf("job %d runs on another node", a.Job)
		}
		return nil
	}
	op := c.operationAt(a.Operation)
	if op == nil || int(a.Node) >= len(c.nodes) || c.nodes[a.Node] == nil {
		return ErrNoOperation
	}
	n := c.nodes[a.Node]
	i := slices.IndexFunc(op.places, func(p place) bool { return p.tree == n.tree })
	if i < 0 {
		return fmt.Errorf("operation %d does not run in the tree of node %s", a.Operation, n.name)
	}
	t, at := c.trees[n.tree], &op.places[i]
	adopt := op.controller.Adopt
	if a.UserFactor > 0 {
		adopt = func(ref operation.JobRef) error { return op.controller.AdoptReserved(ref, a.UserFactor, a.ProxyFactor) }
	}
	if err := adopt(a.JobRef); err != nil {
		return err
	}
	// sync sets the number of waiting jobs without this one. Adopt consumes one
	// waiting job, so add it back first.
	c.sync(op)
	t.state.AddWaiting(at.slot, a.Task, 1)
	id := t.state.Adopt(a.Started, at.slot, a.Task, n.at, a.Resources)
	t.jobs = append(t.jobs, make([]job, max(0, int(id)+1-len(t.jobs)))...)
	t.jobs[id] = job{id: a.Job, operation: op.id, ref: a.JobRef, unconfirmed: a.Unconfirmed}
	c.jobs[a.Job] = jobPlace{t.id, id}
	c.nextJob = max(c.nextJob, a.Job)
	return nil
}

// PlacesOf returns the places of an operation, for a later ReviveInput.
func (c *Core) PlacesOf(id OperationID) []Place {
	op := c.operationAt(id)
	if op == nil {
		return nil
	}
	places := make([]Place, len(op.places))
	for i := range op.places {
		at := &op.places[i]
		t := c.trees[at.tree]
		places[i] = Place{
			Tree: t.name, Pool: at.pool, Weight: at.options.Weight, ResourceLimits: at.options.ResourceLimits,
			Clock: t.state.Clock(at.slot),
		}
	}
	return places
}

// SnapshotOf returns the state of an operation's controller, for a later
// ReviveInput.
func (c *Core) SnapshotOf(id OperationID) (operation.Snapshot, bool) {
	op := c.operationAt(id)
	if op == nil {
		return operation.Snapshot{}, false
	}
	return op.controller.Snapshot(), true
}

// PoolState is what a pool carries from update to update.
type PoolState struct {
	Tree, Pool string
	State      fairshare.State
	Clock      scheduling.Clock
}

// PoolStates appends the states of pools that have one: pools that save or
// starve.
func (c *Core) PoolStates(into []PoolState) []PoolState {
	for _, t := range c.trees {
		for _, p := range t.order {
			s := PoolState{Tree: t.name, Pool: p.name, State: t.state.State(p.slot), Clock: t.state.Clock(p.slot)}
			if s.State != (fairshare.State{}) || s.Clock != (scheduling.Clock{}) {
				into = append(into, s)
			}
		}
	}
	return into
}

// setPoolState restores a pool's state. If the pool no longer exists, its
// state is dropped.
func (c *Core) setPoolState(s *PoolState) {
	for _, t := range c.trees {
		if p := t.pools[s.Pool]; t.name == s.Tree && p != nil {
			t.state.SetState(p.slot, s.State)
			t.state.SetClock(p.slot, s.Clock)
		}
	}
}
