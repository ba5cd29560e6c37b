package scheduling

import (
	"testing"
	"time"
)

// TestSteadyHeartbeatsAndUpdatesAllocateNothing repeats what a full cluster does all
// the time: a job ends, its node reports and starts another one, and after a round of
// all nodes shares are computed again.
func TestSteadyHeartbeatsAndUpdatesAllocateNothing(t *testing.T) {
	c := workload(t, 100, 100, 10_000, 0.5)
	c.pass(time.Second)
	c.beat()
	var d Decisions
	var changed []int32
	round := 0
	step := func() {
		round++
		for at := range c.nodes {
			list := c.nodes[at].allocations
			a := list[round%len(list)]
			slot, group := c.allocations[a].operation, c.allocations[a].group
			c.FinishAllocation(a)
			c.AddWaiting(slot, group, 1)
			c.Heartbeat(c.now, Node(at), &d)
			if len(d.Starts) == 0 {
				t.Fatalf("round %d: node %d starts nothing", round, at)
			}
		}
		c.pass(time.Second)
		changed = c.TakeChanges(changed[:0], false)
	}
	for range 50 {
		step()
	}
	if allocations := testing.AllocsPerRun(20, step); allocations != 0 {
		t.Errorf("100 heartbeats and an update allocate %g times", allocations)
	}
}
