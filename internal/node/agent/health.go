package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhq/weir/internal/value/resource"
)

// DiskRules set how much of the file system with the agent's directory must be free, in bytes and in files. A size
// counts for at most a tenth of the file system, so that a small one is not always short of space.
type DiskRules struct {
	// Below Low the node raises an alert.
	LowRatio float64
	LowSize  int64
	// Below Full it accepts no jobs.
	FullRatio float64
	FullSize  int64
	// Below Critical it ends jobs that take more than they asked for.
	CriticalRatio float64
	CriticalSize  int64
	// LimitJobs holds the files of jobs to what they asked for, or to JobSize if they asked for nothing. With Project the file system limits the jobs
	// that run as users of their own; the files of others are added up, and a job that takes more fails.
	LimitJobs bool
	Project   bool
	JobSize   int64 // zero is no limit
}

// DefaultDiskRules returns the defaults of the reference.
func DefaultDiskRules() DiskRules {
	return DiskRules{LowRatio: 0.1, LowSize: 10 << 30, FullRatio: 0.03, FullSize: 2 << 30, CriticalRatio: 0.01, CriticalSize: 512 << 20, LimitJobs: true, JobSize: 10 << 30}
}

// diskState is how much room a file system has.
type diskState uint8

const (
	diskFine diskState = iota
	diskLow
	diskFull
	diskCritical
)

// disk is what statfs returns.
type disk struct {
	size, free       int64 // bytes
	files, freeFiles int64 // zero files: the file system has no such limit
}

// recovery is the factor above a threshold that must be free before the node leaves a state. It keeps a node near the
// threshold from flapping with every job.
const recovery = 1.2

// state classifies a file system, given its previous state.
func (r *DiskRules) state(d disk, before diskState) diskState {
	below := func(state diskState, ratio float64, size int64) bool {
		factor := 1.0
		if before >= state {
			factor = recovery
		}
		needed := max(ratio*float64(d.size), min(float64(size), 0.1*float64(d.size)))
		return float64(d.free) < factor*needed || d.files > 0 && float64(d.freeFiles) < factor*ratio*float64(d.files)
	}
	switch {
	case d.size == 0: // the file system does not report its size
		return diskFine
	case below(diskCritical, r.CriticalRatio, r.CriticalSize):
		return diskCritical
	case below(diskFull, r.FullRatio, r.FullSize):
		return diskFull
	case below(diskLow, r.LowRatio, r.LowSize):
		return diskLow
	}
	return diskFine
}

// health describes what is wrong with the node.
type health struct {
	disk   diskState
	space  disk
	broken error // the agent cannot write; nil if it can
}

// refuses reports whether the node starts no jobs.
func (h *health) refuses() bool { return h.disk >= diskFull || h.broken != nil }

// String explains why the node is unhealthy; it is empty for a healthy node. Amounts are rounded, so that the text
// changes rarely.
func (h *health) String() string {
	room := fmt.Sprintf("%s and %d %% of the files are free", resource.FormatAmount(resource.Memory, h.space.free>>26<<26), percent(h.space.freeFiles, h.space.files))
	switch {
	case h.broken != nil:
		return "disk_broken: the node cannot write its state and takes no jobs: " + h.broken.Error()
	case h.disk == diskCritical:
		return "disk_full: the node takes no jobs and ends those that take more disk space than they asked for: " + room
	case h.disk == diskFull:
		return "disk_full: the node takes no jobs: " + room
	case h.disk == diskLow:
		return "disk_low: the node runs out of disk space: " + room
	}
	return ""
}

func percent(part, whole int64) int64 {
	if whole == 0 {
		return 100
	}
	return part * 100 / whole
}

// alerts returns the alerts for the scheduler.
func (h *health) alerts() []string {
	if text := h.String(); text != "" {
		return []string{text}
	}
	return nil
}

// probePatience is how long a disk probe may run before the node counts as unhealthy.
const probePatience = 30 * time.Second

// checkHealth probes the disk outside the loop: a broken disk might never answer.
func (a *Agent) checkHealth() {
	if !a.probing.IsZero() {
		if waited := time.Since(a.probing); waited > probePatience {
			a.judge(a.health.space, fmt.Errorf("the disk has not answered for %v", waited.Round(time.Second)))
		}
		return
	}
	a.probing = time.Now()
	a.work(func() {
		space, err := probe(a.Options.Directory)
		a.post(func() {
			a.probing = time.Time{}
			a.judge(space, err)
		})
	})
}

// judge applies the result of a disk probe. A node that became unhealthy reports it and ends its waiting jobs.
func (a *Agent) judge(space disk, broken error) {
	before := a.health
	defer a.tendDisk()
	a.health = health{disk: a.Rules.Disk.state(space, before.disk), space: space, broken: broken}
	switch {
	case before.disk == a.health.disk && (before.broken == nil) == (broken == nil):
		return
	case a.health.String() == "":
		a.Log.Info("the node is well again")
	default:
		a.Log.Warn("the node is unwell", "reason", a.health.String())
	}
	if a.health.disk >= diskFull && before.disk < diskFull {
		a.measureJobs()
	}
	a.admit()
	a.tellNode()
}

// probe measures the file system of a directory and checks whether it is writable.
func probe(directory string) (disk, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(directory, &st); err != nil {
		return disk{}, fmt.Errorf("statfs %s: %w", directory, err)
	}
	d := disk{
		size: int64(st.Blocks) * st.Bsize, free: int64(st.Bavail) * st.Bsize,
		files: int64(st.Files), freeFiles: int64(st.Ffree),
	}
	err := tryWriting(filepath.Join(directory, "probe"))
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		d.free, err = 0, nil // full, whatever statfs returns
	}
	return d, err
}

// tryWriting writes a small file to the disk and removes it.
func tryWriting(name string) error {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString("weir\n")
	return errors.Join(err, file.Sync(), file.Close(), os.Remove(name))
}
