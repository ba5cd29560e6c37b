package cli

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weirhq/weir/test/fakenode"
)

func TestRunEndsAsItsJobsDo(t *testing.T) {
	b := newTestbed(t, 1)
	b.pool("research", "<Root>", "")
	for _, test := range []struct {
		name string
		args []string
		code int
		out  string
		errs []string
	}{
		{"a command", []string{"--", "echo", "hello"}, ExitOK, "hello\n", []string{"started", "completed: 1 of 1 completed, 0 running, 0 waiting"}},
		{"a command that is quiet", []string{"-q", "-p", "research", "--", "echo hello"}, ExitOK, "hello\n", nil},
		{"words are quoted", []string{"-q", "--", "echo", "it is; here"}, ExitOK, "it is\n", nil},
		{"nothing is written", []string{"-q", "--cpu", "0.5", "--memory", "100MiB", "--", "true"}, ExitOK, "", nil},
		{"a failure", []string{"--", "echo no; exit 3"}, 3, "no\n", []string{"failed: Failed jobs limit exceeded", "(code 215)\n  User job failed (code 1205)\n    Process exited with code 3 (code 10000)"}},
		{"a failure that may be repeated", []string{"-q", "--retries", "2", "--", "exit 7"}, 7, "", []string{"3 failed"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, out, errs := b.call(append([]string{"run"}, test.args...)...)
			if code != test.code || out != test.out {
				t.Errorf("exit code %d, stdout %q; want %d, %q; stderr %q", code, out, test.code, test.out, errs)
			}
			for _, want := range test.errs {
				if !strings.Contains(errs, want) {
					t.Errorf("stderr lacks %q:\n%s", want, errs)
				}
			}
			if test.errs == nil && errs != "" {
				t.Errorf("a quiet run said %q", errs)
			}
		})
	}
}

