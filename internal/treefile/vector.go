package treefile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/weirhq/weir/internal/fairshare"
	"github.com/weirhq/weir/internal/resource"
)

// RootName is the name of the root pool.
const RootName = "<Root>"

// vectorTree is the JSON of one tree, as the conformance vectors have it.
type vectorTree struct {
	ID                string          `json:"id"`
	Comment           json.RawMessage `json:"comment"`
	Total             amountsJSON     `json:"total_resources"`
	MainResource      *string         `json:"main_resource"`
	Elapsed           *float64        `json:"time_since_previous_update"`
	SaturationPeriod  *float64        `json:"integral_pool_capacity_saturation_period"`
	SmoothPeriod      *float64        `json:"integral_smooth_period"`
	RelaxedMultiplier *float64        `json:"relaxed_share_multiplier_limit"`
	DistributeFree    bool            `json:"should_distribute_free_volume_among_children"`
	InferWeight       *float64        `json:"infer_weight_from_guarantees_share_multiplier"`
	Options           vectorOptions   `json:"options"`
	Root              vectorRoot      `json:"root"`
	Elements          []vectorElement `json:"elements"`
	Output            string          `json:"output"`
}

type vectorOptions struct {
	GangSteps   bool `json:"enable_step_function_for_gang_operations"`
	Improved    bool `json:"enable_improved_fair_share_by_fit_factor_computation"`
	ImprovedGap bool `json:"enable_improved_fair_share_by_fit_factor_computation_distribution_gap"`
	// FastFIFO is read for the format's sake: it is the only way we compute.
	FastFIFO bool `json:"enable_fast_fifo_fair_share_by_fit_factor_computation"`
}

type vectorRoot struct {
	Mode           string   `json:"mode"`
	FIFOKeys       []string `json:"fifo_sort_parameters"`
	DistributeFree bool     `json:"should_distribute_free_volume_among_children"`
	Promised       bool     `json:"compute_promised_guarantee_fair_share"`
}

type vectorElement struct {
	Type   string      `json:"type"`
	ID     string      `json:"id"`
	Parent *string     `json:"parent"`
	Weight *float64    `json:"weight"`
	Limits amountsJSON `json:"resource_limits"`

	Mode          string          `json:"mode"`
	FIFOKeys      []string        `json:"fifo_sort_parameters"`
	Strong        amountsJSON     `json:"strong_guarantee_resources"`
	Integral      *vectorIntegral `json:"integral_guarantees"`
	GangSteps     *bool           `json:"enable_step_function_for_gang_operations"`
	Promised      bool            `json:"compute_promised_guarantee_fair_share"`
	Priority      bool            `json:"enable_priority_strong_guarantee_adjustment"`
	PriorityDonor bool            `json:"enable_priority_strong_guarantee_adjustment_donorship"`

	Demand    amountsJSON `json:"resource_demand"`
	Usage     amountsJSON `json:"resource_usage"`
	Gang      bool        `json:"is_gang"`
	BestShare []float64   `json:"best_allocation_share"`
	StartTime float64     `json:"start_time"`
	Pending   int64       `json:"pending_allocation_count"`
}

type vectorIntegral struct {
	Type              string             `json:"guarantee_type"`
	Flow              amountsJSON        `json:"resource_flow"`
	Burst             amountsJSON        `json:"burst_guarantee_resources"`
	RelaxedMultiplier *float64           `json:"relaxed_share_multiplier_limit"`
	AcceptFree        *bool              `json:"can_accept_free_volume"`
	DistributeFree    *bool              `json:"should_distribute_free_volume_among_children"`
	Volume            map[string]float64 `json:"accumulated_volume"`
	LastShareRatio    float64            `json:"last_share_ratio"`
}

// amountsJSON reads an object of amounts.
type amountsJSON struct{ resource.Partial }

func (a *amountsJSON) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	var raw map[string]json.Number
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(&raw); err != nil {
		return err
	}
	for name, number := range raw {
		kind, ok := resource.ParseKind(name)
		if !ok {
			return fmt.Errorf("unknown resource %q", name)
		}
		amount, err := amountOf(kind, number)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		a.Partial = a.With(kind, amount)
	}
	return nil
}

