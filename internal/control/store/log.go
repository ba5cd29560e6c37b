package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
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

// rareTypes is the condition of the index on types.
const rareTypes = "type NOT IN ('job_completed', 'job_started')"

// isFrequent reports whether the index on types leaves a type out.
func isFrequent(typ string) bool { return typ == "job_completed" || typ == "job_started" }

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
		if !slices.ContainsFunc(f.Types, isFrequent) {
			c.add(rareTypes)
		}
	}
	if f.Operation != 0 {
		c.add("operation = ?", int64(f.Operation))
	}
	if f.Job != 0 {
		c.add("job = ?", int64(f.Job))
	}
	c.equal("tree", f.Tree)
	c.equal("pool", f.Pool)
	c.equal("node", f.Node)
	c.between("time", f.From, f.To)
	f.limitNumbers(c)
	order := pageOrder{join: "events", by: []string{"events.id"}, oldestFirst: f.OldestFirst}
	if span, there := f.span(); there {
		// The join keeps its order: spans lead to events.
		order.join, order.by = "event_spans s CROSS JOIN events", []string{"s.first", "events.id"}
		c.add("s.kind = ? AND s.key = ? AND events.id BETWEEN s.first AND s.last", int64(span.kind), span.key)
		switch {
		case f.Cursor != 0 && f.OldestFirst:
			c.add("s.last > ?", f.Cursor)
		case f.Cursor != 0:
			c.add("s.first < ?", f.Cursor)
		}
	}
	return page(ctx, s, &eventsTable, order, c, f.Cursor, f.Limit)
}

// EventsAfter returns events of some types with greater numbers than a position, oldest first, and whether there are more.
func (s *Store) EventsAfter(ctx context.Context, types []string, position int64, limit int) (events []Event, more bool, err error) {
	// Zero is no cursor; numbers begin at 1.
	return s.Events(ctx, EventFilter{Types: types, Cursor: max(position, 0), OldestFirst: true, Limit: limit})
}

// LastEvent returns the number of the last event, zero if there is none.
func (s *Store) LastEvent(ctx context.Context) (int64, error) {
	events, _, err := s.Events(ctx, EventFilter{Limit: 1})
	if err != nil || len(events) == 0 {
		return 0, err
	}
	return events[0].ID, nil
}

// Counter returns a stored counter, and whether it is there.
func (s *Store) Counter(ctx context.Context, name string) (value int64, there bool, err error) {
	c := &conditions{}
	c.add("name = ?", name)
	rows, err := countersTable.list(ctx, reader{s}, c.where(), c.args...)
	if err != nil || len(rows) == 0 {
		return 0, false, s.wrap(err)
	}
	return rows[0].Value, true, nil
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
	return page(ctx, s, &auditTable, pageOrder{join: "audit", by: []string{"audit.id"}, oldestFirst: f.OldestFirst}, c, f.Cursor, f.Limit)
}

// pageOrder is where the rows of a page come from, and their order, newest first unless stated otherwise. It
// must be the order of their numbers.
type pageOrder struct {
	join        string
	by          []string
	oldestFirst bool
}

func (o pageOrder) clause() string {
	direction := " DESC"
	if o.oldestFirst {
		direction = ""
	}
	return " ORDER BY " + strings.Join(o.by, direction+", ") + direction
}

// page lists rows by number, starting at a cursor.
func page[R any](ctx context.Context, s *Store, t *table[R], order pageOrder, c *conditions, cursor int64, limit int) ([]R, bool, error) {
	if limit <= 0 {
		limit = 100
	}
	if cursor != 0 && order.oldestFirst {
		c.add("id > ?", cursor)
	} else if cursor != 0 {
		c.add("id < ?", cursor)
	}
	rows, err := t.listFrom(ctx, reader{s}, order.join, c.where()+order.clause()+fmt.Sprintf(" LIMIT %d", limit+1), c.args...)
	if err != nil {
		return nil, false, s.wrap(err)
	}
	if len(rows) > limit {
		return slices.Clip(rows[:limit]), true, nil
	}
	return rows, false, nil
}
