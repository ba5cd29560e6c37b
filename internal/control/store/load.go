package store

import (
	"context"
	"database/sql"
	"fmt"
)

// State is everything that a starting leader needs, at one revision.
type State struct {
	Revision int64
	// LastOperation is the greatest number that any operation ever had.
	LastOperation int32
	LastEvent     int64
	LastAudit     int64
	// Rows has the unfinished operations with all that belongs to them, and all rows of the other
	// kinds that are loaded. Of the operations' jobs it has those that run and those that finished after the
	// controller's snapshot (by operation and sequence). Rows are ordered by key.
	Rows Rows
}

// Changes is what happened between two revisions. To apply it to a copy, delete first, then put.
// Deleting an operation deletes all that belongs to it. Operations that finish are changes; the copy
// itself drops what it does not need. Jobs, progress and snapshots of operations are no changes. Rows
// to put are ordered by revision, then by key.
// Rows of finished operations that retention removes are not included.
type Changes struct {
	Since    int64
	Revision int64

	LastOperation int32
	LastEvent     int64
	LastAudit     int64

	Put    Rows
	Delete Rows
}

// Load returns the state at the last revision.
func (s *Store) Load(ctx context.Context) (*State, error) {
	state := &State{}
	err := s.snapshot(ctx, func(ctx context.Context, tx *sql.Tx) error {
		err := tx.QueryRowContext(ctx, "SELECT revision, last_operation, last_event, last_audit FROM leadership").
			Scan(&state.Revision, &state.LastOperation, &state.LastEvent, &state.LastAudit)
		if err != nil {
			return err
		}
		for _, t := range tables {
			if !t.isLoaded() {
				continue
			}
			if err := t.read(ctx, tx, &state.Rows, t.liveClause()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	return state, nil
}

// Revision returns the last revision: a cheap check for changes.
func (s *Store) Revision(ctx context.Context) (int64, error) {
	var revision int64
	err := s.row(ctx, "SELECT revision FROM leadership", nil, &revision)
	return revision, s.wrap(err)
}

// Changes returns what was put and deleted after a revision. It returns ErrTooOld if the deletions
// since then are no longer known, and ErrInvalid if the revision is in the future.
func (s *Store) Changes(ctx context.Context, since int64) (*Changes, error) {
	changes := &Changes{Since: since}
	err := s.snapshot(ctx, func(ctx context.Context, tx *sql.Tx) error {
		var oldest int64
		err := tx.QueryRowContext(ctx, "SELECT revision, oldest_revision, last_operation, last_event, last_audit FROM leadership").
			Scan(&changes.Revision, &oldest, &changes.LastOperation, &changes.LastEvent, &changes.LastAudit)
		switch {
		case err != nil:
			return err
		case since < oldest:
			return fmt.Errorf("%w: %d, changes are known since %d", ErrTooOld, since, oldest)
		case since > changes.Revision:
			return fmt.Errorf("%w revision %d: the last one is %d", ErrInvalid, since, changes.Revision)
		case since == changes.Revision:
			return nil
		}
		if err := readTombstones(ctx, tx, since, &changes.Delete); err != nil {
			return err
		}
		for _, t := range tables {
			if !t.isTracked() {
				continue
			}
			if err := t.read(ctx, tx, &changes.Put, t.changedClause(), since); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("changes since %d: %w", since, err)
	}
	return changes, nil
}

func readTombstones(ctx context.Context, q querier, since int64, into *Rows) error {
	byName := map[string]anyTable{}
	for _, t := range tables {
		byName[t.tableName()] = t
	}
	query := "SELECT table_name, key FROM tombstones WHERE revision > $1 ORDER BY revision, number"
	return scanAll(ctx, q, query, []any{since}, func(scan func(...any) error) error {
		var name, key string
		if err := scan(&name, &key); err != nil {
			return err
		}
		t, ok := byName[name]
		if !ok {
			return fmt.Errorf("tombstone of an unknown table %q", name)
		}
		return t.readTombstone(into, key)
	})
}
