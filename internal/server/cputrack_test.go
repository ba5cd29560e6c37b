package server

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestATrackOfCPUHoldsWhatWasLastSaid(t *testing.T) {
	var track CPUTrack
	track.observe(2*time.Second, CPUPoint{4, 1})
	track.observe(2500*time.Millisecond, CPUPoint{4, 2})
	track.observe(5*time.Second, CPUPoint{3, 2})
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
	track.observe(30*time.Second, CPUPoint{1, 1})
	if h := track.History(0); h.StepMS != 2000 || len(h.Limit) != 16 || h.Limit[0] != -1 || h.Limit[1] != 400 || h.Limit[2] != 350 || h.Limit[15] != 100 {
		t.Errorf("%+v", h)
	}
}

// A track has at most so many steps, reaches to the last observation, and stays within what was observed.
func TestPropertyTracksOfCPUStayWithinWhatWasObserved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var track CPUTrack
		var at time.Duration
		low, high := float32(1000), float32(0)
		for range rapid.IntRange(1, 200).Draw(t, "observations") {
			at += time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "later"))
			limit := float32(rapid.IntRange(0, 64).Draw(t, "limit"))
			low, high = min(low, limit), max(high, limit)
			track.observe(at, CPUPoint{limit, limit / 2})
			points := track.Points()
			if len(points) == 0 || len(points) > cpuPoints || time.Duration(len(points)-1)*track.Step() > at || time.Duration(len(points))*track.Step() <= at {
				t.Fatalf("%d steps of %v do not reach to %v", len(points), track.Step(), at)
			}
			if last := points[len(points)-1]; last.Limit != limit || last.Usage != limit/2 {
				t.Fatalf("the last step is %v", last)
			}
			for _, p := range points {
				if p.IsKnown() && (p.Limit < low || p.Limit > high) {
					t.Fatalf("%v is not between %v and %v", p, low, high)
				}
			}
		}
	})
}
