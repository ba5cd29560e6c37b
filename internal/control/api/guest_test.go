package api

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/gate"
)

// As long as there are no tokens, a process of this machine without proof of its user may read what every
// user may, and do nothing else.
func TestWithoutTokensAProcessOfThisMachineMayOnlyRead(t *testing.T) {
	t.Parallel()
	c := withPools(t, "a")
	handler := New(c.Server, Options{Log: quiet})
	header := http.Header{"Content-Type": {"application/json"}}
	read := 0
	for _, cmd := range allCommands().v4 {
		methods := cmd.methods()
		a := ask(handler, methods[len(methods)-1], "/api/v4/"+cmd.name, header.Clone(), "{}")
		refused := a.status == http.StatusUnauthorized
		if want := !cmd.needs.public && (cmd.changes || !cmd.needs.users); refused != want {
			t.Errorf("%s: status %d, want a refusal: %v", cmd.name, a.status, want)
		}
		if !refused {
			read++
		}
	}
	if read < 20 {
		t.Errorf("%d commands are open to readers", read)
	}
	if a := ask(handler, http.MethodGet, "/api/v4/get?path=//sys/pools", header.Clone(), ""); a.status != http.StatusOK || !strings.Contains(a.body, `"a"`) {
		t.Errorf("pools: %d %s", a.status, a.body)
	}
	if a := ask(handler, http.MethodGet, "/auth/whoami", header.Clone(), ""); !strings.Contains(a.body, `"guest"`) {
		t.Errorf("who: %s", a.body)
	}
	as := header.Clone()
	as.Set("X-YT-User-Name", auth.Root)
	if a := ask(handler, http.MethodGet, "/api/v4/get?path=//sys/pools", as, ""); a.status == http.StatusOK {
		t.Errorf("acts as root: %s", a.body)
	}
}

// A page whose name resolves to this machine, and pages of other sites, cannot even read.
func TestPagesOfOtherSitesCannotReadAsTheGuest(t *testing.T) {
	t.Parallel()
	c := withPools(t, "a")
	handler := New(c.Server, Options{Log: quiet})
	for name, header := range map[string]http.Header{
		"another origin":  {"Origin": {"https://evil.example"}},
		"across sites":    {"Sec-Fetch-Site": {"cross-site"}},
		"through a proxy": {"X-Forwarded-For": {"10.0.0.1"}},
		"rebound name":    {"X-Test-Host": {"evil.example"}},
	} {
		host := header.Get("X-Test-Host")
		a := ask(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if host != "" {
				r.Host = host + ":7070"
			}
			handler.ServeHTTP(w, r)
		}), http.MethodGet, "/api/v4/get?path=//sys/pools", header, "")
		if a.status == http.StatusOK {
			t.Errorf("%s reads %s", name, a.body)
		}
	}
}

// overSocket serves a handler on a socket and returns a client of it.
func overSocket(t *testing.T, handler http.Handler) *http.Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	listener, err := gate.ListenLocal(path)
	if err != nil {
		t.Fatal(err)
	}
	served := gate.NewServer(handler, nil, nil, quiet)
	go func() { _ = served.Serve(listener) }()
	t.Cleanup(func() { _ = served.Close() })
	return &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", path)
	}}}
}

func askOver(t *testing.T, client *http.Client, path string, header http.Header) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost"+path, strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	if header != nil {
		request.Header = header
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var body bytes.Buffer
	_, _ = body.ReadFrom(response.Body)
	return answer{response.StatusCode, response.Header, body.String()}
}

