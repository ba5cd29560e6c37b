package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/control/auth"
)

// attempt is a command that somebody tries.
type attempt struct{ command, parameters, data string }

// tries sends attempts with a token. All must be refused, for want of permission or because such a thing cannot be
// done at all, and none may end in an error of the server.
func (c *cluster) tries(token string, header http.Header, attempts ...attempt) {
	c.t.Helper()
	for _, a := range attempts {
		h := http.Header{
			"X-Yt-Header-Format": {"<format=text>yson"}, "X-Yt-Parameters": {a.parameters}, "X-Yt-Input-Format": {"<format=text>yson"},
			"Authorization": {"OAuth " + token},
		}
		for name, values := range header {
			h[name] = values
		}
		got := c.send(http.MethodPut, "/api/v4/"+a.command, h, []byte(a.data))
		if got.status == http.StatusOK || got.status >= 500 {
			c.t.Errorf("%s %s %s: %d %s", a.command, a.parameters, a.data, got.status, got.body)
		}
	}
}

// membersOf are the members of a group, as the superuser reads them.
func (c *cluster) membersOf(token, group string) string {
	c.t.Helper()
	return c.mustAs(token, "get", fmt.Sprintf("{path=%q;return_only_value=%%true}", "//sys/groups/"+group+"/@members"), "")
}

// conspiracy has a user with a token for each of names, of whom admin is an administrator and agent a node. It
// returns the tokens; "root" is there too.
func conspiracy(t *testing.T, names ...string) (*cluster, map[string]string) {
	c := withPools(t, "p")
	c.set("//sys/pool_trees/@default_tree", "default")
	for _, name := range append([]string{"victim"}, names...) {
		c.must("create", fmt.Sprintf("{type=user;attributes={name=%s}}", name), "")
	}
	for _, group := range []string{"inner", "nodes"} {
		c.must("create", fmt.Sprintf("{type=group;attributes={name=%s}}", group), "")
	}
	c.must("add_member", "{group=superusers;member=inner}", "")
	tokens := map[string]string{}
	for _, name := range names {
		switch name {
		case "admin":
			c.must("add_member", "{group=admins;member=admin}", "")
		case "agent":
			c.must("add_member", "{group=nodes;member=agent}", "")
		}
	}
	for _, name := range append([]string{"root", "victim"}, names...) {
		tokens[name] = c.give(name)
	}
	return c, tokens
}

func TestAnAdministratorCannotBecomeASuperuser(t *testing.T) {
	t.Parallel()
	c, tokens := conspiracy(t, "admin")
	before := c.membersOf(tokens["root"], "superusers")
	c.tries(tokens["admin"], nil,
		attempt{"add_member", "{group=superusers;member=admin}", ""},
		attempt{"add_member", "{group=superusers;member=admins}", ""},
		attempt{"add_member", "{group=inner;member=admin}", ""}, // which is in superusers
		attempt{"remove_member", "{group=superusers;member=inner}", ""},
		attempt{"remove_member", "{group=superusers;member=root}", ""},
		attempt{"set", `{path="//sys/groups/superusers/@members"}`, "[admin]"},
		attempt{"set", `{path="//sys/users/admin/@member_of"}`, "[superusers]"},
		attempt{"set", fmt.Sprintf(`{path="//sys/users/%s/@banned"}`, auth.Root), "%true"},
		attempt{"remove", `{path="//sys/users/root"}`, ""},
		attempt{"remove", `{path="//sys/groups/inner"}`, ""},
		attempt{"create", "{type=user;attributes={name=root}}", ""},
		attempt{"create", "{type=group;attributes={name=superusers}}", ""},
		attempt{"create", "{type=user;attributes={name=double;member_of=[superusers]}}", ""},
		attempt{"issue_token", "{user=root}", ""},
		attempt{"list_user_tokens", "{user=root}", ""},
		attempt{"revoke_token", fmt.Sprintf("{token_sha256=%q}", hashOf(tokens["root"])), ""},
	)
	c.tries(tokens["admin"], http.Header{"X-Yt-User-Name": {"root"}}, attempt{"get", `{path="//sys"}`, ""})
	if after := c.membersOf(tokens["root"], "superusers"); after != before {
		t.Errorf("superusers were %s and are %s", before, after)
	}
	if a := c.as(tokens["root"], "get", `{path="//sys"}`, ""); a.status != http.StatusOK {
		t.Errorf("root is locked out: %d %s", a.status, a.body)
	}
	// A superuser may.
	c.mustAs(tokens["root"], "add_member", "{group=superusers;member=admin}", "")
}

