package kube

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/weirhq/weir/internal/node/picture"
)

// The API server takes the resize that the driver sends, with the permissions of packaging/kubernetes/weir.yaml.
func TestThePodOfAJobCanBeResized(t *testing.T) {
	s := newScheduler(t)
	machine.node(t, "resize-1", "4")
	s.begin(1, "sleep", nil)
	s.await("the pod runs", func() bool { return len(machine.running(t)) == 1 })
	pod := machine.running(t)[0]
	driver, err := kubernetes.NewForConfig(plane.config(weirToken))
	if err != nil {
		t.Fatal(err)
	}
	pods := driver.CoreV1().Pods(pod.Namespace)
	if _, err := pods.Patch(context.Background(), pod.Name, types.StrategicMergePatchType, picture.ResizePatch("another", 50), metav1.PatchOptions{}, "resize"); err == nil {
		t.Error("a pod with another UID is resized")
	}
	if _, err := pods.Patch(context.Background(), pod.Name, types.StrategicMergePatchType, picture.ResizePatch(pod.UID, 50), metav1.PatchOptions{}, "resize"); err != nil {
		t.Fatal(err)
	}
	got := machine.running(t)[0].Spec.Containers[0].Resources
	if got.Requests.Cpu().MilliValue() != 500 || got.Requests.Memory().Cmp(*pod.Spec.Containers[0].Resources.Requests.Memory()) != 0 {
		t.Errorf("%v", got)
	}
}
