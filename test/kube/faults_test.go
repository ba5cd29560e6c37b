package kube

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirhq/weir/internal/node/workload"
)

// Whatever the API server does, every pod is bound once, no node gets more than it has, and nothing is lost.
func TestTroubleWithTheAPIServerLosesNoPod(t *testing.T) {
	needPlane(t)
	tr := newTrouble(t)
	s := newSchedulerThrough(t, tr)
	shop := newShop(t, "troubled")
	machine.node(t, "troubled-1", "64")
	keepBooks(t, shop, map[string]int64{"troubled-1": 64})
	pods := 0
	for _, phase := range []struct {
		what string
		rule func(times int, r *http.Request) *fault
		act  func()
		want int // faults
	}{
		{"answers to binds are lost", func(_ int, r *http.Request) *fault {
			if isBind(r, "") {
				return &fault{lose: true}
			}
			return nil
		}, nil, 4},
		{"the server is overloaded", func(_ int, r *http.Request) *fault {
			if r.Method != http.MethodGet {
				return &fault{status: http.StatusTooManyRequests}
			}
			return nil
		}, nil, 4},
		{"the server has internal errors", func(_ int, r *http.Request) *fault {
			if isBind(r, "") {
				return &fault{status: http.StatusInternalServerError}
			}
			return nil
		}, nil, 4},
		{"watches are cut, and their history is gone", func(_ int, r *http.Request) *fault {
			if isWatch(r) && strings.HasSuffix(r.URL.Path, "/pods") {
				return &fault{status: http.StatusGone}
			}
			return nil
		}, tr.cut, 1},
		{"the token is refused", func(_ int, r *http.Request) *fault {
			if isBind(r, "") {
				return &fault{status: http.StatusUnauthorized}
			}
			return nil
		}, nil, 1},
	} {
		times := 0
		tr.set(func(r *http.Request) *fault {
			if times >= phase.want {
				return nil
			}
			f := phase.rule(times, r)
			if f != nil {
				times++
			}
			return f
		})
		if phase.act != nil {
			phase.act()
		}
		for range 4 {
			shop.pod(fmt.Sprint("p-", pods), nil)
			pods++
		}
		s.await(phase.what+": all pods run", func() bool { return len(shop.running()) == pods })
		tr.set(nil)
		if times < phase.want {
			t.Errorf("%s: %d faults", phase.what, times)
		}
	}
	if err := plane.etcd.command.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	created := make(chan error, 1)
	go func() {
		_, err := plane.admin.CoreV1().Pods(shop.name).Create(context.Background(), podNamed(fmt.Sprint("p-", pods)), metav1.CreateOptions{})
		created <- err
	}()
	s.await("the driver notices that etcd has stopped", func() bool { return s.logged("the API server of Kubernetes is away") })
	if err := plane.etcd.command.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := <-created; err == nil {
		pods++
	}
	s.await("all pods run when etcd is back", func() bool { return len(shop.running()) == pods })
	s.await("every pod is counted once", func() bool {
		o := s.operation("*troubled/Pod/pods")
		return o.Jobs.Running == int64(pods) && o.Jobs.Failed == 0 && o.Jobs.Completed == 0
	})
}

// held makes a rule that holds the binds of pods back, and returns how many it holds and what lets them go.
func held(tr *trouble, names ...string) (count func() int, release map[string]chan struct{}) {
	release = map[string]chan struct{}{}
	seen := map[string]bool{}
	for _, name := range names {
		release[name] = make(chan struct{})
	}
	tr.set(func(r *http.Request) *fault {
		for _, name := range names {
			if isBind(r, name+"/") && !seen[name] {
				seen[name] = true
				return &fault{hold: release[name]}
			}
		}
		return nil
	})
	return func() int { tr.mutex.Lock(); defer tr.mutex.Unlock(); return len(seen) }, release
}

// A scheduler is killed with binds under way: one that never left, one that arrives when it is dead, one that arrives when the
// next scheduler has bound the pod, and one of a gang. The next one is killed while it lists the pods.
func TestASchedulerThatIsKilledWhileItBindsBindsNothingTwice(t *testing.T) {
	needPlane(t)
	tr := newTrouble(t)
	s := newSchedulerThrough(t, tr)
	shop := newShop(t, "killed")
	machine.node(t, "killed-1", "16")
	keepBooks(t, shop, map[string]int64{"killed-1": 16})
	count, release := held(tr, "never", "late", "later", "ring-1")
	names := []string{"never", "late", "later", "free"}
	for _, name := range names {
		shop.pod(name, nil)
	}
	for i := range 3 {
		names = append(names, fmt.Sprint("ring-", i))
		shop.pod(fmt.Sprint("ring-", i), func(p *corev1.Pod) {
			p.Labels[workload.LabelGroup], p.Annotations[workload.AnnotationGangSize] = "ring", "3"
		})
	}
	s.await("binds are under way", func() bool { return count() == 4 && has(shop, "free") && has(shop, "ring-0") && has(shop, "ring-2") })
	s.process.kill()
	close(release["late"])
	s.await("the dead scheduler's bind arrives", func() bool { return has(shop, "late") })
	before := shop.running()

	listing := make(chan struct{})
	lists := 0
	tr.set(func(r *http.Request) *fault {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/pods") {
			lists++
			return &fault{hold: listing}
		}
		return nil
	})
	s.start()
	s.await("it lists the pods", func() bool { tr.mutex.Lock(); defer tr.mutex.Unlock(); return lists > 0 })
	s.process.kill()
	close(listing)
	tr.set(nil)
	s.start()
	s.await("all pods run", func() bool { return len(shop.running()) == len(names) })
	for _, name := range []string{"never", "later", "ring-1"} {
		close(release[name]) // the API server refuses them now
	}
	for name, uid := range before {
		if shop.running()[name] != uid {
			t.Errorf("pod %s is gone", name)
		}
	}
	s.await("every pod is counted once", func() bool {
		return s.operation("*killed/Pod/pods").Jobs.Running == 4 && s.operation("*killed/Group/ring").Jobs.Running == 3
	})
}

