package jobproxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// sandbox is a job's working directory with the volumes mounted in it.
type sandbox struct {
	path      string
	temporary string
	changes   string // of the image; empty if the job must not change it
	volumes   []volume
	binds     []volume // files of the node that the init of the job shows
}

// volume is a tmpfs volume. A node that is not allowed to mount has a plain directory instead.
type volume struct {
	path    string
	inside  string   // its path in the sandbox
	handle  *os.File // nil for a plain directory
	mount   *os.File // not attached yet: the init of the job attaches it
	mounted bool     // in this process's mount namespace
}

func (v volume) used() int64 {
	if v.handle == nil {
		return 0
	}
	var st unix.Statfs_t
	if unix.Fstatfs(int(v.handle.Fd()), &st) != nil {
		return 0
	}
	return int64(st.Blocks-st.Bfree) * st.Bsize
}

// prepare makes the sandbox. The tmpfs volumes of a job with an init are detached: the init attaches them in the job's
// mount namespace. Without an init, prepare must run on the thread that will start the command: with tmpfs volumes this
// thread leaves the machine's mount namespace. Either way the volumes disappear with the job's last process. The result
// contains what was made even if there is an error.
func prepare(ctx context.Context, dir string, job *Description, detached bool) (s *sandbox, warnings []string, err error) {
	s = &sandbox{path: filepath.Join(dir, sandboxDir), temporary: filepath.Join(dir, temporaryDir)}
	if err := s.makeDirectories(job); err != nil {
		return s, nil, fmt.Errorf("sandbox: %w", err)
	}
	if job.Image != nil {
		if err := s.prepareImage(dir, job); err != nil {
			return s, nil, fmt.Errorf("root of the job: %w", err)
		}
	}
	if err := s.applyQuota(job); err != nil {
		return s, nil, fmt.Errorf("sandbox: %w", err)
	}
	switch {
	case len(job.Tmpfs) == 0:
	case detached:
		warnings, err = s.makeVolumes(job)
	default:
		warnings, err = s.mountAll(job)
	}
	if err != nil {
		return s, warnings, err
	}
	for _, f := range job.Files {
		if err := s.put(ctx, f, job.Credential, detached); err != nil {
			return s, warnings, fmt.Errorf("file %s of the sandbox: %w", f.Path, err)
		}
	}
	return s, warnings, ctx.Err()
}

// makeDirectories makes the directories that the job writes to. The files of an earlier attempt, if there are any, become the sandbox.
func (s *sandbox) makeDirectories(job *Description) error {
	if err := errors.Join(os.Mkdir(s.temporary, 0o755), chown(s.temporary, job.Credential)); err != nil {
		return err
	}
	if job.Restored == "" {
		return errors.Join(os.Mkdir(s.path, 0o755), chown(s.path, job.Credential))
	}
	if err := os.Rename(job.Restored, s.path); err != nil || job.Credential == nil {
		return err
	}
	return filepath.WalkDir(s.path, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(job.Credential.UID), int(job.Credential.GID))
	})
}

// put writes a file into the sandbox, or into the detached volume that its path leads to.
func (s *sandbox) put(ctx context.Context, f File, owner *Credential, detached bool) error {
	if f.Bind && detached && len(s.binds) < maxBinds {
		mount, err := detachedFile(f.Source)
		if err == nil {
			s.binds = append(s.binds, volume{inside: filepath.Clean(f.Path), mount: mount})
			f = File{Path: f.Path} // an empty file to mount on
		} else if !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.ENOSYS) {
			return err
		}
	}
	base := s.path
	for _, v := range s.volumes {
		if v.mount != nil && within(f.Path, v.inside) {
			base = fmt.Sprintf("/proc/self/fd/%d", v.handle.Fd())
			f.Path, _ = filepath.Rel(v.inside, f.Path) // within has succeeded in this
		}
	}
	root, err := os.OpenRoot(base)
	if err != nil {
		return err
	}
	defer root.Close()
	return putFile(ctx, root, f, owner)
}

