package client

import (
	"context"
	"iter"
	"slices"
	"time"
)

// Event is an entry of the log of decisions.
type Event struct {
	ID   int64     `yson:"id"` // later ones have larger numbers
	Time time.Time `yson:"timestamp"`
	// Type is what happened, such as job_started, job_preempted, operation_failed.
	Type string `yson:"event_type"`
	// Whom it concerns; empty if it is nobody of that kind.
	OperationID string `yson:"operation_id"`
	JobID       string `yson:"job_id"`
	Tree        string `yson:"pool_tree"`
	Pool        string `yson:"pool"`
	Node        string `yson:"node"`
	// Raw also has what is special to the type: reasons, amounts.
	Raw Value `yson:"."`
}

// EventFilter says which events a list has: those that all fields choose which are not
// zero.
type EventFilter struct {
	Types     []string  `yson:"types"`
	Operation string    `yson:"-"` // id or alias
	JobID     string    `yson:"job_id"`
	Tree      string    `yson:"pool_tree"`
	Pool      string    `yson:"pool"`
	Node      string    `yson:"node"`
	From      time.Time `yson:"from_time"`
	To        time.Time `yson:"to_time"`
}

type eventPage struct {
	Events []Event `yson:"events"`
	More   bool    `yson:"incomplete"`
}

// listEvents returns a page of at most so many events after another one.
func (c *Client) listEvents(ctx context.Context, f EventFilter, limit, after int64, oldestFirst bool) (*eventPage, error) {
	return ask[eventPage](ctx, c, "list_events", merged(f, operationNamed(f.Operation), struct {
		Limit       int64 `yson:"limit"`
		Cursor      int64 `yson:"cursor"`
		OldestFirst bool  `yson:"oldest_first"`
	}{limit, after, oldestFirst}))
}

// LastEvents returns the last events, at most so many, the oldest first.
func (c *Client) LastEvents(ctx context.Context, f EventFilter, limit int64) ([]Event, error) {
	page, err := c.listEvents(ctx, f, limit, 0, false)
	if err != nil {
		return nil, err
	}
	slices.Reverse(page.Events)
	return page.Events, nil
}

// eventsAtOnce is how many events are asked for in one request.
const eventsAtOnce = 1000

// Events returns all events after the one with a number, the oldest first; 0 stands
// before all. It ends after the last event, or an error.
func (c *Client) Events(ctx context.Context, f EventFilter, after int64) iter.Seq2[*Event, error] {
	return func(yield func(*Event, error) bool) {
		for after := after; ; {
			page, err := c.listEvents(ctx, f, eventsAtOnce, after, true)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range page.Events {
				after = page.Events[i].ID
				if !yield(&page.Events[i], nil) {
					return
				}
			}
			if !page.More || len(page.Events) == 0 {
				return
			}
		}
	}
}

// FollowEvents is Events that goes on with new ones as they come, looking for them as
// often as the interval says, until the context ends.
func (c *Client) FollowEvents(ctx context.Context, f EventFilter, after int64, interval time.Duration) iter.Seq2[*Event, error] {
	return func(yield func(*Event, error) bool) {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for after := after; ; {
			for e, err := range c.Events(ctx, f, after) {
				if !yield(e, err) || err != nil {
					return
				}
				after = e.ID
			}
			select {
			case <-ctx.Done():
				yield(nil, ctx.Err())
				return
			case <-ticker.C:
			}
		}
	}
}
