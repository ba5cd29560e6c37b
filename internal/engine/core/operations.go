package core

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/entitlement"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// ErrTooManyOperations reports that the scheduler accepts no more operations.
var ErrTooManyOperations = errors.New("the scheduler accepts no more operations")

// ErrNoOperation reports that an operation does not exist or has ended.
var ErrNoOperation = errors.New("there is no such operation, or it has ended")

// startOperation starts an operation. In all of its trees it finds or names
// the pools and checks limits on the number of operations at every level
// before it changes anything. A tree that does not accept the operation
// refuses the whole operation, or is left out with
// erase_trees_with_pool_limit_violations.
func (c *Core) startOperation(now time.Time, id OperationID, user string, spec *operation.Spec, out *Decisions) error {
	if c.operationAt(id) != nil || id < c.nextOperation {
		return fmt.Errorf("operation %d already exists", id)
	}
	trees, places, parents, err := c.reserve(user, spec)
	if err != nil {
		return err
	}
	op := &running{id: id, user: user, controller: operation.New(spec, now), places: places}
	if c.settings.Memory != nil {
		if err := op.controller.Configure(*c.settings.Memory); err != nil {
			return err
		}
	}
	for step := operation.Register; step < operation.Admit; step++ {
		if _, err := op.controller.Advance(step, now); err != nil {
			return err
		}
	}
	c.addOperation(op)
	out.Operations = append(out.Operations, OperationChange{Operation: id, State: operation.Pending})
	// Seat it in all of its trees before one of them lets it run: from then on
	// all of them are notified of its jobs.
	for i, t := range trees {
		c.seat(op, &op.places[i], t, parents[i])
	}
	for _, t := range trees {
		c.announce(now, op, t, out)
	}
	return nil
}

// Accepts returns why an operation of a user would be refused now: by a pool that
// does not exist or has no room for one more, or by the limit of the scheduler. It
// looks at no task of the specification.
func (c *Core) Accepts(user string, spec *operation.Spec) error {
	_, _, _, err := c.reserve(user, spec)
	return err
}

// reserve finds the trees that take an operation, its place in each of them and the
// parents of pools to be made. It changes nothing.
func (c *Core) reserve(user string, spec *operation.Spec) (taking []*tree, places []place, parents []*pool, err error) {
	if len(c.live) >= c.settings.MaxOperations {
		return nil, nil, nil, ErrTooManyOperations
	}
	trees, err := c.treesOf(spec)
	if err != nil {
		return nil, nil, nil, err
	}
	var refused []error
	for _, t := range trees {
		at, parent, err := t.reserve(user, spec)
		if err != nil {
			refused = append(refused, err)
			continue
		}
		taking, parents, places = append(taking, t), append(parents, parent), append(places, at)
	}
	if len(refused) > 0 && (len(taking) == 0 || !spec.EraseTreesWithLimitViolation.Value()) {
		return nil, nil, nil, errors.Join(refused...)
	}
	return taking, places, parents, nil
}

// announce starts a new operation if a tree runs it; otherwise it reports the
// pool that the operation waits for. The operation may have left the tree for
// another one meanwhile, or have ended.
func (c *Core) announce(now time.Time, op *running, t *tree, out *Decisions) {
	at := op.placeIn(t.id)
	if at == nil || c.operationAt(op.id) != op {
		return
	}
	if isRunning, waitsAt := t.state.IsRunning(at.slot); isRunning {
		c.admitted(now, t, at.slot, out)
	} else if !op.started {
		out.Operations = append(out.Operations, OperationChange{Operation: op.id, State: operation.Pending, Waiting: t.state.PoolName(waitsAt)})
	}
}

// placeIn returns the place of an operation in a tree, or nil.
func (op *running) placeIn(id TreeID) *place {
	for i := range op.places {
		if op.places[i].tree == id {
			return &op.places[i]
		}
	}
	return nil
}

// reserve finds the pool for an operation in the tree and checks that the
// pool and all pools above it accept one more. It changes nothing.
func (t *tree) reserve(user string, spec *operation.Spec) (at place, parent *pool, err error) {
	at = place{tree: t.id, options: spec.OperationOptions.For(t.name)}
	if parent, at.pool, err = t.resolve(user, at.options.Pool); err != nil {
		return at, nil, err
	}
	first, err := t.firstPool(at.pool, parent, false)
	if err != nil {
		return at, nil, err
	}
	return at, parent, t.state.CanAdd(first.slot)
}

