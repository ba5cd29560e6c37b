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

// TallyQuery selects rows of the other books.
type TallyQuery struct {
	// Kind and Tree select rows; empty means all.
	Kind, Tree string
	Level      int32
	// From <= start < To.
	From, To time.Time
}

// Tallies returns rows of the other books, by kind, tree and start.
func (s *Store) Tallies(ctx context.Context, q TallyQuery) ([]LedgerTally, error) {
	c := &conditions{}
	c.add("level = ?", int64(q.Level))
	c.add("start >= ?", microseconds(q.From))
	c.add("start < ?", microseconds(q.To))
	c.equal("kind", q.Kind)
	c.equal("tree", q.Tree)
	rows, err := ledgerTalliesTable.list(ctx, reader{s}, c.where()+ledgerTalliesTable.orderClause(), c.args...)
	return rows, s.wrap(err)
}

// LedgerFacts returns the log of the books of guarantees for a time, in the order of its flushes.
func (s *Store) LedgerFacts(ctx context.Context, from, to time.Time) ([]LedgerFacts, error) {
	c := &conditions{}
	c.add("finish > ?", microseconds(from))
	c.add("start < ?", microseconds(to))
	rows, err := ledgerFactsTable.list(ctx, reader{s}, c.where()+ledgerFactsTable.orderClause(), c.args...)
	return rows, s.wrap(err)
}

// LastLedgerFacts returns when the books of guarantees were last stored; zero if never.
func (s *Store) LastLedgerFacts(ctx context.Context) (time.Time, error) {
	rows, err := ledgerFactsTable.list(ctx, reader{s}, " ORDER BY epoch DESC, number DESC LIMIT 1")
	if err != nil || len(rows) == 0 {
		return time.Time{}, s.wrap(err)
	}
	return rows[0].Finish, nil
}
