package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/test/expected"
)

// crowd is a core with the same number of operations in every leaf pool, each with
// one running job. Every pool gets its whole demand, so a change in one pool does
// not affect the others.
type crowd struct {
	*Core
	now time.Time
	out Decisions
	// jobs holds one job of each leaf pool.
	jobs []JobID
}

func newCrowd(tb testing.TB, tops, leaves, each int) *crowd {
	var text strings.Builder
	text.WriteString("max_operation_count: 1000000\nmax_running_operation_count: 1000000\nmax_operation_count_per_pool: 1000000\nmax_running_operation_count_per_pool: 1000000\npools:\n")
	for top := range tops {
		fmt.Fprintf(&text, "  top%d:\n    pools:\n", top)
		for leaf := range leaves {
			fmt.Fprintf(&text, "      leaf%d-%d: {}\n", top, leaf)
		}
	}
	settings := DefaultSettings()
	settings.MaxOperations, settings.NodeTimeout = 1_000_000, 0
	c := &crowd{Core: New(settings), now: midnight}
	trees := []document.Named[*pooltree.Tree]{{Name: "default", Value: parseTree(tb, text.String())}}
	if err := c.setTrees(c.now, trees, "default", &c.out); err != nil {
		tb.Fatal(err)
	}
	const nodes = 50
	jobs := int64(tops * leaves * each)
	size := resource.Amounts{resource.CPU: jobs * 4_00 / nodes, resource.UserSlots: jobs, resource.Memory: jobs * 4 << 30 / nodes}
	for n := range NodeID(nodes) {
		if err := c.addNode(c.now, n, fmt.Sprintf("node%d", n), size, nil, &c.out); err != nil {
			tb.Fatal(err)
		}
	}
	next := OperationID(0)
	for top := range tops {
		for leaf := range leaves {
			spec, err := operation.Read(expected.Document(tb, fmt.Sprintf("{pool: leaf%d-%d, tasks: {t: {job_count: 1, cpu_limit: 1, memory_limit: 1GiB}}}", top, leaf)), operation.ReadOptions{CommandOptional: true})
			if err != nil {
				tb.Fatal(err)
			}
			for range each {
				if err := c.startOperation(c.now, next, "anna", spec.Spec, &c.out); err != nil {
					tb.Fatal(err)
				}
				next++
			}
		}
	}
	c.pass()
	c.jobs = make([]JobID, tops*leaves)
	for n := range NodeID(nodes) {
		c.out.Reset()
		c.heartbeat(c.now, n, nil, &c.out)
		for _, s := range c.out.Started {
			c.jobs[int(s.Operation)/each] = s.Job
		}
	}
	c.pass()
	for i, job := range c.jobs {
		if job == 0 {
			tb.Fatalf("no job runs in pool %d", i)
		}
	}
	return c
}

// pass runs an update.
func (c *crowd) pass() {
	c.now = c.now.Add(time.Second)
	c.out.Reset()
	c.update(c.now, &c.out)
}

// stir changes the usage of one job in each of the first count pools.
func (c *crowd) stir(count, round int) {
	for _, job := range c.jobs[:count] {
		c.setJobUsage(job, resource.Amounts{resource.CPU: 50 + int64(round%2), resource.UserSlots: 1, resource.Memory: 1 << 30})
	}
}

// BenchmarkPicture measures an update and its picture with 10,100 pools and 50,000
// operations.
func BenchmarkPicture(b *testing.B) {
	c := newCrowd(b, 100, 100, 5)
	for _, changed := range []int{10_000, 100, 0} {
		b.Run(fmt.Sprintf("changed=%d/update", changed), func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				b.StopTimer()
				c.stir(changed, i)
				b.StartTimer()
				c.pass()
			}
		})
		b.Run(fmt.Sprintf("changed=%d/picture", changed), func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				b.StopTimer()
				c.stir(changed, i)
				c.pass()
				b.StartTimer()
				c.Picture(c.now)
			}
			b.ReportMetric(float64(c.painter.copied.pools), "pools")
			b.ReportMetric(float64(c.painter.copied.seats), "seats")
		})
	}
}
