package feasibility_test

import (
	"testing"

	"github.com/weirhq/weir/internal/engine/feasibility"
)

// The integral-guarantees document: the two pools of the example must be in one
// tree; their places in it do not matter.
func TestTheDocumentsExampleNeedsOneTreeAndNothingElse(t *testing.T) {
	none := func(name string, parent int) feasibility.Pool {
		return feasibility.Pool{Name: name, Parent: parent}
	}
	for name, pools := range map[string][]feasibility.Pool{
		"below the root":     {burst("production", root, 2000, 1000), relaxed("research", root, 1000)},
		"in one pool":        {none("both", root), burst("production", 0, 2000, 1000), relaxed("research", 0, 1000)},
		"in different pools": {none("a", root), none("b", root), burst("production", 0, 2000, 1000), relaxed("research", 1, 1000)},
		"deep down":          {none("a", root), none("b", 0), burst("production", 1, 2000, 1000), none("c", root), relaxed("research", 3, 1000)},
	} {
		t.Run(name, func(t *testing.T) {
			if v := check(t, proportional(2000), pools...); !v.OK || v.Needs.String() != "2000 cpu" {
				t.Errorf("needs %v: %v", v.Needs, v.Findings)
			}
		})
	}
	t.Run("in two trees they need 3000 cores", func(t *testing.T) {
		production := check(t, proportional(2000), burst("production", root, 2000, 1000))
		research := check(t, proportional(1000), relaxed("research", root, 1000))
		if !production.OK || !research.OK || production.Needs.String() != "2000 cpu" || research.Needs.String() != "1000 cpu" {
			t.Errorf("needs %v and %v", production.Needs, research.Needs)
		}
	})
}

// The document's burst example: 2000 cores for two hours a day cost a twelfth of
// that on average, and a relaxed pool can be promised the rest.
func TestWhatAPeakOfTwoHoursLeavesCanBePromised(t *testing.T) {
	const flow = 2000 * 2 / 24.0
	if v := check(t, proportional(2000), burst("peak", root, 2000, flow), relaxed("rest", root, 2000-flow-1)); !v.OK {
		t.Error(v.Findings)
	}
	v := check(t, proportional(2000), burst("peak", root, 2000, flow), relaxed("rest", root, 2000-flow+1))
	if v.OK || broken(v)[0] != "flow_over_cluster: peak rest" {
		t.Error(v.Findings)
	}
}
