package app

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/control/api"
	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/node/nodeproto"
)

func TestNodesAreLetInByTokensOnceThereAreTokens(t *testing.T) {
	c := newCluster(t, 1, 1)
	s := c.scheduler.Server
	who := nodeTokens{api.New(s, api.Options{Log: slog.New(slog.DiscardHandler), TrustLoopback: true}).Identify}
	ask := func(token string, local bool) string {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Host = s.Address()
		if local {
			r.RemoteAddr = "127.0.0.1:1"
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		peer, err := who.Authenticate(t.Context(), nodeproto.Credentials{Token: token, Request: r})
		if errors.Is(err, nodeproto.ErrUnknownCredentials) {
			return "refused"
		}
		if err != nil {
			t.Fatal(err)
		}
		return peer.Node
	}
	if got := fmt.Sprint(ask("", true), " ", ask("", false)); got != nodeproto.AnyNode+" refused" {
		t.Errorf("without tokens, this machine trusted: %s", got)
	}
	trusting := who
	who = nodeTokens{api.New(s, api.Options{Log: slog.New(slog.DiscardHandler)}).Identify}
	if got := fmt.Sprint(ask("", true), " ", ask("", false)); got != "refused refused" {
		t.Errorf("without tokens: %s", got)
	}
	who = trusting
	for name, change := range map[string]func(*http.Request){
		"another origin":  func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") },
		"across sites":    func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"a strange name":  func(r *http.Request) { r.Host = "evil.example" },
		"through a proxy": func(r *http.Request) { r.Header.Set("X-Forwarded-For", "10.0.0.1") },
	} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Host, r.RemoteAddr = s.Address(), "127.0.0.1:1"
		change(r)
		if peer, err := who.Authenticate(t.Context(), nodeproto.Credentials{Request: r}); !errors.Is(err, nodeproto.ErrUnknownCredentials) {
			t.Errorf("%s is node %q, %v", name, peer.Node, err)
		}
	}
	tokens := map[string]auth.Token{}
	edit := func(*server.Registry) (*store.Batch, error) {
		b := &store.Batch{}
		for i, user := range []string{"root", "agent", "robot", "ann", "gone", "late", "bad"} {
			tokens[user] = auth.NewToken([32]byte{byte(i + 1)})
			row := store.Token{Hash: tokens[user].Hash().String(), User: user, Name: user, Created: time.Now()}
			switch user {
			case "gone":
				row.Revoked = time.Now()
			case "late":
				row.Expires = time.Now().Add(-time.Second)
			}
			b.Put.Tokens = append(b.Put.Tokens, row)
			b.Put.Users = append(b.Put.Users, store.User{Name: user})
		}
		b.Put.Users[len(b.Put.Users)-1].Document = []byte(`{"banned":true}`)
		b.Put.Groups = []store.Group{{Name: nodesGroup}, {Name: "robots"}}
		b.Put.Members = []store.Member{
			{Group: nodesGroup, Member: "agent"}, {Group: "robots", Member: "robot"}, {Group: nodesGroup, Member: "robots"},
			{Group: nodesGroup, Member: "late"}, {Group: nodesGroup, Member: "gone"}, {Group: nodesGroup, Member: "bad"},
		}
		return b, nil
	}
	insist(t, func() error { return s.EditRegistry(t.Context(), server.Caller{User: "root"}, edit) })
	for user, want := range map[string]string{
		"root": nodeproto.AnyNode, "agent": nodeproto.AnyNode, "robot": nodeproto.AnyNode,
		"ann": "refused", "gone": "refused", "late": "refused", "bad": "refused",
	} {
		if got := ask(tokens[user].Reveal(), false); got != want {
			t.Errorf("%s: %s", user, got)
		}
	}
	for _, wrong := range []string{"", "weir_nonsense", tokens["root"].Reveal() + "x"} {
		if got := ask(wrong, true); got != "refused" {
			t.Errorf("%q: %s", wrong, got)
		}
	}
}
