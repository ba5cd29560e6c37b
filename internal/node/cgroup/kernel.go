package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/opencontainers/cgroups"
	groupsv1 "github.com/opencontainers/cgroups/fs"
	groupsv2 "github.com/opencontainers/cgroups/fs2"
	"golang.org/x/sys/unix"
)

// kernelDriver makes containers from control groups.
type kernelDriver struct {
	hierarchies
	parent string
}

func (d *kernelDriver) Mode() Mode     { return d.mode }
func (d *kernelDriver) Parent() string { return d.parent }

// LimitsProcesses depends, for version 2, on the controllers that the kernel allows to containers once the parent
// exists.
func (d *kernelDriver) LimitsProcesses() bool {
	if d.mode != V2 {
		return d.mounts["pids"] != ""
	}
	return listsPids(filepath.Join(d.mounts[""], d.parent), "cgroup.subtree_control")
}

// LimitsDevices depends, for version 1, on a controller; version 2 has programs for it.
func (d *kernelDriver) LimitsDevices() bool { return d.mode == V2 || d.mounts[devicesController] != "" }

// listsPids reports whether a file of version 2 names the controller that counts processes.
func listsPids(group, file string) bool {
	text, err := cgroups.ReadFile(group, file)
	return err == nil && slices.Contains(strings.Fields(text), "pids")
}

// container is the handle of a group that may or may not exist. The library needs the limits before a process enters.
func (d *kernelDriver) container(name string, limits Limits) (*kernelContainer, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	c := &kernelContainer{name: name, mode: d.mode, paths: map[string]string{}}
	for controller, mount := range d.mounts {
		path := filepath.Join(mount, d.parent, name)
		// Each hierarchy costs time. Few containers have rules for devices, and none are frozen any more.
		isRare := controller == devicesController && limits.Devices == nil || controller == freezerController
		if !isRare || cgroups.PathExists(path) {
			c.paths[controller] = path
		}
	}
	c.setMain()
	config := &cgroups.Cgroup{Resources: c.resources(limits)}
	var err error
	if d.mode == V2 {
		c.manager, err = groupsv2.NewManager(config, c.paths[""])
	} else {
		c.manager, err = groupsv1.NewManager(config, maps.Clone(c.paths))
	}
	return c, err
}

func (d *kernelDriver) Create(name string, limits Limits) (Container, error) {
	if err := limits.check(); err != nil {
		return nil, err
	}
	c, err := d.container(name, limits)
	if err != nil {
		return nil, err
	}
	if c.exists() {
		return nil, fmt.Errorf("container %s: %w", name, fs.ErrExist)
	}
	if err := c.create(limits); err != nil {
		c.Remove() // what exists of it; the first error is more informative
		return nil, fmt.Errorf("container %s: %w", name, err)
	}
	return c, nil
}

func (d *kernelDriver) Open(name string) (Container, error) {
	c, err := d.container(name, Limits{})
	if err != nil {
		return nil, err
	}
	if !c.exists() {
		return nil, fmt.Errorf("container %s: %w", name, fs.ErrNotExist)
	}
	return c, nil
}

