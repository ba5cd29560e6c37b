package forecast

import (
	"slices"
)

// Rules of History.
const (
	keptWaits   = 200
	enoughWaits = 8
	// After this many waits in a row beyond the same end of the interval, times
	// have changed: older ones are forgotten.
	changeRun = 5
)

// Place is what a wait is compared with: others in the same pool and of the same
// size, else in the pool, else in the tree.
type Place struct{ Tree, Pool, Size string }

// wider returns the places from narrow to wide.
func (p Place) wider() [3]Place {
	return [3]Place{p, {Tree: p.Tree, Pool: p.Pool}, {Tree: p.Tree}}
}

// History is the recent waits of operations that had to wait, by place and target.
// It forecasts their quantiles.
type History struct {
	waits map[historyKey]*recent
}

type historyKey struct {
	Place
	target Target
}

// recent are waits in order of time. above and below count the last ones in a row
// that were beyond the interval.
type recent struct {
	values       []float64
	above, below int
}

// NewHistory returns a history without waits.
func NewHistory() *History { return &History{waits: map[historyKey]*recent{}} }

// Add adds the time from arrival to the target of an operation that had to wait.
func (h *History) Add(p Place, target Target, seconds float64) {
	for _, place := range p.wider() {
		key := historyKey{place, target}
		r := h.waits[key]
		if r == nil {
			r = &recent{}
			h.waits[key] = r
		}
		r.add(seconds)
	}
}

func (r *recent) add(seconds float64) {
	if len(r.values) >= enoughWaits {
		q := r.quantiles(0)
		r.above, r.below = streak(r.above, seconds > q[2]), streak(r.below, seconds < q[0])
	}
	if len(r.values) >= keptWaits {
		r.values = slices.Delete(r.values, 0, 1)
	}
	r.values = append(r.values, seconds)
	if r.above >= changeRun || r.below >= changeRun {
		r.values = slices.Clone(r.values[len(r.values)-min(len(r.values), enoughWaits):])
		r.above, r.below = 0, 0
	}
}

func streak(before int, again bool) int {
	if again {
		return before + 1
	}
	return 0
}

// quantiles returns the quantiles of what is left to wait after an age.
func (r *recent) quantiles(age float64) Quantiles {
	left := r.left(age)
	return quantiles(left)
}

func (r *recent) left(age float64) (left []float64) {
	for _, v := range r.values {
		if v > age || age == 0 {
			left = append(left, v-age)
		}
	}
	slices.Sort(left)
	return left
}

// Forecast returns the quantiles of what is left to wait for an operation of this
// age in seconds. There are none if too few operations have waited.
func (h *History) Forecast(p Place, target Target, age float64) (Quantiles, bool) {
	for _, place := range p.wider() {
		if r := h.waits[historyKey{place, target}]; r != nil {
			if left := r.left(age); len(left) >= enoughWaits {
				return quantiles(left), true
			}
		}
	}
	return Quantiles{}, false
}

// Mean returns the mean of recent waits in the pool or else the tree.
func (h *History) Mean(p Place, target Target) (float64, bool) {
	places := p.wider()
	for _, place := range places[1:] {
		if r := h.waits[historyKey{place, target}]; r != nil && len(r.values) >= enoughWaits {
			sum := 0.0
			for _, v := range r.values {
				sum += v
			}
			return sum / float64(len(r.values)), true
		}
	}
	return 0, false
}
