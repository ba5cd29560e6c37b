package core

import (
	"cmp"
	"slices"
	"time"
)

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
	c.settleStirred()
	if c.settings.NodeTimeout > 0 {
		for id, n := range c.nodes {
			if n != nil && !n.silent {
				until(c.deadlineOf(NodeID(id)))
			}
		}
	}
	for _, id := range c.timed {
		op := c.operations[id]
		if op.choosing {
			return time.Time{}
		}
		if deadline, ok := op.controller.Deadline(); ok {
			until(deadline)
		}
	}
	if period := c.settings.StuckCheckPeriod; period > 0 && c.pending > 0 {
		until(c.stuckChecked.Add(period))
	}
	if period := c.settings.NodeCheckPeriod; period > 0 && c.pending > 0 {
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

// enlist adds an operation to those that have not ended.
func (c *Core) enlist(op *running) {
	c.lastOrder++
	op.order = c.lastOrder
	c.live = append(c.live, op.id)
	c.stir(op)
}

// stir notes that the controller of an operation may have changed.
func (c *Core) stir(op *running) {
	if !op.stirred {
		op.stirred = true
		c.stirred = append(c.stirred, op.id)
	}
}

// settleStirred brings up to date what is known about operations that were
// stirred: whether they have jobs to start, and whether they have deadlines.
func (c *Core) settleStirred() {
	c.timed = slices.DeleteFunc(c.timed, func(id OperationID) bool {
		op := c.operationAt(id)
		if op == nil {
			return true
		}
		op.timed = op.isTimed()
		return !op.timed
	})
	for _, id := range c.stirred {
		op := c.operationAt(id)
		if op == nil {
			continue // it has ended
		}
		op.stirred = false
		if pends := op.hasToStart(); pends != op.pends {
			op.pends = pends
			if pends {
				c.pending++
			} else {
				c.pending--
			}
		}
		if op.pends && !op.suspect {
			op.suspect = true
			c.suspects = c.insert(c.suspects, op)
		}
		if op.isTimed() && !op.timed {
			op.timed = true
			c.timed = c.insert(c.timed, op)
		}
	}
	c.stirred = c.stirred[:0]
}

// insert adds an operation to a list in the order in which operations were started.
func (c *Core) insert(list []OperationID, op *running) []OperationID {
	return slices.Insert(list, c.place(list, op), op.id)
}

// place returns where an operation is, or would be, in a list in the order in which
// operations were started.
func (c *Core) place(list []OperationID, op *running) int {
	at, _ := slices.BinarySearchFunc(list, op.order, func(id OperationID, order uint64) int {
		return cmp.Compare(c.operations[id].order, order)
	})
	return at
}

// hasToStart reports whether an operation has jobs to start and may start them. One
// that has not been admitted yet may not.
func (op *running) hasToStart() bool { return op.started && op.controller.PendingJobCount() > 0 }

// isTimed reports whether updates must look at an operation, because it has a
// deadline or has yet to choose its tree.
func (op *running) isTimed() bool {
	_, has := op.controller.Deadline()
	return has || op.choosing
}

// quietAtMost is the longest time without an update.
const quietAtMost = time.Hour
