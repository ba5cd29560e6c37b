package app

import (
	"context"
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

// nodeTokens authenticates nodes by the tokens of superusers and of users in the group nodes. Each such token is valid for
// any node. A node receives the jobs of all users, so no other user may act as one. A node on the scheduler's machine that runs
// as root or as the scheduler's user needs no token: it uses the scheduler's socket.
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
		if r.URL.Path == nodev1.NodeServiceStreamProcedure { // its frames are small, and it lives as long as somebody uses it
			gate.Unpaced(r)
			return r.Body, func() {}
		}
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
