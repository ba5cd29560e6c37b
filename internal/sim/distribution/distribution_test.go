package distribution

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func empirical(t rapid.TB, values, weights []float64) Distribution {
	t.Helper()
	d, err := NewEmpirical(values, weights)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestMeansAndMediansAreThoseOfTheLaw(t *testing.T) {
	tests := []struct {
		name         string
		law          Distribution
		mean, median float64
	}{
		{"constant", NewConstant(7), 7, 7},
		{"uniform", NewUniform(10, 30), 20, 20},
		{"exponential", NewExponential(5), 5, 5 * math.Ln2},
		{"lognormal", NewLogNormal(10, 0.5), 10 * math.Exp(0.125), 10},
		{"pareto", NewPareto(2, 3), 3, 2 * math.Cbrt(2)},
		{"empirical with equal weights", empirical(t, []float64{3, 1, 2}, nil), 2, 2},
		{"empirical with weights", empirical(t, []float64{100, 1}, []float64{1, 3}), 25.75, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			const n = 200_000
			stream := Seed(1).Named(test.name).Stream()
			draws := make([]float64, n)
			sum := 0.0
			for i := range draws {
				draws[i] = test.law.Draw(&stream)
				sum += draws[i]
			}
			slices.Sort(draws)
			if mean := sum / n; math.Abs(mean-test.mean) > 0.01*test.mean {
				t.Errorf("the mean of %d draws is %v, want about %v", n, mean, test.mean)
			}
			if median := draws[n/2]; math.Abs(median-test.median) > 0.01*test.median {
				t.Errorf("the median of %d draws is %v, want about %v", n, median, test.median)
			}
			if mean := test.law.Mean(); math.Abs(mean-test.mean) > 1e-9*test.mean {
				t.Errorf("Mean() is %v, want %v", mean, test.mean)
			}
		})
	}
}

func TestParetoWithoutAMeanSaysSo(t *testing.T) {
	law := NewPareto(1, 1)
	if mean := law.Mean(); !math.IsInf(mean, 1) {
		t.Errorf("Mean() is %v", mean)
	}
	bounded := law.Within(0, 50)
	if mean := bounded.Mean(); mean != 50 {
		t.Errorf("Mean() within 50 is %v", mean)
	}
}

func TestQuantilesGrowAndStayWithinBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		positive := rapid.Float64Range(0.01, 1000)
		law := rapid.SampledFrom([]Distribution{
			NewConstant(positive.Draw(t, "value")),
			NewUniform(1, 1+positive.Draw(t, "width")),
			NewExponential(positive.Draw(t, "mean")),
			NewLogNormal(positive.Draw(t, "median"), rapid.Float64Range(0, 3).Draw(t, "sigma")),
			NewPareto(positive.Draw(t, "minimum"), rapid.Float64Range(0.2, 5).Draw(t, "shape")),
			empirical(t, rapid.SliceOfN(positive, 1, 9).Draw(t, "values"), nil),
		}).Draw(t, "law")
		if rapid.Bool().Draw(t, "bounded") {
			law = law.Within(2, 20)
		}
		unit := rapid.Float64Range(0, 1-tiny)
		u, w := unit.Draw(t, "u"), unit.Draw(t, "w")
		low, high := law.Quantile(min(u, w)), law.Quantile(max(u, w))
		if low > high {
			t.Fatalf("the quantile at %v is %v, above the one at %v, %v", min(u, w), low, max(u, w), high)
		}
		if math.IsNaN(low) || math.IsInf(high, 0) || low < 0 {
			t.Fatalf("quantiles %v and %v", low, high)
		}
		if law.bounded && (low < 2 || high > 20) {
			t.Fatalf("quantiles %v and %v are out of bounds", low, high)
		}
	})
}

func TestEmpiricalLawsThatMakeNoSenseAreRefused(t *testing.T) {
	for _, test := range []struct{ values, weights []float64 }{
		{nil, nil},
		{[]float64{1}, []float64{1, 2}},
		{[]float64{1, 2}, []float64{1, -1}},
		{[]float64{1, 2}, []float64{0, 0}},
		{[]float64{1, 2}, []float64{math.NaN(), 1}},
		{[]float64{1, 2}, []float64{math.Inf(1), 1}},
	} {
		if _, err := NewEmpirical(test.values, test.weights); err == nil {
			t.Errorf("%v with weights %v was taken", test.values, test.weights)
		}
	}
}

func TestSeedsOfDifferentPartsDiffer(t *testing.T) {
	seen := map[Seed]string{}
	note := func(s Seed, name string) {
		if other, ok := seen[s]; ok {
			t.Errorf("%s has the seed of %s", name, other)
		}
		seen[s] = name
	}
	for root := range 4 {
		for n := range 200 {
			note(Seed(root).At(n), fmt.Sprintf("%d at %d", root, n))
			note(Seed(root).Named(fmt.Sprint("a", n)), fmt.Sprintf("%d named a%d", root, n))
			note(Seed(root).Named("b").At(n), fmt.Sprintf("%d named b at %d", root, n))
		}
	}
}

// The first draws of neighbouring seeds must look independent, because every
// job starts a separate stream.
func TestFirstDrawsOfNeighboursAreUniform(t *testing.T) {
	const n, cells = 100_000, 20
	var counts [cells]int
	var product, last float64
	parent := Seed(42).Named("jobs")
	for i := range n {
		stream := parent.At(i).Stream()
		u := stream.Float64()
		counts[int(u*cells)]++
		product += (u - 0.5) * (last - 0.5)
		last = u
	}
	for cell, count := range counts {
		if math.Abs(float64(count)-n/cells) > 5*math.Sqrt(n/cells) {
			t.Errorf("cell %d has %d of %d draws", cell, count, n)
		}
	}
	if correlation := product / n * 12; math.Abs(correlation) > 0.02 {
		t.Errorf("neighbours correlate: %v", correlation)
	}
}

// The promise "same seed, same output" holds across versions, so draws must not change.
func TestDrawsDoNotChange(t *testing.T) {
	stream := Seed(7).Named("template").At(3).Stream()
	got := fmt.Sprintf("%.6f %.6f %.6f", stream.Float64(), stream.Float64(), stream.Float64())
	if want := "0.053337 0.577942 0.355461"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
