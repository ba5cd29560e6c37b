// Package archive packs the files that a job leaves behind and unpacks them for its next attempt: a tar, packed with zstd. It does the same with
// directories that users bring along, from their machines to the jobs.
package archive

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

// Limits on the files that jobs leave behind, where their specification sets none.
const (
	defaultSize  = 1 << 30
	defaultCount = 10_000
)

// Why a job has no artifacts though it was asked for them.
const (
	OverQuota  = "quota_exceeded"
	Refused    = "upload_refused"
	Unreadable = "unreadable"
	NoSpace    = "no_space"
)

// Rules say which files of a sandbox are kept.
type Rules struct {
	Patterns []string `json:"patterns"`            // "out/**", "model.bin"
	MaxSize  int64    `json:"max_size,omitempty"`  // of all files together; zero: 1 GiB
	MaxCount int64    `json:"max_count,omitempty"` // zero: 10 000
}

func (r *Rules) limits() (size, count int64) {
	return cmp.Or(r.MaxSize, defaultSize), cmp.Or(r.MaxCount, defaultCount)
}

// Owner is whom a job runs as.
type Owner struct{ UID, GID uint32 }

// File is a file of an archive.
type File struct {
	Path string `json:"path"` // in the sandbox
	Size int64  `json:"size"`
	Mode uint32 `json:"mode"` // permissions
}

// List describes an archive.
type List struct {
	Files     []File `json:"files"`
	Truncated bool   `json:"truncated,omitempty"` // some files were left out; the message says which and why
	Message   string `json:"message,omitempty"`
}

// Cause returns why files cannot be packed.
func Cause(err error) string {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return NoSpace
	}
	return Unreadable
}

// packer writes files of a sandbox into an archive.
type packer struct {
	rules   *Rules
	owner   *Owner
	shown   map[string]bool
	archive *tar.Writer
	list    *List
	size    int64
	left    []string // why files were left out, at most a few
	omitted int
}

// Pack writes the archive of a job's files. Links are not followed; devices, pipes and sockets are left out, and so are what
// the job's own user could not read, and the files that are only shown in the sandbox. A nil owner is this process.
func Pack(sandbox string, to io.Writer, rules *Rules, owner *Owner, shown map[string]bool) (*List, error) {
	root, err := os.OpenRoot(sandbox)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	packed, err := zstd.NewWriter(to, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	p := &packer{rules: rules, owner: owner, shown: shown, archive: tar.NewWriter(packed), list: &List{}}
	err = fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			p.leaveOut(path, err.Error())
			return nil
		}
		return p.add(root, path, entry)
	})
	if err = errors.Join(err, p.archive.Close(), packed.Close()); err != nil {
		return nil, err
	}
	if p.omitted > 0 {
		p.list.Truncated = true
		p.list.Message = fmt.Sprintf("%d files are left out: %s", p.omitted, strings.Join(p.left, "; "))
	}
	return p.list, nil
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
	limit, most := p.rules.limits()
	switch {
	case !info.Mode().IsRegular() || !p.mayRead(info):
		p.leaveOut(path, "the job could not read it")
		return nil
	case int64(len(p.list.Files)) >= most:
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
	p.list.Files = append(p.list.Files, File{Path: path, Size: info.Size(), Mode: uint32(mode)})
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

// Unpack writes the files of an archive that Pack made into a directory. It refuses what Pack would not have packed.
func Unpack(ctx context.Context, archive io.Reader, directory string, rules *Rules) error {
	packed, err := zstd.NewReader(archive, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return err
	}
	defer packed.Close()
	root, err := os.OpenRoot(directory)
	if err != nil {
		return err
	}
	defer root.Close()
	size, count := rules.limits()
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
