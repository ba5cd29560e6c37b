package archive

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

// Limits on a directory that a job gets.
const (
	MaxDirectorySize  = 20 << 30 // bytes of all files
	MaxDirectoryCount = 100_000  // files, directories and links
)

// ErrDirectory marks an archive or a directory that no attempt and no other node can use.
var ErrDirectory = errors.New("it cannot be a directory of a job")

func refuse(name, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s", ErrDirectory, shorten(name), fmt.Sprintf(format, args...))
}

func shorten(name string) string {
	const longest = 200
	if len(name) > longest {
		name = name[:longest] + "…"
	}
	return strings.ToValidUTF8(name, "?")
}

// Packed is what PackDirectory has put into an archive.
type Packed struct {
	Count   int   // files, directories and links
	Size    int64 // of the files
	Ignored int   // files and directories that IgnoreFile names
}

// PackDirectory writes the archive of a directory: its plain files, directories and links, without what IgnoreFile in it names. The same
// names, contents, links and executable files give the same bytes, whoever owns them and whenever they were written. It refuses what UnpackDirectory
// would refuse, before it reads any content: devices, pipes, sockets, links that lead out of the directory, and more than the limits.
func PackDirectory(directory string, to io.Writer) (*Packed, error) {
	root, err := os.OpenRoot(directory)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	entries, done, err := survey(root)
	if err != nil {
		return nil, err
	}
	packed, err := zstd.NewWriter(to, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	archive := tar.NewWriter(packed)
	for i := range entries {
		if err := writeEntry(archive, root, &entries[i]); err != nil {
			return nil, errors.Join(err, packed.Close())
		}
	}
	return done, errors.Join(archive.Close(), packed.Close())
}

// survey lists what goes into an archive, in the order of the names.
func survey(root *os.Root) (entries []tar.Header, done *Packed, err error) {
	ignored, err := readIgnoreFile(root)
	if err != nil {
		return nil, nil, err
	}
	done = &Packed{}
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		if ignored.match(name, entry.IsDir()) {
			done.Ignored++
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		header, err := headerOf(root, name, entry)
		if err != nil {
			return err
		}
		done.Size += header.Size
		if done.Count++; done.Count > MaxDirectoryCount {
			return refuse(".", "it has more than %d files and directories; name what jobs do not need in %s", MaxDirectoryCount, IgnoreFile)
		}
		if done.Size > MaxDirectorySize {
			return refuse(".", "its files have more than %d GiB; name what jobs do not need in %s", MaxDirectorySize>>30, IgnoreFile)
		}
		entries = append(entries, *header)
		return nil
	})
	return entries, done, err
}

// headerOf describes a file, a directory or a link.
func headerOf(root *os.Root, name string, entry fs.DirEntry) (*tar.Header, error) {
	switch entry.Type() {
	case fs.ModeDir:
		return &tar.Header{Name: name + "/", Typeflag: tar.TypeDir, Mode: 0o755, Format: tar.FormatPAX}, nil
	case fs.ModeSymlink:
		target, err := root.Readlink(name)
		if err != nil {
			return nil, err
		}
		if err := checkLink(name, target); err != nil {
			return nil, fmt.Errorf("%w; replace it, or name it in %s", err, IgnoreFile)
		}
		return &tar.Header{Name: name, Linkname: target, Typeflag: tar.TypeSymlink, Mode: 0o777, Format: tar.FormatPAX}, nil
	case 0:
		info, err := entry.Info()
		if err != nil {
			return nil, err
		}
		return &tar.Header{Name: name, Size: info.Size(), Typeflag: tar.TypeReg, Mode: int64(modeOf(info.Mode())), Format: tar.FormatPAX}, nil
	}
	return nil, refuse(name, "it is a device, a pipe or a socket; name it in %s", IgnoreFile)
}

// modeOf returns the permissions of a file in a job: anybody may read it, and run it if its owner may.
func modeOf(mode fs.FileMode) fs.FileMode {
	if mode&0o100 != 0 {
		return 0o755
	}
	return 0o644
}

// checkLink refuses the target of a link that could lead out of the directory. The parents of a link are directories and no links, so
// a target that first goes up no further than to the directory, and then only down, stays inside, whatever other links it passes through.
func checkLink(name, target string) error {
	ups, down := strings.Count(name, "/"), false
	if target == "" || strings.HasPrefix(target, "/") {
		return refuse(name, "it is a link to %q, which is not a relative path", shorten(target))
	}
	for part := range strings.SplitSeq(target, "/") {
		switch part {
		case "", ".":
		case "..":
			if ups--; down || ups < 0 {
				return refuse(name, "it is a link to %q, which may lead out of the directory", shorten(target))
			}
		default:
			down = true
		}
	}
	return nil
}

// writeEntry adds a file, a directory or a link to an archive.
func writeEntry(archive *tar.Writer, root *os.Root, header *tar.Header) error {
	if err := archive.WriteHeader(header); err != nil {
		return fmt.Errorf("%s: %w", header.Name, err)
	}
	if header.Typeflag != tar.TypeReg {
		return nil
	}
	file, err := root.OpenFile(header.Name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	n, err := io.Copy(archive, io.LimitReader(file, header.Size))
	if err == nil && n < header.Size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("%s: %w", header.Name, err)
	}
	return nil
}

