package treefile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/value/resource"
)

func TestStoredAnswersAgree(t *testing.T) {
	for name, trees := range map[string]int{"cases": 45, "random": 504} {
		t.Run(name, func(t *testing.T) {
			var difference Difference
			count := 0
			for line := range bytes.Lines(gunzip(t, name+".jsonl.gz")) {
				var pair struct{ Input, Output json.RawMessage }
				if err := json.Unmarshal(line, &pair); err != nil {
					t.Fatal(err)
				}
				file, err := ReadVector(pair.Input)
				if err != nil {
					t.Fatal(err)
				}
				want, err := ReadAnswer(pair.Output)
				if err != nil {
					t.Fatal(err)
				}
				result := fairshare.Compute(&file.Tree, file.Elapsed)
				got, err := ReadAnswer(AppendAnswer(nil, file, result))
				if err != nil {
					t.Fatal(err)
				}
				difference.Add(got, want)
				for _, v := range fairshare.Verify(&file.Tree, file.Elapsed, result) {
					t.Errorf("%s: %v", file.ID, v)
				}
				count++
			}
			t.Logf("%d trees; largest difference: shares %.3g (%s), volumes %.3g relative (%s)",
				count, difference.Share, difference.ShareWhere, difference.Volume, difference.VolumeWhere)
			if count != trees || !difference.Agrees() {
				t.Errorf("%d trees, want %d; difference %+v", count, trees, difference)
			}
		})
	}
}

// TestHardAnswersAgree compares with trees on which an earlier engine and
// YTsaurus's library differed. Their answers have fewer attributes, and elements
// in another order. Decision 0003 explains the two that still differ.
func TestHardAnswersAgree(t *testing.T) {
	differ := map[string]string{ // a tree, and where alone it may differ
		"limits-7000000004718": "limits-7000000004718/p16/proposed_integral_share/",
		"limits-7000000005198": "limits-7000000005198/",
	}
	count := 0
	for file, want := range hardTrees(t) {
		count++
		for _, where := range answerDiffers(t, file, want) {
			if known, ok := differ[file.ID]; !ok || !strings.HasPrefix(where, known) {
				t.Error(where)
			}
		}
	}
	if count != 6 {
		t.Errorf("%d trees", count)
	}
}

// One byte more or less of a limit, 5e-13 of the cluster, decides what pool p16 of one
// of the hard trees is reported to be granted. With some of these limits the engine
// reports what YTsaurus does.
func TestAReportThatDependsOnTheLastBit(t *testing.T) {
	agree, differ := 0, 0
	for file, want := range hardTrees(t) {
		if file.ID != "limits-7000000004718" {
			continue
		}
		limits := &file.Tree.Elements[slices.Index(file.Names, "p16")].Limits
		memory, _ := limits.Get(resource.Memory)
		for change := int64(-8); change <= 8; change++ {
			*limits = limits.With(resource.Memory, memory+change)
			differences := answerDiffers(t, file, want)
			if len(differences) == 0 {
				agree++
			} else {
				differ++
			}
			for _, where := range differences {
				if !strings.HasPrefix(where, "limits-7000000004718/p16/proposed_integral_share/") {
					t.Error(where)
				}
			}
		}
	}
	if agree == 0 || differ == 0 {
		t.Errorf("with %d limits the answers agree, with %d they differ; want both", agree, differ)
	}
}

// hardAnswer is the answer to a hard tree: attributes by name.
type hardAnswer struct{ Elements []map[string]any }

// hardTrees reads the trees on which an earlier engine and YTsaurus's library differed.
func hardTrees(t *testing.T) iter.Seq2[*File, hardAnswer] {
	return func(yield func(*File, hardAnswer) bool) {
		for line := range bytes.Lines(gunzip(t, "hard.jsonl.gz")) {
			var pair struct {
				Input  json.RawMessage
				Output hardAnswer
			}
			if err := json.Unmarshal(line, &pair); err != nil {
				t.Fatal(err)
			}
			file, err := ReadVector(pair.Input)
			if err != nil {
				t.Fatal(err)
			}
			if !yield(file, pair.Output) {
				return
			}
		}
	}
}

