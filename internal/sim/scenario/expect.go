package scenario

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// Expectation is what must hold for one subject, at a moment or at the end. The
// zero subject is the cluster.
type Expectation struct {
	// At is the moment; Forever is the end.
	At time.Duration
	// From is where averages start; they end at At.
	From time.Duration
	// One of these is set, or none.
	Operation, Pool, Node string
	// Tree is the tree of Pool; empty: the default tree.
	Tree   string
	Checks []Check
	// Where is the position of the expectation, for messages: "x.yaml:12:
	// expect/3".
	Where string
}

// Check compares one figure with a bound, or one word with another.
type Check struct {
	Figure Figure
	// Kind is the resource of figures that are vectors.
	Kind resource.Kind
	// Key is the key of a breakdown: a class, a stage, a reason, the name of an
	// operation, a percentile.
	Key   string
	Bound Bound
	// Word is what a figure that is a word must be or, for Error, contain.
	Word string
}

// Bound is a range of numbers, both ends included.
type Bound struct{ Low, High float64 }

// Figure is something that can be expected.
type Figure string

// Figures of elements at a moment.
const (
	FairShare   Figure = "fair_share"
	Usage       Figure = "usage"
	Demand      Figure = "demand"
	VolumeNow   Figure = "volume"
	Status      Figure = "status"
	Starvation  Figure = "starvation"
	RunningJobs Figure = "running_jobs"
	PendingJobs Figure = "pending_jobs"
	JobClasses  Figure = "jobs_by_class"
	Exists      Figure = "exists"
)

// Figures of operations.
const (
	State         Figure = "state"
	ErrorText     Figure = "error"
	StartedBy     Figure = "started_by"
	StartedAfter  Figure = "started_after"
	FinishedBy    Figure = "finished_by"
	StartedBefore Figure = "started_before"
	Operations    Figure = "operations"
)

// Figures of what has happened so far.
const (
	StartedJobs        Figure = "started_jobs"
	CompletedJobs      Figure = "completed_jobs"
	Preemptions        Figure = "preemptions"
	PreemptionsCaused  Figure = "preemptions_caused"
	PreemptedFor       Figure = "preempted_for"
	PreemptionReasons  Figure = "preemptions_by_reason"
	StartStages        Figure = "starts_by_stage"
	LostResources      Figure = "lost"
	Waits              Figure = "waits_at_most"
	AverageFairShare   Figure = "average_fair_share"
	AverageUsage       Figure = "average_usage"
	AverageDemand      Figure = "average_demand"
	GuaranteeBelow     Figure = "below_guarantee"
	AverageUtilisation Figure = "utilisation"
)

// figureInfo describes how a figure is written and which subjects have it.
type figureInfo struct {
	figure Figure
	doc    string
	form   figureForm
	of     string // letters: o operation, p pool, n node, c cluster
}

type figureForm uint8

const (
	vectorForm  figureForm = iota // a map of resources to bounds
	numberForm                    // a bound
	wordForm                      // text
	switchForm                    // true or false
	momentForm                    // a duration since the start
	breakupForm                   // a map of names to bounds
	momentsForm                   // a map of percentiles to durations
	lengthForm                    // the longest duration
)

