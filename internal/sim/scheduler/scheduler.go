// Package scheduler puts the real scheduling core behind the seam of the
// simulator.
package scheduler

import (
	"fmt"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/sim"
	"github.com/weirhq/weir/internal/sim/scenario"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// Scheduler is the real scheduling core as the simulator drives it.
type Scheduler struct {
	core     *core.Core
	out      core.Decisions
	finished []core.Finished
	beat     core.HeartbeatInput
	pools    []core.PoolView
	// watchesNodes says that nodes which fall silent are given up.
	watchesNodes bool
	views        []core.OperationView
	// nodes are the nodes as they were brought, for changes that name only a part.
	nodes map[sim.NodeID]sim.AddNode
	// leaving and waiting are jobs on nodes that others do not know of; see
	// interrupt.go.
	leaving []leavingJob
	waiting []waitingJob
	// Verify checks the invariants of the core after every input, and is told
	// what is wrong.
	Verify func(error)
}

// New returns a core without trees, nodes and operations.
func New(settings core.Settings) *Scheduler {
	return &Scheduler{core: core.New(settings), nodes: map[sim.NodeID]sim.AddNode{}, watchesNodes: settings.NodeTimeout > 0}
}

// For returns a core for a scenario, with default settings. It watches for nodes
// that fall silent only if the scenario has such.
func For(s *scenario.Scenario) *Scheduler {
	settings := core.DefaultSettings()
	silent := slices.ContainsFunc(s.Events, func(e scenario.Event) bool {
		loss, ok := e.Action.(scenario.LoseNodes)
		return ok && loss.Silently
	})
	if !silent {
		settings.NodeTimeout = 0
	}
	return New(settings)
}

// Idle says that heartbeats without finished jobs are pointless now.
func (s *Scheduler) Idle() bool { return !s.watchesNodes && s.core.Idle() }

// Apply makes a change.
func (s *Scheduler) Apply(now time.Time, change sim.Change, out *sim.Decisions) (err error) {
	s.out.Reset()
	switch c := change.(type) {
	case sim.SetTrees:
		err = s.core.Apply(now, &core.TreesInput{Trees: c.Trees, Default: c.Default}, &s.out)
	case sim.SetVolume:
		err = s.core.Apply(now, &core.VolumeInput{Tree: core.TreeID(c.Tree), Pool: c.Pool, Seconds: c.Seconds}, &s.out)
	case sim.AddNode:
		s.nodes[c.Node] = c
		err = s.core.Apply(now, &core.NodeInput{Node: core.NodeID(c.Node), Name: c.Name, Resources: c.Resources, Tags: c.Tags}, &s.out)
	case sim.ResizeNode:
		n := s.nodes[c.Node]
		err = s.core.Apply(now, &core.NodeInput{Node: core.NodeID(c.Node), Name: n.Name, Resources: c.Resources, Tags: n.Tags}, &s.out)
	case sim.RemoveNode:
		err = s.core.Apply(now, &core.NodeLossInput{Node: core.NodeID(c.Node)}, &s.out)
	case sim.StartOperation:
		err = s.start(now, &c)
	case sim.ChangeOperation:
		err = s.core.Apply(now, &core.ChangeInput{Operation: core.OperationID(c.Operation),
			Change: core.Change{Pool: c.Pool, Weight: c.Weight, ResourceLimits: c.ResourceLimits}}, &s.out)
	case sim.AbortOperation:
		err = s.core.Apply(now, &core.AbortInput{Operation: core.OperationID(c.Operation)}, &s.out)
	case sim.CompleteOperation:
		err = s.core.Apply(now, &core.CompleteInput{Operation: core.OperationID(c.Operation)}, &s.out)
	case sim.SuspendOperation:
		err = s.core.Apply(now, &core.SuspendInput{Operation: core.OperationID(c.Operation)}, &s.out)
	case sim.ResumeOperation:
		err = s.core.Apply(now, &core.ResumeInput{Operation: core.OperationID(c.Operation)}, &s.out)
	default:
		return fmt.Errorf("a change of type %T", change)
	}
	if err != nil {
		return err
	}
	s.translate(now, out)
	s.place(change, out)
	return nil
}

// happens applies an input that the core never refuses.
func (s *Scheduler) happens(now time.Time, input core.Input) {
	if err := s.core.Apply(now, input, &s.out); err != nil {
		panic(fmt.Sprintf("%T was refused: %v", input, err))
	}
}

// start makes a vanilla operation of one task.
func (s *Scheduler) start(now time.Time, c *sim.StartOperation) error {
	spec, err := specOf(c)
	if err != nil {
		return err
	}
	return s.core.Apply(now, &core.StartInput{Operation: core.OperationID(c.Operation), User: c.User, Spec: spec}, &s.out)
}

// specOf writes the specification of an operation of equal jobs.
func specOf(c *sim.StartOperation) (*operation.Spec, error) {
	tasks, err := document.FromGo(map[string]any{"jobs": map[string]any{
		"job_count": c.Jobs, "cpu_limit": c.Resources.Float(resource.CPU), "gpu_limit": c.Resources[resource.GPU],
		"memory_limit": max(c.Resources[resource.Memory], 1), "network_limit": c.Resources[resource.Network],
		"user_job_memory_digest_default_value": 1.0, // a scenario says what its jobs take
	}})
	if err != nil {
		return nil, err
	}
	value := c.Spec
	if value.IsNull() {
		if value, err = document.FromGo(map[string]any{}); err != nil {
			return nil, err
		}
	}
	value = value.With("tasks", withFurther(value, tasks))
	specification, err := operation.Read(value, operation.ReadOptions{CommandOptional: true})
	if err != nil {
		return nil, err
	}
	spec := *specification.Spec
	spec.OperationOptions = c.Options
	return &spec, nil
}

// withFurther adds to the one task, which is called jobs, what else the scenario
// wrote for it.
func withFurther(spec, tasks document.Value) document.Value {
	given, _ := spec.Get("tasks")
	further, ok := given.Get("jobs")
	if !ok {
		return tasks
	}
	own, _ := tasks.Get("jobs")
	for _, e := range own.Entries() {
		further = further.With(e.Key, e.Value)
	}
	return tasks.With("jobs", further)
}

// place says in which pools an operation is after a change that concerns it.
func (s *Scheduler) place(change sim.Change, out *sim.Decisions) {
	var id sim.OperationID
	switch c := change.(type) {
	case sim.StartOperation:
		id = c.Operation
	case sim.ChangeOperation:
		id = c.Operation
	default:
		return
	}
	for tree := range s.core.TreeCount() {
		if pool, ok := s.core.PoolOf(core.OperationID(id), core.TreeID(tree)); ok {
			out.Placed = append(out.Placed, sim.Placed{Operation: id, Tree: sim.TreeID(tree), Pool: pool})
		}
	}
}

// Heartbeat is the report of a node and the answer to it.
func (s *Scheduler) Heartbeat(now time.Time, node sim.NodeID, finished []sim.Finished, out *sim.Decisions) {
	s.out.Reset()
	s.finished = s.finished[:0]
	for _, f := range finished {
		state := core.JobCompleted
		if f.Aborted {
			state = core.JobAborted
		}
		s.finished = append(s.finished, core.Finished{Job: core.JobID(f.Job), State: state})
		if len(s.leaving) > 0 {
			s.left(core.JobID(f.Job))
		}
	}
	s.beat = core.HeartbeatInput{Node: core.NodeID(node), Finished: s.finished}
	s.happens(now, &s.beat)
	s.translate(now, out)
	if len(s.waiting) > 0 {
		s.releaseWaiting(core.NodeID(node), out)
	}
}

// Update lets time pass.
func (s *Scheduler) Update(now time.Time, out *sim.Decisions) {
	s.out.Reset()
	s.happens(now, &core.UpdateInput{})
	s.translate(now, out)
	if len(s.waiting) > 0 {
		s.expireWaiting(now, out)
	}
}

var endStates = map[operation.State]sim.OperationState{
	operation.Pending: sim.Pending, operation.Running: sim.Running,
	operation.Completed: sim.Completed, operation.Failed: sim.Failed, operation.Aborted: sim.Aborted,
}

// translate tells the simulator what the core has decided. Jobs that cannot be
// interrupted end at once when they are preempted, and the core hears so.
func (s *Scheduler) translate(now time.Time, out *sim.Decisions) {
	var killed []core.Finished
	for i := range s.out.Stopped {
		d := &s.out.Stopped[i]
		if len(s.waiting) > 0 && s.withdraw(d.Job) {
			if d.Timeout > 0 {
				killed = append(killed, core.Finished{Job: d.Job, State: core.JobAborted})
			}
			continue // the simulator has not heard of it
		}
		stop := sim.Stopped{Job: sim.JobID(d.Job), Kind: sim.OperationEnded, Reason: d.Reason.String(), For: sim.OperationID(d.For)}
		switch {
		case d.Timeout > 0:
			stop.Kind, stop.Reason = sim.Preempted, d.Preemption.String()
			switch {
			case d.Preemption == scheduling.PreemptedGracefully:
				stop.Grace = d.Timeout
			case s.isInterruptible(d.Operation):
				stop.Grace = d.Timeout
				s.leave(d)
			default:
				killed = append(killed, core.Finished{Job: d.Job, State: core.JobAborted})
			}
		case d.Reason == operation.AbortNodeOffline || d.Reason == operation.AbortNodePoolTreeChanged:
			stop.Kind = sim.NodeLost
		}
		if d.Timeout == 0 && len(s.leaving) > 0 {
			s.left(d.Job)
		}
		out.Stopped = append(out.Stopped, stop)
	}
	for _, m := range s.out.Moved {
		out.Placed = append(out.Placed, sim.Placed{Operation: sim.OperationID(m.Operation), Tree: sim.TreeID(m.Tree), Pool: m.Pool})
	}
	for i := range s.out.Started {
		d := &s.out.Started[i]
		if len(s.leaving) > 0 { // there may be no room yet; see Heartbeat
			s.waiting = append(s.waiting, waitingJob{*d, now})
			continue
		}
		out.Started = append(out.Started, startedJob(d))
	}
	for i := range s.out.Operations {
		d := &s.out.Operations[i]
		state, ok := endStates[d.State]
		if !ok {
			continue
		}
		change := sim.OperationChange{Operation: sim.OperationID(d.Operation), State: state}
		if d.Error != nil {
			change.Reason = d.Error.Error()
		} else if d.Waiting != "" {
			change.Reason = "pool " + d.Waiting + " runs no more operations"
		}
		out.Operations = append(out.Operations, change)
	}
	if s.Verify != nil {
		s.Verify(s.core.Verify())
	}
	if len(killed) > 0 {
		s.out.Reset()
		s.happens(now, &core.ReportInput{Finished: killed})
		s.translate(now, out)
	}
}

// Observe writes the state of pools and operations.
func (s *Scheduler) Observe(_ time.Time, into *sim.Observation) {
	into.Trees, into.Pools, into.Operations = into.Trees[:0], into.Pools[:0], into.Operations[:0]
	for tree := range s.core.TreeCount() {
		into.Trees = append(into.Trees, sim.TreeState{Total: s.core.TreeTotal(core.TreeID(tree))})
	}
	s.pools = s.core.Pools(s.pools[:0])
	for i := range s.pools {
		p := &s.pools[i]
		into.Pools = append(into.Pools, sim.PoolState{
			Tree: sim.TreeID(p.Tree), Name: p.Name, Parent: p.Parent, Ephemeral: p.Ephemeral,
			FairShare: p.Share, Demand: p.Demand, Usage: p.Usage, Volume: p.Volume, Integral: p.Integral,
			Status: sim.Status(p.Status), Starvation: sim.Starvation(p.Starvation),
			RunningOperations: int32(p.RunningOperations), RunningJobs: p.RunningJobs, PendingJobs: p.WaitingJobs,
		})
	}
	if !into.WithOperations {
		return
	}
	s.views = s.core.Operations(s.views[:0])
	for i := range s.views {
		v := &s.views[i]
		into.Operations = append(into.Operations, sim.OperationView{
			Operation: sim.OperationID(v.Operation), Tree: sim.TreeID(v.Tree), FairShare: v.Share.Total, Demand: v.Demand, Usage: v.Usage,
			Status: sim.Status(v.Status), Starvation: sim.Starvation(v.Starvation), Suspended: v.Suspended,
			RunningJobs: v.RunningJobs, PendingJobs: v.WaitingJobs, Classes: v.Classes,
		})
	}
}

var _ sim.System = (*Scheduler)(nil)
