package store

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// EventFilter selects entries of the decision log. Empty fields do not filter.
type EventFilter struct {
	Types     []string
	Operation int32
	Job       uint64
	Tree      string
	Pool      string
	Node      string
	// From and To limit the time: From <= time < To.
	From, To time.Time
	// Cursor continues after the event with this number, in the order of the list.
	Cursor int64
	// OldestFirst reverses the order, which is newest first.
	OldestFirst bool
	// Limit of the list; zero means 100.
	Limit int
}

// Events returns entries of the decision log, and whether there are more.
func (s *Store) Events(ctx context.Context, f EventFilter) (events []Event, more bool, err error) {
	c := &conditions{}
	if len(f.Types) > 0 {
		places := ""
		for i, typ := range f.Types {
			if i > 0 {
				places += ", "
			}
			places += c.arg(typ)
		}
		c.add("type IN (" + places + ")")
	}
	if f.Operation != 0 {
		c.add("operation = ? AND operation <> 0", int64(f.Operation))
	}
	if f.Job != 0 {
		c.add("job = ? AND job <> 0", int64(f.Job))
	}
	c.equal("tree", f.Tree)
	if f.Pool != "" {
		c.add("pool = ? AND pool <> ''", f.Pool)
	}
	if f.Node != "" {
		c.add("node = ? AND node <> ''", f.Node)
	}
	c.between("time", f.From, f.To)
	return page(ctx, s, &eventsTable, c, f.Cursor, f.OldestFirst, f.Limit)
}

// AuditFilter selects audit records. Empty fields do not filter.
type AuditFilter struct {
	User    string
	Command string
	Object  string
	// Below selects objects whose name starts with this text.
	Below    string
	Request  string
	From, To time.Time
	// Cursor, OldestFirst and Limit are as in EventFilter.
	Cursor      int64
	OldestFirst bool
	Limit       int
}

// Audit returns audit records, and whether there are more.
func (s *Store) Audit(ctx context.Context, f AuditFilter) (records []AuditRecord, more bool, err error) {
	c := &conditions{}
	c.equal("user_name", f.User)
	c.equal("command", f.Command)
	c.equal("object", f.Object)
	if f.Below != "" {
		c.add("substr(object, 1, length(?)) = ?", f.Below, f.Below)
	}
	c.equal("request", f.Request)
	c.between("time", f.From, f.To)
	return page(ctx, s, &auditTable, c, f.Cursor, f.OldestFirst, f.Limit)
}

// page lists rows by number, starting at a cursor.
func page[R any](ctx context.Context, s *Store, t *table[R], c *conditions, cursor int64, oldestFirst bool, limit int) ([]R, bool, error) {
	if limit <= 0 {
		limit = 100
	}
	order := " ORDER BY id DESC"
	if oldestFirst {
		order = " ORDER BY id"
	}
	if cursor != 0 && oldestFirst {
		c.add("id > ?", cursor)
	} else if cursor != 0 {
		c.add("id < ?", cursor)
	}
	rows, err := t.list(ctx, reader{s}, c.where()+order+fmt.Sprintf(" LIMIT %d", limit+1), c.args...)
	if err != nil {
		return nil, false, s.wrap(err)
	}
	if len(rows) > limit {
		return slices.Clip(rows[:limit]), true, nil
	}
	return rows, false, nil
}
