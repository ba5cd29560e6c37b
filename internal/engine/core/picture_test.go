package core

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/value/resource"
)

// busy returns a world with two pools, a full node, and a node that is too small.
func busy(t *testing.T) (w *world, hog, late OperationID) {
	w = newWorld(t, "fair_share_starvation_tolerance: 0.5\npools: {a: {weight: 2, max_running_operation_count: 1, pools: {b: {}}}, c: {resource_limits: {cpu: 7}}}")
	w.addNode(0, 8, "ssd")
	w.addNode(1, 2)
	w.pass(time.Second)
	hog = w.mustStart("{pool: c, tasks: {t: {job_count: 20, cpu_limit: 1, memory_limit: 512MiB}}}")
	w.pass(time.Second)
	w.beat(0)
	late = w.mustStart("{pool: b, tasks: {first: {job_count: 1, cpu_limit: 3, memory_limit: 512MiB}, second: {job_count: 2, cpu_limit: 1, memory_limit: 5GiB}}}")
	w.pass(time.Second)
	return w, hog, late
}

// seatOf returns an operation and its first seat in the current picture.
func (w *world) seatOf(id OperationID) (*Operation, *Seat) {
	w.tb.Helper()
	picture := w.Picture(w.now)
	o, there := picture.Operation(id)
	if !there {
		w.tb.Fatalf("there is no operation %d", id)
	}
	for seat := range picture.Seats(o) {
		return o, seat
	}
	return o, nil
}

func TestAPictureHasWhatReadersAskFor(t *testing.T) {
	w, hog, late := busy(t)
	s := w.Picture(w.now)
	if s.Time != w.now || s.Default != 0 || len(s.Trees) != 2 || s.NodeCount() != 2 || s.OperationCount() != 2 {
		t.Fatalf("%d trees, %d nodes, %d operations", len(s.Trees), s.NodeCount(), s.OperationCount())
	}
	tree, there := s.Tree("default")
	if !there || tree.Total[resource.CPU] != 10_00 || tree.NodeCount != 2 || tree.Updated != w.now || tree.PoolCount() != 4 {
		t.Fatalf("%+v", tree)
	}
	pool := func(name string) *Pool {
		p, there := tree.Pool(name)
		if !there {
			t.Fatalf("there is no pool %s", name)
		}
		return p
	}
	if root := pool(RootName); root != tree.Root() || root != tree.PoolAt(0) || root.Parent != none || root.ChildPools != 2 || root.RunningJobs != 7 ||
		root.Operations != 2 || root.DirectOperations != 0 || root.SchedulableOperations != 2 || root.Usage[resource.CPU] != 7_00 || tree.Path(root) != "" {
		t.Errorf("the root: %+v", root)
	}
	if a := pool("a"); tree.Path(a) != "a" || a.ChildPools != 1 || a.MaxRunning != 1 || a.RunningOperations != 1 || a.Weight != 2 || tree.Effective(a).Tolerance != 0.5 {
		t.Errorf("a: %+v", a)
	}
	if b := pool("b"); tree.Path(b) != "a/b" || tree.PoolIn(b.Parent).Name != "a" || b.DirectOperations != 1 || b.WaitingJobs != 3 || b.Status != scheduling.BelowFairShare {
		t.Errorf("b: %+v", b)
	}
	if c := pool("c"); c.Usage[resource.CPU] != 7_00 || c.Limits[resource.CPU] != 7_00 || !c.Specified.Has(resource.CPU) || c.RunningJobs != 7 {
		t.Errorf("c: %+v", c)
	}
	if _, there := tree.Configured(pool("c")); !there {
		t.Error("c is not configured")
	}
	if _, there := tree.Pool("d"); there {
		t.Error("there is a pool that nobody made")
	}
	o, _ := s.Operation(hog)
	if seat := s.Seat(o, 0); seat.Pool != "c" || seat.RunningJobs != 7 || seat.WaitingJobs != 13 || o.User != "anna" || o.State != operation.Running || o.Statistics.Running != 7 {
		t.Errorf("hog: %+v", o)
	}
	o, _ = s.Operation(late)
	if seat := s.Seat(o, 0); len(seat.Groups) != 2 || seat.MinNeeded[resource.CPU] != 1_00 || seat.BelowSince != w.now || seat.WaitTimeout != 30*time.Second {
		t.Errorf("late: %+v", o)
	}
	if s.Seat(o, 1) != nil {
		t.Error("it has a seat in a tree that it is not in")
	}
	if _, there := s.Operation(99); there {
		t.Error("there is an operation that nobody started")
	}
	for n := range s.Nodes() {
		if n.Name != "node0" || n.Tree != 0 || !n.Online || n.Usage[resource.CPU] != 7_00 || n.Limits != n.Resources || len(n.Tags) != 1 ||
			n.Jobs[0]+n.Jobs[1]+n.Jobs[2] != 7 {
			t.Errorf("the node: %+v", n)
		}
		break
	}
}

