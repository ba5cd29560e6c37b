package core

import (
	"testing"
	"time"

	"github.com/weirhq/weir/internal/engine/operation"
)

func TestASilentNodeIsGivenUpAndMayComeBack(t *testing.T) {
	w := newWorld(t, "pools: {p: {}}")
	w.addNode(0, 4)
	w.addNode(1, 4)
	w.pass(time.Second)
	id, err := w.start("anna", "{pool: p, tasks: {t: {job_count: 8, cpu_limit: 1, memory_limit: 512MiB}}}")
	if err != nil {
		t.Fatal(err)
	}
	w.pass(time.Second)
	w.beat(0)
	w.beat(1)
	if got := w.running(id); got != 8 {
		t.Fatalf("%d jobs run", got)
	}
	for range 5 {
		w.pass(time.Minute)
		w.beat(0)
	}
	if got := w.running(id); got != 8 {
		t.Errorf("a short silence costs jobs: %d run", got)
	}
	w.pass(time.Minute)
	if got := w.running(id); got != 4 {
		t.Errorf("after the timeout %d jobs run", got)
	}
	w.beat(1)
	w.pass(time.Second)
	w.beat(1)
	if got := w.running(id); got != 8 {
		t.Errorf("when the node is back %d jobs run", got)
	}
}

func TestANodeAndTheCoreAgreeOnTheirJobs(t *testing.T) {
	w := newWorld(t, "pools: {p: {}}")
	w.addNode(0, 2)
	w.pass(time.Second)
	id, err := w.start("anna", "{pool: p, tasks: {t: {job_count: 2, cpu_limit: 1, memory_limit: 512MiB}}}")
	if err != nil {
		t.Fatal(err)
	}
	w.pass(time.Second)
	w.beat(0)
	kept, _ := w.some(0)
	lost, _ := w.some(kept + 1)
	_ = w.do(&ReconcileInput{0, []JobID{kept, 999}}) // never refused
	if len(w.out.Stopped) != 1 || w.out.Stopped[0].Job != 999 || w.out.Stopped[0].Reason != operation.AbortOther {
		t.Errorf("unknown jobs are stopped: %+v", w.out.Stopped)
	}
	w.out.Reset()
	w.end(lost)
	w.take()
	if got := w.running(id); got != 1 {
		t.Errorf("%d jobs run", got)
	}
	w.beat(0)
	if got := w.running(id); got != 2 {
		t.Errorf("the job that disappeared is not tried again: %d run", got)
	}
}
