package scenario

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/test/expected"
)

const docsFile = "../../../docs/simulator.md"

// The reference in docs/simulator.md is generated from the tables, so it always
// agrees with them.
func TestTheReferenceOfOptionsIsUpToDate(t *testing.T) {
	expected.Page(t, docsFile, reference())
}

func TestTheScenarioInTheDocumentReads(t *testing.T) {
	if _, warnings, err := Read("simulator.md", []byte(expected.Example(t, docsFile, "## A scenario\n")), nil); err != nil || len(warnings) > 0 {
		t.Errorf("%v %v", err, warnings)
	}
}

func reference() string {
	var b strings.Builder
	section := func(title, text string, options []*document.Info) {
		fmt.Fprintf(&b, "\n%s\n\n", title)
		if text != "" {
			b.WriteString(text + "\n\n")
		}
		b.WriteString(expected.OptionsHead)
		for _, o := range options {
			b.WriteString(expected.OptionRow(o, valueText(o.Shape)))
		}
	}
	section("## Scenario", "", fileTable.Options())
	section("### `scheduler`", "", schedulerTable.Options())
	section("### `statistics`", "", statisticsTable.Options())
	section("### `nodes`, each", "", nodeTable.Options())
	section("### `state`, for each pool", "", stateTable.Options())
	specification := "Besides these, an operation has the [options of operations that concern pools](pools.md#options-of-an-operation-that-concern-pools): `pool`, `weight`, `resource_limits`, `pool_trees`, `is_gang` (also `gang`) and so on."
	section("## `operations`, each", specification, ownOptions(operationTable.Options()))
	section("### `arrival`", "Alternatively a time or a list of times.", arrivalTable.Options())
	section("### `demand`", "", demandTable.Options())
	section("### `demand/steps`, each", "", demandStepTable.Options())
	section("### Distributions", "A random value is a plain value, a list of equally likely values, or a map.", lawTable(secondsUnit).Options())
	section("## `traces`, each", "Options of operations, as above, apply to all operations of the trace.", ownOptions(traceTable.Options()))
	section("## `events`, each", "", eventTable.Options())
	section("### `lose_nodes`", "", loseTable.Options())
	section("### `return_nodes`", "", returnTable.Options())
	section("### `resize_nodes`", "", resizeTable.Options())
	section("### `set` of an operation", "", runtimeTable.Options())
	b.WriteString("\n## `expect`, each\n\nOne of `operation`, `pool`, `node` and `cluster: true` selects what to check; the figures state what is expected. The name of a template with several operations means each of them.\n\n| figure | of | value | meaning |\n|---|---|---|---|\n")
	options := expectTable.Options()
	for _, o := range options {
		i := slices.IndexFunc(figures, func(f figureInfo) bool { return string(f.figure) == o.Name })
		of := ""
		if i >= 0 {
			var names []string
			for _, letter := range figures[i].of {
				names = append(names, strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(subjectNames[string(letter)], "an "), "a "), "the "))
			}
			of = strings.Join(names, ", ")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", o.Name, of, valueText(o.Shape), expected.Meaning(o))
	}
	return b.String()
}

// ownOptions returns the options that are not part of an operation's specification.
func ownOptions(options []*document.Info) (own []*document.Info) {
	for _, o := range options {
		if _, ok := pooltree.OperationTable.Resolve(o.Name); !ok {
			own = append(own, o)
		}
	}
	return own
}

func valueText(s document.Shape) string {
	switch {
	case s.Kind == kindBound || s.Kind == "resource bounds" || s.Kind == kindMoments || s.Kind == kindWindow || s.Kind == "share":
		return s.Says
	case s.Kind == "any" && s.Says == document.Anything.Shape().Says:
		return "" // its section says what
	case s.Kind == "any":
		return "value"
	case s.Kind == kindLaw:
		return "distribution"
	case s.Kind == kindLaws:
		return "resources, each a distribution"
	case s.Kind == "list" && s.Says != "a list":
		return valueText(*s.Item) + ", or a list"
	case s.Kind == "list":
		return "list of " + valueText(*s.Item)
	case s.Kind == "duration":
		return s.Kind
	}
	return expected.Value(s)
}
