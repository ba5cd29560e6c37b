package core

import (
	"testing"
	"time"
)

// An operation that an update ends makes room for the next one. The shares of that
// one are computed by the next update, which must not be left out.
func TestAnUpdateThatEndsAnOperationIsFollowedByAnother(t *testing.T) {
	w := newWorld(t, "pools: {p: {max_running_operation_count: 1}}")
	w.addNode(0, 10)
	first := w.mustStart("{pool: p, time_limit: 60000, tasks: {main: {job_count: 10, cpu_limit: 1, memory_limit: 1MiB}}}")
	next := w.mustStart("{pool: p, tasks: {main: {job_count: 10, cpu_limit: 1, memory_limit: 1MiB}}}")
	for w.operationAt(first) != nil {
		w.beat(0)
		w.pass(time.Second)
	}
	if !w.UpdateDue(w.now) {
		t.Error("the update that ended an operation says that the next one changes nothing")
	}
	w.pass(0)
	if slot := w.operationAt(next).places[0].slot; w.trees[0].state.Operation(slot).Share.Total.IsZero() {
		t.Error("the operation that runs now has no fair share")
	}
}
