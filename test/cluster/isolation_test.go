package cluster

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/node/jobproxy"
)

// isolated are the settings of a node whose jobs see nothing of the test's directory, as by default.
const isolated = "  isolation: {}\n"

// supervisor is the process that hosts the jobs of a node; zero if none runs.
func (n *node) supervisor() int {
	for _, process := range processesOf(n.t, n.directory) {
		if pid, command, _ := strings.Cut(process, " "); strings.Contains(command, "supervisor") {
			number, _ := strconv.Atoi(pid)
			return number
		}
	}
	return 0
}

func TestIsolatedJobsOfTwoUsersSeeNothingOfEachOther(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	n := c.node("{cpu: 4, memory: 4GiB, user_slots: 4}", isolated)
	first := c.start(task("a", "echo secret > note; chmod 644 note; exec sleep 1000"))
	c.awaitRunning(first, 1)
	second := c.start(task("b", fmt.Sprintf("id -u >&2; pwd >&2; ls / >&2; ls %s; ls -d /proc/[0-9]* | wc -l >&2; true", n.directory)))
	_, jobs := c.ended(second)
	text := c.stderr(jobs[0])
	if !strings.HasPrefix(text, "1900000001\n/job\nbin\ndev\n") || !strings.Contains(text, "No such file or directory") {
		t.Errorf("the job wrote\n%s", text)
	}
	state := n.state(c.running(first)[0].ID.String())
	if state == nil || state.InitPID == 0 || state.ProxyPID != n.supervisor() {
		t.Errorf("the first job is %+v", state)
	}
}

// Attack 1: a job on the leader's machine uses the scheduler without a token.
func TestAJobIsNotRootOfTheCluster(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.node("{cpu: 4, memory: 4GiB, user_slots: 4}", isolated)
	host, port, _ := strings.Cut(c.scheduler.Address, ":")
	call := func(request string) string {
		return fmt.Sprintf(`exec 3<>/dev/tcp/%s/%s; printf '%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n' >&3; cat <&3 >&2; echo >&2
`, host, port, request)
	}
	id := c.start(task("a", call("GET /auth/whoami")+call("POST /api/v4/create?type=map_node&path=//tmp/taken")+call("POST /api/v4/issue_token?user=root")+
		"ls -d "+client.SocketPath(c.scheduler.Address)+" || true"))
	_, jobs := c.completed(id)
	text := c.stderr(jobs[0])
	if !strings.Contains(text, `{"login":"guest"`) || strings.Contains(text, `"root"`) || strings.Count(text, " 401 Unauthorized") != 2 || !strings.Contains(text, "No such file or directory") {
		t.Errorf("the job got\n%s", text)
	}
}

func TestASupervisorMayBeKilledWhileItsAgentIsAwayToo(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	n := c.node("{cpu: 4, memory: 4GiB, user_slots: 4}", isolated)
	id := c.start(task("a", "for i in $(seq 500); do echo line $i >&2; done; while [ ! -e go ]; do sleep 0.01; done; for i in $(seq 501 1000); do echo line $i >&2; done"))
	job := c.awaitRunning(id, 1)[0]
	old := n.supervisor()
	n.kill()
	if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(n.jobs(), job.ID.String(), "sandbox", "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	n.start()
	_, jobs := c.completed(id)
	if lines := strings.Split(strings.TrimSpace(c.stderr(jobs[0])), "\n"); len(jobs) != 1 || len(lines) != 1000 || lines[999] != "line 1000" {
		t.Errorf("%d jobs, %d lines, the last is %q", len(jobs), len(lines), lines[len(lines)-1])
	}
	n.checkJobsLeftNothing(c.group)
}

// A supervisor is replaced, and no job is aborted for it: those that had not started yet start with the next.
func TestASupervisorMayBeKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	harm(t, 1, 200*time.Millisecond, func(c *realCluster, random *rand.Rand) {
		if pid := c.nodes[0].supervisor(); pid != 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may just have ended
		}
		if random.IntN(3) == 0 {
			c.nodes[0].kill()
			c.nodes[0].start()
		}
	})
}

func TestAnInitMayBeKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	harm(t, 1, 200*time.Millisecond, func(c *realCluster, random *rand.Rand) {
		for _, dir := range c.nodes[0].jobDirectories() {
			if state, err := jobproxy.ReadState(dir); err == nil && state.InitPID != 0 && jobproxy.IsAlive(dir) {
				_ = syscall.Kill(state.InitPID, syscall.SIGKILL) // it may just have ended
				return
			}
		}
	})
}

// A node is upgraded from a process per job to a supervisor and isolation while a job runs.
func TestANodeMovesToASupervisorWithJobsRunning(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	n := c.node("{cpu: 4, memory: 4GiB, user_slots: 4}", "  supervisor: false\n  isolation: {level: none}\n")
	gate := filepath.Join(c.directory, "gate")
	before := c.start(task("a", "for i in $(seq 500); do echo line $i >&2; done; while [ ! -e "+gate+" ]; do sleep 0.01; done; for i in $(seq 501 1000); do echo line $i >&2; done"))
	job := c.awaitRunning(before, 1)[0]
	if state := n.state(job.ID.String()); state == nil || n.supervisor() != 0 {
		t.Fatalf("the job does not have a process of its own: %+v", state)
	}
	n.kill()
	n.options.more = isolated
	n.configure(c.scheduler.Address, c.directory, c.group)
	n.start()
	after := c.start(task("b", "id -u >&2"))
	_, jobs := c.completed(after)
	// A job that the scheduler gave to the killed agent is aborted, so the completed one is the last.
	if text := c.stderr(jobs[len(jobs)-1]); !strings.HasPrefix(text, "19000000") {
		t.Errorf("the job after the upgrade wrote %q", text)
	}
	if err := os.WriteFile(gate, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	_, jobs = c.completed(before)
	if lines := strings.Split(strings.TrimSpace(c.stderr(jobs[0])), "\n"); len(jobs) != 1 || len(lines) != 1000 || lines[999] != "line 1000" {
		t.Errorf("%d jobs, %d lines, the last is %q", len(jobs), len(lines), lines[len(lines)-1])
	}
	n.checkJobsLeftNothing(c.group)
}
