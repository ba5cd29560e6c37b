package operation

import (
	"errors"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/value/resource"
)

// Controller is an operation as a state machine: its life and its jobs. It
// does nothing by itself; the owner reports events and carries out the
// returned [Effects].
//
// Invariants, checked by [Controller.Verify]: each cookie of a task is
// pending, running or done; needed is the sum of what pending jobs need;
// groups and totals agree with the sets.
type Controller struct {
	spec   *Spec
	life   Life
	memory *MemoryConfig // never changed, only replaced
	jobs                 // counts over all tasks

	start       time.Time
	incarnation uint32
	nextIndex   uint64
	result      *Error
	// failing is set when the operation will fail as soon as its running jobs
	// have failed by themselves, at the latest at deadline.
	failing  bool
	deadline time.Time
	banned   []string // sorted names of nodes
	backoff  backoff
	// gangDone is how many jobs of an external gang have completed since it started,
	// and stale since when too few of them run.
	gangDone int
	stale    time.Time
}

// jobs are the sets of jobs and the values derived from them.
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
	// Cookies from next on have never run. Of the cookies below next, returned
	// and raised are pending, running are running, and the rest are done. Raised
	// cookies need more memory than others; see reserves.
	next         int32
	returned     cookieSet
	raised       cookieSet
	running      bitmap
	runningCount int32
	started      uint64 // the TaskIndex of the next job
	// base is what a job needs that is not in raised.
	base             resource.Amounts
	restartCompleted bool
	failOnRestart    bool
	memory           reserves
	counters         Counters
	kind             kind // zero unless a driver sets it
}

// Group is the waiting jobs of one task. Groups have the same indices as
// their tasks.
type Group struct {
	// Resources is what one job needs. Jobs that were aborted for overdraft need
	// more memory; when only such jobs wait, it is what the first of them needs.
	Resources resource.Amounts
	Pending   int
	kind      kind
}

// JobRef identifies a running job within its operation.
type JobRef struct {
	Task        int32
	Cookie      int32
	Incarnation uint32
}

// Job is a job to start.
type Job struct {
	JobRef
	// Index is the number of the job in its operation, TaskIndex that in its
	// task. Both count from zero and are never reused.
	Index     uint64
	TaskIndex uint64
	Resources resource.Amounts
}

// Effects is what the owner must carry out after a change.
type Effects struct {
	// Entered is the state that the operation entered, NoState if it did not
	// change. Finishing states wait for a Commit.
	Entered State
	// AbortRunning is the reason for which every running job is aborted. The
	// controller has already made them pending: the owner stops them and does
	// not report them again.
	AbortRunning AbortReason
	// FailRunning reports that running jobs must be asked to fail by themselves.
	// Their ends are reported as usual.
	FailRunning bool
	// Suspended reports that the operation suspended itself.
	Suspended bool
	// Restarted reports that a gang has restarted, in a new incarnation.
	Restarted bool
	// BannedNode is a node that the operation will no longer use.
	BannedNode string
}

// ErrNotRunning reports that a job is not running: the report is late or a
// duplicate, and changes nothing.
var ErrNotRunning = errors.New("the job is not running")

// New returns the controller of an operation that starts now.
func New(spec *Spec, now time.Time) *Controller {
	c := &Controller{spec: spec, life: NewLife(now), start: now, memory: bareMemory}
	c.tasks = make([]task, len(spec.Tasks))
	c.groups = make([]Group, len(spec.Tasks))
	for i := range spec.Tasks {
		c.tasks[i] = c.newTask(&spec.Tasks[i].Value)
	}
	c.recount()
	return c
}

// newTask returns the jobs of a task, all of which wait; an external one has none.
func (c *Controller) newTask(s *Task) (t task) {
	if !c.spec.IsExternal() {
		t.count = int32(s.JobCount)
	}
	t.memory = newReserves(s, c.memory, c.proxyAtMost())
	t.base = s.JobResources(t.memory.total())
	t.restartCompleted = s.RestartCompletedJobs.Value()
	t.failOnRestart = s.FailOnJobRestart.Value() || c.spec.FailOnJobRestart.Value()
	t.running = newBitmap(t.count)
	return t
}

// Spec returns the specification with the changes made so far.
func (c *Controller) Spec() *Spec { return c.spec }

// Life returns the state and the history.
func (c *Controller) Life() Life { return c.life }

// State returns the state.
func (c *Controller) State() State { return c.life.State }

// StartTime returns when the operation was started.
func (c *Controller) StartTime() time.Time { return c.start }

// Incarnation returns how often a gang has restarted.
func (c *Controller) Incarnation() uint32 { return c.incarnation }

