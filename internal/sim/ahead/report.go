package ahead

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/sim/outcome"
	"github.com/weirhq/weir/internal/value/resource"
)

// Report compares a cluster without and with changes.
type Report struct {
	AsOf time.Time
	For  time.Duration
	// Model states what the runs assume, in words.
	Model         []string
	Before, After Cluster
	// Pools and Operations are those that differ, largest differences first. The
	// numbers of others are in UnchangedPools and UnchangedOperations.
	Pools                               []PoolRow
	Operations                          []OperationRow
	UnchangedPools, UnchangedOperations int
}

// Cluster has figures of a whole run.
type Cluster struct {
	Nodes                         int
	Utilisation                   outcome.Vector
	JobsStarted, JobsCompleted    int64
	Preempted                     int64
	Lost                          float64 // core seconds
	OperationsCompleted, Rejected int64
	Events                        int64 // that the run processed
}

// PoolRow is a pool before and after. A side is nil if the pool does not exist in
// that run.
type PoolRow struct {
	Tree, Pool    string
	Before, After *PoolFigures
	size          float64
}

// PoolFigures are of one pool and one run, everything below the pool included.
type PoolFigures struct {
	// Usage, Demand and Share are averages over the run, in parts of the cluster, of
	// the resource of which the pool has most.
	Usage, Demand, Share     float64
	JobsStarted              int64
	WaitP50, WaitP90         float64 // seconds
	Preempted, Caused        int64
	Lost                     float64 // core seconds
	GuaranteeKept            float64 // part of the time in which it was demanded
	GuaranteeDemanded        bool
	StarvingSeconds          float64
	Volume                   float64 // seconds of the tree, at the end
	Integral                 bool
	OperationWaitP50, Queued float64
}

// OperationRow is an operation before and after. A side is nil if the operation
// does not exist in that run.
type OperationRow struct {
	Name, Pool    string
	Before, After *OperationFigures
	size          float64
}

// OperationFigures are of one operation and one run. Times are seconds from the
// moment of the question; HasStarted and HasFinished report whether they are known.
type OperationFigures struct {
	Pool, State               string
	Started, Finished         float64
	HasStarted, HasFinished   bool
	JobsStarted, Completed    int64
	Preempted                 int64
	Lost                      float64 // core seconds
	MeanWait, StarvingSeconds float64
}

// mostRows is the number of pools, and of operations, that a report lists.
const mostRows = 200

func compare(base *Base, plan *Plan, model *durations, before, after *outcome.Result) *Report {
	r := &Report{AsOf: base.Now, For: plan.For, Model: model.text(), Before: clusterOf(before), After: clusterOf(after)}
	type poolKey struct{ tree, pool string }
	pools := map[poolKey]*PoolRow{}
	var poolOrder []poolKey
	poolAt := func(p *outcome.Pool) *PoolRow {
		key := poolKey{p.Tree, p.Name}
		if pools[key] == nil {
			pools[key] = &PoolRow{Tree: p.Tree, Pool: p.Name}
			poolOrder = append(poolOrder, key)
		}
		return pools[key]
	}
	for i := range before.Pools {
		poolAt(&before.Pools[i]).Before = poolOf(before, &before.Pools[i])
	}
	for i := range after.Pools {
		poolAt(&after.Pools[i]).After = poolOf(after, &after.Pools[i])
	}
	for _, key := range poolOrder {
		if row := pools[key]; row.measure() {
			r.Pools = append(r.Pools, *row)
		} else {
			r.UnchangedPools++
		}
	}
	slices.SortStableFunc(r.Pools, func(a, b PoolRow) int { return cmp.Compare(b.size, a.size) })
	r.Pools = r.Pools[:min(len(r.Pools), mostRows)]

	operations := map[string]*OperationRow{}
	var order []string
	at := func(o *outcome.Operation) *OperationRow {
		if operations[o.Name] == nil {
			operations[o.Name] = &OperationRow{Name: o.Name, Pool: o.Pool}
			order = append(order, o.Name)
		}
		return operations[o.Name]
	}
	for i := range before.Operations {
		at(&before.Operations[i]).Before = operationOf(&before.Operations[i])
	}
	for i := range after.Operations {
		at(&after.Operations[i]).After = operationOf(&after.Operations[i])
	}
	for _, name := range order {
		if row := operations[name]; row.measure(plan.For.Seconds()) {
			r.Operations = append(r.Operations, *row)
		} else {
			r.UnchangedOperations++
		}
	}
	slices.SortStableFunc(r.Operations, func(a, b OperationRow) int { return cmp.Compare(b.size, a.size) })
	r.Operations = r.Operations[:min(len(r.Operations), mostRows)]
	return r
}

