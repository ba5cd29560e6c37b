package server

import "time"

// steadyClock is the time of a term, which decides about timeouts, volumes and time limits. It runs with the machine's
// monotonic clock: when somebody sets the wall clock, no node has been silent for the difference, and no pool has saved
// volume. It follows the wall clock at a hundredth of the speed at which time passes. A new term begins with the wall
// clock.
type steadyClock struct {
	last      time.Time
	monotonic time.Duration // when last was returned
	behind    time.Duration // the wall clock's lead over last
}

// slew is the part of the passing time by which a steady clock may run faster or slower.
const slew = 100

// now returns the time, given both clocks of the machine. It never goes backwards.
func (c *steadyClock) now(wall time.Time, monotonic time.Duration) time.Time {
	if c.last.IsZero() {
		c.last, c.monotonic = wall, monotonic
		return wall
	}
	passed := max(monotonic-c.monotonic, 0)
	c.last, c.monotonic = c.last.Add(passed), max(monotonic, c.monotonic)
	c.behind = wall.Sub(c.last)
	correction := min(max(c.behind, -passed/slew), passed/slew)
	c.last = c.last.Add(correction)
	c.behind -= correction
	return c.last
}

// noticeableStep is the difference between a steady clock and the wall clock that raises an alert.
const noticeableStep = 5 * time.Second

// step explains a difference from the wall clock that people would notice; empty if there is none.
func (c *steadyClock) step() string {
	difference := c.behind.Round(time.Second)
	switch {
	case difference >= noticeableStep:
		return "the clock of the leader's machine was set forward; times of jobs and events are " + difference.String() + " behind it until another leader takes over or this one restarts"
	case difference <= -noticeableStep:
		return "the clock of the leader's machine was set back; times of jobs and events are " + (-difference).String() + " ahead of it until another leader takes over or this one restarts"
	}
	return ""
}
