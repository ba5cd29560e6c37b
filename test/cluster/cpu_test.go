package cluster

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/node/jobproxy"
	"github.com/weirhq/weir/internal/value/cpumonitor"
	"github.com/weirhq/weir/internal/value/resource"
)

// shares returns the CPU shares of a job's container, in cores.
func (c *cluster) shares(job string) float64 {
	for _, path := range groupsUnder(c.t, c.group) {
		if filepath.Base(path) != job {
			continue
		}
		for file, perCore := range map[string]float64{"cpu.shares": 1024, "cpu.weight": 10000.0 / 256} {
			if text, err := os.ReadFile(filepath.Join(path, file)); err == nil {
				number, _ := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
				return number / perCore
			}
		}
	}
	c.t.Errorf("job %s has no container", job)
	return 0
}

// favour raises the CPU priority of the test's jobs on a busy machine, but not so far that their
// proxies would starve. Such jobs must leave a core free: with a busy thread on each, the kernel's own
// threads did not run for a minute.
func (c *cluster) favour() {
	for _, mount := range cgroupMounts(c.t) {
		for file, most := range map[string]string{"cpu.shares": "16384", "cpu.weight": "1600"} {
			name := filepath.Join(mount, c.group, file)
			if _, err := os.Stat(name); err == nil {
				if err := os.WriteFile(name, []byte(most), 0o600); err != nil {
					c.t.Error(err)
				}
			}
		}
	}
}

