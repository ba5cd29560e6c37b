package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/value/document"
)

// The figures are those of the current machine. The benchmarks also report CPU times, which depend less
// on how busy it is.

// cpuTime returns the CPU time that the threads of a process have used, to the nanosecond.
func cpuTime(b testing.TB, pid int) (sum time.Duration) {
	b.Helper()
	threads, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/schedstat")
	if err != nil || len(threads) == 0 {
		b.Fatalf("process %d is gone: %v", pid, err)
	}
	for _, name := range threads {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // a thread has ended
		}
		first, _, _ := strings.Cut(string(text), " ")
		nanoseconds, _ := strconv.ParseInt(first, 10, 64)
		sum += time.Duration(nanoseconds)
	}
	return sum
}

// resident returns the memory of a process, and the part of it that other processes may share.
func resident(b testing.TB, pid int) (all, shared int64) {
	b.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(text))
	all, _ = strconv.ParseInt(fields[1], 10, 64)
	shared, _ = strconv.ParseInt(fields[2], 10, 64)
	return all * int64(os.Getpagesize()), shared * int64(os.Getpagesize())
}

// heartbeats sets the nodes' heartbeat period: that of production, or the default of weir up.
func (c *cluster) heartbeats(period time.Duration) {
	settings := c.scheduler.Server.Settings()
	settings.HeartbeatPeriod, settings.HeartbeatSplay = period, period/5
	c.scheduler.Server.Configure(settings)
	c.settings.Nodes.HeartbeatPeriod = document.Some(period)
}

// awaitEnd polls an operation as closely as possible until it ends.
func (c *cluster) awaitEnd(key server.OperationKey) {
	ticker := time.NewTicker(200 * time.Microsecond)
	defer ticker.Stop()
	for {
		if _, lives := c.scheduler.Server.Operation(key); !lives {
			return
		}
		<-ticker.C
	}
}

// BenchmarkLatency measures `true` from start_operation to its end, without the command line: what the
// scheduler, an agent and a proxy need. One node, one job at a time.
func BenchmarkLatency(b *testing.B) {
	for _, period := range []time.Duration{50 * time.Millisecond, 500 * time.Millisecond} {
		b.Run(fmt.Sprintf("heartbeat=%v", period), func(b *testing.B) {
			c := newCluster(b)
			c.heartbeats(period)
			c.node("{cpu: 8, memory: 8GiB, user_slots: 8}")
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				c.awaitEnd(server.OperationKey{ID: c.start(task("a", "true"))})
				took = append(took, time.Since(began))
			}
			reportPercentiles(b, took)
		})
	}
}

// BenchmarkRun measures `weir run -- true` from its start to its exit, as a user at a terminal sees it:
// the program starts, calls the scheduler of weir up, a job runs in its own container, and its output
// and exit code come back. The cluster has one node and no other work. Use -benchtime 100x for a
// meaningful p99.
func BenchmarkRun(b *testing.B) {
	directory, group := sharedDirectory(b), newGroup()
	u := startUp(b, directory, group)
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		u.mustWeir("run", "--", "true")
		took = append(took, time.Since(began))
	}
	reportPercentiles(b, took)
	u.interrupt()
	checkNothingIsLeft(b, directory, group)
}

// reportPercentiles reports the median and the 99th percentile of a distribution.
func reportPercentiles(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}

// BenchmarkJobs measures how many jobs nodes start and end per second: operations of 200 jobs that do
// nothing, one after the other, on nodes with forty slots each. Each job is a container, a proxy and a
// shell. All nodes share the machine, so five of them show the overhead of the scheduler and the
// agents, not the throughput of five machines.
func BenchmarkJobs(b *testing.B) {
	for _, nodes := range []int{1, 5} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) { benchmarkJobs(b, nodes) })
	}
}

func benchmarkJobs(b *testing.B, nodes int) {
	const jobs = 200
	c := newCluster(b)
	for range nodes {
		c.node("{cpu: 64, memory: 16GiB, user_slots: 40}")
	}
	used := func() (sum time.Duration) {
		for _, n := range c.nodes {
			sum += cpuTime(b, n.cmd.Process.Pid)
		}
		return sum
	}
	before, count := used(), 0
	for b.Loop() {
		c.awaitEnd(server.OperationKey{ID: c.start(task("a", "true", fmt.Sprintf("job_count: %d", jobs), "cpu_limit: 0.1", "memory_limit: 32MiB"))})
		count += jobs
	}
	b.ReportMetric(float64(count)/b.Elapsed().Seconds(), "jobs/s")
	b.ReportMetric(float64((used()-before).Microseconds())/float64(count), "agent-µs/job")
}

// BenchmarkIdle measures the cost of a hundred sleeping jobs on one node that, as by default, reports
// every five seconds and checks the memory and CPU of each job every second.
func BenchmarkIdle(b *testing.B) {
	const jobs = 100
	c := newCluster(b)
	c.heartbeats(5 * time.Second)
	n := c.nodeWith(nodeOptions{name: "node-1", watchdog: "1s", resources: fmt.Sprintf("{cpu: 100, memory: 64GiB, user_slots: %d}", jobs)})
	id := c.start(task("a", "exec sleep 1000", fmt.Sprintf("job_count: %d", jobs), "cpu_limit: 0.1", "memory_limit: 32MiB"))
	c.awaitRunning(id, jobs)
	pass(3 * time.Second) // until the proxies have shrunk
	var all, own int64
	proxies := n.proxies()
	for _, pid := range proxies {
		resident, shared := resident(b, pid)
		all, own = max(all, resident), max(own, resident-shared)
	}
	agent, _ := resident(b, n.cmd.Process.Pid)
	used := func() (ofAgent, ofProxies time.Duration) {
		for _, pid := range proxies {
			ofProxies += cpuTime(b, pid)
		}
		return cpuTime(b, n.cmd.Process.Pid), ofProxies
	}
	const period = 20 * time.Second
	for b.Loop() {
		agentBefore, proxiesBefore := used()
		pass(period)
		agentAfter, proxiesAfter := used()
		b.ReportMetric(100*(agentAfter-agentBefore).Seconds()/period.Seconds(), "agent-%core")
		b.ReportMetric(100*(proxiesAfter-proxiesBefore).Seconds()/period.Seconds(), "proxies-%core")
	}
	b.ReportMetric(float64(all)/float64(mib), "proxy-MiB-RSS")
	b.ReportMetric(float64(own)/float64(mib), "proxy-MiB-own")
	b.ReportMetric(float64(agent)/float64(mib), "agent-MiB-RSS")
}
