package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// patience is how long calls wait for the database, by what they do. A call that it
// ends returns ErrUnavailable.
type patience struct {
	// commit is for one transaction that writes, read for one query. Calls that are about
	// the lease wait for half of it at most.
	commit, read time.Duration
	// scan is for reading everything.
	scan time.Duration
}

var usualPatience = patience{commit: 10 * time.Second, read: 30 * time.Second, scan: 10 * time.Minute}

// lease is how long a call about a lease of this length waits: another attempt must have
// time before it ends.
func (p *patience) lease(ttl time.Duration) time.Duration {
	return min(max(ttl/2, 500*time.Millisecond), p.commit)
}

// within runs a call that ends after some time, whatever the database does.
func within(ctx context.Context, limit time.Duration, call func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := call(bounded)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil && !errors.Is(err, ErrFenced) && !errors.Is(err, ErrHeld) {
		return &kindError{kind: ErrUnavailable, cause: fmt.Errorf("no answer within %v: %w", limit, err)}
	}
	return err
}

// lock lets one caller write at a time. It gives up with the context.
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
