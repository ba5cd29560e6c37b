package sim

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/sim/outcome"
	"github.com/weirhq/weir/internal/value/resource"
)

// scripted is a system that does what a test says. By itself it places operations
// in the root and does nothing else.
type scripted struct {
	heartbeat func(now time.Time, node NodeID, finished []Finished, out *Decisions)
	update    func(now time.Time, out *Decisions)
	start     func(c StartOperation, out *Decisions)
	remove    func(c RemoveNode, out *Decisions)
	observe   func(into *Observation)
}

func (s *scripted) Apply(_ time.Time, change Change, out *Decisions) error {
	switch c := change.(type) {
	case StartOperation:
		out.Placed = append(out.Placed, Placed{Operation: c.Operation, Pool: "<Root>"})
		if s.start != nil {
			s.start(c, out)
		}
	case RemoveNode:
		if s.remove != nil {
			s.remove(c, out)
		}
	}
	return nil
}

func (s *scripted) Heartbeat(now time.Time, node NodeID, finished []Finished, out *Decisions) {
	if s.heartbeat != nil {
		s.heartbeat(now, node, finished, out)
	}
}

func (s *scripted) Update(now time.Time, out *Decisions) {
	if s.update != nil {
		s.update(now, out)
	}
}

func (s *scripted) Observe(_ time.Time, into *Observation) {
	into.Trees = append(into.Trees[:0], TreeState{Total: resource.Amounts{resource.CPU: 200, resource.UserSlots: 2}})
	into.Pools = append(into.Pools[:0], PoolState{Name: "<Root>", Parent: -1})
	into.Operations = into.Operations[:0]
	if s.observe != nil {
		s.observe(into)
	}
}

const oneNode = `
duration: 1h
nodes: [{name: n, count: 2, resources: {cpu: 2}}]
scheduler: {heartbeat_period: 1s}
operations: {x: {job_count: 9, duration: 10m}}
events: [{at: 30m, lose_nodes: {group: n, count: 1}}]
`

// starts answers the first heartbeat with these jobs.
func starts(list ...Started) func(time.Time, NodeID, []Finished, *Decisions) {
	done := false
	return func(_ time.Time, _ NodeID, _ []Finished, out *Decisions) {
		if !done {
			done = true
			out.Started = append(out.Started, list...)
		}
	}
}

func TestSystemsThatBreakTheirContractEndTheRun(t *testing.T) {
	tests := []struct {
		name   string
		system scripted
		want   string
	}{
		{"an unknown operation", scripted{heartbeat: starts(Started{Operation: 5})}, "starts a job of operation 5, which does not exist"},
		{"an unknown node", scripted{heartbeat: starts(Started{Node: 7})}, "starts a job on node 7, which is not there"},
		{"a job that the operation does not have", scripted{heartbeat: starts(Started{Index: 9})}, "starts job 9 of operation x in tree 0, where it has no such job to run"},
		{"a tree where the operation is not", scripted{heartbeat: starts(Started{Tree: 1})}, "starts job 0 of operation x in tree 1"},
		{"one job twice", scripted{heartbeat: starts(Started{Job: 3}, Started{Job: 3, Index: 1})}, "starts job 3 twice"},
		{"too many jobs on a node", scripted{heartbeat: starts(Started{Job: 1}, Started{Job: 2, Index: 1}, Started{Job: 3, Index: 2})}, "starts a job of operation x on node n-1, which is full"},
		{"stopping what does not run", scripted{update: func(_ time.Time, out *Decisions) { out.Stopped = append(out.Stopped, Stopped{Job: 4}) }}, "stops job 4, which does not run"},
		{"an operation that ends twice", scripted{update: func(_ time.Time, out *Decisions) {
			out.Operations = append(out.Operations, OperationChange{State: Aborted}, OperationChange{State: Completed})
		}}, "reports operation x as completed after it has ended as aborted"},
		{"jobs left on a node that is gone", scripted{heartbeat: func() func(time.Time, NodeID, []Finished, *Decisions) {
			next := JobID(0)
			return func(now time.Time, node NodeID, _ []Finished, out *Decisions) {
				// A job in the 29th minute runs when the node is lost.
				if node == 0 && next == 0 && now.Minute() == 29 {
					next++
					out.Started = append(out.Started, Started{Job: next})
				}
			}
		}()}, "does not stop job 1 of node n-1, which is gone"},
		{"a pool below one that follows it", scripted{observe: func(into *Observation) { into.Pools[0].Parent = 0 }}, `observes pool "<Root>" in tree 0 below pool 0, which cannot be`},
		{"no trees", scripted{observe: func(into *Observation) { into.Trees = nil }}, "observes 0 trees, but there are 1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := Run(context.Background(), read(t, oneNode), &test.system, nil)
			if err == nil || !strings.Contains(err.Error(), "the scheduler "+test.want) {
				t.Errorf("got %v, want: the scheduler %s", err, test.want)
			}
		})
	}
}

