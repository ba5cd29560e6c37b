package api

import (
	"errors"
	"time"

	"github.com/weirhq/weir/internal/control/orchid"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/engine/why"
	"github.com/weirhq/weir/internal/value/yson"
)

// namer returns what a caller may call an operation.
type namer func(core.OperationID) string

// anotherOperation stands for an operation that the caller may not read.
const anotherOperation = "another operation"

// operationNames returns the names of operations for the caller: all of them if the caller may list
// operations, otherwise the caller's own.
func (c *call) operationNames(g *server.Glass) namer {
	all := c.mayReadAt(orchid.OperationsPath) == nil
	return func(id core.OperationID) string {
		op, there := c.Server.OperationByNumber(id)
		if all || there && op.User == c.Who.User {
			return g.NameOf(c.Server, id)
		}
		return anotherOperation
	}
}

// asOf returns the past moment that a question is about; zero means now.
func (c *call) asOf() (time.Time, error) {
	at, err := c.Parameters.Moment("as_of")
	if err == nil && at.After(c.Now) {
		err = wire.Errorf(wire.CodeGeneric, "Error parsing parameter /as_of: %s is in the future", at.UTC().Format(time.RFC3339))
	}
	return at, err
}

func startsNode(starts int, node string) yson.Node {
	if starts == 0 {
		return yson.Entity()
	}
	return yson.Map(yson.Pair("job_count", yson.Int64(int64(starts))), yson.Pair("node", yson.String(node)))
}

func kindNodes(list []why.Kind, names namer) yson.Node {
	items := make([]yson.Node, len(list))
	for i := range list {
		k := &list[i]
		items[i] = yson.Map(
			yson.Pair("pool_tree", yson.String(k.Tree)), yson.Pair("pool", yson.String(k.Pool)), yson.Pair("task_name", yson.String(k.Task)),
			yson.Pair("job_resources", wire.AmountsNode(k.Need)), yson.Pair("waiting_job_count", yson.Int64(int64(k.Waiting))),
			yson.Pair("node_count", yson.Int64(int64(k.Nodes))), yson.Pair("fitting_node_count", yson.Int64(int64(k.Fitting))),
			yson.Pair("last_start_time", wire.Instant(k.LastStart)),
			yson.Pair("starts_at_next_heartbeat", startsNode(k.Starts, k.Node)),
			yson.Pair("blockers", blockerNodes(k.Blockers, names)),
			yson.Pair("then", blockerNodes(k.Then, names)))
	}
	return yson.List(items...)
}

func blockerNodes(list []why.Blocker, names namer) yson.Node {
	items := make([]yson.Node, len(list))
	for i := range list {
		items[i] = blockerNode(&list[i], names)
	}
	return yson.List(items...)
}

