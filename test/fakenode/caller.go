package fakenode

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
)

// Caller calls the scheduler; *nodeproto.Client is one.
type Caller interface {
	Register(ctx context.Context, request *nodev1.RegisterRequest) (*nodev1.RegisterResponse, error)
	Heartbeat(ctx context.Context, request *nodev1.HeartbeatRequest) (*nodev1.HeartbeatResponse, error)
	Upload(ctx context.Context, request *nodev1.UploadRequest) (*nodev1.UploadResponse, error)
	FetchContent(ctx context.Context, request *nodev1.FetchContentRequest) (*nodev1.FetchContentResponse, error)
	UploadArtifacts(ctx context.Context, request *nodev1.UploadArtifactsRequest) (*nodev1.UploadArtifactsResponse, error)
}

// Direct returns a caller without a network. It encodes and decodes messages, and errors keep their
// type, but nothing blocks outside the program, so it works in a bubble of package synctest.
func Direct(service nodeproto.Service) Caller { return direct{service} }

type direct struct{ service nodeproto.Service }

var anyPeer = nodeproto.Peer{Node: nodeproto.AnyNode}

func (d direct) Register(ctx context.Context, request *nodev1.RegisterRequest) (*nodev1.RegisterResponse, error) {
	return through(ctx, request, d.service.Register)
}

func (d direct) Heartbeat(ctx context.Context, request *nodev1.HeartbeatRequest) (*nodev1.HeartbeatResponse, error) {
	return through(ctx, request, d.service.Heartbeat)
}

func (d direct) Upload(ctx context.Context, request *nodev1.UploadRequest) (*nodev1.UploadResponse, error) {
	return through(ctx, request, d.service.Upload)
}

func (d direct) FetchContent(ctx context.Context, request *nodev1.FetchContentRequest) (*nodev1.FetchContentResponse, error) {
	return through(ctx, request, d.service.FetchContent)
}

func (d direct) UploadArtifacts(ctx context.Context, request *nodev1.UploadArtifactsRequest) (*nodev1.UploadArtifactsResponse, error) {
	return through(ctx, request, d.service.UploadArtifacts)
}

// through calls do with copies of the messages, as a network would.
func through[Q, R proto.Message](ctx context.Context, request Q, do func(context.Context, nodeproto.Peer, Q) (R, error)) (R, error) {
	var none R
	sent, err := copied(request)
	if err != nil {
		return none, err
	}
	response, err := do(ctx, anyPeer, sent)
	if err != nil {
		return none, nodeproto.FromConnect(nodeproto.ToConnect(err))
	}
	return copied(response)
}

func copied[M proto.Message](message M) (M, error) {
	out := message.ProtoReflect().New().Interface().(M)
	data, err := proto.Marshal(message)
	if err != nil {
		return out, err
	}
	return out, proto.Unmarshal(data, out)
}