// List reads every hierarchy: a crash might have left a group in only some of them.
func (d *kernelDriver) List() ([]string, error) {
	var names []string
	for _, mount := range d.mounts {
		entries, err := os.ReadDir(filepath.Join(mount, d.parent))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("containers: %w", err)
		}
		for _, entry := range entries {
			if entry.IsDir() && checkName(entry.Name()) == nil {
				names = append(names, entry.Name())
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

func (d *kernelDriver) Close() error {
	var problems []error
	for _, mount := range d.mounts {
		for group := d.parent; group != "."; group = filepath.Dir(group) {
			err := unix.Rmdir(filepath.Join(mount, group))
			if err == unix.EBUSY || err == unix.ENOTEMPTY {
				break
			}
			if err != nil && err != unix.ENOENT {
				problems = append(problems, fmt.Errorf("parent group %s: %w", group, err))
			}
		}
	}
	return errors.Join(problems...)
}

// kernelContainer is one group, or one in each hierarchy of version 1.
type kernelContainer struct {
	name    string
	mode    Mode
	paths   map[string]string
	main    string // the group whose process list is authoritative
	manager cgroups.Manager
	counters
}

func (c *kernelContainer) Name() string { return c.name }
func (c *kernelContainer) Mode() Mode   { return c.mode }

func (c *kernelContainer) setMain() {
	if c.main = c.paths[""]; c.mode != V2 {
		c.main = c.paths["memory"]
	}
}

func (c *kernelContainer) exists() bool {
	for _, path := range c.paths {
		if cgroups.PathExists(path) {
			return true
		}
	}
	return false
}

func (c *kernelContainer) create(limits Limits) error {
	if err := c.manager.Apply(-1); err != nil {
		return err
	}
	return c.manager.Set(c.resources(limits))
}

const (
	quotaPeriod = 100_000 // microseconds
	leastQuota  = 1_000   // the kernel refuses less

	sharesOfCore, leastShares, mostShares = 1024, 2, 262_144
	leastWeight, mostWeight               = 1, 10_000
)

// resources translates limits for the library. Weights of version 2 are proportional to shares of version 1, so that
// jobs get the same parts of a busy machine with either.
func (c *kernelContainer) resources(limits Limits) *cgroups.Resources {
	r := &cgroups.Resources{SkipDevices: true}
	c.setCPU(r, limits.CPU)
	c.setMemory(r, limits.Memory)
	if limits.Processes > 0 && c.limitsProcesses() {
		r.PidsLimit = &limits.Processes
	}
	if limits.Devices != nil {
		limits.Devices.set(r)
	}
	return r
}

// limitsProcesses reports whether the group has the controller, which is optional.
func (c *kernelContainer) limitsProcesses() bool {
	if c.mode == V2 {
		return listsPids(c.paths[""], "cgroup.controllers")
	}
	return c.paths["pids"] != ""
}

func (c *kernelContainer) setCPU(r *cgroups.Resources, cpu CPU) {
	shares := math.Round(cpu.Guarantee * sharesOfCore)
	if c.mode == V2 {
		r.CpuWeight = uint64(min(max(math.Round(shares*mostWeight/mostShares), leastWeight), mostWeight))
	} else {
		r.CpuShares = uint64(min(max(shares, leastShares), mostShares))
	}
	r.CpuPeriod, r.CpuQuota = quotaPeriod, -1
	if cpu.Limit > 0 {
		r.CpuQuota = int64(max(math.Round(cpu.Limit*quotaPeriod), leastQuota))
	}
}

// setMemory forbids swap in addition to memory where the kernel counts swap.
func (c *kernelContainer) setMemory(r *cgroups.Resources, bytes int64) {
	if bytes > 0 {
		r.Memory = bytes
		if c.mode == V2 || cgroups.PathExists(filepath.Join(filepath.Dir(c.main), "memory.memsw.limit_in_bytes")) {
			r.MemorySwap = bytes
		}
	}
}

func (c *kernelContainer) Place(pid int) error {
	if err := c.manager.Apply(pid); err != nil {
		return fmt.Errorf("container %s: place process %d: %w", c.name, pid, err)
	}
	return nil
}

// threadEntrance is the file of a group of version 1 that moves one thread. A thread that moves itself needs no lock.
const threadEntrance = "tasks"

// Entrances has its files in a fixed order.
func (c *kernelContainer) Entrances() (e Entrances, err error) {
	for _, controller := range slices.Sorted(maps.Keys(c.paths)) {
		var file *os.File
		if controller == "" {
			e.Group, err = os.OpenFile(c.paths[""], unix.O_PATH|unix.O_DIRECTORY, 0)
		} else if file, err = cgroups.OpenFile(c.paths[controller], threadEntrance, os.O_WRONLY); err == nil {
			e.Files = append(e.Files, file)
		}
		if err != nil {
			e.Close()
			return Entrances{}, fmt.Errorf("container %s: entrance: %w", c.name, err)
		}
	}
	return e, nil
}

func (c *kernelContainer) SetCPU(cpu CPU) error {
	if err := (Limits{CPU: cpu}).check(); err != nil {
		return err
	}
	r := &cgroups.Resources{SkipDevices: true}
	c.setCPU(r, cpu)
	if err := c.manager.Set(r); err != nil {
		return fmt.Errorf("container %s: cpu: %w", c.name, err)
	}
	return nil
}

func (c *kernelContainer) SetMemoryLimit(bytes int64) error {
	if err := (Limits{Memory: bytes}).check(); err != nil {
		return err
	}
	r := &cgroups.Resources{SkipDevices: true, Memory: -1}
	c.setMemory(r, bytes)
	if err := c.manager.Set(r); err != nil {
		return fmt.Errorf("container %s: memory limit: %w", c.name, err)
	}
	return nil
}

func (c *kernelContainer) Processes() ([]int, error) {
	var st unix.Stat_t
	err := unix.Stat(c.main, &st)
	var pids []int
	switch {
	case err != nil:
	case st.Nlink == 2: // it has no groups inside: the kernel counts them
		pids, err = cgroups.GetPids(c.main)
	default:
		pids, err = cgroups.GetAllPids(c.main)
	}
	if isGone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("container %s: processes: %w", c.name, err)
	}
	slices.Sort(pids)
	return pids, nil
}

func (c *kernelContainer) Signal(signal syscall.Signal) error {
	pids, err := c.Processes()
	for _, pid := range pids {
		c.signal(pid, signal)
	}
	return err
}

// signal sends to a process only if it is still inside: the kernel might have reused its id.
func (c *kernelContainer) signal(pid int, signal syscall.Signal) {
	handle, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // gone
	}
	defer unix.Close(handle)
	if c.holds(pid) {
		unix.PidfdSendSignal(handle, signal, nil, 0)
	}
}

// holds reports whether a process is inside, according to the kernel.
func (c *kernelContainer) holds(pid int) bool {
	groups, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(groups)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 || !slices.Contains(strings.Split(fields[1], ","), c.mainController()) {
			continue
		}
		// The kernel's path may have a longer prefix than the mount's root; job names are unique.
		inside := "/" + filepath.Base(filepath.Dir(c.main)) + "/" + c.name
		return strings.HasSuffix(fields[2], inside) || strings.Contains(fields[2], inside+"/")
	}
	return false
}

