package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/gate"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
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
	// identify returns the user who makes a request and the user's groups.
	identify func(*http.Request) (user string, groups []string, _ error)
}

// Authenticate returns the node that a caller represents.
func (n nodeTokens) Authenticate(_ context.Context, c nodeproto.Credentials) (nodeproto.Peer, error) {
	user, groups, err := n.identify(c.Request)
	if err != nil {
		if wire.AsError(err).Status == http.StatusServiceUnavailable {
			return nodeproto.Peer{}, err
		}
		return nodeproto.Peer{}, fmt.Errorf("%w: %w", nodeproto.ErrUnknownCredentials, err)
	}
	if !slices.Contains(groups, nodesGroup) && !slices.Contains(groups, auth.Superusers) {
		return nodeproto.Peer{}, fmt.Errorf("%w: user %q is not in the group %q", nodeproto.ErrUnknownCredentials, user, nodesGroup)
	}
	return nodeproto.Peer{Node: nodeproto.AnyNode}, nil
}

// nodeRetry is the delay after which a node retries if there was no room for its message.
const nodeRetry = time.Second

// nodeIntake charges messages of nodes to a budget. Nodes that share a token are distinguished by
// their addresses.
func nodeIntake(budget *gate.Budget) nodeproto.Intake {
	return func(peer nodeproto.Peer, r *http.Request) (io.ReadCloser, func()) {
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		if err != nil {
			host = r.RemoteAddr
		}
		account := budget.Open(peer.Node+" at "+host, 0)
		return nodeBody{account.Body(r.Body)}, account.Close
	}
}

// nodeBody converts refusals to errors of the protocol.
type nodeBody struct{ io.ReadCloser }

func (b nodeBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	var full *gate.Full
	if errors.As(err, &full) {
		err = &nodeproto.RefusedError{Reason: nodev1.RefusalReason_REFUSAL_REASON_OVERLOAD, Message: full.Error(), RetryAfter: nodeRetry}
	}
	return n, err
}
