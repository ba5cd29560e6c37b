package picture

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/node/workload"
)

// shop is a scheduler's side of pods of others: it remembers what it was asked.
type shop struct {
	known   []Known
	opened  []Opening
	problem *workload.Problem // for openings
	gone    []string
	offered map[string][]int32 // cookies by task, without those that were withdrawn
	offers  map[string]Offer
	ended   []string
	why     *workload.Problem
	owners  map[types.UID]*workload.Owner
	tasks   []TaskSection
	classes map[taskKey]Classification
	fails   int // answers
}

// answer answers what a picture asks. It reports whether there was anything.
func (s *shop) answer(w *world, e *Effects) bool {
	for _, ask := range e.Owners {
		w.OwnerRead(ask.UID, s.owners[ask.UID])
	}
	if len(e.Why) > 0 {
		reasons := map[string]*workload.Problem{}
		for _, id := range e.Why {
			reasons[id] = s.why
		}
		w.Explained(reasons)
	}
	if e.Ask == nil {
		return len(e.Owners) > 0
	}
	if s.fails > 0 && !e.Ask.List {
		s.fails--
		w.Answered(w.now, e.Ask, &Answer{Failed: true})
		return true
	}
	answer := &Answer{Known: s.known, Gone: s.gone, Tasks: s.tasks}
	for _, c := range e.Ask.Classify {
		s.classes[taskKey{c.Operation, c.Task}] = c
	}
	s.gone = nil
	for _, o := range e.Ask.Start {
		s.opened = append(s.opened, o)
		if s.problem != nil {
			answer.Opened = append(answer.Opened, Opened{Problem: s.problem})
		} else {
			answer.Opened = append(answer.Opened, Opened{ID: "id of " + o.Alias})
		}
	}
	for _, x := range e.Ask.Withdraw {
		s.offered[x.Task] = slices.DeleteFunc(s.offered[x.Task], func(c int32) bool { return slices.Contains(x.Cookies, c) })
	}
	for _, o := range e.Ask.Offer {
		s.offers[o.Task] = o
		for _, cookie := range o.Cookies {
			if !slices.Contains(s.offered[o.Task], cookie) {
				s.offered[o.Task] = append(s.offered[o.Task], cookie)
			}
		}
	}
	s.ended = append(s.ended, e.Ask.End...)
	w.Answered(w.now, e.Ask, answer)
	return true
}

func (s *shop) waiting() (count int) {
	for _, cookies := range s.offered {
		count += len(cookies)
	}
	return count
}

// open is a settled world that schedules pods of others in the namespace shop.
func open(t *testing.T) *world {
	w := newWorld(t)
	w.shop = &shop{offered: map[string][]int32{}, offers: map[string]Offer{}, classes: map[taskKey]Classification{}}
	w.NodeSeen(w.now, machine("n1", "4", "8Gi"))
	w.NamespaceSeen("shop", nil)
	w.Synced(w.now)
	w.pass(settle)
	return w
}

// guestPod is a pod of one core.
func guestPod(name string, change func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop", UID: types.UID("uid-" + name), Labels: map[string]string{}, Annotations: map[string]string{}},
		Spec: corev1.PodSpec{SchedulerName: workload.Scheduler, Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": apiresource.MustParse("1"), "memory": apiresource.MustParse("1Gi")},
		}}}},
	}
	if change != nil {
		change(pod)
	}
	return pod
}

// startGuestJob has the scheduler start the only offered pod of the only task, or a cookie of it.
func (w *world) startGuestJob(number uint64, cookie int32, wait time.Duration) *nodev1.JobIdentity {
	w.Helper()
	if len(w.shop.offers) == 0 {
		w.Fatal("nothing was offered")
	}
	var offer Offer
	for _, o := range w.shop.offers {
		offer = o
	}
	id := identity(number)
	id.OperationId, id.TaskName, id.Cookie, id.Resources = offer.Operation, offer.Task, cookie, nodeproto.ToAmounts(offer.Amounts)
	id.WaitTimeoutUs = nodeproto.Micros(wait)
	w.shop.offered[offer.Task] = slices.DeleteFunc(w.shop.offered[offer.Task], func(c int32) bool { return c == cookie })
	w.order("n1", func(s *nodeproto.Session) {
		if err := s.Start(id, &nodev1.JobSpec{}, nil, nil); err != nil {
			w.Fatal(err)
		}
	})
	return id
}

