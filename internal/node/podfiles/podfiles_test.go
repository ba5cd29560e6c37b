package podfiles

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/node/archive"
)

// scheduler is a pretended scheduler with contents; it fails every other request for the time being.
type scheduler struct {
	*httptest.Server
	mutex    sync.Mutex
	contents map[string][]byte
	archive  []byte
	list     archive.List
	requests int
	refuse   *Answer // uploads
	token    string
}

func newScheduler(t *testing.T) *scheduler {
	s := &scheduler{contents: map[string][]byte{}, token: TokenOf(7, []byte("proof"))}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *scheduler) add(data []byte) *Content {
	sum := sha256.Sum256(data)
	name := hex.EncodeToString(sum[:])
	s.contents[name] = data
	return &Content{SHA256: name, Size: int64(len(data))}
}

func (s *scheduler) serve(w http.ResponseWriter, r *http.Request) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.requests++
	switch {
	case r.Header.Get("Authorization") != "Bearer "+s.token:
		w.WriteHeader(http.StatusUnauthorized)
		_ = json.NewEncoder(w).Encode(Answer{Message: "another token"})
	case s.requests%4 == 1:
		w.WriteHeader(http.StatusServiceUnavailable)
	case s.requests%4 == 3:
		w.Header().Set(LeaderHeader, strings.TrimPrefix(s.URL, "http://"))
		w.WriteHeader(http.StatusMisdirectedRequest)
	case r.Method == http.MethodGet:
		data, there := s.contents[filepath.Base(r.URL.Path)]
		if !there {
			w.WriteHeader(http.StatusBadRequest)
			_ = json.NewEncoder(w).Encode(Answer{Message: "the job does not use it"})
			return
		}
		offset, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(r.Header.Get("Range"), "bytes="), "-"))
		data = data[offset:]
		w.WriteHeader(http.StatusPartialContent)
		_, _ = w.Write(data[:(len(data)+1)/2]) // the rest is cut off
	case s.refuse != nil:
		w.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(w).Encode(s.refuse)
	default:
		length, _ := strconv.Atoi(r.Header.Get(ListHeader))
		body, _ := io.ReadAll(r.Body)
		if length > 0 {
			_ = json.Unmarshal(body[:length], &s.list)
		}
		s.archive = append(s.archive, body[length:]...)
		_ = json.NewEncoder(w).Encode(Answer{Next: int64(len(s.archive))})
	}
}

func (s *scheduler) plan(t *testing.T) *Plan {
	return &Plan{URL: s.URL, Job: 7, Token: s.token, Sandbox: t.TempDir(), pause: time.Microsecond}
}

