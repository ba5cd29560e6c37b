package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/command/app"
	"github.com/weirhq/weir/internal/command/config"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/journal"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/node/agent"
	"github.com/weirhq/weir/internal/node/cgroup"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/test/expected"
)

// cluster is a scheduler in the test's process, with nodes in their own processes.
type cluster struct {
	t         testing.TB
	directory string
	group     string
	settings  config.Scheduler
	scheduler *app.Scheduler
	stop      func()
	nodes     []*node
	log       *logFile
}

// newCluster starts a scheduler with pools a and b.
func newCluster(t testing.TB) *cluster {
	t.Helper()
	needMachine(t)
	c := &cluster{t: t, directory: sharedDirectory(t), group: newGroup(), log: &logFile{}}
	defaults := config.Default()
	c.settings = defaults.Scheduler
	s := &c.settings
	s.Listen, s.DataDir = document.Some(loopback()+":0"), document.Some(filepath.Join(c.directory, "scheduler"))
	s.Periods.FairShareUpdate, s.Periods.OperationsUpdate = document.Some(20*time.Millisecond), document.Some(20*time.Millisecond)
	s.Nodes.HeartbeatPeriod = document.Some(50 * time.Millisecond)
	s.Nodes.JobConfirmationTimeout = document.Some(time.Minute)
	// There is no other server, and the disk may be slow.
	s.Leader.LeaseTTL, s.Leader.StandbyPollPeriod = document.Some(time.Minute), document.Some(50*time.Millisecond)
	s.Journal.Keep = document.Some(time.Hour)
	s.Nodes.MinSpare = document.Some(resource.PartialOf(resource.Amounts{resource.UserSlots: 1}))
	showLog(t, "scheduler", c.log)
	t.Cleanup(c.close)
	c.startScheduler()
	c.pools("{pools: {a: {}, b: {}}}")
	return c
}

// startScheduler starts the scheduler, also again on the same data and address.
func (c *cluster) startScheduler() {
	c.t.Helper()
	log := slog.New(slog.NewTextHandler(c.log, nil))
	scheduler, err := app.NewScheduler(context.Background(), &c.settings, "test", log)
	if err != nil {
		c.t.Fatal(err)
	}
	c.scheduler = scheduler
	c.settings.Listen = document.Some(scheduler.Address)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- scheduler.Run(ctx) }()
	c.stop = func() {
		cancel()
		if err := <-done; err != nil {
			c.t.Error(err)
		}
		c.stop = func() {}
	}
	select {
	case <-scheduler.Server.Led():
	case <-time.After(patience):
		c.t.Fatal("the scheduler does not lead")
	}
}

// node adds a node.
func (c *cluster) node(resources string, more ...string) *node {
	c.t.Helper()
	return c.nodeWith(nodeOptions{name: fmt.Sprintf("node-%d", len(c.nodes)+1), resources: resources, more: strings.Join(more, "\n")})
}

func (c *cluster) nodeWith(o nodeOptions) *node {
	c.t.Helper()
	n := startNode(c.t, c.scheduler.Address, c.directory, c.group, o)
	c.nodes = append(c.nodes, n)
	await(c.t, o.name+" registers", func() bool {
		record, there := c.scheduler.Server.Node(o.name)
		return there && record.Online && record.Tree != ""
	})
	return n
}

// close stops operations, nodes and scheduler, and checks that they left nothing.
func (c *cluster) close() {
	awaitNothing(c.t, "operations", c.abortAll)
	for _, n := range c.nodes {
		select {
		case <-n.ended:
			c.t.Errorf("%s is not there any more", n.options.name)
			n.start()
		default:
		}
		n.checkJobsLeftNothing(c.group)
		n.signal(syscall.SIGCONT) // a failed test may have stopped it
		n.stop()
	}
	c.stop()
	c.replayJournal()
	if c.t.Failed() {
		c.clearUp()
	}
	checkNothingIsLeft(c.t, c.directory, c.group)
}

// replayJournal replays what the schedulers of the test have recorded: every decision, and the
// state, must come out the same.
func (c *cluster) replayJournal() {
	c.t.Helper()
	file, _, err := c.scheduler.Server.Recorder().Open(time.Time{}, time.Time{})
	if err != nil {
		c.t.Error(err)
		return
	}
	defer file.Close()
	if err := journal.NewPlayer(file).Until(time.Time{}); err != nil {
		c.t.Errorf("the journal does not replay: %v", err)
	}
}

