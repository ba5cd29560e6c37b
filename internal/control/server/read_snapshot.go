package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
)

// snapshotInterest is for how long after somebody has asked for a snapshot every
// update makes one.
const snapshotInterest = 15 * time.Second

// Snapshot returns everything that the core knew about trees, pools, operations
// and nodes at the last update, or knows since. To make one takes the loop a time
// that grows with their number. While there are readers every update makes one and
// they share it without waiting for the loop; who asks after a pause waits for one
// that is made for him. It needs nothing of the store and is given while the store
// does not answer.
func (s *Server) Snapshot(ctx context.Context) (*core.Snapshot, error) {
	s.snapshotAsked.Store(int64(time.Since(s.began)))
	t, v := s.term.Load(), s.View()
	if v.snapshot != nil && t != nil && v.Epoch == t.epoch && s.Leading() {
		return v.snapshot, nil
	}
	return askHow(ctx, s, true, func(t *term) (*core.Snapshot, error) {
		t.answerNow = true
		return t.core.Snapshot(t.now), nil
	})
}

// snapshotWanted says whether somebody has asked for a snapshot lately.
func (s *Server) snapshotWanted() bool {
	asked := time.Duration(s.snapshotAsked.Load())
	return asked > 0 && time.Since(s.began)-asked < snapshotInterest
}

// ExplainOperation says why an operation that has not ended is where it is. It
// looks at all nodes of the operation's trees.
func (s *Server) ExplainOperation(ctx context.Context, key OperationKey) (core.OperationExplanation, error) {
	return askHow(ctx, s, true, func(t *term) (core.OperationExplanation, error) {
		t.answerNow = true
		op, err := t.find(key)
		if err != nil {
			return core.OperationExplanation{}, err
		}
		found, err := t.core.ExplainOperation(t.now, op.record.Number)
		if errors.Is(err, core.ErrNoOperation) {
			err = fmt.Errorf("%w: %s", ErrOperationEnded, op.record.ID)
		}
		return found, err
	})
}

// RunningJobs returns the running jobs of an operation as the core sees them, with
// their classes of preemption, tree by tree, oldest first.
func (s *Server) RunningJobs(ctx context.Context, id core.OperationID) ([]core.JobInfo, error) {
	return askHow(ctx, s, true, func(t *term) ([]core.JobInfo, error) {
		t.answerNow = true
		return t.core.JobsOf(id), nil
	})
}
