package jobproxy

import (
	"testing"
	"time"

	"github.com/weirhq/weir/internal/node/cgroup"
)

// BenchmarkJob measures a job that does nothing, from the launch of its proxy to its result and
// removal.
func BenchmarkJob(b *testing.B) {
	driver, err := cgroup.Detect("weir-bench")
	if err != nil {
		b.Skipf("NO CONTROL GROUPS HERE: %v", err)
	}
	n := &node{root: b.TempDir(), driver: driver}
	defer driver.Close()
	var exec time.Duration
	for b.Loop() {
		dir, err := Launch([]string{proxyProgram}, n.root, n.description("true"))
		if err != nil {
			b.Fatal(err)
		}
		c, err := Attach(dir)
		if err != nil {
			b.Fatal(err)
		}
		if err := c.Watch(); err != nil {
			b.Fatal(err)
		}
		for {
			if _, err := c.Next(); err != nil {
				break
			}
		}
		c.Close()
		r, err := Recover(b.Context(), dir, driver)
		if err != nil || r.Outcome != Completed {
			b.Fatal(r, err)
		}
		exec += r.Timings.ExecFinished.Sub(r.Timings.ProxyStarted)
		if err := Remove(b.Context(), dir, driver); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(exec.Microseconds())/1000/float64(b.N), "ms-to-exit/op")
}

// BenchmarkUsage measures one reading of a container's usage.
func BenchmarkUsage(b *testing.B) {
	driver, err := cgroup.Detect("weir-bench")
	if err != nil {
		b.Skipf("NO CONTROL GROUPS HERE: %v", err)
	}
	defer driver.Close()
	c, err := driver.Create("usage", cgroup.Limits{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Remove()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Usage(); err != nil {
			b.Fatal(err)
		}
	}
}
