package client

import (
	"context"
	"iter"
	"slices"
	"time"
)

// Event is an entry of the event log, in which the scheduler records its decisions.
type Event struct {
	ID   int64     `yson:"id"` // grows with each event
	Time time.Time `yson:"timestamp"`
	// Type is the kind of event, such as job_started, job_preempted or operation_failed.
	Type string `yson:"event_type"`
	// The objects that the event concerns; empty if it concerns none of that kind.
	OperationID string `yson:"operation_id"`
	JobID       string `yson:"job_id"`
	Tree        string `yson:"pool_tree"`
	Pool        string `yson:"pool"`
	Node        string `yson:"node"`
	// Raw also holds what only this type of event has, such as reasons and amounts.
	Raw Value `yson:"."`
}

// EventFilter selects events. An event must match every non-zero field.
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

// listEvents returns a page of at most limit events that follow the event after.
func (c *Client) listEvents(ctx context.Context, f EventFilter, limit, after int64, oldestFirst bool) (*eventPage, error) {
	return ask[eventPage](ctx, c, "list_events", merged(f, operationNamed(f.Operation), struct {
		Limit       int64 `yson:"limit"`
		Cursor      int64 `yson:"cursor"`
		OldestFirst bool  `yson:"oldest_first"`
	}{limit, after, oldestFirst}))
}

// LastEvents returns the latest events, at most limit of them, oldest first.
func (c *Client) LastEvents(ctx context.Context, f EventFilter, limit int64) ([]Event, error) {
	page, err := c.listEvents(ctx, f, limit, 0, false)
	if err != nil {
		return nil, err
	}
	slices.Reverse(page.Events)
	return page.Events, nil
}

// eventsAtOnce is the page size of Events.
const eventsAtOnce = 1000

// Events iterates over the events whose ID is greater than after, oldest first; 0 means
// all events. It stops after the last event or the first error.
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

// FollowEvents is like Events, but then polls for new events at the given interval until
// ctx is cancelled or a request fails.
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
