package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// patience is how long calls wait for the database, by kind of call. A call that exceeds
// it returns ErrUnavailable.
type patience struct {
	// commit is for one transaction that writes, read for one query. Calls about the
	// lease wait for at most half of its length.
	commit, read time.Duration
	// scan is for reading everything.
	scan time.Duration
}

var usualPatience = patience{commit: 10 * time.Second, read: 30 * time.Second, scan: 10 * time.Minute}

// lease returns how long a call about a lease of this length waits: there must be time
// for another attempt before the lease ends.
func (p *patience) lease(ttl time.Duration) time.Duration {
	return min(max(ttl/2, 500*time.Millisecond), p.commit)
}

// within runs a call with a time limit, whatever the database does.
func within(ctx context.Context, limit time.Duration, call func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := call(bounded)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil && !errors.Is(err, ErrFenced) && !errors.Is(err, ErrHeld) {
		return &kindError{kind: ErrUnavailable, cause: fmt.Errorf("no answer within %v: %w", limit, err)}
	}
	return err
}

// lock lets one caller write at a time. It fails when ctx is cancelled.
func (s *Store) lock(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("another write has not ended: %w", ctx.Err())
	}
}

func (s *Store) unlock() { <-s.turn }
