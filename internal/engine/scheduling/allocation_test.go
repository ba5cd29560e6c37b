package scheduling

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/value/resource"
)

// classTree has one operation with allocations of one cpu in a tree of ten.
type classTree struct {
	Tree
	ledger ledger
	entitlement
	bounds classBounds
}

func newClassTree(share, demand float64, allocations int) *classTree {
	t := &classTree{ledger: newLedger()}
	t.elements, t.nodes, t.pulses = make([]element, 1), make([]node, 1), make([]pulse, 1) // used by all allocations
	t.total = resource.Amounts{resource.UserSlots: 10, resource.CPU: 10_00}
	for range allocations {
		t.start(resource.Amounts{resource.UserSlots: 1, resource.CPU: 1_00})
	}
	t.setShare(share, demand)
	return t
}

func (t *classTree) start(usage resource.Amounts) Allocation {
	at := Allocation(len(t.allocations))
	t.allocations = append(t.allocations, allocation{usage: usage, alive: true})
	t.appendAllocation(&t.ledger, at)
	return at
}

// setShare publishes a fair share; thresholds are 0.2 and 1.
func (t *classTree) setShare(share, demand float64) {
	t.share = resource.Shares{resource.UserSlots: share, resource.CPU: share}
	t.demand = resource.Shares{resource.UserSlots: demand, resource.CPU: demand}
	t.bounds.aggressive = t.share.Times(0.2)
	t.bounds.normal = t.share.Times(1)
	t.rebalance(&t.ledger, &t.entitlement, &t.bounds)
}

// classes returns the class of every allocation, oldest first.
func (t *classTree) classes() string {
	var b strings.Builder
	for at := t.ledger.oldest; at != none; at = t.allocations[at].after {
		b.WriteByte("nap"[t.allocations[at].class])
	}
	return b.String()
}

func TestAllocationsAreDividedByTwoThresholds(t *testing.T) {
	tree := newClassTree(0.5, 0.9, 8)
	if got := tree.classes(); got != "naaaappp" {
		t.Errorf("fair share 0.5: %s", got)
	}
	tree.setShare(0.45, 0.9)
	if got := tree.classes(); got != "naaaappp" {
		t.Errorf("the allocation that crosses the bound is on the safe side: %s", got)
	}
	tree.bounds.boundaryIn = true
	tree.setShare(0.45, 0.9)
	if got := tree.classes(); got != "aaaapppp" {
		t.Errorf("with the boundary option it is not: %s", got)
	}
	tree.bounds.boundaryIn = false
	tree.bounds.guard, tree.bounds.guarded = resource.Partial{}.With(resource.UserSlots, 3), true
	tree.setShare(0.5, 0.9)
	if got := tree.classes(); got != "nnnaappp" {
		t.Errorf("three jobs are never preempted: %s", got)
	}
}

func TestANewAllocationIsTheFirstToGo(t *testing.T) {
	tree := newClassTree(0.3, 0.9, 3)
	if got := tree.classes(); got != "naa" {
		t.Errorf("within the fair share: %s", got)
	}
	tree.start(resource.Amounts{resource.UserSlots: 1, resource.CPU: 1_00})
	tree.rebalance(&tree.ledger, &tree.entitlement, &tree.bounds)
	if got := tree.classes(); got != "naap" {
		t.Errorf("above it: %s", got)
	}
	tree.removeAllocation(&tree.ledger, tree.ledger.oldest)
	tree.rebalance(&tree.ledger, &tree.entitlement, &tree.bounds)
	if got := tree.classes(); got != "naa" {
		t.Errorf("when the oldest ends: %s", got)
	}
}

// TestPropertyClassesFollowFromThresholds compares the incrementally moved cuts
// with classes computed from scratch.
func TestPropertyClassesFollowFromThresholds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := newClassTree(0.5, 0.9, 0)
		tree.bounds.boundaryIn = rapid.Bool().Draw(t, "boundary")
		var live []Allocation
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1:
				cpu := rapid.Int64Range(1, 300).Draw(t, "cpu")
				live = append(live, tree.start(resource.Amounts{resource.UserSlots: 1, resource.CPU: cpu}))
			case 2:
				if len(live) > 0 {
					i := rapid.IntRange(0, len(live)-1).Draw(t, "which")
					tree.removeAllocation(&tree.ledger, live[i])
					live = append(live[:i], live[i+1:]...)
				}
			case 3:
				if len(live) > 0 {
					at := rapid.SampledFrom(live).Draw(t, "whose")
					tree.setAllocationUsage(&tree.ledger, at, resource.Amounts{resource.UserSlots: 1, resource.CPU: rapid.Int64Range(0, 300).Draw(t, "cpu")})
				}
			}
			tree.setShare(rapid.SampledFrom([]float64{0, 0.1, 0.5, 2}).Draw(t, "share"), 3)
			checkLedger(t, tree, live)
		}
	})
}

func checkLedger(t *rapid.T, tree *classTree, live []Allocation) {
	var want strings.Builder
	var usage resource.Amounts
	class := NonPreemptible
	count := 0
	sums := [classCount]resource.Amounts{}
	for at := tree.ledger.oldest; at != none; at = tree.allocations[at].after {
		tested := usage
		grown := usage.Add(tree.allocations[at].usage)
		if tree.bounds.boundaryIn {
			tested = grown
		}
		for class < Preemptible {
			bound := &tree.bounds.aggressive
			if class == AggressivelyPreemptible {
				bound = &tree.bounds.normal
			}
			if tree.isBelow(&tree.entitlement, &tree.bounds, bound, tested) {
				break
			}
			class++
		}
		want.WriteByte("nap"[class])
		usage = grown
		sums[tree.allocations[at].class] = sums[tree.allocations[at].class].Add(tree.allocations[at].usage)
		count++
	}
	if got := tree.classes(); got != want.String() {
		t.Fatalf("got %s, want %s", got, want.String())
	}
	if count != len(live) || int(tree.ledger.count) != count || sums != tree.ledger.usage {
		t.Fatalf("%d allocations of %d, usage %v of %v", count, len(live), fmt.Sprint(tree.ledger.usage), sums)
	}
}
