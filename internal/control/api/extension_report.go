package api

import (
	"time"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/pathtree"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/engine/ledger"
	"github.com/weirhq/weir/internal/value/yson"
)

// readReport is decided for the pool that a report is about. In reports about all pools, pools that
// the user must not read are left out.
var readReport = permission{
	name: "`read` on the pool; without one, on //sys/pool_trees", check: (*call).mayReadReport, users: true, owners: true, administrators: true,
}

func (c *call) mayReadReport() error {
	q, err := c.reportQuery()
	if err != nil {
		return err
	}
	if q.Pool == "" {
		return c.mayReadAt(pathtree.PoolTreesPath)
	}
	return c.mayReadPool(q.Tree, q.Pool)
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

// reportQuery reads what a report is about: by default, all pools of the default tree, today.
func (c *call) reportQuery() (q server.GuaranteeQuery, err error) {
	p := c.Parameters
	switch kind, err := p.Text("report", ""); {
	case err != nil:
		return q, err
	case kind != "guarantees":
		return q, wire.Errorf(wire.CodeGeneric, "Error parsing parameter /report: there is no report %q, only \"guarantees\"", kind)
	}
	if q.Tree, err = c.plannedTree(c.Server.Trees()); err != nil {
		return q, err
	}
	if q.Pool, err = p.Text("pool", ""); err != nil {
		return q, err
	}
	if q.From, err = p.Moment("from_time"); err != nil {
		return q, err
	}
	if q.To, err = p.Moment("to_time"); err != nil {
		return q, err
	}
	if q.To.IsZero() {
		q.To = c.Now
	}
	if q.From.IsZero() {
		q.From = ledger.Day.Start(q.To.Add(-1))
	}
	switch {
	case !q.From.Before(q.To):
		return q, wire.Errorf(wire.CodeGeneric, "Error parsing parameter /from_time: it must be before to_time")
	case q.To.After(c.Now.Add(longestFuture)):
		return q, wire.Errorf(wire.CodeGeneric, "Error parsing parameter /to_time: it must not be more than a month ahead")
	}
	return q, nil
}

// longestFuture lets reports ask for the current month.
const longestFuture = 31 * 24 * time.Hour

// getReport returns a report about the past.
func getReport(c *call) (yson.Node, error) {
	q, err := c.reportQuery()
	if err != nil {
		return yson.Node{}, err
	}
	report, err := c.Server.Guarantees(c.Context, q)
	if err != nil {
		return yson.Node{}, err
	}
	if len(report.Lines) == 0 { // else it is about a pool or a tree that was removed
		tree, there := c.Server.Trees().Find(q.Tree)
		if !there {
			return yson.Node{}, wire.Errorf(wire.CodeResolve, "There is no pool tree %q, and no books of one", q.Tree)
		}
		if _, there := tree.Tree.Pool(q.Pool); !there && q.Pool != "" {
			return yson.Node{}, wire.Errorf(wire.CodeResolve, "There is no pool %q in tree %q, and no books of one", q.Pool, q.Tree)
		}
	}
	pools := []yson.Node{}
	for i := range report.Lines {
		if line := &report.Lines[i]; c.mayReadPool(line.Tree, line.Name) == nil {
			pools = append(pools, guaranteeNode(line))
		}
	}
	return yson.Map(
		yson.Pair("report", yson.String("guarantees")), yson.Pair("pool_tree", yson.String(q.Tree)),
		yson.Pair("from_time", wire.Instant(report.From)), yson.Pair("to_time", wire.Instant(report.To)), yson.Pair("pools", yson.List(pools...))), nil
}

// guaranteeNode returns the books of a pool. Amounts are in units × seconds.
func guaranteeNode(line *server.GuaranteeLine) yson.Node {
	amount := func(sum ledger.Sum) yson.Node { return yson.Double(sum.Seconds() / float64(line.Resource.Scale())) }
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
	return yson.Map(
		yson.Pair("pool_tree", yson.String(line.Tree)), yson.Pair("pool", yson.String(line.Name)), yson.Pair("resource", yson.String(line.Resource.String())),
		yson.Pair("promised", amount(line.Promised)), yson.Pair("asked", amount(line.Asked)), yson.Pair("due", amount(line.Due)), yson.Pair("got", amount(line.Got)),
		yson.Pair("unclaimed", amount(line.Unclaimed)), yson.Pair("short", amount(line.Missing())), yson.Pair("broken", amount(line.Broken())),
		yson.Pair("kept", kept), yson.Pair("kept_time", keptTime), yson.Pair("causes", yson.List(causes...)))
}
