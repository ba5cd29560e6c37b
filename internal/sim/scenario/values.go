package scenario

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/engine/treefile"
	"github.com/weirhq/weir/internal/sim/distribution"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// opt shortens the tables.
type opt[F any] = document.Optional[F]

// Kinds of values that only scenarios have; schema.go knows them.
const (
	kindResources = "resources"
	kindLaw       = "distribution"
	kindLaws      = "resource distributions"
	kindWindow    = "window"
	kindBound     = "bound"
	kindMoments   = "moments"
)

// readOnly makes a type of values that are only read, never written.
func readOnly[F any](shape document.Shape, read func(r *document.Reader, v document.Value) (F, bool)) document.Type[F] {
	return document.NewType(shape, read,
		func(F, document.Style) document.Value { return document.Null() },
		func(F, F) bool { return false })
}

// orShort makes a type that also accepts a short form: if v is not a map, the short
// reader reads it.
func orShort[F any](long document.Type[F], says string, short func(r *document.Reader, v document.Value) (F, bool)) document.Type[F] {
	shape := long.Shape()
	shape.Says = says
	return readOnly(shape, func(r *document.Reader, v document.Value) (F, bool) {
		if v.Kind() == document.MapKind {
			return document.ReadAs(long, r, v)
		}
		return short(r, v)
	})
}

// Types of options. Times are bounded, so that sums of a few stay far from
// overflow.
var (
	longest  = 100 * 365 * 24 * time.Hour
	moment   = document.Between(document.Durations, 0, longest)
	period   = document.Between(document.Above(document.Durations, 0), time.Millisecond, longest)
	positive = document.Between(document.Ints, 1, math.MaxInt32)
	// share is written as a number, 0.01, or as a percentage, 1%.
	share = readOnly(document.Shape{Kind: "share", Says: "a fraction like 0.01 or a percentage like 1%"}, readShare)
)

func readShare(r *document.Reader, v document.Value) (float64, bool) {
	f, ok := v.Float64()
	if text, isText := v.Text(); isText {
		if percent, found := strings.CutSuffix(strings.TrimSpace(text), "%"); found {
			number, err := strconv.ParseFloat(strings.TrimSpace(percent), 64)
			f, ok = number/100, err == nil
		}
	}
	if !ok || !(f >= 0 && f <= 1) {
		r.Refuse(v.Position(), document.RuleOutOfRange, "must be a fraction from 0 to 1 or a percentage like 1%, not "+v.String())
		return 0, false
	}
	return f, true
}

// anyMap is a map that other code reads.
var anyMap = func() document.Type[document.Value] {
	anything := document.Anything.Shape()
	return readOnly(document.Shape{Kind: "map", Says: "a map", Item: &anything},
		func(r *document.Reader, v document.Value) (document.Value, bool) {
			if v.Kind() != document.MapKind && !v.IsNull() {
				r.Refuse(v.Position(), document.RuleWrongType, "must be a map, not "+document.Shorten(v.String()))
				return v, false
			}
			return v, true
		})
}()

// dates reads the moment that is time zero.
var dates = readOnly(document.Shape{Kind: "string", Says: datesSay},
	func(r *document.Reader, v document.Value) (time.Time, bool) {
		if text, ok := v.Text(); ok {
			for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02"} {
				if at, err := time.Parse(layout, text); err == nil {
					return at.UTC(), true
				}
			}
		}
		r.Refuse(v.Position(), document.RuleBadFormat, "must be "+datesSay+", not "+document.Shorten(v.String()))
		return time.Time{}, false
	})

const datesSay = "a date like 2026-11-15 or 2026-11-15T10:30:00Z"

// windows reads one window or a list of them.
var windows = document.OneOrMore(readOnly(
	document.Shape{Kind: kindWindow, Says: `a time like "0h-12h every 24h"`},
	func(r *document.Reader, v document.Value) (Window, bool) {
		text, ok := document.ReadAs(document.Texts, r, v)
		if !ok {
			return Window{}, false
		}
		w, err := treefile.ParseWindow(text)
		if err == nil && (w.From > longest || w.To > longest && w.To != treefile.Forever || w.Every > longest) {
			err = fmt.Errorf("is more than %s away", document.FormatDuration(longest))
		}
		if err != nil {
			r.Refuse(v.Position(), document.RuleBadFormat, err.Error())
		}
		return Window(w), err == nil
	}))

// amounts reads fixed amounts.
var amounts = pooltree.ByResource(kindResources, pooltree.ReadAmount,
	func(p *resource.Partial, k resource.Kind, a int64) { *p = p.With(k, a) })

func didYouMean(name string, candidates []string) string {
	if nearest, ok := document.Nearest(name, candidates); ok {
		return fmt.Sprintf("; did you mean %q?", nearest)
	}
	return ""
}

// A unit reads a number in some unit, such as seconds from "10m".
type unit struct {
	says string
	read func(r *document.Reader, v document.Value) (float64, bool)
}

