package core

import (
	"errors"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/value/resource"
)

// pods are jobs of one cpu that an external operation offers.
func pods(task string, cookies ...int32) operation.Offered {
	return operation.Offered{
		Task: task, Resources: resource.Amounts{resource.UserSlots: 1, resource.CPU: 100, resource.Memory: 1 << 20}, Cookies: cookies,
	}
}

func (w *world) mustStartExternal(spec string) OperationID {
	w.tb.Helper()
	id, err := w.startExternal(spec)
	if err != nil {
		w.tb.Fatal(err)
	}
	return id
}

func (w *world) mustOffer(op OperationID, offered operation.Offered) {
	w.tb.Helper()
	if err := w.offer(op, offered); err != nil {
		w.tb.Fatal(err)
	}
}

func TestPodsOfAnExternalOperationStartAndAreNotRetried(t *testing.T) {
	w := newWorld(t, gangPools)
	w.addNode(0, 3)
	op := w.mustStartExternal("{pool: production, external: {}}")
	if w.ops[op] != operation.Running {
		t.Fatalf("the operation is %s", w.ops[op])
	}
	w.round()
	w.mustOffer(op, pods("web", 10, 11, 12, 13))
	w.round()
	if w.running(op) != 3 {
		t.Fatalf("%d pods run, want 3", w.running(op))
	}
	first, _ := w.some(0)
	w.beat(0, Finished{Job: first, State: JobFailed})
	if w.running(op) != 3 {
		t.Errorf("%d pods run after one has failed and the last one has started, want 3", w.running(op))
	}
	first, _ = w.some(0)
	w.beat(0, Finished{Job: first, State: JobCompleted})
	w.round()
	if w.running(op) != 2 || w.ops[op] != operation.Running {
		t.Errorf("%d pods run, and the operation is %s", w.running(op), w.ops[op])
	}
	if err := w.do(&CompleteInput{op}); err != nil {
		t.Fatal(err)
	}
	w.take()
	if w.ops[op] != operation.Completed || w.running(op) != 0 {
		t.Errorf("%d pods run, and the operation is %s", w.running(op), w.ops[op])
	}
	if err := w.offer(op, pods("web", 20)); !errors.Is(err, ErrNoOperation) {
		t.Errorf("an ended operation says %v", err)
	}
}

func TestAPodThatNoNodeCouldRunDoesNotFailItsOperation(t *testing.T) {
	w := newWorld(t, gangPools)
	w.addNode(0, 1)
	op := w.mustStartExternal("{pool: production, external: {}}")
	large := pods("large", 0)
	large.Resources[resource.CPU] = 5_00
	w.mustOffer(op, large)
	for range 200 {
		w.pass(time.Minute)
		w.beat(0)
	}
	if w.ops[op] != operation.Running {
		t.Errorf("the operation is %s", w.ops[op])
	}
}

func TestPodsStartOnlyWhereTheirClassIsNotDenied(t *testing.T) {
	w := newWorld(t, gangPools)
	for id := range NodeID(3) {
		w.addNode(id, 2)
	}
	for id := range NodeID(2) {
		if err := w.do(&DeniedClassesInput{id, scheduling.Classes{}.With(7)}); err != nil {
			t.Fatal(err)
		}
	}
	op := w.mustStartExternal("{pool: production, external: {}}")
	choosy := pods("choosy", 0, 1, 2)
	choosy.Class = 7
	w.mustOffer(op, choosy)
	w.round()
	if w.running(op) != 2 {
		t.Fatalf("%d pods run, want 2", w.running(op))
	}
	for _, s := range w.jobs {
		if s.Node != 2 {
			t.Errorf("a pod runs on node %d, which denies its class", s.Node)
		}
	}
	x, err := w.ExplainOperation(w.now, op, nil, true)
	if err != nil {
		t.Fatal(err)
	}
	task := x.Trees[0].Tasks[0]
	if task.Denied != 2 || task.Lacking != 1 || len(task.Obstacles) == 0 || task.Obstacles[0].Refusal != scheduling.RefusedConstraints || task.Obstacles[0].Nodes != 2 {
		t.Errorf("the explanation is %+v", task)
	}
	// A node that is added again, or changes its tree, still denies the class.
	w.addNode(0, 4)
	w.round()
	if w.running(op) != 2 {
		t.Errorf("%d pods run after a node has grown, want 2", w.running(op))
	}
	if err := w.do(&DeniedClassesInput{Node: 0}); err != nil {
		t.Fatal(err)
	}
	w.round()
	if w.running(op) != 3 {
		t.Errorf("%d pods run after a node has permitted the class, want 3", w.running(op))
	}
	if err := w.do(&DeniedClassesInput{Node: 9}); err == nil {
		t.Error("a node that does not exist denies classes")
	}
}

