package scheduling

import (
	"crypto/sha256"
	"reflect"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/value/nodefilter"
	"github.com/weirhq/weir/internal/value/resource"
)

func find(x Explanation, r Refusal) (Obstacle, bool) {
	for _, o := range x.Obstacles {
		if o.Refusal == r {
			return o, true
		}
	}
	return Obstacle{}, false
}

func TestEveryObstacleIsNamedWithItsAmounts(t *testing.T) {
	tree := newTestTree()
	tree.AddNode(cores(4), []string{"a"})
	tree.AddNode(cores(8), []string{"a"})
	tree.AddNode(cores(8), []string{"b"})
	pool := tree.pool("root", "pool", fairshare.Pool{}, 1)
	tree.SetPool(pool, PoolParameters{
		Name: "pool", Element: fairshare.Element{Limits: resource.Partial{}.With(resource.CPU, 3_00)}, Effective: effective(0, 1, 10),
	})
	slot := tree.operation(t, "pool", "op", job(5, 1), 2)
	filter, err := nodefilter.Parse("a")
	if err != nil {
		t.Fatal(err)
	}
	tree.SetOperation(slot, OperationParameters{Filter: filter, Patience: effective(0, 0, 0).Starvation})
	tree.pass(time.Second)
	tree.beat()
	x := tree.Explain(slot, nil, true)
	if x.Waiting != 2 || x.Nodes != 3 || x.Fitting != 1 {
		t.Errorf("%d jobs wait; %d of %d nodes would do", x.Waiting, x.Fitting, x.Nodes)
	}
	if o, ok := find(x, RefusedPoolLimit); !ok || o.Element != pool || o.Resource != resource.CPU || o.Needed != 5_00 || o.Available != 3_00 {
		t.Errorf("the pool's limit: %+v", o)
	}
	if o, ok := find(x, RefusedTag); !ok || o.Nodes != 1 {
		t.Errorf("the filter: %+v", o)
	}
	if o, ok := find(x, RefusedNodeResources); !ok || o.Nodes != 1 || o.Resource != resource.CPU || o.Needed != 5_00 || o.Available != 4_00 {
		t.Errorf("the nodes: %+v", o)
	}
	second := tree.operation(t, "pool", "second", job(1, 1), 1)
	if o, ok := find(tree.Explain(second, nil, true), RefusedCount); !ok || o.Element != pool || o.Needed != 2 || o.Available != 1 {
		t.Errorf("the count: %+v", o)
	}
	tree.Suspend(slot, true)
	if _, ok := find(tree.Explain(slot, nil, true), RefusedSuspended); !ok {
		t.Error("suspension is not named")
	}
}

func TestBannedNodesAndFiltersOfPoolsAreCountedApart(t *testing.T) {
	tree := newTestTree()
	tree.AddNode(cores(4), []string{"a"})
	banned := tree.AddNode(cores(8), []string{"a"})
	tree.AddNode(cores(8), []string{"b"})
	tree.AddNode(cores(8), nil)
	pool := tree.pool("root", "pool", fairshare.Pool{}, 1)
	tree.SetPool(pool, PoolParameters{Name: "pool", Filter: mustParse(t, "a | b"), Effective: effective(0, 10, 10)})
	slot := tree.operation(t, "pool", "op", job(5, 1), 2)
	tree.SetOperation(slot, OperationParameters{Filter: mustParse(t, "!b"), Patience: effective(0, 0, 0).Starvation})
	tree.Ban(slot, banned)
	tree.pass(time.Second)
	want := []Obstacle{
		{Refusal: RefusedTag, Group: none, Element: slot, Nodes: 1, At: []Node{2}},
		{Refusal: RefusedTag, Group: none, Element: pool, Nodes: 1, At: []Node{3}},
		{Refusal: RefusedBanned, Group: none, Element: slot, Nodes: 1, At: []Node{1}},
		{Refusal: RefusedNodeResources, Element: none, Resource: resource.CPU, Needed: 5_00, Available: 4_00, Nodes: 1, TooSmall: 1, At: []Node{0}},
	}
	x := tree.Explain(slot, nil, true)
	if !reflect.DeepEqual(x.Obstacles, want) || x.Nodes != 4 || x.Fitting != 0 {
		t.Errorf("%d nodes, %d fit, %+v", x.Nodes, x.Fitting, x.Obstacles)
	}
}

