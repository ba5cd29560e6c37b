package picture

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weirhq/weir/internal/node/jobproxy"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
)

// carryOut carries out the scheduler's orders to a node.
func (p *Picture) carryOut(now time.Time, n *node, orders *nodeproto.Orders) {
	for _, number := range orders.Acknowledged {
		if j := p.jobs[number]; j != nil {
			p.acknowledged(now, j)
		}
	}
	for i := range orders.Start {
		p.start(now, n, &orders.Start[i])
	}
	for _, order := range orders.Interrupt {
		grace := nodeproto.Duration(order.GetTimeoutUs())
		if grace <= 0 {
			grace = unlimitedGrace
		}
		p.stop(now, order.GetNumber(), &stop{interrupt: true, keeps: true, reason: order.GetAbortReason(), message: order.GetReason(), grace: grace})
	}
	for _, order := range orders.Abort {
		p.stop(now, order.GetNumber(), &stop{
			fail: order.GetFailGracefully(), keeps: !strings.HasPrefix(order.GetAbortReason(), "operation_"), reason: order.GetAbortReason(), message: p.wordsOf(order),
			grace: max(abortGrace, nodeproto.Duration(order.GetTimeoutUs())),
		})
	}
	for _, order := range orders.Open {
		p.openStream(n, order)
	}
	p.changed(n)
}

// start begins a job: its pod is created now, or when its node has room.
func (p *Picture) start(now time.Time, n *node, s *nodeproto.Start) {
	if p.startGuest(now, n, s) {
		return
	}
	j := &job{number: s.Identity.GetNumber(), identity: s.Identity, spec: judgedBy(s.Spec), node: n}
	p.jobs[j.number] = j
	if n.object == nil {
		p.finish(now, j, notStarted(j.identity, reasonNodeOffline, "the node is no longer in the Kubernetes cluster", now))
		return
	}
	if why := p.closedTo(n, j); why != "" {
		p.finish(now, j, notStarted(j.identity, reasonDisabled, why, now))
		return
	}
	files, err := p.options.filesOf(s)
	if err != nil {
		p.finish(now, j, refused(j.identity, err.Error(), now))
		return
	}
	pod, err := p.options.podOf(s, files, n.name, p.options.gpuResource(n.object))
	if err != nil {
		p.finish(now, j, refused(j.identity, err.Error(), now))
		return
	}
	j.pod = pod
	if files != nil && files.mounted != nil {
		p.useFiles(j, files.mounted.Name, files.mounted)
	}
	if timeout := nodeproto.Duration(s.Identity.GetWaitTimeoutUs()); timeout > 0 && !p.hasRoom(n, j) {
		p.await(now, j, timeout)
		return
	}
	j.phase = creating
	p.look(now, j)
}

// await lets a job wait on its node for room. Its victims are lost in any case, so the time that our own deletions take to
// reach the API server does not count, within bounds.
func (p *Picture) await(now time.Time, j *job, timeout time.Duration) {
	j.since, j.deadline, j.lastly = now, now.Add(timeout), now.Add(max(timeout, longestWait))
	j.node.queue = append(j.node.queue, j.number)
}

// leaves records that the API server has accepted the deletion of a pod, which takes its grace period. Jobs that wait on the
// node wait for that.
func (p *Picture) leaves(now time.Time, j *job, grace time.Duration) {
	j.asked = true
	for _, number := range j.node.queue {
		if other := p.jobs[number]; other != nil && other.phase == waiting {
			other.deadline = later(other.deadline, earlier(now.Add(grace+graceSlack), other.lastly))
		}
	}
}

