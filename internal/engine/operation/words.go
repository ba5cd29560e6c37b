package operation

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/imagename"
	"github.com/weirhq/weir/internal/value/resource"
)

// opt keeps the tables short.
type opt[F any] = document.Optional[F]

// Types of options. Most are from package document.
var (
	switched = document.Bools
	ratio    = document.Between(document.Numbers, 0, 1)
	// factor is a fraction of memory_limit.
	factor = ratio.That("a number above 0 and at most 1", document.RuleOutOfRange, func(f float64) bool { return f > 0 })
	// multiplier is the factor by which a reserve grows after an overdraft.
	multiplier     = document.Between(document.Numbers, 1, 10)
	cpuAmount      = amountType(resource.CPU)
	gpuAmount      = amountType(resource.GPU)
	netAmount      = amountType(resource.Network)
	memoryAmount   = amountType(resource.Memory)
	someMemory     = document.AtLeast(memoryAmount, 1)
	filePath       = document.Anything.That("the path of a file in the tree or on the nodes, or a map with file_name and content", document.RuleWrongType, isFile)
	layerPath      = document.Anything.That("the path of a file in the tree", document.RuleWrongType, isLayer)
	anyMap         = document.Anything.That("a map", document.RuleWrongType, func(v document.Value) bool { return v.Kind() == document.MapKind })
	environment    = environmentType()
	operationAlias = document.Texts.That("a string that starts with * and has more characters", document.RuleBadFormat,
		func(s string) bool { return len(s) > 1 && s[0] == '*' })
	annotations = anyMap.That("a map of at most 10 KiB", document.RuleOutOfRange, isShort)
	accessList  = document.Anything.That("a list of maps", document.RuleWrongType, isListOfMaps)
	signal      = signalType()
	imageNames  = document.Texts.That("the name of an image like registry.example/train:v1", document.RuleBadFormat, isImage)
	network     = networkType()
)

func isImage(text string) bool {
	_, err := imagename.Parse(text)
	return err == nil
}

// maxAnnotations is the maximum size of annotations as JSON.
const maxAnnotations = 10 << 10

func isShort(v document.Value) bool {
	text, err := v.JSON("")
	return err == nil && len(text) <= maxAnnotations
}

func isListOfMaps(v document.Value) bool {
	for _, item := range v.Items() {
		if item.Kind() != document.MapKind {
			return false
		}
	}
	return v.Kind() == document.ListKind
}

func environmentType() document.Type[[]document.Named[string]] {
	texts := document.MapOf(document.Texts)
	return document.NewType(texts.Shape(),
		func(r *document.Reader, v document.Value) ([]document.Named[string], bool) {
			list, ok := document.ReadAs(texts, r, v)
			for _, e := range v.Entries() {
				if e.Key == "" || strings.ContainsAny(e.Key, "=\x00") {
					r.Enter(e.Key)
					r.Refuse(e.At, document.RuleBadFormat, "must be the name of an environment variable, which is not empty and has no =")
					r.Leave()
					ok = false
				}
			}
			return list, ok
		},
		func(list []document.Named[string], _ document.Style) document.Value {
			entries := make([]document.Entry, len(list))
			for i, v := range list {
				entries[i] = document.Pair(v.Name, document.Text(v.Value))
			}
			return document.Map(entries...)
		},
		slices.Equal[[]document.Named[string]])
}

// SignalNames returns the signals that jobs can be sent.
func SignalNames() []string {
	return []string{"SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGURG", "SIGKILL"}
}

func signalType() document.Type[string] {
	var words []document.Word[string]
	for _, name := range SignalNames() {
		words = append(words, document.Word[string]{Name: name, Value: name})
	}
	return document.Enum(words...)
}

// networkType reads the network of a job: a word or, since the option also names an amount, a number.
func networkType() document.Type[string] {
	words := document.Enum(document.Word[string]{Name: HostNetwork, Value: HostNetwork}, document.Word[string]{Name: NoNetwork, Value: NoNetwork})
	return document.NewType(words.Shape(),
		func(r *document.Reader, v document.Value) (string, bool) {
			if _, number := v.Float64(); number {
				amount, ok := document.ReadAs(netAmount, r, v)
				return strconv.FormatInt(amount, 10), ok
			}
			return document.ReadAs(words, r, v)
		},
		func(text string, _ document.Style) document.Value { return document.Text(text) },
		func(a, b string) bool { return a == b })
}

// amountType reads an amount of one resource: a number, or text with a unit.
func amountType(k resource.Kind) document.Type[int64] {
	kinds := [resource.KindCount]string{"integer", "number", "integer", "memory", "integer"}
	says := "an amount of " + k.String()
	return document.NewType(document.Shape{Kind: kinds[k], Says: says, Minimum: document.Int(0)},
		func(r *document.Reader, v document.Value) (int64, bool) {
			text, ok := v.Text()
			if f, number := v.Float64(); number {
				text, ok = v.String(), !math.IsNaN(f) && !math.IsInf(f, 0)
			}
			if !ok {
				r.Refuse(v.Position(), document.RuleWrongType, "must be "+says+", not "+document.Shorten(v.String()))
				return 0, false
			}
			amount, err := resource.ParseAmount(k, text)
			if err != nil {
				r.Refuse(v.Position(), amountRule(err), err.Error())
			}
			return amount, err == nil
		},
		func(amount int64, style document.Style) document.Value {
			const exact = 1 << 53
			switch {
			case k == resource.CPU && amount <= exact:
				return document.Number(float64(amount) / float64(k.Scale()))
			case k == resource.CPU, k == resource.Memory && style == document.ForPeople && amount%1024 == 0 && amount > 0:
				return document.Text(resource.FormatExact(k, amount))
			}
			return document.Int(amount)
		},
		func(a, b int64) bool { return a == b })
}

func amountRule(err error) document.Rule {
	switch {
	case errors.Is(err, resource.ErrNotFinite): // as text
		return document.RuleNotFinite
	case errors.Is(err, resource.ErrNegative), errors.Is(err, resource.ErrTooLarge), errors.Is(err, resource.ErrFractional):
		return document.RuleOutOfRange
	}
	return document.RuleBadFormat
}

// unsupported is an option of YTsaurus that is kept but has no effect here.
type unsupported struct {
	reason string
	names  []string
}

// kept returns the options for a list of unsupported ones.
func kept[T any](at func(*T) *document.Extras, groups []unsupported) (options []document.Option[T]) {
	for _, group := range groups {
		for _, name := range group.names {
			options = append(options, document.Kept(name, group.reason, at))
		}
	}
	return options
}
