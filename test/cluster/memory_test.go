package cluster

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/resource"
)

// The footprint and the proxy reserve of every job before its usage is known.
const (
	footprint = 128 << 20
	proxyBase = 4 << 20
)

// near reports whether a figure differs from the expected one by at most a fraction.
func near(got, want int64, part float64) bool {
	return math.Abs(float64(got-want)) <= part*float64(want)
}

// reserve returns the memory reserve of a job's user process.
func reserve(t testing.TB, job store.Job) int64 { return statistic(t, job, "user_job/memory_reserve") }

func TestTheReserveOfTheFirstJobsIsHalfOfTheLimit(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.node("{cpu: 8, memory: 8GiB, user_slots: 8}")
	_, gateWaits, open := c.gate("gate")
	id := c.start(task("a", gateWaits, "job_count: 2", "memory_limit: 400MiB"))
	jobs := c.awaitRunning(id, 2)
	for _, j := range jobs {
		if j.Reserve.User != 200*mib || j.Resources[resource.Memory] != 200*mib+footprint+proxyBase {
			t.Errorf("reserve %d, given %d", j.Reserve.User, j.Resources[resource.Memory])
		}
	}
	await(t, "the pool holds what its jobs were given", func() bool {
		return c.usage("a")[resource.Memory] == 2*(200*mib+footprint+proxyBase)
	})
	open()
	_, ended := c.completed(id)
	for _, j := range ended {
		if reserve(t, j) != 200*mib || statistic(t, j, "user_job/memory_limit") != 400*mib {
			t.Errorf("%s", j.Statistics)
		}
	}
}

func TestTheReserveOfTheTwentyFirstJobFollowsTheFirstTwenty(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.node("{cpu: 8, memory: 8GiB, user_slots: 20}")
	for _, k := range []struct {
		large int
		part  float64
	}{
		{1, 0.4}, // 95 % are below what the nineteen use
		{2, 0.8}, // they are not
	} {
		_, waits, open := c.gate(fmt.Sprint("gate", k.large))
		command := fmt.Sprintf("size=20000000; [ $YT_JOB_COOKIE -ge %d ] || size=40000000; %s alloc=$size & wait $!; %s", k.large, programs.reference, waits)
		id := c.start(task("a", command, "job_count: 21", "memory_limit: 50000000", "cpu_limit: 0.1"))
		c.awaitRunning(id, 20)
		c.insist(func(ctx context.Context) error {
			return c.scheduler.Server.SuspendOperation(ctx, server.Caller{User: "root"}, server.OperationKey{ID: id}, false)
		})
		open()
		await(t, "twenty jobs have ended", func() bool {
			op, there := c.scheduler.Server.Operation(server.OperationKey{ID: id})
			return there && op.Jobs.Completed == 20
		})
		c.insist(func(ctx context.Context) error {
			return c.scheduler.Server.ResumeOperation(ctx, server.Caller{User: "root"}, server.OperationKey{ID: id})
		})
		_, jobs := c.completed(id)
		if len(jobs) != 21 {
			t.Fatalf("%d jobs\n%s", len(jobs), describe(jobs))
		}
		var used []int64
		for _, j := range jobs[:20] {
			used = append(used, statistic(t, j, "user_job/max_memory"))
			if reserve(t, j) != 25e6 {
				t.Errorf("one of the first jobs reserves %d", reserve(t, j))
			}
		}
		slices.Sort(used)
		// A digest returns the upper edge of a bucket, which is one per cent wide.
		got, want := float64(reserve(t, jobs[20])), float64(used[18])
		if got < want || got > want*1.011 || math.Abs(got/50e6-k.part) > 0.15 {
			t.Errorf("with %d large jobs the 21st reserves %.0f, want 95 %% of %v", k.large, got, used)
		}
	}
}

func TestTheReserveDoesNotFallBelowItsLowerBound(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.node("{cpu: 8, memory: 8GiB, user_slots: 8}")
	for _, k := range []struct {
		name  string
		more  []string
		first float64
		then  float64
	}{
		{"0.05 unless somebody says otherwise", nil, 0.5, 0.05},
		{"user_job_memory_digest_lower_bound", []string{"user_job_memory_digest_lower_bound: 0.25"}, 0.5, 0.25},
		{"user_job_memory_digest_default_value", []string{"user_job_memory_digest_default_value: 0.8"}, 0.8, 0.05},
		{"memory_reserve_factor is both", []string{"memory_reserve_factor: 0.7"}, 0.7, 0.7},
		{"tmpfs is never overcommitted", []string{"tmpfs_path: t", "tmpfs_size: 600MiB"}, 0.6, 0.6},
	} {
		t.Run(k.name, func(t *testing.T) {
			c := c.of(t)
			options := append([]string{"job_count: 2", "memory_limit: 1000MiB"}, k.more...)
			_, jobs := c.completed(c.start(strings.Replace(task("a", "true", options...), "{pool", "{resource_limits: {user_slots: 1}, pool", 1)))
			if len(jobs) != 2 {
				t.Fatal(describe(jobs))
			}
			first, then := float64(reserve(t, jobs[0]))/float64(1000*mib), float64(reserve(t, jobs[1]))/float64(1000*mib)
			if math.Abs(first-k.first) > 0.001 || then < k.then-0.0001 || then > k.then*1.011 {
				t.Errorf("%.4f and then %.4f of the limit, want %.2f and %.2f", first, then, k.first, k.then)
			}
		})
	}
}

