package sim

import (
	"context"
	"testing"

	"github.com/weirhq/weir/internal/sim/scenario"
)

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
	for b.Loop() {
		result, err := Run(context.Background(), s, Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(result.Cluster.Jobs.Started), "jobs")
		b.ReportMetric(float64(result.Cluster.Work.Heartbeats), "heartbeats")
	}
}
