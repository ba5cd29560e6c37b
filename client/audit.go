package client

import (
	"context"
	"time"
)

// AuditRecord is a change: its user, the request, and the values before and after it.
type AuditRecord struct {
	ID      int64     `yson:"id"` // grows with each record
	Time    time.Time `yson:"timestamp"`
	User    string    `yson:"user"`
	Command string    `yson:"command"`
	Object  string    `yson:"object"`
	// Request is the id of the request; it also appears in the scheduler's log.
	Request string `yson:"request_id"`
	Before  Value  `yson:"before"`
	After   Value  `yson:"after"`
}

// AuditFilter selects audit records. A record must match every non-zero field.
type AuditFilter struct {
	User    string `yson:"user"`
	Command string `yson:"command"`
	Object  string `yson:"object"`
	// Below selects objects below this path.
	Below string    `yson:"below"`
	From  time.Time `yson:"from_time"`
	To    time.Time `yson:"to_time"`
	// Limit is the greatest number of records to return.
	Limit int64 `yson:"limit"`
}

// AuditList holds the records that match a filter, newest first.
type AuditList struct {
	Records []AuditRecord `yson:"records"`
	More    bool          `yson:"incomplete"` // whether there are older records
	Raw     Value         `yson:"."`
}

// Audit returns the audit log of changes. Only administrators may read it.
func (c *Client) Audit(ctx context.Context, f AuditFilter) (*AuditList, error) {
	return ask[AuditList](ctx, c, "list_audit", f)
}
