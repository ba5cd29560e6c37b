//go:build linux

package faults

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// disk is a file system of its own in a file: it can be filled, and frozen, in which case every
// write waits. A frozen disk is a disk that hangs; one that is frozen most of the time is slow.
type disk struct {
	t         *testing.T
	directory string // where it is mounted
	filler    string
}

// Requests of ioctl, see linux/fs.h.
const (
	requestFreeze = 0xc0045877
	requestThaw   = 0xc0045878
)

// newDisk mounts a disk of so many MiB, or skips the test where that is not possible.
func newDisk(t *testing.T, size int) *disk {
	t.Helper()
	sweepDisks()
	directory, err := os.MkdirTemp("", "weirfaults") // short: sockets lie below it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(directory) })
	d := &disk{t: t, directory: filepath.Join(directory, "weirdisk"+strconv.Itoa(os.Getpid()))}
	image := filepath.Join(directory, "image")
	if err := os.Mkdir(d.directory, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, int64(size)<<20); err != nil {
		t.Fatal(err)
	}
	for _, words := range [][]string{
		{"mkfs.ext4", "-q", "-m", "0", image},
		{"mount", "-o", "loop", image, d.directory},
	} {
		if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			t.Skipf("NOT TESTED WITH BAD DISKS: %s: %v: %s", words[0], err, out)
		}
	}
	t.Cleanup(func() {
		d.thaw()
		if err := syscall.Unmount(d.directory, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	// The user of a database must get there.
	for _, path := range []string{directory, d.directory} {
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// sweepDisks unmounts the disks of tests that were killed.
func sweepDisks() {
	mounts, _ := os.ReadFile("/proc/mounts")
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		owner, found := strings.CutPrefix(filepath.Base(fields[1]), "weirdisk")
		process, err := strconv.Atoi(owner)
		if !found || err != nil || syscall.Kill(process, 0) == nil {
			continue
		}
		(&disk{directory: fields[1]}).thaw()
		_ = syscall.Unmount(fields[1], syscall.MNT_DETACH)
	}
}

func (d *disk) request(which uint) error {
	directory, err := os.Open(d.directory)
	if err != nil {
		return err
	}
	defer directory.Close()
	return unix.IoctlSetInt(int(directory.Fd()), which, 0)
}

// freeze makes every write to the disk wait.
func (d *disk) freeze() {
	d.t.Helper()
	if err := d.request(requestFreeze); err != nil && !errors.Is(err, syscall.EBUSY) {
		d.t.Errorf("freeze: %v", err)
	}
}

// thaw lets writes go on.
func (d *disk) thaw() { _ = d.request(requestThaw) } // an error says that it was not frozen

// fillUp takes all the room that is left.
func (d *disk) fillUp() {
	d.t.Helper()
	d.filler = filepath.Join(d.directory, "filler")
	file, err := os.Create(d.filler)
	if err != nil {
		d.t.Errorf("fill the disk: %v", err)
		return
	}
	defer file.Close()
	taken := int64(0)
	for size := int64(64 << 20); size >= 1<<10; {
		if err := unix.Fallocate(int(file.Fd()), 0, taken, size); err != nil {
			size /= 2
			continue
		}
		taken += size
	}
}

// makeRoom undoes fillUp.
func (d *disk) makeRoom() {
	d.t.Helper()
	if err := os.Remove(d.filler); err != nil {
		d.t.Errorf("make room: %v", err)
	}
}
