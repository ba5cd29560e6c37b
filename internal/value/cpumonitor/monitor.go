// Package cpumonitor decides how much CPU a running job is guaranteed, from its usage: smoothing,
// votes, and the advised limit.
//
// At every check the caller passes in the CPU time that the job has used so far. Usage since the
// last check is smoothed exponentially. Each of the last smoothed values votes for less, for more or
// for neither, as it is below, above or within an interval around the limit of this moment. When
// the votes agree, the limit is multiplied by a coefficient. This keeps usage between the two bounds
// of the limit:
//
//	Observe ──► no advice
//	        └─► advice ──► Applied   the limit is the new one
//	                   └─► Refused   it stays; the next check advises again
//
// A monitor belongs to one job. The package is pure: the caller passes in time and readings, and
// applies the advice. It imports only the standard library and must not know about containers or
// operations.
package cpumonitor

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Vote is the vote of one smoothed value about the limit.
type Vote int8

const (
	VoteLess Vote = -1
	VoteStay Vote = 0
	VoteMore Vote = 1
)

// Advice is the result of a reading.
type Advice struct {
	// Limit is the new limit, if Change is set.
	Limit float64
	// Change reports whether the limit changes.
	Change bool
	// Apply asks the caller to set Limit on the container and to report the outcome by Applied or
	// Refused. It is never set without EnableReclaim: the monitor then assumes that the limit is
	// set.
	Apply bool
}

// Monitor follows the CPU usage of one job.
//
// Invariants: floor ≤ soft ≤ hard; there are at most as many values as the window has.
type Monitor struct {
	options Options
	hard    float64 // what the job was given
	floor   float64
	soft    float64 // the current limit

	begun     bool // there has been a reading
	last      time.Time
	lastTotal time.Duration

	judged   bool // smoothed has a value
	smoothed float64
	values   []float64 // the last smoothed values, the newest at the end

	pending *pending

	// Core-seconds since the first reading.
	smoothedTime, preemptibleTime, hardTime float64

	history ring
}

// pending is advice that the caller has not answered yet.
type pending struct {
	limit float64
	// The value of preemptibleTime if the limit is set.
	preemptibleTime float64
}

// New returns the monitor of a job with hard cores.
func New(options Options, hard float64) (*Monitor, error) {
	if err := errors.Join(options.Validate(), checkHard(hard)); err != nil {
		return nil, fmt.Errorf("CPU monitor: %w", err)
	}
	return &Monitor{options: options, hard: hard, floor: min(hard, options.MinCPULimit), soft: hard}, nil
}

// FirstCheck is when the first reading is due for a job that started at the given time. Others
// follow every CheckPeriod; a missed one is not made up for.
func (m *Monitor) FirstCheck(started time.Time) time.Time { return started.Add(m.options.StartDelay) }

// Options returns the options of the monitor.
func (m *Monitor) Options() Options { return m.options }

// Limit is the current limit in cores.
func (m *Monitor) Limit() float64 { return m.soft }

// HardLimit is the job's allocated CPU, the upper bound of Limit.
func (m *Monitor) HardLimit() float64 { return m.hard }

// Observe processes a reading: the CPU time that all processes of the job, the proxy's included,
// have used so far. It ignores a reading that is not later than the last one. If the CPU time is
// less than before, the counter restarted, and so does the monitor's interval. Advice without an
// answer counts as refused.
func (m *Monitor) Observe(now time.Time, total time.Duration) Advice {
	m.pending = nil
	if m.begun && !now.After(m.last) {
		return Advice{}
	}
	began, passed, used := m.begun, now.Sub(m.last).Seconds(), total-m.lastTotal
	m.begun, m.last, m.lastTotal = true, now, total
	if !began || used < 0 {
		return Advice{}
	}
	m.smooth(used.Seconds() / passed)
	if len(m.values) == m.options.VoteWindowSize {
		m.values = m.values[:copy(m.values, m.values[1:])]
	}
	m.values = append(m.values, m.smoothed)
	vote, limit := m.vote(m.smoothed), m.decide()
	advice := Advice{Limit: limit, Change: limit != m.soft}
	before := m.preemptibleTime
	if advice.Change && !m.options.EnableReclaim {
		m.soft = limit
	}
	m.smoothedTime += m.smoothed * passed
	m.hardTime += m.hard * passed
	m.preemptibleTime += (m.hard - m.soft) * passed
	if advice.Change && m.options.EnableReclaim {
		advice.Apply = true
		m.pending = &pending{limit: limit, preemptibleTime: before + (m.hard-limit)*passed}
	}
	m.history.add(Sample{Time: now, Smoothed: m.smoothed, Limit: m.soft, Vote: vote})
	if !advice.Change {
		return Advice{}
	}
	return advice
}

