package orchid

import (
	"slices"

	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/internal/value/yson"
)

func (e *element) isIntegral() bool {
	return e.config().Integral.Type.Value() != pooltree.NoIntegral
}

func (e *element) isFIFO() bool { return e.effective().Mode == pooltree.FIFO }

// poolFields are the fields of pools, the common ones included.
var poolFields = newFields(slices.Concat([]field{
	only(textField("parent", func(e *element) string { return e.tree.Info.PoolIn(e.pool.Parent).Name }),
		func(e *element) bool { return !e.isRoot() }),
	textField("full_path", func(e *element) string { return "/" + e.tree.Info.Path(e.pool) }),
	textField("mode", func(e *element) string { return document.Normal(e.effective().Mode.String()) }),
	flagField("is_ephemeral", func(e *element) bool { return e.pool.Ephemeral }),
	only(always("fifo_sort_parameters", func(_ *wire.Vectors, e *element) yson.Node {
		items := []yson.Node{}
		for _, key := range e.effective().FIFOSortParameters {
			items = append(items, yson.String(key.String()))
		}
		return yson.List(items...)
	}), (*element).isFIFO),
	countField("running_operation_count", func(e *element) int { return e.pool.RunningOperations }),
	countField("lightweight_running_operation_count", func(*element) int { return 0 }),
	countField("operation_count", func(e *element) int { return e.pool.Operations }),
	countField("pool_operation_count", func(e *element) int { return int(e.pool.DirectOperations) }),
	countField("schedulable_operation_count", func(e *element) int { return int(e.pool.SchedulableOperations) }),
	countField("waiting_operation_count", func(e *element) int { return e.guarantees.Waiting }),
	countField("max_running_operation_count", func(e *element) int { return e.guarantees.MaxRunning }),
	countField("max_operation_count", func(e *element) int { return e.guarantees.MaxOperations }),
	flagField("forbid_immediate_operations", func(e *element) bool { return e.effective().ForbidImmediateOperations }),
	countField("child_pool_count", func(e *element) int { return int(e.pool.ChildPools) }),
	always("abc", func(_ *wire.Vectors, e *element) yson.Node { return optionNode(e.config().ABC, wire.FromDocument) }),
	flagField("aggressive_starvation_enabled", func(e *element) bool { return e.effective().Aggressive }),
	only(textField("user", func(e *element) string { return e.pool.User }), func(e *element) bool { return e.pool.Ephemeral }),

	numberField("total_resource_flow_ratio", func(e *element) float64 { return e.guarantees.TotalFlowRatio }),
	numberField("total_burst_ratio", func(e *element) float64 { return e.guarantees.TotalBurstRatio }),
	textField("integral_guarantee_type", func(e *element) string { return e.config().Integral.Type.Value().String() }),
}, integralFields, commonFields))

// integralFields are the fields of pools that save what they do not use.
var integralFields = integralOnly(
	always("integral_pool_capacity", func(v *wire.Vectors, e *element) yson.Node { return v.Volume(e.guarantees.Capacity) }),
	always("integral_smooth_period", func(_ *wire.Vectors, e *element) yson.Node {
		settings := e.tree.Info.Config.Settings()
		return wire.Milliseconds(settings.Integral.SmoothPeriod.Value())
	}),
	numberField("integral_pool_capacity_ratio", func(e *element) float64 { return e.guarantees.CapacityRatio }),
	numberField("specified_burst_ratio", func(e *element) float64 { return e.guarantees.SpecifiedBurstRatio }),
	numberField("specified_resource_flow_ratio", func(e *element) float64 { return e.guarantees.FlowRatio }),
	amountsField("specified_burst_guarantee_resources", func(e *element) resource.Amounts {
		return resource.Uniform(e.guarantees.SpecifiedBurstRatio).Of(e.total())
	}),
	amountsField("specified_resource_flow", func(e *element) resource.Amounts {
		return resource.Uniform(e.guarantees.FlowRatio).Of(e.total())
	}),
	numberField("accumulated_resource_ratio_volume", func(e *element) float64 { return e.guarantees.VolumeRatio }),
	always("accumulated_resource_volume", func(v *wire.Vectors, e *element) yson.Node { return v.Volume(e.guarantees.Volume) }),
	only(always("estimated_burst_usage_duration_seconds", func(_ *wire.Vectors, e *element) yson.Node {
		return wire.Seconds(e.guarantees.BurstSeconds)
	}), func(e *element) bool {
		return e.guarantees.HasBurst && e.config().Integral.Type.Value() == pooltree.Burst
	}),
)

func integralOnly(fields ...field) []field {
	for i := range fields {
		fields[i] = only(fields[i], (*element).isIntegral)
	}
	return fields
}

