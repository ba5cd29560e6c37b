package report

import (
	"cmp"
	"slices"

	"github.com/weirhq/weir/internal/sim/outcome"
	"github.com/weirhq/weir/internal/value/resource"
)

// chosen selects the rows of a tree to show if there are too many: those with
// the most weight, and everything above them. Rows are in the order of the tree
// with their depths; of equal weights it selects the first.
func chosen(depths []int, weights []float64, most int) []bool {
	shown := make([]bool, len(depths))
	if len(depths) <= most {
		for i := range shown {
			shown[i] = true
		}
		return shown
	}
	order := make([]int, len(depths))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(weights[b], weights[a]) })
	for _, i := range order[:most] {
		for at, depth := i, depths[i]+1; at >= 0; at-- {
			if depths[at] < depth {
				shown[at], depth = true, depths[at]
			}
		}
	}
	return shown
}

// chosenPools returns which pools a table shows, how many it leaves out, and
// what those got together.
func chosenPools(r *outcome.Result, k resource.Kind, most int) (shown []bool, omitted int, got float64) {
	depths, weights := make([]int, len(r.Pools)), make([]float64, len(r.Pools))
	for i, p := range r.Pools {
		depths[i], weights[i] = p.Depth, p.Got[k]
	}
	shown = chosen(depths, weights, most)
	above := 0 // depth of the last pool that is shown, below which nothing counts twice
	for i, p := range r.Pools {
		switch {
		case shown[i]:
			above = p.Depth
		default:
			omitted++
			if p.Depth <= above+1 {
				got += average(r, p.Got, k)
				above = p.Depth - 1
			}
		}
	}
	return shown, omitted, got
}
