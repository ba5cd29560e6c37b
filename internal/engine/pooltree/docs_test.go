package pooltree

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/test/expected"
)

// The reference in docs/pools.md is generated from the tables, so the two cannot
// differ.
func TestTheReferenceOfOptionsIsUpToDate(t *testing.T) {
	expected.Page(t, "../../../docs/pools.md", reference())
}

func reference() string {
	var b strings.Builder
	section := func(title, text string, options []*document.Info) {
		fmt.Fprintf(&b, "\n%s\n\n%s", title, text)
		b.WriteString(expected.OptionsHead)
		for _, o := range options {
			if o.NotSupported == "" {
				b.WriteString(expected.OptionRow(o, expected.Value(o.Shape)))
			}
		}
	}
	section("## Options of a tree", "", TreeOptions.Options())
	section("### Templates of trees", "The scheduler's setting `template_pool_tree_config_map` names templates. A tree whose whole name matches the `filter` of a template\n"+
		"has the options of its `config` that it does not set itself. Options are read as if the tree had set them; `@config` has the tree's own.\n\n"+
		"```yaml\nscheduler:\n  template_pool_tree_config_map:\n    gpus: {priority: 10, filter: gpu_.*, config: {main_resource: gpu}}\n```\n\n", templateTable.Options())
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

	b.WriteString("\n## Accepted without effect\n\nWeir stores and returns these options of YTsaurus, and warns that they have no effect.\n\n| option | of | why |\n|---|---|---|\n")
	for _, group := range []struct {
		of      string
		options []*document.Info
	}{{"tree", TreeOptions.Options()}, {"pool", PoolOptions.Options()}, {"operation", OperationTable.Options()}} {
		for _, o := range group.options {
			if o.NotSupported != "" {
				fmt.Fprintf(&b, "| %s | %s | %s |\n", expected.Codes(append([]string{o.Name}, o.Aliases...)), group.of, o.NotSupported)
			}
		}
	}
	return b.String()
}
