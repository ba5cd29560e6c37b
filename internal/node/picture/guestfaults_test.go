package picture

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/node/workload"
	"github.com/weirhq/weir/internal/value/resource"
)

// runningGuest starts a pod of others and has it run.
func (w *world) runningGuest(number uint64, cookie int32, pod *corev1.Pod) *corev1.Pod {
	w.Helper()
	w.see(pod)
	w.startGuestJob(number, cookie, 0)
	return w.bound(pod, w.took(Bind))
}

// A victim that was evicted and never leaves holds its room. The pod that waits for it goes back after the victim's grace period
// and ten seconds, and its kind keeps away from the node for a while.
func TestAVictimThatNeverLeavesIsNotWaitedForForEver(t *testing.T) {
	w := open(t)
	grace := int64(20)
	short := func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &grace }
	for i := range 4 {
		w.runningGuest(uint64(i+1), int32(i), guestPod(fmt.Sprint("a", i), short))
	}
	w.see(guestPod("late", short))
	w.order("n1", func(s *nodeproto.Session) { s.Abort(&nodev1.AbortOrder{Number: 1, AbortReason: "preemption"}) })
	w.Written(w.now, w.took(Evict), &Outcome{Kind: Done})
	w.startGuestJob(9, 4, time.Second)
	w.pass(25 * time.Second)
	if w.result(9) != "none" {
		t.Fatalf("after 25 s: %v", w.result(9))
	}
	w.pass(10 * time.Second)
	if w.result(9) != "aborted waiting_timeout" || w.result(1) != "none" {
		t.Errorf("after 35 s: %v, the victim %v", w.result(9), w.result(1))
	}
	if refusal := w.refusalOf(w.nodes["n1"], w.guests.operations["*shop/Pod/pods"].tasks[w.jobs[1].guest.task.name].class, "", w.now); refusal.Cause != workload.CauseNoRoom {
		t.Errorf("the node is not avoided: %v", refusal)
	}
}

// A node that is silent for ten minutes keeps its pods: whether they are to leave is decided by Kubernetes.
func TestANodeThatComesBackHasItsPods(t *testing.T) {
	w := open(t)
	w.runningGuest(1, 0, guestPod("a", nil))
	lost := machine("n1", "4", "8Gi")
	lost.Status.Conditions[0].Status = corev1.ConditionUnknown
	w.NodeSeen(w.now, lost)
	w.pass(10 * time.Minute)
	if !w.nodes["n1"].exchange.status.GetJobsDisabled() || w.result(1) != "none" {
		t.Errorf("the silent node gets jobs, or loses them: %v", w.result(1))
	}
	w.NodeSeen(w.now, machine("n1", "4", "8Gi"))
	w.pass(time.Second)
	if w.nodes["n1"].exchange.status.GetJobsDisabled() || w.result(1) != "none" || len(w.kinds()) != 0 {
		t.Errorf("%v, %v", w.result(1), w.kinds())
	}
}

// A node is deleted and another one gets its name: the jobs of the first have ended, and the second takes pods.
func TestAnotherNodeOfTheSameNameHasNoneOfItsJobs(t *testing.T) {
	w := open(t)
	old := w.runningGuest(1, 0, guestPod("a", nil))
	w.NodeGone(w.now, "n1")
	w.pass(time.Second)
	if w.result(1) != "aborted node_offline" {
		t.Fatal(w.result(1))
	}
	w.acknowledge(1)
	w.NodeSeen(w.now, machine("n1", "4", "8Gi"))
	w.pass(time.Second)
	if w.nodes["n1"].others != w.options.requested(old) || w.nodes["n1"].exchange.status.GetJobsDisabled() {
		t.Errorf("the pod that is still bound there takes %v", w.nodes["n1"].others)
	}
	w.PodGone(w.now, old)
	w.settle()
	if w.nodes["n1"].others != (resource.Amounts{}) {
		t.Errorf("others take %v", w.nodes["n1"].others)
	}
}

// A PodGroup is deleted and created with another minimum: its pods wait for it, and then for as many as it says.
func TestAPodGroupIsDeletedAndMadeAgainWithAnotherMinimum(t *testing.T) {
	w := open(t)
	w.PodGroupSeen(workload.PluginsGroups, "shop", "ring", &workload.PodGroup{MinMember: 2})
	member := func(p *corev1.Pod) { p.Labels[workload.LabelPodGroup] = "ring" }
	w.see(guestPod("a", member))
	w.see(guestPod("b", member))
	if len(w.shop.opened) != 1 || w.shop.opened[0].Place.GangSize != 2 || w.shop.waiting() != 2 {
		t.Fatalf("%+v, %d wait", w.shop.opened, w.shop.waiting())
	}
	w.PodGroupSeen(workload.PluginsGroups, "shop", "ring", nil)
	w.pass(5 * time.Second)
	if told := w.told(); w.shop.waiting() != 0 || len(told) != 2 || told[0].Reason != workload.ReasonGang {
		t.Errorf("%d wait, %+v", w.shop.waiting(), told)
	}
	w.PodGroupSeen(workload.PluginsGroups, "shop", "ring", &workload.PodGroup{MinMember: 3})
	w.pass(5 * time.Second)
	last := w.shop.opened[len(w.shop.opened)-1]
	if last.Place.GangSize != 3 || w.shop.waiting() != 2 {
		t.Errorf("%+v, %d wait", last, w.shop.waiting())
	}
}