// treesOf returns the trees in which an operation is to run.
func (c *Core) treesOf(spec *operation.Spec) ([]*tree, error) {
	names, given := spec.PoolTrees.Get()
	if !given {
		if c.defaultTree == none {
			return nil, errors.New("pool_trees is not set and there is no default tree")
		}
		return []*tree{c.trees[c.defaultTree]}, nil
	}
	var trees []*tree
	for _, name := range names {
		i := slices.IndexFunc(c.trees, func(t *tree) bool { return t.name == name })
		if i < 0 {
			return nil, fmt.Errorf("pool_trees: there is no pool tree %q", name)
		}
		trees = append(trees, c.trees[i])
	}
	return trees, nil
}

// seat adds an operation to a pool of a tree. It creates the pool if
// necessary.
func (c *Core) seat(op *running, at *place, t *tree, parent *pool) {
	p := t.pools[at.pool]
	if p == nil {
		p = &pool{name: at.pool, parent: parent, ephemeral: true, user: op.user, hub: at.pool != at.options.Pool.Or(op.user)}
		p.slot = t.state.AddPool(parent.slot, t.ephemeralParameters(at.pool, parent))
		t.addPool(p)
	}
	slot, err := t.state.AddOperation(p.slot, t.operationParameters(op, at))
	if err != nil {
		panic(fmt.Sprintf("a pool that has room refuses an operation: %v", err))
	}
	t.enterPool(p, at)
	at.slot = slot
	t.owners = append(t.owners, make([]OperationID, max(0, int(slot)+1-len(t.owners)))...)
	t.owners[slot] = op.id
}

func (t *tree) operationParameters(op *running, at *place) scheduling.OperationParameters {
	spec := op.controller.Spec()
	options := spec.OperationOptions
	options.SchedulingOptions = at.options
	t.enumerate(at)
	pool := t.effectiveOf(t.pools[at.pool])
	at.waitTimeout = max(pool.WaitingForResourcesTimeout.Or(t.core.settings.WaitTimeout), options.WaitingForResourcesTimeout.Value())
	mode, _ := spec.PreemptionMode.Get()
	e := entitlement.Operation(&options, resource.Amounts{}, resource.Amounts{}, t)
	e.StartTime = op.controller.StartTime().UnixMicro()
	return scheduling.OperationParameters{
		Element: e, Patience: pool.ForOperation(&at.options), Filter: at.options.SchedulingTagFilter.Value(),
		Specified: at.options.ResourceLimits.Value(),
		Graceful:  mode == pooltree.GracefulPreemption, LimitDemand: options.ApplyLimitsToDemand.Value(),
		FreeRoomOnly: spec.External.Value().FreeRoomOnly.Value(),
	}
}

// admitted handles the admission of an operation by a tree.
func (c *Core) admitted(now time.Time, t *tree, slot int32, out *Decisions) {
	op := c.operationAt(t.owners[slot])
	if op == nil {
		return // it has left the tree meanwhile
	}
	c.stir(op)
	if !op.started {
		op.started = true
		for _, step := range []operation.Step{operation.Admit, operation.Materialize} {
			effects, err := op.controller.Advance(step, now)
			if err != nil {
				panic(fmt.Sprintf("a pending operation cannot advance: %v", err))
			}
			if effects.Entered == operation.Running && !c.settleInOneTree(now, op, out) {
				return
			}
			c.carryOut(now, op, effects, out)
		}
		return
	}
	c.sync(op)
}

// sync updates an operation's waiting jobs in all of its trees.
func (c *Core) sync(op *running) {
	c.stir(op)
	blocked := op.controller.Blocked() != operation.NotBlocked
	gang, isGang := op.controller.Gang()
	var groups [8]scheduling.Group
	list := groups[:0]
	for i, g := range op.controller.Groups() {
		waiting := int32(g.Pending)
		if blocked {
			waiting = 0
		}
		if isGang && waiting > 0 {
			g.Resources = op.controller.Largest(i)
		}
		class, alone := g.Class()
		list = append(list, scheduling.Group{
			Resources: g.Resources, Waiting: waiting, Class: int32(class), Alone: alone, Priority: g.Priority(),
		})
	}
	if isGang {
		c.syncGang(op, gang, list)
		return
	}
	for i := range op.places {
		c.trees[op.places[i].tree].state.SetWaiting(op.places[i].slot, list)
	}
}

