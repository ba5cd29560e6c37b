package agent

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"

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

// unpack makes a directory of an archive that pack made. It refuses what pack would not have packed.
func unpack(ctx context.Context, archive, directory string, rules *jobproxy.Artifacts) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer file.Close()
	packed, err := zstd.NewReader(file, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return err
	}
	defer packed.Close()
	if err := os.Mkdir(directory, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(directory)
	if err != nil {
		return err
	}
	defer root.Close()
	size, count := cmp.Or(rules.MaxSize, defaultArtifactSize), cmp.Or(rules.MaxCount, defaultArtifactCount)
	for reader := tar.NewReader(packed); ; {
		header, err := reader.Next()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		size, count = size-header.Size, count-1
		switch {
		case header.Typeflag != tar.TypeReg || !filepath.IsLocal(header.Name):
			return fmt.Errorf("%q is not a plain file inside the sandbox", header.Name)
		case size < 0 || count < 0:
			return errors.New("they exceed max_artifact_size or max_artifact_count")
		}
		if err := unpackFile(root, header, reader); err != nil {
			return fmt.Errorf("%s: %w", header.Name, err)
		}
	}
}

func unpackFile(root *os.Root, header *tar.Header, from io.Reader) error {
	if err := root.MkdirAll(filepath.Dir(header.Name), 0o755); err != nil {
		return err
	}
	mode := os.FileMode(header.Mode).Perm()
	file, err := root.OpenFile(header.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.CopyN(file, from, header.Size)
	return errors.Join(err, file.Chmod(mode), file.Close())
}
