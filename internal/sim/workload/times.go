package workload

import (
	"time"

	"github.com/weirhq/weir/internal/sim/distribution"
	"github.com/weirhq/weir/internal/sim/scenario"
)

// arrivalTimes returns the times at which operations arrive, one per call;
// Forever when no more arrive. Times never decrease.
func arrivalTimes(a *scenario.Arrival, stream distribution.Stream) func() time.Duration {
	switch {
	case a.Every == 0:
		return listedTimes(a)
	case a.Poisson:
		return randomTimes(a, stream)
	}
	now := -a.Every
	return func() time.Duration {
		if now == scenario.Forever {
			return now
		}
		now += a.Every
		for {
			next := activeFrom(a.Active, now)
			if next == now || next == scenario.Forever {
				now = next
				return now
			}
			// The first regular time that is not before the window opens.
			now = (next + a.Every - 1) / a.Every * a.Every
		}
	}
}

// listedTimes are given times that may repeat.
func listedTimes(a *scenario.Arrival) func() time.Duration {
	i, offset := 0, time.Duration(0)
	return func() time.Duration {
		if i == len(a.Times) {
			if a.Repeat == 0 || offset > longestTime {
				return scenario.Forever
			}
			i, offset = 0, offset+a.Repeat
		}
		i++
		return a.Times[i-1] + offset
	}
}

// longestTime keeps sums of times far from overflow.
const longestTime = scenario.Forever / 4

// randomTimes are those of a Poisson process. Outside of windows it pauses: a
// memoryless process may as well restart when the next one opens.
func randomTimes(a *scenario.Arrival, stream distribution.Stream) func() time.Duration {
	gap := distribution.NewExponential(a.Every.Seconds()).Within(0, longestTime.Seconds())
	now := activeFrom(a.Active, 0)
	return func() time.Duration {
		for now < longestTime {
			closes := activeUntil(a.Active, now)
			now += time.Duration(gap.Draw(&stream) * float64(time.Second))
			if now < closes {
				return now
			}
			now = activeFrom(a.Active, closes)
		}
		return scenario.Forever
	}
}

// activeFrom returns the first moment from now on that is in one of the windows;
// without windows, now itself.
func activeFrom(windows []scenario.Window, now time.Duration) time.Duration {
	if len(windows) == 0 || now == scenario.Forever {
		return now
	}
	first := scenario.Forever
	for _, w := range windows {
		if opens, _ := occurrence(w, now); opens < first {
			first = opens
		}
	}
	return max(first, now)
}

// activeUntil returns when now, which is active, is no longer in any of the
// windows that it is in.
func activeUntil(windows []scenario.Window, now time.Duration) time.Duration {
	if len(windows) == 0 {
		return scenario.Forever
	}
	until := now
	for _, w := range windows {
		if opens, closes := occurrence(w, now); opens <= now {
			until = max(until, closes)
		}
	}
	return until
}

// occurrence returns the occurrence of a window that now is in, or else the next
// one; Forever if there is none.
func occurrence(w scenario.Window, now time.Duration) (opens, closes time.Duration) {
	opens, closes = w.From, w.To
	if w.Every > 0 && now >= closes {
		skipped := (now - w.From) / w.Every * w.Every
		if opens, closes = w.From+skipped, w.To+skipped; now >= closes {
			opens, closes = opens+w.Every, closes+w.Every
		}
	}
	if now >= closes {
		return scenario.Forever, scenario.Forever
	}
	return opens, closes
}

// demandTimes returns the occurrences of all windows in the order in which they
// open, by position in the list among equals; an occurrence that opens at
// Forever when there are no more.
func demandTimes(windows []scenario.DemandWindow) func() scenario.DemandWindow {
	next := make([]scenario.DemandWindow, len(windows))
	copy(next, windows)
	return func() scenario.DemandWindow {
		first := 0
		for i := range next {
			if next[i].From < next[first].From {
				first = i
			}
		}
		w := next[first]
		if w.Every > 0 && w.To < longestTime {
			next[first].From += w.Every
			next[first].To += w.Every
		} else {
			next[first].From = scenario.Forever
		}
		return w
	}
}
