package store

import (
	"context"
	"fmt"
	"time"
)

// JobSort is the sort order of a list of jobs. Ties are broken by number.
type JobSort string

const (
	SortByNumber     JobSort = ""
	SortByStartTime  JobSort = "start_time"
	SortByFinishTime JobSort = "finish_time"
	SortByDuration   JobSort = "duration"
	SortByState      JobSort = "state"
	SortByType       JobSort = "type"
	SortByNode       JobSort = "node"
	SortByTask       JobSort = "task"
)

// jobOrders are the columns of each order. The duration of a running job is unknown, so running
// jobs sort as if all of them ended at the end of time.
var jobOrders = map[JobSort]string{
	SortByNumber: "number", SortByStartTime: "start_time", SortByFinishTime: "finish_time",
	SortByDuration: "(CASE WHEN finish_time = 0 THEN 9000000000000000 ELSE finish_time END - start_time)",
	SortByState:    "state", SortByType: "type", SortByNode: "node", SortByTask: "task",
}

// JobFilter selects jobs of an operation. Empty fields do not filter.
type JobFilter struct {
	Operation  int32 // required
	State      string
	Type       string
	Task       string
	Node       string
	Tree       string
	WithStderr *bool
	// Finished selects finished jobs if true, and other jobs if false.
	Finished *bool
	// From and To limit the start time: From <= start < To.
	From, To time.Time
	Sort     JobSort
	Reverse  bool
	// Limit of the list; zero means 1000.
	Limit  int
	Offset int
}

// JobList is the answer to a filter.
type JobList struct {
	Jobs []Job
	// Incomplete reports whether the limit cut the list.
	Incomplete bool
	// Total is the number of jobs that pass the filter.
	Total int64
	// States and Types count the jobs that pass all filters but the one on that field.
	States map[string]int64
	Types  map[string]int64
}

// Jobs returns the jobs that pass a filter, with counts.
func (s *Store) Jobs(ctx context.Context, f JobFilter) (JobList, error) {
	order, ok := jobOrders[f.Sort]
	if !ok {
		return JobList{}, fmt.Errorf("%w order of jobs %q", ErrInvalid, f.Sort)
	}
	limit := f.Limit
	if limit <= 0 {
		limit = 1000
	}
	c := &conditions{}
	c.add("operation = ?", int64(f.Operation))
	c.equal("task", f.Task)
	c.equal("node", f.Node)
	c.equal("tree", f.Tree)
	c.between("start_time", f.From, f.To)
	if f.WithStderr != nil && *f.WithStderr {
		c.add("stderr_size > 0")
	} else if f.WithStderr != nil {
		c.add("stderr_size = 0")
	}
	if f.Finished != nil && *f.Finished {
		c.add("finish_time <> 0")
	} else if f.Finished != nil {
		c.add("finish_time = 0")
	}
	list := JobList{States: map[string]int64{}, Types: map[string]int64{}}
	err := scanAll(ctx, reader{s}, "SELECT state, type, count(*) FROM jobs"+c.where()+" GROUP BY 1, 2", c.args, func(scan func(...any) error) error {
		var state, typ string
		var count int64
		if err := scan(&state, &typ, &count); err != nil {
			return err
		}
		byState, byType := f.State == "" || f.State == state, f.Type == "" || f.Type == typ
		if byType {
			list.States[state] += count
		}
		if byState {
			list.Types[typ] += count
		}
		if byState && byType {
			list.Total += count
		}
		return nil
	})
	if err != nil {
		return JobList{}, fmt.Errorf("count jobs: %w", s.wrap(err))
	}
	c.equal("state", f.State)
	c.equal("type", f.Type)
	direction := ""
	if f.Reverse {
		direction = " DESC"
	}
	clause := c.where() + " ORDER BY " + order + direction + ", number" + direction +
		fmt.Sprintf(" LIMIT %d OFFSET %d", limit, max(f.Offset, 0))
	if list.Jobs, err = jobsTable.list(ctx, reader{s}, clause, c.args...); err != nil {
		return JobList{}, s.wrap(err)
	}
	list.Incomplete = int64(max(f.Offset, 0)+len(list.Jobs)) < list.Total
	return list, nil
}

// Job returns a job.
func (s *Store) Job(ctx context.Context, number uint64) (Job, error) {
	return one(ctx, s, &jobsTable, "WHERE number = $1", int64(number))
}

// FinishedJobs returns at most limit jobs of an operation that finished after a position, ordered
// by sequence. A controller replays them after its snapshot.
func (s *Store) FinishedJobs(ctx context.Context, operation int32, after int64, limit int) ([]Job, error) {
	rows, err := jobsTable.list(ctx, reader{s}, "WHERE operation = $1 AND sequence > $2 ORDER BY sequence, number LIMIT $3",
		int64(operation), max(after, 0), limit)
	return rows, s.wrap(err)
}

// JobOutput returns what a job wrote.
func (s *Store) JobOutput(ctx context.Context, job uint64, kind string) (JobOutput, error) {
	return one(ctx, s, &jobOutputsTable, "WHERE job = $1 AND kind = $2", int64(job), kind)
}

// Mutation returns the stored answer to a request.
func (s *Store) Mutation(ctx context.Context, id string) (Mutation, error) {
	return one(ctx, s, &mutationsTable, "WHERE id = $1", id)
}
