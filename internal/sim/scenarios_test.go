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

// refusedMark begins the comment of a scenario that cannot be run: what follows
// is a part of the message.
const refusedMark = "# refused: "

// TestScenarios runs every file of testdata/scenarios, with its invariants
// verified after every input. A file is named after the sentence that it shows.
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
	// The core watches for silent nodes, so that every heartbeat takes place.
	result, err := newRun(s, core.New(core.DefaultSettings()), Options{Verify: true}).complete(context.Background())
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
}
