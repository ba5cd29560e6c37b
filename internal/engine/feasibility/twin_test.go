package feasibility_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/engine/feasibility"
	"github.com/weirhq/weir/internal/value/resource"
)

// The slow twin: token buckets on a grid of one second, spent as the scheduler
// spends them. Burst pools come first; relaxed pools share the rest in proportion
// to their saved volume, each up to multiplier × flow.

const (
	twinPeriod = 1000 // k in seconds
	// twinCycle is the length of the short periods in which the worst schedule
	// switches burst pools on and off.
	twinCycle = 20
	// twinSlack is how much the grid and the cycles may add to a delay.
	twinSlack = 2*twinCycle + 10
)

type twinBurst struct{ peak, flow, volume float64 }

type twinRelaxed struct{ flow, multiplier, volume, lost float64 }

type twin struct {
	capacity float64 // what strong guarantees leave
	burst    []twinBurst
	relaxed  []twinRelaxed
	// overflow limits the buckets of relaxed pools to their size. Without it they
	// hold everything, which shows how large they would have to be.
	overflow bool
}

// step advances time by a second in which burst pool i demands the fraction
// wants[i] of its peak.
func (w *twin) step(wants []float64) {
	left := w.capacity
	for i := range w.burst {
		b := &w.burst[i]
		x := min(b.peak*wants[i], b.volume)
		b.volume = min(b.volume+b.flow-x, b.flow*twinPeriod)
		left -= x
	}
	factor := w.fill(left)
	for i := range w.relaxed {
		r := &w.relaxed[i]
		r.volume += r.flow - r.take(factor)
		if full := r.flow * twinPeriod; w.overflow && r.volume > full {
			r.lost += r.volume - full
			r.volume = full
		}
	}
}

// fill returns the largest factor of volumes that relaxed pools can get: while a
// pool would get more than its cap, it gets the cap and the others share the rest.
func (w *twin) fill(available float64) (factor float64) {
	capped := make([]bool, len(w.relaxed))
	for again := true; again; {
		again = false
		volume, left := 0.0, available
		for i, r := range w.relaxed {
			if capped[i] {
				left -= r.flow * r.multiplier
			} else {
				volume += r.volume
			}
		}
		if factor = 1; volume > left {
			factor = max(left, 0) / volume
		}
		for i, r := range w.relaxed {
			if !capped[i] && r.volume*factor > r.flow*r.multiplier {
				capped[i], again = true, true
			}
		}
	}
	return factor
}

func (r twinRelaxed) take(factor float64) float64 {
	return min(r.volume*factor, r.flow*r.multiplier)
}

// level returns the saved volume of the fullest relaxed pool, in seconds of its
// flow.
func (w *twin) level() (level float64) {
	for _, r := range w.relaxed {
		level = max(level, r.volume/r.flow)
	}
	return level
}

func (w *twin) lost() (seconds float64) {
	for _, r := range w.relaxed {
		seconds = max(seconds, r.lost/r.flow)
	}
	return seconds
}

// reset empties the buckets of relaxed pools and fills those of burst pools.
func (w *twin) reset() {
	for i := range w.burst {
		w.burst[i].volume = w.burst[i].flow * twinPeriod
	}
	for i := range w.relaxed {
		w.relaxed[i].volume, w.relaxed[i].lost = 0, 0
	}
}

// attack runs the worst schedule for a window: burst pools start with full buckets
// and spend everything in it, evenly and in the same part of every cycle.
func (w *twin) attack(window int) {
	w.reset()
	wants := make([]float64, len(w.burst))
	for second := range window {
		cycle, phase := float64(second/twinCycle), float64(second%twinCycle)
		for i, b := range w.burst {
			on := twinCycle * min(1, b.flow*(twinPeriod+float64(window))/(b.peak*float64(window)))
			wants[i] = 0
			// Whole seconds; some cycles have one more.
			if phase < math.Floor(on*(cycle+1))-math.Floor(on*cycle) {
				wants[i] = 1
			}
		}
		w.step(wants)
	}
}

// harass runs a random schedule and returns the highest level of relaxed pools.
func (w *twin) harass(t *rapid.T, seconds int) (highest float64) {
	w.reset()
	wants, until := make([]float64, len(w.burst)), make([]int, len(w.burst))
	together := rapid.Bool().Draw(t, "together")
	longest := rapid.SampledFrom([]int{30, 300, 3000}).Draw(t, "longest")
	for second := range seconds {
		for i := range wants {
			if together && i > 0 {
				wants[i] = wants[0]
			} else if second == until[i] {
				wants[i] = rapid.SampledFrom([]float64{0, 0.5, 1, 1}).Draw(t, "want")
				until[i] += rapid.IntRange(1, longest).Draw(t, "for")
			}
		}
		w.step(wants)
		highest = max(highest, w.level())
	}
	return highest
}

