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

// patience is how long anything may take that has to happen. The machine may be busy.
const patience = 2 * time.Minute

// takesLong leaves a test to make faults when tests are to be short.
func takesLong(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes minutes: make faults runs it")
	}
}

// programs are what the tests run; they are built once.
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

// build makes the programs.
func build() error {
	programs.once.Do(func() {
		if programs.directory, programs.err = os.MkdirTemp("", "weir-cluster-"); programs.err != nil {
			return
		}
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

// needMachine skips a test that this machine cannot run, and has the programs built.
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

// probe says why there are no control groups, if there are none. Once for all tests: those that run at the same time
// would find each other's group.
var probe = sync.OnceValue(func() error {
	driver, err := cgroup.Detect(fmt.Sprintf("weir-probe-%d", os.Getpid()))
	if err != nil {
		return err
	}
	return driver.Close()
})

// loopback is an address of this machine that no other test has. A port on it is still there when it is taken again:
// what listens or calls on 127.0.0.1 does not take it meanwhile.
func loopback() string {
	pid := os.Getpid()
	return fmt.Sprintf("127.%d.%d.%d", 64+pid>>8&63, pid&255, 1+groups.Add(1)%250)
}

// reference is a call of the reference program, in a shell's words.
func reference(steps ...string) string {
	words := []string{programs.reference}
	for _, step := range steps {
		words = append(words, "'"+step+"'")
	}
	return strings.Join(words, " ")
}

// faultCount is how often each fault is made.
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

// newRandom returns numbers that can be drawn again, and says how.
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

// await waits until something holds.
func await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	if !expected.Soon(holds) {
		t.Fatalf("it never happened: %s", what)
	}
}

// pass lets time pass, for things that must not happen meanwhile.
func pass(d time.Duration) { <-time.After(d) }

var groups atomic.Int32

// newGroup names a control group that no other test has.
func newGroup() string { return fmt.Sprintf("weir-cluster-%d-%d", os.Getpid(), groups.Add(1)) }

// readLines are the lines of a file that jobs append to; none if it is not there.
func readLines(t testing.TB, name string) []string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
}
