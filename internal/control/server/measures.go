package server

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
)

// measures are counts by kind and distributions of times, for metrics. They are atomic:
// counting never waits, and a reader may see one number slightly earlier than another.
type measures struct {
	jobsStarted     [scheduling.StagePackingFallback + 1]atomic.Uint64
	jobsAborted     [operation.AbortReasonCount]atomic.Uint64
	preempted       [scheduling.PreemptedGracefully + 1]atomic.Uint64
	skippedFor      [nodev1.SkipReason_SKIP_REASON_BANNED + 1]atomic.Uint64
	operationsEnded [operation.Aborted + 1]atomic.Uint64
	commitRetries   atomic.Uint64
	updateStages    [updateStageCount]atomic.Uint64 // nanoseconds

	heartbeatLatency    histogram
	heartbeatProcessing histogram
	commitLatency       histogram
	updateDuration      histogram
	jobStartLatency     histogram
	gangAssembly        [scheduling.GangResultCount]histogram

	pools     sync.Map // of poolKey to *poolMeasures
	poolCount atomic.Int64
}

// poolKey is a pool of a tree.
type poolKey struct{ tree, pool string }

type poolMeasures struct{ suffered, caused atomic.Uint64 }

// pool returns the numbers of a pool.
func (m *measures) pool(tree, pool string) *poolMeasures {
	key := poolKey{tree, pool}
	if found, there := m.pools.Load(key); there {
		return found.(*poolMeasures)
	}
	found, there := m.pools.LoadOrStore(key, &poolMeasures{})
	if !there {
		m.poolCount.Add(1)
	}
	return found.(*poolMeasures)
}

// preemption counts a job that was preempted.
func (m *measures) preemption(reason scheduling.PreemptionReason, tree, pool, forPool string) {
	count(m.preempted[:], int(reason))
	if pool != "" {
		m.pool(tree, pool).suffered.Add(1)
	}
	if forPool != "" {
		m.pool(tree, forPool).caused.Add(1)
	}
}

// forgottenPools is the maximum number of removed pools that keep their counts.
const forgottenPools = 10_000

// forgetPools drops the counts of removed pools when there are many: ephemeral pools
// come and go.
func (t *term) forgetPools() {
	m := &t.server.counters.measures
	picture, pools := t.server.View().Picture, 0
	for _, tree := range picture.Trees {
		pools += tree.PoolCount()
	}
	if int(m.poolCount.Load()) < pools+forgottenPools {
		return
	}
	m.pools.Range(func(key, _ any) bool {
		tree, there := picture.Tree(key.(poolKey).tree)
		if there {
			_, there = tree.Pool(key.(poolKey).pool)
		}
		if !there {
			m.pools.Delete(key)
			m.poolCount.Add(-1)
		}
		return true
	})
}

// count increments the counter at an index. It ignores an index that only a newer core
// knows.
func count(in []atomic.Uint64, place int) {
	if place >= 0 && place < len(in) {
		in[place].Add(1)
	}
}

// updateStage is a part of an update.
type updateStage int

const (
	stageFairShare updateStage = iota // the core computes shares and checks for starvation and preemption
	stageRecord                       // rows and records are brought up to date
	stagePublish                      // readers get a new view
	stageObserve                      // events, history, self-check
	updateStageCount
)

var updateStageNames = [updateStageCount]string{"fair_share", "record", "publish", "observe"}

// stopwatch measures the parts of an update one after another.
type stopwatch struct {
	into *[updateStageCount]atomic.Uint64
	last time.Time
}

func (w *stopwatch) lap(stage updateStage) {
	now := time.Now()
	w.into[stage].Add(uint64(now.Sub(w.last)))
	w.last = now
}

// latencyBounds are the upper bounds of the buckets of all distributions.
var latencyBounds = [...]time.Duration{
	500 * time.Microsecond, time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond,
	25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute,
}

// histogram counts durations by size.
type histogram struct {
	buckets [len(latencyBounds) + 1]atomic.Uint64
	nanos   atomic.Uint64
}

// observe counts a duration. A negative one, from clocks that differ, counts as zero.
func (h *histogram) observe(d time.Duration) {
	d = max(d, 0)
	at := 0
	for at < len(latencyBounds) && d > latencyBounds[at] {
		at++
	}
	h.buckets[at].Add(1)
	h.nanos.Add(uint64(d))
}

