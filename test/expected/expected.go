// Package expected compares what code produces with files that people read: expected messages, reports,
// and the pages of docs/ that are generated from tables. A test that imports it has the flag -update,
// which rewrites the files. It also waits for expected events.
//
// It is for tests. It imports rooms of the floor value only.
package expected

import (
	"flag"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/notation"
)

var update = flag.Bool("update", false, "rewrite the files that the tests expect")

// Read returns the text of a file.
func Read(t testing.TB, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// File fails the test unless the file holds the text.
func File(t testing.TB, file, text string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(Read(t, file), text); diff != "" {
		t.Errorf("%s is out of date (go test -update rewrites it; - is what it holds):\n%s", file, diff)
	}
}

// marker starts the line of a page below which everything is generated from tables.
const marker = "<!-- Below this line "

// Page fails the test unless the generated part of a page, below the marker, is the text.
func Page(t testing.TB, file, text string) {
	t.Helper()
	page := Read(t, file)
	head, _, ok := strings.Cut(page, marker)
	line, _, closed := strings.Cut(page[len(head):], "\n")
	if !ok || !closed {
		t.Fatalf("%s has no line that begins with %q", file, marker)
	}
	File(t, file, head+line+"\n"+text)
}

// Example returns the first YAML block of a page after a text.
func Example(t testing.TB, file, below string) string {
	t.Helper()
	_, rest, found := strings.Cut(Read(t, file), below)
	_, rest, begins := strings.Cut(rest, "```yaml\n")
	example, _, ends := strings.Cut(rest, "```")
	if !found || !begins || !ends {
		t.Fatalf("%s shows no example below %q", file, below)
	}
	return example
}

// documents are what Document has parsed: histories of a property have the same ones again and again.
var documents = struct {
	sync.Mutex
	known map[string]document.Value
}{known: map[string]document.Value{}}

// mostDocuments is the number of documents that are remembered.
const mostDocuments = 4096

// Document parses YAML or JSON in a test. Its parameter is what testing and rapid have in common. Nobody may
// change the value: others may have it too.
func Document(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, text string) document.Value {
	t.Helper()
	documents.Lock()
	defer documents.Unlock()
	if v, known := documents.known[text]; known {
		return v
	}
	v, err := notation.ParseYAML("", []byte(text))
	if err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	if len(documents.known) == mostDocuments {
		clear(documents.known)
	}
	documents.known[text] = v
	return v
}