// blockerNode writes a blocker; keys that do not apply to it are left out.
func blockerNode(b *why.Blocker, names namer) yson.Node {
	entries := []yson.Entry{
		yson.Pair("code", yson.String(b.Code.String())), yson.Pair("class", yson.String(b.Code.Class().String())),
		yson.Pair("text", yson.String(b.Text(names))),
	}
	add := func(key string, value yson.Node) { entries = append(entries, yson.Pair(key, value)) }
	texts := func(key, value string) {
		if value != "" {
			add(key, yson.String(value))
		}
	}
	counts := func(key string, n int) {
		if n > 0 {
			add(key, yson.Int64(int64(n)))
		}
	}
	texts("pool_tree", b.Tree)
	texts("task_name", b.Task)
	texts("pool", b.Pool)
	if b.HasResource {
		amount := func(key string, v int64) { add(key, wire.AmountNode(b.Resource, v)) }
		add("resource", yson.String(b.Resource.String()))
		amount("needed", b.Need)
		amount("short", b.Short)
		switch b.Code {
		case why.Limit, why.JobLargerThanLimit:
			add("option", yson.String(b.Option.String()))
			amount("limit", b.Limit)
			amount("used", b.Used)
		case why.JobLargerThanAnyNode:
			amount("largest", b.Limit)
		default:
			amount("free", b.Free)
			add("fragmented", yson.Boolean(b.Fragmented))
			add("spare", yson.Boolean(b.Spare))
		}
	}
	counts("node_count", b.Nodes)
	counts("too_small_node_count", b.TooSmall)
	if len(b.Names) > 0 {
		nodes := make([]yson.Node, len(b.Names))
		for i, name := range b.Names {
			nodes[i] = yson.String(name)
		}
		add("nodes", yson.List(nodes...))
	}
	if b.Code == why.NodeGated {
		add("gates", gateCounts(b))
	}
	if b.Code == why.CountLimit {
		add("running", yson.Int64(int64(b.Running)))
		add("max_running_operation_count", yson.Int64(int64(b.Most)))
		add("ahead", yson.Int64(int64(b.Ahead)))
	}
	if b.Code == why.Gang {
		add("gang", gangNode(&b.Gang, names))
	}
	counts("waiting_requests", b.Waiting)
	if len(b.Holders) > 0 {
		add("holders", holderNodes(b, names))
		counts("other_holder_count", b.Others)
		if b.OthersAmount > 0 {
			add("others_amount", wire.AmountNode(b.Resource, b.OthersAmount))
		}
	}
	if len(b.Rivals) > 0 {
		add("served_first", rivalNodes(b, names))
		counts("other_served_first_count", b.OtherRivals)
		add("satisfaction", orchid.Number(b.Own))
	}
	if !b.Since.IsZero() {
		add("since", wire.Instant(b.Since))
		kind := "condition"
		if b.SinceLastStart {
			kind = "last_start"
		}
		add("since_kind", yson.String(kind))
	}
	if !b.Until.IsZero() {
		add("until", wire.Instant(b.Until))
	}
	if b.Sole != why.SoleUnknown {
		add("sole", yson.Boolean(b.Sole == why.SoleYes))
		add("starts_without_it", yson.Int64(int64(b.Starts)))
	}
	return yson.Map(entries...)
}

func gangNode(g *core.GangExplanation, names namer) yson.Node {
	entries := []yson.Entry{
		yson.Pair("needed", yson.Int64(g.Lack)), yson.Pair("waiting", yson.Int64(g.Waiting)), yson.Pair("fitting", yson.Int64(g.Fitting)),
		yson.Pair("kept", yson.Int64(g.Kept)), yson.Pair("assembling", yson.Boolean(g.Assembling)),
	}
	if g.Ahead != core.NoOperation {
		entries = append(entries, yson.Pair("assembling_operation", yson.String(names(g.Ahead))))
	}
	return yson.Map(entries...)
}

func gateCounts(b *why.Blocker) yson.Node {
	var entries []yson.Entry
	for code, n := range b.Gates {
		if n > 0 {
			entries = append(entries, yson.Pair(why.NodeGateCode(code).String(), yson.Int64(int64(n))))
		}
	}
	return yson.Map(entries...)
}

func holderNodes(b *why.Blocker, names namer) yson.Node {
	items := make([]yson.Node, len(b.Holders))
	for i := range b.Holders {
		h := &b.Holders[i]
		entries := []yson.Entry{yson.Pair("operation", yson.String(names(h.Operation)))}
		if h.Pool != "" {
			entries = append(entries, yson.Pair("pool", yson.String(h.Pool)), yson.Pair("amount", wire.AmountNode(b.Resource, h.Amount)))
			var classes []yson.Entry
			for class, n := range h.Classes.Classes {
				classes = append(classes, yson.Pair(scheduling.Class(class).String(), yson.Int64(int64(n))))
			}
			entries = append(entries, yson.Pair("job_classes", yson.Map(classes...)))
		}
		entries = append(entries, yson.Pair("since", wire.Instant(h.Since)))
		if !h.FirstEnd.IsZero() {
			entries = append(entries, yson.Pair("first_end", wire.Instant(h.FirstEnd)))
		}
		items[i] = yson.Map(entries...)
	}
	return yson.List(items...)
}

func rivalNodes(b *why.Blocker, names namer) yson.Node {
	items := make([]yson.Node, len(b.Rivals))
	for i := range b.Rivals {
		r := &b.Rivals[i]
		items[i] = yson.Map(
			yson.Pair("operation", yson.String(names(r.Operation))), yson.Pair("pool", yson.String(r.Pool)),
			yson.Pair("job_count", yson.Int64(int64(r.Jobs))), yson.Pair("satisfaction", orchid.Number(r.Satisfaction)))
	}
	return yson.List(items...)
}

