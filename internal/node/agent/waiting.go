package agent

import (
	"fmt"
	"time"

	"github.com/weirhq/weir/internal/node/jobproxy"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/value/resource"
)

// reasonWaitingTimeout is the abort reason of a job that waited too long for room on its node.
const reasonWaitingTimeout = "waiting_timeout"

// reasonJobsDisabled is the abort reason of a job that an unhealthy node does not start.
const reasonJobsDisabled = "node_with_disabled_jobs"

// queued is a job that waits until the jobs preempted for it have ended.
type queued struct {
	job         *job
	description *jobproxy.Description
}

// hasRoom reports whether the node has the resources given to a job, beside those of the jobs that have started.
// Memory that jobs use above their reserves does not count: the overdraft rule handles it.
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

// enqueue makes a job wait for room, at most for the timeout that the scheduler set.
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

// admit starts the waiting jobs that fit now, in order of arrival.
func (a *Agent) admit() {
	waiting := a.queue
	a.queue = nil
	for _, q := range waiting {
		switch {
		case q.job.result != nil:
		case a.refusal() != "":
			a.finish(q.job, notStarted(q.job, reasonJobsDisabled, a.refusal()))
		case a.hasRoom(q.job):
			q.job.queued = false
			a.launch(q.job, q.description)
		default:
			a.queue = append(a.queue, q)
		}
	}
}

// giveUp ends a job that has waited too long. Its process never started.
func (a *Agent) giveUp(j *job, waited time.Duration) {
	if !j.queued || j.result != nil {
		return
	}
	a.finish(j, notStarted(j, reasonWaitingTimeout, fmt.Sprintf("the node had no room for the job within %v", waited)))
}
