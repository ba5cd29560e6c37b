package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/opencontainers/cgroups"
	"golang.org/x/sys/unix"
)

// counters keeps the files of a group's counters open: reading them again costs one system call each, which matters
// with many jobs on a node.
type counters struct {
	mu     sync.Mutex
	files  map[string]counter
	buffer []byte

	userTicks, systemTicks int64 // as of the last Usage: good for the proportion only
	still                  stillness

	limitEvents atomic.Int64 // of version 1, counted by the watch of OOM
	drain       atomic.Pointer[func()]
}

// counter is an open file and its descriptor.
type counter struct {
	file       *os.File
	descriptor uintptr
}

// read returns the text of a counter, valid until the next call. The caller holds mu.
func (c *counters) read(dir, name string) ([]byte, error) {
	opened := c.files[name]
	if opened.file == nil {
		file, err := cgroups.OpenFile(dir, name, os.O_RDONLY)
		if err != nil {
			return nil, err
		}
		if c.files == nil {
			c.files, c.buffer = map[string]counter{}, make([]byte, 8<<10)
		}
		opened = counter{file, file.Fd()}
		c.files[name] = opened
	}
	for {
		n, err := ReadCounter(opened.descriptor, c.buffer)
		if err != nil {
			return nil, &os.PathError{Op: "read", Path: opened.file.Name(), Err: err}
		}
		if n < len(c.buffer) { // the kernel makes the text of a counter in one piece
			return c.buffer[:n], nil
		}
		c.buffer = make([]byte, 2*len(c.buffer))
	}
}

// ReadCounter reads a kernel file from its start with one system call, as much as fits. The call is raw: it does not
// block, and the runtime, which prepares for calls that do, would wake a thread for it.
func ReadCounter(descriptor uintptr, buffer []byte) (int, error) {
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_PREAD64, descriptor, uintptr(unsafe.Pointer(&buffer[0])), uintptr(len(buffer)), 0, 0, 0)
		switch errno {
		case 0:
			return int(n), nil
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}

// number reads a counter that is one number.
func (c *counters) number(dir, name string) (int64, error) {
	text, err := c.read(dir, name)
	if err != nil {
		return 0, err
	}
	value, err := parseCount(bytes.TrimSpace(text))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return value, nil
}

// table reads a counter of lines "key value" into the fields whose keys are given; others are skipped.
func (c *counters) table(dir, name string, fields map[string]*int64) error {
	text, err := c.read(dir, name)
	if err != nil {
		return err
	}
	for len(text) > 0 {
		line, rest, _ := bytes.Cut(text, []byte{'\n'})
		text = rest
		key, value, ok := bytes.Cut(line, []byte{' '})
		field := fields[string(key)]
		if !ok || field == nil {
			continue
		}
		if *field, err = parseCount(value); err != nil {
			return fmt.Errorf("%s: %s: %w", name, key, err)
		}
	}
	return nil
}

// parseCount reads a number without allocating. Counters never exceed int64.
func parseCount(text []byte) (int64, error) {
	var value int64
	for _, digit := range text {
		if digit < '0' || digit > '9' || value > (1<<63-10)/10 {
			return 0, fmt.Errorf("%s is no count", strconv.Quote(string(text)))
		}
		value = 10*value + int64(digit-'0')
	}
	if len(text) == 0 {
		return 0, fmt.Errorf("%q is no count", "")
	}
	return value, nil
}

func (c *counters) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, opened := range c.files {
		opened.file.Close()
	}
	c.files = nil
}

func (c *kernelContainer) Usage() (Usage, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	usage, err := c.cpuTime()
	if err == nil {
		err = errors.Join(c.addMemory(&usage), c.addDetails(&usage))
	}
	if err != nil {
		return Usage{}, fmt.Errorf("container %s: usage: %w", c.name, err)
	}
	return usage, nil
}

// stillness is since when no process of a container has run. The kernel sums up the memory counters at intervals of at
// most two seconds: a value read before that might lack the last steps of a process, and is read again.
type stillness struct {
	cpu     time.Duration
	since   time.Time
	settled bool // memory has been read long enough after the last step
}

