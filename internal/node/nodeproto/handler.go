package nodeproto

import (
	"context"
	"errors"
	"io"
	"net/http"

	"connectrpc.com/connect"

	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
)

// Service is the scheduler as its nodes see it. Calls are concurrent, even several from one
// node. The peer has been authenticated and may speak for the node that the request names.
// Errors of this package are sent with their details.
type Service interface {
	Register(ctx context.Context, peer Peer, request *nodev1.RegisterRequest) (*nodev1.RegisterResponse, error)
	Heartbeat(ctx context.Context, peer Peer, request *nodev1.HeartbeatRequest) (*nodev1.HeartbeatResponse, error)
	Upload(ctx context.Context, peer Peer, request *nodev1.UploadRequest) (*nodev1.UploadResponse, error)
	// Stream serves a live connection until it ends. first is the first frame, which the stream does not repeat.
	Stream(ctx context.Context, peer Peer, first *nodev1.NodeFrame, stream SchedulerStream) error
	FetchContent(ctx context.Context, peer Peer, request *nodev1.FetchContentRequest) (*nodev1.FetchContentResponse, error)
	UploadArtifacts(ctx context.Context, peer Peer, request *nodev1.UploadArtifactsRequest) (*nodev1.UploadArtifactsResponse, error)
}

// NoFiles is the part of a Service that has no files.
type NoFiles struct{}

// FetchContent refuses.
func (NoFiles) FetchContent(context.Context, Peer, *nodev1.FetchContentRequest) (*nodev1.FetchContentResponse, error) {
	return nil, invalidf("there are no files")
}

// UploadArtifacts refuses.
func (NoFiles) UploadArtifacts(context.Context, Peer, *nodev1.UploadArtifactsRequest) (*nodev1.UploadArtifactsResponse, error) {
	return nil, invalidf("there are no files")
}

// MaxMessageSize bounds a message in both directions, so that a broken peer cannot exhaust
// memory. A full report of 10,000 jobs is about 3 MB.
const MaxMessageSize = 64 << 20

// Intake accounts for the memory that the message of a request uses. It returns the body to read
// instead, which fails with a *RefusedError if there is no room, and a function to call when the
// message is no longer needed.
type Intake func(peer Peer, r *http.Request) (body io.ReadCloser, done func())

// Unmetered accounts for nothing. It is for tests.
func Unmetered(_ Peer, r *http.Request) (body io.ReadCloser, done func()) { return r.Body, func() {} }

// metered reads messages through an intake. It refuses compressed requests, whose size is known too
// late.
func metered(intake Intake, next http.Handler) http.Handler {
	refuse := connect.NewErrorWriter()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"Content-Encoding", "Grpc-Encoding", "Connect-Content-Encoding"} {
			if encoding := r.Header.Get(name); encoding != "" && encoding != "identity" {
				// If this cannot be written, the client is gone.
				_ = refuse.Write(w, r, connect.NewError(connect.CodeUnimplemented, errors.New("requests of nodes are not compressed")))
				return
			}
		}
		peer, _ := r.Context().Value(peerKey{}).(Peer)
		body, done := intake(peer, r)
		defer done()
		r.Body = refusingBody{body}
		next.ServeHTTP(w, r)
	})
}

// refusingBody converts refusals to wire errors, which the handler sends unchanged.
type refusingBody struct{ io.ReadCloser }

func (b refusingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	return n, ToConnect(err)
}

// NewHandler serves the protocol. The path is the prefix to mount the handler under. The handler
// reads a message only after it has authenticated the caller.
func NewHandler(service Service, auth Authenticator, intake Intake) (path string, handler http.Handler) {
	path, handler = nodev1.NewNodeServiceHandler(endpoint{service},
		connect.WithConditionalHandlerOptions(func(spec connect.Spec) []connect.HandlerOption {
			most := MaxMessageSize
			if spec.Procedure == nodev1.NodeServiceStreamProcedure {
				most = MaxFrameSize
			}
			return []connect.HandlerOption{connect.WithReadMaxBytes(most), connect.WithSendMaxBytes(most)}
		}),
		connect.WithCompressMinBytes(32<<10))
	return path, authenticated(auth, metered(intake, handler))
}

// Protocols are the HTTP versions that a server or a client of this protocol speaks: HTTP/2
// over TLS, and in clear text where there is no TLS. HTTP/1.1 stays for load balancers' checks.
func Protocols() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetHTTP2(true)
	p.SetUnencryptedHTTP2(true)
	return p
}

// endpoint checks that the caller may speak for the node and converts errors for the wire.
type endpoint struct{ service Service }

// speaker returns the caller if it may speak for the node.
func speaker(ctx context.Context, node string) (Peer, error) {
	peer, _ := ctx.Value(peerKey{}).(Peer)
	if node == "" {
		return peer, ToConnect(invalidf("the request names no node"))
	}
	if !peer.Speaks(node) {
		return peer, ToConnect(refusef(nodev1.RefusalReason_REFUSAL_REASON_WRONG_NAME,
			"the credentials are those of %q, the request is of %q", peer.Node, node))
	}
	return peer, nil
}

func (e endpoint) Register(ctx context.Context, request *nodev1.RegisterRequest) (*nodev1.RegisterResponse, error) {
	peer, err := speaker(ctx, request.GetNode().GetName())
	if err != nil {
		return nil, err
	}
	response, err := e.service.Register(ctx, peer, request)
	return response, ToConnect(err)
}

func (e endpoint) Heartbeat(ctx context.Context, request *nodev1.HeartbeatRequest) (*nodev1.HeartbeatResponse, error) {
	peer, err := speaker(ctx, request.GetNodeName())
	if err != nil {
		return nil, err
	}
	response, err := e.service.Heartbeat(ctx, peer, request)
	return response, ToConnect(err)
}

func (e endpoint) Upload(ctx context.Context, request *nodev1.UploadRequest) (*nodev1.UploadResponse, error) {
	peer, err := speaker(ctx, request.GetNodeName())
	if err != nil {
		return nil, err
	}
	response, err := e.service.Upload(ctx, peer, request)
	return response, ToConnect(err)
}

func (e endpoint) Stream(ctx context.Context, stream *connect.BidiStream[nodev1.NodeFrame, nodev1.SchedulerFrame]) error {
	first, err := stream.Receive()
	if err != nil {
		return err
	}
	peer, err := speaker(ctx, first.GetNodeName())
	if err != nil {
		return err
	}
	return ToConnect(e.service.Stream(ctx, peer, first, stream))
}

func (e endpoint) FetchContent(ctx context.Context, request *nodev1.FetchContentRequest) (*nodev1.FetchContentResponse, error) {
	peer, err := speaker(ctx, request.GetNodeName())
	if err != nil {
		return nil, err
	}
	response, err := e.service.FetchContent(ctx, peer, request)
	return response, ToConnect(err)
}

func (e endpoint) UploadArtifacts(ctx context.Context, request *nodev1.UploadArtifactsRequest) (*nodev1.UploadArtifactsResponse, error) {
	peer, err := speaker(ctx, request.GetNodeName())
	if err != nil {
		return nil, err
	}
	response, err := e.service.UploadArtifacts(ctx, peer, request)
	return response, ToConnect(err)
}
