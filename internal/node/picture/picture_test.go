package picture

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/resource"
)

// world is a picture with a scheduler that only keeps its end of the sessions, and an API server that carries out what a
// test lets it.
type world struct {
	*testing.T
	*Picture
	now      time.Time
	sessions map[string]*nodeproto.Session
	opened   uint64 // sessions
	writes   []Write
	results  map[uint64]*nodev1.JobResult
	made     int   // pods
	silent   bool  // the scheduler does not answer
	shop     *shop // answers about pods of others; nil: nobody does
}

func options() Options {
	return Options{
		Epoch: 7, Namespace: "weir-jobs", DefaultImage: "default", InitImage: "weir", ServiceAccount: "weir-job", TagLabels: []string{"zone"},
		GPUResources: []string{"nvidia.com/gpu"}, LostAfter: 5 * time.Minute, Random: func() float64 { return 0 },
	}
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, now: time.Unix(1_000_000, 0), sessions: map[string]*nodeproto.Session{}, results: map[uint64]*nodev1.JobResult{}}
	w.Picture = New(options(), w.now)
	return w
}

// settled is a world with one node that is past its first seconds.
func settled(t *testing.T) *world {
	w := newWorld(t)
	w.NodeSeen(w.now, machine("n1", "4", "8Gi"))
	w.Synced(w.now)
	w.pass(settle)
	return w
}

func machine(name, cpu, memory string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": "a", "other": "b"}},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{"cpu": apiresource.MustParse(cpu), "memory": apiresource.MustParse(memory), "pods": apiresource.MustParse("110")},
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

// pass lets time pass, in small steps.
func (w *world) pass(d time.Duration) {
	w.Helper()
	for end := w.now.Add(d); w.now.Before(end); {
		step := min(TickPeriod, end.Sub(w.now))
		w.now = w.now.Add(step)
		w.Tick(w.now)
		w.settle()
	}
	w.settle()
}

// settle carries out calls of the scheduler until there are none.
func (w *world) settle() {
	w.Helper()
	for range 100 {
		effects := w.Take(w.now)
		w.writes = append(w.writes, effects.Writes...)
		answered := w.shop != nil && w.shop.answer(w, &effects)
		if answered && len(effects.Calls) == 0 {
			continue
		}
		if len(effects.Calls) == 0 || w.silent {
			if len(w.hot) == 0 || w.silent {
				return
			}
			w.now = w.now.Add(changePause)
			continue
		}
		for _, c := range effects.Calls {
			w.answer(&c)
		}
	}
}

func (w *world) answer(c *Call) {
	w.Helper()
	if r := c.Register; r != nil {
		w.opened++
		session, err := nodeproto.NewSession(nodeproto.SessionID{Epoch: w.options.Epoch, Number: w.opened}, r, 0)
		if err != nil {
			w.Fatal(err)
		}
		w.sessions[c.Node] = session
		w.Registered(w.now, r, session.Registered(nodeproto.DefaultSettings(), "default"), nil)
		return
	}
	session := w.sessions[c.Node]
	report, err := session.Receive(c.Heartbeat)
	if err != nil {
		w.Fatal(err)
	}
	for _, result := range report.Finished {
		if w.results[result.GetNumber()] != nil {
			w.Errorf("job %d has two results", result.GetNumber())
		}
		w.results[result.GetNumber()] = result
	}
	if session.IsIdle() && len(report.Finished) == 0 && len(report.Jobs) == 0 && report.Node == nil {
		return // held
	}
	w.Reported(w.now, c.Heartbeat, session.Respond(c.Heartbeat.GetSequence(), nodeproto.Answer{Holds: true}), nil)
}

func identity(number uint64) *nodev1.JobIdentity {
	var amounts resource.Amounts
	amounts[resource.CPU], amounts[resource.Memory], amounts[resource.UserSlots] = 100, 1<<30, 1
	return &nodev1.JobIdentity{
		Number: number, Operation: 1, OperationId: "1-2-3-4", TaskName: "main", JobId: fmt.Sprint("job-", number), TreeName: "default",
		Resources: nodeproto.ToAmounts(amounts), Reserve: &nodev1.MemoryReserve{UserJob: 800 << 20, Footprint: 128 << 20}, Proof: []byte("proof"),
	}
}

func spec() *nodev1.JobSpec {
	return &nodev1.JobSpec{Command: "echo $(hostname) $$", MemoryLimit: 2 << 30, CpuLimit: 100, MaxStderrSize: 1000}
}

// order has the scheduler order something at the node's next heartbeat.
func (w *world) order(node string, give func(*nodeproto.Session)) {
	w.Helper()
	w.silent = false
	give(w.sessions[node])
	w.hurry(w.now, w.nodes[node])
	w.pass(changePause)
}

func (w *world) start(number uint64) {
	w.Helper()
	w.order("n1", func(s *nodeproto.Session) {
		if err := s.Start(identity(number), spec(), []*nodev1.Variable{{Name: poolVariable, Value: "research"}}, nil); err != nil {
			w.Fatal(err)
		}
	})
}

// took returns the only write that waits, which must be of a kind.
func (w *world) took(kind WriteKind) *Write {
	w.Helper()
	if len(w.writes) != 1 || w.writes[0].Kind != kind {
		w.Fatalf("writes: %v, want one %v", w.kinds(), kind)
	}
	write := w.writes[0]
	w.writes = nil
	return &write
}

func (w *world) kinds() (list []string) {
	for i := range w.writes {
		list = append(list, w.writes[i].Kind.String())
	}
	return list
}

// created answers a create.
func (w *world) created(write *Write) *corev1.Pod {
	w.made++
	pod := write.Pod.DeepCopy()
	pod.UID = types.UID(fmt.Sprint("uid-", w.made))
	pod.CreationTimestamp = metav1.NewTime(w.now)
	w.Written(w.now, write, &Outcome{Kind: Done, Pod: pod})
	w.settle()
	return pod
}

func (w *world) done(write *Write) {
	w.Written(w.now, write, &Outcome{Kind: Done})
	w.settle()
}

func (w *world) see(pod *corev1.Pod) {
	w.PodSeen(w.now, pod)
	w.settle()
}

// running starts a job and has its container run.
func (w *world) running(number uint64) *corev1.Pod {
	w.Helper()
	w.start(number)
	pod := w.created(w.took(Create)).DeepCopy()
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: Container, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(w.now)}}}}
	w.see(pod)
	return pod
}

