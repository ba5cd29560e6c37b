package sim

import (
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/sim/outcome"
	"github.com/weirhq/weir/internal/value/resource"
)

// viewEvery spaces out observations of operations: with more operations than this,
// not every observation of pools also observes operations.
const viewEvery = 2000

// observe updates the books with the core's own figures. Observed values count
// until the next observation. It does not read a core again if nothing has
// happened to it since: in quiet times observations are far more frequent than
// changes.
func (r *run) observe(operations bool) {
	b := &r.books
	wait := time.Duration(1+r.active/viewEvery) * r.scenario.Statistics.Period
	all := operations
	operations = operations || r.now-b.viewedAt >= wait || r.now == r.from
	known := r.poolsKnown && (r.viewsKnown || !operations)
	b.settle(r.now)
	var picture *core.Picture
	if !known {
		r.looks++
		if operations || all {
			picture = r.core.PictureOfShares(r.date())
		} else {
			picture = r.core.PictureOfPools(r.date())
		}
	}
	if all || picture != nil && b.totalsDiffer(picture) {
		for seen := range b.viewed.Operations() {
			b.settleView(r, seen)
		}
	}
	if operations && picture != nil {
		for id := range picture.Reseated(b.viewed) {
			if seen, there := b.viewed.Operation(id); there {
				b.settleView(r, seen)
			}
			r.operation(id).viewedAt = r.now
		}
	}
	if picture != nil {
		b.note(picture, operations)
	}
	r.poolsKnown = true
	if operations {
		b.viewedAt, r.viewsKnown = r.now, true
	}
}

// coreMoves records that something happens to the core, so that observed values
// may no longer hold.
func (r *run) coreMoves() { r.poolsKnown, r.viewsKnown = false, false }

// parentByName guesses the parent of a pool that has not been observed.
func (b *books) parentByName(tree core.TreeID, name string) int32 {
	parent := pooltree.RootName
	if before, _, cut := strings.Cut(name, "$"); cut {
		parent = before
	}
	if i, ok := b.byName[poolName{tree, parent}]; ok {
		return i
	}
	return b.pool(tree, pooltree.RootName)
}

// settle adds the last observed values, for the time since then.
func (b *books) settle(now time.Duration) {
	seconds := (now - b.observedAt).Seconds()
	if seconds <= 0 {
		return
	}
	interval := b.series.at(b.observedAt, b.pools)
	for i := range b.pools {
		p := &b.pools[i]
		if p.running == 0 && !p.moved {
			continue // it has used nothing
		}
		p.moved = false
		p.accrue(now)
		if p.used == p.seen {
			continue
		}
		own := minus(p.used, p.seen)
		p.seen = p.used
		for at := int32(i); at >= 0; at = b.pools[at].parent {
			b.pools[at].gotSome = true
			add(&b.pools[at].interval, &own, 1)
		}
	}
	for i := range b.pools {
		b.settlePool(&b.pools[i], interval, seconds)
	}
	b.settleCluster(now, interval, seconds)
	b.observedAt = now
}

