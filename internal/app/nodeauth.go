package app

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/weirhq/weir/internal/auth"
	"github.com/weirhq/weir/internal/nodeproto"
	"github.com/weirhq/weir/internal/server"
	"github.com/weirhq/weir/internal/store"
)

// nodesGroup is the group whose members' tokens speak for any node.
const nodesGroup = "nodes"

// ownNodes lets the nodes of this very process in, by a token that lives as long
// as the process and is kept nowhere.
type ownNodes struct{ token auth.TokenHash }

// Authenticate says which node a caller speaks for.
func (n ownNodes) Authenticate(_ context.Context, c nodeproto.Credentials) (nodeproto.Peer, error) {
	token, err := auth.ParseToken(c.Token)
	if err != nil || token.Hash() != n.token {
		return nodeproto.Peer{}, nodeproto.ErrUnknownCredentials
	}
	return nodeproto.Peer{Node: nodeproto.AnyNode}, nil
}

// newToken makes a token at random.
func newToken() auth.Token {
	var random [32]byte
	_, _ = rand.Read(random[:]) // it never fails
	return auth.NewToken(random)
}

// nodeTokens lets nodes in by tokens: the token of a user speaks for the node of
// that name, those of members of the group nodes, and of root, for any node. As
// long as there are no tokens at all, everybody on this machine does.
type nodeTokens struct{ registry *server.Registry }

// Authenticate says which node a caller speaks for.
func (n nodeTokens) Authenticate(_ context.Context, c nodeproto.Credentials) (nodeproto.Peer, error) {
	if !n.registry.HasTokens() {
		if c.Local {
			return nodeproto.Peer{Node: nodeproto.AnyNode}, nil
		}
		return nodeproto.Peer{}, nodeproto.ErrUnknownCredentials
	}
	token, err := auth.ParseToken(c.Token)
	if err != nil {
		return nodeproto.Peer{}, nodeproto.ErrUnknownCredentials
	}
	row, known := n.registry.Token(token.Hash().String())
	now := time.Now()
	if !known || !row.Revoked.IsZero() || !row.Expires.IsZero() && now.After(row.Expires) {
		return nodeproto.Peer{}, nodeproto.ErrUnknownCredentials
	}
	if row.User == "root" || n.isNode(row.User) {
		return nodeproto.Peer{Node: nodeproto.AnyNode}, nil
	}
	return nodeproto.Peer{Node: row.User}, nil
}

func (n nodeTokens) isNode(user string) bool {
	for _, m := range n.registry.Members() {
		if m == (store.Member{Group: nodesGroup, Member: user}) {
			return true
		}
	}
	return false
}
