package client

import (
	"context"
	"time"
)

// JournalSegment is a part of a scheduler's journal.
type JournalSegment struct {
	Start     time.Time `yson:"start_time"`
	LastWrite time.Time `yson:"last_write_time"`
	Size      int64     `yson:"size"`
	// Epoch is the term of the leader that wrote it, and Number counts the segments of a term.
	Epoch   int64 `yson:"epoch"`
	Number  int64 `yson:"number"`
	Current bool  `yson:"current"` // whether it is being written
}

// Journal lists the segments of a journal, oldest first.
type Journal struct {
	Segments []JournalSegment `yson:"segments"`
	Raw      Value            `yson:"."`
}

// Journal returns the segments of the scheduler's journal. Only superusers may list them.
func (c *Client) Journal(ctx context.Context) (*Journal, error) {
	return ask[Journal](ctx, c, "list_journal", struct{}{})
}
