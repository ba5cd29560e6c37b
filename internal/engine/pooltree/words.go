package pooltree

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/nodefilter"
	"github.com/weirhq/weir/internal/value/resource"
)

// RootName is the name of the root pool of a tree. No other pool can have it.
const RootName = "<Root>"

// Weights are compared with each other; a spread beyond these bounds would be
// lost in rounding. A weight of zero is read as MinWeight.
const (
	MinWeight = 1.0 / (1 << 26)
	MaxWeight = 1 << 26
)

// Mode is how a pool divides what it has among its children.
type Mode uint8

const (
	FairShare Mode = iota
	FIFO
)

// SortKey is a key of the order of operations in a FIFO pool.
type SortKey uint8

const (
	ByWeight          SortKey = iota // heavier first
	ByStartTime                      // older first
	ByPendingJobCount                // fewer pending jobs first
)

// GuaranteeType is the kind of a pool's integral guarantee.
type GuaranteeType uint8

const (
	NoIntegral GuaranteeType = iota
	Burst
	Relaxed
)

// PreemptionScope is whose starvation lets an operation preempt.
type PreemptionScope uint8

const (
	OperationAndAncestors PreemptionScope = iota
	OperationOnly
)

// FIFOOrder is the order in which operations of a FIFO pool are tried on a node.
type FIFOOrder uint8

const (
	StrictFIFO FIFOOrder = iota
	BySatisfaction
)

// PackingMetric compares a job with the free resources of a node.
type PackingMetric uint8

const (
	AngleLength PackingMetric = iota
	Angle
)

// PreemptionMode is how jobs of an operation are preempted.
type PreemptionMode uint8

const (
	NormalPreemption PreemptionMode = iota
	GracefulPreemption
)

var (
	modeWords = []document.Word[Mode]{{Name: "fair_share", Value: FairShare}, {Name: "fifo", Value: FIFO}}
	sortWords = []document.Word[SortKey]{
		{Name: "weight", Value: ByWeight},
		{Name: "start_time", Value: ByStartTime},
		{Name: "pending_job_count", Value: ByPendingJobCount, Aliases: []string{"pending_allocation_count"}},
	}
	guaranteeWords = []document.Word[GuaranteeType]{
		{Name: "none", Value: NoIntegral}, {Name: "burst", Value: Burst}, {Name: "relaxed", Value: Relaxed},
	}
	scopeWords = []document.Word[PreemptionScope]{
		{Name: "operation_and_ancestors", Value: OperationAndAncestors}, {Name: "operation_only", Value: OperationOnly},
	}
	orderWords  = []document.Word[FIFOOrder]{{Name: "fifo", Value: StrictFIFO}, {Name: "satisfaction", Value: BySatisfaction}}
	metricWords = []document.Word[PackingMetric]{
		{Name: "angle_length", Value: AngleLength}, {Name: "angle", Value: Angle},
	}
	preemptionWords = []document.Word[PreemptionMode]{
		{Name: "normal", Value: NormalPreemption}, {Name: "graceful", Value: GracefulPreemption},
	}
)

// wordOf returns the name of a value of an enumeration.
func wordOf[E comparable](words []document.Word[E], value E) string {
	for _, w := range words {
		if w.Value == value {
			return w.Name
		}
	}
	return fmt.Sprintf("%T(%v)", value, value)
}

// String returns the name that documents use.
func (m Mode) String() string { return wordOf(modeWords, m) }

// String returns the name that documents use.
func (k SortKey) String() string { return wordOf(sortWords, k) }

// String returns the name that documents use.
func (g GuaranteeType) String() string { return wordOf(guaranteeWords, g) }

// String returns the name that documents use.
func (s PreemptionScope) String() string { return wordOf(scopeWords, s) }

// String returns the name that documents use.
func (o FIFOOrder) String() string { return wordOf(orderWords, o) }

// String returns the name that documents use.
func (m PackingMetric) String() string { return wordOf(metricWords, m) }

// String returns the name that documents use.
func (m PreemptionMode) String() string { return wordOf(preemptionWords, m) }

