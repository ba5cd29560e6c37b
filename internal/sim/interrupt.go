package sim

import (
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/value/resource"
)

// Simulated nodes know two kinds of jobs. Jobs without an interruption_signal end
// at once when they are preempted. Jobs with one are asked to finish: they run
// until they have, at most for the preemption timeout, and hold their resources
// meanwhile. To the core these resources are free already, so it might have
// started another job in their place: that job waits on its node, at most for its
// own timeout.

// leavingJob is a job that was asked to finish.
type leavingJob struct {
	job  core.JobID
	node core.NodeID
	held resource.Amounts
}

// waitingJob is a job that waits on its node until others have left.
type waitingJob struct {
	core.Started
	since time.Duration
}

// isInterruptible reports whether a running job needs time to end.
func (r *run) isInterruptible(id core.JobID) bool {
	slot, known := r.jobs.byID[id]
	if !known {
		return false
	}
	j := &r.jobs.table[slot]
	controller := r.core.ControllerOf(r.operations[j.operation].id)
	return controller != nil && controller.Spec().Tasks[j.key.task].Value.InterruptionSignal.IsSet()
}

// left removes a leaving job that has ended.
func (r *run) left(job core.JobID) {
	if len(r.leaving) > 0 {
		r.leaving = slices.DeleteFunc(r.leaving, func(l leavingJob) bool { return l.job == job })
	}
}

// roomOn is what a node has free in fact. The core already counts waiting jobs,
// and no longer counts leaving ones.
func (r *run) roomOn(id core.NodeID) resource.Amounts {
	room := r.core.NodeFree(id)
	for _, l := range r.leaving {
		if l.node == id {
			room = room.Sub(l.held)
		}
	}
	for i := range r.waiting {
		if r.waiting[i].Node == id {
			room = room.Add(r.waiting[i].Resources)
		}
	}
	return room
}

// releaseWaiting starts jobs that have waited on a node and fit now, in order of
// arrival.
func (r *run) releaseWaiting(id core.NodeID) {
	for i := 0; i < len(r.waiting); {
		if r.waiting[i].Node != id || !r.roomOn(id).Dominates(r.waiting[i].Resources) {
			i++
			continue
		}
		if r.err == nil {
			r.begin(&r.waiting[i].Started)
		}
		r.waiting = slices.Delete(r.waiting, i, i+1)
	}
}

// withdraw removes a waiting job that is stopped before it started, and reports
// whether it waited.
func (r *run) withdraw(job core.JobID) bool {
	before := len(r.waiting)
	if before > 0 {
		r.waiting = slices.DeleteFunc(r.waiting, func(w waitingJob) bool { return w.Job == job })
	}
	return len(r.waiting) < before
}

// expireWaiting aborts jobs that have waited too long.
func (r *run) expireWaiting() {
	var expired []core.Finished
	for i := range r.waiting {
		if w := &r.waiting[i]; r.now-w.since > w.WaitTimeout {
			expired = append(expired, core.Finished{Job: w.Job, State: core.JobAborted, Reason: operation.AbortWaitingTimeout})
		}
	}
	for i := range expired {
		if r.withdraw(expired[i].Job) { // else it was a member of a gang that has just lost another one
			r.happens(&core.ReportInput{Finished: expired[i : i+1]})
		}
	}
}
