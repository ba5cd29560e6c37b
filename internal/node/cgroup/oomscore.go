package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// When memory runs out the kernel kills the process with the greatest sum of its memory and its oom_score_adj, in
// thousandths of the memory that has run out. A child inherits the adjustment of its parent.
const (
	// StartOOMScore is the oom_score_adj that Start gives to a command: the kernel prefers to kill jobs over the node's
	// own processes.
	StartOOMScore = 300
	// MaxOOMScore makes a process the first to be killed, however small it is.
	MaxOOMScore = 1000
)

// preferForOOM makes the kernel kill a job rather than the node's own processes when memory runs out. Where setting it
// is not permitted, the kernel chooses by size alone.
func preferForOOM(pid int) {
	os.WriteFile("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", []byte(strconv.Itoa(StartOOMScore)), 0)
}

func (c *kernelContainer) SetOOMScore(score int, of func(now int) bool) (changed int, err error) {
	pids, err := c.Processes()
	if err != nil {
		return 0, err
	}
	return setOOMScores(c.name, pids, score, of, c.holds)
}

func (c *processContainer) SetOOMScore(score int, of func(now int) bool) (changed int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.look(); err != nil {
		return 0, err
	}
	members := make(map[int]processID, len(c.current))
	pids := make([]int, 0, len(c.current))
	for _, p := range c.current {
		pids = append(pids, p.pid)
		members[p.pid] = p.id()
	}
	return setOOMScores(c.name, pids, score, of, func(pid int) bool {
		again, err := readProcess(pid)
		return err == nil && again.id() == members[pid]
	})
}

// setOOMScores continues with the other processes if one refuses.
func setOOMScores(name string, pids []int, score int, of func(now int) bool, isInside func(pid int) bool) (changed int, err error) {
	var problems []error
	for _, pid := range pids {
		did, err := setOOMScore(pid, score, of, isInside)
		if err != nil {
			problems = append(problems, fmt.Errorf("container %s: oom_score_adj of process %d: %w", name, pid, err))
		}
		if did {
			changed++
		}
	}
	return changed, errors.Join(problems...)
}

// setOOMScore opens the file before it checks whether the process is inside: an open file always refers to the same
// process, even if the kernel reuses the id.
func setOOMScore(pid, score int, of func(now int) bool, isInside func(pid int) bool) (changed bool, err error) {
	file, err := os.OpenFile("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", os.O_RDWR, 0)
	if err != nil {
		return false, unlessGone(err)
	}
	defer file.Close()
	if !isInside(pid) {
		return false, nil
	}
	var text [16]byte
	n, err := file.Read(text[:])
	if err != nil {
		return false, unlessGone(err)
	}
	now, err := strconv.Atoi(strings.TrimSpace(string(text[:n])))
	if err != nil || now == score || !of(now) {
		return false, err
	}
	if _, err := file.WriteAt([]byte(strconv.Itoa(score)), 0); err != nil {
		return false, unlessGone(err)
	}
	return true, nil
}

// unlessGone drops errors which mean that a process has ended meanwhile.
func unlessGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}
