package scheduler

import (
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/sim"
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
	since time.Time
}

// isInterruptible says whether jobs of an operation take time to end.
func (s *Scheduler) isInterruptible(id core.OperationID) bool {
	info, ok := s.core.OperationInfo(id)
	return ok && info.Spec.Tasks[0].Value.InterruptionSignal.IsSet()
}

// leave notes a job that was asked to finish.
func (s *Scheduler) leave(d *core.Stopped) {
	s.leaving = append(s.leaving, leavingJob{d.Job, d.Node, d.Held})
}

// left forgets a job that is over.
func (s *Scheduler) left(job core.JobID) {
	s.leaving = slices.DeleteFunc(s.leaving, func(l leavingJob) bool { return l.job == job })
}

// roomOn is what a node really has free. The core counts jobs that wait already,
// and no longer those that are leaving.
func (s *Scheduler) roomOn(id core.NodeID) resource.Amounts {
	n, _ := s.core.NodeInfo(id)
	room := n.Limits.Sub(n.Usage)
	for _, l := range s.leaving {
		if l.node == id {
			room = room.Sub(l.held)
		}
	}
	for i := range s.waiting {
		if s.waiting[i].Node == id {
			room = room.Add(s.waiting[i].Resources)
		}
	}
	return room
}

// releaseWaiting starts jobs that have waited on a node and fit now, in the order
// in which they came.
func (s *Scheduler) releaseWaiting(id core.NodeID, out *sim.Decisions) {
	for i := 0; i < len(s.waiting); {
		w := &s.waiting[i]
		if w.Node != id || !s.roomOn(id).Dominates(w.Resources) {
			i++
			continue
		}
		out.Started = append(out.Started, startedJob(&w.Started))
		s.waiting = slices.Delete(s.waiting, i, i+1)
	}
}

// withdraw forgets a waiting job that is stopped before it began.
func (s *Scheduler) withdraw(job core.JobID) bool {
	before := len(s.waiting)
	s.waiting = slices.DeleteFunc(s.waiting, func(w waitingJob) bool { return w.Job == job })
	return len(s.waiting) < before
}

// expireWaiting aborts jobs that have waited for too long.
func (s *Scheduler) expireWaiting(now time.Time, out *sim.Decisions) {
	var expired []core.Finished
	for i := range s.waiting {
		if w := &s.waiting[i]; now.Sub(w.since) > w.WaitTimeout {
			expired = append(expired, core.Finished{Job: w.Job, State: core.JobAborted, Reason: operation.AbortWaitingTimeout})
		}
	}
	if len(expired) == 0 {
		return
	}
	for i := range expired {
		s.withdraw(expired[i].Job)
	}
	s.out.Reset()
	s.happens(now, &core.ReportInput{Finished: expired})
	s.translate(now, out)
}

func startedJob(d *core.Started) sim.Started {
	return sim.Started{
		Job: sim.JobID(d.Job), Operation: sim.OperationID(d.Operation), Index: d.Cookie,
		Node: sim.NodeID(d.Node), Tree: sim.TreeID(d.Tree), Stage: d.Stage.String(),
	}
}
