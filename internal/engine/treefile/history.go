package treefile

import (
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/value/resource"
)

// Run advances a tree through time: it updates shares repeatedly, feeding the
// state of integral pools from each update to the next. What an update grants
// holds until the next one. Operations are assumed to use what the file states;
// Run follows what they are entitled to.
type Run struct {
	file   *File
	engine fairshare.Engine
	result fairshare.Result
	now    time.Duration
}

// NewRun starts at the moment that the file describes, time zero. The run then
// owns the file: its states and operations follow the time.
func NewRun(file *File) *Run {
	r := &Run{file: file}
	file.Settle(0)
	r.engine.Update(&file.Tree, file.Elapsed, &r.result)
	return r
}

// Now is the time since the start.
func (r *Run) Now() time.Duration { return r.now }

// Result is the result of the last update. The next update changes it.
func (r *Run) Result() *fairshare.Result { return &r.result }

// Advance advances to a later time, with an update at least every period, at
// every moment when operations start or end, and at the end. Before each step it
// calls during, which may be nil, with the time for which the present result
// holds.
func (r *Run) Advance(to, period time.Duration, during func(step time.Duration)) {
	for r.now < to {
		step := min(period, to-r.now, r.file.nextChange(r.now)-r.now)
		if during != nil {
			during(step)
		}
		r.now += step
		r.file.Settle(r.now)
		r.file.Tree.States = append(r.file.Tree.States[:0], r.result.States...)
		r.engine.Update(&r.file.Tree, step, &r.result)
	}
}

// Span is the length and the resolution of a history.
type Span struct {
	// For is its length, Step the distance between samples.
	For, Step time.Duration
	// Period is the maximum time between two updates. Longer periods charge
	// integral pools for what they could not have spent: keep it below the
	// smooth period.
	Period time.Duration
	// Watch, if not nil, is called after each sample with the time reached; when
	// it returns false the history ends there.
	Watch func(now time.Duration) bool
}

// Sample is the state of a pool at one moment.
type Sample struct {
	At time.Duration
	// Demand and FairShare are of that moment.
	Demand    resource.Shares
	FairShare fairshare.Split
	// Mean is the average of the fair share since the sample before; at the
	// start it is that of the moment.
	Mean fairshare.Split
	// RatioVolume is what the pool has saved and CapacityRatio the most it can,
	// in seconds of the whole cluster; Volume is the same in resources.
	RatioVolume   float64
	CapacityRatio float64
	Volume        resource.Volume
}

// Series is a pool over time.
type Series struct {
	Slot    int32
	Name    string
	Samples []Sample
	// Mean is the average over the whole time.
	Mean fairshare.Split
}

// History computes what happens in a tree as time passes. Series are those of
// the given slots, which must be pools or operations of the file; the slot of an
// inactive operation has zeros.
//
// It is a pure function of its arguments except for the file, which it leaves in
// its state at the end of the span.
func History(file *File, span Span, slots []int32) []Series {
	series := make([]Series, len(slots))
	sums := make([]fairshare.Split, len(slots))   // share × seconds since the last sample
	totals := make([]fairshare.Split, len(slots)) // and since the start
	for i, slot := range slots {
		series[i] = Series{Slot: slot, Name: file.Names[slot]}
	}
	run := NewRun(file)
	observe := func(seconds float64) {
		for i, slot := range slots {
			sample := run.sample(slot)
			sample.Mean = sample.FairShare
			if seconds > 0 {
				sample.Mean = scaleSplit(sums[i], 1/seconds)
				totals[i] = addSplit(totals[i], sums[i])
				sums[i] = fairshare.Split{}
			}
			series[i].Samples = append(series[i].Samples, sample)
		}
	}
	observe(0)
	for run.now < span.For {
		from := run.now
		run.Advance(min(from+span.Step, span.For), span.Period, func(step time.Duration) {
			for i, slot := range slots {
				sums[i] = addSplit(sums[i], scaleSplit(run.split(slot), step.Seconds()))
			}
		})
		observe((run.now - from).Seconds())
		if span.Watch != nil && !span.Watch(run.now) {
			break
		}
	}
	for i := range series {
		series[i].Mean = series[i].Samples[0].Mean
		if seconds := run.now.Seconds(); seconds > 0 {
			series[i].Mean = scaleSplit(totals[i], 1/seconds)
		}
	}
	return series
}

// split is the fair share of a slot, which may be free.
func (r *Run) split(slot int32) fairshare.Split {
	if r.file.Tree.Elements[slot].Kind == fairshare.KindNone {
		return fairshare.Split{}
	}
	return r.result.Split(slot)
}

func (r *Run) sample(slot int32) Sample {
	s := Sample{At: r.now, FairShare: r.split(slot)}
	if r.file.Tree.Elements[slot].Kind == fairshare.KindNone {
		return s
	}
	s.Demand = r.result.Attributes(&r.file.Tree, slot).Demand
	pool := r.result.Pool(slot)
	if pool == nil || pool.FlowRatio == 0 || int(slot) >= len(r.result.States) {
		return s
	}
	s.Volume = r.result.States[slot].Volume
	s.RatioVolume = s.Volume.Ratio(r.result.Total)
	s.CapacityRatio = pool.FlowRatio * r.file.Tree.Options.CapacitySaturationPeriod.Seconds()
	return s
}

func addSplit(a, b fairshare.Split) fairshare.Split {
	return fairshare.Split{
		Strong: a.Strong.Add(b.Strong), Integral: a.Integral.Add(b.Integral),
		WeightProportional: a.WeightProportional.Add(b.WeightProportional), Total: a.Total.Add(b.Total),
	}
}

func scaleSplit(a fairshare.Split, by float64) fairshare.Split {
	return fairshare.Split{
		Strong: a.Strong.Times(by), Integral: a.Integral.Times(by),
		WeightProportional: a.WeightProportional.Times(by), Total: a.Total.Times(by),
	}
}

// Pools returns the slots of pools that a history shows by default: those below
// the root and all with integral guarantees.
func (f *File) Pools() []int32 {
	var slots []int32
	for slot := int32(1); int(slot) < len(f.Tree.Elements); slot++ {
		element := &f.Tree.Elements[slot]
		if element.Kind != fairshare.KindPool {
			continue
		}
		integral := element.Pool != nil && element.Pool.Integral.Type != fairshare.NoIntegral
		if element.Parent == 0 || integral {
			slots = append(slots, slot)
		}
	}
	return slices.Clip(slots)
}
