package api

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/value/yson"
)

var _ = register(
	command{name: "get_cluster", run: getCluster},
	command{name: "list_nodes", run: listNodes},
	command{name: "get_history", run: getHistory},
	command{name: "backup", output: rawBytes, heavy: true, run: backup},
)

// getCluster is what the cluster has and what became of it, for each tree and each
// resource, with everything that people should know.
func getCluster(c *call) (yson.Node, error) {
	if err := c.live(); err != nil {
		return yson.Node{}, err
	}
	if err := c.mayReadAt("//sys/scheduler"); err != nil {
		return yson.Node{}, err
	}
	state, err := c.orchid()
	if err != nil {
		return yson.Node{}, err
	}
	trees := make([]yson.Entry, len(state.trees))
	for i, t := range state.trees {
		trees[i] = yson.Pair(t.info.Name, t.summary())
	}
	running, pending := 0, 0
	for i := range state.snapshot.Operations {
		o := &state.snapshot.Operations[i]
		running += o.Statistics.Running
		pending += o.Statistics.Pending
	}
	online, all := 0, c.server.Nodes()
	for _, n := range all {
		if n.Online {
			online++
		}
	}
	counters := c.server.Counters()
	return yson.Map(
		yson.Pair("time", instant(state.snapshot.Time)),
		yson.Pair("leader", yson.String(c.server.Leader().Address)),
		yson.Pair("epoch", yson.Uint64(state.view.Epoch)),
		yson.Pair("reviving", yson.Boolean(state.view.Reviving)),
		yson.Pair("node_count", yson.Int64(int64(len(all)))),
		yson.Pair("online_node_count", yson.Int64(int64(online))),
		yson.Pair("operation_count", yson.Int64(int64(len(state.snapshot.Operations)))),
		yson.Pair("running_job_count", yson.Int64(int64(running))),
		yson.Pair("pending_job_count", yson.Int64(int64(pending))),
		yson.Pair("update_duration", yson.Double(float64(counters.LastUpdate.Microseconds())/1000)),
		yson.Pair("default_pool_tree", orEntity(c.server.Trees().Default)),
		yson.Pair("pool_trees", yson.Map(trees...)),
		yson.Pair("alerts", schedulerAlerts(c.server))), nil
}