// Events that come twice, late or out of order change nothing: a pod has one end.
func TestEventsThatComeTwiceCountOnce(t *testing.T) {
	w := open(t)
	waits := guestPod("a", nil)
	pod := w.runningGuest(1, 0, waits)
	w.see(pod)
	w.see(waits) // from before the bind
	w.see(pod)
	done := pod.DeepCopy()
	done.Status.Phase = corev1.PodSucceeded
	w.see(done)
	w.see(done)
	w.PodGone(w.now, done)
	w.PodGone(w.now, done)
	w.settle()
	if w.result(1) != "completed" || len(w.kinds()) != 0 {
		t.Errorf("%v, %v", w.result(1), w.kinds())
	}
	w.acknowledge(1)
	w.pass(time.Second)
	if len(w.jobs)+len(w.guests.pods) != 0 || w.nodes["n1"].others != (resource.Amounts{}) {
		t.Errorf("%d jobs, %d pods are left, others take %v", len(w.jobs), len(w.guests.pods), w.nodes["n1"].others)
	}
}

// 5,000 pods that are deleted at once are withdrawn at once, and nothing is left of them.
func TestManyPodsThatAreDeletedAtOnceAreWithdrawn(t *testing.T) {
	w := open(t)
	const many = 5000
	pods := make([]*corev1.Pod, many)
	for i := range pods {
		pods[i] = guestPod(fmt.Sprint("p", i), nil)
		w.PodSeen(w.now, pods[i])
	}
	w.settle()
	if w.shop.waiting() != many {
		t.Fatalf("%d wait", w.shop.waiting())
	}
	for i := range pods {
		w.PodGone(w.now, pods[i])
	}
	w.settle()
	if w.shop.waiting() != 0 || len(w.guests.pods) != 0 {
		t.Errorf("%d wait, %d pods are left", w.shop.waiting(), len(w.guests.pods))
	}
	w.see(guestPod("next", func(p *corev1.Pod) { p.UID = types.UID("next") }))
	if w.shop.waiting() != 1 {
		t.Errorf("%d wait", w.shop.waiting())
	}
}

// The API server may take long to accept the deletions that preemption needs: a thousand of them at once wait for their turn.
// What was preempted is lost by then, so its room is not given up; the victim's grace period counts from the acceptance.
func TestAJobWaitsForVictimsThatTheAPIServerHasYetToDelete(t *testing.T) {
	w := open(t)
	grace := int64(20)
	for i := range 4 {
		w.runningGuest(uint64(i+1), int32(i), guestPod(fmt.Sprint("a", i), func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &grace }))
	}
	w.order("n1", func(s *nodeproto.Session) {
		s.Abort(&nodev1.AbortOrder{Number: 1, AbortReason: "preemption"})
		i := identity(9)
		i.WaitTimeoutUs = nodeproto.Micros(10 * time.Second)
		if err := s.Start(i, spec(), nil, nil); err != nil {
			t.Fatal(err)
		}
	})
	evict := w.took(Evict)
	w.pass(time.Minute)
	if w.result(9) != "none" {
		t.Fatalf("the job is %v although its victim has yet to be evicted", w.result(9))
	}
	w.done(evict)
	w.pass(29 * time.Second)
	if w.result(9) != "none" {
		t.Fatalf("the job is %v within the victim's grace period and ten seconds", w.result(9))
	}
	w.pass(2 * time.Second)
	if w.result(9) != "aborted waiting_timeout" {
		t.Errorf("the job is %v after the victim's grace period and ten seconds", w.result(9))
	}
}

// A deletion that the API server never accepts is not waited for longer than five minutes.
func TestAVictimThatIsNeverDeletedIsNotWaitedForForEver(t *testing.T) {
	w := settled(t)
	for number := uint64(1); number <= 4; number++ {
		w.running(number)
	}
	w.order("n1", func(s *nodeproto.Session) {
		s.Abort(&nodev1.AbortOrder{Number: 1, AbortReason: "preemption"})
		i := identity(5)
		i.WaitTimeoutUs = nodeproto.Micros(10 * time.Second)
		if err := s.Start(i, spec(), nil, nil); err != nil {
			t.Fatal(err)
		}
	})
	w.took(Delete) // and no answer
	w.pass(longestWait - time.Second)
	if w.result(5) != "none" {
		t.Fatalf("the job is %v after almost five minutes", w.result(5))
	}
	w.pass(2 * time.Second)
	if w.result(5) != "aborted waiting_timeout" {
		t.Errorf("the job is %v after five minutes", w.result(5))
	}
}
