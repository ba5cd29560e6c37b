package fairshare

import (
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/test/expected"
)

// TestMain makes each property try 4,000 trees; make long tries 100,000.
func TestMain(m *testing.M) { os.Exit(expected.RunProperties(m, 4_000)) }

// Safety: what must hold for every tree.

func TestPropertyResultsObeyTheRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree, elapsed := drawTree(t, everyFeature)
		var e Engine
		var r Result
		e.Update(tree, elapsed, &r)
		for _, v := range Verify(tree, elapsed, &r) {
			t.Errorf("%s", v)
		}
		if root := r.Elements[0].FairShare; root.Largest() > 1+Epsilon {
			t.Errorf("the root hands out %v", root)
		}
		for i := range e.pools {
			p := &e.pools[i]
			if p.settings.Mode != FIFO && len(p.children) > 0 {
				checkMonotone(t, fitPoints(&e, p))
			}
			checkMonotone(t, curvePoints(&e, p))
		}
		for slot := range tree.Elements {
			d := Explain(tree, &r, int32(slot))
			if last := d.Chain[len(d.Chain)-1]; last.Slot != 0 || d.Chain[0].Slot != int32(slot) {
				t.Errorf("the derivation of %d does not lead to the root: %v", slot, d)
			}
		}
	})
}

func checkMonotone(t *rapid.T, points []point) {
	for i := 1; i < len(points); i++ {
		if points[i].x < points[i-1].x || !points[i].v.Dominates(points[i-1].v) {
			t.Fatalf("falls at point %d: %v, %v", i, points[i-1], points[i])
		}
		if i > 1 && points[i].x == points[i-1].x && points[i-1].x == points[i-2].x {
			t.Fatalf("two jumps at %v", points[i].x)
		}
	}
}

// TestPropertyCachedUpdatesEqualFreshOnes generates random histories of a tree:
// weights, limits, demands, usages, settings, modes and totals change, operations and
// pools come, go and move. After each step, one engine that has seen the whole history
// must compute what a new one computes, to the last bit.
func TestPropertyCachedUpdatesEqualFreshOnes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree, elapsed := drawTree(t, everyFeature)
		var kept Engine
		results := [2]Result{}
		own := rapid.IntRange(1, 2).Draw(t, "results")
		tracked := rapid.Bool().Draw(t, "tracked")
		var last []Element
		for round := range rapid.IntRange(2, 12).Draw(t, "rounds") {
			result := &results[round%own]
			track(tree, last, tracked)
			last = slices.Clone(tree.Elements)
			before := cloneOf(result)
			kept.Update(tree, elapsed, result)
			fresh := Compute(tree, elapsed)
			for slot := range result.Elements {
				if !result.Changed[slot] && (slot >= len(before.Elements) || !sameOutcome(&before, result, slot)) {
					t.Fatalf("round %d: %d changed and is not marked", round, slot)
				}
			}
			slices.Sort(result.Altered)
			for slot, changed := range result.Changed {
				if _, listed := slices.BinarySearch(result.Altered, int32(slot)); listed != changed {
					t.Fatalf("round %d: %d changed: %v, is listed: %v", round, slot, changed, listed)
				}
			}
			if !slices.Equal(result.Elements, fresh.Elements) || !slices.Equal(result.States, fresh.States) {
				t.Fatalf("round %d: kept and fresh engines disagree:\n%v\n%v", round, result.Elements, fresh.Elements)
			}
			if !slices.Equal(result.Pools, fresh.Pools) {
				t.Fatalf("round %d: kept and fresh engines disagree about pools:\n%+v\n%+v", round, result.Pools, fresh.Pools)
			}
			tree = editTree(t, tree)
			tree.States = slices.Clone(fresh.States)
			if len(tree.States) > len(tree.Elements) {
				tree.States = tree.States[:len(tree.Elements)]
			}
		}
	})
}