// carryOut carries out the effects of a change of an operation.
func (c *Core) carryOut(now time.Time, op *running, effects operation.Effects, out *Decisions) {
	c.touch(op)
	c.stir(op)
	if effects != (operation.Effects{}) {
		out.Changed = append(out.Changed, op.id)
	}
	if effects.AbortRunning != operation.NotAborted {
		c.stopAll(op, effects.AbortRunning, out)
	}
	if effects.FailRunning {
		out.FailRunning = append(out.FailRunning, op.id)
	}
	if effects.BannedNode != "" {
		c.ban(op, effects.BannedNode)
	}
	if effects.Entered == operation.NoState {
		c.sync(op)
		return
	}
	if effects.Entered.IsFinishing() {
		committed, err := op.controller.Advance(operation.Commit, now)
		if err != nil {
			panic(fmt.Sprintf("a finishing operation cannot be committed: %v", err))
		}
		effects.Entered = committed.Entered
	}
	change := OperationChange{Operation: op.id, State: effects.Entered, Error: op.controller.Result()}
	if effects.Entered.IsFinished() {
		change.Last = op.controller
	}
	out.Operations = append(out.Operations, change)
	if effects.Entered.IsFinished() {
		c.forget(now, op, out)
		return
	}
	c.sync(op)
}

// stopAll ends all jobs of an operation. Its controller no longer counts them
// as running.
func (c *Core) stopAll(op *running, reason operation.AbortReason, out *Decisions) {
	for i := range op.places {
		t := c.trees[op.places[i].tree]
		c.scratch = t.state.AllocationsOf(op.places[i].slot, c.scratch[:0])
		for _, at := range c.scratch {
			out.Stopped = append(out.Stopped, Stopped{
				Job: t.jobs[at].id, Operation: op.id, Node: t.nodes[t.state.NodeOf(at)], Reason: reason, For: NoOperation,
			})
			c.release(t, at)
		}
	}
}

// release frees the resources of an allocation.
func (c *Core) release(t *tree, at scheduling.Allocation) {
	delete(c.jobs, t.jobs[at].id)
	t.jobs[at] = job{}
	t.state.FinishAllocation(at)
}

// forget removes an operation that has ended, and admits waiting operations
// in its place.
func (c *Core) forget(now time.Time, op *running, out *Decisions) {
	at := c.place(c.live, op)
	c.live = slices.Delete(c.live, at, at+1)
	if op.suspect {
		at := c.place(c.suspects, op)
		c.suspects = slices.Delete(c.suspects, at, at+1)
	}
	if op.timed {
		at := c.place(c.timed, op)
		c.timed = slices.Delete(c.timed, at, at+1)
	}
	delete(c.operations, op.id)
	if op.pends {
		c.pending--
	}
	c.painter.renumbered = true
	for i := range op.places {
		c.unseat(now, &op.places[i], out)
	}
}

// unseat removes an operation from a tree, and admits waiting operations in
// its place.
func (c *Core) unseat(now time.Time, at *place, out *Decisions) {
	t := c.trees[at.tree]
	admitted := t.state.RemoveOperation(at.slot)
	t.owners[at.slot] = NoOperation
	p := t.pools[at.pool]
	t.leavePool(p, at)
	t.drop(p)
	for _, slot := range admitted {
		c.admitted(now, t, slot, out)
	}
}

// abortOperation ends an operation without a result.
func (c *Core) abortOperation(now time.Time, id OperationID, message string, out *Decisions) error {
	op := c.operationAt(id)
	if op == nil {
		return ErrNoOperation
	}
	effects, err := op.controller.Abort(message, now)
	if err == nil {
		c.carryOut(now, op, effects, out)
	}
	return err
}

// completeOperation ends an operation with the result it has so far.
func (c *Core) completeOperation(now time.Time, id OperationID, out *Decisions) error {
	op := c.operationAt(id)
	if op == nil {
		return ErrNoOperation
	}
	effects, err := op.controller.Complete(now)
	if err == nil {
		c.carryOut(now, op, effects, out)
	}
	return err
}