// answerDiffers computes a tree and lists where the answer differs.
func answerDiffers(t *testing.T, file *File, want hardAnswer) (found []string) {
	var answer hardAnswer
	if err := json.Unmarshal(AppendAnswer(nil, file, fairshare.Compute(&file.Tree, file.Elapsed)), &answer); err != nil {
		t.Fatal(err)
	}
	got := map[any]map[string]any{}
	for _, e := range answer.Elements {
		got[e["id"]] = e
	}
	for _, e := range want.Elements {
		found = append(found, differences(fmt.Sprintf("%s/%s", file.ID, e["id"]), e, got[e["id"]])...)
	}
	return found
}

// differences lists the numbers of want from which got differs by more than 1e-9;
// what got does not have is zero.
func differences(where string, want, got any) (found []string) {
	switch w := want.(type) {
	case map[string]any:
		g, _ := got.(map[string]any)
		for key, value := range w {
			found = append(found, differences(where+"/"+key, value, g[key])...)
		}
	case []any:
		g, _ := got.([]any)
		for i, value := range w {
			var component any
			if i < len(g) {
				component = g[i]
			}
			found = append(found, differences(fmt.Sprintf("%s/%d", where, i), value, component)...)
		}
	case float64:
		if g, _ := got.(float64); math.Abs(g-w) > 1e-9*max(1, math.Abs(w)) {
			found = append(found, fmt.Sprintf("%s: got %v, want %v", where, g, w))
		}
	}
	return found
}

func TestComparisonSeesWhatDiffers(t *testing.T) {
	const good = `{"id":"t","ok":true,"root":{"id":"<Root>"},"elements":[{"id":"a","fifo_index":1,"fair_share":{"total":[0,0.5,0,0,0]},"accumulated_volume":[0,1e6,0,0,0]}]}`
	for _, test := range []struct {
		name, from, to string
		agrees         bool
	}{
		{"nothing", "", "", true},
		{"a share within the tolerance", "0.5", "0.5000000005", true},
		{"a share beyond the tolerance", "0.5", "0.500000002", false},
		{"a share that is no number", "0.5", "null", false},
		{"a volume within the tolerance", "1e6", "1000000.5", true},
		{"a volume beyond the tolerance", "1e6", "1000002", false},
		{"a missing vector", `"accumulated_volume":[0,1e6,0,0,0]`, `"x":1`, false},
		{"a FIFO index", `"fifo_index":1`, `"fifo_index":2`, false},
		{"another element", `"id":"a"`, `"id":"b"`, false},
		{"a missing element", `{"id":"a","fifo_index":1,"fair_share":{"total":[0,0.5,0,0,0]},"accumulated_volume":[0,1e6,0,0,0]}`, ``, false},
		{"an alert", `"ok":true`, `"ok":true,"errors":[{"code":29000,"message":"x"}]`, false},
		{"a refusal", `"ok":true`, `"ok":false`, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			want, err := ReadAnswer([]byte(good))
			if err != nil {
				t.Fatal(err)
			}
			got, err := ReadAnswer([]byte(strings.Replace(good, test.from, test.to, 1)))
			if err != nil {
				t.Fatal(err)
			}
			var there, back Difference
			there.Add(got, want)
			back.Add(want, got)
			if there.Agrees() != test.agrees || back.Agrees() != test.agrees {
				t.Errorf("agrees: %v and back %v, want %v (%+v)", there.Agrees(), back.Agrees(), test.agrees, there)
			}
		})
	}
}

// tree wraps elements into a tree.
func tree(elements ...string) string {
	return `{"id":"t","total_resources":{"cpu":100,"memory":1000},"elements":[` + strings.Join(elements, ",") + `]}`
}

