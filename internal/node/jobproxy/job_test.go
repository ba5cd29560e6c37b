package jobproxy

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/node/cgroup"
)

// modes runs a test with control groups and with process limits.
func modes(t *testing.T, test func(t *testing.T, n *node)) {
	t.Run("control groups", func(t *testing.T) { test(t, newNode(t, cgroup.V1)) })
	t.Run("process limits", func(t *testing.T) { test(t, newNode(t, cgroup.ProcessLimits)) })
}

func TestTheEndOfTheCommandIsTheEndOfTheJob(t *testing.T) {
	modes(t, func(t *testing.T, n *node) {
		for _, c := range []struct {
			name, command string
			outcome       Outcome
			code, signal  int // -1: none
			says          string
		}{
			{"it succeeds", "true", Completed, 0, -1, ""},
			{"it fails", "exit 3", Failed, 3, -1, "User job failed: Process exited with code 3"},
			{"it kills itself", "kill -SEGV $$", Failed, -1, 11, "Process terminated by signal 11 (SIGSEGV)"},
			{"there is no such command", "no-such-command", Failed, 127, -1, "Process exited with code 127"},
			{"it leaves others behind", "sleep 1000 & setsid sleep 1000 & true", Completed, 0, -1, ""},
		} {
			t.Run(c.name, func(t *testing.T) {
				job := n.description(c.command)
				r := n.run(t, job)
				if r.Outcome != c.outcome || c.says == "" != (r.Error == nil) || r.Error != nil && !strings.Contains(r.Error.Error(), c.says) {
					t.Errorf("%s: %v, want %s: %s", r.Outcome, r.Error, c.outcome, c.says)
				}
				if got := number(r.ExitCode); got != c.code {
					t.Errorf("exit code %d, want %d", got, c.code)
				}
				if got := number(r.Signal); got != c.signal {
					t.Errorf("signal %d, want %d", got, c.signal)
				}
				times := []time.Time{r.Timings.ProxyStarted, r.Timings.ExecStarted, r.Timings.ExecFinished, r.Timings.Finished}
				if !slices.IsSortedFunc(times, time.Time.Compare) || times[0].IsZero() {
					t.Errorf("times %v", times)
				}
			})
		}
	})
}

func number(p *int) int {
	if p == nil {
		return -1
	}
	return *p
}

func TestTheCommandFindsItsEnvironmentFilesAndStreams(t *testing.T) {
	n := newNode(t, cgroup.V1)
	source := filepath.Join(t.TempDir(), "source")
	if err := os.WriteFile(source, []byte("of the node"), 0o600); err != nil {
		t.Fatal(err)
	}
	job := n.description(`
		echo "$YT_JOB_ID $WEIR_JOB_ID $YT_OPERATION_ID $YT_JOB_COOKIE $YT_JOB_INDEX $YT_TASK_JOB_INDEX $YT_TASK_NAME $YT_POOL_TREE"
		echo "$YT_NODE_ADDRESS $WEIR_MEMORY_LIMIT $WEIR_CPU_LIMIT $GREETING"
		[ "$PWD" = "$HOME" ] && [ "$PWD" = "$WEIR_SANDBOX_PATH" ] && [ -w "$TMPDIR" ] && echo at home
		dir/script; cat data; cat copied; echo
		cat
		echo to stderr >&2`)
	job.Environment = []Variable{{"GREETING", "hello world"}, {"YT_JOB_ID", "forged"}}
	job.Files = []File{
		{Path: "dir/script", Content: []byte("#!/bin/sh\necho script\n"), Executable: true},
		{Path: "data", Content: []byte("data\n")}, {Path: "copied", Source: source},
	}
	job.Stdin = []byte(strings.Repeat("line of stdin\n", 10_000))
	job.KeepStdout, job.MaxStdoutSize = true, mib
	dir := n.launch(t, job)
	if r := n.result(t, dir); r.Outcome != Completed {
		t.Errorf("outcome %s", r.Outcome)
	}
	out, err := ReadOutput(dir, "stdout", mib)
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("%[1]s %[1]s a-b-c-d 3 5 4 task physical\nnode-1:9012 536870912 1 hello world\nat home\nscript\ndata\nof the node\n%s",
		job.JobID, strings.Repeat("line of stdin\n", 10_000))
	if got := string(out.Text()); got != want {
		t.Errorf("stdout is\n%.600s\nwant\n%.600s", got, want)
	}
	if got := stderrOf(t, dir); got != "to stderr\n" {
		t.Errorf("stderr is %q", got)
	}
}

