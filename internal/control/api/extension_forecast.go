package api

import (
	"cmp"
	"slices"

	"github.com/weirhq/weir/internal/control/orchid"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/sim/forecast"
	"github.com/weirhq/weir/internal/value/yson"
)

// forecastOperation returns when an operation starts and finishes.
func forecastOperation(c *call) (yson.Node, error) {
	if err := c.Live(); err != nil {
		return yson.Node{}, err
	}
	v := c.operation
	if err := v.MustLive(); err != nil {
		return yson.Node{}, err
	}
	board, f, err := c.Server.Forecast(c.Context, v.Number)
	if err != nil {
		return yson.Node{}, err
	}
	entries := []yson.Entry{yson.Pair("operation_id", yson.String(v.ID.String())), yson.Pair("state", yson.String(v.Live.State.String()))}
	if f == nil {
		return yson.Map(append(entries, yson.Pair("start", yson.Entity()), yson.Pair("finish", yson.Entity()))...), nil
	}
	return yson.Map(append(entries, orchid.ForecastEntries(board, f)...)...), nil
}

// forecastPool returns when the operations in and below a pool start and finish, and when the last of
// them does.
func forecastPool(c *call) (yson.Node, error) {
	if err := c.Live(); err != nil {
		return yson.Node{}, err
	}
	name, err := c.Parameters.Text("pool_tree", c.Server.Trees().Default)
	if err != nil {
		return yson.Node{}, err
	}
	pool, err := c.Parameters.Text("pool", "")
	if err != nil {
		return yson.Node{}, err
	}
	tree, there := c.Server.View().Tree(name)
	if !there {
		return yson.Node{}, wire.Errorf(wire.CodeResolve, "There is no pool tree %q", name)
	}
	top, there := tree.Pool(pool)
	if !there {
		return yson.Node{}, wire.Errorf(wire.CodeResolve, "There is no pool %q in tree %q", pool, name)
	}
	board, names := c.Server.Forecasts(), c.operationNames(nil)
	below := map[core.OperationID]bool{}
	for id, f := range board.Operations {
		at, there := tree.Pool(f.Pool)
		for there && at.Slot != top.Slot && at.Parent >= 0 {
			at = tree.PoolIn(at.Parent)
		}
		below[id] = there && f.Tree == name && at.Slot == top.Slot
	}
	var list []yson.Node
	waiting := 0
	ids := []core.OperationID{}
	for id, is := range below {
		if is {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for _, id := range ids {
		f := board.Operations[id]
		if f.Targets[forecast.Start] != nil {
			waiting++
		}
		list = append(list, yson.Map(append([]yson.Entry{yson.Pair("operation", yson.String(names(id)))}, orchid.ForecastEntries(board, f)...)...))
	}
	backlog := yson.Entity()
	if q, known := board.Backlog(func(id core.OperationID) bool { return below[id] }); known && len(ids) > 0 {
		backlog = yson.Map(orchid.MomentEntries(board.AsOf, q)...)
	}
	asOf := yson.Entity()
	if !board.AsOf.IsZero() {
		asOf = wire.Instant(board.AsOf)
	}
	return yson.Map(
		yson.Pair("pool_tree", yson.String(name)), yson.Pair("pool", yson.String(pool)), yson.Pair("as_of", asOf),
		yson.Pair("waiting_operation_count", yson.Int64(int64(waiting))), yson.Pair("empty", backlog),
		yson.Pair("operations", yson.List(list...))), nil
}

// forecastLine is how well forecasts of a target held in a pool.
type forecastLine struct {
	pool          string
	target        forecast.Target
	settled, held int // of calibrated ones
	uncalibrated  int
	widths        []float64
	loss          [forecast.MethodCount]float64
	scored        [forecast.MethodCount]int
	shown         float64
	// compared counts the forecasts that both methods made; the losses on them can be compared.
	compared      int
	comparedLoss  [forecast.MethodCount]float64
	comparedShown float64
}

// reportForecasts states how well forecasts held, by pool and target.
func (c *call) reportForecasts(q *reportRequest) (yson.Node, error) {
	rows, err := c.Server.Store().Forecasts(c.Context, store.ForecastQuery{Tree: q.Tree, Pool: q.pool, From: q.From, To: q.To, Settled: true})
	if err != nil {
		return yson.Node{}, err
	}
	lines := map[forecastLineKey]*forecastLine{}
	for i := range rows {
		row := &rows[i]
		f, outcome, known, err := forecast.ReadForecast(row.Tree, row.Pool, forecast.Target(row.Target), row.Made, row.Data)
		if err != nil || !known {
			continue
		}
		key := forecastLineKey{row.Pool, f.Target}
		if lines[key] == nil {
			lines[key] = &forecastLine{pool: row.Pool, target: f.Target}
		}
		lines[key].add(&f, outcome)
	}
	list := make([]*forecastLine, 0, len(lines))
	for _, line := range lines {
		if c.mayReadPool(q.Tree, line.pool) == nil {
			list = append(list, line)
		}
	}
	slices.SortFunc(list, func(a, b *forecastLine) int {
		return cmp.Or(cmp.Compare(a.pool, b.pool), cmp.Compare(a.target, b.target))
	})
	if err := c.checkReported(q, len(lines)); err != nil {
		return yson.Node{}, err
	}
	var table reportTable
	(&forecastLine{}).put(&table, q.Tree)
	table.end(false)
	for _, line := range list {
		line.put(&table, q.Tree)
		table.end(true)
	}
	return reportNode(q, q.From, q.To, table.entries()...), nil
}

type forecastLineKey struct {
	pool   string
	target forecast.Target
}

func (l *forecastLine) add(f *forecast.Forecast, outcome float64) {
	q := f.Shown()
	if f.Calibrated {
		l.settled++
		if q[0] <= outcome && outcome <= q[2] {
			l.held++
		}
		l.widths = append(l.widths, q[2]-q[0])
	} else {
		l.uncalibrated++
	}
	l.shown += forecast.Loss(q, outcome)
	if f.Raw.There[forecast.ByEnsemble] && f.Raw.There[forecast.ByHistory] {
		l.compared++
		l.comparedShown += forecast.Loss(q, outcome)
		for _, m := range []forecast.Method{forecast.ByEnsemble, forecast.ByHistory} {
			l.comparedLoss[m] += forecast.Loss(f.Corrected[m], outcome)
		}
	}
	for m := range forecast.MethodCount {
		if f.Raw.There[m] {
			l.loss[m] += forecast.Loss(f.Corrected[m], outcome)
			l.scored[m]++
		}
	}
}

func (l *forecastLine) put(t *reportTable, tree string) {
	mean := func(sum float64, count int) yson.Node {
		if count == 0 {
			return yson.Entity()
		}
		return yson.Double(sum / float64(count))
	}
	width := yson.Entity()
	if len(l.widths) > 0 {
		slices.Sort(l.widths)
		width = yson.Double(l.widths[len(l.widths)/2])
	}
	t.put("pool_tree", yson.String(tree))
	t.put("pool", yson.String(l.pool))
	t.put("target", yson.String(l.target.String()))
	t.put("settled", yson.Int64(int64(l.settled)))
	t.put("held", yson.Int64(int64(l.held)))
	t.put("coverage", mean(float64(l.held), l.settled))
	t.put("uncalibrated", yson.Int64(int64(l.uncalibrated)))
	t.put("median_width_s", width)
	t.put("pinball_s", mean(l.shown, l.settled+l.uncalibrated))
	t.put("pinball_ensemble_s", mean(l.loss[forecast.ByEnsemble], l.scored[forecast.ByEnsemble]))
	t.put("pinball_history_s", mean(l.loss[forecast.ByHistory], l.scored[forecast.ByHistory]))
	t.put("compared", yson.Int64(int64(l.compared)))
	t.put("compared_pinball_s", mean(l.comparedShown, l.compared))
	t.put("compared_ensemble_s", mean(l.comparedLoss[forecast.ByEnsemble], l.compared))
	t.put("compared_history_s", mean(l.comparedLoss[forecast.ByHistory], l.compared))
}
