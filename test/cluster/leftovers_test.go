package cluster

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// cgroupMounts returns the control group hierarchies of the machine.
func cgroupMounts(t testing.TB) (mounts []string) {
	text, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) > 2 && (fields[2] == "cgroup" || fields[2] == "cgroup2") {
			mounts = append(mounts, fields[1])
		}
	}
	return mounts
}

// groupsUnder returns a control group and all groups below it, in all hierarchies.
func groupsUnder(t testing.TB, group string) (found []string) {
	for _, mount := range cgroupMounts(t) {
		_ = filepath.WalkDir(filepath.Join(mount, group), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				found = append(found, path)
			}
			return nil // ignore a group that was just removed
		})
	}
	return found
}

// processesOf returns the processes whose command line or environment contains a text, as "id command".
// It ignores zombies.
func processesOf(t testing.TB, text string, but ...int) (found []string) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() || slices.Contains(but, pid) {
			continue
		}
		command, _ := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		variables, _ := os.ReadFile(filepath.Join("/proc", entry.Name(), "environ"))
		if bytes.Contains(command, []byte(text)) || bytes.Contains(variables, []byte(text)) {
			found = append(found, entry.Name()+" "+strings.ReplaceAll(string(command), "\x00", " "))
		}
	}
	return found
}

// mountsUnder returns the mounts inside a directory.
func mountsUnder(t testing.TB, directory string) (found []string) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 4 && strings.HasPrefix(fields[4], directory+"/") {
			found = append(found, fields[4])
		}
	}
	return found
}

// awaitNothing waits until a list is empty, and fails the test if it does not become empty.
func awaitNothing(t testing.TB, what string, list func() []string) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(patience)
	for {
		left := list()
		if len(left) == 0 {
			return
		}
		select {
		case <-ticker.C:
		case <-deadline:
			t.Errorf("%s left behind:\n  %s", what, strings.Join(left, "\n  "))
			return
		}
	}
}

// checkJobsLeftNothing waits until a node whose agent runs has no trace of jobs.
func (n *node) checkJobsLeftNothing(group string) {
	n.t.Helper()
	awaitNothing(n.t, "directories of jobs", n.jobDirectories)
	awaitNothing(n.t, "control groups of jobs", func() []string {
		return slices.DeleteFunc(groupsUnder(n.t, group), func(path string) bool { return strings.Count(strings.SplitN(path, group, 2)[1], "/") < 2 })
	})
	awaitNothing(n.t, "processes of jobs", func() []string { return processesOf(n.t, n.jobs()) })
	awaitNothing(n.t, "mounts of jobs", func() []string { return mountsUnder(n.t, n.directory) })
}

// checkNothingIsLeft checks, after everything has been stopped, that no process, group or mount of the
// test's directory is left.
func checkNothingIsLeft(t testing.TB, directory, group string) {
	t.Helper()
	awaitNothing(t, "processes", func() []string { return processesOf(t, directory) })
	awaitNothing(t, "control groups", func() []string { return groupsUnder(t, group) })
	awaitNothing(t, "mounts", func() []string { return mountsUnder(t, directory) })
}
