package scheduling

import (
	"testing"
	"time"

	"github.com/weirhq/weir/internal/fairshare"
	"github.com/weirhq/weir/internal/nodefilter"
	"github.com/weirhq/weir/internal/resource"
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
	x := tree.Explain(slot)
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
	if o, ok := find(tree.Explain(second), RefusedCount); !ok || o.Element != pool || o.Needed != 2 || o.Available != 1 {
		t.Errorf("the count: %+v", o)
	}
	tree.Suspend(slot, true)
	if _, ok := find(tree.Explain(slot), RefusedSuspended); !ok {
		t.Error("suspension is not named")
	}
}