// gracefulSystem runs one job at a time and asks it to leave at one minute.
func gracefulSystem(grace time.Duration, reports *[]Finished) *scripted {
	next, running, asked := JobID(0), JobID(0), false
	index := int32(0)
	var begin time.Time
	return &scripted{
		heartbeat: func(now time.Time, node NodeID, finished []Finished, out *Decisions) {
			if begin.IsZero() {
				begin = now
			}
			for _, f := range finished {
				*reports = append(*reports, f)
				running = 0
				if !f.Aborted {
					if index++; index == 2 {
						out.Operations = append(out.Operations, OperationChange{State: Completed})
					}
				}
			}
			if node == 0 && running == 0 && index < 2 {
				next++
				running = next
				out.Started = append(out.Started, Started{Job: next, Index: index})
			}
		},
		update: func(now time.Time, out *Decisions) {
			if !asked && running > 0 && now.Sub(begin) >= time.Minute {
				asked = true
				stop := Stopped{Job: running, Kind: Preempted, Reason: "graceful", For: NoOperation, Grace: grace}
				out.Stopped = append(out.Stopped, stop, stop) // a repeated request changes nothing
			}
		},
	}
}

func TestAJobWithGraceEndsWhenTheGraceDoes(t *testing.T) {
	text := "nodes: [{name: n, resources: {cpu: 1}}]\nscheduler: {heartbeat_period: 1s}\noperations: {x: {job_count: 2, duration: 10m}}"
	for _, test := range []struct {
		grace                time.Duration
		reports              string
		preempted, completed int64
		lost                 float64
	}{
		{5 * time.Minute, "[{1 true} {2 false} {3 false}]", 1, 2, 360},
		{15 * time.Minute, "[{1 false} {2 false}]", 0, 2, 0},
	} {
		var reports []Finished
		r, err := Run(context.Background(), read(t, text), gracefulSystem(test.grace, &reports), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(reports); got != test.reports {
			t.Errorf("grace %v: reports %s, want %s", test.grace, got, test.reports)
		}
		if r.Cluster.Jobs.Preempted != test.preempted || r.Cluster.Jobs.Completed != test.completed {
			t.Errorf("grace %v: %+v", test.grace, r.Cluster.Jobs)
		}
		near(t, "lost", r.Cluster.Lost[resource.CPU], test.lost, 2)
	}
}

// A pool with a guarantee of two cores that asks for two and has one of them for
// ten of twenty minutes.
func TestComplianceWithAGuaranteeByHand(t *testing.T) {
	next := JobID(0)
	running := 0
	system := &scripted{
		start: func(c StartOperation, out *Decisions) {
			out.Placed[0].Pool = "a"
		},
		heartbeat: func(now time.Time, node NodeID, _ []Finished, out *Decisions) {
			wanted := 1
			if now.Minute() >= 10 {
				wanted = 2
			}
			for running < wanted {
				next++
				running++
				out.Started = append(out.Started, Started{Job: next, Index: int32(next - 1)})
			}
		},
		observe: func(into *Observation) {
			into.Pools = append(into.Pools, PoolState{
				Name: "a", Demand: resource.Amounts{resource.CPU: 200, resource.UserSlots: 2},
			})
		},
	}
	r, err := Run(context.Background(), read(t, `
duration: 20m
nodes: [{name: n, resources: {cpu: 2}}]
pools: {a: {min_share_resources: {cpu: 2}}}
scheduler: {heartbeat_period: 1s}
statistics: {period: 1s}
operations: {x: {pool: a, job_count: 2, duration: 1h}}
`), system, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := poolNamed(t, r, "a").Guarantee
	near(t, "demanding", c.DemandingSeconds, 1200, 0.1)
	near(t, "below", c.BelowSeconds, 600, 2)
	near(t, "the longest time below", c.LongestSeconds, 600, 2)
	near(t, "missing", c.Missing[resource.CPU], 600, 2)
}

func TestPercentilesAreThoseOfTheSortedList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.IntRange(0, 100_000), 1, 300).Draw(t, "waits")
		var w waits
		sum := 0.0
		for _, v := range list {
			w.add(time.Duration(v) * waitUnit)
			sum += float64(v) / 100
		}
		slices.Sort(list)
		f := w.figures()
		for part, got := range map[float64]float64{0.5: f.P50, 0.9: f.P90, 0.99: f.P99, 1: f.Max} {
			// The smallest value that at least this part does not exceed.
			i := slices.IndexFunc(list, func(v int) bool {
				below := 0
				for _, other := range list {
					if other <= v {
						below++
					}
				}
				return float64(below) >= part*float64(len(list))-1e-9
			})
			if want := outcome.Round(float64(list[i]) / 100); got != want {
				t.Fatalf("percentile %v is %v, want %v", part, got, want)
			}
		}
		if math.Abs(f.Mean-sum/float64(len(list))) > 1e-5*f.Mean+1e-9 || f.Count != int64(len(list)) {
			t.Fatalf("mean %v of %d", f.Mean, f.Count)
		}
		total := int64(0)
		for _, b := range w.histogram() {
			total += b.Count
		}
		if total != f.Count {
			t.Fatalf("the histogram has %d of %d", total, f.Count)
		}
	})
	var w waits
	w.add(1 << 62)
	if w[0] != math.MaxUint32 {
		t.Errorf("an endless wait is %d", w[0])
	}
}

