package sim

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/sim/distribution"
)

// With pushes and pops in any order, the queue yields the same events as a slice
// sorted by time, kind and order of insertion.
func TestTheQueueAgreesWithASortedSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type entry struct {
			at       time.Duration
			kind     kind
			sequence int
			a        int32
		}
		var q queue
		var twin []entry
		for i := range rapid.IntRange(0, 300).Draw(t, "steps") {
			if len(twin) > 0 && rapid.IntRange(0, 2).Draw(t, "pop") == 0 {
				slices.SortFunc(twin, func(x, y entry) int {
					return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.kind, y.kind), cmp.Compare(x.sequence, y.sequence))
				})
				if top := q.top(); top.at != twin[0].at {
					t.Fatalf("the top is at %v, want %v", top.at, twin[0].at)
				}
				got := q.pop()
				if got.at != twin[0].at || got.kind() != twin[0].kind || got.a != twin[0].a {
					t.Fatalf("got %+v (%v), want %+v", got, got.kind(), twin[0])
				}
				twin = twin[1:]
				continue
			}
			e := entry{
				at:   time.Duration(rapid.IntRange(0, 9).Draw(t, "at")),
				kind: kind(rapid.IntRange(0, int(kindEnd)).Draw(t, "kind")), sequence: i, a: int32(i),
			}
			q.push(e.at, e.kind, e.a, 0)
			twin = append(twin, e)
		}
		if len(q.heap) != len(twin) {
			t.Fatalf("%d events are left, want %d", len(q.heap), len(twin))
		}
	})
}

func TestTheQueueDoesNotAllocateInSteadyState(t *testing.T) {
	var q queue
	for i := range 1000 {
		q.push(time.Duration(i*7919%1000), kindFinish, int32(i), 0)
	}
	allocations := testing.AllocsPerRun(1000, func() {
		e := q.pop()
		q.push(e.at+500, kindFinish, e.a, 0)
	})
	if allocations != 0 {
		t.Errorf("%v allocations per event", allocations)
	}
}

func BenchmarkQueue(b *testing.B) {
	var q queue
	stream := distribution.Seed(1).Stream()
	for i := range 200_000 {
		q.push(time.Duration(stream.Float64()*1e12), kindFinish, int32(i), 0)
	}
	b.ReportAllocs()
	for b.Loop() {
		e := q.pop()
		q.push(e.at+time.Duration(stream.Float64()*1e12), kindFinish, e.a, 0)
	}
}

// randomRing returns a ring with nodes at random places.
func randomRing(nodes int, period time.Duration, seed distribution.Seed) ring {
	places := make([]core.Beat, nodes)
	for i := range places {
		stream := seed.At(i).Stream()
		places[i] = core.Beat{After: time.Duration(stream.Float64() * float64(period)), Node: core.NodeID(i)}
	}
	return newRing(places, period)
}

func TestHeartbeatsComeOncePerPeriodInOrder(t *testing.T) {
	const nodes, period = 50, 5 * time.Second
	r := randomRing(nodes, period, 3)
	last := time.Duration(-1)
	first := map[core.NodeID]time.Duration{}
	for i := range 10 * nodes {
		at := r.at()
		node := r.take()
		if at < last {
			t.Fatalf("heartbeat %d is at %v, after one at %v", i, at, last)
		}
		last = at
		if i < nodes {
			if at >= period {
				t.Fatalf("the first heartbeat of node %d is at %v", node, at)
			}
			first[node] = at
		} else if want := first[node] + time.Duration(i/nodes)*period; at != want {
			t.Fatalf("heartbeat %d of node %d is at %v, want %v", i/nodes, node, at, want)
		}
	}
	if len(first) != nodes {
		t.Errorf("%d of %d nodes", len(first), nodes)
	}
}

func TestSkippingHeartbeatsIsTakingThemOneByOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := distribution.Seed(rapid.Uint64().Draw(t, "seed"))
		nodes := rapid.IntRange(1, 20).Draw(t, "nodes")
		slow, fast := randomRing(nodes, 100*time.Millisecond, seed), randomRing(nodes, 100*time.Millisecond, seed)
		for range rapid.IntRange(0, 30).Draw(t, "taken") {
			slow.take()
			fast.take()
		}
		moment := slow.at() + time.Duration(rapid.IntRange(0, 500).Draw(t, "milliseconds"))*time.Millisecond
		for slow.at() < moment {
			slow.take()
		}
		fast.skipTo(moment)
		if slow.at() != fast.at() || slow.take() != fast.take() {
			t.Fatalf("skipping to %v gives %v, want %v", moment, fast.at(), slow.at())
		}
	})
}