func TestWrongVectorsAreRefusedWithPathAndRule(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       []string // problems, one per line, without their location
	}{
		{"no JSON", `cpu`, []string{`1:1: a value must be here, not "c"`}},
		{"an empty text", ``, []string{"1:1: the document ends too early"}},
		{"a text that breaks off", `{"elements":[{"id":"a"`, []string{"1:23: elements/0: the document ends too early"}},
		{"a list", `[1]`, []string{"1:1: must be an object, not a list"}},
		{"null", `null`, []string{"1:1: must be an object, not null"}},
		{"two trees", tree() + tree(), []string{"there is something after the tree"}},
		{"a key twice", `{"id":"a","id":"b"}`, []string{"1:11: this key is here for the second time"}},
		{"nothing that is needed", `{}`, []string{"needs total_resources", "needs elements"}},
		{"an unknown key", `{"total_resurces":{},"elements":[]}`, []string{`1:2: total_resurces: unknown key; did you mean "total_resources"?`, "needs total_resources"}},
		{"an unknown key of an element", tree(`{"type":"pool","id":"a","wieght":1}`), []string{`elements/0/wieght: unknown key; did you mean "weight"?`}},
		{"an unknown resource", tree(`{"type":"pool","id":"a","resource_limits":{"cpus":1}}`), []string{`elements/0/resource_limits/cpus: unknown key; did you mean "cpu"?`}},
		{"text for a number", tree(`{"type":"pool","id":"a","weight":"1"}`), []string{`elements/0/weight: must be a number, not "1"`}},
		{"a number for text", tree(`{"type":"pool","id":7}`), []string{`elements/0/id: must be a string, not 7`, "elements/0: needs an id"}},
		{"a number for an object", tree(`7`, `null`), []string{`elements/0: must be an object, not 7`, "elements/1: must be an object, not null"}},
		{"a number for a boolean", tree(`{"type":"operation","id":"a","is_gang":1}`), []string{`elements/0/is_gang: must be true or false, not 1`}},
		{"an unknown word", tree(`{"type":"pool","id":"a","mode":"fifa"}`), []string{`elements/0/mode: must be fair_share or fifo, not "fifa"; did you mean "fifo"?`}},
		{"a negative weight", tree(`{"type":"pool","id":"a","weight":-1}`), []string{"elements/0/weight: must be a number from 1e-100 to 1e+100, not -1"}},
		{"a weight of zero", tree(`{"type":"pool","id":"a","weight":0}`), []string{"elements/0/weight: must be a number from 1e-100 to 1e+100, not 0"}},
		{"a number that is none", tree(`{"type":"pool","id":"a","weight":1e999}`), []string{"elements/0/weight: 1e999 is out of the range of numbers"}},
		{"NaN", tree(`{"type":"pool","id":"a","weight":NaN}`), []string{`elements/0/weight: a value must be here, not "N"`}},
		{"a negative amount", tree(`{"type":"operation","id":"a","resource_demand":{"cpu":-2}}`), []string{"elements/0/resource_demand/cpu: must not be negative, is -2"}},
		{"a part of a byte", tree(`{"type":"operation","id":"a","resource_demand":{"memory":1.5}}`), []string{"elements/0/resource_demand/memory: must be a whole number, not 1.5"}},
		{"usage above demand", tree(`{"type":"operation","id":"a","resource_demand":{"cpu":1},"resource_usage":{"cpu":2}}`),
			[]string{"elements/0/resource_usage: must not exceed resource_demand (cpu=1), is cpu=2"}},
		{"no type", tree(`{"id":"a"}`), []string{"elements/0: needs a type, pool or operation"}},
		{"a pool with demand", tree(`{"type":"pool","id":"a","resource_demand":{}}`), []string{"elements/0/resource_demand: a pool does not have this key; operations do"}},
		{"an operation with a mode", tree(`{"mode":"fifo","type":"operation","id":"a"}`), []string{"elements/0/mode: an operation does not have this key; pools do"}},
		{"an id twice", tree(`{"type":"pool","id":"a"}`, `{"type":"pool","id":"a"}`), []string{`elements/1: the id "a" is taken by elements/0`}},
		{"the id of the root", tree(`{"type":"pool","id":"<Root>"}`), []string{`elements/0: the id "<Root>" is taken by the root`}},
		{"an unknown parent", tree(`{"type":"pool","id":"a","parent":"b"}`), []string{`elements/0/parent: there is no pool "b"`}},
		{"an operation as parent", tree(`{"type":"operation","id":"a"}`, `{"type":"operation","id":"b","parent":"a"}`), []string{`elements/1: its parent "a" is an operation, not a pool`}},
		{"its own parent", tree(`{"type":"pool","id":"a","parent":"a"}`), []string{`elements/0: "a" is its own ancestor`}},
		{"a cycle", tree(`{"type":"pool","id":"a","parent":"c"}`, `{"type":"pool","id":"b","parent":"a"}`, `{"type":"pool","id":"c","parent":"b"}`), []string{`elements/0: "a" is its own ancestor`}},
		{"a pool in a FIFO pool", tree(`{"type":"pool","id":"a","mode":"fifo"}`, `{"type":"pool","id":"b","parent":"a"}`), []string{`elements/1: its parent "a" is a FIFO pool, which may hold operations only`}},
		{"a pool in a FIFO root", `{"total_resources":{},"root":{"mode":"fifo"},"elements":[{"type":"pool","id":"a"}]}`, []string{`its parent "<Root>" is a FIFO pool`}},
		{"a share of three components", tree(`{"type":"operation","id":"a","best_allocation_share":[1,1,1]}`), []string{"elements/0/best_allocation_share: must have 5 components, has 3"}},
		{"a negative time", `{"total_resources":{},"elements":[],"time_since_previous_update":-1}`, []string{"time_since_previous_update: must be a number from 0 to 1e+09, not -1"}},
		{"a smooth period of zero", `{"total_resources":{},"elements":[],"integral_smooth_period":0}`, []string{"integral_smooth_period: must be a number from 1e-06 to 1e+09, not 0"}},
		{"a negative volume", tree(`{"type":"pool","id":"a","integral_guarantees":{"accumulated_volume":{"cpu":-1}}}`), []string{"elements/0/integral_guarantees/accumulated_volume/cpu: must be a number from 0"}},
		{"an unknown FIFO key", tree(`{"type":"pool","id":"a","fifo_sort_parameters":["age"]}`), []string{`elements/0/fifo_sort_parameters/0: must be weight, start_time or pending_allocation_count, not "age"`}},
		{"all of them at once", tree(`{"type":"pool","id":"a","weight":-1}`, `{"type":"pool","id":"a","parent":"b","mode":"x"}`),
			[]string{"elements/0/weight", "elements/1: the id", "elements/1/parent: there is no pool", "elements/1/mode: must be"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := ReadVector([]byte(test.text))
			if err == nil {
				t.Fatal("was read")
			}
			checkProblems(t, err)
			lines := strings.Split(err.Error(), "\n")
			if len(lines) != len(test.want) {
				t.Errorf("%d problems, want %d:\n%v", len(lines), len(test.want), err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got:\n%v\nwant in it: %s", err, want)
				}
			}
		})
	}
}

