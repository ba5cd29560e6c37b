package sim

import (
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/value/resource"
)

// jobState is the stage of a job's life on a node.
type jobState uint8

const (
	jobRunning   jobState = iota
	jobCompleted          // has ended, not reported yet
	jobAborted            // ended by its node after its grace period, not reported yet
	jobDead               // lost with its node; the core has not stopped it yet
)

// jobKey identifies a job within its operation. A restarted job has the same key.
type jobKey struct{ task, cookie int32 }

// nobody is the index of no operation.
const nobody int32 = -1

// job is a job that the core counts on a node.
type job struct {
	id        core.JobID
	startedAt time.Duration
	endedAt   time.Duration // when it stopped using resources
	resources resource.Amounts
	operation int32 // index in run.operations
	key       jobKey
	node      core.NodeID
	tree      core.TreeID
	// generation distinguishes events of this job from those of earlier jobs in
	// the same slot.
	generation int32
	prev, next int32 // other jobs of the node; -1: none
	state      jobState
	leaving    bool  // it is in its grace period
	victimOf   int32 // index of the operation that gets the resources of a leaving job; nobody
	reason     int32 // for leaving, as an index in the books
}

// jobTable holds the jobs in slots that are reused.
type jobTable struct {
	table   []job
	free    []int32
	byID    map[core.JobID]int32
	running int             // jobs that use resources
	report  []core.Finished // memory for reports
}

// add puts a job into a slot.
func (t *jobTable) add(j job) int32 {
	if n := len(t.free); n > 0 {
		slot := t.free[n-1]
		t.free = t.free[:n-1]
		j.generation = t.table[slot].generation + 1
		t.table[slot] = j
		return slot
	}
	t.table = append(t.table, j)
	return int32(len(t.table) - 1)
}

// begin starts a job on its node after the core has started it.
func (r *run) begin(s *core.Started) {
	o := r.operation(s.Operation)
	j := job{
		id: s.Job, startedAt: r.now, operation: r.indexOf(s.Operation), key: jobKey{s.Task, s.Cookie}, node: s.Node, tree: s.Tree,
		resources: s.Resources, victimOf: nobody,
	}
	if o.attempts == nil {
		j.resources = o.resources // without the byte of memory that every task must have
	}
	slot := r.put(j)
	if n := &r.nodes[s.Node]; !n.resources.Dominates(n.usage) {
		r.fail("starts a job of operation %s on node %s, which is full: it has %v and would use %v", o.name, n.name, n.resources, n.usage)
		return
	}
	r.lastChange = r.now
	r.work.Decisions++
	r.books.started(r, o, &r.jobs.table[slot], s.Stage.String())
	r.queue.push(r.now+r.durationOf(o, j.key, 0), kindFinish, slot, r.jobs.table[slot].generation)
	r.bound("jobs run at once", r.jobs.running, r.options.Bounds.RunningJobs)
}

// put puts a job into a slot and onto its node.
func (r *run) put(j job) int32 {
	n := &r.nodes[j.node]
	j.prev, j.next = -1, n.first
	slot := r.jobs.add(j)
	r.jobs.byID[j.id] = slot
	r.jobs.running++
	if n.first >= 0 {
		r.jobs.table[n.first].prev = slot
	}
	n.first = slot
	n.running++
	n.usage = n.usage.Add(j.resources)
	return slot
}

// current returns the job in a slot if it is still the job that an event was meant
// for.
func (r *run) current(slot, generation int32) *job {
	if j := &r.jobs.table[slot]; j.generation == generation && j.state == jobRunning {
		return j
	}
	return nil
}

// finish ends a job that has run for its duration, and makes its node report it at
// once.
func (r *run) finish(slot, generation int32) {
	if j := r.current(slot, generation); j != nil {
		j.state = jobCompleted
		r.leave(j)
		r.over(slot, j)
	}
}

// graceOver ends a job that did not finish within its grace period.
func (r *run) graceOver(slot, generation int32) {
	if j := r.current(slot, generation); j != nil {
		j.state = jobAborted
		r.leave(j)
		r.over(slot, j)
	}
}

// over adds a job to the list that its node reports.
func (r *run) over(slot int32, j *job) {
	n := &r.nodes[j.node]
	n.finished = append(n.finished, slot)
	r.pulses[j.node].news = true
	r.planReport(j.node)
}

// die ends a job with its node. The table keeps it until the core stops it.
func (r *run) die(slot int32) {
	j := &r.jobs.table[slot]
	if j.state == jobRunning {
		r.leave(j)
	}
	j.state = jobDead
}

