package core

import (
	"testing"
	"time"
)

// idleNode returns a core with a node that has nothing to report and nothing to
// run.
func idleNode(tb testing.TB) *world {
	w := newWorld(tb, "pools: {p: {}}")
	w.addNode(0, 4)
	if _, err := w.start("anna", "{pool: p, tasks: {t: {job_count: 4, cpu_limit: 1, memory_limit: 512MiB}}}"); err != nil {
		tb.Fatal(err)
	}
	w.pass(time.Second)
	w.beat(0)
	w.beat(0)
	return w
}

func TestAHeartbeatWithoutNewsAllocatesNothing(t *testing.T) {
	w := idleNode(t)
	beat := &HeartbeatInput{}
	allocations := testing.AllocsPerRun(100, func() {
		w.out.Reset()
		*beat = HeartbeatInput{Node: 0}
		_ = w.Apply(w.now, beat, &w.out) // never refused
	})
	if allocations != 0 {
		t.Errorf("%v allocations", allocations)
	}
}

func BenchmarkHeartbeat(b *testing.B) {
	w := idleNode(b)
	beat := &HeartbeatInput{}
	b.ReportAllocs()
	for b.Loop() {
		w.out.Reset()
		*beat = HeartbeatInput{Node: 0}
		_ = w.Apply(w.now, beat, &w.out) // never refused
	}
}
