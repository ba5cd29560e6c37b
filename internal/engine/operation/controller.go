package operation

import (
	"errors"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/value/resource"
)

// Controller is an operation as a state machine: its life and its jobs. It does
// nothing by itself; the owner tells it what happens and does what the returned
// [Effects] say.
//
// Invariants, checked by [Controller.Verify]: each cookie of a task is pending,
// running or done; needed is the sum of what pending jobs would take; groups and
// totals agree with the sets.
type Controller struct {
	spec   *Spec
	life   Life
	memory *MemoryConfig // never changed, only replaced
	jobs                 // what is counted over all tasks

	start       time.Time
	incarnation uint32
	nextIndex   uint64
	result      *Error
	// failing has begun when the operation is to fail as soon as its running
	// jobs have failed by themselves, at the latest at deadline.
	failing  bool
	deadline time.Time
	banned   []string // sorted names of nodes
	backoff  backoff
}

// jobs are the sets of jobs and what follows from them.
type jobs struct {
	tasks     []task
	groups    []Group
	needed    resource.Amounts
	minNeeded resource.Amounts
	pending   int
	running   int
	failed    int64 // counts against max_failed_job_count
}

// task is the jobs of one task.
type task struct {
	count int32
	// Cookies from next on have never run. Of those before, returned and raised
	// are pending, running are running, and the rest is done. Raised are those
	// that take more memory than others; see reserves.
	next         int32
	returned     cookieSet
	raised       cookieSet
	running      bitmap
	runningCount int32
	// base is what a job takes that is not among the raised.
	base             resource.Amounts
	restartCompleted bool
	failOnRestart    bool
	memory           reserves
	counters         Counters
}

// Group is the waiting jobs of one task. Groups have the indices of their tasks.
type Group struct {
	// Resources is what one job takes. Jobs that were aborted for overdraft take
	// more memory; when only such jobs wait it is what the first of them takes.
	Resources resource.Amounts
	Pending   int
}

// JobRef names a running job within its operation.
type JobRef struct {
	Task        int32
	Cookie      int32
	Incarnation uint32
}

// Job is a job to be started.
type Job struct {
	JobRef
	// Index is the number of the job in its operation, counted from zero and
	// never used again.
	Index     uint64
	Resources resource.Amounts
}

// Effects is what follows from a change.
type Effects struct {
	// Entered is the state that the operation went into, NoState when it stayed
	// where it was. Finishing states wait for a Commit.
	Entered State
	// AbortRunning says that every running job is aborted for this reason. The
	// controller has taken them back already: the owner stops them and does not
	// report them again.
	AbortRunning AbortReason
	// FailRunning says that running jobs are to be asked to fail by themselves.
	// They are reported as usual.
	FailRunning bool
	// Suspended says that the operation suspended itself.
	Suspended bool
	// Restarted says that a gang has begun anew, in another incarnation.
	Restarted bool
	// BannedNode is a node that the operation will use no more.
	BannedNode string
}

// ErrNotRunning is the answer to a report about a job that is not running: it is
// late or comes twice, and changes nothing.
var ErrNotRunning = errors.New("the job is not running")

// New returns the controller of an operation that starts now.
func New(spec *Spec, now time.Time) *Controller {
	c := &Controller{spec: spec, life: NewLife(now), start: now, memory: bareMemory}
	c.tasks = make([]task, len(spec.Tasks))
	c.groups = make([]Group, len(spec.Tasks))
	for i := range spec.Tasks {
		s := &spec.Tasks[i].Value
		t := &c.tasks[i]
		t.count = int32(s.JobCount)
		t.memory = newReserves(s, c.memory, c.proxyAtMost())
		t.base = s.JobResources(t.memory.total())
		t.restartCompleted = s.RestartCompletedJobs.Value()
		t.failOnRestart = s.FailOnJobRestart.Value() || spec.FailOnJobRestart.Value()
		t.running = newBitmap(t.count)
	}
	c.recount()
	return c
}

// Spec returns the specification with the changes made so far.
func (c *Controller) Spec() *Spec { return c.spec }

// Life returns the state and the history.
func (c *Controller) Life() Life { return c.life }