// maxBinds is how many files of a job are shown instead of copied: each takes a descriptor until the job has started.
const maxBinds = 128

// detachedFile makes a read-only mount of a file. It returns EPERM where the process may not mount.
func detachedFile(path string) (*os.File, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return nil, os.NewSyscallError("open_tree", err)
	}
	mount := os.NewFile(uintptr(fd), path)
	attributes := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, attributes); err != nil {
		mount.Close()
		return nil, os.NewSyscallError("mount_setattr", err)
	}
	return mount, nil
}

// makeVolumes makes the tmpfs volumes without attaching them anywhere.
func (s *sandbox) makeVolumes(job *Description) (warnings []string, err error) {
	for _, v := range job.Tmpfs {
		path := filepath.Join(s.path, v.Path)
		if err := errors.Join(os.MkdirAll(path, 0o755), chown(path, job.Credential)); err != nil {
			return warnings, fmt.Errorf("tmpfs volume %s: %w", v.Path, err)
		}
		mount, handle, err := detachedTmpfs(v.Size)
		if errors.Is(err, unix.EPERM) {
			warnings = append(warnings, fmt.Sprintf("tmpfs volume %s is a plain directory: the node may not mount", v.Path))
			s.volumes = append(s.volumes, volume{path: path})
			continue
		}
		if err != nil {
			return warnings, fmt.Errorf("tmpfs volume %s: %w", v.Path, err)
		}
		s.volumes = append(s.volumes, volume{path: path, inside: filepath.Clean(v.Path), mount: mount, handle: handle})
		if c := job.Credential; c != nil {
			if err := handle.Chown(int(c.UID), int(c.GID)); err != nil {
				return warnings, fmt.Errorf("tmpfs volume %s: %w", v.Path, err)
			}
		}
	}
	return warnings, nil
}

// detachedTmpfs makes a tmpfs: a mount to attach, and its directory.
func detachedTmpfs(size int64) (mount, directory *os.File, err error) {
	context, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, nil, os.NewSyscallError("fsopen", err)
	}
	defer unix.Close(context)
	err = errors.Join(
		unix.FsconfigSetString(context, "size", strconv.FormatInt(size, 10)),
		unix.FsconfigSetString(context, "mode", "0777"),
		unix.FsconfigCreate(context),
	)
	if err != nil {
		return nil, nil, os.NewSyscallError("fsconfig", err)
	}
	fd, err := unix.Fsmount(context, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	if err != nil {
		return nil, nil, os.NewSyscallError("fsmount", err)
	}
	mount = os.NewFile(uintptr(fd), "tmpfs")
	inside, err := unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		mount.Close()
		return nil, nil, os.NewSyscallError("open", err)
	}
	return mount, os.NewFile(uintptr(inside), "tmpfs"), nil
}

func (s *sandbox) mountAll(job *Description) (warnings []string, err error) {
	private := unix.Unshare(unix.CLONE_NEWNS)
	if private == nil {
		// Mounts of the machine propagate into this namespace, ours do not propagate out.
		private = unix.Mount("none", "/", "", unix.MS_REC|unix.MS_SLAVE, "")
	}
	if private != nil && !errors.Is(private, unix.EPERM) {
		return nil, fmt.Errorf("mount namespace: %w", private)
	}
	for _, v := range job.Tmpfs {
		path := filepath.Join(s.path, v.Path)
		if err := os.MkdirAll(path, 0o755); err != nil {
			return warnings, fmt.Errorf("tmpfs volume %s: %w", v.Path, err)
		}
		options := fmt.Sprintf("size=%d,mode=0777", v.Size)
		err := unix.Mount("tmpfs", path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options)
		if errors.Is(err, unix.EPERM) {
			warnings = append(warnings, fmt.Sprintf("tmpfs volume %s is a plain directory: the node lacks the permission to mount", v.Path))
			s.volumes = append(s.volumes, volume{path: path})
			continue
		}
		if err != nil {
			return warnings, fmt.Errorf("tmpfs volume %s: mount: %w", v.Path, err)
		}
		s.volumes = append(s.volumes, volume{path: path, mounted: true})
		handle, err := os.Open(path)
		if err == nil {
			s.volumes[len(s.volumes)-1].handle = handle
			err = chown(path, job.Credential)
		}
		if err != nil {
			return warnings, fmt.Errorf("tmpfs volume %s: %w", v.Path, err)
		}
	}
	return warnings, nil
}