func TestRunningJobsAreAskedForByOperationNodeAndNumber(t *testing.T) {
	w, hog, _ := busy(t)
	jobs := w.JobsOf(hog)
	if len(jobs) != 7 || jobs[0].NodeName != "node0" || jobs[0].Task != "t" || jobs[0].Resources[resource.CPU] != 1_00 || jobs[0].Preempted {
		t.Errorf("%+v", jobs)
	}
	if on := w.JobsOn(0); len(on) != 7 || on[0].Job >= on[6].Job {
		t.Errorf("%+v", on)
	}
	if one, ok := w.JobInfo(jobs[0].Job); !ok || !cmp.Equal(one, jobs[0]) {
		t.Errorf("%+v", one)
	}
	if _, ok := w.JobInfo(9999); ok {
		t.Error("there is a job that nobody started")
	}
}

// TestAPictureIsReadWhileTheCoreGoesOn is for the race detector: a picture shares
// nothing that the core or later pictures change.
func TestAPictureIsReadWhileTheCoreGoesOn(t *testing.T) {
	w, hog, late := busy(t)
	s := w.Picture(w.now)
	jobs := w.JobsOf(hog)
	x, err := w.ExplainOperation(w.now, late, nil, true)
	if err != nil {
		t.Fatal(err)
	}
	before := summary(s, jobs, &x)
	done := make(chan string)
	go func() { done <- summary(s, jobs, &x) }()
	w.pass(31 * time.Second)
	for range 3 {
		w.beat(0)
		w.pass(6 * time.Second)
		w.Picture(w.now)
	}
	w.setTrees("pools: {a: {}}")
	if err := w.do(&AbortInput{hog, ""}); err != nil {
		t.Fatal(err)
	}
	w.take()
	w.Picture(w.now)
	if got := <-done; got != before {
		t.Error("a picture changes while it is read")
	}
	if summary(s, jobs, &x) != before {
		t.Error("a picture has changed")
	}
}

// taskNames returns the names of the tasks of a specification: an external operation may
// have none.
func taskNames(spec *operation.Spec) (names string) {
	for _, t := range spec.Tasks {
		names += t.Name + " "
	}
	return names
}

// written returns everything that a picture holds as text.
func written(s *Picture) string {
	var b strings.Builder
	for _, t := range s.Trees {
		fmt.Fprintln(&b, t.ID, t.Name, t.Total, t.NodeCount, t.Updated, t.Alerts, t.Config.Len())
		for p := range t.Pools() {
			fmt.Fprintf(&b, "%s %+v %+v\n", t.Path(p), t.Effective(p), *p)
		}
	}
	for o := range s.Operations() {
		fmt.Fprintf(&b, "%d %s %s %+v\n", o.ID, o.State, taskNames(o.Spec), o.Statistics)
		for seat := range s.Seats(o) {
			fmt.Fprintf(&b, "%+v\n", *seat)
		}
	}
	for n := range s.Nodes() {
		fmt.Fprintf(&b, "%+v\n", *n)
	}
	return b.String()
}

