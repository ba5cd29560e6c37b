package fakenode

import (
	"fmt"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
)

// Entry is everything that happened to one job.
type Entry struct {
	Job      uint64
	Node     string
	Identity *nodev1.JobIdentity
	// Starts is the number of times its process started; it must not exceed one.
	Starts     int
	StartedAt  time.Time
	FinishedAt time.Time // zero until it ends
	State      nodev1.JobState
	Reason     string // why it was aborted
	// AcknowledgedAt is when the node dropped the result; zero before.
	AcknowledgedAt time.Time
	// Interrupted and Aborted report whether the scheduler ordered it.
	Interrupted, Aborted bool
	// Wiped reports whether the node lost the job with its disk, so that no result is ever reported.
	Wiped bool
}

// Totals are counts over the life of a cluster, except for Registered, Running and Unreported, which
// are current.
type Totals struct {
	Registered int // nodes that have a session
	Running    int // jobs that have not ended
	Unreported int // jobs that have ended and are not acknowledged

	Registrations int
	Heartbeats    int // answered
	Failures      int // calls that returned an error
	Refusals      int // failures because the scheduler refuses the node
	Skipped       int // answers without scheduling
	Uploads       int

	Started      int
	Finished     int
	Acknowledged int
	Interrupted  int // by order
	Aborted      int // by order
	NeverBegun   int // aborted by an order that came with the start
	Wiped        int
	Twice        int // repeated starts of a job: must be zero
}

// ledger belongs to the loop.
type ledger struct {
	totals  Totals
	entries map[uint64]*Entry
}

func (l *ledger) started(now time.Time, node string, identity *nodev1.JobIdentity) {
	number := identity.GetNumber()
	entry := l.entries[number]
	if entry == nil {
		entry = &Entry{Job: number, Node: node, Identity: identity, StartedAt: now}
		l.entries[number] = entry
		l.totals.Running++
	} else {
		l.totals.Twice++
	}
	entry.Starts++
	l.totals.Started++
}

func (l *ledger) finished(now time.Time, node string, identity *nodev1.JobIdentity, result *nodev1.JobResult) {
	entry := l.entries[result.GetNumber()]
	if entry == nil { // it never started
		entry = &Entry{Job: result.GetNumber(), Node: node, Identity: identity}
		l.entries[entry.Job] = entry
		l.totals.Running++
		l.totals.NeverBegun++
	}
	entry.FinishedAt, entry.State, entry.Reason = now, result.GetState(), result.GetAbortReason()
	l.totals.Finished++
	l.totals.Running--
	l.totals.Unreported++
}

func (l *ledger) acknowledged(now time.Time, number uint64) {
	if entry := l.entries[number]; entry != nil && entry.AcknowledgedAt.IsZero() {
		entry.AcknowledgedAt = now
		l.totals.Acknowledged++
		l.totals.Unreported--
	}
}

func (l *ledger) wiped(number uint64) {
	entry := l.entries[number]
	if entry == nil || entry.Wiped {
		return
	}
	entry.Wiped = true
	l.totals.Wiped++
	if entry.FinishedAt.IsZero() {
		l.totals.Running--
	} else {
		l.totals.Unreported--
	}
}

// all returns copies in the order of job numbers.
func (l *ledger) all() []Entry {
	entries := make([]Entry, 0, len(l.entries))
	for _, entry := range l.entries {
		entries = append(entries, *entry)
	}
	slices.SortFunc(entries, func(a, b Entry) int {
		if a.Job < b.Job {
			return -1
		}
		return 1
	})
	return entries
}

// Problems returns what must never be in a ledger: jobs that started twice, and acknowledgements of
// jobs that have not ended.
func Problems(entries []Entry) (problems []error) {
	for _, entry := range entries {
		if entry.Starts > 1 {
			problems = append(problems, fmt.Errorf("job %d began %d times, on %s", entry.Job, entry.Starts, entry.Node))
		}
		if !entry.AcknowledgedAt.IsZero() && entry.FinishedAt.IsZero() {
			problems = append(problems, fmt.Errorf("job %d is acknowledged and not over, on %s", entry.Job, entry.Node))
		}
	}
	return problems
}
