package forecast

import (
	"math"
	"time"
)

// Method is where quantiles come from.
type Method uint8

const (
	ByEnsemble Method = iota
	ByHistory
	MethodCount
)

// String returns the name that documents use.
func (m Method) String() string { return [...]string{"ensemble", "history"}[m] }

// Raw are the quantiles of the methods before correction. A method without an answer
// is not there.
type Raw struct {
	Quantiles [MethodCount]Quantiles
	There     [MethodCount]bool
}

// Set sets the answer of a method.
func (r *Raw) Set(m Method, q Quantiles) {
	r.Quantiles[m], r.There[m] = finite(q, Horizon.Seconds()), true
}

// Forecast is a published forecast of one target of one operation.
type Forecast struct {
	Place
	Target Target
	Made   time.Time
	// Age is how long ago the operation arrived.
	Age time.Duration
	Raw Raw
	// Corrected are the quantiles of each method after correction, and Method the one
	// that is shown.
	Corrected [MethodCount]Quantiles
	Method    Method
	// Calibrated reports whether enough outcomes corrected the method that is shown.
	Calibrated bool

	byPool [MethodCount]bool // corrected by outcomes in the pool
}

// Shown returns the published quantiles, in seconds from Made.
func (f *Forecast) Shown() Quantiles { return f.Corrected[f.Method] }

// Keeper publishes forecasts and learns from their outcomes.
type Keeper struct {
	tracks map[trackKey]*track
}

type trackKey struct {
	method     Method
	target     Target
	tree, pool string // all pools of the tree if empty
}

// track is what outcomes say about a method somewhere.
type track struct {
	calibration
	// gain is how much less history lost than the ensemble, both corrected, on the
	// logarithmic scale.
	gain ring
}

// NewKeeper returns a keeper without outcomes.
func NewKeeper() *Keeper { return &Keeper{tracks: map[trackKey]*track{}} }

func (k *Keeper) track(method Method, target Target, tree, pool string) *track {
	key := trackKey{method, target, tree, pool}
	t := k.tracks[key]
	if t == nil {
		t = &track{calibration: *newCalibration()}
		k.tracks[key] = t
	}
	return t
}

// used returns the outcomes that correct a method in a place: those of the pool if
// there are enough, else those of the tree.
func (k *Keeper) used(method Method, target Target, p Place) (t *track, byPool bool) {
	if t := k.tracks[trackKey{method, target, p.Tree, p.Pool}]; t != nil && t.count() >= enoughScores {
		return t, true
	}
	return k.track(method, target, p.Tree, ""), false
}

// Publish corrects the answers of the methods and chooses one: the ensemble, unless
// history has lost less in the pool lately, by more than chance. It returns false if
// no method has an answer.
func (k *Keeper) Publish(p Place, target Target, made time.Time, age time.Duration, raw Raw) (Forecast, bool) {
	f := Forecast{Place: p, Target: target, Made: made, Age: age, Raw: raw}
	var enough [MethodCount]bool
	for m := range MethodCount {
		if !raw.There[m] {
			continue
		}
		var t *track
		t, f.byPool[m] = k.used(m, target, p)
		f.Corrected[m] = raw.Quantiles[m]
		if enough[m] = t.count() >= enoughScores; enough[m] {
			f.Corrected[m] = t.correct(raw.Quantiles[m])
		}
	}
	if raw.There[ByHistory] {
		t, _ := k.used(ByHistory, target, p)
		if !raw.There[ByEnsemble] || enough[ByHistory] && isPositive(t.gain.values) {
			f.Method = ByHistory
		}
	}
	f.Calibrated = enough[f.Method]
	return f, raw.There[f.Method]
}

// isPositive reports whether the mean of enough values is above zero by more than
// chance: by two standard errors.
func isPositive(values []float64) bool {
	n := float64(len(values))
	if n < enoughScores {
		return false
	}
	sum, squares := 0.0, 0.0
	for _, v := range values {
		sum += v
		squares += v * v
	}
	mean := sum / n
	variance := max(squares/n-mean*mean, 0)
	return mean > 2*math.Sqrt(variance/n)
}

// Settle learns from the outcome of a forecast, in seconds from when it was made.
func (k *Keeper) Settle(f *Forecast, outcome float64) {
	for m := range MethodCount {
		if !f.Raw.There[m] {
			continue
		}
		used := k.track(m, f.Target, f.Tree, "")
		if f.byPool[m] {
			used = k.track(m, f.Target, f.Tree, f.Pool)
		}
		if used.count() >= enoughScores {
			used.adapt(f.Corrected[m], outcome)
		}
		for _, pool := range [...]string{"", f.Pool} {
			t := k.track(m, f.Target, f.Tree, pool)
			t.learn(f.Raw.Quantiles[m], outcome)
			if m == ByHistory && f.Raw.There[ByEnsemble] {
				t.gain.add(LogLoss(f.Corrected[ByEnsemble], outcome) - LogLoss(f.Corrected[ByHistory], outcome))
			}
		}
	}
}
