package sim

import (
	"strings"
	"time"

	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/sim/outcome"
	"github.com/weirhq/weir/internal/value/resource"
)

// viewEvery spaces observations of operations: with more than so many of them,
// each observation of pools is not also one of operations.
const viewEvery = 2000

// observe brings the books up to date with the system's own figures. What is
// observed counts until the next observation. A system that has been told nothing
// since it was last looked at is not asked again: in quiet times observations
// are far more frequent than changes.
func (r *run) observe(operations bool) {
	b := &r.books
	wait := time.Duration(1+r.active/viewEvery) * r.scenario.Statistics.Period
	operations = operations || r.now-b.viewedAt >= wait || r.now == 0
	known := r.poolsKnown && (r.viewsKnown || !operations)
	if !known {
		r.observation.WithOperations = operations
		r.system.Observe(r.date(), &r.observation)
	}
	b.settle(r.now)
	if operations {
		b.settleViews(r, r.now)
	}
	if !known {
		b.note(r, &r.observation)
	}
	r.poolsKnown = true
	if operations {
		b.viewedAt, r.viewsKnown = r.now, true
	}
}

// systemMoves notes that the system is told something, so that what was observed
// of it may no longer hold.
func (r *run) systemMoves() { r.poolsKnown, r.viewsKnown = false, false }

// parentByName guesses the parent of a pool that has not been observed.
func (b *books) parentByName(tree TreeID, name string) int32 {
	parent := pooltree.RootName
	if before, _, cut := strings.Cut(name, "$"); cut {
		parent = before
	}
	if i, ok := b.byName[poolName{tree, parent}]; ok {
		return i
	}
	return b.pool(tree, pooltree.RootName)
}

// settle adds what was observed last, for the time since then.
func (b *books) settle(now time.Duration) {
	seconds := (now - b.observedAt).Seconds()
	if seconds <= 0 {
		return
	}
	interval := b.series.at(b.observedAt, b.pools)
	for i := range b.pools {
		p := &b.pools[i]
		p.accrue(now)
		if p.used == p.seen {
			continue
		}
		own := minus(p.used, p.seen)
		p.seen = p.used
		for at := int32(i); at >= 0; at = b.pools[at].parent {
			add(&b.pools[at].interval, &own, 1)
		}
	}
	for i := range b.pools {
		b.settlePool(&b.pools[i], interval, seconds)
	}
	b.settleCluster(now, interval, seconds)
	b.observedAt = now
}

// settlePool adds the figures of one pool for the time since it was observed.
func (b *books) settlePool(p *poolAccount, interval int, seconds float64) {
	if p.interval == (outcome.Vector{}) && (!p.there || p.state.nothing) && p.preempted == 0 {
		if p.there {
			p.below = 0
		}
		return // a row would be zeros
	}
	row := p.curve.row(interval)
	if p.there {
		s := &p.state
		add(&p.entitled, &s.fairShare, seconds)
		add(&p.guaranteed, &s.guaranteed, seconds)
		add(&p.asked, &s.demand, seconds)
		if s.starvation >= Starving {
			p.starving += seconds
		}
		b.settleGuarantee(p, seconds)
		for i, k := range b.series.kinds {
			row[i*columnsPerKind+columnFairShare] += s.fairShare[k] * seconds
			row[i*columnsPerKind+columnGuaranteed] += s.guaranteed[k] * seconds
			row[i*columnsPerKind+columnDemand] += s.demand[k] * seconds
		}
		row[len(row)-2] += s.volume * seconds
	}
	add(&p.got, &p.interval, 1)
	for i, k := range b.series.kinds {
		row[i*columnsPerKind+columnUsage] += p.interval[k]
	}
	row[len(row)-1] += float64(p.preempted)
	p.interval, p.preempted = outcome.Vector{}, 0
}

// keptFrom is the part of a guarantee from which on it counts as kept: jobs have
// sizes, and starting them takes a moment.
const keptFrom = 0.99

// settleGuarantee compares what a pool had with what it was guaranteed and asked
// for: its strong guarantee as configured, and what the system gave it for its
// volume. The resource that is the largest part of its tree decides.
func (b *books) settleGuarantee(p *poolAccount, seconds float64) {
	total := &b.trees[p.tree].Total
	var promise outcome.Vector
	dominant, largest := resource.CPU, 0.0
	for _, k := range b.series.kinds {
		promise[k] = min(p.state.demand[k], p.strong.Float(k)+p.state.integralPart[k])
		if had := total.Float(k); had > 0 && promise[k]/had > largest {
			dominant, largest = k, promise[k]/had
		}
	}
	c := &p.compliance
	if largest == 0 {
		p.below = 0
		return
	}
	c.DemandingSeconds += seconds
	if p.interval[dominant] >= keptFrom*promise[dominant]*seconds {
		p.below = 0
		return
	}
	c.BelowSeconds += seconds
	p.below += seconds
	c.LongestSeconds = max(c.LongestSeconds, p.below)
	for _, k := range b.series.kinds {
		c.Missing[k] += max(promise[k]*seconds-p.interval[k], 0)
	}
}

