package why_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/why"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/test/expected"
)

// crowded is a cluster whose nodes run twenty jobs each, with operations that wait for pools and
// nodes.
func crowded(b *testing.B, nodes int) *world {
	w := newWorld(b, "max_running_operation_count: 10000\nmax_operation_count: 10000\npools: {full: {resource_limits: {cpu: 10}}, rest: {max_running_operation_count: 5000, max_operation_count: 5000}}")
	for id := range core.NodeID(nodes) {
		limits := resource.Amounts{resource.UserSlots: 20, resource.CPU: 20_00, resource.Memory: 64 << 30}
		w.must(&core.NodeInput{Node: id, Name: fmt.Sprint("node", id), Resources: limits})
	}
	for i := range 100 {
		w.mustStart(fmt.Sprintf("{pool: rest, tasks: {a: {job_count: %d, cpu_limit: 1, memory_limit: %dMiB}}}", nodes/4, 1000+i))
	}
	w.mustStart("{pool: full, tasks: {a: {job_count: 100, cpu_limit: 1, memory_limit: 1GiB}}}")
	w.pass(time.Second)
	for id := range core.NodeID(nodes) {
		w.beat(id)
	}
	w.pass(time.Second)
	return w
}

// BenchmarkExplain measures the round that all questions about a glass share, and then an
// operation's explanation without and with its sole blockers, and the whole cluster's.
func BenchmarkExplain(b *testing.B) {
	for _, nodes := range []int{1000, 10_000} {
		w := crowded(b, nodes)
		scene := w.look()
		run := func(name string, f func()) {
			b.Run(fmt.Sprintf("%s/%d", name, nodes), func(b *testing.B) {
				cpu := expected.CPUTime()
				for b.Loop() {
					f()
				}
				b.ReportMetric(float64((expected.CPUTime()-cpu).Microseconds())/1000/float64(b.N), "cpu-ms/op")
			})
		}
		run("round", func() { why.Look(w.Fork(), w.now, w.gates) })
		for _, id := range []core.OperationID{7, 100} {
			kind := map[core.OperationID]string{7: "nodes", 100: "limit"}[id]
			run("operation/"+kind, func() { _, _ = scene.Operation(id) })
			run("sole/"+kind, func() {
				x, _ := scene.Operation(id)
				scene.Sole(x.Blockers, always)
			})
			run("advice/"+kind, func() {
				_, _ = scene.Advise(why.Question{Operation: id, Upto: why.Administrator}, always)
			})
		}
		run("cluster", func() { _, _ = scene.Pool("default", core.RootName, always) })
	}
}