// within fails a test that computes far longer than necessary: the cost of reading
// is linear in the size of the text. It measures processor time, because a busy
// machine is not the reader's fault.
func within(t *testing.T, limit time.Duration, body func()) {
	t.Helper()
	computed := func() time.Duration {
		var usage syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
			t.Fatal(err)
		}
		return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	start := computed()
	body()
	if took := computed() - start; took > limit {
		t.Errorf("computed for %v, more than %v", took, limit)
	}
}

func TestHugeVectorsAreReadOrRefusedQuickly(t *testing.T) {
	const many = 100_000
	numbered := func(format func(i int) string) string {
		var list []string
		for i := range many {
			list = append(list, format(i))
		}
		return tree(list...)
	}
	for _, test := range []struct {
		name, text, want string
	}{
		{"100,000 elements", numbered(func(i int) string {
			return fmt.Sprintf(`{"type":"operation","id":"o%d","resource_demand":{"cpu":%d.5,"memory":%d},"weight":1.5}`, i, i, i)
		}), ""},
		{"one id for all", numbered(func(int) string { return `{"type":"pool","id":"a"}` }), "and 99899 more problems like these"},
		{"a cycle of all", numbered(func(i int) string {
			return fmt.Sprintf(`{"type":"pool","id":"p%d","parent":"p%d"}`, i, (i+1)%many)
		}), "is its own ancestor"},
		{"a chain of all", numbered(func(i int) string {
			return fmt.Sprintf(`{"type":"pool","id":"p%d","parent":"p%d"}`, i+1, i)
		}), `there is no pool "p0"`},
		{"a chain of all below the root", numbered(func(i int) string {
			if i == 0 {
				return `{"type":"pool","id":"p0"}`
			}
			return fmt.Sprintf(`{"type":"pool","id":"p%d","parent":"p%d"}`, i, i-1)
		}), "pools are nested deeper than 1000 levels"},
		{"nothing but unknown keys", numbered(func(int) string { return `{"typ":"pool"}` }), `unknown key; did you mean "type"?`},
		{"10 MB of lists", `{"comment":` + strings.Repeat("[", 10<<20), "lists and objects are nested deeper than 10,000 levels"},
		{"10 MB of objects", strings.Repeat(`{"options":`, 1<<20), "lists and objects are nested deeper than 10,000 levels"},
		{"10 MB of one string", `{"id":"` + strings.Repeat("x", 10<<20) + `"`, "the document ends too early"},
	} {
		t.Run(test.name, func(t *testing.T) {
			within(t, 30*time.Second, func() {
				_, err := ReadVector([]byte(test.text))
				switch {
				case test.want == "" && err != nil:
					t.Error(err)
				case test.want != "" && err == nil:
					t.Error("was read")
				case test.want != "" && !strings.Contains(err.Error(), test.want):
					t.Errorf("got %.500s, want %s", err, test.want)
				}
			})
		})
	}
}

