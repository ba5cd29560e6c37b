package cluster

import (
	"context"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// small is a node with room for eight jobs.
var small = nodeOptions{resources: "{cpu: 8, memory: 4GiB, user_slots: 8}"}

// harm injects a fault several times, at random moments while jobs run, and then checks that every
// piece of work was done exactly once.
func harm(t *testing.T, nodes int, pause time.Duration, fault func(c *realCluster, random *rand.Rand)) {
	harmWith(t, nodes, small, pause, fault)
}

// harmWith is harm on nodes of a kind.
func harmWith(t *testing.T, nodes int, o nodeOptions, pause time.Duration, fault func(c *realCluster, random *rand.Rand)) {
	takesLong(t)
	c := newRealCluster(t, nodes, o)
	random, count := newRandom(t), faultCount(t)
	c.load(20 + 20*count)
	for range count {
		c.awaitProxies()
		pass(time.Duration(random.Int64N(int64(pause))))
		fault(c, random)
	}
	c.await()
	c.check()
}

// isIdle reports whether no operation runs.
func (c *realCluster) isIdle() bool { return !strings.Contains(c.weir("op", "list"), "running") }

func TestAJobProxyMayBeKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	harm(t, 1, 200*time.Millisecond, func(c *realCluster, random *rand.Rand) {
		pids := c.awaitProxies()
		if pid := pids[random.IntN(len(pids))]; c.isProxy(pid) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have just ended
		}
	})
}

func TestAnAgentMayBeKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	harm(t, 2, 300*time.Millisecond, func(c *realCluster, random *rand.Rand) {
		n := c.nodes[random.IntN(len(c.nodes))]
		n.kill()
		pass(time.Duration(random.Int64N(int64(300 * time.Millisecond))))
		n.start()
	})
}

func TestTheSchedulerMayBeKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	harm(t, 2, 500*time.Millisecond, func(c *realCluster, random *rand.Rand) {
		c.scheduler.kill()
		pass(time.Duration(random.Int64N(int64(300 * time.Millisecond))))
		c.startScheduler()
	})
}

func TestAnAgentMayBeStoppedForLongerThanTheSchedulerWaits(t *testing.T) {
	t.Parallel()
	harm(t, 2, 200*time.Millisecond, func(c *realCluster, random *rand.Rand) {
		n := c.nodes[random.IntN(len(c.nodes))]
		n.signal(syscall.SIGSTOP)
		pass(1200*time.Millisecond + time.Duration(random.Int64N(int64(500*time.Millisecond))))
		n.signal(syscall.SIGCONT)
	})
}

func TestEverythingMayBeKilledAtOnce(t *testing.T) {
	t.Parallel()
	harm(t, 2, 300*time.Millisecond, func(c *realCluster, random *rand.Rand) {
		pids := c.awaitProxies()
		c.scheduler.kill()
		for _, n := range c.nodes {
			n.kill()
		}
		for _, pid := range pids {
			if c.isProxy(pid) && random.IntN(2) == 0 {
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may have just ended
			}
		}
		for _, n := range c.nodes {
			n.start()
		}
		c.startScheduler()
	})
}

func TestAFullDiskOfANodeIsOutlived(t *testing.T) {
	takesLong(t)
	t.Parallel()
	needMachine(t)
	disk := filepath.Join(t.TempDir(), "disk")
	mountTmpfs(t, disk, 8*mib)
	t.Cleanup(func() { // after the cluster has stopped
		if err := syscall.Unmount(disk, 0); err != nil {
			t.Error(err)
		}
	})
	o := small
	o.directory = filepath.Join(disk, "node")
	c := newRealCluster(t, 1, o)
	random, count := newRandom(t), faultCount(t)
	c.load(20 + 10*count)
	for range count {
		pass(time.Duration(random.Int64N(int64(300 * time.Millisecond))))
		free := fill(t, disk)
		pass(500*time.Millisecond + time.Duration(random.Int64N(int64(500*time.Millisecond))))
		free()
	}
	c.await()
	c.check()
}

// bad are harmful jobs, their memory limits, and the word that their errors contain. Unless it is
// stopped, the fork bomb ends at 127 shells, because other processes use this machine too. The tests of
// the job proxy check that a node limits a job's processes.
var bad = []struct{ name, command, memory, says string }{
	{"a fork bomb", "bomb() { [ $1 != 0 ] || exec sleep 100; bomb $(($1 - 1)) & bomb $(($1 - 1)) & wait; }; bomb 6", "10MiB", "Memory limit exceeded"},
	{"a memory bomb", "REFERENCE alloc=4000000000 sleep=100s", "100MiB", "Memory limit exceeded"},
	{"a job that ignores SIGTERM and hides", "trap '' TERM INT HUP; (setsid sh -c 'trap \"\" TERM; sleep 1000' &); sleep 1000", "100MiB", ""},
}

func TestBadJobsHarmNobodyElse(t *testing.T) {
	takesLong(t)
	c := newRealCluster(t, 1, small)
	for range faultCount(t) {
		c.load(10)
		for _, b := range bad {
			command := strings.ReplaceAll(b.command, "REFERENCE", programs.reference)
			spec := writeFile(t, c.directory, "bad.yaml", "{max_failed_job_count: 1, "+task("root", command, "memory_limit: "+b.memory, "cpu_limit: 0.1")[1:])
			id := c.weir("op", "start", "--ephemeral-pool", spec)
			if b.says == "" {
				await(t, b.name+" runs", func() bool { return strings.Contains(c.weir("op", "jobs", id), "running") })
				c.weir("op", "abort", id)
				continue
			}
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			wait := exec.CommandContext(ctx, programs.weir, "op", "wait", id)
			wait.Env = append(environment(), "WEIR_ADDR="+c.address)
			output, err := wait.CombinedOutput()
			cancel()
			if err == nil || !strings.Contains(string(output), b.says) {
				t.Errorf("%s: %v: %s", b.name, err, output)
			}
		}
	}
	c.await()
	c.check()
}
