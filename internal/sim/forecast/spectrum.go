package forecast

import (
	"cmp"
	"math"
	"slices"
)

// Bounds of the buckets of run times: edges grow by a constant factor, so that a
// quantile is right up to this factor.
const (
	leastSeconds = 0.1
	bucketRatio  = 1.06
	bucketCount  = 302 // up to 51 days
	// forgetting is what a sample keeps of its weight when a sample of weight one
	// is added.
	forgetting = 0.98
	// Less than this part of a spectrum is dropped.
	negligible = 1e-4
)

var logRatio = math.Log(bucketRatio)

// cell is one bucket of a spectrum.
type cell struct {
	bucket int32
	// ended is the weight of the run times in the bucket, and cut the weight of jobs
	// that were stopped at this age.
	ended, cut float64
}

// spectrum is the distribution of run times of some jobs, recent ones first. Jobs
// that were stopped count as censored at their age. The zero value is empty.
type spectrum struct {
	cells []cell // by bucket, only those with weight
	// scale is the weight of a new sample of weight one; it grows instead of all
	// others shrinking.
	scale float64
	// all and ends are the weights of all samples and of those that ended, in units
	// of scale.
	all, ends float64
}

func bucketOf(seconds float64) int32 {
	if !(seconds > leastSeconds) {
		return 0
	}
	return int32(min(math.Log(seconds/leastSeconds)/logRatio, bucketCount-1))
}

// edge is the lower edge of a bucket, in seconds.
func edge(bucket float64) float64 { return leastSeconds * math.Exp(bucket*logRatio) }

// add adds a run time with a weight of at most one.
func (s *spectrum) add(seconds, weight float64, cut bool) {
	if s.scale == 0 || s.scale > 1e12 {
		s.rescale()
	}
	s.scale /= math.Pow(forgetting, weight)
	bucket, weight := bucketOf(seconds), weight*s.scale
	i, found := slices.BinarySearchFunc(s.cells, bucket, func(c cell, b int32) int { return cmp.Compare(c.bucket, b) })
	if !found {
		if len(s.cells) >= maxCells {
			s.prune()
			i, _ = slices.BinarySearchFunc(s.cells, bucket, func(c cell, b int32) int { return cmp.Compare(c.bucket, b) })
		}
		s.cells = slices.Insert(s.cells, i, cell{bucket: bucket})
	}
	s.all += weight
	if cut {
		s.cells[i].cut += weight
		return
	}
	s.cells[i].ended += weight
	s.ends += weight
}

// maxCells bounds the memory of a spectrum before cells of negligible weight are
// dropped.
const maxCells = 48

// prune drops cells whose weight is negligible.
func (s *spectrum) prune() {
	s.cells = slices.DeleteFunc(s.cells, func(c cell) bool { return c.ended+c.cut < negligible*s.all })
	s.sum()
}

func (s *spectrum) rescale() {
	if s.scale == 0 {
		s.scale = 1
		return
	}
	for i := range s.cells {
		s.cells[i].ended /= s.scale
		s.cells[i].cut /= s.scale
	}
	s.scale = 1
	s.prune()
}

func (s *spectrum) sum() {
	s.all, s.ends = 0, 0
	for _, c := range s.cells {
		s.all += c.ended + c.cut
		s.ends += c.ended
	}
}

// samples is the weight of the run times: recent ones count one each.
func (s *spectrum) samples() float64 {
	if s == nil || s.scale == 0 {
		return 0
	}
	return s.ends / s.scale
}

// law is a spectrum with its survival function, ready for draws.
type law struct {
	steps []step // where jobs ended, by bucket
	// samples is the weight of the run times, and tail the part that is beyond the
	// largest one.
	samples, tail float64
}

// step is a bucket in which jobs ended.
type step struct {
	bucket int32
	// after is the part of all jobs that runs longer than this bucket, by the
	// estimate of Kaplan and Meier. above is the weight of the run times in later
	// buckets.
	after, above float64
}

