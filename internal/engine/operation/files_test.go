package operation

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/value/notation"
	"github.com/weirhq/weir/test/expected"
)

func goodFiles(t testing.TB) []string {
	t.Helper()
	good, err := filepath.Glob("testdata/*.good.yaml")
	if err != nil || len(good) < 3 {
		t.Fatalf("%d good files, %v", len(good), err)
	}
	return good
}

// Every testdata/*.bad.yaml has exactly the problems in the .txt of the same name.
func TestBadSpecificationsGetClearErrors(t *testing.T) {
	bad, err := filepath.Glob("testdata/*.bad.yaml")
	if err != nil || len(bad) < 10 {
		t.Fatalf("%d bad files, %v", len(bad), err)
	}
	for _, file := range bad {
		t.Run(filepath.Base(file), func(t *testing.T) {
			_, err := parseSpec([]byte(expected.Read(t, file)), ReadOptions{File: filepath.Base(file)})
			if err == nil {
				t.Fatal("the file was accepted")
			}
			expected.File(t, strings.TrimSuffix(file, ".yaml")+".txt", err.Error()+"\n")
		})
	}
}

// parseSpec reads a specification from text.
func parseSpec(data []byte, options ReadOptions) (*Specification, error) {
	v, err := notation.Parse(options.File, data)
	if err != nil {
		return nil, err
	}
	return Read(v, options)
}
