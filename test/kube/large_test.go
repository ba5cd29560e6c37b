package kube

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/command/config"
	"github.com/weirhq/weir/internal/node/pretender"
	"github.com/weirhq/weir/internal/node/workload"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// largeVariable is how many pretended nodes tests of large clusters have (make e2e). Without it they are skipped, and with it
// all others are.
const largeVariable = "WEIR_NODES"

// large is a cluster of pretended nodes, as weir up --kubernetes --kwok makes it, with a client.
type large struct {
	*testing.T
	*client.Client
	nodes int
	mine  *census
}

// largePatience is how long something may take in a large cluster on a busy machine.
const largePatience = 10 * time.Minute

// newLarge starts a cluster of nodes with two cores each.
func newLarge(t *testing.T, pools string) *large {
	t.Helper()
	if without != "" {
		t.Skipf("NO API SERVER HERE: %s", without)
	}
	nodes, _ := strconv.Atoi(os.Getenv(largeVariable))
	if nodes == 0 {
		t.Skipf("%s is not set: make e2e runs this test", largeVariable)
	}
	file := filepath.Join(t.TempDir(), "pools.yaml")
	if err := os.WriteFile(file, []byte(pools), 0o600); err != nil {
		t.Fatal(err)
	}
	c := config.Default()
	c.Up.Kwok, c.Up.Pools = document.Some(nodes), document.Some(file)
	c.Up.Resources = document.Some(resource.PartialOf(resource.Amounts{resource.CPU: 2_00, resource.Memory: 8 << 30, resource.UserSlots: 10}))
	began := time.Now()
	l := &large{T: t, nodes: nodes}
	w, stop := startUp(t, &c, largePatience)
	t.Cleanup(func() {
		began := time.Now()
		stop()
		t.Logf("everything is removed after %v", time.Since(began).Round(time.Millisecond))
	})
	t.Logf("%d nodes are ready after %v", nodes, time.Since(began).Round(time.Millisecond))
	l.Client = w
	l.mine = newCensus(t)
	return l
}

// await waits until something holds, and logs how long that took.
func (l *large) await(what string, holds func() bool) time.Duration {
	l.Helper()
	began := time.Now()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for !holds() {
		if time.Since(began) > largePatience {
			l.Fatalf("%s: not within %v; production uses %v cores, research %v", what, largePatience, l.usage("production"), l.usage("research"))
		}
		<-ticker.C
	}
	took := time.Since(began)
	l.Logf("%s: after %v", what, took.Round(time.Millisecond))
	return took
}

// usage returns how many cores the jobs of a pool have.
func (l *large) usage(pool string) float64 {
	p, err := l.GetPool(context.Background(), "default", pool)
	if err != nil {
		return 0
	}
	return p.Usage.Of("cpu")
}

// namespace creates a namespace for pods.
func (l *large) namespace(name string) {
	l.Helper()
	ctx := context.Background()
	_, err := plane.admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err == nil {
		_, err = plane.admin.CoreV1().ServiceAccounts(name).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		l.Fatal(err)
	}
}

// guestPod returns a pod of one core for pretended nodes, which runs until it is deleted.
func guestPod(namespace, name, pool, group string) *corev1.Pod {
	grace := int64(1)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Labels: map[string]string{workload.LabelPool: pool, workload.LabelGroup: group}, Annotations: map[string]string{},
		},
		Spec: corev1.PodSpec{
			SchedulerName: workload.Scheduler, TerminationGracePeriodSeconds: &grace,
			Tolerations: []corev1.Toleration{{Key: pretender.Label, Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name: "main", Image: "any", Command: []string{"sleep", "1000000"},
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": apiresource.MustParse("1"), "memory": apiresource.MustParse("64Mi")}},
			}},
		},
	}
}

