package server

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/engine/why"
)

func TestAWorkerRestsInProportionToItsWork(t *testing.T) {
	for _, c := range []struct {
		work time.Duration
		part float64
		rest time.Duration
	}{
		{time.Second, 0.25, 3 * time.Second}, {time.Millisecond, 0.5, time.Millisecond}, {time.Second, 1, 0}, {time.Second, 64, 0}, {time.Second, 0, 0},
	} {
		if rest := restFor(c.work, c.part); rest != c.rest {
			t.Errorf("after %v with %v of a core it rests for %v, want %v", c.work, c.part, rest, c.rest)
		}
	}
}

func TestTheLoopIsBusyForThePartOfItsTimeThatItWorks(t *testing.T) {
	at := func(millis int) time.Time { return time.UnixMilli(int64(millis)) }
	m := loopMeter{measured: at(0)}
	m.rest(at(10)) // it has not worked yet
	m.wake(at(100))
	m.rest(at(130))
	m.wake(at(200))
	m.rest(at(220))
	m.wake(at(500))
	if part := m.part(at(500)); part != 0.1 {
		t.Errorf("it works for %v of the time, want 50 of 500 ms", part)
	}
	m.rest(at(600))
	m.wake(at(1000))
	if part := m.part(at(1000)); part != 0.2 {
		t.Errorf("it works for %v of the time, want 100 of 500 ms", part)
	}
}

func TestAQuestionThatWorksForTooLongIsRefused(t *testing.T) {
	s := leadWith(t, t.TempDir(), Options{Settings: asking()})
	answered := false
	err := s.analyse(t.Context(), "anna", effort{cost: 1, budget: time.Hour}, func(w *worker) error {
		answered = w.proceed()
		return nil
	})
	if err != nil || !answered {
		t.Fatalf("%v, %v", answered, err)
	}
	for _, stopped := range []error{why.ErrStopped, context.Canceled} {
		err = s.analyse(t.Context(), "anna", effort{cost: 1}, func(w *worker) error {
			w.since = w.since.Add(-time.Second)
			if w.proceed() {
				t.Error("there is time left")
			}
			return stopped
		})
		if !errors.Is(err, ErrBusy) {
			t.Errorf("%v: %v", stopped, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = s.analyse(ctx, "anna", effort{cost: 1, budget: time.Hour}, func(w *worker) error {
		cancel()
		if w.proceed() {
			t.Error("the caller has gone")
		}
		return w.ctx.Err()
	})
	if !errors.Is(err, context.Canceled) || errors.Is(err, ErrBusy) {
		t.Errorf("the caller has gone: %v", err)
	}
	refused := errors.New("refused")
	if err := s.analyse(t.Context(), "anna", effort{cost: 1}, func(*worker) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("another error: %v", err)
	}
}
