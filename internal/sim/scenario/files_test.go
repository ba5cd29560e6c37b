package scenario

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhq/weir/test/expected"
)

// fromTestdata opens a file that a scenario names.
func fromTestdata(name string) (io.ReadCloser, error) {
	file, err := os.Open(filepath.Join("testdata", filepath.Base(name)))
	if err != nil {
		return nil, fmt.Errorf("file %q is not there", name)
	}
	return file, nil
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
			s, _, err := Read(filepath.Base(file), []byte(expected.Read(t, file)), fromTestdata)
			if err != nil || s == nil {
				t.Fatal(err)
			}
		})
	}
	for _, file := range bad {
		t.Run(filepath.Base(file), func(t *testing.T) {
			s, _, err := Read(filepath.Base(file), []byte(expected.Read(t, file)), fromTestdata)
			if err == nil || s != nil {
				t.Fatal("the file was accepted")
			}
			expected.File(t, strings.TrimSuffix(file, ".yaml")+".txt", err.Error()+"\n")
		})
	}
}
