package ahead_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/engine/why"
	"github.com/weirhq/weir/internal/sim/ahead"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/test/expected"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// live is a core in use.
type live struct {
	*core.Core
	tb   testing.TB
	next core.OperationID
}

// newLive makes a core with nodes of twenty cores.
func newLive(tb testing.TB, pools string, nodes int) *live {
	l := &live{Core: core.New(core.DefaultSettings()), tb: tb}
	l.apply(&core.TreesInput{Trees: []document.Named[*pooltree.Tree]{{Name: "default", Value: l.tree(pools)}}, Default: "default"})
	for id := range core.NodeID(nodes) {
		limits := resource.Amounts{resource.UserSlots: 20, resource.CPU: 20_00, resource.Memory: 64 << 30}
		l.apply(&core.NodeInput{Node: id, Name: fmt.Sprint("node", id), Resources: limits})
	}
	return l
}

func (l *live) tree(text string) *pooltree.Tree {
	l.tb.Helper()
	tree, _, err := pooltree.FromValue(expected.Document(l.tb, text), pooltree.Options{})
	if err != nil {
		l.tb.Fatal(err)
	}
	return tree
}

func (l *live) apply(input core.Input) {
	l.tb.Helper()
	var out core.Decisions
	if err := l.Apply(noon, input, &out); err != nil {
		l.tb.Fatal(err)
	}
}

func (l *live) start(spec string) core.OperationID {
	l.tb.Helper()
	read, err := operation.Read(expected.Document(l.tb, spec), operation.ReadOptions{CommandOptional: true})
	if err != nil {
		l.tb.Fatal(err)
	}
	l.apply(&core.StartInput{Operation: l.next, User: "anna", Spec: read.Spec})
	l.next++
	return l.next - 1
}

// round is one update and a heartbeat of every node.
func (l *live) round() {
	l.apply(&core.UpdateInput{})
	for _, id := range l.OpenNodes() {
		l.apply(&core.HeartbeatInput{Node: id})
	}
}

func name(id core.OperationID) string { return fmt.Sprint("op-", id) }

func (l *live) base() ahead.Base {
	return ahead.Base{Core: l.Core, Now: noon.Add(time.Second), HeartbeatPeriod: 5 * time.Second, UpdatePeriod: time.Second, Name: name}
}

func (l *live) names() ahead.Names {
	return ahead.Names{
		User: "anna", DefaultTree: "default",
		Tree: func(name string) (*pooltree.Tree, bool) { return l.Configuration().Trees[0].Value, name == "default" },
		Replace: func(_ string, v document.Value) (*pooltree.Tree, error) {
			tree, _, err := pooltree.FromValue(v, pooltree.Options{})
			return tree, err
		},
		Node: func(name string) (resource.Amounts, []string, bool) {
			return resource.Amounts{resource.UserSlots: 20, resource.CPU: 20_00, resource.Memory: 64 << 30}, nil, strings.HasPrefix(name, "node")
		},
		Operation: func(given string) (string, error) {
			for id := range l.next {
				if name(id) == given {
					return given, nil
				}
			}
			return "", fmt.Errorf("no operation %s runs or waits", given)
		},
	}
}

func (l *live) ask(question string) *ahead.Report {
	l.tb.Helper()
	plan, err := ahead.Read(expected.Document(l.tb, question), "q.yaml", l.names())
	if err != nil {
		l.tb.Fatal(err)
	}
	report, err := ahead.Run(context.Background(), l.base(), plan)
	if err != nil {
		l.tb.Fatal(err)
	}
	return report
}

// busy is a cluster in which pool research has reached its limit, while nodes have room.
func busy(t *testing.T) *live {
	l := newLive(t, "pools: {research: {resource_limits: {cpu: 20}}, batch: {}}", 4)
	l.start("{pool: research, tasks: {a: {job_count: 60, cpu_limit: 1, memory_limit: 1GiB, job_time_limit: 600000}}}")
	l.start("{pool: batch, tasks: {a: {job_count: 30, cpu_limit: 1, memory_limit: 1GiB, job_time_limit: 1200000}}}")
	l.round()
	return l
}

func row(t *testing.T, r *ahead.Report, name string) *ahead.OperationRow {
	t.Helper()
	for i := range r.Operations {
		if r.Operations[i].Name == name {
			return &r.Operations[i]
		}
	}
	t.Fatalf("%s is not among %+v", name, r.Operations)
	return nil
}

