package kube

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/node/pretender"
	"github.com/weirhq/weir/internal/node/workload"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/test/expected"
)

// Sizes of benchmarks.
const (
	benchNodes   = 1000
	benchPools   = 200
	benchGroups  = 1000
	benchClasses = 50
	benchSingles = 200
	benchGang    = 256
	connections  = 16
	benchSpace   = "bench"
)

var benchPods int

// benchPatience is how long one part of a benchmark may take.
const benchPatience = 5 * time.Minute

// BenchmarkKubernetes measures how fast pods get nodes: 10,000 pods on 1,000 nodes without kubelets, which all exist before the
// scheduler starts; then single pods in an idle cluster; then a gang. The bare loop binds the same pods over 16 connections and
// decides nothing. kube-scheduler gets the same pods. Run it with -benchtime 1x; WEIR_PODS is how many pods there are instead.
func BenchmarkKubernetes(b *testing.B) {
	if without != "" {
		b.Skipf("NO API SERVER HERE: %s", without)
	}
	benchPods = 10_000
	if n, err := strconv.Atoi(os.Getenv("WEIR_PODS")); err == nil {
		benchPods = n
	}
	ctx := context.Background()
	if _, err := pretender.New(ctx, pretender.Options{
		Client: plane.admin, Nodes: benchNodes, Resources: resource.Amounts{resource.CPU: 32_00, resource.Memory: 128 << 30, resource.UserSlots: 110},
	}); err != nil {
		b.Fatal(err)
	}
	makeSpace(b)
	pods := newCensus(b)
	for _, mixed := range []bool{false, true} {
		work := "equal"
		if mixed {
			work = "mixed"
		}
		b.Run("pods="+work+"/by=bare-loop", func(b *testing.B) { benchBareLoop(b, pods, mixed) })
		b.Run("pods="+work+"/by=weir", func(b *testing.B) { benchWeir(b, pods, mixed) })
		b.Run("pods="+work+"/by=kube-scheduler", func(b *testing.B) { benchKubeScheduler(b, pods, mixed) })
	}
}

func makeSpace(b *testing.B) {
	b.Helper()
	ctx := context.Background()
	_, err := plane.admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: benchSpace}}, metav1.CreateOptions{})
	if err == nil {
		_, err = plane.admin.CoreV1().ServiceAccounts(benchSpace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	}
	if err != nil {
		b.Fatal(err)
	}
}

// benchPod returns a pod. Mixed ones are of 200 pools, 1,000 operations and 50 constraint classes; the others are all alike.
func benchPod(scheduler string, mixed bool, i int) *corev1.Pod {
	pool, group := "pool-0", "all"
	if mixed {
		pool, group = fmt.Sprint("pool-", i%benchPools), fmt.Sprint("group-", i%benchGroups)
	}
	pod := guestPod(benchSpace, fmt.Sprint("pod-", i), pool, group)
	pod.Spec.SchedulerName = scheduler
	if mixed {
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpNotIn, Values: []string{pretender.NodeName(1 + i%benchClasses)},
			}}}},
		}}}
	}
	return pod
}

// awaitBound waits until so many pods have got a node since the census was cleared.
func (c *census) awaitBound(b *testing.B, n int64) {
	b.Helper()
	deadline := time.Now().Add(benchPatience)
	for c.bound.Load() < n {
		if time.Now().After(deadline) {
			b.Fatalf("%d of %d pods are bound", c.bound.Load(), n)
		}
		<-time.After(time.Millisecond)
	}
}

// clear deletes the pods of the benchmark and forgets them.
func (c *census) clear(b *testing.B) {
	b.Helper()
	now := int64(0)
	deadline := time.Now().Add(benchPatience)
	for len(c.informer.GetStore().ListKeys()) > 0 {
		// The server gives a call up after a minute, and 10,000 pods may take longer.
		err := plane.admin.CoreV1().Pods(benchSpace).DeleteCollection(context.Background(), metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{})
		if err != nil && (!apierrors.IsTimeout(err) || time.Now().After(deadline)) {
			b.Fatal(err)
		}
		<-time.After(100 * time.Millisecond)
	}
	c.bound.Store(0)
}

// perSecond is the rate of binds between the first and the last.
func (c *census) perSecond() float64 {
	return float64(c.bound.Load()-1) / time.Duration(c.last.Load()-c.first.Load()).Seconds()
}

func benchBareLoop(b *testing.B, pods *census, mixed bool) {
	for range b.N {
		create(b, benchPods, func(i int) *corev1.Pod { return benchPod("nobody", mixed, i) })
		workqueue.ParallelizeUntil(context.Background(), connections, benchPods, func(i int) {
			err := plane.admin.CoreV1().Pods(benchSpace).Bind(context.Background(), &corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("pod-", i), Namespace: benchSpace},
				Target:     corev1.ObjectReference{Kind: "Node", Name: pretender.NodeName(1 + i%benchNodes)},
			}, metav1.CreateOptions{})
			if err != nil {
				b.Error(err)
			}
		})
		pods.awaitBound(b, int64(benchPods))
		b.ReportMetric(pods.perSecond(), "binds/s")
		pods.clear(b)
	}
}

