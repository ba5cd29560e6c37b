package server

import (
	"sync/atomic"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
)

// counters count events, for metrics and tests.
type counters struct {
	commits, rows     atomic.Uint64
	operationsStarted atomic.Uint64
	preemptions       atomic.Uint64
	preemptionCycles  atomic.Uint64
	adopted           atomic.Uint64
	skipped           atomic.Uint64
	glasses           atomic.Uint64 // forks of the core for analyses
	ensembleNanos     atomic.Uint64 // of forecasts
	heartbeats        atomic.Uint64
	heartbeatNanos    atomic.Uint64
	updates           atomic.Uint64
	updateNanos       atomic.Uint64
	lastUpdateNanos   atomic.Uint64
	jobsEnded         [core.JobInterrupted + 1]atomic.Uint64
	measures
}

func (c *counters) heartbeat(took time.Duration) {
	c.heartbeats.Add(1)
	c.heartbeatNanos.Add(uint64(took))
	c.heartbeatLatency.observe(took)
}

func (c *counters) updated(took time.Duration) {
	c.updates.Add(1)
	c.updateNanos.Add(uint64(took))
	c.lastUpdateNanos.Store(uint64(took))
	c.updateDuration.observe(took)
}

// Counters are counts since the start of the process.
type Counters struct {
	Commits, Rows                           uint64
	OperationsStarted, Preemptions, Adopted uint64
	Heartbeats, SchedulingSkipped, Updates  uint64
	HeartbeatTime, UpdateTime, LastUpdate   time.Duration
	JobsCompleted, JobsFailed, JobsAborted  uint64
	JobsInterrupted, PreemptionCycles       uint64
	Waiting                                 int // requests
}

// Counters returns the counts so far.
func (s *Server) Counters() Counters {
	c := &s.counters
	out := Counters{
		Commits: c.commits.Load(), Rows: c.rows.Load(), OperationsStarted: c.operationsStarted.Load(), Preemptions: c.preemptions.Load(),
		Adopted: c.adopted.Load(), Heartbeats: c.heartbeats.Load(), SchedulingSkipped: c.skipped.Load(), Updates: c.updates.Load(),
		HeartbeatTime: time.Duration(c.heartbeatNanos.Load()), UpdateTime: time.Duration(c.updateNanos.Load()),
		LastUpdate: time.Duration(c.lastUpdateNanos.Load()), JobsCompleted: c.jobsEnded[core.JobCompleted].Load(),
		JobsFailed: c.jobsEnded[core.JobFailed].Load(), JobsAborted: c.jobsEnded[core.JobAborted].Load(),
		JobsInterrupted: c.jobsEnded[core.JobInterrupted].Load(), PreemptionCycles: c.preemptionCycles.Load(),
	}
	if t := s.term.Load(); t != nil {
		out.Waiting = len(t.requests)
	}
	return out
}
