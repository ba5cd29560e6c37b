package core

import "time"

// UpdateDue reports whether an update now could change anything. If nothing has
// happened since the last one, only time can: clocks of starvation, deadlines,
// periodic checks, and guarantees over time, which change with every update. An
// update that is not due computes nothing.
func (c *Core) UpdateDue(now time.Time) bool {
	return c.quiet.IsZero() || !now.Before(c.quiet)
}

// pass lets time pass where an update would change nothing else. Periodic checks
// that would find nothing count as done, so that the later ones keep their times.
func (c *Core) pass(now time.Time) {
	c.idle = true
	isDue(now, &c.stuckChecked, c.settings.StuckCheckPeriod)
	isDue(now, &c.nodesChecked, c.settings.NodeCheckPeriod)
	for _, t := range c.trees {
		t.state.Pass(now)
	}
}

// quietUntil returns until when updates change nothing if nothing happens, after
// an update now; zero if the next one may.
func (c *Core) quietUntil(now time.Time) time.Time {
	if c.awaits {
		return time.Time{}
	}
	end := now.Add(quietAtMost)
	until := func(at time.Time) {
		if at.Before(end) {
			end = at
		}
	}
	pending := false
	if c.settings.NodeTimeout > 0 {
		for _, n := range c.nodes {
			if n != nil && !n.silent {
				until(c.deadlineOf(n))
			}
		}
	}
	for _, id := range c.live {
		op := c.operations[id]
		if op.choosing {
			return time.Time{}
		}
		pending = pending || op.controller.PendingJobCount() > 0
		if deadline, ok := op.controller.Deadline(); ok {
			until(deadline)
		}
	}
	if period := c.settings.StuckCheckPeriod; period > 0 && pending {
		until(c.stuckChecked.Add(period))
	}
	if period := c.settings.NodeCheckPeriod; period > 0 && pending {
		until(c.nodesChecked.Add(period))
	}
	for _, t := range c.trees {
		at := t.state.QuietUntil(now)
		if at.IsZero() {
			return at
		}
		until(at)
	}
	return end
}

// quietAtMost is the longest time without an update.
const quietAtMost = time.Hour
