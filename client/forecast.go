package client

import (
	"context"
	"time"
)

// Forecast is when an operation starts and finishes.
type Forecast struct {
	OperationID string `yson:"operation_id"`
	// Operation is its name in the forecast of a pool.
	Operation string `yson:"operation"`
	State     State  `yson:"state"`
	Tree      string `yson:"pool_tree"`
	Pool      string `yson:"pool"`
	// Start is nil if jobs of the operation have started, or if there is no forecast yet; then Finish is nil as well.
	Start  *ForecastTimes `yson:"start"`
	Finish *ForecastTimes `yson:"finish"`
	Raw    Value          `yson:"."`
}

// ForecastTimes are an interval that holds in 90 % of all cases, and its median. Times are zero if they are more than a day ahead.
type ForecastTimes struct {
	Earliest time.Time `yson:"earliest"`
	Median   time.Time `yson:"median"`
	Latest   time.Time `yson:"latest"`
	Made     time.Time `yson:"made"`
	Method   string    `yson:"method"` // ensemble or history
	// Calibrated reports whether enough outcomes have corrected the interval.
	Calibrated bool `yson:"calibrated"`
	// Held counts the forecasts of the last week whose intervals contained the outcome, of Settled.
	Held    int64 `yson:"held"`
	Settled int64 `yson:"settled"`
}

// PoolForecast is when the operations in and below a pool start and finish.
type PoolForecast struct {
	Tree    string    `yson:"pool_tree"`
	Pool    string    `yson:"pool"`
	AsOf    time.Time `yson:"as_of"`
	Waiting int64     `yson:"waiting_operation_count"`
	// Empty is when the last of them finishes, if no more arrive; nil if there are none.
	Empty      *ForecastTimes `yson:"empty"`
	Operations []Forecast     `yson:"operations"`
	Raw        Value          `yson:"."`
}

// ForecastOperation says when an operation, by id or alias, starts and finishes.
func (c *Client) ForecastOperation(ctx context.Context, name string) (*Forecast, error) {
	return ask[Forecast](ctx, c, "forecast_operation", operationNamed(name))
}

// ForecastPool says when the operations in and below a pool start and finish. An empty tree is the default one.
func (c *Client) ForecastPool(ctx context.Context, tree, pool string) (*PoolForecast, error) {
	parameters := map[string]any{"pool": pool}
	if tree != "" {
		parameters["pool_tree"] = tree
	}
	return ask[PoolForecast](ctx, c, "forecast_pool", parameters)
}

// ReportForecasts reports how well forecasts held.
func (c *Client) ReportForecasts(ctx context.Context, q ReportQuery) (*Report, error) {
	return askReport[Report](ctx, c, "forecasts", q)
}
