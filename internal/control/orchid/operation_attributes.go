package orchid

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/weirhq/weir/internal/control/pathtree"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/yson"
)

// operationAttribute is a key of an operation in answers.
type operationAttribute struct {
	name string
	// private attributes are for users who may read the operation.
	private bool
	// listed attributes are in lists that do not name attributes.
	listed bool
	// of returns the value; false if there is none now.
	of func(c *pathtree.Request, v *OperationView) (yson.Node, bool, error)
}

// operationAttributes is the table, in the order of answers.
var operationAttributes = operationAttributeTable()

func operationAttributeTable() []operationAttribute {
	value := func(name string, of func(c *pathtree.Request, v *OperationView) (yson.Node, error)) operationAttribute {
		return operationAttribute{name: name, of: func(c *pathtree.Request, v *OperationView) (yson.Node, bool, error) {
			n, err := of(c, v)
			return n, err == nil, err
		}}
	}
	plain := func(name string, of func(v *OperationView) yson.Node) operationAttribute {
		a := value(name, func(_ *pathtree.Request, v *OperationView) (yson.Node, error) { return of(v), nil })
		a.listed = true
		return a
	}
	private := func(a operationAttribute) operationAttribute { a.private = true; return a }
	listed := func(a operationAttribute) operationAttribute { a.listed = true; return a }
	constant := func(name string, n yson.Node) operationAttribute {
		return value(name, func(*pathtree.Request, *OperationView) (yson.Node, error) { return n, nil })
	}
	return []operationAttribute{
		plain("id", func(v *OperationView) yson.Node { return yson.String(v.ID.String()) }),
		plain("state", func(v *OperationView) yson.Node { return yson.String(v.state()) }),
		plain("type", func(v *OperationView) yson.Node { return yson.String(v.kind) }),
		plain("operation_type", func(v *OperationView) yson.Node { return yson.String(v.kind) }),
		plain("authenticated_user", func(v *OperationView) yson.Node { return yson.String(v.User) }),
		plain("start_time", (*OperationView).startTime),
		{name: "finish_time", listed: true, of: finishTime},
		plain("suspended", func(v *OperationView) yson.Node { return yson.Boolean(v.suspended()) }),
		listed(value("brief_spec", briefSpec)),
		listed(value("brief_progress", briefProgress)),
		value("progress", fullProgress),
		private(value("spec", providedSpec)),
		private(value("provided_spec", providedSpec)),
		private(value("full_spec", resultingSpec)),
		private(value("unrecognized_spec", unrecognizedSpec)),
		listed(value("runtime_parameters", runtimeParameters)),
		{name: "result", listed: true, of: resultOf},
		value("events", eventsOf),
		value("alerts", alertsOf),
		constant("alert_events", yson.List()),
		value("task_names", taskNames),
		value("scheduling_attributes_per_pool_tree", schedulingAttributes),
		value("slot_index_per_pool_tree", slotIndices),
		{name: "alias", listed: true, of: aliasOf},
		value("controller_agent_address", func(c *pathtree.Request, _ *OperationView) (yson.Node, error) {
			return yson.String(c.Server.Address()), nil
		}),
		constant("experiment_assignments", yson.List()),
		constant("experiment_assignment_names", yson.List()),
		constant("controller_features", yson.Map()),
		value("waiting_for_pools", waitingFor),
		{name: "has_failed_jobs", listed: true, of: hasFailedJobs},
		{name: "forecast", listed: true, of: forecastOf},
	}
}

func (v *OperationView) state() string {
	if v.Live != nil {
		return v.Live.State.String()
	}
	return v.row.State
}

func (v *OperationView) suspended() bool {
	return v.Live != nil && v.Live.Suspended || v.row != nil && v.row.Suspended
}

func (v *OperationView) startTime() yson.Node {
	if v.Live != nil {
		return wire.Instant(v.Live.Start)
	}
	return wire.Instant(v.row.StartTime)
}

func finishTime(_ *pathtree.Request, v *OperationView) (yson.Node, bool, error) {
	if v.row == nil || v.row.FinishTime.IsZero() {
		return yson.Entity(), false, nil
	}
	return wire.Instant(v.row.FinishTime), true, nil
}

