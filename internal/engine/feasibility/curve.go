package feasibility

import (
	"cmp"
	"math"
	"slices"
)

// This file bounds how long relaxed pools can be kept from their volume.
//
// Shares are fractions of the cluster, time is in seconds. Let
//
//	C      what strong guarantees leave,
//	b, f   peak and flow of a burst pool, k the saturation period,
//	R, m   sum of flows of relaxed pools, and their multiplier.
//
// Who is served. At a moment when burst pools take x in total, relaxed pools
// share C−x in proportion to what they have saved, none above m × its flow. Call
// the pool whose bucket is fullest, in proportion to its flow, the fullest. It
// gets at least min(m, (C−x)/R) times its flow: either it is at its cap, or
// nobody gets more in proportion to flow, and then they all together get no more
// than R times what it gets. So the level of the fullest bucket, in seconds of
// flow, rises at a speed of at most 1 − min(m, (C−x)/R), and all buckets together
// behave no worse than one pool with flow R and cap m·R. If multipliers differ,
// m is the least of them and this is a bound; if they are equal and buckets
// start equal it is what happens.
//
// What burst pools can do. Over a window of length t in which relaxed pools
// always want more, they are given
//
//	∫ min(m·R, C−x) du = m·R·t − ∫ max(x−L, 0) du,   L = C − m·R.
//
// The adversary makes the last integral, the loss, as large as possible. In a
// window of length t burst pool i can take at most a(t) = min(b·t, k·f + f·t).
// The loss is convex in every x_i, so x_i is best either 0 or b_i, "on" for
// T_i = a_i(t)/b_i seconds; and it is largest when the on-times are nested, all
// pools on together as far as possible (a convex function of a sum is largest
// when its terms rise and fall together). Nothing forbids both at once: let
// every pool be on for the fraction T_i/t of each of many short periods that
// begin together. Then pool i has taken u·T_i·b_i/t ≤ k·f + f·u by time u ≤ t, so
// its bucket is never overdrawn, and at least min(b, f)·u, so it never
// overflows. So the largest loss is exactly
//
//	loss(t) = ∫ from 0 to t of max(Σ over i with u < T_i(t) of b_i − L, 0) du
//
// and the most that relaxed pools can have saved t seconds after their buckets
// were empty is backlog(t) = R·t − m·R·t + loss(t). Since Σ b ≤ C, relaxed pools
// are never given less than nothing.
//
// Why breakpoints are enough. T_i(t) is t up to t_i = k·f/(b−f), when the bucket
// runs empty, and d_i·(k+t) with d_i = f/b after it. Sorted by d_i descending the
// T_i(t) are sorted for every t: those with t < t_i are equal to t, t_i grows with
// d_i, and the rest have the same factor k+t. With a fixed order the loss is a
// linear function of t and the T_i. Hence backlog(t) is linear between
// neighbouring t_i, and its maximum is at some t_i, unless it still rises after
// the last of them, and then it has none.

// spender is a burst pool as seen by relaxed ones.
type spender struct{ peak, flow float64 }

// duty is the fraction of time that the pool can be on permanently.
func (s spender) duty() float64 { return min(1, s.flow/s.peak) }

// spendable is the volume that the pool can spend in a window, starting with a
// full bucket.
func (s spender) spendable(period, window float64) float64 {
	return min(s.peak*window, s.flow*(period+window))
}

// runsEmpty is the window after which a full bucket is empty; infinite for a
// pool that cannot spend faster than it receives.
func (s spender) runsEmpty(period float64) float64 {
	if s.peak <= s.flow {
		return math.Inf(1)
	}
	return period * s.flow / (s.peak - s.flow)
}

// contest is the situation: relaxed pools against burst pools.
type contest struct {
	capacity   float64 // C; at least the sum of peaks
	spenders   []spender
	flow       float64 // R
	multiplier float64 // m
	period     float64 // k
}

// outcome of the worst case.
type outcome struct {
	delay  float64 // in seconds: worst backlog / flow; infinite if it never ends
	window float64 // the length of the window that ends with the worst backlog
	points []breakpoint
}

type breakpoint struct {
	window  float64
	spent   float64 // volume that burst pools spend in the window
	backlog float64 // volume that relaxed pools have saved at its end
}

// tolerance is the relative error up to which sums of shares count as equal.
const tolerance = 1e-9

// keepsPromise reports whether relaxed pools get everything within the period.
func (o outcome) keepsPromise(period float64) bool { return o.delay <= period*(1+tolerance) }

// worst finds the worst case.
func (c contest) worst() (o outcome) {
	if c.flow <= 0 {
		return outcome{}
	}
	c.spenders = slices.DeleteFunc(slices.Clone(c.spenders), func(s spender) bool { return s.peak <= 0 || s.flow <= 0 })
	slices.SortFunc(c.spenders, func(a, b spender) int { return cmp.Compare(b.duty(), a.duty()) })

	growth := c.backlog(1, spender.duty)
	if growth > tolerance*c.flow {
		o.delay, o.window = math.Inf(1), math.Inf(1)
	}
	for _, s := range slices.Backward(c.spenders) { // shortest window first
		window := s.runsEmpty(c.period)
		if math.IsInf(window, 0) {
			break
		}
		if n := len(o.points); n > 0 && o.points[n-1].window == window {
			continue
		}
		p := breakpoint{window: window}
		p.backlog = c.backlog(window, func(s spender) float64 { return s.spendable(c.period, window) / s.peak })
		for _, s := range c.spenders {
			p.spent += s.spendable(c.period, window)
		}
		o.points = append(o.points, p)
		if delay := p.backlog / c.flow; delay > o.delay {
			o.delay, o.window = delay, window
		}
	}
	return o
}

// backlog is what relaxed pools have saved after a window in which each burst
// pool is on for the time that on returns, all as much together as possible. on
// must not grow along spenders.
func (c contest) backlog(window float64, on func(spender) float64) float64 {
	idle := c.capacity - c.multiplier*c.flow // L: what burst pools can use without affecting relaxed ones
	load, loss, outer := 0.0, 0.0, window
	for _, s := range c.spenders {
		inner := min(on(s), outer)
		loss += (outer - inner) * max(load-idle, 0)
		load, outer = load+s.peak, inner
	}
	loss += outer * max(load-idle, 0)
	return (1-c.multiplier)*c.flow*window + loss
}
