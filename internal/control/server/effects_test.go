package server

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
)

// hearer is a node that records the orders it receives.
type hearer struct {
	*machine
	aborted, acknowledged []uint64
	started               int
}

// beat exchanges one heartbeat, if the scheduler answers.
func (h *hearer) beat(s *scheduler) {
	h.t.Helper()
	service, peer := s.NodeService(), nodeproto.Peer{Node: nodeproto.AnyNode}
	ctx, cancel := context.WithTimeout(h.t.Context(), time.Minute)
	defer cancel()
	if _, registered := h.session.Registered(); !registered {
		response, err := service.Register(ctx, peer, h.session.Register())
		if err != nil {
			return
		}
		if err := h.session.Welcome(response); err != nil {
			h.t.Fatal(err)
		}
	}
	request, err := h.session.Heartbeat()
	if err != nil {
		h.t.Fatal(err)
	}
	response, err := service.Heartbeat(ctx, peer, request)
	if err != nil {
		h.session.Failed(request.GetSequence(), err)
		return
	}
	orders, err := h.session.Receive(time.Now(), response)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, start := range orders.Start {
		h.started++
		h.jobs[start.Identity.GetNumber()] = start
	}
	for _, abort := range orders.Abort {
		h.aborted = append(h.aborted, abort.GetNumber())
		h.end(abort.GetNumber(), nodev1.JobState_JOB_STATE_ABORTED, abort.GetAbortReason())
	}
	h.acknowledged = append(h.acknowledged, orders.Acknowledged...)
}

// TestNoOrderLeavesBeforeWhatItRestsOnIsDurable replays the same history to leaders whose store
// fails one commit later each time, until it no longer fails.
func TestNoOrderLeavesBeforeWhatItRestsOnIsDurable(t *testing.T) {
	aborts, acknowledgements := 0, 0
	for commits := int64(0); ; commits++ {
		whole := false
		directory := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			settings := quickSettings()
			settings.UpdatePeriod, settings.ProgressPeriod = time.Second, time.Hour
			settings.StallPatience, settings.LeaseTTL = time.Second, 3*time.Second
			s, link := runCuttable(t, directory, "a", settings)
			<-s.Led()
			s.pools("{pools: {p: {}}}")
			h := &hearer{machine: newMachine(t, "node-1", 4)}
			h.beat(s)
			id := s.start(fmt.Sprintf(small, "p", 8))
			other := s.start(fmt.Sprintf(small, "p", 2))
			<-time.After(5 * time.Second) // until everything is on disk
			var left atomic.Int64
			left.Store(commits)
			link.refuseBy(func(batch *store.Batch) error {
				if !batch.Empty() && left.Add(-1) < 0 {
					return fmt.Errorf("%w: the test says so", store.ErrUnavailable)
				}
				return nil
			})
			check := func() {
				t.Helper()
				ended, err := s.Store().EndedJobs(t.Context(), append(h.acknowledged, h.aborted...))
				if err != nil {
					t.Fatal(err)
				}
				for _, job := range h.acknowledged {
					if !ended[job] {
						t.Errorf("with %d commits the end of job %d is acknowledged and not stored", commits, job)
					}
				}
				for _, job := range h.aborted {
					if !ended[job] {
						t.Errorf("with %d commits job %d is aborted although nothing that is stored says so", commits, job)
					}
				}
			}
			step := func(beats int) {
				for range beats {
					<-time.After(300 * time.Millisecond)
					h.beat(s)
					check()
				}
			}
			ask := func(f func()) {
				go f() // might never be answered
				synctest.Wait()
			}
			step(3)
			h.end(h.some(), nodev1.JobState_JOB_STATE_COMPLETED, "")
			step(2)
			ask(func() { _ = s.AbortOperation(context.Background(), tester, OperationKey{ID: id}, "enough") })
			h.beat(s) // before anything could be committed
			check()
			step(5)
			h.end(h.some(), nodev1.JobState_JOB_STATE_COMPLETED, "")
			step(2)
			ask(func() { _ = s.AbortOperation(context.Background(), tester, OperationKey{ID: other}, "enough") })
			step(5)
			whole = left.Load() >= 0
			aborts, acknowledgements = aborts+len(h.aborted), acknowledgements+len(h.acknowledged)
			s.stop()
		})
		if t.Failed() {
			return
		}
		if whole {
			if aborts == 0 || acknowledgements == 0 {
				t.Errorf("%d orders to abort and %d acknowledgements were given", aborts, acknowledgements)
			}
			t.Logf("the store failed at each of %d commits; %d orders to abort, %d acknowledgements", commits, aborts, acknowledgements)
			return
		}
	}
}
