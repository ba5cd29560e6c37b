package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/cgroups"
	"golang.org/x/sys/unix"
)

// Cause is why control groups cannot be used.
type Cause uint8

const (
	NotMounted        Cause = iota + 1 // no hierarchy is mounted
	MissingController                  // the hierarchy lacks cpu or memory
	NotDelegated                       // controllers exist, but not for groups under the parent
	ReadOnly                           // the hierarchy is mounted read-only
	NoPermission                       // creating groups under the parent is not permitted
	OtherCause
)

var causeNames = [...]string{"available", "not_mounted", "missing_controller", "not_delegated", "read_only", "no_permission", "other"}

func (c Cause) String() string {
	if int(c) < len(causeNames) {
		return causeNames[c]
	}
	return fmt.Sprintf("Cause(%d)", uint8(c))
}

// Unavailable is the error that explains why control groups cannot be used on this machine.
type Unavailable struct {
	Cause Cause
	Err   error // the details
}

func (u *Unavailable) Error() string { return fmt.Sprintf("control groups (%v): %v", u.Cause, u.Err) }

func (u *Unavailable) Unwrap() error { return u.Err }

// The controllers of each version. Without the required ones a machine cannot hold jobs to their resources.
var (
	neededV1   = []string{"cpu", "cpuacct", "memory"}
	optionalV1 = []string{"pids", freezerController, devicesController}
	neededV2   = []string{"cpu", "memory"}
)

const (
	devicesController = "devices"
	freezerController = "freezer" // containers of earlier versions are in a group for it
)

const unifiedMount = "/sys/fs/cgroup" // where the library expects a machine's version 2 hierarchy

// hierarchies is what is mounted.
type hierarchies struct {
	mode        Mode
	controllers []string
	mounts      map[string]string // by controller for version 1; by "" for version 2
}

// Detect finds out what the machine offers for containers under a parent group, such as "weir", and makes the
// parent. If control groups cannot be used, the error is an *Unavailable; NewProcessLimits remains as the
// fallback.
func Detect(parent string) (Driver, error) {
	parent, err := checkParent(parent)
	if err != nil {
		return nil, err
	}
	d, err := use(parent)
	if err != nil {
		return nil, err
	}
	if err := d.probe(); err != nil {
		return nil, err
	}
	return d, nil
}

// Use is Detect for a process whose parent group another process has already probed: it creates nothing.
func Use(parent string) (Driver, error) {
	parent, err := checkParent(parent)
	if err != nil {
		return nil, err
	}
	d, err := use(parent)
	if err != nil {
		return nil, err
	}
	return d, nil
}

func use(parent string) (*kernelDriver, error) {
	found, err := findHierarchies()
	return &kernelDriver{hierarchies: found, parent: parent}, err
}

func findHierarchies() (hierarchies, error) {
	if cgroups.IsCgroup2UnifiedMode() {
		text, err := os.ReadFile(filepath.Join(unifiedMount, "cgroup.controllers"))
		if err != nil {
			return hierarchies{}, &Unavailable{NotMounted, err}
		}
		h := hierarchies{mode: V2, controllers: strings.Fields(string(text)), mounts: map[string]string{"": unifiedMount}}
		return h, h.missing(neededV2)
	}
	h := hierarchies{mode: V1, mounts: map[string]string{}}
	for _, name := range slices.Concat(neededV1, optionalV1) {
		mount, err := cgroups.FindCgroupMountpoint("", name)
		if err == nil {
			h.mounts[name] = mount
			h.controllers = append(h.controllers, name)
		}
	}
	if len(h.mounts) == 0 {
		return hierarchies{}, &Unavailable{NotMounted, errors.New("no hierarchy with a controller is mounted")}
	}
	if cgroups.IsCgroup2HybridMode() {
		h.mode = Hybrid
		h.mounts[""], _ = cgroups.FindCgroupMountpoint("", "")
	}
	return h, h.missing(neededV1)
}

func (h hierarchies) missing(needed []string) error {
	var lacking []string
	for _, name := range needed {
		if !slices.Contains(h.controllers, name) {
			lacking = append(lacking, name)
		}
	}
	if len(lacking) == 0 {
		return nil
	}
	return &Unavailable{MissingController, fmt.Errorf("%v offers %s, but not %s", h.mode,
		strings.Join(h.controllers, ", "), strings.Join(lacking, ", "))}
}

// probe makes a container and removes it again, the only reliable way to know that this is permitted.
func (d *kernelDriver) probe() error {
	name := "probe-" + strconv.Itoa(os.Getpid())
	c, err := d.container(name, Limits{CPU: CPU{Guarantee: 1}})
	if err != nil {
		return &Unavailable{causeOf(err), err}
	}
	err = c.create(Limits{CPU: CPU{Guarantee: 1}})
	if err == nil && d.mode == V2 {
		var text string
		text, err = cgroups.ReadFile(c.paths[""], "cgroup.controllers")
		if err == nil {
			if lack := (hierarchies{mode: V2, controllers: strings.Fields(text)}).missing(neededV2); lack != nil {
				err = &Unavailable{NotDelegated, fmt.Errorf("under %s: %w", d.parent, errors.Unwrap(lack))}
			}
		}
	}
	if removed := c.Remove(); err == nil {
		err = removed
	}
	var typed *Unavailable
	if err == nil || errors.As(err, &typed) {
		return err
	}
	return &Unavailable{causeOf(err), err}
}

func causeOf(err error) Cause {
	switch {
	case errors.Is(err, unix.EROFS):
		return ReadOnly
	case errors.Is(err, fs.ErrPermission):
		return NoPermission
	default:
		return OtherCause
	}
}
