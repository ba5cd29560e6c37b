package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/journal"
)

// Errors that any request may return.
var (
	// ErrNotLeading is returned by a server that stands by, or that lost the lead while the
	// request waited. In that case it is unknown whether the request had an effect.
	ErrNotLeading = errors.New("this scheduler does not lead")
	// ErrOverloaded is returned when too many requests wait, or when the store does not
	// answer. The request had no effect.
	ErrOverloaded = errors.New("the scheduler is overloaded")
	// ErrUnknownOutcome is returned for a request that was carried out but that the store
	// has neither committed nor refused. It is unknown whether it will have an effect.
	ErrUnknownOutcome = errors.New("it is unknown whether the request took effect")
)

// longestQueue is the maximum number of waiting requests, unless the setting was higher
// when the term started.
const longestQueue = 1 << 16

// request is a closure that the loop runs. If it returns an error, it must leave everything
// unchanged.
type request struct {
	run func(t *term) error
	// hurried requests are accepted while the store is stalled: they arrange not to wait
	// for it.
	hurried bool
	done    chan error
}

// ask runs a closure on the loop and returns when its changes are on disk. Once the loop
// has the closure, cancelling ctx has no effect: a caller that retries with the same
// mutation id must find that the request was carried out.
func ask[T any](ctx context.Context, s *Server, f func(t *term) (T, error)) (T, error) {
	return askHow(ctx, s, false, f)
}

func askHow[T any](ctx context.Context, s *Server, hurried bool, f func(t *term) (T, error)) (T, error) {
	var result, nothing T
	t := s.term.Load()
	if t == nil {
		return nothing, s.refusal()
	}
	if !s.Leading() {
		return nothing, s.refusal()
	}
	if !hurried {
		if err := t.admits(); err != nil {
			return nothing, err
		}
	}
	r := &request{done: make(chan error, 1), hurried: hurried}
	r.run = func(t *term) (err error) {
		result, err = f(t)
		return err
	}
	select {
	case t.requests <- r:
	case <-t.over:
		return nothing, ErrNotLeading
	case <-ctx.Done():
		return nothing, fmt.Errorf("%w: the loop did not accept the request", ErrOverloaded)
	}
	answer := func(err error) (T, error) {
		if !s.holdsLease() { // another leader may have answered since
			return nothing, s.refusal()
		}
		if err != nil {
			return nothing, err
		}
		return result, nil
	}
	var givenUp <-chan struct{}
	var lapsed <-chan time.Time
	timer := time.NewTimer(s.leaseLeft())
	defer timer.Stop()
	if hurried {
		givenUp, lapsed = ctx.Done(), timer.C
	}
	for {
		select {
		case err := <-r.done:
			return answer(err)
		case <-t.over:
			select {
			case err := <-r.done: // the last commit included it
				return answer(err)
			default:
				return nothing, s.refusal()
			}
		case <-lapsed: // a node that waits for a commit must not miss the next leader
			if !s.holdsLease() {
				return nothing, s.refusal()
			}
			timer.Reset(s.leaseLeft())
		case <-givenUp:
			return nothing, ctx.Err()
		}
	}
}

// WaitOutcome waits until done is closed by a request that runs beside its caller. It
// returns ErrUnknownOutcome if the store is stalled for too long. The request goes on:
// a repetition must find what became of it.
func (s *Server) WaitOutcome(done <-chan struct{}) error {
	timer := time.NewTimer(s.answerPatience())
	defer timer.Stop()
	for {
		select {
		case <-done:
			return nil
		case <-timer.C:
		}
		patience := s.answerPatience()
		if t := s.term.Load(); t != nil {
			if stalled := t.stalledFor(); stalled > patience {
				return fmt.Errorf("%w: the store has not answered for %v; retry with the same mutation id", ErrUnknownOutcome, stalled.Round(100*time.Millisecond))
			}
		}
		timer.Reset(patience)
	}
}

// askBounded is ask for callers that may ask again whatever became of the request.
func askBounded[T any](ctx context.Context, s *Server, f func(t *term) (T, error)) (T, error) {
	var result, nothing T
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		result, err = ask(ctx, s, f)
	}()
	if unknown := s.WaitOutcome(done); unknown != nil {
		return nothing, unknown
	}
	return result, err
}

// answerPatience is how long the store may be stalled before waiting callers get
// ErrUnknownOutcome.
func (s *Server) answerPatience() time.Duration {
	settings := s.settings()
	return settings.StallPatience + settings.LeaseTTL
}

// refusal is the error of a server that does not lead, with the reason if there is one.
func (s *Server) refusal() error {
	if reason := s.Standing(); reason != "" {
		return fmt.Errorf("%w: %s", ErrNotLeading, reason)
	}
	return ErrNotLeading
}

