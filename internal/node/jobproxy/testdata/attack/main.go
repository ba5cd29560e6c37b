// Command attack is a job that tries what a job must not be able to do. It prints a line "ATTEMPT ANSWER" for each.
package main

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func main() {
	try := func(name string, number uintptr, arguments ...uintptr) {
		var a [6]uintptr
		copy(a[:], arguments)
		pid, _, errno := syscall.RawSyscall6(number, a[0], a[1], a[2], a[3], a[4], a[5])
		if number == unix.SYS_CLONE && errno == 0 && pid == 0 {
			syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
		answer := "succeeded"
		if errno != 0 {
			answer = unix.ErrnoName(errno)
		}
		fmt.Println(name, answer)
	}
	text := func(s string) uintptr { return uintptr(unsafe.Pointer(&append([]byte(s), 0)[0])) }
	root := text("/")
	try("clone-user", unix.SYS_CLONE, unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD))
	try("clone-mount", unix.SYS_CLONE, unix.CLONE_NEWNS|uintptr(unix.SIGCHLD))
	try("clone", unix.SYS_CLONE, uintptr(unix.SIGCHLD))
	try("clone3", unix.SYS_CLONE3, 0, 0)
	try("unshare-user", unix.SYS_UNSHARE, unix.CLONE_NEWUSER)
	try("setns", unix.SYS_SETNS, 0, 0)
	try("mount", unix.SYS_MOUNT, root, root, 0, unix.MS_BIND)
	try("umount", unix.SYS_UMOUNT2, text("/proc"), unix.MNT_DETACH)
	try("pivot_root", unix.SYS_PIVOT_ROOT, root, root)
	try("fsopen", unix.SYS_FSOPEN, text("tmpfs"))
	try("move_mount", unix.SYS_MOVE_MOUNT)
	try("open_tree", unix.SYS_OPEN_TREE, 0, root)
	try("bpf", unix.SYS_BPF)
	try("perf", unix.SYS_PERF_EVENT_OPEN)
	try("userfaultfd", unix.SYS_USERFAULTFD)
	try("io_uring", unix.SYS_IO_URING_SETUP, 8)
	try("keyctl", unix.SYS_KEYCTL)
	try("add_key", unix.SYS_ADD_KEY)
	try("syslog", unix.SYS_SYSLOG, 10)
	try("ptrace", unix.SYS_PTRACE, unix.PTRACE_TRACEME)
	try("read-memory", unix.SYS_PROCESS_VM_READV, 1)
	try("open-by-handle", unix.SYS_OPEN_BY_HANDLE_AT)
	try("reboot", unix.SYS_REBOOT)
	try("host-name", unix.SYS_SETHOSTNAME, root, 1)
	try("clock", unix.SYS_CLOCK_SETTIME, unix.CLOCK_REALTIME)
	try("kill-init", unix.SYS_KILL, 1, uintptr(unix.SIGKILL))
	try("make-device", unix.SYS_MKNODAT, ^uintptr(99), text("device"), unix.S_IFCHR|0o666, uintptr(unix.Mkdev(1, 1)))
	try("raw-socket", unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)
	try("packet-socket", unix.SYS_SOCKET, unix.AF_PACKET, unix.SOCK_RAW, 0)
	try("become-root", unix.SYS_SETUID, 0)
	try("chroot", unix.SYS_CHROOT, root)
	unlimited := &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	try("cores", unix.SYS_PRLIMIT64, 0, unix.RLIMIT_CORE, uintptr(unsafe.Pointer(unlimited)))
	try("set-project", unix.SYS_IOCTL, 0, 0x401c5820)
	try("set-flags", unix.SYS_IOCTL, 0, 0x40086602)
	for descriptor := 3; descriptor < 64; descriptor++ {
		var st unix.Stat_t
		if unix.Fstat(descriptor, &st) == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR && !isOurs(descriptor) {
			fmt.Println("inherited", descriptor)
		}
	}
	fmt.Println("pid", os.Getpid() < 100)
}

// isOurs reports whether this program opened a descriptor itself: its runtime polls.
func isOurs(descriptor int) bool {
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", descriptor))
	return err == nil && (name == "anon_inode:[eventpoll]" || name == "anon_inode:[eventfd]")
}
