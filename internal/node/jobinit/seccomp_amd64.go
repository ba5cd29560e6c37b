package jobinit

import "golang.org/x/sys/unix"

const (
	nativeArch = unix.AUDIT_ARCH_X86_64
	// foreignCalls is the first number of the x32 calls, which share the architecture.
	foreignCalls = 0x40000000
)

// forbiddenHere are forbidden calls that only this architecture has.
var forbiddenHere = []uintptr{
	unix.SYS_KEXEC_FILE_LOAD, unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT, unix.SYS_CREATE_MODULE, unix.SYS_QUERY_MODULE,
	unix.SYS_GET_KERNEL_SYMS, unix.SYS_USELIB, unix.SYS__SYSCTL, unix.SYS_USTAT, unix.SYS_SYSFS,
}
