//go:build linux

// Package faults starts the real weir program under load and injects faults: it kills and stops
// leaders, takes away their database and disk, and overloads them. Nodes are fakes in the test's
// process that speak the real protocol; the tests do everything else over HTTP, as users would.
//
// What was acknowledged must exist afterwards, and nothing may have happened twice; check_test.go
// states the exact rules.
//
// The campaign in campaign_test.go injects all kinds of faults. Its machines are network namespaces
// and its disks are file systems in files, so it needs root.
//
// The variables WEIR_KILLS and WEIR_NODES make the tests longer: a full run has 200 and 500. A full run
// uses the timeouts of production.
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
	// program is the weir program that tests start.
	program string
	// workshop is where programs are built.
	workshop string
	// postgres is the server that all tests of this package share.
	postgres = storetest.NewPostgres()
)

func TestMain(m *testing.M) {
	enterOwnNetwork()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	directory, err := os.MkdirTemp("", "weir-faults")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(directory)
	workshop = directory
	if program = os.Getenv("WEIR_BINARY"); program == "" {
		program = filepath.Join(directory, "weir")
		build := exec.Command("go", "build", "-o", program, "../../cmd/weir")
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "weir cannot be built:", err)
			return 1
		}
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

// full reports whether this is the long run.
func full() bool { return kills() >= 100 }

// patience is how long a test waits for anything that must happen. The machine may be busy.
const patience = 2 * time.Minute