// drawContest draws pools whose sums fit, often tightly, and the corresponding
// twin.
func drawContest(t *rapid.T, oneMultiplier bool) (feasibility.Cluster, []feasibility.Pool, *twin) {
	var pools []feasibility.Pool
	w := &twin{}
	bursts, flows := 0.0, 0.0
	for i := range rapid.IntRange(1, 4).Draw(t, "bursts") {
		flow := float64(rapid.IntRange(100, 1000).Draw(t, "flow"))
		peak := math.Round(flow * float64(rapid.IntRange(100, 400).Draw(t, "peak")) / 100)
		pools = append(pools, burst(fmt.Sprint("burst-", i), root, peak, flow))
		w.burst = append(w.burst, twinBurst{peak: peak, flow: flow})
		bursts, flows = bursts+peak, flows+flow
	}
	multiplier := rapid.SampledFrom([]float64{1.2, 1.5, 2, 3})
	common := multiplier.Draw(t, "multiplier")
	for i := range rapid.IntRange(1, 3).Draw(t, "relaxed") {
		flow := float64(rapid.IntRange(50, 800).Draw(t, "flow"))
		p := relaxed(fmt.Sprint("relaxed-", i), root, flow)
		if p.RelaxedMultiplier = common; !oneMultiplier {
			p.RelaxedMultiplier = multiplier.Draw(t, "multiplier")
		}
		pools = append(pools, p)
		w.relaxed = append(w.relaxed, twinRelaxed{flow: flow, multiplier: p.RelaxedMultiplier})
		flows += flow
	}
	guaranteed := float64(rapid.IntRange(0, 1000).Draw(t, "strong"))
	pools = append(pools, strong("strong", root, guaranteed))
	spare := float64(rapid.SampledFrom([]int{0, 0, 5, 20, 50}).Draw(t, "spare")) / 100
	w.capacity = math.Ceil(max(bursts, flows) * (1 + spare))
	return proportional(guaranteed + w.capacity), pools, w
}

func checkTwin(t *rapid.T, cluster feasibility.Cluster, pools []feasibility.Pool) (feasibility.Verdict, *feasibility.Starvation) {
	options := feasibility.DefaultOptions()
	options.SaturationPeriod = twinPeriod * time.Second
	v, err := feasibility.Check(cluster, pools, nil, options)
	if err != nil {
		t.Fatal(err)
	}
	if v.Proof.Relaxed == nil {
		t.Fatalf("sums do not fit: %v", v.Findings)
	}
	return v, v.Proof.Relaxed
}

func TestNoScheduleDelaysRelaxedPoolsLongerThanTheVerdictSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cluster, pools, w := drawContest(t, rapid.Bool().Draw(t, "one multiplier"))
		v, s := checkTwin(t, cluster, pools)
		if !s.CatchesUp {
			return
		}
		bound := s.Delay.Seconds() + twinSlack
		if highest := w.harass(t, 5*twinPeriod); highest > bound {
			t.Fatalf("relaxed pools had to save %.0f seconds of flow; the bound is %.0f", highest, bound)
		}
		if !v.OK {
			return
		}
		w.overflow = true
		w.harass(t, 5*twinPeriod)
		if lost := w.lost(); lost > twinSlack {
			t.Fatalf("relaxed pools lost %.0f seconds of flow", lost)
		}
	})
}

func TestTheWorstScheduleReachesTheDelayOfTheVerdict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cluster, pools, w := drawContest(t, true)
		v, s := checkTwin(t, cluster, pools)
		if !s.Proved {
			t.Fatal("equal multipliers are not exact")
		}
		for _, p := range s.Breakpoints {
			window := int(p.Window.Seconds())
			if window > 30*twinPeriod {
				continue
			}
			w.attack(window)
			flow := (resource.Amounts{resource.CPU: s.Flow}).Float(resource.CPU)
			want := (p.Promised - p.Served) / flow
			// The twin advances by whole seconds. What the bursts lose by rounding,
			// the relaxed pools see in seconds of their smaller flow.
			slack := twinSlack + p.Window.Seconds()/500*max(1, w.capacity/flow)
			if got := w.level(); want > slack && math.Abs(got-want) > slack {
				t.Fatalf("after a window of %d seconds relaxed pools have saved %.0f seconds of flow; the verdict says %.0f", window, got, want)
			}
		}
		// A negative verdict comes with a schedule that proves it.
		window := int(s.Window.Seconds())
		if !s.CatchesUp {
			window = 60 * twinPeriod
		} else if window > 60*twinPeriod || s.Delay.Seconds() < twinPeriod+2*twinSlack {
			return
		}
		if v.OK {
			t.Fatalf("delay %v is fine", s.Delay)
		}
		w.overflow = true
		w.attack(window)
		if s.CatchesUp && w.lost() == 0 {
			t.Fatalf("nothing was lost in %d seconds, although the delay is %v", window, s.Delay)
		}
	})
}

func TestTheTwinOnHandMadeCases(t *testing.T) {
	cases := []struct {
		name                             string
		cores, peak, multiplier, demands float64
		loses                            bool
	}{
		{"the documents' example", 2000, 2000, 3, 1000, false},
		{"a bucket that lasts two days", 1500, 1500, 3, 500, true},
		{"the same with enough cores", 1750, 1500, 3, 500, false},
		{"a cap too low to catch up", 2000, 2000, 1.5, 1000, true},
		{"a cap just high enough", 2000, 2000, 2, 1000, false},
	}
	for _, c := range cases {
		research := relaxed("research", root, c.demands)
		research.RelaxedMultiplier = c.multiplier
		if v := check(t, proportional(c.cores), burst("production", root, c.peak, 1000), research); v.OK == c.loses {
			t.Errorf("%s: verdict %v, %v", c.name, v.OK, v.Findings)
		}
		w := &twin{
			capacity: c.cores, overflow: true,
			burst:   []twinBurst{{peak: c.peak, flow: 1000}},
			relaxed: []twinRelaxed{{flow: c.demands, multiplier: c.multiplier}},
		}
		worst := 0.0
		for _, window := range []int{twinPeriod / 2, twinPeriod, 2 * twinPeriod, 20 * twinPeriod} {
			w.attack(window)
			worst = max(worst, w.lost())
		}
		if loses := worst > twinSlack; loses != c.loses {
			t.Errorf("%s: the twin lost %.0f seconds of flow", c.name, worst)
		}
	}
}
