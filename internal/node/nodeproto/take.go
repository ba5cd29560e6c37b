package nodeproto

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
)

// Abort reasons that this package itself reports; the names are those in package operation.
const (
	reasonGetSpecFailed = "get_spec_failed"
	reasonOther         = "other"
)

// take carries out an order once. It ignores orders of an unknown kind from a later
// protocol, so the next report lacks their effect.
func (n *NodeSession) take(now time.Time, order *nodev1.Order, specs []*nodev1.JobSpec, taken *Orders) {
	switch order := order.GetOrder().(type) {
	case *nodev1.Order_Start:
		n.takeStart(now, order.Start, specs, taken)
	case *nodev1.Order_Interrupt:
		n.takeInterrupt(now, order.Interrupt, taken)
	case *nodev1.Order_Abort:
		n.takeAbort(now, order.Abort, taken)
	case *nodev1.Order_OpenStream:
		taken.Open = append(taken.Open, order.OpenStream)
	case *nodev1.Order_PruneImages:
		taken.PruneImages = true
	case *nodev1.Order_Acknowledge:
		for _, number := range order.Acknowledge.GetNumbers() {
			if n.forget(number) {
				taken.Acknowledged = append(taken.Acknowledged, number)
			}
		}
	}
}

func (n *NodeSession) takeStart(now time.Time, order *nodev1.StartOrder, specs []*nodev1.JobSpec, taken *Orders) {
	identity := order.GetIdentity()
	number := identity.GetNumber()
	if number == 0 || n.jobs[number] != nil {
		return
	}
	job := n.add(identity, &nodev1.JobStatus{Number: number, Phase: nodev1.Phase_PHASE_PREPARING, Usage: identity.GetResources()})
	if int64(order.GetSpec()) >= int64(len(specs)) {
		job.result = neverStarted(now, identity, reasonGetSpecFailed, "the order refers to a specification that did not come")
		taken.Ended = append(taken.Ended, job.result)
		return
	}
	taken.Start = append(taken.Start, Start{Identity: identity, Spec: specs[order.GetSpec()], Environment: order.GetEnvironment(), Restore: order.GetRestore()})
}

func (n *NodeSession) takeInterrupt(now time.Time, order *nodev1.InterruptOrder, taken *Orders) {
	job := n.jobs[order.GetNumber()]
	if job == nil || job.result != nil || job.status.GetPreemption() != nodev1.PreemptionState_PREEMPTION_STATE_NONE {
		return
	}
	status := proto.CloneOf(job.status)
	status.Preemption = nodev1.PreemptionState_PREEMPTION_STATE_INTERRUPTED
	status.PreemptionReason = order.GetReason()
	if timeout := Duration(order.GetTimeoutUs()); timeout > 0 {
		status.InterruptionDeadlineUs = ToMicros(now.Add(timeout))
	}
	n.replace(job, status)
	taken.Interrupt = append(taken.Interrupt, order)
}

func (n *NodeSession) takeAbort(now time.Time, order *nodev1.AbortOrder, taken *Orders) {
	number := order.GetNumber()
	job := n.jobs[number]
	if job == nil || job.result != nil || job.status.GetPreemption() == nodev1.PreemptionState_PREEMPTION_STATE_ABORTED {
		return
	}
	status := proto.CloneOf(job.status)
	status.Preemption = nodev1.PreemptionState_PREEMPTION_STATE_ABORTED
	status.PreemptionReason = order.GetMessage()
	n.replace(job, status)

	begins := slices.IndexFunc(taken.Start, func(s Start) bool { return s.Identity.GetNumber() == number })
	if begins < 0 {
		taken.Abort = append(taken.Abort, order)
		return
	}
	// The start is in this same response: the job does not start.
	taken.Start = slices.Delete(taken.Start, begins, begins+1)
	taken.Interrupt = slices.DeleteFunc(taken.Interrupt, func(i *nodev1.InterruptOrder) bool { return i.GetNumber() == number })
	job.result = neverStarted(now, job.identity, order.GetAbortReason(), order.GetMessage())
	taken.Ended = append(taken.Ended, job.result)
}

func (n *NodeSession) replace(job *nodeJob, status *nodev1.JobStatus) {
	n.revision++
	job.status, job.changed = status, n.revision
}

// forget removes a job whose result is durable, and reports whether there was one.
func (n *NodeSession) forget(number uint64) bool {
	job := n.jobs[number]
	if job == nil || job.result == nil {
		return false
	}
	delete(n.jobs, number)
	at, _ := slices.BinarySearch(n.order, number)
	n.order = slices.Delete(n.order, at, at+1)
	return true
}

// neverStarted is the result of a job without a process.
func neverStarted(now time.Time, identity *nodev1.JobIdentity, reason, message string) *nodev1.JobResult {
	if reason == "" {
		reason = reasonOther
	}
	return &nodev1.JobResult{
		Number: identity.GetNumber(), Identity: identity, State: nodev1.JobState_JOB_STATE_ABORTED, AbortReason: reason,
		Error:   &nodev1.Error{Code: 1, Message: message},
		Timings: &nodev1.Timings{AcceptedUs: ToMicros(now), FinishedUs: ToMicros(now)},
	}
}