// explainPool explains what a pool demands and does not have, by first blocker.
func explainPool(c *call) (yson.Node, error) {
	if err := c.Live(); err != nil {
		return yson.Node{}, err
	}
	tree, err := c.Parameters.Text("pool_tree", c.Server.Trees().Default)
	if err != nil {
		return yson.Node{}, err
	}
	pool, err := c.Parameters.Text("pool", "")
	if err != nil {
		return yson.Node{}, err
	}
	asOf, err := c.asOf()
	if err != nil {
		return yson.Node{}, err
	}
	answer, err := c.Server.ExplainPool(c.Context, c.Who.User, tree, pool, asOf)
	var missing *core.PoolError
	if errors.As(err, &missing) {
		return yson.Node{}, wire.Errorf(wire.CodeResolve, "%s", missing.Error())
	}
	if err != nil {
		return yson.Node{}, err
	}
	return poolNode(answer.Value, answer.Glass, c.operationNames(answer.Glass)), nil
}

func poolNode(x *why.Pool, g *server.Glass, names namer) yson.Node {
	amount := func(v int64) yson.Node { return wire.AmountNode(x.Resource, v) }
	rows := make([]yson.Node, len(x.Rows))
	for i := range x.Rows {
		row := &x.Rows[i]
		entries := []yson.Entry{
			yson.Pair("code", causeNode(row.StartsNow, &row.Blocker)), yson.Pair("amount", amount(row.Amount)),
			yson.Pair("waiting_job_count", yson.Int64(int64(row.Jobs))), yson.Pair("operation_count", yson.Int64(int64(row.Operations))),
		}
		if !row.StartsNow {
			entries = append(entries, yson.Pair("blocker", blockerNode(&row.Blocker, names)))
		}
		rows[i] = yson.Map(entries...)
	}
	waiting := make([]yson.Node, len(x.Waiting))
	for i := range x.Waiting {
		w := &x.Waiting[i]
		entries := []yson.Entry{
			yson.Pair("operation", yson.String(names(w.Operation))), yson.Pair("pool", yson.String(w.Pool)), yson.Pair("amount", amount(w.Amount)),
			yson.Pair("waiting_job_count", yson.Int64(int64(w.Jobs))), yson.Pair("code", causeNode(w.StartsNow, &w.Blocker)),
		}
		if !w.StartsNow {
			entries = append(entries, yson.Pair("text", yson.String(w.Blocker.Text(names))))
		}
		waiting[i] = yson.Map(entries...)
	}
	children := make([]yson.Node, len(x.Children))
	for i, child := range x.Children {
		children[i] = yson.Map(yson.Pair("pool", yson.String(child.Pool)), yson.Pair("usage", amount(child.Usage)), yson.Pair("gap", amount(child.Gap)))
	}
	guarantee := yson.Entity()
	if u := x.Guarantee; u != nil {
		guarantee = yson.Map(
			yson.Pair("resource", yson.String(u.Resource.String())), yson.Pair("amount", wire.AmountNode(u.Resource, u.Amount)),
			yson.Pair("due", wire.AmountNode(u.Resource, u.Due)), yson.Pair("got", wire.AmountNode(u.Resource, u.Got)),
			yson.Pair("short", wire.AmountNode(u.Resource, u.Short)))
	}
	return yson.Map(
		yson.Pair("pool_tree", yson.String(x.Tree)), yson.Pair("pool", yson.String(x.Pool)), yson.Pair("guarantee", guarantee),
		yson.Pair("as_of", wire.Instant(g.AsOf)), yson.Pair("epoch", yson.Int64(int64(g.Epoch))),
		yson.Pair("usage", wire.AmountsNode(x.Usage)), yson.Pair("demand", wire.AmountsNode(x.Demand)),
		yson.Pair("resource", yson.String(x.Resource.String())), yson.Pair("gap", amount(x.Gap)),
		yson.Pair("waterfall", yson.List(rows...)), yson.Pair("waiting_operations", yson.List(waiting...)),
		yson.Pair("children", yson.List(children...)))
}

// causeNode names the first blocker, or states that jobs start now.
func causeNode(startsNow bool, b *why.Blocker) yson.Node {
	if startsNow {
		return yson.String("starts_now")
	}
	return yson.String(b.Code.String())
}