func TestStdoutGoesWhereItIsTold(t *testing.T) {
	n := newNode(t, cgroup.V1)
	input := filepath.Join(t.TempDir(), "input")
	if err := os.WriteFile(input, []byte("from a file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	job := n.description("cat; echo err >&2")
	job.StdinPath, job.RedirectStdoutToStderr = input, true
	dir := n.launch(t, job)
	n.result(t, dir)
	if got := stderrOf(t, dir); got != "from a file\nerr\n" {
		t.Errorf("stderr is %q", got)
	}
	dir = n.launch(t, n.description("echo nobody wants it"))
	n.result(t, dir)
	if out, err := ReadOutput(dir, "stdout", mib); err != nil || out.Size != 0 {
		t.Errorf("stdout was kept: %q, %v", out.Text(), err)
	}
}

func TestACommandMayRunAsAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("NOT ROOT, cannot become another user")
	}
	n := newNode(t, cgroup.V1)
	for _, dir := range []string{filepath.Dir(n.root), filepath.Dir(filepath.Dir(n.root))} {
		if err := os.Chmod(dir, 0o755); err != nil { // a way in for others
			t.Fatal(err)
		}
	}
	job := n.description("id -u >&2; id -g >&2; touch new file volume/new && [ -O file ]")
	job.Credential = &Credential{UID: 65534, GID: 65534}
	job.Files = []File{{Path: "file", Content: []byte("x")}}
	job.Tmpfs = []Tmpfs{{Path: "volume", Size: mib}}
	dir := n.launch(t, job)
	r := n.result(t, dir)
	if got := stderrOf(t, dir); r.Outcome != Completed || got != "65534\n65534\n" {
		t.Errorf("%s: %v\n%s", r.Outcome, r.Error, got)
	}
}

func TestStatisticsAreWhatTheReferenceProgramUsed(t *testing.T) {
	n := newNode(t, cgroup.V1)
	job := n.description(program("burn=1s", "alloc=209715200", "map=mapped:104857600", "sleep=1s", "cpu"))
	dir := n.launch(t, job)
	r := n.result(t, dir)
	if r.Outcome != Completed {
		t.Fatalf("%s: %v", r.Outcome, r.Error)
	}
	near(t, "user_job/max_memory", statistic(t, r, "user_job/max_memory"), 300*mib, 0.05)
	cpu := statistic(t, r, "user_job/cpu/user") + statistic(t, r, "user_job/cpu/system")
	// The program itself reports what it has used: touching the memory uses CPU too, and more on a busy
	// machine.
	told, err := strconv.ParseFloat(strings.TrimSpace(stderrOf(t, dir)), 64)
	if err != nil || told < 1e6 {
		t.Errorf("the program says that it used %v µs, %v", told, err)
	}
	near(t, "user_job/cpu", cpu, told/1000, 0.05)
	exec := statistic(t, r, "time/exec")
	average := float64(statistic(t, r, "user_job/cumulative_memory_mb_sec")) / (float64(exec) / 1000)
	t.Logf("average memory %.0f MiB over %d ms", average, exec)
	if average <= 0 || average > 310 {
		t.Errorf("average memory is %v MiB", average)
	}
	for path, want := range map[string]int64{
		"user_job/memory_limit": 512 * mib, "user_job/memory_reserve": 256 * mib, "user_job/memory_reserve_factor_x10000": 5000,
		"job_proxy/estimated_memory": 16 * mib, "job_proxy/memory_reserve": 16 * mib, "job_proxy/memory_reserve_factor_x10000": 10000,
		"user_job/cumulative_memory_reserve":    256 * mib * statistic(t, r, "time/total") / 1000,
		"job_proxy/cumulative_memory_reserve":   16 * mib * statistic(t, r, "time/total") / 1000,
		"job_proxy/cumulative_estimated_memory": 16 * mib * statistic(t, r, "time/total") / 1000,
	} {
		if got := statistic(t, r, path); got != want {
			t.Errorf("%s is %d, want %d", path, got, want)
		}
	}
	if got := statistic(t, r, "job_proxy/max_memory"); got <= 0 || got > 40*mib {
		t.Errorf("job_proxy/max_memory is %d", got)
	}
}

