package why_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/engine/why"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/test/expected"
)

// TestMain makes each property try 1,000 histories; make long tries 100,000.
func TestMain(m *testing.M) { os.Exit(expected.RunProperties(m, 1000)) }

var midnight = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// reporter is the common part of a test and a property.
type reporter interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// world is a live core with its nodes and jobs.
type world struct {
	*core.Core
	tb    reporter
	now   time.Time
	out   core.Decisions
	jobs  map[core.JobID]core.Started
	next  core.OperationID
	gates why.Gates
}

func newWorld(tb reporter, pools string) *world {
	w := &world{Core: core.New(core.DefaultSettings()), tb: tb, now: midnight, jobs: map[core.JobID]core.Started{}}
	w.setTrees(pools)
	return w
}

func (w *world) do(input core.Input) error {
	err := w.Apply(w.now, input, &w.out)
	for _, s := range w.out.Stopped {
		delete(w.jobs, s.Job)
	}
	for _, s := range w.out.Started {
		w.jobs[s.Job] = s
	}
	ends := make([]core.Finished, 0, len(w.out.Stopped))
	for _, s := range w.out.Stopped {
		if s.Timeout > 0 {
			ends = append(ends, core.Finished{Job: s.Job, State: core.JobAborted})
		}
	}
	w.out.Reset()
	if len(ends) > 0 {
		_ = w.do(&core.ReportInput{Finished: ends}) // never refused
	}
	return err
}

func (w *world) must(input core.Input) {
	w.tb.Helper()
	if err := w.do(input); err != nil {
		w.tb.Fatal(err)
	}
}

func (w *world) setTrees(pools string) {
	w.tb.Helper()
	var trees []document.Named[*pooltree.Tree]
	for _, t := range [][2]string{{"default", pools + "\nnodes_filter: '!gpu'"}, {"gpu", "nodes_filter: gpu\npools: {production: {max_running_operation_count: 2}}"}} {
		tree, _, err := pooltree.FromValue(expected.Document(w.tb, t[1]), pooltree.Options{})
		if err != nil {
			w.tb.Fatal(err)
		}
		trees = append(trees, document.Named[*pooltree.Tree]{Name: t[0], Value: tree})
	}
	w.must(&core.TreesInput{Trees: trees, Default: "default"})
}

func (w *world) addNode(id core.NodeID, cpu int64, tags ...string) {
	w.tb.Helper()
	limits := resource.Amounts{resource.UserSlots: cpu, resource.CPU: cpu * 100, resource.Memory: cpu << 30}
	w.must(&core.NodeInput{Node: id, Name: fmt.Sprint("node", id), Resources: limits, Tags: tags})
}

func (w *world) start(spec string) (core.OperationID, error) {
	w.tb.Helper()
	s, err := operation.Read(expected.Document(w.tb, spec), operation.ReadOptions{CommandOptional: true})
	if err != nil {
		w.tb.Fatal(err)
	}
	id := w.next
	if err := w.do(&core.StartInput{Operation: id, User: "anna", Spec: s.Spec}); err != nil {
		return id, err
	}
	w.next++
	return id, nil
}

func (w *world) mustStart(spec string) core.OperationID {
	w.tb.Helper()
	id, err := w.start(spec)
	if err != nil {
		w.tb.Fatal(err)
	}
	return id
}

func (w *world) pass(d time.Duration) {
	w.now = w.now.Add(d)
	w.must(&core.UpdateInput{})
}

func (w *world) beat(ids ...core.NodeID) {
	for _, id := range ids {
		w.must(&core.HeartbeatInput{Node: id})
	}
}

// look explains a copy of the world as it is now.
func (w *world) look() *why.Scene { return why.Look(w.Fork(), w.now, w.gates) }

func (w *world) explain(id core.OperationID) *why.Operation {
	w.tb.Helper()
	x, err := w.look().Operation(id)
	if err != nil {
		w.tb.Fatal(err)
	}
	return x
}

// twin is the obvious way to find out what starts: a copy of the live core, one update, and a
// heartbeat of every node that would get work.
func (w *world) twin() []core.Started {
	c := w.Fork()
	var out core.Decisions
	_ = c.Apply(w.now, &core.UpdateInput{}, &out)
	out.Reset()
	if len(w.gates.Cluster) > 0 {
		return nil
	}
	for id := range c.NextNode() {
		gated := slices.ContainsFunc(w.gates.Nodes, func(g why.NodeGate) bool { return g.Node == id })
		_, in := c.NodeTree(id)
		if in && !gated && !c.IsAwaited(id) {
			_ = c.Apply(w.now, &core.HeartbeatInput{Node: id}, &out)
		}
	}
	return out.Started
}

