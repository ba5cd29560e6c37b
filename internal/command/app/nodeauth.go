package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/node/nodeproto"
)

// nodesGroup is the group whose members' tokens authenticate nodes.
const nodesGroup = "nodes"

// ownNodes authenticates the nodes of this process by a token that lives as long as the process and is stored nowhere.
type ownNodes struct{ token auth.TokenHash }

// Authenticate returns the node that a caller represents.
func (n ownNodes) Authenticate(_ context.Context, c nodeproto.Credentials) (nodeproto.Peer, error) {
	token, err := auth.ParseToken(c.Token)
	if err != nil || token.Hash() != n.token {
		return nodeproto.Peer{}, nodeproto.ErrUnknownCredentials
	}
	return nodeproto.Peer{Node: nodeproto.AnyNode}, nil
}

// newToken returns a random token.
func newToken() auth.Token {
	var random [32]byte
	_, _ = rand.Read(random[:]) // it never fails
	return auth.NewToken(random)
}

// nodeTokens authenticates nodes by the tokens of superusers and of users in the group nodes. Each such token is valid for
// any node. A node receives the jobs of all users, so no other user may act as one. As long as there are no tokens, every
// caller on this machine may.
type nodeTokens struct {
	// identify returns the user of the credentials and the user's groups.
	identify func(c auth.Credentials, now time.Time) (user string, groups []string, _ error)
}

// Authenticate returns the node that a caller represents.
func (n nodeTokens) Authenticate(_ context.Context, c nodeproto.Credentials) (nodeproto.Peer, error) {
	shown := auth.Credentials{Loopback: c.Local}
	if c.Token != "" {
		shown.Authorization = "OAuth " + c.Token
	}
	user, groups, err := n.identify(shown, time.Now())
	var refused *auth.Unauthenticated
	switch {
	case errors.As(err, &refused):
		return nodeproto.Peer{}, fmt.Errorf("%w: %w", nodeproto.ErrUnknownCredentials, err)
	case err != nil:
		return nodeproto.Peer{}, err
	}
	if !slices.Contains(groups, nodesGroup) && !slices.Contains(groups, auth.Superusers) {
		return nodeproto.Peer{}, fmt.Errorf("%w: user %q is not in the group %q", nodeproto.ErrUnknownCredentials, user, nodesGroup)
	}
	return nodeproto.Peer{Node: nodeproto.AnyNode}, nil
}