// Types of options. Most are those of package document.
var (
	switched  = document.Bools
	count     = document.AtLeast(document.Ints, 0)
	positive  = document.AtLeast(document.Ints, 1)
	ratio     = document.Between(document.Numbers, 0, 1)
	duration  = document.Durations
	period    = document.Above(document.Durations, 0)
	poolName  = document.Words
	guarantee = resourcesType("resources", resource.ParseAmount)
	limits    = resourcesType("resources", resource.ParseLimit)
	// fifoKeys is the order of operations in a FIFO pool.
	fifoKeys = document.Distinct(document.ListOf(document.Enum(sortWords...)), func(a, b SortKey) bool { return a == b }).
			That("a list with at least one of weight, start_time, pending_job_count", document.RuleOutOfRange,
			func(keys []SortKey) bool { return len(keys) > 0 })
	// multiplierLimit is the range of relaxed_share_multiplier_limit.
	multiplierLimit = document.Between(document.Numbers, 1, 10)
	treeFilter      = filterType(0)
	poolFilter      = filterType(maxFilterTokens)
	// namespacePattern is a name of a namespace in which * stands for any characters.
	namespacePattern = document.Words.That("a name of lower-case letters, digits, hyphens and *", document.RuleOutOfRange, func(s string) bool {
		return len(s) <= 63 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-*") == ""
	})
	mainResource = resourceKindType()
	weight       = weightType()
)

// maxFilterTokens bounds the filters of pools and operations, which are evaluated
// for every node.
const maxFilterTokens = 100

func weightType() document.Type[float64] {
	shape := document.Shape{
		Kind: "number", Says: fmt.Sprintf("a number from 0 to %d", int(MaxWeight)),
		Minimum: document.Int(0), Maximum: document.Int(MaxWeight),
	}
	bounded := document.Numbers.That(shape.Says, document.RuleOutOfRange,
		func(f float64) bool { return f == 0 || MinWeight <= f && f <= MaxWeight })
	return document.NewType(shape,
		func(r *document.Reader, v document.Value) (float64, bool) {
			f, ok := document.ReadAs(bounded, r, v)
			if ok && f == 0 {
				r.Warn(v.Position(), document.RuleValueAdjusted,
					fmt.Sprintf("a weight of 0 is taken for the least weight, %.4g", MinWeight))
				f = MinWeight
			}
			return f, ok
		},
		func(f float64, _ document.Style) document.Value { return document.Number(f) },
		func(a, b float64) bool { return a == b })
}

func filterType(maxTokens int) document.Type[nodefilter.Filter] {
	says := "a formula of node tags with &, |, ! and parentheses"
	return document.NewType(document.Shape{Kind: "string", Says: says},
		func(r *document.Reader, v document.Value) (nodefilter.Filter, bool) {
			text, ok := document.ReadAs(document.Texts, r, v)
			if !ok {
				return nodefilter.Filter{}, false
			}
			filter, err := nodefilter.Parse(text)
			if err != nil {
				r.Refuse(v.Position(), document.RuleBadFormat, "must be "+says+": "+oneLine(err))
				return filter, false
			}
			if n := filter.TokenCount(); maxTokens > 0 && n > maxTokens {
				r.Refuse(v.Position(), RuleFilterTooLong,
					fmt.Sprintf("the formula has %d tags and operators; the limit is %d", n, maxTokens),
					document.Pair("tokens", document.Int(int64(n))), document.Pair("limit", document.Int(int64(maxTokens))))
				return filter, false
			}
			return filter, true
		},
		func(f nodefilter.Filter, _ document.Style) document.Value { return document.Text(f.String()) },
		func(a, b nodefilter.Filter) bool { return a == b })
}

// oneLine leaves out the drawing with which the filter's error ends.
func oneLine(err error) string {
	var syntax *nodefilter.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Sprintf("%s, at byte %d of %q", syntax.Message, syntax.Offset+1, document.Shorten(syntax.Text))
	}
	return err.Error()
}

func resourceKindType() document.Type[resource.Kind] {
	var words []document.Word[resource.Kind]
	for _, k := range resource.Kinds {
		words = append(words, document.Word[resource.Kind]{Name: k.String(), Value: k})
	}
	words[resource.Memory].Aliases = []string{"user_memory"}
	return document.Enum(words...)
}

