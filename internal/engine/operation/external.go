package operation

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// An external operation has jobs that belong to another system, such as pods: the owner
// offers them and withdraws them, and an ended job is gone. The controller retries
// nothing, learns no memory and ends only on request. Its tasks appear with the jobs
// that need them. A snapshot has no jobs: the owner offers them again.

// External are the options of an external operation.
type External struct {
	// GangSize is how many jobs start together; zero or one: none must.
	GangSize document.Optional[int]
	// GangWhole reports that the gang loses all jobs with one that is preempted, and
	// with too few of them for GangStaleTimeout.
	GangWhole        document.Optional[bool]
	GangStaleTimeout document.Optional[time.Duration]
	// FreeRoomOnly reports that nothing is preempted for its jobs.
	FreeRoomOnly document.Optional[bool]
}

var externalTable = document.NewTable(
	document.Maybe("gang_size", "How many jobs start together. Unset: jobs start one by one.",
		func(c *External) *opt[int] { return &c.GangSize }, document.Between(document.Ints, 0, MaxJobCount)),
	document.Maybe("gang_whole", "The gang loses all jobs with one that is preempted, and if too few of them run for gang_stale_timeout.",
		func(c *External) *opt[bool] { return &c.GangWhole }, switched.Default(false)),
	document.Maybe("gang_stale_timeout", "How long fewer jobs than gang_size may run, with none starting.",
		func(c *External) *opt[time.Duration] { return &c.GangStaleTimeout }, document.Above(document.Durations, 0).Default(time.Minute)),
	document.Maybe("free_room_only", "Preempt nothing for jobs of this operation.",
		func(c *External) *opt[bool] { return &c.FreeRoomOnly }, switched.Default(false)),
)

// MaxExternalTasks is the most tasks that an external operation can have.
const MaxExternalTasks = 1000

// IsExternal reports whether the jobs of the operation belong to another system.
func (s *Spec) IsExternal() bool { return s.External.IsSet() }

// Class is a constraint class: jobs that may run on the same nodes. Nodes deny classes.
// Zero is the class of jobs that demand nothing of their nodes.
type Class int32

const (
	// ClassPending is the class of jobs whose real class the driver has yet to find. All
	// nodes of a driver deny it.
	ClassPending Class = 1
	// MaxClass is the largest constraint class.
	MaxClass Class = 4095
)

// Offered are jobs that an external operation offers: equal ones, in one task.
type Offered struct {
	// Task is the name of the task. It is added if the operation does not have it.
	Task string
	// Resources are what each job holds. Jobs of one task hold the same.
	Resources resource.Amounts
	// Class is the constraint class. Alone reports that at most one job of the class
	// starts on a heartbeat, because each may change where the next one can run.
	Class Class
	Alone bool
	// Priority orders the tasks of the operation: larger ones are served first.
	Priority int32
	// Cookies identify the jobs within the task. Those that wait or run already are
	// left as they are.
	Cookies []int32
}

// ErrNotExternal reports that jobs cannot be offered to an operation.
var ErrNotExternal = errors.New("the operation is not external: its specification has its jobs")

// Offer adds jobs that wait. It reports whether the operation has got a new task, with
// which its specification has changed.
func (c *Controller) Offer(o Offered) (added bool, err error) {
	if err := c.checkOffer(&o); err != nil {
		return false, err
	}
	i := c.taskNamed(o.Task)
	if i < 0 {
		i, added = c.addTask(o.Task, o.Resources), true
	}
	t := &c.tasks[i]
	t.kind = kind{class: o.Class, alone: o.Alone, priority: o.Priority}
	c.groups[i].kind = t.kind
	for _, cookie := range o.Cookies {
		t.grow(cookie)
		if !t.running.has(cookie) && !t.returned.has(cookie) {
			c.giveBack(i, cookie)
		}
	}
	return added, nil
}

