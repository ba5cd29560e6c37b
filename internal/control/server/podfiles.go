package server

import (
	"context"
	"crypto/subtle"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/node/podfiles"
)

// jobOf returns a running job by its number and its token, which comes from the proof that it was given to its node.
func (t *term) jobOf(number uint64, token string) (*Job, error) {
	t.answerNow = true
	job := t.jobs[core.JobID(number)]
	if job == nil || t.operations[job.Operation] == nil {
		if t.reviving {
			return nil, tryLater("this scheduler has just begun to lead: its nodes have not reported their jobs yet")
		}
		return nil, refuseNode(nodev1.RefusalReason_REFUSAL_REASON_UNKNOWN_TOKEN, "there is no such job, or its token is another one")
	}
	proof := t.proofs.of(&nodev1.JobIdentity{
		Number: number, OperationId: t.operations[job.Operation].record.ID.String(), TaskName: job.TaskName, Cookie: job.Cookie,
		GangIncarnation: job.Incarnation, Resources: nodeproto.ToAmounts(job.Resources),
	}, job.Node)
	if subtle.ConstantTimeCompare([]byte(token), []byte(podfiles.TokenOf(number, proof))) != 1 {
		return nil, refuseNode(nodev1.RefusalReason_REFUSAL_REASON_UNKNOWN_TOKEN, "there is no such job, or its token is another one")
	}
	return job, nil
}

// FetchForPod returns a piece of a file that the job with this token names.
func (s *Server) FetchForPod(ctx context.Context, token string, request *nodev1.FetchContentRequest) (*nodev1.FetchContentResponse, error) {
	return s.fetchContent(ctx, request, func(t *term) (*Job, error) { return t.jobOf(request.GetJob(), token) })
}

// KeepForPod stores a piece of the files that the job with this token leaves behind.
func (s *Server) KeepForPod(ctx context.Context, token string, request *nodev1.UploadArtifactsRequest) (*nodev1.UploadArtifactsResponse, error) {
	return s.uploadArtifacts(ctx, request, func(t *term) (*Job, error) { return t.jobOf(request.GetJob(), token) })
}