// over returns a pod whose container has ended.
func over(pod *corev1.Pod, code int32, message string) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Status.Phase = corev1.PodSucceeded
	if code != 0 {
		pod.Status.Phase = corev1.PodFailed
	}
	started := pod.Status.ContainerStatuses[0].State.Running.StartedAt
	pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: code, Message: message, StartedAt: started, FinishedAt: metav1.NewTime(started.Add(time.Second)),
	}}
	return pod
}

func (w *world) acknowledge(number uint64) {
	w.Helper()
	w.order("n1", func(s *nodeproto.Session) { s.Acknowledge(number) })
}

func (w *world) result(number uint64) string {
	w.Helper()
	r := w.results[number]
	if r == nil {
		return "none"
	}
	return strings.TrimSuffix(strings.ToLower(strings.TrimPrefix(r.GetState().String(), "JOB_STATE_"))+" "+r.GetAbortReason(), " ")
}

func TestAJobIsOnePodFromItsOrderToTheAcknowledgementOfItsResult(t *testing.T) {
	w := settled(t)
	pod := w.running(1)
	if pod.Name != "weir-0000000000001" || pod.Spec.NodeName != "n1" || pod.Namespace != "weir-jobs" || pod.Labels[LabelPool] != "research" {
		t.Errorf("%+v", pod.ObjectMeta)
	}
	w.see(over(pod, 0, `{"exit_code": 0, "signal": 0, "user_time_us": 5000, "max_memory_bytes": 77}`))
	log := w.took(ReadLog)
	if w.result(1) != "none" || log.Limit != 1000 {
		t.Errorf("the output is read before the result is reported: %v, %d", w.result(1), log.Limit)
	}
	w.Written(w.now, log, &Outcome{Kind: Done, Output: &nodev1.Output{Head: []byte("hello")}})
	w.settle()
	if r := w.results[1]; w.result(1) != "completed" || string(r.GetStderr().GetHead()) != "hello" || !r.GetStarted() {
		t.Errorf("%v", r)
	}
	w.pass(time.Minute)
	if len(w.writes) != 0 {
		t.Errorf("the pod stays until its result is durable: %v", w.kinds())
	}
	w.acknowledge(1)
	w.done(w.took(Release))
	w.done(w.took(Delete))
	w.PodGone(w.now, pod)
	if len(w.jobs) != 0 || len(w.Picture.uids) != 0 {
		t.Errorf("%d jobs, %d pods are left", len(w.jobs), len(w.Picture.uids))
	}
}