// Result returns why the operation failed or was aborted, nil if it did
// neither.
func (c *Controller) Result() *Error { return c.result }

// Blocked returns why no job can start at the moment.
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

// Needed returns what all waiting jobs need together. It is zero while the
// operation is blocked, so that its demand equals its usage.
func (c *Controller) Needed() resource.Amounts {
	if c.Blocked() != NotBlocked {
		return resource.Amounts{}
	}
	return c.needed
}

// MinNeeded returns, for each resource, the least that a waiting job needs: a
// node with less has room for none of them. It is zero when no job waits.
func (c *Controller) MinNeeded() resource.Amounts { return c.minNeeded }

// Groups returns the waiting jobs by task, in order of priority. The
// controller owns the slice: it changes with the controller, and callers must
// not modify it.
func (c *Controller) Groups() []Group { return c.groups }

// PendingJobCount returns the number of waiting jobs.
func (c *Controller) PendingJobCount() int { return c.pending }

// RunningJobCount returns the number of running jobs.
func (c *Controller) RunningJobCount() int { return c.running }

// Schedule starts the next job of a group that fits into what is available:
// first the first job that was aborted for overdraft, which needs more memory
// than the group states, then other retries, then by cookie. It runs in
// constant time.
func (c *Controller) Schedule(group int, available resource.Amounts) (Job, Block) {
	if b := c.Blocked(); b != NotBlocked {
		return Job{}, b
	}
	t := &c.tasks[group]
	if c.groups[group].Pending == 0 {
		return Job{}, BlockedNoPendingJobs
	}
	cookie, resources := t.firstOrdinary(), t.base
	// A retry that needs more memory comes first, but must not delay jobs that
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
	job := Job{
		JobRef: JobRef{Task: int32(group), Cookie: cookie, Incarnation: c.incarnation}, Index: c.nextIndex, TaskIndex: t.started, Resources: resources,
	}
	c.nextIndex++
	t.started++
	c.stale = time.Time{}
	return job, NotBlocked
}

// firstOrdinary returns the smallest pending cookie that is not in raised, or
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

// resources returns what the next start of a job needs.
func (t *task) resources(cookie int32) resource.Amounts {
	amounts := t.base
	if t.memory.isRetry(cookie) {
		amounts[resource.Memory] = t.memory.totalOf(t.memory.next(cookie))
	}
	return amounts
}

// offer returns what the task's group states that a job needs.
func (t *task) offer() resource.Amounts {
	if t.raised.size > 0 && t.pendingCount() == int(t.raised.size) {
		return t.resources(t.raised.first())
	}
	return t.base
}

// putBack adds a cookie that ran to the pending set it belongs to.
func (t *task) putBack(cookie int32) {
	set := &t.returned
	if t.memory.isRetry(cookie) {
		set = &t.raised
	}
	set.add(cookie, t.count)
}

// takePending removes a cookie from the pending sets.
func (c *Controller) takePending(group int, cookie int32, resources resource.Amounts) {
	t := &c.tasks[group]
	switch {
	case cookie >= t.next:
		t.next = cookie + 1 // callers remove only next
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

// updateMinNeeded recomputes minNeeded from all groups. It is called when the
// set of groups with waiting jobs or their resources change.
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

// recount recomputes, from the sets of the tasks, the values that are
// otherwise kept incrementally.
func (c *Controller) recount() {
	c.pending, c.running, c.needed = 0, 0, resource.Amounts{}
	for i := range c.tasks {
		t := &c.tasks[i]
		pending := t.pendingCount()
		c.groups[i] = Group{Resources: t.offer(), Pending: pending, kind: t.kind}
		c.pending += pending
		c.running += int(t.runningCount)
		c.needed = c.needed.Add(t.needed())
	}
	c.updateMinNeeded()
}

func (t *task) pendingCount() int { return int(t.count - t.next + t.returned.size + t.raised.size) }

// needed returns what all pending jobs of the task need.
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

// recountOwn recounts the pending jobs that have separate factors.
func (t *task) recountOwn() {
	t.memory.user.own, t.memory.proxy.own = 0, 0
	for cookie, retry := range t.memory.retries { // the count does not depend on the order
		if t.isPending(cookie) {
			t.memory.countOwn(retry, 1)
		}
	}
}

// Bans reports whether the operation avoids a node because one of its jobs
// failed there.
func (c *Controller) Bans(node string) bool {
	if len(c.banned) == 0 {
		return false
	}
	_, found := slices.BinarySearch(c.banned, node)
	return found
}

// BannedNodeCount returns the number of nodes that the operation avoids.
func (c *Controller) BannedNodeCount() int { return len(c.banned) }

// Clone returns an independent copy.
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
