package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// Mode is how containers are made.
type Mode uint8

const (
	ProcessLimits Mode = iota // no control groups: accounting from /proc, limits by prlimit
	V1
	Hybrid // version 1 with its controllers, and a version 2 hierarchy to kill processes with
	V2
)

var modeNames = [...]string{"process_limits", "v1", "hybrid", "v2"}

func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return fmt.Sprintf("Mode(%d)", uint8(m))
}

// MarshalText returns the name of the mode.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads the name of a mode.
func (m *Mode) UnmarshalText(text []byte) error {
	for i, name := range modeNames {
		if name == string(text) {
			*m = Mode(i)
			return nil
		}
	}
	return fmt.Errorf("mode of containers %q: want one of %s", text, strings.Join(modeNames[:], ", "))
}

// CPU is what a container may use of the machine's cores.
type CPU struct {
	// Guarantee, in cores, is what the container gets when all cores are busy. It may use idle cores beyond it.
	Guarantee float64
	// Limit, in cores, holds even when cores are idle; zero is none.
	Limit float64
}

// Limits of a container. A zero limit is no limit.
type Limits struct {
	CPU       CPU
	Memory    int64    // bytes; the kernel reclaims caches at it, then kills
	Processes int64    // threads included; see Driver.LimitsProcesses
	Devices   *Devices // unset: every device; see Driver.LimitsDevices
}

// MaxProcesses is the greatest process limit that the kernel accepts.
const MaxProcesses = 4 << 20

// Usage is what the processes of a container have used.
type Usage struct {
	CPUTime    time.Duration // of all processes, ended ones included
	UserTime   time.Duration // user + system = CPUTime
	SystemTime time.Duration

	Anonymous int64 // resident memory without a file behind it
	Mapped    int64 // resident pages of mapped files, shared memory included
	Shared    int64 // tmpfs files and shared memory, mapped or not
	Cache     int64 // pages of files, Shared included
	Current   int64 // everything charged, caches of files included
	Peak      int64 // the greatest Current so far; zero if the kernel does not report it

	OOMKills    int64 // processes that the kernel killed for lack of memory, here or on the machine
	LimitEvents int64 // how often the container's own memory limit was the reason

	Approximate bool // from /proc: processes that lived only between two scans are missed
}

// A Container holds the processes of one job.
type Container interface {
	// Name is unique under the driver's parent.
	Name() string
	// Mode returns how the container is made.
	Mode() Mode
	// Place moves a process in. Its future children will be inside too.
	Place(pid int) error
	// Entrances opens the ways in for a new process. Place waits for the kernel for ten milliseconds and more, they do
	// not. Without control groups there are none, and Place does what it can.
	Entrances() (Entrances, error)
	// SetCPU changes the guarantee and the limit of a running container.
	SetCPU(CPU) error
	// SetMemoryLimit changes the limit; zero removes it. A limit below the current usage may be refused.
	SetMemoryLimit(bytes int64) error
	// Usage reads the counters. It works until Remove.
	Usage() (Usage, error)
	// Glance is a cheaper Usage, for many jobs every second. It returns last itself if no process has run for some
	// seconds: then memory has not grown either. Otherwise Current and Peak may be missing, and the split of the CPU
	// time into UserTime and SystemTime may be that of the last Usage.
	Glance(last Usage) (Usage, error)
	// Processes returns the ids of the processes inside, ascending.
	Processes() ([]int, error)
	// Signal sends a signal to each process inside.
	Signal(syscall.Signal) error
	// SetOOMScore sets the oom_score_adj of each process inside whose present score satisfies of, and returns how many
	// it changed. It might miss a process forked meanwhile: a caller that needs all of them repeats it until none has
	// changed.
	SetOOMScore(score int, of func(now int) bool) (changed int, err error)
	// Kill kills every process inside and returns when none is left, or with ErrNotEmpty when the context ends first.
	Kill(context.Context) error
	// WatchOOM returns a channel that receives a value soon after the kernel has killed for lack of memory, and a
	// function that ends the watch. Usage returns what happened.
	WatchOOM() (events <-chan struct{}, stop func(), err error)
	// Remove deletes the empty container. Removing a container that no longer exists is no error.
	Remove() error
}

// Entrances are the ways into a container for a process that is being made.
type Entrances struct {
	// Group is the directory of the group of version 2, for the call that makes the process (CLONE_INTO_CGROUP, since
	// Linux 5.7). Where the kernel refuses that, the process moves itself by writing "0" into cgroup.procs below it; then
	// the kernel stops all forks and waits for a grace period. Nil without such a group.
	Group *os.File
	// Files are for groups of version 1. The process writes "0" into each while it has only one thread.
	Files []*os.File
}

// Close closes the files.
func (e *Entrances) Close() {
	for _, file := range append(e.Files, e.Group) {
		if file != nil {
			file.Close()
		}
	}
}

// A Driver makes and finds containers under one parent.
type Driver interface {
	Mode() Mode
	// Parent is the name of the group that holds the containers.
	Parent() string
	// LimitsProcesses reports whether the process limit holds for a container as a whole. A machine might lack the
	// controller for it; with process limits the limit is per user, and root has none.
	LimitsProcesses() bool
	// LimitsDevices reports whether containers can keep processes from opening devices.
	LimitsDevices() bool
	// Create makes a container. The name must be free.
	Create(name string, limits Limits) (Container, error)
	// Open finds a container by name; the error is fs.ErrNotExist if there is none.
	Open(name string) (Container, error)
	// List returns the names of all containers under the parent, sorted.
	List() ([]string, error)
	// Close removes the parent if no container is left in it, and then the groups above it that are empty.
	Close() error
}

var (
	// ErrUnsupported is returned by containers that do not support an operation.
	ErrUnsupported = errors.New("not supported without control groups")
	// ErrNotEmpty means that processes inside a container did not end.
	ErrNotEmpty = errors.New("processes are left in the container")
)

// checkName refuses names that would lead out of the parent.
func checkName(name string) error {
	ok := name != "" && name[0] != '.' && len(name) <= 200
	for _, r := range name {
		ok = ok && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.')
	}
	if !ok {
		return fmt.Errorf("container name %q: want up to 200 letters, digits, '-', '_', '.', not beginning with '.'", name)
	}
	return nil
}

// checkParent refuses parents that are no clean path inside a hierarchy. It returns the path without slashes around it.
func checkParent(parent string) (string, error) {
	clean := strings.Trim(parent, "/")
	for part := range strings.SplitSeq(clean, "/") {
		if err := checkName(part); err != nil {
			return "", fmt.Errorf("parent group %q: %w", parent, err)
		}
	}
	return clean, nil
}

func (l Limits) check() error {
	var problems []error
	for _, v := range []struct {
		name  string
		value float64
	}{
		{"cpu guarantee", l.CPU.Guarantee}, {"cpu limit", l.CPU.Limit}, {"memory", float64(l.Memory)}, {"processes", float64(l.Processes)},
	} {
		if !(v.value >= 0 && v.value < 1e18) {
			problems = append(problems, fmt.Errorf("%s of a container: %v is not between 0 and 1e18", v.name, v.value))
		}
	}
	return errors.Join(problems...)
}
