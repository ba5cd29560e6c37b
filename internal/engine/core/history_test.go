package core

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/test/expected"
)

var midnight = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// reporter is the common part of a test and a property.
type reporter interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// world is a core with its nodes and jobs.
type world struct {
	*Core
	tb    reporter
	now   time.Time
	out   Decisions
	nodes map[NodeID]bool
	jobs  map[JobID]Started
	over  map[JobID]bool // stopped or finished; must not appear again
	// reported holds the jobs whose ends the current heartbeat reports.
	reported map[JobID]bool
	ops      map[OperationID]operation.State
	next     OperationID
	// journal records all inputs.
	journal []entry
	// onTake is called before the decisions are processed.
	onTake func()
	// bare worlds keep no journal and check no invariants.
	bare bool
}

// do applies an input and records it.
func (w *world) do(input Input) error {
	if !w.bare {
		w.journal = append(w.journal, entry{w.now, input})
	}
	return w.Apply(w.now, input, &w.out)
}

func parseTree(tb reporter, text string) *pooltree.Tree {
	tb.Helper()
	tree, _, err := pooltree.FromValue(expected.Document(tb, text), pooltree.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return tree
}

func newWorld(tb reporter, pools string) *world {
	w := emptyWorld(tb)
	w.Together(atOnce) // replays run trees one after the other
	w.setTrees(pools)
	return w
}

// emptyWorld returns a world without trees.
func emptyWorld(tb reporter) *world {
	return &world{
		Core: New(DefaultSettings()), tb: tb, now: midnight, nodes: map[NodeID]bool{}, jobs: map[JobID]Started{},
		over: map[JobID]bool{}, reported: map[JobID]bool{}, ops: map[OperationID]operation.State{},
	}
}

// atOnce runs everything concurrently, for the race detector.
func atOnce(count int, do func(int)) {
	var all sync.WaitGroup
	for i := range count {
		all.Go(func() { do(i) })
	}
	all.Wait()
}

func (w *world) setTrees(pools string) {
	w.tb.Helper()
	trees := []document.Named[*pooltree.Tree]{
		{Name: "default", Value: parseTree(w.tb, pools+"\nnodes_filter: '!gpu'")},
		{Name: "gpu", Value: parseTree(w.tb, "nodes_filter: gpu\npools: {production: {max_running_operation_count: 2}}")},
	}
	if err := w.do(&TreesInput{trees, "default"}); err != nil {
		w.tb.Fatal(err)
	}
	w.take()
}

// take processes the core's decisions.
func (w *world) take() {
	if w.onTake != nil {
		w.onTake()
	}
	for _, s := range w.out.Stopped {
		if w.reported[s.Job] {
			continue // when one job of a gang ends, jobs that ended with it are stopped
		}
		started, known := w.jobs[s.Job]
		if !known || started.Node != s.Node || started.Operation != s.Operation {
			w.tb.Fatalf("job %d of operation %d is stopped on node %d, where it does not run", s.Job, s.Operation, s.Node)
		}
		if s.Timeout == 0 {
			w.end(s.Job)
		}
	}
	for _, s := range w.out.Started {
		if _, known := w.jobs[s.Job]; known || w.over[s.Job] {
			w.tb.Fatalf("job %d is started twice", s.Job)
		}
		w.jobs[s.Job] = s
	}
	for _, o := range w.out.Operations {
		if w.ops[o.Operation].IsFinished() {
			w.tb.Fatalf("operation %d goes on after its end", o.Operation)
		}
		w.ops[o.Operation] = o.State
	}
	w.out.Reset()
	clear(w.reported)
	if w.bare {
		return
	}
	if err := w.Verify(); err != nil {
		w.tb.Fatal(err)
	}
}

func (w *world) end(id JobID) {
	delete(w.jobs, id)
	w.over[id] = true
}

func (w *world) start(user, spec string) (OperationID, error) {
	w.tb.Helper()
	s, err := operation.Read(expected.Document(w.tb, spec), operation.ReadOptions{CommandOptional: true})
	if err != nil {
		w.tb.Fatal(err)
	}
	id := w.next
	if err := w.do(&StartInput{id, user, s.Spec}); err != nil {
		return id, err
	}
	w.next++
	w.take()
	return id, nil
}

func (w *world) addNode(id NodeID, cpu int64, tags ...string) {
	w.tb.Helper()
	limits := resource.Amounts{resource.UserSlots: cpu, resource.CPU: cpu * 100, resource.Memory: cpu << 30}
	if err := w.do(&NodeInput{id, fmt.Sprint("node", id), limits, tags}); err != nil {
		w.tb.Fatal(err)
	}
	w.nodes[id] = true
	w.take()
}

// beat sends a heartbeat of a node. Jobs that are being stopped report their end
// with the next one.
func (w *world) beat(id NodeID, finished ...Finished) {
	for _, f := range finished {
		w.end(f.Job)
		w.reported[f.Job] = true
	}
	_ = w.do(&HeartbeatInput{id, finished}) // never refused
	var stopped []Finished
	for _, s := range w.out.Stopped {
		if s.Timeout > 0 {
			stopped = append(stopped, Finished{Job: s.Job, State: JobAborted})
		}
	}
	w.take()
	if len(stopped) > 0 {
		w.beat(id, stopped...)
	}
}

func (w *world) pass(d time.Duration) {
	w.now = w.now.Add(d)
	_ = w.do(&UpdateInput{}) // never refused
	w.take()
}

// running returns the number of an operation's running jobs.
func (w *world) running(id OperationID) (count int) {
	for _, s := range w.jobs {
		if s.Operation == id {
			count++
		}
	}
	return count
}

// some returns the running job with the smallest id not below from.
func (w *world) some(from JobID) (best JobID, ok bool) {
	for id := range w.jobs {
		if id >= from && (!ok || id < best) {
			best, ok = id, true
		}
	}
	return best, ok
}

const threePools = `
max_running_operation_count: 6
max_ephemeral_pool_per_user: 2
pools:
  production: {min_share_resources: {cpu: 8}, weight: 3}
  batch: {mode: fifo, max_running_operation_count: 2, max_operation_count: 5}
  adhoc: {create_ephemeral_subpools: true, ephemeral_subpool_config: {max_running_operation_count: 1}}
`

const fewerPools = `
max_running_operation_count: 4
pools:
  production: {resource_limits: {cpu: 6}, mode: fifo}
  adhoc: {weight: 2}
`

const packedPools = `
use_user_default_parent_pool_map: true
default_parent_pool: adhoc
max_running_operation_count: 5
packing: {enable: true, min_window_size_for_schedule: 1, max_heartbeat_window_size: 3, max_better_past_snapshots: 1}
best_allocation_share_update_period: 30s
node_reconnection_timeout: 0s
pools:
  batch: {weight: 3, create_ephemeral_subpools: true, resource_limits: {cpu: 2}}
  adhoc: {pools: {inner: {}}}
`

// TestPropertyHistories generates random histories with faults and configuration
// changes and checks every invariant after every input.
func TestPropertyHistories(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(r, threePools)
		for id := range NodeID(rapid.IntRange(1, 4).Draw(r, "nodes")) {
			w.addNode(id, rapid.Int64Range(1, 10).Draw(r, "cpu"), tagsOf(id)...)
		}
		w.pass(time.Second)
		for range rapid.IntRange(5, 60).Draw(r, "steps") {
			w.step(r)
		}
	})
}