// A user, and so somebody who has stolen a user's token, gets no power over others. The token of a node is no more
// than that of any user.
func TestAUserCannotGetPowerOverOthers(t *testing.T) {
	t.Parallel()
	c, tokens := conspiracy(t, "mallory", "agent")
	victim := *c
	victim.headers = http.Header{"Authorization": {"OAuth " + tokens["victim"]}}
	operation := victim.start(job("p", "sleep", 1))
	c.mustAs(tokens["victim"], "create", `{type=document;path="//tmp/own";attributes={value=1}}`, "")
	c.mustAs(tokens["root"], "set", `{path="//tmp/own/@acl"}`, "[{action=allow;subjects=[victim];permissions=[read;write;remove;administer]}]")
	c.mustAs(tokens["root"], "set", `{path="//tmp/own/@inherit_acl"}`, "%false")
	for _, name := range []string{"mallory", "agent"} {
		c.mustAs(tokens[name], "link", fmt.Sprintf(`{target_path="//sys/pools";link_path="//tmp/to-pools-%s"}`, name), "")
		c.mustAs(tokens[name], "link", fmt.Sprintf(`{target_path="//tmp/own";link_path="//tmp/to-own-%s"}`, name), "")
		c.tries(tokens[name], nil,
			attempt{"add_member", "{group=admins;member=" + name + "}", ""},
			attempt{"add_member", "{group=superusers;member=" + name + "}", ""},
			attempt{"add_member", "{group=nodes;member=" + name + "}", ""},
			attempt{"create", "{type=user;attributes={name=puppet}}", ""},
			attempt{"set", `{path="//sys/users/victim/@banned"}`, "%true"},
			attempt{"remove", `{path="//sys/users/victim"}`, ""},
			attempt{"issue_token", "{user=victim}", ""},
			attempt{"list_user_tokens", "{user=victim}", ""},
			attempt{"revoke_token", fmt.Sprintf("{token_sha256=%q}", hashOf(tokens["victim"])), ""},
			attempt{"set", `{path="//sys/@acl"}`, "[]"},
			attempt{"set", `{path="//sys/pools/p/@acl"}`, "[]"},
			attempt{"set", `{path="//sys/scheduler/config"}`, "{}"},
			attempt{"set", fmt.Sprintf(`{path="//tmp/to-pools-%s/p/@weight"}`, name), "100"},
			attempt{"remove", fmt.Sprintf(`{path="//tmp/to-pools-%s/p"}`, name), ""},
			attempt{"get", fmt.Sprintf(`{path="//tmp/to-own-%s"}`, name), ""},
			attempt{"set", fmt.Sprintf(`{path="//tmp/to-own-%s"}`, name), "2"},
			attempt{"copy", fmt.Sprintf(`{source_path="//tmp/own";destination_path="//tmp/copy-%s"}`, name), ""},
			attempt{"move", fmt.Sprintf(`{source_path="//tmp/own";destination_path="//tmp/moved-%s"}`, name), ""},
			attempt{"abort_operation", fmt.Sprintf("{operation_id=%q}", operation), ""},
			attempt{"update_operation_parameters", fmt.Sprintf("{operation_id=%q;parameters={acl=[{action=allow;subjects=[%s];permissions=[read;manage]}]}}", operation, name), ""},
			attempt{"backup", "{}", ""},
			attempt{"add_maintenance", `{component=cluster_node;address=n;type=ban;comment=x}`, ""},
		)
		for _, other := range []string{"root", "victim"} {
			c.tries(tokens[name], http.Header{"X-Yt-User-Name": {other}}, attempt{"get", `{path="//sys"}`, ""})
		}
	}
	if got := c.mustAs(tokens["victim"], "get", `{path="//tmp/own";return_only_value=%true}`, ""); got != "1" {
		t.Errorf("the document of another user is %s", got)
	}
	spec := c.as(tokens["mallory"], "get_operation", fmt.Sprintf("{operation_id=%q;attributes=[spec]}", operation), "")
	if strings.Contains(spec.body, "sleep") {
		t.Errorf("the specification of another user is told: %s", spec.body)
	}
}

