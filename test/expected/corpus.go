package expected

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Corpus adds the inputs that earlier runs found to a fuzz target, so that plain tests try them too.
// They are in testdata/corpus, one file per target and one line per input: its arguments as in Go's own
// corpus, separated by tabs. `make fuzz KEEP=1` adds what it finds.
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

// parseInput parses a line of a corpus.
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
