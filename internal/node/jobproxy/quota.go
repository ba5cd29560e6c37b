package jobproxy

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A project quota holds the files of a job to its limits exactly: the kernel counts them, and a write beyond the limit fails with EDQUOT.
// ext4 has it with the feature project and the mount option prjquota, XFS with the mount option pquota. Files belong to the project of
// the directory in which they are made.

// fileAttributes is struct fsxattr of linux/fs.h.
type fileAttributes struct {
	flags, extentSize, extents, project, copySize uint32
	_                                             [8]byte
}

// quotaRecord is struct if_dqblk of linux/quota.h.
type quotaRecord struct {
	hardBlocks, softBlocks uint64 // of 1 KiB
	space                  uint64 // bytes
	hardFiles, softFiles   uint64
	files                  uint64
	blockTime, fileTime    uint64
	valid                  uint32
	_                      uint32
}

const (
	getFileAttributes = 0x801c581f // FS_IOC_FSGETXATTR
	setFileAttributes = 0x401c5820 // FS_IOC_FSSETXATTR
	inheritProject    = 0x200      // FS_XFLAG_PROJINHERIT

	projectQuota = 2 // PRJQUOTA
	getQuota     = 0x800007<<8 | projectQuota
	setQuota     = 0x800008<<8 | projectQuota
	quotaBlock   = 1 << 10
	validLimits  = 1 | 4 // QIF_BLIMITS | QIF_ILIMITS
)

// setProject makes a directory, and what will be made in it, belong to a project. A plain file is only put into it.
func setProject(path string, project uint32) error {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	var a fileAttributes
	if err := control(file, getFileAttributes, &a); err != nil {
		return err
	}
	a.project = project
	if info.IsDir() {
		a.flags |= inheritProject
	}
	return control(file, setFileAttributes, &a)
}

func control(file *os.File, request uintptr, a *fileAttributes) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, file.Fd(), request, uintptr(unsafe.Pointer(a)))
	if errno != 0 {
		return &fs.PathError{Op: "set the project of", Path: file.Name(), Err: errno}
	}
	return nil
}

// setProjectBelow makes everything below a directory belong to a project: files of an earlier attempt have none.
func setProjectBelow(directory string, project uint32) error {
	return filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() && !entry.Type().IsRegular() { // others take no space
			return err
		}
		return setProject(path, project)
	})
}

// callQuota reads or sets the record of a project on the file system of a directory.
func callQuota(directory string, command uintptr, project uint32, record *quotaRecord) error {
	handle, err := unix.Open(directory, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: directory, Err: err}
	}
	defer unix.Close(handle)
	_, _, errno := unix.Syscall6(unix.SYS_QUOTACTL_FD, uintptr(handle), command, uintptr(project), uintptr(unsafe.Pointer(record)), 0, 0)
	if errno != 0 {
		return &fs.PathError{Op: "project quota of", Path: directory, Err: errno}
	}
	return nil
}

// limitProject sets what the files of a project may take; zero is no limit.
func limitProject(directory string, project uint32, limit Disk) error {
	return callQuota(directory, setQuota, project, &quotaRecord{
		hardBlocks: uint64(limit.Space+quotaBlock-1) / quotaBlock, hardFiles: uint64(limit.Files), valid: validLimits,
	})
}

// projectUse returns what the files of a project take.
func projectUse(directory string, project uint32) (Disk, error) {
	var record quotaRecord
	err := callQuota(directory, getQuota, project, &record)
	return Disk{Space: int64(record.space), Files: int64(record.files)}, err
}

// ProbeQuota reports whether the file system of a directory counts files by project and limits them, for a project that has no files there. The
// error says why not.
func ProbeQuota(directory string, project uint32) (err error) {
	tried, err := os.MkdirTemp(directory, "probe-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tried)) }()
	if err := setProject(tried, project); err != nil {
		return err
	}
	if err := limitProject(tried, project, Disk{Space: 1 << 20}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, limitProject(directory, project, Disk{})) }()
	if err := os.WriteFile(filepath.Join(tried, "file"), nil, 0o600); err != nil {
		return err
	}
	switch used, err := projectUse(tried, project); {
	case err != nil:
		return err
	case used.Files < 2:
		return fmt.Errorf("project quota of %s: the file system counts %d files of a project that has two", directory, used.Files)
	}
	return nil
}

// applyQuota puts the directories that a job writes to under its project quota.
func (s *sandbox) applyQuota(job *Description) error {
	if job.Project == 0 {
		return nil
	}
	directories := []string{s.path, s.temporary}
	if s.changes != "" {
		directories = append(directories, s.changes)
	}
	for _, directory := range directories {
		if err := setProjectBelow(directory, job.Project); err != nil {
			return err
		}
	}
	return limitProject(s.path, job.Project, job.Disk)
}