func TestAnExplanationSaysWhenAnOperationStarvesAndWhomItMayPreempt(t *testing.T) {
	tree := starved(t, job(3, 1))
	slot := tree.slots["starved"]
	began := tree.now
	x := tree.Explain(slot, nil, true)
	s := x.Starvation
	if s.Status != BelowFairShare || s.Starvation != NonStarving || s.BelowSince != began || s.Timeout != 30*time.Second || s.Aggressive || s.Tolerance != 0.8 {
		t.Errorf("at first: %+v", s)
	}
	if p := x.Preemption; p.Priority != NonStarving || p.By != none || p.Normal != 1 || p.Aggressive != 1 {
		t.Errorf("at first: %+v", p)
	}
	if !x.HasShare || x.Share.Slot != slot || len(x.Share.Chain) != 2 || x.Share.Bound != fairshare.BoundDemand {
		t.Errorf("its share: %+v", x.Share)
	}
	if g := x.Groups; len(g) != 1 || g[0].Waiting != 1 || g[0].Resources != job(3, 1) || g[0].Fitting != 0 {
		t.Errorf("its jobs: %+v", g)
	}
	tree.pass(31 * time.Second)
	x = tree.Explain(slot, nil, true)
	if p := x.Preemption; p.Priority != Starving || p.By != slot || x.Starvation.StarvingSince != tree.now {
		t.Errorf("later: %+v, %+v", p, x.Starvation)
	}
	hash := func() [32]byte {
		h := sha256.New()
		tree.Hash(h)
		return [32]byte(h.Sum(nil))
	}
	before := hash()
	tree.Explain(slot, nil, true)
	if hash() != before {
		t.Error("an explanation changes the tree")
	}
}

func TestDetailsOfPoolsOperationsNodesAndAllocations(t *testing.T) {
	tree := newTestTree()
	node := tree.AddNode(cores(10), nil)
	half := resource.Partial{}.With(resource.CPU, 5_00)
	limits := resource.Partial{}.With(resource.CPU, 8_00)
	pool := tree.pool("root", "pool", fairshare.Pool{}, 2)
	burst := fairshare.Pool{Strong: half, Integral: fairshare.Integral{Type: fairshare.Burst, Flow: cores(1), Burst: cores(3)}}
	tree.SetPool(pool, PoolParameters{
		Name: "pool", Specified: limits, Effective: effective(0, 3, 4),
		Element: fairshare.Element{Weight: 2, Limits: limits, Pool: &burst},
	})
	slot := tree.operation(t, "pool", "op", job(2, 1), 10)
	fresh := tree.Pool(pool)
	if fresh.Weight != 0 || !fresh.Shares.Usage.IsZero() || fresh.MaxRunning != 3 || fresh.MaxOperations != 4 {
		t.Errorf("before the first update: %+v", fresh)
	}
	tree.pass(time.Second)
	tree.beat()
	tree.pass(time.Second)
	p := tree.Pool(pool)
	if p.Weight != 2 || p.Limits[resource.CPU] != 8_00 || p.Specified != limits || p.Usage[resource.CPU] != 8_00 ||
		p.Shares.Dominant != resource.CPU || p.StrongGuarantee[resource.CPU] != 0.5 || p.FlowRatio != 0.1 ||
		p.SpecifiedBurstRatio != 0.3 || !p.HasBurst || p.CapacityRatio != 8640 {
		t.Errorf("the pool: %+v", p)
	}
	o := tree.Operation(slot)
	if o.MinNeeded != job(2, 1) || !o.Running || o.WaitsAt != none || o.Starts != 4 || !o.Schedulable ||
		o.UsageShare[resource.CPU] != 0.8 || o.RunningJobs != 4 || o.WaitingJobs != 6 || o.LocalSatisfaction != o.Satisfaction {
		t.Errorf("the operation: %+v", o)
	}
	tree.Suspend(slot, true)
	if tree.Operation(slot).Schedulable {
		t.Error("jobs of a suspended operation may be started")
	}
	if groups := tree.Groups(slot); len(groups) != 1 || groups[0].Waiting != 6 {
		t.Errorf("%+v", groups)
	}
	n := tree.NodeDetails(node)
	if n.Limits != cores(10) || n.Usage[resource.CPU] != 8_00 || n.Jobs[NonPreemptible]+n.Jobs[AggressivelyPreemptible]+n.Jobs[Preemptible] != 4 {
		t.Errorf("the node: %+v", n)
	}
	a := tree.AllocationDetails(tree.NodeAllocations(node)[0])
	if a.Node != node || a.Usage != job(2, 1) || a.Preempted || a.Started != tree.now.Add(-time.Second) {
		t.Errorf("the allocation: %+v", a)
	}
	if tree.Updated() != tree.now || len(tree.Alerts()) != 0 {
		t.Errorf("updated at %v, %v", tree.Updated(), tree.Alerts())
	}
}
