package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/opencontainers/cgroups"
	"golang.org/x/sys/unix"
)

// scratch returns a directory with the files of a version 2 group, as the kernel's documentation
// describes them. The library writes to it as to a real group.
func scratch(t *testing.T, files map[string]string) *kernelContainer {
	t.Helper()
	cgroups.TestMode = true // files are created and need not be on a cgroup file system
	t.Cleanup(func() { cgroups.TestMode = false })
	mount := t.TempDir()
	d := &kernelDriver{hierarchies: hierarchies{mode: V2, mounts: map[string]string{"": mount}}, parent: "weir"}
	c, err := d.container("job", Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(c.paths[""], 0o755); err != nil {
		t.Fatal(err)
	}
	files["cgroup.controllers"] = "cpuset cpu io memory hugetlb pids\n"
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(c.paths[""], name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Log("version 2 by the library's layout in a scratch tree, without a kernel behind it")
	return c
}

func TestVersion2CountersAreRead(t *testing.T) {
	c := scratch(t, map[string]string{
		"memory.stat":    "anon 104857600\nfile 52428800\nkernel 1048576\nshmem 8388608\nfile_mapped 20971520\nfile_dirty 0\n",
		"memory.current": "160432128\n",
		"memory.peak":    "209715200\n",
		"memory.events":  "low 0\nhigh 0\nmax 17\noom 2\noom_kill 3\noom_group_kill 0\n",
		"cpu.stat":       "usage_usec 2500000\nuser_usec 2000000\nsystem_usec 500000\nnr_periods 0\n",
	})
	want := Usage{
		CPUTime: 2500 * time.Millisecond, UserTime: 2 * time.Second, SystemTime: 500 * time.Millisecond,
		Anonymous: 104857600, Mapped: 20971520, Shared: 8388608, Cache: 52428800, Current: 160432128, Peak: 209715200,
		OOMKills: 3, LimitEvents: 2,
	}
	if got := usage(t, c); got != want {
		t.Errorf("usage %+v\nwant  %+v", got, want)
	}
	c.close()
	if err := os.Remove(filepath.Join(c.paths[""], "memory.peak")); err != nil { // before Linux 5.19
		t.Fatal(err)
	}
	want.Peak = 0
	if got := usage(t, c); got != want {
		t.Errorf("without memory.peak: usage %+v\nwant  %+v", got, want)
	}
	c.close()
	if err := os.WriteFile(filepath.Join(c.paths[""], "memory.current"), []byte("a lot"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Usage(); err == nil || !strings.Contains(err.Error(), "memory.current") {
		t.Errorf("a counter that is no number: %v", err)
	}
}

func TestVersion2LimitsAreWritten(t *testing.T) {
	c := scratch(t, map[string]string{})
	if err := c.manager.Set(c.resources(Limits{CPU: CPU{Guarantee: 4}, Memory: 1 << 30, Processes: 100})); err != nil {
		t.Fatal(err)
	}
	check := func(want map[string]string) {
		t.Helper()
		for name, text := range want {
			got, err := os.ReadFile(filepath.Join(c.paths[""], name))
			if err != nil || string(got) != text {
				t.Errorf("%s is %q (%v), want %q", name, got, err, text)
			}
		}
	}
	check(map[string]string{
		"cpu.weight": "156", "cpu.max": "max 100000", "memory.max": "1073741824", "memory.swap.max": "0", "pids.max": "100",
	})
	if err := c.SetCPU(CPU{Guarantee: 1.5, Limit: 2.5}); err != nil {
		t.Fatal(err)
	}
	check(map[string]string{"cpu.weight": "59", "cpu.max": "250000 100000", "memory.max": "1073741824"})
	if err := c.SetCPU(CPU{Guarantee: 0.001}); err != nil {
		t.Fatal(err)
	}
	check(map[string]string{"cpu.weight": "1", "cpu.max": "max 100000"})
	if err := c.SetCPU(CPU{Guarantee: 1e6}); err != nil {
		t.Fatal(err)
	}
	check(map[string]string{"cpu.weight": "10000"})
	if err := c.SetMemoryLimit(0); err != nil {
		t.Fatal(err)
	}
	check(map[string]string{"memory.max": "max"})
}

func TestVersion2OOMIsNoticed(t *testing.T) {
	c := scratch(t, map[string]string{"memory.events": "oom 0\noom_kill 0\n"})
	events, stop, err := c.WatchOOM()
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if err := os.WriteFile(filepath.Join(c.paths[""], "memory.events"), []byte("oom 1\noom_kill 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	<-events
}

func TestMissingControllersAreNamed(t *testing.T) {
	err := hierarchies{mode: V2, controllers: []string{"hugetlb"}}.missing(neededV2)
	var why *Unavailable
	if !errors.As(err, &why) || why.Cause != MissingController || !strings.Contains(err.Error(), "offers hugetlb, but not cpu, memory") {
		t.Errorf("error %v", err)
	}
	for err, want := range map[error]Cause{
		fs.ErrPermission: NoPermission, unix.EACCES: NoPermission, unix.EROFS: ReadOnly, unix.ENOSPC: OtherCause,
	} {
		if got := causeOf(&os.PathError{Err: err}); got != want {
			t.Errorf("%v is %v, want %v", err, got, want)
		}
	}
}

// TestVersion2OnARealMount runs itself again in a mount namespace where /sys/fs/cgroup is the kernel's
// version 2.
func TestVersion2OnARealMount(t *testing.T) {
	if os.Getenv("WEIR_REAL_V2") != "" {
		onRealV2(t)
		return
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(exe, "-test.run=^TestVersion2OnARealMount$", "-test.v", "-test.count=1")
	child.Env = append(os.Environ(), "WEIR_REAL_V2=1")
	child.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	out, err := child.CombinedOutput()
	if errors.Is(err, fs.ErrPermission) {
		t.Skipf("NO MOUNT NAMESPACES HERE, version 2 ran in the scratch tree only: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "_test.go:") {
			t.Log(strings.TrimSpace(line))
		}
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if strings.Contains(string(out), "--- SKIP") {
		t.Skip("version 2 ran in the scratch tree only")
	}
}

func onRealV2(t *testing.T) {
	if !cgroupsUnified() {
		if err := unix.Mount("none", unifiedMount, "cgroup2", 0, ""); err != nil {
			t.Skipf("NO VERSION 2 HERE: %v", err)
		}
	}
	found, err := findHierarchies()
	complete := err == nil
	if !complete {
		var why *Unavailable
		if !errors.As(err, &why) || why.Cause != MissingController || found.mode != V2 {
			t.Fatalf("%v, %v", found, err)
		}
		t.Logf("a real mount of version 2 whose controllers are %q: placing, ending and CPU time are tested on it, the rest in the scratch tree", found.controllers)
	}
	parent := testParent
	var d Driver = &kernelDriver{hierarchies: found, parent: parent}
	if complete {
		if d, err = Detect(parent); err != nil {
			t.Fatal(err)
		}
	}
	defer func() {
		if left, err := d.List(); err != nil || len(left) > 0 {
			t.Errorf("containers are left: %v, %v", left, err)
		}
		if err := d.Close(); err != nil || exists(filepath.Join(unifiedMount, parent)) {
			t.Errorf("the parent is left: %v", err)
		}
	}()
	for range 2 { // the second time all parents exist
		realV2Container(t, d, complete)
	}
}

func cgroupsUnified() bool {
	var st unix.Statfs_t
	return unix.Statfs(unifiedMount, &st) == nil && st.Type == unix.CGROUP2_SUPER_MAGIC
}

func realV2Container(t *testing.T, d Driver, complete bool) {
	t.Helper()
	var c Container
	var err error
	if complete {
		c, err = d.Create("job", Limits{CPU: CPU{Guarantee: 1}, Memory: 1 << 30, Processes: 100})
	} else {
		var bare *kernelContainer
		if bare, err = d.(*kernelDriver).container("job", Limits{}); err == nil {
			err = bare.manager.Apply(-1)
			c = bare
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, d, c, "burn=200ms", "say=burnt", "wait", "sleep=1h")
	r.expect(t, "burnt")
	if pids, err := c.Processes(); err != nil || !slices.Equal(pids, []int{r.pid}) {
		t.Errorf("processes %v, %v; want %d", pids, err, r.pid)
	}
	if names, err := d.List(); err != nil || !slices.Equal(names, []string{"job"}) {
		t.Errorf("list %v, %v", names, err)
	}
	var micros int64
	k := c.(*kernelContainer)
	k.mu.Lock()
	err = k.table(k.paths[""], "cpu.stat", map[string]*int64{"usage_usec": &micros})
	k.mu.Unlock()
	if err != nil || micros < 200_000 {
		t.Errorf("CPU time %d µs, %v", micros, err)
	}
	if err := c.Kill(t.Context()); err != nil {
		t.Error(err)
	}
	if status := r.end(t); status.Signal() != syscall.SIGKILL {
		t.Errorf("ended with %v", status)
	}
	near(t, "CPU time in seconds", float64(micros)/1e6, r.used.Seconds(), 0.05)
	if err := c.Remove(); err != nil {
		t.Error(err)
	}
	if _, err := d.Open("job"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open of what is gone: %v", err)
	}
}
