package rerun

import (
	"cmp"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/sim/outcome"
	"github.com/weirhq/weir/internal/value/resource"
)

// PoolKey identifies a pool.
type PoolKey struct{ Tree, Pool string }

// Pool are figures of a pool, everything below it included.
type Pool struct {
	// Usage and Share are averages, in parts of the cluster, of the resource of which
	// the pool has most.
	Usage, Share       float64
	Started, Preempted int64
	used, entitled     resource.Shares // amounts × seconds
}

// Figures are of one run, or of what was recorded.
type Figures struct {
	Pools               map[PoolKey]*Pool
	Started, Preempted  int64
	OperationsCompleted int64

	parents map[PoolKey]string
	room    resource.Shares // what all nodes had, amounts × seconds
	last    time.Time
}

func newFigures(c *core.Core, now time.Time) *Figures {
	f := &Figures{Pools: map[PoolKey]*Pool{}, parents: map[PoolKey]string{}, last: now}
	f.sample(c, now)
	return f
}

func (f *Figures) pool(key PoolKey) *Pool {
	p := f.Pools[key]
	if p == nil {
		p = &Pool{}
		f.Pools[key] = p
	}
	return p
}

// sample adds the time since the last sample.
func (f *Figures) sample(c *core.Core, now time.Time) {
	passed := now.Sub(f.last).Seconds()
	f.last = now
	for _, tree := range c.PictureOfPools(now).Trees {
		for k := range f.room {
			f.room[k] += float64(tree.Total[k]) * passed
		}
		for p := range tree.Pools() {
			key := PoolKey{tree.Name, p.Name}
			if above := tree.PoolIn(p.Parent); above != nil {
				f.parents[key] = above.Name
			}
			to := f.pool(key)
			for k := range to.used {
				to.used[k] += float64(p.Usage[k]) * passed
				to.entitled[k] += p.Share.Total[k] * float64(tree.Total[k]) * passed
			}
		}
	}
}

// decided counts starts and preemptions, at a pool and all above it.
func (f *Figures) decided(c *core.Core, d *core.Decisions) {
	names := c.Trees()
	count := func(id core.OperationID, tree core.TreeID, add func(*Pool)) {
		pool, in := c.PoolOf(id, tree)
		for in && pool != "" {
			key := PoolKey{names[tree], pool}
			add(f.pool(key))
			pool = f.parents[key]
		}
	}
	for i := range d.Started {
		f.Started++
		count(d.Started[i].Operation, d.Started[i].Tree, func(p *Pool) { p.Started++ })
	}
	for i := range d.Stopped {
		if s := &d.Stopped[i]; s.Reason == operation.AbortPreemption {
			f.Preempted++
			if tree, in := c.NodeTree(s.Node); in {
				count(s.Operation, tree, func(p *Pool) { p.Preempted++ })
			}
		}
	}
	for _, o := range d.Operations {
		if o.State == operation.Completed {
			f.OperationsCompleted++
		}
	}
}

// finish computes the averages.
func (f *Figures) finish() {
	for _, p := range f.Pools {
		for k, room := range f.room {
			if room > 0 {
				p.Usage, p.Share = max(p.Usage, p.used[k]/room), max(p.Share, p.entitled[k]/room)
			}
		}
		p.Usage, p.Share = outcome.Round(p.Usage), outcome.Round(p.Share)
	}
}

// figuresOf are the figures of a run.
func figuresOf(r *outcome.Result) *Figures {
	f := &Figures{
		Pools: map[PoolKey]*Pool{}, Started: r.Cluster.Jobs.Started, Preempted: r.Cluster.Jobs.Preempted, OperationsCompleted: r.Cluster.Operations.Completed,
	}
	for i := range r.Pools {
		p := &r.Pools[i]
		to := f.pool(PoolKey{p.Tree, p.Name})
		to.Started, to.Preempted = p.Jobs.Started, p.Jobs.Preempted
		for k, capacity := range r.Cluster.Capacity {
			if room := capacity * r.Seconds; room > 0 {
				to.Usage, to.Share = max(to.Usage, p.Got[k]/room), max(to.Share, p.Entitled[k]/room)
			}
		}
		to.Usage, to.Share = outcome.Round(to.Usage), outcome.Round(to.Share)
	}
	return f
}

// Row is a pool in three runs; nil where it does not exist.
type Row struct {
	PoolKey
	Recorded, Old, New *Pool
}

// Report compares what was recorded with the same time again.
type Report struct {
	Recorded, Old, New *Figures
	Rows               []Row // ordered by tree and pool
	// Ends are the operations of both runs, by their names in the journal.
	Ends []Ended
}

// Ended is an operation that ended, or not, in the two runs: seconds after the start,
// negative if it had not ended.
type Ended struct {
	Operation string
	Old, New  float64
}

// Compare makes a report.
func Compare(h *History, before, after *outcome.Result) *Report {
	r := &Report{Recorded: h.Recorded, Old: figuresOf(before), New: figuresOf(after)}
	keys := map[PoolKey]bool{}
	for _, f := range []*Figures{r.Recorded, r.Old, r.New} {
		for key := range f.Pools {
			keys[key] = true
		}
	}
	for key := range keys {
		r.Rows = append(r.Rows, Row{key, r.Recorded.Pools[key], r.Old.Pools[key], r.New.Pools[key]})
	}
	slices.SortFunc(r.Rows, func(a, b Row) int { return cmp.Or(cmp.Compare(a.Tree, b.Tree), cmp.Compare(a.Pool, b.Pool)) })
	ends := map[string]float64{}
	for i := range after.Operations {
		ends[after.Operations[i].Name] = after.Operations[i].Finished
	}
	for i := range before.Operations {
		o := &before.Operations[i]
		if end, there := ends[o.Name]; there && end != o.Finished {
			r.Ends = append(r.Ends, Ended{o.Name, o.Finished, end})
		}
	}
	return r
}
