package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirhq/weir/internal/sim/ahead"
)

// WhatIf runs the cluster ahead on virtual time, as it is and with the changes of a plan, and compares
// the two. It changes nothing.
func (s *Server) WhatIf(ctx context.Context, user string, plan *ahead.Plan) (a Answer[*ahead.Report], err error) {
	if a.Glass, err = s.look(ctx, false); err != nil {
		return a, err
	}
	err = s.analyse(ctx, user, goingAhead, func(func() bool) error {
		bounded, cancel := context.WithTimeout(ctx, goingAhead.budget)
		defer cancel()
		a.Value, err = ahead.Run(bounded, a.Glass.base(s), plan)
		return inTime(ctx, err, goingAhead)
	})
	return a, err
}

// WhatIfAt runs the cluster ahead from a past moment of the journal. read reads the plan with the names of that
// moment.
func (s *Server) WhatIfAt(ctx context.Context, user string, asOf time.Time, read func(ahead.Names) (*ahead.Plan, error)) (a Answer[*ahead.Report], err error) {
	err = s.analyse(ctx, user, goingAhead, func(func() bool) error {
		bounded, cancel := context.WithTimeout(ctx, goingAhead.budget)
		defer cancel()
		if a.Glass, err = s.lookBack(bounded, asOf); err != nil {
			return inTime(ctx, err, goingAhead)
		}
		plan, err := read(ahead.NamesOf(a.Glass.core, user, a.Glass.names))
		if err != nil {
			return err
		}
		a.Value, err = ahead.Run(bounded, a.Glass.base(s), plan)
		return inTime(ctx, err, goingAhead)
	})
	return a, err
}

// inTime turns the end of a question's budget into a refusal.
func inTime(ctx context.Context, err error, e effort) error {
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return fmt.Errorf("%w: the answer takes longer than %v; ask about a shorter time", ErrBusy, e.budget)
	}
	return err
}
