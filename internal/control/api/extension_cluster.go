package api

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/control/orchid"
	"github.com/weirhq/weir/internal/control/pathtree"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/value/yson"
)

// getCluster returns the cluster's resources and their use, for each tree and each resource, with
// all alerts that users should see.
func getCluster(c *call) (yson.Node, error) {
	if err := c.Live(); err != nil {
		return yson.Node{}, err
	}
	state, err := orchid.Current(c.Request)
	if err != nil {
		return yson.Node{}, err
	}
	trees := make([]yson.Entry, len(state.Trees))
	for i, t := range state.Trees {
		trees[i] = yson.Pair(t.Info.Name, t.Summary())
	}
	running, pending := 0, 0
	for o := range state.View.Picture.Operations() {
		running += o.Statistics.Running
		pending += o.Statistics.Pending
	}
	online, all := 0, c.Server.Nodes()
	for _, n := range all {
		if n.Online {
			online++
		}
	}
	counters := c.Server.Counters()
	return yson.Map(
		yson.Pair("time", wire.Instant(state.View.At)),
		yson.Pair("leader", yson.String(c.Server.Leader().Address)),
		yson.Pair("epoch", yson.Uint64(state.View.Epoch)),
		yson.Pair("reviving", yson.Boolean(state.View.Reviving)),
		yson.Pair("node_count", yson.Int64(int64(len(all)))),
		yson.Pair("online_node_count", yson.Int64(int64(online))),
		yson.Pair("operation_count", yson.Int64(int64(state.View.Picture.OperationCount()))),
		yson.Pair("running_job_count", yson.Int64(int64(running))),
		yson.Pair("pending_job_count", yson.Int64(int64(pending))),
		yson.Pair("update_duration", yson.Double(float64(counters.LastUpdate.Microseconds())/1000)),
		yson.Pair("default_pool_tree", wire.OrEntity(c.Server.Trees().Default)),
		yson.Pair("kubernetes", yson.Boolean(c.api.options.Pods != nil)),
		yson.Pair("pool_trees", yson.Map(trees...)),
		yson.Pair("held_back", heldBack(c.Server.HeldBack())),
		yson.Pair("alerts", orchid.SchedulerAlerts(c.Server))), nil
}

// heldBack are the nodes that the leader waits for after a takeover. "everything" means that nothing
// is scheduled before the node has reported.
func heldBack(nodes []server.HeldNode) yson.Node {
	items := make([]yson.Node, len(nodes))
	for i, n := range nodes {
		until := yson.Entity()
		if !n.Until.IsZero() {
			until = wire.Instant(n.Until)
		}
		items[i] = yson.Map(
			yson.Pair("address", yson.String(n.Name)), yson.Pair("pool_tree", wire.OrEntity(n.Tree)),
			yson.Pair("job_count", yson.Int64(int64(n.Jobs))), yson.Pair("operation_count", yson.Int64(int64(len(n.Operations)))),
			yson.Pair("resource_usage", wire.AmountsNode(n.Usage)), yson.Pair("until", until), yson.Pair("everything", yson.Boolean(n.Everything)))
	}
	return yson.List(items...)
}

// listNodes is a table of nodes, by name. It can be filtered by tree, tag, state and text.
func listNodes(c *call) (yson.Node, error) {
	if err := c.Live(); err != nil {
		return yson.Node{}, err
	}
	var tree, tag, wanted, text string
	err := c.Parameters.TextsInto(wire.TextInto("pool_tree", &tree), wire.TextInto("tag", &tag), wire.TextInto("state", &wanted), wire.TextInto("filter", &text))
	if err != nil {
		return yson.Node{}, err
	}
	if wanted != "" && !slices.Contains(nodeStates, wanted) {
		return yson.Node{}, wire.Errorf(wire.CodeGeneric, "Error parsing parameter /state: it must be one of %s, not %q", strings.Join(nodeStates, ", "), wire.CutText(wanted, 100))
	}
	limit, err := c.Parameters.Integer("limit", 10_000)
	if err != nil {
		return yson.Node{}, err
	}
	state, err := orchid.Current(c.Request)
	if err != nil {
		return yson.Node{}, err
	}
	nodes := c.Server.Nodes()
	slices.SortFunc(nodes, func(a, b *server.Node) int { return strings.Compare(a.Name, b.Name) })
	items := []yson.Node{}
	total := 0
	for _, n := range nodes {
		if tree != "" && n.Tree != tree || tag != "" && !slices.Contains(n.Tags, tag) || wanted != "" && nodeState(n) != wanted ||
			text != "" && !strings.Contains(n.Name, text) {
			continue
		}
		if total++; int64(total) <= limit {
			items = append(items, nodeRow(state, n))
		}
	}
	return yson.Map(
		yson.Pair("nodes", yson.List(items...)), yson.Pair("total", yson.Int64(int64(total))),
		yson.Pair("incomplete", yson.Boolean(total > len(items)))), nil
}

var nodeStates = []string{"online", "offline", "banned", "refused"}