// copyStep is how much of a file is copied between two checks of the context.
const copyStep = 16 << 20

func putFile(ctx context.Context, root *os.Root, f File, owner *Credential) error {
	if parent := filepath.Dir(f.Path); parent != "." {
		if err := root.MkdirAll(parent, 0o755); err != nil {
			return err
		}
	}
	mode := os.FileMode(0o644)
	if f.Executable {
		mode = 0o755
	}
	var from io.Reader = bytes.NewReader(f.Content)
	if f.Source != "" {
		source, err := openSource(f, owner)
		if err != nil {
			return err
		}
		defer source.Close()
		from = source
	}
	file, err := root.OpenFile(f.Path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	defer file.Close()
	if source, isFile := from.(*os.File); isFile && unix.IoctlFileClone(int(file.Fd()), int(source.Fd())) == nil {
		from = bytes.NewReader(nil) // the file system shares the blocks
	}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := io.CopyN(file, from, copyStep); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
	}
	err = file.Chmod(mode) // whatever the umask
	if err == nil && owner != nil {
		err = file.Chown(int(owner.UID), int(owner.GID))
	}
	return err
}

// openSource opens a file of the node. A job with a user id of its own gets only what every user may read.
func openSource(f File, owner *Credential) (*os.File, error) {
	if f.Root == "" {
		return os.Open(f.Source)
	}
	root, err := os.OpenRoot(f.Root)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	inside, err := filepath.Rel(f.Root, f.Source)
	if err != nil {
		return nil, err
	}
	source, err := root.OpenFile(inside, os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe must not block
	if err != nil {
		return nil, err
	}
	info, err := source.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%s is not a plain file", f.Source)
	case owner != nil && info.Mode()&0o004 == 0:
		err = fmt.Errorf("%s: not every user of the node may read it", f.Source)
	default:
		return source, nil
	}
	source.Close()
	return nil, err
}

func chown(path string, owner *Credential) error {
	if owner == nil {
		return nil
	}
	return os.Chown(path, int(owner.UID), int(owner.GID))
}

func (s *sandbox) usage() []int64 {
	used := make([]int64, len(s.volumes))
	for i, v := range s.volumes {
		used[i] = v.used()
	}
	return used
}

// remove unmounts the volumes and deletes the files, on the thread that prepared them.
func (s *sandbox) remove(keepFiles bool) error {
	var problems []error
	for _, v := range slices.Backward(s.volumes) {
		if v.handle != nil {
			v.handle.Close()
		}
		if v.mount != nil {
			v.mount.Close()
		}
		if v.mounted {
			if err := unix.Unmount(v.path, unix.MNT_DETACH); err != nil {
				problems = append(problems, fmt.Errorf("tmpfs volume %s: unmount: %w", v.path, err))
			}
		}
	}
	for _, v := range s.binds {
		v.mount.Close()
	}
	s.volumes, s.binds = nil, nil
	if !keepFiles && len(problems) == 0 { // never delete inside a mounted file system
		problems = append(problems, os.RemoveAll(s.path), os.RemoveAll(s.temporary))
		if s.changes != "" {
			problems = append(problems, os.RemoveAll(s.changes))
		}
	}
	return errors.Join(problems...)
}

// isNodesFault reports whether preparing a job failed because of the machine, so that another node may succeed.
func isNodesFault(err error) bool {
	for _, fault := range []error{
		unix.ENOSPC, unix.EDQUOT, unix.EIO, unix.EROFS, unix.ENOMEM, unix.EMFILE, unix.ENFILE, unix.EAGAIN, context.DeadlineExceeded,
		errSurroundings,
	} {
		if errors.Is(err, fault) {
			return true
		}
	}
	return false
}