func write(t *testing.T, directory, name, text string) {
	t.Helper()
	path := filepath.Join(directory, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Files come from the mounted directory and from the scheduler, although that answers badly at times.
func TestFilesComeIntoTheSandbox(t *testing.T) {
	s := newScheduler(t)
	p := s.plan(t)
	large := bytes.Repeat([]byte("0123456789"), 100_000)
	p.Mounted = t.TempDir()
	write(t, p.Mounted, "0", "small")
	source := t.TempDir()
	write(t, source, "in/a", "text")
	var packed bytes.Buffer
	if _, err := archive.PackDirectory(source, &packed); err != nil {
		t.Fatal(err)
	}
	write(t, p.Mounted, "1", packed.String())
	p.Files = []File{
		{Path: "one", Content: s.add(packed.Bytes()), Unpack: true}, {Path: "deep/two", Mounted: "1", Unpack: true},
		{Path: "deep/small", Mounted: "0", Executable: true}, {Path: "large", Content: s.add(large), Copy: true}, {Path: "empty", Content: &Content{SHA256: hex.EncodeToString(sha256.New().Sum(nil))}},
	}
	if err := p.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		text []byte
		mode os.FileMode
	}{"deep/small": {[]byte("small"), 0o555}, "large": {large, 0o644}, "empty": {nil, 0o444}, "one/in/a": {[]byte("text"), 0o644}, "deep/two/in/a": {[]byte("text"), 0o644}} {
		text, err := os.ReadFile(filepath.Join(p.Sandbox, name))
		info, _ := os.Stat(filepath.Join(p.Sandbox, name))
		if err != nil || !bytes.Equal(text, want.text) || info.Mode().Perm() != want.mode {
			t.Errorf("%s: %d bytes, %v, %v", name, len(text), info.Mode(), err)
		}
	}
}

func TestFilesThatCannotComeSayWhy(t *testing.T) {
	s := newScheduler(t)
	for _, c := range []struct {
		change func(p *Plan)
		want   string
	}{
		{func(p *Plan) { p.Token = "wrong" }, "file large: another token"},
		{func(p *Plan) { p.Files[0].Content = &Content{SHA256: "00", Size: 3} }, "file large: the job does not use it"},
		{func(p *Plan) { p.Files[0].Path = "../large" }, "not inside the sandbox"},
		{func(p *Plan) { p.Files[0] = File{Path: "small", Mounted: "none"} }, "no such file"},
		{func(p *Plan) { s.contents[p.Files[0].Content.SHA256] = []byte("others") }, "other bytes"},
		{func(p *Plan) { p.CA = "nonsense" }, "certificates"},
		{func(p *Plan) { p.Files[0].Unpack = true }, "file large: it cannot be a directory of a job"},
	} {
		p := s.plan(t)
		p.Files = []File{{Path: "large", Content: s.add([]byte("bytes!"))}}
		c.change(p)
		if err := p.Prepare(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := s.plan(t)
	s.Close()
	p.Files = []File{{Path: "large", Content: &Content{SHA256: "00", Size: 1}}}
	if err := p.Prepare(ctx); err == nil {
		t.Error("without a scheduler")
	}
}

// What one attempt leaves, the next one finds.
func TestArtifactsOfOneAttemptAreThereInTheNext(t *testing.T) {
	s := newScheduler(t)
	first := s.plan(t)
	first.Files = []File{{Path: "given", Mounted: "0"}}
	first.Artifacts = &Artifacts{Rules: archive.Rules{Patterns: []string{"out/**", "given"}}}
	write(t, first.Sandbox, "out/deep/model", "weights")
	write(t, first.Sandbox, "given", "not an artifact")
	write(t, first.Sandbox, "other", "not wanted")
	if kept := first.Keep(t.Context()); kept.Count != 1 || kept.Failure != "" || kept.Truncated {
		t.Fatalf("%+v", kept)
	}
	if !slices.Equal(s.list.Files, []archive.File{{Path: "out/deep/model", Size: 7, Mode: 0o644}}) {
		t.Errorf("%+v", s.list)
	}
	second := s.plan(t)
	second.Artifacts, second.Restore = first.Artifacts, s.add(s.archive)
	if err := second.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(second.Sandbox, "out/deep/model")); string(text) != "weights" {
		t.Errorf("%q, %v", text, err)
	}
	if left, _ := filepath.Glob(filepath.Join(second.Sandbox, ".weir*")); len(left) != 0 {
		t.Errorf("%v is left", left)
	}
}

func TestArtifactsThatCannotBeStoredSayWhy(t *testing.T) {
	s := newScheduler(t)
	p := s.plan(t)
	p.Artifacts = &Artifacts{Rules: archive.Rules{Patterns: []string{"**"}}}
	if kept := p.Keep(t.Context()); *kept != (Kept{}) {
		t.Errorf("without files: %+v", kept)
	}
	write(t, p.Sandbox, "file", "text")
	s.refuse = &Answer{Reason: archive.OverQuota, Message: "you have no room"}
	if kept := p.Keep(t.Context()); kept.Failure != archive.OverQuota || kept.Message != "you have no room" || kept.Count != 0 {
		t.Errorf("%+v", kept)
	}
	p.Sandbox = filepath.Join(p.Sandbox, "none")
	if kept := p.Keep(t.Context()); kept.Failure != archive.Unreadable {
		t.Errorf("%+v", kept)
	}
}

func TestWhichFilesAreKept(t *testing.T) {
	for _, c := range []struct {
		artifacts        *Artifacts
		completed, asked bool
		want             bool
	}{
		{nil, true, false, false},
		{&Artifacts{}, true, false, true}, {&Artifacts{}, false, false, true}, {&Artifacts{}, false, true, false},
		{&Artifacts{OnlyCompleted: true}, false, false, false}, {&Artifacts{OnlyCompleted: true}, true, true, true},
		{&Artifacts{OfAborted: true}, false, true, true},
	} {
		p := &Plan{Artifacts: c.artifacts}
		if got := p.Keeps(c.completed, c.asked); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestAPlanIsReadAsItWasWritten(t *testing.T) {
	p := &Plan{Sandbox: "/job", URL: "http://weir", Job: 7, Token: "t", Artifacts: &Artifacts{Rules: archive.Rules{Patterns: []string{"*"}}, OfAborted: true}}
	got, err := Read(p.String())
	if err != nil || fmt.Sprint(got) != fmt.Sprint(p) || !got.NeedsScheduler() {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{"", "{}", "nonsense"} {
		if _, err := Read(text); err == nil {
			t.Errorf("%q is a plan", text)
		}
	}
	if (&Plan{Files: []File{{Mounted: "0"}}}).NeedsScheduler() {
		t.Error("mounted files need no scheduler")
	}
	if TokenOf(7, []byte("a")) == TokenOf(8, []byte("a")) || TokenOf(7, []byte("a")) == TokenOf(7, []byte("b")) {
		t.Error("two jobs have one token")
	}
}