// tagsOf puts every third node into the other tree.
func tagsOf(id NodeID) []string {
	if id%3 == 2 {
		return []string{"gpu"}
	}
	return nil
}

func (w *world) step(r *rapid.T) {
	node := NodeID(rapid.IntRange(0, 4).Draw(r, "node"))
	op := OperationID(rapid.IntRange(0, int(w.next)).Draw(r, "operation"))
	switch rapid.IntRange(0, 27).Draw(r, "step") {
	case 0, 1:
		spec := fmt.Sprintf(`{pool: %s, pool_trees: %s, weight: %g, is_gang: %v, schedule_in_single_tree: %v, consider_guarantees_for_single_tree: %v, ban_nodes_with_failed_jobs: %v, tasks: {a: {job_count: %d, cpu_limit: %d, memory_limit: 1GiB}, b: {job_count: 1, cpu_limit: 1, memory_limit: 4GiB}}}`,
			rapid.SampledFrom([]string{"production", "batch", "adhoc", "unknown", "other"}).Draw(r, "pool"),
			rapid.SampledFrom([]string{"[default]", "[default]", "[default, gpu]", "[gpu]"}).Draw(r, "trees"),
			rapid.SampledFrom([]float64{1, 2, 0.5}).Draw(r, "weight"), rapid.IntRange(0, 5).Draw(r, "gang") == 0,
			rapid.Bool().Draw(r, "single"), rapid.IntRange(0, 3).Draw(r, "guaranteed") == 0, rapid.Bool().Draw(r, "bans"),
			rapid.IntRange(1, 12).Draw(r, "jobs"), rapid.IntRange(1, 3).Draw(r, "cpu"))
		_, _ = w.start(rapid.SampledFrom([]string{"anna", "boris"}).Draw(r, "user"), spec) // limits may refuse it
	case 2, 3, 4, 5:
		var finished []Finished
		if id, ok := w.some(JobID(rapid.IntRange(0, 40).Draw(r, "job"))); ok && w.jobs[id].Node == node {
			state := rapid.SampledFrom([]JobState{JobCompleted, JobCompleted, JobFailed, JobAborted, JobInterrupted}).Draw(r, "state")
			finished = append(finished, Finished{Job: id, State: state, Reason: operation.AbortOther})
		}
		w.beat(node, finished...)
	case 6, 7:
		w.pass(rapid.SampledFrom([]time.Duration{0, time.Second, 35 * time.Second, 3 * time.Minute}).Draw(r, "time"))
	case 8:
		_ = w.do(&NodeLossInput{node}) // never refused
		w.take()
	case 9:
		w.addNode(node, rapid.Int64Range(1, 10).Draw(r, "cpu"), tagsOf(node)...)
	case 10:
		w.setTrees(rapid.SampledFrom([]string{threePools, fewerPools, packedPools}).Draw(r, "trees"))
	case 11:
		_ = w.do(&AbortInput{op, ""})
		w.take()
	case 12:
		if rapid.Bool().Draw(r, "suspend") {
			_ = w.do(&SuspendInput{op, rapid.Bool().Draw(r, "abort")})
		} else {
			_ = w.do(&ResumeInput{op})
		}
		w.take()
	case 13:
		pool := rapid.SampledFrom([]string{"production", "batch", "adhoc", "new"}).Draw(r, "pool")
		w.change(op, operation.Update{Trees: pooltree.OperationOptions{
			SchedulingOptions: pooltree.SchedulingOptions{Pool: document.Some(pool), Weight: document.Some(2.0)},
		}})
	case 14:
		pools := map[string]string{}
		for _, user := range []string{"anna", "boris"} {
			pools[user] = rapid.SampledFrom([]string{"", "production", "batch", "adhoc", "inner", "unknown"}).Draw(r, "default")
		}
		_ = w.do(&DefaultPoolsInput{pools}) // never refused
		w.take()
	case 15:
		w.look(op)
	case 16:
		settings := DefaultSettings()
		settings.MaxOperations = rapid.IntRange(1, 20).Draw(r, "most")
		settings.NodeTimeout = rapid.SampledFrom([]time.Duration{0, time.Second, time.Minute}).Draw(r, "silence")
		settings.OvercommitPatience = rapid.SampledFrom([]time.Duration{0, 15 * time.Second}).Draw(r, "overcommit")
		settings.MinSpare[resource.CPU] = rapid.Int64Range(0, 400).Draw(r, "spare")
		settings.StuckCheckPeriod = rapid.SampledFrom([]time.Duration{0, time.Second, time.Minute}).Draw(r, "check")
		settings.Stuck.NoProgress, settings.Stuck.Attempts = time.Minute, 1
		if rapid.Bool().Draw(r, "learns") {
			memory := operation.DefaultMemoryConfig()
			settings.Memory = &memory
		}
		if err := w.do(&SettingsInput{settings}); err != nil {
			w.tb.Fatal(err)
		}
		w.take()
	case 17:
		_ = w.do(&SeenInput{node}) // never refused
		w.take()
	case 18:
		w.drift(JobID(rapid.IntRange(0, 40).Draw(r, "job")), rapid.Int64Range(0, 300).Draw(r, "usage"))
	case 19:
		w.reconcile(node, JobID(rapid.IntRange(0, 40).Draw(r, "gone")))
	case 20:
		w.change(op, operation.Update{MaxFailedJobCount: document.Some(rapid.IntRange(0, 3).Draw(r, "failures"))})
	case 21:
		for _, state := range w.PoolStates(nil) {
			state.Clock.BelowSince = w.now
			_ = w.do(&PoolStateInput{state}) // never refused
		}
		_ = w.do(&NextJobInput{w.nextJob + JobID(rapid.IntRange(0, 3).Draw(r, "numbers"))}) // never refused
		w.take()
	case 22:
		w.adopt(op, node, int32(rapid.IntRange(0, 4).Draw(r, "cookie")))
	case 23:
		_, _ = w.startExternal(fmt.Sprintf("{pool: %s, external: {gang_size: %d, gang_whole: %v, free_room_only: %v}}",
			rapid.SampledFrom([]string{"production", "batch"}).Draw(r, "pool"), rapid.IntRange(0, 3).Draw(r, "gang"),
			rapid.Bool().Draw(r, "whole"), rapid.Bool().Draw(r, "free")))
	case 24:
		cpu := rapid.Int64Range(1, 2).Draw(r, "cpu")
		_ = w.offer(op, operation.Offered{
			Task: fmt.Sprint("pods", cpu), Resources: resource.Amounts{resource.UserSlots: 1, resource.CPU: cpu * 100, resource.Memory: 1 << 20},
			Class: operation.Class(rapid.IntRange(0, 2).Draw(r, "class")), Alone: rapid.Bool().Draw(r, "alone"),
			Priority: rapid.Int32Range(-1, 1).Draw(r, "priority"), Cookies: []int32{rapid.Int32Range(0, 5).Draw(r, "first"), rapid.Int32Range(0, 5).Draw(r, "second")},
		})
	case 25:
		_ = w.do(&WithdrawInput{op, fmt.Sprint("pods", rapid.IntRange(1, 2).Draw(r, "cpu")), []int32{rapid.Int32Range(0, 5).Draw(r, "cookie")}})
		w.take()
	case 27:
		_ = w.do(&ClassifyInput{op, rapid.SampledFrom([]string{"a", "b"}).Draw(r, "task"), operation.Class(rapid.IntRange(0, 2).Draw(r, "class")), rapid.Bool().Draw(r, "alone")})
		w.take()
	case 26:
		if rapid.Bool().Draw(r, "pin") {
			_ = w.do(&PinInput{JobID(rapid.IntRange(0, 40).Draw(r, "job")), w.now.Add(rapid.SampledFrom([]time.Duration{time.Second, time.Minute}).Draw(r, "until"))})
		} else {
			_ = w.do(&DeniedClassesInput{node, scheduling.Classes{}.With(int32(rapid.IntRange(0, 2).Draw(r, "denied")))})
		}
		w.take()
	}
}

