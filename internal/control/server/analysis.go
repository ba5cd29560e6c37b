package server

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"
)

// ErrBusy is returned for a question that must wait too long, or that would exceed what its user
// may ask. It is a case of ErrOverloaded.
var ErrBusy = fmt.Errorf("%w: analyses are busy", ErrOverloaded)

// Limits of analyses.
const (
	// busyPatience is how long a question waits for its turn.
	busyPatience = 10 * time.Second
	// longestPause is the most that questions wait after one that took long.
	longestPause = 5 * time.Second
	// pausePeriod is the interval between checks whether the loop has caught up.
	pausePeriod = 20 * time.Millisecond
)

// analyses bound what questions about the core cost. Workers run them beside the loop.
type analyses struct {
	mutex sync.Mutex
	// running is the number of questions that run; free is when the next one may start, so that
	// all together stay below the part of a core that they may use.
	running int
	free    time.Time
	users   map[string]*asker
	changed chan struct{} // closed and replaced when a question ends
}

// asker is a user who asks.
type asker struct {
	running bool
	asked   []time.Time // the questions of the last minute
}

func newAnalyses() *analyses {
	return &analyses{users: map[string]*asker{}, changed: make(chan struct{})}
}

// defaultAnalysisCPU is the part of a core that analyses may use by default.
func defaultAnalysisCPU() float64 {
	if runtime.NumCPU() <= 4 {
		return 0.25
	}
	return 1
}

// effort is what a kind of question may cost: how many questions of a user's minute it counts as, and
// how long it may run.
type effort struct {
	cost   int
	budget time.Duration
}

var (
	explaining = effort{1, 2 * time.Second}
	advising   = effort{5, 2 * time.Second}
	goingAhead = effort{5, 30 * time.Second}
	// lookingBack replays at most a segment of the journal.
	lookingBack = effort{5, 30 * time.Second}
)

// analyse runs a question of a user on a worker. The question must call proceed or pace of the worker often, and stop
// soon after its context ends.
func (s *Server) analyse(ctx context.Context, user string, e effort, question func(*worker) error) error {
	deadline := time.Now().Add(busyPatience)
	if err := s.analyses.admit(ctx, s, user, e.cost, deadline); err != nil {
		return err
	}
	w := s.newWorker(ctx, e)
	defer func() { s.analyses.done(user, w.release()) }()
	if err := s.calm(ctx, deadline); err != nil {
		return err
	}
	w.since = time.Now()
	return w.verdict(question(w))
}

// admit waits until the user and a worker are free.
func (a *analyses) admit(ctx context.Context, s *Server, user string, cost int, deadline time.Time) error {
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	for {
		settings, now := s.settings(), time.Now()
		a.mutex.Lock()
		who := a.users[user]
		if who == nil {
			who = &asker{}
			a.users[user] = who
		}
		for len(who.asked) > 0 && now.Sub(who.asked[0]) > time.Minute {
			who.asked = who.asked[1:]
		}
		if most := settings.QuestionsPerMinute; len(who.asked) > 0 && len(who.asked)+cost > most || most == 0 {
			a.mutex.Unlock()
			return fmt.Errorf("%w: user %s has asked as much in the last minute as the limit of %d questions allows", ErrBusy, user, most)
		}
		wait := a.free.Sub(now)
		if !who.running && a.running < max(settings.AnalysisWorkers, 1) && wait <= 0 {
			who.running = true
			for range cost {
				who.asked = append(who.asked, now)
			}
			a.running++
			a.mutex.Unlock()
			return nil
		}
		changed := a.changed
		a.mutex.Unlock()
		pause := time.NewTimer(max(wait, time.Millisecond))
		var paused <-chan time.Time
		if wait > 0 {
			paused = pause.C
		}
		select {
		case <-changed:
		case <-paused:
		case <-timer.C:
			pause.Stop()
			return fmt.Errorf("%w: the question has waited for %v", ErrBusy, busyPatience)
		case <-ctx.Done():
			pause.Stop()
			return ctx.Err()
		}
		pause.Stop()
	}
}

// done ends a question. The next one waits for the rest that this one owes, so that analyses stay below their
// part of a core.
func (a *analyses) done(user string, rest time.Duration) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.running--
	who := a.users[user]
	who.running = false
	if len(who.asked) == 0 {
		delete(a.users, user)
	}
	for name, other := range a.users { // forget users who ask no more
		if n := len(other.asked); !other.running && n > 0 && time.Since(other.asked[n-1]) > time.Minute {
			delete(a.users, name)
		}
	}
	if free := time.Now().Add(min(rest, longestPause)); rest > 0 && free.After(a.free) {
		a.free = free
	}
	close(a.changed)
	a.changed = make(chan struct{})
}

// calm waits while the loop's queue is too long or the store stalls.
func (s *Server) calm(ctx context.Context, deadline time.Time) error {
	for {
		t := s.term.Load()
		if t == nil {
			return s.refusal()
		}
		if !s.isStrained() {
			return nil
		}
		if time.Now().After(deadline) {
			return errStrained
		}
		select {
		case <-time.After(pausePeriod):
		case <-t.over:
			return ErrNotLeading
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
