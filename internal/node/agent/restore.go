package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/weirhq/weir/internal/node/archive"
	"github.com/weirhq/weir/internal/node/cache"
	"github.com/weirhq/weir/internal/node/jobproxy"
	"github.com/weirhq/weir/internal/value/checksum"
)

// restoredDirectory has, for each job that continues an earlier attempt, the files of that attempt until the job starts.
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

// restoreFiles fetches and unpacks the files that an earlier attempt of a job left. They become the job's sandbox.
func (a *Agent) restoreFiles(ctx context.Context, j *job, rules *jobproxy.Artifacts) error {
	var sum checksum.Sum
	if copy(sum[:], j.restore.GetSha256()) != len(sum) || rules == nil {
		return errors.New("the order has no valid SHA-256, or the job keeps no files")
	}
	content, err := a.fetchFile(ctx, j.number, cache.Key{Sum: sum}, j.restore.GetSize())
	if err != nil {
		return err
	}
	defer content.Release()
	directory := a.restoredOf(j)
	if err := os.MkdirAll(filepath.Dir(directory), 0o700); err != nil {
		return err
	}
	if err := unpack(ctx, content.Path, directory, rules); err != nil {
		return errors.Join(err, os.RemoveAll(directory))
	}
	return nil
}

// unpack makes a directory of an archive.
func unpack(ctx context.Context, name, directory string, rules *jobproxy.Artifacts) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := os.Mkdir(directory, 0o755); err != nil {
		return err
	}
	return archive.Unpack(ctx, file, directory, rulesOf(rules))
}
