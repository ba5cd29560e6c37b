package store_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/control/store"
)

func open(t testing.TB, url string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func lead(t testing.TB, s *store.Store) store.Lease {
	t.Helper()
	lease, err := s.Acquire(t.Context(), "leader", "leader:1", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// raw opens a database without the store.
func raw(t testing.TB, url string) *sql.DB {
	t.Helper()
	driver, name := "pgx", url
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		driver, name = "sqlite", "file:"+strings.ReplaceAll(strings.ReplaceAll(path, "?", "%3f"), " ", "%20")
	}
	db, err := sql.Open(driver, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func TestURLsThatNameNoStoreAreRefused(t *testing.T) {
	for _, url := range []string{"", "weir.db", "mysql://x", "sqlite:", "sqlite::memory:", "postgres://%zz"} {
		if _, err := store.Open(t.Context(), url); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%q: the error is %v", url, err)
		}
	}
}

func TestADatabaseThatCannotBeReachedIsUnavailable(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none")
	if _, err := store.Open(t.Context(), "postgres:///weir?host="+missing); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("the error is %v", err)
	}
	if _, err := store.Open(t.Context(), "sqlite:"+filepath.Join(missing, "weir.db")); err == nil {
		t.Error("a file in a directory that is not there was opened")
	}
}

func TestADatabaseOfANewerVersionIsRefused(t *testing.T) {
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			url := e.fresh(t)
			open(t, url)
			db := raw(t, url)
			var version int
			if err := db.QueryRow("SELECT version FROM schema_version").Scan(&version); err != nil {
				t.Fatal(err)
			}
			if _, err := db.Exec("UPDATE schema_version SET version = 999"); err != nil {
				t.Fatal(err)
			}
			_, err := store.Open(t.Context(), url)
			if !errors.Is(err, store.ErrTooNew) || !strings.Contains(err.Error(), "999") {
				t.Errorf("the error is %v", err)
			}
			if _, err := db.Exec("UPDATE schema_version SET version = $1", version); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// The first version had no contents, no ledger, no facts, no forecasts and more indexes: its rows stay, and its tables become
// what they are now.
func TestADatabaseOfTheFirstVersionIsUpdated(t *testing.T) {
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			url := e.fresh(t)
			open(t, url)
			db := raw(t, url)
			for _, statement := range []string{
				"DROP TABLE ledger_facts", "DROP TABLE forecasts", "DROP TABLE forecast_models", "DROP TABLE ledger_tallies", "DROP TABLE ledger_rows", "DROP TABLE content_uses", "ALTER TABLE path_nodes DROP COLUMN content", "ALTER TABLE path_nodes DROP COLUMN content_size",
				"ALTER TABLE path_nodes DROP COLUMN content_user", "INSERT INTO path_nodes VALUES ('//home/a', 'document', '', '', 1, 2, 0)",
				"ALTER TABLE jobs ADD COLUMN revision BIGINT NOT NULL DEFAULT 0", "CREATE INDEX jobs_revision ON jobs (revision)",
				"CREATE INDEX jobs_live ON jobs (operation) WHERE finish_time = 0",
				"ALTER TABLE operation_progress ADD COLUMN revision BIGINT NOT NULL DEFAULT 0", "CREATE INDEX operation_progress_revision ON operation_progress (revision)",
				"ALTER TABLE controller_snapshots ADD COLUMN revision BIGINT NOT NULL DEFAULT 0", "CREATE INDEX controller_snapshots_revision ON controller_snapshots (revision)",
				"DROP INDEX events_type", "CREATE INDEX events_type ON events (type, id)",
				"DROP TABLE event_spans", "DROP TABLE event_minutes", "CREATE INDEX events_time ON events (time, id)",
				"CREATE INDEX events_operation ON events (operation, id) WHERE operation <> 0", "CREATE INDEX events_job ON events (job, id) WHERE job <> 0",
				"CREATE INDEX events_pool ON events (pool, id) WHERE pool <> ''", "CREATE INDEX events_node ON events (node, id) WHERE node <> ''",
				"INSERT INTO events VALUES (1, 60000000, 't', 7, 128, 'main', 'prod', 'n1', ''), (2, 60000001, 't', 7, -129, 'main', 'prod', 'n1', ''), (3, 180000000, 't', 0, 0, '', '', '', '')",
				"UPDATE leadership SET last_event = 3",
				"UPDATE schema_version SET version = 1",
			} {
				if _, err := db.Exec(statement); err != nil {
					t.Fatalf("%s: %v", statement, err)
				}
			}
			s := open(t, url)
			state, err := s.Load(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Ledger(t.Context(), store.LedgerQuery{}); err != nil {
				t.Error(err)
			}
			if _, err := s.Tallies(t.Context(), store.TallyQuery{}); err != nil {
				t.Error(err)
			}
			if _, err := s.Forecasts(t.Context(), store.ForecastQuery{}); err != nil {
				t.Error(err)
			}
			second := int64(-129)
			for count, filter := range map[int]store.EventFilter{
				3: {}, 2: {Operation: 7, Node: "n1"}, 1: {Job: uint64(second)},
			} {
				for _, oldestFirst := range []bool{false, true} {
					filter.OldestFirst = oldestFirst
					if events, _, err := s.Events(t.Context(), filter); err != nil || len(events) != count {
						t.Errorf("%+v: got %+v, %v", filter, events, err)
					}
				}
			}
			if events, _, err := s.Events(t.Context(), store.EventFilter{From: time.Unix(61, 0)}); err != nil || len(events) != 1 || events[0].ID != 3 {
				t.Errorf("got %+v, %v", events, err)
			}
			if rows := state.Rows.PathNodes; len(rows) != 1 || rows[0].Path != "//home/a" || rows[0].Content != "" {
				t.Errorf("got %+v", rows)
			}
		})
	}
}

func TestSeveralProcessesMayOpenANewDatabaseAtOnce(t *testing.T) {
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			url := e.fresh(t)
			if e.name == "sqlite" {
				url = "sqlite:" + filepath.Join(t.TempDir(), "weir.db") // without tables
			}
			results := make(chan error)
			for range 4 {
				go func() {
					s, err := store.Open(t.Context(), url)
					if err == nil {
						err = s.Close()
					}
					results <- err
				}()
			}
			for range 4 {
				if err := <-results; err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestSQLiteFilesAreForTheirOwnerOnly(t *testing.T) {
	url := "sqlite:" + filepath.Join(t.TempDir(), "weir.db")
	s := open(t, url)
	if _, err := s.Commit(t.Context(), lead(t, s), crashBatch(1)); err != nil {
		t.Fatal(err)
	}
	path := strings.TrimPrefix(url, "sqlite:")
	for _, suffix := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", suffix, info.Mode())
		}
	}
}

func TestCommitsAskForDurability(t *testing.T) {
	// The engines guarantee what these settings mean; we only have to set them.
	for _, c := range []struct{ name, query, want string }{
		{"sqlite", "PRAGMA journal_mode", "wal"}, {"sqlite", "PRAGMA synchronous", "2"}, {"postgres", "SHOW synchronous_commit", "on"},
	} {
		url := freshSQLite(t)
		if c.name == "postgres" {
			url = postgres.Fresh(t) + "&synchronous_commit=off" // as a careless administrator might set it
		}
		var got string
		if err := store.Writes(open(t, url)).QueryRow(c.query).Scan(&got); err != nil || got != c.want {
			t.Errorf("%s: %q, %v", c.query, got, err)
		}
	}
}

func TestPoolsAreOneTextAndBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[-_.a-zA-Z0-9:$%]{1,8}`)
		trees := rapid.SliceOfNDistinct(name, 0, 5, rapid.ID).Draw(t, "trees")
		slices.Sort(trees)
		var pools []store.TreePool
		for _, tree := range trees {
			pools = append(pools, store.TreePool{Tree: tree, Pool: name.Draw(t, "pool")})
		}
		if diff := cmp.Diff(pools, store.PoolsOf(store.PoolsText(pools))); diff != "" {
			t.Fatal(diff)
		}
	})
}

// FuzzImport feeds lines to the importer. Whatever they are, the store imports everything or
// nothing.
func FuzzImport(f *testing.F) {
	source := open(f, freshSQLite(f))
	lease := lead(f, source)
	for n := 1; n <= 2; n++ {
		if _, err := source.Commit(f.Context(), lease, crashBatch(n)); err != nil {
			f.Fatal(err)
		}
	}
	var packed bytes.Buffer
	if err := source.Export(f.Context(), &packed); err != nil {
		f.Fatal(err)
	}
	plain, err := gzip.NewReader(&packed)
	if err != nil {
		f.Fatal(err)
	}
	text, err := io.ReadAll(plain)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(text))
	header, _, _ := strings.Cut(string(text), "\n")
	f.Add(header + "\n{\"table\":\"users\",\"columns\":[\"name\"]}\n[\"ann\"]\n{\"rows\":1}\n")
	f.Add("[]\n")
	dir, made := f.TempDir(), 0
	fresh := func() *store.Store {
		made++
		s, err := store.Open(context.Background(), "sqlite:"+filepath.Join(dir, strconv.Itoa(made)))
		if err != nil {
			panic(err)
		}
		return s
	}
	target := fresh()
	f.Cleanup(func() { target.Close() })
	f.Fuzz(func(t *testing.T, lines string) {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		w.Write([]byte(lines))
		w.Close()
		if err := target.Import(t.Context(), &packed); err == nil {
			target.Close() // the checksum of a whole export is right
			target = fresh()
			return
		}
		state, err := target.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if state.Revision != 0 || len(state.Rows.Users) != 0 {
			t.Errorf("a refused import left %+v", state)
		}
	})
}

func TestAWriterWaitsForAnotherProcessOnTheSameFile(t *testing.T) {
	url := freshSQLite(t)
	s := open(t, url)
	lease := lead(t, s)
	db := raw(t, url)
	connection, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := connection.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		_, err := s.Commit(t.Context(), lease, crashBatch(1))
		done <- err
	}()
	// Neither makes a reader wait.
	if _, err := s.Load(t.Context()); err != nil {
		t.Error(err)
	}
	select {
	case err := <-done:
		t.Fatalf("the commit did not wait: %v", err)
	default:
	}
	if _, err := connection.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestAnExportMovesBetweenEngines(t *testing.T) {
	for _, pair := range [][2]int{{0, 1}, {1, 0}} {
		from, to := engines[pair[0]], engines[pair[1]]
		t.Run(from.name+" to "+to.name, func(t *testing.T) {
			source, target := open(t, from.fresh(t)), open(t, to.fresh(t))
			lease := lead(t, source)
			for n := 1; n <= 30; n++ {
				if _, err := source.Commit(t.Context(), lease, crashBatch(n)); err != nil {
					t.Fatal(err)
				}
			}
			var out bytes.Buffer
			if err := source.Export(t.Context(), &out); err != nil {
				t.Fatal(err)
			}
			if err := target.Import(t.Context(), &out); err != nil {
				t.Fatal(err)
			}
			wholeBatches(t, target, 30)
			if _, err := target.Commit(t.Context(), lead(t, target), crashBatch(31)); err != nil {
				t.Fatal(err)
			}
			wholeBatches(t, target, 31)
		})
	}
}

// smallDisk mounts a file system of some megabytes; grow enlarges it.
func smallDisk(t *testing.T, dir string, megabytes int) (grow func()) {
	t.Helper()
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	size := func(mb int) string { return fmt.Sprintf("size=%dm", mb) }
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, size(megabytes)); err != nil {
		t.Skipf("A FULL DISK IS NOT TESTED: cannot mount a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil { // a server might be about to close its files
			t.Errorf("unmount: %v", err)
		}
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	return func() {
		if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, size(megabytes*8)); err != nil {
			t.Fatal(err)
		}
	}
}

// fillDisk commits until the disk is full, checks that everything acknowledged can be read, and
// continues with the same batch after the disk has grown.
func fillDisk(t *testing.T, s *store.Store, grow func()) {
	t.Helper()
	lease := lead(t, s)
	batch := func(n int) *store.Batch {
		noise := make([]byte, 200_000)
		rand.Read(noise)
		return &store.Batch{Put: store.Rows{Settings: []store.Setting{{Name: strconv.Itoa(n), Document: noise}}}}
	}
	there := func(want int) {
		t.Helper()
		state, err := s.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(state.Rows.Settings) != want || state.Revision != int64(want) {
			t.Fatalf("%d settings at revision %d, %d were acknowledged", len(state.Rows.Settings), state.Revision, want)
		}
	}
	n := 0
	for ; n < 10000; n++ {
		b := batch(n)
		_, err := s.Commit(t.Context(), lease, b)
		if err == nil {
			continue
		}
		if !errors.Is(err, store.ErrFull) {
			t.Fatalf("after %d commits: %v", n, err)
		}
		there(n)
		if _, err := s.Commit(t.Context(), lease, b); !errors.Is(err, store.ErrFull) {
			t.Fatalf("again: %v", err)
		}
		grow()
		if _, err := s.Commit(t.Context(), lease, b); err != nil {
			t.Fatalf("after the disk has grown: %v", err)
		}
		there(n + 1)
		if _, err := s.Commit(t.Context(), lease, batch(n+1)); err != nil {
			t.Fatal(err)
		}
		there(n + 2)
		t.Logf("full after %d commits", n)
		return
	}
	t.Fatal("the disk was never full")
}

func TestAFullDiskOfSQLiteIsAnErrorAndNoHarm(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "small")
	grow := smallDisk(t, dir, 6)
	s, err := store.Open(t.Context(), "sqlite:"+filepath.Join(dir, "weir.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	fillDisk(t, s, grow)
	var verdict string
	if err := raw(t, "sqlite:"+filepath.Join(dir, "weir.db")).QueryRow("PRAGMA integrity_check").Scan(&verdict); err != nil || verdict != "ok" {
		t.Errorf("integrity: %s, %v", verdict, err)
	}
}

func TestAFullDiskOfPostgresIsAnErrorAndNoHarm(t *testing.T) {
	postgres.Need(t)
	dir := filepath.Join(postgres.Dir(), "small")
	grow := smallDisk(t, dir, 40)
	if owner, err := user.Lookup("postgres"); err == nil {
		uid, _ := strconv.Atoi(owner.Uid)
		gid, _ := strconv.Atoi(owner.Gid)
		if err := os.Chown(dir, uid, gid); err != nil {
			t.Fatal(err)
		}
	}
	postgres.Exec(t, "CREATE TABLESPACE small LOCATION '"+dir+"'")
	t.Cleanup(func() { postgres.Exec(t, "DROP TABLESPACE small") })
	postgres.Exec(t, "CREATE DATABASE small TABLESPACE small")
	t.Cleanup(func() { postgres.Exec(t, "DROP DATABASE small WITH (FORCE)") })
	s, err := store.Open(t.Context(), postgres.URL("small"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	fillDisk(t, s, grow)
}
