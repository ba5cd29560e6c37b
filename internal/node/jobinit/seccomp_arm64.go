package jobinit

import "golang.org/x/sys/unix"

const (
	nativeArch   = unix.AUDIT_ARCH_AARCH64
	foreignCalls = 0 // there are none
)

// forbiddenHere are forbidden calls that only this architecture has.
var forbiddenHere = []uintptr{unix.SYS_KEXEC_FILE_LOAD}
