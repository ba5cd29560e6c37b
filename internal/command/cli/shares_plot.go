package cli

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/weirhq/weir/internal/engine/treefile"
	"github.com/weirhq/weir/internal/value/resource"
)

// palette is Okabe and Ito's, which stays distinct for colour-blind readers.
var palette = []color.RGBA{
	{0x00, 0x72, 0xb2, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff}, {0xcc, 0x79, 0xa7, 0xff},
	{0xe6, 0x9f, 0x00, 0xff}, {0x56, 0xb4, 0xe9, 0xff}, {0x99, 0x99, 0x99, 0xff}, {0x00, 0x00, 0x00, 0xff},
}

const (
	plotWidth   = 24 * vg.Centimeter
	panelHeight = 9 * vg.Centimeter
	margin      = 3 * vg.Millimeter
	// letterWidth is that of a letter of a legend, generously.
	letterWidth = 2 * vg.Millimeter
)

// panel is one figure. Its legend stands beside it, where it covers no line.
type panel struct {
	*plot.Plot
	legend plot.Legend
	widest int // letters of the longest line of the legend
}

// draw returns the two figures of the integral-guarantees document as SVG: what
// pools are entitled to and ask for, and what they have saved. Trees without
// integral pools have only the first.
func (h *history) draw() ([]byte, error) {
	entitlement, err := h.entitlementPanel()
	if err != nil {
		return nil, err
	}
	panels := []*panel{entitlement}
	if volume, err := h.volumePanel(); err != nil {
		return nil, err
	} else if volume != nil {
		panels = append(panels, volume)
	}
	var column [][]*plot.Plot
	widest := 0
	for _, p := range panels {
		column = append(column, []*plot.Plot{p.Plot})
		widest = max(widest, min(p.widest, 50))
	}
	canvas := vgsvg.New(plotWidth, panelHeight*vg.Length(len(panels)))
	whole := draw.New(canvas)
	beside := 10*vg.Millimeter + vg.Length(widest)*letterWidth
	tiles := draw.Tiles{Rows: len(panels), Cols: 1, PadY: margin, PadTop: margin, PadBottom: margin, PadLeft: margin}
	areas := plot.Align(column, tiles, draw.Crop(whole, 0, -beside-margin, 0, 0))
	for i, p := range panels {
		p.Draw(areas[i][0])
		right := areas[i][0]
		right.Min.X, right.Max.X = whole.Max.X-beside, whole.Max.X
		right.Max.Y -= p.Title.TextStyle.FontExtents().Height + p.Title.Padding
		p.legend.Draw(right)
	}
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return nil, err
	}
	// The font that widths were measured with, then fonts of the same widths.
	return bytes.ReplaceAll(out.Bytes(), []byte("font-family:Liberation Sans;"),
		[]byte("font-family:Liberation Sans,Arimo,Arial,Helvetica,sans-serif;")), nil
}

// plotUnit is how a resource is drawn: its values are divided by scale.
type plotUnit struct {
	name  string
	scale float64
}

