package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/weirhq/weir/internal/node/gpu"
	"github.com/weirhq/weir/internal/node/jobproxy"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/resource"
)

// GPUs are the devices of the node and how their state is read. Without devices, jobs that ask for GPUs get none.
type GPUs struct {
	gpu.Inventory
	Reader gpu.Reader    // unset: nobody reads their state
	Period time.Duration // between two readings
}

// readPatience is how long a reading may take.
const readPatience = 10 * time.Second

// gpuState is what the loop knows about the node's GPUs, each by its index.
type gpuState struct {
	jobs   []uint64 // the number of the job that has the device
	taken  []bool
	faults []string // why jobs must not use the device; empty if it is well
	// aside is until when a device gets no jobs because the check of a job failed on it.
	aside    []time.Time
	readings []gpu.Reading
	reading  bool
	next     time.Time // when the next reading is due
}

func newGPUState(count int) gpuState {
	s := gpuState{jobs: make([]uint64, count), taken: make([]bool, count), faults: make([]string, count), aside: make([]time.Time, count), readings: make([]gpu.Reading, count)}
	for i := range s.readings {
		s.readings[i].Utilization = -1
	}
	return s
}

// errNoGPU means that the node has fewer free GPUs than the scheduler counts.
var errNoGPU = errors.New("no GPU is free for the job")

// giveGPUs picks devices for a job and completes its description, which is stored before the job starts.
func (a *Agent) giveGPUs(j *job, d *jobproxy.Description) error {
	if len(a.GPUs.Devices) == 0 && len(a.GPUs.Spare) == 0 {
		return nil
	}
	s := &a.gpus
	isFree := func(i int) bool { return !s.taken[i] && s.faults[i] == "" }
	chosen, ok := gpu.Choose(a.GPUs.Devices, isFree, int(j.given[resource.GPU]))
	if !ok {
		return fmt.Errorf("%w: it needs %d of the node's %d", errNoGPU, j.given[resource.GPU], len(a.GPUs.Devices))
	}
	d.GPUs = &jobproxy.GPUs{IDs: []string{}, Others: slices.Clone(a.GPUs.Spare)}
	for i, device := range a.GPUs.Devices {
		if slices.Contains(chosen, i) {
			s.taken[i], s.jobs[i] = true, j.number
			j.gpus = append(j.gpus, device.ID)
			d.GPUs.IDs = append(d.GPUs.IDs, device.ID)
			d.GPUs.Files = addNew(d.GPUs.Files, device.Files)
			d.GPUs.Mounts = addNew(d.GPUs.Mounts, device.Mounts)
			d.GPUs.Variables = addNew(d.GPUs.Variables, device.Variables)
		} else {
			d.GPUs.Others = addNew(d.GPUs.Others, device.Files)
		}
	}
	// Instances of one GPU have files in common.
	d.GPUs.Others = slices.DeleteFunc(d.GPUs.Others, func(f gpu.File) bool { return f.Source == "" && slices.Contains(d.GPUs.Files, f) })
	if len(chosen) > 0 {
		d.GPUs.Files = addNew(d.GPUs.Files, a.GPUs.Shared)
	} else {
		d.GPUs.Others = append(d.GPUs.Others, a.GPUs.Shared...)
	}
	return nil
}

// addNew appends what a list does not have yet.
func addNew[T comparable](list, more []T) []T {
	for _, one := range more {
		if !slices.Contains(list, one) {
			list = append(list, one)
		}
	}
	return list
}

// keepGPUs gives a job of an earlier incarnation of the agent the devices that it has.
func (a *Agent) keepGPUs(j *job, d *jobproxy.Description) {
	if d.GPUs == nil {
		return
	}
	j.gpus = d.GPUs.IDs
	for i, device := range a.GPUs.Devices {
		if slices.Contains(j.gpus, device.ID) {
			a.gpus.taken[i], a.gpus.jobs[i] = true, j.number
		}
	}
}

// freeGPUs takes the devices of a job back. Its processes have ended.
func (a *Agent) freeGPUs(j *job) {
	for i := range a.gpus.jobs {
		if a.gpus.taken[i] && a.gpus.jobs[i] == j.number {
			a.gpus.taken[i], a.gpus.jobs[i] = false, 0
		}
	}
}

// asideFor is how long a GPU gets no jobs after the check of a job failed on it.
const asideFor = 10 * time.Minute

