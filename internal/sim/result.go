package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/sim/outcome"
)

// result closes the books.
func (r *run) result() *outcome.Result {
	result := &outcome.Result{
		Format: outcome.Format, Scenario: r.scenario.Name, Description: r.scenario.Description,
		Seed: r.scenario.Seed, Start: r.scenario.Start.UTC(), Seconds: (r.now - r.from).Seconds(), Stalled: r.stalled,
		Dated: r.scenario.Dated, GPUThousandths: r.scenario.GPUThousandths, Cluster: r.clusterResult(), Pools: []outcome.Pool{}, Operations: []outcome.Operation{},
	}
	for _, list := range r.expectations.results {
		result.Expectations = append(result.Expectations, list...)
	}
	result.Promises = r.promises.results(r.date())
	for i := range r.operations {
		if i >= r.scenario.Statistics.Operations {
			result.OperationsOmitted = len(r.operations) - i
			break
		}
		result.Operations = append(result.Operations, r.operationResult(&r.operations[i]))
	}
	s := &r.books.series
	result.Series = outcome.Series{Step: s.step.Seconds(), Pools: []outcome.PoolSeries{}, Cluster: s.clusterSeries(r.now)}
	order := r.books.order()
	for i := range order {
		p := &r.books.pools[order[i].pool]
		result.Pools = append(result.Pools, r.poolResult(order[i:]))
		result.Series.Pools = append(result.Series.Pools, s.poolSeries(p, r.trees[p.tree].Name, r.now))
	}
	return result
}

func (r *run) clusterResult() outcome.Cluster {
	b := &r.books
	c := outcome.Cluster{
		Nodes: len(r.nodes), Used: b.cluster.used.Rounded(), Lost: b.cluster.lost.Rounded(), Jobs: b.cluster.jobs,
		Waits: b.waits.figures(), OperationWaits: b.operationWaits.figures(), Work: r.work,
		Stages: b.stages.counts(b.stageCounts), Reasons: b.reasons.counts(b.reasonCounts),
		Operations: outcome.OperationCounts{Arrived: b.arrived},
	}
	c.Histogram = b.waits.histogram() // figures has sorted them
	for k := range c.Capacity {
		if room := b.room.used[k]; room > 0 && r.now > r.from {
			c.Capacity[k] = outcome.Round(room / (r.now - r.from).Seconds())
			c.Utilisation[k] = outcome.Round(b.cluster.used[k] / room)
		}
	}
	for i := range r.operations {
		switch o := &r.operations[i]; {
		case o.rejected:
			c.Operations.Rejected++
		case o.state == operation.Completed:
			c.Operations.Completed++
		case o.state == operation.Failed:
			c.Operations.Failed++
		case o.state == operation.Aborted:
			c.Operations.Aborted++
		default:
			c.Operations.Unfinished++
		}
	}
	return c
}