func aliasOf(_ *pathtree.Request, v *OperationView) (yson.Node, bool, error) {
	alias := ""
	if v.Live != nil {
		alias = v.Live.Alias()
	} else {
		alias = v.row.Alias
	}
	return yson.String(alias), alias != "", nil
}

func hasFailedJobs(_ *pathtree.Request, v *OperationView) (yson.Node, bool, error) {
	if v.Live != nil {
		return yson.Boolean(v.Live.Jobs.Failed > 0), true, nil
	}
	return yson.Boolean(v.row.HasFailedJobs), true, nil
}

// StoredJSON reads a stored document; empty data is an empty map.
func StoredJSON(data []byte) (yson.Node, error) {
	if len(data) == 0 {
		return yson.Map(), nil
	}
	return yson.ParseJSON(data, yson.JSONOptions{UTF8: true, Plain: true})
}

func briefSpec(_ *pathtree.Request, v *OperationView) (yson.Node, error) {
	if v.Live != nil {
		return wire.FromDocument(v.Live.BriefSpec()), nil
	}
	return StoredJSON(v.row.BriefSpec)
}

func briefProgress(c *pathtree.Request, v *OperationView) (yson.Node, error) {
	if v.Live != nil {
		return wire.FromDocument(v.Live.BriefProgress()), nil
	}
	rows, err := v.storedProgress(c)
	if err != nil {
		return yson.Node{}, err
	}
	return StoredJSON(rows.Brief)
}

// fullProgress is the progress with tasks, statistics and, for a live operation, its scheduling
// state in each tree.
func fullProgress(c *pathtree.Request, v *OperationView) (yson.Node, error) {
	var n yson.Node
	if v.Live != nil {
		n = wire.FromDocument(v.Live.FullProgress())
	} else {
		rows, err := v.storedProgress(c)
		if err != nil {
			return yson.Node{}, err
		}
		if n, err = StoredJSON(rows.Progress); err != nil {
			return n, err
		}
	}
	for _, name := range []string{"job_statistics", "job_statistics_v2"} {
		if _, there := n.Get(name); !there {
			n = n.With(name, yson.Map())
		}
	}
	infos, err := schedulingInfo(c, v)
	if err != nil {
		return n, err
	}
	return n.With("scheduling_info_per_pool_tree", infos), nil
}

// schedulingInfo is the operation in each of its trees.
func schedulingInfo(c *pathtree.Request, v *OperationView) (yson.Node, error) {
	if v.Live == nil || !c.Server.Leading() {
		return yson.Map(), nil
	}
	state, err := Current(c)
	if err != nil {
		return yson.Node{}, err
	}
	var entries []yson.Entry
	for _, t := range state.Trees {
		if seat := t.seatOf(v.Number); seat != nil {
			entries = append(entries, yson.Pair(t.Info.Name, operationFields.all(new(wire.Vectors), t.operation(c.Server, seat), nil)))
		}
	}
	return yson.Map(entries...), nil
}

func providedSpec(c *pathtree.Request, v *OperationView) (yson.Node, error) {
	if v.Live != nil {
		return wire.FromDocument(v.Live.Provided), nil
	}
	rows, err := v.storedSpecs(c)
	if err != nil {
		return yson.Node{}, err
	}
	return StoredJSON(rows.Provided)
}

func resultingSpec(c *pathtree.Request, v *OperationView) (yson.Node, error) {
	if v.Live != nil {
		return wire.FromDocument(v.Live.Spec.Document(DocumentStyle)), nil
	}
	rows, err := v.storedSpecs(c)
	if err != nil {
		return yson.Node{}, err
	}
	return StoredJSON(rows.Resulting)
}

func unrecognizedSpec(c *pathtree.Request, v *OperationView) (yson.Node, error) {
	if v.Live != nil {
		if v.Live.Unrecognized.IsNull() {
			return yson.Map(), nil
		}
		return wire.FromDocument(v.Live.Unrecognized), nil
	}
	rows, err := v.storedSpecs(c)
	if err != nil {
		return yson.Node{}, err
	}
	return StoredJSON(rows.Unrecognized)
}

