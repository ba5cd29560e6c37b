package cpumonitor

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var clock = time.Date(2024, 3, 1, 12, 0, 0, 0, time.UTC)

// job is a monitor with a container that accepts every limit, and the CPU time used so far.
type job struct {
	*Monitor
	t     testing.TB
	now   time.Time
	total time.Duration
	check int
}

func newJob(t testing.TB, hard float64, change func(*Options)) *job {
	t.Helper()
	o := DefaultOptions()
	o.EnableReclaim = true
	if change != nil {
		change(&o)
	}
	m, err := New(o, hard)
	if err != nil {
		t.Fatal(err)
	}
	return &job{Monitor: m, t: t, now: clock}
}

// run lets one period pass in which the job uses this many cores, and runs a check.
func (j *job) run(cores float64) Advice {
	j.check++
	j.now = j.now.Add(j.options.CheckPeriod)
	j.total += time.Duration(cores * float64(j.options.CheckPeriod))
	a := j.Observe(j.now, j.total)
	if a.Apply {
		j.Applied()
	}
	return a
}

func near(a, b float64) bool { return math.Abs(a-b) <= 0.00005 }

func TestDefaultsAreThoseOfTheDocument(t *testing.T) {
	want := Options{
		EnableReclaim: false, CheckPeriod: 1000 * time.Millisecond, SmoothingFactor: 0.1, RelativeUpperBound: 0.9, RelativeLowerBound: 0.6,
		IncreaseCoefficient: 1.45, DecreaseCoefficient: 0.97, VoteWindowSize: 5, VoteDecisionThreshold: 3, MinCPULimit: 1,
	}
	if got := DefaultOptions(); got != want {
		t.Errorf("%+v", got)
	}
}

// The reference example: 4 cores ordered, 1 used, and 4 used again from check 300 on.
func TestTheExampleOfTheReferenceStepByStep(t *testing.T) {
	j := newJob(t, 4, nil)
	if j.run(1); len(j.History(nil)) != 0 {
		t.Fatal("the first check is only the baseline")
	}
	votes := map[int]Vote{2: VoteMore, 3: VoteMore, 4: VoteStay, 9: VoteStay, 10: VoteLess, 13: VoteLess}
	limits := map[int]float64{13: 3.88, 14: 3.7636, 15: 3.6507, 16: 3.5412, 39: 1.7575, 44: 1.7048, 52: 1.6536}
	decreases, last := 0, 0
	for j.check < 299 {
		before := j.Limit()
		a := j.run(1)
		s := j.History(nil)[j.check-2]
		if want := 1 + 3*math.Pow(0.9, float64(j.check-2)); !near(s.Smoothed, want) {
			t.Errorf("check %d: smoothed %v, want %v", j.check, s.Smoothed, want)
		}
		if want, ok := votes[j.check]; ok && s.Vote != want {
			t.Errorf("check %d: vote %d, want %d", j.check, s.Vote, want)
		}
		if want, ok := limits[j.check]; ok && (!a.Change || !near(a.Limit, want)) {
			t.Errorf("check %d: %+v, want %v", j.check, a, want)
		}
		if !a.Change {
			continue
		}
		decreases++
		last = j.check
		if !near(a.Limit, before*0.97) || a.Limit != j.Limit() || s.Limit != j.Limit() {
			t.Errorf("check %d: limit %v after %v", j.check, a.Limit, before)
		}
	}
	if decreases != 29 || last != 52 || !near(j.Limit(), 1.6536) {
		t.Errorf("%d decreases, the last at %d to %v", decreases, last, j.Limit())
	}
	increases := map[int]float64{304: 2.3978, 307: 3.4768, 314: 4}
	for j.check < 340 {
		a := j.run(4)
		want, ok := increases[j.check]
		if a.Change != ok || ok && !near(a.Limit, want) {
			t.Errorf("check %d: %+v, want %v", j.check, a, want)
		}
	}
	if j.Limit() != 4 {
		t.Errorf("limit %v", j.Limit())
	}
}

func TestTheFirstSmoothedValueIsWhatTheJobWasGiven(t *testing.T) {
	j := newJob(t, 8, nil)
	j.run(0)
	j.run(0)
	if s := j.Statistics(); s.SmoothedUsageX100 != 800 {
		t.Errorf("%+v", s)
	}
}

