package app

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/auth"
	"github.com/weirhq/weir/internal/nodeproto"
	"github.com/weirhq/weir/internal/server"
	"github.com/weirhq/weir/internal/store"
)

func TestNodesAreLetInByTokensOnceThereAreTokens(t *testing.T) {
	c := newCluster(t, 1, 1)
	s := c.scheduler.Server
	who := nodeTokens{s.Registry()}
	ask := func(token string, local bool) string {
		peer, err := who.Authenticate(t.Context(), nodeproto.Credentials{Token: token, Local: local})
		if errors.Is(err, nodeproto.ErrUnknownCredentials) {
			return "refused"
		}
		if err != nil {
			t.Fatal(err)
		}
		return peer.Node
	}
	if got := fmt.Sprint(ask("", true), " ", ask("", false)); got != nodeproto.AnyNode+" refused" {
		t.Errorf("without tokens: %s", got)
	}
	tokens := map[string]auth.Token{}
	err := s.EditRegistry(t.Context(), server.Caller{User: "root"}, func(*server.Registry) (*store.Batch, error) {
		b := &store.Batch{}
		for i, user := range []string{"root", "agent", "node-7", "gone", "late"} {
			tokens[user] = auth.NewToken([32]byte{byte(i + 1)})
			row := store.Token{Hash: tokens[user].Hash().String(), User: user, Name: user, Created: time.Now()}
			switch user {
			case "gone":
				row.Revoked = time.Now()
			case "late":
				row.Expires = time.Now().Add(-time.Second)
			}
			b.Put.Tokens = append(b.Put.Tokens, row)
		}
		b.Put.Members = []store.Member{{Group: nodesGroup, Member: "agent"}}
		return b, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for user, want := range map[string]string{
		"root": nodeproto.AnyNode, "agent": nodeproto.AnyNode, "node-7": "node-7", "gone": "refused", "late": "refused",
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
