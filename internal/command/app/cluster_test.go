package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/command/config"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/node/jobinit"
	"github.com/weirhq/weir/internal/node/jobproxy"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/test/expected"
)

// TestMain makes this program a job proxy, a supervisor or an init when it is started as one, as weir does.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) == 3 && os.Args[1] == ProxyCommand:
		os.Exit(jobproxy.Main(os.Args[2]))
	case len(os.Args) == 3 && os.Args[1] == SupervisorCommand:
		os.Exit(jobproxy.Supervise(os.Args[2], []string{"/proc/self/exe", jobproxy.InitCommand}))
	case len(os.Args) == 2 && os.Args[1] == jobproxy.InitCommand:
		os.Exit(jobinit.Main())
	}
	os.Exit(m.Run())
}

// cluster is a real scheduler and one real node.
type cluster struct {
	t         *testing.T
	scheduler *Scheduler
	directory string
	log       *slog.Logger
	stopNode  func()
	change    func(*config.Config) // settings of the test; nil if it has none
	asks      *client.Client       // see caller
}

func newCluster(t *testing.T, cores, gib int64) *cluster {
	t.Helper()
	c := newScheduler(t, nil)
	c.startNode(cores, gib)
	return c
}

// newScheduler returns a cluster without nodes.
func newScheduler(t *testing.T, change func(*config.Config)) *cluster {
	t.Helper()
	c := &cluster{t: t, directory: t.TempDir(), change: change}
	settings := c.settings()
	s := &settings.Scheduler
	s.Listen, s.DataDir = document.Some("127.0.0.1:0"), document.Some(filepath.Join(c.directory, "scheduler"))
	s.TrustLoopback = document.Some(true)
	s.Periods.FairShareUpdate = document.Some(50 * time.Millisecond)
	s.Periods.OperationsUpdate = document.Some(50 * time.Millisecond)
	s.Nodes.HeartbeatPeriod = document.Some(100 * time.Millisecond)
	s.Leader.LeaseTTL = document.Some(time.Minute) // there is no other server, and the disk may be slow
	c.log = newTestLog(t)
	log := c.log
	scheduler, err := NewScheduler(t.Context(), s, "test", log)
	if err != nil {
		t.Fatal(err)
	}
	c.scheduler = scheduler
	stop := c.run(scheduler.Run)
	t.Cleanup(stop)
	<-scheduler.Server.Led()
	c.pools("{pools: {a: {}, b: {}}}")
	return c
}

// settings are the defaults with the changes of the test.
func (c *cluster) settings() config.Config {
	settings := config.Default()
	if c.change != nil {
		c.change(&settings)
	}
	return settings
}

// newTestLog logs to the test while it runs. Later lines, for instance of a request that did not end in time, are dropped:
// they would end the program.
func newTestLog(t *testing.T) *slog.Logger {
	w := &testWriter{t: t}
	t.Cleanup(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.t = nil
	})
	return slog.New(slog.NewTextHandler(w, nil))
}

type testWriter struct {
	mu sync.Mutex
	t  *testing.T // nil after its end
}

func (w *testWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.t != nil {
		w.t.Logf("%s", strings.TrimSpace(string(p)))
	}
	return len(p), nil
}

// insist repeats a request while the scheduler refuses it because the disk is too slow. A refused request has no effect.
func insist(t *testing.T, request func() error) {
	t.Helper()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := request()
		if err == nil {
			return
		}
		if !errors.Is(err, server.ErrOverloaded) {
			t.Fatal(err)
		}
		<-ticker.C
	}
}

// run starts a function that runs until its context is cancelled, and returns a function that ends it.
func (c *cluster) run(f func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	stopped := false
	return func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			c.t.Error(err)
		}
	}
}

func (c *cluster) startNode(cores, gib int64) {
	c.t.Helper()
	settings := c.settings()
	n := &settings.Node
	n.Schedulers = document.Some([]string{c.scheduler.Address})
	n.Name = document.Some("node-" + filepath.Base(c.directory))
	n.DataDir = document.Some(filepath.Join(c.directory, "node"))
	n.Resources = document.Some(resource.PartialOf(resource.Amounts{resource.UserSlots: 2 * cores, resource.CPU: 100 * cores, resource.Memory: gib << 30}))
	n.Cgroup.Parent = document.Some(fmt.Sprintf("weir-app-test-%d", os.Getpid())) // others may have nodes here too
	n.Memory.WatchdogPeriod = document.Some(100 * time.Millisecond)
	n.Disk.LowRatio, n.Disk.LowSize = document.Some(0.0), document.Some(int64(0)) // the machine's disk may be nearly full
	n.Disk.FullRatio, n.Disk.FullSize = document.Some(0.0), document.Some(int64(0))
	n.Disk.CriticalRatio, n.Disk.CriticalSize = document.Some(0.0), document.Some(int64(0))
	n.Isolation.ReadOnly = document.Some([]string{c.directory}) // jobs wait for files of the test
	node, err := NewNode(c.t.Context(), n, "test", c.log)
	if err != nil {
		c.t.Fatal(err)
	}
	c.stopNode = c.run(node.Run)
	c.t.Cleanup(func() {
		c.stopNode()
		if err := node.End(context.Background()); err != nil {
			c.t.Error(err)
		}
	})
}