// setGPUsAside keeps the devices of a job, whose check of them failed, from other jobs for a while.
func (a *Agent) setGPUsAside(j *job, now time.Time) {
	for i := range a.gpus.jobs {
		if a.gpus.taken[i] && a.gpus.jobs[i] == j.number {
			a.gpus.aside[i], a.gpus.faults[i] = now.Add(asideFor), "the check of job "+j.identity.GetJobId()+" failed on it"
			a.Log.Warn("a GPU is set aside", "gpu", a.GPUs.Devices[i].ID, "reason", a.gpus.faults[i])
		}
	}
}

// takeGPUsBack offers devices again that nobody but a failed check complained about.
func (a *Agent) takeGPUsBack(now time.Time) {
	for i, until := range a.gpus.aside {
		if !until.IsZero() && !now.Before(until) {
			a.gpus.aside[i], a.gpus.faults[i] = time.Time{}, "" // the next reading knows better
			a.Log.Info("a GPU is offered again", "gpu", a.GPUs.Devices[i].ID)
		}
	}
}

// gpuLimit is how many GPUs the scheduler may give to jobs: those that are well.
func (a *Agent) gpuLimit() (count int64) {
	if len(a.GPUs.Devices) == 0 {
		return a.limits[resource.GPU]
	}
	for _, fault := range a.gpus.faults {
		if fault == "" {
			count++
		}
	}
	return count
}

// checkGPUs reads the state of the devices if it is time, outside the loop.
func (a *Agent) checkGPUs(now time.Time) {
	s := &a.gpus
	a.takeGPUsBack(now)
	if a.GPUs.Reader == nil || len(a.GPUs.Devices) == 0 || s.reading || now.Before(s.next) {
		return
	}
	s.reading, s.next = true, now.Add(a.GPUs.Period)
	before := slices.Clone(s.taken)
	a.work(func() {
		ctx, cancel := context.WithTimeout(a.ctx, readPatience)
		defer cancel()
		readings, err := a.GPUs.Reader.Read(ctx)
		a.post(func() {
			s.reading = false
			if a.ctx.Err() == nil {
				a.judgeGPUs(before, readings, err)
			}
		})
	})
}

// judgeGPUs applies readings. taken says which devices had a job when the reading began. If the state cannot be read,
// every device is suspect.
func (a *Agent) judgeGPUs(taken []bool, readings map[string]gpu.Reading, err error) {
	s := &a.gpus
	changed := false
	for i, device := range a.GPUs.Devices {
		r, found := readings[device.Reported()]
		if device.Parent != "" { // the reading is that of all instances together
			r.Utilization, r.MemoryUsed, r.MemoryTotal, r.Processes = -1, 0, device.Memory, nil
		}
		fault := r.Fault
		switch {
		case err != nil:
			fault = "its state cannot be read: " + err.Error()
		case !found:
			fault = "it is missing"
		case fault == "" && len(r.Processes) > 0 && !taken[i] && !s.taken[i]:
			fault = "process " + strconv.Itoa(r.Processes[0]) + ", which belongs to no job, uses it"
		}
		if err != nil || !found {
			r.Utilization = -1
		}
		if fault == "" && !s.aside[i].IsZero() {
			fault = s.faults[i]
		}
		s.readings[i] = r
		if fault != s.faults[i] {
			changed = true
			if s.faults[i] = fault; fault == "" {
				a.Log.Info("a GPU is well again", "gpu", device.ID)
			} else {
				a.Log.Warn("a GPU is unwell and gets no jobs", "gpu", device.ID, "reason", fault)
			}
		}
	}
	if changed {
		a.admit()
	}
	a.tellNode()
}

// gpuAlerts says which devices get no jobs, and why.
func (a *Agent) gpuAlerts() (alerts []string) {
	for i, fault := range a.gpus.faults {
		if fault != "" {
			alerts = append(alerts, "gpu_unhealthy: "+a.GPUs.Devices[i].ID+" gets no jobs: "+fault)
		}
	}
	return alerts
}

// gpuMessages describe the devices to the scheduler.
func (a *Agent) gpuMessages() (list []*nodev1.Gpu) {
	for i, device := range a.GPUs.Devices {
		r := &a.gpus.readings[i]
		message := &nodev1.Gpu{
			Id: device.ID, Model: device.Model, Memory: max(device.Memory, r.MemoryTotal), MemoryInUse: r.MemoryUsed,
			Utilization: r.Utilization, Fault: a.gpus.faults[i],
		}
		if a.gpus.taken[i] {
			if j := a.jobs[a.gpus.jobs[i]]; j != nil {
				message.JobId = j.identity.GetJobId()
			}
		}
		list = append(list, message)
	}
	return list
}
