package orchid

import (
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/entitlement"
	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/resource"
)

// The limited demand of an element is what it would get if it were alone in its tree: the value of its
// share function at suggestion 1. An operation whose limits cut one resource gets less of the others
// too, and a pool gets what its children would get within its limits.
//
// Where no limit is in the way it is the demand. Where one is, the fair-share engine computes it, for
// the element and everything below it.

// limitedDemand returns the limited demand of an element as a share.
func (e *element) limitedDemand() resource.Shares {
	if e.seat != nil {
		return e.tree.limitedOperation(e.seat)
	}
	return e.tree.limitedPool(e.pool)
}

// limitedOperation is limitedDemand of an operation.
func (t *Tree) limitedOperation(seat *core.Seat) resource.Shares {
	if fitsAlone(&seat.Shares.Demand, &seat.Shares.Limits) {
		return seat.Shares.Demand
	}
	alone := t.onlyRoot()
	alone.Elements = append(alone.Elements, t.operationElement(seat, 0))
	return fairshare.Compute(&alone, fairshare.FirstUpdate).Elements[1].FairShare
}

// limitedPool is limitedDemand of a pool. Results are kept as long as the state.
func (t *Tree) limitedPool(p *core.Pool) resource.Shares {
	t.limiting.Do(func() {
		t.limited = make([]resource.Shares, t.Info.Slots())
		t.limitBelow(t.Info.Root())
	})
	return t.limited[p.Slot]
}

// limitBelow computes the limited demand of a pool and of all pools below it.
func (t *Tree) limitBelow(p *core.Pool) {
	var sum resource.Shares
	for _, child := range t.childrenOf(p) {
		t.limitBelow(child)
		sum = sum.Add(t.limited[child.Slot])
	}
	for _, seat := range t.membersOf(p) {
		sum = sum.Add(t.limitedOperation(seat))
	}
	if fitsAlone(&sum, &p.Shares.Limits) {
		t.limited[p.Slot] = sum
		return
	}
	alone := t.onlyRoot()
	t.appendPool(&alone, p, 0)
	t.limited[p.Slot] = fairshare.Compute(&alone, fairshare.FirstUpdate).Elements[1].FairShare
}

// fitsAlone reports whether no limit is in the way of a share.
func fitsAlone(share, limits *resource.Shares) bool {
	for k := range share {
		if share[k] > limits[k] || share[k] >= 1 {
			return false
		}
	}
	return true
}

// onlyRoot is a tree without pools and operations.
func (t *Tree) onlyRoot() fairshare.Tree {
	options := entitlement.Options(t.Info.Config)
	options.InferWeightMultiplier, options.TruncateFIFO = 0, false
	return fairshare.Tree{Total: t.Info.Total, Options: options, Elements: []fairshare.Element{{Kind: fairshare.KindPool}}}
}

// appendPool appends a pool and all that is in it.
func (t *Tree) appendPool(tree *fairshare.Tree, p *core.Pool, parent int32) {
	slot := int32(len(tree.Elements))
	settings := &fairshare.Pool{
		// What integral guarantees allow now counts like a strong one.
		Strong:       resource.PartialOf(p.StrongGuarantee.Add(p.ProposedIntegral).Of(t.Info.Total)),
		GangStepsOff: t.gangStepsOff(p),
	}
	if t.Info.Effective(p).Mode == pooltree.FIFO {
		settings.Mode, settings.FIFOKeys = fairshare.FIFO, []fairshare.FIFOKey{fairshare.ByStartTime}
	}
	tree.Elements = append(tree.Elements, fairshare.Element{
		Kind: fairshare.KindPool, Parent: parent, Weight: p.Weight, Limits: t.limitsOf(&p.Shares), Pool: settings,
	})
	for _, child := range t.childrenOf(p) {
		t.appendPool(tree, child, slot)
	}
	for _, seat := range t.membersOf(p) {
		tree.Elements = append(tree.Elements, t.operationElement(seat, slot))
	}
}

func (t *Tree) operationElement(seat *core.Seat, parent int32) fairshare.Element {
	o, _ := t.State.View.Picture.Operation(seat.Operation)
	return fairshare.Element{
		Kind: fairshare.KindOperation, Parent: parent, Weight: seat.Weight, Limits: t.limitsOf(&seat.Shares),
		Demand: seat.Demand, Usage: seat.Usage.Min(seat.Demand), Gang: o.Spec.IsGang.Value(), StartTime: int64(seat.FIFOIndex),
	}
}

func (t *Tree) limitsOf(a *fairshare.Attributes) resource.Partial {
	return resource.PartialOf(a.Limits.Of(t.Info.Total))
}

// gangStepsOff reports whether a pool excludes its gang operations from the rule that they get all or
// nothing.
func (t *Tree) gangStepsOff(p *core.Pool) bool {
	configured, there := t.Info.Configured(p)
	return there && !configured.Config().GangSteps.Or(true)
}
