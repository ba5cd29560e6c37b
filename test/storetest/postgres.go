package storetest

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/stdlib"
)

// RequirePostgres is the variable that turns a missing PostgreSQL into a failure.
const RequirePostgres = "WEIR_REQUIRE_POSTGRES"

// Postgres is a private PostgreSQL server, shared by the tests of a binary. The first test that needs
// it starts it.
type Postgres struct {
	script string
	dir    string
	admin  string // URL of the default database

	emptied chan string // schemas to reuse
	made    atomic.Int64
	once    sync.Once
	err     error
}

// NewPostgres prepares a server without starting it. Call Stop at the end of TestMain.
func NewPostgres() *Postgres { return &Postgres{emptied: make(chan string, 100)} }

// start starts the server, once.
func (p *Postgres) start() error {
	p.once.Do(func() {
		if p.script, p.err = findScript(); p.err != nil {
			return
		}
		var out []byte
		if out, p.err = p.run("start", strconv.Itoa(os.Getpid())); p.err != nil {
			return
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		if len(lines) != 2 {
			p.err = fmt.Errorf("postgres.sh printed %q", out)
			return
		}
		p.dir, p.admin = lines[0], lines[1]
	})
	return p.err
}

// run runs the script that controls servers.
func (p *Postgres) run(args ...string) ([]byte, error) {
	command := exec.Command(p.script, args...)
	var problems bytes.Buffer
	command.Stderr = &problems
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("postgres.sh %s: %w: %s", args[0], err, problems.String())
	}
	return out, nil
}

// findScript searches for the script from the working directory up to the root of the module.
func findScript() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "scripts", "postgres.sh"), nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = filepath.Dir(dir)
	}
}

// Need starts the server if it does not run. Without PostgreSQL on this machine the test is skipped, or
// fails if WEIR_REQUIRE_POSTGRES is set.
func (p *Postgres) Need(t testing.TB) {
	t.Helper()
	err := p.start()
	switch {
	case err == nil:
	case strings.Contains(err.Error(), "not installed") && os.Getenv(RequirePostgres) == "":
		t.Skipf("NOT TESTED ON POSTGRESQL: %v", err)
	default:
		t.Fatal(err)
	}
}

// Fresh returns the URL of an empty database, which is a separate schema: creating or dropping what
// PostgreSQL calls a database takes a checkpoint. After the test the schema is emptied and reused.
func (p *Postgres) Fresh(t testing.TB) string {
	t.Helper()
	p.Need(t)
	var name string
	select {
	case name = <-p.emptied:
	default:
		name = fmt.Sprintf("weir_%d", p.made.Add(1))
		p.Exec(t, "CREATE SCHEMA "+name)
	}
	t.Cleanup(func() {
		if t.Failed() || p.exec(strings.ReplaceAll(emptySchema, "SCHEMA", name)) != nil {
			return // the next test creates another
		}
		select {
		case p.emptied <- name:
		default:
		}
	})
	return p.admin + "&search_path=" + name
}

// emptySchema restores the tables to their state after migration.
const emptySchema = `DO $$ DECLARE name text; BEGIN
	FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'SCHEMA' AND tablename NOT IN ('schema_version', 'leadership')
	LOOP EXECUTE format('DELETE FROM SCHEMA.%I', name); END LOOP;
	UPDATE SCHEMA.leadership SET epoch = 0, holder = '', address = '', since = 0, expires = 0, revision = 0, oldest_revision = 0,
		last_operation = 0, last_event = 0, last_audit = 0;
END $$`

// URL returns the URL of a database on the server, in PostgreSQL's sense of the word.
func (p *Postgres) URL(database string) string {
	return strings.Replace(p.admin, "/postgres?", "/"+database+"?", 1)
}

// Dir returns the directory of the server; databases are in its folder data.
func (p *Postgres) Dir() string { return p.dir }

// Exec executes a statement as the administrator.
func (p *Postgres) Exec(t testing.TB, statement string) {
	t.Helper()
	if err := p.exec(statement); err != nil {
		t.Fatal(err)
	}
}

func (p *Postgres) exec(statement string) error {
	db, err := sql.Open("pgx", p.admin)
	if err != nil {
		return err
	}
	_, err = db.Exec(statement)
	return errors.Join(err, db.Close())
}

// Restart restarts the server: "fast" ends sessions and shuts down cleanly, "immediate" is like a
// crash.
func (p *Postgres) Restart(t testing.TB, mode string) {
	t.Helper()
	if _, err := p.run("restart", p.dir, mode); err != nil {
		t.Fatal(err)
	}
}

// Stop stops the server, if it was started, and removes its files.
func (p *Postgres) Stop() error {
	if p.dir == "" {
		return nil
	}
	_, err := p.run("stop", p.dir, "immediate")
	return err
}

// The driver registers itself under the name pgx.
var _ = stdlib.GetDefaultDriver