// explainCluster explains what waits in all trees.
func explainCluster(c *call) (yson.Node, error) {
	if err := c.Live(); err != nil {
		return yson.Node{}, err
	}
	asOf, err := c.asOf()
	if err != nil {
		return yson.Node{}, err
	}
	answer, err := c.Server.ExplainCluster(c.Context, c.Who.User, asOf)
	if err != nil {
		return yson.Node{}, err
	}
	names := c.operationNames(answer.Glass)
	trees := make([]yson.Node, len(answer.Value.Trees))
	for i, x := range answer.Value.Trees {
		trees[i] = poolNode(x, answer.Glass, names)
	}
	gates := make([]yson.Node, len(answer.Value.Gates.Cluster))
	for i, g := range answer.Value.Gates.Cluster {
		gates[i] = yson.Map(
			yson.Pair("code", yson.String(g.Code.String())), yson.Pair("since", wire.Instant(g.Since)), yson.Pair("until", wire.Instant(g.Until)),
			yson.Pair("node_count", yson.Int64(int64(len(g.Nodes)))), yson.Pair("waiting_requests", yson.Int64(int64(g.Waiting))))
	}
	nodes := make([]yson.Node, len(answer.Value.Gates.Nodes))
	for i, g := range answer.Value.Gates.Nodes {
		nodes[i] = yson.Map(yson.Pair("node", yson.String(g.Name)), yson.Pair("code", yson.String(g.Code.String())))
	}
	return yson.Map(
		yson.Pair("as_of", wire.Instant(answer.Glass.AsOf)), yson.Pair("epoch", yson.Int64(int64(answer.Glass.Epoch))),
		yson.Pair("gates", yson.List(gates...)), yson.Pair("node_gates", yson.List(nodes...)), yson.Pair("pool_trees", yson.List(trees...))), nil
}

// explainJob explains a job: where it runs and what may preempt it, or how it ended.
func explainJob(c *call) (yson.Node, error) {
	if err := c.Live(); err != nil {
		return yson.Node{}, err
	}
	operation := c.operation.ID.String()
	ended := func() (yson.Node, error) {
		entries, err := c.job.Describe(c.operation, []string{"state", "error", "finish_time", "address", "interruption_info"}, c.Now)
		if err != nil {
			return yson.Node{}, err
		}
		return yson.Map(append([]yson.Entry{
			yson.Pair("job_id", yson.String(c.job.ID.String())), yson.Pair("operation_id", yson.String(operation)), yson.Pair("running", yson.Boolean(false)),
		}, entries...)...), nil
	}
	if c.job.Live == nil {
		return ended()
	}
	answer, err := c.Server.ExplainJob(c.Context, c.Who.User, c.job.Live.Number)
	if errors.Is(err, why.ErrNoJob) { // it has ended meanwhile
		return ended()
	}
	if err != nil {
		return yson.Node{}, err
	}
	j := answer.Value
	return yson.Map(
		yson.Pair("job_id", yson.String(c.job.ID.String())), yson.Pair("operation_id", yson.String(operation)), yson.Pair("running", yson.Boolean(true)),
		yson.Pair("as_of", wire.Instant(answer.Glass.AsOf)), yson.Pair("epoch", yson.Int64(int64(answer.Glass.Epoch))),
		yson.Pair("task_name", yson.String(j.Task)), yson.Pair("node", yson.String(j.NodeName)), yson.Pair("pool", yson.String(j.Pool)),
		yson.Pair("stage", yson.String(c.job.Live.Stage)), yson.Pair("start_time", wire.Instant(j.Started)),
		yson.Pair("resources", wire.AmountsNode(j.Resources)),
		yson.Pair("preemption_class", yson.String(j.Class.String())), yson.Pair("preempted", yson.Boolean(j.Preempted)),
		yson.Pair("preempted_before_it", yson.Int64(int64(j.Newer))),
		yson.Pair("fair_share", wire.SharesNode(j.Share)), yson.Pair("usage_share", wire.SharesNode(j.Usage)),
		yson.Pair("satisfaction", orchid.Number(j.Satisfaction)), yson.Pair("starvation_status", yson.String(j.Starvation.String()))), nil
}
