package jobproxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhq/weir/internal/node/cgroup"
)

// Scan returns the directories of jobs under root, by name.
func Scan(root string) ([]string, error) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, fmt.Errorf("jobs: %w", err)
	}
	var dirs []string
	for _, entry := range entries {
		if entry.IsDir() && entry.Name()[0] != '.' {
			dirs = append(dirs, filepath.Join(root, entry.Name()))
		}
	}
	return dirs, nil
}

// Job is what Sweep found in one directory.
type Job struct {
	Dir    string
	Alive  bool    // its proxy runs: Attach to it
	Result *Result // of a job whose proxy does not run
	Err    error   // why it could not be cleaned up
}

// Sweep is the agent's first step: it finds every job under root, recovers those whose proxy has died, and removes
// containers that belong to no job. It leaves jobs with a running proxy alone.
func Sweep(ctx context.Context, root string, driver cgroup.Driver) ([]Job, error) {
	dirs, err := Scan(root)
	if err != nil {
		return nil, err
	}
	var jobs []Job
	var known []string
	for _, dir := range dirs {
		known = append(known, filepath.Base(dir))
		job := Job{Dir: dir, Alive: IsAlive(dir)}
		if !job.Alive {
			job.Result, job.Err = Recover(ctx, dir, driver)
		}
		jobs = append(jobs, job)
	}
	names, err := driver.List()
	if err != nil {
		return jobs, err
	}
	var problems []error
	for _, name := range names {
		if !slices.Contains(known, name) {
			problems = append(problems, endContainer(ctx, driver, name))
		}
	}
	return jobs, errors.Join(problems...)
}

// Recover cleans up after a proxy that has ended or died and returns the job's result. If the proxy could not write
// one, Recover writes it: the job is then aborted. It waits until the proxy is gone; if the context ends first, it
// returns ErrAlive.
func Recover(ctx context.Context, dir string, driver cgroup.Driver) (*Result, error) {
	lock, err := awaitLock(ctx, dir)
	if err != nil {
		return nil, fmt.Errorf("recover job in %s: %w", dir, err)
	}
	defer lock.Close()
	name := filepath.Base(dir)
	problems := []error{endContainer(ctx, driver, name), killInit(dir)}
	// A proxy that has written a result has removed these as well. To read the list of mounts is expensive.
	if exists(dir, sandboxDir) || exists(dir, temporaryDir) || exists(dir, changesDir) {
		problems = append(problems, unmountUnder(dir))
		if errors.Join(problems...) == nil && !keepsSandbox(dir) { // never delete inside a mounted file system
			problems = append(problems, os.RemoveAll(filepath.Join(dir, sandboxDir)), os.RemoveAll(filepath.Join(dir, temporaryDir)),
				os.RemoveAll(filepath.Join(dir, changesDir)))
		}
	}
	if err := errors.Join(problems...); err != nil { // while processes are left there is no result
		return nil, fmt.Errorf("recover job %s: %w", name, err)
	}
	result, err := ReadResult(dir)
	if errors.Is(err, fs.ErrNotExist) {
		result = resultOfTheDead(dir)
		err = writeJSON(dir, resultFile, result, true)
	}
	if err != nil {
		return nil, fmt.Errorf("recover job %s: %w", name, err)
	}
	return result, nil
}

// Remove deletes all files of a job whose proxy has ended. It is the last step for a job.
func Remove(ctx context.Context, dir string, driver cgroup.Driver) error {
	if _, err := Recover(ctx, dir, driver); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove job: %w", err)
	}
	return nil
}

func keepsSandbox(dir string) bool {
	job, err := ReadDescription(dir)
	return err == nil && job.KeepSandbox
}

// resultOfTheDead builds a job's result from the last state that its proxy wrote.
func resultOfTheDead(dir string) *Result {
	r := &Result{
		Version: DescriptionVersion, JobID: filepath.Base(dir), Outcome: Aborted, AbortReason: ProxyFailed,
		Error: newError(CodeGeneric, "the job proxy died"),
	}
	if job, err := ReadDescription(dir); err == nil {
		r.OperationID, r.Timings.Accepted = job.OperationID, job.AcceptedAt
	}
	if state, err := ReadState(dir); err == nil {
		r.Timings, r.Statistics, r.Warnings = state.Timings, state.Statistics, state.Warnings
		r.Interrupted = state.InterruptionReason != ""
	}
	r.Timings.Finished = time.Now()
	return r
}

func awaitLock(ctx context.Context, dir string) (*os.File, error) {
	for {
		lock, err := lockDirectory(dir)
		if !errors.Is(err, ErrAlive) {
			return lock, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func endContainer(ctx context.Context, driver cgroup.Driver, name string) error {
	container, err := driver.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := container.Kill(ctx); err != nil {
		return err
	}
	return container.Remove()
}

// unmountUnder unmounts everything mounted inside a directory. A proxy mounts in its own namespace, which is removed
// with it; this is for machines where it could not.
func unmountUnder(dir string) error {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	defer mounts.Close()
	var points []string
	for lines := bufio.NewScanner(mounts); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) > 4 {
			if point := unescape(fields[4]); strings.HasPrefix(point, dir+"/") {
				points = append(points, point)
			}
		}
	}
	var problems []error
	for _, point := range slices.Backward(points) {
		if err := unix.Unmount(point, unix.MNT_DETACH); err != nil {
			problems = append(problems, fmt.Errorf("unmount %s: %w", point, err))
		}
	}
	return errors.Join(problems...)
}

// unescape decodes a path of mountinfo, where blanks are in octal.
func unescape(path string) string {
	var text strings.Builder
	for {
		before, after, found := strings.Cut(path, `\`)
		text.WriteString(before)
		if !found {
			return text.String()
		}
		if len(after) >= 3 {
			if code, err := strconv.ParseUint(after[:3], 8, 8); err == nil {
				text.WriteByte(byte(code))
				path = after[3:]
				continue
			}
		}
		text.WriteByte('\\')
		path = after
	}
}