// The socket's owner is root, with tokens and without. What a proxy forwards over the socket is not.
func TestTheOwnerOfTheSocketIsRoot(t *testing.T) {
	t.Parallel()
	c := withPools(t, "a")
	client := overSocket(t, New(c.Server, Options{Log: quiet}))
	who := func(header http.Header) string { return askOver(t, client, "/auth/whoami", header).body }
	check := func(when string) {
		t.Helper()
		if got := who(nil); !strings.Contains(got, `"root","realm":"socket"`) {
			t.Errorf("%s: %s", when, got)
		}
		if got := who(http.Header{"X-Forwarded-For": {"10.0.0.1"}}); strings.Contains(got, `"root"`) {
			t.Errorf("%s, through a proxy: %s", when, got)
		}
	}
	check("without tokens")
	parameters := http.Header{"X-Yt-Parameters": {`{"type":"user","attributes":{"name":"ann"}}`}}
	if a := askOver(t, client, "/api/v4/create", parameters); a.status != http.StatusOK {
		t.Fatalf("a user: %d %s", a.status, a.body)
	}
	issue := func(user string) string {
		a := askOver(t, client, "/api/v4/issue_token?user="+user, http.Header{"X-Yt-Output-Format": {`"yson"`}})
		if a.status != http.StatusOK {
			t.Fatalf("a token of %s: %d %s", user, a.status, a.body)
		}
		return textOf(t, a.body)
	}
	own := issue("ann") // the first token need not be a superuser's: the socket is always a way in
	check("with tokens")
	token := issue("root")
	if got := who(http.Header{"Authorization": {"OAuth " + own}}); !strings.Contains(got, `"ann"`) {
		t.Errorf("with a token of ann: %s", got)
	}
	if a := askOver(t, client, "/api/v4/revoke_token?token_sha256="+hashOf(token), nil); a.status != http.StatusOK {
		t.Errorf("%d %s", a.status, a.body)
	}
	check("without a token of a superuser")
}

// The leader does not know who uses a standby's socket, so the standby says so and forwards nothing.
func TestAStandbyDoesNotForwardForItsSocket(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	leader := startCluster(t, directory)
	leader.t = t
	standby := launch(t, directory)
	standby.t = t
	leader.eventually("the standby knows the leader", func() bool { return standby.Loaded() && standby.Leader().Address == leader.Address() })
	client := overSocket(t, New(standby.Server, Options{Log: quiet}))
	a := askOver(t, client, "/api/v4/create?type=map_node&path=//tmp/x", nil)
	if a.status != http.StatusUnauthorized || !strings.Contains(a.body, "stands by") || !strings.Contains(a.body, leader.Address()) {
		t.Errorf("%d %s", a.status, a.body)
	}
	if got := leader.must("exists", `{path="//tmp/x"}`, ""); strings.Contains(got, "true") {
		t.Error("it was forwarded")
	}
	if a := askOver(t, client, "/auth/whoami", http.Header{forwardedHeader: {"x"}}); !strings.Contains(a.body, `"root"`) {
		t.Errorf("who: %s", a.body)
	}
}

// The address that weir up prints signs in once. The key is root's, also after the first token, and is not
// logged.
func TestAnAddressSignsInOnce(t *testing.T) {
	t.Parallel()
	c := withPools(t, "a")
	var log bytes.Buffer
	key := NewKey()
	handler := New(c.Server, Options{Key: key, Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	code := key.NewCode()
	signIn := func(code string) answer {
		return ask(handler, http.MethodPost, "/auth/signin", http.Header{}, fmt.Sprintf(`{"code":%q}`, code))
	}
	for _, wrong := range []string{"", "x", key.Reveal(), NewKey().NewCode(), strings.Repeat("x", 10<<10)} {
		if a := signIn(wrong); a.status != http.StatusUnauthorized || strings.Contains(a.body, key.Reveal()) {
			t.Errorf("a wrong code: %d %s", a.status, a.body)
		}
	}
	if a := signIn(code); a.status != http.StatusOK || a.body != fmt.Sprintf("{\"token\":%q}\n", key.Reveal()) || a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := signIn(code); a.status != http.StatusUnauthorized || !strings.Contains(a.body, "one use") {
		t.Errorf("a second time: %d %s", a.status, a.body)
	}
	if a := ask(handler, http.MethodGet, "/auth/signin", http.Header{}, ""); a.status == http.StatusOK {
		t.Errorf("GET: %d", a.status)
	}
	who := func() string {
		return ask(handler, http.MethodGet, "/auth/whoami", http.Header{"Authorization": {"OAuth " + key.Reveal()}}, "").body
	}
	if got := who(); !strings.Contains(got, `"root"`) {
		t.Error(got)
	}
	c.must("issue_token", "{user=root}", "")
	if got := who(); !strings.Contains(got, `"root"`) {
		t.Errorf("after the first token: %s", got)
	}
	if strings.Contains(log.String(), key.Reveal()) || strings.Contains(log.String(), code) {
		t.Error("a secret was logged")
	}
}
