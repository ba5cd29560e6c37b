package jobinit

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// surround makes the mounts and the host name of the job. It runs in the job's own namespaces.
func (p *Plan) surround() error {
	if err := unix.Sethostname([]byte(p.HostName)); err != nil {
		return step("set the host name", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return step("make mounts private", err)
	}
	if p.NoNetwork {
		if err := raiseLoopback(); err != nil {
			return err
		}
	}
	before := unix.Umask(0)
	defer unix.Umask(before)
	switch {
	case p.Runtime:
		return p.runtimeRoot()
	case p.Level == Full && len(p.Layers) > 0:
		return p.imageRoot()
	case p.Level == Full:
		return p.ownRoot()
	}
	return p.sharedRoot()
}

// raiseLoopback switches on the loopback device of a new network namespace, which has no other.
func raiseLoopback() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return step("make a socket", err)
	}
	defer unix.Close(socket)
	loopback, err := unix.NewIfreq("lo")
	if err != nil {
		return step("name the loopback device", err)
	}
	loopback.SetUint16(unix.IFF_UP)
	return step("raise the loopback device", unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, loopback))
}

// stay prepares a job that is not isolated. Only its volumes are its own.
func (p *Plan) stay() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return step("adopt orphans of the job", err)
	}
	if len(p.Volumes) == 0 {
		return nil
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return step("make a mount namespace", err)
	}
	// Mounts of the machine propagate into this namespace, ours do not propagate out.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return step("make mounts private", err)
	}
	return p.placeVolumes(p.Sandbox)
}

// Attributes of mounts that a job sees.
const (
	readOnly = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	writable = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
)

// programs are the directories besides /usr where the machine may keep programs and libraries. Most machines have links
// into /usr instead.
var programs = []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"}

// ownRoot assembles a root on p.Root and enters it. What is not mentioned here is not there.
func (p *Plan) ownRoot() error {
	root := p.Root
	if err := unix.Mount("weir", root, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=1m,nr_inodes=4096"); err != nil {
		return step("mount a root", err)
	}
	for _, dir := range []string{"dev", "etc", "home", "job", "proc", "root", "run", "sys", "tmp", "usr", "var"} {
		if err := unix.Mkdir(root+"/"+dir, 0o755); err != nil {
			return step("make /"+dir, err)
		}
	}
	for _, l := range []link{{"var/tmp", TemporaryPath}, {"var/run", "/run"}} {
		if err := unix.Symlink(l.target, root+"/"+l.name); err != nil {
			return step("make /"+l.name, err)
		}
	}
	for _, dir := range []string{"/usr", "/etc"} {
		if err := bind(dir, root+dir, readOnly); err != nil {
			return err
		}
	}
	for _, dir := range programs {
		if err := copyOrBind("/"+dir, root+"/"+dir); err != nil {
			return err
		}
	}
	if err := p.furnish(root, makeAndBind); err != nil {
		return err
	}
	if err := bringResolver(root); err != nil {
		return err
	}
	for _, b := range p.Binds {
		if err := b.show(root); err != nil {
			return err
		}
	}
	if err := p.hide(root); err != nil {
		return err
	}
	if err := enter(root); err != nil {
		return err
	}
	return step("make the root read-only", setAttributes("/", false, unix.MOUNT_ATTR_RDONLY, 0))
}

// furnish mounts what every root has: processes, devices, the job's own directories and volumes, and the paths of the machine
// that jobs may see, each with show.
func (p *Plan) furnish(root string, show func(path, root string, attributes uint64) error) error {
	if err := unix.Mount("proc", root+"/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, p.procOptions()); err != nil {
		return step("mount /proc", err)
	}
	if err := p.devices(root + "/dev"); err != nil {
		return err
	}
	if err := bind(p.Sandbox, root+SandboxPath, writable); err != nil {
		return err
	}
	if err := bind(p.Temporary, root+TemporaryPath, writable); err != nil {
		return err
	}
	if err := p.placeVolumes(root + SandboxPath); err != nil {
		return err
	}
	for _, path := range p.ReadOnly {
		if err := show(path, root, readOnly); err != nil {
			return err
		}
	}
	for _, path := range p.Writable {
		if err := show(path, root, writable); err != nil {
			return err
		}
	}
	return nil
}

