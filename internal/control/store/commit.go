package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// attempt is a commit whose answer was lost.
type attempt struct {
	epoch     int64
	revision  int64
	receipt   Receipt
	committed bool // known once it is no longer in unsettled
}

// takeRevision is the first statement of every commit. It locks the leadership row, checks the epoch, and
// reserves the next revision and numbers. While the row is locked, no lease can be acquired. If another lease
// was acquired before, the epoch does not match and no row is changed.
const takeRevision = `UPDATE leadership SET revision = revision + 1,
	last_operation = CASE WHEN last_operation < $1 THEN $1 ELSE last_operation END,
	last_event = last_event + $2, last_audit = last_audit + $3
	WHERE epoch = $4 RETURNING revision, last_event, last_audit`

// Commit writes a batch under a lease in one transaction, which is durable when Commit returns. The package
// comment explains its errors. A batch without rows is not written, but the lease is checked.
//
// Commits run one after another; callers that want their rows to share an fsync put them into one batch. Commit
// numbers the events and audit records of the batch in place.
func (s *Store) Commit(ctx context.Context, lease Lease, batch *Batch) (Receipt, error) {
	if err := batch.Check(); err != nil {
		return Receipt{}, fmt.Errorf("commit: %w", err)
	}
	var receipt Receipt
	err := within(ctx, s.patience.commit, func(ctx context.Context) (err error) {
		if err = s.lock(ctx); err != nil {
			return err
		}
		defer s.unlock()
		receipt, err = s.commit(ctx, lease, batch, false)
		if s.stale(ctx, s.writes, err) {
			receipt, err = s.commit(ctx, lease, batch, false)
		}
		if errors.Is(err, errRefusedSome) { // rare: a result that was stored arrived again
			receipt, err = s.commit(ctx, lease, batch, true)
		}
		return err
	})
	if err != nil {
		return Receipt{}, fmt.Errorf("commit: %w", err)
	}
	return receipt, nil
}

// commit makes one attempt, or none if an earlier attempt turns out to have succeeded.
func (s *Store) commit(ctx context.Context, lease Lease, batch *Batch, oneByOne bool) (Receipt, error) {
	if err := s.prepare(ctx, batch); err != nil {
		return Receipt{}, err
	}
	var receipt Receipt
	wrote := false
	err := s.writing(ctx, func(ctx context.Context, w *writer) error {
		w.oneByOne = oneByOne
		if batch.Empty() {
			return w.checkEpoch(ctx, lease.Epoch, &receipt)
		}
		if err := w.begin(ctx, lease.Epoch, batch, &receipt); err != nil {
			return err
		}
		if err := s.settle(ctx, w.tx, lease.Epoch, receipt.Revision-1); err != nil {
			return err
		}
		if batch.lost != nil && batch.lost.committed {
			return errAlreadyCommitted
		}
		if err := w.write(ctx, batch, &receipt); err != nil {
			return err
		}
		wrote = true
		return nil
	})
	switch {
	case err == nil:
		batch.lost = nil
		s.checkpoints.wrote(batch.Len())
		return receipt, nil
	case errors.Is(err, errAlreadyCommitted):
		return batch.lost.receipt, nil
	case errors.Is(err, ErrFenced):
		if err := s.settle(ctx, reader{s}, 0, 0); err != nil {
			return Receipt{}, s.wrap(err)
		}
		if batch.lost != nil && batch.lost.committed {
			return batch.lost.receipt, nil // in time, before the lease was lost
		}
	case wrote: // COMMIT failed, or its answer did not arrive
		batch.lost = &attempt{epoch: lease.Epoch, revision: receipt.Revision, receipt: receipt}
		s.mu.unsettled = append(s.mu.unsettled, batch.lost)
		if s.engine.kind(err) == nil {
			err = &kindError{kind: ErrUnavailable, cause: err}
		}
	}
	return Receipt{}, err
}

var errAlreadyCommitted = errors.New("the batch was committed by an earlier attempt")

// settle determines the outcome of attempts without an answer. A store commits one batch after another and is
// the only writer in its epoch, so an attempt succeeded if and only if its revision was reached in its epoch.
// The caller passes the last revision of the current epoch, which no other writer can change now. The last
// revision of an earlier epoch is the one at which the next epoch started.
func (s *Store) settle(ctx context.Context, q querier, epoch, last int64) error {
	for len(s.mu.unsettled) > 0 {
		lost := s.mu.unsettled[0]
		reached := last
		if lost.epoch != epoch {
			reached = 0
			query := "SELECT revision FROM epochs WHERE epoch > $1 ORDER BY epoch LIMIT 1"
			err := scanAll(ctx, q, query, []any{lost.epoch}, func(scan func(...any) error) error { return scan(&reached) })
			if err != nil {
				return err
			}
		}
		lost.committed = reached >= lost.revision
		s.mu.unsettled = s.mu.unsettled[1:]
	}
	return nil
}

