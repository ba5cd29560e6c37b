package pooltree

import (
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/notation"
	"github.com/weirhq/weir/internal/value/resource"
)

const editBase = `
main_resource: cpu
pools:
  a:
    min_share_resources: {cpu: 10}
    enable_lightweight_operations: true
    pools:
      a1: {min_share_resources: {cpu: 4}}
      a2: {}
  b: {mode: fifo}
`

func TestEditsMakeANewTree(t *testing.T) {
	yaml := func(text string) document.Value {
		v, err := notation.ParseYAML("", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	cases := []struct {
		name  string
		edits []Edit
		want  string // the diff
		err   string
	}{
		{"add", []Edit{AddPool{Pool: "c", Parent: "a", Config: PoolConfig{Weight: document.Some(2.0)}}}, "+ pool c (in a): weight: 2\n", ""},
		{"add below the root", []Edit{AddPool{Pool: "c"}}, "+ pool c (in <Root>)\n", ""},
		{"add into FIFO", []Edit{AddPool{Pool: "c", Parent: "b"}}, "", "a FIFO pool cannot have subpools"},
		{"add twice", []Edit{AddPool{Pool: "a1"}}, "", "two pools called"},
		{"add a bad name", []Edit{AddPool{Pool: "x y"}}, "", "a name consists of"},
		{"add below nobody", []Edit{AddPool{Pool: "c", Parent: "zz"}}, "", `the parent "zz" does not exist`},
		{"remove", []Edit{RemovePool{Pool: "b"}}, "- pool b (in <Root>)\n", ""},
		{"remove with subpools", []Edit{RemovePool{Pool: "a"}}, "", "has 2 pools below it"},
		{"remove recursively", []Edit{RemovePool{Pool: "a", Recursive: true}}, "- pool a (in <Root>)\n- pool a1 (in a)\n- pool a2 (in a)\n", ""},
		{"remove nobody", []Edit{RemovePool{Pool: "zz"}}, "", `there is no pool "zz"`},
		{"remove the root", []Edit{RemovePool{Pool: RootName}}, "", "the root pool cannot be changed"},
		{"move", []Edit{MovePool{Pool: "a1"}}, "> pool a1: a → <Root>\n", ""},
		{"move to where it is not covered", []Edit{AddPool{Pool: "c"}, MovePool{Pool: "a1", Parent: "c"}}, "", "a guarantee must be covered"},
		{"move into itself", []Edit{MovePool{Pool: "a", Parent: "a1"}}, "", "the pool is inside itself"},
		{"rename", []Edit{RenamePool{Pool: "a", Name: "n"}}, "- pool a (in <Root>)\n+ pool n (in <Root>): min_share_resources: {cpu: 10}, enable_lightweight_operations: true\n> pool a1: a → n\n> pool a2: a → n\n", ""},
		{"rename to a taken name", []Edit{RenamePool{Pool: "a", Name: "b"}}, "", "two pools called"},
		{"set", []Edit{SetPool{Pool: "b", Config: PoolConfig{}}}, "~ pool b: mode: fifo → unset\n", ""},
		{"set nobody", []Edit{SetPool{Pool: "zz"}}, "", "there is no pool"},
		{"set an option", []Edit{SetPoolOption{Pool: "b", Option: "weight", Value: document.Int(2)}}, "~ pool b: weight: unset → 2\n", ""},
		{"set an option by its alias", []Edit{SetPoolOption{Pool: "a", Option: "strong-guarantee-resources", Value: yaml("{cpu: 20}")}}, "~ pool a: min_share_resources: {cpu: 10} → {cpu: 20}\n", ""},
		{"set inside a map that is not there", []Edit{SetPoolOption{Pool: "a", Option: "integral-guarantees/resource-flow", Value: yaml("{cpu: 100}")}}, "~ pool a: integral_guarantees/resource_flow: unset → {cpu: 100}\n", ""},
		{"set one resource", []Edit{SetPoolOption{Pool: "a", Option: "min_share_resources/memory", Value: document.Text("1GiB")}}, "~ pool a: min_share_resources: {cpu: 10} → {cpu: 10, memory: 1GiB}\n", ""},
		{"unset one resource", []Edit{SetPoolOption{Pool: "a1", Option: "min_share_resources/cpu", Value: document.Null()}}, "~ pool a1: min_share_resources: {cpu: 4} → {}\n", ""},
		{"unset an option", []Edit{SetPoolOption{Pool: "b", Option: "mode", Value: document.Null()}}, "~ pool b: mode: fifo → unset\n", ""},
		{"unset what is not set", []Edit{SetPoolOption{Pool: "b", Option: "weight", Value: document.Null()}}, "", "pools/b/weight: is not set"},
		{"unset inside what is not set", []Edit{SetPoolOption{Pool: "b", Option: "resource_limits/cpu", Value: document.Null()}}, "", "is not set"},
		{"set a wrong value", []Edit{SetPoolOption{Pool: "b", Option: "weight", Value: document.Int(-2)}}, "", "pools/b/weight: must be a number from 0"},
		{"set inside a number", []Edit{SetPoolOption{Pool: "b", Option: "weight/x", Value: document.Int(2)}}, "", "pools/b/weight: must be a number, not a map"},
		{"set an unknown option", []Edit{SetPoolOption{Pool: "b", Option: "wieght", Value: document.Int(2)}}, "", `pools/b/wieght: unknown option; did you mean "weight"?`},
		{"keep an unknown option", []Edit{SetPoolOption{Pool: "b", Option: "mine", Value: document.Int(2), KeepUnknown: true}}, "~ pool b: mine: unset → 2\n", ""},
		{"keep an unknown option and set another", []Edit{
			SetPoolOption{Pool: "b", Option: "mine", Value: document.Int(2), KeepUnknown: true},
			SetPoolOption{Pool: "b", Option: "weight", Value: document.Int(2)},
			SetPoolOption{Pool: "b", Option: "mine", Value: document.Null()},
		}, "~ pool b: weight: unset → 2\n", ""},
		{"break a rule of the whole", []Edit{SetPoolOption{Pool: "a1", Option: "min_share_resources", Value: yaml("{cpu: 11}")}}, "", "pools/a/min_share_resources: cpu of the subpools is 11 together"},
		{"two edits that are right together", []Edit{
			SetPoolOption{Pool: "a1", Option: "min_share_resources", Value: yaml("{cpu: 11}")},
			SetPoolOption{Pool: "a", Option: "min_share_resources", Value: yaml("{cpu: 11}")},
		}, "~ pool a: min_share_resources: {cpu: 10} → {cpu: 11}\n~ pool a1: min_share_resources: {cpu: 4} → {cpu: 11}\n", ""},
		{"set the tree", []Edit{SetTree{Config: TreeConfig{MaxOperationCount: document.Some(5000)}}}, "~ tree: main_resource: cpu → unset\n~ tree: max_operation_count: unset → 5000\n", ""},
		{"set an option of the tree", []Edit{SetTreeOption{Option: "packing/enable", Value: document.Bool(true)}}, "~ tree: packing/enable: unset → true\n", ""},
		{"set an option of the tree that breaks pools", []Edit{SetTreeOption{Option: "main_resource", Value: document.Text("gpu")}}, "", "not gpu, the main resource"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			base := mustParse(t, editBase)
			before := base.Document(document.ForPeople)
			tree, warnings, err := base.With(c.edits...)
			if !base.Document(document.ForPeople).Equal(before) {
				t.Error("the old tree changed")
			}
			if c.err != "" {
				if err == nil || tree != nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error is %v, want %q in it", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := Diff(base, tree).String(); got != c.want {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
			if len(warnings.With(document.RuleNotSupported)) > 0 {
				t.Errorf("a warning about an option that was not touched: %v", warnings)
			}
		})
	}
}

func TestTransfer(t *testing.T) {
	const base = `
pools:
  left:
    min_share_resources: {cpu: 30}
    integral_guarantees: {resource_flow: {cpu: 20}, burst_guarantee_resources: {cpu: 40}}
    max_operation_count: 50
    max_running_operation_count: 40
    pools:
      from:
        min_share_resources: {cpu: 10}
        integral_guarantees: {resource_flow: {cpu: 20}, burst_guarantee_resources: {cpu: 30}}
        max_operation_count: 50
        max_running_operation_count: 40
      near: {}
  right:
    pools: {to: {max_operation_count: 9}}
`
	cpu := func(hundredths int64) resource.Partial { return resource.Partial{}.With(resource.CPU, hundredths) }
	cases := []struct {
		name     string
		transfer Transfer
		want     string
		err      string
	}{
		{"to a cousin, along both branches", Transfer{From: "from", To: "to", StrongGuarantee: cpu(400), ResourceFlow: cpu(800), Burst: cpu(1200), MaxOperationCount: 20, MaxRunningOperationCount: 16},
			`~ pool left: min_share_resources: {cpu: 30} → {cpu: 26}
~ pool left: integral_guarantees/resource_flow: {cpu: 20} → {cpu: 12}
~ pool left: integral_guarantees/burst_guarantee_resources: {cpu: 40} → {cpu: 28}
~ pool left: max_running_operation_count: 40 → 24
~ pool left: max_operation_count: 50 → 30
~ pool from: min_share_resources: {cpu: 10} → {cpu: 6}
~ pool from: integral_guarantees/resource_flow: {cpu: 20} → {cpu: 12}
~ pool from: integral_guarantees/burst_guarantee_resources: {cpu: 30} → {cpu: 18}
~ pool from: max_running_operation_count: 40 → 24
~ pool from: max_operation_count: 50 → 30
~ pool right: min_share_resources: unset → {cpu: 4}
~ pool right: integral_guarantees/resource_flow: unset → {cpu: 8}
~ pool right: integral_guarantees/burst_guarantee_resources: unset → {cpu: 12}
~ pool right: max_running_operation_count: unset → 16
~ pool right: max_operation_count: unset → 20
~ pool to: min_share_resources: unset → {cpu: 4}
~ pool to: integral_guarantees/resource_flow: unset → {cpu: 8}
~ pool to: integral_guarantees/burst_guarantee_resources: unset → {cpu: 12}
~ pool to: max_running_operation_count: unset → 16
~ pool to: max_operation_count: 9 → 29
`, ""},
		{"to a sibling, without the parent", Transfer{From: "from", To: "near", StrongGuarantee: cpu(1000)},
			"~ pool from: min_share_resources: {cpu: 10} → {cpu: 0}\n~ pool near: min_share_resources: unset → {cpu: 10}\n", ""},
		{"to a child, which only receives", Transfer{From: "left", To: "near", StrongGuarantee: cpu(500)},
			"~ pool near: min_share_resources: unset → {cpu: 5}\n", ""},
		{"to a child, more than the parent has left", Transfer{From: "left", To: "near", StrongGuarantee: cpu(2500)}, "", "cpu of the subpools is 35 together"},
		{"to the parent, which only takes back", Transfer{From: "from", To: "left", StrongGuarantee: cpu(500)},
			"~ pool from: min_share_resources: {cpu: 10} → {cpu: 5}\n", ""},
		{"to the root", Transfer{From: "from", To: RootName, StrongGuarantee: cpu(500)},
			"~ pool left: min_share_resources: {cpu: 30} → {cpu: 25}\n~ pool from: min_share_resources: {cpu: 10} → {cpu: 5}\n", ""},
		{"more than there is", Transfer{From: "from", To: "near", StrongGuarantee: cpu(1001)}, "", "cpu is 10, so 10.01 cannot be taken"},
		{"operations that are not there", Transfer{From: "near", To: "from", MaxRunningOperationCount: 10}, "", "is 0, so 10 cannot be taken"},
		{"negative", Transfer{From: "from", To: "near", StrongGuarantee: cpu(-1)}, "", "negative"},
		{"negative count", Transfer{From: "from", To: "near", MaxOperationCount: -1}, "", "negative"},
		{"to itself", Transfer{From: "from", To: "from", StrongGuarantee: cpu(1)}, "", "both the source and the destination"},
		{"from nobody", Transfer{From: "zz", To: "from", StrongGuarantee: cpu(1)}, "", "there is no pool"},
		{"to nobody", Transfer{From: "from", To: "zz", StrongGuarantee: cpu(1)}, "", "there is no pool"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			tree := mustParse(t, base)
			after, _, err := tree.With(c.transfer)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error is %v, want %q in it", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := Diff(tree, after).String(); got != c.want {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
		})
	}
}