// enter makes a directory the root and detaches everything else.
func enter(root string) error {
	if err := unix.Chdir(root); err != nil {
		return step("enter the root", err)
	}
	// The old root is stacked on the new one, and unmounted from there.
	if err := unix.PivotRoot(".", "."); err != nil {
		return step("change the root", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return step("detach the machine's tree", err)
	}
	return step("enter the root", unix.Chdir("/"))
}

// sharedRoot keeps the machine's tree, read-only but for the sandbox and places that everybody may write to.
func (p *Plan) sharedRoot() error {
	if err := p.openWay(); err != nil {
		return err
	}
	places := append([]string{p.Sandbox, p.Temporary, "/tmp", "/var/tmp"}, p.Writable...)
	for _, place := range places {
		if err := unix.Mount(place, place, "", unix.MS_BIND|unix.MS_REC, ""); err != nil && err != unix.ENOENT {
			return step("bind "+place, err)
		}
	}
	if err := setAttributes("/", true, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID, 0); err != nil {
		return step("make the machine's tree read-only", err)
	}
	for _, place := range places {
		if err := setAttributes(place, true, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, unix.MOUNT_ATTR_RDONLY); err != nil && err != unix.ENOENT {
			return step("make "+place+" writable", err)
		}
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, p.procOptions()); err != nil {
		return step("mount /proc", err)
	}
	if err := p.sharedMemory("/dev/shm"); err != nil {
		return err
	}
	if err := p.placeVolumes(p.Sandbox); err != nil {
		return err
	}
	return p.hide("")
}

// openWay lets the job reach its directories if a directory above them is closed to its user, such as a data directory with mode 0700.
// In the job's namespace it covers the closed directory with an empty one, which has only the job's own directories.
func (p *Plan) openWay() error {
	closed, err := closedAbove(p.Sandbox)
	if err != nil || closed == "" || !p.ChangeUser {
		return err
	}
	type moved struct {
		path string
		tree int
	}
	var own []moved
	for _, path := range []string{p.Sandbox, p.Temporary} {
		if !strings.HasPrefix(path, closed+"/") {
			continue
		}
		tree, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		if err != nil {
			return step("open "+path, err)
		}
		defer unix.Close(tree)
		own = append(own, moved{path, tree})
	}
	if err := unix.Mount("weir", closed, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=64k,nr_inodes=64"); err != nil {
		return step("cover "+closed, err)
	}
	for _, m := range own {
		if err := makePoint(closed, m.path[len(closed):], true); err != nil {
			return err
		}
		if err := unix.MoveMount(m.tree, "", unix.AT_FDCWD, m.path, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return step("show "+m.path, err)
		}
	}
	return nil
}

// closedAbove returns the uppermost directory above a path that lets other users not pass, or nothing.
func closedAbove(path string) (string, error) {
	for i := 1; i < len(path); i++ {
		if path[i] != '/' {
			continue
		}
		var st unix.Stat_t
		if err := unix.Stat(path[:i], &st); err != nil {
			return "", step("find "+path[:i], err)
		}
		if st.Mode&unix.S_IXOTH == 0 {
			return path[:i], nil
		}
	}
	return "", nil
}

// procOptions hide processes of other users: the init, for a job that runs as its own user.
func (p *Plan) procOptions() string {
	if p.UserNamespace {
		return ""
	}
	return "hidepid=2"
}

// bind shows a directory or file of the machine at another path.
func bind(source, target string, attributes uint64) error {
	if err := unix.Mount(source, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return step("bind "+source, err)
	}
	return step("protect "+source, setAttributes(target, true, attributes, 0))
}

func setAttributes(path string, recursive bool, set, clear uint64) error {
	flags := uint(0)
	if recursive {
		flags = unix.AT_RECURSIVE
	}
	return unix.MountSetattr(unix.AT_FDCWD, path, flags, &unix.MountAttr{Attr_set: set, Attr_clr: clear})
}

// copyOrBind repeats a link of the machine, or shows the directory that is there instead.
func copyOrBind(source, target string) error {
	link := make([]byte, 256)
	n, err := unix.Readlink(source, link)
	switch err {
	case nil:
		return step("make "+source, unix.Symlink(string(link[:n]), target))
	case unix.ENOENT:
		return nil
	}
	if err := unix.Mkdir(target, 0o755); err != nil {
		return step("make "+source, err)
	}
	return bind(source, target, readOnly)
}

// makeAndBind shows a path of the machine in the root, where it may have to be made.
func makeAndBind(path, root string, attributes uint64) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return step("find "+path, err)
	}
	isDirectory := st.Mode&unix.S_IFMT == unix.S_IFDIR
	if err := makePoint(root, path, isDirectory); err != nil {
		return err
	}
	return bind(path, root+path, attributes)
}

