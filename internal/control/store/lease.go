package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Lease is the right to write. A zero lease gives none.
type Lease struct {
	Holder  string
	Address string
	// Epoch grows with every acquisition. Commits carry it.
	Epoch int64
	// Expires is when the lease ends by the database's clock.
	Expires time.Time
	// Deadline is a time on this process's monotonic clock before which the lease has not
	// ended: the time just before it was requested, plus its length. A leader that has not
	// renewed by then should stop answering as the leader.
	Deadline time.Time
}

// Leader is the current or the last leader.
type Leader struct {
	Holder  string
	Address string
	Epoch   int64
	Since   time.Time
	Expires time.Time
	// Alive reports whether the lease was still valid, by the database's clock, when it was
	// read.
	Alive bool
	// Remaining is how long the lease was still valid at that time.
	Remaining time.Duration
}

// Acquire takes the lease if it is free, if it has ended, or if the same holder has it (a
// restarted process need not wait for its own lease to end). The epoch always grows, so the
// previous holder is fenced. It returns a *HeldError, which is ErrHeld, while another holder
// has the lease.
//
// The lease of another holder has ended when calls of Acquire on this store have seen it
// unchanged for its whole length, which is ttl at least. This process's monotonic clock
// measures that; the database's clock may be set at any time.
func (s *Store) Acquire(ctx context.Context, holder, address string, ttl time.Duration) (Lease, error) {
	return s.AcquireAbove(ctx, 0, holder, address, ttl)
}

// maxLease is the longest lease. A lease that seems to last longer was given before the
// database's clock was set back.
const maxLease = time.Minute

// watch is the lease of another holder and since when this process has seen it unchanged.
type watch struct {
	mu     sync.Mutex
	lease  leaseID
	since  time.Time
	length time.Duration // how long it lasts from then on, at most
}

// leaseID tells leases and their renewals apart. The zero value is none.
type leaseID struct{ epoch, expires int64 }

// ended returns the lease that was seen unchanged for its whole length, or none.
func (w *watch) ended(now time.Time) leaseID {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.Sub(w.since) < w.length {
		return leaseID{epoch: -1}
	}
	return w.lease
}

// saw records that another holder has the lease now, and returns how long it may still have it.
func (w *watch) saw(leader Leader, ttl time.Duration, now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if seen := (leaseID{leader.Epoch, leader.Expires.UnixMicro()}); seen != w.lease {
		w.lease, w.since, w.length = seen, now, max(ttl, min(leader.Remaining, maxLease))
	}
	return max(w.length-now.Sub(w.since), 0)
}

// firstClockEpoch is when clock epochs start.
var firstClockEpoch = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// ClockEpoch returns an epoch that a store which never jumped has not reached by now: one for
// every minute since 2026. Job numbers have room for 2^24 epochs, which lasts until 2057.
func ClockEpoch(now time.Time) int64 {
	return max(int64(now.Sub(firstClockEpoch)/time.Minute), 0)
}

// AcquireAbove is Acquire with an epoch above floor, even if the store has not reached floor:
// it may have been restored to an earlier state.
func (s *Store) AcquireAbove(ctx context.Context, floor int64, holder, address string, ttl time.Duration) (Lease, error) {
	if holder == "" || ttl <= 0 {
		return Lease{}, fmt.Errorf("%w lease: a holder and a positive time are needed", ErrInvalid)
	}
	if fault := faultOfText(holder + address); fault != "" {
		return Lease{}, fmt.Errorf("%w lease: %s", ErrInvalid, fault)
	}
	ended := s.watched.ended(time.Now())
	lease := Lease{Holder: holder, Address: address, Deadline: time.Now().Add(ttl)}
	var since, expires, revision int64
	err := s.leasing(ctx, ttl, func(ctx context.Context, w *writer) error {
		rows, err := w.tx.QueryContext(ctx, `UPDATE leadership SET epoch = CASE WHEN epoch < $4 THEN $4 ELSE epoch END + 1, holder = $1, address = $2,
			since = `+s.engine.now+`, expires = `+s.engine.now+` + $3
			WHERE holder = '' OR holder = $1 OR epoch = $5 AND expires = $6
			RETURNING epoch, since, expires, revision`, holder, address, ttl.Microseconds(), floor, ended.epoch, ended.expires)
		if err != nil {
			return err
		}
		defer rows.Close()
		if !rows.Next() {
			return errors.Join(rows.Err(), ErrHeld)
		}
		if err := rows.Scan(&lease.Epoch, &since, &expires, &revision); err != nil {
			return err
		}
		if err := rows.Close(); err != nil {
			return err
		}
		_, err = w.exec(ctx, "INSERT INTO epochs (epoch, holder, address, since, revision) VALUES ($1, $2, $3, $4, $5)",
			lease.Epoch, holder, address, since, revision)
		return err
	})
	if errors.Is(err, ErrHeld) {
		var leader Leader
		err := within(ctx, s.patience.lease(ttl), func(ctx context.Context) (err error) {
			leader, err = s.Leader(ctx)
			return err
		})
		if err != nil {
			return Lease{}, err
		}
		leader.Remaining = s.watched.saw(leader, ttl, time.Now())
		return Lease{}, &HeldError{Leader: leader}
	}
	if err != nil {
		return Lease{}, fmt.Errorf("acquire the lease: %w", err)
	}
	lease.Expires = timeOf(expires)
	return lease, nil
}

