package cluster

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/value/guid"
)

// starving is a tree in which a pool below its fair share soon preempts.
const starving = `{fair_share_starvation_timeout: 200ms, fair_share_starvation_tolerance: 0.9, preemptive_scheduling_backoff: 0,
  non_preemptible_resource_usage_threshold: {user_slots: 0}, pools: {a: {}, b: {}}}`

// calm turns preemption off: when a gate opens, jobs end in any order, and this must not cause
// preemption.
func (c *cluster) calm() {
	c.t.Helper()
	c.pools("{pools: {a: {}, b: {}}}")
}

// prepared returns a command that reports when it is ready for a signal, and a function that waits
// until this number of jobs are.
func (c *cluster) prepared(trap, then string) (command string, awaitReady func(jobs int)) {
	file := filepath.Join(c.directory, "ready")
	touch(c.t, file)
	return trap + "; echo ready >> " + file + "; " + then, func(jobs int) {
		c.t.Helper()
		await(c.t, "jobs are ready for a signal", func() bool { return len(readLines(c.t, file)) == jobs })
	}
}

// abortedJobs returns the jobs that were aborted for this reason.
func abortedJobs(jobs []store.Job, reason string) (list []store.Job) {
	for _, j := range jobs {
		if j.State == "aborted" && j.AbortReason == reason {
			list = append(list, j)
		}
	}
	return list
}

func TestAStarvingOperationGetsItsShareByAbortingTheNewestJobsOfAnother(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.pools(starving)
	c.node("{cpu: 4, memory: 8GiB, user_slots: 4}")
	_, waits, open := c.gate("gate")
	greedy := c.start(task("a", waits, "job_count: 4", "cpu_limit: 1"))
	jobs := c.awaitRunning(greedy, 4)
	late := c.start(task("b", waits, "job_count: 4", "cpu_limit: 1"))
	c.awaitRunning(late, 2)
	kept := c.awaitRunning(greedy, 2)
	for i, j := range kept {
		if j.ID != jobs[i].ID {
			t.Errorf("job %s runs on, not the oldest", j.ID)
		}
	}
	await(t, "the pools hold half of the cluster each", func() bool { return c.usage("a")[1] == 200 && c.usage("b")[1] == 200 })
	c.calm()
	open()
	c.completed(late)
	_, ended := c.completed(greedy)
	aborted := abortedJobs(ended, "preemption")
	if len(aborted) != 2 || len(ended) != 6 {
		t.Fatal(describe(ended))
	}
	for _, j := range aborted {
		if !slices.Contains([]guid.ID{jobs[2].ID, jobs[3].ID}, guid.OfJob(j.Number)) {
			t.Errorf("job %s was aborted, not the newest", guid.OfJob(j.Number))
		}
	}
}

func TestAnInterruptibleJobGetsItsSignalAndTime(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.pools(strings.Replace(starving, "{fair", "{job_interrupt_timeout: 1m, fair", 1))
	c.node("{cpu: 2, memory: 8GiB, user_slots: 2}")
	_, waits, open := c.gate("gate")
	said := filepath.Join(c.directory, "said")
	touch(t, said)
	// The job cleans up for half a second and reports that it ended on purpose.
	command, awaitReady := c.prepared(fmt.Sprintf("trap 'echo signalled $YT_JOB_ID >> %s; sleep 0.5; echo cleared $YT_JOB_ID >> %s; exit 17' INT", said, said), waits)
	polite := c.start(task("a", command, "job_count: 2", "cpu_limit: 1", "interruption_signal: SIGINT", "restart_exit_code: 17"))
	jobs := c.awaitRunning(polite, 2)
	awaitReady(2)
	late := c.start(task("b", waits, "cpu_limit: 1"))
	c.awaitRunning(late, 1)
	text := readLines(t, said)
	if want := []string{"signalled " + jobs[1].ID.String(), "cleared " + jobs[1].ID.String()}; !slices.Equal(text, want) {
		t.Errorf("jobs said %q before the other one began, want %q", text, want)
	}
	c.calm()
	open()
	c.completed(late)
	if _, ended := c.completed(polite); len(ended) != 3 || len(abortedJobs(ended, "preemption")) != 0 {
		t.Error(describe(ended))
	}
}

func TestAJobThatDoesNotListenIsAbortedWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.pools(strings.Replace(starving, "{fair", "{job_interrupt_timeout: 1s, fair", 1))
	c.node("{cpu: 2, memory: 8GiB, user_slots: 2}")
	_, waits, open := c.gate("gate")
	command, awaitReady := c.prepared("trap '' INT TERM HUP", waits)
	deaf := c.start(task("a", command, "job_count: 2", "cpu_limit: 1", "interruption_signal: SIGINT"))
	victim := c.awaitRunning(deaf, 2)[1]
	awaitReady(2)
	late := c.start(task("b", waits, "cpu_limit: 1"))
	c.awaitRunning(late, 1)
	c.calm()
	open()
	c.completed(late)
	_, ended := c.completed(deaf)
	if len(ended) != 3 || guid.OfJob(ended[0].Number) != victim.ID || ended[0].State != "aborted" {
		t.Fatal(describe(ended))
	}
	if ran := ended[0].FinishTime.Sub(ended[0].StartTime).Seconds(); ran < 1 {
		t.Errorf("it had %v s altogether", ran)
	}
}
