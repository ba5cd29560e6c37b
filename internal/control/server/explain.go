package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirhq/weir/internal/engine/core"
)

// ExplainOperation explains the current state of an operation that has not ended.
// It examines all nodes of the operation's trees.
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
// their preemption classes, by tree, oldest first.
func (s *Server) RunningJobs(ctx context.Context, id core.OperationID) ([]core.JobInfo, error) {
	return askHow(ctx, s, true, func(t *term) ([]core.JobInfo, error) {
		t.answerNow = true
		return t.core.JobsOf(id), nil
	})
}
