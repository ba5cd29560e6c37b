package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/weirhq/weir/internal/control/store"
)

// Log is the log of events.
type Log interface {
	// EventsAfter returns events of some types after a position, oldest first, and whether there are more.
	EventsAfter(ctx context.Context, types []string, position int64, limit int) (events []store.Event, more bool, err error)
	// LastEvent returns the number of the last event, zero if there is none.
	LastEvent(ctx context.Context) (int64, error)
}

// Positions keeps the positions of targets.
type Positions interface {
	// Notified returns the position of a target and the dropped notices that it was not told of; false if it has none.
	Notified(ctx context.Context, target string) (position, dropped int64, known bool, err error)
	// SaveNotified stores them. It fails if this process does not lead.
	SaveNotified(ctx context.Context, target string, position, dropped int64) error
}

// ErrNoTarget reports that a target is not in the configuration.
var ErrNoTarget = errors.New("there is no such notification target")

// Notifier delivers notifications while its process leads.
type Notifier struct {
	targets   []*Target
	couriers  []*courier
	rules     []Rule
	log       Log
	positions Positions
	logger    *slog.Logger

	mutex  sync.Mutex
	states []State
}

// State is how deliveries to a target go.
type State struct {
	Target, Type string
	Waiting      int
	Delivered    uint64
	Failed       uint64
	Dropped      uint64
	// Last is the last attempt, and Error its error; empty if it succeeded or there was none.
	Last  time.Time
	Error string
}

// New returns a notifier.
func New(targets []*Target, rules []Rule, log Log, positions Positions, logger *slog.Logger) *Notifier {
	n := &Notifier{targets: targets, rules: rules, log: log, positions: positions, logger: logger}
	for _, t := range targets {
		n.couriers = append(n.couriers, newCourier(t))
		n.states = append(n.states, State{Target: t.Name, Type: t.Type()})
	}
	return n
}

// States returns how deliveries go, in the order of the configuration.
func (n *Notifier) States() []State {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return append([]State(nil), n.states...)
}

// Has reports whether there is a target of this name.
func (n *Notifier) Has(target string) bool { return n.find(target) >= 0 }

// Names returns the names of all targets.
func (n *Notifier) Names() (names []string) {
	for _, t := range n.targets {
		names = append(names, t.Name)
	}
	return names
}

func (n *Notifier) find(target string) int {
	for i, t := range n.targets {
		if t.Name == target {
			return i
		}
	}
	return -1
}

// Test sends a message of the kind "test" to a target once, and returns the error.
func (n *Notifier) Test(ctx context.Context, target, user string) error {
	i := n.find(target)
	if i < 0 {
		return fmt.Errorf("%w: %q; there are %s", ErrNoTarget, target, listed(n.Names()))
	}
	now := time.Now().UTC()
	err := n.couriers[i].deliver(ctx, now, &Message{Target: target, Kind: test, Time: now, Count: 1, Notices: []Notice{{Kind: test, Time: now, User: user}}})
	n.note(i, func(s *State) { s.attempt(now, err) })
	return err
}

func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// attempt counts a delivery.
func (s *State) attempt(now time.Time, err error) {
	s.Last, s.Error = now, ""
	if err != nil {
		s.Failed++
		s.Error = err.Error()
		return
	}
	s.Delivered++
}

func (n *Notifier) note(i int, change func(s *State)) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	change(&n.states[i])
}

// Periods of a notifier.
const (
	pollPeriod = time.Second
	// between is the time between two messages to a target: at most ten a second.
	between = 100 * time.Millisecond
	// readAtOnce is how many events are read at once.
	readAtOnce = 500
)

// Run delivers notifications until ctx ends. A target that does not answer delays no other.
func (n *Notifier) Run(ctx context.Context) {
	var group sync.WaitGroup
	for i := range n.targets {
		group.Go(func() { n.serve(ctx, i) })
	}
	group.Wait()
}

// worker delivers the notifications of one target.
type worker struct {
	*Notifier
	at    int
	queue Queue
	// position and dropped are stored.
	position, dropped int64
}

func (n *Notifier) serve(ctx context.Context, i int) {
	w := &worker{Notifier: n, at: i, queue: Queue{Target: n.targets[i].Name}}
	for begun := false; ; {
		err := error(nil)
		if !begun {
			err = w.begin(ctx)
			begun = err == nil
		}
		if begun {
			err = w.advance(ctx)
			w.note(i, func(s *State) { s.Waiting, s.Dropped = w.queue.Waiting(), w.queue.Lost })
		}
		if err != nil && ctx.Err() == nil {
			n.logger.Warn("notifications wait", "target", w.queue.Target, "error", err)
		}
		if !sleep(ctx, pollPeriod) {
			return
		}
	}
}

// begin finds the position of the target. A new target is notified of what happens from now on.
func (w *worker) begin(ctx context.Context) error {
	q := &w.queue
	position, missed, known, err := w.positions.Notified(ctx, q.Target)
	if err != nil {
		return err
	}
	if !known {
		if position, err = w.log.LastEvent(ctx); err != nil {
			return err
		}
		if err := w.positions.SaveNotified(ctx, q.Target, position, 0); err != nil {
			return err
		}
	}
	q.Begin(position)
	q.Dropped, w.position, w.dropped = missed, position, missed
	return nil
}

// advance reads new events, sends what is due and stores the position.
func (w *worker) advance(ctx context.Context) error {
	for more := true; more && ctx.Err() == nil; {
		var events []store.Event
		var err error
		if events, more, err = w.log.EventsAfter(ctx, EventTypes, w.queue.Read(), readAtOnce); err != nil {
			return err
		}
		for i := range events {
			if notice, ok := NoticeOf(&events[i]); ok {
				w.queue.Add(w.rules, notice)
			}
		}
	}
	for ctx.Err() == nil {
		now := time.Now().UTC()
		m, ok := w.queue.Next(now)
		if !ok {
			break
		}
		err := w.couriers[w.at].deliver(ctx, now, &m)
		if ctx.Err() != nil {
			return nil // the next leader delivers it, if it was not
		}
		w.note(w.at, func(s *State) { s.attempt(now, err) })
		if err != nil {
			w.queue.Failed(time.Now().UTC())
			break
		}
		w.queue.Sent(time.Now().UTC(), &m)
		if err := w.save(ctx); err != nil {
			return err
		}
		if !sleep(ctx, between) {
			return nil
		}
	}
	return w.save(ctx)
}

// save stores the position if it has changed.
func (w *worker) save(ctx context.Context) error {
	position, missed := w.queue.Position(), w.queue.Dropped
	if position == w.position && missed == w.dropped {
		return nil
	}
	if err := w.positions.SaveNotified(ctx, w.queue.Target, position, missed); err != nil {
		return err
	}
	w.position, w.dropped = position, missed
	return nil
}

// sleep waits, and reports whether ctx goes on.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