// bound answers a bind and shows the pod as the API server has it then.
func (w *world) bound(pod *corev1.Pod, write *Write) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Spec.NodeName = write.Node
	pod.Annotations[AnnotationJob] = write.Annotation
	w.Written(w.now, write, &Outcome{Kind: Done})
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(w.now)}}}}
	w.see(pod)
	return pod
}

// told carries out the writes of conditions and returns them.
func (w *world) told() (list []Write) {
	w.writes = slices.DeleteFunc(w.writes, func(write Write) bool {
		if write.Kind != Explain {
			return false
		}
		w.Written(w.now, &write, &Outcome{Kind: Done})
		list = append(list, write)
		return true
	})
	return list
}

func TestAPodOfOthersIsOfferedBoundAndCounted(t *testing.T) {
	w := open(t)
	pod := guestPod("a", nil)
	w.see(pod)
	if len(w.shop.opened) != 1 || w.shop.opened[0].Alias != "*shop/Pod/pods" || w.shop.opened[0].Place.Pool != "shop" || w.shop.waiting() != 1 {
		t.Fatalf("opened %+v, %d wait", w.shop.opened, w.shop.waiting())
	}
	id := w.startGuestJob(1, 0, 0)
	bind := w.took(Bind)
	if bind.UID != pod.UID || bind.Node != "n1" || bind.Namespace != "shop" || bind.Annotation != packed(id) {
		t.Errorf("%+v", bind)
	}
	pod = w.bound(pod, bind)
	w.pass(time.Minute)
	if len(w.writes) != 0 {
		t.Errorf("a pod that never waits costs one write; there are %v", w.kinds())
	}
	pod = pod.DeepCopy()
	pod.Status.Phase = corev1.PodSucceeded
	w.see(pod)
	if w.result(1) != "completed" {
		t.Error(w.result(1))
	}
	w.acknowledge(1)
	w.pass(2 * time.Minute)
	if len(w.shop.ended) != 1 || len(w.jobs) != 0 || len(w.guests.operations) != 0 {
		t.Errorf("an operation without pods ends: %v, %d jobs", w.shop.ended, len(w.jobs))
	}
}

func TestALostAnswerToABindIsNotGuessed(t *testing.T) {
	for what, c := range map[string]struct {
		node  string
		want  string
		phase phase
	}{"bound here": {"n1", "none", placed}, "bound elsewhere": {"n2", "aborted scheduling_other", ended}} {
		w := open(t)
		pod := guestPod("a", nil)
		w.see(pod)
		w.startGuestJob(1, 0, 0)
		bind := w.took(Bind)
		w.Written(w.now, bind, &Outcome{Kind: Temporary})
		w.pass(time.Second)
		again := w.took(Bind)
		found := pod.DeepCopy()
		found.Spec.NodeName, found.Annotations[AnnotationJob] = c.node, bind.Annotation
		w.Written(w.now, again, &Outcome{Kind: Done, Pod: found})
		w.settle()
		if w.result(1) != c.want || w.jobs[1].phase != c.phase {
			t.Errorf("%s: %v", what, w.result(1))
		}
	}
}

func TestARefusedBindStepsAsideLongerEachTime(t *testing.T) {
	w := open(t)
	pod := guestPod("a", nil)
	w.see(pod)
	var said []Write
	for round, pause := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		number := uint64(round + 1)
		w.startGuestJob(number, 0, 0)
		said = append(said, w.told()...)
		w.Written(w.now, w.took(Bind), &Outcome{Kind: Refused, Message: "policy"})
		w.settle()
		if w.result(number) != "aborted scheduling_other" {
			t.Fatal(w.result(number))
		}
		w.acknowledge(number)
		w.pass(pause - 500*time.Millisecond)
		if w.shop.waiting() != 0 {
			t.Errorf("round %d: the pod holds a place while it steps aside", round)
		}
		w.pass(time.Second)
		if w.shop.waiting() != 1 {
			t.Errorf("round %d: the pod is not offered again", round)
		}
	}
	if said = append(said, w.told()...); len(said) != 1 || said[0].Reason != workload.ReasonBindRejected || !strings.Contains(said[0].Message, "policy") {
		t.Errorf("%+v", said)
	}
}

