package jobproxy

import (
	"bufio"
	"io"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/node/cgroup"
)

func oomScore(t *testing.T, process string) string {
	t.Helper()
	text, err := os.ReadFile("/proc/" + process + "/oom_score_adj")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// checkOOMScores checks the number of a job's processes and that all have the same score.
func (n *node) checkOOMScores(t *testing.T, job *Description, count, want int) {
	t.Helper()
	c, err := n.driver.Open(job.JobID)
	if err != nil {
		t.Fatal(err)
	}
	pids, err := c.Processes()
	if err != nil || len(pids) != count {
		t.Fatalf("processes %v, %v; want %d", pids, err, count)
	}
	for _, pid := range pids {
		if got := oomScore(t, strconv.Itoa(pid)); got != strconv.Itoa(want) {
			t.Errorf("process %d has %s, want %d", pid, got, want)
		}
	}
}

// gate returns a stdin that reaches its end when open is called.
func gate(t *testing.T) (path string, open func()) {
	t.Helper()
	path, _ = fifo(t)
	hold, err := os.OpenFile(path, os.O_RDWR, 0) // keeps either side from waiting for the other
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { hold.Close() })
	return path, func() { hold.Close() }
}

// A job grows above its reserve and shrinks again. It starts no process while its scores are checked.
func TestOOMScoresFollowTheReserve(t *testing.T) {
	n := newNode(t, cgroup.V1)
	release, open := gate(t)
	freed, awaitFreed := fifo(t)
	end, _ := fifo(t)
	job := n.description("sleep 1000 & " + program("alloc=209715200", "wait") + " < " + release + "; echo here > " + freed + "; read -r end < " + end + "; true")
	job.Memory.UserReserve, job.Memory.OOMScoreAdj = 100*mib, 700
	dir := n.launch(t, job)
	above := follow(t, dir, func(s *State) bool { return s.OOMScoreAdj != 0 })
	if above == nil || above.OOMScoreAdj != 700 || above.UserMemory <= 100*mib {
		t.Fatalf("the job was never above its reserve: %+v", above)
	}
	n.checkOOMScores(t, job, 3, 700)
	proxy := strconv.Itoa(above.ProxyPID)
	if oomScore(t, proxy) != oomScore(t, "self") {
		t.Errorf("the proxy has %s, but it is below its own reserve", oomScore(t, proxy))
	}
	open()
	awaitFreed() // the program has ended, and its memory is free
	if below := follow(t, dir, func(s *State) bool { return s.OOMScoreAdj == 0 }); below == nil || below.UserMemory > 100*mib {
		t.Fatalf("the job did not come back: %+v", below)
	}
	n.checkOOMScores(t, job, 2, cgroup.StartOOMScore)
	if err := os.WriteFile(end, []byte("end\n"), 0); err != nil {
		t.Fatal(err)
	}
	if r := n.result(t, dir); r.Outcome != Completed || len(r.Warnings) > 0 {
		t.Errorf("%s: %v, %v", r.Outcome, r.Error, r.Warnings)
	}
}

func TestOOMScoresFollowTheReserveWithoutControlGroups(t *testing.T) {
	n := newNode(t, cgroup.ProcessLimits)
	job := n.description(program("alloc=209715200", "sleep=1h"))
	job.Memory.UserReserve, job.Memory.OOMScoreAdj = 100*mib, 700
	dir := n.launch(t, job)
	if follow(t, dir, func(s *State) bool { return s.OOMScoreAdj == 700 }) == nil {
		t.Fatal("the job was never above its reserve")
	}
	n.checkRoot(t, dir, "700")
	do(t, dir, Order{Command: Abort, Reason: "user_request"})
	n.result(t, dir)
}

// checkRoot checks the score of a job's first process.
func (n *node) checkRoot(t *testing.T, dir, want string) {
	t.Helper()
	if got := oomScore(t, strconv.Itoa(do(t, dir, Order{Command: Status}).RootPID)); got != want {
		t.Errorf("the command has %s, want %s", got, want)
	}
}

// The job itself observes its score: it waits until the score is set, changes it, and waits until it is
// set again.
func TestAboveItsReserveAProcessCannotEscape(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("NOT ROOT: a process may not make its own score less")
	}
	n := newNode(t, cgroup.V1)
	job := n.description(`
		score() { until read -r s < /proc/$$/oom_score_adj && [ $s = $1 ]; do sleep 0.01; done; }
		` + program("alloc=209715200", "sleep=1h") + ` &
		score 700; echo -500 > /proc/$$/oom_score_adj; score 700; kill $!; score 300`)
	job.Memory.UserReserve, job.Memory.OOMScoreAdj, job.TimeLimit = 100*mib, 700, Duration(time.Minute)
	if r := n.run(t, job); r.Outcome != Completed {
		t.Errorf("%s: %v", r.Outcome, r.Error)
	}
}

func TestWithoutTheOptionOOMScoresStay(t *testing.T) {
	n := newNode(t, cgroup.V1)
	job := n.description(program("alloc=209715200", "sleep=1h"))
	job.Memory.UserReserve, job.Memory.Allocation = 100*mib, 200*mib
	dir := n.launch(t, job)
	if s := follow(t, dir, func(s *State) bool { return s.UserMemory >= 190*mib }); s == nil || s.OOMScoreAdj != 0 {
		t.Errorf("%+v", s)
	}
	n.checkRoot(t, dir, strconv.Itoa(cgroup.StartOOMScore))
	do(t, dir, Order{Command: Abort, Reason: "user_request"})
	n.result(t, dir)
}

