package store

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The decision log has few indexes. Each commit writes, for each value that its events have, between which
// numbers these events are, and a reader looks at the events in between. So a commit of a thousand events of
// ten nodes adds ten entries for nodes, and one of a single event adds an entry that leads to it exactly.

// spanKind is what a span is about.
type spanKind int64

// Kinds of spans. The numbers are stored.
const (
	spanOperation spanKind = iota + 1
	spanJobs
	spanPool
	spanNode
)

// spanKey is a value that events have.
type spanKey struct {
	kind spanKind
	key  string
}

// eventSpan says that all events of one commit with a value have numbers from first to last. Spans of one
// value do not overlap.
type eventSpan struct {
	kind        int64
	key         string
	first, last int64
}

// jobsOfSpan is how many jobs share a span: jobs that start together have successive numbers, and mostly end
// together.
const jobsOfSpan = 64

func operationSpan(number int32) spanKey { return spanKey{spanOperation, strconv.Itoa(int(number))} }
func jobSpan(number uint64) spanKey {
	return spanKey{spanJobs, strconv.FormatInt(int64(number)/jobsOfSpan, 10)} // as the migration divides what is stored
}

var eventSpansTable = table[eventSpan]{
	name: "event_spans", keys: 3,
	fields: []field[eventSpan]{
		{column: "kind", at: func(r *eventSpan) any { return &r.kind }},
		{column: "key", at: func(r *eventSpan) any { return &r.key }},
		{column: "first", at: func(r *eventSpan) any { return &r.first }},
		{column: "last", at: func(r *eventSpan) any { return &r.last }},
	},
	insertOnly: true,
}

// spansOf returns the spans of numbered events, by kind and key.
func spansOf(events []Event) []eventSpan {
	type number struct {
		kind  spanKind
		value int64
	}
	at := map[spanKey]int{}
	numbers := map[number]int{} // of spans whose keys are numbers, to format each once
	var spans []eventSpan
	enter := func(i int, known bool, id int64, key func() spanKey) int {
		if known {
			spans[i].last = id
			return i
		}
		k := key()
		spans = append(spans, eventSpan{int64(k.kind), k.key, id, id})
		return len(spans) - 1
	}
	text := func(kind spanKind, value string, id int64) {
		if value != "" {
			key := spanKey{kind, value}
			i, known := at[key]
			at[key] = enter(i, known, id, func() spanKey { return key })
		}
	}
	for n := range events {
		e := &events[n]
		if e.Operation != 0 {
			k := number{spanOperation, int64(e.Operation)}
			i, known := numbers[k]
			numbers[k] = enter(i, known, e.ID, func() spanKey { return operationSpan(e.Operation) })
		}
		if e.Job != 0 {
			k := number{spanJobs, int64(e.Job) / jobsOfSpan}
			i, known := numbers[k]
			numbers[k] = enter(i, known, e.ID, func() spanKey { return jobSpan(e.Job) })
		}
		text(spanPool, e.Pool, e.ID)
		text(spanNode, e.Node, e.ID)
	}
	slices.SortFunc(spans, func(a, b eventSpan) int {
		if a.kind != b.kind {
			return int(a.kind - b.kind)
		}
		return strings.Compare(a.key, b.key)
	})
	return spans
}

// putMinute extends a minute up to an event.
const putMinute = `INSERT INTO event_minutes (minute, first, last) VALUES ($1, $2, $3)
	ON CONFLICT (minute) DO UPDATE SET last = excluded.last`

const microsecondsPerMinute = 60_000_000

// indexEvents writes the spans and minutes of events that were put. Their numbers are greater than those of
// all events before.
func indexEvents(ctx context.Context, w *writer, events []Event) error {
	if _, err := eventSpansTable.putRows(ctx, w, spansOf(events)); err != nil {
		return err
	}
	for from := 0; from < len(events); {
		minute := microseconds(events[from].Time) / microsecondsPerMinute
		to := from + 1
		for to < len(events) && microseconds(events[to].Time)/microsecondsPerMinute == minute {
			to++
		}
		if _, err := w.exec(ctx, putMinute, minute, events[from].ID, events[to-1].ID); err != nil {
			return fmt.Errorf("put event_minutes: %w", err)
		}
		from = to
	}
	return nil
}

// span returns the span to look at for a filter: that of the value which the fewest events have. It reports
// whether there is one.
func (f *EventFilter) span() (spanKey, bool) {
	switch {
	case f.Job != 0:
		return jobSpan(f.Job), true
	case f.Operation != 0:
		return operationSpan(f.Operation), true
	case f.Node != "":
		return spanKey{spanNode, f.Node}, true
	case f.Pool != "":
		return spanKey{spanPool, f.Pool}, true
	}
	return spanKey{}, false
}

// limitNumbers adds the limits that the times of a filter set to numbers.
func (f *EventFilter) limitNumbers(c *conditions) {
	if !f.From.IsZero() {
		c.add("events.id >= (SELECT COALESCE(min(m.first), 9223372036854775807) FROM event_minutes m WHERE m.minute >= ?)", microseconds(f.From)/microsecondsPerMinute)
	}
	if !f.To.IsZero() {
		c.add("events.id <= (SELECT COALESCE(max(m.last), 0) FROM event_minutes m WHERE m.minute <= ?)", microseconds(f.To)/microsecondsPerMinute)
	}
}
