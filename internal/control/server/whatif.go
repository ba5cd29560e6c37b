package server

import (
	"context"
	"time"

	"github.com/weirhq/weir/internal/sim/ahead"
)

// WhatIf runs the cluster ahead on virtual time, as it is and with the changes of a plan, and compares
// the two. It changes nothing.
func (s *Server) WhatIf(ctx context.Context, user string, plan *ahead.Plan) (a Answer[*ahead.Report], err error) {
	if a.Glass, err = s.look(ctx, false); err != nil {
		return a, err
	}
	err = s.analyse(ctx, user, goingAhead, func(w *worker) error {
		a.Value, err = ahead.Run(w.ctx, a.Glass.base(s, w), plan)
		return err
	})
	return a, err
}

// WhatIfAt runs the cluster ahead from a past moment of the journal. read reads the plan with the names of that
// moment.
func (s *Server) WhatIfAt(ctx context.Context, user string, asOf time.Time, read func(ahead.Names) (*ahead.Plan, error)) (a Answer[*ahead.Report], err error) {
	err = s.analyse(ctx, user, goingAhead, func(w *worker) error {
		if a.Glass, err = s.lookBack(w, asOf); err != nil {
			return err
		}
		plan, err := read(ahead.NamesOf(a.Glass.core, user, a.Glass.names))
		if err != nil {
			return err
		}
		a.Value, err = ahead.Run(w.ctx, a.Glass.base(s, w), plan)
		return err
	})
	return a, err
}