// admits returns an error unless one more request may wait.
func (t *term) admits() error {
	if n := len(t.requests); n >= t.server.settings().HardQueue || n == cap(t.requests) {
		return fmt.Errorf("%w: %d requests wait", ErrOverloaded, len(t.requests))
	}
	if d := t.stalledFor(); d > t.server.settings().StallPatience {
		return fmt.Errorf("%w: the store has not answered for %v", ErrOverloaded, d.Round(100*time.Millisecond))
	}
	return nil
}

// stalledFor returns how long the commit in flight has taken.
func (t *term) stalledFor() time.Duration {
	if since := t.stalledSince.Load(); since != 0 {
		return time.Since(t.server.began) - time.Duration(since)
	}
	return 0
}

// batch is what one commit writes, with the requests that wait for it.
type batch struct {
	number  uint64 // counts the batches of a term, from 1
	rows    store.Batch
	waiting []waiting
	// published functions run on the loop when the rows are on disk.
	published []func(store.Receipt)
	// pools says that pools have changed: readers get a new picture before the callers get
	// their answers, so that they see their own changes.
	pools bool
	// ordered are nodes whose held heartbeats are answered when the rows are on disk, because they have orders.
	ordered []*activeNode
}

type waiting struct {
	request *request
	err     error
}

// commitResult is the outcome of a batch.
type commitResult struct {
	batch   *batch
	receipt store.Receipt
	err     error
}

// loop runs until the term ends and returns the reason.
func (t *term) loop(ctx context.Context) error {
	update := time.NewTimer(0)
	defer update.Stop()
	var window commitWindow
	defer window.close()
	t.held.wake = time.NewTimer(time.Hour)
	defer t.held.wake.Stop()
	meter := loopMeter{measured: time.Now()}
	for {
		due := false
		meter.rest(time.Now())
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case r := <-t.requests:
			meter.wake(time.Now())
			t.serve(r)
			t.drain()
		case <-update.C:
			began := time.Now()
			meter.wake(began)
			t.busy.Store(meter.part(began) > busyLoop)
			if t.server.holdsLease() {
				t.tick(began)
			} else {
				t.now = t.clock()
				t.enterAbsence()
			}
			update.Reset(max(t.server.settings().UpdatePeriod-time.Since(began), time.Millisecond))
		case result := <-t.committed:
			meter.wake(time.Now())
			if result.err != nil {
				return result.err
			}
			t.settle(result)
			t.send()
			due = true // requests that came meanwhile have waited long enough
		case <-window.passed():
			meter.wake(time.Now())
			due = true
		case <-t.held.wake.C:
			meter.wake(time.Now())
			t.endHolds()
		}
		t.offer()
		t.held.setWake()
		if t.failure != nil {
			return t.failure
		}
		if !due && window.holds(t) {
			continue
		}
		window.close()
		if err := t.flush(); err != nil {
			return err
		}
	}
}

// commitWindow keeps a batch open for a short time, so that more requests share it.
type commitWindow struct{ timer *time.Timer }

// passed returns a channel that is ready when the batch has waited long enough.
func (w *commitWindow) passed() <-chan time.Time {
	if w.timer == nil {
		return nil
	}
	return w.timer.C
}

// holds reports whether the open batch still waits for more requests. The wait starts with
// the first request in the batch and ends when there are enough.
func (w *commitWindow) holds(t *term) bool {
	settings := t.server.settings()
	if n := len(t.open.waiting); settings.CommitWindow <= 0 || n == 0 || n >= settings.MaxBatch || t.flight != nil {
		return false
	}
	if w.timer == nil {
		w.timer = time.NewTimer(settings.CommitWindow)
	}
	return true
}

func (w *commitWindow) close() {
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
}

// drain serves all requests that already wait, so that they share one commit.
func (t *term) drain() {
	for range t.server.settings().MaxBatch {
		if t.open.isFull() {
			if err := t.flush(); err != nil {
				t.failure = err
				return
			}
		}
		select {
		case r := <-t.requests:
			t.serve(r)
		default:
			return
		}
	}
}

// serve runs a request on the core.
func (t *term) serve(r *request) {
	if !t.server.holdsLease() {
		r.done <- t.server.refusal()
		return
	}
	t.now = t.clock()
	t.obeySettings()
	t.answerNow, t.serving = false, r
	if !r.hurried {
		t.held.stir()
	}
	err := r.run(t)
	t.take()
	switch {
	case t.serving == nil:
		return
	case t.answerNow:
		r.done <- err
		return
	}
	t.open.waiting = append(t.open.waiting, waiting{r, err})
}

// stalled reports whether the commit in flight takes too long.
func (t *term) stalled() bool {
	return t.stalledFor() > t.server.settings().StallPatience
}

