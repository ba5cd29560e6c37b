package example

import (
	"os"
	"path/filepath"
	"testing"
)

// originals is the directory of the examples for users.
const originals = "../../../examples/simulate"

func TestTheExamplesInsideAreTheExamplesOutside(t *testing.T) {
	outside, err := filepath.Glob(filepath.Join(originals, "*.yaml"))
	if err != nil || len(outside) == 0 {
		t.Fatalf("no examples in %s: %v", originals, err)
	}
	inside := All()
	if len(inside) != len(outside) {
		t.Errorf("%d examples inside, %d outside", len(inside), len(outside))
	}
	for _, e := range inside {
		text, err := os.ReadFile(filepath.Join(originals, e.Name+".yaml"))
		if err != nil || string(text) != e.Text {
			t.Errorf("%s.yaml differs from the one in %s: copy it here (%v)", e.Name, originals, err)
		}
	}
}
