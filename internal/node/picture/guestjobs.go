package picture

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weirhq/weir/internal/node/jobproxy"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/node/workload"
)

// Reasons for which starts of pods are given back.
const (
	reasonGone      = "scheduling_other"
	reasonDifferent = "scheduling_other"
)

const (
	// asideFirst and asideMost bound the pauses of a pod whose bind is refused.
	asideFirst = time.Second
	asideMost  = 5 * time.Minute
	// protectedFor is how long a pod that a disruption budget protects is no victim.
	protectedFor = time.Minute
	// longGrace is the grace period above which a pod is no victim.
	longGrace = 5 * time.Minute
	// graceSlack is how much longer than the victims' grace period a start waits.
	graceSlack = 10 * time.Second
	// avoidFor is how long a node is avoided for a class whose start found no room there in time.
	avoidFor = 5 * time.Minute
)

// guestIdentity returns the identity of the job that a pod of others was bound for.
func guestIdentity(pod *corev1.Pod) (*nodev1.JobIdentity, bool) {
	text := pod.Annotations[AnnotationJob]
	identity := &nodev1.JobIdentity{}
	if text == "" || unpack(text, identity) != nil || identity.GetNumber() == 0 {
		return nil, false
	}
	return identity, true
}

// adoptGuests finds the jobs of pods that an earlier leader has bound: running ones are adopted, ended ones reported.
func (p *Picture) adoptGuests(now time.Time, restored map[string][]nodeproto.RestoredJob) {
	for _, g := range p.guestList() {
		identity, bound := guestIdentity(g.pod)
		if g.pod.Spec.NodeName == "" || !bound || p.jobs[identity.GetNumber()] != nil {
			p.otherSeen(now, g.pod)
			continue
		}
		n := p.nodeNamed(g.pod.Spec.NodeName)
		j := &job{
			number: identity.GetNumber(), identity: identity, spec: &nodev1.JobSpec{}, node: n, phase: placed, pod: g.pod, guest: g,
			exists: true, tried: true, since: now,
		}
		status := nodeproto.RestoredJob{Status: p.statusOf(j, true)}
		if isOver(g.pod) {
			status.Result = guestResult(j, now)
		} else {
			p.jobs[j.number], p.uids[g.pod.UID], g.job = j, j, j
		}
		restored[n.name] = append(restored[n.name], status)
	}
}

// startGuest begins a job of a pod of others. It reports false if the order is for a job of Weir's own.
func (p *Picture) startGuest(now time.Time, n *node, s *nodeproto.Start) bool {
	op := p.guests.ids[s.Identity.GetOperationId()]
	if op == nil && s.Spec.GetCommand() != "" {
		return false
	}
	j := &job{number: s.Identity.GetNumber(), identity: s.Identity, spec: &nodev1.JobSpec{}, node: n, pod: &corev1.Pod{}}
	p.jobs[j.number] = j
	var g *guest
	if op != nil && op.tasks[s.Identity.GetTaskName()] != nil {
		g = op.tasks[s.Identity.GetTaskName()].pods[s.Identity.GetCookie()]
	}
	j.guest = g
	if g == nil || g.job != nil || !workload.Waits(g.pod) {
		j.guest = &guest{pod: &corev1.Pod{}}
		p.finish(now, j, notStarted(j.identity, reasonGone, "the pod does not wait any more", now))
		return true
	}
	j.pod, g.job = g.pod, j
	if why := p.unfit(n, g, now); why != "" {
		g.asideUntil = now.Add(asideFirst)
		p.finish(now, j, notStarted(j.identity, reasonDifferent, why, now))
		return true
	}
	if timeout := nodeproto.Duration(s.Identity.GetWaitTimeoutUs()); timeout > 0 && !p.hasRoom(n, j) {
		p.await(now, j, min(longGrace, max(timeout, p.longestGrace(n)+graceSlack)))
		return true
	}
	p.begin(now, j)
	return true
}

// begin begins the bind of a pod, which counts on its node from now on.
func (p *Picture) begin(now time.Time, j *job) {
	j.phase = creating
	p.stand(j.pod, j.guest)
	p.look(now, j)
}