// show shows the file or directory in a root of the machine's programs, which has most of them at their own places already.
func (b *Bind) show(root string) error {
	if b.Source == b.Target && (strings.HasPrefix(b.Target, "/usr/") || strings.HasPrefix(b.Target, "/etc/")) {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Stat(b.Source, &st); err != nil {
		return step("find "+b.Source, err)
	}
	if err := makePoint(root, b.Target, st.Mode&unix.S_IFMT == unix.S_IFDIR); err != nil {
		return err
	}
	return bind(b.Source, root+b.Target, readOnly)
}

// makePoint makes a directory or an empty file to mount on, with all directories above it.
func makePoint(root, path string, isDirectory bool) error {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	for i := range parts {
		point := root + "/" + strings.Join(parts[:i+1], "/")
		err := error(nil)
		if i < len(parts)-1 || isDirectory {
			err = unix.Mkdir(point, 0o755)
		} else {
			var fd int
			if fd, err = unix.Open(point, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o644); err == nil {
				unix.Close(fd)
			}
		}
		// What the machine shows there already cannot be changed and need not be.
		if err != nil && err != unix.EEXIST && err != unix.EROFS {
			return step("make "+path, err)
		}
	}
	return nil
}

// Harmless are the devices that every job has.
var Harmless = []Device{
	{"null", "/dev/null", 1, 3}, {"zero", "/dev/zero", 1, 5}, {"full", "/dev/full", 1, 7}, {"random", "/dev/random", 1, 8},
	{"urandom", "/dev/urandom", 1, 9}, {"tty", "/dev/tty", 5, 0},
}

// TerminalMaster is the device behind /dev/ptmx, which makes terminals.
var TerminalMaster = Device{"ptmx", "/dev/ptmx", 5, 2}

// link is a symbolic link.
type link struct{ name, target string }

var deviceLinks = []link{
	{"fd", "/proc/self/fd"}, {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"}, {"stderr", "/proc/self/fd/2"}, {"ptmx", "pts/ptmx"},
}

// devices makes /dev with the harmless devices, those that the job was given, terminals of its own and shared memory.
func (p *Plan) devices(dir string) error {
	if err := unix.Mount("weir", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=755,size=64k,nr_inodes=64"); err != nil {
		return step("mount /dev", err)
	}
	for _, d := range Harmless {
		if err := d.make(dir); err != nil {
			return err
		}
	}
	for _, d := range p.Devices {
		if parent := strings.LastIndexByte(d.Name, '/'); parent > 0 {
			if err := makePoint(dir, d.Name[:parent], true); err != nil {
				return err
			}
		}
		if err := d.make(dir); err != nil {
			return err
		}
	}
	for _, l := range deviceLinks {
		if err := unix.Symlink(l.target, dir+"/"+l.name); err != nil {
			return step("make /dev/"+l.name, err)
		}
	}
	for _, name := range []string{"pts", "shm"} {
		if err := unix.Mkdir(dir+"/"+name, 0o755); err != nil {
			return step("make /dev/"+name, err)
		}
	}
	if err := unix.Mount("devpts", dir+"/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620"); err != nil {
		return step("mount /dev/pts", err)
	}
	if err := p.sharedMemory(dir + "/shm"); err != nil {
		return err
	}
	return step("make /dev read-only", setAttributes(dir, false, unix.MOUNT_ATTR_RDONLY, 0))
}

// make makes the device file in a directory.
func (d *Device) make(dir string) error {
	err := unix.Mknod(dir+"/"+d.Name, unix.S_IFCHR|0o666, int(unix.Mkdev(d.Major, d.Minor)))
	if err == unix.EPERM { // a user namespace makes no devices
		if err = makePoint(dir, d.Name, false); err == nil {
			err = unix.Mount(d.Source, dir+"/"+d.Name, "", unix.MS_BIND, "")
		}
	}
	return step("make /dev/"+d.Name, err)
}

// sharedMemory mounts a /dev/shm that ends with the job.
func (p *Plan) sharedMemory(path string) error {
	options := "mode=1777,size=" + strconv.FormatInt(p.SharedMemory, 10)
	return step("mount /dev/shm", unix.Mount("weir", path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options))
}

// placeVolumes attaches the mounts of volumes, which the parent made and filled.
func (p *Plan) placeVolumes(sandbox string) error {
	for i, path := range p.Volumes {
		descriptor := moreFiles + p.Entrances + i
		err := unix.MoveMount(descriptor, "", unix.AT_FDCWD, sandbox+"/"+path, unix.MOVE_MOUNT_F_EMPTY_PATH)
		if err != nil {
			return step("mount volume "+path, err)
		}
	}
	return nil
}

// bringResolver shows the file with the machine's name servers if /etc only has a link to it.
func bringResolver(root string) error {
	const name = "/etc/resolv.conf"
	fd, err := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil // a machine without name servers
	}
	defer unix.Close(fd)
	link := make([]byte, 4096)
	n, err := unix.Readlink("/proc/self/fd/"+strconv.Itoa(fd), link)
	if err != nil {
		return step("find "+name, err)
	}
	path := string(link[:n])
	if strings.HasPrefix(path, "/etc/") || strings.HasPrefix(path, "/usr/") {
		return nil
	}
	return makeAndBind(path, root, readOnly)
}

// hide puts something empty over paths that the job must not see.
func (p *Plan) hide(root string) error {
	for _, path := range p.Hide {
		var st unix.Stat_t
		err := unix.Lstat(root+path, &st)
		if err == unix.ENOENT || err == unix.ENOTDIR {
			continue
		}
		if err != nil {
			return step("find "+path, err)
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
			err = unix.Mount("weir", root+path, "tmpfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=4k,nr_inodes=2")
		case unix.S_IFLNK: // what it leads to is hidden if it is on the list itself
			continue
		default:
			err = unix.Mount("/dev/null", root+path, "", unix.MS_BIND, "")
		}
		if err != nil {
			return step("hide "+path, err)
		}
	}
	return nil
}
