package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/value/resource"
)

func TestJobsGetTheGPUsOfTheirNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	n := c.node("{cpu: 8, memory: 4GiB, user_slots: 8}", isolated+"  gpus: {fake: 4, period: 100ms}\n")
	const waits = "while [ ! -e go ]; do sleep 0.01; done"
	const shows = `echo $CUDA_VISIBLE_DEVICES $WEIR_GPU_DEVICES $(cd /dev; echo nvidia*) >&2; `
	pair := c.start(task("a", shows+waits, "gpu_limit: 2"))
	first := c.awaitRunning(pair, 1)[0]
	await(t, "the scheduler knows the devices of the job", func() bool {
		return slices.Equal(c.running(pair)[0].GPUs, []string{"GPU-fake-0", "GPU-fake-1"})
	})

	// The agent remembers across a restart, and so does the job.
	n.kill()
	n.start()
	others := c.start(task("b", shows, "gpu_limit: 1", "job_count: 2"))
	_, ended := c.completed(others)
	var seen []string
	for _, job := range ended {
		if job.State == "aborted" { // the agent was killed before it got the order
			continue
		}
		seen = append(seen, strings.TrimSpace(c.stderr(job)))
	}
	for _, text := range seen {
		if text != "0 GPU-fake-2 nvidia2 nvidiactl" && text != "0 GPU-fake-3 nvidia3 nvidiactl" {
			t.Errorf("a job of one GPU wrote %q", text)
		}
	}
	_, without := c.completed(c.start(task("b", shows)))
	if text := c.stderr(without[0]); text != "nvidia*\n" {
		t.Errorf("a job without GPUs wrote %q", text)
	}

	// A device that is unwell gets no jobs, and the node says so.
	if err := os.WriteFile(filepath.Join(filepath.Dir(n.jobs()), "gpu-fault-3"), []byte("it smells\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	await(t, "the node has three GPUs that are well", func() bool {
		for _, node := range c.scheduler.Server.Nodes() {
			if alerts := fmt.Sprint(node.Status.Alerts); strings.Contains(alerts, "gpu_unhealthy: GPU-fake-3 gets no jobs: it smells") {
				return node.Status.Limits != nil && node.Status.Limits[resource.GPU] == 3
			}
		}
		return false
	})
	if err := os.WriteFile(filepath.Join(n.jobs(), first.ID.String(), "sandbox", "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, jobs := c.completed(pair); len(jobs) != 1 || jobs[0].Number != uint64(first.Number) || c.stderr(jobs[0]) != "0,1 GPU-fake-0,GPU-fake-1 nvidia0 nvidia1 nvidiactl\n" {
		t.Errorf("%s: %q", describe(jobs), c.stderr(jobs[0]))
	}
}
