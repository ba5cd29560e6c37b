package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Limits bound what unpacking a layer may write.
type Limits struct {
	Size    int64 // bytes of all files together
	Entries int
}

// Names in layers that stand for deletions. Everything else that begins with reservedPrefix belongs to aufs.
const (
	whiteoutPrefix = ".wh."
	opaqueMark     = ".wh..wh..opq"
	reservedPrefix = ".wh..wh."
)

// opaqueAttribute marks a directory that hides those of the layers below it.
const opaqueAttribute = "trusted.overlay.opaque"

// unpacker writes the entries of one layer below a directory. The kernel resolves every path as if that directory were
// the root, so that neither ".." nor links lead out of it.
type unpacker struct {
	root    int
	left    Limits
	written int64
	entries int
	// The directory that was used last: entries of a directory come together.
	parentPath string
	parent     int
	times      []directoryTime
}

// directoryTime is set when everything is in place: writing into a directory changes its time.
type directoryTime struct {
	path string
	time time.Time
}

// unpack writes a layer into an empty directory, in the form that overlayfs expects. It returns the number of bytes and
// entries.
func unpack(stream io.Reader, directory string, limits Limits) (written int64, entries int, err error) {
	root, err := unix.Open(directory, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, 0, fmt.Errorf("open %s: %w", directory, err)
	}
	defer unix.Close(root)
	u := &unpacker{root: root, left: limits, parent: -1}
	defer u.closeParent()
	archive := tar.NewReader(stream)
	for {
		header, err := archive.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return u.written, u.entries, invalidUnlessRead(err)
		}
		if err := u.put(header, archive); err != nil {
			return u.written, u.entries, fmt.Errorf("entry %s: %w", shorten(header.Name), err)
		}
	}
	for i := len(u.times) - 1; i >= 0; i-- {
		if err := u.setDirectoryTime(&u.times[i]); err != nil {
			return u.written, u.entries, err
		}
	}
	return u.written, u.entries, nil
}

// readError is an error of the stream that a layer comes from, not of its format.
type readError struct{ err error }

func (e *readError) Error() string { return e.err.Error() }
func (e *readError) Unwrap() error { return e.err }

// invalidUnlessRead blames the format for an error that the stream did not cause.
func invalidUnlessRead(err error) error {
	var read *readError
	if errors.As(err, &read) {
		return err
	}
	return &fault{Invalid, fmt.Errorf("the layer is no tar archive: %w", err)}
}

func shorten(name string) string {
	const longest = 200
	if len(name) > longest {
		name = name[:longest] + "…"
	}
	return strings.ToValidUTF8(name, "?")
}

// inside returns a name of an archive as a path below the root, "" for the root itself.
func inside(name string) (string, error) {
	for _, part := range strings.Split(name, "/") {
		if part == ".." {
			return "", faultf(Invalid, "the path leads out of the image")
		}
	}
	if strings.IndexByte(name, 0) >= 0 {
		return "", faultf(Invalid, "the path has a zero byte")
	}
	return strings.TrimPrefix(path.Clean("/"+name), "/"), nil
}

// put writes one entry.
func (u *unpacker) put(h *tar.Header, content io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	if u.entries++; u.entries > u.left.Entries {
		return faultf(TooLarge, "the image has more than %d files", u.left.Entries)
	}
	name, err := inside(h.Name)
	if err != nil {
		return err
	}
	if name == "" {
		if h.Typeflag != tar.TypeDir {
			return faultf(Invalid, "the root must be a directory")
		}
		return during("set the mode of the root", unix.Fchmod(u.root, uint32(h.Mode)&0o777))
	}
	directory, base := path.Split(name)
	parent, err := u.open(strings.TrimSuffix(directory, "/"))
	if err != nil {
		return err
	}
	if strings.HasPrefix(base, whiteoutPrefix) {
		return whiteout(parent, base)
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return u.makeDirectory(parent, base, name, h)
	case tar.TypeReg, tar.TypeGNUSparse:
		err = u.makeFile(parent, base, h, content)
	case tar.TypeSymlink:
		err = replace(parent, base, func() error { return unix.Symlinkat(h.Linkname, parent, base) })
	case tar.TypeLink:
		return u.makeLink(parent, base, h)
	case tar.TypeFifo:
		err = replace(parent, base, func() error { return unix.Mknodat(parent, base, unix.S_IFIFO|uint32(h.Mode)&0o777, 0) })
	case tar.TypeChar, tar.TypeBlock:
		return faultf(Invalid, "it is a device, and images may not have devices")
	default:
		return faultf(Invalid, "entries of type %q are not known", h.Typeflag)
	}
	if err != nil {
		return err
	}
	return during("set times", setTime(parent, base, h.ModTime))
}

