package picture

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/resource"
)

func TestACreateIsRepeatedUntilItsOutcomeIsKnown(t *testing.T) {
	w := settled(t)
	w.start(1)
	first := w.took(Create)
	w.Written(w.now, first, &Outcome{Kind: Temporary})
	w.pass(time.Second)
	second := w.took(Create)
	if second.Name != first.Name {
		t.Errorf("%s, then %s", first.Name, second.Name)
	}
	w.created(second) // or it exists since the first attempt: the writer then reads it
	w.pass(time.Minute)
	if len(w.writes) != 0 || w.result(1) != "none" {
		t.Errorf("%v, %v", w.kinds(), w.result(1))
	}
}

func TestAPodOfTheSameNameThatIsNotTheJobsAbortsTheJob(t *testing.T) {
	w := settled(t)
	w.start(1)
	create := w.took(Create)
	stranger := create.Pod.DeepCopy()
	stranger.Annotations = nil
	w.Written(w.now, create, &Outcome{Kind: Done, Pod: stranger})
	w.settle()
	if w.result(1) != "aborted other" {
		t.Error(w.result(1))
	}
	if notes := w.Take(w.now).Notes; len(w.writes) != 0 {
		t.Errorf("the stranger's pod is touched: %v, %v", w.kinds(), notes)
	}
}

func TestARefusedPodFailsItsJobWithTheServersWords(t *testing.T) {
	w := settled(t)
	w.start(1)
	w.Written(w.now, w.took(Create), &Outcome{Kind: Refused, Message: "exceeded quota"})
	w.settle()
	if r := w.results[1]; w.result(1) != "failed" || r.GetError().GetMessage() != "the API server refuses the pod: exceeded quota" {
		t.Errorf("%v", r)
	}
}

func TestNothingIsConcludedWhileTheAPIServerIsAway(t *testing.T) {
	w := settled(t)
	pod := w.running(1)
	lost := machine("n1", "4", "8Gi")
	lost.Status.Conditions[0].Status = corev1.ConditionUnknown
	w.NodeSeen(w.now, lost)
	w.SetBlind(w.now, true)
	deleted := pod.DeepCopy()
	at := metav1.NewTime(w.now)
	deleted.DeletionTimestamp = &at
	w.see(deleted)
	w.pass(10 * time.Minute)
	if w.result(1) != "none" || len(w.writes) != 0 {
		t.Errorf("%v, %v", w.result(1), w.kinds())
	}
	w.SetBlind(w.now, false)
	w.pass(time.Second)
	if w.result(1) != "aborted node_offline" {
		t.Errorf("the pod was deleted, and its node is silent: %v", w.result(1))
	}
}

func TestANodeThatIsNotReadyLosesItsJobsAfterAWhile(t *testing.T) {
	w := settled(t)
	w.running(1)
	lost := machine("n1", "4", "8Gi")
	lost.Status.Conditions[0].Status = corev1.ConditionUnknown
	w.NodeSeen(w.now, lost)
	w.settle()
	if status := w.sessions["n1"].Status(); !status.GetJobsDisabled() || len(status.GetAlerts()) != 1 {
		t.Errorf("%v", status)
	}
	w.pass(4 * time.Minute)
	if w.result(1) != "none" {
		t.Errorf("after 4 minutes: %v", w.result(1))
	}
	w.pass(2 * time.Minute)
	if w.result(1) != "aborted node_offline" {
		t.Errorf("after 6 minutes: %v", w.result(1))
	}
	if d := w.took(Delete); d.Grace < 1 {
		t.Errorf("a grace period of %d s: a pod that is gone while its process may run is how work runs twice", d.Grace)
	}
}

func TestJobsOfADeletedNodeEndAndTheirResultsCount(t *testing.T) {
	w := settled(t)
	first := w.running(1)
	w.running(2)
	w.see(over(first, 0, `{"exit_code": 0}`))
	w.Written(w.now, w.took(ReadLog), &Outcome{Kind: Temporary})
	w.NodeGone(w.now, "n1")
	w.pass(20 * time.Second)
	for range readAttempts {
		for _, write := range w.writes {
			w.Written(w.now, &write, &Outcome{Kind: Temporary})
		}
		w.writes = nil
		w.pass(20 * time.Second)
	}
	if w.result(1) != "completed" || w.result(2) != "aborted node_offline" {
		t.Errorf("%v, %v", w.result(1), w.result(2))
	}
}

