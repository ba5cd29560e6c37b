package sim

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/sim/outcome"
	"github.com/weirhq/weir/internal/sim/scenario"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// expectations compares what happens with what the scenario expects.
type expectations struct {
	list []scenario.Expectation
	// since has, for averages, the integrals at the time where they start.
	since   []map[scenario.Figure]outcome.Vector
	results [][]outcome.Expectation
}

// open selects the expectations that are not about times before the run.
func (x *expectations) open(r *run) {
	x.list = slices.DeleteFunc(slices.Clone(r.scenario.Expectations), func(e scenario.Expectation) bool { return e.At < r.from })
	x.since = make([]map[scenario.Figure]outcome.Vector, len(x.list))
	x.results = make([][]outcome.Expectation, len(x.list))
}

// schedule queues the moments of expectations.
func (x *expectations) schedule(r *run) {
	end := r.scenario.Duration.Or(scenario.Forever)
	for i, e := range x.list {
		if e.From > 0 && e.From <= end {
			r.queue.push(e.From, kindBaseline, int32(i), 0)
		}
		if e.At < end {
			r.toCome++
			r.queue.push(e.At, kindExpect, int32(i), 0)
		}
	}
}

// asksForWaits reports whether an expectation needs percentiles of an operation.
func (x *expectations) asksForWaits(name, template string) bool {
	return slices.ContainsFunc(x.list, func(e scenario.Expectation) bool {
		return e.Operation != "" && (e.Operation == name || e.Operation == template) &&
			slices.ContainsFunc(e.Checks, func(c scenario.Check) bool { return c.Figure == scenario.Waits })
	})
}

// averages are the figures that are integrals divided by time.
var averages = []scenario.Figure{
	scenario.AverageFairShare, scenario.AverageUsage, scenario.AverageDemand, scenario.AverageUtilisation,
}

// begin records the integrals with which averages start.
func (x *expectations) begin(r *run, i int) {
	x.since[i] = map[scenario.Figure]outcome.Vector{}
	for _, s := range r.subjects(&x.list[i]) {
		for _, f := range averages {
			if v, ok := s.integral(f); ok {
				x.since[i][f] = v
			}
		}
	}
}

// evaluate compares one expectation with the present state.
func (x *expectations) evaluate(r *run, i int) {
	r.toCome--
	x.judge(r, i)
}

// finish evaluates expectations about the end, and about moments after it.
func (x *expectations) finish(r *run) {
	for i := range x.list {
		if x.results[i] == nil {
			x.judge(r, i)
		}
	}
}

func (x *expectations) judge(r *run, i int) {
	e := &x.list[i]
	x.results[i] = []outcome.Expectation{}
	when := " at the end"
	if e.At != scenario.Forever {
		when = " at " + document.FormatDuration(e.At)
		if r.now < e.At {
			when += " (the run ended before, at " + document.FormatDuration(r.now) + ")"
		}
	}
	subjects := r.subjects(e)
	for _, c := range e.Checks {
		for _, s := range subjects {
			verdict := s.compare(c, e.From, x.since[i])
			verdict.Where, verdict.Subject = e.Where, s.String()
			verdict.Figure = figureName(c) + when
			x.results[i] = append(x.results[i], verdict)
		}
	}
}

func figureName(c scenario.Check) string {
	switch {
	case c.Key != "":
		return string(c.Figure) + "/" + c.Key
	case slices.Contains(vectorFigures, c.Figure):
		return string(c.Figure) + "/" + c.Kind.String()
	}
	return string(c.Figure)
}

var vectorFigures = append([]scenario.Figure{scenario.FairShare, scenario.Usage, scenario.Demand, scenario.LostResources}, averages...)

// subject is what an expectation is about: exactly one of the fields is set, or
// none for the cluster.
type subject struct {
	run       *run
	operation *operationAccount
	pool      *poolAccount
	node      *node
	// missing is the name of a subject that does not exist.
	missing string
	unknown string // "operation", "pool" or "node"
}

