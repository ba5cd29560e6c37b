package server

import (
	"context"
	"time"
)

// forecastSlice is how long an ensemble works at a time while nobody looks.
const forecastSlice = 20 * time.Millisecond

// pacer spreads the work of an ensemble over time, so that forecasts never use more of a
// core than they may, not even for a moment. While somebody looks, an ensemble runs
// without pauses, and the forecaster rests afterwards instead.
type pacer struct {
	of      *forecaster
	ctx     context.Context
	exhaust context.CancelFunc // ends an ensemble that works for longer than forecastBudget
	part    float64            // of a core
	since   time.Time          // when the present slice began
	worked  time.Duration      // before it
	paused  time.Duration
}

// pace pauses if it is time to.
func (p *pacer) pace() {
	now := time.Now()
	slice := now.Sub(p.since)
	if slice < forecastSlice {
		return
	}
	p.worked += slice
	if p.worked > forecastBudget {
		p.exhaust()
	}
	if rest := p.rest(slice); rest > 0 && !p.of.isLooked() {
		p.of.absorb()
		timer := time.NewTimer(rest)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-p.of.term.server.forecasts.wake:
		case <-p.ctx.Done():
		}
	}
	p.since = time.Now()
	p.paused += p.since.Sub(now)
}

// rest returns how long the forecaster must rest after this much work.
func (p *pacer) rest(work time.Duration) time.Duration {
	if p.part >= 1 {
		return 0
	}
	return time.Duration(float64(work) * (1/p.part - 1))
}
