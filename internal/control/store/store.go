package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
)

// Store is the scheduler's database. Its methods may be called from any goroutine.
type Store struct {
	engine engine
	// writes has the connections that change rows, reads the others: a long read never makes a commit wait
	// for a connection.
	writes *sql.DB
	reads  *sql.DB

	patience patience
	turn     chan struct{} // full while a caller writes; see lock
	// mu is accessed only by the caller that holds the lock.
	mu struct {
		// unsettled are attempts whose outcome is unknown.
		unsettled []*attempt
		// statements are prepared on the writing connection, by text. Only SQLite needs them; pgx has its own
		// cache.
		statements map[string]*sql.Stmt
	}
	groupings groupings
	watched   watch

	checkpoints checkpointer
}

// engine holds what differs between the databases.
type engine struct {
	name string
	// network reports whether the database is accessed over a network. Rows are then sent as arrays, all in
	// one statement.
	network bool
	// now is the database's clock in microseconds, read when the expression is evaluated.
	now string
	// contains returns a condition: the column's text contains the parameter.
	contains func(column, parameter string) string
	// schema translates the text of a migration into the engine's SQL.
	schema func(string) string
	// lockSchema prevents concurrent migrations; empty if the transaction already does.
	lockSchema string
	// hasTable queries whether a table exists; $1 is its name.
	hasTable string
	// kind returns the kind of an error, nil if it has none.
	kind func(error) error
	// uninterrupted reports whether a write that has started is finished even if ctx is cancelled. It is
	// bounded anyway.
	uninterrupted bool
	// patient lets the current transaction wait for its client; empty if it may anyway.
	patient string
	// size queries the number of bytes that the database occupies.
	size string
	// checkpoint copies the log of commits back into the database while others read and write; empty if the
	// database does that by itself.
	checkpoint string
}

// Open opens the database of a URL, creates or migrates its tables and returns a store. URLs are
//
//	sqlite:PATH
//	postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=…
//
// It returns ErrTooNew if a newer version of weir has migrated the database, and
// ErrUnavailable if the database cannot be reached.
func Open(ctx context.Context, url string) (*Store, error) {
	scheme, rest, ok := strings.Cut(url, ":")
	if !ok {
		return nil, fmt.Errorf("%w store URL: want sqlite:PATH or postgres://…", ErrInvalid)
	}
	var s *Store
	var err error
	switch scheme {
	case "sqlite":
		s, err = openSQLite(rest)
	case "postgres", "postgresql":
		s, err = openPostgres(url)
	default:
		return nil, fmt.Errorf("%w store URL: unknown scheme %q, want sqlite:PATH or postgres://…", ErrInvalid, scheme)
	}
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	s.mu.statements = map[string]*sql.Stmt{}
	s.turn, s.patience = make(chan struct{}, 1), usualPatience
	if err := s.migrate(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open store: %w", err), s.Close())
	}
	s.checkpoints.start(s)
	return s, nil
}

// Close closes all connections. It waits for calls in progress.
func (s *Store) Close() error {
	if err := s.lock(context.Background()); err != nil {
		return err
	}
	defer s.unlock()
	s.checkpoints.stop()
	return errors.Join(s.reads.Close(), s.writes.Close())
}

// Engine returns "sqlite" or "postgres".
func (s *Store) Engine() string { return s.engine.name }

// Ping returns an error if the database does not answer.
func (s *Store) Ping(ctx context.Context) error {
	var one int64
	return s.wrap(s.row(ctx, "SELECT 1", nil, &one))
}

// Size returns the number of bytes that the database occupies.
func (s *Store) Size(ctx context.Context) (int64, error) {
	var bytes int64
	err := s.row(ctx, s.engine.size, nil, &bytes)
	return bytes, s.wrap(err)
}

// wrap gives an engine's error its kind.
func (s *Store) wrap(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, sql.ErrNoRows) {
		return ErrNotFound
	}
	if kind := s.engine.kind(err); kind != nil && !errors.Is(err, kind) {
		return &kindError{kind: kind, cause: err}
	}
	return err
}

