package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestAProcessIsInsideBeforeItsProgramBegins(t *testing.T) {
	drivers(t, func(t *testing.T, d Driver) {
		c := create(t, d, "inside", Limits{})
		// The program first reads its own control group.
		r := startCommand(t, d, c, "/bin/cat", "/proc/self/cgroup")
		var lines []string
		for {
			line, err := r.stdout.ReadString('\n')
			if err != nil {
				break
			}
			lines = append(lines, strings.TrimSpace(line))
		}
		if status := r.end(t); status.ExitStatus() != 0 {
			t.Fatalf("exit status %v", status)
		}
		if d.Mode() == ProcessLimits {
			return
		}
		want := "/" + d.Parent() + "/inside"
		for controller := range c.(*kernelContainer).paths {
			if !slices.ContainsFunc(lines, func(l string) bool {
				f := strings.SplitN(l, ":", 3)
				return len(f) == 3 && slices.Contains(strings.Split(f[1], ","), controller) && f[2] == want
			}) {
				t.Errorf("not in %q of controller %q: %q", want, controller, lines)
			}
		}
	})
}

func TestACommandWhoseStarterFailsDoesNotBegin(t *testing.T) {
	runtime.LockOSThread()
	marker := filepath.Join(t.TempDir(), "began")
	_, err := Start(refusing{}, Command{Args: []string{"/bin/touch", marker}, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("error %v, want the refusal", err)
	}
	if exists(marker) {
		t.Error("the command ran outside")
	}
}

// refusing is a container that no process can join.
type refusing struct{ Container }

func (refusing) Name() string                  { return "refusing" }
func (refusing) Place(int) error               { return fs.ErrInvalid }
func (refusing) Entrances() (Entrances, error) { return Entrances{}, nil }

func TestKillEndsEverythingInside(t *testing.T) {
	drivers(t, func(t *testing.T, d Driver) {
		c := create(t, d, "kill", Limits{Processes: 200})
		// Children that ignore signals, leave the session and lose their parents.
		script := fmt.Sprintf(`for i in 1 2 3 4 5; do setsid %s ignore=15 ignore=2 say=up sleep=1h & done; wait`, referenceProgram)
		r := startCommand(t, d, c, "/bin/sh", "-c", script)
		for range 5 {
			r.expect(t, "up")
		}
		if pids, err := c.Processes(); err != nil || len(pids) != 6 || !slices.Contains(pids, r.pid) {
			t.Errorf("processes %v, %v; want 6 with %d", pids, err, r.pid)
		}
		if err := c.Remove(); err == nil {
			t.Error("a container with processes was removed")
		}
		if err := syscall.Kill(r.pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		r.end(t)
		if err := c.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		if pids, err := c.Processes(); err != nil || len(pids) != 0 {
			t.Errorf("processes %v, %v are left", pids, err)
		}
	})
}

// The processes keep calling exec and fork, so each is briefly in no list.
func TestKillMissesNobodyWhoGoesFromProgramToProgram(t *testing.T) {
	drivers(t, func(t *testing.T, d Driver) {
		for range 10 {
			c, err := d.Create("chain", Limits{})
			if err != nil {
				t.Fatal(err)
			}
			startCommand(t, d, c, "/bin/sh", "-c", "setsid setsid setsid sleep 1000 & exit 0").end(t)
			if err := c.Kill(t.Context()); err != nil {
				t.Fatal(err)
			}
			if c.Mode() == ProcessLimits {
				if _, err := d.Open("chain"); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("somebody is left (%v)", err)
				}
			}
			if err := c.Remove(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestAForkBombIsBoundedAndEnds(t *testing.T) {
	d := kernel(t)
	if !d.LimitsProcesses() {
		t.Skip("NO PIDS CONTROLLER HERE: nothing would bound a fork bomb")
	}
	c := create(t, d, "bomb", Limits{CPU: CPU{Guarantee: 1}, Processes: 100})
	r := startCommand(t, d, c, "/bin/sh", "-c", `bomb() { echo x; bomb & bomb & wait; }; bomb 2>/dev/null`)
	for range 60 {
		r.expect(t, "x")
	}
	pids, err := c.Processes()
	if err != nil || len(pids) > 100 {
		t.Errorf("%d processes, %v; the limit is 100", len(pids), err)
	}
	begin := time.Now()
	if err := c.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d processes were ended in %v", len(pids), time.Since(begin))
	r.end(t)
}

func TestTheCPULimitChangesWhileRunning(t *testing.T) {
	d := kernel(t)
	c := create(t, d, "cpu", Limits{CPU: CPU{Guarantee: 0.5, Limit: 0.5}})
	read := func(controller, file string) string {
		text, err := os.ReadFile(filepath.Join(c.(*kernelContainer).paths[controller], file))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
	if d.Mode() == V2 {
		t.Skip("the files below are of version 1; version 2 has a test of its own")
	}
	for _, step := range []struct {
		cpu           CPU
		shares, quota string
	}{
		{CPU{0.5, 0.5}, "512", "50000"},
		{CPU{3.88, 0}, "3973", "-1"},
		{CPU{0.001, 0.001}, "2", "1000"},
		{CPU{1000, 1000}, "262144", "100000000"},
	} {
		if err := c.SetCPU(step.cpu); err != nil {
			t.Fatal(err)
		}
		if s, q := read("cpu", "cpu.shares"), read("cpu", "cpu.cfs_quota_us"); s != step.shares || q != step.quota {
			t.Errorf("%+v: shares %s, quota %s; want %s, %s", step.cpu, s, q, step.shares, step.quota)
		}
	}
	if err := c.SetCPU(CPU{Guarantee: math.NaN()}); err == nil {
		t.Error("a guarantee of NaN was taken")
	}
	// At a fifth of a core, 100 ms of CPU take five periods of 100 ms. They may start at the end of the
	// first period and end at the beginning of the last, so at least three whole periods pass in
	// between.
	if err := c.SetCPU(CPU{Guarantee: 0.2, Limit: 0.2}); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	start(t, d, c, "burn=100ms", "say=done").expect(t, "done")
	if took := time.Since(begin); took < 300*time.Millisecond {
		t.Errorf("100 ms of CPU took %v under a limit of 0.2", took)
	}
}

func TestTheKernelsMemoryLimitKillsAndIsNoticed(t *testing.T) {
	d := kernel(t)
	c := create(t, d, "oom", Limits{Memory: 64 * mib})
	events, stop, err := c.WatchOOM()
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if u := usage(t, c); u.OOMKills != 0 || u.LimitEvents != 0 {
		t.Errorf("a fresh container: %+v", u)
	}
	r := start(t, d, c, "alloc=268435456", "wait")
	<-events
	if status := r.end(t); status.Signal() != syscall.SIGKILL {
		t.Errorf("the program ended with %v", status)
	}
	if u := usage(t, c); u.OOMKills < 1 || u.LimitEvents < 1 || u.Peak > 65*mib {
		t.Errorf("kills %d, limit events %d, peak %d", u.OOMKills, u.LimitEvents, u.Peak)
	}
	if err := c.SetMemoryLimit(0); err != nil {
		t.Fatal(err)
	}
	start(t, d, c, "alloc=134217728", "say=fits now").expect(t, "fits now")
	stop()
	stop() // calling it twice is fine
}

func TestContainersAreFoundByNameAfterTheirMakerIsGone(t *testing.T) {
	drivers(t, func(t *testing.T, d Driver) {
		c := create(t, d, "left-behind", Limits{})
		r := start(t, d, c, "say=up", "wait")
		r.expect(t, "up")
		if _, err := d.Create("left-behind", Limits{}); !errors.Is(err, fs.ErrExist) {
			t.Errorf("a second container of that name: %v", err)
		}
		again := d
		if d.Mode() == ProcessLimits {
			again, _ = NewProcessLimits(testParent)
		}
		names, err := again.List()
		if err != nil || !slices.Equal(names, []string{"left-behind"}) {
			t.Errorf("list %v, %v", names, err)
		}
		found, err := again.Open("left-behind")
		if err != nil {
			t.Fatal(err)
		}
		if pids, err := found.Processes(); err != nil || !slices.Equal(pids, []int{r.pid}) {
			t.Errorf("processes %v, %v; want %d", pids, err, r.pid)
		}
		if err := found.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.end(t)
		if err := found.Remove(); err != nil {
			t.Fatal(err)
		}
		if err := found.Remove(); err != nil {
			t.Errorf("a second time: %v", err)
		}
		if _, err := again.Open("left-behind"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("open of what is gone: %v", err)
		}
		if err := found.Kill(t.Context()); err != nil {
			t.Errorf("kill of what is gone: %v", err)
		}
	})
}

func TestNamesDoNotLeadOutOfTheParent(t *testing.T) {
	d, err := NewProcessLimits("weir/node-1")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", ".", "..", "a/b", "../a", "a b", strings.Repeat("a", 201), ".hidden", "ü"} {
		if _, err := d.Create(name, Limits{}); err == nil {
			t.Errorf("container %q was made", name)
		}
		if _, err := NewProcessLimits(name + "/x"); err == nil && name != "a/b" && name != "" {
			t.Errorf("parent %q was taken", name+"/x")
		}
	}
	if _, err := d.Create("bad", Limits{Memory: -1, Processes: -1}); err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("negative limits: %v; want both named", err)
	}
}

func TestProcessLimitsSayWhatTheyCannotDo(t *testing.T) {
	d, _ := NewProcessLimits(testParent)
	c := create(t, d, "limits", Limits{Memory: 64 * mib})
	if d.Mode().String() != "process_limits" || c.Mode() != ProcessLimits {
		t.Errorf("modes %v, %v", d.Mode(), c.Mode())
	}
	if err := c.SetCPU(CPU{Guarantee: 1}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("SetCPU: %v", err)
	}
	if r := start(t, d, c, "alloc=2147483648"); r.end(t).ExitStatus() != 99 {
		t.Error("a process got more memory than its limit")
	}
	if !usage(t, c).Approximate {
		t.Error("usage from /proc is not marked as approximate")
	}
}

func TestModesHaveNamesThatCanBeRead(t *testing.T) {
	for mode := range Mode(len(modeNames)) {
		var back Mode
		text, _ := mode.MarshalText()
		if err := back.UnmarshalText(text); err != nil || back != mode {
			t.Errorf("%v: %v, %v", mode, back, err)
		}
	}
	if new(Mode).UnmarshalText([]byte("v3")) == nil {
		t.Error("mode v3 was read")
	}
}

func TestLargestProcessesComeFirst(t *testing.T) {
	d, _ := NewProcessLimits(testParent)
	c := create(t, d, "large", Limits{})
	small := start(t, d, c, "say=up", "wait")
	large := start(t, d, c, "alloc=67108864", "say=up", "wait")
	small.expect(t, "up")
	large.expect(t, "up")
	infos := LargestProcesses([]int{small.pid, large.pid, 1 << 30}, 5)
	if len(infos) != 2 || infos[0].PID != large.pid || infos[0].RSS < 64*mib || !strings.HasSuffix(infos[0].Command, "reference alloc=67108864 say=up wait") {
		t.Errorf("%+v", infos)
	}
	if one := LargestProcesses([]int{small.pid, large.pid}, 1); len(one) != 1 || one[0].PID != large.pid {
		t.Errorf("%+v", one)
	}
	small.end(t)
	large.end(t)
}

func TestWithoutPermissionTheReasonIsNamed(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("NOT ROOT, cannot take another user's place")
	}
	kernel(t) // there must be something to refuse
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "test")
	data, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(copied, data, 0o755), os.Chmod(filepath.Dir(copied), 0o755), os.Chmod(filepath.Dir(filepath.Dir(copied)), 0o755)); err != nil {
		t.Fatal(err)
	}
	child := exec.Command(copied, "-test.run=^TestAsNobody$", "-test.v")
	child.Env = append(os.Environ(), "WEIR_AS_NOBODY=1")
	child.Dir = "/"
	child.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := child.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "cause no_permission") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestAsNobody(t *testing.T) {
	if os.Getenv("WEIR_AS_NOBODY") == "" {
		t.Skip("runs as a part of TestWithoutPermissionTheReasonIsNamed")
	}
	_, err := Detect("weir-test-nobody")
	var why *Unavailable
	if !errors.As(err, &why) {
		t.Fatalf("error %v", err)
	}
	t.Logf("cause %v: %v", why.Cause, err)
}

func FuzzParseProcess(f *testing.F) {
	if line, err := os.ReadFile("/proc/self/stat"); err == nil {
		f.Add(line)
	}
	f.Add([]byte("1 (a) b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22"))
	f.Add([]byte(")"))
	f.Fuzz(func(t *testing.T, line []byte) {
		p, err := parseProcess(7, line)
		if err == nil && (p.pid != 7 || p.user < 0 && p.system < 0 && p.state == 0) {
			t.Errorf("%+v", p)
		}
	})
}

func FuzzParseCount(f *testing.F) {
	for _, s := range []string{"0", "9223372036854771712", "9223372036854775807", "18446744073709551615", "", "-1", "max"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseCount([]byte(text))
		want, wrong := strconv.ParseUint(text, 10, 63)
		if err == nil && (wrong != nil || uint64(got) != want) {
			t.Errorf("%q is %d, want %d, %v", text, got, want, wrong)
		}
		if err != nil && wrong == nil && want < 1<<62 && !strings.ContainsAny(text, "+_") {
			t.Errorf("%q: %v, want %d", text, err, want)
		}
	})
}
