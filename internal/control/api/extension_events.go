package api

import (
	"errors"

	"github.com/weirhq/weir/internal/control/orchid"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/yson"
)

// maxListedEvents is the longest list of events and audit records.
const maxListedEvents = 10_000

// page reads limit, cursor and order of a list of events or audit records.
func (c *call) page() (limit int, cursor int64, oldestFirst bool, err error) {
	given, err := c.Parameters.Integer("limit", 100)
	switch {
	case err != nil:
		return 0, 0, false, err
	case given < 1 || given > maxListedEvents:
		return 0, 0, false, wire.Errorf(wire.CodeGeneric, "Error parsing parameter /limit: it must be from 1 to %d, not %d", maxListedEvents, given)
	}
	if cursor, err = c.Parameters.Integer("cursor", 0); err != nil {
		return 0, 0, false, err
	}
	oldestFirst, err = c.Parameters.Boolean("oldest_first", false)
	return int(given), cursor, oldestFirst, err
}

// eventFilter reads which entries of the decision log a request asks for.
func (c *call) eventFilter() (f store.EventFilter, err error) {
	p := c.Parameters
	if f.Types, err = p.TextList("event_type"); err != nil {
		return f, err
	}
	if more, err := p.TextList("types"); err != nil {
		return f, err
	} else if more != nil {
		f.Types = append(f.Types, more...)
	}
	if err := p.TextsInto(wire.TextInto("pool_tree", &f.Tree), wire.TextInto("pool", &f.Pool), wire.TextInto("node", &f.Node)); err != nil {
		return f, err
	}
	if id, err := p.ID("job_id"); err != nil {
		return f, err
	} else if !id.IsZero() {
		number, ok := guid.JobNumber(id)
		if !ok {
			return f, noJob(id)
		}
		f.Job = number
	}
	if f.From, err = p.Moment("from_time"); err != nil {
		return f, err
	}
	if f.To, err = p.Moment("to_time"); err != nil {
		return f, err
	}
	f.Limit, f.Cursor, f.OldestFirst, err = c.page()
	return f, err
}

// listEvents is the decision log: what was started, stopped, preempted or starved, and why. A
// truncated list continues from next_cursor.
func listEvents(c *call) (yson.Node, error) {
	filter, err := c.eventFilter()
	if err != nil {
		return yson.Node{}, err
	}
	if c.Parameters.Has("operation_id", "operation_alias") {
		v, err := orchid.FindOperation(c.Request)
		if err != nil {
			return yson.Node{}, err
		}
		filter.Operation = int32(v.Number)
	}
	events, more, err := c.Server.Store().Events(c.Context, filter)
	if err != nil {
		return yson.Node{}, err
	}
	items, err := c.eventNodes(events)
	if err != nil {
		return yson.Node{}, err
	}
	cursor := yson.Entity()
	if len(events) > 0 {
		cursor = yson.Int64(events[len(events)-1].ID)
	}
	return yson.Map(yson.Pair("events", items), yson.Pair("incomplete", yson.Boolean(more)), yson.Pair("next_cursor", cursor)), nil
}

// eventNodes writes events. It names operations by their ids.
func (c *call) eventNodes(events []store.Event) (yson.Node, error) {
	names := map[int32]string{}
	items := make([]yson.Node, len(events))
	for i, e := range events {
		entries := []yson.Entry{
			yson.Pair("id", yson.Int64(e.ID)),
			yson.Pair("timestamp", wire.Instant(e.Time)),
			yson.Pair("event_type", yson.String(e.Type)),
		}
		if e.Operation != 0 {
			name, err := c.operationName(e.Operation, names)
			if err != nil {
				return yson.Node{}, err
			}
			entries = append(entries, yson.Pair("operation_id", wire.OrEntity(name)))
		}
		if e.Job != 0 {
			entries = append(entries, yson.Pair("job_id", yson.String(guid.OfJob(e.Job).String())))
		}
		for _, text := range []struct{ key, value string }{{"pool_tree", e.Tree}, {"pool", e.Pool}, {"node", e.Node}} {
			if text.value != "" {
				entries = append(entries, yson.Pair(text.key, yson.String(text.value)))
			}
		}
		details, err := orchid.StoredJSON(e.Document)
		if err != nil {
			return yson.Node{}, err
		}
		items[i] = yson.Map(wire.Distinct(append(entries, details.Entries()...))...)
	}
	return yson.List(items...), nil
}

// operationName is the id of the operation with a number; empty if the operation is no longer
// stored.
func (c *call) operationName(number int32, known map[int32]string) (string, error) {
	if name, there := known[number]; there {
		return name, nil
	}
	name := ""
	if live, there := c.Server.OperationByNumber(core.OperationID(number)); there {
		name = live.ID.String()
	} else if row, err := c.Server.Store().OperationByNumber(c.Context, number); err == nil {
		name = row.ID
	} else if !errors.Is(err, store.ErrNotFound) {
		return "", err
	}
	known[number] = name
	return name, nil
}

// listAudit lists who changed what. It is for administrators.
func listAudit(c *call) (yson.Node, error) {
	var f store.AuditFilter
	var err error
	p := c.Parameters
	if err := p.TextsInto(wire.TextInto("user", &f.User), wire.TextInto("command", &f.Command), wire.TextInto("object", &f.Object),
		wire.TextInto("below", &f.Below), wire.TextInto("request_id", &f.Request)); err != nil {
		return yson.Node{}, err
	}
	if f.From, err = p.Moment("from_time"); err != nil {
		return yson.Node{}, err
	}
	if f.To, err = p.Moment("to_time"); err != nil {
		return yson.Node{}, err
	}
	if f.Limit, f.Cursor, f.OldestFirst, err = c.page(); err != nil {
		return yson.Node{}, err
	}
	records, more, err := c.Server.Store().Audit(c.Context, f)
	if err != nil {
		return yson.Node{}, err
	}
	items, cursor := make([]yson.Node, len(records)), yson.Entity()
	for i, r := range records {
		items[i] = yson.Map(
			yson.Pair("id", yson.Int64(r.ID)), yson.Pair("timestamp", wire.Instant(r.Time)), yson.Pair("user", yson.String(r.User)),
			yson.Pair("command", yson.String(r.Command)), yson.Pair("object", yson.String(r.Object)),
			yson.Pair("request_id", yson.String(r.Request)), yson.Pair("before", auditNode(r.Before)), yson.Pair("after", auditNode(r.After)))
		cursor = yson.Int64(r.ID)
	}
	return yson.Map(
		yson.Pair("records", yson.List(items...)), yson.Pair("incomplete", yson.Boolean(more)), yson.Pair("next_cursor", cursor)), nil
}

// auditNode is a state in an audit record: a document, or plain text if it is not one.
func auditNode(data []byte) yson.Node {
	if len(data) == 0 {
		return yson.Entity()
	}
	n, err := orchid.StoredJSON(data)
	if err != nil {
		return yson.String(string(data))
	}
	return n
}