// smooth processes a measured usage. The first value is the job's allocated CPU: a new job is
// presumed to need what it requested.
func (m *Monitor) smooth(usage float64) {
	if !m.judged {
		m.judged, m.smoothed = true, m.hard
		return
	}
	m.smoothed = m.options.SmoothingFactor*usage + (1-m.options.SmoothingFactor)*m.smoothed
}

// vote judges a smoothed value against the current limit.
func (m *Monitor) vote(value float64) Vote {
	switch {
	case value < m.options.RelativeLowerBound*m.soft:
		return VoteLess
	case value > m.options.RelativeUpperBound*m.soft:
		return VoteMore
	}
	return VoteStay
}

// decide returns the limit that the last values ask for. Values are kept: they vote again at the
// next check, about the limit of that moment.
func (m *Monitor) decide() float64 {
	if len(m.values) < m.options.VoteWindowSize {
		return m.soft
	}
	sum := 0
	for _, value := range m.values {
		sum += int(m.vote(value))
	}
	switch {
	case sum > m.options.VoteDecisionThreshold:
		return min(m.soft*m.options.IncreaseCoefficient, m.hard)
	case sum < -m.options.VoteDecisionThreshold:
		return max(m.soft*m.options.DecreaseCoefficient, m.floor)
	}
	return m.soft
}

// Applied reports that the limit of the last advice was set.
func (m *Monitor) Applied() {
	if m.pending == nil {
		return
	}
	m.soft, m.preemptibleTime = m.pending.limit, m.pending.preemptibleTime
	m.history.newest().Limit = m.soft
	m.pending = nil
}

// Refused reports that the limit of the last advice could not be set. The limit stays.
func (m *Monitor) Refused() { m.pending = nil }

// Statistics are the figures of a job, in hundredths of a core and of a core-second.
type Statistics struct {
	// SmoothedUsageX100 is the current smoothed usage.
	SmoothedUsageX100 int64 `json:"smoothed_cpu_usage_x100"`
	// PreemptibleX100 is the difference between the job's allocated CPU and the limit.
	PreemptibleX100 int64 `json:"preemptible_cpu_x100"`
	// The others are sums over time: of smoothed usage, of the job's allocated CPU,
	// of the CPU that could be preempted, and of the CPU that was.
	AggregatedSmoothedUsageX100 int64 `json:"aggregated_smoothed_cpu_usage_x100"`
	AggregatedMaxUsageX100      int64 `json:"aggregated_max_cpu_usage_x100"`
	AggregatedPreemptibleX100   int64 `json:"aggregated_preemptible_cpu_x100"`
	AggregatedPreemptedX100     int64 `json:"aggregated_preempted_cpu_x100"`
}

// Statistics returns the figures so far.
func (m *Monitor) Statistics() Statistics {
	s := Statistics{
		SmoothedUsageX100:           hundredths(m.smoothed),
		PreemptibleX100:             hundredths(m.hard - m.soft),
		AggregatedSmoothedUsageX100: hundredths(m.smoothedTime),
		AggregatedMaxUsageX100:      hundredths(m.hardTime),
		AggregatedPreemptibleX100:   hundredths(m.preemptibleTime),
	}
	if m.options.EnableReclaim {
		s.AggregatedPreemptedX100 = s.AggregatedPreemptibleX100
	}
	return s
}

// hundredths rounds a figure once, when it is reported.
func hundredths(x float64) int64 { return int64(math.Round(min(x*100, math.MaxInt64/2))) }
