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
	if all {
		b.catchUp()
	}
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

// settle adds the last observed values, for the time since then, to the cluster and to
// pools in which something has happened.
func (b *books) settle(now time.Duration) {
	seconds := (now - b.observedAt).Seconds()
	if seconds <= 0 {
		return
	}
	if row := int(b.observedAt / b.series.step); row != b.row || row >= b.series.count {
		b.catchUp() // what happens from now on belongs to another row
		b.row = b.series.at(b.observedAt, b.pools)
	}
	for _, i := range b.busy {
		p := &b.pools[i]
		b.settleUntil(p, now)
		p.isBusy = false
	}
	b.busy = b.busy[:0]
	b.settleCluster(now, b.row, seconds)
	b.observedAt = now
}

// catchUp adds the figures of all pools in which nothing has happened since the last
// observation, up to that observation.
func (b *books) catchUp() {
	for i := range b.pools {
		if p := &b.pools[i]; !p.isBusy {
			b.settleUntil(p, b.observedAt)
		}
	}
}

// settleUntil adds one pool's figures for the time since it was settled.
func (b *books) settleUntil(p *poolAccount, until time.Duration) {
	seconds := (until - p.settled).Seconds()
	if seconds <= 0 {
		return
	}
	p.settled = until
	p.sub.accrue(until)
	got := minus(p.sub.used, p.seen)
	p.seen = p.sub.used
	if got == (outcome.Vector{}) && (!p.there || p.state.nothing) && p.preempted == 0 {
		if p.there {
			p.below = 0
		}
		return // the row would be all zeros
	}
	row := p.curve.row(b.row)
	if p.there {
		s := &p.state
		add(&p.entitled, &s.fairShare, seconds)
		add(&p.guaranteed, &s.guaranteed, seconds)
		add(&p.asked, &s.demand, seconds)
		if s.starvation >= scheduling.Starving {
			p.starving += seconds
		}
		b.settleGuarantee(p, &got, seconds)
		for i, k := range b.series.kinds {
			row[i*columnsPerKind+columnFairShare] += s.fairShare[k] * seconds
			row[i*columnsPerKind+columnGuaranteed] += s.guaranteed[k] * seconds
			row[i*columnsPerKind+columnDemand] += s.demand[k] * seconds
		}
		row[len(row)-2] += s.volume * seconds
	}
	add(&p.got, &got, 1)
	for i, k := range b.series.kinds {
		row[i*columnsPerKind+columnUsage] += got[k]
	}
	row[len(row)-1] += float64(p.preempted)
	p.preempted = 0
}

// keptFrom is the part of a guarantee that must be met for it to count as kept:
// jobs have sizes, and starting them needs a moment.
const keptFrom = 0.99

// settleGuarantee compares what a pool had with what it was guaranteed and
// demanded: its configured strong guarantee, and what the core granted it for its
// volume. The resource that is the largest part of its tree decides.
func (b *books) settleGuarantee(p *poolAccount, got *outcome.Vector, seconds float64) {
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
	if got[dominant] >= keptFrom*promise[dominant]*seconds {
		p.below = 0
		return
	}
	c.BelowSeconds += seconds
	p.below += seconds
	c.LongestSeconds = max(c.LongestSeconds, p.below)
	for _, k := range b.series.kinds {
		c.Missing[k] += max(promise[k]*seconds-got[k], 0)
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
	if operations {
		b.viewed = now
	}
	if b.totalsDiffer(now) || !slices.EqualFunc(b.trees, now.Trees, (*core.Tree).HasPoolsOf) {
		b.noteAll(now)
		return
	}
	b.clusterNow.waitingJobs = 0
	i := 0
	for _, tree := range now.Trees {
		b.clusterNow.waitingJobs += waitingJobs(tree.Root())
		for p := range tree.Pools() {
			if b.noted[i] != p {
				b.noteFigures(i, p)
			}
			i++
		}
	}
}

// noteAll stores the core's present figures if there are other pools or resources than
// before.
func (b *books) noteAll(now *core.Picture) {
	b.catchUp()
	b.trees, b.noted, b.totals = append(b.trees[:0], now.Trees...), b.noted[:0], b.totals[:0]
	for i := range b.pools {
		b.pools[i].there = false
	}
	b.clusterNow.waitingJobs = 0
	for _, tree := range now.Trees {
		b.totals = append(b.totals, tree.Total)
		b.clusterNow.waitingJobs += waitingJobs(tree.Root())
		b.bySlot = append(b.bySlot[:0], make([]int32, tree.Slots())...)
		for s := range tree.Pools() {
			i := len(b.noted)
			parent := int32(-1)
			if s.Parent >= 0 {
				parent = b.bySlot[s.Parent]
			}
			number := b.number(tree.ID, s.Name, i)
			b.bySlot[s.Slot] = number
			b.setParent(b.observedAt, number, parent)
			b.pools[number].there, b.pools[number].ephemeral = true, s.Ephemeral
			b.noted = append(b.noted, nil)
			b.noteFigures(i, s)
		}
	}
	b.numbers = b.numbers[:len(b.noted)]
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

// noteFigures stores what was observed of the i-th pool.
func (b *books) noteFigures(i int, s *core.Pool) {
	b.noted[i] = s
	p := &b.pools[b.numbers[i]]
	if !p.isBusy {
		b.settleUntil(p, b.observedAt)
	}
	total := &b.totals[p.tree]
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
