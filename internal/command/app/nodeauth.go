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

// nodesGroup is the group whose members' tokens speak for nodes.
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

// nodeTokens lets nodes in by the tokens of users in the group nodes and of superusers, for any node: whoever speaks for a
// node is given the jobs of others, so that no other user may. As long as there are no tokens at all, everybody on this
// machine does.
type nodeTokens struct {
	// identify says who shows credentials and which groups he is in.
	identify func(c auth.Credentials, now time.Time) (user string, groups []string, _ error)
}

// Authenticate says which node a caller speaks for.
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
