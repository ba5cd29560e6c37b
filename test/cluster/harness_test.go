package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/node/cgroup"
	"github.com/weirhq/weir/test/expected"
)

const (
	kib = int64(1) << 10
	mib = int64(1) << 20
	gib = int64(1) << 30
)

// patience is how long a test waits for anything that must happen. The machine may be busy.
const patience = 2 * time.Minute

// takesLong skips a test when tests are to be short; make faults runs it.
func takesLong(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes minutes: make faults runs it")
	}
}

// programs are the programs that the tests run; they are built once.
var programs struct {
	once            sync.Once
	directory       string
	weir, reference string
	err             error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if programs.directory != "" {
		_ = os.RemoveAll(programs.directory)
	}
	os.Exit(code)
}

// build builds the programs.
func build() error {
	programs.once.Do(func() {
		if programs.directory, programs.err = os.MkdirTemp("", "weir-cluster-"); programs.err != nil {
			return
		}
		programs.err = os.Chmod(programs.directory, 0o755) // jobs run programs in it
		programs.weir = filepath.Join(programs.directory, "weir")
		programs.reference = filepath.Join(programs.directory, "reference")
		sources := map[string]string{programs.weir: "../../cmd/weir", programs.reference: "../../internal/node/cgroup/testdata/reference"}
		if given := os.Getenv("WEIR_BINARY"); given != "" {
			delete(sources, programs.weir)
			programs.weir, programs.err = filepath.Abs(given)
		}
		for output, source := range sources {
			command := exec.Command("go", "build", "-o", output, source)
			command.Stderr = os.Stderr
			programs.err = errors.Join(programs.err, command.Run())
		}
	})
	return programs.err
}

// needMachine skips a test that this machine cannot run, and builds the programs.
func needMachine(t testing.TB) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("NOT ROOT: clusters with real jobs are not tested")
	}
	if err := probe(); err != nil {
		t.Skipf("NO CONTROL GROUPS HERE: clusters with real jobs are not tested: %v", err)
	}
	if err := build(); err != nil {
		t.Fatal(err)
	}
}

// probe returns why control groups are unavailable, or nil. It runs once for all tests, because
// concurrent probes would find each other's groups.
var probe = sync.OnceValue(func() error {
	driver, err := cgroup.Detect(fmt.Sprintf("weir-probe-%d", os.Getpid()))
	if err != nil {
		return err
	}
	return driver.Close()
})

// loopback returns an address of this machine that no other test uses. A port on it stays free after a
// restart: processes that listen or connect on 127.0.0.1 do not occupy it.
func loopback() string {
	pid := os.Getpid()
	return fmt.Sprintf("127.%d.%d.%d", 64+pid>>8&63, pid&255, 1+groups.Add(1)%250)
}

// reference returns a shell command that calls the reference program.
func reference(steps ...string) string {
	words := []string{programs.reference}
	for _, step := range steps {
		words = append(words, "'"+step+"'")
	}
	return strings.Join(words, " ")
}

// faultCount returns how often each fault is injected.
func faultCount(t testing.TB) int {
	text := os.Getenv("WEIR_FAULTS")
	if text == "" {
		return 2
	}
	count, err := strconv.Atoi(text)
	if err != nil || count < 1 {
		t.Fatalf("WEIR_FAULTS=%s: want a number above zero", text)
	}
	return count
}

// newRandom returns a random source and logs its seed, so that a run can be repeated.
func newRandom(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("WEIR_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("WEIR_SEED: %v", err)
		}
	}
	t.Logf("WEIR_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// await waits until a condition holds.
func await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	if !expected.Soon(holds) {
		t.Fatalf("it never happened: %s", what)
	}
}

// pass lets time pass, to check that something does not happen.
func pass(d time.Duration) { <-time.After(d) }

var groups atomic.Int32

// newGroup returns the name of a control group that no other test uses.
func newGroup() string { return fmt.Sprintf("weir-cluster-%d-%d", os.Getpid(), groups.Add(1)) }

// readLines returns the lines of a file that jobs append to; none if the file does not exist.
func readLines(t testing.TB, name string) []string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
}