// hasWaited reports whether a job has waited on its node for as long as it may.
func (p *Picture) hasWaited(now time.Time, j *job) bool {
	if j.phase != waiting || now.Before(j.deadline) || !slices.Contains(j.node.queue, j.number) {
		return false
	}
	return !now.Before(j.lastly) || !slices.ContainsFunc(j.node.session.Jobs(), func(number uint64) bool {
		other := p.jobs[number]
		return other != nil && other.phase == placed && other.ordered != nil && !other.isTerminating()
	})
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// admit creates the pods of waiting jobs that fit now, in order of arrival.
func (p *Picture) admit(now time.Time, n *node) {
	if len(n.queue) == 0 || n.object == nil {
		return
	}
	queue := n.queue
	n.queue = nil
	for _, number := range queue {
		j := p.jobs[number]
		if j != nil && j.guest != nil && j.phase == waiting {
			if p.admitGuest(now, n, j) {
				continue
			}
			n.queue = append(n.queue, number)
			continue
		}
		if j == nil || j.phase != waiting {
			continue
		}
		switch why := p.closedTo(n, j); {
		case why != "":
			p.finish(now, j, notStarted(j.identity, reasonDisabled, why, now))
		case p.hasRoom(n, j):
			j.phase = creating
			p.look(now, j)
		default:
			n.queue = append(n.queue, number)
		}
	}
}

// stop ends a job.
func (p *Picture) stop(now time.Time, number uint64, order *stop) {
	j := p.jobs[number]
	if j == nil || j.phase >= reading {
		return
	}
	if j.phase == waiting || j.phase == creating && !j.tried {
		p.finish(now, j, notStarted(j.identity, order.reason, order.message, now))
		return
	}
	j.ordered, j.asked = order, false
	p.look(now, j)
}

// finish hands the result of a job to its session.
func (p *Picture) finish(now time.Time, j *job, result *nodev1.JobResult) {
	if j.phase >= ended {
		return
	}
	n := j.node
	j.phase, j.result, j.attempts, j.retryAt = ended, nil, 0, time.Time{}
	n.queue = slices.DeleteFunc(n.queue, func(number uint64) bool { return number == j.number })
	n.session.JobFinished(result)
	if j.guest != nil && !j.lost {
		p.stand(j.guest.pod, j.guest)
	}
	p.hurry(now, n)
	p.changed(n)
	p.look(now, j)
	p.admit(now, n)
}

// acknowledged removes the pod of a job whose result is durable.
func (p *Picture) acknowledged(now time.Time, j *job) {
	if j.guest != nil {
		p.guestAcknowledged(now, j)
		return
	}
	j.phase, j.attempts, j.retryAt = leaving, 0, time.Time{}
	if !j.exists || j.lost {
		p.forget(j) // a pod that still appears is an orphan
		return
	}
	p.look(now, j)
}

// forget drops a job.
func (p *Picture) forget(j *job) {
	delete(p.jobs, j.number)
	p.dropFiles(j)
	if j.exists {
		delete(p.uids, j.pod.UID)
	}
}

// write orders a write about a job.
func (p *Picture) write(j *job, w Write) {
	j.writing = true
	w.Job, w.Namespace, w.Name = j.number, j.pod.Namespace, j.pod.Name
	if j.exists {
		w.UID = j.pod.UID
	}
	p.effects.Writes = append(p.effects.Writes, w)
}

// look does what the state of a job calls for.
func (p *Picture) look(now time.Time, j *job) {
	if j.guest != nil {
		p.lookAtGuest(now, j)
		return
	}
	if j.phase == placed {
		p.lookAtPod(now, j)
	}
	if j.writing || now.Before(j.retryAt) || p.blind {
		return
	}
	switch j.phase {
	case creating:
		switch {
		case j.ordered != nil:
			p.write(j, Write{Kind: Find})
		case !now.Before(p.began.Add(settle)) && p.hasFiles(now, j):
			j.tried = true
			p.write(j, Write{Kind: Create, Pod: j.pod})
		}
	case placed:
		if j.ordered != nil && !j.asked {
			p.write(j, Write{Kind: Delete, Grace: seconds(graceOf(j.spec, j.ordered))})
		} else if j.usage.resize > 0 && !j.isTerminating() {
			p.write(j, Write{Kind: Resize, CPU: j.usage.resize})
		}
	case reading:
		p.write(j, Write{Kind: ReadLog, Limit: j.spec.GetMaxStderrSize()})
	case ended: // a pod that still runs although its job has ended
		if j.exists && !j.lost && !isOver(j.pod) && !j.isTerminating() {
			p.write(j, Write{Kind: Delete, Grace: seconds(usualGrace)})
		}
	case leaving:
		switch {
		case !j.released:
			p.write(j, Write{Kind: Release})
		case !j.isTerminating():
			p.write(j, Write{Kind: Delete, Grace: seconds(usualGrace)})
		}
	}
}

func seconds(d time.Duration) int64 { return max(1, int64((d+time.Second-1)/time.Second)) }

// lookAtPod draws conclusions from the pod of a job that has not ended.
func (p *Picture) lookAtPod(now time.Time, j *job) {
	if isOver(j.pod) {
		j.result = resultOf(j.identity, j.spec, j.pod, j.ordered, now)
		if !j.result.GetStarted() || j.spec.GetMaxStderrSize() <= 0 {
			p.finish(now, j, j.result)
			return
		}
		j.phase, j.attempts, j.retryAt = reading, 0, time.Time{}
		p.admit(now, j.node)
		return
	}
	j.usage.fixed = j.usage.fixed || infeasible(j.pod)
	if j.node.session.JobChanged(p.statusOf(j, false)) {
		p.hot[j.node.name] = true
	}
	if j.ordered != nil || !startOf(j.pod).IsZero() || p.blind {
		return
	}
	if why := hopeless(j.pod); why != "" {
		result := refused(j.identity, why, now)
		p.finish(now, j, result)
		return
	}
	if limit := nodeproto.Duration(j.spec.GetPrepareTimeLimitUs()); limit > 0 && now.Sub(j.since) > limit {
		p.finish(now, j, notStarted(j.identity, jobproxy.OtherReason, fmt.Sprintf("the pod did not start within %v", limit), now))
	}
}

// giveUpLost ends the jobs of a node that is gone, and of pods that a silent node does not end.
func (p *Picture) giveUpLost(now time.Time, n *node) {
	if p.blind || n.session == nil {
		return
	}
	why := ""
	switch {
	case n.object == nil:
		why = "the node is no longer in the Kubernetes cluster"
	case isOutOfService(n.object):
		why = "the node is out of service"
	case !n.lostAt.IsZero() && p.options.LostAfter > 0 && now.Sub(n.lostAt) >= p.options.LostAfter:
		why = fmt.Sprintf("the node has not been ready for %v", p.options.LostAfter)
	}
	for _, number := range n.session.Jobs() {
		j := p.jobs[number]
		if j == nil || j.phase >= reading {
			continue
		}
		cause := why
		if j.guest != nil && n.object != nil && !isOutOfService(n.object) {
			cause = "" // until Kubernetes deletes the pod
		}
		if cause == "" && !n.lostAt.IsZero() && j.exists && j.pod.DeletionTimestamp != nil && now.After(j.pod.DeletionTimestamp.Add(deletionSlack)) {
			cause = "the pod was deleted, and its node is not ready"
		}
		if cause == "" {
			continue
		}
		result := notStarted(j.identity, reasonNodeOffline, cause, now)
		if j.exists {
			result.Started = !startOf(j.pod).IsZero() || j.guest != nil && !guestStart(j.pod).IsZero()
		}
		if j.ordered != nil && !j.ordered.fail {
			result.AbortReason = cmp.Or(j.ordered.reason, result.GetAbortReason())
		}
		p.finish(now, j, result)
	}
}

// orphan is a pod of a job that this picture does not have.
type orphan struct {
	pod               *corev1.Pod
	writing           bool
	retryAt           time.Time
	attempts          int
	released, deleted bool
}

// orphaned begins to remove a pod that no job has.
func (p *Picture) orphaned(now time.Time, pod *corev1.Pod) {
	o := &orphan{pod: pod}
	p.orphans[pod.UID] = o
	p.removeOrphan(now, o)
}

// orphanList returns the orphans in order of their names.
func (p *Picture) orphanList() []*orphan {
	list := make([]*orphan, 0, len(p.orphans))
	for _, o := range p.orphans {
		list = append(list, o)
	}
	slices.SortFunc(list, func(a, b *orphan) int {
		return cmp.Or(cmp.Compare(a.pod.Name, b.pod.Name), cmp.Compare(a.pod.UID, b.pod.UID))
	})
	return list
}

// removeOrphan deletes a pod and takes its finalizer off.
func (p *Picture) removeOrphan(now time.Time, o *orphan) {
	if o.writing || p.blind || now.Before(o.retryAt) {
		return
	}
	w := Write{Namespace: o.pod.Namespace, Name: o.pod.Name, UID: o.pod.UID}
	switch {
	case !o.deleted && o.pod.DeletionTimestamp == nil:
		w.Kind, w.Grace = Delete, seconds(abortGrace)
	case !o.released && slices.Contains(o.pod.Finalizers, Finalizer):
		w.Kind = Release
	default:
		return
	}
	o.writing = true
	p.effects.Writes = append(p.effects.Writes, w)
}

// orphanWritten processes the outcome of a write about an orphan.
func (p *Picture) orphanWritten(now time.Time, uid types.UID, kind WriteKind, outcome *Outcome) {
	o := p.orphans[uid]
	if o == nil {
		return
	}
	o.writing = false
	switch outcome.Kind {
	case Done:
		o.attempts = 0
		o.deleted = o.deleted || kind == Delete
		o.released = o.released || kind == Release
	case Missing:
		delete(p.orphans, uid)
		return
	default:
		o.attempts++
		o.retryAt = now.Add(backoff(o.attempts))
	}
	p.removeOrphan(now, o)
}
