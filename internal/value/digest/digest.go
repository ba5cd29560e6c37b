// Package digest owns approximate quantiles of positive samples: memory use as a part of a limit,
// from which reserves are chosen.
//
// A digest stores no samples. It counts them in buckets whose edges grow by a constant factor, so a
// quantile is right up to that factor, whatever the samples are, and ten samples need the same
// memory as a million.
//
// The package is pure and imports only the standard library; it must not know what the samples
// measure.
package digest

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// MaxBuckets bounds the memory of a digest.
const MaxBuckets = 1000

// DefaultPrecision is the relative error of digests that do not set one.
const DefaultPrecision = 0.01

// Options describe a digest.
type Options struct {
	// LowerBound and UpperBound are the least and the greatest answer. Samples beyond them count as
	// the bounds.
	LowerBound float64
	UpperBound float64
	// DefaultValue is the answer before there are samples; zero: LowerBound.
	DefaultValue float64
	// Precision is the relative error, between 0 and 1; zero: DefaultPrecision.
	Precision float64
}

// Digest counts samples. The zero value is not usable: make one with New. A Digest must not be
// copied by assignment once it has samples; see Clone.
type Digest struct {
	options Options
	logStep float64
	size    int
	buckets []int64 // nil until the first sample
	count   int64
}

// New returns an empty digest. The error lists all problems of the options.
func New(options Options) (Digest, error) {
	if options.DefaultValue == 0 {
		options.DefaultValue = options.LowerBound
	}
	if options.Precision == 0 {
		options.Precision = DefaultPrecision
	}
	lower, value, upper := options.LowerBound, options.DefaultValue, options.UpperBound
	var problems []error
	if !(lower > 0) || math.IsInf(lower, 0) {
		problems = append(problems, fmt.Errorf("lower bound %v must be a number above zero", lower))
	}
	if !(lower <= upper) || math.IsInf(upper, 0) {
		problems = append(problems, fmt.Errorf("upper bound %v must be a number not below the lower bound, %v", upper, lower))
	}
	if !(lower <= value && value <= upper) {
		problems = append(problems, fmt.Errorf("default value %v must be between the bounds, %v and %v", value, lower, upper))
	}
	if !(options.Precision > 0 && options.Precision <= 1) {
		problems = append(problems, fmt.Errorf("precision %v must be above 0 and at most 1", options.Precision))
	}
	if len(problems) > 0 {
		return Digest{}, fmt.Errorf("digest: %w", errors.Join(problems...))
	}
	d := Digest{options: options, logStep: math.Log(1 + options.Precision)}
	buckets := math.Log(upper/lower) / d.logStep
	if !(buckets <= MaxBuckets) {
		return Digest{}, fmt.Errorf("digest: bounds %v and %v are too far apart for precision %v: more than %d buckets",
			lower, upper, options.Precision, MaxBuckets)
	}
	d.size = max(1, int(math.Ceil(buckets)))
	return d, nil
}

// Options returns the options of the digest, with defaults filled in.
func (d *Digest) Options() Options { return d.options }

// Count is the number of samples.
func (d *Digest) Count() int64 { return d.count }

// Add counts a sample. It ignores anything but positive finite numbers.
func (d *Digest) Add(x float64) {
	bucket := math.Log(x/d.options.LowerBound) / d.logStep
	isNumber := bucket >= math.MinInt32 && bucket <= math.MaxInt32 // NaN is not
	if !isNumber || d.count == maxCount {
		return
	}
	if d.buckets == nil {
		d.buckets = make([]int64, d.size)
	}
	d.buckets[min(max(int(bucket), 0), d.size-1)]++
	d.count++
}

// Quantile returns a value that at least the given part of all samples does not exceed: the upper
// edge of the bucket in which that part is reached. It is always within the bounds. For a digest
// without samples it is the default value.
func (d *Digest) Quantile(part float64) float64 {
	if d.count == 0 {
		return d.options.DefaultValue
	}
	wanted := part * float64(d.count)
	step := 1 + d.options.Precision
	value := d.options.LowerBound
	sum := int64(0)
	for _, n := range d.buckets {
		if float64(sum) >= wanted {
			return min(value, d.options.UpperBound)
		}
		sum += n
		value *= step
	}
	return d.options.UpperBound
}

// Clone returns an independent copy.
func (d *Digest) Clone() Digest {
	copied := *d
	copied.buckets = slices.Clone(d.buckets)
	return copied
}