// Campaign waits until it has acquired the lease. It tries when the lease that it saw ends,
// and at least once per every, because the holder may release it early. It keeps trying while
// the database is unavailable; only cancelling ctx ends it.
func (s *Store) Campaign(ctx context.Context, holder, address string, ttl, every time.Duration) (Lease, error) {
	for {
		lease, err := s.Acquire(ctx, holder, address, ttl)
		var held *HeldError
		wait := every
		switch {
		case err == nil:
			return lease, nil
		case errors.As(err, &held):
			wait = max(min(every, held.Leader.Remaining), time.Millisecond)
		case ctx.Err() != nil, !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrFull):
			return Lease{}, err
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return Lease{}, ctx.Err()
		case <-timer.C:
		}
	}
}

// Renew extends the lease to end ttl from now. It returns ErrFenced if another holder has
// acquired it or it was released. A lease that has ended but that no other holder has acquired
// is renewed.
func (s *Store) Renew(ctx context.Context, lease Lease, ttl time.Duration) (Lease, error) {
	if ttl <= 0 {
		return Lease{}, fmt.Errorf("%w lease: a positive time is needed", ErrInvalid)
	}
	lease.Deadline = time.Now().Add(ttl)
	return s.extend(ctx, "renew", lease, ttl, "expires = "+s.engine.now+" + $3", ttl.Microseconds())
}

// Release releases the lease, so that another process need not wait for its end. It returns
// ErrFenced if the lease is already lost.
func (s *Store) Release(ctx context.Context, lease Lease) error {
	_, err := s.extend(ctx, "release", lease, s.patience.commit, "expires = $3, holder = ''", 0)
	return err
}

// leasing runs a write that concerns a lease of this length.
func (s *Store) leasing(ctx context.Context, ttl time.Duration, write func(ctx context.Context, w *writer) error) error {
	return within(ctx, s.patience.lease(ttl), func(ctx context.Context) error {
		if err := s.lock(ctx); err != nil {
			return err
		}
		defer s.unlock()
		return s.writing(ctx, write)
	})
}

// extend changes the leadership row if the lease is the current one.
func (s *Store) extend(ctx context.Context, verb string, lease Lease, ttl time.Duration, set string, argument int64) (Lease, error) {
	var expires int64
	err := s.leasing(ctx, ttl, func(ctx context.Context, w *writer) error {
		return w.tx.QueryRowContext(ctx, "UPDATE leadership SET "+set+" WHERE epoch = $1 AND holder = $2 RETURNING expires",
			lease.Epoch, lease.Holder, argument).Scan(&expires)
	})
	if errors.Is(err, ErrNotFound) {
		return Lease{}, fmt.Errorf("%s the lease: %w", verb, ErrFenced)
	}
	if err != nil {
		return Lease{}, fmt.Errorf("%s the lease: %w", verb, err)
	}
	lease.Expires = timeOf(expires)
	return lease, nil
}

// Leader returns the leader, or a zero Leader if there was never one.
func (s *Store) Leader(ctx context.Context) (Leader, error) {
	var leader Leader
	var since, expires, now int64
	err := s.row(ctx, "SELECT holder, address, epoch, since, expires, "+s.engine.now+" FROM leadership", nil,
		&leader.Holder, &leader.Address, &leader.Epoch, &since, &expires, &now)
	if err != nil {
		return Leader{}, fmt.Errorf("read the leader: %w", s.wrap(err))
	}
	leader.Since, leader.Expires = timeOf(since), timeOf(expires)
	leader.Alive = leader.Holder != "" && expires > now
	if leader.Alive {
		leader.Remaining = time.Duration(expires-now) * time.Microsecond
	}
	return leader, nil
}
