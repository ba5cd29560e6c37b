package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/sim/outcome"
	"github.com/weirhq/weir/internal/sim/scenario"
	"github.com/weirhq/weir/internal/sim/workload"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// never is the time of what has not happened.
const never time.Duration = -1

// operation is an operation that has come.
type operation struct {
	name, template string
	account
	state    OperationState
	rejected bool
	reason   string
	arrived  time.Duration
	started  time.Duration // of its first job; never
	finished time.Duration // never

	jobCount  int
	resources resource.Amounts
	durations workload.Durations
	// first is the place in the first tree, more are those in others.
	first placement
	more  []placement
	// demand is set for operations with demand over time.
	demand  *workload.Operation
	closing bool

	entitled, asked outcome.Vector
	starving        float64 // seconds
	waits           waitSums
	allWaits        *waits // nil unless an expectation asks for percentiles
	// requeued has, for jobs that were stopped, when they began to wait again.
	requeued map[int32]time.Duration

	stages  []int32Count // by index in books.stages
	reasons []int32Count // of preemption, by index in books.reasons
	victims []int32Count // preempted jobs by the operation that got the room
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

// placement is where an operation is in a tree.
type placement struct {
	tree    TreeID
	pool    int32 // index in books.pools; -1: none
	running int32
}

// place returns where the operation is in a tree, nil if nowhere.
func (o *operation) place(tree TreeID) *placement {
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

// nextArrival puts the next operation of a source into the queue.
func (r *run) nextArrival(source int32) {
	next, ok := r.sources[source].Next()
	if !ok {
		r.waiting[source] = workload.Operation{}
		r.toCome--
		return
	}
	r.waiting[source] = next
	r.queue.push(next.At, kindArrival, source, 0)
}

func (r *run) arrive(source int32) {
	arrived := r.waiting[source]
	r.nextArrival(source)
	r.begin(arrived)
}

// begin starts an operation.
func (r *run) begin(w workload.Operation) {
	id := OperationID(len(r.operations))
	o := operation{
		name: w.Name, template: w.Template, arrived: r.now, started: never, finished: never,
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
	err := r.apply(StartOperation{
		Operation: id, Name: w.Name, User: w.User, Options: w.Options, Spec: w.Spec, Jobs: w.Jobs, Resources: w.Resources,
	})
	if err != nil {
		r.operations[id].rejected = true
		r.operationChanged(OperationChange{Operation: id, State: Failed, Reason: err.Error()})
		return
	}
	if w.AtOnce > 0 && w.Until != scenario.Forever {
		r.queue.push(w.Until, kindClose, int32(id), 0)
	}
}

// placed notes in which pool an operation is, and moves what it uses there.
func (r *run) placed(p Placed) {
	if p.Operation < 0 || int(p.Operation) >= len(r.operations) || p.Tree < 0 || int(p.Tree) >= len(r.trees) {
		r.fail("places operation %d in tree %d, which do not exist", p.Operation, p.Tree)
		return
	}
	o := &r.operations[p.Operation]
	pool := r.books.pool(p.Tree, p.Pool)
	place := o.place(p.Tree)
	switch {
	case place == nil && o.first.pool < 0:
		o.first = placement{tree: p.Tree, pool: pool}
	case place == nil:
		o.more = append(o.more, placement{tree: p.Tree, pool: pool})
	default:
		r.books.move(r.now, o, place, pool)
		return
	}
	r.books.pools[pool].operations++
}

// operationChanged notes the state of an operation.
func (r *run) operationChanged(c OperationChange) {
	if c.Operation < 0 || int(c.Operation) >= len(r.operations) {
		r.fail("reports operation %d, which does not exist", c.Operation)
		return
	}
	o := &r.operations[c.Operation]
	if o.state.hasEnded() {
		r.fail("reports operation %s as %v after it has ended as %v", o.name, c.State, o.state)
		return
	}
	o.state, o.reason = c.State, c.Reason
	if !c.State.hasEnded() {
		return
	}
	o.finished = r.now
	o.requeued = nil
	r.active--
	if c.State == Completed && o.demand != nil && !o.closing && r.now < o.demand.Until {
		r.queue.push(r.now, kindAgain, int32(c.Operation), 0)
		r.toCome++
	}
}

// again continues the demand of an operation that has run out of jobs.
func (r *run) again(id OperationID) {
	r.toCome--
	r.begin(workload.Again(r.operations[id].demand, r.now))
}

// close ends the demand of an operation: its jobs finish, no new ones start, and
// then it is complete.
func (r *run) close(id OperationID) {
	o := &r.operations[id]
	if o.state.hasEnded() {
		return
	}
	o.closing = true
	r.closing = append(r.closing, id)
	if o.account.running > 0 {
		if err := r.apply(SuspendOperation{Operation: id}); err != nil {
			r.fail("refuses to suspend operation %s: %v", o.name, err)
		}
	}
	r.settleClosing()
}

// settleClosing completes operations whose demand has ended and whose last job is
// over.
func (r *run) settleClosing() {
	for i := 0; i < len(r.closing); {
		id := r.closing[i]
		o := &r.operations[id]
		if !o.state.hasEnded() && o.account.running > 0 {
			i++
			continue
		}
		r.closing = slices.Delete(r.closing, i, i+1)
		if o.state.hasEnded() {
			continue
		}
		if err := r.apply(CompleteOperation{Operation: id}); err != nil {
			r.fail("refuses to complete operation %s: %v", o.name, err)
		}
	}
}

// action lets an event of the scenario happen.
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
	case err != nil && !e.Refused:
		r.err = fmt.Errorf("%s: at %s: %w", e.Where, document.FormatDuration(r.now), err)
	case err == nil && e.Refused:
		r.err = fmt.Errorf("%s: at %s: it was to be refused, but was not", e.Where, document.FormatDuration(r.now))
	}
}

func (r *run) act(action scenario.Action) error {
	switch a := action.(type) {
	case scenario.EditTree:
		return r.editTree(a)
	case scenario.ChangeOperation:
		return r.eachOperation(a.Operation, func(id OperationID) Change {
			return ChangeOperation{Operation: id, Pool: a.Pool, Weight: a.Weight, ResourceLimits: a.ResourceLimits}
		})
	case scenario.ControlOperation:
		return r.eachOperation(a.Operation, func(id OperationID) Change { return control(a.Command, id) })
	case scenario.LoseNodes:
		return r.eachNode(a.Group, true, a.Count, func(id NodeID) error { return r.loseNode(id, a.Silently) })
	case scenario.ResizeNodes:
		return r.eachNode(a.Group, true, a.Count, func(id NodeID) error { return r.resizeNode(id, a.Resources) })
	case scenario.ReturnNodes:
		return r.eachNode(a.Group, false, a.Count, r.addNode)
	}
	return nil
}

func control(c scenario.Command, id OperationID) Change {
	switch c {
	case scenario.Complete:
		return CompleteOperation{Operation: id}
	case scenario.Suspend:
		return SuspendOperation{Operation: id}
	case scenario.Resume:
		return ResumeOperation{Operation: id}
	}
	return AbortOperation{Operation: id}
}

// editTree changes a tree as a whole.
func (r *run) editTree(a scenario.EditTree) error {
	i := r.treeIndex(a.Tree)
	next, _, err := r.trees[i].Value.With(a.Edits...)
	if err != nil {
		return err
	}
	trees := slices.Clone(r.trees)
	trees[i].Value = next
	if err := r.apply(SetTrees{Trees: trees, Default: r.scenario.DefaultTree}); err != nil {
		return err
	}
	r.trees = trees
	r.books.setTrees(trees)
	return nil
}

// eachOperation changes all operations with a name, or of a template, that have
// not ended.
func (r *run) eachOperation(name string, change func(OperationID) Change) error {
	found := false
	for i := range r.operations {
		o := &r.operations[i]
		if (o.name == name || o.template == name) && !o.state.hasEnded() {
			found = true
			c := change(OperationID(i))
			switch c.(type) {
			case AbortOperation, CompleteOperation:
				o.closing = true // its demand ends with it
			}
			if err := r.apply(c); err != nil {
				return err
			}
		}
	}
	if !found {
		return fmt.Errorf("no operation %q runs at this time", name)
	}
	return nil
}

// eachNode does something to the first nodes of a group that are alive or not.
func (r *run) eachNode(group string, alive bool, count int, do func(NodeID) error) error {
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

// strongGuarantee returns what a pool is strongly guaranteed.
func strongGuarantee(p *pooltree.Pool) resource.Amounts {
	return p.Config().StrongGuarantee.Value().OrZero()
}
