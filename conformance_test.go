package weir_test

import (
	"regexp"
	"strings"
	"testing"
)

const (
	conformancePage = "docs/conformance.md"
	readingsPage    = "docs/adr/0001-readings-of-the-user-documents.md"
)

var rowID = regexp.MustCompile(`^[A-Z]{1,2}-\d+$`)

// TestConformanceTableIsHonest checks docs/conformance.md against the code: every row has a unique
// id, a room that exists, and one of four states; a rule that is not planned names tests that exist,
// a partial one states what is missing, and one that differs quotes a sentence and has its reason in
// ADR 0001.
func TestConformanceTableIsHonest(t *testing.T) {
	source := readSource(t)
	rooms := readRooms(t)
	tests := declaredTests(source)
	seen := map[string]bool{}
	states := map[string]int{}
	for _, row := range markdownTables(source.texts[conformancePage], "") {
		if len(row.cells) != 5 {
			t.Errorf("%s:%d: %d cells, want id, rule, room, test, state", conformancePage, row.line, len(row.cells))
			continue
		}
		id, state := row.cells[0], row.cells[4]
		if !rowID.MatchString(id) || seen[id] {
			t.Errorf("%s:%d: id %q is malformed or stands twice", conformancePage, row.line, id)
		}
		seen[id] = true
		here := 0 // rooms of the row that exist
		for _, name := range backquoted(row.cells[2]) {
			if _, ok := roomDir(rooms, name); ok {
				here++
			} else if state != "planned" {
				t.Errorf("%s:%d: %s: no room %s", conformancePage, row.line, id, name)
			}
		}
		states[state]++
		switch state {
		case "planned":
			continue
		case "done", "partial":
		case "differs":
			if !strings.Contains(row.cells[1], `"`) || !regexp.MustCompile(`\b`+id+`\b`).MatchString(source.texts[readingsPage]) {
				t.Errorf("%s:%d: %s differs, but does not quote the sentence, or %s has no reason for it", conformancePage, row.line, id, readingsPage)
			}
		default:
			t.Errorf("%s:%d: %s: state %q is none of done, partial, differs, planned", conformancePage, row.line, id, state)
			continue
		}
		if says := strings.Contains(row.cells[1], "missing"); says != (state == "partial") {
			t.Errorf("%s:%d: %s is %s; a partial row, and no other, says what is missing", conformancePage, row.line, id, state)
		}
		names := backquoted(row.cells[3])
		if len(names) == 0 || here == 0 {
			t.Errorf("%s:%d: %s is %s without a room that is here and a test", conformancePage, row.line, id, state)
		}
		for _, name := range names {
			if why := missingTest(tests, name); why != "" {
				t.Errorf("%s:%d: %s is %s, but there is %s", conformancePage, row.line, id, state, why)
			}
		}
	}
	t.Logf("%d rows: %d done, %d partial, %d differ, %d planned", len(seen), states["done"], states["partial"], states["differs"], states["planned"])
	if len(seen) < 200 {
		t.Errorf("%s has %d rows: the five documents hold more", conformancePage, len(seen))
	}
}
