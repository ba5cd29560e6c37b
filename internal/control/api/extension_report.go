package api

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/pathtree"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/engine/ledger"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/internal/value/yson"
)

// readReport is decided for the pool that a report is about. In reports about all pools, pools that
// the user must not read are left out.
var readReport = permission{
	name: "`read` on the pool; without one, on //sys/pool_trees", check: (*call).mayReadReport, users: true, owners: true, administrators: true,
}

func (c *call) mayReadReport() error {
	q, err := c.reportRequest()
	if err != nil {
		return err
	}
	if q.pool == "" {
		return c.mayReadAt(pathtree.PoolTreesPath)
	}
	return c.mayReadPool(q.Tree, q.pool)
}

// mayReadPool checks whether the user may read a pool. A pool that does not exist any more is read by
// those who may read all trees.
func (c *call) mayReadPool(tree, pool string) error {
	if config, there := c.Server.Trees().Find(tree); there {
		if _, there := config.Tree.Pool(pool); there {
			return c.Require(auth.Requires(auth.Read, c.ChainOfPool(config, pool)))
		}
	}
	return c.mayReadAt(pathtree.PoolTreesPath)
}

// reportKind is a report that users can ask for.
type reportKind struct {
	name string
	by   []string // what its lines can be divided by
	run  func(c *call, q *reportRequest) (yson.Node, error)
}

// reportKinds lists all reports. It is a function, because reports use what reads requests.
func reportKinds() []reportKind {
	return []reportKind{
		{"guarantees", []string{"day"}, (*call).reportGuarantees},
		{"preemptions", nil, (*call).reportPreemptions},
		{"usage", usageKeys, (*call).reportUsage},
		{"savings", usageKeys, (*call).reportSavings},
		{"waits", usageKeys, (*call).reportWaits},
		{"budgets", nil, (*call).reportBudgets},
		{"forecasts", nil, (*call).reportForecasts},
	}
}

// reportRequest is what a report is about: by default, all pools of the default tree, today.
type reportRequest struct {
	server.ReportQuery
	kind reportKind
	pool string
	by   []string
}

func (c *call) reportRequest() (q reportRequest, err error) {
	p := c.Parameters
	name, err := p.Text("report", "")
	if err != nil {
		return q, err
	}
	kinds := reportKinds()
	at := slices.IndexFunc(kinds, func(k reportKind) bool { return k.name == name })
	if at < 0 {
		var names []string
		for _, k := range kinds {
			names = append(names, k.name)
		}
		return q, wire.Errorf(wire.CodeGeneric, "Error parsing parameter /report: there is no report %q, only %s", name, strings.Join(names, ", "))
	}
	q.kind = kinds[at]
	if q.Tree, err = c.plannedTree(c.Server.Trees()); err != nil {
		return q, err
	}
	if q.pool, err = p.Text("pool", ""); err != nil {
		return q, err
	}
	if q.by, err = p.TextList("by"); err != nil {
		return q, err
	}
	for _, by := range q.by {
		if !q.kind.divides(by) {
			return q, wire.Errorf(wire.CodeGeneric, "Error parsing parameter /by: the report %s cannot be divided by %q", name, by)
		}
	}
	return q, c.reportTimes(&q)
}

func (c *call) reportTimes(q *reportRequest) (err error) {
	if q.From, err = c.Parameters.Moment("from_time"); err != nil {
		return err
	}
	if q.To, err = c.Parameters.Moment("to_time"); err != nil {
		return err
	}
	if q.To.IsZero() {
		q.To = c.Now
	}
	if q.From.IsZero() {
		q.From = ledger.Day.Start(q.To.Add(-1))
	}
	switch {
	case !q.From.Before(q.To):
		return wire.Errorf(wire.CodeGeneric, "Error parsing parameter /from_time: it must be before to_time")
	case q.To.After(c.Now.Add(longestFuture)):
		return wire.Errorf(wire.CodeGeneric, "Error parsing parameter /to_time: it must not be more than a month ahead")
	}
	return nil
}

// longestFuture lets reports ask for the current month.
const longestFuture = 31 * 24 * time.Hour

// getReport returns a report about the past.
func getReport(c *call) (yson.Node, error) {
	q, err := c.reportRequest()
	if err != nil {
		return yson.Node{}, err
	}
	return q.kind.run(c, &q)
}

// checkReported returns an error if a report without lines is about a tree or a pool that does not exist.
// One with lines may be about what was removed.
func (c *call) checkReported(q *reportRequest, lines int) error {
	if lines > 0 {
		return nil
	}
	tree, there := c.Server.Trees().Find(q.Tree)
	if !there {
		return wire.Errorf(wire.CodeResolve, "There is no pool tree %q, and no books of one", q.Tree)
	}
	if _, there := tree.Tree.Pool(q.pool); !there && q.pool != "" {
		return wire.Errorf(wire.CodeResolve, "There is no pool %q in tree %q, and no books of one", q.pool, q.Tree)
	}
	return nil
}

