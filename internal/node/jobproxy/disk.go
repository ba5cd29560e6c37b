package jobproxy

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Disk is what the files of a job may take, in its sandbox, its temporary directory and its image together. Zero is no limit.
type Disk struct {
	Space int64 `json:"space,omitempty"` // bytes
	Files int64 `json:"files,omitempty"` // directories included
}

// diskUsage is what the files of a job take.
type diskUsage struct {
	Disk
	tooDeep bool
	cost    time.Duration // of the walk
}

// exceeds reports whether a job takes more than it may.
func (u *diskUsage) exceeds(limit Disk) bool {
	return u.tooDeep || limit.Space > 0 && u.Space > limit.Space || limit.Files > 0 && u.Files > limit.Files
}

const (
	// diskPeriod is the least time between two walks; a walk takes at most one part in diskShare of the time.
	diskPeriod = 5 * time.Second
	diskShare  = 100
	// maxDepth bounds how deep directories may be nested: each level of a walk holds a descriptor.
	maxDepth = 256
)

// measureDisk adds up the files below directories, without what is mounted there, and stops as soon as they exceed the
// limit. The job may change everything meanwhile: a walk follows no links and passes over what has disappeared.
func measureDisk(limit Disk, directories ...string) diskUsage {
	began := time.Now()
	w := diskWalk{limit: limit, linked: map[uint64]bool{}}
	for _, path := range directories {
		handle, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			continue // it has disappeared
		}
		var st unix.Stat_t
		if unix.Fstat(handle, &st) == nil {
			w.device = st.Dev
		}
		w.walk(handle, 0)
	}
	w.usage.cost = time.Since(began)
	return w.usage
}

// DiskUse returns what the files of a job in a directory take, and what it asked for.
func DiskUse(dir string) (used, requested int64, err error) {
	d, err := ReadDescription(dir)
	if err != nil {
		return 0, 0, err
	}
	if d.Project != 0 {
		if use, err := projectUse(dir, d.Project); err == nil {
			return use.Space, d.DiskRequest, nil
		}
	}
	usage := measureDisk(Disk{}, filepath.Join(dir, sandboxDir), filepath.Join(dir, temporaryDir), filepath.Join(dir, changesDir))
	return usage.Space, d.DiskRequest, nil
}

// diskWalk is a walk through the files of a job.
type diskWalk struct {
	limit  Disk
	device uint64
	linked map[uint64]bool // files with several names that were counted
	usage  diskUsage
}

// walk counts what is in a directory and closes it.
func (w *diskWalk) walk(handle, depth int) {
	directory := os.NewFile(uintptr(handle), "sandbox")
	defer directory.Close()
	if depth > maxDepth {
		w.usage.tooDeep = true
		return
	}
	for {
		names, err := directory.Readdirnames(256)
		for _, name := range names {
			if w.usage.exceeds(w.limit) {
				return
			}
			w.count(handle, name, depth)
		}
		if errors.Is(err, io.EOF) || len(names) == 0 {
			return
		}
	}
}

func (w *diskWalk) count(directory int, name string, depth int) {
	var st unix.Stat_t
	if unix.Fstatat(directory, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Dev != w.device {
		return
	}
	isDirectory := st.Mode&unix.S_IFMT == unix.S_IFDIR
	if !isDirectory && st.Nlink > 1 {
		if w.linked[st.Ino] {
			return
		}
		w.linked[st.Ino] = true
	}
	w.usage.Space += st.Blocks * 512
	w.usage.Files++
	if isDirectory {
		below, err := unix.Openat(directory, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err == nil {
			w.walk(below, depth+1)
		}
	}
}

// watchDisk begins to watch the files of a job that has a limit.
func (p *proxy) watchDisk(now time.Time) {
	if p.job.Disk != (Disk{}) && p.job.Project == 0 {
		p.nextDisk = now.Add(diskPeriod)
	}
}

// checkDiskNow brings the next measurement forward, for a disk that runs full. It does nothing while one runs, and for a job that is not measured.
func (p *proxy) checkDiskNow() {
	if !p.nextDisk.IsZero() {
		p.checkDisk()
	}
}

// checkDisk measures the files of the job outside the loop that watches it.
func (p *proxy) checkDisk() {
	p.nextDisk = time.Time{} // the outcome sets it
	limit, done, directories := p.job.Disk, p.diskUsage, []string{p.sandbox.path, p.sandbox.temporary}
	if p.sandbox.changes != "" {
		directories = append(directories, p.sandbox.changes)
	}
	go func() { done <- measureDisk(limit, directories...) }()
}

// judgeDisk fails a job whose files take more than they may.
func (p *proxy) judgeDisk(u diskUsage) {
	p.nextDisk = time.Now().Add(max(diskPeriod, diskShare*u.cost))
	if !u.exceeds(p.job.Disk) {
		return
	}
	if u.tooDeep {
		p.end(Failed, "", newError(CodeGeneric, "Disk limit exceeded: directories are nested too deep", "limit", maxDepth))
		return
	}
	p.end(Failed, "", newError(CodeGeneric, "Disk limit exceeded", "disk_space", u.Space, "disk_space_limit", p.job.Disk.Space,
		"inode_count", u.Files, "inode_limit", p.job.Disk.Files))
}
