package fairshare

import (
	"fmt"
	"math"
	"time"

	"github.com/weirhq/weir/internal/value/resource"
)

// Violation is a rule of fair share that a published result breaks.
type Violation struct {
	Slot   int32
	Rule   string
	Detail string
}

// String returns the violation as one line.
func (v Violation) String() string {
	return fmt.Sprintf("element %d: %s: %s", v.Slot, v.Rule, v.Detail)
}

// Verify checks a result against the tree it claims to be computed from,
// without computing it again: sums, limits, the split by cause, that siblings
// were offered suggestions in proportion to their weights, that every operation
// took what its suggestion entitles it to, that no pool took more than its
// guarantee plus its suggestion, and the ledger of volumes. It shares no code
// with the computation but the function of a single operation.
//
// An empty answer proves that shares obey the rules. It does not prove that
// they could not be larger.
func Verify(tree *Tree, elapsed time.Duration, result *Result) []Violation {
	v := verifier{tree: tree, result: result, children: make([][]int32, len(tree.Elements)), offers: make([]float64, len(tree.Elements))}
	for slot := 1; slot < len(tree.Elements); slot++ {
		if e := &tree.Elements[slot]; e.Kind != KindNone && result.Pool(e.Parent) != nil {
			v.children[e.Parent] = append(v.children[e.Parent], int32(slot))
		}
	}
	v.subtree(0)
	v.volumes(elapsed)
	return v.found
}

type verifier struct {
	tree     *Tree
	result   *Result
	children [][]int32
	offers   []float64 // by slot
	found    []Violation
}

func (v *verifier) report(slot int32, rule, format string, args ...any) {
	v.found = append(v.found, Violation{slot, rule, fmt.Sprintf(format, args...)})
}

func (v *verifier) subtree(slot int32) {
	v.element(slot)
	if v.result.Pool(slot) == nil {
		return
	}
	v.offer(slot)
	sum := nothing
	for _, child := range v.children[slot] {
		sum = sum.Add(v.result.Elements[child].FairShare)
		v.subtree(child)
	}
	share := v.result.Elements[slot].FairShare
	if !share.Add(resource.Uniform(2 * Epsilon)).Dominates(sum) {
		v.report(slot, "children get no more than their pool", "%v > %v", sum, share)
	}
}

func (v *verifier) element(slot int32) {
	e, a := &v.result.Elements[slot], v.result.Attributes(v.tree, slot)
	split := v.result.Split(slot)
	for _, part := range []resource.Shares{split.Strong, split.Integral, split.WeightProportional} {
		if part.Smallest() < -Epsilon {
			v.report(slot, "no part of a share is negative", "%v", split)
		}
	}
	slack := resource.Uniform(2 * Epsilon)
	if !a.Limits.Add(slack).Dominates(e.FairShare) {
		v.report(slot, "a share is within its limits", "%v > %v", e.FairShare, a.Limits)
	}
	if !a.Demand.Add(slack).Dominates(e.FairShare) {
		v.report(slot, "a share is within the demand", "%v > %v", e.FairShare, a.Demand)
	}
	p := v.result.Pool(slot)
	switch {
	case p == nil:
		v.operation(slot)
	case slot != 0 && !v.tree.Options.Improved && !v.truncates():
		most := p.Guarantee.Add(resource.Uniform(v.offers[slot] + 2*Epsilon))
		if !most.Dominates(e.FairShare) {
			v.report(slot, "a pool takes no more than its guarantee and its suggestion", "%v > %v", e.FairShare, most)
		}
	}
}

// operation checks that an operation took what its suggestion entitles it to.
func (v *verifier) operation(slot int32) {
	e := &v.tree.Elements[slot]
	if v.tree.Options.Improved || v.truncates() || e.Kind != KindOperation || v.result.Pool(e.Parent) == nil {
		return
	}
	a := v.result.Attributes(v.tree, slot)
	n := node{usage: a.Usage, demand: a.Demand, limits: a.Limits, steps: v.tree.stepsAsGang(e)}
	got := v.result.Elements[slot].FairShare
	if want := operationAt(&n, v.offers[slot]); !want.Near(got, 2*Epsilon) {
		v.report(slot, "an operation takes what its suggestion entitles it to", "got %v, not %v", got, want)
	}
}

func (v *verifier) truncates() bool {
	if v.tree.Options.TruncateFIFO {
		return true
	}
	for i := range v.tree.Elements {
		if e := &v.tree.Elements[i]; e.Kind == KindPool && settingsOf(e).TruncateFIFO == On {
			return true
		}
	}
	return false
}

// offer computes the suggestions of the children of a pool from its fit factor.
func (v *verifier) offer(slot int32) {
	factor := v.result.Pool(slot).FitFactor
	fifo := settingsOf(&v.tree.Elements[slot]).Mode == FIFO
	least := math.Inf(1)
	for _, child := range v.children[slot] {
		if w := v.result.Elements[child].Weight; w > Epsilon {
			least = min(least, w)
		}
	}
	for _, child := range v.children[slot] {
		e := &v.result.Elements[child]
		offered := min(1, factor*(e.Weight/least))
		if fifo {
			offered = min(1, max(0, factor-float64(e.FIFOIndex)))
		}
		if said := v.result.Suggestion(v.tree, child); math.Abs(said-offered) > Epsilon {
			v.report(child, "siblings are offered suggestions in proportion to their weights, or one after another", "offered %g, not %g", said, offered)
		}
		v.offers[child] = offered
	}
}

// volumes checks the ledger of integral pools: what a pool has is what it had,
// plus its flow, minus what it was granted, within its capacity.
func (v *verifier) volumes(elapsed time.Duration) {
	for slot := range v.tree.Elements {
		e := &v.tree.Elements[slot]
		if e.Kind != KindPool || settingsOf(e).Integral.Type == NoIntegral || v.result.Pool(int32(slot)) == nil {
			continue
		}
		var before State
		if slot < len(v.tree.States) {
			before = v.tree.States[slot]
		}
		p, after := v.result.Pool(int32(slot)), v.result.States[slot]
		want := before.Volume
		if elapsed >= 0 && !v.tree.Total.IsZero() {
			most := before.Volume.Max(v.tree.Options.Capacity(v.tree.Total, p.FlowRatio))
			for k := range want {
				net := (p.FlowRatio - before.LastShareRatio) * v.tree.Total.Float(resource.Kind(k)) * elapsed.Seconds()
				want[k] = min(max(before.Volume[k]+net, 0), most[k]) + p.Accepted[k]
			}
		}
		moved := resource.VolumeOf(v.tree.Total, max(p.FlowRatio, before.LastShareRatio), max(elapsed, 0).Seconds())
		for k := range want {
			if math.Abs(want[k]-after.Volume[k]) > 1e-9*max(1, want[k], moved[k]) {
				v.report(int32(slot), "the ledger of volumes adds up", "%s: has %g, not %g", resource.Kind(k), after.Volume[k], want[k])
			}
		}
		if after.LastShareRatio < 0 {
			v.report(int32(slot), "the ledger of volumes adds up", "granted %g", after.LastShareRatio)
		}
	}
}