// reportNode returns what all reports have, and then the rest.
func reportNode(q *reportRequest, from, to time.Time, rest ...yson.Entry) yson.Node {
	return yson.Map(append([]yson.Entry{
		yson.Pair("report", yson.String(q.kind.name)), yson.Pair("pool_tree", yson.String(q.Tree)),
		yson.Pair("from_time", wire.Instant(from)), yson.Pair("to_time", wire.Instant(to)),
	}, rest...)...)
}

func (c *call) reportGuarantees(q *reportRequest) (yson.Node, error) {
	report, err := c.Server.Guarantees(c.Context, server.GuaranteeQuery{
		Tree: q.Tree, Pool: q.pool, From: q.From, To: q.To, ByDay: slices.Contains(q.by, "day"),
	})
	if err != nil {
		return yson.Node{}, err
	}
	if err := c.checkReported(q, len(report.Lines)); err != nil {
		return yson.Node{}, err
	}
	pools := []yson.Node{}
	for i := range report.Lines {
		if line := &report.Lines[i]; c.mayReadPool(line.Tree, line.Name) == nil {
			pools = append(pools, guaranteeNode(line))
		}
	}
	entries := []yson.Entry{yson.Pair("pools", yson.List(pools...))}
	verify, err := c.Parameters.Boolean("verify", false)
	if err != nil {
		return yson.Node{}, err
	}
	if verify {
		v, err := c.Server.VerifyGuarantees(c.Context, server.GuaranteeQuery{Tree: q.Tree, Pool: q.pool, From: q.From, To: q.To})
		if err != nil {
			return yson.Node{}, err
		}
		entries = append(entries, yson.Pair("verification", c.verificationNode(v)))
	}
	return reportNode(q, report.From, report.To, entries...), nil
}

// verificationNode returns whether the books equal the log. Differences are those of pools that the user may read, in the
// smallest units × microseconds, as texts: they may exceed 64 bits.
func (c *call) verificationNode(v *server.Verification) yson.Node {
	unverified, differences := []yson.Node{}, []yson.Node{}
	for _, hour := range v.Unverified {
		unverified = append(unverified, wire.Instant(hour))
	}
	for i := range v.Differences {
		d := &v.Differences[i]
		if c.mayReadPool(d.Tree, d.Name) != nil {
			continue
		}
		differences = append(differences, yson.Map(
			yson.Pair("pool_tree", yson.String(d.Tree)), yson.Pair("pool", yson.String(d.Name)), yson.Pair("level", yson.String(d.Level.String())), yson.Pair("start_time", wire.Instant(d.Start)),
			yson.Pair("resource", yson.String(d.Resource.String())), yson.Pair("figure", yson.String(d.Figure)),
			yson.Pair("stored", yson.String(d.Stored.String())), yson.Pair("computed", yson.String(d.Computed.String()))))
	}
	return yson.Map(
		yson.Pair("from_time", wire.Instant(v.From)), yson.Pair("to_time", wire.Instant(v.To)), yson.Pair("equal", yson.Boolean(v.Equal())),
		yson.Pair("hours", yson.Int64(int64(v.Hours))), yson.Pair("days", yson.Int64(int64(v.Days))), yson.Pair("months", yson.Int64(int64(v.Months))),
		yson.Pair("unverified", yson.List(unverified...)), yson.Pair("differences", yson.List(differences...)))
}

// guaranteeNode returns the books of a pool. Amounts are in units × seconds.
func guaranteeNode(line *server.GuaranteeLine) yson.Node {
	amount := func(sum ledger.Sum) yson.Node { return amountNode(line.Resource, sum) }
	kept, keptTime := yson.Entity(), yson.Entity()
	if part, known := line.Kept(); known {
		kept, keptTime = yson.Double(part), yson.Double(float64(line.KeptTime)/float64(line.DueTime))
	}
	causes := []yson.Node{}
	for cause := range ledger.CauseCount {
		if sum := line.Short[cause]; !sum.IsZero() {
			causes = append(causes, yson.Map(
				yson.Pair("cause", yson.String(cause.String())), yson.Pair("amount", amount(sum)), yson.Pair("own", yson.Boolean(cause.IsOwn()))))
		}
	}
	entries := []yson.Entry{
		yson.Pair("pool_tree", yson.String(line.Tree)), yson.Pair("pool", yson.String(line.Name)), yson.Pair("resource", yson.String(line.Resource.String())),
		yson.Pair("promised", amount(line.Promised)), yson.Pair("asked", amount(line.Asked)), yson.Pair("due", amount(line.Due)), yson.Pair("got", amount(line.Got)),
		yson.Pair("unclaimed", amount(line.Unclaimed)), yson.Pair("surplus", amount(line.Surplus)), yson.Pair("short", amount(line.Missing())), yson.Pair("broken", amount(line.Broken())),
		yson.Pair("kept", kept), yson.Pair("kept_time", keptTime), yson.Pair("causes", yson.List(causes...)),
	}
	if !line.Day.IsZero() {
		entries = append(entries, yson.Pair("day", yson.String(line.Day.Format(time.DateOnly))))
	}
	if flow := &line.Flow; !flow.Flowed.IsZero() {
		verdict := yson.Entity()
		if kept, known := flow.Verdict(); known {
			verdict = yson.Boolean(kept)
		}
		seconds := func(sum ledger.Sum) yson.Node { return yson.Double(sum.Seconds() / 1e6) }
		entries = append(entries, yson.Pair("flow", yson.Map(
			yson.Pair("flowed", seconds(flow.Flowed)), yson.Pair("due", seconds(flow.Due)), yson.Pair("got", seconds(flow.Got)),
			yson.Pair("overflowed", seconds(flow.Overflowed)), yson.Pair("kept", verdict))))
	}
	return yson.Map(entries...)
}

