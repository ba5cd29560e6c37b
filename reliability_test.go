package weir_test

import "testing"

// TestPromisesOfReliabilityHaveTests checks docs/reliability.md against the code: every promise
// names tests that exist.
func TestPromisesOfReliabilityHaveTests(t *testing.T) {
	checkPromises(t, "docs/reliability.md", 20)
}

// checkPromises checks that every row of every table on a page has a promise and names tests that
// are there, and that the page has at least so many rows.
func checkPromises(t *testing.T, page string, atLeast int) {
	t.Helper()
	source := readSource(t)
	tests := declaredTests(source)
	promises := 0
	for _, row := range markdownTables(source.texts[page], "") {
		promises++
		names := backquoted(row.cells[len(row.cells)-1])
		if len(row.cells) != 2 || len(names) == 0 {
			t.Errorf("%s:%d: want a promise and its tests", page, row.line)
		}
		for _, name := range names {
			if why := missingTest(tests, name); why != "" {
				t.Errorf("%s:%d: there is %s", page, row.line, why)
			}
		}
	}
	if promises < atLeast {
		t.Errorf("%s has %d promises", page, promises)
	}
}