func (c *kernelContainer) mainController() string {
	if c.mode == V2 {
		return ""
	}
	return "memory"
}

// Kill repeats until no process is left: version 1 cannot kill a group at once, and processes being forked escape one
// round. Where there is a version 2 hierarchy, its kill file kills all at once, including processes being forked.
func (c *kernelContainer) Kill(ctx context.Context) error {
	pause := time.Millisecond
	for {
		if unified := c.paths[""]; unified != "" {
			cgroups.WriteFile(unified, "cgroup.kill", "1") // absent before Linux 5.14
		}
		pids, err := c.Processes()
		if err != nil || len(pids) == 0 {
			return err
		}
		for _, pid := range pids {
			c.signal(pid, unix.SIGKILL)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("container %s: %w: %v", c.name, ErrNotEmpty, pids)
		case <-time.After(pause):
			pause = min(2*pause, 50*time.Millisecond)
		}
	}
}

func (c *kernelContainer) Remove() error {
	if pids, err := c.Processes(); err != nil || len(pids) > 0 {
		return errors.Join(err, fmt.Errorf("container %s: %w: %v", c.name, ErrNotEmpty, pids))
	}
	c.counters.close()
	var problems []error
	for _, path := range c.paths {
		if err := cgroups.RemovePath(path); err != nil {
			problems = append(problems, fmt.Errorf("container %s: %w", c.name, err))
		}
	}
	return errors.Join(problems...)
}

// isGone reports whether an error means that the group no longer exists.
func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) }
