package scenario

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite expected messages, the reference and the schema")

func readFile(t testing.TB, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// fromTestdata opens files that scenarios name.
func fromTestdata(name string) (io.ReadCloser, error) {
	file, err := os.Open(filepath.Join("testdata", filepath.Base(name)))
	if err != nil {
		return nil, fmt.Errorf("file %q is not there", name)
	}
	return file, nil
}

func checkExpected(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(readFile(t, file)), got); diff != "" {
		t.Errorf("%s is out of date (go test -update rewrites it):\n%s", file, diff)
	}
}

// Every testdata/*.good.yaml is a correct scenario, and every testdata/*.bad.yaml
// has exactly the problems in the .txt beside it.
func TestFiles(t *testing.T) {
	good, _ := filepath.Glob("testdata/*.good.yaml")
	bad, _ := filepath.Glob("testdata/*.bad.yaml")
	if len(good) < 5 || len(bad) < 30 {
		t.Fatalf("%d good and %d bad files", len(good), len(bad))
	}
	for _, file := range good {
		t.Run(filepath.Base(file), func(t *testing.T) {
			s, _, err := Read(filepath.Base(file), readFile(t, file), fromTestdata)
			if err != nil || s == nil {
				t.Fatal(err)
			}
		})
	}
	for _, file := range bad {
		t.Run(filepath.Base(file), func(t *testing.T) {
			s, _, err := Read(filepath.Base(file), readFile(t, file), fromTestdata)
			if err == nil || s != nil {
				t.Fatal("the file was accepted")
			}
			checkExpected(t, strings.TrimSuffix(file, ".yaml")+".txt", err.Error()+"\n")
		})
	}
}
