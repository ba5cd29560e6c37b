package sim

import "time"

// jobState is where a job is in its life on a node.
type jobState uint8

const (
	jobRunning   jobState = iota
	jobCompleted          // over, not reported yet
	jobAborted            // ended by its node after its grace, not reported yet
	jobDead               // gone with its node; the system has not said so yet
)

// job is an allocation that the system knows of.
type job struct {
	id        JobID
	startedAt time.Duration
	endedAt   time.Duration // when it stopped to use resources
	operation OperationID
	index     int32
	node      NodeID
	tree      TreeID
	// generation tells events of this job from those of earlier ones in the same
	// slot.
	generation int32
	prev, next int32 // other jobs of the node; -1: none
	state      jobState
	leaving    bool // it has been given grace
	victimOf   OperationID
	reason     int32 // of leaving, as books know it
}

// jobTable has the jobs in slots that are used again.
type jobTable struct {
	table   []job
	free    []int32
	byID    map[JobID]int32
	running int        // jobs that use resources
	report  []Finished // memory for reports
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

// start begins a job on a node.
func (r *run) start(s Started) {
	switch {
	case int(s.Operation) >= len(r.operations) || s.Operation < 0:
		r.fail("starts a job of operation %d, which does not exist", s.Operation)
		return
	case int(s.Node) >= len(r.nodes) || s.Node < 0 || !r.nodes[s.Node].alive:
		r.fail("starts a job on node %d, which is not there", s.Node)
		return
	}
	o := &r.operations[s.Operation]
	place := o.place(s.Tree)
	if place == nil || o.state.hasEnded() || s.Index < 0 || int(s.Index) >= o.jobCount {
		r.fail("starts job %d of operation %s in tree %d, where it has no such job to run", s.Index, o.name, s.Tree)
		return
	}
	if _, known := r.jobs.byID[s.Job]; known {
		r.fail("starts job %d twice", s.Job)
		return
	}
	slot := r.jobs.add(job{
		id: s.Job, startedAt: r.now, operation: s.Operation, index: s.Index, node: s.Node, tree: s.Tree,
		prev: -1, victimOf: NoOperation,
	})
	r.jobs.byID[s.Job] = slot
	r.jobs.running++
	n := &r.nodes[s.Node]
	if n.first >= 0 {
		r.jobs.table[n.first].prev = slot
	}
	r.jobs.table[slot].next, n.first = n.first, slot
	n.running++
	n.usage = n.usage.Add(o.resources)
	if !n.resources.Dominates(n.usage) {
		r.fail("starts a job of operation %s on node %s, which is full: it has %v and would use %v", o.name, n.name, n.resources, n.usage)
		return
	}
	r.lastChange = r.now
	r.work.Decisions++
	r.books.started(r, o, place, s)
	r.queue.push(r.now+o.durations.Of(int(s.Index)), kindFinish, slot, r.jobs.table[slot].generation)
}

// current returns the job in a slot if it is still the one an event was meant
// for.
func (r *run) current(slot, generation int32) *job {
	if j := &r.jobs.table[slot]; j.generation == generation && j.state == jobRunning {
		return j
	}
	return nil
}

// finish ends a job that has run its time, and lets its node report it at once.
func (r *run) finish(slot, generation int32) {
	if j := r.current(slot, generation); j != nil {
		j.state = jobCompleted
		r.leave(j)
		r.over(slot, j)
	}
}

// graceOver ends a job that was given grace and has not finished within it.
func (r *run) graceOver(slot, generation int32) {
	if j := r.current(slot, generation); j != nil {
		j.state = jobAborted
		r.leave(j)
		r.over(slot, j)
	}
}

// over puts a job on the list of those that its node reports.
func (r *run) over(slot int32, j *job) {
	n := &r.nodes[j.node]
	n.finished = append(n.finished, slot)
	r.planReport(j.node)
}

// die ends a job with its node. It stays known until the system stops it.
func (r *run) die(slot int32) {
	j := &r.jobs.table[slot]
	if j.state == jobRunning {
		r.leave(j)
	}
	j.state = jobDead
}

// leave gives back what a job uses.
func (r *run) leave(j *job) {
	o := &r.operations[j.operation]
	n := &r.nodes[j.node]
	n.running--
	n.usage = n.usage.Sub(o.resources)
	r.jobs.running--
	r.lastChange, j.endedAt = r.now, r.now
	r.books.left(r, o, j)
}

// settle counts a job that has been reported and frees its slot.
func (r *run) settle(slot int32) {
	j := &r.jobs.table[slot]
	o := &r.operations[j.operation]
	if j.state == jobCompleted {
		r.books.completed(r, o, j)
	} else {
		r.books.stopped(r, o, j, Preempted, r.books.reasons.names[j.reason], j.victimOf)
	}
	r.forget(slot)
}

// forget takes a job out of its node's list and frees its slot.
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

// stop ends a job because the system says so.
func (r *run) stop(s Stopped) {
	slot, known := r.jobs.byID[s.Job]
	if !known {
		r.fail("stops job %d, which does not run", s.Job)
		return
	}
	if s.Kind == Preempted && s.For != NoOperation && (s.For < 0 || int(s.For) >= len(r.operations)) {
		r.fail("stops job %d for operation %d, which does not exist", s.Job, s.For)
		return
	}
	j := &r.jobs.table[slot]
	o := &r.operations[j.operation]
	r.work.Decisions++
	if j.state == jobRunning {
		if s.Grace > 0 {
			if !j.leaving {
				j.leaving, j.victimOf, j.reason = true, s.For, r.books.reasons.index(s.Reason)
				r.queue.push(r.now+s.Grace, kindGraceOver, slot, j.generation)
			}
			return
		}
		r.leave(j)
	}
	if j.state == jobCompleted || j.state == jobAborted {
		r.nodes[j.node].forgetReport(slot)
	}
	r.books.stopped(r, o, j, s.Kind, s.Reason, s.For)
	r.forget(slot)
}

// absorb does what the system decided. Places and states come first, because jobs
// refer to them; stopped jobs leave before started ones come.
func (r *run) absorb() {
	for _, p := range r.out.Placed {
		r.placed(p)
	}
	for _, s := range r.out.Stopped {
		r.stop(s)
	}
	for _, s := range r.out.Started {
		if r.err == nil {
			r.start(s)
		}
	}
	for _, c := range r.out.Operations {
		r.operationChanged(c)
	}
}
