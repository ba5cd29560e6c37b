package fairshare

import "github.com/weirhq/weir/internal/resource"

// Result is what one update computed. It is filled by [Engine.Update], which
// reuses its memory, and is the caller's from then on.
type Result struct {
	Total resource.Amounts
	// Elements is indexed like Tree.Elements.
	Elements []Attributes
	// Pools has the further attributes of pools; see Pool.
	Pools []PoolAttributes
	// States is the state to pass into the next update, indexed like
	// Tree.Elements.
	States []State
	Alerts []Alert
}

// Attributes are the computed attributes of any element.
type Attributes struct {
	// Pool is the index in Result.Pools, -1 for operations and free slots.
	Pool int32
	// FIFOIndex is the position in the parent's order, -1 outside FIFO pools.
	FIFOIndex int32
	// Weight is the weight that took part, after inference and history.
	Weight float64
	// FairShare is what the element is entitled to now.
	FairShare resource.Shares
	// Suggestion is what its parent offered above the guarantee.
	Suggestion float64
	Usage      resource.Shares
	Demand     resource.Shares
	Limits     resource.Shares
	// Estimated is the part of strong guarantees that the element gets when
	// everybody is hungry; Guaranteed counts integral flows as well and divides
	// the whole cluster.
	Estimated  resource.Shares
	Guaranteed resource.Shares
	// Promised is the share of a promising ancestor's own guarantees.
	Promised resource.Shares
	// Dominant is the resource whose share is largest, by usage if there is
	// any, else by demand.
	Dominant resource.Kind
}

// PoolAttributes are the computed attributes of pools only.
type PoolAttributes struct {
	// Strong and Integral are the parts of the fair share that guarantees
	// cover; the rest is in proportion to weight.
	Strong   resource.Shares
	Integral resource.Shares
	// PromisedStrong and PromisedIntegral split Attributes.Promised likewise.
	PromisedStrong   resource.Shares
	PromisedIntegral resource.Shares
	// StrongGuarantee is the effective strong guarantee; Tiers are its parts.
	StrongGuarantee resource.Shares
	Tiers           [tierCount]resource.Shares
	// ProposedIntegral is what integral guarantees of the subtree allow.
	ProposedIntegral resource.Shares
	// Inferred is the strong guarantee with absent resources filled in, before
	// it is fitted to the parent and to limits.
	Inferred resource.Amounts
	// BurstRatio is what took part, after scaling for overcommit;
	// SpecifiedBurstRatio is as configured. The totals are of the subtree.
	BurstRatio, SpecifiedBurstRatio float64
	FlowRatio                       float64
	TotalBurstRatio, TotalFlowRatio float64
	// Overflow, Acceptable, Accepted and ChildrenOverflow are the ledger of
	// free volume.
	Overflow, Acceptable, Accepted, ChildrenOverflow resource.Volume
	// FitFactor is the point at which children divide the pool's share.
	FitFactor float64
	// FitPoints and CurvePoints count what had to be computed of the pool's
	// functions.
	FitPoints, CurvePoints int32
}

// Pool returns the pool attributes of an element, nil for operations.
func (r *Result) Pool(slot int32) *PoolAttributes {
	if at := r.Elements[slot].Pool; at >= 0 {
		return &r.Pools[at]
	}
	return nil
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

// PromisedSplit returns the promised-guarantee share of an element by cause.
func (r *Result) PromisedSplit(slot int32) Split {
	total := r.Elements[slot].Promised
	if p := r.Pool(slot); p != nil {
		return Split{p.PromisedStrong, p.PromisedIntegral, total.Sub(p.PromisedStrong).Sub(p.PromisedIntegral), total}
	}
	return Split{WeightProportional: total, Total: total}
}

// AlertCode says what is wrong with the configuration of a tree. The numbers
// are those of YTsaurus.
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
