package digest

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var (
	userJob  = Options{LowerBound: 0.05, UpperBound: 1, DefaultValue: 0.5}
	jobProxy = Options{LowerBound: 0.5, UpperBound: 2, DefaultValue: 1}
)

func mustNew(t testing.TB, o Options) Digest {
	t.Helper()
	d, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestSizesOfTheReference(t *testing.T) {
	for want, o := range map[int]Options{302: userJob, 140: jobProxy, 1: {LowerBound: 1, UpperBound: 1}} {
		if d := mustNew(t, o); d.size != want {
			t.Errorf("%+v: %d buckets, want %d", o, d.size, want)
		}
	}
}

func TestQuantilesOfTheReference(t *testing.T) {
	repeat := func(x float64, n int) []float64 { return slices.Repeat([]float64{x}, n) }
	cases := []struct {
		name    string
		samples []float64
		part    float64
		want    float64
	}{
		{"no sample: the default value", nil, 0.95, 0.5},
		{"one sample of 0.30", repeat(0.30, 1), 0.95, 0.3028},
		{"nineteen of 0.30 and one of 0.80: exactly 95 % lie below", append(repeat(0.30, 19), 0.80), 0.95, 0.3028},
		{"eighteen and two", append(repeat(0.30, 18), 0.80, 0.80), 0.95, 0.8028},
		{"one sample above the upper bound", repeat(1.2, 1), 0.95, 1},
		{"one sample below the lower bound", repeat(0.01, 1), 0.95, 0.0505},
		{"the quantile 0 is the lower bound", repeat(0.7, 5), 0, 0.05},
		{"the quantile 1 is above all samples", append(repeat(0.3, 99), 0.8), 1, 0.8028},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := mustNew(t, userJob)
			for _, x := range c.samples {
				d.Add(x)
			}
			if got := d.Quantile(c.part); math.Abs(got-c.want) > 0.00005 {
				t.Errorf("%v, want %v", got, c.want)
			}
			if d.Count() != int64(len(c.samples)) {
				t.Errorf("%d samples", d.Count())
			}
		})
	}
}

func TestSamplesOutsideTheBoundsAnswerWithTheBoundExactly(t *testing.T) {
	d := mustNew(t, userJob)
	d.Add(1e9)
	if got := d.Quantile(0.95); got != 1 {
		t.Errorf("%v, want exactly 1", got)
	}
}

func TestWhatIsNoPositiveNumberIsIgnored(t *testing.T) {
	d := mustNew(t, userJob)
	for _, x := range []float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1)} {
		d.Add(x)
	}
	if d.Count() != 0 || d.Quantile(0.95) != 0.5 {
		t.Errorf("%d samples, %v", d.Count(), d.Quantile(0.95))
	}
}

func TestTheDefaultValueIsTheLowerBoundIfItIsNotGiven(t *testing.T) {
	d := mustNew(t, Options{LowerBound: 0.2, UpperBound: 1})
	if got := d.Quantile(0.95); got != 0.2 {
		t.Error(got)
	}
	if got := d.Options(); got != (Options{LowerBound: 0.2, UpperBound: 1, DefaultValue: 0.2, Precision: 0.01}) {
		t.Errorf("%+v", got)
	}
}

func TestOptionsThatMakeNoDigestAreRefused(t *testing.T) {
	cases := []struct {
		options Options
		want    []string
	}{
		{Options{}, []string{"lower bound 0"}},
		{Options{LowerBound: -1, UpperBound: 1}, []string{"lower bound -1"}},
		{Options{LowerBound: math.NaN(), UpperBound: 1}, []string{"lower bound NaN", "upper bound 1", "default value NaN"}},
		{Options{LowerBound: 2, UpperBound: 1, Precision: -1}, []string{"upper bound 1", "default value 2", "precision -1"}},
		{Options{LowerBound: 1, UpperBound: math.Inf(1)}, []string{"upper bound +Inf"}},
		{Options{LowerBound: 1, UpperBound: 2, DefaultValue: 3}, []string{"default value 3 must be between the bounds, 1 and 2"}},
		{Options{LowerBound: 1, UpperBound: 2, DefaultValue: 0.5}, []string{"default value 0.5"}},
		{Options{LowerBound: 1, UpperBound: 2, Precision: 1.5}, []string{"precision 1.5"}},
		{Options{LowerBound: 1e-9, UpperBound: 1}, []string{"more than 1000 buckets"}},
		{Options{LowerBound: 5e-324, UpperBound: math.MaxFloat64, Precision: 1}, []string{"more than 1000 buckets"}},
	}
	for _, c := range cases {
		_, err := New(c.options)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v, want %q", c.options, err, want)
			}
		}
	}
}

func TestAClonedDigestGoesItsOwnWay(t *testing.T) {
	d := mustNew(t, userJob)
	d.Add(0.3)
	c := d.Clone()
	c.Add(0.9)
	if d.Count() != 1 || c.Count() != 2 || d.Quantile(1) > 0.31 {
		t.Errorf("%d and %d samples, %v", d.Count(), c.Count(), d.Quantile(1))
	}
}

