package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// knows says whether the scheduler has a command.
func (b *testbed) knows(command string) bool {
	b.t.Helper()
	response, err := http.Get("http://" + b.scheduler.Address + "/api/v4")
	if err != nil {
		b.t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	var list []struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(data, &list); err != nil {
		b.t.Fatal(err)
	}
	for _, c := range list {
		if c.Name == command {
			return true
		}
	}
	return false
}

func TestTokensFromFirstToLast(t *testing.T) {
	b := newTestbed(t, 0)
	if !b.knows("issue_token") {
		t.Skip("this scheduler has no command that makes tokens")
	}
	token := strings.TrimSpace(b.ok("token", "create", "root", "--description", "laptop", "--expires", "1d"))
	if !strings.HasPrefix(token, "weir_") {
		t.Fatalf("%d characters that are no token", len(token))
	}
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
	if said := b.refused("token", "revoke", "ffffffffffff"); !strings.Contains(said, "there is no token with the id") {
		t.Errorf("a token that is not there: %q", said)
	}
	if code, _, errs := b.call("token", "revoke", token); code != ExitWrongCall || strings.Contains(errs, token) {
		t.Errorf("a token as an argument: exit code %d, %q", code, errs)
	}
	b.ok("token", "revoke", strings.Fields(list)[6])
	if said := b.refused("get", "//sys/@"); !strings.Contains(said, "The token comes from "+tokenVariable) {
		t.Errorf("with a revoked token: %q", said)
	}
}
