package operation

import (
	"fmt"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/value/document"
)

// Advance makes a step that the owner decides: from Register to Materialize,
// Orphan and the two revivals, and Commit. Complete, Fail and Abort have
// separate methods.
func (c *Controller) Advance(step Step, now time.Time, attributes ...Attribute) (Effects, error) {
	if step == Complete || step == Fail || step == Abort {
		return Effects{}, fmt.Errorf("step %v has a method of its own", step)
	}
	if _, err := c.life.After(step, now); err != nil {
		return Effects{}, err
	}
	var effects Effects
	if step == ReviveClean && !c.life.AbortRequested {
		if c.nextIndex > 0 && slices.ContainsFunc(c.tasks, func(t task) bool { return t.failOnRestart }) {
			return c.fail(restartError(AbortRevivalDisabled.String()), now), nil
		}
		effects.AbortRunning = c.takeBack(AbortRevivalDisabled, true)
	}
	c.enter(&effects, step, now, attributes...)
	if effects.Entered != Running {
		return effects, nil
	}
	if c.life.Revival == NotRevived && c.spec.SuspendAfterStart.Value() {
		c.life.Suspended, effects.Suspended = true, true
	}
	if end := c.settle(now); end.Entered != NoState {
		return end, nil
	}
	return effects, nil
}

// Suspend stops the start of jobs and, if requested, aborts running ones. An
// operation may be suspended more than once.
func (c *Controller) Suspend(abortRunning bool) (effects Effects, err error) {
	c.life, err = c.life.Suspend()
	if err != nil {
		return Effects{}, err
	}
	if abortRunning && c.running > 0 {
		effects.Restarted = c.spec.IsGang.Value()
		effects.AbortRunning = c.abortRunning(AbortOperationSuspended)
	}
	return effects, nil
}

// Resume undoes Suspend.
func (c *Controller) Resume() (err error) {
	c.life, err = c.life.Resume()
	return err
}

// Complete ends a running operation as if all of its jobs were completed.
func (c *Controller) Complete(now time.Time) (effects Effects, err error) {
	if _, err := c.life.After(Complete, now); err != nil {
		return Effects{}, err
	}
	c.result, c.failing = nil, false
	c.enter(&effects, Complete, now, Attribute{Name: "completed_by_user", Value: "true"})
	return effects, nil
}

// Fail ends an operation that cannot continue, or whose commit failed. An
// operation that is already failing or aborting stays as it is.
func (c *Controller) Fail(why Error, now time.Time) (Effects, error) {
	return c.end(Fail, why, now)
}

// Abort ends an operation on request. An orphan remembers the request until
// it is revived. An operation that is already failing or aborting stays as it
// is.
func (c *Controller) Abort(message string, now time.Time) (Effects, error) {
	why := Error{Code: CodeGeneric, Message: "operation aborted"}
	if message != "" {
		why.Inner = []Error{{Code: CodeGeneric, Message: message}}
	}
	return c.end(Abort, why, now)
}

func (c *Controller) end(step Step, why Error, now time.Time) (effects Effects, err error) {
	if _, err := c.life.After(step, now); err != nil {
		return Effects{}, err
	}
	if c.life.State != Failing && c.life.State != Aborting && !c.life.AbortRequested {
		c.result = &why
	}
	c.enter(&effects, step, now)
	return effects, nil
}

// Deadline returns when Tick must run next, and whether it must.
func (c *Controller) Deadline() (time.Time, bool) {
	limit, limited := c.spec.TimeLimit.Get()
	switch {
	case c.life.State != Running:
		return time.Time{}, false
	case c.isStale():
		return c.gangDeadline(), true
	case c.spec.IsExternal():
		return time.Time{}, false
	case c.failing:
		return c.deadline, true
	case !c.backoff.waits():
		return c.start.Add(limit), limited
	case limited && c.start.Add(limit).Before(c.backoff.until):
		return c.start.Add(limit), true
	}
	return c.backoff.until, true
}

// Tick handles deadlines: an operation fails when it runs longer than
// time_limit, or when it is failing and its jobs do not end in time. An
// expired backoff ends.
func (c *Controller) Tick(now time.Time) Effects {
	deadline, ok := c.Deadline()
	switch {
	case !ok || now.Before(deadline):
		return Effects{}
	case c.spec.IsExternal():
		return c.tickGang(now)
	case c.failing:
		return c.fail(*c.result, now)
	case c.backoff.waits() && !now.Before(c.backoff.until):
		c.backoff.until = time.Time{}
		return c.Tick(now) // time_limit may have passed as well
	}
	return c.failGracefully(Error{
		Code:    CodeGeneric,
		Message: "operation is running for too long: time_limit is " + document.FormatDuration(c.spec.TimeLimit.Value()),
	}, now)
}

// Update changes parameters of the operation at run time.
func (c *Controller) Update(u Update, now time.Time) (Effects, error) {
	if !c.life.State.AllowsUpdate() {
		return Effects{}, &StateError{State: c.life.State, What: "change the parameters of"}
	}
	changed := c.spec.With(u)
	if a, ok := changed.Annotations.Get(); ok && !isShort(a) {
		return Effects{}, fmt.Errorf("annotations would be longer than %d bytes", maxAnnotations)
	}
	c.spec = changed
	if u.MaxFailedJobCount.IsSet() && !c.failing && c.tooManyFailed() {
		return c.fail(c.maxFailedError(), now), nil
	}
	return Effects{}, nil
}
