package operation

import "time"

// An operation whose jobs nodes cannot start backs off: after every
// backoffAborts such aborts in a row it starts no jobs for a while, first
// backoffMin, then twice as long each time up to backoffMax. Any job that ran
// ends the backoff. Without it a job that no node can start would be started
// and aborted thousands of times a second.
const (
	backoffAborts = 10
	backoffMin    = time.Second
	backoffMax    = time.Minute
)

// backoff counts aborts of jobs that never ran.
type backoff struct {
	aborts int       // since the last pause
	pauses int       // since a job last ran
	until  time.Time // zero while jobs may start
}

// Backoff is the state of an operation's backoff.
type Backoff struct {
	Aborts int       `json:"aborts,omitempty"`
	Pauses int       `json:"pauses,omitempty"`
	Until  time.Time `json:"until,omitzero"`
}

// after returns the backoff after one more abort. Aborts that arrive during a
// pause, of jobs started before it, do not count.
func (b backoff) after(now time.Time) backoff {
	if b.waits() {
		return b
	}
	b.aborts++
	if b.aborts < backoffAborts {
		return b
	}
	pause := backoffMax
	if shift := b.pauses; shift < 6 {
		pause = min(backoffMax, backoffMin<<shift)
	}
	return backoff{pauses: b.pauses + 1, until: now.Add(pause)}
}

func (b backoff) waits() bool { return !b.until.IsZero() }

// BacksOffUntil returns when jobs may start again after nodes failed to start
// any, and whether the operation backs off.
func (c *Controller) BacksOffUntil() (time.Time, bool) { return c.backoff.until, c.backoff.waits() }

// isNodeTrouble reports whether the reason is one that a node gives when it
// cannot start a job.
func (r AbortReason) isNodeTrouble() bool {
	switch r {
	case AbortJobProxyFailed, AbortGetSpecFailed, AbortRootVolumePreparationFailed, AbortGPUCheckFailed, AbortOther:
		return true
	}
	return false
}
