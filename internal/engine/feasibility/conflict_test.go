package feasibility

import (
	"math/bits"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestSmallestConflictAgreesWithTryingEverySet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 10).Draw(t, "n")
		// A conflict is any set that contains one of these, or everything.
		seeds := rapid.SliceOfN(rapid.IntRange(1, 1<<n-1), 0, 4).Draw(t, "seeds")
		seeds = append(seeds, 1<<n-1)
		holds := func(set int) bool {
			return slices.ContainsFunc(seeds, func(seed int) bool { return set&seed == seed })
		}
		toSet := func(members []int) (set int) {
			for _, m := range members {
				set |= 1 << m
			}
			return set
		}
		members, smallest := smallestConflict(n, func(members []int) bool { return holds(toSet(members)) })
		if !smallest || !holds(toSet(members)) || !slices.IsSorted(members) {
			t.Fatalf("%v, %v", members, smallest)
		}
		for set := range 1 << n {
			if holds(set) && bits.OnesCount(uint(set)) < len(members) {
				t.Fatalf("%v is larger than %b", members, set)
			}
		}
		reduced := irreducibleConflict(n, func(members []int) bool { return holds(toSet(members)) })
		for i := range reduced {
			if holds(toSet(slices.Delete(slices.Clone(reduced), i, i+1))) {
				t.Fatalf("%v does not need its member %d", reduced, i)
			}
		}
	})
}

func TestSmallestConflictTakesTheFirstOfEqualSize(t *testing.T) {
	members, smallest := smallestConflict(5, func(members []int) bool { return len(members) == 2 && members[0] >= 1 })
	if !slices.Equal(members, []int{1, 2}) || !smallest {
		t.Errorf("%v, %v", members, smallest)
	}
}

func TestSmallestConflictSaysWhenThereWasTooMuchToTry(t *testing.T) {
	tried := 0
	members, smallest := smallestConflict(60, func(members []int) bool { tried++; return len(members) >= 30 })
	if len(members) != 30 || smallest || tried > searchBudget+60 {
		t.Errorf("%d members, smallest %v, %d tries", len(members), smallest, tried)
	}
}

func TestLargestFirst(t *testing.T) {
	amounts := []float64{1, 5, 3, 5, 0}
	for capacity, want := range map[float64][]int{4: {1}, 5: {1, 3}, 10: {1, 2, 3}, 13: {0, 1, 2, 3}} {
		if got := largestFirst(amounts, func(sum float64) bool { return sum > capacity }); !slices.Equal(got, want) {
			t.Errorf("above %g: %v; want %v", capacity, got, want)
		}
	}
}
