package api

import (
	"time"

	"github.com/weirhq/weir/internal/control/orchid"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/yson"
)

// checkAttributeNames refuses names of attributes that no operation has.
func checkAttributeNames(names []string) error {
	for _, name := range names {
		if _, known := orchid.OperationAttributeBy(name); !known {
			return wire.Errorf(wire.CodeNoSuchAttribute, "Operation attribute %q is not supported", wire.CutText(name, 100)).
				With("attribute_name", yson.String(name))
		}
	}
	return nil
}

func getOperation(c *call) (yson.Node, error) {
	names, err := c.Parameters.AttributeNamesOf("attributes")
	if err != nil {
		return yson.Node{}, err
	}
	if err := checkAttributeNames(names); err != nil {
		return yson.Node{}, err
	}
	if err := c.awaitChange(); err != nil {
		return yson.Node{}, err
	}
	entries, err := c.operation.Describe(c.Request, names, false)
	return yson.Map(entries...), err
}

// maxOperationWait is the longest time for which a request for an operation is held.
const maxOperationWait = time.Minute

// awaitChange holds a request until its operation has changed or ended, for as long as the caller allows, and reads the
// operation again.
func (c *call) awaitChange() error {
	most, err := c.Parameters.Duration("wait", 0)
	if err != nil {
		return err
	}
	since, err := c.Parameters.Moment("changed_since")
	switch {
	case err != nil:
		return err
	case most < 0 || most > maxOperationWait:
		return wire.Errorf(wire.CodeGeneric, "Error parsing parameter /wait: it must be from 0 to %v, not %v", maxOperationWait, most)
	case most == 0 || c.operation.Live == nil:
		return nil
	}
	c.Server.AwaitOperation(c.Context, c.operation.ID, since, most)
	c.operation, err = orchid.FindOperation(c.Request)
	return err
}

// maxListedOperations is the longest list.
const maxListedOperations = 1000

// operationFilter reads which operations a list is to have.
func (c *call) operationFilter() (f store.OperationFilter, err error) {
	p := c.Parameters
	if err := p.TextsInto(wire.TextInto("filter", &f.Text), wire.TextInto("state", &f.State), wire.TextInto("type", &f.Type), wire.TextInto("user", &f.User),
		wire.TextInto("pool_tree", &f.Tree), wire.TextInto("pool", &f.Pool)); err != nil {
		return f, err
	}
	if f.State != "" {
		if err := new(operation.State).UnmarshalText([]byte(f.State)); err != nil {
			return f, wire.Errorf(wire.CodeGeneric, "Error parsing parameter /state: %q is no state of an operation, such as pending, running, completed, failed or aborted", wire.CutText(f.State, 100))
		}
	}
	if p.Has("with_failed_jobs") {
		with, err := p.Boolean("with_failed_jobs", false)
		if err != nil {
			return f, err
		}
		f.WithFailedJobs = &with
	}
	if f.From, err = p.Moment("from_time"); err != nil {
		return f, err
	}
	if f.To, err = p.Moment("to_time"); err != nil {
		return f, err
	}
	if f.Cursor, err = p.Moment("cursor_time"); err != nil {
		return f, err
	}
	direction, err := p.Text("cursor_direction", "past")
	switch {
	case err != nil:
		return f, err
	case direction == "future":
		f.Direction = store.Future
	case direction != "past" && direction != "none":
		return f, wire.Errorf(wire.CodeGeneric, "Error parsing parameter /cursor_direction: it must be past or future, not %q", wire.CutText(direction, 100))
	}
	limit, err := p.Integer("limit", 100)
	switch {
	case err != nil:
		return f, err
	case limit < 1 || limit > maxListedOperations:
		return f, wire.Errorf(wire.CodeGeneric, "Error parsing parameter /limit: it must be from 1 to %d, not %d", maxListedOperations, limit)
	}
	f.Limit = int(limit)
	return f, nil
}

