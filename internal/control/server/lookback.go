package server

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/weirhq/weir/internal/control/recorder"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/journal"
	"github.com/weirhq/weir/internal/sim/ahead"
)

// ErrNoPast is returned for questions about a moment that the journal does not have.
var ErrNoPast = errors.New("the journal cannot answer about this moment")

// past keeps the last glass of a past moment, so that several questions about it cost one replay.
type past struct {
	mutex sync.Mutex
	glass *Glass
	asked time.Time // the moment that was asked about
	drop  *time.Timer
}

// lookBack returns the glass of a past moment: the journal is replayed up to it, off the loop. It is the state
// after the last record that is not later.
func (s *Server) lookBack(w *worker, moment time.Time) (*Glass, error) {
	s.past.mutex.Lock()
	defer s.past.mutex.Unlock()
	if g := s.past.glass; g != nil && s.past.asked.Equal(moment) {
		return g, nil
	}
	if s.recorder == nil {
		return nil, fmt.Errorf("%w: the scheduler keeps no journal; set journal/keep in its configuration, such as 24h", ErrNoPast)
	}
	file, _, err := s.recorder.Open(moment, moment)
	if err != nil { // there is nothing, or it is damaged
		return nil, fmt.Errorf("%w: %w", ErrNoPast, err)
	}
	defer file.Close()
	p := journal.NewPlayer(file)
	past, err := replayTo(w, p, moment)
	if err != nil {
		return nil, err
	}
	g := &Glass{AsOf: p.Now, Epoch: p.Header.Epoch, made: time.Now(), core: p.Core, gates: recorder.GatesOf(p), names: map[core.OperationID]string{}}
	for id, n := range p.Names {
		g.names[id] = n.ID
		if n.Alias != "" {
			g.names[id] = n.Alias
		}
	}
	g.periods = [2]time.Duration{p.Header.UpdatePeriod, p.Header.HeartbeatPeriod}
	if !past {
		return g, nil // the moment may get more records
	}
	s.past.glass, s.past.asked = g, moment
	if s.past.drop != nil {
		s.past.drop.Stop()
	}
	s.past.drop = time.AfterFunc(glassPatience, func() {
		s.past.mutex.Lock()
		defer s.past.mutex.Unlock()
		s.past.glass = nil
	})
	return g, nil
}

// stepsPerLook is the number of records between two pauses.
const stepsPerLook = 16

// replayTo plays a journal up to a moment, and reports whether the journal goes on after it.
func replayTo(w *worker, p *journal.Player, moment time.Time) (past bool, err error) {
	for steps := 0; ; steps++ {
		if steps%stepsPerLook == 0 && !w.proceed() {
			return false, w.ctx.Err()
		}
		if next := p.Next(); next.After(moment) {
			past = true
			break
		}
		_, err := p.Step()
		if errors.Is(err, io.EOF) || errors.Is(err, journal.ErrCut) {
			break
		}
		if err != nil {
			return false, fmt.Errorf("%w: %w", ErrNoPast, err)
		}
	}
	if p.Core == nil {
		return false, fmt.Errorf("%w: it has nothing up to %s", ErrNoPast, moment.Format(time.RFC3339))
	}
	return past, nil
}

// NameOf returns what users call an operation, as of the moment of the glass; without one, now.
func (g *Glass) NameOf(s *Server, id core.OperationID) string {
	if g == nil || g.names == nil {
		return s.NameOf(id)
	}
	if name, known := g.names[id]; known {
		return name
	}
	return fmt.Sprintf("operation %d", id)
}

// base returns what a run ahead from the glass starts with. It goes at the pace of a worker.
func (g *Glass) base(s *Server, w *worker) ahead.Base {
	settings := s.settings()
	update, heartbeat := settings.UpdatePeriod, settings.HeartbeatPeriod
	if g.names != nil {
		update, heartbeat = max(g.periods[0], shortestPeriod), max(g.periods[1], shortestPeriod)
	}
	return ahead.Base{
		Core: g.core, Now: g.AsOf, Gates: g.gates, UpdatePeriod: update, HeartbeatPeriod: heartbeat,
		Name: func(id core.OperationID) string { return g.NameOf(s, id) }, Pace: w.pace,
	}
}

// shortestPeriod is the least period of a run ahead from a recorded moment.
const shortestPeriod = 100 * time.Millisecond
