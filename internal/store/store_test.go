package store_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirhq/weir/internal/store/storetest"
)

// postgres is the server that all tests of this package share.
var postgres = storetest.NewPostgres()

func TestMain(m *testing.M) {
	if url := os.Getenv(crashURL); url != "" {
		commitUntilKilled(url)
		return
	}
	code := m.Run()
	if err := postgres.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// freshSQLite is the URL of a new file.
func freshSQLite(t testing.TB) string {
	return "sqlite:" + filepath.Join(t.TempDir(), "weir file?.db")
}

// engines are what every test runs on.
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

var _ = bytes.NewReader