// fifo returns a FIFO from which a job reads a line: waiting for it uses no CPU.
func (c *cluster) fifo(name string) (path string) {
	c.t.Helper()
	path = filepath.Join(c.directory, name)
	if err := errors.Join(syscall.Mkfifo(path, 0o666), os.Chmod(path, 0o666)); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// write writes a line to a FIFO.
func write(t testing.TB, fifo string) {
	t.Helper()
	if err := os.WriteFile(fifo, []byte("now\n"), 0); err != nil {
		t.Fatal(err)
	}
}

// halfACore is a command that uses half a core until a file exists, then as much as two threads can
// get.
func halfACore(file string) string {
	return fmt.Sprintf("%s %s & p=$!; while [ ! -e %s ]; do sleep 0.02; done; kill $p; %s & exec %s",
		programs.reference, strings.Repeat("burn=10ms sleep=10ms ", 2000), file, reference("burn=60s"), reference("burn=60s"))
}

// replay feeds the CPU usage in a history to another monitor and returns that monitor's history.
func replay(t *testing.T, options cpumonitor.Options, hard float64, history []jobproxy.CPUCheck) []cpumonitor.Sample {
	t.Helper()
	m, err := cpumonitor.New(options, hard)
	if err != nil {
		t.Fatal(err)
	}
	at := history[0].Time.Add(-options.CheckPeriod)
	var total time.Duration
	m.Observe(at, 0)
	last := hard
	for i, check := range history {
		usage := 0.0 // unknown for the first check, where it does not matter
		if i > 0 {
			usage = (check.Smoothed - (1-options.SmoothingFactor)*last) / options.SmoothingFactor
		}
		last = check.Smoothed
		total += time.Duration(max(0, usage) * float64(check.Time.Sub(at)))
		at = check.Time
		if advice := m.Observe(at, total); advice.Apply {
			m.Applied()
		}
	}
	return m.History(nil)
}

func TestAJobThatUsesLessCPUThanItOrderedShrinksAlongTheDocumentedCurve(t *testing.T) {
	c := newCluster(t)
	n := c.node("{cpu: 4.5, memory: 8GiB, user_slots: 8}")
	c.favour()
	wake := filepath.Join(c.directory, "wake")
	const monitor = "job-cpu-monitor: {enable_cpu_reclaim: true, check_period: 50}"
	id := c.start("{" + monitor + ", " + task("a", halfACore(wake), "cpu_limit: 4")[1:])
	job := c.awaitRunning(id, 1)[0]
	got, onCurve := c.shares(job.ID.String()), false
	for limit := 4.0; limit > 1; limit *= 0.97 { // it may have fallen already
		onCurve = onCurve || math.Abs(got-limit) < 0.02
	}
	if !onCurve {
		t.Errorf("the container begins with a guarantee of %v", got)
	}
	// Another operation does not fit beside the CPU that was requested, but beside the CPU that is
	// used.
	_, waits, open := c.gate("gate")
	other := c.start(task("b", waits, "cpu_limit: 1"))
	var state *jobproxy.State // the proxy remembers only the last checks
	await(t, "the limit has fallen eight times", func() bool {
		state = n.state(job.ID.String())
		return state != nil && len(state.CPUHistory) > 1 && state.CPUHistory[len(state.CPUHistory)-1].Limit < 4*math.Pow(0.97, 7.5)
	})
	c.awaitRunning(other, 1)
	held := c.usage("a")[resource.CPU]
	await(t, "both pools hold what their jobs do", func() bool {
		held = c.usage("a")[resource.CPU]
		return held <= 350 && c.usage("b")[resource.CPU] == 100
	})
	open()
	c.completed(other)
	c.completed(c.start(task("a", "true", "cpu_limit: 1"))) // another operation of the same pool fits too

	options := cpumonitor.DefaultOptions()
	options.EnableReclaim, options.CheckPeriod = true, 50*time.Millisecond
	history := state.CPUHistory
	again := replay(t, options, 4, history)
	limit := 4.0
	for i, check := range history {
		if math.Abs(again[i].Limit-check.Limit) > 1e-6 || again[i].Vote != check.Vote {
			t.Fatalf("check %d: limit %v and vote %d, but the monitor says %v and %d", i+2, check.Limit, check.Vote, again[i].Limit, again[i].Vote)
		}
		if check.Limit != limit && math.Abs(check.Limit-limit*0.97) > 1e-9 {
			t.Errorf("check %d: %v follows %v", i+2, check.Limit, limit)
		}
		limit = check.Limit
	}
	if first := slices.IndexFunc(history, func(s jobproxy.CPUCheck) bool { return s.Limit < 4 }); first < 5 {
		t.Errorf("the first decrease is at check %d: a fresh job is presumed to need what it asked for", first+2)
	}
	await(t, "the container has what the monitor says", func() bool {
		now := n.state(job.ID.String())
		got := c.shares(job.ID.String())
		return now != nil && math.Abs(got-float64(now.CPULimit)/100) < 0.02 && got < 3.5
	})
	await(t, "the scheduler knows", func() bool {
		record, there := c.scheduler.Server.Job(job.ID)
		return there && record.Usage[resource.CPU] < 320 && record.Resources[resource.CPU] == 400 && c.usage("a")[resource.CPU] < 320
	})
}

func TestAJobThatWakesUpGetsItsCPUBack(t *testing.T) {
	c := newCluster(t)
	c.node("{cpu: 4, memory: 8GiB, user_slots: 8}")
	c.favour()
	wake := c.fifo("wake")
	const monitor = "job_cpu_monitor: {enable_cpu_reclaim: true, check_period: 50ms, min_cpu_limit: 0.1, decrease_coefficient: 0.7, smoothing_factor: 0.3}"
	id := c.start("{" + monitor + ", " + task("a", "read line < "+wake+"; exec "+reference("burn=60s"), "cpu_limit: 0.5")[1:])
	job := c.awaitRunning(id, 1)[0]
	usage := func() int64 {
		record, there := c.scheduler.Server.Job(job.ID)
		if !there {
			return -1
		}
		return record.Usage[resource.CPU]
	}
	await(t, "the job is down at the floor", func() bool { return usage() == 10 && c.usage("a")[resource.CPU] == 10 })
	write(t, wake)
	await(t, "the job has its CPU back", func() bool { return usage() == 50 && c.usage("a")[resource.CPU] == 50 })
	if got := c.shares(job.ID.String()); math.Abs(got-0.5) > 0.03 {
		t.Errorf("its container is guaranteed %v", got)
	}
}

func TestWithoutReclaimEverythingIsComputedAndNothingApplied(t *testing.T) {
	c := newCluster(t)
	n := c.node("{cpu: 4.5, memory: 8GiB, user_slots: 8}")
	end := c.fifo("end")
	id := c.start("{job_cpu_monitor: {check_period: 20ms, smoothing_factor: 1}, " + task("a", "read line < "+end, "cpu_limit: 4")[1:])
	job := c.awaitRunning(id, 1)[0]
	other := c.start(task("b", "true", "cpu_limit: 1"))
	await(t, "the monitor has advised less", func() bool {
		state := n.state(job.ID.String())
		return state != nil && len(state.CPUHistory) > 0 && state.CPUHistory[len(state.CPUHistory)-1].Limit < 3.3
	})
	if got := c.shares(job.ID.String()); math.Abs(got-4) > 0.05 {
		t.Errorf("its container is guaranteed %v", got)
	}
	await(t, "the pool holds what its job was given", func() bool { return c.usage("a")[resource.CPU] > 0 })
	if record, there := c.scheduler.Server.Job(job.ID); !there || record.Usage[resource.CPU] != 400 || c.usage("a")[resource.CPU] != 400 {
		t.Error("the scheduler was told")
	}
	if jobs := c.live(other); len(jobs) != 0 {
		t.Error("others were given what was not taken")
	}
	write(t, end)
	_, jobs := c.completed(id)
	if statistic(t, jobs[0], "job_proxy/preemptible_cpu_x100") < 70 || statistic(t, jobs[0], "job_proxy/aggregated_preemptible_cpu_x100") <= 0 ||
		statistic(t, jobs[0], "job_proxy/aggregated_preempted_cpu_x100") != 0 {
		t.Errorf("%s", jobs[0].Statistics)
	}
	c.completed(other)
}
