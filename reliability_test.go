package weir_test

import "testing"

const reliabilityPage = "docs/reliability.md"

// TestPromisesOfReliabilityHaveTests checks docs/reliability.md against the code: every promise
// names tests that exist.
func TestPromisesOfReliabilityHaveTests(t *testing.T) {
	source := readSource(t)
	tests := declaredTests(source)
	promises := 0
	for _, row := range markdownTables(source.texts[reliabilityPage], "") {
		promises++
		names := backquoted(row.cells[len(row.cells)-1])
		if len(row.cells) != 2 || len(names) == 0 {
			t.Errorf("%s:%d: want a promise and its tests", reliabilityPage, row.line)
		}
		for _, name := range names {
			if why := missingTest(tests, name); why != "" {
				t.Errorf("%s:%d: there is %s", reliabilityPage, row.line, why)
			}
		}
	}
	if promises < 20 {
		t.Errorf("%s has %d promises", reliabilityPage, promises)
	}
}
