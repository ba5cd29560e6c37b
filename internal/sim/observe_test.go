package sim

import (
	"bytes"
	"testing"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/sim/outcome"
)

// watched runs a scenario to its end and returns how often the core was observed.
// If restless is set, no observation is skipped.
func watched(t *testing.T, text string, restless bool) (*outcome.Result, int) {
	t.Helper()
	s := read(t, text)
	r := newRun(s, core.New(SettingsOf(s)), Options{})
	if err := r.prepare(); err != nil {
		t.Fatal(err)
	}
	for !r.ended && r.err == nil {
		if restless {
			r.coreMoves()
		}
		r.step()
	}
	if r.err != nil {
		t.Fatal(r.err)
	}
	return r.result(), r.looks
}

func TestACoreToWhichNothingHasHappenedIsNotLookedAtAgain(t *testing.T) {
	const quiet = `
duration: 2h
scheduler: {heartbeat_period: 10m, fair_share_update_period: 5m}
statistics: {period: 5s}
nodes: [{name: n, count: 2, resources: {cpu: 4}}]
pools: {a: {strong_guarantee_resources: {cpu: 3}, pools: {b: {}}}, idle: {}}
operations:
  - {name: x, pool: b, arrival: {every: 13m}, job_count: 6, duration: 7m}
`
	curious, looks := watched(t, quiet, true)
	patient, fewer := watched(t, quiet, false)
	want, err := curious.JSON()
	if err != nil {
		t.Fatal(err)
	}
	got, err := patient.JSON()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("answers differ:\n%s\n%s", got, want)
	}
	if looks < 1440 || fewer > looks/5 {
		t.Errorf("%d looks instead of %d", fewer, looks)
	}
}
