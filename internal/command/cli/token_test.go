package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTokensFromFirstToLast(t *testing.T) {
	b := newTestbed(t, 0)
	if said := b.refused("token", "create", "nobody"); !strings.Contains(said, `No such user "nobody"`) {
		t.Errorf("a token for nobody: %q", said)
	}
	if code, _, errs := b.call("token", "create", "--expires", "tomorrow"); code != ExitWrongCall || !strings.Contains(errs, "such as 90d") {
		t.Errorf("a length of time that is none: exit code %d, %q", code, errs)
	}
	if said := b.ok("whoami"); said != "root\n" {
		t.Errorf("on the scheduler's machine its user is %q", said)
	}
	if said := b.ok("whoami", "--addr", "http://"+b.scheduler.Address); said != "guest\n" {
		t.Errorf("without the socket one is %q", said)
	}
	if said := b.refused("remove", "//tmp", "--addr", "http://"+b.scheduler.Address); !strings.Contains(said, "may only read") {
		t.Errorf("without the socket: %q", said)
	}
	token := strings.TrimSpace(b.ok("token", "create", "root", "--description", "laptop", "--expires", "1d"))
	if !strings.HasPrefix(token, "weir_") {
		t.Fatalf("%d characters that are no token", len(token))
	}
	if said := b.ok("whoami"); said != "root\n" {
		t.Errorf("on the scheduler's machine its user is %q", said)
	}
	t.Setenv(addressVariable, "http://"+b.scheduler.Address) // not the socket
	if said := b.refused("get", "//sys/@"); !strings.Contains(said, "No token was sent: give one by --token-file") {
		t.Errorf("without a token: %q", said)
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	list := b.ok("token", "list", "--token-file", file)
	if !strings.Contains(list, "laptop") || strings.Contains(list, token) {
		t.Errorf("list:\n%s", list)
	}
	t.Setenv(tokenVariable, token)
	b.ok("get", "//sys/@")
	b.ok("create", "user", "--attributes", "{name=ann}")
	if said := b.ok("whoami", "--as", "ann"); said != "ann\n" {
		t.Errorf("as ann one is %q", said)
	}
	b.ok("token", "create", "ann")
	if all, hers := b.ok("token", "list"), b.ok("token", "list", "ann"); strings.Count(all, "good") != 2 || strings.Count(hers, "good") != 1 {
		t.Errorf("tokens:\n%s\nof ann:\n%s", all, hers)
	}
	if said := b.refused("token", "revoke", "ffffffffffff"); !strings.Contains(said, "no token has the id") {
		t.Errorf("a token that is not there: %q", said)
	}
	if code, _, errs := b.call("token", "revoke", token); code != ExitWrongCall || strings.Contains(errs, token) {
		t.Errorf("a token as an argument: exit code %d, %q", code, errs)
	}
	id := strings.Fields(list)[6]
	if code, _, errs := b.call("token", "revoke", id); code != ExitOK || !strings.Contains(errs, "no superuser has a token that is good") {
		t.Errorf("the last token of a superuser: exit code %d, %q", code, errs)
	}
	if said := b.refused("get", "//sys/@"); !strings.Contains(said, "The token comes from "+tokenVariable) {
		t.Errorf("with a revoked token: %q", said)
	}
}