func clusterOf(r *outcome.Result) Cluster {
	c := &r.Cluster
	return Cluster{
		Nodes: c.Nodes, Utilisation: c.Utilisation, JobsStarted: c.Jobs.Started, JobsCompleted: c.Jobs.Completed, Preempted: c.Jobs.Preempted,
		Lost: c.Lost[resource.CPU], OperationsCompleted: c.Operations.Completed, Rejected: c.Operations.Rejected, Events: c.Work.Events + c.Work.Heartbeats,
	}
}

func poolOf(r *outcome.Result, p *outcome.Pool) *PoolFigures {
	f := &PoolFigures{
		JobsStarted: p.Jobs.Started, WaitP50: p.Waits.P50, WaitP90: p.Waits.P90, Preempted: p.Jobs.Preempted, Caused: p.PreemptionsCaused,
		Lost: p.Lost[resource.CPU], GuaranteeKept: p.Guarantee.Ratio(), GuaranteeDemanded: p.Guarantee.DemandingSeconds > 0,
		StarvingSeconds: p.StarvingSeconds, Volume: p.Volume, Integral: p.Integral, OperationWaitP50: p.OperationWaits.P50,
	}
	for k, capacity := range r.Cluster.Capacity {
		if room := capacity * r.Seconds; room > 0 {
			f.Usage, f.Demand, f.Share = max(f.Usage, p.Got[k]/room), max(f.Demand, p.Asked[k]/room), max(f.Share, p.Entitled[k]/room)
		}
	}
	f.Usage, f.Demand, f.Share = outcome.Round(f.Usage), outcome.Round(f.Demand), outcome.Round(f.Share)
	return f
}

func operationOf(o *outcome.Operation) *OperationFigures {
	return &OperationFigures{
		Pool: o.Pool, State: o.State, Started: o.Started, Finished: o.Finished, HasStarted: o.Started != never || o.Got != outcome.Vector{}, HasFinished: o.Finished != never,
		JobsStarted: o.Jobs.Started, Completed: o.Jobs.Completed, Preempted: o.Jobs.Preempted, Lost: o.Lost[resource.CPU],
		MeanWait: o.MeanWait, StarvingSeconds: o.StarvingSeconds,
	}
}

// never is the time of what did not happen.
const never = -1

// measure reports whether the sides differ, and by how much.
func (r *PoolRow) measure() bool {
	if r.Before == nil || r.After == nil {
		r.size = 2
		return true
	}
	r.size = math.Abs(r.Before.Usage-r.After.Usage) + math.Abs(r.Before.Share-r.After.Share)
	return *r.Before != *r.After
}

func (r *OperationRow) measure(horizon float64) bool {
	if r.Before == nil || r.After == nil {
		r.size = 2 * horizon
		return true
	}
	end := func(f *OperationFigures) float64 {
		if f.HasFinished {
			return f.Finished
		}
		return horizon
	}
	start := func(f *OperationFigures) float64 {
		if f.HasStarted {
			return f.Started
		}
		return horizon
	}
	r.size = math.Abs(end(r.Before)-end(r.After)) + math.Abs(start(r.Before)-start(r.After))
	return *r.Before != *r.After
}
