package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/sim/distribution"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// arrivalDocument is the long form of arrival.
type arrivalDocument struct {
	at      opt[[]time.Duration]
	repeat  opt[time.Duration]
	every   opt[time.Duration]
	poisson opt[time.Duration]
	active  opt[[]Window]
	count   opt[int]
}

var arrivalTable = document.NewTable(
	document.Maybe("at", "When an operation arrives: one time or a list.",
		func(a *arrivalDocument) *opt[[]time.Duration] { return &a.at }, document.OneOrMore(moment)),
	document.Maybe("repeat", "The times in at repeat with this period: 24h for every day.",
		func(a *arrivalDocument) *opt[time.Duration] { return &a.repeat }, period),
	document.Maybe("every", "Operations arrive at this interval, the first at once.",
		func(a *arrivalDocument) *opt[time.Duration] { return &a.every }, period),
	document.Maybe("poisson", "Operations arrive at random, with this mean interval.",
		func(a *arrivalDocument) *opt[time.Duration] { return &a.poisson }, period),
	document.Maybe("active", `Windows in which every and poisson produce operations: "8h-20h every 24h", or a list of windows. Unset: always.`,
		func(a *arrivalDocument) *opt[[]Window] { return &a.active }, windows),
	document.Maybe("count", "The most operations that arrive.",
		func(a *arrivalDocument) *opt[int] { return &a.count }, positive),
)

// arrivals reads a time, a list of times, or the long form.
var arrivals = orShort(
	readOnly(arrivalTable.Type().Shape(), func(r *document.Reader, v document.Value) (Arrival, bool) {
		var a arrivalDocument
		if wrong := arrivalTable.Read(r, v, &a); len(wrong) > 0 {
			return Arrival{}, false
		}
		return a.arrival(r, v)
	}),
	"a time, a list of times, or a map with the keys at, repeat, every, poisson, active, count",
	func(r *document.Reader, v document.Value) (Arrival, bool) {
		times, ok := document.ReadAs(document.OneOrMore(moment), r, v)
		slices.Sort(times)
		return Arrival{Times: times}, ok
	})

func (a *arrivalDocument) arrival(r *document.Reader, v document.Value) (Arrival, bool) {
	kinds := 0
	for _, given := range []bool{a.at.IsSet(), a.every.IsSet(), a.poisson.IsSet()} {
		if given {
			kinds++
		}
	}
	refuse := func(rule document.Rule, message string) (Arrival, bool) {
		r.Refuse(v.Position(), rule, message)
		return Arrival{}, false
	}
	switch {
	case kinds == 0:
		return refuse(document.RuleMissing, "needs one of at, every, poisson")
	case kinds > 1:
		return refuse(document.RuleTwoNames, "has more than one of at, every, poisson; give only one of them")
	case a.repeat.IsSet() && !a.at.IsSet():
		return refuse(document.RuleMissing, "repeat brings the times of at again, which is not given")
	case a.active.IsSet() && a.at.IsSet():
		return refuse(document.RuleTwoNames, "active restricts every and poisson, not the times of at")
	}
	times := slices.Clone(a.at.Value())
	slices.Sort(times)
	if repeat, ok := a.repeat.Get(); ok && times[len(times)-1]-times[0] >= repeat {
		return refuse(document.RuleOutOfRange, fmt.Sprintf("the times of at are spread over more than repeat, %s", document.FormatDuration(repeat)))
	}
	return Arrival{
		Times: times, Repeat: a.repeat.Value(), Every: a.every.Or(a.poisson.Value()), Poisson: a.poisson.IsSet(),
		Active: a.active.Value(), Count: a.count.Value(),
	}, true
}

// demandDocument is demand over time.
type demandDocument struct {
	jobs   opt[int]
	active opt[[]Window]
	steps  opt[[]demandStep]
	repeat opt[time.Duration]
}

type demandStep struct {
	at   opt[time.Duration]
	jobs opt[int]
}

var demandStepTable = document.NewTable(
	document.Maybe("at", "When this step starts.",
		func(s *demandStep) *opt[time.Duration] { return &s.at }, moment),
	document.Maybe("jobs", "How many jobs the operation demands at once from then on.",
		func(s *demandStep) *opt[int] { return &s.jobs }, document.Between(document.Ints, 0, 1_000_000)),
)

var demandTable = document.NewTable(
	document.Maybe("jobs", "How many jobs run at once, if there is room. Each finished job is replaced.",
		func(d *demandDocument) *opt[int] { return &d.jobs }, document.Between(document.Ints, 1, 1_000_000)),
	document.Maybe("active", `When the operation demands them: "0h-12h every 24h", or a list of windows. Unset: always.`,
		func(d *demandDocument) *opt[[]Window] { return &d.active }, windows),
	document.Maybe("steps", "Demand that changes in steps, instead of jobs and active.",
		func(d *demandDocument) *opt[[]demandStep] { return &d.steps }, document.ListOf(demandStepTable.Type())),
	document.Maybe("repeat", "The steps repeat with this period.",
		func(d *demandDocument) *opt[time.Duration] { return &d.repeat }, period),
)

