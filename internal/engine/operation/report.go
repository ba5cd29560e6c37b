package operation

import (
	"fmt"
	"slices"
	"time"
)

// Failure is what is known about a failed job.
type Failure struct {
	Error Error
	// Fatal failures fail the operation at once.
	Fatal bool
	// Node is where the job ran; it may be empty.
	Node string
}

// find returns the task of a running job.
func (c *Controller) find(job JobRef) (*task, error) {
	if job.Incarnation != c.incarnation || job.Task < 0 || int(job.Task) >= len(c.tasks) {
		return nil, ErrNotRunning
	}
	t := &c.tasks[job.Task]
	if job.Cookie < 0 || job.Cookie >= t.count || !t.running.has(job.Cookie) {
		return nil, ErrNotRunning
	}
	return t, nil
}

// take ends a running job.
func (c *Controller) take(job JobRef) (*task, error) {
	t, err := c.find(job)
	if err != nil {
		return nil, err
	}
	t.running.remove(job.Cookie)
	t.runningCount--
	c.running--
	if t.memory.varied {
		delete(t.memory.started, job.Cookie)
	}
	return t, nil
}

// JobCompleted reports that a job completed.
func (c *Controller) JobCompleted(job JobRef, now time.Time) (Effects, error) {
	t, err := c.take(job)
	if err != nil {
		return Effects{}, err
	}
	t.counters.Completed++
	c.backoff = backoff{}
	if t.restartCompleted {
		t.counters.Lost++
		c.giveBack(int(job.Task), job.Cookie)
	} else if t.memory.varied {
		delete(t.memory.retries, job.Cookie)
	}
	return c.settle(now), nil
}

// JobInterrupted reports that a job was asked to finish early, did so, and
// must restart.
func (c *Controller) JobInterrupted(job JobRef, now time.Time) (Effects, error) {
	t, err := c.take(job)
	if err != nil {
		return Effects{}, err
	}
	t.counters.Interrupted++
	c.backoff = backoff{}
	c.giveBack(int(job.Task), job.Cookie)
	return c.restart(t, "interrupted", true, now), nil
}

// JobAborted reports that a job ended through no fault of its own. started
// reports whether its process ran. Aborted jobs are retried without limit,
// but more and more slowly while nodes cannot start any; see Backoff.
func (c *Controller) JobAborted(job JobRef, reason AbortReason, started bool, now time.Time) (Effects, error) {
	t, err := c.take(job)
	if err != nil {
		return Effects{}, err
	}
	if reason == NotAborted || reason >= AbortReasonCount {
		reason = AbortOther
	}
	t.counters.Aborted[reason]++
	c.giveBack(int(job.Task), job.Cookie)
	switch {
	case started:
		c.backoff = backoff{}
	case reason.isNodeTrouble():
		c.backoff = c.backoff.after(now)
	}
	if reason.BeforeStart() {
		return c.settle(now), nil
	}
	return c.restart(t, reason.String(), started, now), nil
}

// JobFailed reports that a job failed by its own fault. The checks are in the
// order of the reference: restarts, fatal errors, the number of failures, and
// only then what lets the operation continue.
func (c *Controller) JobFailed(job JobRef, failure Failure, now time.Time) (Effects, error) {
	if c.ignores(&failure) {
		return c.JobAborted(job, AbortNodeBanned, true, now)
	}
	t, err := c.take(job)
	if err != nil {
		return Effects{}, err
	}
	t.counters.Failed++
	c.failed++
	c.backoff = backoff{}
	c.giveBack(int(job.Task), job.Cookie)
	switch {
	case c.failing:
		if len(c.result.Inner) == 0 { // the operation does not fail because of this job
			c.result = &Error{Code: c.result.Code, Message: c.result.Message, Inner: []Error{failure.Error}}
		}
		return c.settle(now), nil
	case t.failOnRestart:
		return c.failGracefully(restartError("failed", failure.Error), now), nil
	case failure.Fatal:
		return c.fail(failure.Error, now), nil
	case c.tooManyFailed():
		return c.fail(c.maxFailedError(failure.Error), now), nil
	}
	var effects Effects
	if failure.Node != "" && c.spec.BanNodesWithFailedJobs.Value() {
		if at, found := slices.BinarySearch(c.banned, failure.Node); !found {
			c.banned = slices.Insert(c.banned, at, failure.Node)
			effects.BannedNode = failure.Node
		}
	}
	if c.spec.SuspendOnJobFailure.Value() {
		c.life.Suspended, effects.Suspended = true, true
		effects.Restarted = c.spec.IsGang.Value()
		effects.AbortRunning = c.abortRunning(AbortOperationSuspended)
	} else if c.spec.IsGang.Value() {
		effects.Restarted = true
		effects.AbortRunning = c.abortRunning(AbortIncarnationChanged)
	}
	return effects, nil
}

// ignores reports whether a failure counts as an abort, because the operation
// already avoids the node.
func (c *Controller) ignores(failure *Failure) bool {
	return failure.Node != "" && c.spec.IgnoreFailuresAtBanned.Value() && c.Bans(failure.Node)
}

