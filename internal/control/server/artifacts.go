package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weirhq/weir/internal/control/blob"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/checksum"
	"github.com/weirhq/weir/internal/value/document"
)

// artifactPatience is how long an archive stays open between two of its pieces. Later pieces open it again.
const artifactPatience = 5 * time.Minute

// Artifacts describes the files that a job left behind.
type Artifacts struct {
	Files     []Artifact `json:"files"`
	Truncated bool       `json:"truncated,omitempty"`
	Message   string     `json:"message,omitempty"`
	// Task and Cookie are the work that the job did.
	Task   string `json:"task,omitempty"`
	Cookie int32  `json:"cookie"`
}

// work identifies what a job does, across attempts.
type work struct{ task, cookie int32 }

// archive is the files of an attempt, which the next attempt gets.
type archive struct {
	sum  checksum.Sum
	size int64
	job  core.JobID // that left them
}

// message returns the archive as a node gets it, nil if there is none.
func (a *archive) message() *nodev1.Content {
	if a == nil {
		return nil
	}
	return &nodev1.Content{Sha256: a.sum[:], Size: a.size}
}

// Artifact is a file that a job left behind.
type Artifact struct {
	Path string `json:"path"`
	Size int64  `json:"size"`
	Mode uint32 `json:"mode"`
}

// ReadArtifacts reads the description of a job's files from its use of a content; it reports false for other uses.
func ReadArtifacts(use *store.ContentUse) (a Artifacts, ok bool, err error) {
	if !strings.HasPrefix(use.Holder, artifactHolder) {
		return a, false, nil
	}
	err = json.Unmarshal(use.Document, &a)
	return a, true, err
}

// artifactHolder starts the names of jobs as holders of contents.
const artifactHolder = "job:"

// artifactUploads are the archives that are arriving, by job and sum.
type artifactUploads struct {
	mutex sync.Mutex
	open  map[string]*artifactUpload
}

// artifactUpload is an archive that is arriving. Its mutex is held while a piece is added.
type artifactUpload struct {
	mutex   sync.Mutex
	upload  *blob.Upload // nil until the first piece, and when it is over
	touched time.Time
}

// find returns the upload of a name with its mutex held, and closes those that have not been touched for long.
func (u *artifactUploads) find(name string, now time.Time) *artifactUpload {
	u.mutex.Lock()
	for other, a := range u.open { // the order does not matter
		if other != name && now.Sub(a.touched) > artifactPatience && a.mutex.TryLock() {
			if a.upload != nil {
				_ = a.upload.Pause() // what has arrived is on disk
			}
			delete(u.open, other)
			a.mutex.Unlock()
		}
	}
	if u.open == nil {
		u.open = map[string]*artifactUpload{}
	}
	a := u.open[name]
	if a == nil {
		a = &artifactUpload{}
		u.open[name] = a
	}
	a.touched = now
	u.mutex.Unlock()
	a.mutex.Lock()
	return a
}

func (u *artifactUploads) remove(name string) {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	delete(u.open, name)
}

// archiveOf is a job whose files arrive.
type archiveOf struct {
	operation core.OperationID
	job       core.JobID
	user      string
}

func (o *archiveOf) holder() string { return holderOf(o.job) }

// holderOf is a job's name as the holder of its archive.
func holderOf(job core.JobID) string { return fmt.Sprintf("%s%d", artifactHolder, job) }

// UploadArtifacts stores a piece of the files that a job leaves behind. The archive is stored for good when its last piece is
// acknowledged.
func (s nodeService) UploadArtifacts(ctx context.Context, _ nodeproto.Peer, request *nodev1.UploadArtifactsRequest) (*nodev1.UploadArtifactsResponse, error) {
	return s.uploadArtifacts(ctx, request, func(t *term) (*Job, error) {
		return t.jobOn(request.GetNodeName(), request.GetIncarnation(), request.GetJob())
	})
}

