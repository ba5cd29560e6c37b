package jobproxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhq/weir/internal/node/cgroup"
	"github.com/weirhq/weir/internal/node/jobinit"
	"github.com/weirhq/weir/test/expected"
)

// referenceProgram is what jobs run, proxyProgram a proxy and nothing else. Both are built once for all tests, plainly:
// a program built for finding races uses more than it is told. The small programs are for benchmarks; in tests the test
// binary plays both roles.
var referenceProgram, proxyProgram, supervisorProgram, initProgram, attackProgram string

// TestMain lets the test binary also act as the job proxy, and as an agent that exits at once.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "job-proxy":
			os.Exit(Main(os.Args[2]))
		case InitCommand:
			os.Exit(jobinit.Main())
		case oldInitCommand:
			os.Exit(becomeOldInit())
		case "supervisor":
			exe, _ := os.Executable()
			os.Exit(Supervise(os.Args[2], []string{exe, InitCommand}))
		case "launch":
			os.Exit(launchAndLeave(os.Args[2], os.Args[3]))
		}
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE")) // otherwise each proxy waits a second
	dir, err := os.MkdirTemp("", "weir-jobproxy")
	if err == nil {
		referenceProgram, proxyProgram = filepath.Join(dir, "reference"), filepath.Join(dir, "proxy")
		supervisorProgram, initProgram = filepath.Join(dir, "weir-supervisor"), filepath.Join(dir, "weir-init")
		attackProgram = filepath.Join(dir, "attack")
		for output, source := range map[string]string{
			attackProgram:    "./testdata/attack",
			referenceProgram: "../cgroup/testdata/reference", proxyProgram: "./testdata/proxy",
			supervisorProgram: "../../../cmd/weir-supervisor", initProgram: "../../../cmd/weir-init",
		} {
			err = errors.Join(err, expected.BuildProgram(output, source))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "programs for the tests:", err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// launchAndLeave is an agent that starts a job and exits.
func launchAndLeave(root, description string) int {
	job, err := DecodeDescription([]byte(description))
	if err == nil {
		_, err = Launch(proxyCommand(), root, job)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func proxyCommand() []string {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return []string{exe, "job-proxy"}
}

// program returns a shell command that calls the reference program.
func program(steps ...string) string {
	words := []string{referenceProgram}
	for _, step := range steps {
		words = append(words, "'"+step+"'")
	}
	return strings.Join(words, " ")
}

const (
	kib = 1 << 10
	mib = 1 << 20
)

// node is where the jobs of one test run. They must leave nothing when the test ends.
type node struct {
	root       string
	driver     cgroup.Driver
	supervisor *Supervisor // nil: each job has a proxy of its own
}

// hostAll makes the tests of jobs run them in a supervisor: both ways have to pass.
var hostAll = os.Getenv("WEIR_TEST_SUPERVISOR") != ""

var nodes atomic.Int32

func newNode(t *testing.T, mode cgroup.Mode) *node {
	t.Helper()
	return newNodeIn(t, mode, t.TempDir())
}

// newNodeIn is a node with a data directory.
func newNodeIn(t *testing.T, mode cgroup.Mode, directory string) *node {
	t.Helper()
	parent := fmt.Sprintf("weir-test-%d-%d", os.Getpid(), nodes.Add(1))
	n := &node{root: filepath.Join(directory, jobsDir)}
	err := os.Mkdir(n.root, 0o711)
	if err != nil {
		t.Fatal(err)
	}
	if hostAll {
		n.host(t)
	}
	if mode == cgroup.ProcessLimits {
		n.driver, err = cgroup.NewProcessLimits(parent)
	} else {
		n.driver, err = cgroup.Detect(parent)
	}
	if err != nil {
		t.Skipf("NO CONTROL GROUPS HERE, jobs in them are not tested: %v", err)
	}
	t.Cleanup(func() { n.checkNothingIsLeft(t) })
	return n
}

// host lets the node run its jobs in a supervisor.
func (n *node) host(t *testing.T) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	n.supervisor = NewSupervisor(filepath.Dir(n.root), []string{exe, "supervisor"})
	if err := n.supervisor.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (n *node) checkNothingIsLeft(t *testing.T) {
	if n.supervisor != nil {
		n.supervisor.Close()
		if !expected.Soon(func() bool {
			lock, err := lockFileOf(filepath.Join(filepath.Dir(n.root), supervisorLock))
			if err == nil {
				lock.Close()
			}
			return err == nil
		}) {
			t.Error("the supervisor does not end")
		}
		if text, _ := os.ReadFile(filepath.Join(filepath.Dir(n.root), supervisorLog)); len(text) > 0 {
			t.Logf("log of the supervisor:\n%s", text)
		}
	}
	if t.Failed() {
		n.showLogs(t)
		n.clearUp(t)
	}
	if left, err := n.driver.List(); err != nil || len(left) > 0 {
		t.Errorf("containers are left: %v, %v", left, err)
	}
	if err := n.driver.Close(); err != nil {
		t.Error(err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || bytes.Contains(mounts, []byte(n.root)) {
		t.Errorf("mounts are left (%v):\n%s", err, mounts)
	}
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range processes {
		command, _ := os.ReadFile(dir + "/cmdline")
		environment, _ := os.ReadFile(dir + "/environ")
		if dir != fmt.Sprintf("/proc/%d", os.Getpid()) && (bytes.Contains(command, []byte(n.root)) || bytes.Contains(environment, []byte(n.root))) {
			if stat, _ := os.ReadFile(dir + "/stat"); !bytes.Contains(stat, []byte(") Z")) && len(stat) > 0 {
				t.Errorf("process %s is left: %q", dir, command)
			}
		}
	}
	dirs, err := Scan(n.root)
	if err != nil {
		t.Error(err)
	}
	for _, dir := range dirs {
		job, err := ReadDescription(dir)
		for _, name := range []string{sandboxDir, temporaryDir} {
			if exists(dir, name) && (err != nil || !job.KeepSandbox) {
				t.Errorf("%s is left in %s", name, dir)
			}
		}
		if err := Remove(context.Background(), dir, n.driver); err != nil {
			t.Error(err)
		}
	}
	if dirs, _ := Scan(n.root); len(dirs) > 0 {
		t.Errorf("directories are left: %v", dirs)
	}
}

// clearUp cleans up the machine after a failed test, whose jobs may still run.
func (n *node) clearUp(t *testing.T) {
	dirs, err := Scan(n.root)
	if err != nil {
		t.Log(err)
	}
	for _, dir := range dirs {
		if state, err := ReadState(dir); err == nil && state.ProxyPID > 0 && !exists(dir, resultFile) {
			_ = unix.Kill(state.ProxyPID, unix.SIGKILL)
		}
		if err := Remove(context.Background(), dir, n.driver); err != nil {
			t.Log(err)
		}
	}
}

func (n *node) showLogs(t *testing.T) {
	dirs, _ := Scan(n.root)
	for _, dir := range dirs {
		if log, err := os.ReadFile(filepath.Join(dir, logFile)); err == nil && len(log) > 0 {
			t.Logf("%s of %s:\n%s", logFile, filepath.Base(dir), log)
		}
		if out, err := ReadOutput(dir, "stderr", 4*kib); err == nil && out.Size > 0 {
			t.Logf("stderr of %s:\n%s", filepath.Base(dir), out.Text())
		}
	}
}

// description returns the description of a small job.
func (n *node) description(command string) *Description {
	return &Description{
		Version: DescriptionVersion, JobID: "1-2-3-" + strconv.FormatInt(int64(nodes.Add(1)), 16), OperationID: "a-b-c-d",
		TaskName: "task", Tree: "physical", Node: "node-1:9012", Index: 5, TaskIndex: 4, Cookie: 3,
		Command: command, MaxStderrSize: 64 * kib, CPULimit: 1,
		Container: Container{Parent: n.driver.Parent(), Mode: n.driver.Mode(), ProcessLimit: 500},
		Memory: Memory{
			Limit: 512 * mib, UserReserve: 256 * mib, Allocation: 400 * mib, Ahead: 100 * mib, ProxyEstimate: 16 * mib,
			ProxyReserve: 16 * mib, Footprint: 128 * mib, WatchdogPeriod: Duration(50 * time.Millisecond),
		},
	}
}

// launch starts a job.
func (n *node) launch(t *testing.T, job *Description) string {
	t.Helper()
	if n.supervisor != nil {
		dir, err := n.supervisor.Launch(t.Context(), job)
		if err != nil {
			t.Fatal(err)
		}
		return dir
	}
	dir, err := Launch(proxyCommand(), n.root, job)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// run starts a job and waits for its result.
func (n *node) run(t *testing.T, job *Description) *Result {
	t.Helper()
	return n.result(t, n.launch(t, job))
}

// result follows a job until it ends.
func (n *node) result(t *testing.T, dir string) *Result {
	t.Helper()
	follow(t, dir, func(*State) bool { return false })
	result, err := Recover(t.Context(), dir, n.driver)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %s %s %v", result.JobID, result.Outcome, result.AbortReason, result.Error)
	for _, warning := range result.Warnings {
		t.Logf("%s: warning: %s", result.JobID, warning)
	}
	return result
}

// follow waits for a state that satisfies the condition, or for the end of the proxy.
func follow(t *testing.T, dir string, wanted func(*State) bool) *State {
	t.Helper()
	c, err := Attach(dir)
	if errors.Is(err, ErrGone) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Watch(); err != nil && !errors.Is(err, ErrGone) {
		t.Fatal(err)
	}
	for {
		state, err := c.Next()
		if errors.Is(err, ErrGone) {
			return nil
		}
		if err != nil {
			t.Fatal(err)
		}
		if wanted(state) {
			return state
		}
	}
}

func isRunning(s *State) bool { return s.Phase == Running }

// do sends an order to a job.
func do(t *testing.T, dir string, order Order) *State {
	t.Helper()
	c, err := Attach(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	state, err := c.Do(order, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// fifo returns a FIFO through which a job reports that it has reached some point.
func fifo(t *testing.T) (path string, await func()) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(path, 0o666); err != nil {
		t.Fatal(err)
	}
	return path, func() {
		t.Helper()
		if text, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(text), "here") {
			t.Fatalf("the job said %q, %v", text, err)
		}
	}
}

func stderrOf(t *testing.T, dir string) string {
	t.Helper()
	out, err := ReadOutput(dir, "stderr", mib)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(out.Text())
}

func statistic(t *testing.T, r *Result, path string) int64 {
	t.Helper()
	value, found := r.Statistic(path)
	if !found {
		t.Errorf("no statistic %s", path)
	}
	return value
}

func near(t *testing.T, what string, got int64, want, tolerance float64) {
	t.Helper()
	t.Logf("%s: %d, true %.0f (%+.2f %%)", what, got, want, 100*(float64(got)/want-1))
	if diff := float64(got) - want; diff > tolerance*want || -diff > tolerance*want {
		t.Errorf("%s is %d, want %v within %v %%", what, got, want, 100*tolerance)
	}
}