func TestVectorsReachTheEngine(t *testing.T) {
	file, err := ReadVector([]byte(`{
		"id": "t", "comment": {"any": ["thing"]}, "output": "brief",
		"total_resources": {"user_slots": 10, "cpu": 12.345, "gpu": 1, "user_memory": 1e3, "network": 5},
		"main_resource": "memory", "time_since_previous_update": 0.5,
		"integral_pool_capacity_saturation_period": 3600, "integral_smooth_period": 30.25,
		"relaxed_share_multiplier_limit": 2, "should_distribute_free_volume_among_children": true,
		"infer_weight_from_guarantees_share_multiplier": 10,
		"options": {"enable_step_function_for_gang_operations": true, "enable_improved_fair_share_by_fit_factor_computation": true,
			"enable_improved_fair_share_by_fit_factor_computation_distribution_gap": true, "enable_fast_fifo_fair_share_by_fit_factor_computation": true},
		"root": {"mode": "fair_share", "fifo_sort_parameters": ["start_time"], "should_distribute_free_volume_among_children": true, "compute_promised_guarantee_fair_share": true},
		"elements": [
			{"type": "operation", "id": "o", "parent": "p", "weight": 2.5, "resource_demand": {"cpu": 3, "memory": 9223372036854775807}, "resource_usage": {"cpu": 0.005},
				"resource_limits": {"gpu": 0}, "is_gang": true, "best_allocation_share": [1, 1, 1, 0.5, 1], "start_time": 1.5, "pending_allocation_count": 7},
			{"type": "pool", "id": "p", "parent": null, "\u006dode": "fifo", "fifo_sort_parameters": ["pending_allocation_count", "weight"],
				"strong_guarantee_resources": {"cpu": 1, "gpu": 0}, "enable_step_function_for_gang_operations": false, "compute_promised_guarantee_fair_share": true,
				"enable_priority_strong_guarantee_adjustment": true, "enable_priority_strong_guarantee_adjustment_donorship": true,
				"integral_guarantees": {"guarantee_type": "relaxed", "resource_flow": {"cpu": 2}, "burst_guarantee_resources": {"cpu": 4}, "relaxed_share_multiplier_limit": 5,
					"can_accept_free_volume": false, "should_distribute_free_volume_among_children": false, "accumulated_volume": {"cpu": 0.25}, "last_share_ratio": 0.125}},
			{"type": "operation", "id": "nothing", "best_allocation_share": [0, 0, 0, 0, 0]}
		]}`))
	if err != nil {
		t.Fatal(err)
	}
	wantOptions := fairshare.Options{
		MainResource: resource.Memory, SmoothPeriod: 30250 * time.Millisecond, CapacitySaturationPeriod: time.Hour, RelaxedShareMultiplierLimit: 2,
		DistributeFreeVolume: true, InferWeightMultiplier: 10, GangSteps: true, Improved: true, ImprovedDistributionGap: true,
	}
	root := fairshare.Pool{FIFOKeys: []fairshare.FIFOKey{fairshare.ByStartTime}, Promised: true, Integral: fairshare.Integral{DistributeFreeVolume: fairshare.On}}
	pool := fairshare.Pool{
		Mode: fairshare.FIFO, FIFOKeys: []fairshare.FIFOKey{fairshare.ByPending, fairshare.ByWeight},
		Strong: resource.Partial{}.With(resource.CPU, 100).With(resource.GPU, 0), GangStepsOff: true, Promised: true,
		PriorityAdjustment: true, PriorityDonor: true,
		Integral: fairshare.Integral{
			Type: fairshare.Relaxed, Flow: resource.Amounts{0, 200, 0, 0, 0}, Burst: resource.Amounts{0, 400, 0, 0, 0},
			RelaxedMultiplier: 5, RefuseFreeVolume: true, DistributeFreeVolume: fairshare.Off,
		},
	}
	want := []fairshare.Element{
		{Kind: fairshare.KindPool, Pool: &root},
		{
			Kind: fairshare.KindOperation, Parent: 2, Weight: 2.5, Limits: resource.Partial{}.With(resource.GPU, 0),
			Demand: resource.Amounts{0, 300, 0, resource.Unlimited, 0}, Usage: resource.Amounts{0, 1, 0, 0, 0},
			BestShare: resource.Shares{1, 1, 1, 0.5, 1}, Gang: true, StartTime: 1_500_000, Pending: 7,
		},
		{Kind: fairshare.KindPool, Pool: &pool},
		{Kind: fairshare.KindOperation, Limits: resource.PartialOf(resource.Amounts{})},
	}
	state := fairshare.State{Volume: resource.Volume{0, 0.25, 0, 0, 0}, LastShareRatio: 0.125}
	if file.Tree.Options != wantOptions {
		t.Errorf("options:\n%+v\nwant:\n%+v", file.Tree.Options, wantOptions)
	}
	if total := (resource.Amounts{10, 1235, 1, 1000, 5}); file.Tree.Total != total || file.Elapsed != 500*time.Millisecond || !file.Brief || file.ID != "t" {
		t.Errorf("total %v, elapsed %v, brief %v, id %q", file.Tree.Total, file.Elapsed, file.Brief, file.ID)
	}
	if file.Tree.States[2] != state {
		t.Errorf("state %+v, want %+v", file.Tree.States[2], state)
	}
	compareElements(t, file.Tree.Elements, want)
}

