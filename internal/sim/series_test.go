package sim

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/sim/outcome"
	"github.com/weirhq/weir/internal/value/resource"
)

func TestPercentilesAreThoseOfTheSortedList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.IntRange(0, 100_000), 1, 300).Draw(t, "waits")
		var w waits
		sum := 0.0
		for _, v := range list {
			w.add(time.Duration(v) * waitUnit)
			sum += float64(v) / 100
		}
		slices.Sort(list)
		f := w.figures()
		for part, got := range map[float64]float64{0.5: f.P50, 0.9: f.P90, 0.99: f.P99, 1: f.Max} {
			// The smallest value that is at least as large as this fraction of the values.
			i := slices.IndexFunc(list, func(v int) bool {
				below := 0
				for _, other := range list {
					if other <= v {
						below++
					}
				}
				return float64(below) >= part*float64(len(list))-1e-9
			})
			if want := outcome.Round(float64(list[i]) / 100); got != want {
				t.Fatalf("percentile %v is %v, want %v", part, got, want)
			}
		}
		if math.Abs(f.Mean-sum/float64(len(list))) > 1e-5*f.Mean+1e-9 || f.Count != int64(len(list)) {
			t.Fatalf("mean %v of %d", f.Mean, f.Count)
		}
		total := int64(0)
		for _, b := range w.histogram() {
			total += b.Count
		}
		if total != f.Count {
			t.Fatalf("the histogram has %d of %d", total, f.Count)
		}
	})
	var w waits
	w.add(1 << 62)
	if w[0] != math.MaxUint32 {
		t.Errorf("an endless wait is %d", w[0])
	}
}

// Merging intervals preserves sums, and there are never more intervals than allowed.
func TestSeriesStayBoundedAndKeepTheirSums(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := series{step: time.Second, most: rapid.IntRange(2, 20).Draw(t, "most"), kinds: []resource.Kind{resource.CPU}}
		s.cluster = curve{width: 5}
		var pools []poolAccount
		sums := map[int]float64{}
		for second := range rapid.IntRange(1, 300).Draw(t, "seconds") {
			if rapid.IntRange(0, 40).Draw(t, "new") == 0 {
				pools = append(pools, poolAccount{curve: s.newCurve()})
			}
			interval := s.at(time.Duration(second)*time.Second, pools)
			s.cluster.row(interval)[0]++
			for i := range pools {
				if v := float64(rapid.IntRange(0, 3).Draw(t, "value")); v > 0 {
					pools[i].curve.row(interval)[2] += v
					sums[i] += v
				}
			}
			if s.count > s.most {
				t.Fatalf("%d intervals, at most %d", s.count, s.most)
			}
		}
		end := time.Duration(s.count) * s.step
		for i := range pools {
			got := 0.0
			for _, v := range s.column(&pools[i].curve, 2, end, true) {
				got += v
			}
			if math.Abs(got-sums[i]) > 1e-6 {
				t.Fatalf("pool %d has %v, want %v", i, got, sums[i])
			}
		}
	})
}