// A leader is paused for longer than its lease while a bind is under way. The next leader binds the pod; the bind of the first
// one arrives then, and the first one wakes up.
func TestALeaderThatIsPausedAndWokenBindsNothingTwice(t *testing.T) {
	needPlane(t)
	if os.Getenv("WEIR_LONG") == "" {
		t.Skip("leases take their time: make long runs this")
	}
	tr := newTrouble(t)
	first := newSchedulerThrough(t, tr)
	shop := newShop(t, "paused")
	machine.node(t, "paused-1", "8")
	keepBooks(t, shop, map[string]int64{"paused-1": 8})
	shop.pod("early", nil)
	first.await("a pod runs", func() bool { return has(shop, "early") })
	count, release := held(tr, "between")
	shop.pod("between", nil)
	first.await("a bind is under way", func() bool { return count() == 1 })
	second := describe(t, first.directory, nil)
	paused := first.process
	signal := func(s syscall.Signal) { _ = paused.command.Process.Signal(s) } // it may have been killed
	signal(syscall.SIGSTOP)
	t.Cleanup(func() { signal(syscall.SIGCONT) })
	second.launch()
	stopped, since := true, time.Now()
	second.await("the second scheduler leads", func() bool {
		// It may have been stopped while it wrote to the store, which nobody else can use then: it is stopped at another moment.
		if patience := 500 * time.Millisecond; stopped && time.Since(since) > 10*time.Second {
			signal(syscall.SIGCONT)
			stopped, since = false, time.Now()
		} else if !stopped && time.Since(since) > patience {
			signal(syscall.SIGSTOP)
			stopped, since = true, time.Now()
		}
		return second.logged("driving Kubernetes")
	})
	shop.pod("after", nil)
	second.await("the next leader binds", func() bool { return has(shop, "between") && has(shop, "after") })
	close(release["between"])
	signal(syscall.SIGCONT)
	shop.pod("last", nil)
	second.await("the next leader goes on", func() bool { return has(shop, "last") })
	second.await("every pod is counted once", func() bool { return second.operation("*paused/Pod/pods").Jobs.Running == 4 })
	first.process.kill()
	first.process, first.Client = second.process, second.Client // what is left at the end is the second's matter
}

// While a bind is under way, its pod is deleted with force, or another scheduler binds it, or its node goes. An admission
// policy refuses the binds of a pod until somebody removes the policy.
func TestPodsAndNodesThatVanishWhileTheyAreBound(t *testing.T) {
	needPlane(t)
	tr := newTrouble(t)
	s := newSchedulerThrough(t, tr)
	shop := newShop(t, "vanishing")
	machine.node(t, "vanishing-1", "8")
	ctx := context.Background()
	pods := plane.admin.CoreV1().Pods(shop.name)
	keepBooks(t, shop, map[string]int64{"vanishing-1": 8, "vanishing-2": 8, "vanishing-3": 8})
	count, release := held(tr, "deleted", "taken")
	shop.pod("deleted", nil)
	shop.pod("taken", nil)
	s.await("binds are under way", func() bool { return count() == 2 })
	zero := int64(0)
	if err := pods.Delete(ctx, "deleted", metav1.DeleteOptions{GracePeriodSeconds: &zero}); err != nil {
		t.Fatal(err)
	}
	shop.pod("deleted", nil) // of the same name
	machine.node(t, "vanishing-2", "8")
	if err := pods.Bind(ctx, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "taken"}, Target: corev1.ObjectReference{Kind: "Node", Name: "vanishing-2"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	close(release["deleted"])
	close(release["taken"])
	s.await("both run", func() bool { return has(shop, "deleted") && has(shop, "taken") })
	s.await("only one is a job", func() bool { return s.operation("*vanishing/Pod/pods").Jobs.Running == 1 })

	machine.node(t, "vanishing-3", "8")
	gone := shop.on("deleted")
	if err := plane.admin.CoreV1().Nodes().Delete(ctx, gone, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.await("the jobs of a node that is gone end", func() bool { return s.operation("*vanishing/Pod/pods").Jobs.Running == 0 })
	tr.set(func(r *http.Request) *fault {
		if isBind(r, "unwanted/") {
			return &fault{status: http.StatusForbidden}
		}
		return nil
	})
	shop.pod("unwanted", nil)
	s.await("the pod says why", func() bool { reason, _ := shop.reason("unwanted"); return reason == workload.ReasonBindRejected })
	shop.pod("wanted", nil)
	s.await("others are bound meanwhile", func() bool { return has(shop, "wanted") })
	tr.set(nil)
	s.await("it is bound when the policy is gone", func() bool { return has(shop, "unwanted") })
	for _, name := range []string{"wanted", "unwanted"} {
		if node := shop.on(name); node == gone {
			t.Errorf("%s is on %s, which is gone", name, node)
		}
	}
}
