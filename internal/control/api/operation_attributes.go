package api

import (
	"encoding/json"
	"slices"

	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/yson"
)

// operationAttribute is a key under which an operation shows something.
type operationAttribute struct {
	name string
	// private ones are for those who may read the operation.
	private bool
	// listed ones are in lists that do not say what they want.
	listed bool
	// of returns the value, and false if there is none at the moment.
	of func(c *call, v *operationView) (yson.Node, bool, error)
}

// operationAttributes is the table, in the order of answers.
var operationAttributes = operationAttributeTable()

func operationAttributeTable() []operationAttribute {
	value := func(name string, of func(c *call, v *operationView) (yson.Node, error)) operationAttribute {
		return operationAttribute{name: name, of: func(c *call, v *operationView) (yson.Node, bool, error) {
			n, err := of(c, v)
			return n, err == nil, err
		}}
	}
	plain := func(name string, of func(v *operationView) yson.Node) operationAttribute {
		a := value(name, func(_ *call, v *operationView) (yson.Node, error) { return of(v), nil })
		a.listed = true
		return a
	}
	private := func(a operationAttribute) operationAttribute { a.private = true; return a }
	listed := func(a operationAttribute) operationAttribute { a.listed = true; return a }
	constant := func(name string, n yson.Node) operationAttribute {
		return value(name, func(*call, *operationView) (yson.Node, error) { return n, nil })
	}
	return []operationAttribute{
		plain("id", func(v *operationView) yson.Node { return yson.String(v.id.String()) }),
		plain("state", func(v *operationView) yson.Node { return yson.String(v.state()) }),
		plain("type", func(v *operationView) yson.Node { return yson.String(v.kind) }),
		plain("operation_type", func(v *operationView) yson.Node { return yson.String(v.kind) }),
		plain("authenticated_user", func(v *operationView) yson.Node { return yson.String(v.user) }),
		plain("start_time", (*operationView).startTime),
		{name: "finish_time", listed: true, of: finishTime},
		plain("suspended", func(v *operationView) yson.Node { return yson.Boolean(v.suspended()) }),
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
		value("controller_agent_address", func(c *call, _ *operationView) (yson.Node, error) {
			return yson.String(c.server.Address()), nil
		}),
		constant("experiment_assignments", yson.List()),
		constant("experiment_assignment_names", yson.List()),
		constant("controller_features", yson.Map()),
		value("waiting_for_pools", waitingFor),
		{name: "has_failed_jobs", listed: true, of: hasFailedJobs},
	}
}

func (v *operationView) state() string {
	if v.live != nil {
		return v.live.State.String()
	}
	return v.row.State
}

func (v *operationView) suspended() bool {
	return v.live != nil && v.live.Suspended || v.row != nil && v.row.Suspended
}

func (v *operationView) startTime() yson.Node {
	if v.live != nil {
		return instant(v.live.Start)
	}
	return instant(v.row.StartTime)
}

func finishTime(_ *call, v *operationView) (yson.Node, bool, error) {
	if v.row == nil || v.row.FinishTime.IsZero() {
		return yson.Entity(), false, nil
	}
	return instant(v.row.FinishTime), true, nil
}

func aliasOf(_ *call, v *operationView) (yson.Node, bool, error) {
	alias := ""
	if v.live != nil {
		alias = v.live.Alias()
	} else {
		alias = v.row.Alias
	}
	return yson.String(alias), alias != "", nil
}

func hasFailedJobs(_ *call, v *operationView) (yson.Node, bool, error) {
	if v.live != nil {
		return yson.Boolean(v.live.Jobs.Failed > 0), true, nil
	}
	return yson.Boolean(v.row.HasFailedJobs), true, nil
}

// storedJSON reads a document of the store; nothing is an empty map.
func storedJSON(data []byte) (yson.Node, error) {
	if len(data) == 0 {
		return yson.Map(), nil
	}
	return yson.ParseJSON(data, yson.JSONOptions{UTF8: true, Plain: true})
}

func briefSpec(_ *call, v *operationView) (yson.Node, error) {
	if v.live != nil {
		return fromDocument(v.live.BriefSpec()), nil
	}
	return storedJSON(v.row.BriefSpec)
}

func briefProgress(c *call, v *operationView) (yson.Node, error) {
	if v.live != nil {
		return fromDocument(v.live.BriefProgress()), nil
	}
	rows, err := v.storedProgress(c)
	if err != nil {
		return yson.Node{}, err
	}
	return storedJSON(rows.Brief)
}

