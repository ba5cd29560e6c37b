package jobproxy

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/node/cgroup"
	"github.com/weirhq/weir/internal/node/jobinit"
	"github.com/weirhq/weir/test/expected"
)

// BenchmarkJob measures a job that does nothing, from the launch of its proxy to its result and
// removal.
func BenchmarkJob(b *testing.B) {
	driver, err := cgroup.Detect("weir-bench")
	if err != nil {
		b.Skipf("NO CONTROL GROUPS HERE: %v", err)
	}
	n := &node{root: b.TempDir(), driver: driver}
	defer driver.Close()
	var exec time.Duration
	for b.Loop() {
		dir, err := Launch([]string{proxyProgram}, n.root, n.description("true"))
		if err != nil {
			b.Fatal(err)
		}
		c, err := Attach(dir)
		if err != nil {
			b.Fatal(err)
		}
		if err := c.Watch(); err != nil {
			b.Fatal(err)
		}
		for {
			if _, err := c.Next(); err != nil {
				break
			}
		}
		c.Close()
		r, err := Recover(b.Context(), dir, driver)
		if err != nil || r.Outcome != Completed {
			b.Fatal(r, err)
		}
		exec += r.Timings.ExecFinished.Sub(r.Timings.ProxyStarted)
		if err := Remove(b.Context(), dir, driver); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(exec.Microseconds())/1000/float64(b.N), "ms-to-exit/op")
}

