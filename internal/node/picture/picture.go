package picture

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/node/workload"
	"github.com/weirhq/weir/internal/value/resource"
)

// Picture is the state of one leader's term. The package comment has the contract.
type Picture struct {
	options Options
	began   time.Time
	synced  bool
	blind   bool // the API server is away

	nodes map[string]*node
	jobs  map[uint64]*job
	uids  map[types.UID]*job // those whose pods exist
	// found are pods of jobs that were seen before Synced.
	found map[string]*corev1.Pod
	// orphans are pods of jobs that this picture does not have, by UID; they are being removed.
	orphans map[types.UID]*orphan
	others  map[types.UID]otherPod
	hot     map[string]bool // nodes that may have to call the scheduler
	lives   uint64          // incarnations given out
	files   map[string]*taskFiles
	guests  guests
	tasks   map[taskKey]*ownTask // of ordinary operations, that say something about their pods
	// tasksStale reports that there may be others.
	tasksStale bool
	latest     time.Time // that anybody has told

	effects Effects
}

// Effects is what the owner of a picture is to do.
type Effects struct {
	Writes []Write
	Calls  []Call
	// Streams are live connections that the scheduler asks for.
	Streams []Stream
	// Measures are kubelets to ask for figures.
	Measures []Measure
	// Waits is how long pods waited that have got a node.
	Waits []Waited
	// Ask is what to ask the scheduler about operations of pods, nil for nothing. Owners are to be read. Why are operations
	// about whose waiting pods the scheduler is asked.
	Ask    *Ask
	Owners []OwnerAsk
	Why    []string
	// Notes are for the log.
	Notes []string
}

// node is a virtual node.
type node struct {
	name       string
	object     *corev1.Node // nil if the cluster does not have it
	session    *nodeproto.NodeSession
	queue      []uint64 // jobs that wait for room, in order of arrival
	others     resource.Amounts
	lostAt     time.Time     // when it was first seen not ready; zero while it is ready
	memory     MemoryFigures // what its kubelet said last
	measuredAt time.Time     // when its kubelet was asked last
	unmeasured time.Time     // since when there are no newer figures; zero while nothing is to be measured
	exchange   exchange
	// refusals are why it denies classes, as far as that depends on the node alone; avoided is until when it denies them
	// because it did not have room in time.
	refusals map[*class]workload.Refusal
	avoided  map[*class]time.Time
}

// phase is how far a job has come.
type phase uint8

const (
	waiting  phase = iota // for room on its node; it has no pod
	creating              // its pod is asked for; whether it exists is not known
	placed                // its pod exists
	reading               // its pod is over, its output is being read
	ended                 // its session has the result
	leaving               // its result is durable; its pod is being removed
)

// job is a job on a virtual node, from its order until its pod is removed.
type job struct {
	number   uint64
	identity *nodev1.JobIdentity
	spec     *nodev1.JobSpec
	node     *node
	phase    phase
	pod      *corev1.Pod // as last seen; while it is created, as it should be
	exists   bool        // the pod has been seen, or its creation was confirmed
	tried    bool        // a create has been sent
	ordered  *stop
	deadline time.Time // of waiting for room, once its victims are leaving
	lastly   time.Time // of waiting for room in any case
	since    time.Time // when the pod was created, or the wait for room began, by our clock

	writing  bool      // a write about it is under way
	retryAt  time.Time // when to try again; zero: at once
	attempts int
	asked    bool              // the API server has accepted the deletion that was ordered last
	released bool              // the finalizer is off
	lost     bool              // the pod no longer exists
	result   *nodev1.JobResult // while the output is read
	usage    usage             // of its resources, as far as it is known
	files    string            // the ConfigMap that its pod mounts; empty if there is none
	guest    *guest            // the pod, if it is somebody else's
	pinned   time.Time         // until when a guest is no victim
}

// otherPod is a pod of somebody else that takes room on a node.
type otherPod struct {
	node   string
	amount resource.Amounts
}

// New returns an empty picture.
func New(o Options, now time.Time) *Picture {
	return &Picture{
		options: o, began: now, nodes: map[string]*node{}, jobs: map[uint64]*job{}, uids: map[types.UID]*job{}, hot: map[string]bool{}, found: map[string]*corev1.Pod{},
		orphans: map[types.UID]*orphan{}, others: map[types.UID]otherPod{}, files: map[string]*taskFiles{}, guests: newGuests(), tasks: map[taskKey]*ownTask{}, tasksStale: true, latest: now,
	}
}

// TickPeriod is how often Tick must be called at least.
const TickPeriod = 100 * time.Millisecond