func (c *cluster) pools(text string) {
	c.t.Helper()
	tree, _, err := pooltree.FromValue(expected.Document(c.t, text), pooltree.Options{})
	if err != nil {
		c.t.Fatal(err)
	}
	insist(c.t, func() error {
		return c.scheduler.Server.EditTrees(c.t.Context(), server.Caller{User: "root"}, func(trees *server.Trees) (*server.Trees, error) {
			next := trees.Put("default", tree)
			next.Default = "default"
			return next, nil
		})
	})
}

func (c *cluster) start(spec string) guid.ID {
	c.t.Helper()
	read, err := operation.Read(expected.Document(c.t, spec), operation.ReadOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	var id guid.ID
	insist(c.t, func() (err error) {
		id, err = c.scheduler.Server.StartOperation(c.t.Context(), server.Caller{User: "anna"}, server.Start{Type: "vanilla", User: "anna", Spec: read})
		return err
	})
	return id
}

// await waits until a condition holds.
func (c *cluster) await(what string, holds func() bool) {
	c.t.Helper()
	if !expected.Soon(holds) {
		c.t.Fatalf("it never happened: %s", what)
	}
}

// ended waits until an operation is archived.
func (c *cluster) ended(id guid.ID) (store.Operation, []store.Job) {
	c.t.Helper()
	var row store.Operation
	c.await("operation "+id.String()+" ends", func() bool {
		var err error
		row, err = c.scheduler.Server.Store().OperationByID(c.t.Context(), id.String())
		return err == nil && !row.FinishTime.IsZero()
	})
	jobs, err := c.scheduler.Server.Store().Jobs(c.t.Context(), store.JobFilter{Operation: row.Number})
	if err != nil {
		c.t.Fatal(err)
	}
	return row, jobs.Jobs
}

func (c *cluster) stderr(job store.Job) string {
	c.t.Helper()
	out, err := c.scheduler.Server.Store().JobOutput(c.t.Context(), job.Number, "stderr")
	if err != nil {
		c.t.Fatal(err)
	}
	return string(out.Data)
}

func spec(pool string, count int, command string, more string) string {
	return fmt.Sprintf("{pool: %s, tasks: {t: {job_count: %d, command: %q, cpu_limit: 0.5, memory_limit: 256MiB%s}}}", pool, count, command, more)
}

func TestRealJobsRunFailAndAreArchived(t *testing.T) {
	c := newCluster(t, 4, 4)
	row, jobs := c.ended(c.start(spec("a", 3, "echo cookie $YT_JOB_COOKIE of $YT_OPERATION_ID in $WEIR_POOL >&2", "")))
	if row.State != "completed" || len(jobs) != 3 {
		t.Fatalf("%s with %d jobs: %s", row.State, len(jobs), row.Result)
	}
	seen := map[string]bool{}
	for _, job := range jobs {
		seen[c.stderr(job)] = true
		if !strings.Contains(string(job.Statistics), "max_memory") {
			t.Errorf("statistics: %s", job.Statistics)
		}
	}
	for cookie := range 3 {
		if want := fmt.Sprintf("cookie %d of %s in a\n", cookie, row.ID); !seen[want] {
			t.Errorf("no job wrote %q: %v", want, seen)
		}
	}
	row, jobs = c.ended(c.start("{pool: b, max_failed_job_count: 2, tasks: {t: {job_count: 1, command: 'echo no >&2; exit 3', memory_limit: 256MiB}}}"))
	if row.State != "failed" || len(jobs) != 2 || !strings.Contains(string(row.Result), "Failed jobs limit exceeded") {
		t.Errorf("%s with %d jobs: %s", row.State, len(jobs), row.Result)
	}
	if !strings.Contains(string(jobs[0].Error), "10000") && !strings.Contains(string(jobs[0].Error), "1205") {
		t.Errorf("error: %s", jobs[0].Error)
	}
}

func TestAnAgentThatRestartsTakesUpItsJobs(t *testing.T) {
	c := newCluster(t, 4, 4)
	gate := filepath.Join(c.directory, "gate")
	id := c.start(spec("a", 2, "while [ ! -e "+gate+" ]; do sleep 0.05; done; echo $$ >&2", ""))
	running := func() []*server.Job {
		var list []*server.Job
		for _, job := range c.scheduler.Server.Jobs(-1) {
			if job.State == "running" {
				list = append(list, job)
			}
		}
		return list
	}
	c.await("both jobs run", func() bool { return len(running()) == 2 })
	before := map[guid.ID]bool{}
	for _, job := range running() {
		before[job.ID] = true
	}
	c.stopNode()
	restarted := time.Now()
	c.startNode(4, 4)
	c.await("the scheduler knows of both jobs by the new agent", func() bool {
		record, there := c.scheduler.Server.Node("node-" + filepath.Base(c.directory))
		return there && record.Registered.After(restarted) && len(running()) == 2
	})
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	row, jobs := c.ended(id)
	if row.State != "completed" || len(jobs) != 2 {
		t.Fatalf("%s with %d jobs", row.State, len(jobs))
	}
	for _, job := range jobs {
		if !before[guid.OfJob(job.Number)] {
			t.Errorf("job %v was not there before", guid.OfJob(job.Number))
		}
	}
}
