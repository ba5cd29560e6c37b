package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/sim/ahead"
	"github.com/weirhq/weir/internal/sim/forecast"
)

// Rules of forecasts.
const (
	// forecastPeriod is how often forecasts are renewed; while somebody looks, it is
	// forecastLookedPeriod, for as long after the last look.
	forecastPeriod       = 10 * time.Minute
	forecastLookedPeriod = time.Minute
	// forecastGap is the least time between two ensembles, and forecastDelay how long an
	// operation must have waited to get a forecast, in update periods: most start sooner.
	forecastGap   = 5
	forecastDelay = 2
	// forecastBudget bounds the work for one ensemble.
	forecastBudget = 60 * time.Second
	// modelPeriod is how often the model of run times is stored.
	modelPeriod = time.Hour
	// mostNews bounds what the loop remembers for the forecaster between two updates.
	mostNews = 200_000
	// restoredForecasts is how many stored forecasts a new leader reads.
	restoredForecasts = 20_000
	// With at least this many outcomes in a week, of which fewer or more than these parts were
	// within their intervals, the alert is raised.
	judgedForecasts = 200
	leastCoverage   = 0.85
	mostCoverage    = 0.95
	// forecastModel is the name of the stored model.
	forecastModel = "run_times"
	// forecastWait is how long a question waits for the first forecast of an operation. It is seldom more than a few
	// seconds, but a busy machine gives ensembles little time.
	forecastWait = 30 * time.Second
	// forecastUpdate is the least update period in ensembles.
	forecastUpdate = 5 * time.Second
	// forecastRowsAtOnce is how many forecasts a batch stores.
	forecastRowsAtOnce = 500
)

// news is something that the forecaster learns from the loop.
type news struct {
	kind      newsKind
	operation core.OperationID
	task      int32
	at        time.Time
	ran       time.Duration
	record    *Operation // of an operation that arrives
	tree      string
	pool      string
}

type newsKind uint8

const (
	newsArrived newsKind = iota
	newsBegun
	newsJobCompleted
	newsJobCut
	newsCompleted
	newsEnded
)

// forecasts are the published forecasts, and what the loop has to say to the forecaster.
type forecasts struct {
	mutex   sync.Mutex
	inbox   []news
	wake    chan struct{} // has an element if the forecaster must look
	board   atomic.Pointer[ForecastBoard]
	looked  atomic.Int64 // when somebody looked, in nanoseconds after the server's start; zero: never
	renewed signal
}

// signal is a channel that is closed and replaced at every change.
type signal struct {
	mutex   sync.Mutex
	changed chan struct{}
}

func (w *signal) wait() <-chan struct{} {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.changed == nil {
		w.changed = make(chan struct{})
	}
	return w.changed
}

func (w *signal) notify() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.changed != nil {
		close(w.changed)
		w.changed = nil
	}
}

// ForecastBoard are the forecasts of a moment. It is immutable.
type ForecastBoard struct {
	AsOf       time.Time
	Took       time.Duration
	Operations map[core.OperationID]*OperationForecast
	// Tallies are how well forecasts held in the last week.
	Tallies []forecast.Tally
	futures *forecast.Futures
}

// OperationForecast is when an operation starts and finishes.
type OperationForecast struct {
	Operation core.OperationID
	forecast.Place
	// Targets are nil where there is no forecast: an operation that runs has started.
	Targets [forecast.TargetCount]*forecast.Forecast
}

// Tally returns how well forecasts of a target held in a tree in the last week.
func (b *ForecastBoard) Tally(tree string, target forecast.Target) forecast.Tally {
	for _, t := range b.Tallies {
		if t.Tree == tree && t.Target == target {
			return t
		}
	}
	return forecast.Tally{Tree: tree, Target: target}
}

// Backlog returns when the last of some operations finishes, in seconds from AsOf; false if no
// ensemble has answered.
func (b *ForecastBoard) Backlog(of func(core.OperationID) bool) (forecast.Quantiles, bool) {
	if b.futures == nil {
		return forecast.Quantiles{}, false
	}
	return b.futures.Backlog(of), true
}

// Forecasts returns the current forecasts; looking at them renews them more often.
func (s *Server) Forecasts() *ForecastBoard {
	s.forecasts.looked.Store(int64(max(time.Since(s.began), 1)))
	return s.forecasts.peek()
}

func (f *forecasts) peek() *ForecastBoard {
	if b := f.board.Load(); b != nil {
		return b
	}
	return &ForecastBoard{}
}