func (s subject) String() string {
	switch {
	case s.missing != "":
		return s.unknown + " " + s.missing
	case s.operation != nil:
		return "operation " + s.operation.name
	case s.pool != nil:
		return "pool " + s.pool.name
	case s.node != nil:
		return "node " + s.node.name
	}
	return "the cluster"
}

// subjects finds the subjects of an expectation. The name of a template means
// each of its operations.
func (r *run) subjects(e *scenario.Expectation) (list []subject) {
	switch {
	case e.Operation != "":
		for i := range r.operations {
			if o := &r.operations[i]; o.name == e.Operation || o.template == e.Operation {
				list = append(list, subject{run: r, operation: o})
			}
		}
		if list == nil {
			list = []subject{{run: r, missing: e.Operation, unknown: "operation"}}
		}
	case e.Pool != "":
		tree := r.scenario.DefaultTree
		if e.Tree != "" {
			tree = e.Tree
		}
		if i, ok := r.books.byName[poolName{r.treeIndex(tree), e.Pool}]; ok {
			return []subject{{run: r, pool: &r.books.pools[i]}}
		}
		list = []subject{{run: r, missing: e.Pool, unknown: "pool"}}
	case e.Node != "":
		for i := range r.nodes {
			if r.nodes[i].name == e.Node {
				return []subject{{run: r, node: &r.nodes[i]}}
			}
		}
		list = []subject{{run: r, missing: e.Node, unknown: "node"}}
	default:
		list = []subject{{run: r}}
	}
	return list
}

// compare reports whether a check holds.
func (s subject) compare(c scenario.Check, from time.Duration, since map[scenario.Figure]outcome.Vector) outcome.Expectation {
	if word, ok := s.word(c.Figure, c.Word); ok {
		held := word == c.Word
		want := c.Word
		if c.Figure == scenario.ErrorText {
			held, want = strings.Contains(word, c.Word), "a message with "+strconv.Quote(c.Word)
			word = strconv.Quote(word)
		}
		return outcome.Expectation{Want: want, Got: word, Held: held}
	}
	if c.Word != "" {
		return outcome.Expectation{Want: c.Word, Got: "absent"}
	}
	value, ok := s.number(c, from, since)
	verdict := outcome.Expectation{Want: boundText(c), Got: "absent"}
	if ok {
		verdict.Got = valueText(c, value)
		// Sums of floating point numbers are off in their last digits.
		slack := 1e-9 * max(math.Abs(value), 1)
		verdict.Held = c.Bound.Low-slack <= value && value <= c.Bound.High+slack
	}
	return verdict
}

// isTime reports whether a figure is a number of seconds.
func isTime(f scenario.Figure) bool {
	switch f {
	case scenario.StartedBy, scenario.StartedAfter, scenario.FinishedBy, scenario.Waits, scenario.GuaranteeBelow:
		return true
	}
	return false
}

func valueText(c scenario.Check, v float64) string {
	switch {
	case isTime(c.Figure) && v <= math.MaxInt64/2e9:
		return document.FormatDuration(time.Duration(math.Round(v*1000)) * time.Millisecond)
	case c.Kind == resource.Memory && slices.Contains([]scenario.Figure{scenario.FairShare, scenario.Usage, scenario.Demand,
		scenario.AverageFairShare, scenario.AverageUsage, scenario.AverageDemand}, c.Figure):
		return resource.FormatAmount(resource.Memory, int64(v))
	}
	return strconv.FormatFloat(outcome.Round(v), 'f', -1, 64)
}

func boundText(c scenario.Check) string {
	low, high := c.Bound.Low, c.Bound.High
	switch {
	case low == high:
		return valueText(c, low)
	case math.IsInf(low, -1) || isTime(c.Figure) && low == 0:
		return "at most " + valueText(c, high)
	case math.IsInf(high, 1):
		return "at least " + valueText(c, low)
	}
	return "from " + valueText(c, low) + " to " + valueText(c, high)
}

