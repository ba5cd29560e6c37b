package kube

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/command/cli"
	"github.com/weirhq/weir/internal/node/workload"
)

// weir runs a command of the CLI and returns what it prints.
func (s *scheduler) weir(args ...string) string {
	s.t.Helper()
	var out, problems bytes.Buffer
	if code := cli.Main(context.Background(), append(args, "--addr", s.address), strings.NewReader(""), &out, &problems); code != cli.ExitOK {
		s.t.Fatalf("weir %s exits with %d: %s", strings.Join(args, " "), code, problems.String())
	}
	return out.String()
}

// pool creates a pool.
func (s *scheduler) pool(name string, options map[string]any) {
	s.t.Helper()
	var err error
	s.await("the pool "+name+" is created", func() bool { // its tree may be yet to come
		_, err = s.CreatePool(context.Background(), "default", "", name, options)
		return err == nil
	})
}

// events returns the notes of the events of a reason about pods of the namespace.
func (s *shop) events(reason string) (notes []string) {
	list, err := plane.admin.EventsV1().Events(s.name).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return nil
	}
	for i := range list.Items {
		if list.Items[i].Reason == reason {
			notes = append(notes, list.Items[i].Note)
		}
	}
	return notes
}

// aborted returns how many jobs of a namespace's pods without owner were aborted for a reason.
func (s *shop) aborted(by *scheduler, reason string) (count int) {
	for number := 1; number <= 3; number++ {
		place := workload.Place{Namespace: s.name, Kind: workload.KindPods, Name: workload.NamePods}
		for job, err := range by.Jobs(context.Background(), by.operation(place.Alias(number)).ID, client.JobFilter{}) {
			if err != nil {
				break
			}
			if job.AbortReason == reason {
				count++
			}
		}
	}
	return count
}

// A pool below its guarantee starves, and preempts. While the victim leaves, the pod that gets its room says what it waits
// for, with the node; the victim says for whom it leaves.
func TestAStarvingPoolPreemptsPods(t *testing.T) {
	s := newScheduler(t)
	shop := newShop(t, "starved")
	machine.node(t, "starved-1", "3")
	s.pool("rich", map[string]any{"strong_guarantee_resources": map[string]any{"cpu": 2}, "fair_share_preemption_timeout": "200ms"})
	s.pool("poor", nil)
	slow := int64(120)
	for i := range 3 {
		shop.pod(fmt.Sprint("poor-", i), func(p *corev1.Pod) { in("poor")(p); p.Spec.TerminationGracePeriodSeconds = &slow })
	}
	s.await("the pool without a guarantee has all", func() bool { return len(shop.running()) == 3 })
	machine.freeze("starved-1", true)
	defer machine.freeze("starved-1", false)
	shop.pod("rich-0", in("rich"))
	s.await("the pod waits for its victim", func() bool { reason, _ := shop.reason("rich-0"); return reason == workload.ReasonPreempting })
	if _, message := shop.reason("rich-0"); !strings.HasPrefix(message, "the pod waits on node starved-1 until preempted pods have left") {
		t.Error(message)
	}
	pod, err := plane.admin.CoreV1().Pods(shop.name).Get(context.Background(), "rich-0", metav1.GetOptions{})
	if err != nil || pod.Status.NominatedNodeName != "starved-1" {
		t.Errorf("%q is nominated: %v", pod.Status.NominatedNodeName, err)
	}
	if text := s.weir("explain", "pod:starved/rich-0"); !strings.Contains(text, "WeirPreempting: the pod waits on node starved-1") {
		t.Errorf("weir explain: %s", text)
	}
	s.await("the victim says for whom it leaves", func() bool {
		list := shop.pods()
		for i := range list {
			for _, c := range list[i].Status.Conditions {
				if c.Type == corev1.DisruptionTarget && c.Reason == corev1.PodReasonPreemptionByScheduler && strings.HasPrefix(c.Message, "preempted for operation *starved/Pod/pods") && strings.HasSuffix(c.Message, "of pool rich") {
					return list[i].DeletionTimestamp != nil && strings.HasPrefix(list[i].Name, "poor-")
				}
			}
		}
		return false
	})
	if notes := shop.events("WeirPreempted"); len(notes) != 1 || !strings.HasSuffix(notes[0], "of pool rich") {
		t.Errorf("the events are %q", notes)
	}
	machine.freeze("starved-1", false)
	s.await("the pod runs", func() bool { return has(shop, "rich-0") })
	s.await("one job was preempted", func() bool { return shop.aborted(s, "preemption") == 1 })
	if n := len(shop.running()); n != 3 {
		t.Errorf("%d pods run", n)
	}
}

