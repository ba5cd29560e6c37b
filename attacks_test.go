package weir_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestAttacksHaveTests holds docs/isolation.md to the code: every attack of the specification has tests that are there.
func TestAttacksHaveTests(t *testing.T) {
	const page, all = "docs/isolation.md", 25
	source := readSource(t)
	tests := declaredTests(source)
	var seen []int
	for _, row := range markdownTables(source.texts[page], "") {
		number, err := strconv.Atoi(strings.TrimSpace(row.cells[0]))
		if err != nil {
			continue // another table
		}
		seen = append(seen, number)
		names := backquoted(row.cells[len(row.cells)-1])
		if len(names) == 0 {
			t.Errorf("%s:%d: attack %d has no test", page, row.line, number)
		}
		for _, name := range names {
			if why := missingTest(tests, name); why != "" {
				t.Errorf("%s:%d: there is %s", page, row.line, why)
			}
		}
	}
	for number := 1; number <= all; number++ {
		if count := len(slices.DeleteFunc(slices.Clone(seen), func(n int) bool { return n != number })); count != 1 {
			t.Errorf("%s has attack %d %d times", page, number, count)
		}
	}
}
