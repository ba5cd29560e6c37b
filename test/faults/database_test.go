//go:build linux

package faults

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirhq/weir/test/expected"
	"github.com/weirhq/weir/test/storetest"
)

// database is a PostgreSQL on a machine and a disk of its own.
type database struct {
	t         *testing.T
	machine   *machine
	directory string
	url       string
}

const postgresScript = "../../scripts/postgres.sh"

func newDatabase(t *testing.T, m *machine, on *disk) *database {
	t.Helper()
	d := &database{t: t, machine: m, url: "postgres://weir@" + m.address + ":5432/postgres?sslmode=disable"}
	start := m.command(postgresScript, "start")
	start.Env = append(os.Environ(), "TMPDIR="+on.directory, "WEIR_POSTGRES_CONFIG="+strings.Join([]string{
		"listen_addresses = '" + m.address + "'", "min_wal_size = 32MB", "max_wal_size = 64MB",
	}, "\n"))
	var problems bytes.Buffer
	start.Stderr = &problems
	if err := os.Chmod(on.directory, 0o777); err != nil {
		t.Fatal(err)
	}
	out, err := start.Output()
	lines := strings.Fields(string(out))
	switch {
	case err == nil && len(lines) == 2:
	case strings.Contains(problems.String(), "not installed") && os.Getenv(storetest.RequirePostgres) == "":
		t.Skipf("NOT TESTED ON POSTGRESQL: %s", problems.String())
	default:
		t.Fatalf("PostgreSQL does not start: %v: %s", err, problems.String())
	}
	d.directory = lines[0]
	t.Cleanup(func() {
		if t.Failed() {
			text, _ := os.ReadFile(filepath.Join(d.directory, "server.log"))
			t.Logf("the end of the log of PostgreSQL:\n%s", text[max(0, len(text)-4000):])
		}
		d.kill()
	})
	return d
}

// kill ends all of its processes at once and waits until none is left. The number of a dead
// process that no parent has waited for stays taken, so the files with the number go too.
func (d *database) kill() {
	d.machine.signal(syscall.SIGKILL)
	if !expected.Soon(func() bool { return len(d.machine.processes()) == 0 }) {
		d.t.Error("PostgreSQL survives being killed")
	}
	for _, file := range []string{"data/postmaster.pid", ".s.PGSQL.5432.lock"} {
		if err := os.Remove(filepath.Join(d.directory, file)); err != nil && !errors.Is(err, os.ErrNotExist) {
			d.t.Error(err)
		}
	}
}

// pause stops all of its processes, resume lets them go on.
func (d *database) pause()  { d.machine.signal(syscall.SIGSTOP) }
func (d *database) resume() { d.machine.signal(syscall.SIGCONT) }

// running says whether there is a server; one that starts may not answer questions yet.
func (d *database) running() bool {
	connection, err := net.DialTimeout("tcp", d.machine.address+":5432", time.Second)
	if err != nil {
		return false
	}
	_ = connection.Close()
	return true
}

// start starts the server again after it was killed or has given up, and waits for it.
func (d *database) start() {
	d.t.Helper()
	d.kill() // what is left of it
	if out, err := d.machine.command(postgresScript, "restart", d.directory, "fast").CombinedOutput(); err != nil {
		d.t.Fatal(fmt.Errorf("PostgreSQL does not start again: %w: %s", err, out))
	}
}
