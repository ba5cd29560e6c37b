package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// MarkVariable is the environment variable that marks processes of a container without control groups.
const MarkVariable = "WEIR_CONTAINER"

// Mark is the environment entry that processes of a container must have. Control groups do not need it; without them it
// identifies processes that left their session and whose parents have ended.
func Mark(d Driver, name string) string { return MarkVariable + "=" + d.Parent() + "/" + name }

// NewProcessLimits returns the fallback driver for machines where control groups cannot be used. Its containers are
// process sessions: usage is read from /proc and is approximate, a memory limit holds for each process and not for
// their sum, and there is no CPU guarantee. Processes that hide, by clearing their environment and leaving their
// session and parents, escape.
func NewProcessLimits(parent string) (Driver, error) {
	parent, err := checkParent(parent)
	if err != nil {
		return nil, err
	}
	return &processDriver{parent: parent}, nil
}

type processDriver struct{ parent string }

func (d *processDriver) Mode() Mode     { return ProcessLimits }
func (d *processDriver) Parent() string { return d.parent }
func (d *processDriver) Close() error   { return nil }

// LimitsProcesses returns false: the limit that Place sets is per user.
func (d *processDriver) LimitsProcesses() bool { return false }

// LimitsDevices returns false: files alone decide.
func (d *processDriver) LimitsDevices() bool { return false }

func (d *processDriver) Create(name string, limits Limits) (Container, error) {
	if err := errors.Join(checkName(name), limits.check()); err != nil {
		return nil, err
	}
	c := &processContainer{name: name, mark: Mark(d, name), limits: limits}
	if pids, err := c.Processes(); err != nil || len(pids) > 0 {
		return nil, fmt.Errorf("container %s: %w", name, errors.Join(fs.ErrExist, err))
	}
	return c, nil
}

func (d *processDriver) Open(name string) (Container, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	c := &processContainer{name: name, mark: Mark(d, name)}
	pids, err := c.Processes()
	if err != nil {
		return nil, err
	}
	if len(pids) == 0 {
		return nil, fmt.Errorf("container %s: %w", name, fs.ErrNotExist)
	}
	return c, nil
}

