package sim

import (
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/sim/outcome"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// flow sums up what jobs use. It is exact: usage is summed up whenever it changes.
type flow struct {
	usage   resource.Amounts // of running jobs
	since   time.Duration    // when used was last brought up to date
	used    outcome.Vector   // resources × seconds
	running int32
	busy    float64 // running jobs × seconds
}

// accrue updates used.
func (f *flow) accrue(now time.Duration) {
	seconds := (now - f.since).Seconds()
	if seconds > 0 && f.running > 0 {
		for k := range f.usage {
			f.used[k] += f.usage.Float(resource.Kind(k)) * seconds
		}
		f.busy += float64(f.running) * seconds
	}
	f.since = now
}

// enter adds jobs with their total usage.
func (f *flow) enter(now time.Duration, usage resource.Amounts, jobs int32) {
	f.accrue(now)
	f.usage = f.usage.Add(usage)
	f.running += jobs
}

// exit removes jobs.
func (f *flow) exit(now time.Duration, usage resource.Amounts, jobs int32) {
	f.accrue(now)
	f.usage = f.usage.Sub(usage)
	f.running -= jobs
}

// account sums up what jobs use and how they end.
type account struct {
	flow
	lost   outcome.Vector // part of used that had to be done again
	jobs   outcome.Jobs
	caused int64 // preemptions of others
}

// waitSums is the mean and the maximum of waiting times.
type waitSums struct {
	count    int64
	sum, max time.Duration
}

func (w *waitSums) add(d time.Duration) {
	w.count++
	w.sum += d
	w.max = max(w.max, d)
}

// names numbers words in order of first appearance.
type names struct {
	names  []string
	number map[string]int32
}

func (n *names) index(name string) int32 {
	i, ok := n.number[name]
	if !ok {
		if n.number == nil {
			n.number = map[string]int32{}
		}
		i = int32(len(n.names))
		n.names = append(n.names, name)
		n.number[name] = i
	}
	return i
}

// books are the accounts of a run.
type books struct {
	pools  []poolAccount
	byName map[poolName]int32
	// cluster is all jobs; room is all nodes, as if they were jobs.
	cluster, room  account
	waits          waits
	operationWaits waits
	arrived        int64
	stages         names
	reasons        names
	stageCounts    []int32Count
	reasonCounts   []int32Count

	// The last observation, valid until the next one.
	from       time.Duration // when the run started
	observedAt time.Duration
	row        int                // of the series, to which the figures since then belong
	busy       []int32            // pools to be settled at the next observation, because something has happened there
	trees      []*core.Tree       // as last observed
	noted      []*core.Pool       // the pools of all trees, as last observed
	numbers    []int32            // the accounts of these
	bySlot     []int32            // the same for one tree, by the pool's number there
	totals     []resource.Amounts // of each tree
	viewed     *core.Picture      // the last observation of operations
	viewedAt   time.Duration
	clusterNow clusterFigures
	// seen are used and busy of cluster, and used of room, at that time.
	seenUsed, seenRoom outcome.Vector
	seenBusy           float64
	series             series
}

type poolName struct {
	tree core.TreeID
	name string
}

// poolAccount is the account of a pool. account, waits and operations cover its
// own operations; the rest covers everything below it.
type poolAccount struct {
	account
	tree      core.TreeID
	name      string
	parent    int32 // index in books.pools; -1: a root
	ephemeral bool
	integral  bool
	strong    resource.Amounts // guarantee as configured

	waits          waits
	operationWaits waits
	operations     int64

	// sub is what jobs of the pool and below it use. The figures below include what
	// happened until settled: while nothing changes, they are not brought up to date at
	// each observation. seen is what sub.used was then.
	sub     flow
	settled time.Duration
	seen    outcome.Vector
	isBusy  bool // it is in books.busy, and was settled at the last observation

	entitled, guaranteed, asked, got outcome.Vector
	compliance                       outcome.Compliance
	below                            float64 // consecutive seconds below the guarantee
	starving                         float64 // seconds
	preempted                        int64   // in the subtree since the last observation

	state poolFigures // as last observed
	there bool        // whether it existed then
	curve curve
}

// poolFigures are the figures kept from the last observation of a pool.
type poolFigures struct {
	fairShare, guaranteed, demand outcome.Vector
	integralPart                  outcome.Vector
	volume                        float64
	status                        scheduling.Status
	starvation                    scheduling.Starvation
	runningOperations             int
	runningJobs, pendingJobs      int32
	// nothing reports whether all figures summed up over time are zero.
	nothing bool
}

// clusterFigures are the figures kept from the last observation of the cluster.
type clusterFigures struct {
	waitingJobs int64
	preemptions int64 // since then
}

// open makes accounts for all configured pools.
func (b *books) open(r *run) {
	b.byName = map[poolName]int32{}
	b.from, b.observedAt, b.viewedAt, b.viewed = r.from, r.from, r.from, &core.Picture{}
	b.series.open(r)
	b.setTrees(r.from, r.trees)
}

// setTrees makes accounts for new pools, and records guarantees and parents of
// all.
func (b *books) setTrees(now time.Duration, trees []document.Named[*pooltree.Tree]) {
	b.catchUp()
	for i := range b.pools {
		b.pools[i].strong = resource.Amounts{}
	}
	for t, tree := range trees {
		b.pool(core.TreeID(t), pooltree.RootName)
		for p := range tree.Value.Pools() {
			above, _ := p.Parent()
			parent := b.pool(core.TreeID(t), above.Name())
			i := b.pool(core.TreeID(t), p.Name())
			b.setParent(now, i, parent)
			at := &b.pools[i]
			at.strong = strongGuarantee(p)
			at.integral = at.integral || p.Config().Integral.Type.Value() != pooltree.NoIntegral
		}
	}
}

// pool returns the index of a pool's account, and opens one if there is none.
// Until the pool is observed it counts as below the root, or below the pool
// whose ephemeral subpool it is by its name.
func (b *books) pool(tree core.TreeID, name string) int32 {
	key := poolName{tree, name}
	if i, ok := b.byName[key]; ok {
		return i
	}
	parent := int32(-1)
	if name != pooltree.RootName {
		parent = b.parentByName(tree, name)
	}
	i := int32(len(b.pools))
	b.byName[key] = i
	b.pools = append(b.pools, poolAccount{tree: tree, name: name, parent: parent, settled: b.observedAt, curve: b.series.newCurve()})
	return i
}

// started records a job that has started.
func (b *books) started(r *run, o *operationAccount, j *job, stageName string) {
	b.entered(r, o, j)
	pool := &b.pools[o.place(j.tree).pool]
	for _, a := range b.accounts(o, j) {
		a.jobs.Started++
	}
	wait := r.now - o.arrived
	if since, again := o.requeued[j.key]; again {
		wait = r.now - since
		delete(o.requeued, j.key)
	}
	if o.started == never {
		o.started = r.now
		pool.operationWaits.add(r.now - o.arrived)
		b.operationWaits.add(r.now - o.arrived)
	}
	// Jobs of an operation with demand over time wait for each other by design.
	if o.demand == nil {
		o.waits.add(wait)
		if o.allWaits != nil {
			o.allWaits.add(wait)
		}
		pool.waits.add(wait)
		b.waits.add(wait)
	}
	stage := b.stages.index(stageName)
	o.stages = addCount(o.stages, stage)
	b.stageCounts = addCount(b.stageCounts, stage)
}

// setParent makes a pool the child of another one, -1 if of none.
func (b *books) setParent(now time.Duration, pool, parent int32) {
	p := &b.pools[pool]
	if p.parent == parent {
		return
	}
	usage, running := p.sub.usage, p.sub.running
	b.exitAbove(now, p.parent, usage, running)
	p.parent = parent
	b.enterAbove(now, parent, usage, running)
}

// enterAbove adds jobs to what a pool and all pools above it use.
func (b *books) enterAbove(now time.Duration, pool int32, usage resource.Amounts, jobs int32) {
	for ; pool >= 0; pool = b.pools[pool].parent {
		b.touch(pool)
		b.pools[pool].sub.enter(now, usage, jobs)
	}
}

// exitAbove removes jobs from what a pool and all pools above it use.
func (b *books) exitAbove(now time.Duration, pool int32, usage resource.Amounts, jobs int32) {
	for ; pool >= 0; pool = b.pools[pool].parent {
		b.touch(pool)
		b.pools[pool].sub.exit(now, usage, jobs)
	}
}

// touch prepares a pool for a change of its usage or of its figures: up to the last
// observation nothing has changed.
func (b *books) touch(pool int32) {
	if p := &b.pools[pool]; !p.isBusy {
		b.settleUntil(p, b.observedAt)
		p.isBusy = true
		b.busy = append(b.busy, pool)
	}
}

// entered records that a job uses its resources.
func (b *books) entered(r *run, o *operationAccount, j *job) {
	place := o.place(j.tree)
	place.running++
	place.usage = place.usage.Add(j.resources)
	for _, a := range b.accounts(o, j) {
		a.enter(r.now, j.resources, 1)
	}
	b.enterAbove(r.now, place.pool, j.resources, 1)
}

// left records that a job no longer uses anything.
func (b *books) left(r *run, o *operationAccount, j *job) {
	place := o.place(j.tree)
	place.running--
	place.usage = place.usage.Sub(j.resources)
	for _, a := range b.accounts(o, j) {
		a.exit(r.now, j.resources, 1)
	}
	b.exitAbove(r.now, place.pool, j.resources, 1)
}

// completed records that a job has done its work.
func (b *books) completed(o *operationAccount, j *job) {
	for _, a := range b.accounts(o, j) {
		a.jobs.Completed++
	}
}

func (b *books) accounts(o *operationAccount, j *job) [3]*account {
	return [...]*account{&o.account, &b.pools[o.place(j.tree).pool].account, &b.cluster}
}

// stopped records that a job was ended and that its work is lost.
func (b *books) stopped(r *run, o *operationAccount, j *job, kind stopKind, reason string, beneficiary int32) {
	seconds := (j.endedAt - j.startedAt).Seconds()
	for _, a := range b.accounts(o, j) {
		switch kind {
		case preempted:
			a.jobs.Preempted++
		case nodeLost:
			a.jobs.LostWithNodes++
		case operationEnded:
			a.jobs.Ended++
			continue // it will not be done again
		}
		for k := range a.lost {
			a.lost[k] += j.resources.Float(resource.Kind(k)) * seconds
		}
	}
	number := b.reasons.index(reason)
	b.reasonCounts = addCount(b.reasonCounts, number)
	if kind != operationEnded {
		if o.requeued == nil {
			o.requeued = map[jobKey]time.Duration{}
		}
		o.requeued[j.key] = r.now
	}
	if kind != preempted {
		return
	}
	o.reasons = addCount(o.reasons, number)
	b.clusterNow.preemptions++
	for i := o.place(j.tree).pool; i >= 0; i = b.pools[i].parent {
		b.touch(i)
		b.pools[i].preempted++
	}
	if beneficiary != nobody {
		o.victims = addCount(o.victims, beneficiary)
		cause := &r.operations[beneficiary]
		cause.caused++
		if place := cause.place(j.tree); place != nil {
			b.pools[place.pool].caused++
		}
	}
}

// move moves an operation's usage in a tree from one pool to another.
func (b *books) move(now time.Duration, place *placement, pool int32) {
	if place.pool == pool {
		return
	}
	b.pools[place.pool].exit(now, place.usage, place.running)
	b.exitAbove(now, place.pool, place.usage, place.running)
	b.pools[pool].enter(now, place.usage, place.running)
	b.enterAbove(now, pool, place.usage, place.running)
	place.pool = pool
	b.pools[pool].operations++
}