func TestFullAnswersHaveEveryAttribute(t *testing.T) {
	text := strings.Replace(tree(
		`{"type":"pool","id":"p","strong_guarantee_resources":{"cpu":10},"compute_promised_guarantee_fair_share":true,"integral_guarantees":{"guarantee_type":"burst","resource_flow":{"cpu":5},"burst_guarantee_resources":{"cpu":10}}}`,
		`{"type":"pool","id":"f","mode":"fifo"}`,
		`{"type":"operation","id":"o","parent":"p","resource_demand":{"cpu":40}}`,
		`{"type":"operation","id":"x","parent":"f","resource_demand":{"cpu":40}}`,
	), `"id":"t"`, `"id":"t","output":"full"`, 1)
	file, err := ReadVector([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Order    []string `json:"resource_order"`
		Root     map[string]any
		Elements []map[string]any
	}
	if err := json.Unmarshal(AppendAnswer(nil, file, fairshare.Compute(&file.Tree, file.Elapsed)), &answer); err != nil {
		t.Fatal(err)
	}
	all := strings.Fields("id fair_share estimated_guarantee_share usage_share demand_share limits_share dominant_resource effective_weight")
	pools := strings.Fields(`strong_guarantee_share proposed_integral_share inferred_strong_guarantee_resources strong_guarantee_share_by_tier
		burst_ratio total_burst_ratio resource_flow_ratio total_resource_flow_ratio volume_overflow acceptable_volume accepted_free_volume children_volume_overflow`)
	check := func(element map[string]any, keys ...string) {
		t.Helper()
		for _, key := range keys {
			if _, ok := element[key]; !ok {
				t.Errorf("%v has no %s", element["id"], key)
			}
		}
	}
	check(answer.Root, append(all, pools...)...)
	check(answer.Elements[0], append(append(all, pools...), "accumulated_volume", "last_share_ratio", "promised_guarantee_fair_share")...)
	check(answer.Elements[2], all...)
	check(answer.Elements[3], append(all, "fifo_index")...)
	if strings.Join(answer.Order, " ") != "user_slots cpu gpu memory network" {
		t.Errorf("resource_order is %v", answer.Order)
	}
}

func TestBadInputIsAnAnswerToo(t *testing.T) {
	_, err := ReadVector([]byte(`{"id":"tree 1","elements":[]}`))
	if err == nil {
		t.Fatal("was read")
	}
	var bad *BadInput
	if !asBadInput(err, &bad) || bad.ID != "tree 1" {
		t.Fatalf("the error does not know the tree: %v", err)
	}
	answer, readErr := ReadAnswer(AppendBadInput(nil, bad.ID, err))
	if readErr != nil || answer.OK || answer.ID != "tree 1" || !strings.Contains(answer.BadInput, "needs total_resources") {
		t.Errorf("answer %+v, error %v", answer, readErr)
	}
}

func BenchmarkReadVector(b *testing.B) {
	var list []string
	for i := range 100_000 {
		list = append(list, fmt.Sprintf(`{"type":"operation","id":"o%d","resource_demand":{"cpu":%d.5,"memory":%d,"user_slots":3},"resource_usage":{"cpu":0.5},"weight":1.5,"start_time":%d}`, i, i, i, i))
	}
	text := []byte(tree(list...))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := ReadVector(text); err != nil {
			b.Fatal(err)
		}
	}
}