// snapshot runs a function on one consistent state of the database.
func (s *Store) snapshot(ctx context.Context, read func(ctx context.Context, tx *sql.Tx) error) error {
	return within(ctx, s.patience.scan, func(ctx context.Context) error { return s.snapshotNow(ctx, read) })
}

func (s *Store) snapshotNow(ctx context.Context, read func(ctx context.Context, tx *sql.Tx) error) error {
	options := &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}
	tx, err := s.reads.BeginTx(ctx, options)
	if s.stale(ctx, s.reads, err) {
		tx, err = s.reads.BeginTx(ctx, options)
	}
	if err != nil {
		return s.wrap(err)
	}
	defer tx.Rollback()
	return s.wrap(read(ctx, tx))
}

// stale reports whether an error may come from a connection that the server closed while it was idle, which
// shows only on use. It drops all idle connections, so a retry makes a new one.
func (s *Store) stale(ctx context.Context, pool *sql.DB, err error) bool {
	if err == nil || !s.engine.network || ctx.Err() != nil || s.engine.kind(err) != ErrUnavailable {
		return false
	}
	pool.SetMaxIdleConns(0) // closes them
	pool.SetMaxIdleConns(idleConnections)
	return true
}

// reader reads outside a transaction.
type reader struct{ *Store }

// QueryContext makes a reader a querier.
func (r reader) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	rows, err := r.reads.QueryContext(ctx, query, args...)
	if r.stale(ctx, r.reads, err) {
		rows, err = r.reads.QueryContext(ctx, query, args...)
	}
	return rows, err
}

// row reads the first row of a query, or returns sql.ErrNoRows.
// IsShared reports whether processes on other machines can use the same store.
func (s *Store) IsShared() bool { return s.engine.network }

func (s *Store) row(ctx context.Context, query string, args []any, into ...any) error {
	found := false
	err := scanAll(ctx, reader{s}, query, args, func(scan func(...any) error) error {
		if found {
			return nil
		}
		found = true
		return scan(into...)
	})
	if err == nil && !found {
		return sql.ErrNoRows
	}
	return err
}

// writer is a transaction that holds the leadership row, so that there is no other writer and the lease
// cannot change hands until it ends.
type writer struct {
	*Store
	tx       *sql.Tx
	arrays   bool
	oneByOne bool // rows with a guard are put one by one, to see which were refused
	revision int64
	buried   int64 // tombstones so far
}

// writing runs a function in a transaction that changes rows. The function's first statement must change or
// lock the leadership row. The caller must hold the lock.
func (s *Store) writing(ctx context.Context, write func(ctx context.Context, w *writer) error) error {
	if s.engine.uninterrupted {
		if err := ctx.Err(); err != nil {
			return err
		}
		ctx = context.WithoutCancel(ctx)
	}
	tx, err := s.writes.BeginTx(ctx, nil)
	if s.stale(ctx, s.writes, err) {
		tx, err = s.writes.BeginTx(ctx, nil)
	}
	if err != nil {
		return s.wrap(err)
	}
	defer tx.Rollback()
	if err := write(ctx, &writer{Store: s, tx: tx, arrays: s.engine.network}); err != nil {
		return s.wrap(err)
	}
	return s.wrap(tx.Commit())
}

// prepare returns a statement for this transaction. Statements of the writing connection
// are parsed once.
func (w *writer) prepare(ctx context.Context, query string) (*sql.Stmt, error) {
	if statement, ok := w.mu.statements[query]; ok {
		return w.tx.StmtContext(ctx, statement), nil
	}
	return w.tx.PrepareContext(ctx, query)
}

func (w *writer) exec(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return w.tx.ExecContext(ctx, query, args...)
}

// tombstone records that a row was deleted.
func (w *writer) tombstone(ctx context.Context, table, key string) error {
	w.buried++
	_, err := w.exec(ctx, "INSERT INTO tombstones (revision, number, table_name, key) VALUES ($1, $2, $3, $4)",
		w.revision, w.buried, table, key)
	if err != nil {
		return fmt.Errorf("tombstone of %s: %w", table, err)
	}
	return nil
}