// counts returns the count under each name, the most frequent first.
func (n *names) counts(list []int32Count) (counts []outcome.Count) {
	for _, c := range list {
		counts = append(counts, outcome.Count{Name: n.names[c.key], Count: c.count})
	}
	slices.SortFunc(counts, func(a, b outcome.Count) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
	return counts
}

// visit is a pool in the order of results.
type visit struct{ pool, depth int }

// order returns all pools, tree after tree, parents before children, siblings in
// the order in which they became known.
func (b *books) order() (list []visit) {
	children := make([][]int, len(b.pools))
	var roots []int
	for i := range b.pools {
		if parent := b.pools[i].parent; parent >= 0 {
			children[parent] = append(children[parent], i)
		} else {
			roots = append(roots, i)
		}
	}
	slices.SortStableFunc(roots, func(a, c int) int { return cmp.Compare(b.pools[a].tree, b.pools[c].tree) })
	var descend func(pool, depth int)
	descend = func(pool, depth int) {
		list = append(list, visit{pool, depth})
		for _, child := range children[pool] {
			descend(child, depth+1)
		}
	}
	for _, root := range roots {
		descend(root, 0)
	}
	return list
}

// poolResult returns the figures of the first pool in order, in which everything
// below the pool follows it.
func (r *run) poolResult(order []visit) outcome.Pool {
	b := &r.books
	p := &b.pools[order[0].pool]
	result := outcome.Pool{
		Tree: r.trees[p.tree].Name, Name: p.name, Depth: order[0].depth, Ephemeral: p.ephemeral, Integral: p.integral,
		Entitled: p.entitled.Rounded(), Guaranteed: p.guaranteed.Rounded(), Asked: p.asked.Rounded(), Got: p.got.Rounded(),
		StarvingSeconds: outcome.Round(p.starving),
	}
	if p.there {
		result.Volume = outcome.Round(p.state.volume)
	}
	if p.parent >= 0 {
		result.Parent = b.pools[p.parent].name
	}
	c := p.compliance
	result.Guarantee = outcome.Compliance{
		DemandingSeconds: outcome.Round(c.DemandingSeconds), BelowSeconds: outcome.Round(c.BelowSeconds),
		LongestSeconds: outcome.Round(c.LongestSeconds), Missing: c.Missing.Rounded(),
	}
	var all, operations waits
	var lost outcome.Vector
	for i, visit := range order {
		if i > 0 && visit.depth <= order[0].depth {
			break
		}
		q := &b.pools[visit.pool]
		result.Jobs = addJobs(result.Jobs, q.jobs)
		result.PreemptionsCaused += q.caused
		result.Operations += q.operations
		add(&lost, &q.lost, 1)
		all = append(all, q.waits...)
		operations = append(operations, q.operationWaits...)
	}
	result.Lost, result.Waits, result.OperationWaits = lost.Rounded(), all.figures(), operations.figures()
	return result
}

func (r *run) operationResult(o *operationAccount) outcome.Operation {
	o.accrue(r.now)
	seconds := func(at time.Duration) float64 {
		if at == never {
			return -1
		}
		return at.Round(time.Millisecond).Seconds()
	}
	result := outcome.Operation{
		Name: o.name, State: o.state.String(), Reason: o.reason, JobCount: o.jobCount,
		Arrived: seconds(o.arrived), Started: seconds(o.started), Finished: seconds(o.finished),
		Entitled: o.entitled.Rounded(), Asked: o.asked.Rounded(), Got: o.used.Rounded(), Lost: o.lost.Rounded(),
		Jobs: o.jobs, PreemptionsCaused: o.caused, StarvingSeconds: outcome.Round(o.starving),
		MaxWait: outcome.Round(o.waits.max.Seconds()),
	}
	if o.demand != nil {
		result.JobCount = 0
	}
	if o.template != o.name {
		result.Template = o.template
	}
	if o.rejected {
		result.State = "rejected"
	}
	if o.first.pool >= 0 {
		result.Pool = r.books.pools[o.first.pool].name
	}
	if o.waits.count > 0 {
		result.MeanWait = outcome.Round(o.waits.sum.Seconds() / float64(o.waits.count))
	}
	return result
}

func (s *series) clusterSeries(end time.Duration) outcome.ClusterSeries {
	n := len(s.kinds) * clusterColumnsPerKind
	return outcome.ClusterSeries{
		Capacity:    s.curves(&s.cluster, columnCapacity, clusterColumnsPerKind, end),
		Usage:       s.curves(&s.cluster, columnUsed, clusterColumnsPerKind, end),
		RunningJobs: s.column(&s.cluster, n, end, false),
		PendingJobs: s.column(&s.cluster, n+1, end, false),
		Preemptions: s.column(&s.cluster, n+2, end, true),
	}
}

func (s *series) poolSeries(p *poolAccount, tree string, end time.Duration) outcome.PoolSeries {
	n := len(s.kinds) * columnsPerKind
	result := outcome.PoolSeries{
		Tree: tree, Name: p.name,
		FairShare:   s.curves(&p.curve, columnFairShare, columnsPerKind, end),
		Guaranteed:  s.curves(&p.curve, columnGuaranteed, columnsPerKind, end),
		Usage:       s.curves(&p.curve, columnUsage, columnsPerKind, end),
		Demand:      s.curves(&p.curve, columnDemand, columnsPerKind, end),
		Preemptions: s.column(&p.curve, n+1, end, true),
	}
	if p.integral {
		result.Volume = s.column(&p.curve, n, end, false)
	}
	return result
}
