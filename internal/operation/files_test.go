package operation

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite expected messages and docs/operations.md")

func readFile(t testing.TB, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func goodFiles(t testing.TB) []string {
	t.Helper()
	good, err := filepath.Glob("testdata/*.good.yaml")
	if err != nil || len(good) < 3 {
		t.Fatalf("%d good files, %v", len(good), err)
	}
	return good
}

// Every testdata/*.bad.yaml has exactly the problems in the .txt beside it.
func TestBadSpecificationsGetClearErrors(t *testing.T) {
	bad, err := filepath.Glob("testdata/*.bad.yaml")
	if err != nil || len(bad) < 10 {
		t.Fatalf("%d bad files, %v", len(bad), err)
	}
	for _, file := range bad {
		t.Run(filepath.Base(file), func(t *testing.T) {
			_, err := Parse(readFile(t, file), ReadOptions{File: filepath.Base(file)})
			if err == nil {
				t.Fatal("the file was accepted")
			}
			expected := strings.TrimSuffix(file, ".yaml") + ".txt"
			got := err.Error() + "\n"
			if *update {
				if err := os.WriteFile(expected, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(readFile(t, expected)), got); diff != "" {
				t.Errorf("%s is out of date (go test -update rewrites it):\n%s", expected, diff)
			}
		})
	}
}
