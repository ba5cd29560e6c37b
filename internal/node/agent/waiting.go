package agent

import (
	"fmt"
	"time"

	"github.com/weirhq/weir/internal/node/jobproxy"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/value/resource"
)

// reasonWaitingTimeout is why a job ends that waited too long for room on its node.
const reasonWaitingTimeout = "waiting_timeout"

// reasonJobsDisabled is why a job ends that an unwell node does not begin.
const reasonJobsDisabled = "node_with_disabled_jobs"

// queued is a job that waits until others, preempted for it, have left.
type queued struct {
	job         *job
	description *jobproxy.Description
}

// hasRoom says whether the node has what a job was given beside those that have begun. Memory that jobs have grown by
// above their reserves does not count: what there is of it is for the overdraft rule to find.
func (a *Agent) hasRoom(j *job) bool {
	var begun resource.Amounts
	for _, other := range a.jobs {
		if other != j && other.result == nil && !other.queued {
			held := other.holds()
			held[resource.Memory] = min(held[resource.Memory], other.given[resource.Memory])
			begun = begun.Add(held)
		}
	}
	return a.limits.Dominates(begun.Add(j.given))
}

// enqueue lets a job wait for room, for as long as the scheduler said.
func (a *Agent) enqueue(j *job, description *jobproxy.Description) {
	j.queued = true
	a.queue = append(a.queue, queued{j, description})
	timeout := nodeproto.Duration(j.identity.GetWaitTimeoutUs())
	a.work(func() {
		select {
		case <-a.ctx.Done():
		case <-time.After(timeout):
			a.post(func() { a.giveUp(j, timeout) })
		}
	})
}

// admit begins waiting jobs for which there is room now, in the order in which they came.
func (a *Agent) admit() {
	waiting := a.queue
	a.queue = nil
	for _, q := range waiting {
		switch {
		case q.job.result != nil:
		case a.health.refuses():
			a.finish(q.job, notStarted(q.job, reasonJobsDisabled, a.health.String()))
		case a.hasRoom(q.job):
			q.job.queued = false
			a.launch(q.job, q.description)
		default:
			a.queue = append(a.queue, q)
		}
	}
}

// giveUp ends a job that has waited too long. It never began.
func (a *Agent) giveUp(j *job, waited time.Duration) {
	if !j.queued || j.result != nil {
		return
	}
	a.finish(j, notStarted(j, reasonWaitingTimeout, fmt.Sprintf("the node had no room for the job within %v", waited)))
}
