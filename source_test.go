package weir_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"testing"
)

// modulePath is the module's import path.
const modulePath = "github.com/weirhq/weir"

// goFile is one parsed source file of the module.
type goFile struct {
	path      string // relative to the module's root, with slashes
	lines     int
	test      bool
	generated bool
	ast       *ast.File
}

// dir returns the directory of the file's package, "." for the root.
func (f goFile) dir() string { return path.Dir(f.path) }

// sourceTree is every file of the module, read once for all tests.
type sourceTree struct {
	fset  *token.FileSet
	files []goFile
	texts map[string]string // every text file that people write, by path
}

func (s *sourceTree) line(pos token.Pos) int { return s.fset.Position(pos).Line }

// readSource returns the module's source tree. The test runs in the module's root.
func readSource(t *testing.T) *sourceTree {
	t.Helper()
	tree, err := sourceOnce()
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

var sourceOnce = sync.OnceValues(func() (*sourceTree, error) {
	tree := &sourceTree{fset: token.NewFileSet(), texts: map[string]string{}}
	other := "" // the last directory that is a module of its own
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && name != "." {
			return nil // a temporary file that another process has removed
		}
		if err != nil {
			return err
		}
		if entry.IsDir() {
			switch entry.Name() {
			case ".git", "bin", "node_modules", "testdata":
				return fs.SkipDir
			}
			if _, err := os.Stat(path.Join(name, "go.mod")); err == nil && name != "." {
				other = name + "/"
			}
			return nil
		}
		if !isText(name) {
			return nil
		}
		text, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		tree.texts[name] = string(text)
		if !strings.HasSuffix(name, ".go") || other != "" && strings.HasPrefix(name, other) {
			return nil
		}
		file, err := parser.ParseFile(tree.fset, name, text, parser.ParseComments)
		if err != nil {
			return err
		}
		tree.files = append(tree.files, goFile{
			path:      name,
			lines:     strings.Count(string(text), "\n"),
			test:      strings.HasSuffix(name, "_test.go"),
			generated: ast.IsGenerated(file),
			ast:       file,
		})
		return nil
	})
	return tree, err
})

// isText reports whether people write this file by hand.
func isText(name string) bool {
	switch path.Ext(name) {
	case ".go", ".md", ".yaml", ".yml", ".sh", ".conf":
		return true
	}
	return name == "Makefile" || name == ".ci/run" || name == "go.mod" || name == ".gitignore"
}

// markdownRow is one row of a table: its cells without the surrounding spaces.
type markdownRow struct {
	line  int // in the file, from 1
	cells []string
}

// markdownTables returns the rows of all tables under the heading, up to the next heading of the
// same or a higher level, without header rows and rulers. An empty heading means the whole text.
func markdownTables(text, heading string) []markdownRow {
	var rows []markdownRow
	level, inside, inTable, fenced := 0, heading == "", false, false
	for i, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		if fenced {
			continue
		}
		if strings.HasPrefix(line, "#") && heading != "" {
			depth := len(line) - len(strings.TrimLeft(line, "#"))
			switch {
			case line == heading:
				inside, level = true, depth
			case inside && depth <= level:
				inside = false
			}
		}
		if !inside || !strings.HasPrefix(line, "|") {
			inTable = false
			continue
		}
		cells := splitRow(line)
		ruler := strings.Trim(strings.Join(cells, ""), "-: ") == ""
		if inTable && !ruler {
			rows = append(rows, markdownRow{line: i + 1, cells: cells})
		}
		inTable = true
	}
	return rows
}

// splitRow splits "| a | b |" into cells; "\|" is a bar inside a cell.
func splitRow(line string) []string {
	const bar = "\x00"
	line = strings.ReplaceAll(strings.TrimSpace(line), `\|`, bar)
	cells := strings.Split(strings.Trim(line, "|"), "|")
	for i, cell := range cells {
		cells[i] = strings.TrimSpace(strings.ReplaceAll(cell, bar, "|"))
	}
	return cells
}

// backquoted returns the words of a cell that are in back quotes.
func backquoted(cell string) []string {
	var words []string
	for i, part := range strings.Split(cell, "`") {
		if i%2 == 1 {
			words = append(words, part)
		}
	}
	return words
}
