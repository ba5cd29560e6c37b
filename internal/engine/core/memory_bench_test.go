package core

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/test/expected"
)

// BenchmarkMemory reports what a core keeps for a pool, for an operation of one job
// that runs, and for a further job of an operation: 10,000 pools below a hundred
// others, 100,000 operations in them, and 200,000 jobs of one operation. All have gone
// through an update.
func BenchmarkMemory(b *testing.B) {
	const tops, leaves, operations, jobs = 100, 100, 100_000, 200_000
	var text strings.Builder
	text.WriteString("max_operation_count: 1000000\nmax_running_operation_count: 1000000\nmax_operation_count_per_pool: 1000000\nmax_running_operation_count_per_pool: 1000000\npools:\n")
	for top := range tops {
		fmt.Fprintf(&text, "  top%d:\n    pools:\n", top)
		for leaf := range leaves {
			fmt.Fprintf(&text, "      leaf%d-%d: {}\n", top, leaf)
		}
	}
	tree := parseTree(b, text.String())
	spec := func(pool string, count int) *operation.Spec {
		read, err := operation.Read(expected.Document(b, fmt.Sprintf("{pool: %s, tasks: {t: {job_count: %d, cpu_limit: 1, memory_limit: 1GiB}}}", pool, count)),
			operation.ReadOptions{CommandOptional: true})
		if err != nil {
			b.Fatal(err)
		}
		return read.Spec
	}
	one, many := spec("leaf0-0", 1), spec("leaf0-0", jobs)
	for b.Loop() {
		settings := DefaultSettings()
		settings.MaxOperations, settings.NodeTimeout = 1_000_000, 0
		c, now, out := New(settings), midnight, Decisions{}
		do := func(input Input) {
			out.Reset()
			if err := c.Apply(now, input, &out); err != nil {
				b.Fatal(err)
			}
		}
		beat := func() {
			for n := range NodeID(100) {
				do(&HeartbeatInput{Node: n})
			}
			now = now.Add(time.Second)
			do(&UpdateInput{})
			out = Decisions{}
		}
		for n := range NodeID(100) {
			do(&NodeInput{Node: n, Name: fmt.Sprint("node", n), Resources: resource.Amounts{
				resource.CPU: 10_000_00, resource.UserSlots: 10_000, resource.Memory: 10_000 << 30,
			}})
		}
		empty := liveHeap()
		do(&TreesInput{Trees: []document.Named[*pooltree.Tree]{{Name: "default", Value: tree}}, Default: "default"})
		beat()
		pools := liveHeap()
		for id := range OperationID(operations) {
			do(&StartInput{Operation: id, User: "anna", Spec: one})
		}
		beat()
		running := liveHeap()
		do(&StartInput{Operation: operations, User: "anna", Spec: many})
		beat()
		full := liveHeap()
		if got := len(c.jobs); got != operations+jobs {
			b.Fatalf("%d jobs run", got)
		}
		b.ReportMetric(float64(pools-empty)/(tops*(leaves+1)), "B/pool")
		b.ReportMetric(float64(running-pools)/operations, "B/operation")
		b.ReportMetric(float64(full-running)/jobs, "B/job")
		runtime.KeepAlive(c)
	}
}

// liveHeap returns the bytes of all live objects.
func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
