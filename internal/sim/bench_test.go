package sim

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/sim/distribution"
	"github.com/weirhq/weir/internal/sim/scenario"
	"github.com/weirhq/weir/test/expected"
)

// traces is where recorded workloads are kept, beside the project.
const traces = "../../../shared/traces"

// BenchmarkTrace replays three months of a 128-node machine.
func BenchmarkTrace(b *testing.B) {
	const file = "NASA-iPSC-1993-3.1-cln.swf.gz"
	if _, err := os.Stat(filepath.Join(traces, file)); err != nil {
		b.Skipf("SKIPPED, the log is not beside the project: %v", err)
	}
	benchmark(b, "traces: [{file: "+file+"}]", func(name string) (io.ReadCloser, error) {
		return os.Open(filepath.Join(traces, name))
	})
}

// BenchmarkGrid replays eleven days of a grid: 188,000 jobs of one processor on
// 24,500 processors, of which about 1,600 are in use.
func BenchmarkGrid(b *testing.B) {
	log := gridLog(188_000)
	benchmark(b, "traces: [{file: grid.swf}]", func(string) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(log)), nil
	})
}

// BenchmarkBusyDay simulates a day of 10,000 nodes, 95 % full, with 100 pools and a
// million jobs.
func BenchmarkBusyDay(b *testing.B) { benchmark(b, busyDay(10_000), nil) }

// BenchmarkOverload simulates clusters with six times more work than they can do,
// so that the queue grows to the end. Each run is twice as long as the one before:
// cost that follows events doubles.
func BenchmarkOverload(b *testing.B) {
	for _, hours := range []int{2, 4, 8} {
		b.Run(fmt.Sprintf("running/%dh", hours), func(b *testing.B) { benchmark(b, overload(hours, 1_000_000), nil) })
		b.Run(fmt.Sprintf("waiting/%dh", hours), func(b *testing.B) { benchmark(b, overload(hours, 50), nil) })
	}
}

// benchmark simulates a scenario and reports its size.
func benchmark(b *testing.B, text string, open func(string) (io.ReadCloser, error)) {
	s, _, err := scenario.Read("bench.yaml", []byte(text), open)
	if err != nil {
		b.Fatal(err)
	}
	var cpu expected.Stopwatch
	cpu.Start()
	for b.Loop() {
		result, err := Run(context.Background(), s, Options{})
		if err != nil {
			b.Fatal(err)
		}
		work := result.Cluster.Work
		b.ReportMetric(float64(result.Cluster.Jobs.Started), "jobs")
		b.ReportMetric(float64(work.Heartbeats), "heartbeats")
		b.ReportMetric(float64(work.Updates), "updates")
	}
	cpu.Stop()
	cpu.Report(b)
}

// gridRunTimes are run times of a grid's jobs: by part of the jobs, in seconds.
// Between two of them the logarithm of the run time is linear.
var gridRunTimes = [...][2]float64{
	{0, 20}, {0.10, 79}, {0.25, 136}, {0.50, 255}, {0.75, 4537}, {0.90, 15286}, {0.99, 48 * 3600}, {1, 80 * 3600},
}

// gridLog returns a log in the Standard Workload Format with the properties of
// a grid's: a job every 5.05 seconds on average, 216 users, one of whom has a
// third of the jobs.
func gridLog(jobs int) []byte {
	const users = 216
	stream := distribution.Seed(14).Named("grid").Stream()
	var log bytes.Buffer
	log.WriteString("; MaxJobs: 188000\n; MaxProcs: 24500\n; UnixStartTime: 1132444805\n")
	at := 0.0
	for job := 1; job <= jobs; job++ {
		at -= 5.05 * math.Log(1-stream.Float64())
		user := 1
		if stream.Float64() > 1.0/3 {
			// The other users differ too: a few have most of the rest.
			user = 2 + int((users-1)*math.Pow(stream.Float64(), 3))
		}
		fmt.Fprintf(&log, "%d %.0f 0 %.0f 1 -1 -1 1 -1 -1 1 %d 1 -1 -1 -1 -1 -1\n", job, at, gridRunTime(stream.Float64()), user)
	}
	return log.Bytes()
}

func gridRunTime(part float64) float64 {
	i := 1
	for part > gridRunTimes[i][0] {
		i++
	}
	low, high := gridRunTimes[i-1], gridRunTimes[i]
	return low[1] * math.Pow(high[1]/low[1], (part-low[0])/(high[0]-low[0]))
}

// busyDay returns a scenario of one day in which jobs are demanded that fill 95 %
// of the nodes on average: 100 per node and day, in 100 pools below ten.
func busyDay(nodes int) string {
	const (
		pools       = 100
		perNode     = 100 // jobs a day
		jobs        = 250 // of an operation
		cores, need = 32, 8
		load        = 0.95
	)
	every := 24 * time.Hour * time.Duration(pools*jobs) / time.Duration(perNode*nodes)
	mean := time.Duration(load * float64(24*time.Hour) * cores / need / perNode)
	var text strings.Builder
	fmt.Fprintf(&text, "duration: 1d\nscheduler: {max_operation_count: 100000}\n")
	fmt.Fprintf(&text, "nodes: [{name: n, count: %d, resources: {cpu: %d, memory: 128GiB}}]\npools:\n", nodes, cores)
	var operations strings.Builder
	for p := range pools {
		if p%10 == 0 {
			fmt.Fprintf(&text, "  p%d:\n    max_running_operation_count: 1000\n    max_operation_count: 1000\n    weight: %d\n", p/10, 1+p/10%3)
			if p/10%2 == 0 {
				fmt.Fprintf(&text, "    min_share_resources: {cpu: %d}\n", nodes*cores/20)
			}
			fmt.Fprintf(&text, "    pools:\n")
		}
		fmt.Fprintf(&text, "      p%d-%d: {max_running_operation_count: 1000, max_operation_count: 1000, weight: %d}\n", p/10, p%10, 1+p%4)
		fmt.Fprintf(&operations, "  - {name: o%d, pool: p%d-%d, arrival: {poisson: %v}, job_count: %d, job_resources: {cpu: %d, memory: 16GiB}, duration: {distribution: exponential, mean: %v}}\n",
			p, p/10, p%10, every, jobs, need, mean)
	}
	return text.String() + "operations:\n" + operations.String()
}

// overload returns a scenario in which six times as many jobs arrive as can run.
// A pool runs at most this many operations at once.
func overload(hours, running int) string {
	const (
		nodes, cores = 100, 16
		pools        = 20
		jobs         = 10 // of an operation
		mean         = 10 * time.Minute
		load         = 6
	)
	every := mean * time.Duration(pools*jobs) / time.Duration(load*nodes*cores)
	var text strings.Builder
	fmt.Fprintf(&text, "duration: %dh\nscheduler: {max_operation_count: 10000000}\n", hours)
	fmt.Fprintf(&text, "nodes: [{name: n, count: %d, resources: {cpu: %d}}]\npools:\n", nodes, cores)
	for p := range pools {
		fmt.Fprintf(&text, "  p%d: {max_running_operation_count: %d, max_operation_count: 10000000, weight: %d}\n", p, running, 1+p%4)
	}
	text.WriteString("operations:\n")
	for p := range pools {
		fmt.Fprintf(&text, "  - {name: o%d, pool: p%d, arrival: {poisson: %v}, job_count: %d, duration: {distribution: exponential, mean: %v}}\n", p, p, every, jobs, mean)
	}
	return text.String()
}