func TestABudgetPinsTheVictimAndGivesBackWhatWaitedForItsRoom(t *testing.T) {
	w := open(t)
	var pods []*corev1.Pod
	for i := range 4 {
		pods = append(pods, guestPod(fmt.Sprint("a", i), nil))
		w.see(pods[i])
	}
	for i := range pods {
		w.startGuestJob(uint64(i+1), int32(i), 0)
		pods[i] = w.bound(pods[i], w.took(Bind))
	}
	w.see(guestPod("late", nil))
	w.order("n1", func(s *nodeproto.Session) { s.Abort(&nodev1.AbortOrder{Number: 1, AbortReason: "preemption"}) })
	w.startGuestJob(9, 4, time.Minute)
	evict := w.took(Evict)
	if evict.UID != pods[0].UID || !evict.Preempted {
		t.Errorf("%+v", evict)
	}
	w.Written(w.now, evict, &Outcome{Kind: Protected, Message: "budget dear"})
	w.settle()
	if w.result(1) != "none" || w.result(9) != "aborted waiting_timeout" || !w.jobs[1].pinned.Equal(w.now.Add(protectedFor)) && w.jobs[1].pinned.IsZero() {
		t.Errorf("%v, %v, pinned until %v", w.result(1), w.result(9), w.jobs[1].pinned)
	}
	w.acknowledge(9)
	w.pass(time.Second)
	if w.shop.waiting() != 1 {
		t.Error("the pod that waited is not offered again")
	}
	// A later order evicts it.
	w.writes = nil
	w.order("n1", func(s *nodeproto.Session) { s.Abort(&nodev1.AbortOrder{Number: 1, AbortReason: "preemption"}) })
	w.Written(w.now, w.took(Evict), &Outcome{Kind: Done})
	w.PodGone(w.now, pods[0])
	w.settle()
	if w.result(1) != "aborted preemption" {
		t.Error(w.result(1))
	}
}

func TestPodsThatAreNeverVictimsArePinned(t *testing.T) {
	system, long := int32(workload.PriorityOfSystem), int64(600)
	for what, change := range map[string]func(*corev1.Pod){
		"a pod of the system": func(p *corev1.Pod) { p.Spec.Priority = &system },
		"a long grace period": func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &long },
	} {
		w := open(t)
		pod := guestPod("a", change)
		w.see(pod)
		w.startGuestJob(1, 0, 0)
		w.bound(pod, w.took(Bind))
		if status, _ := w.nodes["n1"].session.Job(1); status.GetPinnedUntilUs() != nodeproto.ToMicros(never) {
			t.Errorf("%s: %v", what, status)
		}
	}
}

func TestANewLeaderAdoptsBoundPodsAndReportsEndedOnes(t *testing.T) {
	old := open(t)
	running, done := guestPod("a", nil), guestPod("b", nil)
	old.see(running)
	old.see(done)
	old.startGuestJob(1, 0, 0)
	running = old.bound(running, old.took(Bind))
	old.startGuestJob(2, 1, 0)
	done = old.bound(done, old.took(Bind))
	done = done.DeepCopy()
	done.Status.Phase = corev1.PodFailed
	w := newWorld(t)
	w.shop = &shop{offered: map[string][]int32{}, offers: map[string]Offer{}}
	w.shop.known = []Known{{ID: "id of *shop/Pod/pods", Alias: "*shop/Pod/pods", Place: old.shop.opened[0].Place}}
	w.NodeSeen(w.now, machine("n1", "4", "8Gi"))
	w.NamespaceSeen("shop", nil)
	w.PodSeen(w.now, running)
	w.PodSeen(w.now, done)
	w.PodSeen(w.now, guestPod("c", nil))
	w.Synced(w.now)
	w.pass(settle)
	if w.result(1) != "none" || w.result(2) != "failed" || w.jobs[1] == nil {
		t.Errorf("%v, %v", w.result(1), w.result(2))
	}
	if len(w.shop.opened) != 0 || w.shop.waiting() != 1 {
		t.Errorf("%d operations are started, %d pods wait", len(w.shop.opened), w.shop.waiting())
	}
	for _, o := range w.shop.offers {
		if slices.Contains(o.Cookies, 0) {
			t.Error("the cookie of a running pod is offered")
		}
	}
}

func TestOperationsThatTheSchedulerDoesNotTakeAreTriedAgain(t *testing.T) {
	w := open(t)
	w.shop.problem = &workload.Problem{Reason: workload.ReasonOperationLimit, Message: "full"}
	w.see(guestPod("a", nil))
	w.pass(5 * time.Second)
	if len(w.writes) != 1 || w.writes[0].Kind != Explain || w.writes[0].Reason != workload.ReasonOperationLimit {
		t.Fatalf("%+v", w.writes)
	}
	w.Written(w.now, &w.writes[0], &Outcome{Kind: Done})
	w.shop.problem = nil
	w.pass(20 * time.Second)
	if w.shop.waiting() != 1 {
		t.Error("the operation is not started when there is room")
	}
}

