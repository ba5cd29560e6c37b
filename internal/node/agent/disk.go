package agent

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/weirhq/weir/internal/node/jobproxy"
	"github.com/weirhq/weir/internal/value/resource"
)

// reasonDiskOverdraft is the abort reason of a job that takes more disk space than it asked for, on a node that has none left.
const reasonDiskOverdraft = "disk_overdraft"

// The agent holds a part of the disk back in a file and gives it up when the disk is full, so that the results of jobs can be
// written. The file comes back when there is room again.
const (
	reserveFile = "reserve"
	reserveSize = 64 << 20
	// reserveShare bounds the reserve on a small file system: one part in this many.
	reserveShare = 100
)

// diskWork is what the agent does about the space on its disk, outside the loop.
type diskWork struct {
	busy bool
}

// tendDisk acts on the state of the disk: it shrinks caches, keeps or gives up the reserve, and ends jobs if nothing else helps.
func (a *Agent) tendDisk() {
	if a.disk.busy || a.health.broken != nil {
		return
	}
	state, space := a.health.disk, a.health.space
	var running []diskUse
	if state == diskCritical {
		for _, j := range a.jobs {
			if j.ending && !j.hasEnded() {
				running = nil // its files are about to go
				break
			}
			if j.launched && !j.hasEnded() {
				running = append(running, diskUse{number: j.number, dir: j.dir})
			}
		}
	}
	a.disk.busy = true
	a.work(func() {
		if state >= diskLow && a.cache != nil {
			a.cache.Shrink()
		}
		if err := tendReserve(filepath.Join(a.Options.Directory, reserveFile), state, space); err != nil {
			a.Log.Warn("the reserve of disk space cannot be kept", "error", err)
		}
		victim := worst(running, jobproxy.DiskUse)
		a.post(func() {
			a.disk.busy = false
			if victim != nil && a.health.disk == diskCritical {
				a.endForDisk(victim)
			}
		})
	})
}

// limitDisk has the file system limit the files of a job that runs as a user of its own: the number of its project is the user's.
func (a *Agent) limitDisk(j *job, d *jobproxy.Description) {
	if a.Rules.Disk.Project && d.Disk != (jobproxy.Disk{}) {
		d.Project = j.uid
	}
}

// measureJobs has the files of all jobs measured now, so that those that take too much end before others suffer.
func (a *Agent) measureJobs() {
	for _, j := range a.jobs {
		if j.launched && !j.hasEnded() && !j.ending && j.stop == nil {
			a.order(j.number, jobproxy.Order{Command: jobproxy.Measure})
		}
	}
}

// diskUse is the disk space of a job.
type diskUse struct {
	number          uint64
	dir             string
	used, requested int64
}

func (u *diskUse) excess() int64 { return u.used - u.requested }

// worst returns the job that takes most beyond what it asked for, the newest of equals; nil if all are within it.
func worst(jobs []diskUse, measure func(dir string) (used, requested int64, err error)) *diskUse {
	for i := range jobs {
		var err error
		if jobs[i].used, jobs[i].requested, err = measure(jobs[i].dir); err != nil {
			jobs[i].used = 0 // it has ended meanwhile
		}
	}
	slices.SortFunc(jobs, func(x, y diskUse) int {
		return cmp.Or(cmp.Compare(y.excess(), x.excess()), cmp.Compare(y.number, x.number))
	})
	if len(jobs) == 0 || jobs[0].excess() <= 0 {
		return nil
	}
	return &jobs[0]
}

// endForDisk aborts a job, which may start on another node.
func (a *Agent) endForDisk(victim *diskUse) {
	text := func(size int64) string { return resource.FormatAmount(resource.Memory, size) }
	a.Log.Warn("a job is ended for its disk space", "job_number", victim.number, "used", victim.used, "requested", victim.requested)
	a.order(victim.number, jobproxy.Order{Command: jobproxy.Abort, Reason: reasonDiskOverdraft, Message: fmt.Sprintf(
		"the disk of the node is full, and the job takes %s more than the %s that its disk_request asks for", text(victim.excess()), text(victim.requested))})
}

// tendReserve makes the reserve while there is room, and deletes it when the disk is full.
func tendReserve(path string, state diskState, space disk) error {
	switch {
	case state == diskCritical:
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	case state != diskFine || space.size == 0:
		return nil
	}
	size := min(reserveSize, space.size/reserveShare)
	if info, err := os.Stat(path); err == nil && info.Size() == size {
		return nil
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = unix.Fallocate(int(file.Fd()), 0, 0, size)
	if errors.Is(err, unix.EOPNOTSUPP) {
		_, err = file.Write(make([]byte, size))
	}
	if err = errors.Join(err, file.Close()); err != nil {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}
