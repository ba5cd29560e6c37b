package fairshare

import (
	"slices"

	"github.com/weirhq/weir/internal/value/resource"
)

// The function of an operation has a closed form. Let u, d and l be the shares
// of its usage, demand and limits, and m the largest component of u.
//
//	s <= m  what is already running is kept first: min(u, s) in each component,
//	s >  m  a straight line from u towards d, as far as s and l allow.
//
// A gang takes nothing until s covers its whole demand, then all of it.

var nothing resource.Shares

// operationAt returns the share an operation takes at suggestion s.
func operationAt(n *node, s float64) resource.Shares {
	if n.steps {
		if s > n.demand.Largest() && n.limits.Dominates(n.demand) {
			return n.demand
		}
		return nothing
	}
	kept := min(s, keepable(n))
	if running := n.usage.Largest(); kept <= running {
		return keep(n, kept)
	}
	t := 1.0
	for k := range n.demand {
		if rise := n.demand[k] - n.usage[k]; rise > 0 {
			t = min(t, (min(s, n.limits[k])-n.usage[k])/rise)
		}
	}
	return between(&n.usage, &n.demand, rounded(t))
}

// operationShare is operationAt for an operation of a FIFO pool. Most of them get all
// they can take, which is computed once.
func operationShare(n *node, s float64) resource.Shares {
	if s < 1 {
		return operationAt(n, s)
	}
	if n.mostStamp != n.stamp {
		n.mostStamp, n.most = n.stamp, operationAt(n, 1)
	}
	return n.most
}

// fullAt returns a suggestion above which an operation takes the same, whatever the
// suggestion.
func fullAt(n *node) float64 {
	if n.steps {
		return n.demand.Largest()
	}
	full := n.usage.Largest()
	for k, limit := range n.limits {
		full = max(full, min(limit, n.demand[k]))
	}
	return full
}

// rounded is t as it comes out of a fit factor between 1 and 2. YTsaurus
// computes operations by that factor, and at a limit the last bit can matter.
func rounded(t float64) float64 {
	return betweenNumbers(1, 2, max(t, 0)) - 1
}

// keep is the part of its usage that an operation keeps at suggestion s.
func keep(n *node, s float64) (v resource.Shares) {
	for k := range v {
		v[k] = min(n.usage[k], s)
	}
	return v
}

// keepable is the suggestion beyond which an operation whose usage is above a
// limit keeps no more of it; 1 if there is no such limit.
func keepable(n *node) float64 {
	s := 1.0
	for k, limit := range n.limits {
		if limit < n.usage[k] {
			s = min(s, limit)
		}
	}
	return s
}

// appendOperationCurve appends the points of an operation's function, at most
// two for each resource and two more. The last value holds up to suggestion 1.
func appendOperationCurve(out []point, n *node) []point {
	out = append(out, point{})
	if n.steps {
		whole := n.demand.Largest()
		if whole > 0 && whole < 1 && n.limits.Dominates(n.demand) {
			out = append(out, point{x: whole}, point{whole, n.demand})
		}
		return out
	}
	levels, most := n.usage, keepable(n)
	slices.Sort(levels[:])
	for _, level := range levels {
		if level = min(level, most); level > out[len(out)-1].x {
			out = append(out, point{level, keep(n, level)})
		}
	}
	if most < levels[len(levels)-1] || n.usage == n.demand {
		return out
	}
	walk := newClimb(&n.usage, &n.demand, &nothing, &n.limits)
	if walk.reach <= 0 {
		return out
	}
	for more := true; more; {
		before := walk.t
		more = walk.next()
		if walk.t > before {
			exact := walk.value().Min(n.limits)
			s := max(walk.need(&exact), out[len(out)-1].x)
			out = append(out, point{s, between(&n.usage, &n.demand, rounded(walk.t))})
		}
	}
	return out
}
