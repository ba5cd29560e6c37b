package agent

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/node/cgroup"
	"github.com/weirhq/weir/internal/node/gpu"
	"github.com/weirhq/weir/internal/node/jobproxy"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/resource"
)

// newGPUNode returns an agent with four fake devices, two on each socket.
func newGPUNode() *Agent {
	a := newNode(1000)
	a.limits[resource.GPU] = 4
	a.Options.GPUs = GPUs{Inventory: *gpu.Fake(4)}
	a.gpus = newGPUState(4)
	a.Options.Description = &nodev1.NodeDescription{Name: "n"}
	a.Driver, _ = cgroup.NewProcessLimits("weir")
	a.session = nodeproto.NewNodeSession(a.Options.Description, 1, nil)
	return a
}

// give gives GPUs to a new job.
func (a *Agent) give(t *testing.T, count int64) (*job, *jobproxy.Description) {
	t.Helper()
	j := a.add(1, 1, 1)
	j.given[resource.GPU] = count
	j.identity.JobId = "job-" + string(rune('0'+j.number))
	d := &jobproxy.Description{}
	if err := a.giveGPUs(j, d); err != nil {
		t.Fatal(err)
	}
	return j, d
}

func TestEachGPUHasOneJob(t *testing.T) {
	a := newGPUNode()
	first, d := a.give(t, 1)
	if !slices.Equal(d.GPUs.IDs, []string{"GPU-fake-0"}) || len(d.GPUs.Files) != 2 || len(d.GPUs.Others) != 3 {
		t.Errorf("the first job: %+v", d.GPUs)
	}
	if _, d := a.give(t, 2); !slices.Equal(d.GPUs.IDs, []string{"GPU-fake-2", "GPU-fake-3"}) {
		t.Errorf("two devices of one socket: %v", d.GPUs.IDs)
	}
	if _, d := a.give(t, 0); len(d.GPUs.IDs) != 0 || len(d.GPUs.Files) != 0 || len(d.GPUs.Others) != 5 {
		t.Errorf("a job without GPUs: %+v", d.GPUs)
	}
	late := a.add(1, 1, 1)
	late.given[resource.GPU] = 2
	if err := a.giveGPUs(late, &jobproxy.Description{}); !errors.Is(err, errNoGPU) {
		t.Errorf("two of the one that is left: %v", err)
	}
	a.finish(first, &nodev1.JobResult{Number: first.number, Identity: first.identity})
	if err := a.giveGPUs(late, d); err != nil || !slices.Equal(late.gpus, []string{"GPU-fake-0", "GPU-fake-1"}) {
		t.Errorf("after a job has ended: %v, %v", late.gpus, err)
	}
}

func TestAnAgentThatRestartsKnowsWhoHasWhichGPU(t *testing.T) {
	a := newGPUNode()
	j := a.add(1, 1, 1)
	a.keepGPUs(j, &jobproxy.Description{GPUs: &jobproxy.GPUs{IDs: []string{"GPU-fake-1"}}})
	if _, d := a.give(t, 2); !slices.Equal(d.GPUs.IDs, []string{"GPU-fake-2", "GPU-fake-3"}) {
		t.Errorf("another job got %v", d.GPUs.IDs)
	}
	if _, d := a.give(t, 1); !slices.Equal(d.GPUs.IDs, []string{"GPU-fake-0"}) {
		t.Errorf("and another one %v", d.GPUs.IDs)
	}
}

func TestAGPUOnWhichACheckFailedIsSetAside(t *testing.T) {
	a := newGPUNode()
	j, _ := a.give(t, 2)
	a.finish(j, &nodev1.JobResult{Number: j.number, Identity: j.identity, AbortReason: jobproxy.GPUCheckFailed})
	if got := a.status.GetLimits().GetGpu(); got != 2 || a.status.GetAlerts()[0] != "gpu_unhealthy: GPU-fake-0 gets no jobs: the check of job job-1 failed on it" {
		t.Errorf("%d GPUs are offered; alerts %q", got, a.status.GetAlerts())
	}
	well := map[string]gpu.Reading{}
	for _, device := range a.GPUs.Devices {
		well[device.ID] = gpu.Reading{}
	}
	a.judgeGPUs(a.gpus.taken, well, nil)
	if got := a.status.GetLimits().GetGpu(); got != 2 {
		t.Errorf("after a reading without complaints %d GPUs are offered", got)
	}
	a.takeGPUsBack(time.Now().Add(asideFor))
	a.tellNode()
	if got := a.status.GetLimits().GetGpu(); got != 4 {
		t.Errorf("after a while %d GPUs are offered", got)
	}
}

func TestAnUnwellGPUGetsNoJobsAndIsTold(t *testing.T) {
	a := newGPUNode()
	running, _ := a.give(t, 1)
	well := func() map[string]gpu.Reading {
		readings := map[string]gpu.Reading{}
		for _, device := range a.GPUs.Devices {
			readings[device.ID] = gpu.Reading{Utilization: 50, MemoryUsed: 1, MemoryTotal: 2}
		}
		return readings
	}
	readings := well()
	readings["GPU-fake-0"] = gpu.Reading{Fault: "2 uncorrected memory errors"} // its job goes on
	readings["GPU-fake-1"] = gpu.Reading{Processes: []int{4711}}
	delete(readings, "GPU-fake-2")
	a.judgeGPUs(slices.Clone(a.gpus.taken), readings, nil)
	if got := a.status.GetLimits().GetGpu(); got != 1 {
		t.Errorf("%d GPUs are offered, one is well", got)
	}
	for i, want := range []string{
		"gpu_unhealthy: GPU-fake-0 gets no jobs: 2 uncorrected memory errors",
		"gpu_unhealthy: GPU-fake-1 gets no jobs: process 4711, which belongs to no job, uses it",
		"gpu_unhealthy: GPU-fake-2 gets no jobs: it is missing",
	} {
		if got := a.status.GetAlerts()[i]; got != want {
			t.Errorf("alert %q, want %q", got, want)
		}
	}
	if g := a.status.GetGpus()[0]; g.GetJobId() != running.identity.GetJobId() || g.GetFault() == "" || running.result != nil {
		t.Errorf("the device of the running job: %v", g)
	}
	if _, d := a.give(t, 1); d.GPUs.IDs[0] != "GPU-fake-3" {
		t.Errorf("a job got %v", d.GPUs.IDs)
	}

	// A process on a device whose job ended while the tool ran is that job's.
	readings = well()
	readings["GPU-fake-0"] = gpu.Reading{Processes: []int{5}}
	before := slices.Clone(a.gpus.taken)
	a.finish(running, &nodev1.JobResult{Number: running.number, Identity: running.identity})
	a.judgeGPUs(before, readings, nil)
	if got := a.status.GetLimits().GetGpu(); got != 4 || len(a.status.GetAlerts()) != 0 {
		t.Errorf("%d GPUs are offered, all are well; alerts %q", got, a.status.GetAlerts())
	}
	a.judgeGPUs(a.gpus.taken, nil, errors.New("nvidia-smi did not answer"))
	if got := a.status.GetLimits().GetGpu(); got != 0 || !strings.Contains(a.status.GetAlerts()[3], "nvidia-smi did not answer") {
		t.Errorf("%d GPUs are offered, and nobody knows their state; alerts %q", got, a.status.GetAlerts())
	}
}
