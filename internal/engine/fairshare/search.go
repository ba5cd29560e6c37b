package fairshare

import "math"

// Tolerances of the computation.
const (
	// Epsilon is the slack of sums and of feasibility checks.
	Epsilon = 1e-9
	// LargeEpsilon is the slack of "the demand is satisfied".
	LargeEpsilon = 1e-4
)

// searchMax returns the largest float64 in [lo, hi] that satisfies ok, which
// must be monotone (true, then false) and is assumed to hold at lo. It bisects
// the bit patterns, so the answer satisfies ok exactly: later steps rely on
// that, which is why a division is not enough.
func searchMax(lo, hi float64, ok func(float64) bool) float64 {
	if lo == hi || ok(hi) {
		return hi
	}
	return bisect(orderedBits(lo), orderedBits(hi), ok)
}

// searchMaxNear is searchMax over [lo, guess] for a guess that is usually too
// large by only a few units in the last place: it checks next to the guess
// first.
func searchMaxNear(lo, guess float64, ok func(float64) bool) float64 {
	if lo == guess || ok(guess) {
		return guess
	}
	low, high := orderedBits(lo), orderedBits(guess)
	for step := uint64(1); high-low > step; step *= 4 {
		probe := high - step
		if ok(fromOrderedBits(probe)) {
			low = probe
			break
		}
		high = probe
	}
	return bisect(low, high, ok)
}

// bisect returns the last value that satisfies ok, given that low does and high
// does not.
func bisect(low, high uint64, ok func(float64) bool) float64 {
	for high-low > 1 {
		middle := low + (high-low)/2
		if ok(fromOrderedBits(middle)) {
			low = middle
		} else {
			high = middle
		}
	}
	return fromOrderedBits(low)
}

// orderedBits maps float64 to uint64 and preserves the order. Negative zero
// becomes zero: the two are one number here.
func orderedBits(v float64) uint64 {
	if v == 0 {
		v = 0
	}
	bits := math.Float64bits(v)
	if bits>>63 != 0 {
		return ^bits
	}
	return bits | 1<<63
}

func fromOrderedBits(bits uint64) float64 {
	if bits>>63 != 0 {
		return math.Float64frombits(bits &^ (1 << 63))
	}
	return math.Float64frombits(^bits)
}

// searchMaxAround is searchMax over [lo, hi] with a guess that is a few units in
// the last place off in either direction.
func searchMaxAround(lo, guess, hi float64, ok func(float64) bool) float64 {
	guess = min(max(guess, lo), hi)
	if !ok(guess) {
		return searchMaxNear(lo, guess, ok)
	}
	low, end := orderedBits(guess), orderedBits(hi)
	for step := uint64(1); ; step *= 4 {
		if end-low <= step {
			return searchMax(fromOrderedBits(low), hi, ok)
		}
		probe := low + step
		if !ok(fromOrderedBits(probe)) {
			return bisect(low, probe, ok)
		}
		low = probe
	}
}
