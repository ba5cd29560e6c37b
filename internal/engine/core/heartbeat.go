package core

import (
	"time"

	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/value/resource"
)

// JobState is how a job ended.
type JobState uint8

const (
	JobCompleted JobState = iota
	JobFailed
	JobAborted
	// JobInterrupted jobs were asked to end early and did, with part of their
	// work done.
	JobInterrupted
)

// Finished is a job that has ended on its node.
type Finished struct {
	Job     JobID
	State   JobState
	Reason  operation.AbortReason // of an aborted job
	Failure operation.Failure     // of a failed job
	// Usage is what the job has used, nil if it was not measured.
	Usage *operation.Usage
	// NotBegun reports that the process of an aborted job never ran.
	NotBegun bool
}

// heartbeat processes a node's report and decides what the node starts and
// stops. Reports about jobs that the core does not know change nothing.
func (c *Core) heartbeat(now time.Time, id NodeID, finished []Finished, out *Decisions) {
	if len(finished) == 0 && c.passHeartbeat(now, id) {
		return
	}
	c.report(now, finished, out)
	if int(id) >= len(c.nodes) || c.nodes[id] == nil {
		return
	}
	n := c.nodes[id]
	news := len(finished) > 0 || n.silent || n.awaited
	c.seen(now, id, out)
	if n.tree == none {
		return
	}
	t := c.trees[n.tree]
	d := &c.decisions
	t.state.Heartbeat(now, n.at, d)
	c.idle = !news && len(d.Starts) == 0 && len(d.Preemptions) == 0 && d.Kept == 0
	out.Kept += d.Kept
	for i := range d.Starts {
		c.start(now, t, &d.Starts[i], out)
	}
	for i := range d.Preemptions {
		c.preempt(t, &d.Preemptions[i], out)
	}
	c.reportGangs(t, out)
}

// passHeartbeat processes a heartbeat without news if it decides nothing.
func (c *Core) passHeartbeat(now time.Time, id NodeID) bool {
	if int(id) >= len(c.calm) {
		return false
	}
	place := c.calm[id]
	if place.tree == none || !c.trees[place.tree].state.PassHeartbeat(now, place.at) {
		return false
	}
	c.seenAt[id], c.idle = now, true
	return true
}

// Beat is a heartbeat without news.
type Beat struct {
	After time.Duration // since a date that they share
	Node  NodeID
}

// PassHeartbeats applies a row of heartbeats without news up to the first that may
// decide something, and returns how many it has applied. Simulations of full
// clusters spend most of their heartbeats here.
func (c *Core) PassHeartbeats(since time.Time, beats []Beat) (passed int) {
	// Most nodes are known to be full. Reading many of them before the first one is
	// processed lets the processor wait for memory once instead of once a node.
	const together = 32
	start := since.UnixNano()
	for passed < len(beats) {
		row := beats[passed:min(passed+together, len(beats))]
		full := 0
		for full < len(row) && c.passes(start+int64(row[full].After), row[full].Node) {
			full++
		}
		for _, b := range row[:full] {
			place := c.calm[b.Node]
			c.seenAt[b.Node] = since.Add(b.After)
			c.trees[place.tree].state.Passed(start+int64(b.After), place.at)
		}
		passed += full
		if full < len(row) {
			if !c.passHeartbeat(since.Add(row[full].After), row[full].Node) {
				break
			}
			passed++
		}
	}
	if passed > 0 {
		c.idle, c.wasQuiet = true, c.quiet
	}
	return passed
}

// passes reports whether a heartbeat without news decides nothing because its node
// is known to be full.
func (c *Core) passes(now int64, id NodeID) bool {
	if int(id) >= len(c.calm) {
		return false
	}
	place := c.calm[id]
	return place.tree != none && c.trees[place.tree].state.Passes(now, place.at)
}

// report processes ends of jobs without requesting work.
func (c *Core) report(now time.Time, finished []Finished, out *Decisions) {
	for i := range finished {
		c.jobEnded(now, finished[i].Job, finished[i], out)
	}
}

// start gets the job for a decision from its operation's controller.
func (c *Core) start(now time.Time, t *tree, s *scheduling.Start, out *Decisions) {
	at := t.state.NodeOf(s.Allocation)
	op := c.operationAt(t.owners[s.Operation])
	group := op.controller.Groups()[s.Group]
	// A retry may need more memory than other jobs of its group: it may use what
	// the node has left.
	held := group.Resources.Max(t.state.AllocationUsage(s.Allocation))
	available := held.Add(t.state.NodeFree(at).Max(resource.Amounts{}))
	taken, block := op.controller.Schedule(int(s.Group), available)
	if block != operation.NotBlocked {
		t.state.FinishAllocation(s.Allocation)
		c.sync(op)
		return
	}
	c.stir(op)
	c.nextJob++
	t.jobs = append(t.jobs, make([]job, max(0, int(s.Allocation)+1-len(t.jobs)))...)
	t.jobs[s.Allocation] = job{id: c.nextJob, operation: op.id, ref: taken.JobRef}
	c.jobs[c.nextJob] = jobPlace{t.id, s.Allocation}
	t.state.SetAllocationUsage(s.Allocation, taken.Resources)
	if len(op.places) > 1 || op.controller.Groups()[s.Group].Resources != group.Resources {
		c.sync(op)
	}
	out.Started = append(out.Started, Started{
		Job: c.nextJob, Operation: op.id, Tree: t.id, Node: t.nodes[at], Stage: s.Stage, Resources: taken.Resources, JobRef: taken.JobRef,
		Index: taken.Index, TaskIndex: taken.TaskIndex, WaitTimeout: op.placeIn(t.id).waitTimeout,
	})
}

