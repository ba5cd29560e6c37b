package store

import (
	"context"
	"time"
)

// LedgerQuery selects rows of the books of guarantees.
type LedgerQuery struct {
	// Tree and Pool select pools; empty means all.
	Tree, Pool string
	Level      int32
	// From <= start < To; both zero for rows of level 0.
	From, To time.Time
}

// Ledger returns rows of the books of guarantees, by tree, pool and start.
func (s *Store) Ledger(ctx context.Context, q LedgerQuery) ([]LedgerRow, error) {
	c := &conditions{}
	c.add("level = ?", int64(q.Level))
	if q.Level == 0 {
		c.add("start = ?", int64(0))
	} else {
		c.add("start >= ?", microseconds(q.From))
		c.add("start < ?", microseconds(q.To))
	}
	if q.Tree != "" {
		c.add("tree = ?", q.Tree)
	}
	if q.Pool != "" {
		c.add("pool = ?", q.Pool)
	}
	rows, err := ledgerRowsTable.list(ctx, reader{s}, c.where()+ledgerRowsTable.orderClause(), c.args...)
	return rows, s.wrap(err)
}
