package forecast

import (
	"cmp"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
)

// Rules of a desk.
const (
	// WatchedFor is the time whose outcomes the record of forecasts counts.
	WatchedFor = 7 * 24 * time.Hour
	maxHeld    = 50_000
	// A forecast is stored again when the operation is this many times as old.
	storedAgain = 2
	leastAge    = time.Minute
)

// Desk follows a cluster: it learns from what happens, publishes forecasts for the
// operations that have not ended, and keeps the record of how well they held. It is
// not safe for concurrent use.
type Desk struct {
	Model   *Model
	history *History
	keeper  *Keeper
	live    map[core.OperationID]*followed
	held    []verdict // by time
}

// followed is an operation that has not ended.
type followed struct {
	place   Place
	arrived time.Time
	started time.Time // zero if no job has started
	waited  bool      // a forecast found it waiting
	current [TargetCount]*Forecast
	open    [TargetCount][]*Forecast // stored ones whose outcomes are not known
}

// verdict is the outcome of a published forecast.
type verdict struct {
	at         time.Time
	tree, pool string
	target     Target
	method     Method
	calibrated bool
	held       bool
	loss       [MethodCount]float64 // in seconds
	there      [MethodCount]bool
}

// Row is a forecast to store, with its outcome once it is known.
type Row struct {
	Operation core.OperationID
	Forecast  *Forecast
	// Settled is when the outcome was known, zero before; Outcome is in seconds from
	// when the forecast was made, and negative before.
	Settled time.Time
	Outcome float64
}

// NewDesk returns a desk with a model.
func NewDesk(m *Model) *Desk {
	return &Desk{Model: m, history: NewHistory(), keeper: NewKeeper(), live: map[core.OperationID]*followed{}}
}

// Arrive follows an operation. started reports whether jobs of it have run already.
func (d *Desk) Arrive(id core.OperationID, f Facts, at time.Time, started bool) {
	if d.live[id] != nil || len(f.Tasks) == 0 {
		return
	}
	o := &followed{place: Place{Tree: f.Tree, Pool: f.Pool, Size: SizeClass(f.Tasks[0].Jobs, f.Tasks[0].Need)}, arrived: at}
	if started {
		o.started = at
	}
	d.live[id] = o
	d.Model.Enter(id, f)
}

// Begin notes that the first job of an operation starts. It returns forecasts whose
// outcomes are known now.
func (d *Desk) Begin(id core.OperationID, at time.Time) []Row {
	o := d.live[id]
	if o == nil || !o.started.IsZero() {
		return nil
	}
	o.started = at
	return d.settle(id, o, Start, at)
}

// End notes that an operation has ended. Only completed ones have an outcome.
func (d *Desk) End(id core.OperationID, at time.Time, completed bool) (rows []Row) {
	o := d.live[id]
	if o == nil {
		return nil
	}
	if completed {
		rows = d.settle(id, o, Finish, at)
	}
	delete(d.live, id)
	d.Model.Leave(id)
	return rows
}

// Started reports whether a job of an operation has started.
func (d *Desk) Started(id core.OperationID) bool {
	o := d.live[id]
	return o != nil && !o.started.IsZero()
}

// Follows reports whether the desk follows an operation.
func (d *Desk) Follows(id core.OperationID) bool { return d.live[id] != nil }

// Unanswered counts operations without a forecast that arrived before a time.
func (d *Desk) Unanswered(before time.Time) (n int) {
	for _, o := range d.live {
		if o.current[Finish] == nil && o.arrived.Before(before) {
			n++
		}
	}
	return n
}

// Live is how many operations it follows.
func (d *Desk) Live() int { return len(d.live) }

func (d *Desk) settle(id core.OperationID, o *followed, target Target, at time.Time) (rows []Row) {
	if o.waited {
		d.history.Add(o.place, target, at.Sub(o.arrived).Seconds())
	}
	for _, f := range o.open[target] {
		row := Row{Operation: id, Forecast: f, Settled: at, Outcome: max(at.Sub(f.Made).Seconds(), 0)}
		d.judge(row)
		rows = append(rows, row)
	}
	o.open[target], o.current[target] = nil, nil
	return rows
}

