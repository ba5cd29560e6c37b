package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/node/picture"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/test/expected"
	"github.com/weirhq/weir/test/fakescheduler"
)

// leader is the scheduler of this process, which tests replace.
type leader struct {
	current atomic.Pointer[fakescheduler.Scheduler]
}

func (l *leader) Register(ctx context.Context, request *nodev1.RegisterRequest) (*nodev1.RegisterResponse, error) {
	return l.current.Load().Register(ctx, nodeproto.Peer{}, request)
}

func (l *leader) Heartbeat(ctx context.Context, request *nodev1.HeartbeatRequest) (*nodev1.HeartbeatResponse, error) {
	return l.current.Load().Heartbeat(ctx, nodeproto.Peer{}, request)
}

func (l *leader) Stream(ctx context.Context, first *nodev1.NodeFrame) (nodeproto.NodeStream, error) {
	return nodeproto.OpenLocal(ctx, l.current.Load(), nodeproto.Peer{}, first), nil
}

func (l *leader) FetchContent(ctx context.Context, request *nodev1.FetchContentRequest) (*nodev1.FetchContentResponse, error) {
	return l.current.Load().FetchContent(ctx, nodeproto.Peer{}, request)
}

func (l *leader) term() (uint64, time.Duration) { return l.current.Load().Epoch(), time.Minute }

// cluster is a pretended API server without preconditions, whose kubelets end every pod at once.
type cluster struct {
	*fake.Clientset
	mutex   sync.Mutex
	created map[string]int
	calls   int
}

// newCluster returns a cluster in which every third write fails for the time being, half of them after it was carried out.
func newCluster(nodes int) *cluster {
	var objects []runtime.Object
	for i := range nodes {
		objects = append(objects, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", i)},
			Status: corev1.NodeStatus{
				Allocatable: corev1.ResourceList{"cpu": apiresource.MustParse("4"), "memory": apiresource.MustParse("8Gi"), "pods": apiresource.MustParse("10")},
				Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			},
		})
	}
	c := &cluster{Clientset: fake.NewClientset(objects...), created: map[string]int{}}
	c.PrependReactor("*", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		switch action.GetVerb() {
		case "create", "patch", "delete":
		default:
			return false, nil, nil
		}
		c.mutex.Lock()
		c.calls++
		number := c.calls
		c.mutex.Unlock()
		if create, ok := action.(clienttesting.CreateAction); ok && action.GetSubresource() == "" {
			pod := create.GetObject().(*corev1.Pod)
			pod.UID = types.UID("uid-" + pod.Name)
			if number%3 != 0 || number%2 == 0 {
				c.mutex.Lock()
				c.created[pod.Name]++
				c.mutex.Unlock()
			}
		}
		if number%3 == 0 {
			if number%2 == 0 { // carried out, and the answer is lost
				_ = c.Tracker().Add(asObject(action)) // an object that is there already stays
			}
			return true, nil, apierrors.NewServerTimeout(corev1.Resource("pods"), action.GetVerb(), 0)
		}
		return false, nil, nil
	})
	return c
}

// asObject is the object that a create would have stored.
func asObject(action clienttesting.Action) runtime.Object {
	if create, ok := action.(clienttesting.CreateAction); ok {
		return create.GetObject().DeepCopyObject()
	}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "unrelated", Namespace: "elsewhere"}}
}

