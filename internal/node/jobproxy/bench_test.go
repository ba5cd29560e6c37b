package jobproxy

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/weirhq/weir/internal/node/cgroup"
	"github.com/weirhq/weir/internal/node/image"
	"github.com/weirhq/weir/internal/node/jobinit"
	"github.com/weirhq/weir/internal/value/imagename"
	"github.com/weirhq/weir/test/expected"
	"github.com/weirhq/weir/test/fakeimage"
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
	b.Run(jobinit.Full.String(), func(b *testing.B) { benchmarkSupervised(b, isolatedFor) })
	b.Run(jobinit.None.String(), func(b *testing.B) {
		benchmarkSupervised(b, func(n *node, _ int) *Description { return n.description("true") })
	})
}

// isolatedFor describes a fully isolated job, with a user of its own for each worker.
func isolatedFor(n *node, worker int) *Description {
	job := n.isolated("true")
	job.Credential.UID += uint32(worker)
	return job
}

// BenchmarkImages compares jobs in an image of twelve layers, which the node has, with jobs that see the programs of the
// machine. Both run the same shell. The part of the process that starts jobs has what it does for the image in it.
func BenchmarkImages(b *testing.B) {
	dash := func(n *node, worker int) *Description {
		job := isolatedFor(n, worker)
		job.Shell = []string{"/bin/sh", "-c"}
		return job
	}
	var layers [][]byte
	for i := range 11 {
		layers = append(layers, fakeimage.Layer(b, fakeimage.Entry{Name: fmt.Sprint("layer/", i)}))
	}
	ready := inImage(b, &Description{}, v1.Config{}, nil, layers...).Image
	cache, err := image.Open(image.Options{Directory: ready.Directory, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	name := imagename.Name{Repository: "test", Tag: "v1", Digest: ready.Digest}
	b.Run("without", func(b *testing.B) { benchmarkSupervised(b, dash) })
	b.Run("12_layers", func(b *testing.B) {
		benchmarkSupervised(b, func(n *node, worker int) *Description {
			job := dash(n, worker)
			if _, err := cache.Prepare(b.Context(), name, job.JobID); err != nil {
				b.Error(err)
			}
			cache.Release(job.JobID)
			job.Image = ready
			return job
		})
	})
}

// benchmarkSupervised runs jobs that describe makes, each for one of eight workers.
func benchmarkSupervised(b *testing.B, describe func(n *node, worker int) *Description) {
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
		dir, err := n.supervisor.Launch(b.Context(), describe(n, i))
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
