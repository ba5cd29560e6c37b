package jobproxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/weirhq/weir/internal/node/jobinit"
)

// Names in the directory of a job that an OCI runtime runs.
const (
	bundleDir       = "bundle"
	runtimeStateDir = "runtime" // what the runtime writes about its container
	bundleConfig    = "config.json"
)

// usesRuntime reports whether an OCI runtime makes the job's container from its image.
func (p *proxy) usesRuntime() bool { return p.job.Image != nil && p.job.Image.Runtime != "" }

// useRuntime replaces the command of an init by a runtime that makes the job's container and runs the command in it. The init still has namespaces of
// its own, mounts the image, and ends everything when the runtime ends; what it would otherwise do is in the bundle.
func (p *proxy) useRuntime(plan *jobinit.Plan) error {
	bundle, state := filepath.Join(p.dir, bundleDir), filepath.Join(p.dir, runtimeStateDir)
	if err := errors.Join(os.Mkdir(bundle, 0o700), os.Mkdir(state, 0o700)); err != nil {
		return fmt.Errorf("bundle of the job: %w", err)
	}
	text, err := json.Marshal(bundleOf(plan))
	if err == nil {
		err = os.WriteFile(filepath.Join(bundle, bundleConfig), text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("bundle of the job: %w", err)
	}
	plan.Runtime, plan.Dir = true, bundle
	// Its warnings would be in the job's output. It writes the error that ends it there in any case.
	plan.Args = []string{p.job.Image.Runtime, "--root", state, "--log", os.DevNull, "run", "--bundle", bundle, p.job.JobID}
	plan.Env = []string{"PATH=" + searchPath}
	return nil
}

// containerProcess is the first process of the container that the runtime has made; zero if there is none yet. Until the command runs, that process
// is still the runtime's: it may see the machine's files.
func (p *proxy) containerProcess() int {
	runtime := commandOf(p.root)
	if runtime == 0 {
		return 0
	}
	process := commandOf(runtime)
	var st unix.Stat_t
	// The files of a process in /proc are the user's who runs it only when it has executed a program as this user.
	if c := p.job.Credential; process == 0 || c != nil && (unix.Stat("/proc/"+strconv.Itoa(process), &st) != nil || st.Uid != c.UID) {
		return 0
	}
	return process
}

// object is a JSON object.
type object = map[string]any

// bundleOf describes the container of a job as runtimes expect it (OCI runtime specification 1.0.2): what the init would do in the same order.
func bundleOf(p *jobinit.Plan) object {
	none := []string{}
	// The job has its others already. In a namespace of processes of its own the command would be the first process, which the kernel
	// sends no signals that it does not handle: an interruption would do nothing.
	namespaces := []object{{"type": "mount"}, {"type": "cgroup"}}
	process := object{
		"terminal": false, "user": object{"uid": p.UID, "gid": p.GID}, "args": p.Args, "env": p.Env, "cwd": p.Dir, "noNewPrivileges": true, "oomScoreAdj": p.OOMScore,
		"capabilities": object{"bounding": none, "effective": none, "inheritable": none, "permitted": none, "ambient": none},
	}
	names := map[int]string{unix.RLIMIT_CORE: "RLIMIT_CORE", unix.RLIMIT_NOFILE: "RLIMIT_NOFILE", unix.RLIMIT_MEMLOCK: "RLIMIT_MEMLOCK"}
	var limits []object
	for _, l := range p.Limits {
		limits = append(limits, object{"type": names[l.Resource], "soft": l.Soft, "hard": l.Hard})
	}
	process["rlimits"] = limits
	devices, access := []object{}, []object{{"allow": false, "access": "rwm"}}
	for _, d := range append(append([]jobinit.Device{}, jobinit.Harmless...), p.Devices...) {
		access = append(access, object{"allow": true, "type": "c", "major": d.Major, "minor": d.Minor, "access": "rw"})
	}
	for _, d := range p.Devices { // runtimes make the harmless ones themselves
		devices = append(devices, object{"path": "/dev/" + d.Name, "type": "c", "major": d.Major, "minor": d.Minor, "fileMode": 0o666})
	}
	access = append(access, object{"allow": true, "type": "c", "major": 136, "access": "rw"}, object{"allow": true, "type": "c", "major": 5, "minor": 2, "access": "rw"}) // terminals
	return object{
		"ociVersion": "1.0.2", "process": process, "root": object{"path": p.Root, "readonly": p.Upper == ""}, "mounts": bundleMounts(p),
		"linux": object{
			"namespaces": namespaces, "devices": devices, "resources": object{"devices": access}, "seccomp": bundleFilter(p.AllowPtrace),
			"maskedPaths":   append([]string{"/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/sched_debug", "/proc/scsi", "/sys/firmware"}, p.Hide...),
			"readonlyPaths": []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
		},
	}
}

// bundleMounts are the mounts of the container.
func bundleMounts(p *jobinit.Plan) []object {
	mount := func(at, kind, source string, options ...string) object {
		return object{"destination": at, "type": kind, "source": source, "options": options}
	}
	show := func(source, at string, more ...string) object {
		return mount(at, "bind", source, append([]string{"rbind", "nosuid", "nodev"}, more...)...)
	}
	list := []object{
		mount("/proc", "proc", "proc", "nosuid", "nodev", "noexec", "hidepid=2"),
		mount("/dev", "tmpfs", "weir", "nosuid", "noexec", "mode=755", "size=64k"),
		mount("/dev/pts", "devpts", "devpts", "nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"),
		mount("/dev/shm", "tmpfs", "weir", "nosuid", "nodev", "mode=1777", fmt.Sprintf("size=%d", p.SharedMemory)),
		show(p.Sandbox, jobinit.SandboxPath), show(p.Temporary, jobinit.TemporaryPath),
	}
	for _, path := range p.ReadOnly {
		list = append(list, show(path, path, "ro"))
	}
	for _, path := range p.Writable {
		list = append(list, show(path, path))
	}
	for _, b := range p.Binds {
		list = append(list, show(b.Source, b.Target, "ro"))
	}
	return list
}

// forbiddenNames are the system calls that jobinit's filter refuses, as runtimes name them.
var forbiddenNames = []string{
	"mount", "umount2", "pivot_root", "fsopen", "fsconfig", "fsmount", "fspick", "move_mount", "open_tree", "mount_setattr", "setns", "unshare",
	"bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register", "add_key", "request_key", "keyctl",
	"init_module", "finit_module", "delete_module", "kexec_load", "reboot", "swapon", "swapoff", "acct", "syslog", "quotactl", "quotactl_fd",
	"open_by_handle_at", "sethostname", "setdomainname", "clock_settime", "settimeofday", "adjtimex", "clock_adjtime",
	"vhangup", "nfsservctl", "fanotify_init", "lookup_dcookie", "kexec_file_load", "iopl", "ioperm", "modify_ldt", "create_module", "query_module",
	"get_kernel_syms", "uselib", "_sysctl", "ustat", "sysfs", "file_setattr",
}

// tracingNames are those that only debuggers need.
var tracingNames = []string{"ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd"}

// bundleFilter is the filter of system calls, as runtimes expect it. They pass over names that they do not know.
func bundleFilter(allowPtrace bool) object {
	names := forbiddenNames
	if !allowPtrace {
		names = append(append([]string{}, names...), tracingNames...)
	}
	architecture := map[string]string{"amd64": "SCMP_ARCH_X86_64", "arm64": "SCMP_ARCH_AARCH64"}[goruntime.GOARCH]
	const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET
	var conditional []object // one rule for each flag: the conditions of one rule must hold together
	for flag := uint64(1); flag <= newNamespaces; flag <<= 1 {
		if newNamespaces&flag != 0 {
			conditional = append(conditional, object{
				"names": []string{"clone"}, "action": "SCMP_ACT_ERRNO", "errnoRet": int(unix.EPERM),
				"args": []object{{"index": 0, "value": flag, "valueTwo": flag, "op": "SCMP_CMP_MASKED_EQ"}},
			})
		}
	}
	for _, request := range []uint64{jobinit.SetAttributes, jobinit.SetFlags} {
		conditional = append(conditional, object{
			"names": []string{"ioctl"}, "action": "SCMP_ACT_ERRNO", "errnoRet": int(unix.EPERM),
			"args": []object{{"index": 1, "value": uint64(0xffffffff), "valueTwo": request, "op": "SCMP_CMP_MASKED_EQ"}},
		})
	}
	rules := append([]object{
		{"names": names, "action": "SCMP_ACT_ERRNO", "errnoRet": int(unix.EPERM)},
		{"names": []string{"clone3"}, "action": "SCMP_ACT_ERRNO", "errnoRet": int(unix.ENOSYS)},
	}, conditional...)
	return object{"defaultAction": "SCMP_ACT_ALLOW", "architectures": []string{architecture}, "syscalls": rules}
}
