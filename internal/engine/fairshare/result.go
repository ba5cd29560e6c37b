package fairshare

import "github.com/weirhq/weir/internal/value/resource"

// Result is what one update computed. [Engine.Update] fills it. A Result that is
// passed in again has its memory reused, and unchanged values are not written
// again, so the caller must not modify it in between.
type Result struct {
	Total resource.Amounts
	// Elements is indexed like Tree.Elements.
	Elements []ElementResult
	// Pools has the values that only pools have; see Pool.
	Pools []PoolResult
	// States is the state to pass into the next update. Like Tree.States it may
	// be shorter than Elements.
	States []State
	Alerts []Alert
	// Promised is the division of guarantees alone in pools that request it,
	// indexed like Elements; empty if none does.
	Promised []resource.Shares
	// Changed reports, by slot, whether anything above may differ from what this
	// Result held for the slot before the last update. It may be true for an
	// unchanged element, but never false for a changed one.
	Changed []bool
	// Altered lists the slots for which Changed is true, in no particular order.
	Altered []int32
	// Reoffered lists the pools in which Attributes of operations may differ, whether
	// Changed is true for these or not.
	Reoffered []int32

	engine *Engine `save:"-"` // that filled it
	filled uint64  // the update it was filled by
	spare  []PoolResult
}

// alter notes that an element may differ.
func (r *Result) alter(slot int32) {
	if !r.Changed[slot] {
		r.Changed[slot] = true
		r.Altered = append(r.Altered, slot)
	}
}

// ElementResult is the outcome for any element.
type ElementResult struct {
	// FairShare is what the element is entitled to now.
	FairShare resource.Shares
	// Weight is the effective weight, after inference and history.
	Weight float64
	// Pool is the index in Result.Pools, -1 for operations and free slots.
	Pool int32
	// FIFOIndex is the position in the parent's order, -1 outside FIFO pools.
	FIFOIndex int32
}

// Attributes are the further attributes of an element, which follow from the
// tree and the result.
type Attributes struct {
	Usage  resource.Shares
	Demand resource.Shares
	Limits resource.Shares
	// Estimated is the part of strong guarantees that the element gets when all
	// elements demand more; Guaranteed counts integral flows as well and divides
	// the whole cluster.
	Estimated  resource.Shares
	Guaranteed resource.Shares
	// Dominant is the resource whose share is largest, by usage if there is
	// any, else by demand.
	Dominant resource.Kind
}

// Attributes returns the attributes of an element of the tree that the result
// was computed from.
func (r *Result) Attributes(tree *Tree, slot int32) Attributes {
	if p := r.Pool(slot); p != nil {
		return p.Attributes
	}
	element := &tree.Elements[slot]
	a := Attributes{Usage: element.Usage.Share(r.Total), Demand: element.Demand.Share(r.Total)}
	a.Dominant = dominant(&a.Usage, &a.Demand)
	if parent := r.Pool(element.Parent); parent != nil {
		if element.Kind == KindOperation {
			part := r.Elements[slot].Weight / parent.childWeights
			a.Estimated, a.Guaranteed = parent.estimatedRest.Times(part), parent.guaranteedRest.Times(part)
		}
		a.Limits = limitsOf(element, r.Total, parent.Limits)
	}
	return a
}

// Suggestion returns what the parent of an element offered it above its guarantee. It
// follows from the parent's fit factor, so an element whose suggestion differs does
// not count as changed.
func (r *Result) Suggestion(tree *Tree, slot int32) float64 {
	if slot == 0 {
		return 1
	}
	parent, e := r.Pool(tree.Elements[slot].Parent), &r.Elements[slot]
	switch {
	case parent == nil || tree.Elements[slot].Kind == KindNone:
		return 0
	case e.FIFOIndex >= 0:
		return min(1, max(0, parent.FitFactor-float64(e.FIFOIndex)))
	}
	return min(1, parent.FitFactor*(e.Weight/parent.leastWeight))
}

// limitsOf returns the limits of an element as shares.
func limitsOf(element *Element, total resource.Amounts, parent resource.Shares) resource.Shares {
	limits := element.Limits.Or(total).Min(total).Share(total)
	if element.Kind == KindOperation && element.BestShare != nothing {
		limits = limits.Min(element.BestShare)
	}
	if element.MaxShareRatio > 0 {
		limits = limits.Min(parent.Times(element.MaxShareRatio))
	}
	return limits
}

