package sim

import (
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/value/resource"
)

// Simulated nodes know two kinds of jobs. Those without an interruption_signal end
// at once when they are preempted. Those with one are asked to finish: they go on
// until they have, at most for the timeout of the preemption, and meanwhile hold
// what they have. To the core their room is free already, so that a job may have
// been started in it: that job waits on its node, for at most its own timeout.

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

// isInterruptible says whether a job that runs takes time to end.
func (r *run) isInterruptible(id core.JobID) bool {
	slot, known := r.jobs.byID[id]
	if !known {
		return false
	}
	j := &r.jobs.table[slot]
	controller := r.core.ControllerOf(r.operations[j.operation].id)
	return controller != nil && controller.Spec().Tasks[j.key.task].Value.InterruptionSignal.IsSet()
}

// left forgets a leaving job that is over.
func (r *run) left(job core.JobID) {
	if len(r.leaving) > 0 {
		r.leaving = slices.DeleteFunc(r.leaving, func(l leavingJob) bool { return l.job == job })
	}
}

// roomOn is what a node really has free. The core counts jobs that wait already,
// and no longer those that are leaving.
func (r *run) roomOn(id core.NodeID) resource.Amounts {
	n, _ := r.core.NodeInfo(id)
	room := n.Limits.Sub(n.Usage)
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

// releaseWaiting begins jobs that have waited on a node and fit now, in the order
// in which they came.
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

// withdraw forgets a waiting job that is stopped before it began, and says whether
// it waited.
func (r *run) withdraw(job core.JobID) bool {
	before := len(r.waiting)
	if before > 0 {
		r.waiting = slices.DeleteFunc(r.waiting, func(w waitingJob) bool { return w.Job == job })
	}
	return len(r.waiting) < before
}

// expireWaiting aborts jobs that have waited for too long.
func (r *run) expireWaiting() {
	var expired []core.Finished
	for i := range r.waiting {
		if w := &r.waiting[i]; r.now-w.since > w.WaitTimeout {
			expired = append(expired, core.Finished{Job: w.Job, State: core.JobAborted, Reason: operation.AbortWaitingTimeout})
		}
	}
	if len(expired) == 0 {
		return
	}
	for i := range expired {
		r.withdraw(expired[i].Job)
	}
	r.happens(&core.ReportInput{Finished: expired})
}
