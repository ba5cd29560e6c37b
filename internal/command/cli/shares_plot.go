package cli

import (
	"fmt"

	"github.com/weirhq/weir/internal/engine/treefile"
	"github.com/weirhq/weir/internal/value/chart"
	"github.com/weirhq/weir/internal/value/resource"
)

// drawnHeight is the height of one chart of a picture, in pixels.
const drawnHeight = 300

// clusterColour is a grey, reserved for the cluster; pools have the other colours.
const clusterColour = 6

// draw returns the two figures of the integral-guarantees document as SVG: what pools are entitled
// to and demand, and what they have saved. Trees without integral pools have only the first.
func (h *history) draw() []byte {
	charts := []chart.TimeChart{h.entitlementChart()}
	if volume, ok := h.volumeChart(); ok {
		charts = append(charts, volume)
	}
	return chart.Picture(charts...)
}

// overTime is a chart without lines.
func (h *history) overTime(title string, unit chart.Unit) chart.TimeChart {
	c := chart.TimeChart{Title: title, Unit: unit, Height: drawnHeight}
	if len(h.series) > 0 {
		samples := h.series[0].Samples
		c.End = samples[len(samples)-1].At.Seconds()
		if len(samples) > 1 {
			c.Step = samples[1].At.Seconds()
		}
	}
	return c
}

// drawnUnit is how amounts of the resource are written on an axis.
func (h *history) drawnUnit(name string) chart.Unit {
	switch h.kind {
	case resource.CPU:
		return chart.Unit{Name: "cores" + name}
	case resource.Memory:
		return chart.Unit{Name: "bytes" + name, Binary: true}
	}
	return chart.Unit{Name: h.kind.String() + name}
}

func (h *history) entitlementChart() chart.TimeChart {
	total := h.total.Float(h.kind)
	c := h.overTime(fmt.Sprintf("%v: entitlement and demand", h.kind), h.drawnUnit(""))
	c.Least = total
	// Demand far above the cluster would squash everything else.
	const most = 1.25
	cut := false
	for i := range h.series {
		demand := h.line(i, "demand", chart.Dashed, func(s *treefile.Sample) float64 {
			cut = cut || s.Demand[h.kind] > most
			return min(s.Demand[h.kind], most) * total
		})
		c.Lines = append(c.Lines, demand, h.line(i, "entitled to", chart.Solid, func(s *treefile.Sample) float64 {
			return s.FairShare.Total[h.kind] * total
		}))
	}
	if cut {
		c.Title += fmt.Sprintf(" (demand is cut at %s)", shareAmount(h.total, h.kind, most))
	}
	if len(h.series) > 0 {
		cluster := chart.Line{Name: "cluster", Look: chart.Dotted, Colour: clusterColour}
		for range h.series[0].Samples {
			cluster.Values = append(cluster.Values, total)
		}
		c.Lines = append(c.Lines, cluster)
	}
	return c
}

// volumeChart returns false if no pool saves anything.
func (h *history) volumeChart() (c chart.TimeChart, ok bool) {
	total := h.total.Float(h.kind)
	c = h.overTime("accumulated volume and its capacity", h.drawnUnit("·s"))
	for i := range h.series {
		if !h.isIntegral(&h.series[i]) {
			continue
		}
		capacity := h.line(i, "capacity", chart.Dashed, func(s *treefile.Sample) float64 {
			ok = ok || s.CapacityRatio > 0 || s.RatioVolume > 0
			return s.CapacityRatio * total
		})
		volume := h.line(i, "accumulated", chart.Solid, func(s *treefile.Sample) float64 { return s.RatioVolume * total })
		// Volumes grow and shrink between samples; shares hold until the next update.
		capacity.Joined, volume.Joined = true, true
		c.Lines = append(c.Lines, capacity, volume)
	}
	return c, ok && total > 0
}

// line draws one value of a pool over all samples.
func (h *history) line(index int, name string, look chart.Look, value func(*treefile.Sample) float64) chart.Line {
	s := &h.series[index]
	colour := index % (chart.Colours - 1)
	if colour >= clusterColour {
		colour++
	}
	line := chart.Line{Name: s.Name + ": " + name, Look: look, Colour: colour}
	for n := range s.Samples {
		line.Values = append(line.Values, value(&s.Samples[n]))
	}
	return line
}
