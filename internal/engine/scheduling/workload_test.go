package scheduling

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/test/expected"
)

// testTree is a tree with a clock and names for slots.
type testTree struct {
	*Tree
	now   time.Time
	slots map[string]int32
}

func defaultSettings() Settings {
	config := pooltree.TreeConfig{}.Settings()
	return Settings{TreePreemption: config.Preemption, OvercommitPatience: 15 * time.Second}
}

// effective returns the effective settings of a pool with defaults.
func effective(mode pooltree.Mode, maxRunning, maxOperations int) pooltree.Effective {
	return pooltree.Effective{
		Mode: mode, MaxRunningOperationCount: maxRunning, MaxOperationCount: maxOperations,
		AllowAggressivePreemption: true, AllowNormalPreemption: true,
		Starvation: pooltree.Starvation{
			Tolerance: 0.8, FairShareTimeout: 30 * time.Second, MinShareTimeout: 30 * time.Second, AggressiveTimeout: 2 * time.Minute,
		},
	}
}

func newTestTree() *testTree {
	root := PoolParameters{Name: "<Root>", Effective: effective(pooltree.FairShare, 1_000_000, 1_000_000)}
	return &testTree{
		Tree: New(defaultSettings(), fairshare.DefaultOptions(), root),
		now:  time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), slots: map[string]int32{"root": 0},
	}
}

func (t *testTree) pool(parent, name string, settings fairshare.Pool, weight float64) int32 {
	mode := pooltree.FairShare
	if settings.Mode == fairshare.FIFO {
		mode = pooltree.FIFO
	}
	slot := t.AddPool(t.slots[parent], PoolParameters{
		Name: name, Element: fairshare.Element{Weight: weight, Pool: &settings}, Effective: effective(mode, 1000, 1000),
	})
	t.slots[name] = slot
	return slot
}

// operation adds an operation whose jobs all have the same size.
func (t *testTree) operation(tb testing.TB, pool, name string, job resource.Amounts, jobs int32) int32 {
	tb.Helper()
	slot, err := t.AddOperation(t.slots[pool], OperationParameters{Patience: effective(0, 0, 0).Starvation})
	if err != nil {
		tb.Fatal(err)
	}
	t.slots[name] = slot
	t.SetWaiting(slot, []Group{{Resources: job, Waiting: jobs}})
	return slot
}

// addNodes adds equal nodes.
func (t *testTree) addNodes(count int, limits resource.Amounts) {
	for range count {
		t.AddNode(limits, nil)
	}
}

// beat sends a heartbeat of every node.
func (t *testTree) beat() (starts, preemptions int) {
	var d Decisions
	for at := range t.nodes {
		t.Heartbeat(t.now, Node(at), &d)
		starts += len(d.Starts)
		preemptions += len(d.Preemptions)
		for _, p := range d.Preemptions {
			t.AddWaiting(p.Operation, t.allocations[p.Allocation].group, 1)
			t.FinishAllocation(p.Allocation)
		}
	}
	return starts, preemptions
}

// pass advances time and computes fair shares.
func (t *testTree) pass(d time.Duration) {
	t.now = t.now.Add(d)
	t.Update(t.now)
}

func (t *testTree) running(name string) int { return int(t.elements[t.slots[name]].operation.count) }

// workload is the placement workload with which similar schedulers were measured:
// nodes of 32 cpu and 128 GiB, 10 × leaves/10 pools with weights and guarantees,
// and 1000 operations that share the pending jobs evenly.
func workload(tb testing.TB, nodes, leaves, jobs int, guaranteed float64) *testTree {
	t := newTestTree()
	limits := resource.Amounts{resource.UserSlots: 1000, resource.CPU: 32_00, resource.Memory: 128 << 30}
	t.addNodes(nodes, limits)
	weights, parents := 0.0, make([]float64, 10)
	for l := range leaves {
		w := float64(1 + l%4)
		weights += w
		parents[l%10] += w
	}
	guarantee := func(weight float64) fairshare.Pool {
		return fairshare.Pool{Strong: resource.Partial{}.With(resource.CPU, int64(guaranteed*float64(t.total[resource.CPU])*weight/weights))}
	}
	for p := range 10 {
		t.pool("root", fmt.Sprint("parent", p), guarantee(parents[p]), 1)
	}
	for l := range leaves {
		t.pool(fmt.Sprint("parent", l%10), fmt.Sprint("leaf", l), guarantee(float64(1+l%4)), float64(1+l%4))
	}
	job := resource.Amounts{resource.UserSlots: 1, resource.CPU: 1_00, resource.Memory: 4 << 30}
	operations := max(1000, leaves)
	for i := range operations {
		each := jobs / operations
		if i < jobs%operations {
			each++
		}
		t.operation(tb, fmt.Sprint("leaf", i%leaves), fmt.Sprint("op", i), job, int32(each))
	}
	return t
}

