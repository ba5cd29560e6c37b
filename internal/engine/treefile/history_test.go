package treefile

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/value/resource"
)

const cpu = resource.CPU

// near compares with figures from the documents, which are rounded.
func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s is %.6g, want %.6g ± %g", what, got, want, tolerance)
	}
}

// lasts returns how long a pool's volume covers its whole demand.
func lasts(t *testing.T, file *File, pool string, period time.Duration) time.Duration {
	t.Helper()
	slot := file.mustSlot(t, pool)
	run := NewRun(file)
	for run.Now() < 48*time.Hour {
		outcome := run.Result()
		integral := outcome.Split(slot).Integral[cpu]
		demand := outcome.Attributes(&file.Tree, slot).Demand[cpu]
		if integral < demand-1e-9 {
			return run.Now()
		}
		run.Advance(run.Now()+period, period, nil)
	}
	t.Fatal("it lasts for ever")
	return 0
}

// The integral-guarantees document: 60 fair_share·s on 1000 cores are 60,000
// core·s. Not counting the flow, an operation of 100 CPU spends them in 10 minutes
// and one of 50 CPU in 20.
func TestSixtySecondsOfTheClusterLastTenMinutes(t *testing.T) {
	for _, test := range []struct {
		demand  int
		minutes float64
	}{{100, 10}, {50, 20}} {
		t.Run(fmt.Sprintf("%d CPU", test.demand), func(t *testing.T) {
			// The smallest possible flow, and a smoothing period too short to
			// matter.
			file := mustRead(t, fmt.Sprintf(`
cluster: {total: {cpu: 1000, memory: 1000GiB, user_slots: 1000}}
tree: {integral_guarantees: {smooth_period: 1s}}
pools:
  root-pool:
    integral_guarantees: {guarantee_type: burst, resource_flow: {cpu: 0.01}, burst_guarantee_resources: {cpu: 100}}
  rest: {min_share_resources: {cpu: 900}}
operations:
  - {name: op, pool: root-pool, demand: {cpu: %d, memory: %[1]dGiB, user_slots: %[1]d}}
  - {name: other, pool: rest, demand: {cpu: 1000, memory: 1000GiB, user_slots: 1000}}
state: {root-pool: {accumulated_resource_ratio_volume: 60}}
`, test.demand))
			slot := file.mustSlot(t, "root-pool")
			near(t, "the volume in core·s", file.Tree.States[slot].Volume[cpu], 60000, 0)
			near(t, "minutes", lasts(t, file, "root-pool", time.Second).Minutes(), test.minutes, 0.1)
		})
	}
}

// Burst 2000 and flow 1000 on 2000 cores give 1000 cores always, or 2000 half of
// the time if nothing runs in the other half.
func TestBurstGivesItsFlowAlwaysOrTwiceThatHalfOfTheTime(t *testing.T) {
	const text = `
cluster: {total: {cpu: 2000, memory: 2000GiB, user_slots: 2000}}
pools:
  burst: {integral_guarantees: {guarantee_type: burst, resource_flow: {cpu: 1000}, burst_guarantee_resources: {cpu: 2000}}}
  other: {min_share_resources: {cpu: 0}, weight: 1000000}
operations:
  - {name: op, pool: burst, demand: {cpu: %d, memory: %[1]dGiB, user_slots: %[1]d}, active: %s}
  - {name: rest, pool: other, demand: {cpu: 9000, memory: 9000GiB, user_slots: 9000}}
state: {burst: {accumulated_resource_ratio_volume: %d}}
`
	span := Span{For: 72 * time.Hour, Step: time.Hour, Period: 10 * time.Second}
	t.Run("1000 always", func(t *testing.T) {
		file := mustRead(t, fmt.Sprintf(text, 1000, "0h-", 30))
		for _, sample := range History(file, span, []int32{file.mustSlot(t, "burst")})[0].Samples {
			near(t, fmt.Sprintf("cpu at %v", sample.At), sample.FairShare.Integral[cpu]*2000, 1000, 1e-6)
		}
	})
	t.Run("2000 half of the time", func(t *testing.T) {
		file := mustRead(t, fmt.Sprintf(text, 2000, "12h-24h every 24h", 30))
		series := History(file, span, []int32{file.mustSlot(t, "burst")})[0]
		for _, sample := range series.Samples[1:] {
			want := 0.0
			if (sample.At-1)%(24*time.Hour) >= 12*time.Hour {
				want = 2000
			}
			// The end of smoothing shows in the last minutes of the first night.
			near(t, fmt.Sprintf("average cpu of the hour before %v", sample.At), sample.Mean.Integral[cpu]*2000, want, 20)
		}
		near(t, "the average", series.Mean.Integral[cpu]*2000, 1000, 1)
	})
	t.Run("a full bucket of 2000 lasts a day", func(t *testing.T) {
		file := mustRead(t, fmt.Sprintf(text, 2000, "0h-", 43200))
		near(t, "hours", lasts(t, file, "burst", time.Minute).Hours(), 24, 0.1)
	})
}

