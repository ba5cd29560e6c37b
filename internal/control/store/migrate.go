package store

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Migrations are files with four digits in front, from 0001 on without gaps. A file that
// was released never changes.
//
//go:embed migrations/*.sql
var migrationFiles embed.FS

// A migration updates the tables from the previous version to its own.
type migration struct {
	version int
	text    string
}

func migrations() ([]migration, error) {
	names, err := fs.Glob(migrationFiles, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	list := make([]migration, len(names))
	for i, name := range names {
		digits, _, _ := strings.Cut(path.Base(name), "_")
		version, err := strconv.Atoi(digits)
		if err != nil || version != i+1 {
			return nil, fmt.Errorf("migration %s: number %04d expected", name, i+1)
		}
		text, err := fs.ReadFile(migrationFiles, name)
		if err != nil {
			return nil, err
		}
		list[i] = migration{version: version, text: string(text)}
	}
	return list, nil
}

// schemaVersion returns the version that this program writes.
func schemaVersion() (int, error) {
	list, err := migrations()
	return len(list), err
}

// migrate updates the database to the newest version in one transaction. If two
// processes migrate at once, the second finds nothing to do.
func (s *Store) migrate(ctx context.Context) error {
	list, err := migrations()
	if err != nil {
		return err
	}
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	return s.writing(ctx, func(ctx context.Context, w *writer) error {
		if s.engine.lockSchema != "" {
			if _, err := w.exec(ctx, s.engine.lockSchema); err != nil {
				return err
			}
		}
		var tables int
		if err := w.tx.QueryRowContext(ctx, s.engine.hasTable, "schema_version").Scan(&tables); err != nil {
			return err
		}
		version := 0
		if tables == 0 {
			if _, err := w.exec(ctx, "CREATE TABLE schema_version (version BIGINT NOT NULL)"); err != nil {
				return err
			}
			if _, err := w.exec(ctx, "INSERT INTO schema_version VALUES (0)"); err != nil {
				return err
			}
		} else if err := w.tx.QueryRowContext(ctx, "SELECT version FROM schema_version").Scan(&version); err != nil {
			return err
		}
		if version > len(list) {
			return fmt.Errorf("%w: its tables have version %d, this program knows versions up to %d", ErrTooNew, version, len(list))
		}
		for _, m := range list[version:] {
			if _, err := w.exec(ctx, s.engine.schema(m.text)); err != nil {
				return fmt.Errorf("migration %04d: %w", m.version, err)
			}
		}
		if version == len(list) {
			return nil
		}
		_, err := w.exec(ctx, "UPDATE schema_version SET version = $1", len(list))
		return err
	})
}
