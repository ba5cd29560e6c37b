package sim

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/value/resource"
)

// countingSystem is as little of a scheduler as can be: a queue of operations and
// a count of free cores on each node. With it a run costs what the simulator
// itself costs.
type countingSystem struct {
	free    []resource.Amounts
	queue   []OperationID
	ops     []countedOperation
	jobs    []countedJob // by JobID
	unused  []JobID
	pools   []string
	poolOf  map[string]int32
	running int32
	pending int32
}

type countedOperation struct {
	each             resource.Amounts
	jobs, next, done int32
	pool             string
}

type countedJob struct {
	node NodeID
	op   OperationID
}

func (s *countingSystem) Apply(_ time.Time, change Change, out *Decisions) error {
	switch c := change.(type) {
	case SetTrees:
		s.poolOf = map[string]int32{}
		for p := range c.Trees[0].Value.Pools() {
			s.poolOf[p.Name()] = int32(len(s.pools))
			s.pools = append(s.pools, p.Name())
		}
	case AddNode:
		s.free = append(s.free, c.Resources)
	case StartOperation:
		pool := c.Options.Pool.Or(c.User)
		s.ops = append(s.ops, countedOperation{each: c.Resources, jobs: int32(c.Jobs), pool: pool})
		s.queue = append(s.queue, c.Operation)
		s.pending += int32(c.Jobs)
		out.Placed = append(out.Placed, Placed{Operation: c.Operation, Pool: pool})
		out.Operations = append(out.Operations, OperationChange{Operation: c.Operation, State: Running})
	}
	return nil
}

func (s *countingSystem) Heartbeat(_ time.Time, node NodeID, finished []Finished, out *Decisions) {
	for _, f := range finished {
		j := s.jobs[f.Job]
		o := &s.ops[j.op]
		s.free[node] = s.free[node].Add(o.each)
		s.unused = append(s.unused, f.Job)
		s.running--
		if o.done++; o.done == o.jobs {
			out.Operations = append(out.Operations, OperationChange{Operation: j.op, State: Completed})
		}
	}
	for len(s.queue) > 0 {
		o := &s.ops[s.queue[0]]
		if !s.free[node].Dominates(o.each) {
			return
		}
		s.free[node] = s.free[node].Sub(o.each)
		id := JobID(len(s.jobs))
		if n := len(s.unused); n > 0 {
			id = s.unused[n-1]
			s.unused = s.unused[:n-1]
		} else {
			s.jobs = append(s.jobs, countedJob{})
		}
		s.jobs[id] = countedJob{node, s.queue[0]}
		out.Started = append(out.Started, Started{Job: id, Operation: s.queue[0], Index: o.next, Node: node, Stage: "regular"})
		s.running++
		s.pending--
		if o.next++; o.next == o.jobs {
			s.queue = s.queue[1:]
		}
	}
}

func (s *countingSystem) Update(time.Time, *Decisions) {}

func (s *countingSystem) Observe(_ time.Time, into *Observation) {
	into.Trees = append(into.Trees[:0], TreeState{})
	into.Pools = append(into.Pools[:0], PoolState{Name: "<Root>", Parent: -1, FairShare: fairshare.Split{Total: resource.Ones()}})
	for _, name := range s.pools {
		into.Pools = append(into.Pools, PoolState{Name: name})
	}
	into.Operations = into.Operations[:0]
	if into.WithOperations {
		for _, id := range s.queue {
			into.Operations = append(into.Operations, OperationView{Operation: id})
		}
	}
}

// A day of ten thousand nodes and a million jobs, without a scheduler: what the
// simulator adds to it.
func BenchmarkDayOfTenThousandNodesAndAMillionJobs(b *testing.B) {
	s := read(b, `
duration: 1d
nodes: [{name: n, count: 10000, resources: {cpu: 32, memory: 128GiB}}]
pools: {a: {}, b: {}, c: {}, d: {}}
operations:
  - {name: w, pool: a, arrival: {every: 40s}, job_count: 250, duration: {distribution: lognormal, median: 10m, sigma: 1}}
  - {name: x, pool: b, arrival: {every: 40s}, job_count: 250, duration: {distribution: exponential, mean: 20m}}
  - {name: y, pool: c, arrival: {every: 80s}, job_count: 250, duration: 30m}
`)
	for b.Loop() {
		r, err := Run(context.Background(), s, &countingSystem{}, nil)
		if err != nil {
			b.Fatal(err)
		}
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		b.ReportMetric(float64(r.Cluster.Jobs.Started), "jobs")
		b.ReportMetric(float64(r.Cluster.Work.Heartbeats), "heartbeats")
		b.ReportMetric(float64(memory.HeapAlloc>>20), "heap-MB")
	}
}
