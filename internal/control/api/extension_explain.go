package api

import (
	"github.com/weirhq/weir/internal/control/orchid"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/value/yson"
)

// explainOperation explains why an operation's jobs wait: one list of blockers in the order in which
// to fix them, the conditions behind it, and the derivation of the operation's share.
func explainOperation(c *call) (yson.Node, error) {
	if err := c.Live(); err != nil {
		return yson.Node{}, err
	}
	v := c.operation
	asOf, err := c.asOf()
	if err != nil {
		return yson.Node{}, err
	}
	if asOf.IsZero() {
		err = v.MustLive()
	}
	if err != nil {
		return yson.Node{}, err
	}
	sole, err := c.Parameters.Boolean("sole", false)
	if err != nil {
		return yson.Node{}, err
	}
	answer, err := c.Server.ExplainOperation(c.Context, c.Who.User, v.Number, sole, asOf)
	if err != nil {
		return yson.Node{}, err
	}
	found, names := answer.Value, c.operationNames(answer.Glass)
	x := &found.Facts
	trees, treeNames := make([]yson.Node, len(x.Trees)), make([]string, len(x.Trees))
	for i := range x.Trees {
		trees[i], treeNames[i] = explainedTree(&x.Trees[i]), x.Trees[i].Tree
	}
	held := yson.Entity()
	if text := c.Server.HeldBackIn(treeNames...); text != "" && asOf.IsZero() {
		held = yson.String(text)
	}
	block := yson.Entity()
	if x.Block != operation.NotBlocked {
		block = yson.String(x.Block.String())
	}
	backoff := yson.Entity()
	if !x.BacksOffUntil.IsZero() {
		backoff = wire.Instant(x.BacksOffUntil)
	}
	return yson.Map(
		yson.Pair("operation_id", yson.String(v.ID.String())),
		yson.Pair("state", yson.String(x.State.String())),
		yson.Pair("suspended", yson.Boolean(x.Suspended)),
		yson.Pair("blocked_by", block),
		yson.Pair("backs_off_until", backoff),
		yson.Pair("held_back", held),
		yson.Pair("age", wire.Milliseconds(x.Age)),
		yson.Pair("as_of", wire.Instant(answer.Glass.AsOf)),
		yson.Pair("epoch", yson.Int64(int64(answer.Glass.Epoch))),
		yson.Pair("starts_at_next_heartbeat", startsNode(found.Starts, found.Node)),
		yson.Pair("blockers", blockerNodes(found.Blockers, names)),
		yson.Pair("then", blockerNodes(found.Then, names)),
		yson.Pair("kinds", kindNodes(found.Kinds, names)),
		yson.Pair("pool_trees", yson.List(trees...))), nil
}

func explainedTree(x *core.TreeExplanation) yson.Node {
	waits := yson.Entity()
	if w := x.Waits; w != nil {
		waits = yson.Map(
			yson.Pair("pool", yson.String(w.Pool)), yson.Pair("running", yson.Int64(int64(w.Running))),
			yson.Pair("max_running_operation_count", yson.Int64(int64(w.Limit))), yson.Pair("ahead", yson.Int64(int64(w.Ahead))))
	}
	tasks := make([]yson.Node, len(x.Tasks))
	for i := range x.Tasks {
		t := &x.Tasks[i]
		tasks[i] = yson.Map(
			yson.Pair("task_name", yson.String(t.Task)), yson.Pair("job_resources", wire.AmountsNode(t.Resources)),
			yson.Pair("waiting_job_count", yson.Int64(int64(t.Waiting))), yson.Pair("fitting_node_count", yson.Int64(int64(t.Fitting))),
			yson.Pair("obstacles", obstacleNodes(t.Obstacles)))
	}
	return yson.Map(
		yson.Pair("pool_tree", yson.String(x.Tree)),
		yson.Pair("pool", yson.String(x.Pool)),
		yson.Pair("running_job_count", yson.Int64(int64(x.RunningJobs))),
		yson.Pair("waiting_job_count", yson.Int64(int64(x.WaitingJobs))),
		yson.Pair("node_count", yson.Int64(int64(x.Nodes))),
		yson.Pair("fitting_node_count", yson.Int64(int64(x.Fitting))),
		yson.Pair("waits_for", waits),
		yson.Pair("obstacles", obstacleNodes(x.Obstacles)),
		yson.Pair("tasks", yson.List(tasks...)),
		yson.Pair("starvation", starvationNode(&x.Starvation, x.Clamps)),
		yson.Pair("preemption", yson.Map(
			yson.Pair("priority", yson.String(x.Preemption.Priority.String())),
			yson.Pair("because_of", wire.OrEntity(x.Preemption.Starver)),
			yson.Pair("fitting_node_count", yson.Int64(int64(x.Preemption.Normal))),
			yson.Pair("fitting_node_count_aggressively", yson.Int64(int64(x.Preemption.Aggressive))))),
		yson.Pair("fair_share", shareNode(x.Share)))
}