// checkEpoch locks the leadership row and returns ErrFenced if the epoch is not the current one.
func (w *writer) checkEpoch(ctx context.Context, epoch int64, receipt *Receipt) error {
	err := w.tx.QueryRowContext(ctx, "UPDATE leadership SET epoch = epoch WHERE epoch = $1 RETURNING revision, last_event, last_audit", epoch).
		Scan(&receipt.Revision, &receipt.LastEvent, &receipt.LastAudit)
	if errors.Is(err, sql.ErrNoRows) || err == nil && epoch == 0 {
		return ErrFenced
	}
	return err
}

// begin reserves a revision and numbers for the batch.
func (w *writer) begin(ctx context.Context, epoch int64, batch *Batch, receipt *Receipt) error {
	if epoch == 0 {
		return ErrFenced // nobody has led yet
	}
	statement, err := w.prepareTake(ctx)
	if err != nil {
		return err
	}
	var operation int32
	for i := range batch.Put.Operations {
		operation = max(operation, batch.Put.Operations[i].Number)
	}
	events, records := int64(len(batch.Put.Events)), int64(len(batch.Put.Audit))
	err = statement(int64(operation), events, records, epoch).Scan(&receipt.Revision, &receipt.LastEvent, &receipt.LastAudit)
	if errors.Is(err, sql.ErrNoRows) {
		return ErrFenced
	}
	if err != nil {
		return err
	}
	w.revision = receipt.Revision
	for i := range batch.Put.Events {
		batch.Put.Events[i].ID = receipt.LastEvent - events + int64(i) + 1
	}
	for i := range batch.Put.Audit {
		batch.Put.Audit[i].ID = receipt.LastAudit - records + int64(i) + 1
	}
	return nil
}

// prepare parses the statements that the batch needs and no earlier batch did. It runs before the transaction,
// which holds the only connection that writes to a file; over a network, pgx prepares statements.
func (s *Store) prepare(ctx context.Context, batch *Batch) error {
	if s.engine.network {
		return nil
	}
	queries := []string{takeRevision}
	for _, t := range tables {
		for _, rows := range t.putSizes(&batch.Put) {
			queries = append(queries, t.putStatement(rows))
		}
	}
	if len(batch.Put.Events) > 0 {
		queries = append(queries, eventSpansTable.putStatement(1), eventSpansTable.putStatement(rowsAtOnce))
	}
	for _, query := range queries {
		if _, ok := s.mu.statements[query]; ok {
			continue
		}
		statement, err := s.writes.PrepareContext(ctx, query)
		if err != nil {
			return s.wrap(err)
		}
		s.mu.statements[query] = statement
	}
	return nil
}

// prepareTake returns takeRevision as a function, parsed once where that matters.
func (w *writer) prepareTake(ctx context.Context) (func(args ...any) *sql.Row, error) {
	if w.arrays {
		return func(args ...any) *sql.Row { return w.tx.QueryRowContext(ctx, takeRevision, args...) }, nil
	}
	statement, err := w.prepare(ctx, takeRevision)
	if err != nil {
		return nil, err
	}
	return func(args ...any) *sql.Row { return statement.QueryRowContext(ctx, args...) }, nil
}

// write deletes and puts the rows.
func (w *writer) write(ctx context.Context, batch *Batch, receipt *Receipt) error {
	if err := w.removeDependents(ctx, batch.Delete.Operations); err != nil {
		return err
	}
	for _, t := range tables {
		if err := t.remove(ctx, w, &batch.Delete); err != nil {
			return err
		}
	}
	receipt.Duplicates = nil
	for _, t := range tables {
		refused, err := t.put(ctx, w, &batch.Put)
		if err != nil {
			return err
		}
		for _, key := range refused {
			if t.tableName() != jobsTable.name {
				return fmt.Errorf("%w: operation number %v belongs to another id", ErrConflict, key[0])
			}
			receipt.Duplicates = append(receipt.Duplicates, uint64(key[0].(int64)))
		}
	}
	return nil
}

// removeDependents deletes the rows that belong to operations.
func (w *writer) removeDependents(ctx context.Context, operations []Operation) error {
	for _, o := range operations {
		for _, table := range []string{"operation_specs", "operation_progress", "controller_snapshots", "jobs", "job_outputs", "content_uses"} {
			if _, err := w.exec(ctx, "DELETE FROM "+table+" WHERE operation = $1", int64(o.Number)); err != nil {
				return fmt.Errorf("delete from %s: %w", table, err)
			}
		}
	}
	return nil
}
