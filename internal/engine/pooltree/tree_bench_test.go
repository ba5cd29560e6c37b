package pooltree

import (
	"fmt"
	"testing"

	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/notation"
)

// wideTree returns a document of n pools: groups of twenty with guarantees, limits
// and weights.
func wideTree(n int) document.Value {
	var groups []document.Entry
	for g := 0; g < n/20; g++ {
		var pools []document.Entry
		for i := 0; i < 19; i++ {
			pools = append(pools, document.Pair(fmt.Sprintf("pool-%d-%d", g, i), document.Map(
				document.Pair("weight", document.Float(1.5)),
				document.Pair("min_share_resources", document.Map(document.Pair("cpu", document.Int(1)))),
				document.Pair("max_running_operation_count", document.Int(20)),
				document.Pair("mode", document.Text("fifo")),
			)))
		}
		groups = append(groups, document.Pair(fmt.Sprintf("group-%d", g), document.Map(
			document.Pair("min_share_resources", document.Map(document.Pair("cpu", document.Int(19)))),
			document.Pair("resource_limits", document.Map(document.Pair("memory", document.Text("64GiB")))),
			document.Pair("pools", document.Map(pools...)),
		)))
	}
	return document.Map(document.Pair("pools", document.Map(groups...)))
}

func BenchmarkTree10000Pools(b *testing.B) {
	v := wideTree(10000)
	yaml, err := notation.YAML(v)
	if err != nil {
		b.Fatal(err)
	}
	json, err := v.JSON("")
	if err != nil {
		b.Fatal(err)
	}
	tree, _, err := FromValue(v, Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			Read(document.NewReader(""), v, Keys{})
		}
	})
	b.Run("build", func(b *testing.B) {
		draft := Read(document.NewReader(""), v, Keys{})
		b.ReportAllocs()
		for b.Loop() {
			draft.Build(document.NewReader(""), Limits{})
		}
	})
	b.Run("read and build", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := FromValue(v, Options{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("from JSON", func(b *testing.B) {
		for b.Loop() {
			if _, _, err := parseFile("pools.json", json, Options{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("from YAML", func(b *testing.B) {
		for b.Loop() {
			if _, _, err := parseFile("pools.yaml", yaml, Options{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("edit", func(b *testing.B) {
		for b.Loop() {
			if _, _, err := tree.With(SetPoolOption{Pool: "pool-7-7", Option: "weight", Value: document.Int(2)}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("diff", func(b *testing.B) {
		other, _, _ := tree.With(SetPoolOption{Pool: "pool-7-7", Option: "weight", Value: document.Int(2)})
		for b.Loop() {
			if Diff(tree, other).IsEmpty() {
				b.Fatal("no difference")
			}
		}
	})
}