// uploadArtifacts stores a piece of the files of a job.
func (s *Server) uploadArtifacts(ctx context.Context, request *nodev1.UploadArtifactsRequest, find func(t *term) (*Job, error)) (*nodev1.UploadArtifactsResponse, error) {
	const invalid = nodev1.RefusalReason_REFUSAL_REASON_INVALID
	var sum checksum.Sum
	total, limit := request.GetTotal(), s.settings().MaxFileSize
	switch {
	case s.blobs == nil:
		return nil, refuseNode(invalid, "%v", ErrNoBlobs)
	case copy(sum[:], request.GetSha256()) != len(sum) || sum.IsZero() || request.GetOffset() < 0 || total <= 0 || total > limit:
		return nil, refuseNode(invalid, "an archive needs a SHA-256 of %d bytes and from 1 to %d bytes, not %d", len(sum), limit, total)
	}
	of, err := askBounded(ctx, s, func(t *term) (archiveOf, error) {
		job, err := find(t)
		if err != nil {
			return archiveOf{}, err
		}
		return t.archiveOf(job)
	})
	if err != nil {
		return nil, s.notLeading(err)
	}
	name := fmt.Sprintf("job-%d-%s", of.job, sum)
	a := s.artifacts.find(name, time.Now())
	defer a.mutex.Unlock()
	next, err := s.addPiece(ctx, a, name, &of, sum, request)
	if err != nil || next == total {
		s.artifacts.remove(name)
	}
	var quota *QuotaError
	switch {
	case errors.As(err, &quota):
		err = refuseNode(nodev1.RefusalReason_REFUSAL_REASON_QUOTA, "%v", quota)
	case errors.Is(err, blob.ErrMismatch):
		err = refuseNode(invalid, "%v", err)
	}
	if err != nil {
		return nil, s.notLeading(err)
	}
	return &nodev1.UploadArtifactsResponse{NextOffset: next}, nil
}

func (t *term) archiveOf(job *Job) (archiveOf, error) {
	op := t.operations[job.Operation]
	if op == nil || op.spec(int(job.Task)).GetArtifacts() == nil {
		return archiveOf{}, refuseNode(nodev1.RefusalReason_REFUSAL_REASON_INVALID, "job %s is not asked for files", job.ID)
	}
	return archiveOf{job.Operation, job.Number, op.record.User}, nil
}

// addPiece adds a piece and returns the offset of the next one.
func (s *Server) addPiece(ctx context.Context, a *artifactUpload, name string, of *archiveOf, sum checksum.Sum, request *nodev1.UploadArtifactsRequest) (int64, error) {
	total := request.GetTotal()
	if a.upload == nil {
		uses, err := s.store.ContentUses(ctx, of.user, sum.String())
		if err != nil {
			return 0, err
		}
		for _, use := range uses {
			if use.Holder == of.holder() {
				return total, nil // the acknowledgement was lost
			}
		}
		if err := s.CheckQuota(ctx, of.user, total); err != nil {
			return 0, err
		}
		if a.upload, err = s.blobs.ResumeUpload(name); err != nil {
			return 0, err
		}
	}
	u := a.upload
	if data := request.GetData(); request.GetOffset() == u.Size() && int64(len(data)) <= total-u.Size() {
		if _, err := u.Write(data); err != nil {
			a.upload = nil
			return 0, errors.Join(err, u.Discard())
		}
	}
	if u.Size() < total {
		return u.Size(), nil
	}
	a.upload = nil
	if request.GetList() == nil || u.Size() > total {
		err := refuseNode(nodev1.RefusalReason_REFUSAL_REASON_INVALID, "the last piece of an archive has the list of its files")
		return 0, errors.Join(err, u.Discard())
	}
	content, err := u.Finish(ctx, sum)
	if err != nil {
		return 0, err
	}
	defer content.Release()
	return total, s.Charge(ctx, of.user, content, func() error {
		_, err := ask(ctx, s, func(t *term) (struct{}, error) { return struct{}{}, t.storeArtifacts(of, content, request.GetList()) })
		return err
	})
}

