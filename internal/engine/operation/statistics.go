package operation

import (
	"fmt"

	"github.com/weirhq/weir/internal/value/resource"
)

// Counters count the ended jobs of a task by outcome.
type Counters struct {
	Completed   int64
	Interrupted int64 // ended early and restarted
	Failed      int64
	// Lost are completed jobs that had to restart.
	Lost    int64
	Aborted [AbortReasonCount]int64
}

func (c *Counters) add(other *Counters) {
	c.Completed += other.Completed
	c.Interrupted += other.Interrupted
	c.Failed += other.Failed
	c.Lost += other.Lost
	for i := range c.Aborted {
		c.Aborted[i] += other.Aborted[i]
	}
}

// AbortedTotal returns the number of aborted jobs, and how many of them were
// cancelled before they started.
func (c *Counters) AbortedTotal() (total, beforeStart int64) {
	for reason, n := range c.Aborted {
		total += n
		if AbortReason(reason).BeforeStart() {
			beforeStart += n
		}
	}
	return total, beforeStart
}

// Statistics counts the jobs of a task or an operation by state, and earlier
// jobs by outcome. Pending + Running + Done = Total.
type Statistics struct {
	Total, Pending, Running, Done int
	Counters
}

// TaskStatistics returns the statistics of one task.
func (c *Controller) TaskStatistics(taskIndex int) Statistics {
	t := &c.tasks[taskIndex]
	pending := t.pendingCount()
	return Statistics{
		Total: int(t.count), Pending: pending, Running: int(t.runningCount),
		Done: int(t.count) - pending - int(t.runningCount), Counters: t.counters,
	}
}

// Statistics returns the statistics of the operation.
func (c *Controller) Statistics() (all Statistics) {
	for i := range c.tasks {
		s := c.TaskStatistics(i)
		all.Total += s.Total
		all.Pending += s.Pending
		all.Running += s.Running
		all.Done += s.Done
		all.Counters.add(&s.Counters)
	}
	return all
}

// Verify recomputes everything that is kept incrementally and returns the
// differences. Its cost is proportional to the number of jobs; tests and the
// simulator call it after every change.
func (c *Controller) Verify() error {
	again := c.jobs
	again.groups = make([]Group, len(c.groups))
	twin := Controller{spec: c.spec, jobs: again}
	for i := range c.tasks {
		if err := c.tasks[i].verify(); err != nil {
			return fmt.Errorf("task %q: %w", c.spec.Tasks[i].Name, err)
		}
	}
	twin.recount()
	switch {
	case twin.pending != c.pending || twin.running != c.running:
		return fmt.Errorf("%d pending and %d running jobs, counted %d and %d", twin.pending, twin.running, c.pending, c.running)
	case twin.needed != c.needed:
		return fmt.Errorf("pending jobs need %v, kept %v", twin.needed, c.needed)
	case twin.minNeeded != c.minNeeded:
		return fmt.Errorf("the least needed is %v, kept %v", twin.minNeeded, c.minNeeded)
	case c.life.State.IsFinishing() && c.running > 0:
		return fmt.Errorf("the operation is %v with %d running jobs", c.life.State, c.running)
	}
	for i := range c.groups {
		if c.groups[i] != twin.groups[i] {
			return fmt.Errorf("task %q: group is %v, kept %v", c.spec.Tasks[i].Name, twin.groups[i], c.groups[i])
		}
	}
	return nil
}

func (t *task) verify() error {
	if n := t.running.count(); n != t.runningCount {
		return fmt.Errorf("%d running jobs, counted %d", n, t.runningCount)
	}
	size := int32(0)
	for cookie := range t.count {
		returned, raised := t.returned.has(cookie), t.raised.has(cookie)
		if returned || raised {
			size++
		}
		if _, own := t.memory.retries[cookie]; returned && own || raised && !own || own && cookie >= t.next {
			return fmt.Errorf("job %d waits among the wrong ones", cookie)
		}
		returned = returned || raised
		if t.running.has(cookie) && (returned || cookie >= t.next) {
			return fmt.Errorf("job %d is pending and running", cookie)
		}
		if returned && cookie >= t.next {
			return fmt.Errorf("job %d is pending twice", cookie)
		}
	}
	if size != t.returned.size+t.raised.size {
		return fmt.Errorf("%d jobs came back, counted %d", size, t.returned.size+t.raised.size)
	}
	again := *t
	again.recountOwn()
	if u, p := &again.memory.user, &again.memory.proxy; u.own != t.memory.user.own || p.own != t.memory.proxy.own {
		return fmt.Errorf("%d and %d pending jobs with factors of their own, counted %d and %d", u.own, p.own, t.memory.user.own, t.memory.proxy.own)
	}
	if r := &t.memory; !r.varied && (len(r.retries)+len(r.started) > 0 || r.user.factor != r.user.initial || r.proxy.factor != r.proxy.initial) {
		return fmt.Errorf("factors differ, and nothing says so")
	}
	if t.base[resource.Memory] != t.memory.total() {
		return fmt.Errorf("a job takes %d bytes, of which reserves are %d", t.base[resource.Memory], t.memory.total())
	}
	if t.base[resource.UserSlots] != 1 {
		return fmt.Errorf("a job takes %d slots", t.base[resource.UserSlots])
	}
	return nil
}
