package treefile

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/value/jsontext"
	"github.com/weirhq/weir/internal/value/resource"
)

// AppendAnswer appends the shares of a tree as one line of JSON in the format of
// the conformance vectors, without a line break. Brief files get brief answers.
func AppendAnswer(b []byte, file *File, result *fairshare.Result) []byte {
	w := answerWriter{buffer: b, file: file, result: result}
	w.buffer = append(w.buffer, `{"id":`...)
	w.text(file.ID)
	w.buffer = append(w.buffer, `,"ok":true,"resource_order":["user_slots","cpu","gpu","memory","network"],"root":`...)
	w.element(0)
	w.buffer = append(w.buffer, `,"elements":[`...)
	for slot := 1; slot < len(file.Tree.Elements); slot++ {
		if slot > 1 {
			w.buffer = append(w.buffer, ',')
		}
		w.element(int32(slot))
	}
	w.buffer = append(w.buffer, ']')
	w.alerts()
	return append(w.buffer, '}')
}

// AppendBadInput appends the answer to a tree that cannot be read.
func AppendBadInput(b []byte, id string, err error) []byte {
	w := answerWriter{buffer: b}
	w.buffer = append(w.buffer, `{"id":`...)
	w.text(id)
	w.buffer = append(w.buffer, `,"ok":false,"bad_input":`...)
	w.text(err.Error())
	return append(w.buffer, '}')
}

// answerWriter writes elements one after another. Its methods for object keys
// omit zeros in brief answers.
type answerWriter struct {
	buffer []byte
	file   *File
	result *fairshare.Result
}

func (w *answerWriter) text(text string) { w.buffer = jsontext.AppendQuote(w.buffer, text) }

func (w *answerWriter) key(name string) {
	if last := w.buffer[len(w.buffer)-1]; last != '{' {
		w.buffer = append(w.buffer, ',')
	}
	w.buffer = append(w.buffer, '"')
	w.buffer = append(w.buffer, name...)
	w.buffer = append(w.buffer, '"', ':')
}

func (w *answerWriter) float(v float64) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		w.buffer = append(w.buffer, "null"...)
		return
	}
	w.buffer = strconv.AppendFloat(w.buffer, v, 'g', -1, 64)
}

func (w *answerWriter) number(name string, v float64) {
	if v == 0 && w.file.Brief {
		return
	}
	w.key(name)
	w.float(v)
}

func (w *answerWriter) floats(v [resource.KindCount]float64) {
	w.buffer = append(w.buffer, '[')
	for k, x := range v {
		if k > 0 {
			w.buffer = append(w.buffer, ',')
		}
		w.float(x)
	}
	w.buffer = append(w.buffer, ']')
}

func (w *answerWriter) vector(name string, v [resource.KindCount]float64) {
	if v == ([resource.KindCount]float64{}) && w.file.Brief {
		return
	}
	w.key(name)
	w.floats(v)
}

func (w *answerWriter) split(name string, s fairshare.Split) {
	w.key(name)
	w.buffer = append(w.buffer, '{')
	w.vector("strong_guarantee", s.Strong)
	w.vector("integral_guarantee", s.Integral)
	w.vector("weight_proportional", s.WeightProportional)
	w.vector("total", s.Total)
	w.buffer = append(w.buffer, '}')
}

func (w *answerWriter) element(slot int32) {
	element, outcome := &w.file.Tree.Elements[slot], &w.result.Elements[slot]
	attributes := w.result.Attributes(&w.file.Tree, slot)
	w.buffer = append(w.buffer, '{')
	w.key("id")
	w.text(w.file.Names[slot])
	w.split("fair_share", w.result.Split(slot))
	if promised := w.result.PromisedSplit(slot); !promised.Total.IsZero() {
		w.split("promised_guarantee_fair_share", promised)
	}
	pool := w.result.Pool(slot)
	if pool != nil {
		w.vector("strong_guarantee_share", pool.StrongGuarantee)
		w.vector("proposed_integral_share", pool.ProposedIntegral)
	}
	w.vector("estimated_guarantee_share", attributes.Estimated)
	if pool != nil {
		w.vector("inferred_strong_guarantee_resources", pool.Inferred.Floats())
	}
	if outcome.FIFOIndex >= 0 {
		w.key("fifo_index")
		w.buffer = strconv.AppendInt(w.buffer, int64(outcome.FIFOIndex), 10)
	}
	if pool != nil {
		w.pool(slot, pool)
	}
	inferred := pool != nil && slot != 0 && element.Weight == 0 && w.file.Tree.Options.InferWeightMultiplier > 0
	if inferred || !w.file.Brief {
		w.key("effective_weight")
		w.float(outcome.Weight)
	}
	if !w.file.Brief {
		w.derivable(&attributes, pool)
	}
	w.buffer = append(w.buffer, '}')
}

