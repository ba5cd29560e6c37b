package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestContextsChooseTheServer(t *testing.T) {
	b := newTestbed(t, 0)
	t.Setenv(addressVariable, "")
	file := os.Getenv(contextsVariable)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("not-a-token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.ok("context", "set", "lab", "--addr", b.scheduler.Address)
	b.ok("context", "set", "far", "--addr", "127.0.0.1:1", "--token-file", token)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of contexts: %v, %v", info, err)
	}
	list := b.ok("context", "list")
	for _, want := range []string{"\n*  lab   " + b.scheduler.Address, "\n   far   127.0.0.1:1 ", "  in " + token} {
		if !strings.Contains(list, want) {
			t.Errorf("list lacks %q:\n%s", want, list)
		}
	}
	if out := b.ok("exists", "//sys"); out != "true\n" {
		t.Errorf("through the context in use: %q", out)
	}
	if said := b.refused("get", "//sys", "--context", "far"); !strings.Contains(said, `The address comes from the context "far"`) {
		t.Errorf("through another: %q", said)
	}
	b.ok("context", "use", "far")
	if said := b.refused("get", "//sys"); !strings.Contains(said, `The address comes from the context "far"`) {
		t.Errorf("after use: %q", said)
	}
	if out := b.ok("exists", "//sys", "--context", "lab"); out != "true\n" {
		t.Errorf("the flag does not choose: %q", out)
	}
	if said := b.refused("get", "//sys", "--context", "lob"); !strings.Contains(said, `there is no context "lob"; did you mean "lab"?`) {
		t.Errorf("a wrong name: %q", said)
	}
	b.ok("context", "remove", "far")
	if out := b.ok("context", "list"); strings.Contains(out, "far") || strings.Contains(out, "*") {
		t.Errorf("after remove:\n%s", out)
	}
}

func TestTokensOfContexts(t *testing.T) {
	t.Setenv(contextsVariable, filepath.Join(t.TempDir(), "sub", "contexts.yaml"))
	for _, name := range []string{addressVariable, tokenVariable, tokenFileVariable, contextVariable} {
		t.Setenv(name, "")
	}
	b := &testbed{t: t}
	b.ok("context", "set", "lab", "--addr", "lab.example:7070")
	if code, _, errs := b.withInput("weir_secret\n", "context", "set", "lab", "--token-stdin"); code != ExitOK {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	find := func(r remote) server {
		t.Helper()
		found, err := r.find(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if s := find(remote{}); s.token != "weir_secret" || s.address != "lab.example:7070" {
		t.Errorf("of the context in use: %q at %q", s.token, s.address)
	}
	if s := find(remote{address: "elsewhere:7070"}); s.token != "" {
		t.Error("the token of a context was given to another server")
	}
	t.Setenv(addressVariable, "elsewhere:7070")
	if s := find(remote{}); s.token != "" || s.address != "elsewhere:7070" {
		t.Errorf("with %s: %q at %q", addressVariable, s.token, s.address)
	}
	t.Setenv(tokenVariable, "weir_other")
	if s := find(remote{}); s.token != "weir_other" {
		t.Errorf("of the variable: %q", s.token)
	}
	for _, format := range []string{"table", "json", "yaml", "yson"} {
		if out := b.ok("context", "list", "-o", format); strings.Contains(out, "weir_secret") {
			t.Errorf("-o %s shows the token:\n%s", format, out)
		}
	}
	if _, _, errs := b.withInput("two words", "context", "set", "lab", "--token-stdin"); !strings.Contains(errs, "one token and nothing else") {
		t.Errorf("two words: %q", errs)
	}
}

func TestNoFlagTakesAToken(t *testing.T) {
	for _, args := range [][]string{{"get", "//sys", "--token", "x"}, {"op", "list", "--token=x"}} {
		if code, _, errs := call(args...); code != ExitWrongCall || !strings.Contains(errs, "unknown flag: --token") {
			t.Errorf("%q: exit code %d, stderr %q", args, code, errs)
		}
	}
}
