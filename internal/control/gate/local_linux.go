package gate

import (
	"errors"
	"net"
	"syscall"
)

// peerUser returns the user of the process at the other end, as of the time it connected.
func peerUser(conn *net.UnixConn) (uid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		credentials, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
		if err != nil {
			failed = err
			return
		}
		uid = int(credentials.Uid)
	})
	return uid, errors.Join(err, failed)
}
