package operation

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/test/expected"
)

// external returns a running external operation.
func external(tb testing.TB, spec string) *Controller {
	tb.Helper()
	read, err := Read(expected.Document(tb, spec), ReadOptions{External: true})
	if err != nil {
		tb.Fatal(err)
	}
	c := New(read.Spec, dawn)
	for step := Register; step <= Materialize; step++ {
		if _, err := c.Advance(step, dawn); err != nil {
			tb.Fatal(err)
		}
	}
	if c.State() != Running {
		tb.Fatalf("the operation is %s", c.State())
	}
	return c
}

var (
	dawn = time.Date(2026, 1, 1, 6, 0, 0, 0, time.UTC)
	pod  = resource.Amounts{resource.UserSlots: 1, resource.CPU: 50, resource.Memory: 1 << 30}
)

func offer(tb testing.TB, c *Controller, task string, cookies ...int32) {
	tb.Helper()
	if _, err := c.Offer(Offered{Task: task, Resources: pod, Cookies: cookies}); err != nil {
		tb.Fatal(err)
	}
	if err := c.Verify(); err != nil {
		tb.Fatal(err)
	}
}

func textOf(tb testing.TB, v any) string {
	tb.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	return string(data)
}

// startOne starts the next job of a group.
func startOne(tb testing.TB, c *Controller, group int) Job {
	tb.Helper()
	job, block := c.Schedule(group, resource.UnlimitedAmounts())
	if block != NotBlocked {
		tb.Fatalf("no job starts: %s", block)
	}
	return job
}

func TestJobsOfAnExternalOperationAreOfferedAndEndForGood(t *testing.T) {
	c := external(t, "{external: {}}")
	if c.PendingJobCount() != 0 || c.Blocked() != BlockedNoPendingJobs {
		t.Fatalf("a new external operation has %d jobs", c.PendingJobCount())
	}
	offer(t, c, "web", 3, 200)
	offer(t, c, "web", 200, 7) // one of them is known
	if c.PendingJobCount() != 3 || c.Groups()[0].Resources != pod {
		t.Fatalf("%d jobs wait, each needs %v", c.PendingJobCount(), c.Groups()[0].Resources)
	}
	if err := c.Withdraw("web", []int32{7, 8, 900}); err != nil || c.PendingJobCount() != 2 {
		t.Fatalf("%d jobs wait after one was withdrawn (%v)", c.PendingJobCount(), err)
	}
	first, second := startOne(t, c, 0), startOne(t, c, 0)
	if first.Cookie != 3 || second.Cookie != 200 || first.Resources != pod {
		t.Errorf("jobs %d and %d start with %v", first.Cookie, second.Cookie, first.Resources)
	}
	offer(t, c, "web", 3) // it runs: nothing is added
	for i, o := range []Outcome{{State: EndFailed}, {State: EndAborted, Reason: AbortPreemption, Started: true}} {
		effects, err := c.JobEnded([]Job{first, second}[i].JobRef, o, dawn)
		if err != nil || effects != (Effects{}) {
			t.Fatalf("end %d has effects %+v (%v)", i, effects, err)
		}
	}
	if c.PendingJobCount() != 0 || c.RunningJobCount() != 0 || c.State() != Running {
		t.Errorf("%d jobs wait and %d run in state %s", c.PendingJobCount(), c.RunningJobCount(), c.State())
	}
	s := c.Statistics()
	if s.Failed != 1 || s.Aborted[AbortPreemption] != 1 {
		t.Errorf("counters are %+v", s.Counters)
	}
	offer(t, c, "web", 200) // its owner offers it again
	if startOne(t, c, 0).Cookie != 200 {
		t.Error("a job that was offered again does not start")
	}
	if _, err := c.Complete(dawn); err != nil || c.State() != Completing {
		t.Errorf("the operation is %s (%v)", c.State(), err)
	}
}