func BenchmarkPlacement(b *testing.B) {
	for _, c := range []struct{ nodes, leaves, jobs int }{
		{1000, 100, 10_000}, {5000, 100, 50_000}, {10_000, 100, 50_000}, {1000, 1000, 10_000},
	} {
		b.Run(fmt.Sprintf("nodes=%d/leaves=%d/jobs=%d", c.nodes, c.leaves, c.jobs), func(b *testing.B) {
			placed := 0
			for b.Loop() {
				b.StopTimer()
				t := workload(b, c.nodes, c.leaves, c.jobs, 1)
				b.StartTimer()
				t.pass(time.Second)
				starts, _ := t.beat()
				placed += starts
			}
			if placed != b.N*c.jobs {
				b.Fatalf("placed %d jobs of %d", placed, b.N*c.jobs)
			}
			b.ReportMetric(float64(placed)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}

// BenchmarkPreemption fills the cluster with the workload's jobs, whose guarantees
// are half of it. Then a new pool demands the other half.
func BenchmarkPreemption(b *testing.B) {
	const nodes, wanted = 1000, 10_000
	started := 0
	var cpu expected.Stopwatch
	for b.Loop() {
		b.StopTimer()
		t := workload(b, nodes, 100, nodes*32, 0.5)
		t.pass(time.Second)
		t.beat()
		half := resource.Partial{}.With(resource.CPU, t.total[resource.CPU]/2)
		pool := t.pool("root", "new", fairshare.Pool{Strong: half}, 1)
		job := resource.Amounts{resource.UserSlots: 1, resource.CPU: 1_00, resource.Memory: 4 << 30}
		newcomer := t.operation(b, "new", "newcomer", job, wanted)
		for _, slot := range []int32{pool, newcomer} {
			t.elements[slot].patience.Tolerance = 1 // else preemption stops at a part of the fair share
		}
		t.settings.BoundaryJobIsPreemptible = document.Some(true) // else every operation keeps a job more
		t.pass(time.Second)
		t.pass(31 * time.Second)
		b.StartTimer()
		cpu.Start()
		for {
			t.pass(6 * time.Second)
			starts, _ := t.beat()
			if starts == 0 {
				break
			}
			started += starts
		}
		cpu.Stop()
		if got := t.running("newcomer"); got < wanted {
			b.Fatalf("the newcomer runs %d jobs of %d", got, wanted)
		}
	}
	b.ReportMetric(float64(started)/b.Elapsed().Seconds(), "jobs/s")
	cpu.Report(b)
}

// bigCluster is a full cluster of 10,000 nodes: 1000 pools, 10,000 operations and
// 200,000 running allocations. Every operation has more jobs waiting.
func bigCluster(tb testing.TB) *testTree {
	t := newTestTree()
	t.addNodes(10_000, resource.Amounts{resource.UserSlots: 100, resource.CPU: 20_00, resource.Memory: 80 << 30})
	for p := range 30 {
		t.pool("root", fmt.Sprint("parent", p), fairshare.Pool{}, 1)
	}
	for l := range 970 {
		mode := fairshare.FairShare
		if l%3 == 0 {
			mode = fairshare.FIFO
		}
		t.pool(fmt.Sprint("parent", l%30), fmt.Sprint("leaf", l), fairshare.Pool{Mode: mode}, float64(1+l%4))
	}
	job := resource.Amounts{resource.UserSlots: 1, resource.CPU: 1_00, resource.Memory: 4 << 30}
	for i := range 10_000 {
		t.operation(tb, fmt.Sprint("leaf", i%970), fmt.Sprint("op", i), job, int32(20+i%50))
	}
	t.pass(time.Second)
	t.beat()
	return t
}

// BenchmarkHeartbeat measures heartbeats of nodes on which one job has finished. In
// the preemptive case, some 850 of the operations starve: those that are below their
// fair share by more than a fifth, or by anything if their tolerance is 1, which a
// third of them have. There, only heartbeats count that consider preemption.
func BenchmarkHeartbeat(b *testing.B) {
	for _, preemptive := range []bool{false, true} {
		b.Run(fmt.Sprintf("nodes=10000/operations=10000/preemptive=%v", preemptive), func(b *testing.B) {
			t := bigCluster(b)
			t.pass(time.Second)
			if preemptive {
				for slot := range t.elements {
					if slot%7 < 2 {
						t.elements[slot].patience.Tolerance = 1
					}
				}
				t.pass(time.Minute)
				t.pass(time.Minute)
			}
			times := make([]time.Duration, 0, 1<<20)
			var d Decisions
			at := 0
			for b.Loop() {
				if at%20_000 == 0 {
					b.StopTimer()
					t.pass(6 * time.Second)
					b.StartTimer()
				}
				id := Node(at % len(t.nodes))
				at++
				if list := t.nodes[id].allocations; len(list) > 0 {
					a := list[at%len(list)]
					slot, group := t.allocations[a].operation, t.allocations[a].group
					t.FinishAllocation(a)
					t.AddWaiting(slot, group, 1)
				}
				began := time.Now()
				t.Heartbeat(t.now, id, &d)
				if took := time.Since(began); d.Preemptive || !preemptive {
					times = append(times, took)
				}
				for _, p := range d.Preemptions {
					t.AddWaiting(p.Operation, t.allocations[p.Allocation].group, 1)
					t.FinishAllocation(p.Allocation)
				}
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2].Nanoseconds()), "p50-ns")
			b.ReportMetric(float64(times[len(times)*99/100].Nanoseconds()), "p99-ns")
			b.ReportMetric(float64(len(times)), "counted")
			b.ReportMetric(float64(len(t.starving[0])+len(t.starving[1])), "starving")
			b.ReportMetric(float64(len(t.allocations)-len(t.freeAllocs)), "allocations")
		})
	}
}