// unfit returns why a node cannot take a pod now, empty if it can.
func (p *Picture) unfit(n *node, g *guest, now time.Time) string {
	if n.object == nil {
		return "the node is no longer in the Kubernetes cluster"
	}
	if why := p.options.closed(n.object); len(why) > 0 {
		return why[0]
	}
	refusal := p.refusalOf(n, g.task.class, g.pod.UID, now)
	if refusal == (workload.Refusal{}) { // others may keep the pod away since it was placed
		refusal = p.guests.near.Refuse(g.task.class.constraints, p.guests.near.RepelledBy(g.pod), n.object)
	}
	if refusal != (workload.Refusal{}) {
		return "the node " + refusal.String()
	}
	return ""
}

// longestGrace returns the longest grace period of the pods that leave a node.
func (p *Picture) longestGrace(n *node) (longest time.Duration) {
	for _, number := range n.session.Jobs() {
		if j := p.jobs[number]; j != nil && j.exists && (j.ordered != nil || j.isTerminating()) {
			longest = max(longest, podGrace(j.pod))
		}
	}
	return longest
}

// podGrace is how long a pod may take to end.
func podGrace(pod *corev1.Pod) time.Duration {
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return usualGrace
}

// lookAtGuest does what the state of a job of a pod of others calls for.
func (p *Picture) lookAtGuest(now time.Time, j *job) {
	if j.phase == placed && isOver(j.pod) {
		p.finish(now, j, guestResult(j, now))
		return
	}
	if j.writing || now.Before(j.retryAt) || p.blind {
		return
	}
	switch {
	case j.phase == creating && (j.ordered != nil || !workload.Waits(j.guest.pod)):
		p.write(j, Write{Kind: Find, UID: j.pod.UID})
	case j.phase == creating && !now.Before(p.began.Add(settle)):
		j.tried = true
		p.write(j, Write{Kind: Bind, UID: j.pod.UID, Node: j.node.name, Annotation: packed(j.identity)})
	case j.phase == placed && j.ordered != nil && !j.asked:
		p.write(j, Write{Kind: Evict, Message: j.ordered.message, Preempted: j.ordered.isPreemption()})
	}
}

// isPreemption reports whether the core has chosen the job as a victim: then it may choose another one.
func (s *stop) isPreemption() bool {
	return s.reason == reasonPreemption || s.reason == reasonOvercommit
}

// guestWritten processes the outcome of a write about a job of a pod of others.
func (p *Picture) guestWritten(now time.Time, j *job, w *Write, outcome *Outcome) {
	switch {
	case j.phase >= ended:
	case w.Kind == Evict:
		p.evicted(now, j, outcome)
	case j.phase != creating: // the watch was faster
	case outcome.Kind == Missing:
		p.finish(now, j, notStarted(j.identity, reasonGone, "the pod was deleted before it started", now))
	case outcome.Kind == Refused:
		g := j.guest
		g.rejections++
		g.rejected = outcome.Message
		g.asideUntil = now.Add(min(asideMost, asideFirst<<min(g.rejections-1, 10)))
		p.finish(now, j, notStarted(j.identity, reasonDifferent, "the API server refuses the bind: "+outcome.Message, now))
	case outcome.Pod != nil:
		p.foundGuest(now, j, outcome.Pod)
	default: // bound
		pod := j.pod.DeepCopy()
		pod.Spec.NodeName = j.node.name
		p.boundGuest(now, j, pod)
	}
	if p.jobs[w.Job] == j {
		p.look(now, j)
	}
}

// boundGuest records that a pod is on the node that was chosen for it.
func (p *Picture) boundGuest(now time.Time, j *job, pod *corev1.Pod) {
	j.guest.rejections, j.guest.rejected = 0, ""
	p.waited(now, j.guest)
	p.seen(now, j, pod)
}

