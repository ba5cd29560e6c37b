package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"
)

// OperationFilter selects operations. Empty fields do not filter.
type OperationFilter struct {
	// Text is searched for in ids, aliases, types, users, states, titles, pools and filter words, ignoring
	// case.
	Text  string
	State string
	Type  string
	User  string
	Tree  string
	// Pool in the tree, or in any tree.
	Pool           string
	WithFailedJobs *bool
	// Live selects unfinished operations if true, and the archive if false.
	Live *bool
	// From and To limit the start time: From <= start < To.
	From, To time.Time
	// Cursor is the start time at which a list continues in the Direction, without operations that started
	// at that time. If CursorNumber is not zero, operations that started at exactly that time and come after
	// it in the list are included.
	Cursor       time.Time
	CursorNumber int32
	Direction    Direction
	// Limit of the list; zero means 100.
	Limit int
}

// OperationList is the answer to a filter, newest first.
type OperationList struct {
	Operations []Operation
	// Incomplete reports whether the limit cut the list.
	Incomplete bool
}

// base adds the conditions that do not depend on counters: text, time and archive.
func (f *OperationFilter) base(e *engine, c *conditions) {
	if f.Text != "" {
		c.parts = append(c.parts, e.contains("search", c.arg(strings.ToLower(f.Text))))
	}
	c.between("start_time", f.From, f.To)
	if f.Live != nil && *f.Live {
		c.add("finish_time = 0")
	} else if f.Live != nil {
		c.add("finish_time <> 0")
	}
}

// poolPattern is the substring that the text of pools contains if an operation is in the pool or tree; see
// poolsText.
func poolPattern(tree, pool string) string {
	switch {
	case tree != "" && pool != "":
		return "\n" + tree + "\t" + pool + "\n"
	case tree != "":
		return "\n" + tree + "\t"
	}
	return "\t" + pool + "\n"
}

func (f *OperationFilter) conditions(e *engine) *conditions {
	c := &conditions{}
	f.base(e, c)
	c.equal("state", f.State)
	c.equal("type", f.Type)
	c.equal("user_name", f.User)
	if f.Tree != "" || f.Pool != "" {
		c.parts = append(c.parts, e.contains("pools", c.arg(poolPattern(f.Tree, f.Pool))))
	}
	if f.WithFailedJobs != nil {
		c.add("has_failed_jobs = ?", flag(*f.WithFailedJobs))
	}
	return c
}

// Operations returns the operations that pass a filter, newest first.
func (s *Store) Operations(ctx context.Context, f OperationFilter) (OperationList, error) {
	limit := f.Limit
	if limit <= 0 {
		limit = 100
	}
	c := f.conditions(&s.engine)
	order := " ORDER BY start_time DESC, number DESC"
	sign := "<"
	if f.Direction == Future {
		order, sign = " ORDER BY start_time, number", ">"
	}
	if !f.Cursor.IsZero() {
		at := microseconds(f.Cursor)
		if f.CursorNumber != 0 {
			c.add("(start_time "+sign+" ? OR start_time = ? AND number "+sign+" ?)", at, at, int64(f.CursorNumber))
		} else {
			c.add("start_time "+sign+" ?", at)
		}
	}
	rows, err := operationsTable.list(ctx, reader{s}, c.where()+order+" LIMIT "+fmt.Sprint(limit+1), c.args...)
	if err != nil {
		return OperationList{}, s.wrap(err)
	}
	list := OperationList{Operations: rows}
	if len(rows) > limit {
		list.Operations, list.Incomplete = rows[:limit], true
	}
	if f.Direction == Future {
		slices.Reverse(list.Operations)
	}
	return list, nil
}

// OperationByID returns an operation, live or archived.
func (s *Store) OperationByID(ctx context.Context, id string) (Operation, error) {
	return one(ctx, s, &operationsTable, "WHERE id = $1", id)
}

// OperationByNumber returns an operation, live or archived.
func (s *Store) OperationByNumber(ctx context.Context, number int32) (Operation, error) {
	return one(ctx, s, &operationsTable, "WHERE number = $1", int64(number))
}

// OperationByAlias returns the last operation that started with this alias.
func (s *Store) OperationByAlias(ctx context.Context, alias string) (Operation, error) {
	return one(ctx, s, &operationsTable, "WHERE alias = $1 AND alias <> '' ORDER BY start_time DESC, number DESC LIMIT 1", alias)
}

// OperationSpec returns the specification of an operation.
func (s *Store) OperationSpec(ctx context.Context, number int32) (OperationSpec, error) {
	return one(ctx, s, &operationSpecsTable, "WHERE operation = $1", int64(number))
}

// OperationProgress returns the progress of an operation.
func (s *Store) OperationProgress(ctx context.Context, number int32) (OperationProgress, error) {
	return one(ctx, s, &operationProgressTable, "WHERE operation = $1", int64(number))
}

// OperationProgressOf returns the progress of several operations, by number; operations without one are left
// out.
func (s *Store) OperationProgressOf(ctx context.Context, numbers []int32) ([]OperationProgress, error) {
	c := &conditions{}
	places := make([]string, len(numbers))
	for i, n := range numbers {
		places[i] = c.arg(int64(n))
	}
	if len(places) == 0 {
		return nil, nil
	}
	rows, err := operationProgressTable.list(ctx, reader{s}, "WHERE operation IN ("+strings.Join(places, ", ")+") ORDER BY operation", c.args...)
	return rows, s.wrap(err)
}

// one returns the only row that a clause selects, or ErrNotFound.
func one[R any](ctx context.Context, s *Store, t *table[R], clause string, args ...any) (R, error) {
	rows, err := t.list(ctx, reader{s}, clause, args...)
	if err == nil && len(rows) == 0 {
		err = fmt.Errorf("read %s: %w", t.name, sql.ErrNoRows)
	}
	if err != nil {
		var none R
		return none, s.wrap(err)
	}
	return rows[0], nil
}
