package operation

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

var everything = resource.UnlimitedAmounts()

// bench is an operation under test with its running jobs.
type bench struct {
	*Controller
	t       testing.TB
	now     time.Time
	running []JobRef
}

// running starts an operation and brings it to the state running.
func running(t testing.TB, text string) *bench {
	t.Helper()
	s, err := parseSpec([]byte(text), ReadOptions{CommandOptional: true})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{Controller: New(s.Spec, clock), t: t, now: clock}
	for _, step := range []Step{Register, Assign, Initialize, Prepare, Admit, Materialize} {
		if _, err := b.Advance(step, b.now); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func (b *bench) verify() {
	b.t.Helper()
	if err := b.Verify(); err != nil {
		b.t.Fatal(err)
	}
}

// schedule starts a job of a group.
func (b *bench) schedule(group int) JobRef {
	b.t.Helper()
	job, block := b.Schedule(group, everything)
	if block != NotBlocked {
		b.t.Fatalf("no job of group %d: %v", group, block)
	}
	b.running = append(b.running, job.JobRef)
	b.verify()
	return job.JobRef
}

func (b *bench) scheduleAll() {
	for g := range b.Groups() {
		for b.Groups()[g].Pending > 0 {
			b.schedule(g)
		}
	}
}

func (b *bench) effects(e Effects, err error) Effects {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
	b.verify()
	return e
}

func (b *bench) completed(job JobRef) Effects {
	b.t.Helper()
	return b.effects(b.JobCompleted(job, b.now))
}

func (b *bench) failed(job JobRef) Effects {
	b.t.Helper()
	return b.effects(b.JobFailed(job, Failure{Error: Error{Code: CodeUserJobFailed, Message: "exit code 1"}}, b.now))
}

func (b *bench) aborted(job JobRef, reason AbortReason) Effects {
	b.t.Helper()
	return b.effects(b.JobAborted(job, reason, true, b.now))
}

func (b *bench) expect(got, want Effects) {
	b.t.Helper()
	if got != want {
		b.t.Fatalf("effects %+v, want %+v", got, want)
	}
}

const twoTasks = `tasks:
  big: {job_count: 2, cpu_limit: 4, memory_limit: 8GiB, gpu_limit: 1}
  small: {job_count: 3, cpu_limit: 0.5, memory_limit: 16GiB}
`

func TestAnOperationsNeedsAreTheSumOfItsJobsNeeds(t *testing.T) {
	b := running(t, twoTasks)
	job := func(cpu, gpu, gib int64) resource.Amounts {
		return resource.Amounts{resource.UserSlots: 1, resource.CPU: cpu, resource.GPU: gpu, resource.Memory: gib << 30}
	}
	big, small := job(400, 1, 4), job(50, 0, 8) // half of memory_limit
	if g := b.Groups(); g[0] != (Group{Resources: big, Pending: 2}) || g[1] != (Group{Resources: small, Pending: 3}) {
		t.Errorf("groups %v", g)
	}
	if want := (resource.Amounts{5, 950, 2, 32 << 30, 0}); b.Needed() != want {
		t.Errorf("needed %v, want %v", b.Needed(), want)
	}
	if want := job(50, 0, 4); b.MinNeeded() != want {
		t.Errorf("least needed %v, want %v", b.MinNeeded(), want)
	}
	b.schedule(0)
	b.schedule(0)
	if want := (resource.Amounts{3, 150, 0, 24 << 30, 0}); b.Needed() != want || b.MinNeeded() != small {
		t.Errorf("needed %v, least %v", b.Needed(), b.MinNeeded())
	}
	b.scheduleAll()
	if !b.Needed().IsZero() || !b.MinNeeded().IsZero() || b.Blocked() != BlockedNoPendingJobs {
		t.Errorf("needed %v, least %v, %v", b.Needed(), b.MinNeeded(), b.Blocked())
	}
}

func TestAnOperationIsCompletedWhenAllJobsOfAllTasksAre(t *testing.T) {
	b := running(t, twoTasks)
	b.scheduleAll()
	for _, job := range b.running[:4] {
		b.expect(b.completed(job), Effects{})
	}
	b.expect(b.completed(b.running[4]), Effects{Entered: Completing})
	s := b.Statistics()
	if s.Done != 5 || s.Total != 5 || s.Counters.Completed != 5 || b.Result() != nil {
		t.Errorf("%+v", s)
	}
	b.expect(b.effects(b.Advance(Commit, b.now)), Effects{Entered: Completed})
}

func TestRetriesComeFirstAndSmallerCookiesBeforeLarger(t *testing.T) {
	b := running(t, "tasks: {a: {job_count: 200}}")
	for range 130 {
		b.schedule(0)
	}
	for _, cookie := range []int{128, 3, 64, 65} {
		b.expect(b.aborted(b.running[cookie], AbortPreemption), Effects{})
	}
	var order []int32
	for range 6 {
		order = append(order, b.schedule(0).Cookie)
	}
	if got := fmt.Sprint(order); got != "[3 64 65 128 130 131]" {
		t.Errorf("order %v", got)
	}
}

func TestEveryStartHasAnIndexOfItsOwn(t *testing.T) {
	b := running(t, "tasks: {a: {job_count: 1}, b: {job_count: 1}}")
	for want := range uint64(6) {
		job, _ := b.Schedule(int(want%2), everything)
		if job.Index != want || job.TaskIndex != want/2 || job.Cookie != 0 {
			t.Errorf("job %+v, want index %d, %d in its task", job, want, want/2)
		}
		b.aborted(job.JobRef, AbortNodeOffline)
	}
	restored, err := Restore(b.spec, b.Snapshot())
	if err != nil {
		t.Fatal(err)
	}
	if job, _ := restored.Schedule(1, everything); job.Index != 6 || job.TaskIndex != 3 {
		t.Errorf("after a restart job %+v, want index 6, 3 in its task", job)
	}
}

func TestAbortedJobsAreRetriedWithoutLimitAndDoNotCount(t *testing.T) {
	b := running(t, "max_failed_job_count: 1\ntasks: {a: {job_count: 2}}")
	for i := range 1000 {
		job := b.schedule(0)
		b.expect(b.aborted(job, AbortReason(1+i%int(AbortOther))), Effects{})
	}
	s := b.TaskStatistics(0)
	total, before := s.AbortedTotal()
	if total != 1000 || before != 0 || s.Failed != 0 || s.Pending != 2 || s.Aborted[AbortNodeOffline] == 0 {
		t.Errorf("%+v", s)
	}
	others := s.Aborted[AbortOther]
	b.effects(b.JobAborted(b.schedule(0), AbortSchedulingTimeout, false, b.now))
	b.effects(b.JobAborted(b.schedule(0), AbortReason(250), false, b.now))
	s = b.TaskStatistics(0)
	if total, before := s.AbortedTotal(); total != 1002 || before != 1 || s.Aborted[AbortOther] != others+1 {
		t.Errorf("%d aborted, %d before their start, %d for other reasons", total, before, s.Aborted[AbortOther])
	}
}

func TestMaxFailedJobCount(t *testing.T) {
	for limit, failures := range map[int]int{0: 1, 1: 1, 2: 2, 10: 10} {
		b := running(t, fmt.Sprintf("max_failed_job_count: %d\ntasks: {a: {job_count: 3}}", limit))
		for i := range failures {
			other := b.schedule(0)
			e := b.failed(b.schedule(0))
			if i+1 < failures {
				b.expect(e, Effects{})
				b.aborted(other, AbortPreemption)
				continue
			}
			b.expect(e, Effects{Entered: Failing, AbortRunning: AbortOperationFailed})
			want := fmt.Sprintf("Failed jobs limit exceeded: %d failed, max_failed_job_count is %d", failures, limit)
			if r := b.Result(); r.Code != CodeMaxFailedJobs || r.Error() != want || r.Inner[0].Code != CodeUserJobFailed {
				t.Errorf("%d: %+v", limit, r)
			}
			if _, err := b.JobCompleted(other, b.now); !errors.Is(err, ErrNotRunning) {
				t.Errorf("%d: a late report: %v", limit, err)
			}
		}
		if s := b.Statistics(); s.Aborted[AbortOperationFailed] != 1 || s.Failed != int64(failures) || s.Running != 0 {
			t.Errorf("%d: %+v", limit, s)
		}
	}
}

func TestFatalErrorsFailAtOnce(t *testing.T) {
	b := running(t, "tasks: {a: {job_count: 3}}")
	e := b.effects(b.JobFailed(b.schedule(0), Failure{Error: Error{Message: "bad spec"}, Fatal: true}, b.now))
	b.expect(e, Effects{Entered: Failing})
	if b.Result().Message != "bad spec" {
		t.Errorf("%+v", b.Result())
	}
}

func TestMaxFailedJobCountIsCheckedAgainWhenItChanges(t *testing.T) {
	set := func(n int) Update { return Update{MaxFailedJobCount: document.Some(n)} }
	b := running(t, "tasks: {a: {job_count: 3}}")
	b.expect(b.effects(b.Update(set(0), b.now)), Effects{}) // nothing has failed yet
	b.expect(b.effects(b.Update(set(5), b.now)), Effects{})
	b.failed(b.schedule(0))
	b.failed(b.schedule(0))
	b.expect(b.effects(b.Update(set(3), b.now)), Effects{})
	b.expect(b.effects(b.Update(set(2), b.now)), Effects{Entered: Failing})
	if _, err := b.Update(set(7), b.now); err == nil || err.Error() != "cannot change the parameters of an operation that is failing" {
		t.Errorf("%v", err)
	}
}

func TestAnnotationsDoNotGrowBeyondTheirLimit(t *testing.T) {
	b := running(t, "tasks: {a: {job_count: 1}}")
	long := document.Text(strings.Repeat("x", 6000))
	patch := func(key string) Update {
		return Update{Annotations: document.Some(document.Map(document.Pair(key, long)))}
	}
	b.effects(b.Update(patch("a"), b.now))
	if _, err := b.Update(patch("b"), b.now); err == nil {
		t.Error("annotations of 12000 bytes")
	}
	if _, has := b.Spec().Annotations.Value().Get("b"); has {
		t.Error("a refused change was made")
	}
}

func TestFailOnJobRestart(t *testing.T) {
	const text = "fail_on_job_restart: true\ntasks: {a: {job_count: 2}}"
	t.Run("an abort of a started job fails the operation gracefully", func(t *testing.T) {
		b := running(t, text)
		one, two := b.schedule(0), b.schedule(0)
		b.expect(b.aborted(one, AbortPreemption), Effects{FailRunning: true})
		if b.Blocked() != BlockedFailing || !b.Needed().IsZero() || b.State() != Running {
			t.Errorf("%v, needs %v", b.Blocked(), b.Needed())
		}
		b.expect(b.failed(two), Effects{Entered: Failing})
		want := "a job would have to start again (preemption), which fail_on_job_restart forbids"
		if r := b.Result(); r.Code != CodeJobRestarted || r.Message != want || len(r.Inner) != 1 {
			t.Errorf("%+v", b.Result())
		}
	})
	t.Run("a failure too", func(t *testing.T) {
		b := running(t, text)
		b.expect(b.failed(b.schedule(0)), Effects{Entered: Failing})
	})
	t.Run("and an interruption", func(t *testing.T) {
		b := running(t, text)
		b.expect(b.effects(b.JobInterrupted(b.schedule(0), b.now)), Effects{Entered: Failing})
	})
	t.Run("but not a job that had not started", func(t *testing.T) {
		b := running(t, text)
		b.expect(b.effects(b.JobAborted(b.schedule(0), AbortWaitingTimeout, false, b.now)), Effects{})
		b.expect(b.effects(b.JobAborted(b.schedule(0), AbortSchedulingTimeout, true, b.now)), Effects{})
	})
	t.Run("on a task it is about that task", func(t *testing.T) {
		b := running(t, "tasks: {a: {job_count: 1, fail_on_job_restart: true}, b: {job_count: 1}}")
		b.expect(b.aborted(b.schedule(1), AbortPreemption), Effects{})
		b.expect(b.aborted(b.schedule(0), AbortPreemption), Effects{Entered: Failing})
	})
	t.Run("a clean revival too, once jobs have started", func(t *testing.T) {
		b := running(t, text)
		b.expect(b.effects(b.Advance(Orphan, b.now)), Effects{Entered: Orphaned})
		b.expect(b.effects(b.Advance(ReviveClean, b.now)), Effects{Entered: WaitingForAgent})
		b = running(t, text)
		b.schedule(0)
		b.expect(b.effects(b.Advance(Orphan, b.now)), Effects{Entered: Orphaned})
		b.expect(b.effects(b.Advance(ReviveClean, b.now)), Effects{Entered: Failing, AbortRunning: AbortOperationFailed})
	})
}

func TestAGangRestartsAsAWhole(t *testing.T) {
	const text = "is_gang: true\ntasks: {a: {job_count: 2}, b: {job_count: 2}}"
	causes := map[string]func(b *bench, job JobRef) Effects{
		"aborted":     func(b *bench, job JobRef) Effects { return b.aborted(job, AbortNodeOffline) },
		"failed":      func(b *bench, job JobRef) Effects { return b.failed(job) },
		"interrupted": func(b *bench, job JobRef) Effects { return b.effects(b.JobInterrupted(job, b.now)) },
	}
	for name, cause := range causes {
		t.Run(name, func(t *testing.T) {
			b := running(t, text)
			b.scheduleAll()
			old := b.running
			b.expect(b.completed(old[0]), Effects{})
			b.expect(cause(b, old[1]), Effects{Restarted: true, AbortRunning: AbortIncarnationChanged})
			s := b.Statistics()
			if s.Pending != 4 || s.Running != 0 || s.Done != 0 || s.Lost != 1 || s.Aborted[AbortIncarnationChanged] != 2 || b.Incarnation() != 1 {
				t.Errorf("%+v, incarnation %d", s, b.Incarnation())
			}
			b.running = nil
			b.scheduleAll()
			if _, err := b.JobCompleted(old[2], b.now); !errors.Is(err, ErrNotRunning) {
				t.Errorf("a report of the old incarnation: %v", err)
			}
			for i, job := range b.running {
				want := Effects{}
				if i == 3 {
					want.Entered = Completing
				}
				b.expect(b.completed(job), want)
			}
		})
	}
	t.Run("not for a job that nobody has seen", func(t *testing.T) {
		b := running(t, text)
		b.scheduleAll()
		b.expect(b.effects(b.JobAborted(b.running[0], AbortSchedulingResourceOvercommit, false, b.now)), Effects{})
		if b.RunningJobCount() != 3 || b.Incarnation() != 0 {
			t.Errorf("%d jobs run in incarnation %d", b.RunningJobCount(), b.Incarnation())
		}
	})
	t.Run("with no other job running nothing is to be aborted", func(t *testing.T) {
		b := running(t, text)
		b.expect(b.aborted(b.schedule(0), AbortPreemption), Effects{Restarted: true})
	})
	t.Run("too many failures end it instead", func(t *testing.T) {
		b := running(t, "max_failed_job_count: 1\n"+text)
		b.scheduleAll()
		b.expect(b.failed(b.running[0]), Effects{Entered: Failing, AbortRunning: AbortOperationFailed})
		if b.Incarnation() != 0 {
			t.Error("a failed gang has started over")
		}
	})
	t.Run("a suspension that aborts jobs restarts it", func(t *testing.T) {
		b := running(t, text)
		b.scheduleAll()
		b.completed(b.running[0])
		b.expect(b.effects(b.Suspend(true)), Effects{Restarted: true, AbortRunning: AbortOperationSuspended})
		if s := b.Statistics(); s.Pending != 4 || s.Aborted[AbortOperationSuspended] != 3 {
			t.Errorf("%+v", s)
		}
	})
}

func TestTimeLimit(t *testing.T) {
	const text = "time_limit: 1h\ntime_limit_job_fail_timeout: 30s\ntasks: {a: {job_count: 2}}"
	t.Run("with running jobs the operation fails gracefully", func(t *testing.T) {
		b := running(t, text)
		b.schedule(0)
		if at, ok := b.Deadline(); !ok || !at.Equal(clock.Add(time.Hour)) {
			t.Errorf("deadline %v, %v", at, ok)
		}
		b.expect(b.Tick(clock.Add(time.Hour-1)), Effects{})
		b.expect(b.Tick(clock.Add(time.Hour)), Effects{FailRunning: true})
		if at, ok := b.Deadline(); !ok || !at.Equal(clock.Add(time.Hour+30*time.Second)) {
			t.Errorf("deadline %v, %v", at, ok)
		}
		b.expect(b.Tick(clock.Add(time.Hour+29*time.Second)), Effects{})
		b.expect(b.failed(b.running[0]), Effects{Entered: Failing})
		if r := b.Result(); r.Message != "operation is running for too long: time_limit is 1h" || len(r.Inner) != 1 {
			t.Errorf("%+v", r)
		}
		if _, ok := b.Deadline(); ok {
			t.Error("a failing operation has a deadline")
		}
	})
	t.Run("but not for ever", func(t *testing.T) {
		b := running(t, text)
		b.schedule(0)
		b.Tick(clock.Add(time.Hour))
		b.expect(b.Tick(clock.Add(time.Hour+30*time.Second)), Effects{Entered: Failing, AbortRunning: AbortOperationFailed})
		b.verify()
	})
	t.Run("without running jobs at once", func(t *testing.T) {
		b := running(t, text)
		b.expect(b.Tick(clock.Add(2*time.Hour)), Effects{Entered: Failing})
	})
	t.Run("jobs that complete or are aborted meanwhile do not save it", func(t *testing.T) {
		b := running(t, text)
		b.scheduleAll()
		b.Tick(clock.Add(time.Hour))
		b.expect(b.aborted(b.running[0], AbortPreemption), Effects{})
		b.expect(b.completed(b.running[1]), Effects{Entered: Failing})
	})
	t.Run("an operation without a limit has no deadline", func(t *testing.T) {
		b := running(t, twoTasks)
		if _, ok := b.Deadline(); ok {
			t.Error("a deadline")
		}
		b.expect(b.Tick(clock.Add(1000*time.Hour)), Effects{})
	})
}

func TestSuspendAndResume(t *testing.T) {
	b := running(t, twoTasks)
	job := b.schedule(0)
	if err := b.Resume(); err == nil {
		t.Error("an operation that is not suspended was resumed")
	}
	b.expect(b.effects(b.Suspend(false)), Effects{})
	if _, block := b.Schedule(1, everything); block != BlockedSuspended || !b.Needed().IsZero() {
		t.Errorf("%v, needs %v", block, b.Needed())
	}
	b.expect(b.completed(job), Effects{}) // running jobs finish
	job = func() JobRef {
		if err := b.Resume(); err != nil {
			t.Fatal(err)
		}
		return b.schedule(0)
	}()
	b.expect(b.effects(b.Suspend(true)), Effects{AbortRunning: AbortOperationSuspended})
	if s := b.Statistics(); s.Running != 0 || s.Done != 1 || s.Pending != 4 || s.Aborted[AbortOperationSuspended] != 1 {
		t.Errorf("%+v", s)
	}
	if _, err := b.JobCompleted(job, b.now); !errors.Is(err, ErrNotRunning) {
		t.Errorf("a job that was taken back: %v", err)
	}
}

func TestSuspendOnJobFailure(t *testing.T) {
	b := running(t, "suspend_on_job_failure: true\ntasks: {a: {job_count: 3}}")
	b.schedule(0)
	b.expect(b.failed(b.schedule(0)), Effects{Suspended: true, AbortRunning: AbortOperationSuspended})
	if b.Blocked() != BlockedSuspended {
		t.Error(b.Blocked())
	}
}

func TestAnOperationMayBeginSuspended(t *testing.T) {
	b := running(t, "suspend_operation_after_materialization: true\ntasks: {a: {job_count: 3}}")
	if b.Blocked() != BlockedSuspended || b.State() != Running {
		t.Error(b.Blocked())
	}
	if err := b.Resume(); err != nil {
		t.Fatal(err)
	}
	for _, s := range []Step{Orphan, ReviveWithJobs, Assign, Initialize, Prepare, Admit, Materialize} {
		b.effects(b.Advance(s, b.now))
	}
	if b.Blocked() != NotBlocked {
		t.Errorf("after its revival: %v", b.Blocked())
	}
}

func TestNodesWithFailedJobsAreAvoided(t *testing.T) {
	b := running(t, "ban_nodes_with_failed_jobs: true\nignore_job_failures_at_banned_nodes: true\ntasks: {a: {job_count: 9}}")
	fail := func(node string) Effects {
		return b.effects(b.JobFailed(b.schedule(0), Failure{Node: node}, b.now))
	}
	b.expect(fail("n2"), Effects{BannedNode: "n2"})
	b.expect(fail("n1"), Effects{BannedNode: "n1"})
	b.expect(fail("n2"), Effects{}) // counts as an abort
	if !b.Bans("n1") || !b.Bans("n2") || b.Bans("n3") || b.BannedNodeCount() != 2 {
		t.Error("wrong nodes are banned")
	}
	if s := b.Statistics(); s.Failed != 2 || s.Aborted[AbortNodeBanned] != 1 {
		t.Errorf("%+v", s)
	}
}

func TestCompleteByUser(t *testing.T) {
	b := running(t, twoTasks)
	b.schedule(0)
	b.expect(b.effects(b.Controller.Complete(b.now)), Effects{Entered: Completing, AbortRunning: AbortOperationCompleted})
	events := b.Life().Events
	if last := events[len(events)-1]; len(last.Attributes) != 1 || last.Attributes[0].Name != "completed_by_user" {
		t.Errorf("%+v", last)
	}
	if _, err := b.Controller.Complete(b.now); err == nil || err.Error() != "cannot complete an operation that is completing" {
		t.Errorf("%v", err)
	}
}

func TestAbort(t *testing.T) {
	b := running(t, twoTasks)
	b.schedule(0)
	b.expect(b.effects(b.Controller.Abort("enough", b.now)), Effects{Entered: Aborting, AbortRunning: AbortOperationAborted})
	b.expect(b.effects(b.Controller.Abort("again", b.now)), Effects{})
	b.expect(b.effects(b.Controller.Fail(Error{Message: "too late"}, b.now)), Effects{})
	b.expect(b.effects(b.Advance(Commit, b.now)), Effects{Entered: Aborted})
	if r := b.Result(); r.Message != "operation aborted" || r.Inner[0].Message != "enough" {
		t.Errorf("%+v", r)
	}
	if _, err := b.Controller.Abort("", b.now); err == nil {
		t.Error("an aborted operation was aborted")
	}
}

func TestJobsAreOnlyHandedOutWhileTheOperationRuns(t *testing.T) {
	c := New(mustSpec(t, smallest), clock)
	for _, step := range []Step{Register, Assign, Initialize, Prepare, Admit, Materialize} {
		if _, block := c.Schedule(0, everything); block != BlockedNotRunning || !c.Needed().IsZero() {
			t.Errorf("%v: %v, needs %v", c.State(), block, c.Needed())
		}
		if _, err := c.Advance(step, clock); err != nil {
			t.Fatal(err)
		}
	}
	if _, block := c.Schedule(0, everything); block != NotBlocked {
		t.Error(block)
	}
	for _, step := range []Step{Complete, Fail, Abort, Register} {
		if _, err := c.Advance(step, clock); err == nil {
			t.Errorf("advanced by %v", step)
		}
	}
}

func TestRevival(t *testing.T) {
	revive := func(b *bench, step Step) (entered []State, aborted AbortReason) {
		for _, s := range []Step{Orphan, step, Assign, Initialize, Prepare, Admit, Materialize} {
			e := b.effects(b.Advance(s, b.now))
			entered = append(entered, e.Entered)
			if e.AbortRunning != NotAborted {
				aborted = e.AbortRunning
			}
		}
		return entered, aborted
	}
	t.Run("with its jobs nothing is lost", func(t *testing.T) {
		b := running(t, twoTasks)
		b.scheduleAll()
		b.completed(b.running[0])
		if _, aborted := revive(b, ReviveWithJobs); aborted != NotAborted || b.RunningJobCount() != 4 {
			t.Errorf("%v, %d running", aborted, b.RunningJobCount())
		}
		b.aborted(b.running[1], AbortUnconfirmed)
	})
	t.Run("from the beginning everything is done again", func(t *testing.T) {
		b := running(t, twoTasks)
		b.scheduleAll()
		b.completed(b.running[0])
		_, aborted := revive(b, ReviveClean)
		if s := b.Statistics(); aborted != AbortRevivalDisabled || s.Pending != 5 || s.Aborted[AbortRevivalDisabled] != 4 || s.Lost != 1 {
			t.Errorf("%v, %+v", aborted, s)
		}
		if _, err := b.JobCompleted(b.running[1], b.now); !errors.Is(err, ErrNotRunning) {
			t.Errorf("a job of the time before: %v", err)
		}
	})
	t.Run("jobs that completed meanwhile complete the operation", func(t *testing.T) {
		b := running(t, "tasks: {a: {job_count: 1}}")
		b.schedule(0)
		b.effects(b.Advance(Orphan, b.now))
		b.expect(b.completed(b.running[0]), Effects{})
		for _, s := range []Step{ReviveWithJobs, Assign, Initialize, Prepare, Admit} {
			b.effects(b.Advance(s, b.now))
		}
		b.expect(b.effects(b.Advance(Materialize, b.now)), Effects{Entered: Completing})
	})
	t.Run("an orphan that is not wanted any more is aborted", func(t *testing.T) {
		b := running(t, twoTasks)
		b.schedule(0)
		b.effects(b.Advance(Orphan, b.now))
		b.expect(b.effects(b.Controller.Abort("no", b.now)), Effects{})
		b.expect(b.effects(b.Advance(ReviveClean, b.now)), Effects{Entered: Aborting, AbortRunning: AbortOperationAborted})
		if b.Result().Inner[0].Message != "no" {
			t.Errorf("%+v", b.Result())
		}
	})
}

func TestCompletedJobsMayBeStartedAgain(t *testing.T) {
	b := running(t, "tasks: {a: {job_count: 1, restart_completed_jobs: true}}")
	for range 3 {
		b.expect(b.completed(b.schedule(0)), Effects{})
	}
	if s := b.Statistics(); s.Counters.Completed != 3 || s.Lost != 3 || s.Pending != 1 {
		t.Errorf("%+v", s)
	}
}

func TestInterruptedJobsAreStartedAgain(t *testing.T) {
	b := running(t, "tasks: {a: {job_count: 1}}")
	b.expect(b.effects(b.JobInterrupted(b.schedule(0), b.now)), Effects{})
	b.expect(b.completed(b.schedule(0)), Effects{Entered: Completing})
	if s := b.Statistics(); s.Interrupted != 1 || s.Done != 1 {
		t.Errorf("%+v", s)
	}
}

func TestReportsAboutJobsThatDoNotRunChangeNothing(t *testing.T) {
	b := running(t, twoTasks)
	b.schedule(0)
	for _, job := range []JobRef{{Task: 0, Cookie: 1}, {Task: 0, Cookie: 7}, {Task: 5}, {Task: -1}, {Cookie: -1}, {Incarnation: 1}} {
		_, e1 := b.JobCompleted(job, b.now)
		_, e2 := b.JobFailed(job, Failure{}, b.now)
		_, e3 := b.JobAborted(job, AbortPreemption, true, b.now)
		_, e4 := b.JobInterrupted(job, b.now)
		for _, err := range []error{e1, e2, e3, e4} {
			if !errors.Is(err, ErrNotRunning) {
				t.Errorf("%+v: %v", job, err)
			}
		}
	}
	if s := b.Statistics(); s.Running != 1 || s.Pending != 4 || s.Failed != 0 {
		t.Errorf("%+v", s)
	}
}