// runtimeParameters are the current values of the parameters that can change while the operation
// runs. In lists, archived operations show only pools: reading their specifications would cost too
// much.
func runtimeParameters(c *pathtree.Request, v *OperationView) (yson.Node, error) {
	spec := v.spec
	if spec == nil && c.Command != "list_operations" {
		var err error
		if spec, err = v.resulting(c); err != nil {
			return yson.Node{}, err
		}
	}
	if spec == nil {
		spec = &operation.Spec{}
	}
	var trees []yson.Entry
	for _, p := range v.Places() {
		options := spec.OperationOptions.For(p.Tree)
		trees = append(trees, yson.Pair(p.Tree, yson.Map(
			yson.Pair("pool", yson.String(p.Pool)),
			yson.Pair("weight", optionNode(p.Weight.OrElse(options.Weight), yson.Double)),
			yson.Pair("resource_limits", wire.PartialNode(p.ResourceLimits.OrElse(options.ResourceLimits).Value())),
			yson.Pair("tentative", yson.Boolean(false)),
			yson.Pair("offloading", yson.Boolean(false)))))
	}
	acl := yson.List()
	if list, set := spec.ACL.Get(); set && !list.IsNull() {
		acl = wire.FromDocument(list)
	}
	return yson.Map(
		yson.Pair("owners", wire.Texts(spec.Owners.Value())),
		yson.Pair("acl", acl),
		yson.Pair("scheduling_options_per_pool_tree", yson.Map(trees...)),
		yson.Pair("annotations", optionalMap(spec.Annotations)),
		yson.Pair("erased_trees", erasedTrees(spec, v)),
		yson.Pair("scheduling_tag_filter", yson.String(spec.SchedulingTagFilter.Value().String())),
		yson.Pair("options_per_job_shell", yson.Map())), nil
}

// erasedTrees are trees that the user named but the operation is not in.
func erasedTrees(spec *operation.Spec, v *OperationView) yson.Node {
	var list []string
	for _, name := range spec.PoolTrees.Value() {
		if !v.IsIn(name) {
			list = append(list, name)
		}
	}
	return wire.Texts(list)
}

func resultOf(_ *pathtree.Request, v *OperationView) (yson.Node, bool, error) {
	if v.Live != nil {
		if v.Live.Result == nil {
			return yson.Entity(), false, nil
		}
		return yson.Map(yson.Pair("error", wire.OperationResult(v.Live.Result))), true, nil
	}
	if len(v.row.Result) == 0 {
		return yson.Map(yson.Pair("error", wire.OperationResult(nil))), true, nil
	}
	var e operation.Error
	if err := json.Unmarshal(v.row.Result, &e); err != nil {
		return yson.Entity(), false, err
	}
	return yson.Map(yson.Pair("error", wire.OperationResult(&e))), true, nil
}

func eventsOf(_ *pathtree.Request, v *OperationView) (yson.Node, error) {
	var events []operation.Event
	if v.Live != nil {
		events = v.Live.Events
	} else if len(v.row.Events) > 0 {
		if err := json.Unmarshal(v.row.Events, &events); err != nil {
			return yson.Node{}, err
		}
	}
	items := make([]yson.Node, len(events))
	for i, e := range events {
		var attributes []yson.Entry
		for _, a := range e.Attributes {
			attributes = append(attributes, yson.Pair(a.Name, yson.String(a.Value)))
		}
		items[i] = yson.Map(
			yson.Pair("time", wire.Instant(e.Time)),
			yson.Pair("state", yson.String(e.State.String())),
			yson.Pair("attributes", yson.Map(wire.Distinct(attributes)...)))
	}
	return yson.List(items...), nil
}

func alertsOf(c *pathtree.Request, v *OperationView) (yson.Node, error) {
	if v.Live == nil {
		return StoredJSON(v.row.Alerts)
	}
	var entries []yson.Entry
	for _, alert := range v.Live.Alerts {
		entries = append(entries, yson.Pair(string(alert.Kind), alertNode(alert)))
	}
	if text := limitedOptions(c.Server.View().Picture, v); text != "" {
		alert := server.Alert{Kind: "limited_starvation_options", Message: text, Since: v.Live.Start}
		entries = append(entries, yson.Pair(string(alert.Kind), alertNode(alert)))
	}
	return yson.Map(wire.Distinct(entries)...), nil
}

