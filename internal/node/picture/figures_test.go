package picture

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"

	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
)

// reading is what a kubelet says about a node with pods, in the words of /stats/summary.
func (w *world) reading(available int64, pods ...string) *Summary {
	w.Helper()
	text := fmt.Sprintf(`{"node": {"memory": {"availableBytes": %d, "workingSetBytes": 1000}}, "pods": [%s]}`, available, strings.Join(pods, ", "))
	s := &Summary{}
	if err := json.Unmarshal([]byte(text), s); err != nil {
		w.Fatal(err)
	}
	return s
}

func (w *world) podReading(pod *corev1.Pod, cpu time.Duration, memory int64) string {
	return fmt.Sprintf(`{"podRef": {"name": %q, "uid": %q}, "containers": [{"name": "job", "cpu": {"time": %q, "usageCoreNanoSeconds": %d}, "memory": {"workingSetBytes": %d}}]}`,
		pod.Name, pod.UID, w.now.Format(time.RFC3339Nano), cpu.Nanoseconds(), memory)
}

func listening(w *world) {
	node := machine("n1", "4", "8Gi")
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.7"}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = 10250
	w.NodeSeen(w.now, node)
	w.settle()
}

// status is what the scheduler knows of a job.
func (w *world) status(number uint64) *nodev1.JobStatus { return w.statusOf(w.jobs[number], false) }

func TestKubeletsOfNodesWithJobsAreAskedEveryTenSeconds(t *testing.T) {
	w := settled(t)
	listening(w)
	asked := func(d time.Duration) (count int) {
		for end := w.now.Add(d); w.now.Before(end); w.now = w.now.Add(TickPeriod) {
			w.Tick(w.now)
			for _, m := range w.Take(w.now).Measures {
				if count++; m.Address != "10.0.0.7:10250" || m.Node != "n1" {
					t.Errorf("%+v", m)
				}
			}
		}
		return count
	}
	if n := asked(time.Minute); n != 0 {
		t.Errorf("a node without jobs is asked %d times", n)
	}
	w.running(1)
	if n := asked(time.Minute); n < 5 || n > 7 {
		t.Errorf("asked %d times in a minute", n)
	}
}

func TestFiguresOfAKubeletAreTheUseOfJobsAndOfTheNode(t *testing.T) {
	w := settled(t)
	pod := w.running(1)
	w.Measured(w.now, "n1", w.reading(4<<30, w.podReading(pod, time.Second, 300<<20), `{"podRef": {"uid": "unknown"}}`))
	w.settle()
	if s := w.status(1); s.GetUserJobMemory() != 300<<20 || s.GetUsage().GetMemory() != 1<<30 {
		t.Errorf("%v", s)
	}
	w.Measured(w.now, "n1", w.reading(4<<30, w.podReading(pod, time.Second, 3<<29)))
	if s := w.status(1); s.GetUsage().GetMemory() != 3<<29 {
		t.Errorf("a job above its reserve holds what it uses: %v", s)
	}
	if status := w.nodes["n1"].exchange.status; status.GetMemoryAvailable() != 4<<30 || status.GetMemoryInUse() != 1000 {
		t.Errorf("%v", status)
	}
}

// On a node that is almost out of memory one job above its reserve ends: the one that has grown most.
func TestAJobAboveItsReserveEndsWhenTheNodeIsOutOfMemory(t *testing.T) {
	w := settled(t)
	modest, steady, growing := w.running(1), w.running(2), w.running(3)
	all := func(available, third int64) *Summary {
		return w.reading(available, w.podReading(modest, 0, 1<<29), w.podReading(steady, 0, 3<<29), w.podReading(growing, 0, third))
	}
	w.Measured(w.now, "n1", all(1<<30, 5<<28))
	w.settle()
	if len(w.writes) != 0 {
		t.Errorf("there is memory left: %v", w.kinds())
	}
	w.now = w.now.Add(measurePeriod)
	w.Measured(w.now, "n1", all(100<<20, 6<<28))
	w.settle()
	victim := w.took(Delete)
	if victim.Job != 3 {
		t.Errorf("job %d ends", victim.Job)
	}
	w.done(victim)
	ended := over(growing, 137, "")
	w.see(ended)
	w.Written(w.now, w.took(ReadLog), &Outcome{Kind: Done})
	w.settle()
	if w.result(3) != "aborted resource_overdraft" {
		t.Error(w.result(3))
	}
}