var (
	secondsUnit = unit{"a duration like 10m", func(r *document.Reader, v document.Value) (float64, bool) {
		d, ok := document.ReadAs(moment, r, v)
		return d.Seconds(), ok
	}}
	countUnit = unit{"a number", func(r *document.Reader, v document.Value) (float64, bool) {
		return document.ReadAs(document.Between(document.Numbers, 0, math.MaxInt32), r, v)
	}}
)

// amountUnit reads amounts of a resource in the unit that users write.
func amountUnit(k resource.Kind) unit {
	return unit{"an amount of " + k.String(), func(r *document.Reader, v document.Value) (float64, bool) {
		a, ok := pooltree.ReadAmount(r, k, v)
		return float64(a) / float64(k.Scale()), ok
	}}
}

// lawDocument is a distribution as written.
type lawDocument struct {
	kind                                             opt[distribution.Kind]
	value, from, to, mean, median, minimum, low, top opt[float64]
	sigma, shape                                     opt[float64]
	values, weights                                  opt[[]float64]
}

var lawWords = func() (words []document.Word[distribution.Kind]) {
	for k := distribution.Constant; k <= distribution.Empirical; k++ {
		words = append(words, document.Word[distribution.Kind]{Name: k.String(), Value: k})
	}
	words[distribution.LogNormal].Aliases = []string{"log_normal"}
	return words
}()

// lawTable is the long form of a distribution over a unit.
func lawTable(u unit) *document.Table[lawDocument] {
	type at = func(*lawDocument) *opt[float64]
	number := readOnly(document.Shape{Kind: "any", Says: u.says}, u.read)
	spread := document.Between(document.Numbers, 0, 20)
	one := func(name, doc string, field at) document.Option[lawDocument] {
		return document.Maybe(name, doc, field, number)
	}
	return document.NewTable(
		document.Maybe("distribution", "The family.",
			func(l *lawDocument) *opt[distribution.Kind] { return &l.kind }, document.Enum(lawWords...)),
		one("value", "The value of a constant.", func(l *lawDocument) *opt[float64] { return &l.value }),
		one("from", "The smallest value of a uniform distribution.", func(l *lawDocument) *opt[float64] { return &l.from }),
		one("to", "The largest value of a uniform distribution.", func(l *lawDocument) *opt[float64] { return &l.to }),
		one("mean", "The mean of an exponential or lognormal distribution.", func(l *lawDocument) *opt[float64] { return &l.mean }),
		one("median", "The median of a lognormal distribution, instead of its mean.", func(l *lawDocument) *opt[float64] { return &l.median }),
		document.Maybe("sigma", "The spread of a lognormal distribution: two thirds of the values are within a factor of e^sigma of the median.",
			func(l *lawDocument) *opt[float64] { return &l.sigma }, spread),
		one("minimum", "The smallest value of a Pareto distribution.", func(l *lawDocument) *opt[float64] { return &l.minimum }),
		document.Maybe("shape", "The shape of a Pareto distribution: a fraction x^-shape of the values is more than x times the minimum.",
			func(l *lawDocument) *opt[float64] { return &l.shape }, document.Above(spread, 0)),
		document.Maybe("values", "The values of an empirical distribution.",
			func(l *lawDocument) *opt[[]float64] { return &l.values }, document.ListOf(number)),
		document.Maybe("weights", "The relative frequency of each value of an empirical distribution. Unset: all equal.",
			func(l *lawDocument) *opt[[]float64] { return &l.weights }, document.ListOf(document.AtLeast(document.Numbers, 0))),
		one("at_least", "Smaller draws are replaced by this value.", func(l *lawDocument) *opt[float64] { return &l.low }),
		one("at_most", "Larger draws are replaced by this value.", func(l *lawDocument) *opt[float64] { return &l.top }),
	)
}

// lawNeeds are the required options of each family, and the optional ones.
var lawNeeds = map[distribution.Kind]struct{ all, optional []string }{
	distribution.Constant:    {all: []string{"value"}},
	distribution.Uniform:     {all: []string{"from", "to"}},
	distribution.Exponential: {all: []string{"mean"}},
	distribution.LogNormal:   {all: []string{"sigma"}, optional: []string{"mean", "median"}},
	distribution.Pareto:      {all: []string{"minimum", "shape"}},
	distribution.Empirical:   {all: []string{"values"}, optional: []string{"weights"}},
}

// law reads a distribution over a unit: a single value, a list of equally likely
// ones, or a map.
func law(u unit) document.Type[distribution.Distribution] {
	table := lawTable(u)
	says := u.says + ", a list of such, or a distribution"
	return readOnly(document.Shape{Kind: kindLaw, Says: says, Options: table.Options()},
		func(r *document.Reader, v document.Value) (distribution.Distribution, bool) {
			switch v.Kind() {
			case document.MapKind:
				return readLaw(r, v, table)
			case document.ListKind:
				item := readOnly(document.Shape{}, u.read)
				values, ok := document.ReadAs(document.ListOf(item), r, v)
				if !ok {
					return distribution.Distribution{}, false
				}
				return empirical(r, v, values, nil)
			}
			value, ok := u.read(r, v)
			return distribution.NewConstant(value), ok
		})
}