func TestAShortJobHasFiguresToo(t *testing.T) {
	n := newNode(t, cgroup.V1)
	job := n.description(program("alloc=268435456"))
	job.Memory.WatchdogPeriod = Duration(time.Hour)
	near(t, "user_job/max_memory", statistic(t, n.run(t, job), "user_job/max_memory"), 256*mib, 0.05)
}

func TestAJobAboveItsMemoryLimitFails(t *testing.T) {
	modes(t, func(t *testing.T, n *node) {
		job := n.description(program("say=small", "wait") + " & " + program("alloc=314572800", "sleep=1h"))
		job.Memory.Limit, job.Memory.UserReserve = 256*mib, 100*mib
		r := n.run(t, job)
		if r.Outcome != Failed || r.Error.Code != CodeUserJobFailed || len(r.Error.Inner) != 1 {
			t.Fatalf("%s: %v", r.Outcome, r.Error)
		}
		cause := r.Error.Inner[0]
		if cause.Code != CodeMemoryLimitExceeded || cause.Message != "Memory limit exceeded" {
			t.Fatalf("%v", r.Error)
		}
		var usage, limit, tmpfs int64
		var processes []cgroup.ProcessInfo
		for name, target := range map[string]any{"usage": &usage, "limit": &limit, "tmpfs_usage": &tmpfs, "processes": &processes} {
			if err := json.Unmarshal(cause.Attributes[name], target); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if usage <= 256*mib || limit != 256*mib || tmpfs != 0 {
			t.Errorf("usage %d, limit %d, tmpfs %d", usage, limit, tmpfs)
		}
		if len(processes) < 2 || !strings.Contains(processes[0].Command, "alloc=314572800") || processes[0].RSS < 200*mib ||
			!slices.IsSortedFunc(processes, func(a, b cgroup.ProcessInfo) int { return int(b.RSS - a.RSS) }) {
			t.Errorf("processes %+v", processes)
		}
	})
}

func TestMemoryInTmpfsCountsTowardsTheLimit(t *testing.T) {
	n := newNode(t, cgroup.V1)
	job := n.description("head -c 150M /dev/zero > volume/file; " + program("alloc=104857600", "sleep=1h"))
	job.Memory.Limit = 200 * mib
	job.Tmpfs = []Tmpfs{{Path: "volume", Size: 200 * mib}}
	r := n.run(t, job)
	if r.Outcome != Failed || len(r.Error.Inner) != 1 || r.Error.Inner[0].Code != CodeMemoryLimitExceeded ||
		string(r.Error.Inner[0].Attributes["tmpfs_usage"]) != "157286400" {
		t.Errorf("%s: %v", r.Outcome, r.Error)
	}
}

func TestAMemoryBombMeetsTheKernelsLimit(t *testing.T) {
	n := newNode(t, cgroup.V1)
	job := n.description(program("alloc=8589934592", "sleep=1h"))
	job.Memory.Limit, job.Container.MemoryLimit = 128*mib, 144*mib
	job.Memory.WatchdogPeriod = Duration(time.Hour)
	r := n.run(t, job)
	if r.Outcome != Failed || r.Error.Error() != "User job failed: Memory limit exceeded" {
		t.Errorf("%s %s: %v", r.Outcome, r.AbortReason, r.Error)
	}
	if peak := statistic(t, r, "user_job/max_memory"); peak > 150*mib {
		t.Errorf("max_memory is %d", peak)
	}
}

func TestAnOOMKillBelowTheUsersLimitIsAnOverdraft(t *testing.T) {
	n := newNode(t, cgroup.V1)
	job := n.description(program("alloc=268435456", "sleep=1h") + "; true") // the shell survives
	job.Memory.Limit, job.Container.MemoryLimit = 512*mib, 64*mib
	r := n.run(t, job)
	if r.Outcome != Aborted || r.AbortReason != ResourceOverdraft {
		t.Errorf("%s %s: %v", r.Outcome, r.AbortReason, r.Error)
	}
}

func TestAnOOMKillForWantOfMemoryElsewhereIsAnOverdraft(t *testing.T) {
	n := newNode(t, cgroup.V1)
	if n.driver.Mode() == cgroup.V2 {
		t.Skip("the limit of the parent is set in the way of version 1")
	}
	parent := filepath.Join("/sys/fs/cgroup/memory", n.driver.Parent(), "memory.limit_in_bytes")
	if err := os.WriteFile(parent, []byte("67108864"), 0); err != nil {
		t.Fatal(err)
	}
	job := n.description(program("alloc=268435456", "sleep=1h"))
	job.Memory.Limit, job.Container.MemoryLimit = 512*mib, 520*mib
	if r := n.run(t, job); r.Outcome != Aborted || r.AbortReason != ResourceOverdraft {
		t.Errorf("%s %s: %v", r.Outcome, r.AbortReason, r.Error)
	}
}

func TestAJobAboveItsReserveAsksForMore(t *testing.T) {
	n := newNode(t, cgroup.V1)
	at, await := fifo(t)
	gate, _ := fifo(t)
	job := n.description("echo here > " + at + "; cat " + gate + "; " + program("alloc=314572800", "sleep=1h"))
	job.Memory.Allocation, job.Memory.Ahead = 200*mib, 100*mib
	dir := n.launch(t, job)
	await()
	if state := do(t, dir, Order{Command: Status}); state.RequestedMemory != 200*mib {
		t.Errorf("a small job requests %d MiB", state.RequestedMemory/mib)
	}
	if err := os.WriteFile(gate, []byte("go"), 0); err != nil {
		t.Fatal(err)
	}
	// The proxy's own usage counts as well, so the job requests 400 MiB before the program has touched
	// everything.
	grown := follow(t, dir, func(s *State) bool { return s.RequestedMemory >= 400*mib && s.UserMemory >= 298*mib })
	if grown == nil {
		t.Fatal("no growth was reported")
	}
	if most := grown.UserMemory + grown.ProxyMemory + 100*mib; grown.RequestedMemory < most {
		t.Errorf("requested %d, use with the part ahead %d", grown.RequestedMemory, most)
	}
	recorded, err := ReadState(dir)
	if err != nil || recorded.RequestedMemory < grown.RequestedMemory {
		t.Errorf("state.json has %+v, %v", recorded, err)
	}
	do(t, dir, Order{Command: Abort, Reason: ResourceOverdraft, Message: "the node is full"})
	r := n.result(t, dir)
	if r.Outcome != Aborted || r.AbortReason != ResourceOverdraft || r.Error.Message != "the node is full" {
		t.Errorf("%s %s: %v", r.Outcome, r.AbortReason, r.Error)
	}
	near(t, "user_job/max_memory", statistic(t, r, "user_job/max_memory"), 300*mib, 0.05)
}

func TestWithTheStrictOptionAnOverdraftAbortsAtOnce(t *testing.T) {
	n := newNode(t, cgroup.V1)
	job := n.description(program("alloc=209715200", "sleep=1h"))
	job.Memory.UserReserve, job.Memory.AbortOnOverdraft = 100*mib, true
	if r := n.run(t, job); r.AbortReason != ResourceOverdraft || string(r.Error.Attributes["process"]) != `"user_job"` {
		t.Errorf("%s %s: %v", r.Outcome, r.AbortReason, r.Error)
	}
}

func TestAForkBombIsBoundedAndEnds(t *testing.T) {
	n := newNode(t, cgroup.V1)
	if !n.driver.LimitsProcesses() {
		t.Skip("NO PIDS CONTROLLER HERE: nothing would bound a fork bomb")
	}
	at, _ := fifo(t)
	job := n.description(`exec 2>/dev/null >` + at + `; bomb() { echo x; bomb & bomb & wait; }; bomb; sleep 1000`)
	job.Container.ProcessLimit = 150
	dir := n.launch(t, job)
	bombs, err := os.Open(at)
	if err != nil {
		t.Fatal(err)
	}
	defer bombs.Close() // only after they have ended: no process must die of a closed pipe
	for lines, i := bufio.NewReader(bombs), 0; i < 100; i++ {
		if line, err := lines.ReadString('\n'); line != "x\n" {
			t.Fatalf("bomb %d said %q, %v", i, line, err)
		}
	}
	container, err := n.driver.Open(job.JobID)
	if err != nil {
		t.Fatal(err)
	}
	if pids, err := container.Processes(); err != nil || len(pids) > 150 {
		t.Errorf("%d processes, %v; the limit is 150", len(pids), err)
	}
	do(t, dir, Order{Command: Abort, Reason: "user_request"})
	if r := n.result(t, dir); r.Outcome != Aborted || r.AbortReason != "user_request" {
		t.Errorf("%s %s: %v", r.Outcome, r.AbortReason, r.Error)
	}
}

func TestTheTimeLimitFailsAJobThatIgnoresSignals(t *testing.T) {
	n := newNode(t, cgroup.V1)
	job := n.description("trap '' TERM INT HUP; " + program("ignore=15", "ignore=2", "sleep=1h"))
	job.TimeLimit = Duration(200 * time.Millisecond)
	r := n.run(t, job)
	if r.Outcome != Failed || r.Error.Code != CodeTimeLimitExceeded || string(r.Error.Attributes["limit"]) != "200" {
		t.Errorf("%s: %v", r.Outcome, r.Error)
	}
	if took := r.Timings.Finished.Sub(r.Timings.ExecStarted); took < 200*time.Millisecond {
		t.Errorf("it ended after %v", took)
	}
}

func TestAFloodOfStderrKeepsItsHeadAndTail(t *testing.T) {
	n := newNode(t, cgroup.V1)
	job := n.description(`echo first >&2; yes | head -c 64M >&2; echo last >&2`)
	dir := n.launch(t, job)
	n.result(t, dir)
	out, err := ReadOutput(dir, "stderr", job.MaxStderrSize)
	if err != nil {
		t.Fatal(err)
	}
	kept := int64(len(out.Head) + len(out.Tail))
	if !strings.HasPrefix(string(out.Head), "first\ny\n") || !strings.HasSuffix(string(out.Tail), "y\nlast\n") ||
		out.Size != 64*mib+11 || out.Skipped != out.Size-kept || kept > job.MaxStderrSize || kept < job.MaxStderrSize*3/4 {
		t.Errorf("head %d, tail %d of %d bytes, %d skipped", len(out.Head), len(out.Tail), out.Size, out.Skipped)
	}
	if text := string(out.Text()); !strings.Contains(text, fmt.Sprintf("...%d bytes are not kept...", out.Skipped)) {
		t.Errorf("no word of what is missing in %.100q", text)
	}
	var onDisk int64
	pieces, _ := filepath.Glob(filepath.Join(dir, "stderr.*"))
	for _, piece := range pieces {
		info, err := os.Stat(piece)
		if err != nil {
			t.Fatal(err)
		}
		onDisk += info.Size()
	}
	if onDisk > job.MaxStderrSize {
		t.Errorf("%d bytes on disk, allowed %d", onDisk, job.MaxStderrSize)
	}
}

func TestTmpfsVolumesAreMountedMeasuredAndGone(t *testing.T) {
	n := newNode(t, cgroup.V1)
	job := n.description(`
		grep -c " $PWD/.* - tmpfs" /proc/self/mountinfo >&2
		cat one/inside >&2
		head -c 20M /dev/zero > one/file || exit 1
		head -c 100M /dev/zero > two/deep/file && exit 2
		sleep 0.2`)
	job.Tmpfs = []Tmpfs{{Path: "one", Size: 64 * mib}, {Path: "two/deep", Size: 32 * mib}}
	job.Files = []File{{Path: "one/inside", Content: []byte("a file inside\n")}}
	dir := n.launch(t, job)
	r := n.result(t, dir)
	if r.Outcome != Completed || len(r.Warnings) > 0 {
		t.Fatalf("%s: %v, %v", r.Outcome, r.Error, r.Warnings)
	}
	if got := stderrOf(t, dir); !strings.HasPrefix(got, "2\na file inside\n") || !strings.Contains(got, "No space left") {
		t.Errorf("stderr is %q", got)
	}
	near(t, "volume 0", statistic(t, r, "user_job/tmpfs_volumes/0/max_size"), 20*mib, 0.05)
	near(t, "volume 1", statistic(t, r, "user_job/tmpfs_volumes/1/max_size"), 32*mib, 0.05)
	near(t, "tmpfs", statistic(t, r, "user_job/tmpfs_max_usage"), 52*mib, 0.05)
	if got := statistic(t, r, "user_job/max_memory"); got > 20*mib {
		t.Errorf("max_memory is %d: tmpfs is in it", got)
	}
}

func TestTheWholeSandboxMayBeTmpfs(t *testing.T) {
	n := newNode(t, cgroup.V1)
	job := n.description(`[ -x file ] && findmnt -n -o FSTYPE "$PWD" >&2 || stat -f -c %T . >&2`)
	job.Tmpfs = []Tmpfs{{Path: ".", Size: 16 * mib}}
	job.Files = []File{{Path: "file", Content: []byte("x"), Executable: true}}
	dir := n.launch(t, job)
	if r := n.result(t, dir); r.Outcome != Completed || stderrOf(t, dir) != "tmpfs\n" {
		t.Errorf("%s: %v, %q", r.Outcome, r.Error, stderrOf(t, dir))
	}
}

func TestMappedTmpfsIsNotCountedTwice(t *testing.T) {
	n := newNode(t, cgroup.V1)
	job := n.description(program("map=volume/file:104857600", "sleep=1s"))
	job.Tmpfs = []Tmpfs{{Path: "volume", Size: 200 * mib}}
	job.Memory.Limit = 150 * mib // it would be exceeded if memory were counted twice
	r := n.run(t, job)
	if r.Outcome != Completed {
		t.Fatalf("%s: %v", r.Outcome, r.Error)
	}
	near(t, "tmpfs", statistic(t, r, "user_job/tmpfs_max_usage"), 100*mib, 0.05)
	if got := statistic(t, r, "user_job/max_memory"); got > 20*mib {
		t.Errorf("max_memory is %d MiB", got/mib)
	}
}

func TestInterruption(t *testing.T) {
	seven := 7
	for _, c := range []struct {
		name    string
		command string
		signal  string
		order   Order
		outcome Outcome
		reason  string
	}{
		{"it completes in time", `trap 'exit 0' USR1; HERE; sleep 1000 & wait`, "SIGUSR1", Order{Timeout: Duration(time.Minute)}, Completed, ""},
		{"it stops in time", `HERE; sleep 1000`, "TERM", Order{Timeout: Duration(time.Minute)}, Interrupted, ""},
		{"it wants to be started again", `trap 'exit 7' TERM; HERE; sleep 1000 & wait`, "TERM", Order{Timeout: Duration(time.Minute)}, Interrupted, ""},
		{"it fails on the way", `trap 'exit 9' TERM; HERE; sleep 1000 & wait`, "TERM", Order{Timeout: Duration(time.Minute)}, Failed, ""},
		{"it takes too long", `trap '' TERM; HERE; while :; do sleep 1000; done`, "TERM", Order{Timeout: Duration(100 * time.Millisecond), Reason: "preemption"}, Aborted, "preemption"},
		{"it takes too long, no reason given", `trap '' TERM; HERE; while :; do sleep 1000; done`, "TERM", Order{Timeout: Duration(100 * time.Millisecond)}, Aborted, InterruptionTimeout},
		{"it cannot be interrupted", `HERE; sleep 1000`, "", Order{Timeout: Duration(time.Minute), Reason: "preemption"}, Aborted, "preemption"},
		{"it cannot be interrupted, no reason given", `HERE; sleep 1000`, "", Order{}, Aborted, InterruptionUnsupported},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNode(t, cgroup.V1)
			at, await := fifo(t)
			job := n.description(strings.ReplaceAll(c.command, "HERE", "echo here > "+at))
			job.Interruption = Interruption{Signal: c.signal, RootProcessOnly: true}
			job.RestartExitCode = &seven
			dir := n.launch(t, job)
			await()
			c.order.Command = Interrupt
			do(t, dir, c.order)
			r := n.result(t, dir)
			if r.Outcome != c.outcome || r.AbortReason != c.reason || r.Interrupted != (c.signal != "") {
				t.Errorf("%s %s (%v): %v; want %s %s", r.Outcome, r.AbortReason, r.Interrupted, r.Error, c.outcome, c.reason)
			}
		})
	}
}

