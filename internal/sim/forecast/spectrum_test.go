package forecast

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// slowSpectrum is the obvious twin of a spectrum: all samples with their weights.
type slowSpectrum struct {
	seconds, weights []float64
	cut              []bool
}

func (s *slowSpectrum) add(seconds, weight float64, cut bool) {
	for i := range s.weights {
		s.weights[i] *= math.Pow(forgetting, weight)
	}
	s.seconds, s.weights, s.cut = append(s.seconds, edge(float64(bucketOf(seconds)))), append(s.weights, weight), append(s.cut, cut)
}

// survival is the estimate of Kaplan and Meier after a bucket.
func (s *slowSpectrum) survival(after float64) float64 {
	ends := slices.Clone(s.seconds)
	slices.Sort(ends)
	survival := 1.0
	for _, at := range slices.Compact(ends) {
		if at > after {
			break
		}
		risk, ended := 0.0, 0.0
		for i := range s.seconds {
			if s.seconds[i] >= at {
				risk += s.weights[i]
				if s.seconds[i] == at && !s.cut[i] {
					ended += s.weights[i]
				}
			}
		}
		survival *= 1 - ended/risk
	}
	return survival
}

func TestPropertyASpectrumEqualsItsSlowTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var fast spectrum
		var slow slowSpectrum
		for range rapid.IntRange(1, 40).Draw(t, "samples") {
			seconds := rapid.SampledFrom([]float64{0.05, 1, 3, 3.01, 10, 60, 600, 3600, 86400, 1e8}).Draw(t, "seconds")
			weight := rapid.SampledFrom([]float64{1, 1, 0.5, 0.125}).Draw(t, "weight")
			cut := rapid.IntRange(0, 3).Draw(t, "cut") == 0
			fast.add(seconds, weight, cut)
			slow.add(seconds, weight, cut)
		}
		ends := 0.0
		for i := range slow.weights {
			if !slow.cut[i] {
				ends += slow.weights[i]
			}
		}
		if math.Abs(fast.samples()-ends) > 1e-6 {
			t.Fatalf("got %v samples, want %v", fast.samples(), ends)
		}
		l := fast.law()
		for _, s := range l.steps {
			if want := slow.survival(edge(float64(s.bucket))); math.Abs(s.after-want) > 1e-6 {
				t.Fatalf("after bucket %d: got survival %v, want %v", s.bucket, s.after, want)
			}
		}
	})
}

func TestPropertyDrawsAreMonotoneAndOlderThanTheJob(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s spectrum
		for range rapid.IntRange(0, 30).Draw(t, "samples") {
			s.add(math.Exp(rapid.Float64Range(-3, 12).Draw(t, "seconds")), 1, rapid.IntRange(0, 4).Draw(t, "cut") == 0)
		}
		l := s.law()
		age := rapid.SampledFrom([]float64{0, 0.01, 1, 100, 3000, 1e6}).Draw(t, "age")
		last := age
		for i := range 200 {
			d := l.draw(age, (float64(i)+0.5)/200)
			if math.IsNaN(d) || d < last-1e-9*last {
				t.Fatalf("age %v: draw %d is %v after %v", age, i, d, last)
			}
			last = d
		}
		if m := l.mean(age); math.IsNaN(m) || m < age*(1-1e-9) {
			t.Fatalf("age %v: mean %v", age, m)
		}
		for _, at := range []float64{0, 0.5, 7, 1e4, 1e9} {
			if p := l.part(at); !(p >= 0 && p < 1) || p > l.part(at*2+1)+1e-9 {
				t.Fatalf("part(%v) is %v, part(%v) %v", at, p, at*2+1, l.part(at*2+1))
			}
		}
	})
}

func TestASpectrumFollowsRecentRunTimesInLittleMemory(t *testing.T) {
	var s spectrum
	for i := range 100_000 {
		s.add(0.2*math.Exp(float64(i%17)), 1, false)
	}
	for range 400 {
		s.add(100, 1, false)
	}
	if median := s.law().draw(0, 0.5); median < 90 || median > 112 {
		t.Errorf("the median is %v after 400 run times of 100 s", median)
	}
	if n := s.samples(); n < 49 || n > 51 {
		t.Errorf("%v samples count, want about 50", n)
	}
	if len(s.cells) > maxCells {
		t.Errorf("%d cells", len(s.cells))
	}
}

func TestDrawsHaveATailBeyondTheSamples(t *testing.T) {
	var s spectrum
	for range 8 {
		s.add(100, 1, false)
	}
	l, beyond, largest := s.law(), 0, edge(float64(bucketOf(100)+1))
	for i := range 1000 {
		if d := l.draw(0, (float64(i)+0.5)/1000); d > largest {
			beyond++
			if d > longest*largest {
				t.Errorf("draw %v", d)
			}
		}
	}
	if want := int(1000 * tailPart(s.samples())); beyond < want-2 || beyond > want+2 {
		t.Errorf("%d of 1000 draws are beyond the samples, want %d", beyond, want)
	}
	// A job that is older than all samples is measured by its age.
	if d := l.draw(500, 0.5); d != 1000 {
		t.Errorf("half of the jobs of age 500 s run for at least %v s, want 1000", d)
	}
}