func TestOffersThatDoNotFitAreRefused(t *testing.T) {
	c := external(t, "{external: {}}")
	offer(t, c, "web", 1)
	before := textOf(t, c.Snapshot())
	for _, test := range []struct {
		offered Offered
		want    string
	}{
		{Offered{Resources: pod}, "must have a name"},
		{Offered{Task: "web", Resources: pod.Add(pod)}, "2 slots"},
		{Offered{Task: "web", Resources: pod.Add(resource.Amounts{resource.CPU: 1})}, "hold other amounts"},
		{Offered{Task: "new", Resources: pod, Cookies: []int32{-1}}, "cookie -1"},
		{Offered{Task: "new", Resources: pod, Cookies: []int32{MaxJobCount}}, "cookie 10000000"},
		{Offered{Task: "new", Resources: pod, Class: MaxClass + 1}, "constraint class 4096"},
		{Offered{Task: "new", Resources: pod.Sub(resource.Amounts{resource.CPU: 51})}, "holds -1 of cpu"},
	} {
		if added, err := c.Offer(test.offered); err == nil || added || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v, want %q", test.offered, err, test.want)
		}
	}
	if after := textOf(t, c.Snapshot()); after != before || len(c.Groups()) != 1 {
		t.Errorf("a refused offer has changed the operation:\n%s\n%s", before, after)
	}
	ordinary := running(t, twoTasks)
	if _, err := ordinary.Offer(Offered{Task: "web", Resources: pod}); err != ErrNotExternal {
		t.Errorf("an ordinary operation says %v", err)
	}
}

func TestOnlyDriversStartExternalOperations(t *testing.T) {
	_, err := Read(expected.Document(t, "{external: {}}"), ReadOptions{})
	if err == nil || !strings.Contains(err.Error(), "only drivers of the scheduler start external operations") {
		t.Errorf("the error is %v", err)
	}
	_, err = Read(expected.Document(t, "{external: {}, is_gang: true}"), ReadOptions{External: true})
	if err == nil || !strings.Contains(err.Error(), "is_gang") {
		t.Errorf("the error is %v", err)
	}
}

// TestASnapshotOfAnExternalOperationHasTasksAndNoJobs restores an operation, adopts a
// job that ran, and offers the others again.
func TestASnapshotOfAnExternalOperationHasTasksAndNoJobs(t *testing.T) {
	c := external(t, "{external: {gang_size: 2}}")
	offer(t, c, "web", 1, 2, 3)
	job := startOne(t, c, 0)
	data, err := json.Marshal(c.Snapshot())
	if err != nil {
		t.Fatal(err)
	}
	var s Snapshot
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	written := c.Spec().Document(document.ForPrograms)
	read, err := Read(written, ReadOptions{External: true})
	if err != nil {
		t.Fatal(err)
	}
	if changes := Changes(c.Spec(), read.Spec); len(changes) > 0 {
		t.Fatalf("the specification reads back with changes: %v", changes)
	}
	next, err := Restore(read.Spec, s)
	if err != nil {
		t.Fatal(err)
	}
	next.Disown()
	if next.PendingJobCount()+next.RunningJobCount() != 0 {
		t.Fatalf("%d jobs wait and %d run", next.PendingJobCount(), next.RunningJobCount())
	}
	if err := next.Adopt(job.JobRef); err != nil || next.RunningJobCount() != 1 {
		t.Fatalf("%d jobs run (%v)", next.RunningJobCount(), err)
	}
	offer(t, next, "web", 1, 2, 3)
	if next.PendingJobCount() != 2 {
		t.Errorf("%d jobs wait, want those that do not run", next.PendingJobCount())
	}
}

