package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
)

// Store is a database of the scheduler. Its methods may be called from any goroutine.
type Store struct {
	engine engine
	// writes has the connections that change rows, reads those that do not: a
	// long read never keeps a commit waiting for a connection.
	writes *sql.DB
	reads  *sql.DB

	patience patience
	turn     chan struct{} // full while somebody writes; see lock
	// mu belongs to whoever writes.
	mu struct {
		// unsettled are attempts of which it is not known whether they took place.
		unsettled []*attempt
		// statements are prepared on the writing connection, by their text. Only SQLite
		// needs them; pgx keeps its own.
		statements map[string]*sql.Stmt
	}
	groupings groupings
}

// engine is what differs between the databases.
type engine struct {
	name string
	// network says that the database is at the other end of a connection. Rows then travel
	// as arrays, one statement for all.
	network bool
	// now is the database's clock in microseconds, read when the expression is evaluated.
	now string
	// contains is a condition: the text in the column has the parameter in it.
	contains func(column, parameter string) string
	// schema turns the text of a migration into the engine's SQL.
	schema func(string) string
	// lockSchema keeps others from migrating at the same time; empty if the transaction does already.
	lockSchema string
	// hasTable asks whether a table exists, $1 is its name.
	hasTable string
	// kind finds the kind of an error, nil if it has none.
	kind func(error) error
	// uninterrupted says that a write which has begun is finished whatever becomes of the
	// context. It is bounded anyhow.
	uninterrupted bool
	// patient lets the present transaction wait for its client; empty if it may anyhow.
	patient string
	// size asks for the bytes that the database occupies.
	size string
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
	return s, nil
}

// Close closes all connections. It waits for calls that are under way.
func (s *Store) Close() error {
	if err := s.lock(context.Background()); err != nil {
		return err
	}
	defer s.unlock()
	return errors.Join(s.reads.Close(), s.writes.Close())
}

// Engine is "sqlite" or "postgres".
func (s *Store) Engine() string { return s.engine.name }

// Ping says whether the database answers.
func (s *Store) Ping(ctx context.Context) error {
	var one int64
	return s.wrap(s.row(ctx, "SELECT 1", nil, &one))
}

// Size is the number of bytes that the database occupies.
func (s *Store) Size(ctx context.Context) (int64, error) {
	var bytes int64
	err := s.row(ctx, s.engine.size, nil, &bytes)
	return bytes, s.wrap(err)
}

// wrap gives an error of the engine its kind.
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

// stale says whether an error may come from a connection that the server closed while it was idle, which is
// noticed only when it is used. The pool then has none of that age any more, so trying again makes a new one.
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

// writer is a transaction that holds the leadership row, so that nobody else
// writes and the lease cannot change hands until it ends.
type writer struct {
	*Store
	tx       *sql.Tx
	arrays   bool
	revision int64
	buried   int64 // tombstones so far
}

// writing runs a function in a transaction that changes rows. The function's first statement must
// change or lock the leadership row. The caller has the lock.
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

// tombstone remembers that a row was deleted.
func (w *writer) tombstone(ctx context.Context, table, key string) error {
	w.buried++
	_, err := w.exec(ctx, "INSERT INTO tombstones (revision, number, table_name, key) VALUES ($1, $2, $3, $4)",
		w.revision, w.buried, table, key)
	if err != nil {
		return fmt.Errorf("tombstone of %s: %w", table, err)
	}
	return nil
}
