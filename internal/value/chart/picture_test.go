package chart

import (
	"strings"
	"testing"
)

func TestAPictureStandsByItself(t *testing.T) {
	picture := string(Picture(
		TimeChart{Title: "a < b", Unit: Unit{Name: "cores"}, Step: 3600, Height: 136, Lines: []Line{{Name: "x & y", Values: []float64{0, 10}}}},
		TimeChart{Title: "second", Step: 3600, Height: 136, Lines: []Line{{Name: "z", Values: []float64{1}}, {Name: "empty"}}},
	))
	wellFormed(t, picture)
	for _, want := range []string{`<svg xmlns="http://www.w3.org/2000/svg"`, "a &lt; b", ">cores<", "x &amp; y", ">second ", ".line.c0 { stroke: #"} {
		if !strings.Contains(picture, want) {
			t.Errorf("no %q in\n%s", want, picture)
		}
	}
	if strings.Contains(picture, "var(") || strings.Contains(picture, "empty") {
		t.Errorf("colours of a page, or a line without values, in\n%s", picture)
	}
}

func TestALongLegendTakesSeveralRows(t *testing.T) {
	var c TimeChart
	c.Step, c.Height = 1, 136
	for range 4 {
		c.Lines = append(c.Lines, Line{Name: strings.Repeat("n", 40), Values: []float64{1}})
	}
	var b strings.Builder
	if y := c.keys(&b, 0, leftMargin, width-rightMargin); y != 2*legendRow {
		t.Errorf("four long names take %v pixels, want two rows of %v:\n%s", y, legendRow, b.String())
	}
}

func TestValuesOfMomentsAreJoined(t *testing.T) {
	svg := TimeChart{Step: 1, End: 2, Height: 136, Lines: []Line{{Values: []float64{0, 10, 5}, Joined: true}}}.SVG()
	if want := `d="M62 110L384 10L706 60H706"`; !strings.Contains(svg, want) {
		t.Errorf("no %s in\n%s", want, svg)
	}
}
