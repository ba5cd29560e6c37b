package feasibility

import (
	"math"
	"time"

	"github.com/weirhq/weir/internal/value/resource"
)

// Proof has the figures behind a verdict.
type Proof struct {
	// Resources has an entry for every resource that the cluster has, in the
	// order of kinds.
	Resources []Budget
	// Relaxed has the worst case of relaxed pools; nil if there are none, or if
	// sums do not fit, so that there is nothing left to divide.
	Relaxed *Starvation
}

// Budget sums up the promises in one resource, in storage units.
type Budget struct {
	Resource resource.Kind
	Total    int64
	Strong   int64
	Flow     int64
	Burst    int64
}

// FreeAlways is what is not promised at any moment.
func (b Budget) FreeAlways() int64 { return b.Total - b.Strong - b.Burst }

// FreeOnAverage is what is not promised over time.
func (b Budget) FreeOnAverage() int64 { return b.Total - b.Strong - b.Flow }

// Starvation is the worst that burst pools can do to relaxed ones.
type Starvation struct {
	// Resource is the scarcest after strong guarantees. Amounts below are in
	// its storage units, volumes in the unit that users write × seconds.
	Resource resource.Kind
	// Available is what strong guarantees leave, Flow the sum of relaxed flows.
	Available int64
	Flow      int64
	// Multiplier is the least of the relaxed pools'.
	Multiplier float64
	// Period is k.
	Period time.Duration
	// CatchesUp reports whether the worst delay is finite; if not, Delay,
	// Window and Backlog are meaningless.
	CatchesUp bool
	// Delay is the longest time for which relaxed pools wait for volume, and
	// Window the length of the window that leads to it.
	Delay  time.Duration
	Window time.Duration
	// Backlog is the largest volume that relaxed pools have to save, Capacity
	// the volume that they can save.
	Backlog  float64
	Capacity float64
	// Breakpoints are the windows that were checked, shortest first.
	Breakpoints []Breakpoint
	// Proved is false if the figures are only an upper bound.
	Proved bool
}

// Breakpoint is a window in which the bucket of some burst pool just runs
// empty. Volumes are in the unit that users write × seconds.
type Breakpoint struct {
	Window   time.Duration
	Burst    float64 // what burst pools take, with full buckets at the start
	Promised float64 // what relaxed pools are credited
	Served   float64 // what they are certain to get
}

// opponents splits claims into what a contest needs.
func (m *model) opponents(claims []claim) (c contest, strong resource.Amounts, equal bool) {
	c.period, c.multiplier, equal = m.options.SaturationPeriod.Seconds(), math.Inf(1), true
	relaxed := 0
	for _, claim := range claims {
		strong = strong.Add(claim.strong)
		switch m.pools[claim.pool].Type {
		case Burst:
			c.spenders = append(c.spenders, spender{peak: claim.burst, flow: claim.flow})
		case Relaxed:
			if claim.flow <= 0 {
				continue
			}
			if relaxed++; relaxed > 1 && m.multiplier[claim.pool] != c.multiplier {
				equal = false
			}
			c.flow += claim.flow
			c.multiplier = min(c.multiplier, m.multiplier[claim.pool])
		}
	}
	return c, strong, equal
}

// contestAt runs the worst case of some claims at a place. The resource is the
// one that is scarce with all claims, so that a part of the claims never looks
// worse than the whole.
func (m *model) contestAt(at int, claims []claim, scarce resource.Kind) (c contest, o outcome, equal bool) {
	c, strong, equal := m.opponents(claims)
	available := min(m.limitsOf(at)[scarce], m.total[scarce]) - strong[scarce]
	c.capacity = float64(available) / float64(m.total[scarce])
	return c, c.worst(), equal
}

