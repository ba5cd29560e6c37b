package server

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
)

// Limits on output that nodes upload. The leader keeps a text in memory until its
// last piece arrives.
const (
	maxUpload     = 64 << 20  // one stream
	maxUploadNode = 64 << 20  // all streams of a node
	maxUploadAll  = 256 << 20 // all nodes
	// uploadPatience is how long a text waits for its next piece.
	uploadPatience = 5 * time.Minute
	// uploadRetry is the delay after which a node that found no room tries again.
	uploadRetry = time.Second
)

// upload is a text whose pieces are arriving. Its whole size is reserved with the
// first piece, so that texts that wait for room never wait for each other.
type upload struct {
	node    core.NodeID
	total   int64
	text    []byte
	touched time.Time
}

type uploadKey struct {
	job    uint64
	stream nodev1.Stream
}

// Upload stores a piece of a job's output.
func (s nodeService) Upload(ctx context.Context, _ nodeproto.Peer, request *nodev1.UploadRequest) (*nodev1.UploadResponse, error) {
	response, err := askBounded(ctx, s.Server, func(t *term) (*nodev1.UploadResponse, error) { return t.upload(request) })
	return response, s.notLeading(err)
}

// upload accepts output only from the node that has the job, in its current session.
// It drops output for any other job and acknowledges it to the node: no reader will
// request it.
func (t *term) upload(request *nodev1.UploadRequest) (*nodev1.UploadResponse, error) {
	total := request.GetTotal()
	if total > maxUpload || total < 0 {
		return nil, fmt.Errorf("output of %d bytes is above the limit of %d", total, maxUpload)
	}
	node := t.nodes[request.GetNodeName()]
	if node == nil || node.session == nil || !node.session.Confirmed() || node.session.Incarnation() != request.GetIncarnation() {
		// Its first heartbeat reports which jobs it has.
		return nil, tryLater("the node has no session yet")
	}
	job := t.jobs[core.JobID(request.GetJob())]
	if job == nil || job.node != node.id {
		return &nodev1.UploadResponse{NextOffset: total}, nil
	}
	key := uploadKey{request.GetJob(), request.GetStream()}
	u := t.uploads[key]
	if u == nil || u.total != total {
		if !t.hasRoomFor(node.id, total) {
			return nil, tryLater("other output is being uploaded")
		}
		u = &upload{node: node.id, total: total}
		t.uploads[key] = u
	}
	u.touched = t.now
	if data := request.GetData(); request.GetOffset() == int64(len(u.text)) && int64(len(data)) <= total-int64(len(u.text)) {
		u.text = append(u.text, data...)
	}
	if int64(len(u.text)) < total {
		return &nodev1.UploadResponse{NextOffset: int64(len(u.text))}, nil
	}
	delete(t.uploads, key)
	t.storeOutput(key, job.Operation, u.text)
	return &nodev1.UploadResponse{NextOffset: total}, nil
}

func tryLater(why string) error {
	return &nodeproto.RefusedError{Reason: nodev1.RefusalReason_REFUSAL_REASON_OVERLOAD, Message: why, RetryAfter: uploadRetry}
}

// hasRoomFor reports whether a node may start to upload a text.
func (t *term) hasRoomFor(node core.NodeID, size int64) bool {
	all, own := size, size
	for _, u := range t.uploads {
		all += u.total
		if u.node == node {
			own += u.total
		}
	}
	return own <= maxUploadNode && all <= maxUploadAll
}

// storeOutput stores a whole text.
func (t *term) storeOutput(key uploadKey, of core.OperationID, text []byte) {
	kind := "stderr"
	if key.stream == nodev1.Stream_STREAM_STDOUT {
		kind = "stdout"
	}
	t.open.rows.Put.JobOutputs = append(t.open.rows.Put.JobOutputs, store.JobOutput{
		Job: key.job, Kind: kind, Operation: int32(of), Written: t.now, Data: text,
	})
}

// dropUploads drops texts whose next piece does not come.
func (t *term) dropUploads() {
	for key, u := range t.uploads { // the order does not matter
		if t.now.Sub(u.touched) > uploadPatience {
			delete(t.uploads, key)
		}
	}
}

// dropUploadsOf drops the texts of an ended job.
func (t *term) dropUploadsOf(id core.JobID) {
	for _, stream := range []nodev1.Stream{nodev1.Stream_STREAM_STDERR, nodev1.Stream_STREAM_STDOUT} {
		delete(t.uploads, uploadKey{uint64(id), stream})
	}
}

// jobsOf returns the running jobs of an operation, sorted by number.
func (t *term) jobsOf(id core.OperationID) []*Job {
	var list []*Job
	for _, job := range t.jobs {
		if job.Operation == id {
			list = append(list, job)
		}
	}
	slices.SortFunc(list, func(a, b *Job) int {
		switch {
		case a.Number < b.Number:
			return -1
		case a.Number > b.Number:
			return 1
		}
		return 0
	})
	return list
}
