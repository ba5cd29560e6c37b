// Package workload turns the templates and traces of a scenario into operations
// in order of arrival. Every template draws from a separate sequence, so that its
// operations stay the same when others are added.
//
// It draws and counts, but does not advance time: the caller requests the next
// operation. It imports scenario, trace and distribution.
package workload

import (
	"fmt"
	"math"
	"time"

	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/sim/distribution"
	"github.com/weirhq/weir/internal/sim/scenario"
	"github.com/weirhq/weir/internal/sim/trace"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/nodefilter"
	"github.com/weirhq/weir/internal/value/resource"
)

// Operation is one operation that arrives.
type Operation struct {
	// Name is unique among the operations of templates. Template is the name of
	// the template or trace that it comes from.
	Name, Template string
	User           string
	At             time.Duration
	Options        pooltree.OperationOptions
	Spec           document.Value
	Jobs           int
	Resources      resource.Amounts // of one job
	Durations      Durations
	// AtOnce is how many jobs an operation with demand over time demands at once,
	// until Until. Its other Jobs are a supply that is larger than what it can
	// run by then. It is zero for other operations.
	AtOnce int
	Until  time.Duration
}

// Durations is how long each job of an operation runs. A restarted job runs for
// the same time again.
type Durations struct {
	law   *distribution.Distribution // nil: fixed
	seed  distribution.Seed
	fixed time.Duration
}

// shortest is the least running time of a job: a job cannot finish at the moment
// it starts.
const shortest = time.Millisecond

// Fixed is the same duration for every job.
func Fixed(d time.Duration) Durations { return Durations{fixed: max(d, shortest)} }

// Of returns how long the job with this index in its operation runs.
func (d *Durations) Of(job int) time.Duration {
	if d.law == nil {
		return d.fixed
	}
	stream := d.seed.At(job).Stream()
	return duration(d.law.Draw(&stream))
}

// duration rounds seconds to milliseconds within what time can hold.
func duration(seconds float64) time.Duration {
	const most = 100 * 365 * 24 * time.Hour
	if !(seconds < most.Seconds()) {
		return most
	}
	return max(time.Duration(math.Round(seconds*1000))*time.Millisecond, shortest)
}

// Source yields the operations of one template or trace in order of time.
type Source struct {
	// Name is the name of the template or trace.
	Name string
	next func() (Operation, bool)
	// last is a bound on the times that are still to come, for progress.
	last time.Duration
}

// Next returns the next operation; false after the last one.
func (s *Source) Next() (Operation, bool) { return s.next() }

// Last returns the time of the last operation if it is known, and Forever
// otherwise.
func (s *Source) Last() time.Duration { return s.last }

// Sources returns the sources of a scenario: templates first, then traces.
func Sources(s *scenario.Scenario) []*Source {
	var sources []*Source
	end := s.Duration.Or(scenario.Forever)
	seed := distribution.Seed(s.Seed).Named("operations")
	for i := range s.Operations {
		sources = append(sources, templateSource(&s.Operations[i], seed.Named(s.Operations[i].Name), end))
	}
	for i := range s.Traces {
		sources = append(sources, traceSource(&s.Traces[i], end))
	}
	return sources
}

// maker makes operations from a template.
type maker struct {
	template *scenario.Template
	seed     distribution.Seed
	end      time.Duration
	made     int
	law      *distribution.Distribution // of durations; nil if fixed
	fixed    time.Duration
}

func newMaker(t *scenario.Template, seed distribution.Seed, end time.Duration) *maker {
	m := &maker{template: t, seed: seed, end: end, law: &t.Duration}
	if seconds, constant := t.Duration.Value(); constant {
		m.law, m.fixed = nil, duration(seconds)
	}
	return m
}

func templateSource(t *scenario.Template, seed distribution.Seed, end time.Duration) *Source {
	m := newMaker(t, seed, end)
	source := &Source{Name: t.Name, last: lastTime(t)}
	if len(t.Demand) > 0 {
		next := demandTimes(t.Demand)
		source.next = func() (Operation, bool) {
			w := next()
			if w.From >= end {
				return Operation{}, false
			}
			return m.demanding(w), true
		}
		return source
	}
	next := arrivalTimes(&t.Arrival, seed.Named("arrival").Stream())
	source.next = func() (Operation, bool) {
		at := next()
		if at >= end || t.Arrival.Count > 0 && m.made >= t.Arrival.Count {
			return Operation{}, false
		}
		return m.operation(at), true
	}
	return source
}

// lastTime returns when the last operation of a template arrives, if that is
// known beforehand.
func lastTime(t *scenario.Template) time.Duration {
	last := time.Duration(0)
	for _, w := range t.Demand {
		if w.Every > 0 {
			return scenario.Forever
		}
		last = max(last, w.From)
	}
	if len(t.Demand) > 0 {
		return last
	}
	if a := &t.Arrival; a.Every == 0 && a.Repeat == 0 {
		return a.Times[len(a.Times)-1]
	}
	return scenario.Forever
}

