package feasibility

import "slices"

// searchBudget bounds the number of sets that smallestConflict tries before it
// settles for a set from which no pool can be removed.
const searchBudget = 50_000

// smallestConflict returns the smallest set of members 0…n−1 for which conflict
// holds, the first in lexicographic order of those of the same size. The
// predicate must hold for the whole set, and for every set that contains one for
// which it holds.
//
// If there are too many sets to try, it removes members one by one, from the
// last, as long as the conflict remains, and returns false: no member of the
// result can be removed, but a smaller set may exist elsewhere.
func smallestConflict(n int, conflict func(members []int) bool) (members []int, smallest bool) {
	tried := 0
	for size := 1; size < n; size++ {
		members = members[:0]
		for i := range size {
			members = append(members, i)
		}
		for {
			if tried++; tried > searchBudget {
				return irreducibleConflict(n, conflict), false
			}
			if conflict(members) {
				return members, true
			}
			if !nextCombination(members, n) {
				break
			}
		}
	}
	return upTo(n), true
}

func irreducibleConflict(n int, conflict func(members []int) bool) []int {
	members := upTo(n)
	for i := n - 1; i >= 0; i-- {
		if without := slices.Delete(slices.Clone(members), i, i+1); conflict(without) {
			members = without
		}
	}
	return members
}

// nextCombination changes members to the next set of the same size, and returns
// false if there is none.
func nextCombination(members []int, n int) bool {
	size := len(members)
	for i := size - 1; i >= 0; i-- {
		if members[i] < n-size+i {
			members[i]++
			for j := i + 1; j < size; j++ {
				members[j] = members[j-1] + 1
			}
			return true
		}
	}
	return false
}

func upTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// largestFirst returns the fewest members whose amounts add up to more than
// capacity: the largest ones, the earlier of equal ones. Taking the largest is
// optimal because no other set of the same size has a larger sum. The result is
// in ascending order.
func largestFirst(amounts []float64, exceeds func(sum float64) bool) []int {
	order := upTo(len(amounts))
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case amounts[a] > amounts[b]:
			return -1
		case amounts[a] < amounts[b]:
			return 1
		}
		return 0
	})
	sum := 0.0
	for i, member := range order {
		sum += amounts[member]
		if exceeds(sum) {
			order = order[:i+1]
			break
		}
	}
	slices.Sort(order)
	return order
}
