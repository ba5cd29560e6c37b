package chart

import (
	_ "embed"
	"fmt"
	"html"
	"strings"
	"unicode/utf8"
)

//go:embed picture.css
var pictureStyle string

// Geometry of a picture. The width of a letter is a generous guess: nothing here measures fonts.
const (
	titleHeight = 24.0
	legendRow   = 18.0
	keyWidth    = 24.0
	letterWidth = 6.4
	keyGap      = 18.0
	pictureEdge = 14.0
)

// Picture draws charts below each other as one SVG file with its own colours on a white background.
func Picture(charts ...TimeChart) []byte {
	var b strings.Builder
	y := pictureEdge
	for _, c := range charts {
		y = c.picture(&b, y)
	}
	return fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" width="%[1]s" height="%[2]s" viewBox="0 0 %[1]s %[2]s"><style>%[3]s</style>`+
		`<rect class="ground" width="100%%" height="100%%"/>%[4]s</svg>`+"\n", number(width+pictureEdge), number(y), pictureStyle, b.String())
}

// picture draws one chart from y down and returns where the next one starts.
func (c TimeChart) picture(b *strings.Builder, y float64) float64 {
	f, ticks, end := c.prepare()
	fmt.Fprintf(b, `<text class="title" x="%s" y="%s">%s <tspan class="unit">%s</tspan></text>`,
		number(f.left), number(y+12), html.EscapeString(c.Title), html.EscapeString(c.Unit.Name))
	y = c.keys(b, y+titleHeight, f.left, f.right)
	fmt.Fprintf(b, `<g transform="translate(0 %s)">`, number(y))
	c.draw(b, f, ticks, end)
	b.WriteString(`</g>`)
	return y + f.height + pictureEdge
}

// keys draws the legend from y down, in as many rows as it needs, and returns where it ends.
func (c *TimeChart) keys(b *strings.Builder, y, left, right float64) float64 {
	x := left
	for _, l := range c.Lines {
		needs := keyWidth + letterWidth*float64(utf8.RuneCountInString(l.Name))
		if x > left && x+needs > right {
			x, y = left, y+legendRow
		}
		fmt.Fprintf(b, `<path class="line c%d %s" d="M%s %sh18"/><text class="key" x="%s" y="%s">%s</text>`,
			l.Colour%Colours, lookNames[l.Look], number(x), number(y+5), number(x+keyWidth), number(y+9), html.EscapeString(l.Name))
		x += needs + keyGap
	}
	return y + legendRow
}