// starvation checks that relaxed pools get their volume within the saturation
// period. Strong guarantees with bursts, and with flows, must fit.
func (m *model) starvation(at int, claims []claim, quick bool) []Finding {
	_, scarce := m.headroom(at)
	if m.total[scarce] <= 0 {
		return nil
	}
	c, o, _ := m.contestAt(at, claims, scarce)
	if c.flow <= 0 || o.keepsPromise(c.period) {
		return nil
	}
	if quick {
		return []Finding{{Code: RelaxedVolumeLost, Severity: Broken}}
	}
	pick := func(members []int) []claim {
		chosen := make([]claim, len(members))
		for i, member := range members {
			chosen[i] = claims[member]
		}
		return chosen
	}
	members, smallest := smallestConflict(len(claims), func(members []int) bool {
		c, part, _ := m.contestAt(at, pick(members), scarce)
		if math.IsInf(o.delay, 0) {
			return math.IsInf(part.delay, 0)
		}
		return c.flow > 0 && !part.keepsPromise(c.period)
	})
	conflict := pick(members)
	// Multipliers may differ outside of the conflict: more pools only make it
	// worse for those in it.
	_, _, proved := m.contestAt(at, conflict, scarce)
	report := m.report(at, claims, scarce)
	report.Proved = proved
	f := Finding{
		Code: RelaxedVolumeLost, Severity: Broken, Pool: m.name(at), Resource: scarce,
		Required: m.enough(at, claims, scarce), Available: min(m.limitsOf(at)[scarce], m.total[scarce]),
		Conflict: m.present(conflict, scarce), Smallest: smallest, ConflictRequired: m.enough(at, conflict, scarce),
		Starvation: report,
	}
	if !report.CatchesUp {
		f.Code = RelaxedNeverCatchesUp
	}
	return []Finding{f}
}

// enough finds the smallest amount of the scarce resource with which relaxed
// pools would get their volume in time, all else being equal.
func (m *model) enough(at int, claims []claim, scarce resource.Kind) int64 {
	c, strong, _ := m.opponents(claims)
	total := float64(m.total[scarce])
	peaks := 0.0
	for _, s := range c.spenders {
		peaks += s.peak
	}
	// If all burst pools can peak at once, no relaxed pool waits.
	low, high := int64(-1), int64(math.Ceil((peaks+c.multiplier*c.flow)*total))
	for high-low > 1 {
		middle := low + (high-low)/2
		if c.capacity = float64(middle) / total; float64(middle) >= peaks*total*(1-tolerance) && c.worst().keepsPromise(c.period) {
			high = middle
		} else {
			low = middle
		}
	}
	return strong[scarce] + high
}

// report writes the worst case of claims in amounts of one resource.
func (m *model) report(at int, claims []claim, scarce resource.Kind) *Starvation {
	c, o, equal := m.contestAt(at, claims, scarce)
	// Thousandths are enough to read and hide the noise of floating point.
	volume := func(shareSeconds float64) float64 {
		return math.Round(shareSeconds*m.total.Float(scarce)*1000) / 1000
	}
	s := &Starvation{
		Resource:   scarce,
		Available:  m.amount(scarce, c.capacity),
		Flow:       m.amount(scarce, c.flow),
		Multiplier: c.multiplier,
		Period:     m.options.SaturationPeriod,
		CatchesUp:  !math.IsInf(o.delay, 0),
		Capacity:   volume(c.flow * c.period),
		Proved:     equal,
	}
	if s.CatchesUp {
		s.Delay, s.Window, s.Backlog = seconds(o.delay), seconds(o.window), volume(o.delay*c.flow)
	}
	for _, p := range o.points {
		promised := c.flow * p.window
		s.Breakpoints = append(s.Breakpoints, Breakpoint{
			Window: seconds(p.window), Burst: volume(p.spent),
			Promised: volume(promised), Served: volume(promised - p.backlog),
		})
	}
	return s
}

func seconds(s float64) time.Duration {
	return time.Duration(min(math.Round(s*1e9), float64(math.MaxInt64/2)))
}

// proof sums up the promises.
func (m *model) proof() (p Proof) {
	claims := m.claims(Root)
	for _, k := range resource.Kinds {
		if m.total[k] <= 0 {
			continue
		}
		b := Budget{Resource: k, Total: m.total[k]}
		flow, burst := 0.0, 0.0
		for _, c := range claims {
			b.Strong += c.strong[k]
			flow, burst = flow+c.flow, burst+c.burst
		}
		b.Flow, b.Burst = m.amount(k, flow), m.amount(k, burst)
		p.Resources = append(p.Resources, b)
	}
	fits := true
	for _, part := range []func(claim) claim{claim.withFlow, claim.withBurst} {
		_, over := m.compare(claims, m.total, part, true)
		fits = fits && !over
	}
	if _, scarce := m.headroom(Root); fits && m.total[scarce] > 0 {
		if report := m.report(Root, claims, scarce); report.Flow > 0 {
			p.Relaxed = report
		}
	}
	return p
}