const threeDays = `
cluster: {total: {cpu: 2000, memory: 2000GiB, user_slots: 2000}}
pools:
  production: {integral_guarantees: {guarantee_type: burst, resource_flow: {cpu: 1000}, burst_guarantee_resources: {cpu: 2000}}}
  research: {integral_guarantees: {guarantee_type: relaxed, resource_flow: {cpu: 1000}}}
operations:
  - {name: nightly, pool: production, demand: {cpu: 9000, memory: 9000GiB, user_slots: 9000}, active: 12h-24h every 24h}
  - {name: experiment, pool: research, demand: {cpu: 9000, memory: 9000GiB, user_slots: 9000}}
`

// Production needs 2000 CPU twelve hours a day and research 1000 on average; 2000
// cores are enough. The figures are those of the reference's example E3.
func TestThreeDaysOfProductionAndResearchAverageOneThousandEach(t *testing.T) {
	file := mustRead(t, threeDays)
	span := Span{For: 72 * time.Hour, Step: 6 * time.Hour, Period: 10 * time.Second}
	series := History(file, span, file.Pools())
	production, research := series[0], series[1]
	const million = 1e6
	for _, want := range []struct {
		hour                                int
		production, saved                   float64 // integral cpu, million core·s
		integral, byWeight, researchIsSaved float64
	}{
		{6, 0, 21.6, 1000, 1000, 0.06},
		{12, 2000, 43.2, 0, 0, 0.06},
		{18, 2000, 21.6, 0, 0, 21.7},
		{24, 0, 0.06, 2000, 0, 43.2},
		{36, 2000, 43.3, 0, 0, 0.06},
	} {
		at := want.hour / 6
		what := func(name string) string { return fmt.Sprintf("%s at %d h", name, want.hour) }
		near(t, what("production"), production.Samples[at].FairShare.Integral[cpu]*2000, want.production, 1)
		near(t, what("production's volume"), production.Samples[at].Volume[cpu]/million, want.saved, 0.05)
		near(t, what("research's integral part"), research.Samples[at].FairShare.Integral[cpu]*2000, want.integral, 1)
		near(t, what("research's part by weight"), research.Samples[at].FairShare.WeightProportional[cpu]*2000, want.byWeight, 1)
		near(t, what("research's volume"), research.Samples[at].Volume[cpu]/million, want.researchIsSaved, 0.05)
	}
	near(t, "production's average", production.Mean.Total[cpu]*2000, 1000, 1)
	near(t, "research's average", research.Mean.Total[cpu]*2000, 1000, 1)
	var third [2]float64 // averages of the third day
	for i, s := range series {
		for _, sample := range s.Samples[9:] {
			third[i] += sample.Mean.Total[cpu] * 2000 / 4
		}
	}
	near(t, "production on the third day", third[0], 999.9, 0.5)
	near(t, "research on the third day", third[1], 1000.8, 1.5)
}