// A large pod finds no room among pods that are within their share. Its pool starves, which is not enough; with aggressive
// starvation it is.
func TestAggressiveStarvationMakesRoomForALargePod(t *testing.T) {
	s := newScheduler(t)
	shop := newShop(t, "large")
	ctx := context.Background()
	s.await("there is a tree", func() bool {
		return s.Set(ctx, "//sys/pool_trees/default/@aggressive_preemption_satisfaction_threshold", 0.5, client.WriteOptions{}) == nil
	})
	for name, value := range map[string]string{"fair_share_starvation_timeout": "200ms", "fair_share_aggressive_starvation_timeout": "400ms"} {
		if err := s.Set(ctx, "//sys/pool_trees/default/@"+name, value, client.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for i := 1; i <= 2; i++ { // each node is held by one pool, of which two jobs are above its share
		node, pool := fmt.Sprint("large-", i), fmt.Sprint("small-", i)
		machine.node(t, node, "10")
		s.pool(pool, nil)
		for j := range 10 {
			shop.pod(fmt.Sprint(pool, "-", j), func(p *corev1.Pod) {
				in(pool)(p)
				p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
			})
		}
	}
	s.await("both pools hold a node", func() bool { return len(shop.running()) == 20 })
	s.pool("wide", nil)
	shop.pod("wide", func(p *corev1.Pod) {
		in("wide")(p)
		p.Spec.Containers[0].Resources.Requests["cpu"] = apiresource.MustParse("5")
	})
	s.await("the pod says why it waits", func() bool { reason, _ := shop.reason("wide"); return reason == workload.ReasonUnschedulable })
	if _, message := shop.reason("wide"); !strings.Contains(message, "0/2 nodes are available: 2 had insufficient cpu") {
		t.Error(message)
	}
	s.await("its operation starves", func() bool { return strings.Contains(s.weir("explain", "pod:large/wide"), "starv") })
	if n := len(shop.running()); n != 20 {
		t.Fatalf("%d pods run: normal preemption has taken some", n)
	}
	if err := s.Set(ctx, "//sys/pool_trees/default/wide/@enable_aggressive_starvation", true, client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.await("the pod runs", func() bool { return has(shop, "wide") })
	s.await("five have left for it", func() bool { return len(shop.running()) == 16 && shop.aborted(s, "preemption") == 5 })
	notes := shop.events("WeirPreempted")
	for _, note := range notes {
		if !strings.HasSuffix(note, "of pool wide") {
			t.Errorf("an event says %q", note)
		}
	}
	if len(notes) == 0 {
		t.Error("there is no event")
	}
}

// Another scheduler takes part of a node. Pods that the node has no room for any more leave, with the reason.
func TestPodsLeaveANodeThatAnotherSchedulerHasFilled(t *testing.T) {
	s := newScheduler(t)
	shop := newShop(t, "filled")
	machine.node(t, "filled-1", "4")
	for i := range 3 {
		shop.pod(fmt.Sprint("web-", i), nil)
	}
	s.await("three pods run", func() bool { return len(shop.running()) == 3 })
	other := podNamed("other")
	other.Spec.SchedulerName, other.Spec.NodeName = "other", "filled-1"
	other.Spec.Containers[0].Resources.Requests["cpu"] = apiresource.MustParse("2")
	if _, err := plane.admin.CoreV1().Pods(shop.name).Create(context.Background(), other, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.await("one pod leaves", func() bool { return len(shop.running()) == 3 && has(shop, "other") })
	s.await("the reason is counted", func() bool { return shop.aborted(s, "node_resource_overcommit") == 1 })
	s.await("an event says why", func() bool {
		notes := shop.events("WeirPreempted")
		return len(notes) == 1 && notes[0] == "the pods of the node hold more than it has for them now"
	})
	shop.pod("late", nil)
	s.await("the next one waits", func() bool { reason, _ := shop.reason("late"); return reason == workload.ReasonUnschedulable })
	if text := s.weir("explain", "pod:filled/late"); !strings.Contains(text, "Unschedulable: 0/1 nodes are available: 1 had insufficient cpu") {
		t.Errorf("weir explain: %s", text)
	}
}