// restart returns the effects of a job that must restart, for this reason.
func (c *Controller) restart(t *task, reason string, started bool, now time.Time) (effects Effects) {
	switch {
	case c.failing:
	case started && t.failOnRestart:
		return c.failGracefully(restartError(reason), now)
	case c.spec.IsGang.Value():
		effects.Restarted = true
		effects.AbortRunning = c.abortRunning(AbortIncarnationChanged)
		return effects
	}
	return c.settle(now)
}

// settle checks whether the operation has ended.
func (c *Controller) settle(now time.Time) (effects Effects) {
	switch {
	case c.running > 0:
	case c.failing:
		c.enter(&effects, Fail, now)
	case c.pending == 0 && c.life.State == Running && !c.spec.IsExternal():
		c.enter(&effects, Complete, now)
	}
	return effects
}

// enter makes a step that the state allows.
func (c *Controller) enter(effects *Effects, step Step, now time.Time, attributes ...Attribute) {
	life, err := c.life.After(step, now, attributes...)
	if err != nil {
		panic("operation: " + err.Error()) // callers have checked the state
	}
	if life.State != c.life.State {
		effects.Entered = life.State
	}
	c.life = life
	switch life.State {
	case Completing:
		effects.AbortRunning = c.abortRunning(AbortOperationCompleted)
	case Failing:
		effects.AbortRunning = c.abortRunning(AbortOperationFailed)
	case Aborting:
		effects.AbortRunning = c.abortRunning(AbortOperationAborted)
	}
}

// fail ends the operation with an error.
func (c *Controller) fail(why Error, now time.Time) (effects Effects) {
	c.result = &why
	c.enter(&effects, Fail, now)
	return effects
}

// failGracefully ends the operation when its running jobs have ended, so that
// they can report what they were doing.
func (c *Controller) failGracefully(why Error, now time.Time) Effects {
	if c.running == 0 {
		return c.fail(why, now)
	}
	c.result, c.failing = &why, true
	c.deadline = now.Add(c.spec.TimeLimitJobFailTimeout.Value())
	return Effects{FailRunning: true}
}

func (c *Controller) tooManyFailed() bool {
	return c.failed > 0 && c.failed >= int64(c.spec.MaxFailedJobCount.Value())
}

func (c *Controller) maxFailedError(inner ...Error) Error {
	return Error{
		Code:    CodeMaxFailedJobs,
		Message: fmt.Sprintf("Failed jobs limit exceeded: %d failed, max_failed_job_count is %d", c.failed, c.spec.MaxFailedJobCount.Value()),
		Inner:   inner,
	}
}

func restartError(reason string, inner ...Error) Error {
	return Error{
		Code:    CodeJobRestarted,
		Message: "a job would have to start again (" + reason + "), which fail_on_job_restart forbids",
		Inner:   inner,
	}
}

// abortRunning makes all running jobs pending. A gang restarts as a whole:
// its jobs are useless alone. It returns the reason if any job was running.
func (c *Controller) abortRunning(reason AbortReason) AbortReason {
	over := c.life.State.IsFinishing()
	return c.takeBack(reason, c.spec.IsGang.Value() && !over)
}

// takeBack makes running jobs pending, and also completed ones if the
// operation restarts. A new incarnation makes late reports invalid.
func (c *Controller) takeBack(reason AbortReason, again bool) AbortReason {
	if c.running == 0 {
		reason = NotAborted
	}
	for i := range c.tasks {
		t := &c.tasks[i]
		t.counters.Aborted[reason] += int64(t.runningCount)
		switch {
		case c.spec.IsExternal():
			t.stopRunning()
		case again:
			t.reset()
		default:
			t.returnRunning()
		}
	}
	if again {
		c.incarnation++
	}
	c.recount()
	c.settleGang()
	return reason
}

// returnRunning makes every running job of the task pending.
func (t *task) returnRunning() {
	if t.runningCount == 0 {
		return
	}
	for cookie := range t.memory.retries { // a set does not depend on the order
		if t.running.has(cookie) {
			t.running.remove(cookie)
			t.raised.add(cookie, t.count)
		}
	}
	if t.returned.levels == nil {
		t.returned = setOf(newBitmap(t.count))
	}
	words := bitmap(t.returned.levels[0])
	words.addAll(t.running)
	t.returned = setOf(words)
	t.stopRunning()
}

// reset makes every job of the task pending, including completed ones. Jobs
// up to the last memory retry count as having run, so that retries stay
// separate.
func (t *task) reset() {
	t.counters.Lost += int64(t.count) - int64(t.pendingCount()) - int64(t.runningCount)
	t.next = 0
	t.returned.clear()
	t.raised.clear()
	for cookie := range t.memory.retries { // a maximum does not depend on the order
		t.next = max(t.next, cookie+1)
	}
	for cookie := range t.next {
		t.putBack(cookie)
	}
	t.stopRunning()
}

func (t *task) stopRunning() {
	clear(t.running)
	t.runningCount = 0
	t.memory.started = nil
	t.recountOwn()
}
