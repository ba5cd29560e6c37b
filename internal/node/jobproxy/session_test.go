package jobproxy

import (
	"bufio"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// processesInSession lists the live processes of a session in the whole machine.
func processesInSession(t *testing.T, leader int) (pids []int) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if sid, err := unix.Getsid(pid); err == nil && sid == leader {
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestASessionEndsThoughItsProcessesFork kills sessions whose shell forks all the time.
func TestASessionEndsThoughItsProcessesFork(t *testing.T) {
	for range 10 {
		shell := exec.Command("sh", "-c", "echo begins; n=0; while [ $n -lt 500 ]; do sleep 1000 & n=$((n+1)); done; wait")
		shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		output, err := shell.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := shell.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(output).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		leader := shell.Process.Pid
		var killed []int
		killSession(leader, func() ([]int, error) {
			pids := processesInSession(t, leader)
			killed = append(killed, pids...)
			return pids, nil
		})
		for _, pid := range processesInSession(t, leader) {
			if !slices.Contains(killed, pid) {
				t.Errorf("process %d of the session was forgotten", pid)
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
		_ = shell.Wait() // it was killed
	}
}
