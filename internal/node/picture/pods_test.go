package picture

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirhq/weir/internal/node/workload"
)

// People read the same typed reason about a pod as its condition has.
func TestAPodIsShownWithTheReasonOfItsCondition(t *testing.T) {
	w := open(t)
	w.shop.why = &workload.Problem{Reason: workload.ReasonPoolLimit, Message: "the pool is full"}
	w.PodSeen(w.now, guestPod("waits", nil))
	w.PodSeen(w.now, guestPod("odd", func(p *corev1.Pod) { p.Annotations[workload.AnnotationGangSize] = "many" }))
	w.pass(2 * showAfter)
	list := w.Pods(w.now, "", "")
	if len(list) != 2 || list[0].Name != "odd" || list[1].Name != "waits" {
		t.Fatalf("%+v", list)
	}
	if odd := list[0]; odd.State != podWaiting || odd.Reason != workload.ReasonUnsupported || !strings.Contains(odd.Message, "many") || odd.Alias != "" {
		t.Errorf("%+v", odd)
	}
	waits := list[1]
	if waits.Reason != workload.ReasonPoolLimit || !strings.HasPrefix(waits.Message, "the pool is full") || waits.Alias != "*shop/Pod/pods" || waits.Pool != "shop" || waits.Node != "" {
		t.Errorf("%+v", waits)
	}
	if got := w.Pods(w.now, "shop", "waits"); len(got) != 1 || got[0] != waits {
		t.Errorf("%+v", got)
	}
	if got := w.Pods(w.now, "elsewhere", ""); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	running := guestPod("waits", func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Phase = "n1", corev1.PodRunning })
	w.PodSeen(w.now, running)
	if got := w.Pods(w.now, "shop", "waits"); len(got) != 1 || got[0].State != podRunning || got[0].Node != "n1" || got[0].Reason != "" {
		t.Errorf("%+v", got)
	}
}

func TestPodsThatWaitAreCountedByPoolAndReason(t *testing.T) {
	w := open(t)
	w.shop.why = &workload.Problem{Reason: workload.ReasonUnschedulable, Message: "no room"}
	for _, name := range []string{"a", "b"} {
		w.see(guestPod(name, func(p *corev1.Pod) { p.Labels[workload.LabelPool] = "lab" }))
	}
	wait := func(reason string, count int) Pending { return Pending{"", "lab", reason, count} }
	if got := w.Standing(); !slices.Equal(got.Pending, []Pending{wait("none", 2)}) || got.Classes != 1 {
		t.Errorf("at first: %+v", got)
	}
	w.pass(10 * time.Second)
	for _, write := range w.told() {
		w.done(&write)
	}
	if got := w.Standing(); !slices.Equal(got.Pending, []Pending{wait(workload.ReasonUnschedulable, 2)}) {
		t.Errorf("after ten seconds: %+v", got)
	}
	w.startGuestJob(1, 0, 0)
	w.Written(w.now, w.took(Bind), &Outcome{Kind: Done})
	waits := w.Take(w.now).Waits
	if len(waits) != 1 || waits[0].Pool != "lab" || waits[0].For < 10*time.Second || waits[0].For > 11*time.Second {
		t.Errorf("%+v", waits)
	}
	if got := w.Standing(); !slices.Equal(got.Pending, []Pending{wait(workload.ReasonUnschedulable, 1)}) {
		t.Errorf("after a start: %+v", got)
	}
}
