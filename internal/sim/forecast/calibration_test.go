package forecast

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// published makes forecasts of outcomes by a method that is wrong, and returns the part of outcomes within
// the published intervals once they are calibrated.
func published(k *Keeper, seed uint64, n int, outcome func(i int, r *rand.Rand) float64, raw Quantiles) (coverage, uncalibrated float64) {
	r := rand.New(rand.NewPCG(seed, 1))
	place, all := Place{Tree: "default", Pool: "p"}, 0.0
	for i := range n {
		var answers Raw
		answers.Set(ByEnsemble, raw)
		f, _ := k.Publish(place, Start, time.Time{}, 0, answers)
		y := outcome(i, r)
		if !f.Calibrated {
			uncalibrated++
		} else {
			all++
			if q := f.Shown(); q[0] <= y && y <= q[2] {
				coverage++
			}
		}
		k.Settle(&f, y)
	}
	return coverage / all, uncalibrated
}

func TestCalibratedIntervalsHoldHoweverWrongTheRawOnesAre(t *testing.T) {
	logNormal := func(_ int, r *rand.Rand) float64 { return 100 * math.Exp(1.5*r.NormFloat64()) }
	drifting := func(i int, r *rand.Rand) float64 { return (50 + float64(i)/4) * math.Exp(r.NormFloat64()) }
	for _, c := range []struct {
		name    string
		outcome func(int, *rand.Rand) float64
		raw     Quantiles
	}{
		{"too narrow", logNormal, Quantiles{90, 100, 110}},
		{"a point", logNormal, Quantiles{100, 100, 100}},
		{"far too late", logNormal, Quantiles{5000, 8000, 9000}},
		{"far too wide", logNormal, Quantiles{1, 100, 1e5}},
		{"drift", drifting, Quantiles{20, 50, 100}},
	} {
		coverage, uncalibrated := published(NewKeeper(), 1, 2500, c.outcome, c.raw)
		if coverage < 0.88 || coverage > 0.92 {
			t.Errorf("%s: the 90 %% interval holds in %.1f %%", c.name, 100*coverage)
		}
		if uncalibrated != enoughScores {
			t.Errorf("%s: %v forecasts are uncalibrated, want %d", c.name, uncalibrated, enoughScores)
		}
	}
}

func TestPropertyCorrectedQuantilesAreInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCalibration()
		seconds := rapid.Float64Range(0, 1e5)
		draw := func() Quantiles {
			q := []float64{seconds.Draw(t, "a"), seconds.Draw(t, "b"), seconds.Draw(t, "c")}
			slices.Sort(q)
			return Quantiles(q)
		}
		for range rapid.IntRange(0, 60).Draw(t, "outcomes") {
			q, y := draw(), seconds.Draw(t, "outcome")
			c.adapt(c.correct(q), y)
			c.learn(q, y)
		}
		if q := c.correct(draw()); !(0 <= q[0] && q[0] <= q[1] && q[1] <= q[2]) || math.IsInf(q[2], 1) {
			t.Fatalf("corrected to %v", q)
		}
	})
}

// noisy is an answer that knows the outcome up to a factor, and how well it does.
func noisy(r *rand.Rand, y, sigma float64) Quantiles {
	m := y * math.Exp(sigma*r.NormFloat64())
	return Quantiles{m * math.Exp(-1.64*sigma), m, m * math.Exp(1.64*sigma)}
}

// TestTheMixtureLosesHardlyMoreThanTheBetterMethod gives the methods different knowledge: what is shown loses at most 3 %
// more than the better one, and its intervals still hold.
func TestTheMixtureLosesHardlyMoreThanTheBetterMethod(t *testing.T) {
	for _, c := range []struct {
		name              string
		ensemble, history float64 // the errors of their answers
	}{
		{"history is a little better", 1.0, 0.8}, {"history is much better", 1.5, 0.4}, {"the ensemble is a little better", 0.8, 1.0},
		{"the ensemble is much better", 0.4, 1.5}, {"both are alike", 0.8, 0.8},
	} {
		k, r := NewKeeper(), rand.New(rand.NewPCG(3, 1))
		var loss [MethodCount]float64
		shown, all, held := 0.0, 0.0, 0.0
		for range 3000 {
			y := 100 * math.Exp(2*r.NormFloat64())
			var answers Raw
			answers.Set(ByEnsemble, noisy(r, y, c.ensemble))
			answers.Set(ByHistory, noisy(r, y, c.history))
			f, _ := k.Publish(Place{Tree: "default", Pool: "p"}, Finish, time.Time{}, 0, answers)
			if f.Method == ByMixture {
				all++
				shown += LogLoss(f.Shown(), y)
				for m := range MethodCount {
					loss[m] += LogLoss(f.Corrected[m], y)
				}
				if q := f.Shown(); q[0] <= y && y <= q[2] {
					held++
				}
			}
			k.Settle(&f, y)
		}
		if best := min(loss[ByEnsemble], loss[ByHistory]); shown > 1.03*best {
			t.Errorf("%s: the mixture loses %.4f, the better method %.4f", c.name, shown/all, best/all)
		}
		if coverage := held / all; coverage < 0.88 || coverage > 0.92 {
			t.Errorf("%s: the 90 %% interval holds in %.1f %%", c.name, 100*coverage)
		}
		if all < 3000-3*enoughScores {
			t.Errorf("%s: the mixture is shown only %v times", c.name, all)
		}
	}
}

