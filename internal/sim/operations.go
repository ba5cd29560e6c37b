package sim

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/sim/outcome"
	"github.com/weirhq/weir/internal/sim/scenario"
	"github.com/weirhq/weir/internal/sim/workload"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// never is the time of an event that has not happened.
const never time.Duration = math.MinInt64

// operationAccount is an operation that has arrived.
type operationAccount struct {
	id             core.OperationID
	name, template string
	account
	state    operation.State
	rejected bool
	reason   string
	arrived  time.Duration
	started  time.Duration // of its first job; never
	finished time.Duration // never

	jobCount  int
	resources resource.Amounts // of one job, as in the scenario
	durations workload.Durations
	// attempts counts the starts of each job of an operation that the core had at
	// the start; nil for those of the scenario.
	attempts map[jobKey]int
	// first is the place in the first tree, more are those in others.
	first placement
	more  []placement
	// demand is set for operations with demand over time.
	demand  *workload.Operation
	closing bool

	entitled, asked outcome.Vector
	viewedAt        time.Duration // until when these are summed up
	starving        float64       // seconds
	waits           waitSums
	allWaits        *waits // nil unless an expectation needs percentiles
	// requeued holds when stopped jobs started to wait again.
	requeued map[jobKey]time.Duration

	stages  []int32Count // by index in books.stages
	reasons []int32Count // of preemption, by index in books.reasons
	victims []int32Count // preempted jobs by the index of the operation that got the room
}

// int32Count counts something under a small number.
type int32Count struct {
	key   int32
	count int64
}

func addCount(list []int32Count, key int32) []int32Count {
	for i := range list {
		if list[i].key == key {
			list[i].count++
			return list
		}
	}
	return append(list, int32Count{key, 1})
}

func countOf(list []int32Count, key int32) int64 {
	for _, c := range list {
		if c.key == key {
			return c.count
		}
	}
	return 0
}

// placement is an operation's place in a tree.
type placement struct {
	tree    core.TreeID
	pool    int32 // index in books.pools; -1: none
	running int32
	usage   resource.Amounts // of those that run
}

// place returns the operation's place in a tree, nil if it has none.
func (o *operationAccount) place(tree core.TreeID) *placement {
	if o.first.pool >= 0 && o.first.tree == tree {
		return &o.first
	}
	for i := range o.more {
		if o.more[i].tree == tree {
			return &o.more[i]
		}
	}
	return nil
}

// indexOf returns the index of an operation in order of arrival.
func (r *run) indexOf(id core.OperationID) int32 {
	if id >= r.firstNew {
		return int32(len(r.inherited)) + int32(id-r.firstNew)
	}
	return r.inherited[id]
}

func (r *run) operation(id core.OperationID) *operationAccount { return &r.operations[r.indexOf(id)] }

// nextArrival queues the next operation of a source. Operations from before the
// run have arrived already.
func (r *run) nextArrival(source int32) {
	next, ok := r.sources[source].Next()
	for ok && next.At < r.from {
		next, ok = r.sources[source].Next()
	}
	if !ok {
		r.next[source] = workload.Operation{}
		r.toCome--
		return
	}
	r.next[source] = next
	r.queue.push(next.At, kindArrival, source, 0)
}

func (r *run) arrive(source int32) {
	arrived := r.next[source]
	r.nextArrival(source)
	r.submit(arrived)
}

// submit starts an operation.
func (r *run) submit(w workload.Operation) {
	index := int32(len(r.operations))
	id := r.firstNew + core.OperationID(index) - core.OperationID(len(r.inherited))
	o := operationAccount{
		id: id, name: w.Name, template: w.Template, arrived: r.now, started: never, finished: never,
		jobCount: w.Jobs, resources: w.Resources, durations: w.Durations, first: placement{pool: -1},
	}
	if w.AtOnce > 0 {
		demand := w
		o.demand = &demand
	}
	if r.expectations.asksForWaits(o.name, o.template) {
		o.allWaits = new(waits)
	}
	r.operations = append(r.operations, o)
	r.active++
	r.books.arrived++
	r.bound("operations come", int(r.books.arrived), r.options.Bounds.Operations)
	spec, err := r.specs.of(&w)
	if err == nil {
		err = r.apply(&core.StartInput{Operation: id, User: w.User, Spec: spec})
	}
	if err != nil {
		r.operations[index].rejected = true
		r.enter(&r.operations[index], operation.Failed, err.Error())
		return
	}
	r.settlePlaces(id)
	if w.AtOnce > 0 && w.Until != scenario.Forever {
		r.queue.push(w.Until, kindClose, index, 0)
	}
}