// suspendOperation stops an operation from starting jobs; running jobs finish
// or are aborted.
func (c *Core) suspendOperation(now time.Time, id OperationID, abortRunning bool, out *Decisions) error {
	op := c.operationAt(id)
	if op == nil {
		return ErrNoOperation
	}
	effects, err := op.controller.Suspend(abortRunning)
	if err == nil {
		c.carryOut(now, op, effects, out)
		c.setSuspended(op, true)
		out.Changed = append(out.Changed, id)
	}
	return err
}

// resumeOperation undoes suspendOperation.
func (c *Core) resumeOperation(id OperationID, out *Decisions) error {
	op := c.operationAt(id)
	if op == nil {
		return ErrNoOperation
	}
	err := op.controller.Resume()
	if err == nil {
		c.setSuspended(op, false)
		c.sync(op)
		out.Changed = append(out.Changed, id)
	}
	return err
}

func (c *Core) setSuspended(op *running, suspended bool) {
	for i := range op.places {
		c.trees[op.places[i].tree].state.Suspend(op.places[i].slot, suspended)
	}
}

// poolMove is an operation's move to another pool of one of its trees, which
// the tree accepts.
type poolMove struct {
	place  int   // which of the operation's places
	parent *pool // of the pool, if the pool must be created
	pool   string
	hub    bool // the pool is the user's subpool of the requested one
}

// planMove checks that a tree accepts an operation in another pool, and adds
// the move to the list unless the operation is already there. It changes
// nothing.
func (c *Core) planMove(moves []poolMove, op *running, place int, wanted string) ([]poolMove, error) {
	at := &op.places[place]
	t := c.trees[at.tree]
	parent, name, err := t.resolve(op.user, document.Some(wanted))
	if err != nil || name == at.pool {
		return moves, err
	}
	first, err := t.firstPool(name, parent, true)
	if err != nil {
		return moves, err
	}
	if err := t.state.CanMove(at.slot, first.slot); err != nil {
		return moves, err
	}
	return append(moves, poolMove{place, parent, name, name != wanted}), nil
}

// firstPool returns the lowest existing pool on the way from a pool to the
// root: the pool itself or, if it must be created, its parent. It refuses a
// pool that must be created and whose own limits leave no room for an
// operation. running reports whether the operation must run there.
func (t *tree) firstPool(name string, parent *pool, running bool) (*pool, error) {
	if p := t.pools[name]; p != nil {
		return p, nil
	}
	limits := t.ephemeralParameters(name, parent).Effective
	switch {
	case limits.MaxOperationCount <= 0:
		return nil, &scheduling.CountError{Pool: name, Limit: limits.MaxOperationCount}
	case running && limits.MaxRunningOperationCount <= 0:
		return nil, &scheduling.CountError{Pool: name, Limit: limits.MaxRunningOperationCount, Running: true}
	}
	return parent, nil
}

// admission is an operation that a tree has admitted.
type admission struct {
	tree *tree
	slot int32
}

// moveAll carries out planned moves. It returns the operations that were
// admitted because of them. The caller must start these after all trees have
// moved: an operation that starts may leave other trees and change what they
// accept.
func (c *Core) moveAll(op *running, moves []poolMove) (admitted []admission) {
	for _, m := range moves {
		at := &op.places[m.place]
		t := c.trees[at.tree]
		p := t.pools[m.pool]
		if p == nil {
			p = &pool{name: m.pool, parent: m.parent, ephemeral: true, user: op.user, hub: m.hub}
			p.slot = t.state.AddPool(m.parent.slot, t.ephemeralParameters(m.pool, m.parent))
			t.addPool(p)
		}
		slots, err := t.state.MoveOperation(at.slot, p.slot)
		if err != nil {
			panic(fmt.Sprintf("a pool that accepted an operation refuses it: %v", err))
		}
		for _, slot := range slots {
			admitted = append(admitted, admission{t, slot})
		}
		old := t.pools[at.pool]
		t.leavePool(old, at)
		t.enterPool(p, at)
		t.drop(old)
	}
	return admitted
}

// admitAll starts operations that trees have admitted.
func (c *Core) admitAll(now time.Time, admitted []admission, out *Decisions) {
	for _, a := range admitted {
		c.admitted(now, a.tree, a.slot, out)
	}
}