// A batch is no way around permissions: each command in it needs what it needs alone.
func TestABatchNeedsWhatItsCommandsNeed(t *testing.T) {
	t.Parallel()
	c, tokens := conspiracy(t, "mallory", "admin")
	for name, forbidden := range map[string]string{
		"mallory": "{command=add_member;parameters={group=admins;member=mallory}};{command=set;parameters={path=\"//sys/pools/p/@weight\"};input=100};{command=issue_token;parameters={user=victim}}",
		"admin":   "{command=add_member;parameters={group=superusers;member=admin}};{command=issue_token;parameters={user=root}}",
	} {
		a := c.as(tokens[name], "execute_batch", "{requests=["+forbidden+"]}", "")
		if want := strings.Count(forbidden, "command="); a.status != http.StatusOK || strings.Count(a.body, `"error"=`) != want {
			t.Errorf("%s: want %d errors in %d %s", name, want, a.status, a.body)
		}
	}
}

// Who repeats the request of another user does not get the answer to it.
func TestTheAnswerToAnotherUserIsNotRepeated(t *testing.T) {
	t.Parallel()
	c, tokens := conspiracy(t, "mallory")
	first := textOf(t, c.mustAs(tokens["victim"], "issue_token", `{mutation_id="7-7-7-7"}`, ""))
	second := textOf(t, c.mustAs(tokens["mallory"], "issue_token", `{mutation_id="7-7-7-7";retry=%true}`, ""))
	if first == second {
		t.Fatal("the token of another user was told again")
	}
	if got := c.mustAs(second, "get_current_user", "{}", ""); !strings.Contains(got, "mallory") {
		t.Errorf("the token is of %s", got)
	}
}

// A token that is revoked, and one whose user is banned or removed, is refused from the next request on.
func TestAStolenTokenIsCutOffAtOnce(t *testing.T) {
	t.Parallel()
	c, tokens := conspiracy(t, "ann", "bob", "cid")
	for name, step := range map[string]attempt{
		"ann": {"revoke_token", fmt.Sprintf("{token_sha256=%q}", hashOf(tokens["ann"])), ""},
		"bob": {"set", `{path="//sys/users/bob/@banned"}`, "%true"},
		"cid": {"remove", `{path="//sys/users/cid"}`, ""},
	} {
		if a := c.as(tokens[name], "get", `{path="//sys"}`, ""); a.status != http.StatusOK {
			t.Fatalf("%s: %d %s", name, a.status, a.body)
		}
		c.mustAs(tokens["root"], step.command, step.parameters, step.data)
		a := c.as(tokens[name], "get", `{path="//sys"}`, "")
		e := parseError(t, a)
		if a.status == http.StatusOK || !e.HasCode(auth.CodeAuthentication) && !e.HasCode(auth.CodeAuthorization) && !e.HasCode(auth.CodeNoSuchUser) {
			t.Errorf("%s after %s: %d %s", name, step.command, a.status, a.body)
		}
	}
}

// No page of another site reads an answer, or gets leave to send what a simple request cannot.
func TestOtherSitesGetNoLeave(t *testing.T) {
	t.Parallel()
	c, tokens := conspiracy(t)
	for _, method := range []string{http.MethodOptions, http.MethodGet, http.MethodPost} {
		for _, path := range []string{"/api/v4/get?path=//sys", "/api/v4", "/auth/whoami", "/hosts"} {
			a := c.send(method, path, http.Header{
				"Origin": {"https://evil.example"}, "Access-Control-Request-Method": {"POST"}, "Access-Control-Request-Headers": {"authorization"},
				"Authorization": {"OAuth " + tokens["root"]},
			}, nil)
			for name := range a.header {
				if strings.HasPrefix(name, "Access-Control-") {
					t.Errorf("%s %s: %s: %s", method, path, name, a.header.Get(name))
				}
			}
		}
	}
}

// Who acts as another user is named in the audit beside that user.
func TestTheAuditNamesWhoActsAsAnother(t *testing.T) {
	t.Parallel()
	c, tokens := conspiracy(t, "admin")
	as := http.Header{"Authorization": {"OAuth " + tokens["admin"]}, "X-Yt-User-Name": {"victim"}}
	if a := c.send(http.MethodPut, "/api/v4/set?path=//tmp/note", as, []byte("1")); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	audit := c.mustAs(tokens["root"], "list_audit", `{object="//tmp/note"}`, "")
	if !strings.Contains(audit, `"user"="admin (as victim)"`) {
		t.Error(audit)
	}
}
