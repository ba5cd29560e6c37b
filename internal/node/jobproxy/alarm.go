package jobproxy

import (
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// alarm fires at a set time like a time.Timer, but uses a kernel timer that is polled like a socket. For its own timers
// the runtime wakes a second thread each time, which then spins for a while; a node has hundreds of proxies, and each
// of them wakes up every second.
type alarm struct {
	file       *os.File
	descriptor uintptr
	rings      chan struct{} // it may fire early: the receiver checks the clock
}

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("timer: %w", err)
	}
	a := &alarm{file: os.NewFile(uintptr(fd), "timer"), descriptor: uintptr(fd), rings: make(chan struct{}, 1)}
	raw, err := a.file.SyscallConn()
	if err != nil {
		a.file.Close()
		return nil, fmt.Errorf("timer: %w", err)
	}
	go a.listen(raw)
	return a, nil
}

// listen turns expirations of the timer into rings, until the timer is closed.
func (a *alarm) listen(raw syscall.RawConn) {
	var expired [8]byte
	take := func(fd uintptr) bool {
		_, _, errno := unix.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&expired[0])), uintptr(len(expired)))
		return errno == 0
	}
	for raw.Read(take) == nil {
		select {
		case a.rings <- struct{}{}:
		default: // it is ringing already
		}
	}
}

// set sets when to ring next; the last call wins.
func (a *alarm) set(at time.Time) {
	wait := max(time.Until(at), 1) // zero would disarm it
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(wait))}
	// It fails only for invalid arguments, which it does not get here.
	unix.RawSyscall6(unix.SYS_TIMERFD_SETTIME, a.descriptor, 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
}

func (a *alarm) close() { a.file.Close() }