func TestTheMixtureFollowsAChange(t *testing.T) {
	k, r := NewKeeper(), rand.New(rand.NewPCG(1, 1))
	place := Place{Tree: "default", Pool: "p"}
	for _, knows := range []Method{ByEnsemble, ByHistory, ByEnsemble} {
		var last Forecast
		for range 2 * keptScores {
			y := 100 * math.Exp(2*r.NormFloat64())
			var answers Raw
			for m := range ByMixture {
				answers.Set(m, Quantiles{10, 100, 1000})
			}
			answers.Set(knows, Quantiles{y * 0.9, y, y * 1.1})
			last, _ = k.Publish(place, Finish, time.Time{}, 0, answers)
			k.Settle(&last, y)
		}
		if got, want := last.Raw.Quantiles[ByMixture][1], last.Corrected[knows][1]; math.Abs(logTime(got)-logTime(want)) > 0.01 {
			t.Errorf("the mixture is %v while %v, which is better, says %v", got, knows, want)
		}
	}
	// Pools with outcomes of their own are judged by these, others by the tree's.
	var answers Raw
	answers.Set(ByHistory, Quantiles{1, 2, 3})
	if f, ok := k.Publish(Place{Tree: "default", Pool: "new"}, Finish, time.Time{}, 0, answers); !ok || f.Method != ByHistory || !f.Calibrated {
		t.Errorf("a new pool gets %+v", f)
	}
	if f, ok := k.Publish(Place{Tree: "other", Pool: "new"}, Finish, time.Time{}, 0, answers); !ok || f.Calibrated || f.Shown() != answers.Quantiles[ByHistory] {
		t.Errorf("a new tree gets %+v", f)
	}
	if _, ok := k.Publish(place, Finish, time.Time{}, 0, Raw{}); ok {
		t.Error("there is a forecast without any answer")
	}
}

func TestHistoryFollowsChangesAndCountsTheAge(t *testing.T) {
	h := NewHistory()
	p := Place{Tree: "default", Pool: "p", Size: "s"}
	if _, ok := h.Forecast(p, Start, 0); ok {
		t.Error("there is a forecast without waits")
	}
	for i := range 100 {
		h.Add(p, Start, float64(10+i%10))
	}
	q, _ := h.Forecast(Place{Tree: "default", Pool: "p", Size: "other"}, Start, 0)
	if q[0] < 10 || q[2] > 19 || q[1] < 13 || q[1] > 16 {
		t.Errorf("another size in the pool: %v", q)
	}
	if q, _ := h.Forecast(p, Start, 15); q[0] < 1 || q[2] > 4 {
		t.Errorf("after 15 s: %v", q)
	}
	for range changeRun + enoughWaits {
		h.Add(p, Start, 500)
	}
	if q, _ := h.Forecast(p, Start, 0); q[1] != 500 || q[2] != 500 {
		t.Errorf("after a change: %v", q)
	}
}

func TestLossIsLeastForTrueQuantiles(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var outcomes []float64
	for range 5000 {
		outcomes = append(outcomes, 100*math.Exp(r.NormFloat64()))
	}
	loss := func(q Quantiles, of func(Quantiles, float64) float64) (sum float64) {
		for _, y := range outcomes {
			sum += of(q, y)
		}
		return sum
	}
	sorted := slices.Clone(outcomes)
	slices.Sort(sorted)
	exact := quantiles(sorted)
	for _, of := range []func(Quantiles, float64) float64{Loss, LogLoss} {
		for _, wrong := range []Quantiles{{exact[0] * 0.7, exact[1], exact[2]}, {exact[0], exact[1] * 1.2, exact[2]}, {exact[0], exact[1], exact[2] * 1.4}} {
			if loss(wrong, of) <= loss(exact, of) {
				t.Errorf("%v has less loss than %v", wrong, exact)
			}
		}
	}
}