// startExternal starts an external operation, unless limits refuse it.
func (w *world) startExternal(spec string) (OperationID, error) {
	w.tb.Helper()
	s, err := operation.Read(expected.Document(w.tb, spec), operation.ReadOptions{External: true})
	if err != nil {
		w.tb.Fatal(err)
	}
	id := w.next
	if err := w.do(&StartInput{id, "anna", s.Spec}); err != nil {
		return id, err
	}
	w.next++
	w.take()
	return id, nil
}

// offer offers jobs of an operation, which may refuse them.
func (w *world) offer(op OperationID, offered operation.Offered) error {
	w.tb.Helper()
	err := w.do(&OfferInput{op, offered})
	w.take()
	return err
}

// change updates the parameters of an operation if its pools accept the change.
func (w *world) change(op OperationID, update operation.Update) {
	_ = w.do(&ParametersInput{op, update})
	w.take()
}

// drift changes the CPU usage of the first running job not below from, if there is
// one.
func (w *world) drift(from JobID, cpu int64) {
	id, ok := w.some(from)
	if !ok {
		return
	}
	job := w.jobs[id]
	job.Resources[resource.CPU] = cpu
	w.jobs[id] = job
	_ = w.do(&JobUsageInput{id, job.Resources}) // never refused
	w.take()
}

