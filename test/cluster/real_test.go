package cluster

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/value/guid"
)

// realCluster is a scheduler and nodes as processes. Tests use the command line, as users do. Jobs
// append their ids to a file, which shows what really ran.
type realCluster struct {
	t         testing.TB
	directory string
	group     string
	address   string
	config    string
	ran       string // the file that jobs append to
	log       *logFile
	scheduler *process
	nodes     []*node
	started   []string
	network   *network // nil: the machine's
	token     string   // empty if none is needed
	aborted   int      // number of aborted jobs that check has found
}

// newRealCluster starts a scheduler and this number of nodes.
func newRealCluster(t testing.TB, nodes int, o nodeOptions) *realCluster {
	t.Helper()
	needMachine(t)
	listener, err := net.Listen("tcp", loopback()+":0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	return newRealClusterOn(t, nil, address, time.Second, nodes, o)
}

// newRealClusterOn starts a cluster on a network, with the scheduler on its first machine. The
// scheduler gives up the jobs of a node after a silence.
func newRealClusterOn(t testing.TB, network *network, address string, silence time.Duration, nodes int, o nodeOptions) *realCluster {
	t.Helper()
	c := &realCluster{t: t, directory: sharedDirectory(t), group: newGroup(), log: &logFile{}, address: address, network: network}
	listen, fromNodes := address, address
	if network != nil {
		_, port, _ := strings.Cut(address, ":")
		listen, fromNodes = "0.0.0.0:"+port, network.address(0)+":"+port
	}
	c.ran = filepath.Join(c.directory, "ran")
	touch(t, c.ran)
	c.config = writeFile(t, c.directory, "scheduler.yaml", fmt.Sprintf(`scheduler:
  listen: %q
  data_dir: %q
  fair_share_update_period: 50ms
  operations_update_period: 100ms
  node_heartbeat_period: 100ms
  node_heartbeat_timeout: 1s
  max_node_unseen_period_to_abort_allocations: %s
  job_confirmation_timeout: 10s
  min_spare_allocation_resources_on_node: {user_slots: 1}
  leader: {lease_ttl: 1s, renew_period: 300ms, standby_poll_period: 100ms}
`, listen, filepath.Join(c.directory, "scheduler"), silence))
	showLog(t, "scheduler", c.log)
	t.Cleanup(c.close)
	c.startScheduler()
	if network != nil { // other machines need a token
		c.token = c.makeToken()
		o.more += fmt.Sprintf("  token: %q\n", c.token)
	}
	for i := range nodes {
		o := o
		o.name = fmt.Sprintf("node-%d", i+1)
		if network != nil {
			o.namespace = network.machine(i + 1)
		}
		c.nodes = append(c.nodes, startNode(t, fromNodes, c.directory, c.group, o))
	}
	c.weir("create", "scheduler_pool_tree", "--attributes", "{name=default}", "--ignore-existing")
	c.weir("set", "//sys/pool_trees/@default_tree", "default")
	return c
}

func (c *realCluster) startScheduler() {
	c.t.Helper()
	c.scheduler = runIn(c.t, c.home(), "scheduler", c.log, "scheduler", "--config", c.config)
	c.awaitLeader()
}

// home returns the namespace of the scheduler and its clients; empty means the machine's.
func (c *realCluster) home() string {
	if c.network == nil {
		return ""
	}
	return c.network.machine(0)
}

func (c *realCluster) awaitLeader() {
	c.t.Helper()
	if c.network != nil {
		return // the command line waits for it
	}
	await(c.t, "the scheduler leads", func() bool {
		response, err := http.Get("http://" + c.address + "/readyz")
		if err != nil {
			return false
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
}

// makeToken issues a token for everything outside the scheduler's machine.
func (c *realCluster) makeToken() string {
	c.t.Helper()
	var output []byte
	await(c.t, "there is a token", func() (made bool) {
		ctx, cancel := background()
		defer cancel()
		var err error
		output, err = c.command(ctx, "token", "create", "root").Output()
		return err == nil
	})
	return strings.TrimSpace(string(output))
}

// command returns a call of the command line on the scheduler's machine.
func (c *realCluster) command(ctx context.Context, args ...string) *exec.Cmd {
	words := inNamespace(c.home(), programs.weir, args...)
	command := exec.CommandContext(ctx, words[0], words[1:]...)
	command.Env = append(environment(), "WEIR_ADDR="+c.address)
	if c.token != "" {
		command.Env = append(command.Env, "WEIR_TOKEN="+c.token)
	}
	return command
}

// weir runs the command line. The client retries while there is no leader.
func (c *realCluster) weir(args ...string) string {
	c.t.Helper()
	ctx, cancel := background()
	defer cancel()
	output, err := c.command(ctx, args...).CombinedOutput()
	if err != nil {
		c.t.Fatalf("weir %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return strings.TrimSpace(string(output))
}

// start starts an operation of this number of jobs, which report that they run and then execute the
// command.
func (c *realCluster) start(jobs int, command string, more ...string) string {
	c.t.Helper()
	command = "echo $YT_OPERATION_ID $YT_JOB_ID $YT_JOB_COOKIE >> " + c.ran + "; " + command
	options := append([]string{fmt.Sprintf("job_count: %d", jobs), "cpu_limit: 0.1", "memory_limit: 64MiB"}, more...)
	spec := writeFile(c.t, c.directory, fmt.Sprintf("spec-%d.yaml", len(c.started)), task("root", command, options...))
	id := c.weir("op", "start", "--ephemeral-pool", spec)
	c.started = append(c.started, id)
	return id
}

// await waits until all operations have ended.
func (c *realCluster) await() {
	c.t.Helper()
	for _, id := range c.started {
		c.weir("op", "wait", id)
	}
}

// check checks what must hold after all faults: each piece of work was done and recorded once, and no
// job id ran twice.
func (c *realCluster) check() {
	c.t.Helper()
	for _, n := range c.nodes {
		n.checkJobsLeftNothing(c.group)
	}
	c.scheduler.stop()
	ctx, cancel := background()
	defer cancel()
	db, err := store.Open(ctx, "sqlite:"+filepath.Join(c.directory, "scheduler", "weir.db"))
	if err != nil {
		c.t.Fatal(err)
	}
	defer db.Close()
	ran := map[string]int{}
	for _, line := range readLines(c.t, c.ran) {
		fields := strings.Fields(line)
		if ran[fields[1]]++; len(fields) != 3 || ran[fields[1]] > 1 {
			c.t.Errorf("job %s ran twice", line)
		}
	}
	for _, id := range c.started {
		row, err := db.OperationByID(ctx, id)
		if err != nil {
			c.t.Fatal(err)
		}
		jobs, err := db.Jobs(ctx, store.JobFilter{Operation: row.Number, Limit: 100_000})
		if err != nil {
			c.t.Fatal(err)
		}
		c.checkOperation(row, jobs.Jobs, ran)
	}
}

func (c *realCluster) checkOperation(row store.Operation, jobs []store.Job, ran map[string]int) {
	c.t.Helper()
	if row.State != "completed" {
		c.t.Errorf("operation %s has %s: %s", row.ID, row.State, row.Result)
	}
	done := map[int32]int{}
	aborts := map[string]int{}
	for _, j := range jobs {
		id := guid.OfJob(j.Number).String()
		switch j.State {
		case "completed":
			if done[j.Cookie]++; ran[id] != 1 {
				c.t.Errorf("job %s has completed but did not run", id)
			}
		case "aborted":
			aborts[j.AbortReason]++
			c.aborted++
		default:
			c.t.Errorf("job %s has %s: %s", id, j.State, j.Error)
		}
	}
	for cookie, times := range done {
		if times != 1 {
			c.t.Errorf("cookie %d was done %d times", cookie, times)
		}
	}
	c.t.Logf("operation %s: %d jobs completed, aborted %v", row.ID, len(done), aborts)
}

// close stops everything and checks that nothing is left.
func (c *realCluster) close() {
	for _, n := range c.nodes {
		n.signal(syscall.SIGCONT)
		n.stop()
	}
	c.scheduler.signal(syscall.SIGTERM)
	c.scheduler.await()
	if c.t.Failed() {
		part := cluster{t: c.t, directory: c.directory, group: c.group, nodes: c.nodes}
		part.clearUp()
	}
	checkNothingIsLeft(c.t, c.directory, c.group)
}

// begun returns the number of jobs that have started.
func (c *realCluster) begun() int { return len(readLines(c.t, c.ran)) }

// load starts the work during which faults happen: short jobs of many lengths.
func (c *realCluster) load(jobs int) {
	c.start(jobs, "sleep 0.$((RANDOM % 4))")
	await(c.t, "the load has begun", func() bool { return c.begun() > 0 })
}

// awaitProxies waits until jobs run somewhere and returns the ids of their proxies. If no work is left,
// it starts more.
func (c *realCluster) awaitProxies() (pids []int) {
	c.t.Helper()
	looked := time.Now()
	await(c.t, "jobs run", func() bool {
		pids = nil
		for _, n := range c.nodes {
			pids = append(pids, n.proxies()...)
		}
		if len(pids) == 0 && time.Since(looked) > time.Second {
			if c.isIdle() {
				c.load(20)
			}
			looked = time.Now()
		}
		return len(pids) > 0
	})
	return pids
}

// isProxy says whether a process is the proxy of a job of this cluster, or a supervisor: ids are used again.
func (c *realCluster) isProxy(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	return err == nil && strings.Contains(string(text), c.directory) &&
		(strings.Contains(string(text), "job-proxy") || strings.Contains(string(text), "supervisor"))
}

// fill writes into a directory until the disk is full, and returns a function that frees the space.
func fill(t testing.TB, directory string) (free func()) {
	t.Helper()
	name := filepath.Join(directory, "filler")
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	block := make([]byte, 64<<10)
	for _, size := range []int{len(block), 4096, 1} {
		for err = nil; err == nil; {
			_, err = file.Write(block[:size])
		}
	}
	_ = file.Close() // the disk is full
	return func() {
		if err := os.Remove(name); err != nil {
			t.Error(err)
		}
	}
}

// mountTmpfs mounts a small disk.
func mountTmpfs(t testing.TB, directory string, size int64) {
	t.Helper()
	if err := os.MkdirAll(directory, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("weir-test", directory, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		t.Skipf("NO DISK OF ITS OWN: a full disk is not tested: %v", err)
	}
}