// A waiting pod is patched once, however often the figures of its reason change.
func TestAWaitingPodIsPatchedAboutOnce(t *testing.T) {
	w := open(t)
	w.see(guestPod("a", nil))
	patched := 0
	for i := range 60 {
		w.shop.why = &workload.Problem{Reason: workload.ReasonUnschedulable, Message: fmt.Sprint(i, " nodes")}
		w.pass(time.Second)
		for j := range w.writes {
			patched++
			w.Written(w.now, &w.writes[j], &Outcome{Kind: Done})
		}
		w.writes = nil
		if i < 2 && patched > 0 {
			t.Error("the pod is called unschedulable at once")
		}
	}
	if patched != 1 {
		t.Errorf("it was patched %d times in a minute", patched)
	}
}

func TestNodesDenyTheClassesTheyCannotTake(t *testing.T) {
	w := open(t)
	tainted := machine("n2", "4", "8Gi")
	tainted.Labels["disk"] = "ssd"
	tainted.Spec.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}
	w.NodeSeen(w.now, tainted)
	w.settle()
	status := func(name string) *nodev1.NodeStatus { return w.nodes[name].exchange.status }
	if !status("n2").GetJobsDisabled() {
		t.Error("a node with a taint gets no jobs of Weir")
	}
	w.see(guestPod("a", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} }))
	w.see(guestPod("b", func(p *corev1.Pod) {
		p.Spec.Tolerations = []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}
	}))
	w.settle()
	// Class 2 wants the label and does not tolerate the taint, class 3 tolerates it, class 0 are jobs of Weir, class 1 those
	// whose class is not known yet.
	if got := status("n1").GetDeniedClasses(); len(got) != 1 || got[0] != 1<<1|1<<2 {
		t.Errorf("n1 denies %b", got)
	}
	if got := status("n2").GetDeniedClasses(); status("n2").GetJobsDisabled() || len(got) != 1 || got[0] != 1<<0|1<<1|1<<2 {
		t.Errorf("n2 denies %b", got)
	}
}

func TestPortsAreTakenOnce(t *testing.T) {
	w := open(t)
	listening := func(p *corev1.Pod) { p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}} }
	first := guestPod("a", listening)
	w.see(first)
	w.see(guestPod("b", listening))
	for _, o := range w.shop.offers {
		if !o.Alone {
			t.Error("pods that depend on each other start one at a time")
		}
	}
	w.startGuestJob(1, 0, 0)
	w.bound(first, w.took(Bind))
	if got := w.nodes["n1"].exchange.status.GetDeniedClasses(); len(got) == 0 || got[0]&4 == 0 {
		t.Errorf("n1 denies %b", got)
	}
	w.startGuestJob(2, 1, 0) // a decision that was made before
	if w.result(2) != "aborted scheduling_other" || len(w.writes) != 0 {
		t.Errorf("%v, %v", w.result(2), w.kinds())
	}
}

// demanding returns a change that makes a pod demand something of the pods with the label app of a value.
func demanding(app string, anti bool) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		term := []corev1.PodAffinityTerm{{TopologyKey: "zone", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}}
		if anti {
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term}}
		} else {
			p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term}}
		}
	}
}

// Pods keep each other away from the moment when a bind begins, and until the pod is gone; a bind that was refused frees the
// place. Other nodes of the same zone deny the class, too.
func TestPodsThatKeepEachOtherAwayStartOneByOne(t *testing.T) {
	w := open(t)
	w.NodeSeen(w.now, machine("n2", "4", "8Gi"))
	w.settle()
	denied := func(name string) bool {
		got := w.nodes[name].exchange.status.GetDeniedClasses()
		return len(got) > 0 && got[0]&4 != 0
	}
	lonely := func(p *corev1.Pod) { p.Labels["app"] = "db"; demanding("db", true)(p) }
	first := guestPod("a", lonely)
	w.see(first)
	w.see(guestPod("b", lonely))
	if denied("n1") || denied("n2") {
		t.Fatal("an empty zone is denied")
	}
	w.startGuestJob(1, 0, 0)
	w.pass(TickPeriod)
	if !denied("n1") || !denied("n2") {
		t.Error("another pod may start while the bind is under way")
	}
	w.Written(w.now, w.took(Bind), &Outcome{Kind: Refused, Message: "policy"})
	w.pass(TickPeriod)
	if denied("n1") || denied("n2") {
		t.Error("the zone stays denied after a bind that was refused")
	}
	w.acknowledge(1)
	w.pass(2 * time.Second)
	w.told()
	w.startGuestJob(2, 0, 0)
	first = w.bound(first, w.took(Bind))
	w.startGuestJob(3, 1, 0) // a decision that was made before
	if w.result(3) != "aborted scheduling_other" || len(w.writes) != 0 {
		t.Errorf("%v, %v", w.result(3), w.kinds())
	}
	w.PodGone(w.now, first)
	w.pass(TickPeriod)
	if denied("n1") || denied("n2") {
		t.Error("the zone stays denied after the pod is gone")
	}
}

