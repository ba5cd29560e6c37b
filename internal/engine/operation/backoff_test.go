package operation

import (
	"testing"
	"time"
)

// handOut hands out n jobs and returns them.
func handOut(t *testing.T, c *Controller, n int) []JobRef {
	t.Helper()
	jobs := make([]JobRef, n)
	for i := range jobs {
		job, block := c.Schedule(0, c.Groups()[0].Resources)
		if block != NotBlocked {
			t.Fatalf("job %d of %d: %v", i, n, block)
		}
		jobs[i] = job.JobRef
	}
	return jobs
}

// abortAll reports that no node could start the jobs.
func abortAll(t *testing.T, c *Controller, jobs []JobRef, now time.Time) {
	t.Helper()
	for _, job := range jobs {
		if _, err := c.JobAborted(job, AbortJobProxyFailed, false, now); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAnOperationWhoseJobsCannotBeStartedBacksOff(t *testing.T) {
	c := running(t, "tasks: {main: {job_count: 1000, command: 'true'}}").Controller
	now := c.StartTime()
	for round, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		want *= time.Second
		abortAll(t, c, handOut(t, c, 100), now)
		until, waits := c.BacksOffUntil()
		if !waits || until.Sub(now) != want || c.Blocked() != BlockedBackingOff || !c.Needed().IsZero() {
			t.Fatalf("round %d: backs off %v until %v (%v), want %v", round, waits, until, c.Blocked(), want)
		}
		if deadline, ok := c.Deadline(); !ok || !deadline.Equal(until) {
			t.Fatalf("round %d: Deadline() = %v, %v, want %v", round, deadline, ok, until)
		}
		restored, err := Restore(c.Spec(), c.Snapshot())
		if err != nil {
			t.Fatal(err)
		}
		if again, _ := restored.BacksOffUntil(); !again.Equal(until) {
			t.Fatalf("round %d: a restored controller backs off until %v, want %v", round, again, until)
		}
		if c.Tick(until.Add(-time.Millisecond)); c.Blocked() != BlockedBackingOff {
			t.Fatalf("round %d: the backoff ended early", round)
		}
		now = until
		if c.Tick(now); c.Blocked() != NotBlocked {
			t.Fatalf("round %d: blocked after the backoff: %v", round, c.Blocked())
		}
	}
}

func TestAJobThatRanEndsTheBackoff(t *testing.T) {
	for name, end := range map[string]func(*Controller, JobRef, time.Time) (Effects, error){
		"completed": func(c *Controller, j JobRef, now time.Time) (Effects, error) { return c.JobCompleted(j, now) },
		"failed": func(c *Controller, j JobRef, now time.Time) (Effects, error) {
			return c.JobFailed(j, Failure{Error: Error{Message: "exit code 1"}}, now)
		},
		"preempted": func(c *Controller, j JobRef, now time.Time) (Effects, error) {
			return c.JobAborted(j, AbortPreemption, true, now)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := running(t, "tasks: {main: {job_count: 1000, command: 'true'}}").Controller
			now := c.StartTime()
			running := handOut(t, c, 1)[0]
			abortAll(t, c, handOut(t, c, 10), now)
			if _, err := end(c, running, now); err != nil {
				t.Fatal(err)
			}
			if _, waits := c.BacksOffUntil(); waits || c.Blocked() != NotBlocked {
				t.Errorf("still blocked: %v", c.Blocked())
			}
		})
	}
}

func TestPreemptionAndLostNodesCauseNoBackoff(t *testing.T) {
	c := running(t, "tasks: {main: {job_count: 1000, command: 'true'}}").Controller
	for _, reason := range []AbortReason{AbortPreemption, AbortNodeOffline, AbortWaitingTimeout, AbortNodeWithDisabledJobs, AbortNodeBanned} {
		for _, job := range handOut(t, c, 20) {
			if _, err := c.JobAborted(job, reason, false, c.StartTime()); err != nil {
				t.Fatal(err)
			}
		}
		if _, waits := c.BacksOffUntil(); waits {
			t.Errorf("%v causes a backoff", reason)
		}
	}
}

func TestTheTimeLimitEndsAnOperationThatBacksOff(t *testing.T) {
	c := running(t, "time_limit: 1500ms\ntasks: {main: {job_count: 1000, command: 'true'}}").Controller
	now := c.StartTime()
	abortAll(t, c, handOut(t, c, 10), now)
	c.Tick(now.Add(time.Second))
	abortAll(t, c, handOut(t, c, 10), now.Add(time.Second)) // until 3 s
	if deadline, ok := c.Deadline(); !ok || deadline.Sub(now) != 1500*time.Millisecond {
		t.Fatalf("Deadline() = %v, %v; want the time limit", deadline.Sub(now), ok)
	}
	if effects := c.Tick(now.Add(1500 * time.Millisecond)); effects.Entered != Failing {
		t.Errorf("entered %v, want failing", effects.Entered)
	}
}