// during names a step that the kernel refused.
func during(step string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", step, err)
}

func setTime(parent int, base string, t time.Time) error {
	if t.Unix() < 0 {
		t = time.Unix(0, 0)
	}
	stamp := unix.NsecToTimespec(t.UnixNano())
	return unix.UtimesNanoAt(parent, base, []unix.Timespec{stamp, stamp}, unix.AT_SYMLINK_NOFOLLOW)
}

// resolution makes the kernel resolve paths, links included, as if the root were that of the image.
const resolution = unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS

func (u *unpacker) openAt(path string) (int, error) {
	if path == "" {
		path = "."
	}
	return unix.Openat2(u.root, path, &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: resolution})
}

// open opens the directory of an entry. It makes directories that the archive has not mentioned. The result is valid
// until the next call.
func (u *unpacker) open(directory string) (int, error) {
	if u.parent >= 0 && u.parentPath == directory {
		return u.parent, nil
	}
	u.closeParent()
	fd, err := u.openAt(directory)
	if err == unix.ENOENT {
		fd, err = u.openMade(directory)
	}
	switch err {
	case nil:
	case unix.ENOTDIR, unix.ELOOP, unix.ENAMETOOLONG:
		return -1, faultf(Invalid, "its directory: %w", err)
	default:
		return -1, fmt.Errorf("its directory: %w", err)
	}
	u.parent, u.parentPath = fd, directory
	return fd, nil
}

func (u *unpacker) closeParent() {
	if u.parent >= 0 {
		unix.Close(u.parent)
		u.parent = -1
	}
}

// openMade makes all directories of a path and opens the last one.
func (u *unpacker) openMade(directory string) (int, error) {
	at, err := u.openAt("")
	if err != nil {
		return -1, err
	}
	for i := 0; i < len(directory); i++ {
		end := strings.IndexByte(directory[i:], '/')
		if end < 0 {
			end = len(directory) - i
		}
		next, err := u.openAt(directory[:i+end])
		if err == unix.ENOENT {
			if err = unix.Mkdirat(at, directory[i:i+end], 0o755); err == nil {
				next, err = u.openAt(directory[:i+end])
			}
		}
		unix.Close(at)
		if err != nil {
			return -1, err
		}
		at, i = next, i+end
	}
	return at, nil
}

// whiteout makes what overlayfs understands as a deletion of a file in the layers below.
func whiteout(parent int, base string) error {
	if base == opaqueMark {
		return during("hide a directory", unix.Fsetxattr(parent, opaqueAttribute, []byte("y"), 0))
	}
	if strings.HasPrefix(base, reservedPrefix) {
		return nil
	}
	hidden := strings.TrimPrefix(base, whiteoutPrefix)
	if hidden == "" || hidden == "." || hidden == ".." {
		return faultf(Invalid, "it deletes nothing")
	}
	err := unix.Mknodat(parent, hidden, unix.S_IFCHR, int(unix.Mkdev(0, 0)))
	if err != unix.EEXIST {
		return during("delete a file", err)
	}
	// The layer itself has something of this name. It is new, and hides what is below.
	return hideBelow(parent, hidden)
}