// State returns the state.
func (c *Controller) State() State { return c.life.State }

// StartTime is when the operation was started.
func (c *Controller) StartTime() time.Time { return c.start }

// Incarnation is how often a gang has begun anew.
func (c *Controller) Incarnation() uint32 { return c.incarnation }

// Result is why the operation failed or was aborted, nil while it did not.
func (c *Controller) Result() *Error { return c.result }

// Blocked says why no job can be handed out at the moment.
func (c *Controller) Blocked() Block {
	switch {
	case c.life.State != Running:
		return BlockedNotRunning
	case c.life.Suspended:
		return BlockedSuspended
	case c.failing:
		return BlockedFailing
	case c.pending == 0:
		return BlockedNoPendingJobs
	case c.backoff.waits():
		return BlockedBackingOff
	}
	return NotBlocked
}

// Needed is what all waiting jobs would take together; nothing while the
// operation is blocked, so that its demand is its usage.
func (c *Controller) Needed() resource.Amounts {
	if c.Blocked() != NotBlocked {
		return resource.Amounts{}
	}
	return c.needed
}

// MinNeeded is the least of every resource that a waiting job takes: what does
// not have it has room for none of them. It is zero when no job waits.
func (c *Controller) MinNeeded() resource.Amounts { return c.minNeeded }

// Groups returns the waiting jobs by tasks, in the order of priority. The slice
// is the controller's own: it changes with it and must not be modified.
func (c *Controller) Groups() []Group { return c.groups }

// PendingJobCount is the number of jobs that wait.
func (c *Controller) PendingJobCount() int { return c.pending }

// RunningJobCount is the number of jobs that run.
func (c *Controller) RunningJobCount() int { return c.running }

// Schedule takes the next job of a group that fits into what is available: first
// the first of those that were aborted for overdraft, which take more memory than
// the group says, then other retries, then by cookie. It takes constant time.
func (c *Controller) Schedule(group int, available resource.Amounts) (Job, Block) {
	if b := c.Blocked(); b != NotBlocked {
		return Job{}, b
	}
	t := &c.tasks[group]
	if c.groups[group].Pending == 0 {
		return Job{}, BlockedNoPendingJobs
	}
	cookie, resources := t.firstOrdinary(), t.base
	// A retry that needs more memory goes first, but must not hold up jobs that
	// do not need it.
	isRaised := false
	if t.raised.size > 0 {
		first := t.raised.first()
		if more := t.resources(first); available.Dominates(more) {
			cookie, resources, isRaised = first, more, true
		}
	}
	if !isRaised && (cookie == t.count || !available.Dominates(resources)) {
		return Job{}, BlockedByResources
	}
	c.takePending(group, cookie, resources)
	if t.memory.varied {
		t.memory.begin(cookie)
	}
	t.running.add(cookie)
	t.runningCount++
	c.running++
	job := Job{JobRef: JobRef{Task: int32(group), Cookie: cookie, Incarnation: c.incarnation}, Index: c.nextIndex, Resources: resources}
	c.nextIndex++
	return job, NotBlocked
}

// firstOrdinary returns the smallest pending cookie that is not among the raised,
// count if there is none.
func (t *task) firstOrdinary() int32 {
	if t.returned.size > 0 {
		return t.returned.first()
	}
	return t.next
}

func (t *task) isPending(cookie int32) bool {
	return cookie >= t.next || t.returned.has(cookie) || t.raised.has(cookie)
}

// resources is what the next start of a job takes.
func (t *task) resources(cookie int32) resource.Amounts {
	amounts := t.base
	if t.memory.isRetry(cookie) {
		amounts[resource.Memory] = t.memory.totalOf(t.memory.next(cookie))
	}
	return amounts
}

// offer is what the group of the task says that a job takes.
func (t *task) offer() resource.Amounts {
	if t.raised.size > 0 && t.pendingCount() == int(t.raised.size) {
		return t.resources(t.raised.first())
	}
	return t.base
}

// putBack puts a cookie that ran into the set of pending ones it belongs to.
func (t *task) putBack(cookie int32) {
	set := &t.returned
	if t.memory.isRetry(cookie) {
		set = &t.raised
	}
	set.add(cookie, t.count)
}

