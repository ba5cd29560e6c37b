package kube

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/weirhq/weir/internal/node/picture"
	"github.com/weirhq/weir/test/expected"
)

// kubelets pretend to run the pods of all nodes. What a pod does depends on the command of its job:
//
//	exit N    it ends with this code
//	sleep     it runs until it is deleted, or until finish is called
type kubelets struct {
	client *kubernetes.Clientset
	logs   *httptest.Server
	port   int32

	mutex    sync.Mutex
	ledger   map[string][]types.UID // every pod that was seen, by name
	frozen   map[string]bool        // nodes that do nothing
	finished bool                   // sleeping pods complete
}

func startKubelets(ctx context.Context, client *kubernetes.Clientset) (*kubelets, error) {
	k := &kubelets{client: client, ledger: map[string][]types.UID{}, frozen: map[string]bool{}}
	mux := http.NewServeMux()
	mux.HandleFunc("/containerLogs/", k.log)
	mux.HandleFunc("/exec/", k.exec)
	k.logs = httptest.NewTLSServer(mux)
	address, err := url.Parse(k.logs.URL)
	if err != nil {
		return nil, err
	}
	port, err := strconv.Atoi(address.Port())
	if err != nil {
		return nil, err
	}
	k.port = int32(port)
	go func() {
		for ctx.Err() == nil {
			k.round(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return k, nil
}

// round looks at all pods once.
func (k *kubelets) round(ctx context.Context) {
	list, err := k.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return // the API server is away
	}
	for i := range list.Items {
		k.look(ctx, &list.Items[i])
	}
}

func (k *kubelets) look(ctx context.Context, pod *corev1.Pod) {
	k.mutex.Lock()
	uids := k.ledger[pod.Name]
	if len(uids) == 0 || uids[len(uids)-1] != pod.UID {
		k.ledger[pod.Name] = append(uids, pod.UID)
	}
	frozen, finished := k.frozen[pod.Spec.NodeName], k.finished
	k.mutex.Unlock()
	if pod.Spec.NodeName == "" || frozen || len(pod.Spec.Containers) == 0 {
		return
	}
	pods := k.client.CoreV1().Pods(pod.Namespace)
	command := pod.Spec.Containers[0].Command
	what := ""
	if len(command) > 0 {
		what = command[len(command)-1]
	}
	code, exits := 0, strings.HasPrefix(what, "exit ")
	if exits {
		code, _ = strconv.Atoi(strings.TrimPrefix(what, "exit "))
	}
	over := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	switch {
	case over && pod.DeletionTimestamp != nil && *pod.DeletionGracePeriodSeconds > 0:
		zero := int64(0)
		_ = pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &zero, Preconditions: &metav1.Preconditions{UID: &pod.UID}}) // the next round tries again
		return
	case over:
		return
	case pod.DeletionTimestamp != nil:
		end(pod, 143, 15)
	case pod.Status.Phase == corev1.PodPending:
		begin(pod)
	case exits:
		end(pod, code, 0)
	case finished:
		end(pod, 0, 0)
	default:
		return
	}
	_, err := pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && ctx.Err() == nil {
		return // the next round tries again
	}
}

func begin(pod *corev1.Pod) {
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: pod.Spec.Containers[0].Name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
	}}
}

func end(pod *corev1.Pod, code, signal int) {
	pod.Status.Phase = corev1.PodSucceeded
	if code != 0 {
		pod.Status.Phase = corev1.PodFailed
	}
	started := metav1.Now()
	if len(pod.Status.ContainerStatuses) > 0 && pod.Status.ContainerStatuses[0].State.Running != nil {
		started = pod.Status.ContainerStatuses[0].State.Running.StartedAt
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: pod.Spec.Containers[0].Name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: int32(code), StartedAt: started, FinishedAt: metav1.Now(),
		Message: fmt.Sprintf(`{"exit_code": %d, "signal": %d, "user_time_us": 1000, "max_memory_bytes": 1048576}`, code, signal),
	}}}}
}

// node adds a node with as many cores, and removes it at the end of the test.
func (k *kubelets) node(t *testing.T, name, cores string) {
	t.Helper()
	ctx := context.Background()
	nodes := k.client.CoreV1().Nodes()
	node, err := nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.Status = corev1.NodeStatus{
		Allocatable: corev1.ResourceList{"cpu": apiresource.MustParse(cores), "memory": apiresource.MustParse("64Gi"), "pods": apiresource.MustParse("110")},
		Capacity:    corev1.ResourceList{"cpu": apiresource.MustParse(cores), "memory": apiresource.MustParse("64Gi"), "pods": apiresource.MustParse("110")},
		Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		Addresses:   []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{
			KubeletEndpoint: corev1.DaemonEndpoint{Port: k.port},
		},
	}
	if _, err := nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nodes.Delete(ctx, name, metav1.DeleteOptions{}) }) // the test may have deleted it
}

// pods returns the pods of jobs that there are.
func (k *kubelets) pods(t *testing.T) []corev1.Pod {
	t.Helper()
	var list *corev1.PodList
	var err error
	if !expected.Soon(func() bool {
		list, err = k.client.CoreV1().Pods("weir-jobs").List(context.Background(), metav1.ListOptions{LabelSelector: picture.LabelEpoch})
		return err == nil
	}) {
		t.Fatal(err)
	}
	return list.Items
}

// running returns the pods whose containers run.
func (k *kubelets) running(t *testing.T) (list []corev1.Pod) {
	t.Helper()
	for _, pod := range k.pods(t) {
		if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
			list = append(list, pod)
		}
	}
	return list
}

// finish lets sleeping pods complete.
func (k *kubelets) finish(now bool) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.finished = now
}

// newLedger forgets the pods of earlier tests, whose schedulers had other stores.
func (k *kubelets) newLedger() {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	clear(k.ledger)
}

// checkLedger checks that no name was used for two pods.
func (k *kubelets) checkLedger(t *testing.T) {
	t.Helper()
	k.mutex.Lock()
	defer k.mutex.Unlock()
	for name, uids := range k.ledger {
		if len(uids) > 1 && strings.HasPrefix(name, "weir-") {
			t.Errorf("%d pods had the name %s", len(uids), name)
		}
	}
}