func TestAGangOfAnExternalOperationHasAMinimum(t *testing.T) {
	c := external(t, "{external: {gang_size: 2, gang_whole: true}}")
	lack := func() int {
		g, ok := c.Gang()
		if !ok || !g.Whole {
			t.Fatalf("the gang is %+v", g)
		}
		return g.Lack
	}
	offer(t, c, "web", 0, 1, 2)
	if lack() != 2 {
		t.Fatalf("%d jobs start together, want 2", lack())
	}
	jobs := []Job{startOne(t, c, 0), startOne(t, c, 0)}
	if lack() != 0 {
		t.Errorf("%d more jobs must start together", lack())
	}
	if _, ok := c.Deadline(); ok {
		t.Error("a complete gang has a deadline")
	}
	// A job that completes is not missed.
	if _, err := c.JobEnded(jobs[0].JobRef, Outcome{State: EndCompleted}, dawn); err != nil {
		t.Fatal(err)
	}
	if _, ok := c.Deadline(); ok {
		t.Error("a completed job is missed")
	}
	// One that fails is.
	c = external(t, "{external: {gang_size: 3, gang_whole: true}}")
	offer(t, c, "web", 0, 1, 2, 3)
	for i := range jobs[:2] {
		jobs[i] = startOne(t, c, 0)
	}
	startOne(t, c, 0)
	if _, err := c.JobEnded(jobs[0].JobRef, Outcome{State: EndFailed}, dawn); err != nil {
		t.Fatal(err)
	}
	if at, ok := c.Deadline(); !ok || at != dawn.Add(time.Minute) {
		t.Fatalf("the deadline is %v", at)
	}
	if effects := c.Tick(dawn.Add(59 * time.Second)); effects != (Effects{}) {
		t.Errorf("too early: %+v", effects)
	}
	if effects := c.Tick(dawn.Add(time.Minute)); effects.AbortRunning != AbortIncarnationChanged || c.RunningJobCount() != 0 || c.PendingJobCount() != 1 {
		t.Errorf("effects %+v, %d run, %d wait", effects, c.RunningJobCount(), c.PendingJobCount())
	}
}

func TestAPreemptedJobTakesItsGangAlong(t *testing.T) {
	for _, whole := range []bool{true, false} {
		spec := "{external: {gang_size: 2, gang_whole: true}}"
		if !whole {
			spec = "{external: {gang_size: 2}}"
		}
		c := external(t, spec)
		offer(t, c, "web", 0, 1)
		first := startOne(t, c, 0)
		startOne(t, c, 0)
		effects, err := c.JobEnded(first.JobRef, Outcome{State: EndAborted, Reason: AbortPreemption, Started: true}, dawn)
		if err != nil || (effects.AbortRunning == AbortIncarnationChanged) != whole || (c.RunningJobCount() == 0) != whole {
			t.Errorf("whole %v: effects %+v, %d run (%v)", whole, effects, c.RunningJobCount(), err)
		}
	}
}

// TestPropertyAnExternalOperationKeepsItsBooks offers, withdraws, starts and ends jobs at
// random, and compares with a map.
func TestPropertyAnExternalOperationKeepsItsBooks(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		c := external(t, "{external: {}}")
		type key struct {
			task   int
			cookie int32
		}
		names := []string{"a", "b"}
		offer(t, c, "a")
		offer(t, c, "b")
		waits, runs := map[key]bool{}, map[key]JobRef{}
		for range rapid.IntRange(1, 60).Draw(r, "steps") {
			at := key{rapid.IntRange(0, 1).Draw(r, "task"), int32(rapid.SampledFrom([]int{0, 1, 2, 63, 64, 65, 130, 5000}).Draw(r, "cookie"))}
			_, isRunning := runs[at]
			switch rapid.IntRange(0, 3).Draw(r, "step") {
			case 0:
				offer(t, c, names[at.task], at.cookie)
				waits[at] = waits[at] || !isRunning
			case 1:
				if err := c.Withdraw(names[at.task], []int32{at.cookie}); err != nil {
					r.Fatal(err)
				}
				delete(waits, at)
			case 2:
				if job, block := c.Schedule(at.task, resource.UnlimitedAmounts()); block == NotBlocked {
					at.cookie = job.Cookie
					if !waits[at] {
						r.Fatalf("job %v starts and does not wait", at)
					}
					delete(waits, at)
					runs[at] = job.JobRef
				}
			case 3:
				if _, err := c.JobEnded(JobRef{Task: int32(at.task), Cookie: at.cookie}, Outcome{State: EndAborted, Reason: AbortOther}, dawn); isRunning != (err == nil) {
					r.Fatalf("job %v runs: %v; its end: %v", at, isRunning, err)
				}
				delete(runs, at)
			}
			for k, is := range waits {
				if !is {
					delete(waits, k)
				}
			}
			if c.PendingJobCount() != len(waits) || c.RunningJobCount() != len(runs) {
				r.Fatalf("%d wait and %d run, want %d and %d", c.PendingJobCount(), c.RunningJobCount(), len(waits), len(runs))
			}
			if err := c.Verify(); err != nil {
				r.Fatal(err)
			}
		}
	})
}