// settlePool adds one pool's figures for the time since it was observed.
func (b *books) settlePool(p *poolAccount, interval int, seconds float64) {
	if !p.gotSome && (!p.there || p.state.nothing) && p.preempted == 0 {
		if p.there {
			p.below = 0
		}
		return // the row would be all zeros
	}
	row := p.curve.row(interval)
	if p.there {
		s := &p.state
		add(&p.entitled, &s.fairShare, seconds)
		add(&p.guaranteed, &s.guaranteed, seconds)
		add(&p.asked, &s.demand, seconds)
		if s.starvation >= scheduling.Starving {
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
	p.interval, p.preempted, p.gotSome = outcome.Vector{}, 0, false
}

// keptFrom is the part of a guarantee that must be met for it to count as kept:
// jobs have sizes, and starting them needs a moment.
const keptFrom = 0.99

// settleGuarantee compares what a pool had with what it was guaranteed and
// demanded: its configured strong guarantee, and what the core granted it for its
// volume. The resource that is the largest part of its tree decides.
func (b *books) settleGuarantee(p *poolAccount, seconds float64) {
	total := &b.totals[p.tree]
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

// settleView adds an operation's figures, which have been the same since they were
// last added.
func (b *books) settleView(r *run, seen *core.Operation) {
	o := r.operation(seen.ID)
	until := r.now
	if o.finished != never {
		until = o.finished // it counted until then
	}
	span := max(until-o.viewedAt, 0).Seconds()
	o.viewedAt = r.now
	for v := range b.viewed.Seats(seen) {
		total := &b.totals[v.Tree]
		for _, k := range b.series.kinds {
			o.entitled[k] += v.Share.Total[k] * total.Float(k) * span
			o.asked[k] += v.Demand.Float(k) * span
		}
		if v.Starvation >= scheduling.Starving {
			o.starving += span
		}
	}
}

// totalsDiffer reports whether trees have other resources than when they were last
// observed.
func (b *books) totalsDiffer(now *core.Picture) bool {
	return !slices.EqualFunc(b.totals, now.Trees, func(total resource.Amounts, tree *core.Tree) bool { return total == tree.Total })
}

// note stores the core's present figures.
func (b *books) note(now *core.Picture, operations bool) {
	same := !b.totalsDiffer(now)
	b.totals = b.totals[:0]
	for i := range b.pools {
		b.pools[i].there = false
	}
	b.clusterNow.waitingJobs = 0
	i := 0
	for _, tree := range now.Trees {
		b.totals = append(b.totals, tree.Total)
		b.bySlot = append(b.bySlot[:0], make([]int32, tree.Slots())...)
		for p := range tree.Pools() {
			b.notePool(tree.ID, p, i, same)
			i++
		}
	}
	b.numbers = b.numbers[:i]
	if operations {
		b.viewed = now
	}
}

// number returns the account of the i-th observed pool. Observations seldom differ
// in their pools, so it tries the last one's answer first.
func (b *books) number(tree core.TreeID, name string, i int) int32 {
	if i == len(b.numbers) {
		b.numbers = append(b.numbers, b.pool(tree, name))
	} else if last := &b.pools[b.numbers[i]]; last.tree != tree || last.name != name {
		b.numbers[i] = b.pool(tree, name)
	}
	return b.numbers[i]
}

// notePool stores what was observed of the i-th pool. Its parent has been stored
// before. same reports whether the tree has the same resources as before.
func (b *books) notePool(tree core.TreeID, s *core.Pool, i int, same bool) {
	parent := int32(-1)
	if s.Parent >= 0 {
		parent = b.bySlot[s.Parent]
	} else {
		b.clusterNow.waitingJobs += waitingJobs(s)
	}
	b.bySlot[s.Slot] = b.number(tree, s.Name, i)
	p := &b.pools[b.bySlot[s.Slot]]
	p.parent, p.there, p.ephemeral = parent, true, s.Ephemeral
	if same && p.noted == s {
		return
	}
	p.noted = s
	total := &b.totals[tree]
	f := poolFigures{
		volume: s.VolumeRatio, status: s.Status, starvation: s.Starvation,
		runningOperations: s.RunningOperations, runningJobs: s.RunningJobs, pendingJobs: s.WaitingJobs,
	}
	for _, k := range b.series.kinds {
		had := total.Float(k)
		f.fairShare[k] = s.Share.Total[k] * had
		f.integralPart[k] = s.Share.Integral[k] * had
		f.guaranteed[k] = s.Share.Strong[k]*had + f.integralPart[k]
		f.demand[k] = s.Demand.Float(k)
	}
	zero := outcome.Vector{}
	f.nothing = f.fairShare == zero && f.integralPart == zero && f.guaranteed == zero && f.demand == zero && f.volume == 0 && f.starvation < scheduling.Starving
	p.state = f
}

// waitingJobs is how many jobs a pool demands and does not have: not all pending
// jobs, but those that could run now.
func waitingJobs(s *core.Pool) int64 {
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