func (w *answerWriter) pool(slot int32, pool *fairshare.PoolResult) {
	w.number("burst_ratio", pool.BurstRatio)
	w.number("total_burst_ratio", pool.TotalBurstRatio)
	w.number("resource_flow_ratio", pool.FlowRatio)
	w.number("total_resource_flow_ratio", pool.TotalFlowRatio)
	w.vector("volume_overflow", pool.Overflow)
	w.vector("acceptable_volume", pool.Acceptable)
	w.vector("accepted_free_volume", pool.Accepted)
	w.vector("children_volume_overflow", pool.ChildrenOverflow)
	if slot != 0 {
		var state fairshare.State
		if int(slot) < len(w.result.States) {
			state = w.result.States[slot]
		}
		w.vector("accumulated_volume", state.Volume)
		w.number("last_share_ratio", state.LastShareRatio)
	}
}

// derivable writes what a reader could compute from the input; only full answers
// have it.
func (w *answerWriter) derivable(attributes *fairshare.Attributes, pool *fairshare.PoolResult) {
	w.vector("usage_share", attributes.Usage)
	w.vector("demand_share", attributes.Demand)
	w.vector("limits_share", attributes.Limits)
	w.key("dominant_resource")
	w.text(attributes.Dominant.String())
	if pool != nil {
		w.key("strong_guarantee_share_by_tier")
		w.buffer = append(w.buffer, '[')
		for tier, share := range pool.Tiers {
			if tier > 0 {
				w.buffer = append(w.buffer, ',')
			}
			w.floats(share)
		}
		w.buffer = append(w.buffer, ']')
	}
}

func (w *answerWriter) alerts() {
	if len(w.result.Alerts) == 0 {
		return
	}
	w.buffer = append(w.buffer, `,"errors":[`...)
	for i, alert := range w.result.Alerts {
		if i > 0 {
			w.buffer = append(w.buffer, ',')
		}
		w.buffer = append(w.buffer, `{"code":`...)
		w.buffer = strconv.AppendInt(w.buffer, int64(alert.Code), 10)
		w.buffer = append(w.buffer, `,"message":`...)
		w.text(alert.Message)
		w.buffer = append(w.buffer, '}')
	}
	w.buffer = append(w.buffer, ']')
}

// Answer is the shares of a tree as read from JSON. Absent vectors and numbers
// are zero, by the rule of brief answers.
type Answer struct {
	ID       string          `json:"id"`
	OK       bool            `json:"ok"`
	BadInput string          `json:"bad_input"`
	Root     AnswerElement   `json:"root"`
	Elements []AnswerElement `json:"elements"`
	Errors   []AnswerError   `json:"errors"`
}

// AnswerError is an alert.
type AnswerError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// AnswerVector has one component for each resource.
type AnswerVector [resource.KindCount]float64

// UnmarshalJSON rejects vectors of another length; a null is NaN, as the format
// writes it.
func (v *AnswerVector) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	var list []*float64
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	if len(list) != resource.KindCount {
		return fmt.Errorf("a vector has %d components, must have %d", len(list), resource.KindCount)
	}
	for k, x := range list {
		v[k] = math.NaN()
		if x != nil {
			v[k] = *x
		}
	}
	return nil
}

// AnswerSplit is a share by cause.
type AnswerSplit struct {
	Strong             AnswerVector `json:"strong_guarantee"`
	Integral           AnswerVector `json:"integral_guarantee"`
	WeightProportional AnswerVector `json:"weight_proportional"`
	Total              AnswerVector `json:"total"`
}

// AnswerElement has the attributes of an element that can be compared.
type AnswerElement struct {
	ID               string       `json:"id"`
	FairShare        AnswerSplit  `json:"fair_share"`
	Promised         AnswerSplit  `json:"promised_guarantee_fair_share"`
	StrongGuarantee  AnswerVector `json:"strong_guarantee_share"`
	ProposedIntegral AnswerVector `json:"proposed_integral_share"`
	Estimated        AnswerVector `json:"estimated_guarantee_share"`
	Inferred         AnswerVector `json:"inferred_strong_guarantee_resources"`
	FIFOIndex        *int         `json:"fifo_index"`
	BurstRatio       float64      `json:"burst_ratio"`
	TotalBurstRatio  float64      `json:"total_burst_ratio"`
	FlowRatio        float64      `json:"resource_flow_ratio"`
	TotalFlowRatio   float64      `json:"total_resource_flow_ratio"`
	Overflow         AnswerVector `json:"volume_overflow"`
	Acceptable       AnswerVector `json:"acceptable_volume"`
	Accepted         AnswerVector `json:"accepted_free_volume"`
	ChildrenOverflow AnswerVector `json:"children_volume_overflow"`
	Volume           AnswerVector `json:"accumulated_volume"`
	LastShareRatio   float64      `json:"last_share_ratio"`
	EffectiveWeight  float64      `json:"effective_weight"`
	Usage            AnswerVector `json:"usage_share"`
	Demand           AnswerVector `json:"demand_share"`
	Limits           AnswerVector `json:"limits_share"`
	// DominantResource is compared when both answers have it.
	DominantResource string `json:"dominant_resource"`
}

// ReadAnswer reads an answer, ours or a stored one.
func ReadAnswer(data []byte) (*Answer, error) {
	var answer Answer
	if err := json.Unmarshal(data, &answer); err != nil {
		return nil, fmt.Errorf("answer: %w", err)
	}
	return &answer, nil
}
