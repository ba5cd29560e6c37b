package fairshare

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/test/expected"
)

// twin computes fair shares straight from the definitions, by bisection at
// every level and without any function being built: slow and obvious. It knows
// trees without integral guarantees and without the improved computation.
//
//	operation  kept usage first, then a straight line to the demand
//	pool       the largest fit factor at which the children together stay
//	           within min(guarantee + s, limits)
type twin struct {
	tree     *Tree
	result   *Result // for effective guarantees, weights and limits only
	children [][]int32
}

// bisections is the number of halvings at each level.
const bisections = 48

func newTwin(tree *Tree, result *Result) *twin {
	w := &twin{tree, result, make([][]int32, len(tree.Elements))}
	for slot := 1; slot < len(tree.Elements); slot++ {
		w.children[tree.Elements[slot].Parent] = append(w.children[tree.Elements[slot].Parent], int32(slot))
	}
	return w
}

// largest bisects for the largest f in [0, top] at which within holds.
func largest(top float64, within func(f float64) bool) float64 {
	if within(top) {
		return top
	}
	low, high := 0.0, top
	for range bisections {
		if middle := (low + high) / 2; within(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}

func (w *twin) at(slot int32, s float64) resource.Shares {
	if w.result.Pool(slot) == nil {
		return w.operation(slot, s)
	}
	return w.sum(slot, w.factor(slot, s))
}

// factor returns the largest fit factor that suggestion s admits.
func (w *twin) factor(slot int32, s float64) float64 {
	p := w.result.Pool(slot)
	least := w.sum(slot, 0)
	most := p.Guarantee.Max(least).Add(resource.Uniform(s)).Min(p.Limits.Max(least))
	top := 1.0
	if settingsOf(&w.tree.Elements[slot]).Mode == FIFO {
		top = float64(len(w.children[slot]))
	}
	return largest(top, func(f float64) bool { return most.Dominates(w.sum(slot, f)) })
}

// sum returns the total share of a pool's children at fit factor f.
func (w *twin) sum(slot int32, f float64) (sum resource.Shares) {
	for _, child := range w.children[slot] {
		sum = sum.Add(w.at(child, w.suggestion(slot, child, f)))
	}
	return sum
}

func (w *twin) suggestion(slot, child int32, f float64) float64 {
	if settingsOf(&w.tree.Elements[slot]).Mode == FIFO {
		return min(1, max(0, f-float64(w.result.Elements[child].FIFOIndex)))
	}
	least := w.result.Elements[child].Weight
	for _, sibling := range w.children[slot] {
		least = min(least, w.result.Elements[sibling].Weight)
	}
	return min(1, f*w.result.Elements[child].Weight/least)
}

func (w *twin) operation(slot int32, s float64) resource.Shares {
	a := w.result.Attributes(w.tree, slot)
	most := resource.Uniform(s).Min(a.Limits)
	largestUsage := a.Usage.Largest()
	by := func(f float64) resource.Shares {
		if f <= 1 {
			return a.Usage.Min(resource.Uniform(f * largestUsage))
		}
		return a.Usage.Add(a.Demand.Sub(a.Usage).Times(f - 1))
	}
	return by(largest(2, func(f float64) bool { return most.Dominates(by(f)) }))
}

// compare descends the tree as the engine does and compares every share.
func (w *twin) compare(slot int32, s float64) error {
	const step = 1e-6
	got, want := w.result.Elements[slot].FairShare, w.at(slot, s)
	if !got.Near(want, step) {
		return fmt.Errorf("element %d at suggestion %g: engine %v, twin %v", slot, s, got, want)
	}
	if w.result.Pool(slot) == nil {
		return nil
	}
	f := w.factor(slot, s)
	for _, child := range w.children[slot] {
		if err := w.compare(child, w.suggestion(slot, child, f)); err != nil {
			return err
		}
	}
	return nil
}

func TestTwinAgrees(t *testing.T) {
	for _, c := range []struct {
		name               string
		guarantees, limits bool
	}{
		{"weights", false, false},
		{"guarantees", true, false},
		{"guarantees and limits", true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(expected.Fewer(100)) {
				tree := smallTree(rand.New(rand.NewPCG(seed, 11)), c.guarantees, c.limits)
				w := newTwin(tree, Compute(tree, FirstUpdate))
				if err := w.compare(0, 1); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
		})
	}
}

// smallTree returns a tree with at most two levels of pools. It draws numbers
// evenly, unlike the property tests, which prefer round ones: where a jump meets a
// limit exactly, bisection and the engine may end on different sides of it.
func smallTree(rng *rand.Rand, guarantees, limits bool) *Tree {
	tree := &Tree{Options: DefaultOptions(), Elements: []Element{{Kind: KindPool}}}
	tree.Total = resource.Amounts{10_000_019, 1_000_000_007, 0, 1<<40 + 15, 0}
	pools := rng.IntN(4)
	for range pools {
		element := Element{Kind: KindPool, Weight: 0.1 + 10*rng.Float64(), Pool: &Pool{}}
		if rng.IntN(3) == 0 {
			element.Pool.Mode = FIFO
		}
		if guarantees {
			element.Pool.Strong = onlyMain(tree, 0.3*rng.Float64())
		}
		if limits {
			element.Limits = onlyMain(tree, 0.2+rng.Float64())
		}
		tree.Elements = append(tree.Elements, element)
	}
	for range 1 + rng.IntN(6) {
		element := Element{Kind: KindOperation, Parent: int32(rng.IntN(pools + 1)), Weight: 0.1 + 10*rng.Float64()}
		element.Demand = randomAmounts(rng, tree.Total, 2*rng.Float64())
		if rng.IntN(2) == 0 {
			element.Usage = element.Demand.Times(rng.Float64())
		}
		if limits && rng.IntN(3) == 0 {
			element.Limits = onlyMain(tree, rng.Float64())
		}
		tree.Elements = append(tree.Elements, element)
	}
	return tree
}