var preemptionReasons = [...]operation.AbortReason{
	scheduling.PreemptedForStarving: operation.AbortPreemption,
	scheduling.PreemptedForNode:     operation.AbortNodeResourceOvercommit,
	scheduling.PreemptedForLimit:    operation.AbortPreemption,
	scheduling.PreemptedGracefully:  operation.AbortPreemption,
}

// preempt reports that a job is preempted. The core keeps the job until its
// node reports the end.
func (c *Core) preempt(t *tree, p *scheduling.Preemption, out *Decisions) {
	j := &t.jobs[p.Allocation]
	j.stopping = preemptionReasons[p.Reason]
	s := Stopped{
		Job: j.id, Operation: j.operation, Node: t.nodes[t.state.NodeOf(p.Allocation)], Reason: j.stopping, Preemption: p.Reason, Class: p.Class,
		For: NoOperation, Timeout: p.Timeout, Held: p.Held,
	}
	if p.For != none {
		s.For, s.ForJob, s.Balance = t.jobs[p.For].operation, t.jobs[p.For].id, p.Balance
		if c.operationAt(j.operation).controller.Spec().IsGang.Value() {
			s.Balance.VictimLeft = 0 // all of its jobs stop
		}
	}
	if p.Limiter != none {
		s.Limiter = t.state.PoolName(p.Limiter)
	}
	out.Stopped = append(out.Stopped, s)
}

// jobEnded processes the end of a job.
func (c *Core) jobEnded(now time.Time, id JobID, f Finished, out *Decisions) {
	where, known := c.jobs[id]
	if !known {
		return
	}
	t := c.trees[where.tree]
	j := t.jobs[where.at]
	op := c.operationAt(j.operation)
	if f.State == JobFailed && f.Failure.Node == "" {
		f.Failure.Node = c.nodes[t.nodes[t.state.NodeOf(where.at)]].name
	}
	c.release(t, where.at)
	reason := f.Reason
	if reason == operation.NotAborted {
		reason = j.stopping
	}
	f.Job = id
	if f.State == JobAborted {
		f.Reason = reason
	}
	effects, err := tellEnd(op.controller, j.ref, f, reason, now)
	if err == nil {
		c.heedGang(now, t, op, f)
		out.Ended = append(out.Ended, Ended{Operation: op.id, JobRef: j.ref, Finished: f})
		c.carryOut(now, op, effects, out)
	}
}

// tellEnd reports the end of a job to its controller.
func tellEnd(to *operation.Controller, ref operation.JobRef, f Finished, reason operation.AbortReason, now time.Time) (operation.Effects, error) {
	return to.JobEnded(ref, operation.Outcome{
		State: endStates[f.State], Reason: reason, Started: !f.NotBegun, Failure: f.Failure, Usage: f.Usage,
	}, now)
}

var endStates = [...]operation.EndState{
	JobCompleted: operation.EndCompleted, JobFailed: operation.EndFailed, JobAborted: operation.EndAborted,
	JobInterrupted: operation.EndInterrupted,
}

// update advances time: it recomputes fair shares and starvation, and
// enforces time limits.
func (c *Core) update(now time.Time, out *Decisions) {
	if c.begun.IsZero() {
		c.begun = now
	}
	if now.Before(c.wasQuiet) {
		c.pass(now)
		return
	}
	if c.settings.NodeTimeout > 0 || c.awaits {
		c.giveUpSilent(now, out)
		c.holdClocks()
	}
	c.updateTrees(now)
	for _, t := range c.trees {
		c.reportGangs(t, out)
	}
	c.settleStirred()
	c.each(c.timed, func(op *running) {
		if deadline, ok := op.controller.Deadline(); ok && !now.Before(deadline) {
			c.carryOut(now, op, op.controller.Tick(now), out)
		}
	})
	c.settleRevived(now, out)
	c.checkHosts(now, out)
	c.checkProgress(now, out)
	c.quiet = c.quietUntil(now)
}

// updateTrees computes the fair shares of each tree.
func (c *Core) updateTrees(now time.Time) {
	update := func(i int) {
		c.trees[i].followNodes()
		c.trees[i].state.Update(now)
	}
	if c.together != nil && len(c.trees) > 1 {
		c.together(len(c.trees), update)
		return
	}
	for i := range c.trees {
		update(i)
	}
}
