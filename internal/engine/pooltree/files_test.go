package pooltree

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/notation"
	"github.com/weirhq/weir/test/expected"
)

// Every testdata/*.good.yaml is a correct tree, and every testdata/*.bad.yaml has
// exactly the problems in the .txt of the same name.
func TestFiles(t *testing.T) {
	good, _ := filepath.Glob("testdata/*.good.yaml")
	bad, _ := filepath.Glob("testdata/*.bad.yaml")
	if len(good) < 5 || len(bad) < 25 {
		t.Fatalf("%d good and %d bad files", len(good), len(bad))
	}
	for _, file := range good {
		t.Run(filepath.Base(file), func(t *testing.T) {
			tree, _, err := parseFile(filepath.Base(file), []byte(expected.Read(t, file)), Options{})
			if err != nil {
				t.Fatal(err)
			}
			checkRoundTrip(t, tree)
		})
	}
	for _, file := range bad {
		t.Run(filepath.Base(file), func(t *testing.T) {
			tree, _, err := parseFile(filepath.Base(file), []byte(expected.Read(t, file)), Options{})
			if err == nil || tree != nil {
				t.Fatal("the file was accepted")
			}
			expected.File(t, strings.TrimSuffix(file, ".yaml")+".txt", err.Error()+"\n")
		})
	}
}

// checkRoundTrip writes a tree in both styles and both notations and reads each
// back.
func checkRoundTrip(t interface {
	Helper()
	Fatalf(string, ...any)
}, tree *Tree) {
	t.Helper()
	for _, style := range []document.Style{document.ForPeople, document.ForPrograms} {
		v := tree.Document(style)
		yaml, err := notation.YAML(v)
		if err != nil {
			t.Fatalf("YAML: %v", err)
		}
		json, err := v.JSON("  ")
		if err != nil {
			t.Fatalf("JSON: %v", err)
		}
		for name, text := range map[string][]byte{"t.yaml": yaml, "t.json": json} {
			back, _, err := parseFile(name, text, Options{Limits: tree.limits, KeepUnknown: true})
			if err != nil {
				t.Fatalf("%s does not read back: %v\n%s", name, err, text)
			}
			if changes := Diff(tree, back); !changes.IsEmpty() {
				t.Fatalf("%s reads back with changes:\n%v\n%s", name, changes, text)
			}
		}
	}
}

// parseFile reads a tree from the text of a file.
func parseFile(file string, data []byte, options Options) (*Tree, document.Problems, error) {
	v, err := notation.Parse(file, data)
	if err != nil {
		return nil, nil, err
	}
	options.File = file
	return FromValue(v, options)
}
