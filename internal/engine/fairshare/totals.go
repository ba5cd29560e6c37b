package fairshare

import "github.com/weirhq/weir/internal/value/resource"

// AdmitResources gives the volumes of integral pools a first amount of a
// resource that the tree did not have before: as much, relative to its total,
// as of the others. Without it no pool could use its savings until it has saved
// the new resource too. Call it between two updates when totals change.
func AdmitResources(states []State, before, now resource.Amounts) {
	for i := range states {
		volume := &states[i].Volume
		ratio := volume.Ratio(before)
		for k := range volume {
			if before[k] == 0 && now[k] > 0 && volume[k] == 0 {
				volume[k] = ratio * now.Float(resource.Kind(k))
			}
		}
	}
}

// NodeSize counts the nodes of a tree that have the same memory.
type NodeSize struct {
	Memory int64
	Count  int64
}

// BestShare bounds the share of an operation by what fits into nodes of these
// sizes: a job that needs 60 % of a node's memory leaves 40 % of it unused.
func BestShare(demand, total resource.Amounts, sizes []NodeSize) resource.Shares {
	limits := total
	if jobs := demand[resource.UserSlots]; jobs > 0 {
		if job := demand[resource.Memory] / jobs; job > 0 {
			limits[resource.Memory] = 0
			for _, size := range sizes {
				limits[resource.Memory] += size.Memory / job * job * size.Count
			}
		}
	}
	return limits.Min(total).Share(total)
}
