package fairshare

import (
	"testing"

	"github.com/weirhq/weir/internal/value/resource"
)

// 6/1500 + 133/1500 is one unit in the last place more than 139/1500. So the limit
// stops the pool at the last bit of a piece, all of which seems to be within the limit.
// Its curve then ended before the suggestion, and the search for the piece that covers
// the suggestion did not end.
func TestALimitThatIsExceededByTheLastBitOnly(t *testing.T) {
	total := 1500.0
	if 6/total+133/total <= 139/total {
		t.Fatal("the example is wrong: the sum is within the limit")
	}
	tree := newTestTree(resource.Amounts{1500, 1500, 0, 1500})
	tree.pool("root", "limited", Pool{}).Limits = resource.Partial{}.With(resource.CPU, 139)
	tree.operation("limited", "small", resource.Amounts{resource.CPU: 6})
	tree.operation("limited", "large", resource.Amounts{resource.CPU: 133})
	tree.operation("root", "other", tree.Total)
	result := Compute(&tree.Tree, FirstUpdate)
	for name, want := range map[string]float64{"limited": 139 / total, "small": 6 / total, "large": 133 / total, "other": 1 - 139/total} {
		near(t, name, result.Elements[tree.slots[name]].FairShare[resource.CPU], want, 1e-9)
	}
}
