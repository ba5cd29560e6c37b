package jobproxy

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhq/weir/internal/node/cgroup"
)

func TestAProxyThatIsKilledLeavesNothing(t *testing.T) {
	modes(t, func(t *testing.T, n *node) {
		at, await := fifo(t)
		job := n.description("setsid " + program("ignore=15", "sleep=1h") + " & (sleep 1000 &) ; echo here > " + at + "; sleep 1000")
		job.Tmpfs = []Tmpfs{{Path: "volume", Size: mib}}
		dir := n.launch(t, job)
		await()
		state := follow(t, dir, isRunning) // the command may be faster than the proxy that reports it
		if state == nil || !IsAlive(dir) {
			t.Fatalf("state %+v, alive %v", state, IsAlive(dir))
		}
		jobs, err := Sweep(t.Context(), n.root, n.driver)
		if err != nil || len(jobs) != 1 || !jobs[0].Alive || jobs[0].Result != nil {
			t.Errorf("a sweep touched a living job: %+v, %v", jobs, err)
		}
		if err := syscall.Kill(state.ProxyPID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if end := follow(t, dir, func(*State) bool { return false }); end != nil {
			t.Errorf("state %+v from the dead", end)
		}
		r, err := Recover(t.Context(), dir, n.driver)
		if err != nil {
			t.Fatal(err)
		}
		if r.Outcome != Aborted || r.AbortReason != ProxyFailed || r.JobID != job.JobID || r.OperationID != "a-b-c-d" || len(r.Statistics) == 0 {
			t.Errorf("%+v", r)
		}
		// A second sweep finds the same.
		jobs, err = Sweep(t.Context(), n.root, n.driver)
		if err != nil || len(jobs) != 1 || jobs[0].Alive || jobs[0].Result == nil || jobs[0].Result.AbortReason != ProxyFailed {
			t.Errorf("%+v, %v", jobs, err)
		}
		if _, err := Attach(dir); !errors.Is(err, ErrGone) {
			t.Errorf("attach to the dead: %v", err)
		}
	})
}

func TestAProxyKilledAtAnyMomentLeavesOneResult(t *testing.T) {
	n := newNode(t, cgroup.V1)
	outcomes := map[string]int{}
	for i := range 20 {
		job := n.description("setsid sleep 1000 & head -c 100k /dev/zero > volume/file; exit 0")
		job.Tmpfs = []Tmpfs{{Path: "volume", Size: mib}}
		dir := n.launch(t, job)
		wanted := i % 4 // 0: as soon as there is a proxy to kill
		state := follow(t, dir, func(*State) bool { wanted--; return wanted < 0 })
		if state != nil {
			syscall.Kill(state.ProxyPID, syscall.SIGKILL) // it may have ended by itself
		}
		r, err := Recover(t.Context(), dir, n.driver)
		if err != nil {
			t.Fatal(err)
		}
		outcome := string(r.Outcome) + " " + r.AbortReason
		if outcomes[outcome]++; outcome != "completed " && outcome != "aborted "+ProxyFailed {
			t.Errorf("%s: %v", outcome, r.Error)
		}
		again, err := Recover(t.Context(), dir, n.driver)
		if err != nil || again.Outcome != r.Outcome {
			t.Errorf("first %s, then %+v, %v", outcome, again, err)
		}
	}
	t.Log(outcomes)
}

func TestAFullDiskDoesNotTakeTheResult(t *testing.T) {
	n := newNode(t, cgroup.V1)
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("NO MOUNTS HERE: %v", err)
	}
	defer func() {
		if err := unix.Unmount(disk, 0); err != nil {
			t.Error(err)
		}
	}()
	job := n.description("head -c 10M /dev/zero > file; head -c 1M /dev/zero >&2; exit 4")
	dir, err := Launch(proxyCommand(), disk, job)
	if err != nil {
		t.Fatal(err)
	}
	r := n.result(t, dir)
	if r.Outcome != Failed || number(r.ExitCode) != 4 {
		t.Errorf("%s: %v", r.Outcome, r.Error)
	}
	if err := Remove(t.Context(), dir, n.driver); err != nil {
		t.Error(err)
	}
}

func TestAJobSurvivesItsAgent(t *testing.T) {
	n := newNode(t, cgroup.V1)
	at, await := fifo(t)
	gate, _ := fifo(t)
	start := func(job *Description) string {
		text, err := json.Marshal(job)
		if err != nil {
			t.Fatal(err)
		}
		exe, _ := os.Executable()
		if out, err := exec.Command(exe, "launch", n.root, string(text)).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return filepath.Join(n.root, job.JobID)
	}
	long := start(n.description("echo here > " + at + "; cat " + gate + " >&2"))
	await()
	// The agent has exited. The next one finds the job and its result.
	dirs, err := Scan(n.root)
	if err != nil || len(dirs) != 1 || dirs[0] != long || !IsAlive(long) {
		t.Fatalf("%v, %v", dirs, err)
	}
	if state := follow(t, long, isRunning); state == nil {
		t.Fatal("the job does not run")
	}
	if err := os.WriteFile(gate, []byte("the end"), 0); err != nil {
		t.Fatal(err)
	}
	if r := n.result(t, long); r.Outcome != Completed || stderrOf(t, long) != "the end" {
		t.Errorf("%s: %v, %q", r.Outcome, r.Error, stderrOf(t, long))
	}
	// A job that ended while no agent ran.
	short := start(n.description("exit 5"))
	r := n.result(t, short)
	if r.Outcome != Failed || number(r.ExitCode) != 5 {
		t.Errorf("%s: %v", r.Outcome, r.Error)
	}
	jobs, err := Sweep(t.Context(), n.root, n.driver)
	if err != nil || len(jobs) != 2 || jobs[0].Result == nil || jobs[1].Result == nil {
		t.Errorf("%+v, %v", jobs, err)
	}
}

