//go:build unix

package client

import (
	"os"
	"syscall"
)

// isPrivate reports whether only a trusted user can create files in a directory: root, this user, or
// the owner of a directory that only root could create.
func isPrivate(directory string) bool {
	info, err := os.Lstat(directory)
	if err != nil || !info.IsDir() || info.Mode().Perm()&0o022 != 0 {
		return false
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	return ok && (owner.Uid == 0 || int(owner.Uid) == os.Geteuid() || directory == systemSockets)
}
