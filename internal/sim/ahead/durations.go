package ahead

import (
	"fmt"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/sim"
	"github.com/weirhq/weir/internal/value/document"
)

// Model is how long jobs are assumed to run.
type Model uint8

const (
	// Expected: as long as jobs like it have run on average.
	Expected Model = iota
	// Limits: as long as they may, by job_time_limit.
	Limits
)

// String returns the name of the model in documents.
func (m Model) String() string { return [...]string{"expected", "limits"}[m] }

// ParseModel returns the model with a name.
func ParseModel(name string) (Model, error) {
	for _, m := range []Model{Expected, Limits} {
		if m.String() == name {
			return m, nil
		}
	}
	return 0, fmt.Errorf("durations must be expected or limits, not %q", name)
}

// unknownDuration is assumed for jobs about which nothing is known.
const unknownDuration = 10 * time.Minute

// execTime is the statistic of a job's run time, in milliseconds.
const execTime = "time/exec"

// durations is a model of how long jobs run, learnt from the jobs of live
// operations that have completed.
type durations struct {
	model  Model
	tasks  map[taskKey]sample
	users  map[string]sample
	all    sample
	limits map[taskKey]time.Duration
	user   map[core.OperationID]string
	// known and byUser count the operations whose own jobs, or whose user's, have
	// completed.
	known, byUser, unknown int
}

type taskKey struct {
	operation core.OperationID
	task      int32
}

// sample is the sum of some durations.
type sample struct {
	sum   time.Duration
	count int64
}

func (s *sample) add(o sample) { s.sum, s.count = s.sum+o.sum, s.count+o.count }

func (s sample) mean() (time.Duration, bool) {
	if s.count == 0 {
		return 0, false
	}
	return max(s.sum/time.Duration(s.count), time.Millisecond), true
}

// learn reads what a core knows about run times.
func learn(c *core.Core, model Model) *durations {
	d := &durations{
		model: model, tasks: map[taskKey]sample{}, users: map[string]sample{}, limits: map[taskKey]time.Duration{}, user: map[core.OperationID]string{},
	}
	live := c.Live()
	for _, id := range live {
		controller := c.ControllerOf(id)
		d.user[id] = c.UserOf(id)
		for task := range controller.Spec().Tasks {
			key := taskKey{id, int32(task)}
			if limit, set := controller.Spec().Tasks[task].Value.JobTimeLimit.Get(); set {
				d.limits[key] = limit
			}
			statistics := controller.TaskJobStatistics(task)
			row, _ := statistics.Get(execTime)
			done := row.ByState[operation.EndCompleted]
			if s := (sample{time.Duration(done.Sum) * time.Millisecond, done.Count}); s.count > 0 {
				d.tasks[key] = s
				all := d.users[d.user[id]]
				all.add(s)
				d.users[d.user[id]] = all
				d.all.add(s)
			}
		}
	}
	for _, id := range live {
		switch own := d.tasks[taskKey{id, 0}]; {
		case own.count > 0:
			d.known++
		case d.users[d.user[id]].count > 0:
			d.byUser++
		default:
			d.unknown++
		}
	}
	return d
}

// of returns how long an attempt runs. A job that is older than expected runs for
// twice its age.
func (d *durations) of(a sim.Attempt) time.Duration {
	key := taskKey{a.Operation, a.Task}
	limit, limited := d.limits[key]
	expected, known := d.tasks[key].mean()
	if !known {
		expected, known = d.users[d.user[a.Operation]].mean()
	}
	if !known {
		expected, known = d.all.mean()
	}
	if !known {
		expected = unknownDuration
	}
	if d.model == Limits {
		expected = MaxHorizon
		if limited {
			expected = limit
		}
	}
	if expected <= a.Age {
		expected = 2 * a.Age
	}
	if limited && limit > a.Age {
		expected = min(expected, limit)
	}
	return max(expected, a.Age+time.Millisecond)
}

// text states the model in words.
func (d *durations) text() []string {
	lines := []string{"no operations arrive but those of the question; jobs start at once and do not fail; preempted jobs restart; memory reserves stay as they are"}
	if d.model == Limits {
		return append(lines, "a job runs for its job_time_limit, or until the end")
	}
	other := unknownDuration
	if mean, known := d.all.mean(); known {
		other = mean
	}
	return append(lines, fmt.Sprintf("a job runs as long as completed jobs of its task on average (%d operations), else of its user (%d), else %s (%d); an older one runs for twice its age",
		d.known, d.byUser, document.FormatDuration(other.Round(time.Second)), d.unknown))
}
