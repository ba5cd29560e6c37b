package jobinit

import (
	"strings"

	"golang.org/x/sys/unix"
)

// Points are the directories of a root that something is mounted on. The uppermost layer of an image must have them.
var Points = []string{"/dev", "/proc", "/sys", SandboxPath, TemporaryPath}

// imageRoot assembles a root of the layers of an image on p.Root and enters it. Every path below that something is
// mounted on is a real directory or file of the uppermost layer, so that links in the image lead nowhere.
func (p *Plan) imageRoot() error {
	root := p.Root
	if err := p.mountLayers(root); err != nil {
		return err
	}
	if err := p.furnish(root, bindInImage); err != nil {
		return err
	}
	for _, b := range p.Binds {
		if err := bind(b.Source, root+b.Target, readOnly); err != nil {
			return err
		}
	}
	if err := p.hide(root); err != nil {
		return err
	}
	return enter(root)
}

// runtimeRoot mounts the layers of an image on p.Root for an OCI runtime, which sees the machine's files and the processes of this namespace.
func (p *Plan) runtimeRoot() error {
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return step("mount /proc", err)
	}
	if err := p.placeVolumes(p.Sandbox); err != nil {
		return err
	}
	return p.mountLayers(p.Root)
}

// bindInImage shows a path of the machine, for which the uppermost layer has a place unless it is in the job's own
// temporary directory.
func bindInImage(path, root string, attributes uint64) error {
	if strings.HasPrefix(path, TemporaryPath+"/") {
		return makeAndBind(path, root, attributes)
	}
	return bind(path, root+path, attributes)
}

// maxOptions is what the kernel takes of the options of mount: a page with a zero byte at its end.
const maxOptions = 4095

// mountLayers mounts the layers over each other. Without an upper directory the result is read-only.
func (p *Plan) mountLayers(root string) error {
	if err := unix.Chdir(p.LayerDir); err != nil { // short names: the options must fit into a page
		return step("enter the directory of layers", err)
	}
	flags := uintptr(unix.MS_NOSUID | unix.MS_NODEV)
	options := "lowerdir=" + strings.Join(p.Layers, ":")
	if p.Upper == "" {
		flags |= unix.MS_RDONLY
	} else {
		options += ",upperdir=" + escape(p.Upper) + ",workdir=" + escape(p.Work)
	}
	if len(options) > maxOptions {
		return p.mountManyLayers(root)
	}
	err := unix.EINVAL
	if p.Upper != "" { // what the job leaves is deleted, and need not reach the disk; since Linux 5.10
		err = asErrno(unix.Mount("weir", root, "overlay", flags, options+",volatile"))
	}
	if err == unix.EINVAL {
		err = asErrno(unix.Mount("weir", root, "overlay", flags, options))
	}
	if err != 0 {
		return step("mount the layers of the image", err)
	}
	return nil
}

func asErrno(err error) unix.Errno {
	if errno, ok := err.(unix.Errno); ok {
		return errno
	}
	return 0
}

// escape writes a path as a value of an option.
func escape(path string) string {
	var escaped []byte
	for i := range len(path) {
		if c := path[i]; c == '\\' || c == ',' || c == ':' {
			escaped = append(escaped, '\\')
		}
		escaped = append(escaped, path[i])
	}
	return string(escaped)
}

// mountManyLayers names the layers one by one, which Linux can since 6.5.
func (p *Plan) mountManyLayers(root string) error {
	const doing = "mount the layers of the image, which has many"
	context, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return step(doing, err)
	}
	defer unix.Close(context)
	for _, layer := range p.Layers {
		if err := unix.FsconfigSetString(context, "lowerdir+", layer); err != nil {
			return step(doing, err)
		}
	}
	attributes := unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	if p.Upper == "" {
		attributes |= unix.MOUNT_ATTR_RDONLY
	} else {
		if err := unix.FsconfigSetString(context, "upperdir", p.Upper); err != nil {
			return step(doing, err)
		}
		if err := unix.FsconfigSetString(context, "workdir", p.Work); err != nil {
			return step(doing, err)
		}
	}
	if err := unix.FsconfigCreate(context); err != nil {
		return step(doing, err)
	}
	mount, err := unix.Fsmount(context, unix.FSMOUNT_CLOEXEC, attributes)
	if err != nil {
		return step(doing, err)
	}
	defer unix.Close(mount)
	return step(doing, unix.MoveMount(mount, "", unix.AT_FDCWD, root, unix.MOVE_MOUNT_F_EMPTY_PATH))
}
