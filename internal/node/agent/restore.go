package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/weirhq/weir/internal/node/archive"
	"github.com/weirhq/weir/internal/node/cache"
	"github.com/weirhq/weir/internal/node/jobproxy"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/checksum"
)

// restoredDirectory has, for each job that continues an earlier attempt or brings directories along, these files until the job starts.
const restoredDirectory = "restored"

func (a *Agent) restoredOf(j *job) string {
	return filepath.Join(a.Directory, restoredDirectory, j.identity.GetJobId())
}

// clearRestored removes the files for jobs that an earlier incarnation of the agent did not start.
func (a *Agent) clearRestored() error {
	parent := filepath.Join(a.Directory, restoredDirectory)
	entries, err := os.ReadDir(parent)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	known := map[string]bool{}
	for _, j := range a.jobs {
		known[j.identity.GetJobId()] = true
	}
	for _, entry := range entries {
		if !known[entry.Name()] {
			err = errors.Join(err, os.RemoveAll(filepath.Join(parent, entry.Name())))
		}
	}
	return err
}

// fillSandbox makes the directory that becomes a job's sandbox, with the files that an earlier attempt left and with the directories that
// the job brings along.
func (a *Agent) fillSandbox(ctx context.Context, j *job, d *jobproxy.Description) error {
	directory := a.restoredOf(j)
	if err := errors.Join(os.MkdirAll(filepath.Dir(directory), 0o700), os.Mkdir(directory, 0o755)); err != nil {
		return err
	}
	err := a.restoreFiles(ctx, j, d.Artifacts, directory)
	if err == nil {
		err = a.unpackArchives(ctx, j, d.Disk.Space, directory)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(directory))
	}
	return nil
}

// restoreFiles fetches and unpacks the files that an earlier attempt of a job left.
func (a *Agent) restoreFiles(ctx context.Context, j *job, rules *jobproxy.Artifacts, directory string) error {
	if j.restore == nil {
		return nil
	}
	err := errors.New("the job keeps no files")
	if rules != nil {
		err = a.openContent(ctx, j, j.restore, func(file *os.File) error { return archive.Unpack(ctx, file, directory, rulesOf(rules)) })
	}
	if err != nil {
		return fmt.Errorf("files of an earlier attempt: %w", err)
	}
	return nil
}

// unpackArchives fetches and unpacks the directories that a job brings along. Files of an earlier attempt stay. Together the directories take limit
// bytes at most, if it is not zero.
func (a *Agent) unpackArchives(ctx context.Context, j *job, limit int64, directory string) error {
	if len(j.archives) == 0 {
		return nil
	}
	sandbox, err := os.OpenRoot(directory)
	if err != nil {
		return err
	}
	defer sandbox.Close()
	left := int64(archive.MaxDirectorySize)
	if limit > 0 {
		left = min(left, limit)
	}
	for _, f := range j.archives {
		err := a.openContent(ctx, j, f.GetArchive(), func(file *os.File) error {
			size, err := archive.UnpackDirectory(ctx, file, sandbox, f.GetPath(), left)
			left -= size
			return err
		})
		if err != nil {
			return fmt.Errorf("directory %s: %w", f.GetPath(), err)
		}
	}
	return nil
}

// openContent fetches a content of the scheduler and opens it.
func (a *Agent) openContent(ctx context.Context, j *job, content *nodev1.Content, use func(*os.File) error) error {
	var sum checksum.Sum
	if copy(sum[:], content.GetSha256()) != len(sum) || content.GetSize() < 0 {
		return errors.New("the order has no valid SHA-256 or size")
	}
	cached, err := a.fetchFile(ctx, j.number, cache.Key{Sum: sum}, content.GetSize())
	if err != nil {
		return err
	}
	defer cached.Release()
	file, err := os.Open(cached.Path)
	if err != nil {
		return err
	}
	defer file.Close()
	return use(file)
}
