//go:build linux

package faults

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weirhq/weir/test/fakenode"
)

func TestALeaderOnSQLiteMayBeKilledAtAnyTime(t *testing.T) {
	c := onSQLite(t, nodes())
	c.killAgainAndAgain(0)
}

func TestAStandbyOnPostgresTakesOverFromAKilledLeaderInTime(t *testing.T) {
	c := onPostgres(t, nodes())
	worst := c.killAgainAndAgain(5 * time.Second)
	t.Logf("the slowest takeover took %v", worst)
}

// killAgainAndAgain kills leaders under load, at random moments, and checks after each that nothing is
// lost. It returns the longest time without acknowledgements, which must not exceed the limit if there
// is one.
func (c *cluster) killAgainAndAgain(limit time.Duration) (worst time.Duration) {
	t := c.t
	l := c.underLoad()
	lesson, err := l.start("lessons", "lesson", 200_000)
	if err != nil {
		t.Fatal(err)
	}
	residents, err := l.start(loadPool(5), "resident", int64(2*nodes()))
	if err != nil {
		t.Fatal(err)
	}
	await(t, "it is learnt how much memory jobs need", func() bool { return learnt(c.observe(lesson).factor) })
	var takeovers []time.Duration
	var lost []float64
	stored := archive{}
	for range kills() {
		if end, limited := t.Deadline(); limited && time.Until(end) < 2*patience {
			t.Logf("there is no time for more")
			break
		}
		c.randomPause()
		before := c.observe(lesson)
		leader := c.leader()
		at := leader.kill()
		first := c.gateway.watch()
		volume := c.storedVolume()
		if len(c.schedulers) == 1 {
			leader.start()
		}
		select {
		case acknowledged := <-first:
			takeovers = append(takeovers, acknowledged.Sub(at))
		case <-time.After(patience):
			t.Fatal("no write is acknowledged any more")
		}
		if !leader.running() {
			leader.start()
		}
		after := c.observe(lesson)
		lost = append(lost, c.checkVolume(before, after, volume, c.leader()))
		c.checkFactor(before, after)
		c.checkAlerts()
		c.checkBooks()
		c.checkOperations(l, stored)
		if len(c.schedulers) > 1 {
			await(t, "there is a standby", func() bool { return c.schedulers[0].standsBy() || c.schedulers[1].standsBy() })
		}
		if t.Failed() {
			t.Fatalf("after %d kills", len(takeovers))
		}
		if len(takeovers)%20 == 0 {
			t.Logf("%d kills; this takeover took %v", len(takeovers), takeovers[len(takeovers)-1])
		}
	}
	c.finish(l, stored, lesson, residents)
	slices.Sort(takeovers)
	slices.Sort(lost)
	totals := c.nodes.Totals()
	worst = takeovers[len(takeovers)-1]
	t.Logf("%d kills with %d nodes; from the kill to the next acknowledged write: p50 %v, p99 %v, worst %v", len(takeovers), nodes(),
		quantile(takeovers, 0.5), quantile(takeovers, 0.99), worst)
	t.Logf("%d operations, %d changes of pools and %d results were acknowledged, of %d jobs; %d registrations, %d heartbeats",
		len(l.started), l.changes, totals.Acknowledged, totals.Started, totals.Registrations, totals.Heartbeats)
	t.Logf("updates of the integral volume that were lost: p50 %.2f, worst %.2f", quantile(lost, 0.5), lost[len(lost)-1])
	if limit > 0 && worst > limit {
		t.Errorf("a takeover took %v", worst)
	}
	return worst
}

func quantile[T any](sorted []T, q float64) T {
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// randomPause lets the leader do a random amount of work. Sometimes it is hardly any, so that the
// leader is killed while it takes over.
func (c *cluster) randomPause() {
	if rand.IntN(4) > 0 {
		finished := c.nodes.Totals().Acknowledged
		c.awaitNodes(func(t fakenode.Totals) bool { return t.Registered == nodes() && t.Acknowledged > finished })
	}
	pause(c.t.Context(), 20*time.Millisecond+time.Duration(rand.Int64N(int64(1500*time.Millisecond))))
}