// unitFor keeps the numbers of an axis short.
func unitFor(k resource.Kind, most float64, perSecond bool) plotUnit {
	unit := plotUnit{name: map[resource.Kind]string{resource.CPU: "cores", resource.Memory: "bytes"}[k], scale: 1}
	if unit.name == "" {
		unit.name = k.String()
	}
	base, prefixes := 1000.0, []string{"", "thousand ", "million ", "billion ", "trillion "}
	if k == resource.Memory {
		base, prefixes = 1024, []string{"", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	}
	i := 0
	for k == resource.Memory || perSecond {
		if most/unit.scale < 10*base || i == len(prefixes)-1 {
			break
		}
		unit.scale *= base
		i++
	}
	switch {
	case k == resource.Memory && i > 0:
		unit.name = prefixes[i]
	case k != resource.Memory:
		unit.name = prefixes[i] + unit.name
	}
	if perSecond {
		unit.name += "·s"
	}
	return unit
}

func (h *history) newPanel(title, y string) *panel {
	p := &panel{Plot: plot.New(), legend: plot.NewLegend()}
	p.Title.Text = title
	p.Title.Padding = 2 * vg.Millimeter
	p.X.Label.Text = "time, " + h.timeUnit().name
	p.Y.Label.Text = y
	p.X.Label.Padding, p.Y.Label.Padding = vg.Millimeter, 2*vg.Millimeter
	p.X.Tick.Marker = plot.TickerFunc(timeTicks)
	p.Y.Tick.Marker = plot.TickerFunc(plainTicks)
	p.legend.Top, p.legend.Left = true, true
	p.legend.Padding = vg.Millimeter
	p.legend.ThumbnailWidth = 7 * vg.Millimeter
	for _, t := range []struct {
		style *text.Style
		size  vg.Length
	}{
		{&p.Title.TextStyle, 12}, {&p.X.Label.TextStyle, 10}, {&p.Y.Label.TextStyle, 10},
		{&p.X.Tick.Label, 9}, {&p.Y.Tick.Label, 9}, {&p.legend.TextStyle, 9},
	} {
		t.style.Font.Variant, t.style.Font.Size = "Sans", t.size
	}
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{225}, color.Gray{225}
	p.Add(grid)
	return p
}

// timeUnit is hours, or what suits a shorter time.
func (h *history) timeUnit() plotUnit {
	length := time.Duration(0)
	if len(h.series) > 0 {
		length = h.series[0].Samples[len(h.series[0].Samples)-1].At
	}
	switch {
	case length > 10*24*time.Hour:
		return plotUnit{"days", (24 * time.Hour).Seconds()}
	case length > 2*time.Hour:
		return plotUnit{"hours", time.Hour.Seconds()}
	case length > 2*time.Minute:
		return plotUnit{"minutes", time.Minute.Seconds()}
	}
	return plotUnit{"seconds", 1}
}

func (h *history) entitlementPanel() (*panel, error) {
	total := h.total.Float(h.kind)
	unit := unitFor(h.kind, total, false)
	// Demand far above the cluster would squash everything else.
	top := total * 1.25
	title, cut := fmt.Sprintf("%v: entitlement and demand", h.kind), false
	for i := range h.series {
		cut = cut || slices.ContainsFunc(h.series[i].Samples, func(s treefile.Sample) bool { return s.Demand[h.kind]*total > top })
	}
	if cut {
		title += fmt.Sprintf(" (demand is cut at %s)", shareAmount(h.total, h.kind, 1.25))
	}
	p := h.newPanel(title, unit.name)
	for i := range h.series {
		s := &h.series[i]
		demand := h.line(s, func(sample *treefile.Sample) float64 { return min(sample.Demand[h.kind]*total, top) / unit.scale })
		share := h.line(s, func(sample *treefile.Sample) float64 { return sample.FairShare.Total[h.kind] * total / unit.scale })
		if err := p.addLine(s.Name+": demand", demand, i, dashed); err != nil {
			return nil, err
		}
		if err := p.addLine(s.Name+": entitled to", share, i, solid); err != nil {
			return nil, err
		}
	}
	cluster := plotter.NewFunction(func(float64) float64 { return total / unit.scale })
	cluster.Color, cluster.Width, cluster.Dashes = color.Gray{90}, vg.Points(0.8), []vg.Length{vg.Points(1), vg.Points(2)}
	p.Add(cluster)
	p.addToLegend("cluster", cluster)
	h.setAxes(p, top/unit.scale)
	return p, nil
}

func (h *history) volumePanel() (*panel, error) {
	total := h.total.Float(h.kind)
	most := 0.0
	for i := range h.series {
		for n := range h.series[i].Samples {
			sample := &h.series[i].Samples[n]
			most = max(most, sample.CapacityRatio, sample.RatioVolume)
		}
	}
	if most == 0 || total == 0 {
		return nil, nil
	}
	unit := unitFor(h.kind, most*total, true)
	p := h.newPanel("accumulated volume and its capacity", unit.name)
	for i := range h.series {
		s := &h.series[i]
		if !h.isIntegral(s) {
			continue
		}
		volume := h.slope(s, func(sample *treefile.Sample) float64 { return sample.RatioVolume * total / unit.scale })
		capacity := h.slope(s, func(sample *treefile.Sample) float64 { return sample.CapacityRatio * total / unit.scale })
		if err := p.addLine(s.Name+": capacity", capacity, i, dashed); err != nil {
			return nil, err
		}
		if err := p.addLine(s.Name+": accumulated", volume, i, solid); err != nil {
			return nil, err
		}
	}
	h.setAxes(p, most*total/unit.scale*1.1)
	return p, nil
}

// setAxes begins both at zero. It must come after all lines, which widen axes.
func (h *history) setAxes(p *panel, top float64) {
	p.X.Min, p.Y.Min = 0, 0
	p.X.Max, p.Y.Max = 1, max(top, 1e-9)
	if len(h.series) > 0 {
		last := h.series[0].Samples[len(h.series[0].Samples)-1]
		p.X.Max = max(last.At.Seconds()/h.timeUnit().scale, 1e-9)
	}
}

// line holds values until the next sample, as shares do between updates.
func (h *history) line(s *treefile.Series, value func(*treefile.Sample) float64) plotter.XYs {
	var points plotter.XYs
	for _, point := range h.slope(s, value) {
		if n := len(points); n > 0 && points[n-1].Y != point.Y {
			points = append(points, plotter.XY{X: point.X, Y: points[n-1].Y})
		}
		points = append(points, point)
	}
	return points
}

// slope joins values by straight lines, as volumes grow and shrink.
func (h *history) slope(s *treefile.Series, value func(*treefile.Sample) float64) plotter.XYs {
	unit := h.timeUnit()
	points := make(plotter.XYs, len(s.Samples))
	for n := range s.Samples {
		points[n] = plotter.XY{X: s.Samples[n].At.Seconds() / unit.scale, Y: value(&s.Samples[n])}
	}
	return points
}

var (
	solid  []vg.Length
	dashed = []vg.Length{vg.Points(5), vg.Points(3)}
)

func (p *panel) addLine(name string, points plotter.XYs, index int, dashes []vg.Length) error {
	line, err := plotter.NewLine(points)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	line.Color, line.Dashes = palette[index%len(palette)], dashes
	// Earlier lines are wider, so that they are seen below later ones.
	line.Width = vg.Points(max(2.6-0.6*float64(index), 1.2))
	if dashes != nil {
		line.Width = vg.Points(0.9)
	}
	p.Add(line)
	p.addToLegend(name, line)
	return nil
}

func (p *panel) addToLegend(name string, thumbnail plot.Thumbnailer) {
	p.widest = max(p.widest, utf8.RuneCountInString(name))
	p.legend.Add(name, thumbnail)
}

// timeTicks marks time at distances that people divide days by.
func timeTicks(least, most float64) []plot.Tick {
	distance := 1.0
	for _, d := range []float64{1, 2, 3, 6, 12, 24, 48, 120, 240, 1000} {
		if distance = d; most/d <= 14 {
			break
		}
	}
	return ticksEvery(distance, least, most)
}

// plainTicks marks values at round distances and writes them without exponents.
func plainTicks(least, most float64) []plot.Tick {
	if !(most > least) {
		return nil
	}
	distance := math.Pow(10, math.Floor(math.Log10((most-least)/4)))
	for _, factor := range []float64{5, 2} {
		if (most-least)/(distance*factor) >= 4 {
			distance *= factor
			break
		}
	}
	return ticksEvery(distance, least, most)
}

func ticksEvery(distance, least, most float64) (ticks []plot.Tick) {
	for i := int(math.Ceil(least / distance)); float64(i)*distance <= most*(1+1e-9); i++ {
		value := float64(i) * distance
		ticks = append(ticks, plot.Tick{Value: value, Label: strconv.FormatFloat(roundTo(value, 6), 'f', -1, 64)})
	}
	return ticks
}
