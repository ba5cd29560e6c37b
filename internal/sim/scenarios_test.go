package sim

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/sim/scenario"
)

// refusedMark starts the comment of a scenario that must be refused; a part of the
// message follows it.
const refusedMark = "# refused: "

// TestScenarios runs every file of testdata/scenarios and verifies the invariants
// after every input. The name of a file is the sentence that it shows.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "scenarios", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no scenarios: %v", err)
	}
	for _, file := range files {
		sentence := strings.ReplaceAll(strings.TrimSuffix(filepath.Base(file), ".yaml"), "-", " ")
		t.Run(sentence, func(t *testing.T) { runFile(t, file) })
	}
}

func runFile(t *testing.T, file string) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s, warnings, err := scenario.Read(file, data, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range warnings {
		t.Logf("%v", w)
	}
	// The core watches for silent nodes, so no heartbeat may be skipped.
	result, err := newRun(s, core.New(core.DefaultSettings()), Options{Verify: true, Promises: true}).complete(context.Background())
	_, refusal, isRefused := bytes.Cut(data, []byte(refusedMark))
	if isRefused {
		want, _, _ := strings.Cut(string(refusal), "\n")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the run ended with %v, not with %q", file, err, want)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Expectations) == 0 {
		t.Errorf("%s expects nothing", file)
	}
	for _, failed := range result.Failed() {
		t.Errorf("%v", failed)
	}
	for _, p := range result.Promises {
		checkPromise(t, &p)
	}
}
