package fairshare

import "github.com/weirhq/weir/internal/value/resource"

// point is a point of a function: an argument (a fit factor or a suggestion)
// and the share there. A function is a list of points joined by straight lines;
// two points with one argument are a jump, at which the value is the lower one.
type point struct {
	x float64
	v resource.Shares
}

// between returns the value at fraction t of the way from a to b. It is exact
// at both ends, monotone, and never leaves the interval; the products are
// rounded before they are added (no fused multiply-add), so that every platform
// computes the same.
func between(a, b *resource.Shares, t float64) (v resource.Shares) {
	if t < 0.5 {
		for k := range v {
			v[k] = a[k] + float64((b[k]-a[k])*t)
		}
		return v
	}
	u := 1 - t
	for k := range v {
		v[k] = b[k] - float64((b[k]-a[k])*u)
	}
	return v
}

// betweenNumbers is between for single numbers.
func betweenNumbers(a, b, t float64) float64 {
	if t < 0.5 {
		return a + float64((b-a)*t)
	}
	return b - float64((b-a)*(1-t))
}

// push appends a point to a function, dropping repetitions and joining runs of
// equal values and runs of jumps.
func push(points []point, x float64, v *resource.Shares) []point {
	n := len(points)
	if n > 0 && points[n-1].v == *v {
		if points[n-1].x == x {
			return points
		}
		if n > 1 && points[n-2].v == *v {
			points[n-1].x = x
			return points
		}
	}
	if n > 1 && points[n-1].x == x && points[n-2].x == x {
		points[n-1].v = *v
		return points
	}
	return append(points, point{x, *v})
}

// compressor appends points to a function and leaves out those that lie within
// compression of the straight line between their neighbours. Without it the
// functions of pools with many like operations would grow without reason.
type compressor struct {
	last, tip  point           // the last point written, the last one received
	low, high  resource.Shares // slopes from last that pass close to everything since
	open       bool            // tip is waiting to be written
	tipIsJump  bool
	hasStarted bool
}

// add receives the next point; finished points are appended to out.
func (c *compressor) add(out []point, x float64, v *resource.Shares) []point {
	switch {
	case !c.hasStarted:
		*c = compressor{last: point{x, *v}, hasStarted: true}
		return append(out, c.last)
	case !c.open:
		c.start(x, v)
		return out
	case c.tip.x == x && c.tip.v == *v:
		return out
	case c.tipIsJump && c.tip.x == x:
		c.tip.v = *v
		return out
	case c.tipIsJump || c.tip.x == x || !c.extends(x, v):
		out = c.flush(out)
		c.start(x, v)
	}
	return out
}

// start starts a run from the last point written to (x, v).
func (c *compressor) start(x float64, v *resource.Shares) {
	if x == c.last.x && *v == c.last.v {
		return
	}
	c.tip, c.open = point{x, *v}, true
	if c.tipIsJump = x == c.last.x; c.tipIsJump {
		return
	}
	inverse := 1 / (x - c.last.x)
	for k := range v {
		rise := v[k] - c.last.v[k]
		c.low[k] = (rise - compression) * inverse
		c.high[k] = (rise + compression) * inverse
	}
}

// extends moves the tip to (x, v) if the line from last to there passes close
// to every point of the run.
func (c *compressor) extends(x float64, v *resource.Shares) bool {
	inverse := 1 / (x - c.last.x)
	for k := range v {
		slope := (v[k] - c.last.v[k]) * inverse
		if !(slope > c.low[k] && slope < c.high[k]) {
			return false
		}
	}
	for k := range v {
		rise := v[k] - c.last.v[k]
		c.low[k] = max(c.low[k], (rise-compression)*inverse)
		c.high[k] = min(c.high[k], (rise+compression)*inverse)
	}
	c.tip = point{x, *v}
	return true
}

// flush writes the waiting point.
func (c *compressor) flush(out []point) []point {
	if c.open {
		out = append(out, c.tip)
		c.last, c.open = c.tip, false
	}
	return out
}