func amountOf(kind resource.Kind, number json.Number) (int64, error) {
	if exact, err := number.Int64(); err == nil && kind != resource.CPU {
		if exact < 0 {
			return 0, fmt.Errorf("must not be negative, is %s", number)
		}
		return min(exact, resource.Unlimited), nil
	}
	value, err := number.Float64()
	if err != nil {
		return 0, fmt.Errorf("must be a number, is %s", number)
	}
	if value < 0 {
		return 0, fmt.Errorf("must not be negative, is %s", number)
	}
	if kind != resource.CPU && value != math.Trunc(value) {
		return 0, fmt.Errorf("must be a whole number, is %s", number)
	}
	return resource.FromFloat(kind, value), nil
}

// ReadVector reads one tree in the JSON of the conformance vectors.
func ReadVector(data []byte) (*File, error) {
	var in vectorTree
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&in); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is something after the tree")
	}
	return in.file()
}

func (in *vectorTree) file() (*File, error) {
	file := &File{ID: in.ID, Brief: in.Output == "brief", Elapsed: fairshare.FirstUpdate}
	if in.Output != "" && in.Output != "full" && in.Output != "brief" {
		return nil, fmt.Errorf("output: must be full or brief, is %q", in.Output)
	}
	tree := &file.Tree
	tree.Total = in.Total.OrZero()
	tree.Options = fairshare.DefaultOptions()
	options := &tree.Options
	if in.MainResource != nil {
		kind, ok := resource.ParseKind(*in.MainResource)
		if !ok {
			return nil, fmt.Errorf("main_resource: unknown resource %q", *in.MainResource)
		}
		options.MainResource = kind
	}
	for _, period := range []struct {
		name string
		from *float64
		to   *time.Duration
	}{
		{"time_since_previous_update", in.Elapsed, &file.Elapsed},
		{"integral_pool_capacity_saturation_period", in.SaturationPeriod, &options.CapacitySaturationPeriod},
		{"integral_smooth_period", in.SmoothPeriod, &options.SmoothPeriod},
	} {
		if period.from == nil {
			continue
		}
		if *period.from < 0 || *period.from > 1e9 {
			return nil, fmt.Errorf("%s: must be between 0 and 1e9 seconds, is %g", period.name, *period.from)
		}
		*period.to = time.Duration(math.Round(*period.from*1e6)) * time.Microsecond
	}
	if in.RelaxedMultiplier != nil {
		options.RelaxedShareMultiplierLimit = *in.RelaxedMultiplier
	}
	if in.InferWeight != nil {
		options.InferWeightMultiplier = *in.InferWeight
	}
	options.DistributeFreeVolume = in.DistributeFree
	options.GangSteps = in.Options.GangSteps
	options.Improved = in.Options.Improved
	options.ImprovedDistributionGap = in.Options.ImprovedGap
	return file, in.elements(file)
}

func (in *vectorTree) elements(file *File) error {
	root := vectorElement{Type: "pool", ID: RootName, Mode: in.Root.Mode, FIFOKeys: in.Root.FIFOKeys, Promised: in.Root.Promised}
	root.Integral = &vectorIntegral{DistributeFree: &in.Root.DistributeFree}
	all := append([]vectorElement{root}, in.Elements...)
	slots := make(map[string]int32, len(all))
	for i := range all {
		if all[i].ID == "" {
			return fmt.Errorf("elements[%d]: has no id", i-1)
		}
		if _, taken := slots[all[i].ID]; taken {
			return fmt.Errorf("elements[%d]: the id %q is taken", i-1, all[i].ID)
		}
		slots[all[i].ID] = int32(i)
	}
	file.Names = make([]string, len(all))
	file.Tree.Elements = make([]fairshare.Element, len(all))
	file.Tree.States = make([]fairshare.State, len(all))
	for i := range all {
		file.Names[i] = all[i].ID
		if err := all[i].element(slots, &file.Tree.Elements[i], &file.Tree.States[i]); err != nil {
			return fmt.Errorf("element %q: %w", all[i].ID, err)
		}
	}
	return checkStructure(file)
}