// leave releases the resources of a job.
func (r *run) leave(j *job) {
	n := &r.nodes[j.node]
	n.running--
	n.usage = n.usage.Sub(j.resources)
	r.jobs.running--
	r.lastChange, j.endedAt = r.now, r.now
	r.books.left(r, &r.operations[j.operation], j)
}

// settle counts a reported job and frees its slot.
func (r *run) settle(slot int32) {
	j := &r.jobs.table[slot]
	o := &r.operations[j.operation]
	if j.state == jobCompleted {
		r.books.completed(o, j)
	} else {
		r.books.stopped(r, o, j, preempted, r.books.reasons.names[j.reason], j.victimOf)
	}
	r.forget(slot)
}

// forget removes a job from its node's list and frees its slot.
func (r *run) forget(slot int32) {
	j := &r.jobs.table[slot]
	if j.prev >= 0 {
		r.jobs.table[j.prev].next = j.next
	} else {
		r.nodes[j.node].first = j.next
	}
	if j.next >= 0 {
		r.jobs.table[j.next].prev = j.prev
	}
	delete(r.jobs.byID, j.id)
	j.generation++
	j.state = jobDead
	r.jobs.free = append(r.jobs.free, slot)
}

// stopKind is why a job is stopped.
type stopKind uint8

const (
	preempted      stopKind = iota // it restarts later
	nodeLost                       // its node is gone, and it restarts
	operationEnded                 // its operation has ended
)

// reasonOf returns why a job is stopped, and the name of that reason in the books.
func reasonOf(s *core.Stopped) (kind stopKind, name string) {
	switch {
	case s.Timeout > 0:
		return preempted, s.Preemption.String()
	case s.Reason == operation.AbortNodeOffline || s.Reason == operation.AbortNodePoolTreeChanged:
		return nodeLost, s.Reason.String()
	}
	return operationEnded, s.Reason.String()
}

// stop ends a job because the core decided so, or lets it run for a grace period.
func (r *run) stop(s *core.Stopped, grace time.Duration) {
	slot, known := r.jobs.byID[s.Job]
	if !known {
		// The end of one job of a gang stops those reported with it.
		if !slices.ContainsFunc(r.jobs.report, func(f core.Finished) bool { return f.Job == s.Job }) {
			r.fail("stops job %d, which does not run", s.Job)
		}
		return
	}
	kind, reason := reasonOf(s)
	beneficiary := nobody
	if s.For != core.NoOperation {
		beneficiary = r.indexOf(s.For)
	}
	j := &r.jobs.table[slot]
	o := &r.operations[j.operation]
	r.work.Decisions++
	if j.state == jobRunning {
		if grace > 0 {
			if !j.leaving {
				j.leaving, j.victimOf, j.reason = true, beneficiary, r.books.reasons.index(reason)
				r.queue.push(r.now+grace, kindGraceOver, slot, j.generation)
			}
			return
		}
		r.leave(j)
	}
	if j.state == jobCompleted || j.state == jobAborted {
		r.nodes[j.node].forgetReport(slot)
	}
	r.books.stopped(r, o, j, kind, reason, beneficiary)
	r.forget(slot)
}

// absorb carries out the core's decisions: places first, because jobs refer to
// them; stopped jobs before started ones. Preempted jobs that cannot be
// interrupted end at once, and the core is notified.
func (r *run) absorb() {
	for _, m := range r.out.Moved {
		r.placed(m.Operation, m.Tree, m.Pool)
	}
	var killed []core.Finished
	for i := range r.out.Stopped {
		s := &r.out.Stopped[i]
		if r.withdraw(s.Job) {
			if s.Timeout > 0 {
				killed = append(killed, core.Finished{Job: s.Job, State: core.JobAborted})
			}
			continue // it has never started
		}
		grace := time.Duration(0)
		switch {
		case s.Timeout == 0:
			r.left(s.Job)
		case s.Preemption == scheduling.PreemptedGracefully:
			grace = s.Timeout
		case r.isInterruptible(s.Job):
			grace = s.Timeout
			r.leaving = append(r.leaving, leavingJob{s.Job, s.Node, s.Held})
		default:
			killed = append(killed, core.Finished{Job: s.Job, State: core.JobAborted})
		}
		r.stop(s, grace)
	}
	for i := range r.out.Started {
		s := &r.out.Started[i]
		if len(r.leaving) > 0 { // there may be no room yet; see heartbeat
			r.waiting = append(r.waiting, waitingJob{*s, r.now})
		} else if r.err == nil {
			r.begin(s)
		}
	}
	for i := range r.out.Operations {
		r.operationChanged(&r.out.Operations[i])
	}
	if len(killed) > 0 {
		r.jobs.report = append(r.jobs.report[:0], killed...)
		r.happens(&core.ReportInput{Finished: killed})
	}
}