func TestAPodThatAUserRemovesWithItsFinalizerIsARetry(t *testing.T) {
	w := settled(t)
	pod := w.running(1)
	w.PodGone(w.now, pod)
	w.settle()
	if w.result(1) != "aborted disappeared_from_node" || !w.results[1].GetStarted() {
		t.Errorf("%v", w.results[1])
	}
	w.acknowledge(1)
	if len(w.writes) != 0 || len(w.jobs) != 0 {
		t.Errorf("%v, %d jobs", w.kinds(), len(w.jobs))
	}
}

func TestAnAbortDeletesThePodByItsUID(t *testing.T) {
	w := settled(t)
	pod := w.running(1)
	w.order("n1", func(s *nodeproto.Session) { s.Abort(&nodev1.AbortOrder{Number: 1, AbortReason: "preemption"}) })
	write := w.took(Delete)
	if write.UID != pod.UID || write.Grace != 1 {
		t.Errorf("%+v", write)
	}
	w.done(write)
	pod = over(pod, 137, "")
	w.see(pod)
	w.Written(w.now, w.took(ReadLog), &Outcome{Kind: Done})
	w.settle()
	if w.result(1) != "aborted preemption" {
		t.Error(w.result(1))
	}
}

func TestAnAbortBeforeTheOutcomeOfACreateLooksForThePod(t *testing.T) {
	for name, outcome := range map[string]OutcomeKind{"not created": Missing, "created": Done} {
		w := settled(t)
		w.start(1)
		create := w.took(Create)
		w.order("n1", func(s *nodeproto.Session) { s.Abort(&nodev1.AbortOrder{Number: 1, AbortReason: "user_request"}) })
		w.Written(w.now, create, &Outcome{Kind: Temporary})
		w.pass(time.Second)
		find := w.took(Find)
		pod := create.Pod.DeepCopy()
		pod.UID = "u"
		w.Written(w.now, find, &Outcome{Kind: outcome, Pod: pod})
		w.settle()
		if outcome == Missing && w.result(1) != "aborted user_request" {
			t.Errorf("%s: %v", name, w.result(1))
		}
		if outcome == Done {
			if d := w.took(Delete); d.UID != "u" {
				t.Errorf("%s: %+v", name, d)
			}
		}
	}
}

func TestALatePodOfAnotherLeaderIsRemoved(t *testing.T) {
	w := settled(t)
	pod, err := w.options.podOf(&nodeproto.Start{Identity: identity(99), Spec: spec()}, nil, "n1", "")
	if err != nil {
		t.Fatal(err)
	}
	pod.UID = "late"
	w.see(pod)
	w.done(w.took(Delete))
	w.done(w.took(Release))
	w.PodGone(w.now, pod)
	if len(w.orphans) != 0 {
		t.Errorf("%d orphans", len(w.orphans))
	}
}

// A new leader finds the jobs of the last one by their annotations: running ones run on, ended ones are reported, and pods
// whose annotation a user has destroyed are removed.
func TestANewLeaderAdoptsPods(t *testing.T) {
	old := settled(t)
	running, done := old.running(1), over(old.running(2), 3, `{"exit_code": 3}`)
	broken := old.running(3).DeepCopy()
	broken.Annotations[AnnotationJob] = "?"
	w := newWorld(t)
	w.PodSeen(w.now, running)
	w.PodSeen(w.now, done)
	w.PodSeen(w.now, broken)
	w.NodeSeen(w.now, machine("n1", "4", "8Gi"))
	w.Synced(w.now)
	w.settle()
	if numbers := w.nodes["n1"].session.Jobs(); len(numbers) != 2 {
		t.Errorf("%v", numbers)
	}
	var log, remove *Write
	for i := range w.writes {
		switch w.writes[i].Kind {
		case ReadLog:
			log = &w.writes[i]
		case Delete:
			remove = &w.writes[i]
		}
	}
	if len(w.writes) != 2 || log == nil || remove == nil || remove.UID != broken.UID {
		t.Fatalf("%v", w.kinds())
	}
	w.Written(w.now, log, &Outcome{Kind: Done})
	w.settle()
	if w.result(2) != "failed" || w.result(1) != "none" {
		t.Errorf("%v, %v", w.result(2), w.result(1))
	}
	if r := w.results[2]; string(r.GetIdentity().GetProof()) != "proof" || r.GetExitCode() != 3 {
		t.Errorf("%v", r)
	}
}