// The pool of the document's two figures beside an equal neighbour: burst 500, flow
// 100, 1000 cores and a full bucket. The figures are those of E4.
func TestTheFiguresOfTheDocument(t *testing.T) {
	file := mustRead(t, `
cluster: {total: {cpu: 1000, memory: 1000GiB, user_slots: 1000}}
pools:
  bursting: {integral_guarantees: {guarantee_type: burst, resource_flow: {cpu: 100}, burst_guarantee_resources: {cpu: 500}}}
  neighbour: {}
operations:
  - {name: a, pool: bursting, demand: {cpu: 5000, memory: 5000GiB, user_slots: 5000}}
  - {name: b, pool: neighbour, demand: {cpu: 5000, memory: 5000GiB, user_slots: 5000}}
state: {bursting: {accumulated_resource_ratio_volume: 8640}}
`)
	series := History(file, Span{For: 8 * time.Hour, Step: 10 * time.Second, Period: 10 * time.Second}, file.Pools())
	bursting, neighbour := series[0].Samples, series[1].Samples
	near(t, "capacity", bursting[0].CapacityRatio, 8640, 1e-6)
	near(t, "integral part at first", bursting[0].FairShare.Integral[cpu]*1000, 500, 1e-6)
	near(t, "part by weight at first", bursting[0].FairShare.WeightProportional[cpu]*1000, 250, 1e-6)
	near(t, "the neighbour at first", neighbour[0].FairShare.Total[cpu]*1000, 250, 1e-6)
	until := time.Duration(0)
	for _, sample := range bursting {
		if sample.FairShare.Integral[cpu] >= 0.5-1e-9 {
			until = sample.At
		}
	}
	near(t, "seconds of burst", until.Seconds(), 21530, 30)
	last := len(bursting) - 1
	near(t, "integral part in the end", bursting[last].FairShare.Integral[cpu]*1000, 100, 0.1)
	near(t, "part by weight in the end", bursting[last].FairShare.WeightProportional[cpu]*1000, 450, 0.1)
	near(t, "the neighbour in the end", neighbour[last].FairShare.Total[cpu]*1000, 450, 0.1)
	near(t, "volume in the end", bursting[last].RatioVolume, 6, 0.01)
}

func TestHistoryDoesNotDependOnItsSteps(t *testing.T) {
	mean := func(step, period time.Duration) float64 {
		file := mustRead(t, threeDays)
		return History(file, Span{For: 25 * time.Hour, Step: step, Period: period}, file.Pools())[0].Mean.Total[cpu]
	}
	want := mean(time.Hour, 10*time.Second)
	near(t, "with samples every 7 minutes", mean(7*time.Minute, 10*time.Second), want, 1e-4)
	near(t, "with updates every 3 seconds", mean(time.Hour, 3*time.Second), want, 1e-3)
	near(t, "with updates every 59 seconds", mean(time.Hour, 59*time.Second), want, 3e-3)
}

func TestRunUpdatesWhenOperationsComeAndGo(t *testing.T) {
	file := mustRead(t, `
cluster: {total: {cpu: 100}}
pools: {a: {}}
operations: [{name: o, pool: a, demand: {cpu: 50}, active: 61m-62m}]
`)
	slot := file.mustSlot(t, "a")
	series := History(file, Span{For: 2 * time.Hour, Step: time.Hour, Period: time.Hour}, []int32{slot})[0]
	near(t, "average of the second hour", series.Samples[2].Mean.Total[cpu], 0.5/60, 1e-12)
	near(t, "average of both", series.Mean.Total[cpu], 0.5/120, 1e-12)
	if len(series.Samples) != 3 || series.Samples[2].At != 2*time.Hour {
		t.Errorf("%d samples", len(series.Samples))
	}
}

func TestHistoryOfNoTimeIsOneSample(t *testing.T) {
	file := mustRead(t, threeDays)
	series := History(file, Span{Step: time.Hour, Period: time.Second}, file.Pools())
	if len(series) != 2 || len(series[1].Samples) != 1 || series[1].Mean.Total != series[1].Samples[0].FairShare.Total {
		t.Errorf("series %+v", series)
	}
	if file.Elapsed != fairshare.FirstUpdate {
		t.Errorf("elapsed is %v", file.Elapsed)
	}
}
