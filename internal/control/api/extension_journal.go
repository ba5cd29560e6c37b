package api

import (
	"errors"

	"github.com/weirhq/weir/internal/control/recorder"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/value/yson"
)

// journal returns what keeps the journal.
func (c *call) journal() (*recorder.Recorder, error) {
	r := c.Server.Recorder()
	if r == nil {
		return nil, wire.Errorf(wire.CodeGeneric, "The scheduler keeps no journal: set journal/keep in its configuration, such as 24h")
	}
	return r, nil
}

// listJournal lists the segments of the journal.
func listJournal(c *call) (yson.Node, error) {
	r, err := c.journal()
	if err != nil {
		return yson.Node{}, err
	}
	list, err := r.List()
	if err != nil {
		return yson.Node{}, err
	}
	rows := make([]yson.Node, len(list))
	for i, s := range list {
		rows[i] = yson.Map(
			yson.Pair("start_time", wire.Instant(s.Start)), yson.Pair("last_write_time", wire.Instant(s.End)), yson.Pair("size", yson.Int64(s.Size)),
			yson.Pair("epoch", yson.Int64(int64(s.Epoch))), yson.Pair("number", yson.Int64(int64(s.Number))), yson.Pair("current", yson.Boolean(s.Current)))
	}
	return yson.Map(yson.Pair("segments", yson.List(rows...))), nil
}

// exportJournal returns the part of the journal about a time.
func exportJournal(c *call) (yson.Node, error) {
	r, err := c.journal()
	if err != nil {
		return yson.Node{}, err
	}
	from, err := c.Parameters.Moment("from_time")
	if err != nil {
		return yson.Node{}, err
	}
	to, err := c.Parameters.Moment("to_time")
	if err != nil {
		return yson.Node{}, err
	}
	if !from.IsZero() && !to.IsZero() && to.Before(from) {
		return yson.Node{}, wire.Errorf(wire.CodeGeneric, "Error parsing parameter /from_time: it must be before to_time")
	}
	file, size, err := r.Open(from, to)
	if errors.Is(err, recorder.ErrNothing) {
		return yson.Node{}, wire.Errorf(wire.CodeGeneric, "%v", err)
	}
	if err != nil {
		return yson.Node{}, err
	}
	return c.answerFrom(file, size, yson.Pair("size", yson.Int64(size)))
}