func (b *books) settleCluster(now time.Duration, interval int, seconds float64) {
	b.cluster.accrue(now)
	b.room.accrue(now)
	used, had := minus(b.cluster.used, b.seenUsed), minus(b.room.used, b.seenRoom)
	row := b.series.cluster.row(interval)
	for i, k := range b.series.kinds {
		row[i*clusterColumnsPerKind+columnCapacity] += had[k]
		row[i*clusterColumnsPerKind+columnUsed] += used[k]
	}
	last := row[len(row)-3:]
	last[0] += b.cluster.busy - b.seenBusy
	last[1] += float64(b.clusterNow.waitingJobs) * seconds
	last[2] += float64(b.clusterNow.preemptions)
	b.seenUsed, b.seenRoom, b.seenBusy = b.cluster.used, b.room.used, b.cluster.busy
	b.clusterNow.preemptions = 0
}

// settleViews adds the figures of operations for the time since they were
// observed.
func (b *books) settleViews(r *run, now time.Duration) {
	seconds := (now - b.viewedAt).Seconds()
	if seconds <= 0 {
		return
	}
	for i := range b.views {
		v := &b.views[i]
		o := &r.operations[v.Operation]
		// What ended in between counted until then.
		span := seconds
		if o.finished != never {
			span = max((o.finished - b.viewedAt).Seconds(), 0)
		}
		total := &b.trees[v.Tree].Total
		for _, k := range b.series.kinds {
			o.entitled[k] += v.FairShare[k] * total.Float(k) * span
			o.asked[k] += v.Demand.Float(k) * span
		}
		if v.Starvation >= Starving {
			o.starving += span
		}
	}
}

// note keeps what has been observed.
func (b *books) note(r *run, o *Observation) {
	if len(o.Trees) != len(r.trees) {
		r.fail("observes %d trees, but there are %d", len(o.Trees), len(r.trees))
		return
	}
	b.trees = append(b.trees[:0], o.Trees...)
	for i := range b.pools {
		b.pools[i].there = false
	}
	b.clusterNow.waitingJobs = 0
	b.numbers = b.numbers[:min(len(b.numbers), len(o.Pools))]
	for i := range o.Pools {
		s := &o.Pools[i]
		if s.Tree < 0 || int(s.Tree) >= len(r.trees) || int(s.Parent) >= i {
			r.fail("observes pool %q in tree %d below pool %d, which cannot be", s.Name, s.Tree, s.Parent)
			return
		}
		b.notePool(o, i)
	}
	if o.WithOperations {
		b.views = append(b.views[:0], o.Operations...)
	}
}

// number returns the account of the i-th observed pool. Observations seldom differ
// in which pools they have, so that the last one's answer is tried first.
func (b *books) number(s *PoolState, i int) int32 {
	if i == len(b.numbers) {
		b.numbers = append(b.numbers, b.pool(s.Tree, s.Name))
	} else if last := &b.pools[b.numbers[i]]; last.tree != s.Tree || last.name != s.Name {
		b.numbers[i] = b.pool(s.Tree, s.Name)
	}
	return b.numbers[i]
}

// notePool keeps what has been observed of the i-th pool, whose parent has been
// noted before.
func (b *books) notePool(o *Observation, i int) {
	s := &o.Pools[i]
	parent := int32(-1)
	if s.Parent >= 0 {
		parent = b.numbers[s.Parent]
	} else {
		b.clusterNow.waitingJobs += waitingJobs(s)
	}
	p := &b.pools[b.number(s, i)]
	p.parent = parent
	p.there, p.ephemeral, p.integral = true, s.Ephemeral, p.integral || s.Integral
	total := &o.Trees[s.Tree].Total
	f := poolFigures{
		volume: s.Volume, status: s.Status, starvation: s.Starvation,
		runningOperations: s.RunningOperations, runningJobs: s.RunningJobs, pendingJobs: s.PendingJobs,
	}
	for _, k := range b.series.kinds {
		had := total.Float(k)
		f.fairShare[k] = s.FairShare.Total[k] * had
		f.integralPart[k] = s.FairShare.Integral[k] * had
		f.guaranteed[k] = s.FairShare.Strong[k]*had + f.integralPart[k]
		f.demand[k] = s.Demand.Float(k)
	}
	zero := outcome.Vector{}
	f.nothing = f.fairShare == zero && f.integralPart == zero && f.guaranteed == zero && f.demand == zero && f.volume == 0 && f.starvation < Starving
	p.state = f
}

// waitingJobs is how many jobs a pool demands and does not have: not all that are
// pending, but those that could run now.
func waitingJobs(s *PoolState) int64 {
	return max(s.Demand[resource.UserSlots]-s.Usage[resource.UserSlots], 0)
}

// minus returns a-b.
func minus(a, b outcome.Vector) outcome.Vector {
	for k := range a {
		a[k] -= b[k]
	}
	return a
}

// add adds b times a factor to a.
func add(a, b *outcome.Vector, factor float64) {
	for k := range a {
		a[k] += b[k] * factor
	}
}