// clock returns the time for the core, as journals keep it.
func (t *term) clock() time.Time {
	machine := time.Now()
	return journal.Moment(t.steady.now(machine.UTC(), machine.Sub(t.server.began))) // the difference is that of the monotonic clock
}

// fullBatch is how many rows of jobs and events close a batch. A commit of that many takes some ten milliseconds more
// than an empty one. If batches grew with the number of requests that wait, each request would wait for all others
// before it and for all others beside it.
const fullBatch = 1024

// isFull reports whether the next request belongs into another batch.
func (b *batch) isFull() bool { return len(b.rows.Put.Jobs)+len(b.rows.Put.Events) >= fullBatch }

// flush closes the open batch and passes it to the committer. While the committer is busy, it does so only with a full
// batch, which then waits. A batch without rows needs no commit, but its answers may depend on the batch that is being
// committed.
func (t *term) flush() error {
	if t.flight != nil && !t.open.isFull() {
		return nil
	}
	if err := t.store(); err != nil {
		return err
	}
	t.markSeen()
	b := t.open
	t.open = &batch{number: b.number + 1}
	if b.rows.Empty() {
		t.settle(commitResult{batch: b})
		return nil
	}
	t.closed = append(t.closed, b)
	t.send()
	return nil
}

// send passes the oldest closed batch to the committer unless it is busy.
func (t *term) send() {
	if t.flight != nil || len(t.closed) == 0 {
		return
	}
	t.flight, t.closed = t.closed[0], t.closed[1:]
	t.stalledSince.Store(max(int64(time.Since(t.server.began)), 1))
	t.commits <- t.flight
}

// settle releases the effects that waited for a batch. Effects are released only here; the
// package comment lists them.
func (t *term) settle(result commitResult) {
	t.durable = result.batch.number
	if result.receipt.Revision > 0 {
		t.flight, t.revision = nil, result.receipt.Revision
		t.stalledSince.Store(0)
		t.server.counters.commits.Add(1)
		t.server.counters.rows.Add(uint64(result.batch.rows.Len()))
		t.catalogue.apply(&result.batch.rows)
	}
	for _, publish := range result.batch.published {
		publish(result.receipt)
	}
	if result.batch.pools {
		t.now = t.clock()
		t.show()
	}
	for _, w := range result.batch.waiting {
		w.request.done <- w.err
	}
	for _, node := range result.batch.ordered {
		t.answerHeld(node)
	}
}

// farewellPatience limits how long a leader that is shutting down takes to commit its last
// batch.
const farewellPatience = 3 * time.Second

// farewell commits the remaining changes at shutdown, so that waiting callers get their
// answers and a successor has the full state. Nothing is lost without it.
func (t *term) farewell() {
	ctx, cancel := context.WithTimeout(context.Background(), farewellPatience)
	defer cancel()
	t.now = t.clock()
	t.flushHistory()
	t.auditShells()
	t.flushBooks()
	if err := t.store(); err != nil {
		t.server.log.Error("cannot encode the final state", "error", err)
		return
	}
	select {
	case result := <-t.committed:
		if result.err == nil {
			t.settle(result)
		}
	default:
	}
	for _, b := range slices.Concat([]*batch{t.flight}, t.closed, []*batch{t.open}) {
		if b == nil || b.rows.Empty() && len(b.waiting) == 0 {
			continue
		}
		receipt, err := t.server.leases.Commit(ctx, t.lease, &b.rows)
		if err != nil {
			t.server.log.Warn("cannot store the final state", "error", err)
			return
		}
		t.settle(commitResult{batch: b, receipt: receipt})
	}
}

// committer commits batches until the term ends. It retries a commit after a temporary
// error of the store, because the core has already moved on.
func (t *term) committer(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case b := <-t.commits:
			t.committed <- t.commit(ctx, b) // never blocks: at most one batch is in flight
		}
	}
}

// Backoff between attempts of a commit.
const (
	commitBackoffMin = 50 * time.Millisecond
	commitBackoffMax = 2 * time.Second
)

func (t *term) commit(ctx context.Context, b *batch) commitResult {
	backoff := commitBackoffMin
	began := time.Now()
	for {
		receipt, err := t.server.leases.Commit(ctx, t.lease, &b.rows)
		if err == nil {
			t.server.alerts.clear(AlertStore)
			t.server.counters.commitLatency.observe(time.Since(began))
			return commitResult{batch: b, receipt: receipt}
		}
		if !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrFull) {
			return commitResult{batch: b, err: err}
		}
		t.server.alerts.raise(AlertStore, err.Error())
		t.server.counters.commitRetries.Add(1)
		t.server.log.Warn("commit failed; retrying", "error", err, "rows", b.rows.Len())
		select {
		case <-ctx.Done():
			return commitResult{batch: b, err: context.Cause(ctx)}
		case <-time.After(backoff):
		}
		backoff = min(2*backoff, commitBackoffMax)
	}
}
