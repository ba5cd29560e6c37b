package pooltree

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/internal/document"
)

const (
	docsFile   = "../../docs/pools.md"
	docsMarker = "<!-- Below this line the file is made from the option tables by: go test ./internal/pooltree -update -->\n"
)

// The reference in docs/pools.md is made from the tables, so that it cannot say
// anything else.
func TestTheReferenceOfOptionsIsUpToDate(t *testing.T) {
	head, generated, ok := strings.Cut(string(readFile(t, docsFile)), docsMarker)
	if !ok {
		t.Fatalf("%s has no line %q", docsFile, docsMarker)
	}
	want := reference()
	if *update {
		if err := os.WriteFile(docsFile, []byte(head+docsMarker+want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(generated, want); diff != "" {
		t.Errorf("%s is out of date (go test ./internal/pooltree -update rewrites it):\n%s", docsFile, diff)
	}
}

func reference() string {
	var b strings.Builder
	section := func(title, text string, options []document.Info) {
		fmt.Fprintf(&b, "\n%s\n\n%s", title, text)
		b.WriteString("| option | value | default | meaning |\n|---|---|---|---|\n")
		for _, o := range options {
			if o.NotSupported == "" {
				fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", o.Name, valueText(o.Shape), defaultText(o), meaning(o))
			}
		}
	}
	section("## Options of a tree", "", TreeOptions.Options())
	section("### `integral_guarantees` of a tree", "", treeIntegralTable.Options())
	section("### `packing`", "", packingTable.Options())
	section("### `batch_operation_scheduling`", "", batchTable.Options())
	section("## Options of a pool", "", PoolOptions.Options())
	section("### `integral_guarantees` of a pool", "", integralTable.Options())
	section("### `ephemeral_subpool_config`", "", ephemeralTable.Options())
	var inPresets []string
	for _, o := range presetTable.Options() {
		if o.NotSupported == "" {
			inPresets = append(inPresets, "`"+o.Name+"`")
		}
	}
	fmt.Fprintf(&b, "\n### Presets\n\nA preset in `pool_config_presets` may have %s.\n", strings.Join(inPresets, ", "))
	section("## Options of an operation that concern pools", "", OperationTable.Options())

	b.WriteString("\n## Accepted, kept, without effect\n\nThese options of YTsaurus are read and given back, and a warning says that they do nothing here.\n\n| option | of | why |\n|---|---|---|\n")
	for _, group := range []struct {
		of      string
		options []document.Info
	}{{"tree", TreeOptions.Options()}, {"pool", PoolOptions.Options()}, {"operation", OperationTable.Options()}} {
		for _, o := range group.options {
			if o.NotSupported != "" {
				fmt.Fprintf(&b, "| %s | %s | %s |\n", codes(append([]string{o.Name}, o.Aliases...)), group.of, o.NotSupported)
			}
		}
	}
	return b.String()
}

func codes(names []string) string {
	quoted := slices.Clone(names)
	for i := range quoted {
		quoted[i] = "`" + quoted[i] + "`"
	}
	return strings.Join(quoted, ", ")
}

func valueText(s document.Shape) string {
	switch {
	case len(s.Values) > 0:
		return codes(s.Values)
	case s.Kind == "list":
		return "list of " + valueText(*s.Item)
	case s.Item != nil:
		return "map from names"
	case len(s.Options) > 0:
		return "map, below"
	case !s.ExclusiveMinimum.IsNull():
		return fmt.Sprintf("%s > %v", s.Kind, s.ExclusiveMinimum)
	case s.Kind == "duration" && s.Maximum.IsNull():
		return s.Kind
	case !s.Minimum.IsNull() && !s.Maximum.IsNull():
		return fmt.Sprintf("%s from %v to %v", s.Kind, s.Minimum, s.Maximum)
	case !s.Minimum.IsNull():
		return fmt.Sprintf("%s ≥ %v", s.Kind, s.Minimum)
	}
	return s.Kind
}

func defaultText(o document.Info) string {
	if o.Default.IsNull() {
		return ""
	}
	return "`" + strings.ReplaceAll(o.Default.String(), "|", `\|`) + "`"
}

func meaning(o document.Info) string {
	text := strings.ReplaceAll(o.Doc, "|", `\|`)
	if len(o.Aliases) > 0 {
		text += " Also " + codes(o.Aliases) + "."
	}
	return text
}