func TestTmpfsIsReallyMountedAndCounted(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.node("{cpu: 8, memory: 8GiB, user_slots: 8}")
	command := "df -T t | tail -1 >&2; head -c 50000000 /dev/zero > t/file; " + reference("alloc=30000000", "sleep=300ms")
	_, jobs := c.completed(c.start(task("a", command, "memory_limit: 300MiB", "tmpfs_path: t", "tmpfs_size: 100MiB")))
	if text := c.stderr(jobs[0]); !strings.Contains(text, "tmpfs") {
		t.Errorf("no tmpfs: %s", text)
	}
	if got := statistic(t, jobs[0], "user_job/tmpfs_max_usage"); !near(got, 50_000_000, 0.05) {
		t.Errorf("tmpfs_max_usage %d", got)
	}
	if got := statistic(t, jobs[0], "user_job/max_memory"); !near(got, 30_000_000, 0.25) { // the program and the shell use a little more
		t.Errorf("max_memory %d, tmpfs is not to be in it", got)
	}
	// A file larger than the volume does not fit. Together, volume and processes may exceed the limit.
	_, jobs = c.ended(c.start("{max_failed_job_count: 1, " + task("a", "head -c 200000000 /dev/zero > t/file", "memory_limit: 300MiB", "tmpfs_path: t", "tmpfs_size: 100MiB")[1:]))
	if len(jobs) != 1 || jobs[0].State != "failed" || !strings.Contains(c.stderr(jobs[0]), "No space left") {
		t.Error(describe(jobs))
	}
	row, jobs := c.ended(c.start("{max_failed_job_count: 1, " + task("a", "head -c 90000000 /dev/zero > t/file; "+reference("alloc=60000000", "sleep=100s"),
		"memory_limit: 120MiB", "tmpfs_path: t", "tmpfs_size: 100MiB")[1:]))
	if row.State != "failed" || !strings.Contains(string(jobs[0].Error), "Memory limit exceeded") {
		t.Error(describe(jobs))
	}
}

func TestWithFreeMemoryAJobAboveItsReserveJustCompletes(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.node("{cpu: 8, memory: 2GiB, user_slots: 8}")
	_, waits, open := c.gate("gate")
	id := c.start(task("a", reference("alloc=350000000", "sleep=1h")+" & p=$!; "+waits+"; kill $p; true", "memory_limit: 400MiB"))
	job := c.awaitRunning(id, 1)[0]
	await(t, "the pool holds what the job has grown to", func() bool { return c.usage("a")[resource.Memory] > 350_000_000+100*mib })
	open()
	_, jobs := c.completed(id)
	if len(jobs) != 1 || guid.OfJob(jobs[0].Number) != job.ID {
		t.Error(describe(jobs))
	}
	if used, reserved := statistic(t, jobs[0], "user_job/max_memory"), reserve(t, jobs[0]); used < reserved || reserved != 200*mib {
		t.Errorf("used %d of a reserve of %d", used, reserved)
	}
}