// operationFields are the fields of operations, the common ones included.
var operationFields = newFields(slices.Concat([]field{
	textField("pool", func(e *element) string { return e.seat.Pool }),
	always("start_time", func(_ *wire.Vectors, e *element) yson.Node { return wire.Instant(e.operation.Started) }),
	textField("user", func(e *element) string { return e.operation.User }),
	textField("type", func(e *element) string {
		if e.record == nil {
			return "vanilla"
		}
		return e.record.Type
	}),
	always("title", func(_ *wire.Vectors, e *element) yson.Node { return optionNode(e.operation.Spec.Title, yson.String) }),
	textField("state", func(e *element) string { return e.operation.State.String() }),
	flagField("suspended", func(e *element) bool { return e.operation.Suspended }),
	countField("slot_index", func(e *element) int { return e.seat.Index }),
	only(countField("fifo_index", func(e *element) int { return int(e.seat.FIFOIndex) }),
		func(e *element) bool { return e.seat.FIFOIndex >= 0 }),
	flagField("enabled", func(e *element) bool { return e.seat.Running }),
	flagField("tentative", func(*element) bool { return false }),
	flagField("probing", func(*element) bool { return false }),
	flagField("offloading", func(*element) bool { return false }),
	flagField("lightweight", func(*element) bool { return false }),
	flagField("is_gang", func(e *element) bool { return e.operation.Spec.IsGang.Value() }),
	always("starving_since", func(_ *wire.Vectors, e *element) yson.Node { return wire.Instant(e.details.StarvingSince) }),
	always("below_fair_share_since", func(_ *wire.Vectors, e *element) yson.Node { return wire.Instant(e.details.BelowSince) }),
	always("unschedulable_reason", func(_ *wire.Vectors, e *element) yson.Node { return wire.OrEntity(e.unschedulable()) }),
	always("waiting_for_pool", func(_ *wire.Vectors, e *element) yson.Node { return wire.OrEntity(e.seat.WaitsFor) }),
	textField("scheduling_priority", func(e *element) string { return e.tree.Info.Priority(e.seat).String() }),
	always("deactivation_reasons", func(_ *wire.Vectors, e *element) yson.Node { return e.refusals() }),
	always("min_needed_resources_unsatisfied_count", func(_ *wire.Vectors, e *element) yson.Node {
		return yson.Map(yson.Pair("total", yson.Int64(int64(e.seat.Refusals[scheduling.RefusedNodeResources]))))
	}),
	always("allocation_preemption_timeout", func(_ *wire.Vectors, e *element) yson.Node {
		return wire.Milliseconds(e.tree.settings().Preemption.PreemptionTimeout.Value())
	}),
	always("allocation_graceful_preemption_timeout", func(_ *wire.Vectors, e *element) yson.Node {
		return wire.Milliseconds(e.tree.settings().Preemption.GracefulPreemptionTimeout.Value())
	}),
	always("grouped_needed_resources", func(v *wire.Vectors, e *element) yson.Node { return e.groups(v) }),
	always("detailed_min_needed_job_resources", func(v *wire.Vectors, e *element) yson.Node {
		items := []yson.Node{}
		for _, group := range e.seat.Groups {
			if group.Waiting > 0 {
				items = append(items, v.Amounts(group.Resources))
			}
		}
		return yson.List(items...)
	}),
	amountsField("aggregated_min_needed_job_resources", func(e *element) resource.Amounts { return e.seat.MinNeeded }),
	always("disk_request_media", func(*wire.Vectors, *element) yson.Node { return yson.List() }),
	always("disk_quota_usage", func(*wire.Vectors, *element) yson.Node { return yson.Map() }),
	countField("banned_node_count", func(e *element) int { return e.seat.BannedNodes }),
	countField("started_job_count", func(e *element) int { return int(e.seat.Starts) }),
}, commonFields))

// unschedulable explains why an operation gets nothing, however much is free.
func (e *element) unschedulable() string {
	switch {
	case e.details.Schedulable:
		return ""
	case e.operation.Suspended:
		return "suspended"
	case e.seat.WaitsFor != "":
		return "operation_pending"
	case e.operation.State != operation.Running:
		return "is_not_running"
	}
	return "no_pending_allocations"
}

// refusals counts, by reason, the nodes' refusals to serve the operation.
func (e *element) refusals() yson.Node {
	var entries []yson.Entry
	for reason, count := range e.seat.Refusals {
		if count > 0 {
			entries = append(entries, yson.Pair(scheduling.Refusal(reason).String(), yson.Int64(int64(count))))
		}
	}
	return yson.Map(entries...)
}

// groups are the waiting jobs by task.
func (e *element) groups(v *wire.Vectors) yson.Node {
	var entries []yson.Entry
	for i, group := range e.seat.Groups {
		if i < len(e.operation.Spec.Tasks) {
			entries = append(entries, yson.Pair(e.operation.Spec.Tasks[i].Name, yson.Map(
				yson.Pair("job_count", yson.Int64(int64(group.Waiting))),
				yson.Pair("resources", v.Amounts(group.Resources)))))
		}
	}
	return yson.Map(entries...)
}

// fields is a table of fields with an index by name.
type fields struct {
	list  []field
	index map[string]int
}

func newFields(list []field) fields {
	f := fields{list: list, index: make(map[string]int, len(list))}
	for i := range list {
		f.index[list[i].name] = i
	}
	if len(f.index) != len(list) {
		panic("two fields have one name") // a programming error
	}
	return f
}

// all returns an element with all its fields, or with those of a filter.
func (f *fields) all(v *wire.Vectors, e *element, filter []int) yson.Node {
	size := len(filter)
	if filter == nil {
		size = len(f.list)
	}
	return yson.Map(f.into(make([]yson.Entry, 0, size), v, e, filter)...)
}

// into adds the fields of an element to entries.
func (f *fields) into(entries []yson.Entry, v *wire.Vectors, e *element, filter []int) []yson.Entry {
	if filter == nil {
		for i := range f.list {
			if value, there := f.list[i].of(v, e); there {
				entries = append(entries, yson.Entry{Key: f.list[i].name, Value: value})
			}
		}
		return entries
	}
	for _, i := range filter {
		if value, there := f.list[i].of(v, e); there {
			entries = append(entries, yson.Entry{Key: f.list[i].name, Value: value})
		}
	}
	return entries
}

// choose turns names into a filter, in the order of the table. Unknown names are ignored: clients
// ask for fields of other versions. Without names there is no filter.
func (f *fields) choose(names []string) []int {
	if names == nil {
		return nil
	}
	filter := []int{}
	for _, name := range names {
		if i, known := f.index[name]; known && !slices.Contains(filter, i) {
			filter = append(filter, i)
		}
	}
	slices.Sort(filter)
	return filter
}