func obstacleNodes(list []core.Obstacle) yson.Node {
	items := make([]yson.Node, len(list))
	for i := range list {
		o := &list[i]
		entries := []yson.Entry{yson.Pair("reason", yson.String(o.Refusal.String())), yson.Pair("pool", wire.OrEntity(o.Pool))}
		if o.Needed != 0 || o.Available != 0 {
			if o.Refusal == scheduling.RefusedCount {
				entries = append(entries,
					yson.Pair("needed", yson.Int64(o.Needed)), yson.Pair("available", yson.Int64(o.Available)))
			} else {
				entries = append(entries, yson.Pair("resource", yson.String(o.Resource.String())),
					yson.Pair("needed", wire.AmountNode(o.Resource, o.Needed)), yson.Pair("available", wire.AmountNode(o.Resource, o.Available)))
			}
		}
		if o.Nodes > 0 {
			entries = append(entries,
				yson.Pair("node_count", yson.Int64(int64(o.Nodes))), yson.Pair("too_small_node_count", yson.Int64(int64(o.TooSmall))))
		}
		items[i] = yson.Map(entries...)
	}
	return yson.List(items...)
}

func starvationNode(s *scheduling.StarvationOutlook, clamps []pooltree.Clamp) yson.Node {
	aggressive := yson.Entity()
	if s.Aggressive {
		aggressive = wire.Milliseconds(s.AggressiveTimeout)
	}
	limited := make([]yson.Node, len(clamps))
	for i, clamp := range clamps {
		limited[i] = yson.String(clamp.String())
	}
	return yson.Map(
		yson.Pair("scheduling_status", yson.String(s.Status.String())),
		yson.Pair("starvation_status", yson.String(s.Starvation.String())),
		yson.Pair("below_fair_share_since", wire.Instant(s.BelowSince)),
		yson.Pair("starving_since", wire.Instant(s.StarvingSince)),
		yson.Pair("timeout", wire.Milliseconds(s.Timeout)),
		yson.Pair("aggressive_timeout", aggressive),
		yson.Pair("tolerance", yson.Double(s.Tolerance)),
		yson.Pair("within_tolerance", yson.Boolean(s.WithinTolerance)),
		yson.Pair("fair_share_covers_demand", yson.Boolean(s.CoversDemand)),
		yson.Pair("limited_options", yson.List(limited...)))
}

// shareNode derives a fair share, from the operation up to the root.
func shareNode(x *core.ShareExplanation) yson.Node {
	if x == nil {
		return yson.Entity()
	}
	chain := make([]yson.Node, len(x.Chain))
	for i := range x.Chain {
		link := &x.Chain[i]
		chain[i] = yson.Map(
			yson.Pair("pool", wire.OrEntity(link.Pool)),
			yson.Pair("fair_share", wire.SharesNode(link.Share)),
			yson.Pair("guarantee", wire.SharesNode(link.Guarantee)),
			yson.Pair("demand", wire.SharesNode(link.Demand)),
			yson.Pair("limits", wire.SharesNode(link.Limits)),
			yson.Pair("weight", orchid.Number(link.Weight)),
			yson.Pair("suggestion", orchid.Number(link.Suggestion)),
			yson.Pair("fifo_index", fifoIndex(link.FIFOIndex)))
	}
	scarce := yson.Entity()
	if x.Bound != fairshare.BoundDemand {
		scarce = yson.String(x.Resource.String())
	}
	return yson.Map(
		yson.Pair("detailed_fair_share", new(wire.Vectors).Split(&x.Share)),
		yson.Pair("detailed_dominant_fair_share", wire.DominantSplit(&x.Share)),
		yson.Pair("bound", yson.String(x.Bound.String())),
		yson.Pair("bound_by_pool", wire.OrEntity(x.By)),
		yson.Pair("scarce_resource", scarce),
		yson.Pair("chain", yson.List(chain...)))
}

func fifoIndex(i int32) yson.Node {
	if i < 0 {
		return yson.Entity()
	}
	return yson.Int64(int64(i))
}
