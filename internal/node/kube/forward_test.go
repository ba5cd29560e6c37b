package kube

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
)

func serviceOf(namespace string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "weir", Namespace: namespace, Labels: map[string]string{ServiceLabel: "api"}},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "weir"}, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromString("weir")}}},
	}
}

func TestTheSchedulerIsFoundByTheLabelOfItsService(t *testing.T) {
	ctx := context.Background()
	if _, err := findService(ctx, fake.NewClientset()); err == nil || !strings.Contains(err.Error(), "has no Weir") {
		t.Errorf("nothing there: %v", err)
	}
	if _, err := findService(ctx, fake.NewClientset(serviceOf("a"), serviceOf("b"))); err == nil || !strings.Contains(err.Error(), "a/weir, b/weir") {
		t.Errorf("two of them: %v", err)
	}
	waiting := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "n", Labels: map[string]string{"app": "weir"}}, Status: corev1.PodStatus{Phase: corev1.PodPending}}
	client := fake.NewClientset(serviceOf("n"), waiting)
	service, err := findService(ctx, client)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := findPod(ctx, client, service); err == nil || !strings.Contains(err.Error(), "no pod of the Service n/weir is ready") {
		t.Errorf("a pod that waits: %v", err)
	}
	ready := waiting.DeepCopy()
	ready.Name, ready.Status = "b", corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	ready.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "weir", ContainerPort: 7070}}}}
	if _, err := client.CoreV1().Pods("n").Create(ctx, ready, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if pod, port, err := findPod(ctx, client, service); err != nil || pod.Name != "b" || port != 7070 {
		t.Errorf("%v, %d, %v", pod, port, err)
	}
}

func TestTheTokenIsThatOfTheKubeconfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("from-file"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, config := range map[string]*rest.Config{
		"plain": {BearerToken: "plain"}, "from-file": {BearerTokenFile: file}, "": {TLSClientConfig: rest.TLSClientConfig{CertData: []byte("c"), KeyData: []byte("k")}},
	} {
		if got, err := tokenOf(config); got != want || err != nil {
			t.Errorf("%q, want %q: %v", got, want, err)
		}
	}
}
