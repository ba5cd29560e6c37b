package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirhq/weir/internal/sim/ahead"
)

// WhatIf runs the cluster ahead on virtual time, as it is and with the changes of a plan, and compares
// the two. It changes nothing.
func (s *Server) WhatIf(ctx context.Context, user string, plan *ahead.Plan) (a Answer[*ahead.Report], err error) {
	if a.Glass, err = s.look(ctx, false); err != nil {
		return a, err
	}
	settings := s.settings()
	base := ahead.Base{
		Core: a.Glass.core, Now: a.Glass.AsOf, Gates: a.Glass.gates, UpdatePeriod: settings.UpdatePeriod, HeartbeatPeriod: settings.HeartbeatPeriod,
		Name: s.NameOf,
	}
	err = s.analyse(ctx, user, goingAhead, func(func() bool) error {
		bounded, cancel := context.WithTimeout(ctx, goingAhead.budget)
		defer cancel()
		a.Value, err = ahead.Run(bounded, base, plan)
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			err = fmt.Errorf("%w: the answer takes longer than %v; ask about a shorter time", ErrBusy, goingAhead.budget)
		}
		return err
	})
	return a, err
}
