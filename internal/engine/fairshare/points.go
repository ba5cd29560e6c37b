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
