package api

import (
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/control/wire"
)

// give issues a token for a user and returns it.
func (c *cluster) give(user string) string {
	c.t.Helper()
	var secret [32]byte
	_, _ = rand.Read(secret[:])
	token := auth.NewToken(secret)
	err := c.EditRegistry(c.t.Context(), server.Caller{User: "root", Command: "test"}, func(*server.Registry) (*store.Batch, error) {
		batch := &store.Batch{}
		batch.Put.Tokens = append(batch.Put.Tokens, store.Token{Hash: token.Hash().String(), User: user, Name: "test"})
		return batch, nil
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return token.Reveal()
}

// as sends a command with the given token, or with none if it is empty.
func (c *cluster) as(token, command, parameters, data string) answer {
	c.t.Helper()
	header := http.Header{
		"X-YT-Header-Format": {"<format=text>yson"}, "X-YT-Parameters": {parameters}, "Accept": {"application/x-yt-yson-text"},
	}
	if token != "" {
		header.Set("Authorization", "OAuth "+token)
	}
	return c.send(http.MethodPut, "/api/v4/"+command, header, []byte(data))
}

// permitted is a row of the matrix: a command and the users who may run it.
type permitted struct {
	name, command, parameters, data string
	to                              []string
}

func TestWhoMayDoWhatWithPools(t *testing.T) {
	t.Parallel()
	c := withPools(t, "team", "team/batch", "team/batch/deep", "other")
	for _, user := range []string{"boss", "member", "stranger", "admin", "guard"} {
		c.must("create", fmt.Sprintf("{type=user;attributes={name=%s}}", user), "")
	}
	c.must("add_member", "{group=admins;member=admin}", "")
	c.set("//sys/pools/team/@acl", "[{action=allow;subjects=[boss];permissions=[write;remove;use;administer]}]")
	c.set("//sys/pools/team/batch/@acl", "[{action=allow;subjects=[member];permissions=[write;use]};{action=deny;subjects=[guard];permissions=[read]}]")

	tokens := map[string]string{"nobody": ""}
	for _, user := range []string{"root", "boss", "member", "stranger", "admin", "guard"} {
		tokens[user] = c.give(user)
	}
	everyone := []string{"root", "boss", "member", "stranger", "admin", "guard"}
	but := func(out ...string) []string {
		return slices.DeleteFunc(slices.Clone(everyone), func(user string) bool { return slices.Contains(out, user) })
	}
	powerful := []string{"root", "admin"}
	with := func(more ...string) []string { return append(slices.Clone(powerful), more...) }

	matrix := []permitted{
		{"read a pool", "get", `{path="//sys/pools/team"}`, "", everyone},
		{"read a pool with a list that denies", "get", `{path="//sys/pools/team/batch/@type"}`, "", but("guard")},
		{"read below it", "exists", `{path="//sys/pools/team/batch/deep"}`, "", but("guard")},
		{"read the books of a pool with a list that denies", "get_report", `{report=guarantees;pool=batch}`, "", but("guard")},
		{"ask for a pool that is not there", "exists", `{path="//sys/pools/nope"}`, "", everyone},
		{"remove a pool that is not there", "remove", `{path="//sys/pools/nope";force=%true}`, "", everyone},
		{"list pools", "list", `{path="//sys/pools"}`, "", everyone},
		{"set what a pool gets", "set", `{path="//sys/pools/team/@weight"}`, "2", powerful},
		{"set what a subpool gets", "set", `{path="//sys/pools/team/batch/@weight"}`, "2", with("boss")},
		{"set what a pool below gets", "set", `{path="//sys/pools/team/batch/deep/@weight"}`, "2", with("boss", "member")},
		{"set what happens inside", "set", `{path="//sys/pools/team/batch/@forbid_immediate_operations"}`, "%false", with("boss", "member")},
		{"set a mode", "set", `{path="//sys/pools/team/batch/deep/@mode"}`, "fair_share", with("boss", "member")},
		{"set a custom attribute", "set", `{path="//sys/pools/team/batch/@my_note"}`, "1", with("boss", "member")},
		{"set what only administrators may", "set", `{path="//sys/pools/team/batch/@enable_aggressive_starvation"}`, "%false", powerful},
		{"set several at once, of which one is not theirs", "multiset_attributes", `{path="//sys/pools/team/@"}`, "{weight=3;my_note=2}", powerful},
		{"set a list", "set", `{path="//sys/pools/team/batch/@inherit_acl"}`, "%true", with("boss")},
		{"set an owner", "set", `{path="//sys/pools/team/batch/@owner"}`, "boss", []string{"root"}},
		{"create below", "create", `{type=scheduler_pool;attributes={name=USER-1;pool_tree=default;parent_name=batch}}`, "", with("boss", "member")},
		{"create below with a guarantee", "create", `{type=scheduler_pool;attributes={name=USER-2;pool_tree=default;parent_name=batch;weight=2}}`, "", with("boss", "member")},
		{"create at the root", "create", `{type=scheduler_pool;attributes={name=USER-3;pool_tree=default}}`, "", powerful},
		{"create by a path", "create", `{type=scheduler_pool;path="//sys/pools/team/USER-4"}`, "", with("boss")},
		{"remove a pool", "remove", `{path="//sys/pools/team/batch/USER-6"}`, "", with("boss")},
		{"rename", "set", `{path="//sys/pools/team/batch/deep/@name"}`, "deep", with("boss", "member")},
		{"move to another parent", "move", `{source_path="//sys/pools/team/batch/USER-5";destination_path="//sys/pools/other/USER-5"}`, "", powerful},
		{"transfer between pools", "transfer_pool_resources", `{pool_tree=default;source_pool=team;destination_pool=other;resource_delta={}}`, "", powerful},
		{"transfer inside", "transfer_pool_resources", `{pool_tree=default;source_pool=batch;destination_pool=team;resource_delta={}}`, "", with("boss")},
		{"configure the tree", "set", `{path="//sys/pool_trees/default/@config/x_note"}`, "1", powerful},
		{"choose the default tree", "set", `{path="//sys/pool_trees/@default_tree"}`, "default", powerful},
		{"create a tree", "create", `{type=scheduler_pool_tree;attributes={name=USER-tree}}`, "", powerful},
		{"configure the scheduler", "set", `{path="//sys/scheduler/config/x"}`, "1", powerful},
		{"ban a node", "create", `{type=cluster_node;path="//sys/cluster_nodes/USER:1";attributes={banned=%true}}`, "", powerful},
		{"ask for maintenance of a node", "add_maintenance", `{component=cluster_node;address="admin:1";type=ban;comment="by USER"}`, "", powerful},
		{"take a request for maintenance back", "remove_maintenance", `{component=cluster_node;address="admin:1";all=%true}`, "", powerful},
		{"create a user", "create", `{type=user;attributes={name=USER-user}}`, "", powerful},
		{"create a group", "create", `{type=group;attributes={name=USER-group}}`, "", powerful},
		{"join the administrators", "add_member", `{group=admins;member=USER}`, "", powerful},
		{"write to //tmp", "set", `{path="//tmp/USER"}`, "1", everyone},
		{"write to //sys", "set", `{path="//sys/USER"}`, "1", powerful},
		{"set the list of the root", "set", `{path="//@inherit_acl"}`, "%true", powerful},
		{"start a transaction", "start_transaction", `{}`, "", everyone},
		{"ask who one is", "get_current_user", `{}`, "", append(slices.Clone(everyone), "nobody")},
	}
	for _, user := range append(slices.Clone(everyone), "nobody") {
		for _, pool := range []string{user + "-5", user + "-6"} {
			parameters := fmt.Sprintf(`{type=scheduler_pool;attributes={name=%q;pool_tree=default;parent_name=batch}}`, pool)
			if a := c.as(tokens["root"], "create", parameters, ""); a.status != http.StatusOK {
				t.Fatal(a.body)
			}
		}
	}
	cells := 0
	for _, row := range matrix {
		t.Run(row.name, func(t *testing.T) {
			c.t = t
			for _, user := range append(slices.Clone(everyone), "nobody") {
				cells++
				fill := func(text string) string { return strings.ReplaceAll(text, "USER", user) }
				a := c.as(tokens[user], row.command, fill(row.parameters), row.data)
				allowed := slices.Contains(row.to, user)
				if allowed && row.name == "join the administrators" {
					continue // already a member: nothing to refuse
				}
				switch {
				case allowed && a.status != http.StatusOK:
					t.Errorf("%s may not: %s", user, a.body)
				case !allowed && a.status == http.StatusOK:
					t.Errorf("%s may: %s", user, a.body)
				case !allowed && !parseError(t, a).HasCode(auth.CodeAuthorization):
					t.Errorf("%s is refused for another reason: %s", user, a.body)
				}
				for name, token := range tokens {
					if token != "" && (strings.Contains(a.body, token) || strings.Contains(fmt.Sprint(a.header), token)) {
						t.Errorf("the token of %s is in an answer to %s", name, user)
					}
				}
			}
		})
	}
	if cells < 200 {
		t.Errorf("only %d cells of the matrix were checked", cells)
	}
}

func TestATokenClosesTheServer(t *testing.T) {
	t.Parallel()
	c := withPools(t, "a")
	token := c.give("root")
	open := c.as("", "set", `{path="//sys/pools/a/@weight"}`, "2")
	if e := parseError(t, open); !e.HasCode(auth.CodeAuthorization) {
		t.Error(open.body)
	}
	for _, wrong := range []string{token[:len(token)-1], "weir_x", strings.ToUpper(token)} {
		a := c.as(wrong, "get", `{path="//sys/pools"}`, "")
		e := parseError(t, a)
		if a.status != http.StatusUnauthorized || e.Code != auth.CodeAuthentication || strings.Contains(a.body, wrong) {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	if a := c.as(token, "set", `{path="//sys/pools/a/@weight"}`, "2"); a.status != http.StatusOK {
		t.Error(a.body)
	}
}

func TestPagesOfOtherSitesCannotActAsRoot(t *testing.T) {
	t.Parallel()
	c := withPools(t, "a")
	for name, header := range map[string]http.Header{
		"another origin":   {"Origin": {"https://evil.example"}},
		"across sites":     {"Sec-Fetch-Site": {"cross-site"}},
		"through a proxy":  {"X-Forwarded-For": {"10.0.0.1"}},
		"of the same site": {"Sec-Fetch-Site": {"same-site"}},
	} {
		a := c.send(http.MethodPost, "/api/v4/remove?path=//sys/pools/a", header, nil)
		if e := parseError(t, a); !e.HasCode(auth.CodeAuthorization) && !e.HasCode(auth.CodeAuthentication) {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	if got := c.get("//sys/pools"); got != `{"a"={};}` {
		t.Error(got)
	}
}

// abort_job and abandon_job accept GET, which a link or a picture in a page of any site can send.
func TestALinkInAPageCannotAbortAJob(t *testing.T) {
	t.Parallel()
	c := withPools(t, "a")
	c.withNodes(1)
	id := c.start(job("a", "sleep", 1))
	c.runs(id, 1)
	jobID := text(dug(c.node("list_jobs", fmt.Sprintf("{operation_id=%q}", id)), "jobs").Items()[0], "id")
	parameters := http.Header{"X-Yt-Parameters": {fmt.Sprintf(`{"job_id":%q}`, jobID)}}
	with := func(name, value string) http.Header {
		h := parameters.Clone()
		h.Set(name, value)
		return h
	}
	for _, command := range exceptions {
		path := "/api/v4/" + command
		for name, a := range map[string]answer{
			"a link":               c.send(http.MethodGet, path+"?job_id="+jobID, nil, nil),
			"an old browser":       c.send(http.MethodGet, path+"?job_id="+jobID, http.Header{"Referer": {"https://evil.example/"}}, nil),
			"another origin":       c.send(http.MethodGet, path, with("Origin", "https://evil.example"), nil),
			"across sites":         c.send(http.MethodGet, path, with("Sec-Fetch-Site", "cross-site"), nil),
			"through a proxy":      c.send(http.MethodGet, path, with("X-Forwarded-For", "10.0.0.1"), nil),
			"under a strange name": c.sendTo("evil.example", http.MethodGet, path, parameters),
		} {
			e := parseError(t, a)
			if !e.HasCode(auth.CodeAuthorization) && !e.HasCode(auth.CodeAuthentication) {
				t.Errorf("%s by %s: %d %s", command, name, a.status, a.body)
			}
		}
	}
	if state := text(c.node("get_job", fmt.Sprintf("{job_id=%q}", jobID)), "state"); state != "running" && state != "waiting" {
		t.Errorf("the job is %s", state)
	}
	if a := c.send(http.MethodGet, "/api/v4/abort_job", parameters, nil); a.status != http.StatusOK {
		t.Errorf("a client of YTsaurus is refused: %d %s", a.status, a.body)
	}
}

// sendTo sends a request under another name of the server.
func (c *cluster) sendTo(host, method, path string, header http.Header) answer {
	c.t.Helper()
	request, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	request.Host, request.Header = host, header
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(data)}
}

// A server that has not read its tokens yet does not know which are right: it asks everybody to come again.
func TestBeforeTheStateIsReadNobodyIsToldThatATokenIsWrong(t *testing.T) {
	t.Parallel()
	s := server.New(server.Options{Name: "new", Address: "here"})
	api := New(s, Options{Log: quiet, TrustLoopback: true})
	web := httptest.NewServer(api)
	defer web.Close()
	for _, token := range []string{"", auth.NewToken([32]byte{1}).Reveal(), "weir_nonsense"} {
		for _, path := range []string{"/api/v4/list?path=//sys", "/api/v4/list?path=//sys&read_from=cache", "/api/v4/get_current_user", "/auth/whoami"} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, web.URL+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if token != "" {
				request.Header.Set("Authorization", "OAuth "+token)
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" {
				t.Errorf("%s with token %q: %s", path, token, response.Status)
			}
			request.RequestURI, request.RemoteAddr = "", "127.0.0.1:1"
			if _, _, err := api.Identify(request); wire.AsError(err).Status != http.StatusServiceUnavailable {
				t.Errorf("a node with token %q: %v", token, err)
			}
		}
	}
}