// resourcesType reads a map from resource names to amounts: numbers, or text that
// parse accepts. Absent and zero are different.
func resourcesType(kind string, parse func(resource.Kind, string) (int64, error)) document.Type[resource.Partial] {
	says := "a map of resources (user_slots, cpu, gpu, memory, network)"
	return document.NewType(document.Shape{Kind: kind, Says: says},
		func(r *document.Reader, v document.Value) (p resource.Partial, ok bool) {
			if v.Kind() != document.MapKind && !v.IsNull() {
				r.Refuse(v.Position(), document.RuleWrongType, "must be "+says)
				return p, false
			}
			ok = true
			for _, e := range v.Entries() {
				r.Enter(e.Key)
				k, amount, read := readAmount(r, e, p, parse)
				r.Leave()
				if read {
					p = p.With(k, amount)
				}
				ok = ok && read
			}
			return p, ok
		},
		writeResources,
		func(a, b resource.Partial) bool { return a == b })
}

func readAmount(r *document.Reader, e document.Entry, sofar resource.Partial,
	parse func(resource.Kind, string) (int64, error),
) (k resource.Kind, amount int64, ok bool) {
	k, ok = resource.ParseKind(document.Normal(e.Key))
	if !ok {
		message := "unknown resource"
		var names []string
		for _, k := range resource.Kinds {
			names = append(names, k.String())
		}
		if nearest, found := document.Nearest(e.Key, names); found {
			message += fmt.Sprintf("; did you mean %q?", nearest)
		}
		r.Refuse(e.At, document.RuleUnknownKey, message)
		return k, 0, false
	}
	if sofar.Has(k) {
		r.Refuse(e.At, document.RuleTwoNames, fmt.Sprintf("%v is given twice", k))
		return k, 0, false
	}
	amount, ok = readAmountOf(r, k, e.Value, parse)
	return k, amount, ok
}

// ReadAmount reads an amount of a resource: a number, or text as users write it.
// All our documents define amounts this way.
func ReadAmount(r *document.Reader, k resource.Kind, v document.Value) (amount int64, ok bool) {
	return readAmountOf(r, k, v, resource.ParseAmount)
}

func readAmountOf(r *document.Reader, k resource.Kind, v document.Value,
	parse func(resource.Kind, string) (int64, error),
) (amount int64, ok bool) {
	if whole, isInt := v.Int64(); isInt && 0 <= whole && whole < resource.Unlimited/k.Scale() {
		return whole * k.Scale(), true
	}
	text, rule, message := amountText(k, v)
	if rule == "" {
		var err error
		if amount, err = parse(k, text); err == nil {
			return amount, true
		}
		rule, message = amountRule(err)
	}
	r.Refuse(v.Position(), rule, message, document.Pair("resource", document.Text(k.String())))
	return 0, false
}

// amountText returns the text of an amount as users write it, or the rule that
// its value breaks.
func amountText(k resource.Kind, v document.Value) (text string, rule document.Rule, message string) {
	switch v.Kind() {
	case document.StringKind:
		text, _ = v.Text()
		return text, "", ""
	case document.IntKind, document.UintKind:
		return v.String(), "", ""
	case document.FloatKind:
		f, _ := v.Float64()
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return "", document.RuleNotFinite, "must be a finite amount, not " + v.String()
		}
		return strconv.FormatFloat(f, 'f', -1, 64), "", ""
	}
	return "", document.RuleWrongType, fmt.Sprintf("must be an amount of %v", k)
}

func amountRule(err error) (document.Rule, string) {
	switch {
	case errors.Is(err, resource.ErrNegative), errors.Is(err, resource.ErrTooLarge), errors.Is(err, resource.ErrFractional):
		return document.RuleOutOfRange, err.Error()
	case errors.Is(err, resource.ErrNotFinite):
		return document.RuleNotFinite, err.Error()
	}
	return document.RuleBadFormat, err.Error()
}

func writeResources(p resource.Partial, style document.Style) document.Value {
	var entries []document.Entry
	for _, k := range resource.Kinds {
		if v, ok := p.Get(k); ok {
			entries = append(entries, document.Pair(k.String(), amountValue(k, v, style)))
		}
	}
	return document.Map(entries...)
}

// amountValue writes an amount so that it reads back exactly.
func amountValue(k resource.Kind, v int64, style document.Style) document.Value {
	const exact = 1 << 53
	switch {
	case v >= resource.Unlimited, k == resource.CPU && v > exact:
		return document.Text(resource.FormatExact(k, v))
	case k == resource.CPU:
		return document.Number(float64(v) / float64(k.Scale()))
	case k == resource.Memory && style == document.ForPeople && v%1024 == 0 && v > 0:
		return document.Text(resource.FormatExact(k, v))
	}
	return document.Int(v)
}
