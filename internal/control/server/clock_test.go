package server

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestASteadyClockRunsWithTheMonotonicOne(t *testing.T) {
	start := time.Date(2026, 11, 16, 0, 0, 0, 0, time.UTC)
	var c steadyClock
	if got := c.now(start, time.Hour); !got.Equal(start) || c.step() != "" {
		t.Fatalf("it begins at %v, %q", got, c.step())
	}
	for _, test := range []struct {
		name string
		wall time.Duration // since start
		mono time.Duration
		want time.Duration
		says string
	}{
		{"both run", time.Minute, time.Minute, time.Minute, ""},
		{"the wall clock is set forward", time.Hour, time.Minute + time.Second, time.Minute + 1010*time.Millisecond, "set forward"},
		{"and back", 2 * time.Minute, 2 * time.Minute, 2 * time.Minute, ""},
		{"the wall clock is set back", time.Minute, 2*time.Minute + time.Second, 2*time.Minute + 990*time.Millisecond, "set back"},
		{"a small difference is followed", 10 * time.Minute, 10*time.Minute - time.Second, 10 * time.Minute, ""},
	} {
		got := c.now(start.Add(test.wall), time.Hour+test.mono).Sub(start)
		if got != test.want || (c.step() == "") != (test.says == "") || !strings.Contains(c.step(), test.says) {
			t.Errorf("%s: %v, want %v; it says %q", test.name, got, test.want, c.step())
		}
	}
}

// However the wall clock is set, time never goes back and passes within a hundredth as the monotonic clock says.
func TestASteadyClockPassesAsTimeDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wall, monotonic := time.Unix(1_800_000_000, 0), time.Duration(0)
		var c steadyClock
		last := c.now(wall, monotonic)
		for range rapid.IntRange(1, 50).Draw(t, "readings") {
			passed := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "passed"))
			step := time.Duration(rapid.Int64Range(-int64(time.Hour), int64(time.Hour)).Draw(t, "step"))
			wall, monotonic = wall.Add(passed+step), monotonic+passed
			now := c.now(wall, monotonic)
			if got := now.Sub(last); (got - passed).Abs() > passed/slew {
				t.Fatalf("%v passed, %v on the clock", passed, got)
			}
			last = now
		}
	})
}
