package pooltree

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/notation"
)

// randomDraft draws a tree with any options. It rarely obeys all rules.
func randomDraft(t *rapid.T) document.Value {
	v := randomOptions(t, TreeOptions.Options())
	n := rapid.IntRange(0, 6).Draw(t, "pools")
	var pools []document.Value
	for i := range n {
		p := randomOptions(t, PoolOptions.Options()).With("name", document.Text(fmt.Sprint("p", i)))
		if i > 0 && rapid.Bool().Draw(t, "nested") {
			p = p.With("parent", document.Text(fmt.Sprint("p", rapid.IntRange(0, i-1).Draw(t, "parent"))))
		}
		pools = append(pools, p)
	}
	if n > 0 {
		v = v.With("pools", document.List(pools...))
	}
	return v
}

// repaired removes everything that a document is refused for until it is a valid
// tree: the facts of a problem name the pool and the option.
func repaired(t *rapid.T, v document.Value) *Tree {
	for range 1000 {
		tree, _, err := FromValue(v, Options{})
		if err == nil {
			return tree
		}
		var problems document.Problems
		if !errors.As(err, &problems) {
			t.Fatalf("error is %T", err)
		}
		for _, p := range problems {
			v = without(t, v, p)
		}
	}
	t.Fatalf("%v cannot be repaired", v)
	return nil
}

func without(t *rapid.T, v document.Value, p document.Problem) document.Value {
	option, ok := p.Fact("option").Text()
	name, inPool := p.Fact("pool").Text()
	if !ok {
		t.Fatalf("%v names no option: %v", p, p.Facts)
	}
	if !inPool {
		return withoutOption(v, TreeOptions, option)
	}
	pools, _ := v.Get("pools")
	items := append([]document.Value(nil), pools.Items()...)
	for i, item := range items {
		if got, _ := item.Get("name"); got.Equal(document.Text(name)) {
			items[i] = withoutOption(item, PoolOptions, option)
		}
	}
	return v.With("pools", document.List(items...))
}

// withoutOption also removes a section if part of it is refused, and the partner of
// an option whose default is refused.
func withoutOption[T any](v document.Value, table *document.Table[T], option string) document.Value {
	for _, e := range v.Entries() {
		if name, ok := table.Resolve(e.Key); ok && (name == option || len(option) > len(name) && option[:len(name)+1] == name+"/") {
			return v.Without(e.Key)
		}
	}
	return v
}

func TestATreeReadsBackAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := repaired(t, randomDraft(t))
		checkRoundTrip(t, tree)
	})
}

// Edits lead from any tree to any other, and an empty diff confirms it.
func TestEditsLeadFromAnyTreeToAnyOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from, to := repaired(t, randomDraft(t)), repaired(t, randomDraft(t))
		edits := []Edit{SetTree{Config: to.Config()}}
		for p := range from.Pools() {
			if _, stays := to.Pool(p.Name()); stays {
				edits = append(edits, MovePool{Pool: p.Name()})
			}
		}
		removed := Diff(from, to).Removed
		for i := len(removed) - 1; i >= 0; i-- {
			edits = append(edits, RemovePool{Pool: removed[i].Pool})
		}
		for p := range to.Pools() {
			parent, _ := p.Parent()
			if _, existed := from.Pool(p.Name()); existed {
				edits = append(edits, MovePool{Pool: p.Name(), Parent: parent.Name()}, SetPool{Pool: p.Name(), Config: p.Config()})
			} else {
				edits = append(edits, AddPool{Pool: p.Name(), Parent: parent.Name(), Config: p.Config()})
			}
		}
		after, _, err := from.With(edits...)
		if err != nil {
			t.Fatal(err)
		}
		if left := Diff(after, to); !left.IsEmpty() {
			t.Fatalf("after the edits there is left\n%v", left)
		}
		if Diff(from, to).IsEmpty() != from.Document(document.ForPrograms).Equal(to.Document(document.ForPrograms)) {
			t.Fatalf("%v and %v are equal in one way only", from.Document(document.ForPrograms), to.Document(document.ForPrograms))
		}
	})
}

// A pool's effective values do not depend on pools outside its branch.
func TestEffectiveValuesComeFromAboveOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := repaired(t, randomDraft(t))
		for p := range tree.Pools() {
			e := p.Effective()
			if e.MinShareTimeout > e.FairShareTimeout || e.Tolerance < 0 || e.Tolerance > 1 {
				t.Fatalf("%v has %+v", p, e)
			}
			parent, _ := p.Parent()
			above := parent.Effective()
			if e.AllowNormalPreemption && !above.AllowNormalPreemption {
				t.Fatalf("%v may be preempted from although %v may not", p, parent)
			}
			leaf, _, err := tree.With(AddPool{Pool: "leaf", Parent: p.Name()})
			if err != nil {
				continue // FIFO
			}
			child, _ := leaf.Pool("leaf")
			if got := child.Effective(); got.Starvation != e.Starvation || got.AllowAggressivePreemption != e.AllowAggressivePreemption {
				t.Fatalf("a pool without options in %v has %+v, want %+v", p, got.Starvation, e.Starvation)
			}
		}
	})
}

func FuzzTree(f *testing.F) {
	for _, seed := range []string{
		"", "pools: {a: {weight: 2, pools: {b: {mode: fifo}}}}", "pools: [{name: a, parent: b}, {name: b, parent: a}]",
		"pools: {a: {min_share_resources: {cpu: 1.5, memory: 1GiB}, integral-guarantees: {guarantee_type: burst, resource_flow: {cpu: 1}, burst_guarantee_resources: {cpu: 2}}}}",
		"nodes_filter: 'a & !b'\npool_config_presets: {x: {fair_share_preemption_timeout: 1d}}\npools: {p: {config_preset: x, weight: 0}}",
		"config: {main_resource: gpu}\npools: {a: {min_share_resources: {gpu: 1}, fifo_sort_parameters: [pending-job-count]}}",
		`{"pools": {"a": {"max_operation_count": 1, "resource_limits": {"cpu": "unlimited"}}}}`,
		"pools: {a: {offloading_settings: {x: [1, .nan]}, custom: *x}}", "a: &a {b: 1}\npools: {x: *a}",
	} {
		f.Add([]byte(seed), false)
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, data []byte, keep bool) {
		tree, _, err := parseFile("f.yaml", data, Options{KeepUnknown: keep})
		if err != nil {
			var problems document.Problems
			if !errors.As(err, &problems) || len(problems) == 0 || tree != nil {
				t.Fatalf("error is %T: %v", err, err)
			}
			return
		}
		for _, style := range []document.Style{document.ForPeople, document.ForPrograms} {
			yaml, err := notation.YAML(tree.Document(style))
			if err != nil {
				t.Fatal(err)
			}
			back, _, err := parseFile("f.yaml", yaml, Options{KeepUnknown: keep})
			if err != nil {
				t.Fatalf("%s does not read back: %v", yaml, err)
			}
			if changes := Diff(tree, back); !changes.IsEmpty() {
				t.Fatalf("%s reads back with changes:\n%v", yaml, changes)
			}
		}
	})
}
