package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/weirhq/weir/internal/control/blob"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/checksum"
)

// Limits on contents that nodes fetch.
const (
	maxFetchPiece = 4 << 20
	// maxFetches is how many pieces are in memory at a time.
	maxFetches = 16
)

func refuseNode(reason nodev1.RefusalReason, format string, args ...any) error {
	return &nodeproto.RefusedError{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// FetchContent returns a piece of a file that a job of the node needs. A node gets only contents that the specifications of
// its jobs name.
func (s nodeService) FetchContent(ctx context.Context, _ nodeproto.Peer, request *nodev1.FetchContentRequest) (*nodev1.FetchContentResponse, error) {
	return s.fetchContent(ctx, request, func(t *term) (*Job, error) {
		return t.jobOn(request.GetNodeName(), request.GetIncarnation(), request.GetJob())
	})
}

// fetchContent returns a piece of a file that a job names.
func (s *Server) fetchContent(ctx context.Context, request *nodev1.FetchContentRequest, find func(t *term) (*Job, error)) (*nodev1.FetchContentResponse, error) {
	var sum checksum.Sum
	if copy(sum[:], request.GetSha256()) != len(sum) || request.GetOffset() < 0 {
		return nil, refuseNode(nodev1.RefusalReason_REFUSAL_REASON_INVALID, "a content needs a SHA-256 of %d bytes and an offset that is not negative", len(sum))
	}
	size, err := askBounded(ctx, s, func(t *term) (int64, error) {
		job, err := find(t)
		if err != nil {
			return 0, err
		}
		return t.sizeFor(job, sum)
	})
	if err != nil {
		return nil, s.notLeading(err)
	}
	select {
	case s.fetching <- struct{}{}:
		defer func() { <-s.fetching }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	offset := min(request.GetOffset(), size)
	length := min(size-offset, maxFetchPiece)
	if wanted := request.GetLength(); wanted > 0 {
		length = min(length, wanted)
	}
	response := &nodev1.FetchContentResponse{Total: size}
	if length == 0 {
		return response, nil
	}
	response.Data, err = s.readContent(ctx, sum, offset, length)
	if errors.Is(err, blob.ErrNotFound) || errors.Is(err, ErrNoBlobs) {
		err = refuseNode(nodev1.RefusalReason_REFUSAL_REASON_INVALID, "%v", err)
	}
	return response, err
}

func (s *Server) readContent(ctx context.Context, sum checksum.Sum, offset, length int64) ([]byte, error) {
	in, err := s.Content(ctx, sum.String(), offset, length)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	var data bytes.Buffer
	data.Grow(int(length) + bytes.MinRead)
	_, err = io.Copy(&data, in)
	return data.Bytes(), err
}

// jobOn returns a running job of the node that sends a request, in the node's current session.
func (t *term) jobOn(name string, incarnation, number uint64) (*Job, error) {
	t.answerNow = true
	node := t.nodes[name]
	if node == nil || node.session == nil || !node.session.Confirmed() || node.session.Incarnation() != incarnation {
		return nil, tryLater("the node has no session yet") // its first heartbeat reports which jobs it has
	}
	job := t.jobs[core.JobID(number)]
	if job == nil || job.node != node.id {
		return nil, refuseNode(nodev1.RefusalReason_REFUSAL_REASON_INVALID, "node %s has no job %d", name, number)
	}
	return job, nil
}

// sizeFor returns the size of a content that a job names.
func (t *term) sizeFor(job *Job, sum checksum.Sum) (int64, error) {
	if op := t.operations[job.Operation]; op != nil {
		spec := op.spec(int(job.Task))
		for _, file := range spec.GetFiles() {
			if bytes.Equal(file.GetSha256(), sum[:]) {
				return file.GetSize(), nil
			}
			if archive := file.GetArchive(); archive != nil && bytes.Equal(archive.GetSha256(), sum[:]) {
				return archive.GetSize(), nil
			}
		}
		for _, layer := range spec.GetImage().GetLayers() {
			if bytes.Equal(layer.GetSha256(), sum[:]) {
				return layer.GetSize(), nil
			}
		}
		if a := op.kept[work{job.Task, job.Cookie}]; a != nil && a.sum == sum {
			return a.size, nil
		}
	}
	return 0, refuseNode(nodev1.RefusalReason_REFUSAL_REASON_INVALID, "job %s does not use the content %s", job.ID, sum)
}