// abortAll aborts all operations and returns those that still run. Call it repeatedly: on a slow disk
// the server may refuse requests.
func (c *cluster) abortAll() (live []string) {
	ctx, cancel := background()
	defer cancel()
	for _, op := range c.scheduler.Server.Operations() {
		err := c.scheduler.Server.AbortOperation(ctx, server.Caller{User: "root"}, server.OperationKey{ID: op.ID}, "the test ends")
		live = append(live, fmt.Sprint(op.ID, " ", err))
	}
	return live
}

// clearUp cleans up the machine after a failed test.
func (c *cluster) clearUp() {
	ctx, cancel := background()
	defer cancel()
	for _, n := range c.nodes {
		for _, path := range groupsUnder(c.t, c.group) {
			if parent := filepath.Dir(path); filepath.Base(filepath.Dir(parent)) != c.group {
				continue
			}
			if driver, err := cgroup.Use(filepath.Join(c.group, filepath.Base(filepath.Dir(path)))); err == nil {
				_ = agent.EndAll(ctx, n.jobs(), driver) // was reported before
				_ = driver.Close()
			}
		}
	}
}

// of returns the cluster for a subtest.
func (c *cluster) of(t testing.TB) *cluster {
	part := *c
	part.t = t
	return &part
}

// pools sets the pools of the default tree.
func (c *cluster) pools(text string) {
	c.t.Helper()
	tree, _, err := pooltree.FromValue(expected.Document(c.t, text), pooltree.Options{})
	if err != nil {
		c.t.Fatal(err)
	}
	c.insist(func(ctx context.Context) error {
		return c.scheduler.Server.EditTrees(ctx, server.Caller{User: "root"}, func(trees *server.Trees) (*server.Trees, error) {
			next := trees.Put("default", tree)
			next.Default = "default"
			return next, nil
		})
	})
}

// insist repeats a request while the server refuses it because the disk is too slow. A refused request
// has no effect.
func (c *cluster) insist(request func(context.Context) error) {
	c.t.Helper()
	await(c.t, "a request is taken", func() bool {
		ctx, cancel := background()
		defer cancel()
		err := request(ctx)
		if err != nil && !errors.Is(err, server.ErrOverloaded) {
			c.t.Fatal(err)
		}
		return err == nil
	})
}