// reclaiming starts a job whose CPU may be reclaimed.
func (w *world) reclaiming(number uint64) *corev1.Pod {
	w.Helper()
	w.order("n1", func(s *nodeproto.Session) {
		own := spec()
		own.CpuMonitor = &nodev1.CpuMonitorOptions{
			EnableCpuReclaim: true, CheckPeriodUs: 1e6, StartDelayUs: 1e6, SmoothingFactor: 1, RelativeUpperBound: 0.9, RelativeLowerBound: 0.6,
			IncreaseCoefficient: 1.45, DecreaseCoefficient: 0.5, VoteWindowSize: 2, VoteDecisionThreshold: 1, MinCpuLimit: 0.1,
		}
		if err := s.Start(identity(number), own, nil, nil); err != nil {
			w.Fatal(err)
		}
	})
	pod := w.created(w.took(Create)).DeepCopy()
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: Container, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	pod.Status.ContainerStatuses[0].State.Running.StartedAt.Time = w.now
	w.see(pod)
	return pod
}

// idle lets a job use no CPU for as many readings.
func (w *world) idle(pod *corev1.Pod, readings int) {
	w.Helper()
	for range readings {
		w.now = w.now.Add(measurePeriod)
		w.Measured(w.now, "n1", w.reading(4<<30, w.podReading(pod, time.Millisecond, 0)))
		w.settle()
	}
}

func TestTheCPUOfAnIdleJobIsReclaimedByAResize(t *testing.T) {
	w := settled(t)
	pod := w.reclaiming(1)
	w.idle(pod, 4)
	resize := w.took(Resize)
	if resize.CPU != 50 || resize.UID != pod.UID {
		t.Errorf("%+v", resize)
	}
	if w.status(1).GetUsage().GetCpu() != 100 {
		t.Error("what the node has not given back is still counted")
	}
	w.done(resize)
	smaller := pod.DeepCopy()
	smaller.Spec.Containers[0].Resources.Requests["cpu"] = apiresource.MustParse("500m")
	smaller.Status.ContainerStatuses[0].Resources = pod.Spec.Containers[0].Resources.DeepCopy()
	smaller.Status.ContainerStatuses[0].AllocatedResources = pod.Spec.Containers[0].Resources.Requests.DeepCopy()
	w.see(smaller)
	if got := w.status(1).GetUsage().GetCpu(); got != 100 {
		t.Errorf("the node has not carried it out: %d", got)
	}
	smaller = smaller.DeepCopy()
	smaller.Status.ContainerStatuses[0].Resources.Requests["cpu"] = apiresource.MustParse("500m")
	smaller.Status.ContainerStatuses[0].AllocatedResources["cpu"] = apiresource.MustParse("500m")
	w.see(smaller)
	if got := w.status(1).GetUsage().GetCpu(); got != 50 {
		t.Errorf("%d hundredths", got)
	}
	w.idle(smaller, 2)
	if len(w.writes) != 0 {
		t.Errorf("twice within %v: %v", lowerPause, w.kinds())
	}
}

func TestAPodThatCannotBeResizedKeepsItsCPU(t *testing.T) {
	for name, refuse := range map[string]func(w *world, pod *corev1.Pod, resize *Write){
		"the API server refuses": func(w *world, _ *corev1.Pod, resize *Write) {
			w.Written(w.now, resize, &Outcome{Kind: Refused, Message: "qos"})
		},
		"the node finds it infeasible": func(w *world, pod *corev1.Pod, resize *Write) {
			w.done(resize)
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible}}
			w.see(pod.DeepCopy())
		},
	} {
		w := settled(t)
		pod := w.reclaiming(1)
		w.idle(pod, 4)
		refuse(w, pod, w.took(Resize))
		w.idle(pod, 10)
		if len(w.writes) != 0 || w.status(1).GetUsage().GetCpu() != 100 {
			t.Errorf("%s: %v, %v", name, w.kinds(), w.status(1))
		}
	}
}

func TestAJobAboveItsMemoryLimitFailsWithItsProcesses(t *testing.T) {
	w := settled(t)
	pod := w.running(1)
	w.see(over(pod, 137, `{"exit_code": 137, "signal": 9, "memory_exceeded_bytes": 77, "processes": [{"pid": 5, "memory": 70, "command": "x"}]}`))
	w.Written(w.now, w.took(ReadLog), &Outcome{Kind: Done})
	w.settle()
	r := w.results[1]
	inner := r.GetError().GetInnerErrors()
	if w.result(1) != "failed" || len(inner) != 1 || inner[0].GetCode() != 1200 || !strings.Contains(fmt.Sprint(inner[0].GetAttributes()), `\"pid\": 5`) {
		t.Errorf("%v", r)
	}
}