// summary returns everything that readers get by value as text.
func summary(s *Picture, jobs []JobInfo, x *OperationExplanation) string {
	text := written(s) + fmt.Sprintf("%+v\n%+v\n", jobs, x)
	if x.Trees[0].Share != nil {
		text += fmt.Sprintf("%+v\n", *x.Trees[0].Share)
	}
	return text
}

func TestAnExplanationNamesEveryObstacle(t *testing.T) {
	w, hog, late := busy(t)
	x, err := w.ExplainOperation(w.now, late, nil, true)
	if err != nil {
		t.Fatal(err)
	}
	if x.State != operation.Running || x.Block != operation.NotBlocked || len(x.Trees) != 1 {
		t.Fatalf("%+v", x)
	}
	in := x.Trees[0]
	if in.Tree != "default" || in.Pool != "b" || in.Waits != nil || in.Nodes != 2 || in.Fitting != 1 || in.WaitingJobs != 3 {
		t.Errorf("%+v", in)
	}
	first, second := in.Tasks[0], in.Tasks[1]
	if first.Task != "first" || len(first.Obstacles) != 1 || !reflect.DeepEqual(first.Obstacles[0], Obstacle{
		Refusal: scheduling.RefusedNodeResources, Resource: resource.CPU, Needed: 3_00, Available: 2_00, Nodes: 2, TooSmall: 1,
		At: []scheduling.Node{0, 1}, Names: []string{"node0", "node1"},
	}) {
		t.Errorf("%+v", first)
	}
	if second.Task != "second" || len(second.Obstacles) != 1 || second.Fitting != 1 ||
		second.Obstacles[0].Resource != resource.Memory || second.Obstacles[0].Nodes != 1 {
		t.Errorf("%+v", second)
	}
	if in.Share == nil || in.Share.Bound != fairshare.BoundDemand || len(in.Share.Chain) != 4 || in.Share.Chain[0].Pool != "" || in.Share.Chain[2].Pool != "a" {
		t.Errorf("%+v", in.Share)
	}
	if p := in.Preemption; p.Priority != scheduling.NonStarving || p.Starver != "" || p.Normal != 1 {
		t.Errorf("%+v", p)
	}
	h, err := w.ExplainOperation(w.now, hog, nil, true)
	if err != nil {
		t.Fatal(err)
	}
	if o := h.Trees[0].Tasks[0].Obstacles; len(o) != 1 || o[0].Limit == 0 || !reflect.DeepEqual(o[0], Obstacle{
		Refusal: scheduling.RefusedPoolLimit, Pool: "c", Resource: resource.CPU, Needed: 1_00,
		Limit: o[0].Used, Used: o[0].Limit, Option: scheduling.ByResourceLimits, Since: w.now,
	}) {
		t.Errorf("%+v", o)
	}
	if _, err := w.ExplainOperation(w.now, 99, nil, true); err != ErrNoOperation {
		t.Errorf("%v", err)
	}
}

func TestAnExplanationNamesThePoolThatRunsNoMore(t *testing.T) {
	w, _, _ := busy(t)
	w.mustStart("{pool: b, " + oneJob)
	last := w.mustStart("{pool: b, " + oneJob)
	x, err := w.ExplainOperation(w.now.Add(time.Minute), last, nil, true)
	if err != nil {
		t.Fatal(err)
	}
	if x.State != operation.Pending || x.Age != time.Minute {
		t.Errorf("%s for %v", x.State, x.Age)
	}
	if waits := x.Trees[0].Waits; waits == nil || !reflect.DeepEqual(*waits, CountLimit{Pool: "a", Running: 1, Limit: 1, Ahead: 1, Oldest: waits.Oldest}) || len(waits.Oldest) != 1 {
		t.Errorf("%+v", waits)
	}
	if o := x.Trees[0].Obstacles; len(o) != 1 || o[0].Refusal != scheduling.RefusedCount || o[0].Pool != "a" || o[0].Available != 1 {
		t.Errorf("%+v", o)
	}
}