// Pause returns how long the owner may wait for events before it calls Take again.
func (p *Picture) Pause() time.Duration {
	if len(p.hot) > 0 {
		return changePause
	}
	return TickPeriod
}

// note adds a line for the log.
func (p *Picture) note(format string, args ...any) {
	p.effects.Notes = append(p.effects.Notes, fmt.Sprintf(format, args...))
}

// Take returns what there is to do now and forgets it.
func (p *Picture) Take(now time.Time) Effects {
	p.latest = now
	p.effects.Ask = p.ask(now)
	if p.guests.classed { // once for all of them
		p.guests.classed = false
		p.classesChanged()
	}
	p.effects.Owners, p.guests.wanted = p.guests.wanted, nil
	p.effects.Why = p.whys(now)
	for _, name := range sortedKeys(p.hot) {
		if n := p.nodes[name]; n == nil || n.session == nil || !p.call(now, n) {
			delete(p.hot, name)
		}
	}
	effects := p.effects
	p.effects = Effects{}
	return effects
}

// nodeNamed returns a virtual node, which it adds if there is none.
func (p *Picture) nodeNamed(name string) *node {
	n := p.nodes[name]
	if n == nil {
		n = &node{name: name}
		p.nodes[name] = n
	}
	return n
}

// NodeSeen records a node of the cluster.
func (p *Picture) NodeSeen(now time.Time, object *corev1.Node) {
	n := p.nodeNamed(object.Name)
	described := n.object == nil || !slices.Equal(p.options.tagsOf(n.object), p.options.tagsOf(object)) ||
		p.options.offered(n.object) != p.options.offered(object)
	n.object, n.refusals = object, nil
	p.stir(p.guests.near.SetNode(object), false)
	switch {
	case isReady(object):
		n.lostAt = time.Time{}
	case n.lostAt.IsZero():
		n.lostAt = now
	}
	if !p.synced {
		return
	}
	if n.session == nil {
		p.open(now, n, nil)
	} else if described {
		n.session.Describe(p.options.descriptionOf(n.name, n.object))
		p.hurry(now, n)
	}
	p.changed(n)
	p.giveUpLost(now, n)
	p.admit(now, n)
}

// NodeGone records that the cluster has lost a node. Its jobs are given up; their pods that have ended still count.
func (p *Picture) NodeGone(now time.Time, name string) {
	n := p.nodes[name]
	if n == nil {
		return
	}
	n.object = nil
	p.stir(p.guests.near.DropNode(name), false)
	if !p.synced {
		return
	}
	p.changed(n)
	p.giveUpLost(now, n)
}

// Synced records that everything that the API server has was seen: sessions begin, with the jobs that were found.
func (p *Picture) Synced(now time.Time) {
	p.synced = true
	restored := map[string][]nodeproto.RestoredJob{}
	names := sortedKeys(p.found)
	for _, name := range names {
		pod := p.found[name]
		identity, err := identityOf(pod)
		if err != nil {
			p.note("pod %s/%s is removed: %v", pod.Namespace, pod.Name, err)
			p.orphaned(now, pod)
			continue
		}
		j := &job{
			number: identity.GetNumber(), identity: identity, spec: specOf(pod), node: p.nodeNamed(pod.Spec.NodeName), phase: placed, pod: pod,
			exists: true, tried: true, since: now,
		}
		p.jobs[j.number], p.uids[pod.UID] = j, j
		if name := pod.Annotations[AnnotationFiles]; name != "" {
			p.useFiles(j, name, nil)
		}
		restored[j.node.name] = append(restored[j.node.name], nodeproto.RestoredJob{Status: p.statusOf(j, true)})
	}
	p.found = nil
	p.adoptGuests(now, restored)
	for _, name := range sortedKeys(p.nodes) {
		if n := p.nodes[name]; n.object != nil || len(restored[name]) > 0 {
			p.open(now, n, restored[name])
			p.changed(n)
		}
	}
	for _, number := range p.numbers() {
		p.look(now, p.jobs[number])
	}
	for _, name := range sortedKeys(p.nodes) {
		p.giveUpLost(now, p.nodes[name])
	}
}

// numbers returns the numbers of all jobs, ascending.
func (p *Picture) numbers() []uint64 {
	numbers := make([]uint64, 0, len(p.jobs))
	for number := range p.jobs {
		numbers = append(numbers, number)
	}
	slices.Sort(numbers)
	return numbers
}