// A pod of somebody else keeps ours away; the condition counts the nodes and names the label.
func TestPodsAreKeptAwayByOthersAndSayWhy(t *testing.T) {
	w := open(t)
	w.see(guestPod("a", func(p *corev1.Pod) { p.Labels["app"] = "batch" }))
	if got := w.nodes["n1"].exchange.status.GetDeniedClasses(); len(got) == 0 || got[0] != 1<<ClassPending {
		t.Fatalf("n1 denies %b", got)
	}
	other := guestPod("other", demanding("batch", true))
	other.Spec.SchedulerName, other.Spec.NodeName = "default-scheduler", "n1"
	w.see(other)
	w.startGuestJob(1, 0, 0) // a decision that was made before: the pod has not been placed again yet
	w.pass(time.Second)
	if w.result(1) != "aborted scheduling_other" {
		t.Error(w.result(1))
	}
	w.acknowledge(1)
	w.shop.why = &workload.Problem{Reason: workload.ReasonUnschedulable, Message: "0/1 nodes are available"}
	w.pass(10 * time.Second)
	told := w.told()
	want := "0/1 nodes are available; of all nodes 1 didn't satisfy the anti-affinity rules of other pods (zone); kubectl weir explain pod/a"
	if len(told) != 1 || told[0].Message != want {
		t.Errorf("%+v", told)
	}
	w.PodGone(w.now, other)
	w.pass(time.Second)
	if got := w.nodes["n1"].exchange.status.GetDeniedClasses(); len(got) == 0 || slices.ContainsFunc(got, func(b byte) bool { return b != 1<<ClassPending }) {
		t.Errorf("n1 denies %b after the other pod is gone", got)
	}
}

// A pod that wants to be near another one starts when that one is bound, not while it waits for room.
func TestAPodFollowsTheOneThatItWantsToBeNearTo(t *testing.T) {
	w := open(t)
	w.see(guestPod("follower", demanding("db", false)))
	denied := func() bool { return w.nodes["n1"].exchange.status.GetDeniedClasses()[0]&4 != 0 }
	if !denied() {
		t.Error("there is nobody to be near to")
	}
	db := guestPod("db", func(p *corev1.Pod) {
		p.Labels["app"] = "db"
		p.Spec.NodeName = "n1"
		p.Spec.SchedulerName = "default-scheduler"
	})
	w.see(db)
	w.pass(TickPeriod)
	if denied() {
		t.Error("the pod may not follow")
	}
	relabelled := machine("n1", "4", "8Gi")
	delete(relabelled.Labels, "zone")
	w.NodeSeen(w.now, relabelled)
	w.pass(TickPeriod)
	if !denied() {
		t.Error("a node without the label is in a domain")
	}
}

func TestADeletedPodIsWithdrawn(t *testing.T) {
	w := open(t)
	pod := guestPod("a", nil)
	w.see(pod)
	w.PodGone(w.now, pod)
	w.pass(time.Second)
	if w.shop.waiting() != 0 || len(w.guests.pods) != 0 {
		t.Errorf("%d wait", w.shop.waiting())
	}
	w.see(guestPod("b", func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} }))
	if w.shop.waiting() != 0 {
		t.Error("a pod with a gate is offered")
	}
}

// The scheduler's operation may be ended by a user: waiting pods get another one.
func TestAnOperationThatAUserEndsIsStartedAgain(t *testing.T) {
	w := open(t)
	w.see(guestPod("a", nil))
	w.shop.gone = []string{"id of *shop/Pod/pods"}
	w.see(guestPod("b", nil))
	w.pass(3 * time.Second)
	if len(w.shop.opened) != 2 || w.shop.waiting() != 2 {
		t.Errorf("%d operations, %d pods", len(w.shop.opened), w.shop.waiting())
	}
}