// benchKubeScheduler measures kube-scheduler in the same way. Its own limit on calls is off.
func benchKubeScheduler(b *testing.B, pods *census, mixed bool) {
	if err := expected.Scheduler.Build(); err != nil {
		b.Skip(err)
	}
	program, err := expected.Scheduler.Find()
	if err != nil {
		b.Fatal(err)
	}
	kubeconfig, err := plane.kubeconfigOf(adminToken)
	if err != nil {
		b.Fatal(err)
	}
	for range b.N {
		create(b, benchPods, func(i int) *corev1.Pod {
			pod := benchPod(corev1.DefaultSchedulerName, mixed, i)
			// Admission marks new nodes as not ready until a controller, which is not there, takes the mark away.
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists})
			return pod
		})
		began := time.Now()
		scheduler, err := startProcess(filepath.Join(b.TempDir(), "log"), program, "--kubeconfig="+kubeconfig, "--leader-elect=false", "--secure-port=0",
			"--kube-api-qps=10000", "--kube-api-burst=10000")
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			scheduler.kill()
			if b.Failed() {
				b.Log(tail(scheduler.log))
			}
		})
		pods.awaitBound(b, int64(benchPods))
		b.ReportMetric(pods.perSecond(), "binds/s")
		b.ReportMetric(time.Unix(0, pods.first.Load()).Sub(began).Seconds(), "s-to-first-bind")
		b.ReportMetric(peakMemory(b, scheduler), "MiB")
		scheduler.kill()
		used := scheduler.command.ProcessState.UserTime() + scheduler.command.ProcessState.SystemTime()
		b.ReportMetric(float64(used.Microseconds())/float64(benchPods), "cpu-us/pod")
		pods.clear(b)
	}
}

// benchWeir measures a scheduler that is started when its pods exist.
func benchWeir(b *testing.B, pods *census, mixed bool) {
	for range b.N {
		create(b, benchPods, func(i int) *corev1.Pod { return benchPod(workload.Scheduler, mixed, i) })
		began := time.Now()
		scheduler := startWeir(b)
		pods.awaitBound(b, int64(benchPods))
		b.ReportMetric(pods.perSecond(), "binds/s")
		b.ReportMetric(time.Unix(0, pods.first.Load()).Sub(began).Seconds(), "s-to-first-bind")
		b.ReportMetric(peakMemory(b, scheduler), "MiB")
		pods.clear(b)
		benchSingle(b, pods)
		benchGangs(b, pods)
		pods.clear(b)
		scheduler.kill()
		used := scheduler.command.ProcessState.UserTime() + scheduler.command.ProcessState.SystemTime()
		b.ReportMetric(float64(used.Microseconds())/float64(benchPods), "cpu-us/pod")
	}
}

// benchSingle measures how long single pods take from their creation to the bind in an idle cluster.
func benchSingle(b *testing.B, pods *census) {
	b.Helper()
	took := make([]time.Duration, benchSingles)
	for i := range took {
		pod := benchPod(workload.Scheduler, false, benchPods+i)
		began := time.Now()
		if _, err := plane.admin.CoreV1().Pods(benchSpace).Create(context.Background(), pod, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
		pods.awaitBound(b, int64(i+1))
		took[i] = time.Unix(0, pods.last.Load()).Sub(began)
	}
	slices.Sort(took)
	b.ReportMetric(took[benchSingles/2].Seconds()*1000, "single-p50-ms")
	b.ReportMetric(took[benchSingles*99/100].Seconds()*1000, "single-p99-ms")
	pods.clear(b)
}

// benchGangs measures how long a gang takes from the creation of its last pod to the last bind.
func benchGangs(b *testing.B, pods *census) {
	b.Helper()
	create(b, benchGang, func(i int) *corev1.Pod {
		pod := guestPod(benchSpace, fmt.Sprint("member-", i), "pool-0", "ring")
		pod.Annotations[workload.AnnotationGangSize] = strconv.Itoa(benchGang)
		return pod
	})
	created := time.Now()
	pods.awaitBound(b, benchGang)
	b.ReportMetric(time.Unix(0, pods.last.Load()).Sub(created).Seconds(), "gang-s")
}

// peakMemory is the most memory that a process has had, in MiB.
func peakMemory(b *testing.B, p *process) float64 {
	b.Helper()
	file, err := os.Open(fmt.Sprintf("/proc/%d/status", p.command.Process.Pid))
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) > 1 && fields[0] == "VmHWM:" {
			kib, _ := strconv.ParseFloat(fields[1], 64) // the kernel's own format
			return kib / 1024
		}
	}
	return 0
}

// startWeir starts a scheduler with the default settings and the pools of the benchmark.
func startWeir(b *testing.B) *process {
	b.Helper()
	address, err := freeAddress()
	if err != nil {
		b.Fatal(err)
	}
	kubeconfig, err := plane.kubeconfig()
	if err != nil {
		b.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	directory := b.TempDir()
	for name, value := range map[string]string{roleVariable: directory, kubeconfigVariable: kubeconfig, listenVariable: address, plainVariable: "1"} {
		b.Setenv(name, value)
	}
	p, err := startProcess(filepath.Join(directory, "log"), self)
	if err != nil {
		b.Fatal(err)
	}
	_ = os.Unsetenv(roleVariable) // only the child plays a role
	b.Cleanup(func() {
		p.kill()
		if b.Failed() {
			b.Log(tail(p.log))
		}
	})
	weir, err := client.New(client.Options{Address: address})
	if err != nil {
		b.Fatal(err)
	}
	for i := range benchPools {
		if !expected.Soon(func() bool {
			_, err = weir.CreatePool(context.Background(), "default", "", fmt.Sprint("pool-", i), nil)
			return err == nil
		}) {
			b.Fatal(err)
		}
	}
	return p
}
