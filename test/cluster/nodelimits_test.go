package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/node/cgroup"
	"github.com/weirhq/weir/internal/value/guid"
)

// oomScore returns the kernel's score for the first process of a job; empty if it has ended.
func (n *node) oomScore(job guid.ID) string {
	state := n.state(job.String())
	if state == nil || state.RootPID == 0 {
		return ""
	}
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(state.RootPID) + "/oom_score_adj") // also empty if the process has ended
	return strings.TrimSpace(string(text))
}

func TestTheKernelIsToldWhichJobsAreAboveTheirReserves(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	n := c.node("{cpu: 8, memory: 2GiB, user_slots: 8}", "  oom_score_adj_on_exceeded_memory_reserve: 900")
	_, shrinkWaits, letShrink := c.gate("shrink")
	_, endWaits, open := c.gate("end")
	above := c.start(task("a", reference(fmt.Sprintf("alloc=%d", 150*mib), "sleep=1h")+" & p=$!; "+shrinkWaits+"; kill $p; "+endWaits,
		"memory_limit: 200MiB", "cpu_limit: 0.1"))
	within := c.start(task("a", reference(fmt.Sprintf("alloc=%d", 50*mib), "sleep=1h")+" & p=$!; "+endWaits+"; kill $p; true",
		"memory_limit: 200MiB", "cpu_limit: 0.1"))
	first, second := c.awaitRunning(above, 1)[0], c.awaitRunning(within, 1)[0]
	await(t, "the job above its reserve is preferred", func() bool { return n.oomScore(first.ID) == "900" })
	await(t, "the other one has its memory", func() bool {
		state := n.state(second.ID.String())
		return state != nil && state.UserMemory >= 50*mib
	})
	if got := n.oomScore(second.ID); got != "300" {
		t.Errorf("the job within its reserve has %s", got)
	}
	letShrink()
	await(t, "it is like others again", func() bool { return n.oomScore(first.ID) == "300" })
	open()
	for _, id := range []guid.ID{above, within} {
		if _, jobs := c.completed(id); len(jobs) != 1 {
			t.Error(describe(jobs))
		}
	}
}

func TestAJobMayHaveAsManyProcessesAsItsNodeSays(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	probe, err := cgroup.Detect(c.group)
	if err != nil {
		t.Fatal(err)
	}
	limited := probe.LimitsProcesses()
	if err := probe.Close(); err != nil {
		t.Error(err)
	}
	if !limited {
		t.Skip("NO PIDS CONTROLLER HERE: its limit is not tested")
	}
	c.nodeWith(nodeOptions{name: "node-1", resources: "{cpu: 8, memory: 2GiB, user_slots: 8}", contained: ", process_limit_per_core: 20"})
	for _, k := range []struct {
		cpu   string
		limit int
	}{{"0.5", 20}, {"2", 40}} {
		// The inner shell gives up when it cannot start another process. It and the outer shell are
		// two.
		born := filepath.Join(c.directory, "born-"+k.cpu)
		command := fmt.Sprintf("sh -c 'i=0; while [ $i -lt 100 ]; do sleep 1000 & i=$((i+1)); echo $i >> %s; done'; true", born)
		_, jobs := c.completed(c.start(task("a", command, "cpu_limit: "+k.cpu)))
		if got := len(readLines(t, born)); got != k.limit-2 {
			t.Errorf("with %s cores a job had %d processes beside its shells, and may have %d in all\n%s", k.cpu, got, k.limit, c.stderr(jobs[0]))
		}
	}
}

// A node comes back with room for all reserves, but not for the growth of one job.
func TestANodeThatHasLessMemoryEndsTheJobAboveItsReserveAndNotTheNewest(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	n := c.node("{cpu: 8, memory: 2GiB, user_slots: 8}", "  memory_overdraft_timeout: 500ms", "  resource_adjustment_period: 50ms")
	_, waits, open := c.gate("gate")
	// Each job gets 200 + 132 MiB, and the first uses 385 MiB.
	above := c.start(task("a", reference(fmt.Sprintf("alloc=%d", 385*mib), "sleep=1h")+" & p=$!; "+waits+"; kill $p; true",
		"memory_limit: 400MiB", "cpu_limit: 0.1"))
	victim := c.awaitRunning(above, 1)[0]
	await(t, "the first job is above its reserve", func() bool {
		state := n.state(victim.ID.String())
		return state != nil && state.UserMemory >= 385*mib
	})
	within := c.start(task("b", waits, "memory_limit: 400MiB", "cpu_limit: 0.1"))
	newest := c.awaitRunning(within, 1)[0]
	n.stop()
	n.options.resources = "{cpu: 8, memory: 710MiB, user_slots: 8}"
	n.configure(c.scheduler.Address, c.directory, c.group)
	n.start()
	await(t, "a job is aborted", func() bool {
		op, there := c.scheduler.Server.Operation(server.OperationKey{ID: above})
		return there && op.Jobs.Aborted[operation.AbortResourceOverdraft] > 0
	})
	if jobs := c.running(within); len(jobs) != 1 || jobs[0].ID != newest.ID {
		t.Error("the job within its reserve is gone")
	}
	open()
	if _, jobs := c.completed(within); len(jobs) != 1 {
		t.Error(describe(jobs))
	}
	_, jobs := c.completed(above)
	if len(jobs) != 2 || guid.OfJob(jobs[0].Number) != victim.ID || jobs[0].AbortReason != "resource_overdraft" {
		t.Fatal(describe(jobs))
	}
	t.Logf("it was told %s", jobs[0].Error) // if it grew by a page meanwhile, the node did not wait
}