// checkOffer returns why jobs cannot be offered.
func (c *Controller) checkOffer(o *Offered) error {
	switch {
	case !c.spec.IsExternal():
		return ErrNotExternal
	case c.life.State.IsFinishing() || c.life.State.IsFinished():
		return &StateError{State: c.life.State, What: "offer jobs of"}
	case o.Task == "":
		return errors.New("a task must have a name")
	case o.Class < 0 || o.Class > MaxClass:
		return fmt.Errorf("constraint class %d is not between 0 and %d", o.Class, MaxClass)
	case o.Resources[resource.UserSlots] != 1:
		return fmt.Errorf("a job of task %q holds %d slots, not one", o.Task, o.Resources[resource.UserSlots])
	}
	for _, k := range resource.Kinds {
		if o.Resources[k] < 0 || o.Resources[k] > maxMemoryLimit {
			return fmt.Errorf("a job of task %q holds %d of %s", o.Task, o.Resources[k], k)
		}
	}
	for _, cookie := range o.Cookies {
		if cookie < 0 || cookie >= MaxJobCount {
			return fmt.Errorf("cookie %d of task %q is not between 0 and %d", cookie, o.Task, MaxJobCount-1)
		}
	}
	switch i := c.taskNamed(o.Task); {
	case i < 0 && len(c.tasks) >= MaxExternalTasks:
		return fmt.Errorf("the operation has %d tasks, which is the limit", len(c.tasks))
	case i >= 0 && c.tasks[i].base != o.Resources.Max(leastJob):
		return fmt.Errorf("jobs of task %q hold other amounts", o.Task)
	}
	return nil
}

// leastJob is the least that a job holds.
var leastJob = resource.Amounts{resource.Memory: 1}

// Withdraw removes jobs that wait. Those that run, or are unknown, are left as they are.
func (c *Controller) Withdraw(task string, cookies []int32) error {
	if !c.spec.IsExternal() {
		return ErrNotExternal
	}
	i := c.taskNamed(task)
	if i < 0 {
		return nil
	}
	for _, cookie := range cookies {
		if t := &c.tasks[i]; cookie >= 0 && cookie < t.count && t.returned.has(cookie) {
			c.takePending(i, cookie, t.base)
		}
	}
	c.settleGang()
	return nil
}

func (c *Controller) taskNamed(name string) int {
	return slices.IndexFunc(c.spec.Tasks, func(t document.Named[Task]) bool { return t.Name == name })
}

// addTask adds a task to a copy of the specification.
func (c *Controller) addTask(name string, each resource.Amounts) int {
	changed := *c.spec
	task := externalTask(each)
	task.complete(&changed)
	changed.Tasks = append(slices.Clip(c.spec.Tasks), document.Named[Task]{Name: name, Value: task})
	c.spec = &changed
	c.tasks = append(c.tasks, c.newTask(&changed.Tasks[len(changed.Tasks)-1].Value))
	c.groups = append(c.groups, Group{Resources: c.tasks[len(c.tasks)-1].base})
	return len(c.tasks) - 1
}

// externalTask returns a task whose jobs hold exactly these amounts.
func externalTask(each resource.Amounts) Task {
	return Task{
		JobCount: 1, CPULimit: document.Some(each[resource.CPU]), GPULimit: document.Some(each[resource.GPU]),
		MemoryLimit: document.Some(max(each[resource.Memory], 1)), NetworkLimit: document.Some(each[resource.Network]),
		Memory: MemoryOptions{DigestLowerBound: document.Some(1.0), DigestDefaultValue: document.Some(1.0)},
	}
}

// Classify sets the constraint class of an ordinary task's jobs. It refuses external
// operations, whose offers set it.
func (c *Controller) Classify(task string, class Class, alone bool) error {
	i := c.taskNamed(task)
	switch {
	case c.spec.IsExternal():
		return errors.New("the operation is external: its offers have the constraint classes")
	case i < 0:
		return fmt.Errorf("the operation has no task %q", task)
	case class < 0 || class > MaxClass:
		return fmt.Errorf("constraint class %d is not between 0 and %d", class, MaxClass)
	}
	c.tasks[i].kind = kind{class: class, alone: alone}
	c.groups[i].kind = c.tasks[i].kind
	return nil
}

// kind is what an owner or a driver says about the jobs of a task.
type kind struct {
	class    Class
	alone    bool
	priority int32
}

