package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/sim/distribution"
)

// ring is the regular heartbeats of all nodes. Each node has a fixed place within
// the period, so that the next heartbeat is simply the next in a circle: the many
// heartbeats of a large cluster cost nothing to keep in order.
type ring struct {
	period time.Duration
	places []place // by offset, then by node
	next   int     // index in places
	lap    time.Duration
}

type place struct {
	offset time.Duration
	node   NodeID
}

// newRing puts nodes at random places.
func newRing(nodes int, period time.Duration, seed distribution.Seed) ring {
	r := ring{period: period, places: make([]place, nodes)}
	for i := range r.places {
		stream := seed.At(i).Stream()
		offset := time.Duration(stream.Float64() * float64(period)).Truncate(time.Millisecond)
		r.places[i] = place{offset, NodeID(i)}
	}
	slices.SortFunc(r.places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.offset, b.offset), cmp.Compare(a.node, b.node))
	})
	return r
}

// at returns when the next heartbeat is.
func (r *ring) at() time.Duration { return r.lap + r.places[r.next].offset }

// take returns whose heartbeat it is and goes on to the one after it.
func (r *ring) take() NodeID {
	node := r.places[r.next].node
	if r.next++; r.next == len(r.places) {
		r.next, r.lap = 0, r.lap+r.period
	}
	return node
}

// skipTo leaves out all heartbeats before a moment, which is not before the next
// one.
func (r *ring) skipTo(moment time.Duration) {
	if moment <= r.at() {
		return
	}
	r.lap = moment / r.period * r.period
	r.next, _ = slices.BinarySearchFunc(r.places, moment-r.lap, func(p place, offset time.Duration) int {
		return cmp.Compare(p.offset, offset)
	})
	if r.next == len(r.places) {
		r.next, r.lap = 0, r.lap+r.period
	}
}