func drawOptions(t *rapid.T) Options {
	lower := rapid.Float64Range(0.01, 1).Draw(t, "lower")
	upper := lower * rapid.Float64Range(1, 20).Draw(t, "upper")
	part := rapid.Float64Range(0, 1).Draw(t, "default")
	return Options{
		LowerBound: lower, UpperBound: upper, DefaultValue: min(lower+part*(upper-lower), upper),
		Precision: rapid.SampledFrom([]float64{0.005, 0.01, 0.1, 1}).Draw(t, "precision"),
	}
}

// exactQuantile is the slow twin: the smallest sample that is at least as large
// as the given fraction of all samples.
func exactQuantile(samples []float64, part float64) float64 {
	slices.Sort(samples)
	for i, x := range samples {
		if float64(i+1) >= part*float64(len(samples)) {
			return x
		}
	}
	return math.NaN()
}

func TestPropertyQuantilesAreRightUpToThePrecision(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := drawOptions(t)
		d, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		samples := rapid.SliceOfN(rapid.Float64Range(o.LowerBound/2, o.UpperBound*2), 1, 200).Draw(t, "samples")
		for i, x := range samples {
			d.Add(x)
			samples[i] = min(max(x, o.LowerBound), o.UpperBound)
		}
		part := rapid.Float64Range(0.001, 1).Draw(t, "part")
		exact, got := exactQuantile(samples, part), d.Quantile(part)
		const rounding = 1e-9
		if got < exact*(1-rounding) || got > exact*(1+o.Precision)*(1+rounding) {
			t.Fatalf("quantile %v is %v, exactly %v", part, got, exact)
		}
		if got < o.LowerBound || got > o.UpperBound {
			t.Fatalf("%v is not between %v and %v", got, o.LowerBound, o.UpperBound)
		}
		if more := d.Quantile(min(1, part*1.1)); more < got {
			t.Fatalf("a higher quantile is lower: %v, %v", more, got)
		}
		if d.Quantile(0) != o.LowerBound {
			t.Fatalf("the quantile 0 is %v", d.Quantile(0))
		}
	})
}

func TestPropertyRestoredDigestsAreTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, err := New(drawOptions(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range rapid.SliceOf(rapid.Float64Range(0, 3)).Draw(t, "samples") {
			d.Add(x)
		}
		text, err := json.Marshal(d.Snapshot())
		if err != nil {
			t.Fatal(err)
		}
		var fromJSON, fromGob Snapshot
		var data bytes.Buffer
		err = errors.Join(json.Unmarshal(text, &fromJSON), gob.NewEncoder(&data).Encode(d.Snapshot()), gob.NewDecoder(&data).Decode(&fromGob))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []Snapshot{fromJSON, fromGob} {
			back, err := Restore(s)
			if err != nil || !reflect.DeepEqual(back, d) {
				t.Fatalf("%v: %+v, want %+v", err, back, d)
			}
		}
	})
}

func TestSnapshotsThatDoNotFitAreRefused(t *testing.T) {
	good := mustNew(t, jobProxy)
	good.Add(1)
	cases := map[string]func(s *Snapshot){
		"upper bound 0.1":             func(s *Snapshot) { s.UpperBound = 0.1 },
		"bucket 140 of 140":           func(s *Snapshot) { s.Buckets = [][2]int64{{140, 1}} },
		"bucket -1 after bucket -1":   func(s *Snapshot) { s.Buckets = [][2]int64{{-1, 1}} },
		"bucket 3 after bucket 3":     func(s *Snapshot) { s.Buckets = [][2]int64{{3, 1}, {3, 1}} },
		"bucket 4 has 0 samples":      func(s *Snapshot) { s.Buckets = [][2]int64{{4, 0}} },
		"bucket 5 has -7 samples":     func(s *Snapshot) { s.Buckets = [][2]int64{{4, 1}, {5, -7}} },
		"bucket 6 has 90071992547409": func(s *Snapshot) { s.Buckets = [][2]int64{{5, 1}, {6, maxCount}} },
	}
	for want, spoil := range cases {
		s := good.Snapshot()
		spoil(&s)
		if _, err := Restore(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// FuzzRestore restores arbitrary bytes: nothing panics, and an accepted snapshot
// is a valid digest.
func FuzzRestore(f *testing.F) {
	d := mustNew(f, userJob)
	d.Add(0.3)
	d.Add(0.7)
	text, err := json.Marshal(d.Snapshot())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"lower_bound":0.5,"upper_bound":2,"buckets":[[139,9007199254740992]]}`))
	f.Add([]byte(`{"lower_bound":1e-300,"upper_bound":1e300,"relative_precision":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var s Snapshot
		if json.Unmarshal(data, &s) != nil {
			return
		}
		d, err := Restore(s)
		if err != nil {
			return
		}
		d.Add(1)
		for _, part := range []float64{-1, 0, 0.5, 0.95, 1, 2} {
			if q := d.Quantile(part); !(q >= d.options.LowerBound && q <= d.options.UpperBound) {
				t.Fatalf("quantile %v is %v", part, q)
			}
		}
		if again, err := Restore(d.Snapshot()); err != nil || !reflect.DeepEqual(again, d) {
			t.Fatalf("%v: a restored digest differs", err)
		}
	})
}

func BenchmarkAddAndQuantile(b *testing.B) {
	d := mustNew(b, userJob)
	x := 0.05
	for b.Loop() {
		d.Add(x)
		x = d.Quantile(0.95)
	}
}
