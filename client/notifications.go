package client

import (
	"context"
	"time"
)

// NotificationTarget is a target of notifications, and how deliveries to it go.
type NotificationTarget struct {
	Name string `yson:"name"`
	// Type is "webhook" or "command".
	Type    string `yson:"type"`
	Waiting int64  `yson:"waiting"`
	// Delivered, Failed and Dropped are counts since the scheduler started.
	Delivered int64     `yson:"delivered"`
	Failed    int64     `yson:"failed"`
	Dropped   int64     `yson:"dropped"`
	Last      time.Time `yson:"last_attempt"`
	Error     string    `yson:"last_error"` // of the last attempt
}

// NotificationTargets holds all targets.
type NotificationTargets struct {
	Targets []NotificationTarget `yson:"targets"`
	Raw     Value                `yson:"."`
}

// NotificationTargets returns the targets of notifications. Only administrators may read them.
func (c *Client) NotificationTargets(ctx context.Context) (*NotificationTargets, error) {
	return ask[NotificationTargets](ctx, c, "list_notification_targets", nil)
}

// TestNotification sends a message to a target and returns the error of the delivery.
func (c *Client) TestNotification(ctx context.Context, target string) error {
	_, err := c.Do(ctx, "test_notification", map[string]any{"target": target})
	return err
}
