package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

var postgresEngine = engine{
	name:       "postgres",
	network:    true,
	now:        "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)",
	contains:   func(column, parameter string) string { return "strpos(" + column + ", " + parameter + ") > 0" },
	schema:     func(text string) string { return text },
	lockSchema: "SELECT pg_advisory_xact_lock(7823499912340)",
	hasTable:   "SELECT count(*) FROM pg_catalog.pg_tables WHERE schemaname = current_schema() AND tablename = $1",
	kind:       postgresKind,
	patient:    "SET LOCAL idle_in_transaction_session_timeout = 0",
	size:       "SELECT pg_database_size(current_database())",
}

// A leader that is paused in the middle of a commit holds locks that its successor waits for. After this
// time the server ends its session.
const idleInTransaction = 3 * time.Second

// linkPatience is the silence after which a connection is given up.
const linkPatience = 5 * time.Second

// idleConnections is the number of idle connections of a pool that stay open.
const idleConnections = 4

func openPostgres(url string) (*Store, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("%w store URL: %w", ErrInvalid, err)
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = linkPatience
	}
	config.DialFunc = (&net.Dialer{
		Timeout: config.ConnectTimeout, Control: giveUpUnacknowledged,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: linkPatience / 5, Interval: linkPatience / 5, Count: 4},
	}).DialContext
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "weir"
	}
	reading := config.Copy()
	reading.RuntimeParams["default_transaction_read_only"] = "on"
	config.RuntimeParams["idle_in_transaction_session_timeout"] = fmt.Sprint(idleInTransaction.Milliseconds())
	// An acknowledged commit is on disk even if the server's default is weaker.
	durable := stdlib.OptionAfterConnect(func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'")
		return err
	})
	s := &Store{engine: postgresEngine, writes: stdlib.OpenDB(*config, durable), reads: stdlib.OpenDB(*reading)}
	s.writes.SetMaxOpenConns(idleConnections)
	s.reads.SetMaxOpenConns(16)
	for _, pool := range []*sql.DB{s.writes, s.reads} {
		pool.SetMaxIdleConns(idleConnections)
		pool.SetConnMaxIdleTime(5 * time.Minute)
	}
	return s, nil
}

func postgresKind(err error) error {
	var failure *pgconn.PgError
	if errors.As(err, &failure) {
		switch {
		case failure.Code == "53100":
			return ErrFull
		case failure.Code == "23505": // unique_violation: the id of an operation
			return ErrConflict
		case strings.HasPrefix(failure.Code, "08"), // connection
			strings.HasPrefix(failure.Code, "53"),   // resources
			strings.HasPrefix(failure.Code, "57P0"), // shutdown, crash, start-up
			strings.HasPrefix(failure.Code, "58"),   // the server's own system
			failure.Code == "25P03",                 // idle in transaction for too long
			failure.Code == "25006",                 // read-only: not the primary
			failure.Code == "40001", failure.Code == "40P01", failure.Code == "55P03":
			return ErrUnavailable
		}
		return nil
	}
	var connect *pgconn.ConnectError
	var network net.Error
	if errors.As(err, &connect) || errors.As(err, &network) || errors.Is(err, driver.ErrBadConn) ||
		pgconn.Timeout(err) || isClosed(err) {
		return ErrUnavailable
	}
	return nil
}

// isClosed reports whether a connection was closed during use.
func isClosed(err error) bool {
	for _, closed := range []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, sql.ErrConnDone, pgconn.ErrConnClosed} {
		if errors.Is(err, closed) {
			return true
		}
	}
	return false
}