func TestAnInterruptionReachesEveryProcessUnlessItIsForTheRoot(t *testing.T) {
	n := newNode(t, cgroup.V1)
	at, await := fifo(t)
	end, _ := fifo(t)
	// Both processes are ready for the signal before one of them reports so, and the job runs until it
	// has received all orders.
	job := n.description(`trap 'echo root >&2' USR1; (trap 'echo child >&2; exit' USR1; echo here > ` + at + `; sleep 1000 & wait) & ` +
		`wait; wait; until read -r end < ` + end + `; do :; done`)
	job.Interruption.Signal = "SIGUSR1"
	dir := n.launch(t, job)
	await()
	do(t, dir, Order{Command: Interrupt, Timeout: Duration(time.Minute)})
	// A later deadline changes nothing; an earlier one does.
	do(t, dir, Order{Command: Interrupt, Timeout: Duration(time.Hour)})
	state := follow(t, dir, func(s *State) bool { return !s.InterruptionDeadline.IsZero() })
	if state == nil || time.Until(state.InterruptionDeadline) > 2*time.Minute {
		t.Fatalf("the deadline is not the first one: %+v", state)
	}
	if err := os.WriteFile(end, []byte("end\n"), 0); err != nil {
		t.Fatal(err)
	}
	n.result(t, dir)
	if got := stderrOf(t, dir); !strings.Contains(got, "child\n") || !strings.Contains(got, "root\n") {
		t.Errorf("stderr is %q", got)
	}
}