// amountNode returns a sum in units × seconds.
func amountNode(k resource.Kind, sum ledger.Sum) yson.Node {
	return yson.Double(sum.Seconds() / float64(k.Scale()))
}

// reportTable is a report whose lines have the same columns. Columns are only ever added, at the end.
type reportTable struct {
	columns []string
	lines   []yson.Node
	line    []yson.Entry // the one that is being made
}

// put adds a value to the line.
func (t *reportTable) put(column string, value yson.Node) {
	t.line = append(t.line, yson.Pair(column, value))
}

// amounts adds columns with sums: core·s, GPU·s and GiB·s.
func (t *reportTable) amounts(prefix string, sums *ledger.AmountSums) {
	t.put(prefix+"_cpu_core_s", amountNode(resource.CPU, sums[resource.CPU]))
	t.put(prefix+"_gpu_s", amountNode(resource.GPU, sums[resource.GPU]))
	t.put(prefix+"_memory_gib_s", yson.Double(sums[resource.Memory].Seconds()/(1<<30)))
}

// end ends the line. A line that is not shown still names the columns.
func (t *reportTable) end(shown bool) {
	if t.columns == nil {
		for _, entry := range t.line {
			t.columns = append(t.columns, entry.Key)
		}
	}
	if shown {
		t.lines = append(t.lines, yson.Map(t.line...))
	}
	t.line = nil
}

// entries returns the columns and the lines.
func (t *reportTable) entries() []yson.Entry {
	columns := []yson.Node{}
	for _, name := range t.columns {
		columns = append(columns, yson.String(name))
	}
	return []yson.Entry{yson.Pair("columns", yson.List(columns...)), yson.Pair("lines", yson.List(append([]yson.Node{}, t.lines...)...))}
}

func (c *call) reportPreemptions(q *reportRequest) (yson.Node, error) {
	report, err := c.Server.Preemptions(c.Context, q.ReportQuery)
	if err != nil {
		return yson.Node{}, err
	}
	var table reportTable
	put := func(line *server.PreemptionLine, shown bool) {
		table.put("tree", yson.String(line.Tree))
		table.put("victim", yson.String(line.Victim))
		table.put("winner", yson.String(line.Winner))
		table.put("rule", yson.String(line.Rule.String()))
		table.put("jobs", yson.Int64(line.Jobs))
		table.put("wasted_jobs", yson.Int64(line.Wasted))
		table.amounts("lost", &line.Lost)
		table.amounts("wasted", &line.WastedWork)
		table.amounts("gained", &line.Gained)
		table.put("net_cpu_core_s", yson.Double((line.Gained[resource.CPU].Seconds()-line.Lost[resource.CPU].Seconds())/float64(resource.CPU.Scale())))
		table.end(shown)
	}
	put(&server.PreemptionLine{}, false)
	found := 0
	for i := range report.Lines {
		line := &report.Lines[i]
		if q.pool != "" && q.pool != line.Victim && q.pool != line.Winner {
			continue
		}
		found++
		readable := c.mayReadPool(line.Tree, line.Victim) == nil && (line.Winner == "" || c.mayReadPool(line.Tree, line.Winner) == nil)
		if readable {
			put(line, true)
		}
	}
	if err := c.checkReported(q, found); err != nil {
		return yson.Node{}, err
	}
	cycles, err := c.eventNodes(slices.DeleteFunc(report.Cycles, func(e store.Event) bool { return !c.mayReadCycle(q, &e) }))
	if err != nil {
		return yson.Node{}, err
	}
	watch := yson.Map(
		yson.Pair("minutes", yson.Int64(report.Watch.Minutes)), yson.Pair("proven", yson.Int64(report.Watch.Proven)),
		yson.Pair("cycles", yson.Int64(report.Watch.Cycles)))
	return reportNode(q, report.From, report.To, append(table.entries(), yson.Pair("watch", watch), yson.Pair("cycles", cycles))...), nil
}

// mayReadCycle reports whether a cycle belongs to a report and the user may read all of its pools.
func (c *call) mayReadCycle(q *reportRequest, e *store.Event) bool {
	var facts struct{ Pools []string }
	if json.Unmarshal(e.Document, &facts) != nil || q.pool != "" && !slices.Contains(facts.Pools, q.pool) {
		return false
	}
	for _, pool := range facts.Pools {
		if c.mayReadPool(e.Tree, pool) != nil {
			return false
		}
	}
	return true
}
