package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/why"
	"github.com/weirhq/weir/internal/sim/ahead"
)

// Answer is an answer with the moment that it is about.
type Answer[T any] struct {
	Glass *Glass
	Value T
}

// question answers a question of a user on a glass, off the loop. If the subject is unknown there,
// it may be newer than the glass: then it answers on a fresh one.
//
// A question about a past moment is answered on a glass of the journal.
func question[T any](ctx context.Context, s *Server, user string, e effort, asOf time.Time, f func(*why.Scene, *worker) (T, error)) (a Answer[T], err error) {
	if !asOf.IsZero() {
		err = s.analyse(ctx, user, lookingBack, func(w *worker) (err error) {
			if a.Glass, err = s.lookBack(w, asOf); err != nil {
				return err
			}
			a.Value, err = f(a.Glass.scene(w), w)
			return err
		})
		return a, err
	}
	for _, fresh := range []bool{false, true} {
		if a.Glass, err = s.look(ctx, fresh); err != nil {
			return a, err
		}
		err = s.analyse(ctx, user, e, func(w *worker) (err error) {
			a.Value, err = f(a.Glass.scene(w), w)
			return err
		})
		var pool *core.PoolError
		if !errors.Is(err, core.ErrNoOperation) && !errors.Is(err, why.ErrNoJob) && !errors.As(err, &pool) {
			break
		}
	}
	return a, err
}

// ExplainOperation explains what an operation that has not ended waits for. With sole, it finds out
// which blockers alone keep its jobs from starting. asOf is a moment of the journal; zero means now.
func (s *Server) ExplainOperation(ctx context.Context, user string, id core.OperationID, sole bool, asOf time.Time) (Answer[*why.Operation], error) {
	a, err := question(ctx, s, user, explaining, asOf, func(scene *why.Scene, w *worker) (*why.Operation, error) {
		x, err := scene.Operation(id)
		if err == nil && sole {
			scene.Sole(x.Blockers, w.proceed)
		}
		return x, err
	})
	switch {
	case errors.Is(err, core.ErrNoOperation) && !asOf.IsZero():
		err = fmt.Errorf("%w: %s did not run or wait at %s", ErrNoPast, s.NameOf(id), asOf.Format(time.RFC3339))
	case errors.Is(err, core.ErrNoOperation):
		err = fmt.Errorf("%w: %s", ErrOperationEnded, s.NameOf(id))
	}
	return a, err
}

// AdviseOperation searches for the least changes that let an operation start jobs now.
func (s *Server) AdviseOperation(ctx context.Context, user string, q why.Question) (Answer[*why.Advice], error) {
	settings := s.settings()
	e := advising
	if q.By > 0 {
		e = goingAhead
	}
	a, err := question(ctx, s, user, e, time.Time{}, func(scene *why.Scene, w *worker) (*why.Advice, error) {
		var failed error
		q.Ahead = func(c *core.Core, gates why.Gates, id core.OperationID) (int, time.Time) {
			base := ahead.Base{
				Core: c, Now: scene.AsOf(), Gates: gates, UpdatePeriod: settings.UpdatePeriod, HeartbeatPeriod: settings.HeartbeatPeriod, Pace: w.pace,
			}
			starts, first, err := ahead.StartsBy(w.ctx, base, id, q.By)
			failed = errors.Join(failed, err)
			return starts, first
		}
		x, err := scene.Advise(q, func() bool { return failed == nil && w.proceed() })
		return x, errors.Join(err, failed)
	})
	if errors.Is(err, core.ErrNoOperation) {
		err = fmt.Errorf("%w: %s", ErrOperationEnded, s.NameOf(q.Operation))
	}
	return a, err
}

// ExplainPool explains what a pool demands and does not have.
func (s *Server) ExplainPool(ctx context.Context, user, tree, pool string, asOf time.Time) (Answer[*why.Pool], error) {
	return question(ctx, s, user, explaining, asOf, func(scene *why.Scene, w *worker) (*why.Pool, error) {
		return scene.Pool(tree, pool, w.proceed)
	})
}

// ExplainJob explains a running job.
func (s *Server) ExplainJob(ctx context.Context, user string, id core.JobID) (Answer[*why.Job], error) {
	return question(ctx, s, user, explaining, time.Time{}, func(scene *why.Scene, _ *worker) (*why.Job, error) { return scene.Job(id) })
}

// Cluster explains what all trees demand and do not have.
type Cluster struct {
	Gates why.Gates
	Trees []*why.Pool
}

// ExplainCluster explains what waits in the whole cluster.
func (s *Server) ExplainCluster(ctx context.Context, user string, asOf time.Time) (Answer[*Cluster], error) {
	trees := s.Trees()
	return question(ctx, s, user, explaining, asOf, func(scene *why.Scene, w *worker) (*Cluster, error) {
		x := &Cluster{Gates: scene.Gates()}
		for _, name := range scene.Trees() {
			if _, there := trees.Find(name); !there && asOf.IsZero() {
				continue
			}
			root, err := scene.Pool(name, core.RootName, w.proceed)
			if err != nil {
				return nil, err
			}
			x.Trees = append(x.Trees, root)
		}
		return x, nil
	})
}

// NameOf returns what users call an operation: its alias, or its id.
func (s *Server) NameOf(id core.OperationID) string {
	op, ok := s.numbers.get(id)
	switch {
	case !ok:
		return fmt.Sprintf("operation %d", id)
	case op.Alias() != "":
		return op.Alias()
	}
	return op.ID.String()
}

// RunningJobs returns the running jobs of an operation as the core sees them, with
// their preemption classes, by tree, oldest first.
func (s *Server) RunningJobs(ctx context.Context, id core.OperationID) ([]core.JobInfo, error) {
	return askHow(ctx, s, true, func(t *term) ([]core.JobInfo, error) {
		t.answerNow = true
		return t.core.JobsOf(id), nil
	})
}