// settling is how long the kernel may need to sum up the counters.
const settling = 3 * time.Second

// observe records the CPU time, and reports whether memory is unchanged since it was last read.
func (s *stillness) observe(now time.Time, cpu time.Duration) (unchanged bool) {
	if s.since.IsZero() || cpu != s.cpu {
		*s = stillness{cpu: cpu, since: now}
		return false
	}
	unchanged = s.settled
	s.settled = now.Sub(s.since) >= settling
	return unchanged
}

func (c *kernelContainer) Glance(last Usage) (Usage, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	usage, err := c.cpuTime()
	if err == nil && c.still.observe(time.Now(), usage.CPUTime) && usage.CPUTime == last.CPUTime {
		return last, nil
	}
	if err == nil {
		err = c.addMemory(&usage)
	}
	if err != nil {
		return Usage{}, fmt.Errorf("container %s: usage: %w", c.name, err)
	}
	return usage, nil
}

func (c *kernelContainer) cpuTime() (u Usage, err error) {
	var total, user, system int64
	if c.mode == V2 {
		err = c.table(c.paths[""], "cpu.stat", map[string]*int64{"usage_usec": &total, "user_usec": &user, "system_usec": &system})
		u.split(time.Duration(total)*time.Microsecond, user, system)
		return u, err
	}
	total, err = c.number(c.paths["cpuacct"], "cpuacct.usage")
	u.split(time.Duration(total), c.userTicks, c.systemTicks)
	return u, err
}

func (c *kernelContainer) addMemory(u *Usage) error {
	if c.mode == V2 {
		group := c.paths[""]
		err := c.table(group, "memory.stat", map[string]*int64{
			"anon": &u.Anonymous, "file_mapped": &u.Mapped, "shmem": &u.Shared, "file": &u.Cache,
		})
		if err != nil {
			return err
		}
		return c.table(group, "memory.events", map[string]*int64{"oom_kill": &u.OOMKills, "oom": &u.LimitEvents})
	}
	memory := c.paths["memory"]
	err := c.table(memory, "memory.stat", map[string]*int64{
		"total_rss": &u.Anonymous, "total_mapped_file": &u.Mapped, "total_shmem": &u.Shared, "total_cache": &u.Cache,
	})
	if err != nil {
		return err
	}
	if err := c.table(memory, "memory.oom_control", map[string]*int64{"oom_kill": &u.OOMKills}); err != nil {
		return err
	}
	if drain := c.drain.Load(); drain != nil && u.OOMKills > 0 { // without kills nobody needs the events
		(*drain)()
	}
	u.LimitEvents = c.limitEvents.Load()
	return nil
}

// addDetails reads the counters that Glance omits.
func (c *kernelContainer) addDetails(u *Usage) (err error) {
	if c.mode == V2 {
		group := c.paths[""]
		if u.Current, err = c.number(group, "memory.current"); err != nil {
			return err
		}
		if u.Peak, err = c.number(group, "memory.peak"); isGone(err) { // since Linux 5.19
			err = nil
		}
		return err
	}
	memory := c.paths["memory"]
	if u.Current, err = c.number(memory, "memory.usage_in_bytes"); err != nil {
		return err
	}
	if u.Peak, err = c.number(memory, "memory.max_usage_in_bytes"); err != nil {
		return err
	}
	if err = c.table(c.paths["cpuacct"], "cpuacct.stat", map[string]*int64{"user": &c.userTicks, "system": &c.systemTicks}); err != nil {
		return err
	}
	u.split(u.CPUTime, c.userTicks, c.systemTicks)
	return nil
}

// split splits CPU time by a proportion that was measured less exactly. Without one, it counts all time as the user's.
func (u *Usage) split(total time.Duration, user, system int64) {
	u.CPUTime, u.UserTime = total, total
	if ticks := user + system; ticks > 0 {
		u.UserTime = time.Duration(float64(total) * float64(user) / float64(ticks))
	}
	u.SystemTime = total - u.UserTime
}
