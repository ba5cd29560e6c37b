package agent

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/node/archive"
	"github.com/weirhq/weir/internal/node/jobproxy"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/checksum"
)

const (
	// artifactPiece is how much of an archive one call sends.
	artifactPiece = 4 << 20
	artifactFile  = "artifacts.tar.zst"
)

// keepArtifacts packs the files that a job leaves behind and uploads them. It returns what became of them: nil if the job has none to
// leave, or if the agent stops.
func (a *Agent) keepArtifacts(j *job, r *jobproxy.Result) *nodev1.ArtifactList {
	description, err := jobproxy.ReadDescription(j.dir)
	if err != nil || !keepsArtifacts(description.Artifacts, r) {
		return nil
	}
	a.post(func() { a.release(j) })
	a.uploads <- struct{}{}
	defer func() { <-a.uploads }()
	file, list, err := pack(j.dir, description)
	if err != nil {
		return &nodev1.ArtifactList{Failure: archive.Cause(err), Message: err.Error()}
	}
	defer file.Close()
	if len(list.GetFiles()) == 0 {
		return list
	}
	var refused *nodeproto.RefusedError
	switch err := a.uploadArchive(j.number, file, list); {
	case err == nil:
	case errors.As(err, &refused):
		list.Files = nil
		list.Failure, list.Message = archive.Refused, refused.Message
		if refused.Reason == nodev1.RefusalReason_REFUSAL_REASON_QUOTA {
			list.Failure = archive.OverQuota
		}
	default:
		return &nodev1.ArtifactList{Failure: archive.Unreadable, Message: err.Error()}
	}
	return list
}

// keepsArtifacts reports whether the files of a job are kept.
func keepsArtifacts(rules *jobproxy.Artifacts, r *jobproxy.Result) bool {
	switch {
	case rules == nil || r.Timings.ExecStarted.IsZero():
		return false
	case r.Outcome == jobproxy.Aborted:
		// There is no next attempt when the operation ends, and the scheduler has forgotten the job.
		return rules.OfAborted && r.AbortReason != jobproxy.GPUCheckFailed && r.AbortReason != reasonDiskOverdraft && !strings.HasPrefix(r.AbortReason, "operation_")
	}
	return !rules.OnlyCompleted || r.Outcome == jobproxy.Completed
}

// release frees what a job without processes holds, before its files are kept. Its disk space stays in use.
func (a *Agent) release(j *job) {
	if j.hasEnded() {
		return
	}
	j.released = true
	a.freeGPUs(j)
	a.releaseImage(j)
	a.session.JobChanged(j.statusMessage())
	a.admit()
	a.tellNode()
	a.tellRelease()
}

// rulesOf are the rules by which the files of a job are kept.
func rulesOf(a *jobproxy.Artifacts) *archive.Rules {
	return &archive.Rules{Patterns: a.Patterns, MaxSize: a.MaxSize, MaxCount: a.MaxCount}
}

// pack makes the archive of a job's files.
func pack(dir string, d *jobproxy.Description) (file *os.File, list *nodev1.ArtifactList, err error) {
	file, err = os.OpenFile(filepath.Join(dir, artifactFile), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, nil, err
	}
	var owner *archive.Owner
	if d.Credential != nil {
		owner = &archive.Owner{UID: d.Credential.UID, GID: d.Credential.GID}
	}
	shown := map[string]bool{}
	for _, f := range d.Files {
		if f.Bind {
			shown[filepath.Clean(f.Path)] = true
		}
	}
	packed, err := archive.Pack(jobproxy.SandboxOf(dir), file, rulesOf(d.Artifacts), owner, shown)
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	list = &nodev1.ArtifactList{Truncated: packed.Truncated, Message: packed.Message}
	for _, f := range packed.Files {
		list.Files = append(list.Files, &nodev1.Artifact{Path: f.Path, Size: f.Size, Mode: f.Mode})
	}
	return file, list, nil
}

// uploadArchive sends an archive, piece by piece, and retries until the scheduler has it or refuses it.
func (a *Agent) uploadArchive(job uint64, file *os.File, list *nodev1.ArtifactList) error {
	meter := checksum.NewMeter()
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if _, err := io.Copy(meter, file); err != nil {
		return err
	}
	sum, total := meter.Sum(), meter.Size()
	buffer := make([]byte, min(artifactPiece, total))
	for offset := int64(0); offset < total; {
		piece := buffer[:min(int64(len(buffer)), total-offset)]
		if _, err := file.ReadAt(piece, offset); err != nil {
			return err
		}
		request := &nodev1.UploadArtifactsRequest{
			NodeName: a.Description.GetName(), Incarnation: a.session.Incarnation(), Job: job, Offset: offset, Data: piece, Total: total, Sha256: sum[:],
		}
		if offset+int64(len(piece)) == total {
			request.List = list
		}
		response, err := a.Caller.UploadArtifacts(a.ctx, request)
		if err == nil {
			offset = min(response.GetNextOffset(), total)
			continue
		}
		if isFinal(err) {
			return err
		}
		a.Log.Warn("the files of a job cannot be stored", "job", job, "error", err)
		select {
		case <-a.ctx.Done():
			return a.ctx.Err()
		case <-time.After(fetchPause):
		}
	}
	return nil
}
