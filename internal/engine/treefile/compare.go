package treefile

import (
	"fmt"
	"math"
	"slices"

	"github.com/weirhq/weir/internal/value/resource"
)

// How far apart two answers may be.
const (
	// ShareTolerance is the largest difference between components of shares and
	// ratios.
	ShareTolerance = 1e-9
	// VolumeTolerance is the same for volumes, relative to the greater one.
	VolumeTolerance = 1e-6
)

// Difference is how far apart answers are. Adding several comparisons to one
// Difference keeps the largest.
type Difference struct {
	Share, Volume           float64
	ShareWhere, VolumeWhere string // "tree/element/attribute" of the largest
	// Mismatches are differences that are not a matter of degree.
	Mismatches []string
}

// Agrees reports whether nothing differs by more than the tolerances.
func (d *Difference) Agrees() bool {
	return d.Share <= ShareTolerance && d.Volume <= VolumeTolerance && len(d.Mismatches) == 0
}

// Add compares an answer with the expected one.
func (d *Difference) Add(got, want *Answer) {
	if got.OK != want.OK {
		d.mismatch(want.ID, "ok", got.OK, want.OK)
		return
	}
	d.element(want.ID, &got.Root, &want.Root)
	if len(got.Elements) != len(want.Elements) {
		d.mismatch(want.ID, "the number of elements", len(got.Elements), len(want.Elements))
		return
	}
	for i := range want.Elements {
		d.element(want.ID, &got.Elements[i], &want.Elements[i])
	}
	d.errors(got, want)
}

func (d *Difference) mismatch(where, what string, got, want any) {
	d.Mismatches = append(d.Mismatches, fmt.Sprintf("%s: %s is %v, must be %v", where, what, got, want))
}

// errors compares the codes of alerts, in any order.
func (d *Difference) errors(got, want *Answer) {
	codes := func(a *Answer) (list []int) {
		for _, e := range a.Errors {
			list = append(list, e.Code)
		}
		slices.Sort(list)
		return list
	}
	if g, w := fmt.Sprint(codes(got)), fmt.Sprint(codes(want)); g != w {
		d.mismatch(want.ID, "the list of errors", g, w)
	}
}

func (d *Difference) element(tree string, got, want *AnswerElement) {
	where := tree + "/" + want.ID
	if got.ID != want.ID {
		d.mismatch(where, "the element in this place", got.ID, want.ID)
		return
	}
	if got.FIFOIndex != nil || want.FIFOIndex != nil {
		if g, w := fifoIndex(got), fifoIndex(want); g != w {
			d.mismatch(where, "fifo_index", g, w)
		}
	}
	if got.DominantResource != want.DominantResource && got.DominantResource != "" && want.DominantResource != "" {
		d.mismatch(where, "dominant_resource", got.DominantResource, want.DominantResource)
	}
	d.split(where+"/fair_share", &got.FairShare, &want.FairShare)
	d.split(where+"/promised_guarantee_fair_share", &got.Promised, &want.Promised)
	d.shares(where+"/strong_guarantee_share", &got.StrongGuarantee, &want.StrongGuarantee)
	d.shares(where+"/proposed_integral_share", &got.ProposedIntegral, &want.ProposedIntegral)
	d.shares(where+"/estimated_guarantee_share", &got.Estimated, &want.Estimated)
	d.shares(where+"/usage_share", &got.Usage, &want.Usage)
	d.shares(where+"/demand_share", &got.Demand, &want.Demand)
	d.shares(where+"/limits_share", &got.Limits, &want.Limits)
	d.share(where+"/burst_ratio", got.BurstRatio, want.BurstRatio)
	d.share(where+"/total_burst_ratio", got.TotalBurstRatio, want.TotalBurstRatio)
	d.share(where+"/resource_flow_ratio", got.FlowRatio, want.FlowRatio)
	d.share(where+"/total_resource_flow_ratio", got.TotalFlowRatio, want.TotalFlowRatio)
	d.share(where+"/last_share_ratio", got.LastShareRatio, want.LastShareRatio)
	// Weights and amounts have no natural unit: they are compared like volumes.
	if want.EffectiveWeight != 0 {
		d.volume(where+"/effective_weight", got.EffectiveWeight, want.EffectiveWeight)
	}
	d.volumes(where+"/inferred_strong_guarantee_resources", &got.Inferred, &want.Inferred)
	d.volumes(where+"/volume_overflow", &got.Overflow, &want.Overflow)
	d.volumes(where+"/acceptable_volume", &got.Acceptable, &want.Acceptable)
	d.volumes(where+"/accepted_free_volume", &got.Accepted, &want.Accepted)
	d.volumes(where+"/children_volume_overflow", &got.ChildrenOverflow, &want.ChildrenOverflow)
	d.volumes(where+"/accumulated_volume", &got.Volume, &want.Volume)
}

func fifoIndex(e *AnswerElement) int {
	if e.FIFOIndex == nil {
		return -1
	}
	return *e.FIFOIndex
}

func (d *Difference) split(where string, got, want *AnswerSplit) {
	d.shares(where+"/strong_guarantee", &got.Strong, &want.Strong)
	d.shares(where+"/integral_guarantee", &got.Integral, &want.Integral)
	d.shares(where+"/weight_proportional", &got.WeightProportional, &want.WeightProportional)
	d.shares(where+"/total", &got.Total, &want.Total)
}

func (d *Difference) shares(where string, got, want *AnswerVector) {
	for k := range want {
		d.share(where, got[k], want[k])
	}
}

// share records the difference of two shares; a NaN on either side is infinite.
func (d *Difference) share(where string, got, want float64) {
	difference := math.Abs(got - want)
	if math.IsNaN(difference) {
		difference = math.Inf(1)
	}
	if difference > d.Share {
		d.Share, d.ShareWhere = difference, where
	}
}

func (d *Difference) volumes(where string, got, want *AnswerVector) {
	for k := range want {
		d.volume(where+"/"+resource.Kind(k).String(), got[k], want[k])
	}
}

func (d *Difference) volume(where string, got, want float64) {
	difference := math.Abs(got - want)
	if difference == 0 {
		return
	}
	// Below one unit (a core·second, a byte·second) the absolute difference
	// counts: what is left of a subtraction has no relative precision.
	difference /= max(math.Abs(got), math.Abs(want), 1)
	if math.IsNaN(difference) {
		difference = math.Inf(1)
	}
	if difference > d.Volume {
		d.Volume, d.VolumeWhere = difference, where
	}
}