// create creates pods, several at a time.
func create(t testing.TB, n int, pod func(i int) *corev1.Pod) {
	t.Helper()
	workqueue.ParallelizeUntil(context.Background(), 16, n, func(i int) {
		p := pod(i)
		if _, err := plane.admin.CoreV1().Pods(p.Namespace).Create(context.Background(), p, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// census knows all pods of the cluster.
type census struct {
	informer cache.SharedIndexInformer
	bound    atomic.Int64 // how many pods have got a node
	first    atomic.Int64 // when the first of them did, in Unix nanoseconds
	last     atomic.Int64 // when the last of them did
}

func newCensus(t testing.TB) *census {
	t.Helper()
	c := &census{informer: informers.NewSharedInformerFactory(plane.admin, 0).Core().V1().Pods().Informer()}
	_, err := c.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(was, is any) {
		if was.(*corev1.Pod).Spec.NodeName == "" && is.(*corev1.Pod).Spec.NodeName != "" {
			now := time.Now().UnixNano()
			if c.bound.Load() == 0 {
				c.first.Store(now)
			}
			c.last.Store(now)
			c.bound.Add(1)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { c.informer.RunWithContext(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	cache.WaitForCacheSync(ctx.Done(), c.informer.HasSynced)
	return c
}

// running counts the pods of a group that run and are not being deleted.
func (c *census) running(group string) (n int) {
	for _, object := range c.informer.GetStore().List() {
		pod := object.(*corev1.Pod)
		if pod.Labels[workload.LabelGroup] == group && pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

// keep keeps as many pods of a group as a controller of Kubernetes would: an evicted one is replaced.
func (l *large) keep(namespace, pool, group string, count int) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	made := 0
	running.Go(func() {
		for ctx.Err() == nil {
			there := 0
			for _, object := range l.mine.informer.GetStore().List() {
				if pod := object.(*corev1.Pod); pod.Labels[workload.LabelGroup] == group && pod.DeletionTimestamp == nil && !workload.IsOver(pod) {
					there++
				}
			}
			if lack := count - there; lack > 0 {
				first := made
				made += lack
				create(l, lack, func(i int) *corev1.Pod { return guestPod(namespace, fmt.Sprintf("%s-%d", group, first+i), pool, group) })
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	})
	return func() { cancel(); running.Wait() }
}

// The documents' example: production is guaranteed the whole cluster half of the time, research half of it on average. Research
// is an operation of Weir, production is pods of others. Research has the whole cluster while production sleeps; production gets
// all of it when it wakes up, as long as its savings last, and then both have half.
//
// While production has the whole cluster, half of that comes out of its savings, until a smooth period's worth is left: from then on
// its share fades to half. So it saves for as long as it may take on a busy machine to replace every pod of the cluster, and a minute.
func TestLargeProductionAndResearchShareTheClusterOverTime(t *testing.T) {
	nodes, _ := strconv.Atoi(os.Getenv(largeVariable))
	l := newLarge(t, fmt.Sprintf(`
fair_share_preemption_timeout: 1s
fair_share_starvation_tolerance: 1.0
preemptive_scheduling_backoff: 1s
integral_guarantees: {smooth_period: 10s}
pools:
  production:
    integral_guarantees: {guarantee_type: burst, resource_flow: {cpu: %[1]d}, burst_guarantee_resources: {cpu: %[2]d}}
  research:
    integral_guarantees: {guarantee_type: relaxed, resource_flow: {cpu: %[1]d}}
`, nodes, 2*nodes))
	ctx := context.Background()
	all, half := float64(2*l.nodes), float64(l.nodes)
	if _, err := l.StartOperation(ctx, "vanilla", map[string]any{"pool": "research", "tasks": map[string]any{"main": map[string]any{
		"job_count": 3 * l.nodes, "command": "sleep 1000000", "cpu_limit": 1, "memory_limit": 64 << 20,
	}}}); err != nil {
		t.Fatal(err)
	}
	l.await("research has the whole cluster", func() bool { return l.usage("research") >= 0.99*all })
	savings := 40 + 0.12*float64(l.nodes)
	l.await(fmt.Sprintf("production has saved %.0f s of the whole cluster", savings), func() bool {
		p, err := l.GetPool(ctx, "default", "production")
		return err == nil && p.AccumulatedVolume >= savings
	})
	l.namespace("production")
	defer l.keep("production", "production", "nightly", 2*l.nodes)()
	l.await("production has the whole cluster", func() bool { return l.usage("production") >= 0.99*all })
	l.await("production has spent its savings: both have half", func() bool {
		return l.usage("production") <= 1.05*half && l.usage("research") >= 0.95*half
	})
	l.await("the pods agree with the books", func() bool {
		running := float64(l.mine.running("nightly"))
		return running >= 0.95*half && running <= 1.05*half
	})
}

// Ten gangs of a quarter of the cluster compete: four run whole, and none runs in part.
func TestLargeGangsRunWholeOrNotAtAll(t *testing.T) {
	l := newLarge(t, "pools: {gangs: {max_running_operation_count: 100, max_operation_count: 100}}\n")
	l.namespace("gangs")
	size := l.nodes / 2
	create(t, 10*size, func(i int) *corev1.Pod {
		pod := guestPod("gangs", fmt.Sprint("member-", i), "gangs", fmt.Sprint("gang-", i%10))
		pod.Annotations[workload.AnnotationGangSize] = strconv.Itoa(size)
		return pod
	})
	whole := func() (n int) {
		for i := range 10 {
			if l.mine.running(fmt.Sprint("gang-", i)) == size {
				n++
			}
		}
		return n
	}
	l.await("four gangs run", func() bool { return whole() == 4 })
	for i := range 10 {
		if n := l.mine.running(fmt.Sprint("gang-", i)); n != 0 && n != size {
			t.Errorf("%d of %d pods of gang %d run", n, size, i)
		}
	}
	t.Logf("gangs of %d pods", size)
}