// startSpec starts an operation with a full specification.
func (r *run) startSpec(a scenario.StartOperation) error {
	id := r.firstNew + core.OperationID(len(r.operations)-len(r.inherited))
	r.operations = append(r.operations, operationAccount{
		id: id, name: a.Name, template: a.Name, arrived: r.now, started: never, finished: never, jobCount: a.Spec.JobCount(),
		first: placement{pool: -1}, attempts: map[jobKey]int{},
	})
	index := len(r.operations) - 1
	r.active++
	r.books.arrived++
	r.bound("operations come", int(r.books.arrived), r.options.Bounds.Operations)
	if err := r.apply(&core.StartInput{Operation: id, User: a.User, Spec: a.Spec}); err != nil {
		r.operations[index].rejected = true
		r.enter(&r.operations[index], operation.Failed, err.Error())
		return err
	}
	r.settlePlaces(id)
	return nil
}

// settlePlaces records in which pools an operation is after a change that
// concerns it.
func (r *run) settlePlaces(id core.OperationID) {
	for tree := range core.TreeID(len(r.trees)) {
		if pool, ok := r.core.PoolOf(id, tree); ok {
			r.placed(id, tree, pool)
		}
	}
}

// placed records in which pool of a tree an operation is, and moves its usage
// there.
func (r *run) placed(id core.OperationID, tree core.TreeID, name string) {
	o := r.operation(id)
	pool := r.books.pool(tree, name)
	place := o.place(tree)
	switch {
	case place == nil && o.first.pool < 0:
		o.first = placement{tree: tree, pool: pool}
	case place == nil:
		o.more = append(o.more, placement{tree: tree, pool: pool})
	default:
		r.books.move(r.now, place, pool)
		return
	}
	r.books.pools[pool].operations++
}

// operationChanged records the state of an operation.
func (r *run) operationChanged(c *core.OperationChange) {
	reason := ""
	if c.Error != nil {
		reason = c.Error.Error()
	} else if c.Waiting != "" {
		reason = "pool " + c.Waiting + " runs no more operations"
	}
	if c.State == operation.Pending || c.State == operation.Running || c.State.IsFinished() {
		r.enter(r.operation(c.Operation), c.State, reason)
	}
}

// enter moves an operation into a state.
func (r *run) enter(o *operationAccount, state operation.State, reason string) {
	if o.state.IsFinished() {
		r.fail("reports operation %s as %v after it has ended as %v", o.name, state, o.state)
		return
	}
	o.state, o.reason = state, reason
	if !state.IsFinished() {
		return
	}
	o.finished = r.now
	o.requeued = nil
	r.active--
	if state == operation.Completed && o.demand != nil && !o.closing && r.now < o.demand.Until {
		r.queue.push(r.now, kindAgain, r.indexOf(o.id), 0)
		r.toCome++
	}
}

// again continues the demand of an operation that has run out of jobs.
func (r *run) again(index int32) {
	r.toCome--
	r.submit(workload.Again(r.operations[index].demand, r.now))
}

// close ends the demand of an operation: its jobs finish, no new ones start, and
// then it is complete.
func (r *run) close(index int32) {
	o := &r.operations[index]
	if o.state.IsFinished() {
		return
	}
	o.closing = true
	r.closing = append(r.closing, index)
	if o.account.running > 0 {
		if err := r.apply(&core.SuspendInput{Operation: o.id}); err != nil {
			r.fail("refuses to suspend operation %s: %v", o.name, err)
		}
	}
	r.settleClosing()
}

// settleClosing completes operations whose demand has ended and whose last job
// has ended.
func (r *run) settleClosing() {
	for i := 0; i < len(r.closing); {
		o := &r.operations[r.closing[i]]
		if !o.state.IsFinished() && o.account.running > 0 {
			i++
			continue
		}
		r.closing = slices.Delete(r.closing, i, i+1)
		if o.state.IsFinished() {
			continue
		}
		if err := r.apply(&core.CompleteInput{Operation: o.id}); err != nil {
			r.fail("refuses to complete operation %s: %v", o.name, err)
		}
	}
}

// action performs an event of the scenario.
func (r *run) action(index int32) {
	e := &r.scenario.Events[index]
	if end, ok := r.scenario.Duration.Get(); e.Every > 0 && (!ok || r.now+e.Every <= end) {
		r.queue.push(r.now+e.Every, kindAction, index, 0)
	} else {
		r.toCome--
	}
	err := r.act(e.Action)
	switch {
	case r.err != nil:
	case err != nil && !e.Refused && !e.Tolerated:
		r.err = fmt.Errorf("%s: at %s: %w", e.Where, document.FormatDuration(r.now), err)
	case err == nil && e.Refused:
		r.err = fmt.Errorf("%s: at %s: it was to be refused, but was not", e.Where, document.FormatDuration(r.now))
	}
}

