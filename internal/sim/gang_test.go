package sim

import (
	"os"
	"testing"

	"github.com/weirhq/weir/internal/sim/scenario"
)

// TestAGangOf256RunsOn512Nodes runs a scenario that is too large to verify the state
// after every input.
func TestAGangOf256RunsOn512Nodes(t *testing.T) {
	const file = "testdata/large/a-gang-of-256-runs-on-512-nodes.yaml"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s, _, err := scenario.Read(file, data, nil)
	if err != nil {
		t.Fatal(err)
	}
	result, err := Run(t.Context(), s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, failed := range result.Failed() {
		t.Errorf("%v", failed)
	}
}
