// Package chart draws small charts as SVG: lines over time and bars. Inside an HTML page, colours
// come from its style sheet by class, so that one picture serves light and dark pages; the page
// also needs [Style] and [Script]. [Picture] draws a self-contained file.
//
// The package knows nothing about the data that it draws and imports nothing of ours.
package chart

import (
	_ "embed"
	"fmt"
	"html"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Style is the style sheet of charts.
//
//go:embed chart.css
var Style string

// Script shows the values under the pointer. Charts are complete without it.
//
//go:embed chart.js
var Script string

// Look is how a line is drawn.
type Look uint8

const (
	Solid Look = iota
	Filled
	Dashed
	Dotted
	// Wide lines are pale and below all others, so that a line of the same values is visible on top
	// of them.
	Wide
	// Stacked lines are drawn on top of each other in the order of the chart, each as an area on
	// the sum of the previous ones.
	Stacked
)

var lookNames = [...]string{"solid", "filled", "dashed", "dotted", "wide", "stacked"}

// Colours is the number of colours; after that they repeat.
const Colours = 8

// Line is values over time. Each value holds for an interval, or, if Joined, for the moment at
// which the interval starts; straight lines then join them.
type Line struct {
	Name   string
	Values []float64
	Joined bool // values are of moments
	Look   Look
	Colour int // from 0
}

// Unit is how values are written on an axis.
type Unit struct {
	// Name is written beside the title: "cores".
	Name string
	// Binary uses powers of 1024 for large numbers: KiB, MiB.
	Binary bool
	// Percent writes 0.5 as 50 %.
	Percent bool
	// Duration writes seconds as times.
	Duration bool
	// Whole units have no ticks between whole numbers.
	Whole bool
}

// TimeChart is lines over time.
type TimeChart struct {
	Title string
	Unit  Unit
	// Step is the length of an interval in seconds; End is the end of the last one if it is
	// shorter.
	Step, End float64
	// Start is the date of time zero; if it is set, the axis has dates.
	Start time.Time
	Lines []Line
	// Height in pixels; zero means the default.
	Height int
	// Least is the least top of the axis; zero means that of the values. Values above Cap are drawn
	// at the top; zero means no cap.
	Least, Cap float64
}

// Geometry of a chart in units of its view box.
const (
	width        = 720.0
	usualHeight  = 210
	leftMargin   = 62.0
	rightMargin  = 14.0
	topMargin    = 10.0
	bottomMargin = 26.0
)

// frame is the area in which values are drawn.
type frame struct {
	height       float64
	top          float64 // value at the top
	left, right  float64
	upper, lower float64
}

func newFrame(height int, top float64) frame {
	if height <= 0 {
		height = usualHeight
	}
	return frame{
		height: float64(height), top: top, left: leftMargin, right: width - rightMargin,
		upper: topMargin, lower: float64(height) - bottomMargin,
	}
}

// y returns the position of a value; values beyond the frame are at its edge.
func (f *frame) y(value float64) float64 {
	part := 0.0
	if f.top > 0 && value > 0 {
		part = min(value/f.top, 1)
	}
	return f.lower - part*(f.lower-f.upper)
}

// number writes a coordinate with at most one decimal.
func number(v float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
}

// SVG draws the chart as a figure with its legend. It omits lines without values.
func (c TimeChart) SVG() string {
	var b strings.Builder
	f, ticks, end := c.prepare()
	caption(&b, c.Title, c.Unit)
	c.legend(&b)
	fmt.Fprintf(&b, `<svg viewBox="0 0 %s %s" role="img" aria-label="%s" data-end="%s" data-top="%s" data-unit="%s" data-frame="%s %s %s %s"`,
		number(width), number(f.height), html.EscapeString(c.Title), strconv.FormatFloat(end, 'g', -1, 64),
		strconv.FormatFloat(f.top, 'g', -1, 64), c.Unit.word(),
		number(f.left), number(f.right), number(f.upper), number(f.lower))
	if !c.Start.IsZero() {
		fmt.Fprintf(&b, ` data-start="%d"`, c.Start.Unix())
	}
	b.WriteByte('>')
	c.draw(&b, f, ticks, end)
	b.WriteString(`</svg></figure>`)
	return b.String()
}

// draw draws the contents of the frame and its axes.
func (c *TimeChart) draw(b *strings.Builder, f frame, ticks []float64, end float64) {
	f.grid(b, ticks, c.Unit)
	f.timeAxis(b, c.Start, end)
	c.lines(b, &f, end)
}

// prepare removes lines without values, stacks the others and finds the bounds of both axes.
func (c *TimeChart) prepare() (f frame, ticks []float64, end float64) {
	largest := c.Least
	points := 0
	c.Lines = slices.DeleteFunc(slices.Clone(c.Lines), func(l Line) bool { return len(l.Values) == 0 })
	c.stack()
	for _, l := range c.Lines {
		points = max(points, len(l.Values))
		for _, v := range l.Values {
			largest = max(largest, v)
		}
	}
	if c.Cap > 0 {
		largest = min(largest, c.Cap)
	}
	ticks, top := yTicks(largest, c.Unit)
	if end = c.End; end <= 0 {
		end = c.Step * float64(points)
	}
	return newFrame(c.Height, top), ticks, end
}

// stack adds the values of the previous stacked lines to each one.
func (c *TimeChart) stack() {
	var below []float64
	for i := range c.Lines {
		l := &c.Lines[i]
		if l.Look != Stacked {
			continue
		}
		sum := make([]float64, max(len(l.Values), len(below)))
		copy(sum, below)
		for j, v := range l.Values {
			sum[j] += max(v, 0)
		}
		l.Values, below = sum, sum
	}
}

// lines draws wide lines first, then stacked ones from the top to the bottom, so that each covers
// the ones above it, then the others.
func (c *TimeChart) lines(b *strings.Builder, f *frame, end float64) {
	for _, l := range c.Lines {
		if l.Look == Wide {
			f.line(b, l, c.Step, end)
		}
	}
	for _, l := range slices.Backward(c.Lines) {
		if l.Look == Stacked {
			f.line(b, l, c.Step, end)
		}
	}
	for _, l := range c.Lines {
		if l.Look != Wide && l.Look != Stacked {
			f.line(b, l, c.Step, end)
		}
	}
}

// caption starts a figure with its title and the unit of its axis.
func caption(b *strings.Builder, title string, unit Unit) {
	fmt.Fprintf(b, `<figure class="chart"><figcaption>%s`, html.EscapeString(title))
	if unit.Name != "" {
		fmt.Fprintf(b, ` <span class="unit">%s</span>`, html.EscapeString(unit.Name))
	}
	b.WriteString(`</figcaption>`)
}

// word tells the script how to write values.
func (u Unit) word() string {
	switch {
	case u.Percent:
		return "percent"
	case u.Duration:
		return "duration"
	case u.Binary:
		return "binary"
	}
	return "number"
}

func (c TimeChart) legend(b *strings.Builder) {
	b.WriteString(`<div class="legend">`)
	for _, l := range c.Lines {
		fmt.Fprintf(b, `<span class="key c%d %s">%s</span>`, l.Colour%Colours, lookNames[l.Look], html.EscapeString(l.Name))
	}
	b.WriteString(`</div>`)
}

// grid draws horizontal lines with their values.
func (f *frame) grid(b *strings.Builder, ticks []float64, unit Unit) {
	for _, v := range ticks {
		y := number(f.y(v))
		fmt.Fprintf(b, `<path class="grid" d="M%s %sH%s"/><text class="tick" x="%s" y="%s" text-anchor="end">%s</text>`,
			number(f.left), y, number(f.right), number(f.left-6), number(f.y(v)+3.5), html.EscapeString(unit.Format(v)))
	}
}

// timeAxis draws the times below. Every other label can be hidden if there is little space.
func (f *frame) timeAxis(b *strings.Builder, start time.Time, end float64) {
	if end <= 0 {
		return
	}
	ticks := timeTicks(end)
	if !start.IsZero() {
		ticks = dateTicks(start, end)
	}
	for i, t := range ticks {
		x := f.left + t.at/end*(f.right-f.left)
		class := "tick x"
		if i%2 == 1 {
			class = "tick x odd"
		}
		fmt.Fprintf(b, `<path class="grid" d="M%s %sV%s"/><text class="%s" x="%s" y="%s" text-anchor="middle">%s</text>`,
			number(x), number(f.upper), number(f.lower), class, number(x), number(f.lower+16), t.label)
	}
}

// line draws values as steps, because each holds for an interval, or joins them. Runs of equal
// values are one step.
func (f *frame) line(b *strings.Builder, l Line, step, end float64) {
	if end <= 0 {
		return
	}
	x := func(i int) string {
		return number(f.left + min(float64(i)*step, end)/end*(f.right-f.left))
	}
	var path strings.Builder
	last := number(f.y(l.Values[0]))
	fmt.Fprintf(&path, "M%s %s", x(0), last)
	for i := 1; i < len(l.Values); i++ {
		y := number(f.y(l.Values[i]))
		switch {
		case l.Joined:
			fmt.Fprintf(&path, "L%s %s", x(i), y)
		case y != last:
			fmt.Fprintf(&path, "H%sV%s", x(i), y)
		}
		last = y
	}
	fmt.Fprintf(&path, "H%s", x(len(l.Values)))
	if l.Look == Filled || l.Look == Stacked {
		fmt.Fprintf(b, `<path class="area c%d %s" d="%sV%sH%sZ"/>`, l.Colour%Colours, lookNames[l.Look], path.String(), number(f.lower), x(0))
	}
	fmt.Fprintf(b, `<path class="line c%d %s" data-name="%s" d="%s"/>`, l.Colour%Colours, lookNames[l.Look], html.EscapeString(l.Name), path.String())
}

// Bar is one bar of a bar chart.
type Bar struct {
	Label string
	Value float64
}

// BarChart is bars beside each other.
type BarChart struct {
	Title  string
	Unit   Unit
	Bars   []Bar
	Colour int
	Height int
}

// SVG draws the chart as a figure.
func (c BarChart) SVG() string {
	largest := 0.0
	for _, bar := range c.Bars {
		largest = max(largest, bar.Value)
	}
	ticks, top := yTicks(largest, c.Unit)
	f := newFrame(c.Height, top)
	var b strings.Builder
	caption(&b, c.Title, c.Unit)
	fmt.Fprintf(&b, `<svg viewBox="0 0 %s %s" role="img" aria-label="%s">`, number(width), number(f.height), html.EscapeString(c.Title))
	f.grid(&b, ticks, c.Unit)
	each := (f.right - f.left) / float64(max(len(c.Bars), 1))
	every := int(math.Ceil(46 / each)) // omit labels that would touch
	for i, bar := range c.Bars {
		x, y := f.left+float64(i)*each, f.y(bar.Value)
		fmt.Fprintf(&b, `<rect class="bar c%d" x="%s" y="%s" width="%s" height="%s"><title>%s: %s</title></rect>`,
			c.Colour%Colours, number(x+each*0.1), number(y), number(each*0.8), number(f.lower-y),
			html.EscapeString(bar.Label), html.EscapeString(c.Unit.Format(bar.Value)))
		if i%every == 0 {
			class := "tick x"
			if i/every%2 == 1 {
				class = "tick x odd"
			}
			fmt.Fprintf(&b, `<text class="%s" x="%s" y="%s" text-anchor="middle">%s</text>`,
				class, number(x+each/2), number(f.lower+16), html.EscapeString(bar.Label))
		}
		// Next to large bars, small bars look like none.
		if each >= 46 && bar.Value > 0 {
			fmt.Fprintf(&b, `<text class="tick" x="%s" y="%s" text-anchor="middle">%s</text>`,
				number(x+each/2), number(y-4), html.EscapeString(c.Unit.Format(bar.Value)))
		}
	}
	b.WriteString(`</svg></figure>`)
	return b.String()
}