// limitedOptions says which options of an operation do not hold because its pools limit them; empty
// if all hold.
func limitedOptions(picture *core.Picture, v *OperationView) string {
	o, there := picture.Operation(v.Number)
	if !there {
		return ""
	}
	var texts []string
	for seat := range picture.Seats(o) {
		for _, clamp := range seat.Patience.Clamped(&seat.Options) {
			texts = append(texts, fmt.Sprintf("%v (pool %s of tree %s)", clamp, seat.Pool, picture.Trees[seat.Tree].Name))
		}
	}
	return strings.Join(texts, "; ")
}

// alertNode writes an alert as clients expect it: as an error.
func alertNode(alert server.Alert) yson.Node {
	return yson.Map(
		yson.Pair("code", yson.Int64(wire.CodeGeneric)),
		yson.Pair("message", yson.String(alert.Message)),
		yson.Pair("attributes", yson.Map(
			yson.Pair("alert_type", yson.String(string(alert.Kind))), yson.Pair("datetime", wire.Instant(alert.Since)))),
		yson.Pair("inner_errors", yson.List()))
}

func taskNames(c *pathtree.Request, v *OperationView) (yson.Node, error) {
	spec, err := v.resulting(c)
	if err != nil || spec == nil {
		return yson.List(), err
	}
	var names []string
	for i := range spec.Tasks {
		names = append(names, spec.Tasks[i].Name)
	}
	return wire.Texts(names), nil
}

func schedulingAttributes(c *pathtree.Request, v *OperationView) (yson.Node, error) {
	var entries []yson.Entry
	for _, p := range v.Places() {
		own := yson.Map(yson.Pair("pool", yson.String(p.Pool)))
		if slot, there := slotIndex(c, v, p.Tree); there {
			own = own.With("slot_index", slot)
		}
		entries = append(entries, yson.Pair(p.Tree, own))
	}
	return yson.Map(entries...), nil
}

func slotIndices(c *pathtree.Request, v *OperationView) (yson.Node, error) {
	var entries []yson.Entry
	for _, p := range v.Places() {
		if slot, there := slotIndex(c, v, p.Tree); there {
			entries = append(entries, yson.Pair(p.Tree, slot))
		}
	}
	return yson.Map(entries...), nil
}

// slotIndex is a live operation's number in its pool of a tree.
func slotIndex(c *pathtree.Request, v *OperationView, tree string) (yson.Node, bool) {
	if v.Live == nil || !c.Server.Leading() {
		return yson.Entity(), false
	}
	state, err := Current(c)
	if err != nil {
		return yson.Entity(), false
	}
	t, there := state.Tree(tree)
	if !there {
		return yson.Entity(), false
	}
	seat := t.seatOf(v.Number)
	if seat == nil {
		return yson.Entity(), false
	}
	return yson.Int64(int64(seat.Index)), true
}

func waitingFor(_ *pathtree.Request, v *OperationView) (yson.Node, error) {
	if v.Live == nil {
		return yson.List(), nil
	}
	return wire.Texts(v.Live.Waiting), nil
}

// OperationAttributeBy finds a row of the table.
func OperationAttributeBy(name string) (*operationAttribute, bool) {
	i := slices.IndexFunc(operationAttributes, func(a operationAttribute) bool { return a.name == name })
	if i < 0 {
		return nil, false
	}
	return &operationAttributes[i], true
}

// DocumentStyle is the style of documents for clients.
const DocumentStyle = document.ForPrograms

// Describe writes an operation with the named attributes, with all of them, or with those of lists.
func (v *OperationView) Describe(c *pathtree.Request, names []string, listing bool) ([]yson.Entry, error) {
	var wanted []*operationAttribute
	readable := error(nil)
	asked := false
	for _, name := range names {
		a, _ := OperationAttributeBy(name)
		if a.private && !asked {
			asked = true
			if readable = MayRead(c, v); readable != nil {
				return nil, readable
			}
		}
		wanted = append(wanted, a)
	}
	if names == nil {
		if !listing {
			readable = MayRead(c, v)
		}
		for i := range operationAttributes {
			// Attributes that the user may not read are left out unless they are named.
			if a := &operationAttributes[i]; listing && a.listed || !listing && (!a.private || readable == nil) {
				wanted = append(wanted, a)
			}
		}
	}
	var entries []yson.Entry
	for _, a := range wanted {
		n, there, err := a.of(c, v)
		if err != nil {
			return nil, err
		}
		if there {
			entries = append(entries, yson.Pair(a.name, n))
		}
	}
	return wire.Distinct(entries), nil
}
