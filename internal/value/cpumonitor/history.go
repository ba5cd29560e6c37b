package cpumonitor

import "time"

// HistorySize is the number of checks that a monitor remembers.
const HistorySize = 300

// Sample is one check, for display.
type Sample struct {
	Time     time.Time `json:"time"`
	Smoothed float64   `json:"smoothed"`
	// Limit is the limit after the check.
	Limit float64 `json:"limit"`
	Vote  Vote    `json:"vote"`
}

// ring keeps the newest samples. Once it is full, start is the oldest.
type ring struct {
	samples []Sample
	start   int
}

func (r *ring) add(s Sample) {
	if len(r.samples) < HistorySize {
		r.samples = append(r.samples, s)
		return
	}
	r.samples[r.start] = s
	r.start = (r.start + 1) % HistorySize
}

// newest returns the last sample of a ring that has one.
func (r *ring) newest() *Sample {
	return &r.samples[(r.start+len(r.samples)-1)%len(r.samples)]
}

// History appends the last checks, oldest first.
func (m *Monitor) History(into []Sample) []Sample {
	into = append(into, m.history.samples[m.history.start:]...)
	return append(into, m.history.samples[:m.history.start]...)
}
