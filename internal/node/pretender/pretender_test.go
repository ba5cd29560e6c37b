package pretender

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/test/expected"
)

func podOf(command ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n", UID: "u"},
		Spec:       corev1.PodSpec{NodeName: NodeName(1), Containers: []corev1.Container{{Name: "job", Command: command}}},
	}
}

func TestWhatAPodWouldDoIsReadFromItsCommand(t *testing.T) {
	for _, c := range []struct {
		command []string
		want    Script
	}{
		{nil, Script{Lasts: usualRun}},
		{[]string{"echo", "hello"}, Script{Lasts: usualRun}},
		{[]string{"sleep", "3"}, Script{Lasts: 3 * time.Second}},
		{[]string{"/bin/sh", "-c", "echo a; sleep 0.5; exit 7"}, Script{Lasts: 500 * time.Millisecond, Code: 7}},
		{[]string{"/bin/sh", "-c", "exit 0"}, Script{}},
		{[]string{"asleep", "3"}, Script{Lasts: usualRun}},
		{[]string{"sleep", "99999999999999"}, Script{Lasts: maxSeconds * time.Second}},
	} {
		if got := ScriptOf(podOf(c.command...)); got != c.want {
			t.Errorf("%q: %+v, want %+v", c.command, got, c.want)
		}
	}
}

// A pod starts, runs for its time and ends; a deleted one ends at once, with a signal.
func TestAPodRunsAndEnds(t *testing.T) {
	now := time.Unix(1000, 0)
	pod, script := podOf(), Script{Lasts: 5 * time.Second, Code: 3}
	step := Next(pod, script, now)
	if step.Status == nil || step.Status.Phase != corev1.PodRunning {
		t.Fatalf("%+v", step)
	}
	pod.Status = *step.Status
	if step = Next(pod, script, now.Add(2*time.Second)); step.After != 3*time.Second || step.Status != nil {
		t.Errorf("%+v", step)
	}
	deleted := pod.DeepCopy()
	at, grace := metav1.NewTime(now), int64(30)
	deleted.DeletionTimestamp, deleted.DeletionGracePeriodSeconds = &at, &grace
	step = Next(deleted, script, now.Add(time.Second))
	if step.Status == nil || step.Status.ContainerStatuses[0].State.Terminated.ExitCode != 143 {
		t.Errorf("%+v", step)
	}
	deleted.Status = *step.Status
	if step = Next(deleted, script, now); !step.Remove {
		t.Errorf("%+v", step)
	}
	step = Next(pod, script, now.Add(5*time.Second))
	if step.Status == nil || step.Status.Phase != corev1.PodFailed || step.Status.ContainerStatuses[0].State.Terminated.ExitCode != 3 {
		t.Fatalf("%+v", step)
	}
	pod.Status = *step.Status
	if step = Next(pod, script, now.Add(time.Hour)); step != (Step{}) {
		t.Errorf("an ended pod: %+v", step)
	}
	pod = podOf()
	pod.Spec.NodeName = ""
	if step = Next(pod, script, now); step != (Step{}) {
		t.Errorf("a pod without a node: %+v", step)
	}
}

func TestAPretenderRunsThePodsOfItsNodesAndRemovesThem(t *testing.T) {
	client := fake.NewClientset()
	ctx, cancel := context.WithCancel(context.Background())
	p, err := New(ctx, Options{Client: client, Nodes: 2, Resources: resource.Amounts{resource.CPU: 4_00}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		if err := p.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	mine, other := podOf("sleep", "0.01"), podOf("sleep", "0.01")
	other.Name, other.Spec.NodeName = "other", NodeName(3)
	for _, pod := range []*corev1.Pod{mine, other} {
		if _, err := client.CoreV1().Pods("n").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	phase := func(name string) corev1.PodPhase {
		pod, err := client.CoreV1().Pods("n").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return ""
		}
		return pod.Status.Phase
	}
	if !expected.Soon(func() bool { return phase("p") == corev1.PodSucceeded }) {
		t.Errorf("the pod is %s", phase("p"))
	}
	if !expected.Soon(func() bool {
		_, err := client.CoordinationV1().Leases(leaseNamespace).Get(ctx, NodeName(2), metav1.GetOptions{})
		return err == nil
	}) {
		t.Error("the nodes have no leases")
	}
	if got := phase("other"); got != "" {
		t.Errorf("the pod of another node is %s", got)
	}
	cancel()
	running.Wait()
	ctx = context.Background()
	if err := p.Remove(ctx); err != nil {
		t.Fatal(err)
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil || len(nodes.Items) != 0 || phase("p") != "" {
		t.Errorf("%d nodes are left, the pod is %q: %v", len(nodes.Items), phase("p"), err)
	}
}
