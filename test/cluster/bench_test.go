package cluster

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/document"
	"github.com/weirhq/weir/internal/server"
)

// The figures are of the machine as it is; CPU times are told beside, which a busy one changes less.

// cpuTime is the CPU time that a process has used.
func cpuTime(b testing.TB, pid int) time.Duration {
	b.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		b.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(after)
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// resident is the memory of a process, and the part of it that others may share.
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

// heartbeats makes nodes report as often as in production, or as often as they do by default in weir up.
func (c *cluster) heartbeats(period time.Duration) {
	settings := c.scheduler.Server.Settings()
	settings.HeartbeatPeriod, settings.HeartbeatSplay = period, period/5
	c.scheduler.Server.Configure(settings)
	c.settings.Nodes.HeartbeatPeriod = document.Some(period)
}

// awaitEnd waits for the end of an operation as closely as it can.
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

// BenchmarkLatency is from start_operation of `true` to its end.
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
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}

// BenchmarkJobs is how many jobs one node starts and ends in a second.
func BenchmarkJobs(b *testing.B) {
	const jobs = 200
	c := newCluster(b)
	n := c.node("{cpu: 64, memory: 16GiB, user_slots: 40}")
	before := cpuTime(b, n.cmd.Process.Pid)
	count := 0
	for b.Loop() {
		c.awaitEnd(server.OperationKey{ID: c.start(task("a", "true", fmt.Sprintf("job_count: %d", jobs), "cpu_limit: 0.1", "memory_limit: 32MiB"))})
		count += jobs
	}
	b.ReportMetric(float64(count)/b.Elapsed().Seconds(), "jobs/s")
	b.ReportMetric(float64((cpuTime(b, n.cmd.Process.Pid)-before).Microseconds())/float64(count), "agent-µs/job")
}

// BenchmarkIdle is what a hundred sleeping jobs cost.
func BenchmarkIdle(b *testing.B) {
	const jobs = 100
	c := newCluster(b)
	c.heartbeats(5 * time.Second)
	n := c.nodeWith(nodeOptions{name: "node-1", watchdog: "1s", resources: fmt.Sprintf("{cpu: 100, memory: 64GiB, user_slots: %d}", jobs)})
	id := c.start(task("a", "exec sleep 1000", fmt.Sprintf("job_count: %d", jobs), "cpu_limit: 0.1", "memory_limit: 32MiB"))
	c.awaitRunning(id, jobs)
	pass(2 * time.Second) // proxies have shrunk
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
	const period = 10 * time.Second
	for b.Loop() {
		agentBefore, proxiesBefore := used()
		pass(period)
		agentAfter, proxiesAfter := used()
		b.ReportMetric(100*(agentAfter-agentBefore).Seconds()/period.Seconds(), "agent-%core")
		b.ReportMetric(100*(proxiesAfter-proxiesBefore).Seconds()/period.Seconds()/jobs, "proxy-%core")
	}
	b.ReportMetric(float64(all)/float64(mib), "proxy-MiB-RSS")
	b.ReportMetric(float64(own)/float64(mib), "proxy-MiB-own")
	b.ReportMetric(float64(agent)/float64(mib), "agent-MiB-RSS")
}