// operation makes the next operation.
func (m *maker) operation(at time.Duration) Operation {
	n := m.made
	m.made++
	seed := m.seed.At(n)
	o := Operation{
		Name: m.name(), Template: m.template.Name, User: m.template.User, At: at, Until: scenario.Forever,
		Options: m.template.Options, Spec: m.template.Spec,
		Durations: Durations{law: m.law, seed: seed.Named("duration"), fixed: m.fixed},
	}
	count := seed.Named("job_count").Stream()
	o.Jobs = max(1, int(math.Round(m.template.JobCount.Draw(&count))))
	for _, k := range resource.Kinds {
		size := seed.Named(k.String()).Stream()
		o.Resources[k] = resource.FromFloat(k, m.template.Resources[k].Draw(&size))
	}
	o.Resources[resource.UserSlots] = max(1, o.Resources[resource.UserSlots])
	return o
}

// name returns the name of the last operation made.
func (m *maker) name() string {
	if m.template.Alone() {
		return m.template.Name
	}
	return fmt.Sprintf("%s-%d", m.template.Name, m.made)
}

// demanding makes an operation for a demand window.
func (m *maker) demanding(w scenario.DemandWindow) Operation {
	o := m.operation(w.From)
	o.AtOnce, o.Until = w.Jobs, w.To
	end := min(w.To, m.end)
	o.Jobs = supply(w.Jobs, end-w.From, m.meanDuration())
	// It demands only what it needs at once, however many jobs it could run.
	limits := o.Options.ResourceLimits.Value()
	for _, k := range resource.Kinds {
		wanted := o.Resources[k] * int64(w.Jobs)
		if given, ok := limits.Get(k); wanted > 0 && (!ok || wanted < given) {
			limits = limits.With(k, wanted)
		}
	}
	o.Options.ResourceLimits, o.Options.ApplyLimitsToDemand = document.Some(limits), document.Some(true)
	return o
}

func (m *maker) meanDuration() float64 {
	if m.law == nil {
		return m.fixed.Seconds()
	}
	return m.law.Mean()
}

// supply returns how many jobs keep atOnce of them running for a time: half as
// many more than needed on average, within bounds.
func supply(atOnce int, span time.Duration, mean float64) int {
	const most = 50_000_000
	rounds := 2 + 1.5*span.Seconds()/max(mean, shortest.Seconds())
	return max(atOnce, int(min(float64(atOnce)*rounds, most)))
}

// Again returns an operation that replaces one with demand over time that has run
// out of jobs before its window has closed.
func Again(o *Operation, now time.Duration) Operation {
	again := *o
	again.Name, again.At = o.Name+"+", now
	again.Durations.seed = o.Durations.seed.Named("again")
	return again
}

// traceSource yields the operations of a trace.
func traceSource(t *scenario.Trace, end time.Duration) *Source {
	filters := map[string]nodefilter.Filter{}
	prefix := ""
	if t.Name != "" {
		prefix = t.Name + "/"
	}
	log, i := t.Log, 0
	return &Source{
		Name: t.Name,
		last: log.Operations[len(log.Operations)-1].Submit,
		next: func() (Operation, bool) {
			if i >= len(log.Operations) || log.Operations[i].Submit >= end {
				return Operation{}, false
			}
			recorded := &log.Operations[i]
			i++
			o := Operation{
				Name: prefix + recorded.Name, Template: t.Name, User: log.Users[recorded.User], At: recorded.Submit,
				Options: t.Options, Jobs: recorded.Jobs, Resources: recorded.Resources,
				Durations: Fixed(recorded.Run), Until: scenario.Forever,
			}
			o.Options.Pool = document.Some(tracePool(t, log, recorded))
			if recorded.Gang {
				o.Options.IsGang = document.Some(o.Options.IsGang.Or(true))
			}
			if recorded.Filter != "" && !o.Options.SchedulingTagFilter.IsSet() {
				o.Options.SchedulingTagFilter = document.Some(parsed(filters, recorded.Filter))
			}
			return o, true
		},
	}
}

func tracePool(t *scenario.Trace, log *trace.Log, o *trace.Operation) string {
	switch {
	case t.Pool != "":
		return t.Pool
	case t.Parent != "":
		return t.Parent
	}
	return log.Pools[o.Pool]
}

// parsed returns the filter of a formula, which the reader of the trace wrote.
func parsed(known map[string]nodefilter.Filter, text string) nodefilter.Filter {
	filter, ok := known[text]
	if !ok {
		filter, _ = nodefilter.Parse(text) // an invalid formula selects all nodes
		known[text] = filter
	}
	return filter
}