// listOperations lists live and ended operations, newest first.
func listOperations(c *call) (yson.Node, error) {
	filter, err := c.operationFilter()
	if err != nil {
		return yson.Node{}, err
	}
	names, err := c.Parameters.AttributeNamesOf("attributes")
	if err != nil {
		return yson.Node{}, err
	}
	if err := checkAttributeNames(names); err != nil {
		return yson.Node{}, err
	}
	counted, err := c.Parameters.Boolean("include_counters", true)
	if err != nil {
		return yson.Node{}, err
	}
	forPage, err := c.Parameters.Boolean("enable_ui_mode", false)
	if err != nil {
		return yson.Node{}, err
	}
	list, err := c.Server.ListOperations(c.Context, filter, counted)
	if err != nil {
		return yson.Node{}, err
	}
	items, err := c.operationItems(list.Operations, names, forPage)
	if err != nil {
		return yson.Node{}, err
	}
	answer := []yson.Entry{
		yson.Pair("operations", yson.List(items...)),
		yson.Pair("incomplete", yson.Boolean(list.Incomplete)),
	}
	if counted {
		counts := &list.Counts
		answer = append(answer,
			yson.Pair("pool_tree_counts", namedCounts(counts.Trees)),
			yson.Pair("pool_counts", namedCounts(counts.Pools)),
			yson.Pair("user_counts", namedCounts(counts.Users)),
			yson.Pair("state_counts", namedCounts(counts.States)),
			yson.Pair("type_counts", namedCounts(counts.Types)),
			yson.Pair("failed_jobs_count", yson.Int64(counts.FailedJobs)))
	}
	return yson.Map(answer...), nil
}

// operationItems describes the operations of a list. It reads the progress of all of them at once.
func (c *call) operationItems(list []server.ListedOperation, names []string, forPage bool) ([]yson.Node, error) {
	views := make([]*orchid.OperationView, len(list))
	var archived []int32
	for i, o := range list {
		if o.Live != nil {
			views[i] = orchid.ViewOfLive(o.Live)
			continue
		}
		id, err := guid.Parse(o.Row.ID)
		if err != nil {
			return nil, err
		}
		views[i] = orchid.ViewOfStored(id, o.Row)
		archived = append(archived, o.Row.Number)
	}
	progress, err := c.Server.Store().OperationProgressOf(c.Context, archived)
	if err != nil {
		return nil, err
	}
	byNumber := make(map[int32]*store.OperationProgress, len(progress))
	for i := range progress {
		byNumber[progress[i].Operation] = &progress[i]
	}
	items := make([]yson.Node, len(views))
	for i, v := range views {
		if v.Live == nil {
			if v.Progress = byNumber[int32(v.Number)]; v.Progress == nil {
				v.Progress = &store.OperationProgress{}
			}
		}
		entries, err := v.Describe(c.Request, names, true)
		if err != nil {
			return nil, err
		}
		if forPage {
			items[i] = yson.String(v.ID.String()).WithAttributes(entries...)
		} else {
			items[i] = yson.Map(entries...)
		}
	}
	return items, nil
}

// countsNode writes counts by name, sorted by name.
func countsNode(counts map[string]int64) yson.Node {
	var entries []yson.Entry
	for _, name := range orchid.SortedKeys(counts) {
		entries = append(entries, yson.Pair(name, yson.Int64(counts[name])))
	}
	return yson.Map(entries...)
}

// namedCounts writes counts by name that are already sorted.
func namedCounts(counts []server.NameCount) yson.Node {
	entries := make([]yson.Entry, len(counts))
	for i, c := range counts {
		entries[i] = yson.Pair(c.Name, yson.Int64(c.Count))
	}
	return yson.Map(entries...)
}

// listOperationEvents returns one operation's entries in the decision log, newest first.
func listOperationEvents(c *call) (yson.Node, error) {
	filter, err := c.eventFilter()
	if err != nil {
		return yson.Node{}, err
	}
	filter.Operation = int32(c.operation.Number)
	events, _, err := c.Server.Store().Events(c.Context, filter)
	if err != nil {
		return yson.Node{}, err
	}
	return c.eventNodes(events)
}