func TestWithoutChangesNothingDiffers(t *testing.T) {
	l := busy(t)
	before, _ := l.Hash()
	r := l.ask("{for: 2h}")
	if len(r.Pools) != 0 || len(r.Operations) != 0 || r.Before != r.After || r.UnchangedOperations != 2 || r.UnchangedPools != 3 {
		t.Errorf("%+v", r)
	}
	if again := l.ask("{for: 2h}"); !reflect.DeepEqual(r, again) {
		t.Errorf("the second run differs: %+v, %+v", r, again)
	}
	if after, _ := l.Hash(); after != before {
		t.Error("a question has changed the core")
	}
}

func TestNoAnswerDependsOnThePace(t *testing.T) {
	l := busy(t)
	const question = "{for: 2h, changes: [{pool: research, set: {resource_limits/cpu: 60}}]}"
	plan, err := ahead.Read(expected.Document(t, question), "q.yaml", l.names())
	if err != nil {
		t.Fatal(err)
	}
	base, paced := l.base(), 0
	base.Pace = func() { paced++ }
	slow, err := ahead.Run(context.Background(), base, plan)
	if err != nil || !reflect.DeepEqual(slow, l.ask(question)) {
		t.Errorf("%v, %+v", err, slow)
	}
	if paced < 1000 { // two runs of 720 updates each
		t.Errorf("it paused only %d times", paced)
	}
}

func TestAHigherLimitFinishesEarlier(t *testing.T) {
	l := busy(t)
	before, _ := l.Hash()
	r := l.ask("{for: 2h, changes: [{pool: research, set: {resource_limits/cpu: 60}}]}")
	o := row(t, r, "op-0")
	// Sixty jobs of ten minutes, of which twenty run: three waves of twenty or, because nodes have room
	// for thirty more, two waves.
	if !o.Before.HasFinished || !o.After.HasFinished || o.Before.Finished < 1750 || o.Before.Finished > 1850 || o.After.Finished < 1150 || o.After.Finished > 1250 || !o.Before.HasStarted {
		t.Errorf("%+v, %+v", o.Before, o.After)
	}
	if r.Pools[0].Pool != "research" && r.Pools[1].Pool != "research" {
		t.Errorf("%+v", r.Pools)
	}
	if after, _ := l.Hash(); after != before {
		t.Error("a question has changed the core")
	}
}

func TestNodesOperationsAndWholeTreesChange(t *testing.T) {
	l := busy(t)
	r := l.ask("{for: 1h, changes: [{lose_nodes: [node0, node1]}, {at: 10m, ban_nodes: [node2]}, {add_nodes: {count: 3, like: node3}}]}")
	if r.Before.Nodes != 4 || r.After.Nodes != 7 {
		t.Errorf("%d → %d nodes", r.Before.Nodes, r.After.Nodes)
	}
	r = l.ask("{for: 1h, changes: [{start: {user: boris, count: 2, spec: {pool: batch, tasks: {b: {job_count: 5, cpu_limit: 2, memory_limit: 1GiB}}}}}, {abort: op-1}]}")
	if o := row(t, r, "new operation 2"); o.Before != nil || o.After.JobsStarted != 5 || o.After.State != "completed" {
		t.Errorf("%+v", o.After)
	}
	if o := row(t, r, "op-1"); o.After.State != "aborted" || o.Before.State != "completed" {
		t.Errorf("%+v, %+v", o.Before, o.After)
	}
	r = l.ask("{for: 1h, changes: [{pools: {pools: {research: {resource_limits: {cpu: 40}}, batch: {}}}}, {operation: op-1, set: {pool: research}}, {suspend: op-0, at: 5m}]}")
	if o := row(t, r, "op-1"); o.After.Pool != "research" {
		t.Errorf("%+v", o.After)
	}
}