// The proxy is a process with its own reserve.
func TestAProxyAboveItsReserveIsPreferredToo(t *testing.T) {
	n := newNode(t, cgroup.V1)
	job := n.description(`until read -r s < /proc/$PPID/oom_score_adj && [ $s = 700 ]; do sleep 0.01; done; read -r s < /proc/$$/oom_score_adj; [ $s = 300 ]`)
	job.Memory.ProxyReserve, job.Memory.Footprint, job.Memory.OOMScoreAdj, job.TimeLimit = mib, 0, 700, Duration(time.Minute)
	if r := n.run(t, job); r.Outcome != Completed {
		t.Errorf("%s: %v", r.Outcome, r.Error)
	}
}

func TestAProxyBackBelowItsReserveHasItsOwnScore(t *testing.T) {
	before := oomScore(t, "self")
	p := &proxy{log: log.New(io.Discard, "", 0)}
	p.setOwnOOMScore(true, 999)
	if got := oomScore(t, "self"); got != "999" {
		t.Errorf("it has %s", got)
	}
	p.setOwnOOMScore(false, 999)
	if got := oomScore(t, "self"); got != before || len(p.warnings) > 0 {
		t.Errorf("it has %s, not %s; %v", got, before, p.warnings)
	}
}

// squeezed runs two jobs in a group that has too little memory for both: one above its reserve, and a
// larger one that grows within its reserve. It returns their results. Rarely the kernel kills both: on
// a busy machine it may choose a second victim while the first still frees its memory. In that case the
// experiment is repeated.
func squeezed(t *testing.T, score int) (above, within *Result) {
	for range 5 {
		above, within = squeeze(t, score)
		if above.Outcome != Aborted || within.Outcome != Aborted {
			break
		}
		t.Log("both were killed")
	}
	return above, within
}

// squeeze runs the experiment once. By the kernel's count, in MiB, each process of the job above its
// reserve has 128 for its score of 1000, and the large one, when memory runs out, about 80 and 38 for
// its score of 300.
func squeeze(t *testing.T, score int) (above, within *Result) {
	n := newNode(t, cgroup.V1)
	if n.driver.Mode() == cgroup.V2 {
		t.Skip("the limit of the parent is set in the way of version 1")
	}
	limit := filepath.Join("/sys/fs/cgroup/memory", n.driver.Parent(), "memory.limit_in_bytes")
	if err := os.WriteFile(limit, []byte(strconv.Itoa(128*mib)), 0); err != nil {
		t.Fatal(err)
	}
	// launch returns when the job's program has its memory. The program continues when the returned
	// gate opens.
	launch := func(reserve int64, before string, steps ...string) (dir string, open func()) {
		at, _ := fifo(t)
		gate, open := gate(t)
		job := n.description(before + program(append([]string{steps[0], "say=here", "wait"}, steps[1:]...)...) + " > " + at + " < " + gate)
		job.Memory.UserReserve, job.Memory.OOMScoreAdj = reserve, score
		dir = n.launch(t, job)
		said, err := os.Open(at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { said.Close() })
		if line, err := bufio.NewReader(said).ReadString('\n'); line != "here\n" {
			t.Fatalf("the job said %q, %v", line, err)
		}
		return dir, open
	}
	others := strings.Repeat("sleep 1000 & ", 6)                               // they, too, are killed before a job within its reserve
	aboveDir, endAbove := launch(20*mib, others, "alloc=41943040")             // 40 MiB
	withinDir, grow := launch(120*mib, "", "alloc=50331648", "alloc=41943040") // 48 MiB, then 40 MiB more
	if score != 0 && follow(t, aboveDir, func(s *State) bool { return s.OOMScoreAdj == score }) == nil {
		t.Fatal("the job above its reserve is gone")
	}
	grow()
	within = n.result(t, withinDir)
	endAbove()
	return n.result(t, aboveDir), within
}

func TestTheKernelKillsTheJobAboveItsReserve(t *testing.T) {
	above, within := squeezed(t, cgroup.MaxOOMScore)
	if above.Outcome != Aborted || above.AbortReason != ResourceOverdraft {
		t.Errorf("the job above its reserve: %s %s: %v", above.Outcome, above.AbortReason, above.Error)
	}
	if within.Outcome != Completed {
		t.Errorf("the job within its reserve: %s %s: %v", within.Outcome, within.AbortReason, within.Error)
	}
}

// This is why the option exists: by size alone, the kernel kills the wrong job.
func TestWithoutTheOptionTheKernelKillsTheLargest(t *testing.T) {
	above, within := squeezed(t, 0)
	if above.Outcome != Completed {
		t.Errorf("the job above its reserve: %s %s: %v", above.Outcome, above.AbortReason, above.Error)
	}
	if within.Outcome != Aborted || within.AbortReason != ResourceOverdraft {
		t.Errorf("the job within its reserve: %s %s: %v", within.Outcome, within.AbortReason, within.Error)
	}
}
