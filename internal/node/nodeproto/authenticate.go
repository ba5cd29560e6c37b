package nodeproto

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"connectrpc.com/connect"

	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
)

// Credentials are what a caller has presented.
type Credentials struct {
	// Token is the bearer token, empty if there is none.
	Token string
	// Certificate is the client's certificate, nil if there is none. The TLS handshake has
	// verified it against the authorities that the server trusts for clients.
	Certificate *x509.Certificate
	// Request is the request that presents them, for authenticators that also judge where it came from.
	// Its body has not been read.
	Request *http.Request
}

// Peer is the identity of a caller.
type Peer struct {
	// Node is the name of the node whose credentials these are. AnyNode may speak for every
	// node.
	Node string
}

// AnyNode is the name of a peer that may speak for every node: a caller with a cluster-wide token.
const AnyNode = "*"

// Speaks reports whether the peer may speak for the node.
func (p Peer) Speaks(node string) bool { return p.Node == AnyNode || p.Node == node }

// Authenticator identifies callers. It must compare secrets in constant time. It must be safe for
// concurrent use.
type Authenticator interface {
	// Authenticate returns the owner of the credentials, ErrUnknownCredentials if there is none, and
	// another error if it cannot decide.
	Authenticate(ctx context.Context, credentials Credentials) (Peer, error)
}

// ErrUnknownCredentials is returned for credentials without an owner.
var ErrUnknownCredentials = errors.New("the token or certificate is not known")

// Insecure accepts every caller as any node. It is for tests and for one machine.
type Insecure struct{}

// Authenticate accepts every caller.
func (Insecure) Authenticate(context.Context, Credentials) (Peer, error) {
	return Peer{Node: AnyNode}, nil
}

// Tokens is a fixed set of tokens. Only their hashes are kept.
type Tokens struct{ entries []tokenEntry }

type tokenEntry struct {
	hash [sha256.Size]byte
	node string
}

// Add adds a token of a node, or of AnyNode. It refuses an empty token.
func (t *Tokens) Add(token, node string) error {
	if token == "" || node == "" {
		return errors.New("a token of a node needs a text and a name")
	}
	t.entries = append(t.entries, tokenEntry{hash: sha256.Sum256([]byte(token)), node: node})
	return nil
}

// Authenticate compares the token with all known tokens; its running time reveals only their number.
func (t *Tokens) Authenticate(_ context.Context, credentials Credentials) (Peer, error) {
	hash := sha256.Sum256([]byte(credentials.Token))
	found := -1
	for i := range t.entries {
		equal := subtle.ConstantTimeCompare(hash[:], t.entries[i].hash[:])
		found = subtle.ConstantTimeSelect(equal, i, found)
	}
	if found < 0 || credentials.Token == "" {
		return Peer{}, ErrUnknownCredentials
	}
	return Peer{Node: t.entries[found].node}, nil
}

// Certificates uses the common name of a client's certificate as the name of the node.
type Certificates struct{}

// Authenticate returns the name in the certificate.
func (Certificates) Authenticate(_ context.Context, credentials Credentials) (Peer, error) {
	if credentials.Certificate == nil || credentials.Certificate.Subject.CommonName == "" {
		return Peer{}, ErrUnknownCredentials
	}
	name := credentials.Certificate.Subject.CommonName
	if name == AnyNode {
		return Peer{}, fmt.Errorf("a certificate cannot be one of %q", AnyNode)
	}
	return Peer{Node: name}, nil
}

// EitherOf tries authenticators in turn until one knows the caller.
type EitherOf []Authenticator

// Authenticate returns the first answer other than ErrUnknownCredentials, or the answer of the last
// authenticator.
func (e EitherOf) Authenticate(ctx context.Context, credentials Credentials) (peer Peer, err error) {
	err = ErrUnknownCredentials
	for _, authenticator := range e {
		if peer, err = authenticator.Authenticate(ctx, credentials); !errors.Is(err, ErrUnknownCredentials) {
			break
		}
	}
	return peer, err
}

type peerKey struct{}

// authenticated passes only known callers on to next, with their identity.
func authenticated(auth Authenticator, next http.Handler) http.Handler {
	refuse := connect.NewErrorWriter()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		credentials := Credentials{Token: bearer(r.Header.Get("Authorization")), Request: r}
		if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
			credentials.Certificate = r.TLS.PeerCertificates[0]
		}
		peer, err := auth.Authenticate(r.Context(), credentials)
		switch {
		case errors.Is(err, ErrUnknownCredentials):
			err = ToConnect(refusef(nodev1.RefusalReason_REFUSAL_REASON_UNKNOWN_TOKEN, "%v", err))
		case err != nil:
			err = connect.NewError(connect.CodeUnavailable, fmt.Errorf("authentication: %w", err))
		default:
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), peerKey{}, peer)))
			return
		}
		// If this cannot be written, the client is gone.
		_ = refuse.Write(w, r, err)
	})
}

// bearer returns the token of an Authorization header, empty if it is of another kind.
func bearer(header string) string {
	scheme, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}
