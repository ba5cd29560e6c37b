package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/value/resource"
)

// busy is a world with two pools, a node that is full and one too small.
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

func TestASnapshotHasWhatReadersAskFor(t *testing.T) {
	w, hog, late := busy(t)
	s := w.Snapshot(w.now)
	if s.Time != w.now || s.Default != 0 || len(s.Trees) != 2 || len(s.Nodes) != 2 || len(s.Operations) != 2 {
		t.Fatalf("%d trees, %d nodes, %d operations", len(s.Trees), len(s.Nodes), len(s.Operations))
	}
	tree := s.Trees[0]
	if tree.Name != "default" || tree.Limits[resource.CPU] != 10_00 || tree.Usage[resource.CPU] != 7_00 || len(tree.Nodes) != 2 || tree.Updated != w.now {
		t.Errorf("%+v", tree)
	}
	pools := map[string]PoolInfo{}
	for _, p := range tree.Pools {
		pools[p.Name] = p
	}
	if root := pools[RootName]; root.Parent != none || root.ChildPools != 2 || root.RunningJobs != 7 || root.Operations != 2 || root.DirectOperations != 0 {
		t.Errorf("the root: %+v", root)
	}
	if a := pools["a"]; a.Path != "a" || a.ChildPools != 1 || a.Pool.MaxRunning != 1 || a.RunningOperations != 1 || a.Weight != 2 || a.Config == nil || a.Effective.Tolerance != 0.5 {
		t.Errorf("a: %+v", a)
	}
	if b := pools["b"]; b.Path != "a/b" || tree.Pools[b.Parent].Name != "a" || b.DirectOperations != 1 || b.WaitingJobs != 3 || b.Status != scheduling.BelowFairShare {
		t.Errorf("b: %+v", b)
	}
	if c := pools["c"]; c.Usage[resource.CPU] != 7_00 || c.Limits[resource.CPU] != 7_00 || !c.Specified.Has(resource.CPU) || c.RunningJobs != 7 {
		t.Errorf("c: %+v", c)
	}
	for _, o := range s.Operations {
		p := o.Places[0]
		switch o.Operation {
		case hog:
			if p.Pool != "c" || p.RunningJobs != 7 || p.WaitingJobs != 13 || o.User != "anna" || o.State != operation.Running || o.Statistics.Running != 7 {
				t.Errorf("hog: %+v", o)
			}
		case late:
			if len(p.Operation.Groups) != 2 || p.Operation.MinNeeded[resource.CPU] != 1_00 || p.BelowSince != w.now || p.WaitTimeout != 30*time.Second {
				t.Errorf("late: %+v", o)
			}
		}
	}
	n := s.Nodes[0]
	if n.Name != "node0" || n.Tree != 0 || !n.Online || n.Usage[resource.CPU] != 7_00 || n.Limits != n.Resources || len(n.Tags) != 1 ||
		n.Jobs[0]+n.Jobs[1]+n.Jobs[2] != 7 {
		t.Errorf("the node: %+v", n)
	}
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

// TestASnapshotIsReadWhileTheCoreGoesOn is for the race detector: a snapshot
// shares nothing that the core changes.
func TestASnapshotIsReadWhileTheCoreGoesOn(t *testing.T) {
	w, hog, late := busy(t)
	s := w.Snapshot(w.now)
	jobs := w.JobsOf(hog)
	x, err := w.ExplainOperation(w.now, late)
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
	}
	w.setTrees("pools: {a: {}}")
	if err := w.do(&AbortInput{hog, ""}); err != nil {
		t.Fatal(err)
	}
	w.take()
	if got := <-done; got != before {
		t.Error("a snapshot changes while it is read")
	}
	if summary(s, jobs, &x) != before {
		t.Error("a snapshot has changed")
	}
}

// summary writes down everything that snapshots hold by value.
func summary(s *Snapshot, jobs []JobInfo, x *OperationExplanation) string {
	var b strings.Builder
	for i := range s.Trees {
		t := &s.Trees[i]
		fmt.Fprintln(&b, t.Name, t.Limits, t.Usage, t.Nodes, t.Updated, t.Alerts, t.Config.Len())
		for j := range t.Pools {
			p := &t.Pools[j]
			fmt.Fprintf(&b, "%s %s %d %+v %+v\n", p.Name, p.Path, p.Parent, p.Effective, p.Details)
		}
	}
	for i := range s.Operations {
		o := &s.Operations[i]
		fmt.Fprintf(&b, "%d %s %+v %s %+v\n", o.Operation, o.State, o.Places, o.Spec.Tasks[0].Name, o.Statistics)
	}
	fmt.Fprintf(&b, "%+v\n%+v\n%+v\n", s.Nodes, jobs, x)
	if x.Trees[0].Share != nil {
		fmt.Fprintf(&b, "%+v\n", *x.Trees[0].Share)
	}
	return b.String()
}

func TestAnExplanationNamesEveryObstacle(t *testing.T) {
	w, hog, late := busy(t)
	x, err := w.ExplainOperation(w.now, late)
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
	if first.Task != "first" || len(first.Obstacles) != 1 || first.Obstacles[0] != (Obstacle{
		Refusal: scheduling.RefusedNodeResources, Resource: resource.CPU, Needed: 3_00, Available: 2_00, Nodes: 2, TooSmall: 1,
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
	h, err := w.ExplainOperation(w.now, hog)
	if err != nil {
		t.Fatal(err)
	}
	if o := h.Trees[0].Tasks[0].Obstacles; len(o) != 1 || o[0] != (Obstacle{
		Refusal: scheduling.RefusedPoolLimit, Pool: "c", Resource: resource.CPU, Needed: 1_00,
	}) {
		t.Errorf("%+v", o)
	}
	if _, err := w.ExplainOperation(w.now, 99); err != ErrNoOperation {
		t.Errorf("%v", err)
	}
}

func TestAnExplanationNamesThePoolThatRunsNoMore(t *testing.T) {
	w, _, _ := busy(t)
	w.mustStart("{pool: b, " + oneJob)
	last := w.mustStart("{pool: b, " + oneJob)
	x, err := w.ExplainOperation(w.now.Add(time.Minute), last)
	if err != nil {
		t.Fatal(err)
	}
	if x.State != operation.Pending || x.Age != time.Minute {
		t.Errorf("%s for %v", x.State, x.Age)
	}
	if waits := x.Trees[0].Waits; waits == nil || *waits != (CountLimit{Pool: "a", Running: 1, Limit: 1, Ahead: 1}) {
		t.Errorf("%+v", waits)
	}
	if o := x.Trees[0].Obstacles; len(o) != 1 || o[0].Refusal != scheduling.RefusedCount || o[0].Pool != "a" || o[0].Available != 1 {
		t.Errorf("%+v", o)
	}
}