// judge learns from an outcome and adds it to the record.
func (d *Desk) judge(row Row) {
	f := row.Forecast
	d.keeper.Settle(f, row.Outcome)
	v := verdict{at: row.Settled, tree: f.Tree, pool: f.Pool, target: f.Target, method: f.Method, calibrated: f.Calibrated, there: f.Raw.There}
	q := f.Shown()
	v.held = q[0] <= row.Outcome && row.Outcome <= q[2]
	for m := range MethodCount {
		v.loss[m] = Loss(f.Corrected[m], row.Outcome)
	}
	d.held = append(d.held, v)
	old := 0
	for old < len(d.held) && (row.Settled.Sub(d.held[old].at) > WatchedFor || len(d.held)-old > maxHeld) {
		old++
	}
	d.held = d.held[old:]
}

// Restore learns from a stored forecast: one with an outcome, in the order in which
// the outcomes were known, or one of an operation that the desk follows.
func (d *Desk) Restore(row Row) {
	f := row.Forecast
	if row.Settled.IsZero() {
		if o := d.live[row.Operation]; o != nil && (f.Target == Finish || o.started.IsZero()) {
			o.open[f.Target] = append(o.open[f.Target], f)
			if o.current[f.Target] == nil || o.current[f.Target].Made.Before(f.Made) {
				o.current[f.Target] = f
			}
			o.waited = o.waited || f.Target == Start
		}
		return
	}
	d.history.Add(f.Place, f.Target, f.Age.Seconds()+row.Outcome)
	d.judge(row)
}

// Publish makes forecasts from an ensemble of a moment. It returns those to store: the
// first ones of an operation, and later ones when it is much older.
func (d *Desk) Publish(asOf time.Time, futures []Future) (rows []Row) {
	for i := range futures {
		future := &futures[i]
		o := d.live[future.Operation]
		if o == nil {
			continue // it has ended since
		}
		age := max(asOf.Sub(o.arrived), 0)
		for target := range TargetCount {
			if target == Start && (!future.Waits || !o.started.IsZero()) {
				continue
			}
			o.waited = o.waited || target == Start
			var raw Raw
			raw.Set(ByEnsemble, future.Quantiles[target])
			if o.waited {
				if q, ok := d.history.Forecast(o.place, target, age.Seconds()); ok {
					raw.Set(ByHistory, q)
				}
			}
			f, _ := d.keeper.Publish(o.place, target, asOf, age, raw)
			o.current[target] = &f
			if n := len(o.open[target]); n == 0 || age >= max(storedAgain*o.open[target][n-1].Age, leastAge) {
				o.open[target] = append(o.open[target], &f)
				rows = append(rows, Row{Operation: future.Operation, Forecast: &f, Outcome: -1})
			}
		}
	}
	return rows
}

// Current calls visit for every operation that has a forecast, in order of number.
// The forecasts are not changed later.
func (d *Desk) Current(visit func(id core.OperationID, p Place, forecasts [TargetCount]*Forecast)) {
	ids := make([]core.OperationID, 0, len(d.live))
	for id, o := range d.live {
		if o.current[Finish] != nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for _, id := range ids {
		visit(id, d.live[id].place, d.live[id].current)
	}
}

// Tally is how often forecasts of a target held in the last week.
type Tally struct {
	Tree   string
	Target Target
	// Held counts the calibrated forecasts whose intervals contained the outcome, of
	// Settled.
	Held, Settled int
	// Loss is the mean pinball loss in seconds, by method, over Scored forecasts.
	Loss   [MethodCount]float64
	Scored [MethodCount]int
}

// Coverage is the part that held, 0 without forecasts.
func (t *Tally) Coverage() float64 {
	if t.Settled == 0 {
		return 0
	}
	return float64(t.Held) / float64(t.Settled)
}

// Tallies returns the record of the week before now, by tree and target.
func (d *Desk) Tallies(now time.Time) []Tally {
	type key struct {
		tree   string
		target Target
	}
	sums := map[key]*Tally{}
	for i := range d.held {
		v := &d.held[i]
		if now.Sub(v.at) > WatchedFor {
			continue
		}
		t := sums[key{v.tree, v.target}]
		if t == nil {
			t = &Tally{Tree: v.tree, Target: v.target}
			sums[key{v.tree, v.target}] = t
		}
		if v.calibrated {
			t.Settled++
			if v.held {
				t.Held++
			}
		}
		for m := range MethodCount {
			if v.there[m] {
				t.Loss[m] += v.loss[m]
				t.Scored[m]++
			}
		}
	}
	list := make([]Tally, 0, len(sums))
	for _, t := range sums {
		for m := range t.Loss {
			t.Loss[m] /= float64(max(t.Scored[m], 1))
		}
		list = append(list, *t)
	}
	slices.SortFunc(list, func(a, b Tally) int { return cmp.Or(cmp.Compare(a.Tree, b.Tree), cmp.Compare(a.Target, b.Target)) })
	return list
}