func TestANewLeaderWaitsBeforeItsFirstCreate(t *testing.T) {
	w := newWorld(t)
	w.NodeSeen(w.now, machine("n1", "4", "8Gi"))
	w.Synced(w.now)
	w.settle()
	w.start(1)
	if len(w.writes) != 0 {
		t.Errorf("%v", w.kinds())
	}
	w.pass(settle)
	w.took(Create)
}

func TestOtherPodsReduceWhatANodeOffers(t *testing.T) {
	w := settled(t)
	other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "web"}, Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{
		Resources: corev1.ResourceRequirements{Requests: machine("", "1.5", "1Gi").Status.Allocatable},
	}}}}
	limits := func() resource.Amounts { return nodeproto.FromAmounts(w.sessions["n1"].Status().GetLimits()) }
	before := limits()
	w.see(other)
	got := limits()
	if got[resource.CPU] != 250 || got[resource.Memory] != 7<<30 || got[resource.UserSlots] != 109 {
		t.Errorf("%v", got)
	}
	other = other.DeepCopy()
	other.Status.Phase = corev1.PodSucceeded
	w.see(other)
	if limits() != before {
		t.Errorf("%v after the pod has ended, %v before it", limits(), before)
	}
}

// A job for which others are preempted waits on its node until they have ended: the kubelet would refuse its pod.
func TestAJobWaitsForTheRoomOfThoseThatLeave(t *testing.T) {
	w := settled(t)
	var pods []*corev1.Pod
	for number := uint64(1); number <= 4; number++ {
		pods = append(pods, w.running(number))
	}
	w.order("n1", func(s *nodeproto.Session) {
		s.Abort(&nodev1.AbortOrder{Number: 1, AbortReason: "preemption"})
		i := identity(5)
		i.WaitTimeoutUs = nodeproto.Micros(time.Minute)
		if err := s.Start(i, spec(), nil, nil); err != nil {
			t.Fatal(err)
		}
	})
	w.done(w.took(Delete))
	w.pass(10 * time.Second)
	if len(w.writes) != 0 {
		t.Fatalf("%v", w.kinds())
	}
	w.see(over(pods[0], 137, ""))
	created := false
	for i := range w.writes {
		created = created || w.writes[i].Kind == Create
	}
	if !created {
		t.Errorf("%v", w.kinds())
	}
}

func TestAJobThatFindsNoRoomInTimeIsGivenBack(t *testing.T) {
	w := settled(t)
	for number := uint64(1); number <= 4; number++ {
		w.running(number)
	}
	w.order("n1", func(s *nodeproto.Session) {
		i := identity(5)
		i.WaitTimeoutUs = nodeproto.Micros(10 * time.Second)
		if err := s.Start(i, spec(), nil, nil); err != nil {
			t.Fatal(err)
		}
	})
	w.pass(11 * time.Second)
	if w.result(5) != "aborted waiting_timeout" || len(w.writes) != 0 {
		t.Errorf("%v, %v", w.result(5), w.kinds())
	}
}

func TestAPodWhoseImageCannotBePulledFailsItsJob(t *testing.T) {
	w := settled(t)
	w.start(1)
	pod := w.created(w.took(Create)).DeepCopy()
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: Container, State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"},
	}}}
	w.see(pod)
	if r := w.results[1]; w.result(1) != "failed" || r.GetError().GetMessage() != "container job: ImagePullBackOff: no such image" {
		t.Errorf("%v", r)
	}
	w.took(Delete)
}
