package picture

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirhq/weir/internal/node/workload"
)

// grouped takes the writes of conditions of PodGroups and answers them.
func (w *world) grouped(outcome OutcomeKind) (list []Write) {
	w.writes = slices.DeleteFunc(w.writes, func(write Write) bool {
		if write.Kind != ExplainGroup {
			return false
		}
		w.Written(w.now, &write, &Outcome{Kind: outcome})
		list = append(list, write)
		return true
	})
	return list
}

// A group states why it waits, once, and that it is scheduled when as many pods as it needs have nodes. A group that another
// scheduler shares is left alone.
func TestAPodGroupStatesWhetherItIsScheduled(t *testing.T) {
	w := open(t)
	w.shop.why = &workload.Problem{Reason: workload.ReasonUnschedulable, Message: "no room"}
	w.PodGroupSeen(workload.CoreGroups, "shop", "ring", &workload.PodGroup{UID: "g", MinMember: 2})
	name := "ring"
	member := func(p *corev1.Pod) { p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name} }
	first, second := guestPod("a", member), guestPod("b", member)
	w.see(first)
	w.see(second)
	strange := guestPod("strange", member)
	strange.Spec.SchedulerName = "other"
	w.see(strange)
	w.pass(2 * showAfter)
	w.told()
	w.pass(time.Second)
	if got := w.grouped(Done); len(got) != 0 {
		t.Fatalf("a group with a pod of another scheduler: %+v", got)
	}
	w.PodGone(w.now, strange)
	w.pass(time.Second)
	if got := w.grouped(Temporary); len(got) != 1 || got[0].Namespace != "shop" || got[0].Name != "ring" || got[0].UID != "g" || got[0].Scheduled ||
		got[0].Reason != workload.ReasonUnschedulable || got[0].Message != "no room" {
		t.Fatalf("%+v", got)
	}
	w.pass(time.Second)
	if got := w.grouped(Done); len(got) != 1 {
		t.Errorf("a write that failed is repeated %d times", len(got))
	}
	w.pass(time.Minute)
	if got := w.grouped(Done); len(got) != 0 {
		t.Errorf("the same is written again: %+v", got)
	}
	for i, pod := range []*corev1.Pod{first, second} {
		w.startGuestJob(uint64(i)+1, int32(i), 0)
		w.bound(pod, w.took(Bind))
		w.pass(time.Second)
		got := w.grouped(Done)
		if i == 0 && len(got) != 0 || i == 1 && (len(got) != 1 || !got[0].Scheduled) {
			t.Errorf("with %d pods on nodes: %+v", i+1, got)
		}
	}
	w.PodGone(w.now, first)
	w.pass(time.Minute)
	if got := w.grouped(Done); len(got) != 0 {
		t.Errorf("a group that was scheduled says %+v", got)
	}
}