func (r *run) act(action scenario.Action) error {
	switch a := action.(type) {
	case scenario.EditTree:
		return r.editTree(a)
	case scenario.ReplaceTree:
		return r.replaceTree(a.Tree, a.Config)
	case scenario.StartOperation:
		return r.startSpec(a)
	case scenario.CloseNodes:
		return r.eachNode(a.Group, true, 1, func(id core.NodeID) error {
			r.pulses[id].closed = !a.Open
			return nil
		})
	case scenario.UpdateOperation:
		return r.eachOperation(a.Operation, func(o *operationAccount) error { return r.updateParameters(o, a.Update) })
	case scenario.ChangeOperation:
		return r.eachOperation(a.Operation, func(o *operationAccount) error { return r.change(o, a) })
	case scenario.ControlOperation:
		return r.eachOperation(a.Operation, func(o *operationAccount) error {
			o.closing = o.closing || a.Command == scenario.Complete || a.Command == scenario.Abort // its demand ends with it
			return r.apply(control(a.Command, o.id))
		})
	case scenario.LoseNodes:
		return r.eachNode(a.Group, true, a.Count, func(id core.NodeID) error { return r.loseNode(id, a.Silently) })
	case scenario.ResizeNodes:
		return r.eachNode(a.Group, true, a.Count, func(id core.NodeID) error { return r.resizeNode(id, a.Resources) })
	case scenario.ReturnNodes:
		return r.eachNode(a.Group, false, a.Count, r.addNode)
	}
	return nil
}

// change sets parameters of an operation in all of its trees.
func (r *run) change(o *operationAccount, a scenario.ChangeOperation) error {
	var update operation.Update
	update.Trees.Pool, update.Trees.Weight = a.Pool, a.Weight
	if a.ResourceLimits.IsSet() {
		for tree, named := range r.trees {
			if o.place(core.TreeID(tree)) != nil {
				update.Trees.PerTree = append(update.Trees.PerTree, document.Named[pooltree.SchedulingOptions]{
					Name: named.Name, Value: pooltree.SchedulingOptions{ResourceLimits: a.ResourceLimits},
				})
			}
		}
	}
	return r.updateParameters(o, update)
}

func (r *run) updateParameters(o *operationAccount, update operation.Update) error {
	if err := r.apply(&core.ParametersInput{Operation: o.id, Update: update}); err != nil {
		return err
	}
	r.settlePlaces(o.id)
	return nil
}

func control(c scenario.Command, id core.OperationID) core.Input {
	switch c {
	case scenario.Complete:
		return &core.CompleteInput{Operation: id}
	case scenario.Suspend:
		return &core.SuspendInput{Operation: id}
	case scenario.Resume:
		return &core.ResumeInput{Operation: id}
	}
	return &core.AbortInput{Operation: id}
}

// editTree edits a tree as a whole.
func (r *run) editTree(a scenario.EditTree) error {
	i := r.treeIndex(a.Tree)
	if i < 0 {
		return fmt.Errorf("there is no pool tree %q", a.Tree)
	}
	next, _, err := r.trees[i].Value.With(a.Edits...)
	if err != nil {
		return err
	}
	return r.replaceTree(a.Tree, next)
}

// replaceTree replaces the configuration of a tree.
func (r *run) replaceTree(name string, config *pooltree.Tree) error {
	i := r.treeIndex(name)
	if i < 0 {
		return fmt.Errorf("there is no pool tree %q", name)
	}
	trees := slices.Clone(r.trees)
	trees[i].Value = config
	if err := r.apply(&core.TreesInput{Trees: trees, Default: r.defaultTree}); err != nil {
		return err
	}
	r.trees = trees
	r.books.setTrees(r.now, trees)
	return nil
}

// eachOperation calls do for all operations with a name, or from a template, that
// have not ended.
func (r *run) eachOperation(name string, do func(*operationAccount) error) error {
	found := false
	for i := range r.operations {
		o := &r.operations[i]
		if (o.name == name || o.template == name) && !o.state.IsFinished() {
			found = true
			if err := do(o); err != nil {
				return err
			}
		}
	}
	if !found {
		return fmt.Errorf("no operation %q runs at this time", name)
	}
	return nil
}

// eachNode calls do for the first nodes of a group that are alive, or that are
// not.
func (r *run) eachNode(group string, alive bool, count int, do func(core.NodeID) error) error {
	ids := r.nodesOf(group, alive, count)
	if len(ids) < count && alive {
		return fmt.Errorf("only %d nodes of group %q are there, not %d", len(ids), group, count)
	}
	if len(ids) == 0 {
		return fmt.Errorf("no node of group %q is away", group)
	}
	for _, id := range ids {
		if err := do(id); err != nil {
			return fmt.Errorf("node %s: %w", r.nodes[id].name, err)
		}
	}
	return nil
}

// strongGuarantee returns a pool's strong guarantee.
func strongGuarantee(p *pooltree.Pool) resource.Amounts {
	return p.Config().StrongGuarantee.Value().OrZero()
}
