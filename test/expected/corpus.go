package expected

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Corpus gives a fuzz target the inputs that earlier runs found, so that plain tests try them too. They are in
// testdata/corpus, a file for each target and a line for each input: its arguments as Go writes them in its own corpus,
// with tabs between them. `make fuzz KEEP=1` adds what it finds.
func Corpus(f *testing.F) {
	f.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "corpus", f.Name()+".txt"))
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		arguments, err := parseInput(strings.TrimSuffix(line, "\n"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(arguments...)
	}
}

// parseInput reads a line of a corpus.
func parseInput(line string) (arguments []any, _ error) {
	for field := range strings.SplitSeq(line, "\t") {
		kind, quoted, _ := strings.Cut(strings.TrimSuffix(field, ")"), "(")
		text, err := strconv.Unquote(quoted)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", field, err)
		case kind == "[]byte":
			arguments = append(arguments, []byte(text))
		case kind == "string":
			arguments = append(arguments, text)
		default:
			return nil, fmt.Errorf("%s is neither string nor []byte", field)
		}
	}
	return arguments, nil
}
