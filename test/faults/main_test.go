//go:build linux

// Package faults starts the real weir program, puts it under load and does it
// harm: it kills and stops leaders, takes their database and their disk away, and
// gives them too much to do. Nodes are fakes in the test's process that speak the
// real protocol; everything else is asked and changed over HTTP, as users would.
//
// What was acknowledged must be there afterwards, and nothing may have happened
// twice; check_test.go says exactly what.
//
// The variables WEIR_KILLS and WEIR_NODES make the tests longer: a full run has 200
// and 500. In a full run times are those of production.
package faults

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/weirhq/weir/test/storetest"
)

var (
	// program is the weir that tests start.
	program string
	// postgres is the server that all tests of this package share.
	postgres = storetest.NewPostgres()
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	directory, err := os.MkdirTemp("", "weir-faults")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(directory)
	program = filepath.Join(directory, "weir")
	build := exec.Command("go", "build", "-o", program, "../../cmd/weir")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "weir cannot be built:", err)
		return 1
	}
	code := m.Run()
	if err := postgres.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}

// number reads a variable of the environment.
func number(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n > 0 {
		return n
	}
	return otherwise
}

func kills() int { return number("WEIR_KILLS", 6) }
func nodes() int { return number("WEIR_NODES", 50) }

// full says that this is the long run.
func full() bool { return kills() >= 100 }

// patience is how long a test waits for anything that must happen. The machine may
// be busy with other things.
const patience = 2 * time.Minute