// Jobs of an ordinary task wait for their class, and then start only where it is not denied.
func TestJobsOfAnOrdinaryTaskStartOnlyWhereTheirClassIsNotDenied(t *testing.T) {
	w := newWorld(t, gangPools)
	for id := range NodeID(2) {
		w.addNode(id, 4)
		if err := w.do(&DeniedClassesInput{id, scheduling.Classes{}.With(int32(operation.ClassPending)).With(2 + int32(id))}); err != nil {
			t.Fatal(err)
		}
	}
	op := w.mustStart("{pool: production, tasks: {choosy: {job_count: 2, command: x, memory_limit: 1MiB}, any: {job_count: 1, command: x, memory_limit: 1MiB}}}")
	if err := w.do(&ClassifyInput{Operation: op, Task: "choosy", Class: operation.ClassPending}); err != nil {
		t.Fatal(err)
	}
	w.round()
	if w.running(op) != 1 {
		t.Fatalf("%d jobs run before the task has its class, want 1", w.running(op))
	}
	if err := w.do(&ClassifyInput{Operation: op, Task: "choosy", Class: 2}); err != nil {
		t.Fatal(err)
	}
	w.round()
	if w.running(op) != 3 {
		t.Fatalf("%d jobs run, want 3", w.running(op))
	}
	for _, s := range w.jobs {
		if s.Task == 0 && s.Node != 1 {
			t.Errorf("a job runs on node %d, which denies its class", s.Node)
		}
	}
	pods := w.mustStartExternal("{pool: production, external: {}}")
	for _, wrong := range []ClassifyInput{{Operation: 99}, {Operation: op, Task: "nobody"}, {Operation: op, Task: "any", Class: operation.MaxClass + 1}, {Operation: pods, Task: "any"}} {
		if err := w.do(&wrong); err == nil {
			t.Errorf("%+v is not refused", wrong)
		}
	}
}

func TestOnePodOfALonelyClassStartsPerHeartbeat(t *testing.T) {
	w := newWorld(t, gangPools)
	w.addNode(0, 4)
	op := w.mustStartExternal("{pool: production, external: {}}")
	lonely := pods("lonely", 0, 1, 2)
	lonely.Class, lonely.Alone = 3, true
	w.mustOffer(op, lonely)
	w.pass(time.Second)
	for want := 1; want <= 3; want++ {
		w.beat(0)
		if w.running(op) != want {
			t.Fatalf("%d pods run after %d heartbeats", w.running(op), want)
		}
	}
}

func TestPodsWithAHigherPriorityStartFirst(t *testing.T) {
	w := newWorld(t, gangPools)
	w.addNode(0, 1)
	op := w.mustStartExternal("{pool: production, external: {}}")
	for i, priority := range []int32{-5, 1000, 0} {
		o := pods([]string{"low", "high", "usual"}[i], 0)
		o.Priority = priority
		w.mustOffer(op, o)
	}
	w.pass(time.Second)
	for _, want := range []int32{1, 2, 0} {
		w.beat(0)
		job, ok := w.some(0)
		if !ok || w.jobs[job].Task != want {
			t.Fatalf("task %d starts, want %d", w.jobs[job].Task, want)
		}
		_ = w.do(&ReportInput{[]Finished{{Job: job, State: JobCompleted}}}) // never refused
		w.end(job)
		w.reported[job] = true
		w.take()
	}
}

