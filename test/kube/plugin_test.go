package kube

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/node/kube"
	"github.com/weirhq/weir/internal/node/pretender"
)

// forwardingKubelet is a kubelet that forwards all ports of all pods to one address. It returns its own port.
func forwardingKubelet(t *testing.T, to string) int32 {
	t.Helper()
	kubelet := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := httpstream.Handshake(r, w, []string{"portforward.k8s.io"}); err != nil {
			return
		}
		streams := make(chan httpstream.Stream, 8)
		connection := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
			streams <- s
			return nil
		})
		if connection == nil {
			return
		}
		defer connection.Close()
		for {
			select {
			case <-connection.CloseChan():
				return
			case s := <-streams:
				if s.Headers().Get(corev1.StreamType) == corev1.StreamTypeData {
					go carry(s, to)
				} else {
					_ = s.Close() // no errors will come
				}
			}
		}
	}))
	t.Cleanup(kubelet.Close)
	address, err := url.Parse(kubelet.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(address.Port())
	if err != nil {
		t.Fatal(err)
	}
	return int32(port)
}

// carry copies both directions between a stream and an address.
func carry(s httpstream.Stream, to string) {
	defer s.Reset()
	conn, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer conn.Close()
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(conn, s); _ = conn.(*net.TCPConn).CloseWrite() }) // either side may close
	_, _ = io.Copy(s, conn)
	_ = s.Close()
	both.Wait()
}

// kubectl weir finds the scheduler by the label of its Service, through a forwarded port, as the user of the kubeconfig.
func TestThePluginReachesTheSchedulerThroughItsService(t *testing.T) {
	s := newScheduler(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	port := forwardingKubelet(t, s.address)
	nodes, pods, services := plane.admin.CoreV1().Nodes(), plane.admin.CoreV1().Pods("default"), plane.admin.CoreV1().Services("default")
	node := pretender.NodeOf("plugin-1", corev1.ResourceList{"cpu": apiresource.MustParse("1")}, port)
	status := node.Status
	node, err := nodes.Create(ctx, node, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nodes.Delete(context.Background(), "plugin-1", metav1.DeleteOptions{}) })
	node.Status = status
	if _, err := nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := plane.admin.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}); err != nil {
		t.Log(err) // there may be one
	}
	labels := map[string]string{"app": "weir"}
	pod, err := pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "weir-scheduler", Labels: labels},
		Spec: corev1.PodSpec{NodeName: "plugin-1", Containers: []corev1.Container{{
			Name: "scheduler", Image: "weir", Command: []string{"sleep", "100000"}, Ports: []corev1.ContainerPort{{Name: "weir", ContainerPort: 7070}},
		}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	now := int64(0)
	t.Cleanup(func() {
		_ = pods.Delete(context.Background(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	})
	if _, err := services.Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "weir", Labels: map[string]string{kube.ServiceLabel: "api"}},
		Spec:       corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: 7070, TargetPort: intstr.FromString("weir")}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = services.Delete(context.Background(), "weir", metav1.DeleteOptions{}) })
	s.await("the pod is ready", func() bool {
		pod, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		return err == nil && pod.Status.Phase == corev1.PodRunning
	})
	kubeconfig, err := plane.kubeconfigOf(adminToken)
	if err != nil {
		t.Fatal(err)
	}
	tunnel, err := kube.OpenTunnel(ctx, kubeconfig, "", "test")
	if err != nil {
		t.Fatal(err)
	}
	defer tunnel.Close()
	c, err := client.New(client.Options{Address: tunnel.Address, Token: tunnel.Token})
	if err != nil {
		t.Fatal(err)
	}
	if user, err := c.CurrentUser(ctx); err != nil || user != "admin" || tunnel.Service != "default/weir" {
		t.Errorf("%q through %s: %v", user, tunnel.Service, err)
	}
}
