package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirhq/weir/internal/engine/why"
)

// Work beside the loop goes in slices. Between two of them the processor is free, so that a heartbeat that
// arrives meanwhile waits for one slice, not for an answer.
const (
	// workSlice is how long a worker works before it pauses.
	workSlice = 500 * time.Microsecond
	// leastRest is the pause after a slice. It is long enough for the runtime to look for messages of the network, which it does not
	// do while a goroutine that only yields is ready to run.
	leastRest = 100 * time.Microsecond
	// longestRest bounds the pause after a slice during which the machine did something else.
	longestRest = 50 * time.Millisecond
	// busyLoop is the part of its time that a busy loop works.
	busyLoop = 0.05
	// slowest is how many times longer than its budget a question may take because it gives way.
	slowest = 4
)

// worker answers one question beside the loop. It gives way: while the loop is busy, it stays below its part of a core at
// every moment; otherwise it only pauses, and the next question waits for the rest of the time.
type worker struct {
	server *Server
	asked  context.Context
	ctx    context.Context // ends with asked, and when the question has used up its budget
	stop   context.CancelCauseFunc
	effort effort
	part   float64 // of a core

	since          time.Time // when the present slice began
	worked, rested time.Duration
}

// newWorker returns a worker; release must be called in the end.
func (s *Server) newWorker(ctx context.Context, e effort) *worker {
	w := &worker{server: s, asked: ctx, effort: e, part: s.settings().AnalysisCPU, since: time.Now()}
	w.ctx, w.stop = context.WithCancelCause(ctx)
	return w
}

// release ends the work and returns how long the next question must wait, so that all stay below their part
// of a core.
func (w *worker) release() time.Duration {
	w.worked += time.Since(w.since)
	w.stop(nil)
	return restFor(w.worked, w.part) - w.rested
}

// restFor returns how long a worker with a part of a core rests after work.
func restFor(work time.Duration, part float64) time.Duration {
	if part <= 0 || part >= 1 {
		return 0
	}
	return time.Duration(float64(work) * (1/part - 1))
}

// proceed reports whether there is time left. It may pause.
func (w *worker) proceed() bool {
	w.pace()
	return w.ctx.Err() == nil
}

// pace pauses if it is time to.
func (w *worker) pace() {
	now := time.Now()
	slice := now.Sub(w.since)
	if slice < workSlice {
		return
	}
	w.worked += slice
	if w.worked > w.effort.budget || w.worked+w.rested > slowest*w.effort.budget {
		w.stop(fmt.Errorf("%w: the answer takes longer than %v; ask for less", ErrBusy, w.effort.budget))
	}
	rest := leastRest
	if w.server.isLoopBusy() {
		rest = min(max(restFor(slice, w.part), rest), longestRest)
	}
	w.sleep(rest)
	w.yield(now)
	w.since = time.Now()
	w.rested += w.since.Sub(now)
}

// yield waits while the loop's queue is too long or the store stalls, but not for ever.
func (w *worker) yield(since time.Time) {
	for w.ctx.Err() == nil && w.server.isStrained() {
		if time.Since(since) > busyPatience {
			w.stop(errStrained)
			return
		}
		w.sleep(pausePeriod)
	}
}

func (w *worker) sleep(d time.Duration) {
	if w.ctx.Err() != nil {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.ctx.Done():
	}
}

// verdict returns the error of a question: if it was stopped, the reason.
func (w *worker) verdict(err error) error {
	stopped := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, why.ErrStopped)
	if err == nil || !stopped || w.ctx.Err() == nil || w.asked.Err() != nil {
		return err
	}
	return context.Cause(w.ctx)
}

// errStrained refuses a question because the scheduler has more urgent work.
var errStrained = fmt.Errorf("%w: the scheduler is overloaded, or its store does not answer", ErrBusy)

// isStrained reports whether questions must wait: the loop's queue is too long, or the store stalls.
func (s *Server) isStrained() bool {
	t := s.term.Load()
	return t != nil && (len(t.requests) > s.settings().SoftQueue || t.stalled())
}

// isLoopBusy reports whether the loop was busy before its last update.
func (s *Server) isLoopBusy() bool {
	t := s.term.Load()
	return t != nil && t.busy.Load()
}

// loopMeter measures which part of its time the loop works.
type loopMeter struct {
	woke, measured time.Time // when the loop last had something to do, and the last measurement
	worked         time.Duration
}

// wake notes that the loop has something to do.
func (m *loopMeter) wake(now time.Time) { m.woke = now }

// rest notes that the loop waits.
func (m *loopMeter) rest(now time.Time) {
	if !m.woke.IsZero() {
		m.worked += now.Sub(m.woke)
	}
}

// part returns the part of the time since the last call that the loop worked, up to now.
func (m *loopMeter) part(now time.Time) float64 {
	elapsed := now.Sub(m.measured)
	worked := m.worked
	m.measured, m.worked = now, 0
	if elapsed <= 0 {
		return 0
	}
	return float64(worked) / float64(elapsed)
}