// storeArtifacts makes a job use its archive.
func (t *term) storeArtifacts(of *archiveOf, content *blob.Content, list *nodev1.ArtifactList) error {
	job := t.jobs[of.job]
	if job == nil || t.operations[of.operation] == nil {
		return refuseNode(nodev1.RefusalReason_REFUSAL_REASON_INVALID, "job %d has ended meanwhile", of.job)
	}
	description := Artifacts{Truncated: list.GetTruncated(), Message: list.GetMessage(), Task: job.TaskName, Cookie: job.Cookie}
	for _, f := range list.GetFiles() {
		description.Files = append(description.Files, Artifact{Path: strings.ToValidUTF8(f.GetPath(), "?"), Size: f.GetSize(), Mode: f.GetMode()})
	}
	t.open.rows.Put.ContentUses = append(t.open.rows.Put.ContentUses, store.ContentUse{
		Content: content.Sum.String(), Holder: of.holder(), User: of.user, Size: content.Size,
		Operation: int32(of.operation), Job: uint64(of.job), Document: mustJSON(description),
	})
	t.operations[of.operation].keep(work{job.Task, job.Cookie}, &archive{content.Sum, content.Size, of.job}, &t.open.rows)
	return nil
}

// keep remembers an archive for the next attempt at the same work, and drops that of the attempt before.
func (o *activeOperation) keep(w work, a *archive, rows *store.Batch) {
	if !o.record.Spec.Tasks[w.task].Value.Artifacts.Restore.Value() {
		return
	}
	if o.kept == nil {
		o.kept = map[work]*archive{}
	}
	if last := o.kept[w]; last != nil && last.job != a.job {
		rows.Delete.ContentUses = append(rows.Delete.ContentUses, store.ContentUse{Content: last.sum.String(), Holder: holderOf(last.job)})
	}
	o.kept[w] = a
}

// reviveArchives finds the archives that the next attempts of an operation's jobs get.
func (t *term) reviveArchives(ctx context.Context) error {
	for id, op := range t.operations { // the order does not matter
		tasks := op.record.Spec.Tasks
		if !slices.ContainsFunc(tasks, func(n document.Named[operation.Task]) bool { return n.Value.Artifacts.Restore.Value() }) {
			continue
		}
		uses, err := t.server.store.OperationContents(ctx, int32(id), 0)
		if err != nil {
			return err
		}
		for i := range uses {
			described, isArchive, err := ReadArtifacts(&uses[i])
			task := slices.IndexFunc(tasks, func(n document.Named[operation.Task]) bool { return n.Name == described.Task })
			if err != nil || !isArchive || task < 0 {
				continue
			}
			sum, err := checksum.Parse(uses[i].Content)
			if err != nil {
				return fmt.Errorf("content %s: %w", uses[i].Content, err)
			}
			op.keep(work{int32(task), described.Cookie}, &archive{sum, uses[i].Size, core.JobID(uses[i].Job)}, &t.open.rows)
		}
	}
	return nil
}

// ArtifactState is what the job's attributes state about its files.
type ArtifactState struct {
	State   string `json:"state"` // "stored", "truncated", "none" or "failed"
	Count   int    `json:"count,omitempty"`
	Reason  string `json:"reason,omitempty"` // of a failure
	Message string `json:"message,omitempty"`
}

func artifactsState(list *nodev1.ArtifactList) *ArtifactState {
	if list == nil {
		return nil
	}
	state := &ArtifactState{State: "stored", Count: len(list.GetFiles()), Reason: list.GetFailure(), Message: list.GetMessage()}
	switch {
	case state.Reason != "":
		state.State, state.Count = "failed", 0
	case list.GetTruncated():
		state.State = "truncated"
	case state.Count == 0:
		state.State = "none"
	}
	return state
}
