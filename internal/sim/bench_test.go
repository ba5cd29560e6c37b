package sim

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

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
	s, _, err := scenario.Read("trace.yaml", []byte("traces: [{file: "+file+"}]"), func(name string) (io.ReadCloser, error) {
		return os.Open(filepath.Join(traces, name))
	})
	if err != nil {
		b.Fatal(err)
	}
	benchmark(b, s)
}

// benchmark simulates a scenario and reports its size.
func benchmark(b *testing.B, s *scenario.Scenario) {
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

// BenchmarkDay simulates a day of 10,000 nodes and a million jobs.
func BenchmarkDay(b *testing.B) {
	const text = `
name: a day of ten thousand nodes
duration: 1d
nodes: [{name: n, count: 10000, resources: {cpu: 32, memory: 128GiB}}]
pools:
  a: &many {max_running_operation_count: 2000, max_operation_count: 5000}
  b: *many
  c: *many
operations:
  - {name: w, pool: a, arrival: {every: 54s}, job_count: 250, duration: {distribution: lognormal, median: 10m, sigma: 1}}
  - {name: x, pool: b, arrival: {every: 54s}, job_count: 250, duration: {distribution: exponential, mean: 20m}}
  - {name: y, pool: c, arrival: {every: 108s}, job_count: 250, duration: 30m}
`
	s, _, err := scenario.Read("day.yaml", []byte(text), nil)
	if err != nil {
		b.Fatal(err)
	}
	benchmark(b, s)
}