// kubelet ends every pod that has begun.
func (c *cluster) kubelet(ctx context.Context) {
	for ctx.Err() == nil {
		list, err := c.CoreV1().Pods("jobs").List(ctx, metav1.ListOptions{})
		for i := range list.Items {
			pod := &list.Items[i]
			if err != nil || pod.Status.Phase == corev1.PodSucceeded {
				continue
			}
			pod.Status.Phase = corev1.PodSucceeded
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: picture.Container, State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{StartedAt: metav1.Now(), FinishedAt: metav1.Now(), Message: `{"exit_code": 0}`},
			}}}
			_, _ = c.CoreV1().Pods("jobs").UpdateStatus(ctx, pod, metav1.UpdateOptions{}) // the next round tries again
		}
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// The driver brings every job to one end, although a third of its writes fail, some of them after they were carried out,
// and although leaders change.
func TestTheDriverRunsEveryJobOnceDespiteLostAnswersAndNewLeaders(t *testing.T) {
	c := newCluster(3)
	store := &fakescheduler.Store{}
	scheduler := &leader{}
	settings := nodeproto.DefaultSettings()
	settings.HeartbeatPeriod, settings.HeartbeatSplay, settings.BackoffMin = 20*time.Millisecond, 0, 10*time.Millisecond
	var amounts resource.Amounts
	amounts[resource.CPU], amounts[resource.Memory], amounts[resource.UserSlots] = 100, 1<<20, 1
	takeOver := func() {
		next := fakescheduler.New(store, settings)
		next.Spec(&nodev1.JobSpec{Command: "true", MaxStderrSize: 100}, nodeproto.ToAmounts(amounts))
		scheduler.current.Store(next)
	}
	takeOver()
	driver, err := New(Options{
		Client: c, Caller: scheduler, Term: scheduler.term, Probe: func(context.Context) error { return nil }, MaxWrites: 1000,
		Picture: picture.Options{Namespace: "jobs"}, Alert: func(string) {}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var workers sync.WaitGroup
	workers.Go(func() { c.kubelet(ctx) })
	workers.Go(func() {
		if err := driver.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	defer workers.Wait()
	defer cancel()
	const jobs = 30
	store.Submit(jobs)
	for _, least := range []int{5, 15} {
		awaitProgress(t, store, func(p fakescheduler.Progress) bool { return p.Done >= least })
		takeOver()
	}
	awaitProgress(t, store, func(p fakescheduler.Progress) bool { return p.Done == jobs })
	if !expected.Soon(func() bool {
		list, err := c.CoreV1().Pods("jobs").List(ctx, metav1.ListOptions{})
		return err == nil && len(list.Items) == 0
	}) {
		t.Error("pods are left")
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if twice := store.Progress().Twice; len(c.created) < jobs || twice > 0 {
		t.Errorf("%d pods for %d jobs, %d completed twice", len(c.created), jobs, twice)
	}
}

func awaitProgress(t *testing.T, store *fakescheduler.Store, holds func(fakescheduler.Progress) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), expected.Patience)
	defer cancel()
	if err := store.Await(ctx, holds); err != nil {
		t.Fatalf("%v: %+v", err, store.Progress())
	}
}

func TestTheRateOfWritesFollowsTheAnswers(t *testing.T) {
	now := time.Unix(1000, 0)
	r := newRate(1500, now)
	good := func(d time.Duration) {
		for end := now.Add(d); now.Before(end); {
			now = now.Add(10 * time.Millisecond)
			r.wait(now)
			r.answered(now, 2*time.Millisecond, false, 0)
		}
	}
	good(time.Second)
	if r.perSecond < 350 || r.perSecond > 600 {
		t.Errorf("%v per second after a second, want about twice as many as at first", r.perSecond)
	}
	good(3 * time.Second)
	if r.perSecond != 1500 {
		t.Errorf("%v per second after four seconds, want all", r.perSecond)
	}
	r.answered(now, time.Millisecond, true, 0)
	r.answered(now, time.Millisecond, true, 0) // of the same moment
	if r.perSecond != 750 {
		t.Errorf("%v per second after trouble, want half", r.perSecond)
	}
	good(2 * time.Second)
	was := r.perSecond
	if was < 890 || was > 930 {
		t.Errorf("%v per second two seconds later, want a tenth more each second", was)
	}
	r.answered(now, 5*time.Second, false, 0)
	for range 100 {
		r.answered(now, 200*time.Millisecond, false, 0)
	}
	if r.perSecond != was {
		t.Errorf("%v per second after one slow answer and a hundred that are not quick, want %v", r.perSecond, was)
	}
	for range 10 {
		r.answered(now, 3*time.Second, false, 0)
	}
	if r.perSecond != was/2 {
		t.Errorf("%v per second after slow answers, want half of %v", r.perSecond, was)
	}
	r.answered(now, time.Millisecond, true, 7*time.Second)
	if got := r.wait(now); got != 7*time.Second {
		t.Errorf("the server wants to be left alone for 7 s, and the next write waits for %v", got)
	}
	for range 100 {
		now = now.Add(time.Hour)
		r.wait(now)
	}
	if r.perSecond != 1500 {
		t.Errorf("%v per second, want the most", r.perSecond)
	}
}

func TestConditionsLeaveWritersForBinds(t *testing.T) {
	w := newWriter(nil, nil, 1500, nil)
	for range 10 {
		w.submit(picture.Write{Kind: picture.Explain}, nil)
	}
	w.submit(picture.Write{Kind: picture.Bind}, nil)
	w.submit(picture.Write{Kind: picture.Evict}, nil)
	var order []string
	for {
		q, found, _ := w.next()
		if !found {
			break
		}
		order = append(order, q.write.Kind.String())
	}
	if got := strings.Join(order, " "); got != "evict bind explain explain explain" {
		t.Errorf("%s, want what frees room, what takes it, and three conditions", got)
	}
	w.told-- // one is done
	if q, found, _ := w.next(); !found || q.write.Kind != picture.Explain {
		t.Error("no further condition follows one that is written")
	}
}

func TestWhatAnswersOfTheAPIServerMean(t *testing.T) {
	pods := corev1.Resource("pods")
	for name, c := range map[string]struct {
		err  error
		want picture.OutcomeKind
	}{
		"done":               {nil, picture.Done},
		"not found":          {apierrors.NewNotFound(pods, "a"), picture.Missing},
		"another UID":        {apierrors.NewConflict(pods, "a", errors.New("uid")), picture.Missing},
		"invalid":            {apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "a", nil), picture.Refused},
		"forbidden":          {apierrors.NewForbidden(pods, "a", errors.New("quota")), picture.Refused},
		"too many":           {apierrors.NewTooManyRequests("", 1), picture.Temporary},
		"an expired token":   {apierrors.NewUnauthorized("expired"), picture.Temporary},
		"a fault of its own": {apierrors.NewInternalError(errors.New("x")), picture.Temporary},
		"no connection":      {errors.New("connection refused"), picture.Temporary},
	} {
		if got := outcomeOf(c.err).Kind; got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestTheEndOfALogIsKept(t *testing.T) {
	text := strings.Repeat("0123456789", 10_000)
	for limit, want := range map[int64]string{5: "56789", 100_000: text, 1_000_000: text} {
		got, err := lastOf(strings.NewReader(text), limit)
		if err != nil || string(got.GetHead())+string(got.GetTail()) != want || got.GetSize() != 100_000 || got.GetSkipped() != int64(100_000-len(want)) {
			t.Errorf("%d: %d bytes, size %d, skipped %d, %v", limit, len(got.GetHead())+len(got.GetTail()), got.GetSize(), got.GetSkipped(), err)
		}
	}
	if _, err := lastOf(io.MultiReader(strings.NewReader("a"), failing{}), 10); err == nil {
		t.Error("a log that breaks off is not complete")
	}
}

// failing is a stream that breaks off.
type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
