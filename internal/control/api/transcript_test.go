package api

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// An exchange is one request and its answer in a transcript, a file that is played on its own
// server. testdata/transcripts/README.md explains the keys.
type exchange struct {
	Does string `yaml:"does"`

	// The parts of a request, or a command as YTsaurus's client sends it.
	Method     string            `yaml:"method"`
	Path       string            `yaml:"path"`
	Headers    map[string]string `yaml:"headers"`
	Body       string            `yaml:"body"`
	Base64     string            `yaml:"base64"` // a body that is not text
	Pack       string            `yaml:"pack"`   // zlib or gzip
	Command    string            `yaml:"command"`
	Parameters string            `yaml:"parameters"`
	Input      string            `yaml:"input"`
	As         string            `yaml:"as"` // the user to act as

	Status   int               `yaml:"status"`
	Answer   *string           `yaml:"answer"`
	Contains []string          `yaml:"contains"`
	Lacks    []string          `yaml:"lacks"`
	Code     int               `yaml:"code"`
	Words    []string          `yaml:"words"`
	Sends    map[string]string `yaml:"sends"` // headers of the answer, as regular expressions
	Save     map[string]string `yaml:"save"`  // names for groups of regular expressions
}

func TestTranscripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/transcripts/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			decoder := yaml.NewDecoder(bytes.NewReader(data))
			decoder.KnownFields(true)
			var list []exchange
			if err := decoder.Decode(&list); err != nil {
				t.Fatal(err)
			}
			c := newCluster(t)
			saved := map[string]string{}
			for i, x := range list {
				name := fmt.Sprintf("%02d %s", i+1, x.Does)
				if !t.Run(name, func(t *testing.T) {
					c.t = t
					x.run(c, saved)
				}) {
					t.Logf("%s: exchange %d failed; the rest may follow from it", file, i+1)
				}
			}
		})
	}
}

func (x *exchange) run(c *cluster, saved map[string]string) {
	t := c.t
	fill := func(text string) string {
		for name, value := range saved {
			text = strings.ReplaceAll(text, "$"+name, value)
		}
		return text
	}
	header := http.Header{}
	method, path, body := x.Method, fill(x.Path), []byte(fill(x.Body))
	if x.Command != "" {
		method, path, body = http.MethodPut, "/api/v4/"+x.Command, []byte(fill(x.Input))
		header.Set("X-YT-Header-Format", "<format=text>yson")
		header.Set("X-YT-Parameters", strings.ReplaceAll(fill(x.Parameters), "\n", " "))
		header.Set("Accept", "application/x-yt-yson-text")
	}
	if method == "" {
		method = http.MethodGet
	}
	if x.As != "" {
		header.Set("X-YT-User-Name", x.As)
	}
	for name, value := range x.Headers {
		header.Set(name, fill(value))
	}
	if x.Base64 != "" {
		var err error
		if body, err = base64.StdEncoding.DecodeString(x.Base64); err != nil {
			t.Fatal(err)
		}
	}
	a := c.send(method, path, header, pack(x.Pack, body))
	x.check(t, a, fill)
	for name, expression := range x.Save {
		found := regexp.MustCompile(expression).FindStringSubmatch(a.body)
		if len(found) < 2 {
			t.Fatalf("%s is not in %s", expression, a.body)
		}
		saved[name] = found[1]
	}
}

func pack(how string, data []byte) []byte {
	var b bytes.Buffer
	var w io.WriteCloser
	switch how {
	case "zlib":
		w = zlib.NewWriter(&b)
	case "gzip":
		w = gzip.NewWriter(&b)
	default:
		return data
	}
	_, _ = w.Write(data)
	_ = w.Close()
	return b.Bytes()
}

func (x *exchange) check(t *testing.T, a answer, fill func(string) string) {
	t.Helper()
	status := x.Status
	if status == 0 {
		status = http.StatusOK
		if x.Code != 0 {
			status = http.StatusBadRequest
		}
	}
	if a.status != status {
		t.Fatalf("status %d, want %d: %s", a.status, status, a.body)
	}
	if x.Code != 0 {
		e := parseError(t, a)
		if !e.HasCode(x.Code) {
			t.Errorf("code %d is not in %s", x.Code, a.body)
		}
		for _, word := range x.Words {
			if !strings.Contains(e.Error(), fill(word)) {
				t.Errorf("%q is not in %q", word, e.Error())
			}
		}
	}
	if x.Answer != nil && a.body != fill(*x.Answer) {
		t.Errorf(" got %s\nwant %s", a.body, fill(*x.Answer))
	}
	for _, part := range x.Contains {
		if !strings.Contains(a.body, fill(part)) {
			t.Errorf("%s is not in %s", part, a.body)
		}
	}
	for _, part := range x.Lacks {
		if strings.Contains(a.body, fill(part)) {
			t.Errorf("%s is in %s", part, a.body)
		}
	}
	for name, expression := range x.Sends {
		if value := a.header.Get(name); !regexp.MustCompile("^(?:" + expression + ")$").MatchString(value) {
			t.Errorf("header %s is %q, want %s", name, value, expression)
		}
	}
}
