package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/sim/scenario"
)

// ring is the regular heartbeats of all nodes. Each node has a fixed place within
// the period, so the next heartbeat is the next one in a circle: keeping the many
// heartbeats of a large cluster in order costs nothing.
type ring struct {
	period time.Duration
	places []core.Beat // by offset, then by node
	next   int         // index in places
	lap    time.Duration
}

// newRing sorts nodes by their places.
func newRing(places []core.Beat, period time.Duration) ring {
	slices.SortFunc(places, func(a, b core.Beat) int {
		return cmp.Or(cmp.Compare(a.After, b.After), cmp.Compare(a.Node, b.Node))
	})
	return ring{period: period, places: places}
}

// at returns when the next heartbeat is; Forever if there are no nodes.
func (r *ring) at() time.Duration {
	if len(r.places) == 0 {
		return scenario.Forever
	}
	return r.lap + r.places[r.next].After
}

// row returns a number of heartbeats from the next one on, of the same period. Their
// times count from its start.
func (r *ring) row() []core.Beat { return r.places[r.next:min(r.next+256, len(r.places))] }

// take returns the node whose heartbeat is next and advances to the one after it.
func (r *ring) take() core.NodeID {
	node := r.places[r.next].Node
	r.skip(1)
	return node
}

// skip advances over a number of heartbeats of the period.
func (r *ring) skip(count int) {
	if r.next += count; r.next == len(r.places) {
		r.next, r.lap = 0, r.lap+r.period
	}
}

// skipTo skips all heartbeats before a moment, which is not before the next one.
func (r *ring) skipTo(moment time.Duration) {
	if moment <= r.at() {
		return
	}
	r.lap = moment / r.period * r.period
	r.next, _ = slices.BinarySearchFunc(r.places, moment-r.lap, func(b core.Beat, offset time.Duration) int {
		return cmp.Compare(b.After, offset)
	})
	if r.next == len(r.places) {
		r.next, r.lap = 0, r.lap+r.period
	}
}