// UnpackDirectory makes the directory name below root of a tar archive, which may be packed with gzip or zstd. Its files have limit bytes at most; size is what they have. What
// is there already stays. It writes nothing outside the directory, and what it makes leads nowhere else: it refuses other paths and
// links, devices, pipes and hard links with ErrDirectory.
func UnpackDirectory(ctx context.Context, archive io.Reader, root *os.Root, name string, limit int64) (size int64, err error) {
	err = root.MkdirAll(name, 0o755)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EEXIST) {
		return 0, refuse(name, "there is a file of this name")
	}
	if err != nil {
		return 0, err
	}
	inside, err := root.OpenRoot(name)
	if err != nil {
		return 0, err
	}
	defer inside.Close()
	plain, err := decompress(archive)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrDirectory, err)
	}
	defer plain.Close()
	limit = min(limit, MaxDirectorySize)
	u := &unpacker{root: inside, left: limit, count: MaxDirectoryCount, made: map[string]bool{".": true}}
	for reader := tar.NewReader(plain); ; {
		header, err := reader.Next()
		if err == io.EOF {
			return limit - u.left, nil
		}
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		if err != nil {
			return 0, fmt.Errorf("%w: it is no tar archive, or a damaged one: %w", ErrDirectory, err)
		}
		if err := u.put(ctx, header, reader); err != nil {
			return 0, err
		}
	}
}

// decompress finds out how an archive is packed.
func decompress(archive io.Reader) (io.ReadCloser, error) {
	buffered := bufio.NewReader(archive)
	start, _ := buffered.Peek(4) // a short archive is refused by those who read it
	switch {
	case bytes.Equal(start, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		d, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	case bytes.HasPrefix(start, []byte{0x1f, 0x8b}):
		return gzip.NewReader(buffered)
	}
	return io.NopCloser(buffered), nil
}

// unpacker makes the files of an archive.
type unpacker struct {
	root  *os.Root
	left  int64           // bytes
	count int             // entries that may come
	made  map[string]bool // directories that are known to be directories and no links
}

// put makes what an entry of the archive describes.
func (u *unpacker) put(ctx context.Context, header *tar.Header, content io.Reader) error {
	if header.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	if u.count--; u.count < 0 {
		return refuse(".", "it has more than %d files and directories", MaxDirectoryCount)
	}
	name := path.Clean(header.Name)
	for part := range strings.SplitSeq(header.Name, "/") {
		if part == ".." {
			return refuse(header.Name, "the path may lead out of the directory")
		}
	}
	if path.IsAbs(name) || strings.ContainsRune(name, 0) {
		return refuse(header.Name, "the path may lead out of the directory")
	}
	switch header.Typeflag {
	case tar.TypeDir:
		return u.makeDirectory(name)
	case tar.TypeReg:
		if u.left -= header.Size; u.left < 0 {
			return refuse(header.Name, "the files of the directory need more disk space than the job may use")
		}
		return u.make(name, func() error { return u.makeFile(ctx, name, header, content) })
	case tar.TypeSymlink:
		if err := checkLink(name, header.Linkname); err != nil {
			return err
		}
		return u.make(name, func() error { return u.root.Symlink(header.Linkname, name) })
	}
	return refuse(header.Name, "it is neither a plain file nor a directory nor a symbolic link")
}

// make makes a file or a link. One that is there stays: the last attempt of the job left it.
func (u *unpacker) make(name string, what func() error) error {
	if name == "." {
		return refuse(name, "it must be a directory")
	}
	if err := u.makeDirectory(path.Dir(name)); err != nil {
		return err
	}
	if err := what(); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// makeDirectory makes a directory and its parents. None of them may be a link.
func (u *unpacker) makeDirectory(name string) error {
	if u.made[name] {
		return nil
	}
	if err := u.makeDirectory(path.Dir(name)); err != nil {
		return err
	}
	err := u.root.Mkdir(name, 0o755)
	if errors.Is(err, fs.ErrExist) {
		var info fs.FileInfo
		if info, err = u.root.Lstat(name); err == nil && !info.IsDir() {
			err = refuse(name, "it is not a directory, and another entry needs it to be one")
		}
	}
	u.made[name] = err == nil
	return err
}

// copyStep is how much of a file is written between two looks at the context.
const copyStep = 16 << 20

func (u *unpacker) makeFile(ctx context.Context, name string, header *tar.Header, from io.Reader) error {
	mode := modeOf(fs.FileMode(header.Mode))
	file, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer file.Close()
	for left := header.Size; left > 0; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := io.CopyN(file, from, min(left, copyStep))
		if left -= n; err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return fmt.Errorf("%s: %w", shorten(name), err)
		}
	}
	return errors.Join(file.Chmod(mode), file.Close())
}