var figures = []figureInfo{
	{FairShare, "What it is entitled to.", vectorForm, "op"},
	{Usage, "What its jobs use.", vectorForm, "opnc"},
	{Demand, "What it demands, including its usage.", vectorForm, "op"},
	{VolumeNow, "What an integral pool has saved, in seconds of the whole tree (accumulated_resource_ratio_volume).", numberForm, "p"},
	{Status, "normal or below_fair_share.", wordForm, "op"},
	{Starvation, "non_starving, starving or aggressively_starving.", wordForm, "op"},
	{RunningJobs, "Running jobs.", numberForm, "opnc"},
	{PendingJobs, "Waiting jobs.", numberForm, "opc"},
	{JobClasses, "Running jobs by class: {preemptible: 3}.", breakupForm, "o"},
	{Exists, "Whether the pool exists; ephemeral pools come and go.", switchForm, "p"},
	{State, "pending, running, suspended, completed, failed, aborted, rejected or absent.", wordForm, "o"},
	{ErrorText, "A part of the message with which it was rejected, failed or was aborted.", wordForm, "o"},
	{StartedBy, "Its first job starts at this time or earlier.", momentForm, "o"},
	{StartedAfter, "Its first job does not start before this time.", momentForm, "o"},
	{FinishedBy, "It completes at this time or earlier.", momentForm, "o"},
	{StartedBefore, "Its first job starts before that of this operation.", wordForm, "o"},
	{Operations, "Running operations.", numberForm, "pc"},
	{StartedJobs, "Jobs started so far, including restarts.", numberForm, "opc"},
	{CompletedJobs, "Jobs completed so far.", numberForm, "opc"},
	{Preemptions, "Jobs preempted so far.", numberForm, "opc"},
	{PreemptionsCaused, "Other operations' jobs preempted for it so far.", numberForm, "op"},
	{PreemptedFor, "Its preempted jobs, by the operation they made room for: {report: 3}.", breakupForm, "o"},
	{PreemptionReasons, "Its preempted jobs, by reason.", breakupForm, "oc"},
	{StartStages, "Its started jobs, by scheduling stage.", breakupForm, "oc"},
	{LostResources, "Work lost to preemption and node loss, in resources × seconds.", vectorForm, "opc"},
	{Waits, "Upper bounds on the waiting times of jobs, by percentile: {p50: 10s, p99: 1m, max: 5m}.", momentsForm, "opc"},
	{AverageFairShare, "The average fair_share since from.", vectorForm, "op"},
	{AverageUsage, "The average usage since from.", vectorForm, "opc"},
	{AverageDemand, "The average demand since from.", vectorForm, "op"},
	{GuaranteeBelow, "The longest time for which it may be below its guarantee while it demands it.", lengthForm, "p"},
	{AverageUtilisation, "The average fraction of the cluster in use since from.", vectorForm, "c"},
}

// expectDocument is an expectation as written.
type expectDocument struct {
	at, from              opt[time.Duration]
	operation, pool, node opt[string]
	tree                  opt[string]
	cluster               bool
	tolerance             opt[float64]
	// checks is indexed like figures; bounds are without tolerance.
	checks []opt[[]Check]
}

// of returns the place for the checks of a figure.
func (d *expectDocument) of(figure int) *opt[[]Check] {
	if d.checks == nil {
		d.checks = make([]opt[[]Check], len(figures))
	}
	return &d.checks[figure]
}

const (
	boundSays  = "a number, [low, high], or a map with at_least and at_most"
	vectorSays = "a map of resources to bounds: {cpu: 2000}, {cpu: [10, 20]}, {cpu: {at_most: 5}}"
)

// expectTable is built from the list of figures.
var expectTable = document.NewTable(append([]document.Option[expectDocument]{
	document.Maybe("at", "The moment. Unset: the end.",
		func(d *expectDocument) *opt[time.Duration] { return &d.at }, moment),
	document.Maybe("from", "The start of averages. Unset: the start of the run.",
		func(d *expectDocument) *opt[time.Duration] { return &d.from }, moment),
	document.Maybe("operation", "The operation to check.",
		func(d *expectDocument) *opt[string] { return &d.operation }, document.Words),
	document.Maybe("pool", "The pool to check.",
		func(d *expectDocument) *opt[string] { return &d.pool }, document.Words),
	document.Maybe("tree", "The tree of the pool. Unset: the default tree.",
		func(d *expectDocument) *opt[string] { return &d.tree }, document.Words),
	document.Maybe("node", "The node to check, such as plain-3.",
		func(d *expectDocument) *opt[string] { return &d.node }, document.Words),
	document.Plain("cluster", "Check the whole cluster.",
		func(d *expectDocument) *bool { return &d.cluster }, document.Bools),
	document.Maybe("tolerance", "How far a plain number may be off, as a fraction of it: 1%. Unset: 0.",
		func(d *expectDocument) *opt[float64] { return &d.tolerance }, share),
}, figureOptions()...)...)

func figureOptions() (options []document.Option[expectDocument]) {
	for i, f := range figures {
		options = append(options, document.Maybe(string(f.figure), f.doc,
			func(d *expectDocument) *opt[[]Check] { return d.of(i) }, readOnly(f.shape(), f.read)))
	}
	return options
}

