package scheduling

import (
	"math"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/value/nodefilter"
	"github.com/weirhq/weir/internal/value/resource"
)

func mustParse(tb testing.TB, text string) nodefilter.Filter {
	tb.Helper()
	f, err := nodefilter.Parse(text)
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

func (t *testTree) best(name string) float64 {
	return t.shares.Elements[t.slots[name]].BestShare[resource.Memory]
}

func expectBest(t *testing.T, tree *testTree, name string, want float64) {
	t.Helper()
	if got := tree.best(name); math.Abs(got-want) > 1e-12 {
		t.Errorf("%s: the best share is %g, want %g", name, got, want)
	}
}

func TestSharesAreBoundedByWhatFitsIntoTheMemoryOfNodes(t *testing.T) {
	tree := newTestTree()
	tree.settings.BestSharePeriod, tree.settings.NodeReconnection = time.Minute, 5*time.Minute
	tree.AddNode(amounts(10, 10), []string{"ssd"})
	tree.AddNode(amounts(10, 10), nil)
	tree.AddNode(amounts(10, 12), nil)
	tree.operation(t, "root", "large", job(1, 6), 10)
	tree.operation(t, "root", "small", job(1, 1), 10)
	filtered := tree.operation(t, "root", "filtered", job(1, 6), 10)
	tree.SetOperation(filtered, OperationParameters{Filter: mustParse(t, "ssd")})
	pool := tree.pool("root", "pool", fairshare.Pool{}, 1)
	tree.SetPool(pool, PoolParameters{Name: "pool", Filter: mustParse(t, "!ssd"), Effective: effective(0, 10, 10)})
	tree.operation(t, "pool", "below", job(1, 6), 10)
	tree.pass(time.Second)
	expectBest(t, tree, "large", 0)
	tree.pass(5 * time.Minute)
	expectBest(t, tree, "large", 24./32)
	expectBest(t, tree, "small", 0) // not bounded
	expectBest(t, tree, "filtered", 6./32)
	expectBest(t, tree, "below", 18./32)
	if share := tree.Operation(tree.slots["large"]).Share.Total[resource.Memory]; share > 24./32 {
		t.Errorf("the fair share is %g", share)
	}
	// New operations get their bound at once, others once per period.
	tree.AddNode(amounts(10, 32), nil)
	tree.operation(t, "root", "new", job(1, 6), 10)
	tree.pass(time.Second)
	expectBest(t, tree, "new", 54./64)
	expectBest(t, tree, "large", 24./32)
	tree.pass(time.Minute)
	expectBest(t, tree, "large", 54./64)
	// Changing the parameters does not change the bound.
	tree.SetOperation(tree.slots["large"], OperationParameters{})
	expectBest(t, tree, "large", 54./64)
}

func TestAnOperationWithoutDemandHasNoBound(t *testing.T) {
	tree := newTestTree()
	tree.settings.BestSharePeriod = time.Minute
	tree.AddNode(amounts(10, 10), nil)
	slot := tree.operation(t, "root", "op", job(1, 6), 10)
	tree.Suspend(slot, true)
	tree.pass(time.Second)
	expectBest(t, tree, "op", 0)
	tree.Suspend(slot, false)
	tree.pass(time.Minute)
	expectBest(t, tree, "op", 0.6)
}
