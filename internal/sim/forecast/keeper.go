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
	// ByMixture is the mean of both, after correction, weighted by how much each lost lately.
	ByMixture
	MethodCount
)

// String returns the name that documents use.
func (m Method) String() string { return [...]string{"ensemble", "history", "mixture"}[m] }

// Raw are the quantiles of the methods before correction. A method without an answer
// is not there. The mixture is made by the keeper.
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

// Publish corrects the answers of the methods. It shows the mixture if it is calibrated, else the
// ensemble, else history. It returns false if no method has an answer.
func (k *Keeper) Publish(p Place, target Target, made time.Time, age time.Duration, raw Raw) (Forecast, bool) {
	f := Forecast{Place: p, Target: target, Made: made, Age: age, Raw: raw}
	var enough [MethodCount]bool
	for m := range MethodCount {
		if m == ByMixture && enough[ByEnsemble] && enough[ByHistory] {
			f.Raw.Set(m, k.mix(&f))
		}
		if !f.Raw.There[m] {
			continue
		}
		var t *track
		t, f.byPool[m] = k.used(m, target, p)
		f.Corrected[m] = f.Raw.Quantiles[m]
		if enough[m] = t.count() >= enoughScores; enough[m] {
			f.Corrected[m] = t.correct(f.Raw.Quantiles[m])
		}
	}
	switch {
	case enough[ByMixture]:
		f.Method = ByMixture
	case !raw.There[ByEnsemble]:
		f.Method = ByHistory
	}
	f.Calibrated = enough[f.Method]
	return f, f.Raw.There[f.Method]
}

// mix returns the mean of the corrected quantiles of both methods on the logarithmic scale. A
// method's weight is exp(-what it lost lately): the exponentially weighted forecaster, which needs no
// proof before it prefers a method and loses little where both are alike.
func (k *Keeper) mix(f *Forecast) (q Quantiles) {
	t, _ := k.used(ByHistory, f.Target, f.Place)
	gain := 0.0
	for _, v := range t.gain.values {
		gain += v
	}
	history := 1 / (1 + math.Exp(-gain))
	for i := range q {
		q[i] = fromLogTime((1-history)*logTime(f.Corrected[ByEnsemble][i]) + history*logTime(f.Corrected[ByHistory][i]))
	}
	return q
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