// listNodes is a table of nodes, by name. It can be filtered by tree, tag, state
// and text.
func listNodes(c *call) (yson.Node, error) {
	if err := c.live(); err != nil {
		return yson.Node{}, err
	}
	if err := c.mayReadAt("//sys/cluster_nodes"); err != nil {
		return yson.Node{}, err
	}
	var tree, tag, wanted, text string
	err := c.parameters.textsInto(textInto{"pool_tree", &tree}, textInto{"tag", &tag}, textInto{"state", &wanted}, textInto{"filter", &text})
	if err != nil {
		return yson.Node{}, err
	}
	if wanted != "" && !slices.Contains(nodeStates, wanted) {
		return yson.Node{}, errorf(codeGeneric, "Error parsing parameter /state: it must be one of %s, not %q", strings.Join(nodeStates, ", "), cutText(wanted, 100))
	}
	limit, err := c.parameters.integer("limit", 10_000)
	if err != nil {
		return yson.Node{}, err
	}
	state, err := c.orchid()
	if err != nil {
		return yson.Node{}, err
	}
	nodes := c.server.Nodes()
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

func nodeRow(state *orchidState, n *server.Node) yson.Node {
	var info core.NodeInfo
	if at, there := state.nodes[n.Name]; there {
		info = state.snapshot.Nodes[at]
	}
	jobs := 0
	for _, count := range info.Jobs {
		jobs += count
	}
	alerts := slices.Clone(n.Status.GetAlerts())
	if n.RegistrationError != "" {
		alerts = append(alerts, n.RegistrationError)
	}
	return yson.Map(
		yson.Pair("address", yson.String(n.Name)),
		yson.Pair("state", yson.String(nodeState(n))),
		yson.Pair("pool_tree", orEntity(n.Tree)),
		yson.Pair("tags", texts(n.Tags)),
		yson.Pair("resource_limits", amountsNode(n.Limits)),
		yson.Pair("resource_usage", amountsNode(info.Usage)),
		yson.Pair("running_job_count", yson.Int64(int64(jobs))),
		yson.Pair("jobs_disabled", yson.Boolean(n.TakesNoJobs() || n.Status.GetJobsDisabled())),
		yson.Pair("maintenance_requests", maintenanceRequests(n.Maintenance)),
		yson.Pair("draining", yson.Boolean(n.Status.GetDraining())),
		yson.Pair("version", yson.String(n.Version)),
		yson.Pair("registered_time", instant(n.Registered)),
		yson.Pair("last_seen_time", instant(n.LastSeen)),
		yson.Pair("alerts", texts(alerts)))
}

// getHistory is the time series behind the charts of a pool: points of average and
// maximum, at the finest resolution that is kept and is not too much.
func getHistory(c *call) (yson.Node, error) {
	if err := c.mayReadAt(poolTreesPath); err != nil {
		return yson.Node{}, err
	}
	q, err := c.historyQuery()
	if err != nil {
		return yson.Node{}, err
	}
	lines, level, err := c.server.History(c.ctx, q)
	if err != nil {
		return yson.Node{}, err
	}
	series := make([]yson.Node, len(lines))
	for i, line := range lines {
		points := make([]yson.Node, len(line.Points))
		for j, p := range line.Points {
			points[j] = yson.List(instant(p.Time), number(p.Average), number(p.Max))
		}
		series[i] = yson.Map(
			yson.Pair("name", yson.String(line.Series.Name)), yson.Pair("resource", orEntity(line.Series.Resource)),
			yson.Pair("points", yson.List(points...)))
	}
	return yson.Map(
		yson.Pair("pool_tree", yson.String(q.Tree)), yson.Pair("pool", yson.String(q.Pool)),
		yson.Pair("from_time", instant(q.From)), yson.Pair("to_time", instant(q.To)),
		yson.Pair("step", milliseconds(level.Step())), yson.Pair("series", yson.List(series...))), nil
}

// historyQuery reads which chart a request wants: the last minutes of the root
// unless it says otherwise.
func (c *call) historyQuery() (q server.HistoryQuery, err error) {
	p := c.parameters
	if q.Tree, err = c.plannedTree(c.server.Trees()); err != nil {
		return q, err
	}
	if q.Pool, err = p.text("pool", core.RootName); err != nil {
		return q, err
	}
	if q.Resource, err = p.text("resource", ""); err != nil {
		return q, err
	}
	if q.Names, err = p.textList("series"); err != nil {
		return q, err
	}
	if q.From, err = p.moment("from_time"); err != nil {
		return q, err
	}
	if q.To, err = p.moment("to_time"); err != nil {
		return q, err
	}
	if q.To.IsZero() {
		q.To = c.now.Add(time.Second) // the point of this second is wanted too
	}
	if q.From.IsZero() {
		q.From = q.To.Add(-defaultChart)
	}
	most, err := p.integer("max_points", 1000)
	switch {
	case err != nil:
		return q, err
	case most < 1 || most > maxChartPoints:
		return q, errorf(codeGeneric, "Error parsing parameter /max_points: it must be from 1 to %d, not %d", maxChartPoints, most)
	case !q.From.Before(q.To):
		return q, errorf(codeGeneric, "Error parsing parameter /from_time: it must be before to_time")
	}
	q.MaxPoints = int(most)
	return q, nil
}

// Charts show defaultChart, second by second, unless a request says otherwise.
const (
	maxChartPoints = 100_000
	defaultChart   = 15 * time.Minute
)

// backup writes everything that is stored, hashes of tokens included, in a form that
// an empty store can import. It is for superusers.
func backup(c *call) (yson.Node, error) {
	if err := c.require(auth.Needs{auth.Need{}}); err != nil {
		return yson.Node{}, err
	}
	var out bytes.Buffer
	if err := c.server.Store().Export(c.ctx, &out); err != nil {
		return yson.Node{}, err
	}
	return c.answerBytes(out.Bytes(), yson.Pair("size", yson.Int64(int64(out.Len()))))
}