func nodeState(n *server.Node) string {
	switch {
	case n.RegistrationError != "":
		return "refused"
	case n.Banned:
		return "banned"
	case !n.Online:
		return "offline"
	}
	return "online"
}

func nodeRow(state *orchid.State, n *server.Node) yson.Node {
	info := state.Node(n.Name)
	jobs := 0
	for _, count := range info.Jobs {
		jobs += count
	}
	alerts := slices.Clone(n.Status.Alerts)
	if n.RegistrationError != "" {
		alerts = append(alerts, n.RegistrationError)
	}
	return yson.Map(
		yson.Pair("address", yson.String(n.Name)),
		yson.Pair("state", yson.String(nodeState(n))),
		yson.Pair("pool_tree", wire.OrEntity(n.Tree)),
		yson.Pair("tags", wire.Texts(n.Tags)),
		yson.Pair("resource_limits", wire.AmountsNode(n.Limits)),
		yson.Pair("resource_usage", wire.AmountsNode(info.Usage)),
		yson.Pair("running_job_count", yson.Int64(int64(jobs))),
		yson.Pair("jobs_disabled", yson.Boolean(n.TakesNoJobs() || n.Status.JobsDisabled)),
		yson.Pair("maintenance_requests", pathtree.MaintenanceRequests(n.Maintenance)),
		yson.Pair("draining", yson.Boolean(n.Status.Draining)),
		yson.Pair("version", yson.String(n.Version)),
		yson.Pair("registered_time", wire.Instant(n.Registered)),
		yson.Pair("last_seen_time", wire.Instant(n.LastSeen)),
		yson.Pair("gpus", pathtree.GPUs(n)),
		yson.Pair("images", pathtree.Images(n)),
		yson.Pair("isolation", pathtree.Isolation(n)),
		yson.Pair("disk_quota", wire.OrEntity(n.DiskQuota)),
		yson.Pair("alerts", wire.Texts(alerts)))
}

// getHistory is the time series for a pool's charts: points of average and maximum, at the finest
// stored resolution that does not give too many points.
func getHistory(c *call) (yson.Node, error) {
	q, err := c.historyQuery()
	if err != nil {
		return yson.Node{}, err
	}
	lines, level, err := c.Server.History(c.Context, q)
	if err != nil {
		return yson.Node{}, err
	}
	series := make([]yson.Node, len(lines))
	for i, line := range lines {
		points := make([]yson.Node, len(line.Points))
		for j, p := range line.Points {
			points[j] = yson.List(wire.Instant(p.Time), orchid.Number(p.Average), orchid.Number(p.Max))
		}
		series[i] = yson.Map(
			yson.Pair("name", yson.String(line.Series.Name)), yson.Pair("resource", wire.OrEntity(line.Series.Resource)),
			yson.Pair("points", yson.List(points...)))
	}
	return yson.Map(
		yson.Pair("pool_tree", yson.String(q.Tree)), yson.Pair("pool", yson.String(q.Pool)),
		yson.Pair("from_time", wire.Instant(q.From)), yson.Pair("to_time", wire.Instant(q.To)),
		yson.Pair("step", wire.Milliseconds(level.Step())), yson.Pair("series", yson.List(series...))), nil
}

// historyQuery reads which chart a request asks for: by default, the last minutes of the root.
func (c *call) historyQuery() (q server.HistoryQuery, err error) {
	p := c.Parameters
	if q.Tree, err = c.plannedTree(c.Server.Trees()); err != nil {
		return q, err
	}
	if q.Pool, err = p.Text("pool", core.RootName); err != nil {
		return q, err
	}
	if q.Resource, err = p.Text("resource", ""); err != nil {
		return q, err
	}
	if q.Names, err = p.TextList("series"); err != nil {
		return q, err
	}
	if q.From, err = p.Moment("from_time"); err != nil {
		return q, err
	}
	if q.To, err = p.Moment("to_time"); err != nil {
		return q, err
	}
	if q.To.IsZero() {
		q.To = c.Now.Add(time.Second) // include the point of this second
	}
	if q.From.IsZero() {
		q.From = q.To.Add(-defaultChart)
	}
	most, err := p.Integer("max_points", 1000)
	switch {
	case err != nil:
		return q, err
	case most < 1 || most > maxChartPoints:
		return q, wire.Errorf(wire.CodeGeneric, "Error parsing parameter /max_points: it must be from 1 to %d, not %d", maxChartPoints, most)
	case !q.From.Before(q.To):
		return q, wire.Errorf(wire.CodeGeneric, "Error parsing parameter /from_time: it must be before to_time")
	}
	q.MaxPoints = int(most)
	return q, nil
}

// Charts show defaultChart, second by second, by default.
const (
	maxChartPoints = 100_000
	defaultChart   = 15 * time.Minute
)

// backup writes everything that is stored, token hashes included, in a form that an empty store can
// import.
func backup(c *call) (yson.Node, error) {
	var out bytes.Buffer
	if err := c.Server.Store().Export(c.Context, &out); err != nil {
		return yson.Node{}, err
	}
	return c.answerBytes(out.Bytes(), yson.Pair("size", yson.Int64(int64(out.Len()))))
}
