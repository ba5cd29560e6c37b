package store_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/test/storetest"
)

// postgres is the server that all tests of this package share.
var postgres = storetest.NewPostgres()

func TestMain(m *testing.M) {
	if url := os.Getenv(crashURL); url != "" {
		commitUntilKilled(url)
		return
	}
	// Cases wait for the disk more than for the processor.
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	code := m.Run()
	if err := postgres.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// emptySQLite is a file with empty tables. Copying it is quicker than creating the tables for
// every test.
var emptySQLite = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "weir-store")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "empty.db")
	s, err := store.Open(context.Background(), "sqlite:"+path)
	if err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// freshSQLite returns the URL of a new file with empty tables.
func freshSQLite(t testing.TB) string {
	t.Helper()
	empty, err := emptySQLite()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "weir file?.db")
	if err := os.WriteFile(path, empty, 0o600); err != nil {
		t.Fatal(err)
	}
	return "sqlite:" + path
}

// engines are the databases that every test runs on.
var engines = []struct {
	name  string
	fresh func(t testing.TB) string
}{
	{"sqlite", freshSQLite},
	{"postgres", func(t testing.TB) string { return postgres.Fresh(t) }},
}

func TestConformance(t *testing.T) {
	if n := storetest.Count(); n < 80 {
		t.Errorf("the suite has %d cases", n)
	}
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) string { return e.fresh(t) })
		})
	}
	t.Logf("%d cases on %d engines", storetest.Count(), len(engines))
}
