package store

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// giveUpUnacknowledged makes a connection fail when sent data is not acknowledged for linkPatience.
func giveUpUnacknowledged(network, _ string, connection syscall.RawConn) error {
	if network == "unix" {
		return nil
	}
	var failure error
	err := connection.Control(func(fd uintptr) {
		failure = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(linkPatience.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return failure
}