func (d *processDriver) List() ([]string, error) {
	processes, _, err := allProcesses()
	if err != nil {
		return nil, fmt.Errorf("containers: %w", err)
	}
	var names []string
	for _, p := range processes {
		mark, _ := environmentOf(p, MarkVariable)
		if name, ours := strings.CutPrefix(mark, d.parent+"/"); ours && checkName(name) == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// processContainer is a set of processes that belong together by session, parents or mark.
type processContainer struct {
	name   string
	mark   string
	limits Limits

	mu      sync.Mutex
	roots   []processID
	marked  map[processID]bool // whether a process has the mark; its environment is read once
	zombies map[processID]bool // processes that had ended by the last scan
	vague   bool               // the last scan might have missed a process: see Kill
	used    Usage              // the greatest usage seen
	current []process
}

// reservedAddresses is what a process may map without using it: language runtimes do so at their start, and the
// kernel's limit for one process is on mapped memory.
const reservedAddresses = 1 << 30

// processID identifies a process permanently: the kernel reuses ids, but not with the same start.
type processID struct {
	pid   int
	start uint64
}

func (c *processContainer) Name() string { return c.name }
func (c *processContainer) Mode() Mode   { return ProcessLimits }

func (c *processContainer) Place(pid int) error {
	p, err := readProcess(pid)
	if err != nil {
		return fmt.Errorf("container %s: place process %d: %w", c.name, pid, err)
	}
	c.mu.Lock()
	c.roots = append(c.roots, p.id())
	c.mu.Unlock()
	for _, limit := range []struct {
		resource int
		value    int64
		spare    int64
	}{{unix.RLIMIT_DATA, c.limits.Memory, reservedAddresses}, {unix.RLIMIT_NPROC, c.limits.Processes, 0}} {
		if limit.value <= 0 {
			continue
		}
		both := &unix.Rlimit{Cur: uint64(limit.value + limit.spare), Max: uint64(limit.value + limit.spare)}
		// Setting limits of another user's process might not be permitted. The watchdog bounds the sum anyway.
		if err := unix.Prlimit(pid, limit.resource, both, nil); err != nil && err != unix.EPERM {
			return fmt.Errorf("container %s: limits of process %d: %w", c.name, pid, err)
		}
	}
	return nil
}

func (c *processContainer) Entrances() (Entrances, error) { return Entrances{}, nil }

func (c *processContainer) SetCPU(CPU) error {
	return fmt.Errorf("container %s: cpu: %w", c.name, ErrUnsupported)
}

func (c *processContainer) SetMemoryLimit(int64) error {
	return fmt.Errorf("container %s: memory limit: %w", c.name, ErrUnsupported)
}

// look finds the container's processes among all processes of the machine. The caller holds mu.
func (c *processContainer) look() error {
	all, someEnded, err := allProcesses()
	if err != nil {
		return fmt.Errorf("container %s: processes: %w", c.name, err)
	}
	known := make(map[processID]bool, len(all))
	zombies := make(map[processID]bool)
	member := map[int]bool{} // by id of process, and of session
	c.vague = someEnded
	for _, p := range all {
		if p.state == 'Z' {
			zombies[p.id()] = true
			c.vague = c.vague || !c.zombies[p.id()]
		}
		marked, read := c.marked[p.id()]
		if !read {
			var mark string
			mark, read = environmentOf(p, MarkVariable)
			marked = MarkVariable+"="+mark == c.mark
		}
		if read { // a child has its parent's environment until it runs its own program
			known[p.id()] = marked
		} else {
			c.vague = true
		}
		if marked || slices.Contains(c.roots, p.id()) {
			member[p.pid] = true
		}
	}
	c.marked, c.zombies = known, zombies
	c.current = nil
	for again := true; again; {
		again = false
		for _, p := range all {
			if !member[p.pid] && (member[p.parent] || member[p.session]) {
				member[p.pid], again = true, true
			}
		}
	}
	for _, p := range all {
		if member[p.pid] && p.state != 'Z' {
			c.current = append(c.current, p)
		}
	}
	return nil
}

func (c *processContainer) Processes() ([]int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.look(); err != nil {
		return nil, err
	}
	var pids []int
	for _, p := range c.current {
		pids = append(pids, p.pid)
	}
	slices.Sort(pids)
	return pids, nil
}

// Glance is no cheaper: it must scan all processes, and their CPU time is not exact enough to show that none ran.
func (c *processContainer) Glance(Usage) (Usage, error) { return c.Usage() }

// Usage sums up the existing processes. The time of ended processes is in their parents, unless those had ended before.
func (c *processContainer) Usage() (Usage, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.look(); err != nil {
		return Usage{}, err
	}
	now := Usage{Approximate: true}
	for _, p := range c.current {
		now.UserTime += p.user
		now.SystemTime += p.system
		anonymous, mapped, shared := memoryOf(p.pid)
		now.Anonymous += anonymous
		now.Mapped += mapped + shared
		now.Shared += shared
	}
	now.CPUTime = now.UserTime + now.SystemTime
	if now.CPUTime < c.used.CPUTime { // the time of an ended process was lost with it
		now.CPUTime, now.UserTime, now.SystemTime = c.used.CPUTime, c.used.UserTime, c.used.SystemTime
	}
	now.Cache = now.Mapped
	now.Current = now.Anonymous + now.Mapped
	now.Peak = max(now.Current, c.used.Peak)
	c.used = now
	return now, nil
}

func (c *processContainer) Signal(signal syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.look(); err != nil {
		return err
	}
	for _, p := range c.current {
		handle, err := unix.PidfdOpen(p.pid, 0)
		if err != nil {
			continue
		}
		if again, err := readProcess(p.pid); err == nil && again.id() == p.id() {
			unix.PidfdSendSignal(handle, signal, nil, 0)
		}
		unix.Close(handle)
	}
	return nil
}

// vagueLooks is the maximum number of scans by Kill when it finds no process, which take a quarter of a second.
const vagueLooks = 10

// Kill repeats until no process is left. A scan might miss a child whose parent ended meanwhile, and a process between
// two programs; after such a scan it scans again. On a machine where processes end all the time it stops at some point.
func (c *processContainer) Kill(ctx context.Context) error {
	pause := time.Millisecond
	for looks := 1; ; looks++ {
		if err := c.Signal(syscall.SIGKILL); err != nil {
			return err
		}
		pids, err := c.Processes()
		if err != nil || len(pids) == 0 && (looks >= vagueLooks || !c.isVague()) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("container %s: %w: %v", c.name, ErrNotEmpty, pids)
		case <-time.After(pause):
			pause = min(2*pause, 50*time.Millisecond)
		}
	}
}

func (c *processContainer) isVague() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.vague
}

// WatchOOM cannot detect which process the kernel killed; the exit status of the command shows it.
func (c *processContainer) WatchOOM() (<-chan struct{}, func(), error) {
	return nil, func() {}, nil
}

func (c *processContainer) Remove() error {
	pids, err := c.Processes()
	if err == nil && len(pids) > 0 {
		err = fmt.Errorf("container %s: %w: %v", c.name, ErrNotEmpty, pids)
	}
	return err
}