func TestAPodGroupStartsWithItsMinimumAndGrowsByOnes(t *testing.T) {
	w := newWorld(t, gangPools)
	w.addNode(0, 2)
	op := w.mustStartExternal("{pool: production, external: {gang_size: 3, gang_whole: true}}")
	w.mustOffer(op, pods("worker", 0, 1))
	w.round()
	x, err := w.ExplainOperation(w.now, op, nil, false)
	if err != nil || x.Trees[0].Gang == nil || x.Trees[0].Gang.Lack != 3 || x.Trees[0].Gang.Waiting != 2 {
		t.Fatalf("two of three pods wait: %+v (%v)", x.Trees[0].Gang, err)
	}
	w.mustOffer(op, pods("worker", 2, 3))
	w.round()
	if w.running(op) != 0 {
		t.Fatalf("%d pods run in the room of two", w.running(op))
	}
	w.addNode(1, 1)
	w.round()
	if w.running(op) != 3 {
		t.Fatalf("%d pods run, want the minimum of 3", w.running(op))
	}
	w.addNode(2, 1, "gpu")
	w.addNode(3, 1)
	w.round()
	if w.running(op) != 4 {
		t.Errorf("%d pods run, want also the one beyond the minimum", w.running(op))
	}
	// Two fail. The others stay for a minute, then they are evicted.
	for range 2 {
		job, _ := w.some(0)
		w.beat(w.jobs[job].Node, Finished{Job: job, State: JobFailed})
	}
	w.pass(50 * time.Second)
	if w.running(op) != 2 {
		t.Fatalf("%d pods run, want 2", w.running(op))
	}
	w.pass(11 * time.Second)
	if w.running(op) != 0 {
		t.Errorf("%d pods of a stale gang run", w.running(op))
	}
}

func TestAPinnedJobIsNotPreemptedBeforeItsTime(t *testing.T) {
	w := newWorld(t, gangPools)
	w.addNode(0, 2)
	hog, err := w.start("anna", `{pool: batch, tasks: {a: {job_count: 2, memory_limit: 1MiB}}}`)
	if err != nil {
		t.Fatal(err)
	}
	w.round()
	for id := range w.jobs {
		if err := w.do(&PinInput{id, w.now.Add(time.Minute)}); err != nil {
			t.Fatal(err)
		}
		if info, ok := w.JobInfo(id); !ok || info.PinnedUntil != w.now.Add(time.Minute) {
			t.Errorf("job %d is pinned until %v", id, info.PinnedUntil)
		}
	}
	late, err := w.start("anna", `{pool: production, tasks: {a: {job_count: 1, memory_limit: 1MiB}}}`)
	if err != nil {
		t.Fatal(err)
	}
	w.pass(time.Second)
	w.pass(20 * time.Second)
	w.beat(0)
	if w.running(hog) != 2 || w.running(late) != 0 {
		t.Fatalf("%d pinned jobs and %d of the starving operation run", w.running(hog), w.running(late))
	}
	w.pass(time.Minute)
	w.beat(0)
	if w.running(hog) != 1 || w.running(late) != 1 {
		t.Errorf("%d jobs that are no longer pinned and %d of the starving operation run", w.running(hog), w.running(late))
	}
}

// A budget may protect a pod that the core has chosen as a victim: the pod runs on and holds its room again.
func TestAPinTakesThePreemptionOfAPodBack(t *testing.T) {
	w := newWorld(t, gangPools)
	w.addNode(0, 2)
	low := w.mustStartExternal("{pool: batch, external: {}}")
	w.mustOffer(low, pods("web", 1, 2))
	w.round()
	high := w.mustStartExternal("{pool: production, external: {}}")
	w.mustOffer(high, pods("db", 1))
	var victim *JobInfo
	for range 60 {
		w.pass(time.Second)
		var out Decisions
		if err := w.Apply(w.now, &HeartbeatInput{Node: 0}, &out); err != nil {
			t.Fatal(err)
		}
		for _, j := range w.JobsOf(low) {
			if j.Preempted {
				victim = &j
			}
		}
		if victim != nil {
			break
		}
	}
	if victim == nil || victim.Resources[resource.CPU] != 0 {
		t.Fatalf("the victim is %+v", victim)
	}
	var out Decisions
	if err := w.Apply(w.now, &PinInput{Job: victim.Job, Until: w.now.Add(time.Minute)}, &out); err != nil {
		t.Fatal(err)
	}
	got, there := w.JobInfo(victim.Job)
	if !there || got.Preempted || got.Stopping != operation.NotAborted || got.Resources[resource.CPU] != 100 {
		t.Errorf("the pod that its owner protects is %+v", got)
	}
}

func TestANodeMayDenyOrdinaryJobs(t *testing.T) {
	w := newWorld(t, gangPools)
	w.addNode(0, 3)
	op := w.mustStartExternal("{pool: production, external: {}}")
	if err := w.do(&DeniedClassesInput{Node: 0, Denied: scheduling.Classes{1}}); err != nil {
		t.Fatal(err)
	}
	w.mustOffer(op, pods("web", 1))
	w.round()
	if w.running(op) != 0 {
		t.Error("a job of class zero starts on a node that denies it")
	}
}