func (f figureInfo) shape() document.Shape {
	switch f.form {
	case vectorForm:
		return document.Shape{Kind: "resource bounds", Says: vectorSays}
	case numberForm:
		return document.Shape{Kind: kindBound, Says: boundSays}
	case switchForm:
		return document.Bools.Shape()
	case momentForm, lengthForm:
		return moment.Shape()
	case breakupForm:
		return document.Shape{Kind: "map", Says: "a map of names to bounds", Item: &document.Shape{Kind: kindBound, Says: boundSays}}
	case momentsForm:
		return document.Shape{Kind: kindMoments, Says: "a map of mean, p50, p90, p99 and max to durations"}
	}
	return document.Words.Shape()
}

// read returns the checks of one figure. A plain number becomes a bound with
// equal ends, to which the tolerance is applied later.
func (f figureInfo) read(r *document.Reader, v document.Value) (checks []Check, ok bool) {
	switch f.form {
	case vectorForm:
		return document.ReadAs(pooltree.ByResource("resource bounds",
			func(r *document.Reader, k resource.Kind, v document.Value) (Bound, bool) {
				return readBound(r, v, amountUnit(k).read)
			},
			func(c *[]Check, k resource.Kind, b Bound) {
				*c = append(*c, Check{Figure: f.figure, Kind: k, Bound: b})
			}), r, v)
	case numberForm:
		b, ok := readBound(r, v, finite)
		return []Check{{Figure: f.figure, Bound: b}}, ok
	case switchForm:
		yes, ok := document.ReadAs(document.Bools, r, v)
		return []Check{{Figure: f.figure, Word: fmt.Sprint(yes)}}, ok
	case momentForm:
		at, ok := document.ReadAs(moment, r, v)
		b := Bound{0, at.Seconds()}
		if f.figure == StartedAfter {
			b = Bound{at.Seconds(), math.Inf(1)}
		}
		return []Check{{Figure: f.figure, Bound: b}}, ok
	case lengthForm:
		most, ok := document.ReadAs(moment, r, v)
		return []Check{{Figure: f.figure, Bound: Bound{0, most.Seconds()}}}, ok
	case breakupForm:
		return f.readNamed(r, v, func(name string, v document.Value) (Bound, bool) {
			if !f.knows(r, v.Position(), name) {
				return Bound{}, false
			}
			return readBound(r, v, finite)
		})
	case momentsForm:
		return f.readNamed(r, v, func(name string, v document.Value) (Bound, bool) {
			if !isPercentile(name) {
				r.Refuse(v.Position(), document.RuleUnknownKey, "unknown percentile; known are mean, "+strings.Join(Percentiles, ", "))
				return Bound{}, false
			}
			most, ok := document.ReadAs(moment, r, v)
			return Bound{0, most.Seconds()}, ok
		})
	}
	word, ok := document.ReadAs(document.Words, r, v)
	return []Check{{Figure: f.figure, Word: word}}, ok && f.knows(r, v.Position(), word)
}

// words are the possible values of figures with a fixed set of values, or the
// names of their parts.
var words = map[Figure][]string{
	Status:     {"normal", "below_fair_share"},
	Starvation: {"non_starving", "starving", "aggressively_starving"},
	State:      {"pending", "running", "suspended", "completed", "failed", "aborted", "rejected", "absent"},
	JobClasses: {"non_preemptible", "aggressively_preemptible", "preemptible"},
}

// knows rejects words that the figure can never be.
func (f figureInfo) knows(r *document.Reader, at document.Position, word string) bool {
	known := words[f.figure]
	if known == nil || slices.Contains(known, word) {
		return true
	}
	r.Refuse(at, document.RuleUnknownValue, fmt.Sprintf("must be one of %s, not %q", strings.Join(known, ", "), document.Shorten(word)))
	return false
}

// Percentiles are the names of percentiles that are reported, besides mean.
var Percentiles = []string{"p50", "p90", "p99", "max"}

func isPercentile(name string) bool { return name == "mean" || slices.Contains(Percentiles, name) }

func (f figureInfo) readNamed(r *document.Reader, v document.Value, each func(string, document.Value) (Bound, bool)) (checks []Check, ok bool) {
	if v.Kind() != document.MapKind {
		r.Refuse(v.Position(), document.RuleWrongType, "must be "+f.shape().Says)
		return nil, false
	}
	ok = true
	for _, e := range v.Entries() {
		r.Enter(e.Key)
		b, read := each(e.Key, e.Value)
		r.Leave()
		checks = append(checks, Check{Figure: f.figure, Key: e.Key, Bound: b})
		ok = ok && read
	}
	return checks, ok
}

func finite(r *document.Reader, v document.Value) (float64, bool) {
	return document.ReadAs(document.Numbers, r, v)
}