// foundGuest compares a pod as the API server has it with a bind whose outcome was not known.
func (p *Picture) foundGuest(now time.Time, j *job, pod *corev1.Pod) {
	identity, bound := guestIdentity(pod)
	switch {
	case pod.UID != j.pod.UID:
		p.finish(now, j, notStarted(j.identity, reasonGone, "the pod was deleted before it started", now))
	case pod.Spec.NodeName == j.node.name && bound && proto.Equal(identity, j.identity):
		p.boundGuest(now, j, pod)
	case pod.Spec.NodeName != "":
		p.otherSeen(now, pod)
		p.finish(now, j, notStarted(j.identity, reasonGone, "somebody else has bound the pod to node "+pod.Spec.NodeName, now))
	case j.ordered != nil:
		p.finish(now, j, notStarted(j.identity, j.ordered.reason, j.ordered.message, now))
	case !workload.Waits(pod):
		p.finish(now, j, notStarted(j.identity, reasonGone, "the pod does not wait any more", now))
	}
}

// evicted processes the answer to an eviction.
func (p *Picture) evicted(now time.Time, j *job, outcome *Outcome) {
	switch {
	case outcome.Kind == Missing:
		p.gone(now, j)
	case outcome.Kind == Protected && j.ordered != nil && j.ordered.isPreemption():
		p.protect(now, j, outcome.Message)
	case outcome.Kind == Protected:
		j.retryAt = now.Add(retryMost)
	case outcome.Kind == Refused:
		p.note("pod %s/%s cannot be evicted: %s", j.pod.Namespace, j.pod.Name, outcome.Message)
		j.retryAt = now.Add(retryMost)
	default:
		p.leaves(now, j, podGrace(j.pod))
		p.tellGuest(j)
	}
}

// protect keeps a pod that a disruption budget protects: the core chooses another victim, and what waited for its room
// goes back.
func (p *Picture) protect(now time.Time, j *job, why string) {
	p.note("pod %s/%s is not preempted: %s", j.pod.Namespace, j.pod.Name, why)
	j.ordered, j.asked, j.pinned = nil, false, now.Add(protectedFor)
	n := j.node
	n.session.JobSpared(j.number)
	p.tellGuest(j)
	for _, number := range slices.Clone(n.queue) {
		if other := p.jobs[number]; other != nil && other.phase == waiting {
			p.finish(now, other, notStarted(other.identity, reasonWaiting, "a disruption budget protects the pod that was to make room", now))
		}
	}
	p.hurry(now, n)
}

// tellGuest passes the state of a pod on to its session.
func (p *Picture) tellGuest(j *job) {
	if j.node.session.JobChanged(p.statusOf(j, false)) {
		p.hot[j.node.name] = true
	}
}

// never is until when pods that are never victims are pinned.
var never = time.Unix(1<<33, 0)

// pinnedUntil returns until when a pod is no victim.
func (j *job) pinnedUntil() time.Time {
	if workload.Priority(j.pod) >= workload.PriorityOfSystem || podGrace(j.pod) > longGrace {
		return never
	}
	return j.pinned
}