var configurations = []string{`
max_running_operation_count: 6
pools:
  production: {min_share_resources: {cpu: 8}, weight: 3, resource_limits: {cpu: 6}}
  batch: {mode: fifo, max_running_operation_count: 2, max_operation_count: 5}
  adhoc: {max_share_ratio: 0.5, pools: {inner: {resource_limits: {memory: 3GiB, cpu: 4}}}}
`, `
max_running_operation_count: 4
pools:
  production: {resource_limits: {cpu: 6}, mode: fifo}
  batch: {max_share_ratio: 0}
  adhoc: {weight: 2, scheduling_tag_filter: fast, pools: {inner: {}}}
`, `
packing: {enable: true, min_window_size_for_schedule: 1, max_heartbeat_window_size: 3, max_better_past_snapshots: 1}
pools:
  production: {}
  batch: {weight: 3, resource_limits: {cpu: 2}}
  adhoc: {pools: {inner: {}}}
`}

// draw makes a random history.
func draw(r *rapid.T) *world {
	w := newWorld(r, rapid.SampledFrom(configurations).Draw(r, "configuration"))
	for id := range core.NodeID(rapid.IntRange(1, 4).Draw(r, "nodes")) {
		w.addNode(id, rapid.Int64Range(1, 10).Draw(r, "cpu"), tagsOf(r, id)...)
	}
	w.pass(time.Second)
	for range rapid.IntRange(5, 40).Draw(r, "steps") {
		w.step(r)
	}
	if rapid.IntRange(0, 9).Draw(r, "gated") == 0 {
		w.gates.Cluster = []why.Gate{{Code: rapid.SampledFrom([]why.Code{why.SchedulerReviving, why.SchedulerOverloaded, why.StoreUnavailable}).Draw(r, "gate")}}
	}
	if rapid.IntRange(0, 4).Draw(r, "node gated") == 0 {
		w.gates.Nodes = []why.NodeGate{{Node: 0, Name: "node0", Code: why.NodeDraining, Resources: resource.Amounts{100, 100_00, 0, 100 << 30}}}
	}
	return w
}

func tagsOf(r *rapid.T, id core.NodeID) (tags []string) {
	if id == 3 {
		return []string{"gpu"}
	}
	if rapid.Bool().Draw(r, "fast") {
		tags = append(tags, "fast")
	}
	return tags
}

func (w *world) step(r *rapid.T) {
	node := core.NodeID(rapid.IntRange(0, 3).Draw(r, "node"))
	op := core.OperationID(rapid.IntRange(0, int(w.next)).Draw(r, "operation"))
	switch rapid.IntRange(0, 13).Draw(r, "step") {
	case 0, 1, 2:
		spec := fmt.Sprintf(`{pool: %s, pool_trees: %s, weight: %g, is_gang: %v, preemption_mode: %s, scheduling_tag_filter: %q, ban_nodes_with_failed_jobs: %v, resource_limits: %s, tasks: {a: {job_count: %d, cpu_limit: %d, memory_limit: 1GiB}, b: {job_count: 1, cpu_limit: 1, memory_limit: 4GiB}}}`,
			rapid.SampledFrom([]string{"production", "batch", "adhoc", "inner", "other"}).Draw(r, "pool"),
			rapid.SampledFrom([]string{"[default]", "[default]", "[default, gpu]", "[gpu]"}).Draw(r, "trees"),
			rapid.SampledFrom([]float64{1, 2, 0.5}).Draw(r, "weight"), rapid.IntRange(0, 5).Draw(r, "gang") == 0,
			rapid.SampledFrom([]string{"normal", "normal", "graceful"}).Draw(r, "mode"),
			rapid.SampledFrom([]string{"", "", "fast", "absent"}).Draw(r, "filter"), rapid.Bool().Draw(r, "bans"),
			rapid.SampledFrom([]string{"{}", "{}", "{cpu: 3}", "{user_slots: 0}"}).Draw(r, "limits"),
			rapid.IntRange(1, 12).Draw(r, "jobs"), rapid.IntRange(1, 3).Draw(r, "cpu"))
		_, _ = w.start(spec) // limits may refuse it
	case 3, 4, 5, 6:
		var finished []core.Finished
		ids := slices.Sorted(maps.Keys(w.jobs))
		if len(ids) > 0 {
			job := ids[rapid.IntRange(0, len(ids)-1).Draw(r, "job")]
			if w.jobs[job].Node == node {
				state := rapid.SampledFrom([]core.JobState{core.JobCompleted, core.JobFailed, core.JobAborted}).Draw(r, "state")
				finished = append(finished, core.Finished{Job: job, State: state, Reason: operation.AbortOther})
				delete(w.jobs, job)
			}
		}
		w.must(&core.HeartbeatInput{Node: node, Finished: finished})
	case 7, 8:
		w.pass(rapid.SampledFrom([]time.Duration{0, time.Second, 35 * time.Second, 3 * time.Minute}).Draw(r, "time"))
	case 9:
		w.must(&core.NodeLossInput{Node: node})
	case 10:
		w.addNode(node, rapid.Int64Range(1, 10).Draw(r, "cpu"), tagsOf(r, node)...)
	case 11:
		if rapid.Bool().Draw(r, "suspend") {
			_ = w.do(&core.SuspendInput{Operation: op})
		} else {
			_ = w.do(&core.ResumeInput{Operation: op})
		}
	case 12:
		w.setTrees(rapid.SampledFrom(configurations).Draw(r, "configuration"))
	case 13:
		w.must(&core.SeenInput{Node: node})
	}
}