// fullProgress is the progress with tasks, statistics and, while the operation
// lives, what the scheduler knows of it in each tree.
func fullProgress(c *call, v *operationView) (yson.Node, error) {
	var n yson.Node
	if v.live != nil {
		n = fromDocument(v.live.FullProgress())
	} else {
		rows, err := v.storedProgress(c)
		if err != nil {
			return yson.Node{}, err
		}
		if n, err = storedJSON(rows.Progress); err != nil {
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
func schedulingInfo(c *call, v *operationView) (yson.Node, error) {
	if v.live == nil || !c.server.Leading() {
		return yson.Map(), nil
	}
	state, err := c.orchid()
	if err != nil {
		return yson.Node{}, err
	}
	var entries []yson.Entry
	for _, t := range state.trees {
		if at, there := t.byOperation[v.number]; there {
			entries = append(entries, yson.Pair(t.info.Name, operationFields.all(new(vectors), t.operation(c.server, at), nil)))
		}
	}
	return yson.Map(entries...), nil
}

func providedSpec(c *call, v *operationView) (yson.Node, error) {
	if v.live != nil {
		return fromDocument(v.live.Provided), nil
	}
	rows, err := v.storedSpecs(c)
	if err != nil {
		return yson.Node{}, err
	}
	return storedJSON(rows.Provided)
}

func resultingSpec(c *call, v *operationView) (yson.Node, error) {
	if v.live != nil {
		return fromDocument(v.live.Spec.Document(documentStyle)), nil
	}
	rows, err := v.storedSpecs(c)
	if err != nil {
		return yson.Node{}, err
	}
	return storedJSON(rows.Resulting)
}

func unrecognizedSpec(c *call, v *operationView) (yson.Node, error) {
	if v.live != nil {
		if v.live.Unrecognized.IsNull() {
			return yson.Map(), nil
		}
		return fromDocument(v.live.Unrecognized), nil
	}
	rows, err := v.storedSpecs(c)
	if err != nil {
		return yson.Node{}, err
	}
	return storedJSON(rows.Unrecognized)
}

// runtimeParameters are the parameters that can be changed while the operation
// runs, as they are now. Lists are not worth reading the specifications of archived
// operations for: they show pools only.
func runtimeParameters(c *call, v *operationView) (yson.Node, error) {
	spec := v.spec
	if spec == nil && c.commandName != "list_operations" {
		var err error
		if spec, err = v.resulting(c); err != nil {
			return yson.Node{}, err
		}
	}
	if spec == nil {
		spec = &operation.Spec{}
	}
	var trees []yson.Entry
	for _, p := range v.places() {
		options := spec.OperationOptions.For(p.Tree)
		trees = append(trees, yson.Pair(p.Tree, yson.Map(
			yson.Pair("pool", yson.String(p.Pool)),
			yson.Pair("weight", optionNode(p.Weight.OrElse(options.Weight), yson.Double)),
			yson.Pair("resource_limits", partialNode(p.ResourceLimits.OrElse(options.ResourceLimits).Value())),
			yson.Pair("tentative", yson.Boolean(false)),
			yson.Pair("offloading", yson.Boolean(false)))))
	}
	acl := yson.List()
	if list, set := spec.ACL.Get(); set && !list.IsNull() {
		acl = fromDocument(list)
	}
	return yson.Map(
		yson.Pair("owners", texts(spec.Owners.Value())),
		yson.Pair("acl", acl),
		yson.Pair("scheduling_options_per_pool_tree", yson.Map(trees...)),
		yson.Pair("annotations", optionalMap(spec.Annotations)),
		yson.Pair("erased_trees", erasedTrees(spec, v)),
		yson.Pair("scheduling_tag_filter", yson.String(spec.SchedulingTagFilter.Value().String())),
		yson.Pair("options_per_job_shell", yson.Map())), nil
}

// erasedTrees are trees that the user named and the operation is not in.
func erasedTrees(spec *operation.Spec, v *operationView) yson.Node {
	var list []string
	for _, name := range spec.PoolTrees.Value() {
		if !v.isIn(name) {
			list = append(list, name)
		}
	}
	return texts(list)
}

func resultOf(_ *call, v *operationView) (yson.Node, bool, error) {
	if v.live != nil {
		if v.live.Result == nil {
			return yson.Entity(), false, nil
		}
		return yson.Map(yson.Pair("error", operationResult(v.live.Result))), true, nil
	}
	if len(v.row.Result) == 0 {
		return yson.Map(yson.Pair("error", operationResult(nil))), true, nil
	}
	var e operation.Error
	if err := json.Unmarshal(v.row.Result, &e); err != nil {
		return yson.Entity(), false, err
	}
	return yson.Map(yson.Pair("error", operationResult(&e))), true, nil
}

func eventsOf(_ *call, v *operationView) (yson.Node, error) {
	var events []operation.Event
	if v.live != nil {
		events = v.live.Events
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
			yson.Pair("time", instant(e.Time)),
			yson.Pair("state", yson.String(e.State.String())),
			yson.Pair("attributes", yson.Map(distinct(attributes)...)))
	}
	return yson.List(items...), nil
}

func alertsOf(_ *call, v *operationView) (yson.Node, error) {
	if v.live == nil {
		return storedJSON(v.row.Alerts)
	}
	var entries []yson.Entry
	for _, alert := range v.live.Alerts {
		entries = append(entries, yson.Pair(string(alert.Kind), alertNode(alert)))
	}
	return yson.Map(distinct(entries)...), nil
}

// alertNode writes an alert as clients know them: as an error.
func alertNode(alert server.Alert) yson.Node {
	return yson.Map(
		yson.Pair("code", yson.Int64(codeGeneric)),
		yson.Pair("message", yson.String(alert.Message)),
		yson.Pair("attributes", yson.Map(
			yson.Pair("alert_type", yson.String(string(alert.Kind))), yson.Pair("datetime", instant(alert.Since)))),
		yson.Pair("inner_errors", yson.List()))
}

func taskNames(c *call, v *operationView) (yson.Node, error) {
	spec, err := v.resulting(c)
	if err != nil || spec == nil {
		return yson.List(), err
	}
	var names []string
	for i := range spec.Tasks {
		names = append(names, spec.Tasks[i].Name)
	}
	return texts(names), nil
}

func schedulingAttributes(c *call, v *operationView) (yson.Node, error) {
	var entries []yson.Entry
	for _, p := range v.places() {
		own := yson.Map(yson.Pair("pool", yson.String(p.Pool)))
		if slot, there := slotIndex(c, v, p.Tree); there {
			own = own.With("slot_index", slot)
		}
		entries = append(entries, yson.Pair(p.Tree, own))
	}
	return yson.Map(entries...), nil
}

func slotIndices(c *call, v *operationView) (yson.Node, error) {
	var entries []yson.Entry
	for _, p := range v.places() {
		if slot, there := slotIndex(c, v, p.Tree); there {
			entries = append(entries, yson.Pair(p.Tree, slot))
		}
	}
	return yson.Map(entries...), nil
}

// slotIndex is the number of a live operation in its pool of a tree.
func slotIndex(c *call, v *operationView, tree string) (yson.Node, bool) {
	if v.live == nil || !c.server.Leading() {
		return yson.Entity(), false
	}
	state, err := c.orchid()
	if err != nil {
		return yson.Entity(), false
	}
	t, there := state.tree(tree)
	if !there {
		return yson.Entity(), false
	}
	at, there := t.byOperation[v.number]
	if !there {
		return yson.Entity(), false
	}
	return yson.Int64(int64(t.places[at].place.SlotIndex)), true
}

func waitingFor(_ *call, v *operationView) (yson.Node, error) {
	if v.live == nil {
		return yson.List(), nil
	}
	return texts(v.live.Waiting), nil
}

// operationAttributeBy finds a row of the table.
func operationAttributeBy(name string) (*operationAttribute, bool) {
	i := slices.IndexFunc(operationAttributes, func(a operationAttribute) bool { return a.name == name })
	if i < 0 {
		return nil, false
	}
	return &operationAttributes[i], true
}

// documentStyle is how documents are written for clients.
const documentStyle = document.ForPrograms

// describe writes an operation with the named attributes, or with all of them, or
// with those of lists.
func (v *operationView) describe(c *call, names []string, listing bool) ([]yson.Entry, error) {
	var wanted []*operationAttribute
	readable := error(nil)
	asked := false
	for _, name := range names {
		a, _ := operationAttributeBy(name)
		if a.private && !asked {
			asked = true
			if readable = c.mayRead(v); readable != nil {
				return nil, readable
			}
		}
		wanted = append(wanted, a)
	}
	if names == nil {
		if !listing {
			readable = c.mayRead(v)
		}
		for i := range operationAttributes {
			// What the user may not read is left out unless it is asked for.
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
	return distinct(entries), nil
}
