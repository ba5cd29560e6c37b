// Package distribution owns randomness in simulations: seeds that are derived by
// name, so that the draws of one part do not depend on those of others, and the
// distributions of job counts, sizes, durations and arrivals.
//
// Every draw is a monotone function of one uniform number from PCG. Two runs
// with the same seed draw the same values, and values of two distributions that
// are drawn at the same place are coupled: the larger uniform gives the larger
// value in both.
//
// Values only: the package knows nothing about scenarios and imports no package
// of this module.
package distribution

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Kind is the family of a distribution.
type Kind uint8

const (
	Constant Kind = iota
	Uniform
	Exponential
	LogNormal
	Pareto
	Empirical
)

var kindNames = [...]string{"constant", "uniform", "exponential", "lognormal", "pareto", "empirical"}

// String returns the name that documents use.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Distribution is a law of random numbers. The zero Distribution is always 0.
type Distribution struct {
	kind Kind
	// a and b are the parameters: the value; from and to; the mean; the median
	// and sigma; the minimum and the shape.
	a, b float64
	// values and their cumulated weights, of an empirical distribution.
	values, upTo []float64
	// low and high bound what is drawn, if bounded.
	low, high float64
	bounded   bool
}

// NewConstant is always value.
func NewConstant(value float64) Distribution { return Distribution{kind: Constant, a: value} }

// NewUniform is spread evenly from low to high.
func NewUniform(low, high float64) Distribution { return Distribution{kind: Uniform, a: low, b: high} }

// NewExponential has this mean; it is the time between independent events.
func NewExponential(mean float64) Distribution { return Distribution{kind: Exponential, a: mean} }

// NewLogNormal has a normal logarithm: half of the values are below the median,
// and two thirds within a factor of e^sigma of it.
func NewLogNormal(median, sigma float64) Distribution {
	return Distribution{kind: LogNormal, a: median, b: sigma}
}

// NewPareto has no value below minimum, and a part x^-shape of its values is
// more than x times that. With a shape of 1 or less it has no mean.
func NewPareto(minimum, shape float64) Distribution {
	return Distribution{kind: Pareto, a: minimum, b: shape}
}

// NewEmpirical draws one of the values, with probabilities in proportion to the
// weights, or equal ones if there are no weights. It needs a value, a weight for
// each if any, and weights that are not negative and not all zero.
func NewEmpirical(values, weights []float64) (Distribution, error) {
	switch {
	case len(values) == 0:
		return Distribution{}, fmt.Errorf("needs at least one value")
	case len(weights) != 0 && len(weights) != len(values):
		return Distribution{}, fmt.Errorf("has %d values and %d weights", len(values), len(weights))
	}
	type weighted struct{ value, weight float64 }
	pairs := make([]weighted, len(values))
	total := 0.0
	for i, v := range values {
		pairs[i] = weighted{v, 1}
		if len(weights) > 0 {
			pairs[i].weight = weights[i]
		}
		if !(pairs[i].weight >= 0) {
			return Distribution{}, fmt.Errorf("has a negative weight, %v", weights[i])
		}
		total += pairs[i].weight
	}
	if !(total > 0) || math.IsInf(total, 0) {
		return Distribution{}, fmt.Errorf("has weights whose sum is %v", total)
	}
	// In the order of values, so that draws are monotone.
	slices.SortStableFunc(pairs, func(a, b weighted) int { return cmp.Compare(a.value, b.value) })
	d := Distribution{kind: Empirical}
	sum := 0.0
	for _, p := range pairs {
		sum += p.weight
		d.values = append(d.values, p.value)
		d.upTo = append(d.upTo, sum/total)
	}
	return d, nil
}

// Within returns the distribution with values below low replaced by low and
// those above high by high.
func (d Distribution) Within(low, high float64) Distribution {
	d.low, d.high, d.bounded = low, high, true
	return d
}

// Value returns the only value of a constant distribution.
func (d Distribution) Value() (value float64, constant bool) {
	return d.clip(d.a), d.kind == Constant
}

// Draw draws one number from the stream and returns the value at that quantile.
func (d *Distribution) Draw(s *Stream) float64 { return d.Quantile(s.Float64()) }

// Quantile returns the value that a fraction u of all values is below; u is at
// least 0 and less than 1.
func (d *Distribution) Quantile(u float64) float64 {
	var v float64
	switch d.kind {
	case Constant:
		v = d.a
	case Uniform:
		v = d.a + (d.b-d.a)*u
	case Exponential:
		v = -d.a * math.Log1p(-u)
	case LogNormal:
		v = d.a * math.Exp(d.b*math.Sqrt2*math.Erfinv(2*max(u, tiny)-1))
	case Pareto:
		v = d.a * math.Pow(1-u, -1/d.b)
	case Empirical:
		i, _ := slices.BinarySearchFunc(d.upTo, u, func(upTo, u float64) int {
			if upTo <= u {
				return -1
			}
			return 1
		})
		v = d.values[min(i, len(d.values)-1)]
	}
	return d.clip(v)
}

// tiny keeps the quantile at 0 of a distribution without a least value finite.
const tiny = 1.0 / (1 << 53)

func (d *Distribution) clip(v float64) float64 {
	if d.bounded {
		return min(max(v, d.low), d.high)
	}
	return v
}

// Mean returns the mean, as if there were no bounds but never beyond them. It is
// infinite for a Pareto distribution with a shape of 1 or less.
func (d *Distribution) Mean() float64 {
	mean := d.a
	switch d.kind {
	case Uniform:
		mean = (d.a + d.b) / 2
	case LogNormal:
		mean = d.a * math.Exp(d.b*d.b/2)
	case Pareto:
		mean = math.Inf(1)
		if d.b > 1 {
			mean = d.a * d.b / (d.b - 1)
		}
	case Empirical:
		mean = 0
		before := 0.0
		for i, v := range d.values {
			mean += v * (d.upTo[i] - before)
			before = d.upTo[i]
		}
	}
	return d.clip(mean)
}
