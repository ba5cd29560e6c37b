package server

import (
	"math"
	"time"
)

const (
	// cpuPoints is how many steps a track has at most: enough for a small chart, little beside the rest of a record.
	cpuPoints = 24
	// cpuStep is the length of the steps of a short job.
	cpuStep = time.Second
	// keptSteps is how many steps a job must have had for its track to be archived with it.
	keptSteps = 5
)

// cpuPoint is what a job was allowed and what it used, smoothed, in hundredths of a core. Records of jobs are many and
// copied often, so a point is small; more than mostCPU is written as that.
type cpuPoint struct{ limit, usage uint16 }

const mostCPU = math.MaxUint16 - 1

var unknownCPU = cpuPoint{math.MaxUint16, math.MaxUint16}

// cpuPointOf is a point from hundredths of a core.
func cpuPointOf(limit, usage int64) cpuPoint {
	return cpuPoint{uint16(min(max(limit, 0), mostCPU)), uint16(min(max(usage, 0), mostCPU))}
}

// CPUTrack is how the CPU of a job went since it began, in steps of equal length. When there is no place left for another
// step, each two become one that is twice as long: a job of any length has one, of the same size. It is a value.
type CPUTrack struct {
	doublings uint8
	count     uint8
	points    [cpuPoints]cpuPoint
}

// step is the length of a step.
func (t *CPUTrack) step() time.Duration { return cpuStep << t.doublings }

// observe takes in what holds so long after the beginning of the job. Between two observations the first one holds; before
// the first one nothing is known.
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

// double joins each two steps.
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

// meanCPU is what lies between two points, or the one that is known.
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

// CPUHistory is a track as it is archived: hundredths of cores, -1 where nobody knows.
type CPUHistory struct {
	StepMS int64   `json:"step_ms"`
	Limit  []int32 `json:"limit"`
	Usage  []int32 `json:"usage"`
}

// archived returns what is kept of the track of a job that ran so long, or nil if there is too little of it.
func (t CPUTrack) archived(ran time.Duration) *CPUHistory {
	h := t.History(ran)
	if len(h.Limit) < keptSteps {
		return nil
	}
	return h
}

// History returns the track until so long after the beginning of the job, in the form in which it is archived. What was
// last observed holds until then: nodes tell only what has changed.
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
