package manifest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/notation"
	"github.com/weirhq/weir/test/expected"
)

// The definitions in the chart are those of the tables of options.
func TestTheDefinitionsInTheChartAreUpToDate(t *testing.T) {
	directory := "../../../packaging/helm/weir/crds"
	if err := os.MkdirAll(directory, 0o755); err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{Pools, Trees} {
		text, err := notation.YAML(Definitions()[i])
		if err != nil {
			t.Fatal(err)
		}
		expected.File(t, filepath.Join(directory, name+".yaml"), "# Generated: go test ./internal/control/manifest -update\n"+string(text))
	}
}

func value(t *testing.T, text string) document.Value {
	t.Helper()
	v, err := notation.Parse("", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func standing(t *testing.T, text string) *pooltree.Tree {
	t.Helper()
	tree, _, err := pooltree.FromValue(value(t, text), pooltree.Options{KeepUnknown: true})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// knows is a scheduler with a tree "default"; an empty text means that there is none.
func knows(t *testing.T, text string, operations map[string]int) Known {
	k := Known{
		Labels: []string{"zone"}, Operations: func(_, pool string) int { return operations[pool] },
		Reading: func(string) pooltree.Options { return pooltree.Options{KeepUnknown: true} },
	}
	if text != "" {
		k.Trees, k.Default = []Standing{{"default", standing(t, text)}}, "default"
	}
	return k
}

func pool(t *testing.T, name, parent, options string) Pool {
	return Pool{Object: name, Name: name, Tree: "default", Parent: parent, Options: value(t, options)}
}

// verdicts are what a decision says about pools, for comparison.
func verdicts(d *Decision) string {
	var lines []string
	for name, v := range d.Pools {
		lines = append(lines, fmt.Sprintf("%s %v %s", name, v.Accepted, v.Reason))
	}
	sortTexts(lines)
	return strings.Join(lines, "; ")
}

func sortTexts(list []string) {
	m := map[string]string{}
	for _, s := range list {
		m[s] = ""
	}
	copy(list, sortedKeys(m))
}

func TestObjectsBecomePoolsBesideThoseThatHaveNone(t *testing.T) {
	known := knows(t, `{main_resource: cpu, pools: {users: {weight: 3}, science: {}}}`, nil)
	child := pool(t, "research-gpu", "science", `{weight: 2, strong_guarantee_resources: {cpu: 4, memory: 16GiB}}`)
	child.Name = "research_gpu"
	d := Decide(known, nil, []Pool{child, pool(t, "science", "", `{strong_guarantee_resources: {cpu: 10, memory: 100GiB}}`)})
	if got := verdicts(d); got != "research-gpu true Accepted; science true Accepted" || len(d.Put) != 1 {
		t.Fatalf("%s, %+v", got, d)
	}
	tree := d.Put[0].Tree
	if p, there := tree.Pool("research_gpu"); !there || p.Path() != "/science/research_gpu" {
		t.Errorf("the tree is %v", tree.Document(document.ForPeople))
	}
	if p, there := tree.Pool("users"); !there || p.Config().Weight.Value() != 3 {
		t.Errorf("the tree is %v", tree.Document(document.ForPeople))
	}
	known.Trees[0].Tree = tree
	if again := Decide(known, nil, []Pool{child, pool(t, "science", "", `{strong_guarantee_resources: {cpu: 10, memory: 100GiB}}`)}); len(again.Put) != 0 {
		t.Errorf("nothing has changed, and %d trees are put", len(again.Put))
	}
}

func TestNamespacesOfAnObjectAreAnOptionOfItsPool(t *testing.T) {
	lab := pool(t, "lab", "", `{weight: 2}`)
	lab.Namespaces = []string{"ml-*", "lab"}
	d := Decide(knows(t, `{}`, nil), nil, []Pool{lab, pool(t, "sub", "lab", `{}`)})
	if got := verdicts(d); got != "lab true Accepted; sub true Accepted" {
		t.Fatal(got)
	}
	sub, _ := d.Put[0].Tree.Pool("sub")
	if patterns, listed := sub.Namespaces(); !listed || fmt.Sprint(patterns) != "[ml-* lab]" {
		t.Errorf("the subpool has %v", patterns)
	}
	lab.Namespaces = []string{"ML"}
	if d = Decide(knows(t, `{}`, nil), nil, []Pool{lab}); d.Pools["lab"].Accepted || !strings.HasPrefix(d.Pools["lab"].Message, "kubernetes/namespaces") {
		t.Errorf("a wrong pattern: %+v", d.Pools["lab"])
	}
}

func TestAChildMayComeBeforeItsParent(t *testing.T) {
	known := knows(t, `{}`, nil)
	child := pool(t, "b", "a", `{}`)
	d := Decide(known, nil, []Pool{child})
	if got := verdicts(d); got != "b false UnknownParent" || len(d.Put) != 0 {
		t.Errorf("%s", got)
	}
	d = Decide(known, nil, []Pool{child, pool(t, "a", "", `{}`)})
	if got := verdicts(d); got != "a true Accepted; b true Accepted" || len(d.Put) != 1 {
		t.Errorf("%s", got)
	}
}

// Whatever is wrong, the last valid tree stays, the wrong objects say why, and the others wait.
func TestWrongObjectsLeaveTheTreeAsItIs(t *testing.T) {
	for name, c := range map[string]struct {
		pools []Pool
		want  string
	}{
		"a cycle":           {[]Pool{pool(t, "a", "b", `{}`), pool(t, "b", "a", `{}`), pool(t, "c", "", `{}`)}, "a false CyclicParent; b false WaitsForTree; c false WaitsForTree"},
		"its own parent":    {[]Pool{pool(t, "a", "a", `{}`)}, "a false CyclicParent"},
		"a bad weight":      {[]Pool{pool(t, "a", "", `{weight: -1}`), pool(t, "c", "", `{}`)}, "a false OutOfRange; c false WaitsForTree"},
		"an unknown key":    {[]Pool{pool(t, "a", "", `{wieght: 1}`)}, "a false UnknownKey"},
		"too much":          {[]Pool{pool(t, "a", "", `{strong_guarantee_resources: {cpu: 1}}`), pool(t, "b", "a", `{strong_guarantee_resources: {cpu: 2}}`)}, "a false SumOverParent; b false WaitsForTree"},
		"a bad name":        {[]Pool{{Object: "a", Name: "a b", Tree: "default", Options: value(t, `{}`)}}, "a false BadPoolName"},
		"a fifo with pools": {[]Pool{pool(t, "a", "", `{mode: fifo}`), pool(t, "b", "a", `{}`)}, "a false FifoWithSubpools; b false WaitsForTree"},
		"two objects":       {[]Pool{pool(t, "a", "", `{}`), {Object: "z", Name: "a", Tree: "default", Options: value(t, `{}`)}}, "a true Accepted; z false SecondObject"},
		"no tree":           {[]Pool{{Object: "a", Name: "a", Tree: "nowhere", Options: value(t, `{}`)}}, "a false NoSuchTree"},
	} {
		d := Decide(knows(t, `{main_resource: cpu}`, nil), nil, c.pools)
		if got := verdicts(d); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		for _, v := range d.Pools {
			if !v.Accepted && v.Message == "" {
				t.Errorf("%s: no message", name)
			}
		}
		if len(d.Put) > 0 && name != "two objects" {
			t.Errorf("%s: the tree is changed", name)
		}
	}
	cycle := Decide(knows(t, `{}`, nil), nil, []Pool{pool(t, "a", "b", `{}`), pool(t, "b", "a", `{}`)})
	if got := cycle.Pools["a"].Message; got != "the pool is inside itself: a is in b is in a" {
		t.Errorf("the message is %q", got)
	}
	d := Decide(knows(t, `{}`, nil), nil, []Pool{pool(t, "a", "", `{weight: -1}`)})
	if got := d.Pools["a"].Message; !strings.HasPrefix(got, "weight: must be ") {
		t.Errorf("the message is %q", got)
	}
}

func TestADeletedPoolStaysUntilNothingNeedsIt(t *testing.T) {
	text := `{pools: {a: {pools: {b: {}}}, c: {}}}`
	a, b := pool(t, "a", "", `{}`), pool(t, "b", "a", `{}`)
	a.Deleted = true
	d := Decide(knows(t, text, map[string]int{"a": 2, "b": 2}), nil, []Pool{a, b})
	if v := d.Pools["a"]; v.Reason != ReasonBusy || v.Message != "the pool is removed when its 2 operations have ended" || len(d.Put)+len(d.ReleasedPools) != 0 {
		t.Errorf("with operations: %+v, %+v", v, d)
	}
	d = Decide(knows(t, text, nil), nil, []Pool{a, b})
	if v := d.Pools["a"]; v.Reason != ReasonBusy || v.Message != "the pool is removed when its subpools are: b" || len(d.Put)+len(d.ReleasedPools) != 0 {
		t.Errorf("with a subpool: %+v", v)
	}
	b.Deleted = true
	d = Decide(knows(t, text, nil), nil, []Pool{a, b})
	if fmt.Sprint(d.ReleasedPools) != "[a b]" || len(d.Put) != 1 || d.Put[0].Tree.Len() != 1 {
		t.Errorf("both: %+v", d)
	}
	d = Decide(knows(t, `{pools: {c: {}}}`, nil), nil, []Pool{a})
	if fmt.Sprint(d.ReleasedPools) != "[a]" || len(d.Put) != 0 {
		t.Errorf("a pool that never was: %+v", d)
	}
}

func TestATreeIsMadeChangedAndRemoved(t *testing.T) {
	tree := Tree{Name: "default", Selector: Selector{
		MatchLabels:      map[string]string{"zone": "a"},
		MatchExpressions: []Requirement{{Key: "zone", Operator: "NotIn", Values: []string{"b", "c"}}},
	}, Options: value(t, `{main_resource: cpu}`)}
	d := Decide(knows(t, "", nil), []Tree{tree}, []Pool{pool(t, "a", "", `{}`)})
	if len(d.Put) != 1 || d.Default != "default" || !d.Trees["default"].Accepted || !d.Pools["a"].Accepted {
		t.Fatalf("%+v", d)
	}
	if got := d.Put[0].Tree.Config().NodesFilter.Value().String(); got != "zone=a & !(zone=b | zone=c)" {
		t.Errorf("the filter is %q", got)
	}
	tree.Selector.MatchLabels["team"] = "x"
	if d := Decide(knows(t, "", nil), []Tree{tree}, nil); d.Trees["default"].Reason != ReasonSelector || !strings.Contains(d.Trees["default"].Message, "tag_labels") || len(d.Put) != 0 {
		t.Errorf("a label that is no tag: %+v", d.Trees)
	}
	tree.Selector = Selector{MatchExpressions: []Requirement{{Key: "zone", Operator: "Exists"}}}
	if d := Decide(knows(t, "", nil), []Tree{tree}, nil); d.Trees["default"].Reason != ReasonSelector {
		t.Errorf("an operator that is not supported: %+v", d.Trees)
	}
	tree.Selector, tree.Options = Selector{}, value(t, `{main_resource: time}`)
	if d := Decide(knows(t, `{pools: {a: {}}}`, nil), []Tree{tree}, []Pool{pool(t, "a", "", `{weight: 5}`)}); d.Trees["default"].Accepted || d.Trees["default"].Reason == ReasonWaiting || d.Pools["a"].Reason != ReasonWaiting || len(d.Put) != 0 {
		t.Errorf("a wrong option: %+v", d)
	}
	tree.Deleted = true
	if d := Decide(knows(t, `{pools: {a: {}}}`, nil), []Tree{tree}, nil); d.Trees["default"].Reason != ReasonBusy || len(d.Remove) != 0 {
		t.Errorf("a tree with pools: %+v", d)
	}
	if d := Decide(knows(t, `{}`, nil), []Tree{tree}, nil); fmt.Sprint(d.Remove, d.ReleasedTrees, d.Default) != "[default] [default]" {
		t.Errorf("an empty tree: %+v", d)
	}
}

func TestTheTimeOfAConditionIsThatOfItsLastChange(t *testing.T) {
	first := Conditions(Verdict{Reason: "Cycle", Message: "m"}, "", 1, nil, time.Unix(0, 0))
	second := Conditions(Verdict{Reason: "BadName", Message: "n"}, "", 2, first, time.Unix(60, 0))
	if len(second) != 1 || second[0].LastTransitionTime != first[0].LastTransitionTime || second[0].Reason != "BadName" || !Differ(first, second) {
		t.Errorf("%+v", second)
	}
	third := Conditions(Verdict{Accepted: true, Reason: ReasonAccepted}, "too much is promised", 3, second, time.Unix(60, 0))
	if len(third) != 2 || third[0].LastTransitionTime == first[0].LastTransitionTime || third[1].Status != "False" {
		t.Errorf("%+v", third)
	}
}

func TestAStatusIsWrittenWhenAFigureMovesByMoreThanOnePerCent(t *testing.T) {
	a := PoolStatus{figures: []float64{0.50}}
	for change, want := range map[float64]bool{0.505: false, 0.52: true, 0.5: false} {
		if got := (&PoolStatus{figures: []float64{change}}).Differs(&a); got != want {
			t.Errorf("%v: %v", change, got)
		}
	}
	if !(&PoolStatus{figures: []float64{0.5}, Starving: true}).Differs(&a) {
		t.Error("starvation is worth a write")
	}
}