// open begins the session of a node.
func (p *Picture) open(now time.Time, n *node, jobs []nodeproto.RestoredJob) {
	p.lives++
	n.session = nodeproto.NewNodeSession(p.options.descriptionOf(n.name, n.object), p.options.Epoch<<24+p.lives, jobs)
	n.exchange = exchange{}
	n.exchange.pace.Adopt(n.session.Settings())
	p.hurry(now, n)
}

// PodSeen records a pod as the API server has it.
func (p *Picture) PodSeen(now time.Time, pod *corev1.Pod) {
	p.neighbour(pod, false)
	p.stranger(pod, false)
	p.stand(pod, p.guests.pods[pod.UID])
	if workload.IsOurs(pod) {
		p.guestSeen(now, pod)
		return
	}
	identity, err := identityOf(pod)
	if errors.Is(err, errForeign) {
		p.otherSeen(now, pod)
		return
	}
	if !p.synced {
		p.found[pod.Namespace+"/"+pod.Name] = pod
		return
	}
	if o := p.orphans[pod.UID]; o != nil {
		o.pod = pod
		p.removeOrphan(now, o)
		return
	}
	j := p.jobNamed(pod, identity)
	if j == nil {
		p.note("pod %s/%s is removed: no job is known for it", pod.Namespace, pod.Name)
		p.orphaned(now, pod)
		return
	}
	if j.exists && j.pod.UID != pod.UID {
		return // somebody has made another pod of this name; PodGone of the first one follows, or has been overtaken
	}
	p.seen(now, j, pod)
}

// jobNamed finds the job of a pod: by its UID, even if a user has changed the annotation, or by its whole identity. A pod
// with the same number may be a job of another store.
func (p *Picture) jobNamed(pod *corev1.Pod, identity *nodev1.JobIdentity) *job {
	if j := p.uids[pod.UID]; j != nil {
		return j
	}
	if j := p.jobs[identity.GetNumber()]; j != nil && proto.Equal(identity, j.identity) {
		return j
	}
	return nil
}

// seen records the pod of a job.
func (p *Picture) seen(now time.Time, j *job, pod *corev1.Pod) {
	if !j.exists {
		j.since = now
	}
	j.pod, j.exists, j.tried = pod, true, true
	p.uids[pod.UID] = j
	if j.phase == waiting || j.phase == creating {
		j.phase, j.attempts, j.retryAt = placed, 0, time.Time{}
	}
	if j.guest != nil {
		j.guest.pod = pod
		p.tellGuest(j)
	}
	p.look(now, j)
}

// PodGone records that the API server no longer has a pod.
func (p *Picture) PodGone(now time.Time, pod *corev1.Pod) {
	p.neighbour(pod, true)
	p.stranger(pod, true)
	p.stir(p.guests.near.Remove(pod.UID))
	p.guestGone(now, pod.UID)
	if !p.synced {
		delete(p.found, pod.Namespace+"/"+pod.Name)
	}
	delete(p.orphans, pod.UID)
	if other, there := p.others[pod.UID]; there {
		delete(p.others, pod.UID)
		p.otherChanged(now, other.node, other.amount, resource.Amounts{})
		return
	}
	if j := p.uids[pod.UID]; j != nil {
		p.gone(now, j)
	}
}

// gone processes a job whose pod no longer exists.
func (p *Picture) gone(now time.Time, j *job) {
	delete(p.uids, j.pod.UID)
	j.released, j.asked, j.lost = true, true, true
	switch j.phase {
	case waiting, creating:
	case placed:
		var result *nodev1.JobResult
		if j.guest != nil {
			result = guestResult(j, now)
		} else if isOver(j.pod) {
			result = resultOf(j.identity, j.spec, j.pod, j.ordered, now)
		} else if j.ordered != nil && !j.ordered.fail {
			result = notStarted(j.identity, cmp.Or(j.ordered.reason, reasonInterruption), j.ordered.message, now)
			result.Started = !startOf(j.pod).IsZero()
		} else {
			result = notStarted(j.identity, reasonDisappeared, "the pod was deleted together with its finalizer", now)
			result.Started = !startOf(j.pod).IsZero()
		}
		p.finish(now, j, result)
	case reading:
		p.finish(now, j, j.result)
	case leaving:
		p.forget(j)
	}
}

// otherSeen records a pod that is not ours.
func (p *Picture) otherSeen(now time.Time, pod *corev1.Pod) {
	old, there := p.others[pod.UID]
	if pod.Spec.NodeName == "" || isOver(pod) {
		if there {
			delete(p.others, pod.UID)
			p.otherChanged(now, old.node, old.amount, resource.Amounts{})
		}
		return
	}
	next := otherPod{pod.Spec.NodeName, p.options.requested(pod)}
	if next != old {
		p.others[pod.UID] = next
		p.otherChanged(now, next.node, old.amount, next.amount)
	}
}

