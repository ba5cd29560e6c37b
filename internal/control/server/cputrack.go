package server

import (
	"math"
	"time"
)

const (
	// cpuPoints is the maximum number of steps in a track: enough for a small chart, small beside the rest of a record.
	cpuPoints = 24
	// cpuStep is the step length of a short job.
	cpuStep = time.Second
	// keptSteps is the minimum number of steps for which a job's track is archived.
	keptSteps = 5
)

// cpuPoint is a job's CPU limit and its smoothed usage, in hundredths of a core. There are many job records and they
// are copied often, so a point is small; values above mostCPU are stored as mostCPU.
type cpuPoint struct{ limit, usage uint16 }

const mostCPU = math.MaxUint16 - 1

var unknownCPU = cpuPoint{math.MaxUint16, math.MaxUint16}

// cpuPointOf returns a point from hundredths of a core.
func cpuPointOf(limit, usage int64) cpuPoint {
	return cpuPoint{uint16(min(max(limit, 0), mostCPU)), uint16(min(max(usage, 0), mostCPU))}
}

// CPUTrack is a job's CPU limit and usage since its start, in steps of equal length. When it is full, every two steps
// become one that is twice as long, so the track of a job of any length has the same size. It is a value.
type CPUTrack struct {
	doublings uint8
	count     uint8
	points    [cpuPoints]cpuPoint
}

// step is the length of a step.
func (t *CPUTrack) step() time.Duration { return cpuStep << t.doublings }

// observe records a point at a time after the start of the job. A point holds until the next one; before the first one
// nothing is known.
func (t *CPUTrack) observe(after time.Duration, now cpuPoint) {
	at := max(0, after)
	for at/t.step() >= cpuPoints {
		t.double()
	}
	last := unknownCPU
	if t.count > 0 {
		last = t.points[t.count-1]
	}
	for int(t.count) <= int(at/t.step()) {
		t.points[t.count] = last
		t.count++
	}
	t.points[t.count-1] = now
}

// double joins every two steps.
func (t *CPUTrack) double() {
	for i := range (int(t.count) + 1) / 2 {
		joined := t.points[2*i]
		if 2*i+1 < int(t.count) {
			joined = meanCPU(joined, t.points[2*i+1])
		}
		t.points[i] = joined
	}
	t.count = (t.count + 1) / 2
	t.doublings++
}

// meanCPU returns the mean of two points, or the one that is known.
func meanCPU(a, b cpuPoint) cpuPoint {
	switch unknownCPU {
	case a:
		return b
	case b:
		return a
	}
	mean := func(x, y uint16) uint16 { return uint16((uint32(x) + uint32(y)) / 2) }
	return cpuPoint{mean(a.limit, b.limit), mean(a.usage, b.usage)}
}

// CPUHistory is an archived track: hundredths of cores, -1 where the value is unknown.
type CPUHistory struct {
	StepMS int64   `json:"step_ms"`
	Limit  []int32 `json:"limit"`
	Usage  []int32 `json:"usage"`
}

// archived returns what is kept of a job's track, given how long the job ran, or nil if it is too short.
func (t CPUTrack) archived(ran time.Duration) *CPUHistory {
	h := t.History(ran)
	if len(h.Limit) < keptSteps {
		return nil
	}
	return h
}

// History returns the track up to a time after the start of the job, in its archived form. The last observation holds
// until then: nodes report only changes.
func (t CPUTrack) History(until time.Duration) *CPUHistory {
	if t.count > 0 {
		t.observe(max(until, time.Duration(t.count-1)*t.step()), t.points[t.count-1])
	}
	h := &CPUHistory{StepMS: t.step().Milliseconds()}
	for _, p := range t.points[:t.count] {
		limit, usage := int32(p.limit), int32(p.usage)
		if p == unknownCPU {
			limit, usage = -1, -1
		}
		h.Limit, h.Usage = append(h.Limit, limit), append(h.Usage, usage)
	}
	return h
}