// track lists the elements that differ from the last ones.
func track(tree *Tree, last []Element, tracked bool) {
	tree.Tracked, tree.Touched = tracked, nil
	for slot := range tree.Elements {
		if slot >= len(last) || tree.Elements[slot] != last[slot] {
			tree.Touched = append(tree.Touched, int32(slot))
		}
	}
}

func cloneOf(r *Result) Result {
	return Result{Elements: slices.Clone(r.Elements), Pools: slices.Clone(r.Pools), Promised: slices.Clone(r.Promised)}
}

// sameOutcome compares what two results say about an element.
func sameOutcome(a, b *Result, slot int) bool {
	x, y := a.Elements[slot], b.Elements[slot]
	p, q := a.Pool(int32(slot)), b.Pool(int32(slot))
	x.Pool, y.Pool = 0, 0
	return x == y && (p == nil) == (q == nil) && (p == nil || *p == *q) && sharesAt(a.Promised, slot) == sharesAt(b.Promised, slot)
}

// editTree returns the tree with a few changes: numbers, settings, and elements
// added, removed and moved.
func editTree(t *rapid.T, tree *Tree) *Tree {
	edited := *tree
	edited.Elements = slices.Clone(tree.Elements)
	for range rapid.IntRange(0, 3).Draw(t, "edits") {
		slot := rapid.IntRange(0, len(edited.Elements)-1).Draw(t, "slot")
		element := &edited.Elements[slot]
		switch rapid.SampledFrom([]int{0, 1, 1, 2, 3, 4, 5, 6, 7, 7, 7, 8, 9, 10, 11, 12}).Draw(t, "edit") {
		case 0:
			element.Weight = drawWeight(t)
		case 1:
			if element.Kind == KindOperation {
				element.Demand = element.Demand.Times(1.5)
			}
		case 2:
			if element.Kind == KindOperation {
				*element = Element{}
			}
		case 3:
			if element.Kind == KindPool && slot != 0 {
				changed := drawPool(t, everyFeature, &edited, element.Parent)
				changed.Pool.Integral = settingsOf(element).Integral
				if hasPools(&edited, int32(slot)) {
					changed.Pool.Mode = settingsOf(element).Mode // a FIFO pool has no subpools
				}
				*element = changed
			}
		case 4:
			if element.Kind == KindPool {
				edited.Elements = append(edited.Elements, drawOperation(t, everyFeature, &edited, int32(slot)))
			}
		case 5:
			edited.Total = edited.Total.Times(2)
		case 7:
			if element.Kind == KindOperation {
				element.Usage = element.Demand.Times(rapid.Float64Range(0, 1).Draw(t, "used part"))
			}
		case 8:
			if slot != 0 {
				element.Limits = drawLimits(t, &edited)
			}
		case 9:
			edited.Options.Improved = !edited.Options.Improved
		case 10: // a pool comes, into a free slot if there is one
			if element.Kind == KindPool && settingsOf(element).Mode != FIFO {
				added := drawPool(t, everyFeature, &edited, int32(slot))
				added.Pool.Integral = Integral{} // integral pools must not be nested
				if free := slices.IndexFunc(edited.Elements, func(e Element) bool { return e.Kind == KindNone }); free > 0 {
					edited.Elements[free] = added
				} else {
					edited.Elements = append(edited.Elements, added)
				}
			}
		case 11: // an empty pool goes
			if slot != 0 && element.Kind == KindPool && !isParent(&edited, int32(slot)) {
				*element = Element{}
			}
		case 12: // an operation moves
			pool := rapid.IntRange(0, len(edited.Elements)-1).Draw(t, "pool")
			if element.Kind == KindOperation && edited.Elements[pool].Kind == KindPool {
				element.Parent = int32(pool)
			}
		case 6:
			if last := len(edited.Elements) - 1; last > 0 && edited.Elements[last].Kind != KindPool {
				edited.Elements = edited.Elements[:last]
			}
		}
	}
	return &edited
}

func isParent(tree *Tree, slot int32) bool {
	return slices.ContainsFunc(tree.Elements[1:], func(e Element) bool { return e.Kind != KindNone && e.Parent == slot })
}

