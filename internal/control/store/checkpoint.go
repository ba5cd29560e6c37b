package store

import (
	"context"
	"sync"
)

// checkpointRows is the number of rows after which the log of commits is copied back.
const checkpointRows = 4096

// checkpointer copies the log of commits back into the database beside them. A commit that did it would
// keep all requests waiting that wait for it, and those behind them.
type checkpointer struct {
	rows   int // written since the last checkpoint was due; only the holder of the lock uses it
	due    chan struct{}
	cancel context.CancelFunc
	worker sync.WaitGroup
}

// start begins to work if the store's engine needs it.
func (c *checkpointer) start(s *Store) {
	if s.engine.checkpoint == "" {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.due, c.cancel = make(chan struct{}, 1), cancel
	c.worker.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-c.due:
				// If it fails, the next one, or a commit when the log is long, does its work.
				_, _ = s.reads.ExecContext(ctx, s.engine.checkpoint)
			}
		}
	})
}

// stop waits until no checkpoint runs.
func (c *checkpointer) stop() {
	if c.cancel != nil {
		c.cancel()
		c.worker.Wait()
	}
}

// wrote counts rows that were committed.
func (c *checkpointer) wrote(rows int) {
	if c.rows += rows; c.due == nil || c.rows < checkpointRows {
		return
	}
	c.rows = 0
	select {
	case c.due <- struct{}{}:
	default: // one is due already
	}
}
