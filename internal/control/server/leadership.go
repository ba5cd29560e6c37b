package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
)

// leases is the part of the store that handles leases and commits. Tests replace it with
// one that fails.
type leases interface {
	AcquireAbove(ctx context.Context, floor int64, holder, address string, ttl time.Duration) (store.Lease, error)
	Renew(ctx context.Context, lease store.Lease, ttl time.Duration) (store.Lease, error)
	Release(ctx context.Context, lease store.Lease) error
	Commit(ctx context.Context, lease store.Lease, batch *store.Batch) (store.Receipt, error)
}

// errLapsed ends a term whose lease was not confirmed in time.
var errLapsed = errors.New("the store has not confirmed the lease again")

// errOvertaken ends a term when a node has seen a later epoch.
var errOvertaken = errors.New("a node has seen a later epoch")

// maxAhead is how far above the clock's epoch a node's epoch may be. The server refuses a
// node that reports a later one: it must not use up the cluster's epochs.
const maxAhead = 1 << 16

// overtaken records that a node has seen a later epoch than this one. Either there is a
// later leader, or the store was restored to an earlier state. The term ends, and this
// server's next term starts above the epoch that the node has seen.
func (t *term) overtaken(node string, epoch uint64) error {
	if most := store.ClockEpoch(t.now) + maxAhead; epoch > uint64(most) {
		return &nodeproto.RefusedError{
			Reason:  nodev1.RefusalReason_REFUSAL_REASON_INVALID,
			Message: fmt.Sprintf("node %s reports epoch %d, but no epoch above %d can have started", node, epoch, most),
		}
	}
	t.server.epochFloor = max(t.server.epochFloor, int64(epoch))
	t.failure = fmt.Errorf("%w: node %s has seen %d, this is %d", errOvertaken, node, epoch, t.epoch)
	t.server.log.Warn("stepping down", "reason", t.failure)
	return ErrNotLeading
}

// leaseMargin is the fraction of a lease, 1/leaseMargin at its end, in which its holder no
// longer leads. It covers clock drift and the time that an answer travels.
const leaseMargin = 10

// answerUntil sets how long this server may answer as the leader: until the end of the
// confirmed lease, less a margin.
func (s *Server) answerUntil(deadline time.Time) {
	s.leaseDeadline.Store(int64(deadline.Add(-s.settings().LeaseTTL / leaseMargin).Sub(s.began)))
}

// holdsLease reports whether the last confirmed lease is still valid by this process's
// monotonic clock.
func (s *Server) holdsLease() bool { return s.leaseLeft() > 0 }

// leaseLeft is how long the last confirmed lease is still valid; not positive if it is not.
func (s *Server) leaseLeft() time.Duration {
	return time.Duration(s.leaseDeadline.Load()) - time.Since(s.began)
}

// Leading reports whether this server leads: it has a term, and the store has confirmed a
// lease that is still valid. A server that cannot reach the store stops leading by itself.
func (s *Server) Leading() bool { return s.term.Load() != nil && s.holdsLease() }

// Term returns the epoch in which this server leads, zero if it has no term, and how long its lease is still confirmed; not
// positive if it is not.
func (s *Server) Term() (epoch uint64, left time.Duration) {
	t := s.term.Load()
	if t == nil {
		return 0, 0
	}
	return t.epoch, s.leaseLeft()
}

// Standing returns why this server neither leads nor knows the leader. It is empty while
// the server leads or knows the leader from the store.
func (s *Server) Standing() string {
	if reason := s.standing.Load(); reason != nil {
		return *reason
	}
	if s.term.Load() != nil && !s.holdsLease() {
		return "its lease has ended and the store has not confirmed it again"
	}
	return ""
}

// standDown records why this server does not lead. It reports whether the reason is new.
func (s *Server) standDown(reason string) bool {
	s.alerts.raise(AlertStore, reason)
	return s.standing.Swap(&reason) == nil
}

// standUp records that the store has named the leader.
func (s *Server) standUp() { s.standing.Store(nil) }

// renew keeps the lease. If the store does not confirm it in time, this server stops
// leading: another one may hold the lease, now or soon. It keeps its term for one more
// lease period, in which it serves nothing, and resumes if the store then confirms that no
// other server has led.
func (s *Server) renew(ctx context.Context, lease store.Lease, giveUp context.CancelCauseFunc) {
	settings := s.settings()
	ticker := time.NewTicker(cmp.Or(settings.RenewPeriod, settings.LeaseTTL/3))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		ttl := s.settings().LeaseTTL
		renewed, err := s.leases.Renew(ctx, lease, ttl)
		switch {
		case err == nil:
			lease = renewed
			s.answerUntil(renewed.Deadline)
			if s.standing.Swap(nil) != nil {
				s.alerts.clear(AlertStore)
				s.log.Info("leading again: the store has confirmed the lease", "epoch", lease.Epoch)
			}
			continue
		case ctx.Err() != nil:
			return
		case !isTemporary(err):
			giveUp(err)
			return
		}
		s.log.Warn("cannot renew the lease", "error", err)
		if s.holdsLease() {
			continue
		}
		since := lease.Deadline.Add(-ttl).UTC().Format(time.RFC3339)
		reason := fmt.Sprintf("the store has not confirmed its lease since %s: %v", since, err)
		if s.standDown(reason) {
			s.log.Warn("standing by", "epoch", lease.Epoch, "reason", reason)
		}
		if time.Since(lease.Deadline) > ttl {
			giveUp(fmt.Errorf("%w since %s: %w", errLapsed, since, err))
			return
		}
	}
}