// word returns a figure that is a word.
func (s subject) word(f scenario.Figure, want string) (string, bool) {
	switch f {
	case scenario.Exists:
		there := s.pool != nil && s.pool.there
		return strconv.FormatBool(there), true
	case scenario.State:
		return s.state(), true
	case scenario.ErrorText:
		if s.operation == nil {
			return "", true
		}
		return s.operation.reason, true
	case scenario.Status:
		if v, ok := s.view(); ok {
			return v.status.String(), true
		}
	case scenario.Starvation:
		if v, ok := s.view(); ok {
			return v.starvation.String(), true
		}
	case scenario.StartedBefore:
		if s.startedBefore(want) {
			return want, true
		}
		return "not before it", true
	}
	return "", false
}

func (s subject) state() string {
	o := s.operation
	switch {
	case o == nil:
		return "absent"
	case o.rejected:
		return "rejected"
	}
	if seen, there := s.run.books.viewed.Operation(o.id); there && seen.Suspended && !o.state.IsFinished() {
		return "suspended"
	}
	return o.state.String()
}

// startedBefore reports whether the first job has started before those of all
// operations with this name.
func (s subject) startedBefore(name string) bool {
	if s.operation == nil || s.operation.started == never {
		return false
	}
	for i := range s.run.operations {
		o := &s.run.operations[i]
		if (o.name == name || o.template == name) && o.started != never && o.started <= s.operation.started {
			return false
		}
	}
	return true
}

// figures are an element's figures in its observation.
type figures struct {
	fairShare, demand        outcome.Vector
	status                   scheduling.Status
	starvation               scheduling.Starvation
	runningJobs, pendingJobs int32
	classes                  [len(scheduling.JobCounts{}.Classes)]int32
}

// view returns the observation of an operation, in all of its trees together, or
// of a pool.
func (s subject) view() (f figures, ok bool) {
	if p := s.pool; p != nil {
		return figures{
			fairShare: p.state.fairShare, demand: p.state.demand, status: p.state.status, starvation: p.state.starvation,
			runningJobs: p.state.runningJobs, pendingJobs: p.state.pendingJobs,
		}, p.there
	}
	if s.operation == nil {
		return f, false
	}
	seen, ok := s.run.books.viewed.Operation(s.operation.id)
	if !ok {
		return f, s.operation.state.IsFinished()
	}
	for v := range s.run.books.viewed.Seats(seen) {
		total := &s.run.books.totals[v.Tree]
		for k := range f.fairShare {
			f.fairShare[k] += v.Share.Total[k] * total.Float(resource.Kind(k))
			f.demand[k] += v.Demand.Float(resource.Kind(k))
		}
		f.status, f.starvation = max(f.status, v.Status), max(f.starvation, v.Starvation)
		f.runningJobs += v.RunningJobs
		f.pendingJobs += v.WaitingJobs
		for c := range f.classes {
			f.classes[c] += v.Classes[c]
		}
	}
	return f, true
}

// integral returns a figure whose average is needed, times seconds.
func (s subject) integral(f scenario.Figure) (outcome.Vector, bool) {
	switch {
	case s.pool != nil:
		switch f {
		case scenario.AverageFairShare:
			return s.pool.entitled, true
		case scenario.AverageUsage:
			return s.pool.got, true
		case scenario.AverageDemand:
			return s.pool.asked, true
		}
	case s.operation != nil:
		s.operation.accrue(s.run.now)
		switch f {
		case scenario.AverageFairShare:
			return s.operation.entitled, true
		case scenario.AverageUsage:
			return s.operation.used, true
		case scenario.AverageDemand:
			return s.operation.asked, true
		}
	case s.missing == "" && s.node == nil:
		switch f {
		case scenario.AverageUsage:
			return s.run.books.cluster.used, true
		case scenario.AverageUtilisation:
			return s.run.books.utilised(), true
		}
	}
	return outcome.Vector{}, false
}

// utilised is the used part of the cluster, times seconds.
func (b *books) utilised() (v outcome.Vector) {
	seconds := (b.observedAt - b.from).Seconds()
	for k := range v {
		if b.room.used[k] > 0 {
			v[k] = b.cluster.used[k] / b.room.used[k] * seconds
		}
	}
	return v
}