func empirical(r *document.Reader, v document.Value, values, weights []float64) (distribution.Distribution, bool) {
	d, err := distribution.NewEmpirical(values, weights)
	if err != nil {
		r.Refuse(v.Position(), document.RuleOutOfRange, "an empirical distribution "+err.Error())
	}
	return d, err == nil
}

func readLaw(r *document.Reader, v document.Value, table *document.Table[lawDocument]) (d distribution.Distribution, ok bool) {
	var l lawDocument
	if wrong := table.Read(r, v, &l); len(wrong) > 0 || !lawHasItsOptions(r, v, &l, table) {
		return d, false
	}
	switch l.kind.Value() {
	case distribution.Constant:
		d = distribution.NewConstant(l.value.Value())
	case distribution.Uniform:
		if l.from.Value() > l.to.Value() {
			r.Refuse(v.Position(), document.RuleOutOfRange, "from is above to")
			return d, false
		}
		d = distribution.NewUniform(l.from.Value(), l.to.Value())
	case distribution.Exponential:
		d = distribution.NewExponential(l.mean.Value())
	case distribution.LogNormal:
		sigma := l.sigma.Value()
		if l.mean.IsSet() == l.median.IsSet() {
			r.Refuse(v.Position(), document.RuleMissing, "a lognormal distribution needs either its mean or its median")
			return d, false
		}
		d = distribution.NewLogNormal(l.median.Or(l.mean.Value()*math.Exp(-sigma*sigma/2)), sigma)
	case distribution.Pareto:
		d = distribution.NewPareto(l.minimum.Value(), l.shape.Value())
	case distribution.Empirical:
		if d, ok = empirical(r, v, l.values.Value(), l.weights.Value()); !ok {
			return d, false
		}
	}
	if l.low.IsSet() || l.top.IsSet() {
		low, top := l.low.Value(), l.top.Or(math.Inf(1))
		if low > top {
			r.Refuse(v.Position(), document.RuleOutOfRange, "at_least is above at_most")
			return d, false
		}
		d = d.Within(low, top)
	}
	return d, true
}

// lawHasItsOptions checks that a distribution has the options of its family and
// no others.
func lawHasItsOptions(r *document.Reader, v document.Value, l *lawDocument, table *document.Table[lawDocument]) bool {
	kind, ok := l.kind.Get()
	if !ok {
		r.Refuse(v.Position(), document.RuleMissing, "needs a distribution: "+strings.Join(lawNames(), ", "))
		return false
	}
	needs := lawNeeds[kind]
	missing := map[string]bool{}
	for _, name := range needs.all {
		missing[name] = true
	}
	allowed := append([]string{"distribution", "at_least", "at_most"}, append(needs.all, needs.optional...)...)
	for _, e := range v.Entries() {
		name, _ := table.Resolve(e.Key)
		delete(missing, name)
		found := false
		for _, a := range allowed {
			found = found || a == name
		}
		if !found {
			r.Enter(e.Key)
			r.Refuse(e.At, document.RuleUnknownKey, fmt.Sprintf("a distribution that is %v has no %q", kind, name))
			r.Leave()
			ok = false
		}
	}
	for _, name := range needs.all {
		if missing[name] {
			r.Refuse(v.Position(), document.RuleMissing, fmt.Sprintf("a distribution that is %v needs %q", kind, name))
			ok = false
		}
	}
	return ok
}

func lawNames() (names []string) {
	for _, w := range lawWords {
		names = append(names, w.Name)
	}
	return names
}

// jobCounts reads the number of jobs of an operation. Drawn numbers are rounded; a
// plain number must be valid as written.
var jobCounts = readOnly(law(countUnit).Shape(), func(r *document.Reader, v document.Value) (distribution.Distribution, bool) {
	d, ok := document.ReadAs(law(countUnit), r, v)
	if count, constant := d.Value(); ok && constant && (count < 1 || count != math.Trunc(count)) {
		r.Refuse(v.Position(), document.RuleOutOfRange, "must be a whole number of at least 1, not "+document.Shorten(v.String()))
		return d, false
	}
	return d, ok
})

// jobResources reads the resources of a job, each fixed or a distribution from
// which every operation draws.
type jobResources struct {
	laws [resource.KindCount]distribution.Distribution
	set  [resource.KindCount]bool
}

var resourceLaws = pooltree.ByResource(kindLaws,
	func(r *document.Reader, k resource.Kind, v document.Value) (distribution.Distribution, bool) {
		d, ok := document.ReadAs(law(amountUnit(k)), r, v)
		if slots, constant := d.Value(); ok && k == resource.UserSlots && !(constant && slots == 1) {
			r.Refuse(v.Position(), document.RuleOutOfRange, "a job takes one slot, not "+document.Shorten(v.String())+"; leave it out")
			return d, false
		}
		return d, ok
	},
	func(j *jobResources, k resource.Kind, d distribution.Distribution) { j.laws[k], j.set[k] = d, true })