// takePending takes a cookie out of the pending ones.
func (c *Controller) takePending(group int, cookie int32, resources resource.Amounts) {
	t := &c.tasks[group]
	switch {
	case cookie >= t.next:
		t.next = cookie + 1 // callers take next only
	case t.raised.has(cookie):
		t.raised.remove(cookie)
	default:
		t.returned.remove(cookie)
	}
	c.changePending(group, cookie, resources, -1)
}

// giveBack makes a cookie that ran pending again.
func (c *Controller) giveBack(group int, cookie int32) {
	t := &c.tasks[group]
	t.putBack(cookie)
	c.changePending(group, cookie, t.resources(cookie), 1)
}

func (c *Controller) changePending(group int, cookie int32, resources resource.Amounts, by int) {
	t, g := &c.tasks[group], &c.groups[group]
	g.Pending += by
	c.pending += by
	changed := g.Pending == 0 || g.Pending == by // the group appeared or disappeared
	if t.memory.varied {
		if retry, own := t.memory.retries[cookie]; own {
			t.memory.countOwn(retry, int32(by))
		}
		if offer := t.offer(); offer != g.Resources {
			g.Resources, changed = offer, true
		}
	}
	if by > 0 {
		c.needed = c.needed.Add(resources)
	} else {
		c.needed = c.needed.Sub(resources)
	}
	if changed {
		c.updateMinNeeded()
	}
}

// updateMinNeeded looks at all groups; it is called when the set of groups with
// waiting jobs or their resources change.
func (c *Controller) updateMinNeeded() {
	c.minNeeded = resource.Amounts{}
	first := true
	for i := range c.groups {
		switch g := &c.groups[i]; {
		case g.Pending == 0:
		case first:
			c.minNeeded, first = g.Resources, false
		default:
			c.minNeeded = c.minNeeded.Min(g.Resources)
		}
	}
}

// recount computes from the sets of the tasks what is otherwise kept up to date.
func (c *Controller) recount() {
	c.pending, c.running, c.needed = 0, 0, resource.Amounts{}
	for i := range c.tasks {
		t := &c.tasks[i]
		pending := t.pendingCount()
		c.groups[i] = Group{Resources: t.offer(), Pending: pending}
		c.pending += pending
		c.running += int(t.runningCount)
		c.needed = c.needed.Add(t.needed())
	}
	c.updateMinNeeded()
}

func (t *task) pendingCount() int { return int(t.count - t.next + t.returned.size + t.raised.size) }

// needed is what all pending jobs of the task take.
func (t *task) needed() (total resource.Amounts) {
	for k := range total {
		total[k] = t.base[k] * int64(t.pendingCount())
	}
	for cookie := range t.memory.retries { // a sum does not depend on the order
		if t.isPending(cookie) {
			total[resource.Memory] += t.resources(cookie)[resource.Memory] - t.base[resource.Memory]
		}
	}
	return total
}

// recountOwn counts anew how many pending jobs have factors of their own.
func (t *task) recountOwn() {
	t.memory.user.own, t.memory.proxy.own = 0, 0
	for cookie, retry := range t.memory.retries { // nor does a number
		if t.isPending(cookie) {
			t.memory.countOwn(retry, 1)
		}
	}
}

// Bans says whether the operation avoids a node because one of its jobs failed
// there.
func (c *Controller) Bans(node string) bool {
	if len(c.banned) == 0 {
		return false
	}
	_, found := slices.BinarySearch(c.banned, node)
	return found
}

// BannedNodeCount is the number of nodes that the operation avoids.
func (c *Controller) BannedNodeCount() int { return len(c.banned) }

// Clone returns a controller that goes its own way from here.
func (c *Controller) Clone() *Controller {
	copied := *c
	copied.groups = slices.Clone(c.groups)
	copied.banned = slices.Clone(c.banned)
	copied.tasks = slices.Clone(c.tasks)
	for i := range copied.tasks {
		t := &copied.tasks[i]
		t.returned, t.raised = t.returned.clone(), t.raised.clone()
		t.running = slices.Clone(t.running)
		t.memory = t.memory.clone()
	}
	return &copied
}
