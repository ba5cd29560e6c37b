package store

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"

	"modernc.org/sqlite"
)

// SQLite result codes: the lowest byte of what it reports.
const (
	sqliteBusy     = 5
	sqliteLocked   = 6
	sqliteReadOnly = 8
	sqliteIOError  = 10
	sqliteFull     = 13
	sqliteCantOpen = 14
	sqliteConflict = 19
)

var sqliteEngine = engine{
	name:          "sqlite",
	now:           "CAST(unixepoch('subsec') * 1000000 AS INTEGER)",
	contains:      func(column, parameter string) string { return "instr(" + column + ", " + parameter + ") > 0" },
	schema:        sqliteSchema,
	hasTable:      "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = $1",
	kind:          sqliteKind,
	uninterrupted: true,
	size:          "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
	checkpoint:    "PRAGMA wal_checkpoint(PASSIVE)",
}

// sqliteSchema replaces what SQLite spells differently. Only an INTEGER PRIMARY KEY is the
// row number there; all other tables are clustered by omitting row numbers.
func sqliteSchema(text string) string {
	return strings.NewReplacer(
		"BIGINT PRIMARY KEY", "INTEGER PRIMARY KEY",
		"BYTEA", "BLOB",
		") /* clustered */", ") WITHOUT ROWID",
	).Replace(text)
}

// openSQLite opens a file. Commits are on disk when they return: in WAL mode this requires
// synchronous=FULL. Several processes may have the file open; a write waits up to
// busy_timeout for another process's write.
func openSQLite(path string) (*Store, error) {
	if path == "" || strings.HasPrefix(path, ":memory:") {
		return nil, fmt.Errorf("%w path %q: a store is a file", ErrInvalid, path)
	}
	// The file contains hashes of tokens: no other user should read it. SQLite gives its
	// side files the same mode.
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := file.Close(); err != nil {
		return nil, err
	}
	common := url.Values{"_pragma": {
		"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(FULL)",
		"temp_store(MEMORY)", "journal_size_limit(134217728)",
	}}
	with := func(pragmas ...string) []string { return slices.Concat(common["_pragma"], pragmas) }
	// The log is copied back beside the commits (see checkpointer). If it grows faster than that, a commit
	// copies the rest.
	writing := url.Values{"_pragma": with("cache_size(-65536)", "wal_autocheckpoint(32768)"), "_txlock": {"immediate"}}
	reading := url.Values{"_pragma": with("cache_size(-16384)", "query_only(1)")}
	name := "file:" + (&url.URL{Path: path}).EscapedPath()
	s := &Store{engine: sqliteEngine}
	if s.writes, err = sql.Open("sqlite", name+"?"+writing.Encode()); err != nil {
		return nil, err
	}
	if s.reads, err = sql.Open("sqlite", name+"?"+reading.Encode()); err != nil {
		return nil, errors.Join(err, s.writes.Close())
	}
	s.writes.SetMaxOpenConns(1)
	s.reads.SetMaxOpenConns(8)
	s.reads.SetMaxIdleConns(8)
	return s, nil
}

func sqliteKind(err error) error {
	var failure *sqlite.Error
	if !errors.As(err, &failure) {
		return nil
	}
	switch failure.Code() & 0xff {
	case sqliteFull:
		return ErrFull
	case sqliteConflict:
		return ErrConflict
	case sqliteBusy, sqliteLocked, sqliteIOError, sqliteCantOpen, sqliteReadOnly:
		return ErrUnavailable
	}
	return nil
}
