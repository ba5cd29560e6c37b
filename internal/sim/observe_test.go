package sim

import (
	"bytes"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/sim/outcome"
)

// watched counts how often a system is looked at.
type watched struct {
	*standIn
	run   *run
	looks int
}

func (w *watched) Observe(now time.Time, into *Observation) {
	w.looks++
	w.standIn.Observe(now, into)
}

// finish runs a scenario to its end. Restless, every observation asks the system.
func (w *watched) finish(t *testing.T, text string, restless bool) *outcome.Result {
	t.Helper()
	w.run = newRun(read(t, text), w)
	if err := w.run.prepare(); err != nil {
		t.Fatal(err)
	}
	for !w.run.ended && w.run.err == nil {
		if restless {
			w.run.systemMoves()
		}
		w.run.step()
	}
	if w.run.err != nil {
		t.Fatal(w.run.err)
	}
	return w.run.result()
}

func TestASystemThatHasBeenToldNothingIsNotLookedAtAgain(t *testing.T) {
	const quiet = `
duration: 2h
scheduler: {heartbeat_period: 10m, fair_share_update_period: 5m}
statistics: {period: 5s}
nodes: [{name: n, count: 2, resources: {cpu: 4}}]
pools: {a: {strong_guarantee_resources: {cpu: 3}, pools: {b: {}}}, idle: {}}
operations:
  - {name: x, pool: b, arrival: {every: 13m}, job_count: 6, duration: 7m}
`
	curious, patient := watched{standIn: newStandIn(true)}, watched{standIn: newStandIn(true)}
	want, err := curious.finish(t, quiet, true).JSON()
	if err != nil {
		t.Fatal(err)
	}
	got, err := patient.finish(t, quiet, false).JSON()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("answers differ:\n%s\n%s", got, want)
	}
	if curious.looks < 1440 || patient.looks > curious.looks/5 {
		t.Errorf("%d looks instead of %d", patient.looks, curious.looks)
	}
}