// start starts an operation.
func (c *cluster) start(spec string) guid.ID {
	c.t.Helper()
	read, err := operation.Read(expected.Document(c.t, spec), operation.ReadOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	var id guid.ID
	c.insist(func(ctx context.Context) (err error) {
		id, err = c.scheduler.Server.StartOperation(ctx, server.Caller{User: "anna"}, server.Start{Type: "vanilla", User: "anna", Spec: read})
		return err
	})
	return id
}

// task returns the specification of an operation with one task of one job, unless more overrides it.
func task(pool, command string, more ...string) string {
	options := append([]string{"job_count: 1", "cpu_limit: 0.5", "memory_limit: 256MiB"}, more...)
	var list []string
	seen := map[string]bool{}
	for _, option := range slices.Backward(options) { // the last value counts
		if name, _, _ := strings.Cut(option, ":"); !seen[name] {
			seen[name] = true
			list = append(list, option)
		}
	}
	return fmt.Sprintf("{pool: %s, tasks: {t: {command: %q, %s}}}", pool, command, strings.Join(list, ", "))
}

// live returns the jobs of an operation that have not ended, oldest first.
func (c *cluster) live(id guid.ID) []*server.Job {
	op, there := c.scheduler.Server.Operation(server.OperationKey{ID: id})
	if !there {
		return nil
	}
	jobs := c.scheduler.Server.Jobs(op.Number)
	slices.SortFunc(jobs, func(a, b *server.Job) int { return int(int64(a.Number) - int64(b.Number)) })
	return jobs
}

// running returns the jobs of an operation whose processes run.
func (c *cluster) running(id guid.ID) []*server.Job {
	return slices.DeleteFunc(c.live(id), func(j *server.Job) bool { return j.State != "running" || j.ExecStart.IsZero() })
}

// awaitRunning waits until this number of the operation's jobs run.
func (c *cluster) awaitRunning(id guid.ID, count int) []*server.Job {
	c.t.Helper()
	var jobs []*server.Job
	await(c.t, fmt.Sprintf("%d jobs run", count), func() bool {
		jobs = c.running(id)
		return len(jobs) == count
	})
	return jobs
}

// ended waits until an operation is archived. It returns its jobs in the order in which they ended.
func (c *cluster) ended(id guid.ID) (store.Operation, []store.Job) {
	c.t.Helper()
	var row store.Operation
	await(c.t, "operation "+id.String()+" ends", func() bool {
		var err error
		row, err = c.scheduler.Server.Store().OperationByID(context.Background(), id.String())
		return err == nil && !row.FinishTime.IsZero()
	})
	return row, c.archived(row.Number)
}

// archived returns the ended jobs of an operation, in the order in which they ended.
func (c *cluster) archived(number int32) []store.Job {
	c.t.Helper()
	jobs, err := c.scheduler.Server.Store().Jobs(context.Background(), store.JobFilter{Operation: number})
	if err != nil {
		c.t.Fatal(err)
	}
	slices.SortFunc(jobs.Jobs, func(a, b store.Job) int { return int(a.Sequence - b.Sequence) })
	return jobs.Jobs
}

// completed waits until an operation has completed.
func (c *cluster) completed(id guid.ID) (store.Operation, []store.Job) {
	c.t.Helper()
	row, jobs := c.ended(id)
	if row.State != "completed" {
		c.t.Fatalf("the operation has %s: %s\n%s", row.State, row.Result, describe(jobs))
	}
	return row, jobs
}

func describe(jobs []store.Job) string {
	var text strings.Builder
	for _, j := range jobs {
		fmt.Fprintf(&text, "%s cookie %d on %s: %s %s %s\n", guid.OfJob(j.Number), j.Cookie, j.Node, j.State, j.AbortReason, j.Error)
	}
	return text.String()
}

// statistic returns the sum at a path in the statistics of an archived job.
func statistic(t testing.TB, job store.Job, path string) int64 {
	t.Helper()
	value, there := findStatistic(job.Statistics, path)
	if !there {
		t.Errorf("job %s has no statistic %s: %s", guid.OfJob(job.Number), path, job.Statistics)
	}
	return value
}

func findStatistic(document []byte, path string) (int64, bool) {
	var tree any
	if json.Unmarshal(document, &tree) != nil {
		return 0, false
	}
	for part := range strings.SplitSeq(path, "/") {
		inner, ok := tree.(map[string]any)
		if !ok {
			return 0, false
		}
		tree = inner[part]
	}
	summary, ok := tree.(map[string]any)
	if !ok {
		return 0, false
	}
	sum, ok := summary["sum"].(float64)
	return int64(sum), ok
}

// usage returns the usage of a pool as of the last update.
func (c *cluster) usage(pool string) resource.Amounts {
	view := c.scheduler.Server.View()
	if view == nil {
		return resource.Amounts{}
	}
	tree, there := view.Tree("default")
	if !there {
		return resource.Amounts{}
	}
	p, there := tree.Pool(pool)
	if !there {
		return resource.Amounts{}
	}
	return p.Usage
}

// stderr returns the stderr of a job.
func (c *cluster) stderr(job store.Job) string {
	c.t.Helper()
	out, err := c.scheduler.Server.Store().JobOutput(context.Background(), job.Number, "stderr")
	if err != nil {
		c.t.Fatal(err)
	}
	return string(out.Data)
}

// gate returns a file, a command that waits for the file, and a function that creates it.
func (c *cluster) gate(name string) (path, waits string, open func()) {
	path = filepath.Join(c.directory, name)
	return path, "while [ ! -e " + path + " ]; do sleep 0.02; done", func() {
		c.t.Helper()
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			c.t.Fatal(err)
		}
	}
}

// progress returns the stored progress of an operation.
func (c *cluster) progress(number int32) []byte {
	c.t.Helper()
	row, err := c.scheduler.Server.Store().OperationProgress(context.Background(), number)
	if err != nil {
		c.t.Fatal(err)
	}
	return row.Progress
}