func TestUseIsDividedByTheTimeThatReallyPassed(t *testing.T) {
	j := newJob(t, 4, func(o *Options) { o.SmoothingFactor = 1 })
	j.run(0)
	j.run(0)
	j.now = j.now.Add(9 * time.Second) // nine checks were missed
	j.total += 18 * time.Second
	j.run(2)
	if s := j.Statistics(); s.SmoothedUsageX100 != 200 || len(j.History(nil)) != 2 {
		t.Errorf("%+v: want two cores and no check made up for", s)
	}
}

func TestEveryOptionActs(t *testing.T) {
	// The limits after checks 1…n of a job that ordered 4 cores, by the cores it uses.
	after := func(cores float64, checks int, change func(*Options)) float64 {
		j := newJob(t, 4, change)
		for range checks {
			j.run(cores)
		}
		return j.Limit()
	}
	instant := func(o *Options) { o.SmoothingFactor = 1 }
	cases := []struct {
		name   string
		cores  float64
		checks int
		change func(*Options)
		want   float64
	}{
		{"with smoothing_factor 1 the measured use votes at once", 1, 7, instant, 3.88},
		{"with smoothing_factor 0 the first value stays for ever", 0, 400, func(o *Options) { o.SmoothingFactor = 0 }, 4},
		{"relative_lower_bound: use of just so much is no vote", 2.4, 100, instant, 4},
		{"relative_lower_bound: use below it is", 2.39, 7, instant, 3.88},
		{"relative_lower_bound can be changed", 1, 100, func(o *Options) { instant(o); o.RelativeLowerBound = 0.25 }, 4},
		{"decrease_coefficient", 1, 7, func(o *Options) { instant(o); o.DecreaseCoefficient = 0.5 }, 2},
		{"min_cpu_limit bounds a decrease", 0, 7, func(o *Options) { instant(o); o.DecreaseCoefficient = 0 }, 1},
		{"min_cpu_limit can be lower", 0, 7, func(o *Options) { instant(o); o.DecreaseCoefficient, o.MinCPULimit = 0, 0.5 }, 0.5},
		{"vote_window_size: fewer votes decide nothing", 1, 6, func(o *Options) { instant(o); o.VoteWindowSize, o.VoteDecisionThreshold = 6, 3 }, 4},
		{"vote_window_size: so many do", 1, 7, func(o *Options) { instant(o); o.VoteWindowSize, o.VoteDecisionThreshold = 6, 3 }, 3.88},
		{"vote_decision_threshold must be exceeded", 1, 100, func(o *Options) { instant(o); o.VoteDecisionThreshold = 5 }, 4},
		{"a window of one votes at every check", 1, 4, func(o *Options) {
			instant(o)
			o.VoteWindowSize, o.VoteDecisionThreshold, o.DecreaseCoefficient = 1, 1, 0.5
		}, 4},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := after(c.cores, c.checks, c.change); !near(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

func TestRelativeUpperBoundAndIncreaseCoefficient(t *testing.T) {
	lowered := func(change func(*Options)) *job {
		j := newJob(t, 4, func(o *Options) {
			o.SmoothingFactor, o.DecreaseCoefficient = 1, 0.5
			if change != nil {
				change(o)
			}
		})
		for j.Limit() == 4 {
			j.run(1.3)
		}
		return j // at 2
	}
	j := lowered(nil)
	for range 20 {
		j.run(1.8) // 0.9 of the limit is no vote for more
	}
	if j.Limit() != 2 {
		t.Errorf("%v", j.Limit())
	}
	for range 4 {
		j.run(1.81)
	}
	if !near(j.Limit(), 2.9) {
		t.Errorf("four net votes of five were enough for %v, want 2.9", j.Limit())
	}
	j = lowered(func(o *Options) { o.RelativeUpperBound, o.IncreaseCoefficient = 0.95, 1.1 })
	for range 5 {
		j.run(1.91)
	}
	if !near(j.Limit(), 2.2) {
		t.Errorf("%v, want 2.2", j.Limit())
	}
}

func TestStartDelayPutsOffTheFirstCheck(t *testing.T) {
	j := newJob(t, 1, func(o *Options) { o.StartDelay = time.Minute })
	if got := j.FirstCheck(clock); got != clock.Add(time.Minute) {
		t.Error(got)
	}
}

func TestJobsBelowTheLeastLimitNeverChange(t *testing.T) {
	for _, hard := range []float64{0, 0.5, 1} {
		j := newJob(t, hard, nil)
		for range 200 {
			if a := j.run(0); a != (Advice{}) || j.Limit() != hard {
				t.Fatalf("%+v, limit %v", a, j.Limit())
			}
		}
	}
}

func TestWithoutReclaimEverythingIsComputedAndNothingApplied(t *testing.T) {
	with, without := newJob(t, 4, nil), newJob(t, 4, func(o *Options) { o.EnableReclaim = false })
	for range 100 {
		a, b := with.run(1), without.run(1)
		if a.Change != b.Change || a.Limit != b.Limit || b.Apply || with.Limit() != without.Limit() {
			t.Fatalf("%+v and %+v", a, b)
		}
	}
	s := with.Statistics()
	if s.AggregatedPreemptedX100 != s.AggregatedPreemptibleX100 || s.AggregatedPreemptibleX100 == 0 {
		t.Errorf("%+v", s)
	}
	s.AggregatedPreemptedX100 = 0
	if without.Statistics() != s {
		t.Errorf("%+v, want %+v", without.Statistics(), s)
	}
}

func TestARefusedLimitStaysAndIsAdvisedAgain(t *testing.T) {
	for name, answer := range map[string]func(*job){"refused": func(j *job) { j.Refused() }, "not answered": func(*job) {}} {
		j := newJob(t, 4, func(o *Options) { o.SmoothingFactor = 1 })
		var advised []int
		for range 20 {
			j.check++
			j.now = j.now.Add(time.Second)
			j.total += time.Second
			if a := j.Observe(j.now, j.total); a.Apply {
				advised = append(advised, j.check)
				answer(j)
			}
		}
		if len(advised) != 14 || advised[0] != 7 || advised[1] != 8 || j.Limit() != 4 || j.Statistics().AggregatedPreemptibleX100 != 0 {
			t.Errorf("%s: advice at %v, limit %v", name, advised, j.Limit())
		}
		j.Applied() // too late
		if name == "refused" && j.Limit() != 4 {
			t.Errorf("%s: limit %v", name, j.Limit())
		}
	}
}

func TestStatisticsAddUpOverTime(t *testing.T) {
	j := newJob(t, 4, func(o *Options) { o.SmoothingFactor, o.DecreaseCoefficient = 1, 0.5 })
	for range 7 { // smoothed 4, then 1; at check 7 the limit falls to 2
		j.run(1)
	}
	want := Statistics{
		SmoothedUsageX100: 100, PreemptibleX100: 200, AggregatedSmoothedUsageX100: 900, AggregatedMaxUsageX100: 2400,
		AggregatedPreemptibleX100: 200, AggregatedPreemptedX100: 200,
	}
	if got := j.Statistics(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestBadReadingsDoNoHarm(t *testing.T) {
	j := newJob(t, 4, nil)
	j.run(1)
	j.run(1)
	before := *j.Monitor
	if a := j.Observe(j.now, j.total+time.Hour); a != (Advice{}) || j.Statistics() != before.Statistics() {
		t.Error("a reading at the same moment counted")
	}
	if j.Observe(j.now.Add(-time.Second), j.total); j.last != before.last {
		t.Error("a reading from the past counted")
	}
	j.total = 0 // the counter started over
	if j.run(1); len(j.History(nil)) != 1 {
		t.Error("a negative use counted")
	}
	if j.run(1); len(j.History(nil)) != 2 || !near(j.smoothed, 3.7) {
		t.Errorf("smoothed %v", j.smoothed)
	}
}

func TestHistoryIsBoundedAndInOrder(t *testing.T) {
	j := newJob(t, 4, nil)
	for range HistorySize*2 + 50 {
		j.run(1)
	}
	h := j.History(nil)
	if len(h) != HistorySize || !h[HistorySize-1].Time.Equal(j.now) {
		t.Fatalf("%d samples", len(h))
	}
	for i := 1; i < len(h); i++ {
		if h[i].Time.Sub(h[i-1].Time) != time.Second {
			t.Fatalf("sample %d is at %v after %v", i, h[i].Time, h[i-1].Time)
		}
	}
	if len(j.History(h[:0:0])) != HistorySize || len((&Monitor{}).History(nil)) != 0 {
		t.Error("history is not appended")
	}
}

func TestEveryWrongOptionIsNamed(t *testing.T) {
	o := Options{
		CheckPeriod: -1, StartDelay: -1, SmoothingFactor: 2, RelativeUpperBound: -0.1, RelativeLowerBound: math.NaN(), IncreaseCoefficient: 0.5,
		DecreaseCoefficient: 1.5, VoteWindowSize: 0, VoteDecisionThreshold: -3, MinCPULimit: 2,
	}
	_, err := New(o, math.Inf(1))
	for _, want := range []string{
		"check_period is -1ns", "start_delay", "smoothing_factor is 2, must be between 0 and 1", "relative_upper_bound", "relative_lower_bound",
		"increase_coefficient", "decrease_coefficient", "vote_window_size", "vote_decision_threshold is -3", "min_cpu_limit", "cpu_limit is +Inf",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	o = DefaultOptions()
	o.RelativeLowerBound = 0.95
	if err := o.Validate(); err == nil || !strings.Contains(err.Error(), "relative_lower_bound is 0.95, above relative_upper_bound, 0.9") {
		t.Error(err)
	}
}

// twin follows the document literally: it classifies the last vote_window_size of all smoothed
// values against the current limit.
type twin struct {
	Options
	hard, limit, smoothed float64
	values                []float64
}

func (w *twin) observe(usage float64) (changed bool) {
	if w.values == nil && w.smoothed < 0 {
		w.smoothed = w.hard
	} else {
		w.smoothed = w.SmoothingFactor*usage + (1-w.SmoothingFactor)*w.smoothed
	}
	w.values = append(w.values, w.smoothed)
	if len(w.values) < w.VoteWindowSize {
		return false
	}
	votesSum := 0
	for _, value := range w.values[len(w.values)-w.VoteWindowSize:] {
		if value < w.RelativeLowerBound*w.limit {
			votesSum--
		}
		if value > w.RelativeUpperBound*w.limit {
			votesSum++
		}
	}
	before := w.limit
	switch {
	case votesSum > w.VoteDecisionThreshold:
		w.limit *= w.IncreaseCoefficient
	case votesSum < -w.VoteDecisionThreshold:
		w.limit *= w.DecreaseCoefficient
	default:
		return false
	}
	w.limit = min(max(w.limit, w.MinCPULimit), w.hard)
	return w.limit != before
}

func drawOptions(t *rapid.T) Options {
	o := DefaultOptions()
	o.EnableReclaim = rapid.Bool().Draw(t, "enable_cpu_reclaim")
	if rapid.Bool().Draw(t, "defaults") {
		return o
	}
	unit := rapid.Float64Range(0, 1)
	o.SmoothingFactor = unit.Draw(t, "smoothing_factor")
	o.RelativeUpperBound = unit.Draw(t, "relative_upper_bound")
	o.RelativeLowerBound = o.RelativeUpperBound * unit.Draw(t, "relative_lower_bound")
	o.IncreaseCoefficient = 1 + unit.Draw(t, "increase_coefficient")
	o.DecreaseCoefficient = unit.Draw(t, "decrease_coefficient")
	o.VoteWindowSize = rapid.IntRange(1, 8).Draw(t, "vote_window_size")
	o.VoteDecisionThreshold = rapid.IntRange(1, 8).Draw(t, "vote_decision_threshold")
	o.MinCPULimit = unit.Draw(t, "min_cpu_limit")
	return o
}

func TestPropertyTheMonitorAgreesWithTheDocumentAndKeepsItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := drawOptions(t)
		hard := rapid.Float64Range(0, 64).Draw(t, "cpu_limit")
		m, err := New(o, hard)
		if err != nil {
			t.Fatal(err)
		}
		w := &twin{Options: o, hard: hard, limit: hard, smoothed: -1}
		now, total := clock, time.Duration(0)
		m.Observe(now, total)
		var before Statistics
		for range rapid.IntRange(1, 150).Draw(t, "checks") {
			passed := time.Duration(rapid.IntRange(1, 5000).Draw(t, "ms")) * time.Millisecond
			used := time.Duration(rapid.Float64Range(0, 2*hard).Draw(t, "cores") * float64(passed))
			now, total = now.Add(passed), total+used
			last := m.Limit()
			a := m.Observe(now, total)
			if changed := w.observe(used.Seconds() / passed.Seconds()); changed != a.Change || changed && a.Limit != w.limit {
				t.Fatalf("%+v, want %v (%v)", a, w.limit, changed)
			}
			if a.Apply != (a.Change && o.EnableReclaim) {
				t.Fatalf("%+v", a)
			}
			if a.Apply && rapid.IntRange(0, 4).Draw(t, "refuses") == 0 {
				m.Refused()
				w.limit = last
			} else if a.Apply {
				m.Applied()
			}
			s := m.Statistics()
			checkBounds(t, m, last, a)
			if s.AggregatedMaxUsageX100 < before.AggregatedMaxUsageX100 || s.AggregatedPreemptibleX100 < before.AggregatedPreemptibleX100 ||
				s.AggregatedSmoothedUsageX100 < before.AggregatedSmoothedUsageX100 || s.AggregatedPreemptibleX100 > s.AggregatedMaxUsageX100 {
				t.Fatalf("%+v after %+v", s, before)
			}
			before = s
		}
	})
}

// checkBounds checks the invariants that hold at any time, for any use of CPU.
func checkBounds(t *rapid.T, m *Monitor, last float64, a Advice) {
	floor := min(m.hard, m.options.MinCPULimit)
	if m.Limit() < floor || m.Limit() > m.hard {
		t.Fatalf("limit %v is not between %v and %v", m.Limit(), floor, m.hard)
	}
	if len(m.values) > m.options.VoteWindowSize {
		t.Fatalf("%d values are kept", len(m.values))
	}
	// The limit changes only on a decision, and by its coefficient at most.
	h := m.History(nil)
	newest := h[len(h)-1]
	switch {
	case !a.Change && m.Limit() != last:
		t.Fatalf("limit went from %v to %v without advice", last, m.Limit())
	case a.Change && a.Limit > last*m.options.IncreaseCoefficient:
		t.Fatalf("limit goes up from %v to %v", last, a.Limit)
	case a.Change && a.Limit < last*m.options.DecreaseCoefficient:
		t.Fatalf("limit goes down from %v to %v", last, a.Limit)
	case newest.Limit != m.Limit():
		t.Fatalf("history has limit %v, it is %v", newest.Limit, m.Limit())
	}
}

// Under constant use above the lowest limit, the limit settles so that use is
// between its bounds, or at the highest or lowest limit.
func TestPropertyUseEndsUpBetweenTheBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hard := rapid.Float64Range(0, 32).Draw(t, "cpu_limit")
		cores := rapid.Float64Range(0, 1).Draw(t, "part") * hard
		m, err := New(DefaultOptions(), hard)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 2000 {
			m.Observe(clock.Add(time.Duration(i)*time.Second), time.Duration(float64(i)*cores*float64(time.Second)))
		}
		const tiny = 1e-6
		tooLow := cores < 0.6*m.Limit()-tiny && m.Limit() > m.floor
		tooHigh := cores > 0.9*m.Limit()+tiny && m.Limit() < hard
		if tooLow || tooHigh {
			t.Fatalf("%v cores of %v, limit %v", cores, hard, m.Limit())
		}
	})
}

func BenchmarkObserve(b *testing.B) {
	m, err := New(DefaultOptions(), 4)
	if err != nil {
		b.Fatal(err)
	}
	now, total := clock, time.Duration(0)
	b.ReportAllocs()
	for b.Loop() {
		now, total = now.Add(time.Second), total+time.Second
		m.Observe(now, total)
	}
}
