package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/pathtree"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/value/yson"
)

// textOf decodes an answer that is a single string.
func textOf(t *testing.T, body string) string {
	t.Helper()
	n, err := yson.Parse([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	text, ok := n.Text()
	if !ok {
		t.Fatalf("%s is no string", body)
	}
	return text
}

func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// mustAs sends a command with a token; it must succeed.
func (c *cluster) mustAs(token, command, parameters, data string) string {
	c.t.Helper()
	a := c.as(token, command, parameters, data)
	if a.status != http.StatusOK {
		c.t.Fatalf("%s %s: %d %s", command, parameters, a.status, a.body)
	}
	return a.body
}

// denied sends a command with a token; it must be refused.
func (c *cluster) denied(token, command, parameters string, code int, words string) {
	c.t.Helper()
	a := c.as(token, command, parameters, "")
	if a.status == http.StatusOK {
		c.t.Fatalf("%s %s was not refused", command, parameters)
	}
	if e := parseError(c.t, a); !e.HasCode(code) || !strings.Contains(e.Error(), words) {
		c.t.Errorf("%s %s: want %d and %q in %s", command, parameters, code, words, a.body)
	}
}

func TestTheLifeOfATokenThroughTheAPI(t *testing.T) {
	t.Parallel()
	c := withPools(t, "a")
	c.must("create", "{type=user;attributes={name=ann}}", "")
	c.must("create", "{type=user;attributes={name=bob}}", "")
	c.must("create", "{type=user;attributes={name=admin}}", "")
	c.must("add_member", "{group=admins;member=admin}", "")
	c.refused("issue_token", "{user=ann}", "", wire.CodeGeneric, "The first token must belong to root")
	c.refused("issue_token", "{user=nobody}", "", auth.CodeNoSuchUser, "No such user")
	c.refused("issue_token", `{expiration_time="2001-01-01"}`, "", wire.CodeGeneric, "has passed")
	c.refused("issue_token", `{expiration_time="soon"}`, "", wire.CodeGeneric, "is no time")
	c.refused("issue_token", `{expiration_time="2101-01-01";expiration_timeout=1000}`, "", wire.CodeGeneric, "not both")
	c.refused("issue_token", fmt.Sprintf("{description=%q}", strings.Repeat("x", 1001)), "", wire.CodeGeneric, "the limit is 1000")

	// YTsaurus's version 4 does not wrap these answers either.
	root := textOf(t, c.must("issue_token", `{user=root;description="by hand"}`, ""))
	if _, err := auth.ParseToken(root); err != nil {
		t.Fatal(err)
	}
	if got := textOf(t, strings.Trim(strings.TrimSpace(c.mustAs(root, "list_user_tokens", "{user=root}", "")), "[];")); got != hashOf(root) {
		t.Errorf("listed as %s, want %s", got, hashOf(root))
	}
	if a := c.as("", "get", `{path="//sys/pools"}`, ""); a.status != http.StatusUnauthorized {
		t.Errorf("without a token: %d %s", a.status, a.body)
	}
	c.denied("", "issue_token", "{}", auth.CodeAuthentication, "no token was sent")
	c.denied("", "list_user_tokens", "{}", auth.CodeAuthentication, "no token was sent")

	ann := textOf(t, c.mustAs(root, "issue_token", "{user=ann}", ""))
	admin := textOf(t, c.mustAs(root, "issue_token", "{user=admin}", ""))
	second := textOf(t, c.mustAs(ann, "issue_token", `{description="ann's own";expiration_timeout=3600000}`, ""))
	c.denied(ann, "issue_token", "{user=bob}", auth.CodeAuthorization, "ruled by themselves and by administrators")
	c.denied(ann, "list_user_tokens", "{user=bob}", auth.CodeAuthorization, "ruled by themselves")
	c.denied(ann, "revoke_token", fmt.Sprintf("{token_sha256=%q}", hashOf(admin)), auth.CodeAuthorization, "ruled by themselves")
	c.denied(admin, "issue_token", "{user=root}", auth.CodeAuthorization, "those of superusers by superusers")
	c.denied(admin, "issue_token", "{user=guest}", wire.CodeGeneric, "cannot have tokens")
	bob := textOf(t, c.mustAs(admin, "issue_token", "{user=bob}", ""))

	visible := func(token, parameters string) int {
		n, err := yson.Parse([]byte(c.mustAs(token, "list_user_tokens", parameters, "")))
		if err != nil {
			t.Fatal(err)
		}
		return len(n.Items()) + len(n.Entries())
	}
	for _, test := range []struct {
		token, parameters string
		want              int
	}{{root, "{}", 5}, {admin, "{}", 4}, {ann, "{}", 2}, {bob, "{}", 1}, {bob, "{user=bob;with_metadata=%true}", 1}} {
		if got := visible(test.token, test.parameters); got != test.want {
			t.Errorf("%s: %d tokens, want %d", test.parameters, got, test.want)
		}
	}
	about := c.mustAs(ann, "list_user_tokens", "{with_metadata=%true}", "")
	for _, part := range []string{hashOf(second), `"description"="ann's own"`, `"expiration_time"=`, `"user"="ann"`} {
		if !strings.Contains(about, part) {
			t.Errorf("%q is not in %s", part, about)
		}
	}

	c.mustAs(ann, "revoke_token", fmt.Sprintf("{user=ann;token_sha256=%q}", hashOf(second)), "")
	c.mustAs(ann, "revoke_token", fmt.Sprintf("{user=ann;token_sha256=%q}", hashOf(second)), "")
	c.denied(second, "get_current_user", "{}", auth.CodeAuthentication, "the token was revoked")
	if visible(ann, "{}") != 1 || visible(ann, "{include_revoked=%true}") != 2 {
		t.Error("a revoked token is listed without being asked for, or not at all")
	}
	c.denied(root, "revoke_token", fmt.Sprintf("{user=bob;token_sha256=%q}", hashOf(ann)), wire.CodeGeneric, "not recognized")
	c.denied(root, "revoke_token", fmt.Sprintf("{token_sha256=%q}", hashOf("x")), wire.CodeGeneric, "not recognized")
	if a := c.as(root, "revoke_token", fmt.Sprintf("{token_sha256=%q}", ann), ""); strings.Contains(a.body+fmt.Sprint(a.header), ann) {
		t.Error("a token given in the place of its hash is repeated")
	}
	a := c.as(root, "revoke_token", fmt.Sprintf("{token_sha256=%q}", hashOf(root)), "")
	if a.status != http.StatusOK || !strings.Contains(a.header.Get("X-Weir-Warnings"), "no superuser has a token that is good") {
		t.Errorf("the last one of a superuser: %d %s %v", a.status, a.body, a.header)
	}
}

func TestAnExpiredTokenIsRefused(t *testing.T) {
	t.Parallel()
	c := withPools(t, "a")
	a := c.do("issue_token", `{expiration_timeout=1}`, "")
	token := textOf(t, a.body)
	if !strings.Contains(a.header.Get("X-Weir-Warnings"), "the last token of a superuser expires at") {
		t.Error(a.header)
	}
	for range 500 {
		if a = c.as(token, "get_current_user", "{}", ""); a.status != http.StatusOK {
			break
		}
	}
	if e := parseError(t, a); a.status != http.StatusUnauthorized || !strings.Contains(e.Error(), "the token has expired") {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// A repeated request is told that the token exists, but never its secret, which is not stored.
func TestTheSecretOfATokenIsToldOnceAndKeptNowhere(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	c := startCluster(t, directory)
	c.t = t
	var log bytes.Buffer
	logged := httptest.NewServer(New(c.Server, Options{
		TrustLoopback: true, Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}))
	defer logged.Close()
	own := c.url
	c.url = logged.URL
	const request = `{user=root;mutation_id="1-2-3-4"`
	token := textOf(t, c.must("issue_token", request+"}", ""))
	repeated := func(c *cluster) {
		t.Helper()
		a := c.as(token, "issue_token", request+";retry=%true}", "")
		e := parseError(t, a)
		if !strings.Contains(e.Error(), "whose secret is shown only once") || !strings.Contains(a.body, hashOf(token)) || strings.Contains(a.body, token) {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	repeated(c)
	c.denied(token, "execute_batch", "{}", wire.CodeGeneric, "requests")
	batch := c.mustAs(token, "execute_batch", "{requests=[{command=issue_token;parameters={user=root}}]}", "")
	if !strings.Contains(batch, "cannot be part of a batch") {
		t.Error(batch)
	}
	c.mustAs(token, "list_user_tokens", "{with_metadata=%true;include_revoked=%true}", "")
	c.mustAs(token, "revoke_token", fmt.Sprintf("{token_sha256=%q}", hashOf(textOf(t, c.mustAs(token, "issue_token", "{}", "")))), "")
	events := c.mustAs(token, "list_events", "{}", "")
	c.url = own
	known, err := c.Store().Mutation(t.Context(), "root/issue_token/1-2-3-4")
	if err != nil || string(known.Response) != hashOf(token) {
		t.Errorf("remembered %q, %v", known.Response, err)
	}
	c.stop()
	logged.Close() // nothing writes to the log any more
	if strings.Contains(log.String()+events, token) {
		t.Error("the secret is in the log or the events")
	}
	files, err := filepath.Glob(filepath.Join(directory, "*.db*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(data, []byte(token)) {
			t.Errorf("the secret is in %s", filepath.Base(name))
		}
	}

	// The server answers the same after a restart.
	next := startCluster(t, directory)
	next.t = t
	repeated(next)
}

// Of several concurrent requests for a first token, one succeeds. The others need a token.
func TestTheFirstTokenIsMadeOnce(t *testing.T) {
	t.Parallel()
	c := withPools(t, "a")
	const at = 8
	answers := make(chan answer, at)
	for range at {
		go func() { answers <- c.do("issue_token", "{}", "") }()
	}
	made := 0
	for range at {
		if a := <-answers; a.status == http.StatusOK {
			made++
		} else if !parseError(t, a).HasCode(auth.CodeAuthentication) {
			t.Error(a.body)
		}
	}
	if made != 1 {
		t.Errorf("%d first tokens", made)
	}
}

func TestTokensOfTheStoreThatCannotBeReadLetNobodyIn(t *testing.T) {
	t.Parallel()
	if _, err := pathtree.TokenRecord(store.Token{Hash: "short", Created: time.Unix(0, 0)}); err == nil {
		t.Error("a hash that is none was read")
	}
}
