package orchid

import (
	"time"

	"github.com/weirhq/weir/internal/control/pathtree"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/sim/forecast"
	"github.com/weirhq/weir/internal/value/yson"
)

// forecastOf is when the operation starts and finishes, if there is a forecast.
func forecastOf(c *pathtree.Request, v *OperationView) (yson.Node, bool, error) {
	if v.Live == nil {
		return yson.Entity(), false, nil
	}
	board := c.Server.Forecasts()
	f := board.Operations[v.Number]
	if f == nil {
		return yson.Entity(), false, nil
	}
	return yson.Map(ForecastEntries(board, f)...), true, nil
}

// ForecastEntries write the forecasts of an operation.
func ForecastEntries(board *server.ForecastBoard, f *server.OperationForecast) []yson.Entry {
	entries := []yson.Entry{yson.Pair("pool_tree", yson.String(f.Tree)), yson.Pair("pool", yson.String(f.Pool))}
	for target := range forecast.TargetCount {
		node := yson.Entity()
		if t := f.Targets[target]; t != nil {
			tally := board.Tally(f.Tree, target)
			node = yson.Map(append(MomentEntries(t.Made, t.Shown()),
				yson.Pair("made", wire.Instant(t.Made)),
				yson.Pair("method", yson.String(t.Method.String())),
				yson.Pair("calibrated", yson.Boolean(t.Calibrated)),
				yson.Pair("held", yson.Int64(int64(tally.Held))),
				yson.Pair("settled", yson.Int64(int64(tally.Settled))))...)
		}
		entries = append(entries, yson.Pair(target.String(), node))
	}
	return entries
}

// MomentEntries write quantiles, in seconds from a moment, as times. What is beyond the horizon is
// null.
func MomentEntries(from time.Time, q forecast.Quantiles) []yson.Entry {
	names := [...]string{"earliest", "median", "latest"}
	entries := make([]yson.Entry, len(q))
	for i, seconds := range q {
		entries[i] = yson.Pair(names[i], yson.Entity())
		if seconds < forecast.Horizon.Seconds() {
			entries[i] = yson.Pair(names[i], wire.Instant(from.Add(time.Duration(seconds*float64(time.Second)).Round(time.Second))))
		}
	}
	return entries
}