var demands = readOnly(demandTable.Type().Shape(), func(r *document.Reader, v document.Value) ([]DemandWindow, bool) {
	var d demandDocument
	if v.Kind() != document.MapKind {
		r.Refuse(v.Position(), document.RuleWrongType, "must be a map with the keys jobs and active, or steps and repeat")
		return nil, false
	}
	if wrong := demandTable.Read(r, v, &d); len(wrong) > 0 {
		return nil, false
	}
	switch {
	case d.jobs.IsSet() == d.steps.IsSet():
		r.Refuse(v.Position(), document.RuleMissing, "needs either jobs or steps")
		return nil, false
	case d.jobs.IsSet() && d.repeat.IsSet():
		r.Refuse(v.Position(), document.RuleTwoNames, `repeat is for steps; say active: "0h-12h every 24h"`)
		return nil, false
	case d.steps.IsSet() && len(d.steps.Value()) == 0:
		r.Refuse(v.Position(), document.RuleMissing, "needs at least one step")
		return nil, false
	case d.steps.IsSet() && d.active.IsSet():
		r.Refuse(v.Position(), document.RuleTwoNames, "active is for jobs; steps say themselves when they begin")
		return nil, false
	case d.steps.IsSet():
		return stepWindows(r, v, d.steps.Value(), d.repeat.Value())
	}
	var list []DemandWindow
	for _, w := range d.active.Or([]Window{{To: Forever}}) {
		list = append(list, DemandWindow{Window: w, Jobs: d.jobs.Value()})
	}
	return list, true
})

// stepWindows turns steps into windows, one above the other: a rise opens a
// window, a fall closes the latest ones, of which it may leave a part open. So
// other operations that come and go do not interrupt an operation that is
// demanded throughout.
func stepWindows(r *document.Reader, v document.Value, steps []demandStep, repeat time.Duration) ([]DemandWindow, bool) {
	end := Forever
	if repeat > 0 {
		end = steps[0].at.Value() + repeat
	}
	var open, closed []DemandWindow
	level, last := 0, time.Duration(-1)
	fall := func(by int, at time.Duration) {
		for by > 0 {
			top := &open[len(open)-1]
			part := min(by, top.Jobs)
			closed = append(closed, DemandWindow{Window{top.From, at, repeat}, part})
			if top.Jobs -= part; top.Jobs == 0 {
				open = open[:len(open)-1]
			}
			by -= part
		}
	}
	for i, s := range steps {
		at, ok := s.at.Get()
		jobs, ok2 := s.jobs.Get()
		switch {
		case !ok || !ok2:
			r.Refuse(v.Position(), document.RuleMissing, fmt.Sprintf("step %d needs at and jobs", i))
			return nil, false
		case at <= last:
			r.Refuse(v.Position(), document.RuleOutOfRange, fmt.Sprintf("step %d does not come after the one before it", i))
			return nil, false
		case at >= end:
			r.Refuse(v.Position(), document.RuleOutOfRange, fmt.Sprintf("step %d comes after the steps have begun again", i))
			return nil, false
		}
		last = at
		if jobs > level {
			open = append(open, DemandWindow{Window{From: at}, jobs - level})
		} else {
			fall(level-jobs, at)
		}
		level = jobs
	}
	fall(level, end)
	slices.SortStableFunc(closed, func(a, b DemandWindow) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(b.To, a.To))
	})
	return closed, true
}

// operationDocument is a template as written.
type operationDocument struct {
	name      opt[string]
	user      opt[string]
	options   pooltree.OperationOptions
	spec      opt[document.Value]
	arrival   opt[Arrival]
	demand    opt[[]DemandWindow]
	jobCount  opt[distribution.Distribution]
	resources opt[jobResources]
	duration  opt[distribution.Distribution]
}

// specificationOptions are those of an operation's specification; gang is an
// alias of is_gang.
func specificationOptions() []document.Option[pooltree.OperationOptions] {
	options := pooltree.OperationOptionList()
	for i, o := range options {
		if o.Name() == "is_gang" {
			options[i] = o.Alias("gang")
		}
	}
	return options
}