// readBound reads a number, a list of two, or a map with at_least and at_most.
func readBound(r *document.Reader, v document.Value, one func(*document.Reader, document.Value) (float64, bool)) (b Bound, ok bool) {
	switch v.Kind() {
	case document.ListKind:
		items := v.Items()
		if len(items) != 2 {
			r.Refuse(v.Position(), document.RuleWrongType, "a range is a list of two numbers, not of "+fmt.Sprint(len(items)))
			return b, false
		}
		low, ok1 := one(r, items[0])
		high, ok2 := one(r, items[1])
		b, ok = Bound{low, high}, ok1 && ok2
	case document.MapKind:
		b, ok = Bound{math.Inf(-1), math.Inf(1)}, true
		for _, e := range v.Entries() {
			r.Enter(e.Key)
			value, read := one(r, e.Value)
			switch document.Normal(e.Key) {
			case "at_least":
				b.Low = value
			case "at_most":
				b.High = value
			default:
				r.Refuse(e.At, document.RuleUnknownKey, "unknown bound"+didYouMean(e.Key, []string{"at_least", "at_most"}))
				read = false
			}
			r.Leave()
			ok = ok && read
		}
	default:
		value, read := one(r, v)
		return Bound{value, value}, read
	}
	if ok && b.Low > b.High {
		r.Refuse(v.Position(), document.RuleOutOfRange, "no number is in this range: its low end is above its high end")
		ok = false
	}
	return b, ok
}

func (b *builder) expectation(v document.Value) {
	var d expectDocument
	before := len(b.r.Problems())
	expectTable.Read(b.r, v, &d)
	if len(b.r.Problems()) > before {
		return
	}
	e := Expectation{
		At: d.at.Or(Forever), From: d.from.Value(), Tree: d.tree.Value(),
		Operation: d.operation.Value(), Pool: d.pool.Value(), Node: d.node.Value(), Where: b.where(b.here(v)),
	}
	letter, ok := b.subject(v, &d)
	if !ok {
		return
	}
	if d.from.IsSet() && e.From >= e.At {
		b.r.Refuse(v.Position(), document.RuleOutOfRange, "from is not before at")
	}
	for _, entry := range v.Entries() {
		name, _ := expectTable.Resolve(entry.Key)
		i := slices.IndexFunc(figures, func(f figureInfo) bool { return string(f.figure) == name })
		if i < 0 {
			continue
		}
		if !strings.Contains(figures[i].of, letter) {
			b.r.Enter(entry.Key)
			b.r.Refuse(entry.At, document.RuleUnknownKey, fmt.Sprintf("%s has no %s", subjectNames[letter], name))
			b.r.Leave()
			return
		}
		for _, c := range d.of(i).Value() {
			if c.Bound.Low == c.Bound.High {
				slack := d.tolerance.Value() * math.Abs(c.Bound.Low)
				c.Bound = Bound{c.Bound.Low - slack, c.Bound.High + slack}
			}
			e.Checks = append(e.Checks, c)
		}
	}
	if len(e.Checks) == 0 {
		b.r.Refuse(v.Position(), document.RuleMissing, "expects nothing")
		return
	}
	b.out.Expectations = append(b.out.Expectations, e)
	b.expectAt = append(b.expectAt, b.here(v))
}

var subjectNames = map[string]string{"o": "an operation", "p": "a pool", "n": "a node", "c": "the cluster"}

// subject returns the letter of the subject.
func (b *builder) subject(v document.Value, d *expectDocument) (letter string, ok bool) {
	for _, s := range []struct {
		letter string
		given  bool
	}{{"o", d.operation.IsSet()}, {"p", d.pool.IsSet()}, {"n", d.node.IsSet()}, {"c", d.cluster}} {
		if s.given {
			letter += s.letter
		}
	}
	switch {
	case letter == "":
		b.r.Refuse(v.Position(), document.RuleMissing, "needs one of operation, pool, node, cluster: who is meant")
		return "", false
	case len(letter) > 1:
		b.r.Refuse(v.Position(), document.RuleTwoNames, "names more than one of operation, pool, node, cluster; make an expectation of each")
		return "", false
	}
	if d.tree.IsSet() && letter != "p" {
		b.r.Refuse(v.Position(), document.RuleTwoNames, "tree is that of a pool, which is not given")
		return "", false
	}
	return letter, true
}