// hideBelow makes a directory opaque. Other things hide what is below them anyway.
func hideBelow(parent int, base string) error {
	fd, err := unix.Openat(parent, base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == unix.ENOTDIR || err == unix.ELOOP {
		return nil
	}
	if err != nil {
		return during("open a directory", err)
	}
	defer unix.Close(fd)
	return during("hide a directory", unix.Fsetxattr(fd, opaqueAttribute, []byte("y"), 0))
}

// replace makes an entry in place of an earlier one of the same name.
func replace(parent int, base string, make func() error) error {
	err := make()
	if err == unix.EEXIST {
		switch err = unix.Unlinkat(parent, base, 0); err {
		case nil:
			err = make()
		case unix.EISDIR, unix.EPERM:
			return faultf(Invalid, "the layer has a directory of the same name")
		}
	}
	if err == unix.ENAMETOOLONG || err == unix.EINVAL || err == unix.ENOENT {
		return faultf(Invalid, "it cannot be made: %w", err)
	}
	return during("make it", err)
}

func (u *unpacker) makeDirectory(parent int, base, name string, h *tar.Header) error {
	err := unix.Mkdirat(parent, base, 0o700)
	if err == unix.EEXIST {
		var st unix.Stat_t
		if err = unix.Fstatat(parent, base, &st, unix.AT_SYMLINK_NOFOLLOW); err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
			wasDeleted := st.Mode&unix.S_IFMT == unix.S_IFCHR
			err = replace(parent, base, func() error { return unix.Mkdirat(parent, base, 0o700) })
			if err == nil && wasDeleted {
				err = hideBelow(parent, base)
			}
		}
	}
	if err == nil {
		err = unix.Fchmodat(parent, base, uint32(h.Mode)&0o1777, 0)
	}
	u.times = append(u.times, directoryTime{name, h.ModTime})
	return during("make it", err)
}

func (u *unpacker) setDirectoryTime(d *directoryTime) error {
	directory, base := path.Split(d.path)
	parent, err := u.open(strings.TrimSuffix(directory, "/"))
	if err != nil {
		return err
	}
	if err := setTime(parent, base, d.time); err != nil && err != unix.ENOENT {
		return during("set times of "+shorten(d.path), err)
	}
	return nil
}

func (u *unpacker) makeFile(parent int, base string, h *tar.Header, content io.Reader) error {
	if h.Size > u.left.Size-u.written {
		return faultf(TooLarge, "the image has more than %d bytes", u.left.Size)
	}
	fd := -1
	err := replace(parent, base, func() (err error) {
		fd, err = unix.Openat(parent, base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		return err
	})
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	n, err := io.Copy(writerTo(fd), content)
	u.written += n
	if err != nil {
		return invalidUnlessWrite(err)
	}
	return during("set the mode", unix.Fchmod(fd, uint32(h.Mode)&0o777))
}

// invalidUnlessWrite blames the archive for an error that neither its stream nor the disk caused.
func invalidUnlessWrite(err error) error {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return err
	}
	return invalidUnlessRead(err)
}

// writerTo writes to an open file.
type writerTo int

func (w writerTo) Write(data []byte) (written int, err error) {
	for written < len(data) {
		n, err := unix.Write(int(w), data[written:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return written, err
		}
		written += n
	}
	return written, nil
}

// makeLink makes a hard link to an earlier file of the same layer.
func (u *unpacker) makeLink(parent int, base string, h *tar.Header) error {
	target, err := inside(h.Linkname)
	if err != nil {
		return faultf(Invalid, "its target leads out of the image")
	}
	directory, name := path.Split(target)
	from, err := u.openAt(strings.TrimSuffix(directory, "/"))
	if err == nil {
		defer unix.Close(from)
		err = replace(parent, base, func() error { return unix.Linkat(from, name, parent, base, 0) })
	}
	if err != nil {
		return faultf(Invalid, "it is a link to %s: %w", shorten(h.Linkname), err)
	}
	return nil
}