func hasPools(tree *Tree, slot int32) bool {
	return slices.ContainsFunc(tree.Elements[1:], func(e Element) bool { return e.Kind == KindPool && e.Parent == slot })
}

// Invariance: what must not change the result.

func TestPropertyWeightsMatterOnlyRelativeToEachOther(t *testing.T) {
	kind := everyFeature
	kind.history = false
	rapid.Check(t, func(t *rapid.T) {
		tree, elapsed := drawTree(t, kind)
		before := Compute(tree, elapsed)
		scaled := *tree
		scaled.Elements = slices.Clone(tree.Elements)
		for i := range scaled.Elements {
			scaled.Elements[i].Weight = specifiedWeight(&tree.Elements[i]) * 4
		}
		compareShares(t, before, Compute(&scaled, elapsed), nil)
	})
}

func TestPropertyUnitsDoNotMatter(t *testing.T) {
	kind := everyFeature
	// Inferred guarantees are rounded to storage units, which scaling changes.
	kind.guarantees, kind.tiers = false, false
	rapid.Check(t, func(t *rapid.T) {
		tree, elapsed := drawTree(t, kind)
		before := Compute(tree, elapsed)
		scaled := scaleAmounts(tree, 8)
		compareShares(t, before, Compute(scaled, elapsed), nil)
	})
}

// scaleAmounts multiplies every amount of a tree, including its total.
func scaleAmounts(tree *Tree, by int64) *Tree {
	times := func(a resource.Amounts) resource.Amounts {
		for k := range a {
			a[k] *= by
		}
		return a
	}
	scaled := *tree
	scaled.Total = times(tree.Total)
	scaled.Elements = slices.Clone(tree.Elements)
	scaled.States = slices.Clone(tree.States)
	for i := range scaled.Elements {
		e := &scaled.Elements[i]
		e.Demand, e.Usage = times(e.Demand), times(e.Usage)
		for _, k := range resource.Kinds {
			if v, ok := e.Limits.Get(k); ok {
				e.Limits = e.Limits.With(k, v*by)
			}
		}
		if e.Pool != nil {
			settings := *e.Pool
			settings.Integral.Flow, settings.Integral.Burst = times(settings.Integral.Flow), times(settings.Integral.Burst)
			e.Pool = &settings
		}
	}
	for i := range scaled.States {
		for k := range scaled.States[i].Volume {
			scaled.States[i].Volume[k] *= float64(by)
		}
	}
	return &scaled
}

func TestPropertyTheOrderOfSiblingsDoesNotMatter(t *testing.T) {
	// If resources are not proportional, a jump may meet a limit exactly, and then
	// rounding decides.
	kind := treeKind{guarantees: true, proportional: true}
	rapid.Check(t, func(t *rapid.T) {
		tree, elapsed := drawTree(t, kind)
		before := Compute(tree, elapsed)
		// Reverse the slots, except for the root.
		n := int32(len(tree.Elements))
		moved := func(slot int32) int32 {
			if slot == 0 {
				return 0
			}
			return n - slot
		}
		reversed := *tree
		reversed.Elements = slices.Clone(tree.Elements)
		reversed.States = nil
		for slot := int32(1); slot < n; slot++ {
			e := tree.Elements[slot]
			e.Parent = moved(e.Parent)
			reversed.Elements[moved(slot)] = e
		}
		compareShares(t, before, Compute(&reversed, elapsed), moved)
	})
}

func compareShares(t *rapid.T, before, after *Result, moved func(int32) int32) {
	for slot := range before.Elements {
		to := int32(slot)
		if moved != nil {
			to = moved(to)
		}
		a, b := before.Elements[slot].FairShare, after.Elements[to].FairShare
		if !a.Near(b, 1e-9) {
			t.Fatalf("element %d: %v became %v", slot, a, b)
		}
	}
}

// Guarantees: what they must provide.