// guestStart returns when the first container of a pod started, zero if none has.
func guestStart(pod *corev1.Pod) (first time.Time) {
	for i := range pod.Status.ContainerStatuses {
		s := &pod.Status.ContainerStatuses[i].State
		at := time.Time{}
		switch {
		case s.Running != nil:
			at = s.Running.StartedAt.Time
		case s.Terminated != nil:
			at = s.Terminated.StartedAt.Time
		}
		if !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// guestResult returns the result of a job whose pod is over or gone. Nothing is retried: that is the owner's matter.
func guestResult(j *job, now time.Time) *nodev1.JobResult {
	pod := j.pod
	result := &nodev1.JobResult{
		Number: j.number, Identity: j.identity, Started: !guestStart(pod).IsZero(),
		Timings: &nodev1.Timings{
			AcceptedUs: nodeproto.ToMicros(pod.CreationTimestamp.Time), ExecStartedUs: nodeproto.ToMicros(guestStart(pod)), FinishedUs: nodeproto.ToMicros(now),
		},
	}
	v := verdict{state: nodev1.JobState_JOB_STATE_COMPLETED}
	if pod.Status.Phase != corev1.PodSucceeded {
		v = guestVerdict(j)
	}
	result.State, result.AbortReason, result.Error = v.state, v.reason, v.err
	return result
}

// guestVerdict judges a pod that has not succeeded.
func guestVerdict(j *job) verdict {
	if j.ordered != nil {
		return aborted(cmp.Or(j.ordered.reason, jobproxy.OtherReason), j.ordered.message)
	}
	if v, decided := byCluster(j.pod, nil); decided {
		return v
	}
	if !isOver(j.pod) || j.pod.DeletionTimestamp != nil {
		return aborted(jobproxy.OtherReason, "the pod was deleted")
	}
	return failed(jobproxy.CodeUserJobFailed, "the pod failed: "+cmp.Or(j.pod.Status.Message, lastWords(j.pod)))
}

// lastWords returns how the first container of a pod that failed ended.
func lastWords(pod *corev1.Pod) string {
	for i := range pod.Status.ContainerStatuses {
		c := &pod.Status.ContainerStatuses[i]
		if t := c.State.Terminated; t != nil && t.ExitCode != 0 {
			return fmt.Sprintf("container %s exited with code %d", c.Name, t.ExitCode)
		}
	}
	return string(pod.Status.Phase)
}

// guestAcknowledged forgets a job whose end is durable. A pod that still waits is offered again.
func (p *Picture) guestAcknowledged(now time.Time, j *job) {
	p.forget(j)
	g := j.guest
	if g.job == j {
		g.job, g.offered = nil, false
	}
	if g.task == nil {
		return
	}
	if p.guests.pods[g.pod.UID] == g && workload.Waits(g.pod) {
		g.task.fresh = true
		p.placeGuest(now, g)
		return
	}
	p.dropGuest(g)
	if p.guests.pods[g.pod.UID] == g {
		p.otherSeen(now, g.pod) // it may still run on a node that was given up
	}
}

// neighbour records a pod that has something of its node that is not shared out.
func (p *Picture) neighbour(pod *corev1.Pod, gone bool) {
	name := pod.Spec.NodeName
	if name == "" {
		return
	}
	counts := !gone && !isOver(pod) && (len(workload.Extras(pod, p.options.GPUResources))+len(workload.PortsOf(pod))+len(workload.ClaimsOf(pod)) > 0)
	list := p.guests.neighbours[name]
	if _, there := list[pod.UID]; !counts && !there {
		return
	}
	if list == nil {
		list = map[types.UID]*corev1.Pod{}
		p.guests.neighbours[name] = list
	}
	list[pod.UID] = pod
	if !counts {
		delete(list, pod.UID)
	}
	if n := p.nodes[name]; n != nil && n.session != nil && p.synced {
		p.changed(n)
	}
}

// stand counts a pod on its node: the one that it is bound to, or to which it is being bound. A pod that has ended or waits
// is on none.
func (p *Picture) stand(pod *corev1.Pod, g *guest) {
	name := pod.Spec.NodeName
	if name == "" && g != nil && g.job != nil && (g.job.phase == creating || g.job.phase == placed) {
		name = g.job.node.name
	}
	var counts, terms bool
	if name == "" || isOver(pod) {
		counts, terms = p.guests.near.Remove(pod.UID)
	} else {
		counts, terms = p.guests.near.Put(pod, name)
	}
	p.stir(counts, terms)
}

// stir notes that pods may be permitted elsewhere than before.
func (p *Picture) stir(counts, terms bool) {
	p.guests.stirred = p.guests.stirred || counts
	p.guests.moved = p.guests.moved || terms
}

// taken returns what the pods of a node have taken, except one pod. Claims count wherever their pods are.
func (p *Picture) taken(n *node, except types.UID) *workload.Taken {
	taken := &workload.Taken{}
	pods := map[types.UID]*corev1.Pod{}
	for uid, pod := range p.guests.neighbours[n.name] {
		pods[uid] = pod
	}
	for _, number := range n.session.Jobs() { // those whose binds are under way
		if j := p.jobs[number]; j != nil && j.guest != nil && j.phase < reading {
			pods[j.pod.UID] = j.pod
		}
	}
	for uid, pod := range pods { // sums and sets: the order does not matter
		if uid != except {
			taken.Add(pod, p.options.GPUResources)
		}
	}
	for name, list := range p.guests.neighbours {
		for _, pod := range list {
			if name != n.name {
				taken.Claims = append(taken.Claims, workload.ClaimsOf(pod)...)
			}
		}
	}
	return taken
}

// refusalOf returns why a node does not take pods of a class now.
func (p *Picture) refusalOf(n *node, k *class, except types.UID, now time.Time) workload.Refusal {
	refusal, known := n.refusals[k]
	if !known {
		refusal = k.constraints.Permits(withoutConditions(n.object))
		if n.refusals == nil {
			n.refusals = map[*class]workload.Refusal{}
		}
		n.refusals[k] = refusal
	}
	if refusal == (workload.Refusal{}) && k.constraints.Takes() {
		refusal = k.constraints.Fits(n.object, p.taken(n, except))
	}
	if refusal == (workload.Refusal{}) {
		refusal = p.guests.near.Refuse(k.constraints, k.constraints.Repelled(), n.object)
	}
	if refusal == (workload.Refusal{}) && now.Before(n.avoided[k]) {
		refusal.Cause = workload.CauseNoRoom
	}
	return refusal
}

// withoutConditions returns a node without the taints that state conditions: they are obstacles of the node as a whole.
func withoutConditions(object *corev1.Node) *corev1.Node {
	kept := object.DeepCopy()
	kept.Spec.Taints = slices.DeleteFunc(kept.Spec.Taints, func(t corev1.Taint) bool { return isCondition(t.Key) })
	return kept
}

// deny sets which classes a node denies. A node that is closed to ordinary jobs by a taint is open if a class tolerates it.
func (p *Picture) deny(n *node, status *nodev1.NodeStatus) {
	if n.object == nil {
		return
	}
	bits := make([]byte, p.guests.highest/8+1)
	bits[0] |= 1 << ClassPending
	permitted := false
	for _, k := range p.classList() {
		if p.refusalOf(n, k, "", p.latest) != (workload.Refusal{}) {
			bits[k.number/8] |= 1 << (k.number % 8)
		}
		permitted = permitted || n.refusals[k] == (workload.Refusal{})
	}
	if status.JobsDisabled && permitted && len(p.options.closed(n.object)) == 0 {
		status.JobsDisabled = false
		bits[0] |= 1
	}
	status.DeniedClasses = bits
}

// admitGuest begins the bind of a pod that waits for room, or gives it back. It reports false if the pod waits on.
func (p *Picture) admitGuest(now time.Time, n *node, j *job) bool {
	if why := p.unfit(n, j.guest, now); why != "" {
		p.finish(now, j, notStarted(j.identity, reasonDifferent, why, now))
		return true
	}
	if !p.hasRoom(n, j) {
		return false
	}
	p.begin(now, j)
	return true
}

// avoid keeps the pods of a class away from a node that did not have room for one of them in time.
func (p *Picture) avoid(now time.Time, j *job) {
	if j.guest == nil || j.guest.task == nil || j.guest.task.class == nil {
		return
	}
	if j.node.avoided == nil {
		j.node.avoided = map[*class]time.Time{}
	}
	j.node.avoided[j.guest.task.class] = now.Add(avoidFor)
}

// forgive forgets that classes were avoided, when that is over.
func (p *Picture) forgive(now time.Time, n *node) {
	over := false
	for k, until := range n.avoided {
		if !now.Before(until) {
			delete(n.avoided, k)
			over = true
		}
	}
	if over {
		p.changed(n)
	}
}

// wordsOf returns what an order to abort says about its cause.
func (p *Picture) wordsOf(order *nodev1.AbortOrder) string {
	id := order.GetPreemptedFor().GetOperationId()
	switch {
	case order.GetMessage() != "":
		return order.GetMessage()
	case id == "" && order.GetAbortReason() == reasonOvercommit:
		return "the pods of the node hold more than it has for them now"
	case id == "" && order.GetAbortReason() == reasonPreemption:
		return "the pool of the pod, or one above it, holds more than it may"
	case id == "":
		return ""
	}
	if op := p.guests.ids[id]; op != nil {
		return fmt.Sprintf("preempted for operation %s of pool %s", op.alias, op.place.Pool)
	}
	return "preempted for operation " + id
}