// dominant returns the kind with the largest usage, or demand if nothing is
// used; the first kind wins a tie, and cpu is the answer when all is zero.
func dominant(usage, demand *resource.Shares) resource.Kind {
	v := usage
	if *v == nothing {
		v = demand
	}
	best, share := resource.CPU, 0.0
	for k := range v {
		if v[k] > share {
			best, share = resource.Kind(k), v[k]
		}
	}
	return best
}

// PoolResult is the further outcome for a pool.
type PoolResult struct {
	Attributes
	// Strong and Integral are the parts of the fair share that guarantees
	// cover; the rest is in proportion to weight.
	Strong   resource.Shares
	Integral resource.Shares
	// PromisedStrong and PromisedIntegral split Result.Promised likewise.
	PromisedStrong   resource.Shares
	PromisedIntegral resource.Shares
	// StrongGuarantee is the effective strong guarantee; Tiers are its parts.
	StrongGuarantee resource.Shares
	Tiers           [tierCount]resource.Shares
	// Guarantee is what takes precedence over weights: the effective strong
	// guarantee and what integral guarantees of the subtree allow.
	Guarantee resource.Shares
	// ProposedIntegral is the integral part of it as YTsaurus reports it: where
	// rounding puts the guarantee above a limit, YTsaurus takes all that the
	// limits leave. We do not, as shares would exceed the cluster, but the
	// attribute is to agree.
	ProposedIntegral resource.Shares
	// Inferred is the strong guarantee with absent resources filled in, before
	// it is fitted to the parent and to limits.
	Inferred resource.Amounts
	// BurstRatio is the effective ratio, after scaling for overcommit;
	// SpecifiedBurstRatio is as configured. The totals are of the subtree.
	BurstRatio, SpecifiedBurstRatio float64
	FlowRatio                       float64
	TotalBurstRatio, TotalFlowRatio float64
	// Overflow, Acceptable, Accepted and ChildrenOverflow are the ledger of
	// free volume.
	Overflow, Acceptable, Accepted, ChildrenOverflow resource.Volume
	// FitFactor is the point at which children divide the pool's share.
	FitFactor float64

	childWeights, leastWeight     float64
	estimatedRest, guaranteedRest resource.Shares
}

// offersAs reports whether operations directly in the pool have the same
// attributes as they would with another outcome.
func (p *PoolResult) offersAs(other *PoolResult) bool {
	return p.childWeights == other.childWeights && p.estimatedRest == other.estimatedRest &&
		p.guaranteedRest == other.guaranteedRest && p.Limits == other.Limits
}

// Pool returns the outcome for a pool, nil if the slot holds none.
func (r *Result) Pool(slot int32) *PoolResult {
	if slot < 0 || int(slot) >= len(r.Elements) || r.Elements[slot].Pool < 0 {
		return nil
	}
	return &r.Pools[r.Elements[slot].Pool]
}

// Split is a share by cause.
type Split struct {
	Strong, Integral, WeightProportional, Total resource.Shares
}

// Split returns the fair share of an element by cause.
func (r *Result) Split(slot int32) Split {
	total := r.Elements[slot].FairShare
	if p := r.Pool(slot); p != nil {
		return Split{p.Strong, p.Integral, total.Sub(p.Strong).Sub(p.Integral), total}
	}
	return Split{WeightProportional: total, Total: total}
}

// PromisedSplit returns the promised-guarantee share of an element by cause. It
// is zero outside of pools that compute it.
func (r *Result) PromisedSplit(slot int32) Split {
	if len(r.Promised) == 0 {
		return Split{}
	}
	total := r.Promised[slot]
	if p := r.Pool(slot); p != nil {
		return Split{p.PromisedStrong, p.PromisedIntegral, total.Sub(p.PromisedStrong).Sub(p.PromisedIntegral), total}
	}
	return Split{WeightProportional: total, Total: total}
}

// AlertCode is what is wrong with the configuration of a tree. The numbers are
// those of YTsaurus.
type AlertCode int

const (
	AlertOvercommit     AlertCode = 29000
	AlertNestedPromised AlertCode = 29001
	AlertNoDonor        AlertCode = 29002
)

// Alert is a problem of the configuration that did not stop the update.
type Alert struct {
	Code    AlertCode
	Message string
	// Slots are the elements concerned, if any in particular.
	Slots []int32
}
