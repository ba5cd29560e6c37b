package cgroup

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/opencontainers/cgroups"
	"golang.org/x/sys/unix"
)

// WatchOOM uses an eventfd under version 1, which the kernel signals for the container's own limit, and inotify on
// memory.events under version 2.
func (c *kernelContainer) WatchOOM() (<-chan struct{}, func(), error) {
	open := c.openEventsV1
	if c.mode == V2 {
		open = c.openEventsV2
	}
	source, err := open()
	if err != nil {
		return nil, nil, fmt.Errorf("container %s: watch of OOM: %w", c.name, err)
	}
	events := make(chan struct{}, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		message := make([]byte, 4<<10)
		for {
			n, err := source.Read(message)
			if err != nil {
				return // closed
			}
			c.count(message[:n])
			select {
			case events <- struct{}{}:
			default: // one is waiting already
			}
		}
	}()
	var once sync.Once
	stop := func() {
		once.Do(func() {
			c.drain.Store(nil)
			source.Close()
			<-done
		})
	}
	return events, stop, nil
}

// count adds the events of an eventfd's message.
func (c *kernelContainer) count(message []byte) {
	if c.mode != V2 && len(message) == 8 {
		c.limitEvents.Add(int64(binary.NativeEndian.Uint64(message)))
	}
}

func (c *kernelContainer) openEventsV1() (*os.File, error) {
	memory := c.paths["memory"]
	control, err := cgroups.OpenFile(memory, "memory.oom_control", os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, err
	}
	if err := cgroups.WriteFile(memory, "cgroup.event_control", fmt.Sprintf("%d %d", fd, control.Fd())); err != nil {
		unix.Close(fd)
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "eventfd of "+c.name)
	raw, err := file.SyscallConn()
	if err != nil {
		file.Close()
		return nil, err
	}
	// Usage must not miss an event that the goroutine has not read yet.
	drain := func() {
		raw.Control(func(fd uintptr) {
			message := make([]byte, 8)
			if n, err := unix.Read(int(fd), message); err == nil {
				c.count(message[:n])
			}
		})
	}
	c.drain.Store(&drain)
	return file, nil
}

func (c *kernelContainer) openEventsV2() (*os.File, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(c.paths[""], "memory.events")
	if _, err := unix.InotifyAddWatch(fd, path, unix.IN_MODIFY); err != nil {
		unix.Close(fd)
		return nil, &os.PathError{Op: "inotify_add_watch", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), "inotify of "+c.name), nil
}
