package scheduler

import (
	"context"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/sim"
	"github.com/weirhq/weir/internal/sim/scenario"
)

func run(t *testing.T, text string) {
	t.Helper()
	s, _, err := scenario.Read("test.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	system := New(core.DefaultSettings())
	system.Verify = func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	result, err := sim.Run(context.Background(), s, system, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range result.Failed() {
		t.Errorf("%+v", f)
	}
	t.Logf("wall %v", result.Wall.Round(time.Millisecond))
}

func TestProductionAndResearchShareTwoThousandCores(t *testing.T) {
	run(t, `
name: production and research
duration: 1d
nodes:
  - {name: node, count: 20, resources: {cpu: 100, memory: 400GiB, user_slots: 100}}
scheduler: {heartbeat_period: 2m, fair_share_update_period: 1m}
pools:
  production:
    integral_guarantees: {guarantee_type: burst, resource_flow: {cpu: 1000}, burst_guarantee_resources: {cpu: 2000}}
  research:
    integral_guarantees: {guarantee_type: relaxed, resource_flow: {cpu: 1000}}
operations:
  - {name: nightly, pool: production, demand: {jobs: 2000, active: 12h-24h every 24h}, duration: 10m, job_resources: {cpu: 1, memory: 4GiB}}
  - {name: experiment, pool: research, demand: {jobs: 5000}, duration: 10m, job_resources: {cpu: 1, memory: 4GiB}}
`)
}
