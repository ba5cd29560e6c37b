package server

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestATrackOfCPUHoldsWhatWasLastSaid(t *testing.T) {
	var track CPUTrack
	track.observe(2*time.Second, cpuPoint{400, 100})
	track.observe(2500*time.Millisecond, cpuPoint{400, 200})
	track.observe(5*time.Second, cpuPoint{300, 200})
	h := track.History(0)
	if h.StepMS != 1000 || !slices.Equal(h.Limit, []int32{-1, -1, 400, 400, 400, 300}) || !slices.Equal(h.Usage, []int32{-1, -1, 200, 200, 200, 200}) {
		t.Errorf("%+v", h)
	}
	if h := track.History(7 * time.Second); len(h.Limit) != 8 || h.Limit[7] != 300 {
		t.Errorf("what was said last does not hold: %+v", h)
	}
	if track.archived(5*time.Second) == nil || new(CPUTrack).archived(time.Hour) != nil {
		t.Error("a track of six steps is archived, an empty one is not")
	}
	track.observe(30*time.Second, cpuPoint{100, 100})
	if h := track.History(0); h.StepMS != 2000 || len(h.Limit) != 16 || h.Limit[0] != -1 || h.Limit[1] != 400 || h.Limit[2] != 350 || h.Limit[15] != 100 {
		t.Errorf("%+v", h)
	}
}

// A track has a bounded number of steps, extends to the last observation, and stays within the
// observed values.
func TestPropertyTracksOfCPUStayWithinWhatWasObserved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var track CPUTrack
		var at time.Duration
		low, high := int32(math.MaxInt32), int32(0)
		for range rapid.IntRange(1, 200).Draw(t, "observations") {
			at += time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "later"))
			limit := rapid.Int64Range(0, 100_000).Draw(t, "limit")
			track.observe(at, cpuPointOf(limit, limit/2))
			kept := int32(min(limit, mostCPU))
			low, high = min(low, kept), max(high, kept)
			h, steps := track.History(0), int(track.count)
			if steps == 0 || steps > cpuPoints || time.Duration(steps-1)*track.step() > at || time.Duration(steps)*track.step() <= at {
				t.Fatalf("%d steps of %v do not reach to %v", steps, track.step(), at)
			}
			if h.Limit[steps-1] != kept || h.Usage[steps-1] != int32(min(limit/2, mostCPU)) {
				t.Fatalf("the last step of %+v is not %d", h, limit)
			}
			for _, p := range h.Limit {
				if p != -1 && (p < low || p > high) {
					t.Fatalf("%v is not between %v and %v", p, low, high)
				}
			}
		}
	})
}
