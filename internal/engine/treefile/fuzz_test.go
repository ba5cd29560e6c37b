package treefile

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/value/document"
)

// gunzip returns the decompressed content of a file in testdata.
func gunzip(t testing.TB, name string) []byte {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(unzipped)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// answerable computes the shares of a file and checks that they can be written and
// read back.
func answerable(t *testing.T, file *File) {
	t.Helper()
	if len(file.Tree.Elements) > 1000 {
		return
	}
	result := fairshare.Compute(&file.Tree, file.Elapsed)
	answer := AppendAnswer(nil, file, result)
	if !json.Valid(answer) || bytes.Contains(answer, []byte("null")) {
		t.Fatalf("the answer is no JSON or has a share that is no number:\n%s", answer)
	}
	read, err := ReadAnswer(answer)
	if err != nil || !read.OK || len(read.Elements) != len(file.Tree.Elements)-1 {
		t.Fatalf("the answer does not read back: %v\n%s", err, answer)
	}
}

// checkProblems checks a reader's error: every problem has a rule and a message.
func checkProblems(t *testing.T, err error) {
	t.Helper()
	var problems document.Problems
	if !errors.As(err, &problems) || len(problems) == 0 {
		t.Fatalf("the error lists no problems: %v", err)
	}
	for _, p := range problems {
		if p.Rule == "" || p.Message == "" {
			t.Errorf("a problem without a rule or a message: %#v", p)
		}
	}
}

func FuzzReadVector(f *testing.F) {
	for line := range bytes.Lines(gunzip(f, "cases.jsonl.gz")) {
		var pair struct{ Input json.RawMessage }
		if err := json.Unmarshal(line, &pair); err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(pair.Input))
	}
	f.Add([]byte(`{"total_resources":{"cpu":1e300,"memory":9223372036854775807},"elements":[{"id":"a","type":"pool","parent":"a"}]}`))
	f.Add([]byte(`{"elements":null,"total_resources":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := ReadVector(data)
		if err != nil {
			checkProblems(t, err)
			return
		}
		answerable(t, file)
	})
}

func FuzzReadReadable(f *testing.F) {
	examples, err := filepath.Glob(filepath.Join("..", "..", "..", "examples", "*.yaml"))
	if err != nil || len(examples) == 0 {
		f.Fatalf("no examples: %v", err)
	}
	for _, name := range examples {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("cluster: {total: {cpu: 1}}\npools: {a: {}}\noperations: {x: {pool: a, demand: {cpu: 1}, active: 1h-}}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, _, err := Read("fuzz.yaml", data)
		if err != nil {
			checkProblems(t, err)
			return
		}
		answerable(t, file)
	})
}

func FuzzParseWindow(f *testing.F) {
	for _, text := range []string{"12h-24h every 24h", "1d-", "0s-1ns every 1ns", "5m-4m", "-", "1h-2h every ", "2562047h-"} {
		f.Add(text, int64(1e12))
	}
	f.Fuzz(func(t *testing.T, text string, now int64) {
		w, err := ParseWindow(text)
		if err != nil || now < 0 {
			return
		}
		at := time.Duration(now)
		next := w.next(at)
		if next <= at {
			t.Fatalf("%q: after %v comes %v", text, at, next)
		}
		if next != Forever && w.contains(at) != w.contains(next-1) {
			t.Errorf("%q changes between %v and %v", text, at, next)
		}
	})
}