// Distribution is a histogram of durations.
type Distribution struct {
	// Bounds are the upper bounds of the buckets, Counts the number of durations up to
	// each bound. Count includes longer ones.
	Bounds []time.Duration
	Counts []uint64
	Count  uint64
	Sum    time.Duration
}

func (h *histogram) read() Distribution {
	d := Distribution{Bounds: latencyBounds[:], Counts: make([]uint64, len(latencyBounds)), Sum: time.Duration(h.nanos.Load())}
	for i := range d.Counts {
		d.Count += h.buckets[i].Load()
		d.Counts[i] = d.Count
	}
	d.Count += h.buckets[len(latencyBounds)].Load()
	return d
}

// Tally is a named count.
type Tally struct {
	Name  string
	Count uint64
}

// Measures are counts by kind and distributions since the start of the process.
type Measures struct {
	// JobsStarted is by stage of the heartbeat, JobsAborted by reason, Preemptions by
	// cause, HeartbeatsSkipped by the reason why a node got no work, OperationsEnded by
	// final state.
	JobsStarted, JobsAborted, Preemptions, HeartbeatsSkipped, OperationsEnded []Tally
	CommitRetries                                                             uint64
	// UpdateStages are nanoseconds by part of an update.
	UpdateStages []Tally
	// HeartbeatLatency is the time from a report to its answer, HeartbeatProcessing the
	// part of it that the loop spent. CommitLatency includes retries. JobStartLatency
	// is the time from the decision to the start of the process, by the node's clock.
	HeartbeatLatency, HeartbeatProcessing, CommitLatency, UpdateDuration, JobStartLatency Distribution
}

// Measures returns what has been measured so far.
func (s *Server) Measures() Measures {
	m := &s.counters.measures
	out := Measures{
		JobsStarted:       tallies(m.jobsStarted[:], func(i int) string { return scheduling.Stage(i).String() }),
		JobsAborted:       tallies(m.jobsAborted[:], func(i int) string { return operation.AbortReason(i).String() })[1:],
		Preemptions:       tallies(m.preempted[:], func(i int) string { return scheduling.PreemptionReason(i).String() }),
		HeartbeatsSkipped: tallies(m.skippedFor[:], skipName)[1:],
		UpdateStages:      tallies(m.updateStages[:], func(i int) string { return updateStageNames[i] }),
		CommitRetries:     m.commitRetries.Load(),

		HeartbeatLatency: m.heartbeatLatency.read(), HeartbeatProcessing: m.heartbeatProcessing.read(),
		CommitLatency: m.commitLatency.read(), UpdateDuration: m.updateDuration.read(), JobStartLatency: m.jobStartLatency.read(),
	}
	for _, state := range []operation.State{operation.Completed, operation.Aborted, operation.Failed} {
		out.OperationsEnded = append(out.OperationsEnded, Tally{state.String(), m.operationsEnded[state].Load()})
	}
	return out
}

// GangAssembly is how long assemblies of gangs took that ended in the same way.
type GangAssembly struct {
	Result string
	Distribution
}

// GangAssemblies returns how long assemblies of gangs took, by result, since the start of the process.
func (s *Server) GangAssemblies() []GangAssembly {
	list := make([]GangAssembly, scheduling.GangResultCount)
	for i := range list {
		list[i] = GangAssembly{scheduling.GangResult(i).String(), s.counters.gangAssembly[i].read()}
	}
	return list
}

func skipName(i int) string {
	return strings.ToLower(strings.TrimPrefix(nodev1.SkipReason(i).String(), "SKIP_REASON_"))
}

func tallies(counts []atomic.Uint64, name func(int) string) []Tally {
	list := make([]Tally, len(counts))
	for i := range counts {
		list[i] = Tally{name(i), counts[i].Load()}
	}
	return list
}

// PoolPreemptions returns how many jobs of a pool's own operations were preempted, and
// how many other jobs were preempted for them, since the start of the process.
func (s *Server) PoolPreemptions(tree, pool string) (suffered, caused uint64) {
	found, there := s.counters.measures.pools.Load(poolKey{tree, pool})
	if !there {
		return 0, 0
	}
	p := found.(*poolMeasures)
	return p.suffered.Load(), p.caused.Load()
}
