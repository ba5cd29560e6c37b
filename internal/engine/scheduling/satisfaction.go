package scheduling

import (
	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/value/resource"
)

// InfiniteSatisfaction is the satisfaction of an element without a fair
// share. It still runs when no other element needs the node.
const InfiniteSatisfaction = 1e9

// entitlement is the result of the last update for an element. The element is
// judged by it until the next update.
type entitlement struct {
	share  resource.Shares
	demand resource.Shares
}

// allBlocked reports whether the element gets all it demands of every
// resource.
func (e *entitlement) allBlocked() bool { return e.share.Dominates(e.demand) }

// coversDemand reports whether the fair share is the whole demand, but for
// rounding.
func (e *entitlement) coversDemand() bool {
	return e.share.Add(resource.Uniform(fairshare.LargeEpsilon)).Dominates(e.demand)
}

// exceeds reports whether a is larger than b, by more than rounding, where it
// matters: in every resource that the element does not get in full, or in any
// if it gets all in full. It is not an order.
func (e *entitlement) exceeds(a, b *resource.Shares) bool {
	all, any := true, false
	blocked := true
	for k := range a {
		// The tolerance is relative, because jobs may need almost nothing of some
		// resource.
		larger := a[k]-b[k] > fairshare.Epsilon*a[k]
		any = any || larger
		if e.share[k] < e.demand[k] {
			blocked = false
			all = all && larger
		}
	}
	if blocked {
		return any
	}
	return all
}

// satisfaction returns the ratio of usage to fair share.
func (e *entitlement) satisfaction(usage *resource.Shares) float64 {
	over, hasShare := 0.0, false
	for k, share := range e.share {
		if share > fairshare.Epsilon {
			hasShare = true
		}
		if usage[k] > share {
			if share == 0 {
				over = InfiniteSatisfaction
			} else {
				over = max(over, usage[k]/share)
			}
		}
	}
	if !hasShare {
		return InfiniteSatisfaction
	}
	if over > 0 {
		for k, share := range e.share { // the largest ratio of all resources
			if share > 0 {
				over = max(over, usage[k]/share)
			}
		}
		return min(over, InfiniteSatisfaction)
	}
	if e.allBlocked() {
		least := 1.0
		for k, share := range e.share {
			if share > 0 {
				least = min(least, usage[k]/share)
			}
		}
		return least
	}
	ratio := 0.0
	for k, share := range e.share {
		if share < e.demand[k] && share != 0 {
			ratio = max(ratio, usage[k]/share)
		}
	}
	return ratio
}