// TestGatesHold: gates hold in the run, and a gate of the whole cluster until its
// time.
func TestGatesHold(t *testing.T) {
	l := newLive(t, "pools: {research: {}}", 2)
	l.start("{pool: research, tasks: {a: {job_count: 30, cpu_limit: 1, memory_limit: 1GiB, job_time_limit: 600000}}}")
	l.apply(&core.UpdateInput{})
	base := l.base()
	base.Gates.Nodes = []why.NodeGate{{Node: 0, Name: "node0", Code: why.NodeDraining}}
	base.Gates.Cluster = []why.Gate{{Code: why.SchedulerReviving, Until: noon.Add(5 * time.Minute)}}
	plan, err := ahead.Read(expected.Document(t, "{for: 1h, changes: [{release_nodes: [node0]}]}"), "", l.names())
	if err != nil {
		t.Fatal(err)
	}
	r, err := ahead.Run(context.Background(), base, plan)
	if err != nil {
		t.Fatal(err)
	}
	o := row(t, r, "op-0")
	if o.Before.Started < 299 || o.After.Started < 299 || o.Before.Finished < o.After.Finished+500 {
		t.Errorf("%+v, %+v", o.Before, o.After)
	}
}

func TestBadQuestionsAreRefused(t *testing.T) {
	l := busy(t)
	before, _ := l.Hash()
	for question, word := range map[string]string{
		"{for: 25h}": "at most 1d", "{for: 0s}": "more than zero", "{durations: guessed}": "expected or limits", "{changes: [{}]}": "does nothing",
		"{changes: [{abort: op-7}]}": "no operation op-7", "{changes: [{abort: op-1, suspend: op-1}]}": "several things",
		"{changes: [{lose_nodes: [moon]}]}": `no node "moon"`, "{changes: [{pool: research, set: {weight: heavy}}]}": "weight",
		"{changes: [{pool: moon, set: {weight: 2}}]}": `no pool "moon"`, "{changes: [{tree: moon, set: {main_resource: cpu}}]}": `no pool tree "moon"`,
		"{changes: [{start: {spec: {tasks: {}}}}]}": "tasks", "{changes: [{add_nodes: {like: moon}}]}": "moon", "{chagnes: []}": "changes",
		"{for: 1h, changes: [{at: 2h, abort: op-1}]}": "between 0 and 1h", "{changes: [{pools: {pools: {a: {mode: lifo}}}}]}": "mode",
		"{changes: [{operation: op-1, set: {tasks: {}}}]}": "tasks",
	} {
		_, err := ahead.Read(expected.Document(t, question), "q.yaml", l.names())
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v does not name %q", question, err, word)
		}
	}
	plan := &ahead.Plan{For: time.Hour}
	stopped, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := ahead.Run(stopped, l.base(), plan); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if after, _ := l.Hash(); after != before {
		t.Error("a refused question has changed the core")
	}
}

// BenchmarkWhatIf measures one hour ahead, both runs, on clusters whose nodes run twenty jobs each of
// about half an hour.
func BenchmarkWhatIf(b *testing.B) {
	for _, nodes := range []int{1000, 10_000} {
		l := newLive(b, "max_running_operation_count: 1000\nmax_operation_count: 1000\npools: {full: {resource_limits: {cpu: 100}}, rest: {max_running_operation_count: 500, max_operation_count: 500}}", nodes)
		for i := range 100 {
			l.start(fmt.Sprintf("{pool: rest, tasks: {a: {job_count: %d, cpu_limit: 1, memory_limit: %dMiB, job_time_limit: %d}}}", nodes/4, 1000+i, 1200_000+20_000*i))
		}
		l.start("{pool: full, tasks: {a: {job_count: 100, cpu_limit: 1, memory_limit: 1GiB}}}")
		l.round()
		plan, err := ahead.Read(expected.Document(b, "{for: 1h, durations: limits, changes: [{pool: full, set: {resource_limits/cpu: 1000}}]}"), "", l.names())
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprint(nodes), func(b *testing.B) {
			cpu := expected.CPUTime()
			for b.Loop() {
				if _, err := ahead.Run(context.Background(), l.base(), plan); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((expected.CPUTime()-cpu).Milliseconds())/float64(b.N), "cpu-ms/op")
		})
	}
}

func TestStartsByCountsTheJobsThatStartInTime(t *testing.T) {
	l := busy(t)
	late := l.start("{pool: research, tasks: {a: {job_count: 10, cpu_limit: 1, memory_limit: 1GiB}}}")
	for by, want := range map[time.Duration]bool{5 * time.Minute: false, time.Hour: true} {
		base := l.base()
		starts, first, err := ahead.StartsBy(context.Background(), base, late, by)
		if err != nil || (starts > 0) != want || want && (first.Before(base.Now.Add(9*time.Minute)) || first.After(base.Now.Add(by))) {
			t.Errorf("by %v: %d jobs start, the first at %v, %v", by, starts, first, err)
		}
	}
}