// Joining intervals keeps sums, and there are never more intervals than allowed.
func TestSeriesStayBoundedAndKeepTheirSums(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := series{step: time.Second, most: rapid.IntRange(2, 20).Draw(t, "most"), kinds: []resource.Kind{resource.CPU}}
		s.cluster = curve{width: 5}
		var pools []poolAccount
		sums := map[int]float64{}
		for second := range rapid.IntRange(1, 300).Draw(t, "seconds") {
			if rapid.IntRange(0, 40).Draw(t, "new") == 0 {
				pools = append(pools, poolAccount{curve: s.newCurve()})
			}
			interval := s.at(time.Duration(second)*time.Second, pools)
			s.cluster.row(interval)[0]++
			for i := range pools {
				if v := float64(rapid.IntRange(0, 3).Draw(t, "value")); v > 0 {
					pools[i].curve.row(interval)[2] += v
					sums[i] += v
				}
			}
			if s.count > s.most {
				t.Fatalf("%d intervals, at most %d", s.count, s.most)
			}
		}
		end := time.Duration(s.count) * s.step
		for i := range pools {
			got := 0.0
			for _, v := range s.column(&pools[i].curve, 2, end, true) {
				got += v
			}
			if math.Abs(got-sums[i]) > 1e-6 {
				t.Fatalf("pool %d has %v, want %v", i, got, sums[i])
			}
		}
	})
}

func TestRingsOfOneNodeAndLongPeriodsWork(t *testing.T) {
	r := simulate(t, `
duration: 1h
nodes: [{resources: {cpu: 1}}]
scheduler: {heartbeat_period: 10m}
operations: {x: {job_count: 3, duration: 1m}}
expect: [{operation: x, started_by: 10m, state: completed}]
`, newStandIn(false))
	if r.Cluster.Work.Heartbeats > 10 {
		t.Errorf("%d heartbeats", r.Cluster.Work.Heartbeats)
	}
}