func TestPropertyStrongGuaranteesAreKept(t *testing.T) {
	kind := treeKind{guarantees: true, proportional: true, roomy: true}
	rapid.Check(t, func(t *rapid.T) {
		tree, elapsed := drawTree(t, kind)
		for slot := range tree.Elements {
			// Every leaf pool demands everything.
			if tree.Elements[slot].Kind == KindPool {
				tree.Elements = append(tree.Elements, Element{Kind: KindOperation, Parent: int32(slot), Demand: tree.Total.Times(2)})
			}
		}
		r := Compute(tree, elapsed)
		for slot := 1; slot < len(tree.Elements); slot++ {
			p := r.Pool(int32(slot))
			if p == nil {
				continue
			}
			if !p.Strong.Add(resource.Uniform(1e-5)).Dominates(p.StrongGuarantee) {
				t.Fatalf("pool %d gets %v of its strong guarantee %v", slot, p.Strong, p.StrongGuarantee)
			}
		}
	})
}

func TestPropertyBurstGuaranteesAreKeptWhileTheVolumeLasts(t *testing.T) {
	kind := treeKind{guarantees: true, integral: true, proportional: true, roomy: true}
	rapid.Check(t, func(t *rapid.T) {
		tree, elapsed := drawTree(t, kind)
		for slot := range tree.Elements {
			if tree.Elements[slot].Kind == KindPool {
				tree.Elements = append(tree.Elements, Element{Kind: KindOperation, Parent: int32(slot), Demand: tree.Total.Times(2)})
			}
		}
		for slot := range tree.States {
			tree.States[slot].Volume = resource.VolumeOf(tree.Total, 1e6, 1)
		}
		r := Compute(tree, elapsed)
		for slot := 1; slot < len(tree.Elements); slot++ {
			p := r.Pool(int32(slot))
			if p == nil || settingsOf(&tree.Elements[slot]).Integral.Type != Burst {
				continue
			}
			if got := p.Integral[resource.CPU]; got < p.BurstRatio-1e-5 {
				t.Fatalf("pool %d gets %g of its burst guarantee %g", slot, got, p.BurstRatio)
			}
		}
	})
}

func TestPropertyNoShareIsIdleWhileSomebodyWantsIt(t *testing.T) {
	kind := treeKind{fifo: true, guarantees: true, integral: true, proportional: true}
	rapid.Check(t, func(t *rapid.T) {
		tree, elapsed := drawTree(t, kind)
		r := Compute(tree, elapsed)
		root := r.Elements[0].FairShare
		if root.Largest() >= 1-1e-6 {
			return
		}
		if demand := r.Pool(0).Demand; !root.Add(resource.Uniform(1e-6)).Dominates(demand) {
			t.Fatalf("%v is handed out, %v is demanded", root, demand)
		}
	})
}

// TestPropertyTheLedgerOfVolumesAddsUp advances time in uneven steps.
func TestPropertyTheLedgerOfVolumesAddsUp(t *testing.T) {
	kind := treeKind{integral: true, guarantees: true, limits: true}
	rapid.Check(t, func(t *rapid.T) {
		tree, _ := drawTree(t, kind)
		var e Engine
		var r Result
		steps := rapid.SliceOfN(rapid.SampledFrom([]time.Duration{200 * time.Millisecond, 10 * time.Second, 59 * time.Second, 100 * time.Second}), 1, 6).Draw(t, "steps")
		for _, step := range steps {
			e.Update(tree, step, &r)
			for _, v := range Verify(tree, step, &r) {
				t.Errorf("%s", v)
			}
			for slot := range r.States {
				p := r.Pool(int32(slot))
				if p == nil {
					continue
				}
				var before resource.Volume
				if slot < len(tree.States) {
					before = tree.States[slot].Volume
				}
				most := before.Max(e.options.Capacity(e.total, p.FlowRatio))
				for k, volume := range r.States[slot].Volume {
					if volume < 0 || volume > most[k]*(1+1e-12)+1e-9 || math.IsNaN(volume) {
						t.Fatalf("pool %d has %g of %s, at most %g is allowed", slot, volume, resource.Kind(k), most[k])
					}
				}
			}
			tree.States = slices.Clone(r.States)
		}
	})
}