var operationTable = document.NewTable(slices.Concat(
	[]document.Option[operationDocument]{
		document.Maybe("name", "The name, which must be unique. If several operations arrive, they are named name-1, name-2, ….",
			func(o *operationDocument) *opt[string] { return &o.name }, document.Words),
		document.Maybe("user", "Who starts it. Unset: the name of the pool.",
			func(o *operationDocument) *opt[string] { return &o.user }, document.Words),
		document.Maybe("arrival", "When it arrives. Unset: at the start.",
			func(o *operationDocument) *opt[Arrival] { return &o.arrival }, arrivals).Alias("start_time"),
		document.Maybe("demand", "Demand over time, instead of arrival and job_count: a number of jobs at once, continuously replaced.",
			func(o *operationDocument) *opt[[]DemandWindow] { return &o.demand }, demands),
		document.Maybe("job_count", "How many jobs an operation has. Unset: 1.",
			func(o *operationDocument) *opt[distribution.Distribution] { return &o.jobCount }, jobCounts),
		document.Maybe("job_resources", "What one job needs. A distribution is drawn once per operation. Unset: 1 cpu. A job always takes one user slot.",
			func(o *operationDocument) *opt[jobResources] { return &o.resources }, resourceLaws),
		document.Maybe("duration", "How long a job runs. A distribution is drawn for each job.",
			func(o *operationDocument) *opt[distribution.Distribution] { return &o.duration }, law(secondsUnit)).Alias("job_duration"),
		document.Maybe("spec", "Further options of the specification, passed on unchanged.",
			func(o *operationDocument) *opt[document.Value] { return &o.spec }, anyMap),
	},
	document.Within(specificationOptions(), func(o *operationDocument) *pooltree.OperationOptions { return &o.options }),
)...)

// operations reads a list of templates, or a map from their names.
func (b *builder) operations() {
	b.r.Enter("operations")
	defer b.r.Leave()
	switch list := b.in.operations; list.Kind() {
	case document.NullKind:
	case document.ListKind:
		for i, item := range list.Items() {
			key := strconv.Itoa(i)
			if name, ok := item.Get("name"); ok {
				if text, ok := name.Text(); ok && text != "" {
					key = text
				}
			}
			b.operation(key, opt[string]{}, item.Position(), item)
		}
	case document.MapKind:
		for _, e := range list.Entries() {
			b.operation(e.Key, document.Some(e.Key), e.At, e.Value)
		}
	default:
		b.r.Refuse(list.Position(), document.RuleWrongType, "must be a list of operations with names, or a map from names to operations")
	}
}

func (b *builder) operation(path string, key opt[string], at document.Position, v document.Value) {
	b.r.Enter(path)
	defer b.r.Leave()
	var o operationDocument
	wrong := operationTable.Read(b.r, v, &o)
	if v.Kind() != document.MapKind {
		return
	}
	name := o.name.OrElse(key)
	isWrong := func(option string) bool { return slices.Contains(wrong, option) }
	switch {
	case !name.IsSet() && !isWrong("name"):
		b.r.Refuse(at, document.RuleMissing, "an operation in a list needs a name")
	case key.IsSet() && key.Value() != name.Value():
		b.r.Refuse(at, document.RuleTwoNames, fmt.Sprintf("the operation is called %q by its key and %q by its name", key.Value(), name.Value()))
	case slices.ContainsFunc(b.out.Operations, func(t Template) bool { return t.Name == name.Value() }):
		b.r.Refuse(at, document.RuleRepeated, fmt.Sprintf("there is already an operation called %q", name.Value()))
	}
	if !o.duration.IsSet() && !isWrong("duration") {
		b.r.Refuse(at, document.RuleMissing, "needs a duration: how long a job runs")
	}
	if o.demand.IsSet() && (o.arrival.IsSet() || o.jobCount.IsSet()) {
		b.r.Refuse(at, document.RuleTwoNames, "demand stands instead of arrival and job_count; give only one of them")
	}
	if limits, ok := o.options.ResourceLimits.Get(); ok && o.demand.IsSet() && limits.Has(resource.UserSlots) {
		b.r.Refuse(at, document.RuleTwoNames, "demand sets the number of jobs; resource_limits must not name user_slots too")
	}
	b.out.Operations = append(b.out.Operations, o.template(name.Value()))
}

func (o *operationDocument) template(name string) Template {
	t := Template{
		Name: name, Options: o.options, Spec: o.spec.Value(),
		Arrival:  o.arrival.Or(Arrival{Times: []time.Duration{0}}),
		Demand:   o.demand.Value(),
		JobCount: o.jobCount.Or(distribution.NewConstant(1)),
		Duration: o.duration.Value(),
	}
	t.User = o.user.Or(o.options.Pool.Or(name))
	resources := o.resources.Value()
	t.Resources = resources.laws
	if !resources.set[resource.CPU] && !o.resources.IsSet() {
		t.Resources[resource.CPU] = distribution.NewConstant(1)
	}
	if !resources.set[resource.UserSlots] {
		t.Resources[resource.UserSlots] = distribution.NewConstant(1)
	}
	return t
}
