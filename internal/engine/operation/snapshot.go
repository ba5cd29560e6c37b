package operation

import (
	"fmt"
	"slices"
	"time"
)

// Snapshot is the state of a controller without its specification, as a value
// that encoding/json and encoding/gob can store. JSON uses names instead of
// numbers, so that other versions can read it.
type Snapshot struct {
	Life        Life          `json:"life"`
	Start       time.Time     `json:"start"`
	Incarnation uint32        `json:"incarnation,omitempty"`
	NextIndex   uint64        `json:"next_index"`
	FailedJobs  int64         `json:"failed_jobs,omitempty"`
	Result      *Error        `json:"result,omitempty"`
	Failing     bool          `json:"failing,omitempty"`
	Deadline    time.Time     `json:"deadline,omitzero"`
	BannedNodes []string      `json:"banned_nodes,omitempty"`
	Backoff     *Backoff      `json:"backoff,omitempty"`
	Memory      *MemoryConfig `json:"memory,omitempty"`
	// GangDone is how many jobs of an external gang have completed since it started.
	GangDone int            `json:"gang_done,omitempty"`
	Tasks    []TaskSnapshot `json:"tasks"`
}

// TaskSnapshot is the state of one task.
type TaskSnapshot struct {
	Name     string `json:"name"`
	JobCount int32  `json:"job_count"`
	// Next is the first cookie that has never run. Returned and Running are
	// bitmaps of cookies below it.
	Next     int32           `json:"next"`
	Returned []byte          `json:"returned,omitempty"`
	Running  []byte          `json:"running,omitempty"`
	Started  uint64          `json:"started,omitempty"`
	Ended    CounterSnapshot `json:"ended"`
	Memory   *MemorySnapshot `json:"memory,omitempty"`
}

// CounterSnapshot is Counters with names.
type CounterSnapshot struct {
	Completed   int64                 `json:"completed,omitempty"`
	Interrupted int64                 `json:"interrupted,omitempty"`
	Failed      int64                 `json:"failed,omitempty"`
	Lost        int64                 `json:"lost,omitempty"`
	Aborted     map[AbortReason]int64 `json:"aborted,omitempty"`
}

// Snapshot returns the state of the controller. It shares nothing mutable
// with the controller.
func (c *Controller) Snapshot() Snapshot {
	s := Snapshot{
		Life: c.life, Start: c.start, Incarnation: c.incarnation, NextIndex: c.nextIndex, FailedJobs: c.failed,
		Result: c.result, Failing: c.failing, Deadline: c.deadline, BannedNodes: slices.Clone(c.banned),
		Tasks: make([]TaskSnapshot, len(c.tasks)), GangDone: c.gangDone,
	}
	s.Life.Events = slices.Clone(s.Life.Events)
	if c.backoff != (backoff{}) {
		s.Backoff = &Backoff{Aborts: c.backoff.aborts, Pauses: c.backoff.pauses, Until: c.backoff.until}
	}
	if *c.memory != *bareMemory {
		config := *c.memory
		s.Memory = &config
	}
	for i := range c.tasks {
		t := &c.tasks[i]
		into := &s.Tasks[i]
		*into = TaskSnapshot{
			Name: c.spec.Tasks[i].Name, JobCount: t.count, Next: t.next, Running: t.running.bytes(), Started: t.started,
			Ended: t.counters.snapshot(), Memory: t.memory.snapshot(),
		}
		if c.spec.IsExternal() {
			into.JobCount, into.Next, into.Running = 0, 0, nil
			continue
		}
		if t.returned.size+t.raised.size > 0 {
			back := newBitmap(t.count)
			for _, set := range []*cookieSet{&t.returned, &t.raised} {
				if set.size > 0 {
					back.addAll(set.levels[0])
				}
			}
			into.Returned = back.bytes()
		}
	}
	return s
}

func (c *Counters) snapshot() CounterSnapshot {
	s := CounterSnapshot{Completed: c.Completed, Interrupted: c.Interrupted, Failed: c.Failed, Lost: c.Lost}
	for reason, n := range c.Aborted {
		if n > 0 {
			if s.Aborted == nil {
				s.Aborted = map[AbortReason]int64{}
			}
			s.Aborted[AbortReason(reason)] = n
		}
	}
	return s
}

// Restore returns the controller from a snapshot. The specification must be
// the one that the controller had then, including changes of parameters.
func Restore(spec *Spec, s Snapshot) (*Controller, error) {
	if len(s.Tasks) != len(spec.Tasks) {
		return nil, fmt.Errorf("snapshot has %d tasks, the specification %d", len(s.Tasks), len(spec.Tasks))
	}
	if s.Failing && s.Result == nil {
		return nil, fmt.Errorf("snapshot of a failing operation without an error")
	}
	c := New(spec, s.Start)
	if s.Memory != nil {
		if err := c.Configure(*s.Memory); err != nil {
			return nil, fmt.Errorf("snapshot: %w", err)
		}
	}
	c.life, c.incarnation, c.nextIndex, c.failed = s.Life, s.Incarnation, s.NextIndex, s.FailedJobs
	c.life.Events = slices.Clone(s.Life.Events)
	c.result, c.failing, c.deadline = s.Result, s.Failing, s.Deadline
	c.gangDone = s.GangDone
	c.banned = slices.Clone(s.BannedNodes)
	slices.Sort(c.banned)
	if b := s.Backoff; b != nil {
		c.backoff = backoff{aborts: b.Aborts, pauses: b.Pauses, until: b.Until}
	}
	for i := range s.Tasks {
		if err := c.restoreTask(i, &s.Tasks[i]); err != nil {
			return nil, fmt.Errorf("snapshot of task %q: %w", s.Tasks[i].Name, err)
		}
	}
	c.recount()
	if err := c.Verify(); err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	return c, nil
}

func (c *Controller) restoreTask(i int, s *TaskSnapshot) error {
	t := &c.tasks[i]
	if s.Name != c.spec.Tasks[i].Name || s.JobCount != t.count {
		return fmt.Errorf("it has %d jobs; the specification has %q with %d", s.JobCount, c.spec.Tasks[i].Name, t.count)
	}
	if s.Next < 0 || s.Next > t.count {
		return fmt.Errorf("job %d of %d is next", s.Next, t.count)
	}
	t.next, t.started = s.Next, s.Started
	if err := t.restoreMemory(s.Memory, s.Next, c.memory); err != nil {
		return err
	}
	returned, err := bitmapOf(s.Returned, s.Next, t.count)
	if err != nil {
		return fmt.Errorf("returned: %w", err)
	}
	for cookie := range t.memory.retries { // a set does not depend on the order
		if returned.has(cookie) {
			returned.remove(cookie)
			t.raised.add(cookie, t.count)
		}
	}
	if returned.count() > 0 {
		t.returned = setOf(returned)
	}
	t.recountOwn()
	if t.running, err = bitmapOf(s.Running, s.Next, t.count); err != nil {
		return fmt.Errorf("running: %w", err)
	}
	t.runningCount = t.running.count()
	t.counters = Counters{Completed: s.Ended.Completed, Interrupted: s.Ended.Interrupted, Failed: s.Ended.Failed, Lost: s.Ended.Lost}
	for reason := range AbortReasonCount {
		t.counters.Aborted[reason] = s.Ended.Aborted[reason]
	}
	return nil
}