// ForecastTallies returns how well forecasts held in the last week, by tree and target. There are none
// while this server does not lead.
func (s *Server) ForecastTallies() []forecast.Tally { return s.forecasts.peek().Tallies }

// ForecastTime returns how long ensembles have run since the start of the process.
func (s *Server) ForecastTime() time.Duration { return time.Duration(s.counters.ensembleNanos.Load()) }

// Forecast returns the forecast of an operation. If there is none yet, it waits for one for a while.
// There is none for operations that have ended.
func (s *Server) Forecast(ctx context.Context, id core.OperationID) (*ForecastBoard, *OperationForecast, error) {
	timer := time.NewTimer(forecastWait)
	defer timer.Stop()
	for {
		renewed := s.forecasts.renewed.wait()
		b := s.Forecasts()
		if f := b.Operations[id]; f != nil {
			return b, f, nil
		}
		if !s.Leading() {
			return nil, nil, s.refusal()
		}
		if op, there := s.numbers.get(id); !there || op.State.IsFinished() || s.settings().ForecastCPU == 0 {
			return b, nil, nil
		}
		s.forecasts.ask()
		select {
		case <-renewed:
		case <-timer.C:
			return b, nil, nil
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

// ask wakes the forecaster.
func (f *forecasts) ask() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// tell remembers something for the forecaster. If it falls behind, the news is dropped: forecasts are
// then less exact.
func (t *term) tell(n news) {
	if len(t.news) < mostNews {
		n.at = t.now
		t.news = append(t.news, n)
	}
}

// tellArrival tells the forecaster about a new operation.
func (t *term) tellArrival(record *Operation) {
	n := news{kind: newsArrived, operation: record.Number, record: record}
	if places := t.core.PlacesOf(record.Number); len(places) > 0 {
		n.tree, n.pool = places[0].Tree, places[0].Pool
	}
	t.tell(n)
}

// tellJobEnd tells the forecaster how long a job ran.
func (t *term) tellJobEnd(job *Job, completed bool) {
	n := news{kind: newsJobCut, operation: job.Operation, task: job.Task, ran: t.now.Sub(job.Start)}
	if completed {
		n.kind = newsJobCompleted
	}
	t.tell(n)
}

// handNews gives the forecaster what has happened since the last update.
func (t *term) handNews() {
	if len(t.news) == 0 {
		return
	}
	f := &t.server.forecasts
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if len(f.inbox)+len(t.news) <= mostNews {
		f.inbox = append(f.inbox, t.news...)
	}
	t.news = t.news[:0]
}

// forgetNews drops what an earlier term has told, and its forecasts.
func (f *forecasts) forgetNews() {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.inbox = nil
	f.board.Store(nil)
}

// forecaster makes forecasts beside the loop, for one term.
type forecaster struct {
	term  *term
	desk  *forecast.Desk
	rows  []forecast.Row
	free  time.Time // when the next ensemble may run
	last  time.Time // when the last one ran
	saved time.Time // when the model was stored
	seed  uint64
	board ForecastBoard
}

// forecast follows the cluster until the term ends.
func (t *term) forecast(ctx context.Context) {
	f := &forecaster{term: t, seed: t.epoch, saved: time.Now()}
	for f.desk == nil {
		if err := f.restore(ctx); err != nil && ctx.Err() == nil {
			t.server.log.Warn("cannot read stored forecasts", "error", err)
			t.server.pause(ctx, 10*time.Second)
		}
		if ctx.Err() != nil {
			return
		}
	}
	ticker := time.NewTicker(max(t.server.settings().UpdatePeriod, time.Millisecond))
	defer ticker.Stop()
	for {
		f.absorb()
		if f.isDue(time.Now()) {
			if err := f.renew(ctx); err != nil && ctx.Err() == nil {
				t.server.log.Debug("no forecasts", "error", err)
			}
		}
		f.store(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-t.server.forecasts.wake:
		}
	}
}

// restore reads the model of run times and what earlier forecasts have taught.
func (f *forecaster) restore(ctx context.Context) error {
	s := f.term.server
	stored, err := s.store.ForecastModel(ctx, forecastModel)
	if err != nil {
		return err
	}
	model, err := forecast.ReadModel(stored.Data)
	if err != nil {
		s.log.Warn("run times are learnt again", "error", err)
		model = forecast.NewModel()
	}
	desk := forecast.NewDesk(model)
	glass, err := f.glass(ctx)
	if err != nil {
		return err
	}
	f.follow(desk, glass)
	settled, err := s.store.Forecasts(ctx, store.ForecastQuery{Settled: true, Limit: restoredForecasts})
	if err != nil {
		return err
	}
	open, err := s.store.Forecasts(ctx, store.ForecastQuery{Open: true, Limit: restoredForecasts})
	if err != nil {
		return err
	}
	slices.SortStableFunc(settled, func(a, b store.Forecast) int { return a.Settled.Compare(b.Settled) })
	slices.Reverse(open)
	for _, row := range slices.Concat(settled, open) {
		read, outcome, _, err := forecast.ReadForecast(row.Tree, row.Pool, forecast.Target(row.Target), row.Made, row.Data)
		if err != nil {
			s.log.Warn("a stored forecast is left out", "operation", row.Operation, "error", err)
			continue
		}
		desk.Restore(forecast.Row{Operation: core.OperationID(row.Operation), Forecast: &read, Settled: row.Settled, Outcome: outcome})
	}
	f.desk = desk
	f.publish(glass.AsOf, nil)
	return nil
}

// glass returns a fork of the core at this moment.
func (f *forecaster) glass(ctx context.Context) (*Glass, error) {
	return askHow(ctx, f.term.server, true, func(t *term) (*Glass, error) {
		t.answerNow = true
		t.handNews() // what has happened before belongs to the glass
		return t.makeGlass(), nil
	})
}

// follow tells a desk about the operations of a glass that it does not know: those of an earlier term.
func (f *forecaster) follow(desk *forecast.Desk, glass *Glass) {
	for _, id := range glass.core.Live() {
		if desk.Follows(id) {
			continue
		}
		controller := glass.core.ControllerOf(id)
		places := glass.core.PlacesOf(id)
		record, there := f.term.server.numbers.get(id)
		if !there || len(places) == 0 {
			continue
		}
		started := controller.RunningJobCount() > 0 || record.Jobs.Counters.Completed > 0
		desk.Arrive(id, forecast.FactsOf(record.User, places[0].Tree, places[0].Pool, controller.Spec()), record.Start, started)
	}
}

// absorb learns from what the loop has told.
func (f *forecaster) absorb() {
	in := &f.term.server.forecasts
	in.mutex.Lock()
	inbox := in.inbox
	in.inbox = nil
	in.mutex.Unlock()
	for i := range inbox {
		n := &inbox[i]
		switch n.kind {
		case newsArrived:
			f.desk.Arrive(n.operation, forecast.FactsOf(n.record.User, n.tree, n.pool, n.record.Spec), n.at, false)
		case newsBegun:
			f.rows = append(f.rows, f.desk.Begin(n.operation, n.at)...)
		case newsJobCompleted:
			f.desk.Model.Ended(n.operation, n.task, n.ran, forecast.Completed)
		case newsJobCut:
			f.desk.Model.Ended(n.operation, n.task, n.ran, forecast.Cut)
		case newsCompleted, newsEnded:
			f.rows = append(f.rows, f.desk.End(n.operation, n.at, n.kind == newsCompleted)...)
		}
	}
	if len(inbox) > 0 && f.last.IsZero() || len(f.rows) > 0 {
		f.publish(f.board.AsOf, f.board.futures)
	}
}

// isDue reports whether an ensemble must run now.
func (f *forecaster) isDue(now time.Time) bool {
	s := f.term.server
	if s.settings().ForecastCPU == 0 || now.Before(f.free) || f.desk.Live() == 0 {
		return false
	}
	age := now.Sub(f.last)
	switch {
	case age >= forecastPeriod, age >= forecastLookedPeriod && f.isLooked():
		return true
	case age < forecastGap*s.settings().UpdatePeriod:
		return false
	}
	return f.desk.Unanswered(now.Add(-forecastDelay*s.settings().UpdatePeriod)) > 0
}

// isLooked reports whether somebody has looked at forecasts lately.
func (f *forecaster) isLooked() bool {
	s := f.term.server
	looked := time.Duration(s.forecasts.looked.Load())
	return looked > 0 && time.Since(s.began)-looked < forecastLookedPeriod
}

// renew runs an ensemble and publishes what it says.
func (f *forecaster) renew(ctx context.Context) error {
	s := f.term.server
	if err := s.calm(ctx, time.Now().Add(busyPatience)); err != nil {
		return err
	}
	glass, err := f.glass(ctx)
	if err != nil {
		return err
	}
	f.absorb()
	f.follow(f.desk, glass)
	settings := s.settings()
	f.seed++
	ensemble := forecast.Ensemble{
		Base: ahead.Base{
			Core: glass.core, Now: glass.AsOf, Gates: glass.gates, HeartbeatPeriod: settings.HeartbeatPeriod,
			UpdatePeriod: max(settings.UpdatePeriod, forecastUpdate),
		},
		Seed: f.seed,
	}
	bounded, cancel := context.WithCancel(ctx)
	defer cancel()
	pacer := pacer{of: f, ctx: bounded, exhaust: cancel, part: settings.ForecastCPU, since: time.Now()}
	ensemble.Pace = pacer.pace
	began := time.Now()
	futures, err := ensemble.Run(bounded, f.desk.Model, f.desk.Started)
	f.last = time.Now()
	took := f.last.Sub(began) - pacer.paused
	f.free = f.last.Add(pacer.rest(took) - pacer.paused)
	if err != nil {
		return fmt.Errorf("an ensemble of %d operations: %w", f.desk.Live(), err)
	}
	f.board.Took = took
	f.absorb()
	f.rows = append(f.rows, f.desk.Publish(glass.AsOf, futures.List)...)
	f.publish(glass.AsOf, futures)
	s.counters.ensembleNanos.Add(uint64(took))
	return nil
}

// publish shows the forecasts to readers.
func (f *forecaster) publish(asOf time.Time, futures *forecast.Futures) {
	now := time.Now()
	b := &ForecastBoard{AsOf: asOf, Took: f.board.Took, Operations: map[core.OperationID]*OperationForecast{}, Tallies: f.desk.Tallies(now), futures: futures}
	f.desk.Current(func(id core.OperationID, p forecast.Place, targets [forecast.TargetCount]*forecast.Forecast) {
		b.Operations[id] = &OperationForecast{Operation: id, Place: p, Targets: targets}
	})
	f.board = *b
	f.term.server.forecasts.board.Store(b)
	f.term.server.forecasts.renewed.notify()
	var wrong []string
	for _, t := range b.Tallies {
		if c := t.Coverage(); t.Settled >= judgedForecasts && (c < leastCoverage || c > mostCoverage) {
			wrong = append(wrong, fmt.Sprintf("%s in tree %s: %.0f %% of %d", t.Target, t.Tree, 100*c, t.Settled))
		}
	}
	message := ""
	if len(wrong) > 0 {
		message = "the outcomes of 90 % of all forecasts should be within their intervals; in the last 7 days these were: " + strings.Join(wrong, ", ")
	}
	f.term.server.alerts.set(AlertForecasts, message)
}

// store puts new forecasts, outcomes, and from time to time the model into a batch. What the store does
// not accept is tried again.
func (f *forecaster) store(ctx context.Context) {
	var rows store.Rows
	for _, row := range f.rows[:min(len(f.rows), forecastRowsAtOnce)] {
		data, err := row.Forecast.Save(row.Outcome)
		if err != nil {
			f.term.server.log.Error("a forecast cannot be stored", "error", err)
			continue
		}
		rows.Forecasts = append(rows.Forecasts, store.Forecast{
			Operation: int32(row.Operation), Target: int32(row.Forecast.Target), Made: row.Forecast.Made, Tree: row.Forecast.Tree, Pool: row.Forecast.Pool,
			Settled: row.Settled, Data: data,
		})
	}
	now := time.Now()
	if now.Sub(f.saved) >= modelPeriod {
		if data, err := f.desk.Model.Save(); err == nil {
			rows.ForecastModels = []store.ForecastModel{{Name: forecastModel, Updated: now, Data: data}}
		}
		f.saved = now
	}
	if len(rows.Forecasts)+len(rows.ForecastModels) == 0 {
		return
	}
	_, err := askHow(ctx, f.term.server, true, func(t *term) (struct{}, error) {
		t.open.rows.Put.Forecasts = append(t.open.rows.Put.Forecasts, rows.Forecasts...)
		t.open.rows.Put.ForecastModels = append(t.open.rows.Put.ForecastModels, rows.ForecastModels...)
		return struct{}{}, nil
	})
	if err == nil {
		f.rows = f.rows[len(rows.Forecasts):]
	}
	if len(f.rows) > mostNews {
		f.rows = f.rows[len(f.rows)-mostNews:]
	}
}