// reconcile makes a node report all of its running jobs but one.
func (w *world) reconcile(node NodeID, gone JobID) {
	var running []JobID
	for _, id := range slices.Sorted(maps.Keys(w.jobs)) {
		if id == gone && w.jobs[id].Node == node {
			w.end(id)
			w.reported[id] = true
		} else if w.jobs[id].Node == node {
			running = append(running, id)
		}
	}
	_ = w.do(&ReconcileInput{node, running}) // never refused
	w.take()
}

// adopt makes a node report a job that the core did not start.
func (w *world) adopt(op OperationID, node NodeID, cookie int32) {
	a := Adopted{
		Job: w.nextJob + 2, Operation: op, JobRef: operation.JobRef{Cookie: cookie}, Node: node, Started: w.now,
		Resources: resource.Amounts{resource.UserSlots: 1, resource.CPU: 100, resource.Memory: 1 << 30},
	}
	if w.do(&AdoptInput{a}) == nil {
		w.jobs[a.Job] = Started{Job: a.Job, Operation: op, Node: node, Resources: a.Resources, JobRef: a.JobRef}
	}
	w.take()
}

// look calls every read function; none may change anything.
func (w *world) look(op OperationID) {
	w.tb.Helper()
	before := w.hash()
	s := w.Picture(w.now)
	for n := range s.Nodes() {
		w.JobsOn(n.ID)
	}
	w.JobsOf(op)
	_, err := w.ExplainOperation(w.now, op, nil, true)
	if _, there := s.Operation(op); there != (err == nil) {
		w.tb.Fatalf("operation %d is there: %v, explained: %v", op, there, err)
	}
	if w.hash() != before {
		w.tb.Fatal("who looks at the state changes it")
	}
}
