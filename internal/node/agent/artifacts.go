package agent

import (
	"archive/tar"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/weirhq/weir/internal/node/jobproxy"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/checksum"
)

// Limits on the files that jobs leave behind, where the specification sets none.
const (
	defaultArtifactSize  = 1 << 30
	defaultArtifactCount = 10_000
	// artifactPiece is how much of an archive one call sends.
	artifactPiece = 4 << 20
	artifactFile  = "artifacts.tar.zst"
)

// Why a job has no artifacts though it was asked for them.
const (
	artifactsOverQuota  = "quota_exceeded"
	artifactsRefused    = "upload_refused"
	artifactsUnreadable = "unreadable"
	artifactsNoSpace    = "no_space"
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
	archive, list, err := pack(j.dir, description)
	if err != nil {
		reason := artifactsUnreadable
		if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
			reason = artifactsNoSpace
		}
		return &nodev1.ArtifactList{Failure: reason, Message: err.Error()}
	}
	defer archive.Close()
	if len(list.GetFiles()) == 0 {
		return list
	}
	var refused *nodeproto.RefusedError
	switch err := a.uploadArchive(j.number, archive, list); {
	case err == nil:
	case errors.As(err, &refused):
		list.Files = nil
		list.Failure, list.Message = artifactsRefused, refused.Message
		if refused.Reason == nodev1.RefusalReason_REFUSAL_REASON_QUOTA {
			list.Failure = artifactsOverQuota
		}
	default:
		return &nodev1.ArtifactList{Failure: artifactsUnreadable, Message: err.Error()}
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

// packer writes files of a sandbox into an archive.
type packer struct {
	rules   *jobproxy.Artifacts
	owner   *jobproxy.Credential
	shown   map[string]bool // files of the node that the job saw there
	archive *tar.Writer
	list    *nodev1.ArtifactList
	size    int64
	left    []string // why files were left out, at most a few
	omitted int
}

// pack makes the archive of a job's files. Links are not followed; devices, pipes and sockets are left out, and so is what the job's own
// user could not read.
func pack(dir string, d *jobproxy.Description) (archive *os.File, list *nodev1.ArtifactList, err error) {
	root, err := os.OpenRoot(jobproxy.SandboxOf(dir))
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	archive, err = os.OpenFile(filepath.Join(dir, artifactFile), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, nil, err
	}
	packed, err := zstd.NewWriter(archive, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, nil, errors.Join(err, archive.Close())
	}
	p := &packer{rules: d.Artifacts, owner: d.Credential, shown: map[string]bool{}, archive: tar.NewWriter(packed), list: &nodev1.ArtifactList{}}
	for _, f := range d.Files {
		if f.Bind {
			p.shown[filepath.Clean(f.Path)] = true
		}
	}
	err = fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			p.leaveOut(path, err.Error())
			return nil
		}
		return p.add(root, path, entry)
	})
	if err = errors.Join(err, p.archive.Close(), packed.Close()); err != nil {
		return nil, nil, errors.Join(err, archive.Close())
	}
	if p.omitted > 0 {
		p.list.Truncated = true
		p.list.Message = fmt.Sprintf("%d files are left out: %s", p.omitted, strings.Join(p.left, "; "))
	}
	return archive, p.list, nil
}

// leaveOut notes a file that is not in the archive.
func (p *packer) leaveOut(path, reason string) {
	const most = 5
	if p.omitted++; len(p.left) < most {
		p.left = append(p.left, path+": "+reason)
	}
}

// add adds a file of the sandbox if it is one to keep.
func (p *packer) add(root *os.Root, path string, entry fs.DirEntry) error {
	if entry.IsDir() || p.shown[path] || !p.isWanted(path) {
		return nil
	}
	if !entry.Type().IsRegular() {
		p.leaveOut(path, "it is not a plain file")
		return nil
	}
	file, err := root.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		p.leaveOut(path, err.Error())
		return nil
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	limit, most := cmp.Or(p.rules.MaxSize, defaultArtifactSize), cmp.Or(p.rules.MaxCount, defaultArtifactCount)
	switch {
	case !info.Mode().IsRegular() || !p.mayRead(info):
		p.leaveOut(path, "the job could not read it")
		return nil
	case int64(len(p.list.GetFiles())) >= most:
		p.leaveOut(path, fmt.Sprintf("max_artifact_count is %d", most))
		return nil
	case info.Size() > limit-p.size:
		p.leaveOut(path, fmt.Sprintf("it has %d bytes, and max_artifact_size is %d", info.Size(), limit))
		return nil
	}
	mode := info.Mode().Perm()
	if err := p.archive.WriteHeader(&tar.Header{Name: path, Size: info.Size(), Mode: int64(mode), ModTime: info.ModTime(), Typeflag: tar.TypeReg}); err != nil {
		return err
	}
	if _, err := io.CopyN(p.archive, file, info.Size()); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	p.size += info.Size()
	p.list.Files = append(p.list.Files, &nodev1.Artifact{Path: path, Size: info.Size(), Mode: uint32(mode)})
	return nil
}

// mayRead reports whether the job's user could read a file. A hard link in the sandbox can lead to a file of another user.
func (p *packer) mayRead(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if p.owner == nil || !ok {
		return true
	}
	mode := info.Mode().Perm()
	return stat.Uid == p.owner.UID || stat.Gid == p.owner.GID && mode&0o040 != 0 || mode&0o004 != 0
}

func (p *packer) isWanted(path string) bool {
	parts := strings.Split(path, "/")
	for _, pattern := range p.rules.Patterns {
		if matches(strings.Split(strings.Trim(pattern, "/"), "/"), parts) {
			return true
		}
	}
	return false
}

// matches reports whether a pattern names a path or a directory above it.
func matches(pattern, path []string) bool {
	switch {
	case len(pattern) == 0:
		return true // everything below a directory
	case pattern[0] == "**":
		for i := range len(path) + 1 {
			if matches(pattern[1:], path[i:]) {
				return true
			}
		}
		return false
	case len(path) == 0:
		return false
	}
	same, err := filepath.Match(pattern[0], path[0])
	return err == nil && same && matches(pattern[1:], path[1:])
}

// uploadArchive sends an archive, piece by piece, and retries until the scheduler has it or refuses it.
func (a *Agent) uploadArchive(job uint64, archive *os.File, list *nodev1.ArtifactList) error {
	meter := checksum.NewMeter()
	if _, err := archive.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if _, err := io.Copy(meter, archive); err != nil {
		return err
	}
	sum, total := meter.Sum(), meter.Size()
	buffer := make([]byte, min(artifactPiece, total))
	for offset := int64(0); offset < total; {
		piece := buffer[:min(int64(len(buffer)), total-offset)]
		if _, err := archive.ReadAt(piece, offset); err != nil {
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
