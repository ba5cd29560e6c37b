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
	places []place // by offset, then by node
	next   int     // index in places
	lap    time.Duration
}

type place struct {
	offset time.Duration
	node   core.NodeID
}

// newRing sorts nodes by their places.
func newRing(places []place, period time.Duration) ring {
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.offset, b.offset), cmp.Compare(a.node, b.node))
	})
	return ring{period: period, places: places}
}

// at returns when the next heartbeat is; Forever if there are no nodes.
func (r *ring) at() time.Duration {
	if len(r.places) == 0 {
		return scenario.Forever
	}
	return r.lap + r.places[r.next].offset
}

// peek returns the node whose heartbeat is next.
func (r *ring) peek() core.NodeID { return r.places[r.next].node }

// take returns the node whose heartbeat is next and advances to the one after it.
func (r *ring) take() core.NodeID {
	node := r.places[r.next].node
	if r.next++; r.next == len(r.places) {
		r.next, r.lap = 0, r.lap+r.period
	}
	return node
}

// skipTo skips all heartbeats before a moment, which is not before the next one.
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
