package kube

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/weirhq/weir/internal/node/picture"
	"github.com/weirhq/weir/internal/node/pretender"
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
	script := pretender.ScriptOf(pod)
	if command := pod.Spec.Containers[0].Command; len(command) > 0 && command[len(command)-1] == "sleep" {
		script.Lasts = time.Hour
		if finished {
			script.Lasts = 0
		}
	}
	_ = pretender.Next(pod, script, time.Now()).CarryOut(ctx, k.client, pod) // the next round tries again
}

// node adds a node with as many cores, and removes it at the end of the test.
func (k *kubelets) node(t *testing.T, name, cores string) {
	t.Helper()
	ctx := context.Background()
	nodes := k.client.CoreV1().Nodes()
	node := pretender.NodeOf(name, corev1.ResourceList{
		"cpu": apiresource.MustParse(cores), "memory": apiresource.MustParse("64Gi"), "pods": apiresource.MustParse("110"),
	}, k.port)
	status := node.Status
	node, err := nodes.Create(ctx, node, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.Status = status
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

// freeze makes the kubelet of a node do nothing, or work again.
func (k *kubelets) freeze(node string, frozen bool) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.frozen[node] = frozen
}
