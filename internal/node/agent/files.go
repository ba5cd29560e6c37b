package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/weirhq/weir/internal/node/archive"
	"github.com/weirhq/weir/internal/node/cache"
	"github.com/weirhq/weir/internal/node/jobproxy"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/checksum"
)

// Limits on fetching files.
const (
	// fetchPiece is how much of a file one call returns.
	fetchPiece = 4 << 20
	// fetchPause is the pause after a call that failed, and mismatchAttempts how often a file is fetched that turns out to be another.
	fetchPause       = time.Second
	mismatchAttempts = 3
)

// contentFile describes a file that is to be fetched.
func contentFile(f *nodev1.File) (jobproxy.File, error) {
	var sum checksum.Sum
	if len(f.GetSha256()) != len(sum) || f.GetSize() < 0 {
		return jobproxy.File{}, fmt.Errorf("%w: files: %s has no valid SHA-256 or size", jobproxy.ErrInvalid, f.GetPath())
	}
	copy(sum[:], f.GetSha256())
	return jobproxy.File{Path: f.GetPath(), Executable: f.GetExecutable(), SHA256: sum.String(), Size: f.GetSize(), Bind: !f.GetCopy()}, nil
}

// keyOf is the key of a job's file in the cache; it reports false for files that are not from there.
func keyOf(f *jobproxy.File) (key cache.Key, ok bool) {
	sum, err := checksum.Parse(f.SHA256)
	return cache.Key{Sum: sum, Executable: f.Executable}, err == nil
}

// needsContents reports whether a job has files of the cache.
func needsContents(d *jobproxy.Description) bool {
	for i := range d.Files {
		if d.Files[i].SHA256 != "" {
			return true
		}
	}
	return false
}

// holdFiles holds what a job of an earlier incarnation of the agent uses.
func (a *Agent) holdFiles(j *job, d *jobproxy.Description) {
	for i := range d.Files {
		if key, ok := keyOf(&d.Files[i]); ok {
			if content, there := a.cache.Hold(key); there {
				j.files = append(j.files, content)
			}
		}
	}
}

// releaseFiles lets the cache remove the files of a job that has ended.
func (j *job) releaseFiles() {
	for _, file := range j.files {
		file.Release()
	}
}

// stopped is why the fetching of a job's files ends early.
type stopped struct{ order jobproxy.Order }

func (s *stopped) Error() string { return "the job is ended: " + s.order.Message }

// errPrepareLimit ends the preparation of a job that takes too long.
var errPrepareLimit = errors.New("the files of the job were not fetched within its prepare_time_limit")

// fetchFiles provides a job's files and then starts it. An order ends the fetching, and the job with it.
func (a *Agent) fetchFiles(j *job, description *jobproxy.Description) {
	ctx, cancel := context.WithCancelCause(a.ctx)
	j.stop = func(order jobproxy.Order) { cancel(&stopped{order}) }
	if limit := time.Duration(description.PrepareTimeLimit); limit > 0 {
		timer := time.AfterFunc(limit, func() { cancel(errPrepareLimit) })
		context.AfterFunc(ctx, func() { timer.Stop() })
	}
	a.work(func() {
		var files []*cache.Content
		var err error
		for i := range description.Files {
			file := &description.Files[i]
			key, ok := keyOf(file)
			if !ok {
				continue
			}
			content, problem := a.fetchFile(ctx, j.number, key, file.Size)
			if problem != nil {
				err = fmt.Errorf("file %s: %w", file.Path, problem)
				break
			}
			files, file.Source = append(files, content), content.Path
		}
		if err == nil && (j.restore != nil || len(j.archives) > 0) {
			if err = a.fillSandbox(ctx, j, description); err == nil {
				description.Restored = a.restoredOf(j)
			}
		}
		cancel(nil)
		a.post(func() {
			j.files, j.stop = files, nil
			var end *stopped
			switch {
			case errors.As(err, &end):
				a.finish(j, notStarted(j, end.order.Reason, end.order.Message))
			case errors.Is(err, archive.ErrDirectory): // it would be the same on every node
				a.finish(j, cannotStart(j, fmt.Errorf("%w: %w", jobproxy.ErrInvalid, err)))
			case err != nil:
				a.finish(j, notStarted(j, jobproxy.OtherReason, err.Error()))
			default:
				a.begin(j, description)
			}
		})
	})
}

// fetchFile returns a file from the cache. It retries until the scheduler has given an answer.
func (a *Agent) fetchFile(ctx context.Context, job uint64, key cache.Key, size int64) (*cache.Content, error) {
	for attempt, mismatches := 1, 0; ; attempt++ {
		content, err := a.cache.Get(ctx, key, size, func(ctx context.Context, offset int64, to io.Writer) error {
			return a.fetch(ctx, job, key.Sum, offset, size, to)
		})
		if cause := context.Cause(ctx); err != nil && cause != nil {
			return nil, cause
		}
		if errors.Is(err, cache.ErrMismatch) {
			mismatches++
		}
		if err == nil || isFinal(err) || mismatches >= mismatchAttempts {
			return content, err
		}
		a.Log.Warn("a file cannot be fetched", "sha256", key.Sum.String(), "attempt", attempt, "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(fetchPause):
		}
	}
}

// isFinal reports whether another attempt to fetch a file would end the same way.
func isFinal(err error) bool {
	var refused *nodeproto.RefusedError
	return errors.Is(err, cache.ErrNoRoom) ||
		errors.As(err, &refused) && refused.Reason != nodev1.RefusalReason_REFUSAL_REASON_OVERLOAD
}

// fetch copies a content from the scheduler, piece by piece.
func (a *Agent) fetch(ctx context.Context, job uint64, sum checksum.Sum, offset, size int64, to io.Writer) error {
	for offset < size {
		response, err := a.Caller.FetchContent(ctx, &nodev1.FetchContentRequest{
			NodeName: a.Description.GetName(), Incarnation: a.session.Incarnation(), Job: job, Sha256: sum[:], Offset: offset, Length: fetchPiece,
		})
		if err != nil {
			return err
		}
		if len(response.GetData()) == 0 {
			return fmt.Errorf("the scheduler has only %d of %d bytes", offset, size)
		}
		n, err := to.Write(response.GetData())
		if offset += int64(n); err != nil {
			return err
		}
	}
	return nil
}
