package fakenode

import (
	"fmt"
	"time"

	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/resource"
)

// job is a job of a node until its result is acknowledged.
type job struct {
	identity  *nodev1.JobIdentity
	behaviour Behaviour
	plan      uint64 // of the next step
	accepted  time.Time
	began     time.Time // zero until the process starts
	usage     int       // number of applied entries of Usage
	cpu       int64
	memory    int64
	stop      stop
	result    *nodev1.JobResult // of an ended job whose output has not arrived
	over      bool
}

// stop is how a job ends that was ordered to.
type stop struct {
	at     time.Time // zero: not ordered
	state  nodev1.JobState
	reason string
}

// step is something that happens to a job.
type step uint8

const (
	stepNone step = iota
	stepBegin
	stepUsage
	stepEnd
	stepStop
)

// next returns the next step of a job and its time.
func (j *job) next() (what step, at time.Time) {
	switch {
	case j.over:
		return stepNone, time.Time{}
	case j.began.IsZero():
		what, at = stepBegin, j.accepted.Add(j.behaviour.Prepare)
	default:
		if j.behaviour.Duration >= 0 {
			what, at = stepEnd, j.began.Add(j.behaviour.Duration)
		}
		if j.usage < len(j.behaviour.Usage) {
			if change := j.began.Add(j.behaviour.Usage[j.usage].After); what == stepNone || change.Before(at) {
				what, at = stepUsage, change
			}
		}
	}
	if !j.stop.at.IsZero() && (what == stepNone || j.stop.at.Before(at)) {
		what, at = stepStop, j.stop.at
	}
	return what, at
}

// follow makes the due steps of a job happen and plans the next one.
func (n *node) follow(now time.Time, j *job) {
	for {
		what, at := j.next()
		if what == stepNone {
			return
		}
		if at.After(now) {
			j.plan++
			n.cluster.schedule(event{at: at, node: n, job: j, plan: j.plan})
			return
		}
		switch what {
		case stepBegin:
			j.began = at
			j.cpu, j.memory = j.identity.GetResources().GetCpu(), 0
			n.tell(j)
		case stepUsage:
			usage := j.behaviour.Usage[j.usage]
			j.usage++
			j.memory = usage.Memory
			if usage.CPU > 0 {
				j.cpu = usage.CPU
			}
			n.tell(j)
		case stepEnd:
			n.end(now, j, j.naturalEnd())
		case stepStop:
			n.end(now, j, &nodev1.JobResult{State: j.stop.state, AbortReason: j.stop.reason})
		}
	}
}

// held returns the resources that a job holds on its node.
func (j *job) held() resource.Amounts {
	amounts := nodeproto.FromAmounts(j.identity.GetResources())
	if !j.began.IsZero() {
		amounts[resource.CPU] = j.cpu
	}
	amounts[resource.Memory] = max(amounts[resource.Memory], j.memory)
	return amounts
}

// tell reports the state of a running job.
func (n *node) tell(j *job) {
	n.session.JobChanged(&nodev1.JobStatus{
		Number: j.identity.GetNumber(), Phase: nodev1.Phase_PHASE_RUNNING, Usage: nodeproto.ToAmounts(j.held()),
		UserJobMemory: j.memory, ExecStartTimeUs: nodeproto.ToMicros(j.began),
	})
}

// naturalEnd returns the result of a job that ends by itself.
func (j *job) naturalEnd() *nodev1.JobResult {
	b := &j.behaviour
	result := &nodev1.JobResult{
		State: b.State, ExitCode: &b.ExitCode, Error: b.Error, AbortReason: b.AbortReason, Statistics: b.Statistics,
	}
	if result.State == nodev1.JobState_JOB_STATE_UNSPECIFIED {
		result.State = nodev1.JobState_JOB_STATE_COMPLETED
	}
	return result
}

// end ends a job and makes the node report it at once.
func (n *node) end(now time.Time, j *job, result *nodev1.JobResult) {
	j.over = true
	j.plan++
	number := j.identity.GetNumber()
	result.Number = number
	result.Started = !j.began.IsZero()
	result.Timings = &nodev1.Timings{
		AcceptedUs: nodeproto.ToMicros(j.accepted), ExecStartedUs: nodeproto.ToMicros(j.began), FinishedUs: nodeproto.ToMicros(now),
	}
	settings := n.session.Settings()
	if text := j.behaviour.Stderr; int64(len(text)) <= settings.MaxInlineOutput {
		result.Stderr = &nodev1.Output{Head: text, Size: int64(len(text))}
	} else {
		result.Stderr = &nodev1.Output{Size: int64(len(text)), Uploaded: true}
		for offset := int64(0); offset < int64(len(text)); offset += settings.MaxUploadPiece {
			n.uploads = append(n.uploads, &nodev1.UploadRequest{
				NodeName: n.name, Incarnation: n.incarnation, Job: number, Stream: nodev1.Stream_STREAM_STDERR,
				Offset: offset, Data: text[offset:min(offset+settings.MaxUploadPiece, int64(len(text)))], Total: int64(len(text)),
			})
		}
	}
	if result.GetStderr().GetUploaded() {
		j.result = result // reported when the output has arrived
	} else {
		n.finish(now, j, result)
	}
	if !n.calling && !n.failing {
		n.wake(now)
	}
}

// finish passes a result to the session, which reports it.
func (n *node) finish(now time.Time, j *job, result *nodev1.JobResult) {
	if n.session.JobFinished(result) {
		n.cluster.ledger.finished(now, n.name, j.identity, result)
	}
}

// arrived reports the results whose output has arrived.
func (n *node) arrived(now time.Time, uploads []*nodev1.UploadRequest) {
	for _, piece := range uploads {
		if j := n.jobs[piece.GetJob()]; j != nil && j.result != nil {
			n.finish(now, j, j.result)
			j.result = nil
		}
	}
}

// status returns the status of the node.
func (n *node) status() *nodev1.NodeStatus {
	var usage resource.Amounts
	for _, j := range n.jobs {
		if !j.over {
			usage = usage.Add(j.held())
		}
	}
	var gpus []*nodev1.Gpu
	for i := range n.description.GetResources().GetGpu() {
		gpus = append(gpus, &nodev1.Gpu{Id: fmt.Sprintf("GPU-%d", i), Model: "fake", Memory: 16 << 30})
	}
	return &nodev1.NodeStatus{
		Limits: n.description.GetResources(), Usage: nodeproto.ToAmounts(usage), MemoryInUse: usage[resource.Memory],
		Draining: n.draining, Gpus: gpus,
	}
}
