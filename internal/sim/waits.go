package sim

import (
	"math"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/sim/outcome"
)

// waits are waiting times, all of them, in units of ten milliseconds: four bytes
// a job and exact percentiles.
type waits []uint32

const waitUnit = 10 * time.Millisecond

func (w *waits) add(d time.Duration) {
	*w = append(*w, uint32(min((d+waitUnit/2)/waitUnit, math.MaxUint32)))
}

// figures returns the distribution of waits. It sorts them.
func (w waits) figures() outcome.Waits {
	if len(w) == 0 {
		return outcome.Waits{}
	}
	slices.Sort(w)
	sum := 0.0
	for _, v := range w {
		sum += float64(v)
	}
	seconds := func(units float64) float64 { return outcome.Round(units * waitUnit.Seconds()) }
	at := func(part float64) float64 { return seconds(float64(w[rank(part, len(w))])) }
	return outcome.Waits{
		Count: int64(len(w)), Mean: seconds(sum / float64(len(w))),
		P50: at(0.50), P90: at(0.90), P99: at(0.99), Max: at(1),
	}
}

// rank is the index of the smallest value that at least this part of all values
// does not exceed.
func rank(part float64, count int) int {
	return max(int(math.Ceil(part*float64(count)))-1, 0)
}

// waitBounds are the bucket bounds of a histogram, in seconds.
var waitBounds = [...]float64{
	1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 2 * 3600, 6 * 3600, 12 * 3600,
	86400, 2 * 86400, 7 * 86400, 30 * 86400, 365 * 86400, math.MaxUint32,
}

// histogram counts sorted waits in buckets with round bounds, as many as needed.
func (w waits) histogram() (buckets []outcome.HistogramBucket) {
	i := 0
	for _, bound := range waitBounds {
		if i == len(w) {
			break
		}
		bucket := outcome.HistogramBucket{UpTo: bound}
		for ; i < len(w) && float64(w[i])*waitUnit.Seconds() <= bound; i++ {
			bucket.Count++
		}
		buckets = append(buckets, bucket)
	}
	return buckets
}
