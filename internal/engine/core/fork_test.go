package core

import (
	"math"
	"runtime"
	"testing"

	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/test/expected"
)

// TestAForkCostsWhatLives compares the memory that forks of two cores take: one has started its
// first operation, the other its ten millionth.
func TestAForkCostsWhatLives(t *testing.T) {
	allocated := func(first OperationID) float64 {
		w := newWorld(t, "pools: {production: {}}")
		w.addNode(0, 8)
		spec, err := operation.Read(expected.Document(t, "{pool: production, tasks: {map: {job_count: 4}}}"), operation.ReadOptions{CommandOptional: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.do(&StartInput{first, "anna", spec.Spec}); err != nil {
			t.Fatal(err)
		}
		w.take()
		w.beat(0)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 100 {
			w.Fork()
		}
		runtime.ReadMemStats(&after)
		return float64(after.TotalAlloc-before.TotalAlloc) / 100
	}
	if young, old := allocated(0), allocated(10_000_000); math.Abs(old-young) > 0.05*young {
		t.Errorf("a fork takes %.0f bytes after ten million operations, %.0f after one", old, young)
	}
}
