package forecast

import (
	"math"
	"slices"
)

// Rules of calibration.
const (
	keptScores   = 200 // of each kind
	enoughScores = 40  // below this, a forecast is uncalibrated
	// Times are compared as logarithms of seconds plus grace, so that a second more
	// or less does not count where nobody cares.
	grace = 10.0
	// adaption is how fast the level follows misses and hits.
	adaption  = 0.005
	tailLevel = 0.05 // of outcomes beyond each end
	// beyondSeen is how far a correction may exceed all recent outcomes.
	beyondSeen = 2
)

var leastWidth = math.Log(1.2)

// logTime is the scale on which forecasts are corrected and compared.
func logTime(seconds float64) float64 { return math.Log(max(seconds, 0) + grace) }

func fromLogTime(l float64) float64 { return max(math.Exp(l)-grace, 0) }

// ring holds the last keptScores values.
type ring struct {
	values []float64
	next   int
}

func (r *ring) add(v float64) {
	if len(r.values) < keptScores {
		r.values = append(r.values, v)
		return
	}
	r.values[r.next] = v
	r.next = (r.next + 1) % keptScores
}

// sorted returns the values in order.
func (r *ring) sorted() []float64 {
	s := slices.Clone(r.values)
	slices.Sort(s)
	return s
}

// calibration corrects quantiles by the outcomes of earlier ones: conformalised
// quantile regression on the logarithms of times, with a level that adapts to misses.
type calibration struct {
	// low, mid and high are scores: how far outcomes were below the low end, above
	// the median and above the high end, in widths of the interval.
	low, mid, high ring
	seen           ring // outcomes, in seconds
	// levelLow and levelHigh are the parts of scores that may be larger than the
	// correction.
	levelLow, levelHigh float64
}

func newCalibration() *calibration {
	return &calibration{levelLow: tailLevel, levelHigh: tailLevel}
}

// count is how many outcomes it has.
func (c *calibration) count() int { return len(c.mid.values) }

// width is the unit of scores.
func width(q Quantiles) float64 { return max(logTime(q[2])-logTime(q[0]), leastWidth) }

// finite replaces what is beyond the horizon by the horizon, in seconds.
func finite(q Quantiles, horizon float64) Quantiles {
	for i := range q {
		q[i] = min(q[i], horizon)
	}
	return q
}

// correct returns the corrected quantiles. They are in order.
func (c *calibration) correct(q Quantiles) Quantiles {
	if c.count() == 0 {
		return q
	}
	w := width(q)
	low := logTime(q[0]) - w*conformal(c.low.sorted(), c.levelLow)
	high := logTime(q[2]) + w*conformal(c.high.sorted(), c.levelHigh)
	mid := logTime(q[1]) + w*quantile(c.mid.sorted(), 0.5)
	// A wide interval times a large score may be longer than anything that has happened.
	high = min(high, max(logTime(q[2]), logTime(beyondSeen*slices.Max(c.seen.values))))
	if low > high {
		low, high = mid, mid
	}
	mid = min(max(mid, low), high)
	return Quantiles{fromLogTime(low), fromLogTime(mid), fromLogTime(high)}
}

// conformal returns the score that a new one exceeds with at most this probability.
func conformal(sorted []float64, level float64) float64 {
	rank := int(math.Ceil((1 - level) * float64(len(sorted)+1)))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// learn adds the outcome of quantiles before correction.
func (c *calibration) learn(raw Quantiles, outcome float64) {
	w, y := width(raw), logTime(outcome)
	c.seen.add(outcome)
	c.low.add((logTime(raw[0]) - y) / w)
	c.mid.add((y - logTime(raw[1])) / w)
	c.high.add((y - logTime(raw[2])) / w)
}

// adapt moves the levels after the outcome of corrected quantiles is known: a miss
// widens later intervals, a hit narrows them a little.
func (c *calibration) adapt(published Quantiles, outcome float64) {
	move := func(level *float64, missed bool) {
		miss := 0.0
		if missed {
			miss = 1
		}
		*level = min(max(*level+adaption*(tailLevel-miss), 0), 0.5)
	}
	move(&c.levelLow, outcome < published[0])
	move(&c.levelHigh, outcome > published[2])
}

// Loss is the pinball loss of quantiles, averaged over the levels: how far the
// outcome is from them, weighted so that true quantiles have the least expected loss.
func Loss(q Quantiles, outcome float64) float64 {
	return pinball(q, outcome, func(x float64) float64 { return x })
}

// LogLoss is Loss on the logarithm of times.
func LogLoss(q Quantiles, outcome float64) float64 { return pinball(q, outcome, logTime) }

func pinball(q Quantiles, outcome float64, scale func(float64) float64) float64 {
	sum := 0.0
	for i, level := range Levels {
		d := scale(outcome) - scale(q[i])
		sum += max(level*d, (level-1)*d)
	}
	return sum / float64(len(q))
}