func (v *vectorElement) element(slots map[string]int32, element *fairshare.Element, state *fairshare.State) error {
	if v.Parent != nil {
		slot, ok := slots[*v.Parent]
		if !ok {
			return fmt.Errorf("parent: there is no element %q", *v.Parent)
		}
		element.Parent = slot
	}
	if v.Weight != nil {
		if !(*v.Weight > 0) || math.IsInf(*v.Weight, 1) {
			return fmt.Errorf("weight: must be positive and finite, is %g", *v.Weight)
		}
		element.Weight = *v.Weight
	}
	element.Limits = v.Limits.Partial
	switch v.Type {
	case "pool":
		element.Kind = fairshare.KindPool
		return v.pool(element, state)
	case "operation":
		element.Kind = fairshare.KindOperation
		return v.operation(element)
	}
	return fmt.Errorf("type: must be pool or operation, is %q", v.Type)
}

func (v *vectorElement) operation(element *fairshare.Element) error {
	element.Demand, element.Usage = v.Demand.OrZero(), v.Usage.OrZero()
	if !element.Demand.Dominates(element.Usage) {
		return errors.New("resource_usage: must not exceed resource_demand")
	}
	if v.BestShare != nil {
		if len(v.BestShare) != resource.KindCount {
			return fmt.Errorf("best_allocation_share: must have %d components, has %d", resource.KindCount, len(v.BestShare))
		}
		copy(element.BestShare[:], v.BestShare)
	}
	element.Gang = v.Gang
	element.StartTime = int64(math.Round(v.StartTime * 1e6))
	element.Pending = v.Pending
	return nil
}

func (v *vectorElement) pool(element *fairshare.Element, state *fairshare.State) (err error) {
	pool := &fairshare.Pool{
		Strong: v.Strong.Partial, Promised: v.Promised,
		PriorityAdjustment: v.Priority, PriorityDonor: v.PriorityDonor,
		GangStepsOff: v.GangSteps != nil && !*v.GangSteps,
	}
	element.Pool = pool
	switch v.Mode {
	case "", "fair_share":
	case "fifo":
		pool.Mode = fairshare.FIFO
	default:
		return fmt.Errorf("mode: must be fair_share or fifo, is %q", v.Mode)
	}
	for _, name := range v.FIFOKeys {
		key, ok := fifoKeys[name]
		if !ok {
			return fmt.Errorf("fifo_sort_parameters: must be weight, start_time or pending_allocation_count, is %q", name)
		}
		pool.FIFOKeys = append(pool.FIFOKeys, key)
	}
	if v.Integral != nil {
		pool.Integral, *state, err = v.Integral.integral()
	}
	return err
}

var fifoKeys = map[string]fairshare.FIFOKey{
	"weight": fairshare.ByWeight, "start_time": fairshare.ByStartTime, "pending_allocation_count": fairshare.ByPending,
}

func (v *vectorIntegral) integral() (integral fairshare.Integral, state fairshare.State, err error) {
	switch v.Type {
	case "", "none":
	case "burst":
		integral.Type = fairshare.Burst
	case "relaxed":
		integral.Type = fairshare.Relaxed
	default:
		return integral, state, fmt.Errorf("guarantee_type: must be none, burst or relaxed, is %q", v.Type)
	}
	integral.Flow, integral.Burst = v.Flow.OrZero(), v.Burst.OrZero()
	if v.RelaxedMultiplier != nil {
		integral.RelaxedMultiplier = *v.RelaxedMultiplier
	}
	integral.RefuseFreeVolume = v.AcceptFree != nil && !*v.AcceptFree
	if v.DistributeFree != nil {
		integral.DistributeFreeVolume = fairshare.Off
		if *v.DistributeFree {
			integral.DistributeFreeVolume = fairshare.On
		}
	}
	for name, volume := range v.Volume {
		kind, ok := resource.ParseKind(name)
		if !ok {
			return integral, state, fmt.Errorf("accumulated_volume: unknown resource %q", name)
		}
		state.Volume[kind] = volume
	}
	state.LastShareRatio = v.LastShareRatio
	return integral, state, nil
}