func TestAJobCanBeToldToFail(t *testing.T) {
	n := newNode(t, cgroup.V1)
	at, await := fifo(t)
	job := n.description(`trap 'echo I was at line 7 >&2; exit 0' TERM; echo here > ` + at + `; sleep 1000 & wait`)
	job.Interruption = Interruption{Signal: "TERM", RootProcessOnly: true}
	dir := n.launch(t, job)
	await()
	do(t, dir, Order{Command: Fail, Message: "time limit of the operation", Timeout: Duration(time.Minute)})
	r := n.result(t, dir)
	if r.Outcome != Failed || r.Error.Message != "time limit of the operation" || stderrOf(t, dir) != "I was at line 7\n" {
		t.Errorf("%s: %v, %q", r.Outcome, r.Error, stderrOf(t, dir))
	}
}

func TestTheCPULimitFollowsUse(t *testing.T) {
	n := newNode(t, cgroup.V1)
	job := n.description("sleep 1000")
	job.CPULimit = 4
	options := monitorOptions()
	job.CPUMonitor = &options
	dir := n.launch(t, job)
	shrunk := follow(t, dir, func(s *State) bool { return s.CPULimit < 300 })
	if shrunk == nil {
		t.Fatal("the limit did not fall")
	}
	var shares float64
	if n.driver.Mode() != cgroup.V2 {
		text, err := os.ReadFile(filepath.Join("/sys/fs/cgroup/cpu", n.driver.Parent(), job.JobID, "cpu.shares"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Sscan(string(text), &shares); err != nil || shares >= 3*1024 {
			t.Errorf("shares are %s after the limit fell to %d", text, shrunk.CPULimit)
		}
	}
	history := do(t, dir, Order{Command: Status}).CPUHistory
	if len(history) < 5 {
		t.Errorf("the history has %d checks", len(history))
	}
	// Meanwhile the limit keeps falling. The container's value must be one that some check has set.
	if shares > 0 && !slices.ContainsFunc(history, func(c CPUCheck) bool { return math.Abs(1024*c.Limit-shares) <= 1 }) {
		t.Errorf("shares of %v were set by none of %v", shares, history)
	}
	do(t, dir, Order{Command: Abort, Reason: "user_request"})
	r := n.result(t, dir)
	if len(r.CPUHistory) == 0 || r.CPUHistory[0].Limit >= 4 {
		t.Errorf("history %v", r.CPUHistory)
	}
	for _, path := range []string{
		"smoothed_cpu_usage_x100", "preemptible_cpu_x100", "aggregated_smoothed_cpu_usage_x100", "aggregated_max_cpu_usage_x100",
		"aggregated_preemptible_cpu_x100", "aggregated_preempted_cpu_x100",
	} {
		if got := statistic(t, r, "job_proxy/"+path); got < 0 || path == "preemptible_cpu_x100" && got < 100 {
			t.Errorf("%s is %d", path, got)
		}
	}
}

func TestAbortReasonsAreTheControllers(t *testing.T) {
	for _, name := range []string{ResourceOverdraft, InterruptionTimeout, InterruptionUnsupported, ProxyFailed, OtherReason} {
		var reason operation.AbortReason
		if err := reason.UnmarshalText([]byte(name)); err != nil {
			t.Error(err)
		}
	}
	if int(operation.CodeMemoryLimitBroken) != CodeMemoryLimitExceeded || int(operation.CodeUserJobFailed) != CodeUserJobFailed {
		t.Error("codes of errors differ")
	}
}

func TestPreparationThatCannotSucceedEndsTheJob(t *testing.T) {
	n := newNode(t, cgroup.V1)
	missing := n.description("true")
	missing.Files = []File{{Path: "a", Content: []byte("x")}, {Path: "b", Source: "/no/such/file"}}
	if r := n.run(t, missing); r.Outcome != Failed || r.Error.Code != CodeNotPrepared || r.ExitCode != nil {
		t.Errorf("a file that is not there: %s: %v", r.Outcome, r.Error)
	}
	full := n.description("true")
	full.Tmpfs = []Tmpfs{{Path: "small", Size: 64 * kib}}
	full.Files = []File{{Path: "small/file", Content: make([]byte, mib)}}
	if r := n.run(t, full); r.Outcome != Aborted || r.AbortReason != OtherReason {
		t.Errorf("no space: %s: %v", r.Outcome, r.Error)
	}
	long := n.description(strings.Repeat("x", 128<<10))
	if r := n.run(t, long); r.Outcome != Failed || r.Error.Code != CodeNotPrepared || !r.Timings.ExecStarted.IsZero() {
		t.Errorf("a command that is too long: %s: %v", r.Outcome, r.Error)
	}
	slow := n.description("true")
	at, _ := fifo(t) // no process writes to it
	slow.Files = []File{{Path: "a", Source: at}}
	dir := n.launch(t, slow)
	writer, err := os.OpenFile(at, os.O_WRONLY, 0) // the proxy is reading it
	if err != nil {
		t.Fatal(err)
	}
	do(t, dir, Order{Command: Abort, Reason: "preemption"})
	writer.Close()
	if r := n.result(t, dir); r.Outcome != Aborted || r.AbortReason != "preemption" || !r.Timings.ExecStarted.IsZero() {
		t.Errorf("aborted while preparing: %s %s: %v", r.Outcome, r.AbortReason, r.Error)
	}
}

func TestTheProxyIsSmall(t *testing.T) {
	n := newNode(t, cgroup.V1)
	job := n.description("echo x >&2; sleep 1000")
	options := monitorOptions()
	job.CPUMonitor = &options
	job.Memory.WatchdogPeriod = Duration(10 * time.Millisecond) // a hundred times faster than usual
	dir, err := Launch([]string{proxyProgram}, n.root, job)
	if err != nil {
		t.Fatal(err)
	}
	state := follow(t, dir, func(s *State) bool { return s.CPULimit < 90 || s.Phase != Running && s.Phase != Preparing })
	if state == nil || state.Phase != Running {
		t.Fatalf("state %+v", state)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", state.ProxyPID))
	if err != nil {
		t.Fatal(err)
	}
	var peak int64
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "VmHWM") || strings.HasPrefix(line, "Rss") || strings.HasPrefix(line, "Threads") {
			t.Log(strings.TrimSpace(line))
		}
		fmt.Sscanf(line, "VmHWM: %d kB", &peak)
	}
	t.Logf("memory of its own: %d KiB", state.ProxyMemory/kib)
	if peak == 0 || peak > 20*kib {
		t.Errorf("the proxy took %d KiB", peak)
	}
	do(t, dir, Order{Command: Abort, Reason: "user_request"})
	r := n.result(t, dir)
	looks := float64(statistic(t, r, "time/exec")) / 10
	cpu := float64(statistic(t, r, "job_proxy/cpu/user") + statistic(t, r, "job_proxy/cpu/system"))
	t.Logf("%.0f ms of CPU for %.0f looks and %d checks: %.2f ms each, which is the use per second of an idle job", cpu, looks, len(r.CPUHistory), cpu/looks)
}