func TestRunTakesFilesAlong(t *testing.T) {
	b := newTestbed(t, 1)
	t.Chdir(t.TempDir())
	t.Setenv("TMPDIR", t.TempDir())
	if err := os.WriteFile("script.sh", []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("large", make([]byte, 1<<20+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.Mkdir("tree", 0o755), os.WriteFile("tree/run.sh", []byte("#!/bin/sh\n"), 0o755), os.Mkdir("bad", 0o755), os.Symlink("/etc", "bad/out"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	b.ok("run", "--file", "script.sh:bin/s", "-f", "script.sh", "--", "true")
	if _, _, errs := b.call("run", "--file", "tree/", "--", "./tree/run.sh; exit 127"); !strings.Contains(errs, "sending tree/, ") || strings.Contains(errs, "take it along") {
		t.Errorf("a directory: %q", errs)
	}
	if _, _, errs := b.call("run", "--file", "tree:again", "--file", "tree", "--", "true"); strings.Contains(errs, "sending") {
		t.Errorf("a directory that the scheduler has was sent again: %q", errs)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || slices.ContainsFunc(left, func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), "weir-run-") }) {
		t.Errorf("left behind: %v, %v", left, err)
	}
	for _, test := range []struct{ file, want string }{
		{"none", "no such file"}, {"tree:../s", "stays inside"}, {"script.sh:../s", "stays inside"}, {"/dev/null", "neither a plain file nor a directory"},
		{"bad", "bad: it cannot be a directory of a job: out: it is a link to \"/etc\", which is not a relative path; replace it, or name it in .weirignore"},
	} {
		if code, _, errs := b.call("run", "--file", test.file, "--", "true"); code != ExitWrongCall || !strings.Contains(errs, test.want) {
			t.Errorf("%s: exit code %d, %q; want %q", test.file, code, errs, test.want)
		}
	}
	if _, _, errs := b.call("run", "--file", "large", "--", "true"); !strings.Contains(errs, "sending large, 1048577 bytes") {
		t.Errorf("the large file was not sent: %q", errs)
	}
	if _, _, errs := b.call("run", "--file", "large:again", "--", "true"); strings.Contains(errs, "sending") {
		t.Errorf("a file that the scheduler has was sent again: %q", errs)
	}
	_, _, errs := b.call("run", "--", "./script.sh; exit 127")
	if !strings.Contains(errs, "weir run --file ./script.sh -- ./script.sh") {
		t.Errorf("nothing explains how to take the script along: %q", errs)
	}
	if _, _, errs := b.call("run", "--file", "script.sh", "--", "./script.sh; exit 127"); strings.Contains(errs, "take it along") {
		t.Errorf("the script was taken along, and still: %q", errs)
	}
}

func TestRunOfSeveralJobsMarksTheirLines(t *testing.T) {
	b := newTestbed(t, 2)
	lines := strings.Split(strings.TrimSpace(b.ok("run", "-n", "12", "--", "echo here")), "\n")
	slices.Sort(lines)
	var want []string
	for i := range 12 {
		want = append(want, fmt.Sprintf("[%d] here", i))
	}
	slices.Sort(want)
	if !slices.Equal(lines, want) {
		t.Errorf("printed %q, want in some order %q", lines, want)
	}
}

// listener signals when a command has written a word.
type listener struct {
	bytes.Buffer
	word  string
	heard chan struct{} // closed then
}

func (l *listener) Write(p []byte) (int, error) {
	before := strings.Contains(l.String(), l.word)
	n, err := l.Buffer.Write(p)
	if !before && strings.Contains(l.String(), l.word) {
		close(l.heard)
	}
	return n, err
}

func TestInterruptedRunAbortsItsOperation(t *testing.T) {
	b := newTestbed(t, 1)
	ctx, interrupt := context.WithCancel(t.Context())
	var out bytes.Buffer
	errs := &listener{word: "started", heard: make(chan struct{})}
	go func() { // when both know of the operation: a node that runs its job, and the command that is to end it
		<-errs.heard
		if err := b.nodes.Await(ctx, func(t fakenode.Totals) bool { return t.Running == 1 }); err == nil {
			interrupt()
		}
	}()
	code := execute(ctx, newRootCommand(), []string{"run", "--", "sleep 1000"}, strings.NewReader(""), &out, errs)
	if code != ExitInterrupted || out.Len() > 0 || !strings.Contains(errs.String(), "was aborted\nweir: interrupted\n") {
		t.Fatalf("exit code %d, stdout %q, stderr %q", code, &out, errs)
	}
	list := b.ok("op", "list")
	if !strings.Contains(list, "aborted") {
		t.Errorf("the operation goes on:\n%s", list)
	}
	if details := b.ok("op", "get", strings.Fields(list)[9]); !strings.Contains(details, "eir run was interrupted") {
		t.Errorf("the reason is not kept:\n%s", details)
	}
}

func TestARunInterruptedWhileItsStartIsUnderWayAbortsItsOperation(t *testing.T) {
	b := newTestbed(t, 0)
	ctx, interrupt := context.WithCancel(t.Context())
	relay := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: b.scheduler.Address}) },
		ModifyResponse: func(answer *http.Response) error {
			if strings.HasSuffix(answer.Request.URL.Path, "/start_operation") {
				interrupt() // the scheduler has begun, and the command does not know
			}
			return nil
		},
	}
	front := httptest.NewServer(relay)
	defer front.Close()
	t.Setenv(addressVariable, front.URL)
	t.Setenv(tokenVariable, b.scheduler.Key.Reveal())
	var out, errs bytes.Buffer
	code := execute(ctx, newRootCommand(), []string{"run", "--", "sleep 1000"}, strings.NewReader(""), &out, &errs)
	if code != ExitInterrupted || !strings.Contains(errs.String(), "was aborted\nweir: interrupted\n") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, &out, &errs)
	}
	if list := b.ok("op", "list"); !strings.Contains(list, "aborted") {
		t.Errorf("the operation goes on:\n%s", list)
	}
}

func TestQuotedWordsAreReadBackByAShell(t *testing.T) {
	words := []string{"a b", "", "it's", `"x"`, "$HOME", "a=b", "*", "\\", "line\nbreak", "ünï", "--flag=1", "`id`"}
	if got := typed(t, "weir "+quoteAll(words)); !slices.Equal(got, words) {
		t.Errorf("a shell reads %q, want %q", got, words)
	}
}