// otherChanged updates what other pods take on a node.
func (p *Picture) otherChanged(now time.Time, name string, old, next resource.Amounts) {
	n := p.nodeNamed(name)
	n.others = n.others.Sub(old).Add(next)
	if p.synced && n.session != nil {
		p.changed(n)
		p.admit(now, n)
	}
}

// statusOf returns the status of a job for the scheduler.
func (p *Picture) statusOf(j *job, withIdentity bool) *nodev1.JobStatus {
	status := &nodev1.JobStatus{Number: j.number, Phase: nodev1.Phase_PHASE_PREPARING, Usage: nodeproto.ToAmounts(p.holds(j)), UserJobMemory: j.usage.memory}
	if withIdentity {
		status.Identity = j.identity
	}
	if m := j.usage.monitor; m != nil {
		status.SmoothedCpu = m.Statistics().SmoothedUsageX100
	}
	if j.exists {
		started := startOf(j.pod)
		if j.guest != nil {
			started = guestStart(j.pod)
			if until := j.pinnedUntil(); !until.IsZero() {
				status.PinnedUntilUs = nodeproto.ToMicros(until)
			}
		}
		if !started.IsZero() {
			status.Phase, status.ExecStartTimeUs = nodev1.Phase_PHASE_RUNNING, nodeproto.ToMicros(started)
		}
		if isOver(j.pod) || j.isTerminating() {
			status.Phase = nodev1.Phase_PHASE_FINISHING
		}
	}
	return status
}

// changed passes the state of a node on to its session.
func (p *Picture) changed(n *node) {
	var usage resource.Amounts
	for _, number := range n.session.Jobs() {
		if j := p.jobs[number]; j != nil && j.phase < ended {
			usage = usage.Add(p.holds(j))
		}
	}
	status := p.options.statusOf(n.object, n.others, usage)
	status.MemoryInUse, status.MemoryAvailable = n.memoryOf()
	p.deny(n, status)
	if n.exchange.tell(n.session, status) {
		p.hot[n.name] = true
	}
}

// isTerminating reports whether the pod of a job is being deleted.
func (j *job) isTerminating() bool { return j.asked || j.exists && j.pod.DeletionTimestamp != nil }

// hasRoom reports whether a node has the resources given to a job, beside the jobs whose pods exist and other pods.
func (p *Picture) hasRoom(n *node, j *job) bool {
	if n.object == nil {
		return false
	}
	var begun resource.Amounts
	for _, number := range n.session.Jobs() {
		if other := p.jobs[number]; other != nil && other != j && other.phase != waiting && other.phase < reading {
			begun = begun.Add(p.holds(other))
		}
	}
	return p.options.limitsOf(n.object, n.others).Dominates(begun.Add(p.holds(j)))
}

// Tick does what is due.
func (p *Picture) Tick(now time.Time) {
	if !p.synced {
		return
	}
	p.latest = now
	if p.guests.stirred {
		p.guests.stirred = false
		if slices.ContainsFunc(p.classList(), func(k *class) bool { return k.constraints.IsRelated() }) {
			p.classesChanged()
		}
	}
	p.explain(now)
	for _, number := range p.numbers() {
		j := p.jobs[number]
		if j == nil {
			continue
		}
		if p.hasWaited(now, j) {
			p.avoid(now, j)
			p.finish(now, j, notStarted(j.identity, reasonWaiting, "the node had no room for the job within its waiting timeout", now))
			continue
		}
		p.look(now, j)
	}
	for _, o := range p.orphanList() {
		p.removeOrphan(now, o)
	}
	p.tickFiles(now)
	for _, name := range sortedKeys(p.nodes) {
		n := p.nodes[name]
		if n.session == nil {
			continue // other pods name it, and the cluster does not have it
		}
		p.giveUpLost(now, n)
		p.measure(now, n)
		p.forgive(now, n)
		p.hot[name] = true
		if n.object == nil && len(n.session.Jobs()) == 0 && !n.exchange.calling() {
			delete(p.nodes, name) // the scheduler notices its silence
		}
	}
}

// SetBlind records whether the API server is away. Nothing is concluded while it is.
func (p *Picture) SetBlind(now time.Time, blind bool) {
	if p.blind && !blind {
		for _, n := range p.nodes {
			if !n.lostAt.IsZero() {
				n.lostAt = now // its time begins again
			}
		}
	}
	p.blind = blind
}