// BenchmarkUsage measures one reading of a container's usage.
func BenchmarkUsage(b *testing.B) {
	driver, err := cgroup.Detect("weir-bench")
	if err != nil {
		b.Skipf("NO CONTROL GROUPS HERE: %v", err)
	}
	defer driver.Close()
	c, err := driver.Create("usage", cgroup.Limits{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Remove()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Usage(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSupervisedJobs is the way of jobs that do nothing through a supervisor, fully isolated, eight at a time, from
// their launch to the removal of their directories. It reports the CPU time of the supervisor, of the inits and of the
// commands for each job, and, apart, that of the launching process, which is the agent's part.
func BenchmarkSupervisedJobs(b *testing.B) {
	for _, level := range []jobinit.Level{jobinit.Full, jobinit.None} {
		b.Run(level.String(), func(b *testing.B) { benchmarkSupervised(b, level) })
	}
}

func benchmarkSupervised(b *testing.B, level jobinit.Level) {
	driver, err := cgroup.Detect("weir-bench")
	if err != nil {
		b.Skipf("NO CONTROL GROUPS HERE: %v", err)
	}
	defer driver.Close()
	directory := b.TempDir()
	n := &node{root: filepath.Join(directory, jobsDir), driver: driver}
	if err := os.Mkdir(n.root, 0o711); err != nil {
		b.Fatal(err)
	}
	n.supervisor = NewSupervisor(directory, []string{supervisorProgram, initProgram})
	defer n.supervisor.Close()
	if err := n.supervisor.Ensure(b.Context()); err != nil {
		b.Fatal(err)
	}
	one := func(i int) error {
		job := n.description("true")
		if level == jobinit.Full {
			job = n.isolated("true")
			job.Credential.UID += uint32(i)
		}
		dir, err := n.supervisor.Launch(b.Context(), job)
		if err != nil {
			return err
		}
		if c, err := Attach(dir); err == nil {
			if err := c.Watch(); err == nil {
				for err == nil {
					_, err = c.Next()
				}
			}
			c.Close()
		}
		r, err := Recover(b.Context(), dir, driver)
		if err == nil && r.Outcome != Completed {
			err = fmt.Errorf("%s: %w", r.Outcome, r.Error)
		}
		return errors.Join(err, os.RemoveAll(dir))
	}
	if err := one(0); err != nil {
		b.Fatal(err)
	}
	supervisor := supervisorOf(b, directory)
	theirs, ours := timesWithChildren(b, supervisor), timesWithChildren(b, os.Getpid())
	alone := timesAlone(b, supervisor)
	const atOnce = 8
	b.ResetTimer()
	var workers sync.WaitGroup
	var next atomic.Int64
	for w := range atOnce {
		workers.Go(func() {
			for next.Add(1) <= int64(b.N) {
				if err := one(w); err != nil {
					b.Error(err)
				}
			}
		})
	}
	workers.Wait()
	b.StopTimer()
	b.ReportMetric(float64(timesWithChildren(b, supervisor)-theirs)/1e6/float64(b.N), "CPU-ms/job")
	b.ReportMetric(float64(timesAlone(b, supervisor)-alone)/1e6/float64(b.N), "supervisor-CPU-ms/job")
	b.ReportMetric(float64(timesWithChildren(b, os.Getpid())-ours)/1e6/float64(b.N), "agent-CPU-ms/job")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}

// BenchmarkSleepingJobs reports the private memory of supervisor and inits for each of a hundred jobs that sleep.
func BenchmarkSleepingJobs(b *testing.B) {
	driver, err := cgroup.Detect("weir-bench")
	if err != nil {
		b.Skipf("NO CONTROL GROUPS HERE: %v", err)
	}
	defer driver.Close()
	directory := b.TempDir()
	n := &node{root: filepath.Join(directory, jobsDir), driver: driver}
	if err := os.Mkdir(n.root, 0o711); err != nil {
		b.Fatal(err)
	}
	n.supervisor = NewSupervisor(directory, []string{supervisorProgram, initProgram})
	defer n.supervisor.Close()
	const jobs = 100
	for b.Loop() {
		var dirs []string
		var inits []int
		for i := range jobs {
			job := n.isolated("exec sleep 1000")
			job.Credential.UID += uint32(i)
			dir, err := n.supervisor.Launch(b.Context(), job)
			if err != nil {
				b.Fatal(err)
			}
			dirs = append(dirs, dir)
		}
		for _, dir := range dirs {
			var state *State
			if !expected.Soon(func() bool {
				var err error
				state, err = ReadState(dir)
				return err == nil && state.Phase == Running
			}) {
				b.Fatal("a job does not start")
			}
			inits = append(inits, state.InitPID)
		}
		private := privateMemory(b, supervisorOf(b, directory))
		b.ReportMetric(float64(private)/jobs/mib, "supervisor-MiB/job")
		for _, init := range inits {
			private += privateMemory(b, init)
		}
		b.ReportMetric(float64(private)/jobs/mib, "MiB/job")
		for _, dir := range dirs {
			c, err := Attach(dir)
			if err == nil {
				_, err = c.Do(Order{Command: Abort, Reason: OtherReason}, time.Minute)
				c.Close()
			}
			if err != nil {
				b.Error(err)
			}
			if err := Remove(b.Context(), dir, driver); err != nil {
				b.Error(err)
			}
		}
	}
}

// supervisorOf finds the supervisor of a node by its arguments.
func supervisorOf(b *testing.B, directory string) int {
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, process := range processes {
		command, _ := os.ReadFile(process + "/cmdline")
		if strings.HasSuffix(strings.TrimSuffix(string(command), "\x00"), "\x00"+directory) {
			pid, _ := strconv.Atoi(filepath.Base(process))
			return pid
		}
	}
	b.Fatal("there is no supervisor")
	return 0
}

// timesWithChildren is the CPU time of a process and of the children that it has waited for, with theirs.
func timesWithChildren(b *testing.B, pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	var ticks int64
	for _, field := range fields[11:15] {
		value, _ := strconv.ParseInt(field, 10, 64)
		ticks += value
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// timesAlone is the CPU time of a process without its children.
func timesAlone(b *testing.B, pid int) time.Duration {
	user, system, err := cgroup.TimesOf(pid)
	if err != nil {
		b.Fatal(err)
	}
	return user + system
}

// privateMemory is what a process has alone.
func privateMemory(b *testing.B, pid int) (sum int64) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) > 1 && (fields[0] == "Private_Clean:" || fields[0] == "Private_Dirty:") {
			kilobytes, _ := strconv.ParseInt(fields[1], 10, 64)
			sum += kilobytes << 10
		}
	}
	return sum
}