// Class returns the constraint class of the jobs, and whether at most one of the class
// starts on a heartbeat.
func (g *Group) Class() (class Class, alone bool) { return g.kind.class, g.kind.alone }

// Priority returns the priority of the jobs among those of their operation.
func (g *Group) Priority() int32 { return g.kind.priority }

// grow makes room for a cookie in the sets of an external task.
func (t *task) grow(cookie int32) {
	if cookie < t.count {
		return
	}
	t.count, t.next = cookie+1, cookie+1
	if words := int(t.count+63) / 64; words > len(t.running) {
		words = max(words, 2*len(t.running))
		t.running = append(t.running, make(bitmap, words-len(t.running))...)
		if t.returned.levels != nil {
			waiting := make(bitmap, words)
			copy(waiting, t.returned.levels[0])
			t.returned = setOf(waiting)
		}
	}
}

// settleGang starts the count of a gang's completed jobs again when none is left.
func (c *Controller) settleGang() {
	if c.running == 0 && c.pending == 0 {
		c.gangDone = 0
	}
}

// endExternal removes a job of an external operation that has ended.
func (c *Controller) endExternal(job JobRef, o *Outcome, now time.Time) (effects Effects, err error) {
	t, err := c.take(job)
	if err != nil {
		return Effects{}, err
	}
	switch o.State {
	case EndCompleted:
		t.counters.Completed++
		c.gangDone++
	case EndInterrupted:
		t.counters.Interrupted++
	case EndFailed:
		t.counters.Failed++
	case EndAborted:
		if o.Reason == NotAborted || o.Reason >= AbortReasonCount {
			o.Reason = AbortOther
		}
		t.counters.Aborted[o.Reason]++
	}
	c.settleGang()
	if e := c.spec.External.Value(); e.GangWhole.Value() && e.GangSize.Value() > 1 && o.State == EndAborted && o.Reason == AbortPreemption && c.running > 0 {
		effects.AbortRunning = c.abortRunning(AbortIncarnationChanged)
	}
	if c.isStale() && c.stale.IsZero() {
		c.stale = now
	}
	return effects, nil
}

// adoptExternal makes a job of an external operation running, because a node reports
// that it runs it.
func (c *Controller) adoptExternal(ref JobRef) error {
	if ref.Cookie < 0 || ref.Cookie >= MaxJobCount {
		return ErrNotRunning
	}
	t := &c.tasks[ref.Task]
	t.grow(ref.Cookie)
	if t.running.has(ref.Cookie) {
		return ErrNotRunning
	}
	if t.returned.has(ref.Cookie) {
		c.takePending(int(ref.Task), ref.Cookie, t.base)
	}
	t.running.add(ref.Cookie)
	t.runningCount++
	c.running++
	c.nextIndex++
	t.started++
	return nil
}

// isStale reports whether a gang runs with too few jobs.
func (c *Controller) isStale() bool {
	e, external := c.spec.External.Get()
	return external && c.running > 0 && e.GangWhole.Value() && c.running+c.gangDone < e.GangSize.Value()
}

// externalGang returns what the jobs of an external operation need together.
func (c *Controller) externalGang() (g Gang, ok bool) {
	e := c.spec.External.Value()
	size := e.GangSize.Value()
	if size < 2 {
		return Gang{}, false
	}
	g.Whole = e.GangWhole.Value()
	if c.running == 0 {
		g.Lack = max(size-c.gangDone, 0)
	}
	return g, true
}

// tickGang ends a gang that has run with too few jobs for too long.
func (c *Controller) tickGang(now time.Time) (effects Effects) {
	switch {
	case !c.isStale():
		c.stale = time.Time{}
	case c.stale.IsZero():
		c.stale = now
	case !now.Before(c.gangDeadline()):
		c.stale = time.Time{}
		effects.AbortRunning = c.abortRunning(AbortIncarnationChanged)
	}
	return effects
}

// gangDeadline returns when a gang that runs with too few jobs ends.
func (c *Controller) gangDeadline() time.Time {
	if c.stale.IsZero() {
		return time.Time{}
	}
	return c.stale.Add(c.spec.External.Value().GangStaleTimeout.Value())
}
