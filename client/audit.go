package client

import (
	"context"
	"time"
)

// AuditRecord is a change: who made it, how, and what was there before and after it.
type AuditRecord struct {
	ID      int64     `yson:"id"` // later records have larger numbers
	Time    time.Time `yson:"timestamp"`
	User    string    `yson:"user"`
	Command string    `yson:"command"`
	Object  string    `yson:"object"`
	// Request is the id of the request, which the scheduler's log has too.
	Request string `yson:"request_id"`
	Before  Value  `yson:"before"`
	After   Value  `yson:"after"`
}

// AuditFilter selects audit records. Zero fields select everything.
type AuditFilter struct {
	User    string `yson:"user"`
	Command string `yson:"command"`
	Object  string `yson:"object"`
	// Below selects objects below a path.
	Below string    `yson:"below"`
	From  time.Time `yson:"from_time"`
	To    time.Time `yson:"to_time"`
	// Limit is the most records of a list.
	Limit int64 `yson:"limit"`
}

// AuditList is the newest records that a filter selects, newest first.
type AuditList struct {
	Records []AuditRecord `yson:"records"`
	More    bool          `yson:"incomplete"` // there are older ones
	Raw     Value         `yson:"."`
}

// Audit lists who changed what. Only administrators may read it.
func (c *Client) Audit(ctx context.Context, f AuditFilter) (*AuditList, error) {
	return ask[AuditList](ctx, c, "list_audit", f)
}
