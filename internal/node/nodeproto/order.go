package nodeproto

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
)

// ErrNotConfirmed is returned for a start in a session that no heartbeat has confirmed.
var ErrNotConfirmed = errors.New("the session is not confirmed by a heartbeat yet")

// Start queues the start of a job. Jobs of one task should share one specification: a response
// carries it once. The job finds the files of restore in its sandbox, none if it is nil. The arguments must not be modified
// afterwards.
func (s *Session) Start(identity *nodev1.JobIdentity, spec *nodev1.JobSpec, environment []*nodev1.Variable, restore *nodev1.Content) error {
	number := identity.GetNumber()
	switch {
	case !s.Confirmed():
		return ErrNotConfirmed
	case number == 0 || spec == nil:
		return errors.New("a start needs the number of a job and a specification")
	case s.jobs[number] != nil || s.startIndex(s.pending, number) >= 0 || s.startIndex(s.queued, number) >= 0:
		return fmt.Errorf("job %d is on node %s already", number, s.node)
	}
	s.queued = append(s.queued, pendingOrder{after: s.after, spec: spec, order: &nodev1.Order{Order: &nodev1.Order_Start{
		Start: &nodev1.StartOrder{Identity: identity, Environment: environment, Restore: restore},
	}}})
	return nil
}

// Interrupt queues an order that asks a job to end by itself.
func (s *Session) Interrupt(order *nodev1.InterruptOrder) {
	if !s.over(order.GetNumber()) {
		s.queued = append(s.queued, pendingOrder{after: s.after, order: &nodev1.Order{Order: &nodev1.Order_Interrupt{Interrupt: order}}})
	}
}

// Abort queues the abort of a job. If no response has carried its start yet, Abort withdraws
// all its orders instead and returns true: the job has not started and there will be no
// result. Otherwise a result will come, or the job turns out to be lost.
func (s *Session) Abort(order *nodev1.AbortOrder) (never bool) {
	number := order.GetNumber()
	if s.startIndex(s.queued, number) >= 0 {
		s.queued = slices.DeleteFunc(s.queued, func(p pendingOrder) bool { return p.job() == number })
		return true
	}
	if !s.over(number) {
		s.queued = append(s.queued, pendingOrder{after: s.after, order: &nodev1.Order{Order: &nodev1.Order_Abort{Abort: order}}})
	}
	return false
}

// Acknowledge queues the confirmation that the results of these jobs are durable. It does not
// matter whether this session delivered them.
func (s *Session) Acknowledge(numbers ...uint64) {
	if len(numbers) == 0 {
		return
	}
	// Adjacent acknowledgements that no response has carried are merged.
	if last := len(s.queued) - 1; last >= 0 {
		if order := s.queued[last].order.GetAcknowledge(); order != nil && s.queued[last].after == s.after {
			order.Numbers = append(order.Numbers, numbers...)
			return
		}
	}
	s.queued = append(s.queued, pendingOrder{after: s.after, order: &nodev1.Order{Order: &nodev1.Order_Acknowledge{
		Acknowledge: &nodev1.AcknowledgeOrder{Numbers: slices.Clone(numbers)},
	}}})
}

// OpenStream queues an order that asks the node to connect a job with a caller who waits.
func (s *Session) OpenStream(order *nodev1.OpenStreamOrder) {
	s.queued = append(s.queued, pendingOrder{after: s.after, order: &nodev1.Order{Order: &nodev1.Order_OpenStream{OpenStream: order}}})
}

// PruneImages queues an order to delete the images that no job of the node uses.
func (s *Session) PruneImages() {
	s.queued = append(s.queued, pendingOrder{after: s.after, order: &nodev1.Order{Order: &nodev1.Order_PruneImages{PruneImages: &nodev1.PruneImagesOrder{}}}})
}

// After sets the commit that orders queued from now on depend on. They are sent when it is
// released. Numbers grow; zero is always durable.
func (s *Session) After(commit uint64) { s.after = commit }

// Release allows the session to send the orders that depend on this commit or an earlier one.
func (s *Session) Release(commit uint64) { s.released = max(s.released, commit) }

// Held reports whether an order waits for a commit.
func (s *Session) Held() bool {
	return slices.ContainsFunc(s.queued, func(p pendingOrder) bool { return p.after > s.released })
}

// Outstanding is how many orders the node has not acknowledged.
func (s *Session) Outstanding() int { return len(s.pending) + len(s.queued) }

// job is the job that an order is about; acknowledgements are about none in particular.
func (p pendingOrder) job() uint64 {
	switch order := p.order.GetOrder().(type) {
	case *nodev1.Order_Start:
		return order.Start.GetIdentity().GetNumber()
	case *nodev1.Order_Interrupt:
		return order.Interrupt.GetNumber()
	case *nodev1.Order_Abort:
		return order.Abort.GetNumber()
	case *nodev1.Order_OpenStream:
		return order.OpenStream.GetNumber()
	}
	return 0
}

// over reports whether the result of a job has been delivered: there is nothing to stop.
func (s *Session) over(number uint64) bool {
	job := s.jobs[number]
	return job != nil && job.delivered
}

// startIndex finds the start of a job among orders, -1 if there is none.
func (s *Session) startIndex(orders []pendingOrder, number uint64) int {
	return slices.IndexFunc(orders, func(p pendingOrder) bool { return p.order.GetStart() != nil && p.job() == number })
}
