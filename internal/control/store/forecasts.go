package store

import (
	"context"
	"fmt"
	"time"
)

// ForecastQuery selects forecasts.
type ForecastQuery struct {
	// Tree and Pool select pools; empty means all.
	Tree, Pool string
	// From <= made < To; zero means no bound.
	From, To time.Time
	// Settled reports whether only forecasts with outcomes are selected, and Open whether
	// only those without.
	Settled, Open bool
	// Limit is the most rows to return, the latest ones; zero means all.
	Limit int
}

// Forecasts returns forecasts, latest first.
func (s *Store) Forecasts(ctx context.Context, q ForecastQuery) ([]Forecast, error) {
	c := &conditions{}
	c.between("made", q.From, q.To)
	c.equal("tree", q.Tree)
	c.equal("pool", q.Pool)
	if q.Settled {
		c.add("settled > ?", int64(0))
	}
	if q.Open {
		c.add("settled = ?", int64(0))
	}
	order := " ORDER BY made DESC, operation, target"
	if q.Limit > 0 {
		order += fmt.Sprintf(" LIMIT %d", q.Limit)
	}
	rows, err := forecastsTable.list(ctx, reader{s}, c.where()+order, c.args...)
	return rows, s.wrap(err)
}

// ForecastModel returns a stored model, empty if there is none.
func (s *Store) ForecastModel(ctx context.Context, name string) (ForecastModel, error) {
	c := &conditions{}
	c.add("name = ?", name)
	rows, err := forecastModelsTable.list(ctx, reader{s}, c.where(), c.args...)
	if err != nil || len(rows) == 0 {
		return ForecastModel{}, s.wrap(err)
	}
	return rows[0], nil
}
