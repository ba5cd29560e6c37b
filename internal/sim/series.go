package sim

import (
	"time"

	"github.com/weirhq/weir/internal/sim/outcome"
	"github.com/weirhq/weir/internal/value/resource"
)

// series stores values over time in a bounded number of intervals. When there are
// too many, it joins neighbours and intervals become twice as long.
type series struct {
	kinds []resource.Kind // that the cluster has
	step  time.Duration
	most  int
	// count is how many intervals have started.
	count   int
	pools   int // curves
	cluster curve
}

// mostCells bounds intervals × curves.
const mostCells = 500_000

// curve has the values of one pool or of the cluster: for each interval a row of
// integrals over time, so that joining two is adding. Rows before first are zero.
type curve struct {
	first int
	width int
	rows  []float64
}

// Columns of a pool's row: four for each kind, then two.
const (
	columnFairShare = iota
	columnGuaranteed
	columnUsage
	columnDemand
	columnsPerKind
)

// Columns of the cluster's row: two for each kind, then three.
const (
	columnCapacity = iota
	columnUsed
	clusterColumnsPerKind
)

func (s *series) open(r *run) {
	s.step = r.scenario.Statistics.Period
	s.most = max(r.scenario.Samples, 2)
	var total resource.Amounts
	for i := range r.nodes {
		total = total.Add(r.nodes[i].resources)
	}
	for _, k := range resource.Kinds {
		if total[k] > 0 {
			s.kinds = append(s.kinds, k)
		}
	}
	s.cluster = curve{width: clusterColumnsPerKind*len(s.kinds) + 3}
}

func (s *series) newCurve() curve {
	s.pools++
	return curve{first: s.count, width: columnsPerKind*len(s.kinds) + 2}
}

// at makes sure that there is an interval for the moment, and returns its number.
func (s *series) at(moment time.Duration, pools []poolAccount) int {
	for {
		i := int(moment / s.step)
		if i < s.count {
			return i
		}
		limit := min(s.most, max(mostCells/max(s.pools, 1), 64))
		if i < limit || s.count < 2 {
			s.count = i + 1
			return i
		}
		s.cluster.halve()
		for p := range pools {
			pools[p].curve.halve()
		}
		s.count = (s.count + 1) / 2
		s.step *= 2
	}
}

// row returns the row of an interval.
func (c *curve) row(interval int) []float64 {
	if len(c.rows) == 0 {
		c.first = interval
	}
	at := (interval - c.first) * c.width
	for len(c.rows) < at+c.width {
		c.rows = append(c.rows, 0)
	}
	return c.rows[at : at+c.width]
}

// halve joins the rows of intervals 2n and 2n+1.
func (c *curve) halve() {
	if len(c.rows) == 0 {
		return
	}
	first := c.first / 2
	joined := 0
	for i := range len(c.rows) / c.width {
		to := (c.first+i)/2 - first
		target := c.rows[to*c.width : (to+1)*c.width]
		if to == joined {
			copy(target, c.rows[i*c.width:(i+1)*c.width])
			joined++
			continue
		}
		for k, v := range c.rows[i*c.width : (i+1)*c.width] {
			target[k] += v
		}
	}
	c.first = first
	c.rows = c.rows[:joined*c.width]
}

// column returns the averages of one column over all intervals; the last interval
// ends at end. Counts are sums and not averages.
func (s *series) column(c *curve, column int, end time.Duration, counts bool) []float64 {
	values := make([]float64, s.count)
	for i := range values {
		at := (i - c.first) * c.width
		if i < c.first || at >= len(c.rows) {
			continue
		}
		values[i] = c.rows[at+column]
		if seconds := (min(end, time.Duration(i+1)*s.step) - time.Duration(i)*s.step).Seconds(); !counts && seconds > 0 {
			values[i] /= seconds
		}
		values[i] = outcome.Round(values[i])
	}
	return values
}

func (s *series) curves(c *curve, column, perKind int, end time.Duration) (curves outcome.Curves) {
	for i, k := range s.kinds {
		curves[k] = s.column(c, i*perKind+column, end, false)
	}
	return curves
}
