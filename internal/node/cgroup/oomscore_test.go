package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// oomScore returns a process's score in the kernel.
func oomScore(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/oom_score_adj")
	if err != nil {
		t.Fatal(err)
	}
	score, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return score
}

func TestOOMScoresOfAllProcessesInsideAreSet(t *testing.T) {
	drivers(t, func(t *testing.T, d Driver) {
		c := create(t, d, "scores", Limits{Processes: 100})
		// One child leaves the session, and another starts only when the scores are set. Each reports
		// when it runs its own program: before that, its environment does not identify it.
		child := referenceProgram + " say=up sleep=1h &"
		r := startCommand(t, d, c, "/bin/sh", "-c", child+" setsid "+child+" read -r go; "+child+" read -r go; echo $!; read -r end; exit 0")
		r.expect(t, "up")
		r.expect(t, "up")
		outside := start(t, d, create(t, d, "outside", Limits{}), "say=up", "wait")
		outside.expect(t, "up")
		mine := oomScore(t, os.Getpid())
		pids, err := c.Processes()
		if err != nil || len(pids) != 3 {
			t.Fatalf("processes %v, %v; want 3", pids, err)
		}
		for _, pid := range append(slices.Clone(pids), outside.pid) {
			if got := oomScore(t, pid); got != StartOOMScore {
				t.Errorf("process %d begins with %d", pid, got)
			}
		}
		set := func(score, want int, of func(int) bool) {
			t.Helper()
			if changed, err := c.SetOOMScore(score, of); err != nil || changed != want {
				t.Errorf("%d processes got %d (%v), want %d", changed, score, err, want)
			}
		}
		set(700, 3, func(now int) bool { return now < 700 })
		set(700, 0, func(now int) bool { return now <= 700 }) // already have it
		set(800, 0, func(now int) bool { return now == StartOOMScore })
		goOn := func() {
			t.Helper()
			if _, err := r.stdin.WriteString("go\n"); err != nil {
				t.Fatal(err)
			}
		}
		goOn()
		r.expect(t, "up")
		goOn()
		line, err := r.stdout.ReadString('\n')
		born, _ := strconv.Atoi(strings.TrimSpace(line))
		if err != nil || born == 0 {
			t.Fatalf("the shell said %q, %v", line, err)
		}
		for _, pid := range append(slices.Clone(pids), born) {
			if got := oomScore(t, pid); got != 700 {
				t.Errorf("process %d has %d", pid, got)
			}
		}
		set(StartOOMScore, 4, func(now int) bool { return now == 700 })
		if got := oomScore(t, born); got != StartOOMScore {
			t.Errorf("process %d has %d after the way back", born, got)
		}
		if got := oomScore(t, outside.pid); got != StartOOMScore {
			t.Errorf("a process outside has %d", got)
		}
		if got := oomScore(t, os.Getpid()); got != mine {
			t.Errorf("the test itself has %d, not %d", got, mine)
		}
		outside.end(t)
		r.end(t)
		if err := c.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		set(700, 0, func(int) bool { return true }) // there is no process
	})
}

func TestAScoreThatTheKernelRefusesIsAnError(t *testing.T) {
	drivers(t, func(t *testing.T, d Driver) {
		c := create(t, d, "refused", Limits{})
		r := start(t, d, c, "say=up", "wait")
		r.expect(t, "up")
		changed, err := c.SetOOMScore(MaxOOMScore+1, func(int) bool { return true })
		if changed != 0 || err == nil || !strings.Contains(err.Error(), "oom_score_adj of process "+strconv.Itoa(r.pid)) {
			t.Errorf("%d changed, error %v", changed, err)
		}
		r.end(t)
	})
}

func TestTheGreatestLimitOfProcessesIsWhatTheKernelTakes(t *testing.T) {
	d := kernel(t)
	if !d.LimitsProcesses() {
		t.Skip("NO PIDS CONTROLLER HERE: its limit is not tested")
	}
	c := create(t, d, "most", Limits{Processes: MaxProcesses})
	if got := pidsMax(t, c); got != strconv.Itoa(MaxProcesses) {
		t.Errorf("pids.max is %s", got)
	}
	if c, err := d.Create("too-many", Limits{Processes: MaxProcesses + 1}); err == nil {
		t.Errorf("the kernel takes %s: the greatest is not known", pidsMax(t, c))
		if err := c.Remove(); err != nil {
			t.Error(err)
		}
	}
}

func pidsMax(t *testing.T, c Container) string {
	t.Helper()
	paths := c.(*kernelContainer).paths
	dir := paths["pids"]
	if c.Mode() == V2 {
		dir = paths[""]
	}
	text, err := os.ReadFile(filepath.Join(dir, "pids.max"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

func TestWithoutAControllerTheNumberOfProcessesIsNotLimited(t *testing.T) {
	t.Run("process limits", func(t *testing.T) {
		d, err := NewProcessLimits(testParent)
		if err != nil || d.LimitsProcesses() {
			t.Errorf("they limit processes of containers (%v)", err)
		}
	})
	t.Run("version 1", func(t *testing.T) {
		d := &kernelDriver{hierarchies: hierarchies{mode: V1, mounts: map[string]string{"memory": t.TempDir(), "cpu": t.TempDir()}}, parent: "weir"}
		c, err := d.container("job", Limits{Processes: 100})
		if err != nil || d.LimitsProcesses() || c.resources(Limits{Processes: 100}).PidsLimit != nil {
			t.Errorf("the library is asked for a limit that it cannot set (%v)", err)
		}
	})
	t.Run("version 2", func(t *testing.T) {
		c := scratch(t, map[string]string{})
		d := &kernelDriver{hierarchies: hierarchies{mode: V2, mounts: map[string]string{"": filepath.Dir(filepath.Dir(c.main))}}, parent: "weir"}
		give := func(controllers string) {
			t.Helper()
			for dir, name := range map[string]string{c.main: "cgroup.controllers", filepath.Dir(c.main): "cgroup.subtree_control"} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(controllers+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
		give("cpu memory")
		if d.LimitsProcesses() || c.resources(Limits{Processes: 100}).PidsLimit != nil {
			t.Error("the library is asked for a limit that it cannot set")
		}
		give("cpu memory pids")
		if limit := c.resources(Limits{Processes: 100}).PidsLimit; !d.LimitsProcesses() || limit == nil || *limit != 100 {
			t.Errorf("the limit is %v", limit)
		}
	})
}
