package gpu

import "slices"

// Choose picks free devices for a job, by index, ascending. It returns false if too few are free.
//
// All come from one socket if one has enough: the one with the fewest free devices, then the one whose first free
// device is lowest. Within it, and if no socket has enough, the lowest indices are picked.
func Choose(devices []Device, isFree func(index int) bool, count int) ([]int, bool) {
	var free []int
	bySocket := map[int][]int{}
	for i := range devices {
		if isFree(i) {
			free = append(free, i)
			bySocket[devices[i].Socket] = append(bySocket[devices[i].Socket], i)
		}
	}
	if len(free) < count {
		return nil, false
	}
	best := free
	for _, first := range free { // each socket at its first free device, so the order is that of the devices
		same := bySocket[devices[first].Socket]
		if same[0] == first && len(same) >= count && len(same) < len(best) {
			best = same
		}
	}
	return slices.Clone(best[:count]), true
}