func TestAJobIsNotStartedTwice(t *testing.T) {
	n := newNode(t, cgroup.V1)
	job := n.description("echo x >&2")
	dir := n.launch(t, job)
	if _, err := Launch(proxyCommand(), n.root, job); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second launch: %v", err)
	}
	n.result(t, dir)
	command := proxyCommand()
	out, err := exec.Command(command[0], command[1], dir).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), "started before") {
		t.Errorf("a second proxy: %v\n%s", err, out)
	}
	if got := stderrOf(t, dir); got != "x\n" {
		t.Errorf("stderr is %q", got)
	}
	bad := n.description("true")
	bad.Command = ""
	if _, err := Launch(proxyCommand(), n.root, bad); err == nil || exists(n.root, bad.JobID) {
		t.Errorf("a launch of a bad job: %v", err)
	}
	if _, err := Launch([]string{"/no/such/program"}, n.root, n.description("true")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a launch without a program: %v", err)
	}
}

func TestAProxyStartedByHandRunsItsJob(t *testing.T) {
	n := newNode(t, cgroup.V1)
	job := n.description("echo by hand >&2")
	dir := filepath.Join(n.root, job.JobID)
	if err := errors.Join(os.Mkdir(dir, 0o755), writeJSON(dir, descriptionFile, job, false)); err != nil {
		t.Fatal(err)
	}
	command := proxyCommand()
	if out, err := exec.Command(command[0], command[1], dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if r, err := ReadResult(dir); err != nil || r.Outcome != Completed || stderrOf(t, dir) != "by hand\n" {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestADescriptionThatCannotBeReadGetsAnAnswer(t *testing.T) {
	n := newNode(t, cgroup.V1)
	dir := filepath.Join(n.root, "unreadable")
	if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, descriptionFile), []byte(`{"version":9}`), 0o600)); err != nil {
		t.Fatal(err)
	}
	command := proxyCommand()
	if out, err := exec.Command(command[0], command[1], dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r, err := ReadResult(dir)
	if err != nil || r.Outcome != Aborted || r.JobID != "unreadable" || !strings.Contains(r.Error.Message, "version is 9") {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestASweepEndsContainersWithoutJobs(t *testing.T) {
	n := newNode(t, cgroup.V1)
	if _, err := n.driver.Create("nobodys", cgroup.Limits{}); err != nil {
		t.Fatal(err)
	}
	if jobs, err := Sweep(t.Context(), n.root, n.driver); err != nil || len(jobs) != 0 {
		t.Errorf("%v, %v", jobs, err)
	}
	if names, err := n.driver.List(); err != nil || len(names) != 0 {
		t.Errorf("left: %v, %v", names, err)
	}
}

func TestRecoveryWaitsForTheProxyToGo(t *testing.T) {
	if hostAll {
		t.Skip("a supervisor that is asked to stop leaves its jobs alone")
	}
	n := newNode(t, cgroup.V1)
	dir := n.launch(t, n.description("sleep 1000"))
	follow(t, dir, isRunning)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := Recover(ctx, dir, n.driver); !errors.Is(err, ErrAlive) {
		t.Errorf("recovery of a living job: %v", err)
	}
	state := do(t, dir, Order{Command: Status})
	if err := syscall.Kill(state.ProxyPID, syscall.SIGTERM); err != nil { // it ends its job first
		t.Fatal(err)
	}
	if r := n.result(t, dir); r.Outcome != Aborted || r.AbortReason != OtherReason || !strings.Contains(r.Error.Message, "asked to stop") {
		t.Errorf("%s %s: %v", r.Outcome, r.AbortReason, r.Error)
	}
	if err := Remove(t.Context(), dir, n.driver); err != nil {
		t.Fatal(err)
	}
	if err := Remove(t.Context(), dir, n.driver); err != nil {
		t.Errorf("a second removal: %v", err)
	}
}

func TestOrdersThatAreNotUnderstoodAreAnswered(t *testing.T) {
	n := newNode(t, cgroup.V1)
	dir := n.launch(t, n.description("sleep 1000"))
	c, err := Attach(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, line := range []string{"nonsense", `{"command":"dance"}`, `{"command":"abort"}`} {
		if _, err := c.conn.Write([]byte(line + "\n")); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Next(); err == nil || errors.Is(err, ErrGone) {
			t.Errorf("%s: %v", line, err)
		}
	}
	if _, err := c.Do(Order{Command: Abort, Reason: "user_request"}, time.Minute); err != nil {
		t.Error(err)
	}
	n.result(t, dir)
}

// A file that appeared in a directory while it is being removed would keep it.
func TestALookAtAJobPutsNothingIntoItsDirectory(t *testing.T) {
	dir := t.TempDir()
	if IsAlive(dir) {
		t.Error("an empty directory is a job")
	}
	if handle, err := openInit(dir, os.Getpid()); handle >= 0 || err != nil {
		t.Errorf("it has an init: %d, %v", handle, err)
	}
	if err := (&supervisor{}).adopt(dir); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}
