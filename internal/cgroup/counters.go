package cgroup

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/opencontainers/cgroups"
)

// counters keeps the files of a group's counters open: reading them again costs one system call each, which matters
// with many jobs on a node.
type counters struct {
	mu     sync.Mutex
	files  map[string]*os.File
	buffer []byte

	limitEvents atomic.Int64 // of version 1, counted by the watch of OOM
	drain       atomic.Pointer[func()]
}

// read returns the text of a counter, valid until the next call. The caller holds mu.
func (c *counters) read(dir, name string) ([]byte, error) {
	file := c.files[name]
	if file == nil {
		var err error
		if file, err = cgroups.OpenFile(dir, name, os.O_RDONLY); err != nil {
			return nil, err
		}
		if c.files == nil {
			c.files, c.buffer = map[string]*os.File{}, make([]byte, 8<<10)
		}
		c.files[name] = file
	}
	for {
		n, err := file.ReadAt(c.buffer, 0)
		if err == io.EOF {
			return c.buffer[:n], nil
		}
		if err != nil {
			return nil, err
		}
		c.buffer = make([]byte, 2*len(c.buffer))
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

// parseCount reads a number without allocating. Counters beyond int64 cannot be.
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
	for _, file := range c.files {
		file.Close()
	}
	c.files = nil
}

func (c *kernelContainer) Usage() (Usage, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	usage, err := c.usageV1()
	if c.mode == V2 {
		usage, err = c.usageV2()
	}
	if err != nil {
		return Usage{}, fmt.Errorf("container %s: usage: %w", c.name, err)
	}
	return usage, nil
}

func (c *kernelContainer) usageV1() (u Usage, err error) {
	if c.mode == V2 {
		return u, nil
	}
	memory, account := c.paths["memory"], c.paths["cpuacct"]
	err = c.table(memory, "memory.stat", map[string]*int64{
		"total_rss": &u.Anonymous, "total_mapped_file": &u.Mapped, "total_shmem": &u.Shared, "total_cache": &u.Cache,
	})
	if err != nil {
		return u, err
	}
	if u.Current, err = c.number(memory, "memory.usage_in_bytes"); err != nil {
		return u, err
	}
	if u.Peak, err = c.number(memory, "memory.max_usage_in_bytes"); err != nil {
		return u, err
	}
	if err = c.table(memory, "memory.oom_control", map[string]*int64{"oom_kill": &u.OOMKills}); err != nil {
		return u, err
	}
	if drain := c.drain.Load(); drain != nil {
		(*drain)()
	}
	u.LimitEvents = c.limitEvents.Load()

	total, err := c.number(account, "cpuacct.usage")
	if err != nil {
		return u, err
	}
	var user, system int64 // ticks: good for the proportion only
	if err = c.table(account, "cpuacct.stat", map[string]*int64{"user": &user, "system": &system}); err != nil {
		return u, err
	}
	u.split(time.Duration(total), user, system)
	return u, nil
}

// split divides CPU time by a proportion that was measured less exactly. Without one, all of it is the user's.
func (u *Usage) split(total time.Duration, user, system int64) {
	u.CPUTime, u.UserTime = total, total
	if ticks := user + system; ticks > 0 {
		u.UserTime = time.Duration(float64(total) * float64(user) / float64(ticks))
	}
	u.SystemTime = total - u.UserTime
}

func (c *kernelContainer) usageV2() (u Usage, err error) {
	group := c.paths[""]
	err = c.table(group, "memory.stat", map[string]*int64{
		"anon": &u.Anonymous, "file_mapped": &u.Mapped, "shmem": &u.Shared, "file": &u.Cache,
	})
	if err != nil {
		return u, err
	}
	if u.Current, err = c.number(group, "memory.current"); err != nil {
		return u, err
	}
	if u.Peak, err = c.number(group, "memory.peak"); err != nil && !isGone(err) { // since Linux 5.19
		return u, err
	}
	if err = c.table(group, "memory.events", map[string]*int64{"oom_kill": &u.OOMKills, "oom": &u.LimitEvents}); err != nil {
		return u, err
	}
	var total, user, system int64
	err = c.table(group, "cpu.stat", map[string]*int64{"usage_usec": &total, "user_usec": &user, "system_usec": &system})
	if err != nil {
		return u, err
	}
	u.split(time.Duration(total)*time.Microsecond, user, system)
	return u, nil
}
