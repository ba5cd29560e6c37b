package feasibility

import (
	"encoding/json"

	"github.com/weirhq/weir/internal/value/resource"
)

// The JSON forms are for programs that read the output of `weir check -o
// json`. Amounts are objects like {"cpu": 1.5}, in the units that users write;
// times are in seconds; volumes are amounts × seconds.

func one(k resource.Kind, v int64) resource.Partial { return resource.Partial{}.With(k, v) }

// MarshalJSON has every figure of the verdict.
func (v Verdict) MarshalJSON() ([]byte, error) {
	findings := v.Findings
	if findings == nil {
		findings = []Finding{}
	}
	var needs *resource.Amounts
	if v.Needs.Known {
		needs = &v.Needs.Total
	}
	return json.Marshal(struct {
		OK         bool              `json:"ok"`
		Findings   []Finding         `json:"findings"`
		Needs      *resource.Amounts `json:"needs"`
		Resources  []Budget          `json:"resources"`
		Relaxed    *Starvation       `json:"relaxed,omitempty"`
		Placements []Placement       `json:"placements,omitempty"`
	}{v.OK, findings, needs, v.Proof.Resources, v.Proof.Relaxed, v.Placements})
}

// MarshalJSON has the figures and the text.
func (f Finding) MarshalJSON() ([]byte, error) {
	type claim struct {
		Pool   string           `json:"pool"`
		Strong resource.Partial `json:"strong"`
		Flow   resource.Partial `json:"flow"`
		Burst  resource.Partial `json:"burst"`
	}
	claims := []claim{}
	for _, c := range f.Conflict {
		claims = append(claims, claim{c.Pool, one(f.Resource, c.Strong), one(f.Resource, c.Flow), one(f.Resource, c.Burst)})
	}
	others := []string{}
	for _, k := range f.Others {
		others = append(others, k.String())
	}
	return json.Marshal(struct {
		Code       Code             `json:"code"`
		Severity   string           `json:"severity"`
		Message    string           `json:"message"`
		Pool       string           `json:"pool,omitempty"`
		Job        string           `json:"job,omitempty"`
		Resource   string           `json:"resource"`
		Others     []string         `json:"other_resources"`
		Required   resource.Partial `json:"required"`
		Available  resource.Partial `json:"available"`
		Conflict   []claim          `json:"conflict"`
		Smallest   bool             `json:"smallest"`
		Enough     resource.Partial `json:"conflict_required"`
		Starvation *Starvation      `json:"starvation,omitempty"`
	}{
		f.Code, f.Severity.String(), f.String(), f.Pool, f.Job, f.Resource.String(), others,
		one(f.Resource, f.Required), one(f.Resource, f.Available), claims, f.Smallest, one(f.Resource, f.ConflictRequired), f.Starvation,
	})
}

// MarshalJSON has the sums of one resource.
func (b Budget) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Resource      string           `json:"resource"`
		Total         resource.Partial `json:"total"`
		Strong        resource.Partial `json:"strong"`
		Flow          resource.Partial `json:"flow"`
		Burst         resource.Partial `json:"burst"`
		FreeAlways    resource.Partial `json:"free_always"`
		FreeOnAverage resource.Partial `json:"free_on_average"`
	}{
		b.Resource.String(), one(b.Resource, b.Total), one(b.Resource, b.Strong), one(b.Resource, b.Flow),
		one(b.Resource, b.Burst), one(b.Resource, b.FreeAlways()), one(b.Resource, b.FreeOnAverage()),
	})
}

// MarshalJSON has null for the delay of pools that never catch up.
func (s Starvation) MarshalJSON() ([]byte, error) {
	type breakpoint struct {
		Window   float64 `json:"window"`
		Burst    float64 `json:"burst_volume"`
		Promised float64 `json:"promised_volume"`
		Served   float64 `json:"served_volume"`
	}
	points := []breakpoint{}
	for _, p := range s.Breakpoints {
		points = append(points, breakpoint{p.Window.Seconds(), p.Burst, p.Promised, p.Served})
	}
	var delay, window, backlog *float64
	if s.CatchesUp {
		d, w := s.Delay.Seconds(), s.Window.Seconds()
		delay, window, backlog = &d, &w, &s.Backlog
	}
	return json.Marshal(struct {
		Resource    string           `json:"resource"`
		Available   resource.Partial `json:"available"`
		Flow        resource.Partial `json:"flow"`
		Multiplier  float64          `json:"multiplier"`
		Period      float64          `json:"period"`
		Delay       *float64         `json:"delay"`
		Window      *float64         `json:"window"`
		Backlog     *float64         `json:"backlog_volume"`
		Capacity    float64          `json:"capacity_volume"`
		Breakpoints []breakpoint     `json:"breakpoints"`
		Proved      bool             `json:"proved"`
	}{
		s.Resource.String(), one(s.Resource, s.Available), one(s.Resource, s.Flow), s.Multiplier,
		s.Period.Seconds(), delay, window, backlog, s.Capacity, points, s.Proved,
	})
}

// MarshalJSON has the job and the counts.
func (p Placement) MarshalJSON() ([]byte, error) {
	groups := p.Groups
	if groups == nil {
		groups = []int64{}
	}
	return json.Marshal(struct {
		Job    string  `json:"job"`
		Fits   bool    `json:"fits"`
		Count  int64   `json:"count"`
		Groups []int64 `json:"each_of_group"`
	}{p.Job, p.Fits, p.Count, groups})
}
