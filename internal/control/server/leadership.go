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

// ledger is where leases and commits go: the store, or in tests a store that fails.
type ledger interface {
	AcquireAbove(ctx context.Context, floor int64, holder, address string, ttl time.Duration) (store.Lease, error)
	Renew(ctx context.Context, lease store.Lease, ttl time.Duration) (store.Lease, error)
	Release(ctx context.Context, lease store.Lease) error
	Commit(ctx context.Context, lease store.Lease, batch *store.Batch) (store.Receipt, error)
}

// errLapsed ends a term whose lease was not confirmed again in time.
var errLapsed = errors.New("the store has not confirmed the lease again")

// errOvertaken ends a term when a node has seen a later one.
var errOvertaken = errors.New("a node has seen a later epoch")

// maxAhead is how far above the epoch of the clock a node may be said to be. A node that
// says more is refused: it must not use up the epochs of the cluster.
const maxAhead = 1 << 16

// overtaken notes that a node has seen a later epoch than this one. Either there is a later
// leader, or the store was put back to an earlier state. The term ends, and the next one of
// this server begins above what the node has seen.
func (t *term) overtaken(node string, epoch uint64) error {
	if most := store.ClockEpoch(t.now) + maxAhead; epoch > uint64(most) {
		return &nodeproto.RefusedError{
			Reason:  nodev1.RefusalReason_REFUSAL_REASON_INVALID,
			Message: fmt.Sprintf("node %s says that it has seen epoch %d; none above %d can have begun", node, epoch, most),
		}
	}
	t.server.epochFloor = max(t.server.epochFloor, int64(epoch))
	t.failure = fmt.Errorf("%w: node %s has seen %d, this is %d", errOvertaken, node, epoch, t.epoch)
	t.server.log.Warn("standing down", "reason", t.failure)
	return ErrNotLeading
}

// leaseMargin is the part of a lease at its end in which its holder does not lead
// any more. It covers the drift of clocks and the way of an answer.
const leaseMargin = 10

// answerUntil sets until when this server may speak as the leader: the end of a
// lease that the store has confirmed, less a margin.
func (s *Server) answerUntil(deadline time.Time) {
	s.leaseDeadline.Store(int64(deadline.Add(-s.settings().LeaseTTL / leaseMargin).Sub(s.began)))
}

// holdsLease says whether the last lease that the store confirmed has not ended, by
// this process's monotonic clock.
func (s *Server) holdsLease() bool {
	return time.Since(s.began) < time.Duration(s.leaseDeadline.Load())
}

// Leading says whether this server leads: it has a term, and the store has confirmed
// its lease for now. It ceases to lead by itself when the store cannot be reached.
func (s *Server) Leading() bool { return s.term.Load() != nil && s.holdsLease() }

// Standing says why this server does not lead and does not know who does. It is empty
// while it leads or knows the leader from the store.
func (s *Server) Standing() string {
	if reason := s.standing.Load(); reason != nil {
		return *reason
	}
	if s.term.Load() != nil && !s.holdsLease() {
		return "its lease has ended and the store has not confirmed it again"
	}
	return ""
}

// standDown notes why this server does not lead. It returns whether that is news.
func (s *Server) standDown(reason string) bool {
	s.alerts.raise(AlertStore, reason)
	return s.standing.Swap(&reason) == nil
}

// standUp notes that the store has said who leads.
func (s *Server) standUp() { s.standing.Store(nil) }

// renew keeps the lease. When the store does not confirm it in time, this server
// ceases to lead: another one may have been given the lease, or will be. It keeps
// its term for one lease period more, in which nothing is served, and goes on if the
// store then says that nobody else has led.
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
		renewed, err := s.ledger.Renew(ctx, lease, ttl)
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
		s.log.Warn("the lease could not be renewed", "error", err)
		if s.holdsLease() {
			continue
		}
		since := lease.Deadline.Add(-ttl).UTC().Format(time.RFC3339)
		reason := fmt.Sprintf("the store has not confirmed its lease since %s: %v", since, err)
		if s.standDown(reason) {
			s.log.Error("standing by", "epoch", lease.Epoch, "reason", reason)
		}
		if time.Since(lease.Deadline) > ttl {
			giveUp(fmt.Errorf("%w since %s: %w", errLapsed, since, err))
			return
		}
	}
}
