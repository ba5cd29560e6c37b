package cgroup

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirhq/weir/test/expected"
)

// referenceProgram is built once for all tests.
var referenceProgram string

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "weir-cgroup")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err == nil {
		referenceProgram = filepath.Join(dir, "reference")
		if os.Getenv("WEIR_AS_NOBODY") == "" {
			err = expected.BuildProgram(referenceProgram, "./testdata/reference")
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "the reference program:", err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// testParent is a control group that no other run of these tests uses.
var testParent = fmt.Sprintf("weir-test-%d", os.Getpid())

// kernel returns a driver with the test's own parent group, which must be empty at the end.
func kernel(t *testing.T) Driver {
	t.Helper()
	d, err := Detect(testParent)
	if err != nil {
		t.Skipf("NO CONTROL GROUPS HERE, containers are not tested: %v", err)
	}
	t.Logf("containers by %v", d.Mode())
	t.Cleanup(func() {
		if left, err := d.List(); err != nil || len(left) > 0 {
			t.Errorf("containers are left: %v, %v", left, err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		for controller, mount := range d.(*kernelDriver).mounts {
			if path := filepath.Join(mount, d.Parent()); exists(path) {
				t.Errorf("%s: %s is left", controller, path)
			}
		}
	})
	return d
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

// drivers runs a test with control groups and with process limits.
func drivers(t *testing.T, test func(t *testing.T, d Driver)) {
	t.Run("control groups", func(t *testing.T) { test(t, kernel(t)) })
	t.Run("process limits", func(t *testing.T) {
		d, err := NewProcessLimits(testParent)
		if err != nil {
			t.Fatal(err)
		}
		test(t, d)
	})
}

// create creates a container that is removed when the test ends.
func create(t *testing.T, d Driver, name string, limits Limits) Container {
	t.Helper()
	c, err := d.Create(name, limits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := c.Kill(ctx); err != nil {
			t.Error(err)
		}
		if err := c.Remove(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// running is a running program with our ends of its standard streams.
type running struct {
	pid    int
	stdin  *os.File
	stdout *bufio.Reader
	used   time.Duration // CPU time, once it has ended
}

// start runs the reference program inside a container.
func start(t *testing.T, d Driver, c Container, args ...string) *running {
	t.Helper()
	return startCommand(t, d, c, append([]string{referenceProgram}, args...)...)
}

func startCommand(t *testing.T, d Driver, c Container, args ...string) *running {
	t.Helper()
	runtime.LockOSThread() // until the test ends
	in, stdin, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	pid, err := Start(c, Command{
		Args: args, Dir: t.TempDir(), Files: []*os.File{in, out, os.Stderr}, Env: append(os.Environ(), Mark(d, c.Name()), "GOMAXPROCS=1"),
	})
	in.Close()
	out.Close()
	if err != nil {
		t.Fatal(err)
	}
	r := &running{pid: pid, stdin: stdin, stdout: bufio.NewReader(stdout)}
	t.Cleanup(func() { stdin.Close(); stdout.Close() })
	return r
}

// expect reads a line from the program.
func (r *running) expect(t *testing.T, want string) {
	t.Helper()
	line, err := r.stdout.ReadString('\n')
	if strings.TrimSpace(line) != want {
		t.Fatalf("the program said %q (%v), want %q", line, err, want)
	}
}

// end waits for the program.
func (r *running) end(t *testing.T) syscall.WaitStatus {
	t.Helper()
	r.stdin.Close()
	var status syscall.WaitStatus
	var usage syscall.Rusage
	if _, err := syscall.Wait4(r.pid, &status, 0, &usage); err != nil {
		t.Fatal(err)
	}
	r.used = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	return status
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	t.Logf("%s: %.4g, true %.4g (%+.2f %%)", what, got, want, 100*(got/want-1))
	if math.Abs(got-want) > tolerance*want {
		t.Errorf("%s is %v, want %v within %v %%", what, got, want, 100*tolerance)
	}
}

func isNear(got, want int64, tolerance float64) bool {
	return math.Abs(float64(got-want)) <= tolerance*float64(want)
}

// settled returns the usage once the condition holds, or after a while. The kernel aggregates its
// figures every two seconds, and at arbitrary moments in between.
func settled(t *testing.T, c Container, holds func(Usage) bool) Usage {
	t.Helper()
	var u Usage
	expected.Soon(func() bool { u = usage(t, c); return holds(u) })
	return u
}

func usage(t *testing.T, c Container) Usage {
	t.Helper()
	u, err := c.Usage()
	if err != nil {
		t.Fatal(err)
	}
	return u
}

const mib = 1 << 20
