package jobinit

import "golang.org/x/sys/unix"

// Offsets in the kernel's struct seccomp_data.
const (
	offsetNumber   = 0
	offsetArch     = 4
	offsetArgument = 16 // the low half of the first argument
	offsetSecond   = 24 // and of the second
)

// SetAttributes and SetFlags are requests of ioctl that would take files of a job out of its project quota, so that nobody counts them.
// Since Linux 6.17 there is a call that does the same.
const (
	SetAttributes  = 0x401c5820 // FS_IOC_FSSETXATTR
	SetFlags       = 0x40086602 // FS_IOC_SETFLAGS
	sysFileSetattr = 469
)

// newNamespaces are the flags of clone that make namespaces.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER |
	unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWTIME

// forbidden are the system calls that a job may not make, with names so that tests can try each. What a job without
// capabilities is refused anyway is on the list too where its code has had bugs that needed none.
var forbidden = []uintptr{
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK,
	unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_MOUNT_SETATTR,
	unix.SYS_SETNS, unix.SYS_UNSHARE,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
	unix.SYS_KEXEC_LOAD, unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_SYSLOG, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD,
	unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
	unix.SYS_CLOCK_SETTIME, unix.SYS_SETTIMEOFDAY, unix.SYS_ADJTIMEX, unix.SYS_CLOCK_ADJTIME,
	unix.SYS_VHANGUP, unix.SYS_NFSSERVCTL, unix.SYS_FANOTIFY_INIT, unix.SYS_LOOKUP_DCOOKIE, sysFileSetattr,
}

// tracing are the calls that reach into other processes. Debuggers need them.
var tracing = []uintptr{unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_KCMP, unix.SYS_PIDFD_GETFD}

// Answers of a filter.
const (
	refuse      = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	notThere    = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	allow       = unix.SECCOMP_RET_ALLOW
	killProcess = unix.SECCOMP_RET_KILL_PROCESS
)

// seccompFilter is the filter of a job's system calls: everything is allowed but what is listed. clone is refused if it
// asks for a namespace, and ioctl if it would change the project of a file; clone3, whose flags a filter cannot see, does not exist, and libraries fall back to clone.
func seccompFilter(allowPtrace bool) []unix.SockFilter {
	var filter []unix.SockFilter
	load := func(offset uint32) {
		filter = append(filter, unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset})
	}
	answer := func(with uint32) {
		filter = append(filter, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: with})
	}
	// unless skips one instruction, an answer, unless a test holds.
	unless := func(test uint16, value uint32) {
		filter = append(filter, unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, K: value, Jf: 1})
	}
	load(offsetArch)
	filter = append(filter, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: nativeArch, Jt: 1})
	answer(killProcess)
	load(offsetNumber)
	if foreignCalls != 0 {
		unless(unix.BPF_JGE, foreignCalls)
		answer(refuse)
	}
	denied := append(append([]uintptr{}, forbidden...), forbiddenHere...)
	if !allowPtrace {
		denied = append(denied, tracing...)
	}
	for _, number := range denied {
		unless(unix.BPF_JEQ, uint32(number))
		answer(refuse)
	}
	filter = append(filter, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_IOCTL, Jf: 6})
	load(offsetSecond)
	for _, request := range []uint32{SetAttributes, SetFlags} {
		unless(unix.BPF_JEQ, request)
		answer(refuse)
	}
	answer(allow)
	unless(unix.BPF_JEQ, unix.SYS_CLONE3)
	answer(notThere)
	filter = append(filter, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_CLONE, Jt: 1})
	answer(allow)
	load(offsetArgument)
	unless(unix.BPF_JSET, newNamespaces)
	answer(refuse)
	answer(allow)
	return filter
}