// law returns the distribution of a spectrum.
func (s *spectrum) law() *law {
	l := &law{samples: s.samples()}
	if l.samples == 0 {
		return l
	}
	risk, above, survival := s.all, s.ends, 1.0
	for _, c := range s.cells {
		above = max(above-c.ended, 0)
		if c.ended > 0 && risk > 0 {
			survival *= max(1-c.ended/risk, 0)
			l.steps = append(l.steps, step{c.bucket, survival, above / s.scale})
		}
		risk -= c.ended + c.cut
	}
	if last := &l.steps[len(l.steps)-1]; last.after < 1e-9 {
		last.after = 0
	}
	l.tail = max(tailPart(l.samples), l.steps[len(l.steps)-1].after)
	return l
}

// tailPart is the probability that a run time exceeds the largest of n.
func tailPart(n float64) float64 { return 2 / (n + 2) }

// survival is the part of all jobs that the samples let run longer than this.
func (l *law) survival(seconds float64) float64 {
	if len(l.steps) == 0 || !(seconds > leastSeconds) {
		return 1
	}
	at := math.Log(seconds/leastSeconds) / logRatio
	before := 1.0
	for _, s := range l.steps {
		if at < float64(s.bucket) {
			return before
		}
		if at < float64(s.bucket+1) {
			return before + (s.after-before)*(at-float64(s.bucket))
		}
		before = s.after
	}
	return before
}

// part is the probability that a job runs at most this long, with the tail.
func (l *law) part(seconds float64) float64 {
	if len(l.steps) == 0 {
		return 0
	}
	last := l.steps[len(l.steps)-1]
	if largest := edge(float64(last.bucket + 1)); seconds >= largest {
		return min(1-l.tail*largest/seconds, 0.9999)
	}
	end := last.after
	return (1 - l.tail) * (1 - l.survival(seconds)) / max(1-end, 1e-9)
}

// Rules for what samples do not show.
const (
	fewSamples = 2.9 // with less weight above an age, the age itself is the measure: three run times, after forgetting
	longest    = 10  // no draw beyond the samples exceeds them, or the age, by more than this factor
)

// pareto is a factor with the tail 1/x, cut at longest.
func pareto(u float64) float64 { return min(1/(1-u), longest) }

// draw returns the run time of a job that is older than age, at a quantile of the
// jobs that are: u from 0 to below 1.
func (l *law) draw(age, u float64) float64 {
	if len(l.steps) == 0 {
		return max(age, leastSeconds) * pareto(u)
	}
	last := l.steps[len(l.steps)-1]
	largest := edge(float64(last.bucket + 1))
	now, above := l.survival(age), l.above(age)
	if age > 0 && above < fewSamples || now <= last.after {
		return max(age, leastSeconds) * pareto(u)
	}
	tail := l.tail
	if age > 0 {
		tail = max(tailPart(above), last.after/now)
	}
	if u >= 1-tail {
		return largest * pareto((u-(1-tail))/tail)
	}
	// Within the samples survival falls from now to that of the last one.
	want := now - (now-last.after)*u/(1-tail)
	before := 1.0
	for _, s := range l.steps {
		if want > s.after {
			part := (before - want) / (before - s.after)
			return max(edge(float64(s.bucket)+part), age)
		}
		before = s.after
	}
	return max(largest, age)
}

// above is the weight of the run times that are longer than an age.
func (l *law) above(age float64) float64 {
	bucket, above := bucketOf(age), l.samples
	if age <= 0 {
		return above
	}
	for _, s := range l.steps {
		if s.bucket > bucket {
			break
		}
		above = s.above
	}
	return above
}

// mean is the mean run time of jobs that are older than age; the age if there are
// too few.
func (l *law) mean(age float64) float64 {
	const draws = 100
	if age > 0 && l.above(age) < fewSamples || len(l.steps) == 0 {
		return age
	}
	tail := l.tail
	if age > 0 {
		tail = tailPart(l.above(age))
	}
	sum := 0.0
	for i := range draws {
		sum += l.draw(age, (float64(i)+0.5)/draws*(1-tail)) // without the tail
	}
	return sum / draws
}