func TestOnAFullNodeExactlyTheJobThatGrowsAboveItsReserveIsAborted(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	// Three jobs get 200 + 132 MiB each, and the node has 1150 MiB. What a job requests ahead of its
	// usage counts.
	c.node("{cpu: 8, memory: 1150MiB, user_slots: 8}")
	_, waits, open := c.gate("gate")
	_, growWaits, letGrow := c.gate("grow")
	// One job stays within its reserve to the end.
	within := c.start(task("a", reference(fmt.Sprintf("alloc=%d", 190*mib), "touch="+filepath.Join(c.directory, "within"), "sleep=1h")+" & p=$!; "+waits+"; kill $p; true",
		"memory_limit: 400MiB", "cpu_limit: 0.1"))
	first := c.awaitRunning(within, 1)[0]
	await(t, "the first job has its memory", func() bool { _, err := os.Stat(filepath.Join(c.directory, "within")); return err == nil })
	// One job grew a little above its reserve while there was room.
	above := c.start(task("a", reference(fmt.Sprintf("alloc=%d", 300*mib), "sleep=1h")+" & p=$!; "+waits+"; kill $p; true",
		"memory_limit: 400MiB", "cpu_limit: 0.1"))
	c.awaitRunning(above, 1)
	await(t, "the second job is above its reserve", func() bool {
		jobs := c.running(above)
		return len(jobs) == 1 && jobs[0].UserMemory >= 300*mib
	})
	// The third job grows above its reserve until the node has too little: it is the one to be aborted.
	third := c.start(task("b", growWaits+"; "+reference(fmt.Sprintf("alloc=%d", 385*mib), "sleep=1h")+" & p=$!; "+waits+"; kill $p; true",
		"memory_limit: 400MiB", "cpu_limit: 0.1"))
	victim := c.awaitRunning(third, 1)[0]
	letGrow()
	await(t, "a job is aborted", func() bool {
		op, there := c.scheduler.Server.Operation(server.OperationKey{ID: third})
		return there && op.Jobs.Aborted[operation.AbortResourceOverdraft] > 0
	})
	if jobs := c.running(within); len(jobs) != 1 || jobs[0].ID != first.ID {
		t.Error("a job within its reserve is gone")
	}
	if jobs := c.running(above); len(jobs) != 1 {
		t.Error("another job was aborted")
	}
	open()
	for _, id := range []guid.ID{within, above} {
		if _, jobs := c.completed(id); len(jobs) != 1 {
			t.Error(describe(jobs))
		}
	}
	_, jobs := c.completed(third)
	if len(jobs) != 2 || guid.OfJob(jobs[0].Number) != victim.ID || jobs[0].State != "aborted" || jobs[0].AbortReason != "resource_overdraft" {
		t.Fatal(describe(jobs))
	}
	if before, after := reserve(t, jobs[0]), reserve(t, jobs[1]); before != 200*mib || after != 400*mib {
		t.Errorf("reserves %d and then %d: a retry gets the whole limit", before, after)
	}
}

func TestNothingIsStartedIntoMemoryThatAnotherJobHasGrownInto(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.node("{cpu: 8, memory: 760MiB, user_slots: 8}")
	_, waits, open := c.gate("gate")
	above := c.start(task("a", reference(fmt.Sprintf("alloc=%d", 390*mib), "sleep=1h")+" & p=$!; "+waits+"; kill $p; true", "memory_limit: 400MiB", "cpu_limit: 0.1"))
	c.awaitRunning(above, 1)
	await(t, "the job is above its reserve", func() bool {
		jobs := c.running(above)
		return len(jobs) == 1 && jobs[0].UserMemory >= 390*mib
	})
	await(t, "the pool holds what the job has grown to", func() bool { return c.usage("a")[resource.Memory] > 490*mib })
	second := c.start(task("b", "true", "memory_limit: 600MiB", "cpu_limit: 0.1"))
	pass(300 * time.Millisecond)
	if jobs := c.live(second); len(jobs) != 0 {
		t.Error("a job was started into memory that is not there")
	}
	open()
	if _, jobs := c.completed(above); len(jobs) != 1 {
		t.Error(describe(jobs))
	}
	c.completed(second)
}

func TestDigestsSurviveARestartOfTheScheduler(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.node("{cpu: 8, memory: 8GiB, user_slots: 8}")
	_, waits, open := c.gate("gate")
	// Ten jobs teach the scheduler; then one waits while the scheduler restarts; the last ones get the
	// learnt reserve.
	command := "[ $YT_JOB_COOKIE -lt 10 ] || { " + waits + "; }; exec " + reference("alloc=60000000")
	id := c.start(strings.Replace(task("a", command, "job_count: 12", "memory_limit: 200000000"), "{pool", "{resource_limits: {user_slots: 1}, pool", 1))
	await(t, "ten jobs have ended", func() bool {
		op, there := c.scheduler.Server.Operation(server.OperationKey{ID: id})
		return there && op.Jobs.Completed == 10
	})
	before := c.awaitRunning(id, 1)[0]
	c.stop()
	c.startScheduler()
	if jobs := c.awaitRunning(id, 1); jobs[0].ID != before.ID {
		t.Errorf("job %s runs, not %s", jobs[0].ID, before.ID)
	}
	open()
	_, jobs := c.completed(id)
	if len(jobs) != 12 {
		t.Fatal(describe(jobs))
	}
	if was, is := reserve(t, jobs[9]), reserve(t, jobs[11]); !near(is, was, 0.011) || is > 70_000_000 {
		t.Errorf("%d were reserved before the restart, %d after it", was, is)
	}
}
