package chart

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// wellFormed checks that text is well-formed XML.
func wellFormed(t rapid.TB, text string) {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(text))
	for {
		_, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
	}
}

func TestALineIsDrawnInSteps(t *testing.T) {
	svg := TimeChart{
		Title: "a < b", Step: 3600, Height: 136, Lines: []Line{
			{Name: "x", Values: []float64{0, 10, 10, 5}},
			{Name: "empty"},
		},
	}.SVG()
	wellFormed(t, svg)
	// The frame is 644 wide and 100 high; the value 10 is at the top.
	if want := `data-name="x" d="M62 110H223V10H545V60H706"`; !strings.Contains(svg, want) {
		t.Errorf("no %s in\n%s", want, svg)
	}
	for _, want := range []string{"a &lt; b", ">1h<", ">4h<", `class="key c0 solid">x<`} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %q in\n%s", want, svg)
		}
	}
	if strings.Contains(svg, "empty") {
		t.Error("a line without values is drawn")
	}
}

func TestTheLastIntervalMayBeShort(t *testing.T) {
	svg := TimeChart{Step: 100, End: 250, Height: 136, Lines: []Line{{Values: []float64{1, 2, 1}}}}.SVG()
	if want := `d="M62 60H319.6V10H577.2V60H706"`; !strings.Contains(svg, want) {
		t.Errorf("no %s in\n%s", want, svg)
	}
}

func TestWhatIsAboveTheCapIsDrawnAtTheTop(t *testing.T) {
	svg := TimeChart{Step: 1, Height: 136, Cap: 10, Lines: []Line{{Values: []float64{5, 1000}}}}.SVG()
	if want := `d="M62 60H384V10H706"`; !strings.Contains(svg, want) {
		t.Errorf("no %s in\n%s", want, svg)
	}
}

func TestFilledLinesHaveAnArea(t *testing.T) {
	svg := TimeChart{Step: 1, Height: 136, Lines: []Line{{Values: []float64{1, 1}, Look: Filled, Colour: 9}}}.SVG()
	if want := `<path class="area c1 filled" d="M62 10H706V110H62Z"/>`; !strings.Contains(svg, want) {
		t.Errorf("no %s in\n%s", want, svg)
	}
}

func TestBarsHaveTheirHeightsAndLabels(t *testing.T) {
	svg := BarChart{Title: "waits", Height: 136, Bars: []Bar{{"1s", 10}, {"2s", 5}}}.SVG()
	wellFormed(t, svg)
	for _, want := range []string{`y="10" width="257.6" height="100"`, `y="60" width="257.6" height="50"`, "<title>2s: 5</title>", ">1s</text>"} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %q in\n%s", want, svg)
		}
	}
}

func TestChartsOfAnythingAreWellFormed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(rapid.Float64Range(0, 1e15), rapid.Just(math.NaN()), rapid.Just(math.Inf(1)), rapid.Float64Range(-5, 0))
		c := TimeChart{
			Title: rapid.StringOf(rapid.RuneFrom([]rune(`ab<>&"'`))).Draw(t, "title"),
			Step:  rapid.Float64Range(0, 1e6).Draw(t, "step"),
			Unit:  Unit{Binary: rapid.Bool().Draw(t, "binary"), Percent: rapid.Bool().Draw(t, "percent")},
			Lines: []Line{{Name: "x", Values: rapid.SliceOfN(value, 0, 20).Draw(t, "values"), Look: Filled}},
		}
		svg := c.SVG()
		wellFormed(t, svg)
		if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
			t.Fatalf("not drawable:\n%s", svg)
		}
	})
}

func TestTicksAreRound(t *testing.T) {
	tests := []struct {
		largest float64
		unit    Unit
		want    string
	}{
		{2000, Unit{}, "0 500 1000 1500 2000"},
		{37, Unit{}, "0 10 20 30 40"},
		{0, Unit{}, "0 0.25 0.5 0.75 1"},
		{0.93, Unit{Percent: true}, "0 % 25 % 50 % 75 % 100 %"},
		{3 << 30, Unit{Binary: true}, "0 1 GiB 2 GiB 3 GiB"},
		{10, Unit{Whole: true}, "0 5 10"},
		{2, Unit{Whole: true}, "0 1 2"},
		{100_000, Unit{}, "0 25k 50k 75k 100k"},
		{1_000_000, Unit{}, "0 250k 500k 750k 1M"},
		{4 * 3600, Unit{Duration: true}, "0 1h 2h 3h 4h"},
	}
	for _, test := range tests {
		ticks, top := yTicks(test.largest, test.unit)
		var parts []string
		for _, v := range ticks {
			parts = append(parts, test.unit.Format(v))
		}
		if got := strings.Join(parts, " "); got != test.want || top < test.largest {
			t.Errorf("ticks up to %v: %s (top %v), want %s", test.largest, got, top, test.want)
		}
	}
}

func TestTimesAreWrittenShortly(t *testing.T) {
	for seconds, want := range map[float64]string{
		0: "0", 0.25: "0.25s", 59: "59s", 90: "1m30s", 3600: "1h", 93600: "1d2h", 86400*3 + 61: "3d", 7325: "2h2m", -1: "–",
	} {
		if got := FormatTime(seconds); got != want {
			t.Errorf("%v seconds are %q, want %q", seconds, got, want)
		}
	}
}

func TestTimeAxesHaveFewTicks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		end := rapid.Float64Range(1, 1e10).Draw(t, "end")
		if n := len(timeTicks(end)); n < 2 || n > 12 {
			t.Fatalf("%d ticks up to %v", n, end)
		}
	})
}

func TestStackedLinesStandOnEachOther(t *testing.T) {
	svg := TimeChart{Step: 1, Height: 136, Lines: []Line{
		{Name: "low", Values: []float64{2, 4}, Look: Stacked}, {Name: "high", Values: []float64{2, 4}, Look: Stacked, Colour: 1},
	}}.SVG()
	wellFormed(t, svg)
	// The upper area extends down to the axis; the lower one is drawn over it.
	upper := `<path class="area c1 stacked" d="M62 60H384V10H706V110H62Z"/>`
	lower := `<path class="area c0 stacked" d="M62 85H384V60H706V110H62Z"/>`
	if at, below := strings.Index(svg, upper), strings.Index(svg, lower); at < 0 || below < at {
		t.Errorf("not %s before %s in\n%s", upper, lower, svg)
	}
}

func TestWideLinesLieBelowTheOthers(t *testing.T) {
	svg := TimeChart{Step: 1, Lines: []Line{{Name: "thin", Values: []float64{1}}, {Name: "wide", Values: []float64{1}, Look: Wide}}}.SVG()
	if strings.Index(svg, `data-name="wide"`) > strings.Index(svg, `data-name="thin"`) {
		t.Errorf("the wide line covers the other in\n%s", svg)
	}
}

func TestAnAxisOfDatesHasRoundOnes(t *testing.T) {
	for _, test := range []struct {
		start string
		end   float64
		want  string
	}{
		{"1993-10-01T07:00:00Z", 92 * day, "15 Oct, 29 Oct, 12 Nov, 26 Nov, 10 Dec, 24 Dec"},
		{"1993-12-30T22:00:00Z", 4 * day, "31 Dec, 12:00, 1 Jan 1994, 12:00, 2 Jan, 12:00, 3 Jan, 12:00"},
		{"2026-11-15T10:30:00Z", 3600, "10:30, 10:40, 10:50, 11:00, 11:10, 11:20, 11:30"},
		{"2026-11-15T23:59:50Z", 20, "23:59:50, 23:59:52, 23:59:54, 23:59:56, 23:59:58, 16 Nov, 00:00:02, 00:00:04, 00:00:06, 00:00:08, 00:00:10"},
		{"2026-11-15T10:30:00Z", 100 * 365 * day, "12 Nov 2036, 10 Nov 2046, 7 Nov 2056, 5 Nov 2066, 2 Nov 2076, 31 Oct 2086, 28 Oct 2096, 27 Oct 2106, 24 Oct 2116, 22 Oct 2126"},
	} {
		start, err := time.Parse(time.RFC3339, test.start)
		if err != nil {
			t.Fatal(err)
		}
		ticks := dateTicks(start, test.end)
		var labels []string
		for i, tick := range ticks {
			if tick.at < 0 || tick.at > test.end || i > 0 && tick.at <= ticks[i-1].at {
				t.Errorf("a tick at %v of %v", tick.at, test.end)
			}
			labels = append(labels, tick.label)
		}
		if got := strings.Join(labels, ", "); got != test.want {
			t.Errorf("%s: %s, want %s", test.start, got, test.want)
		}
	}
}

func TestSumsOfRoundedValuesDoNotRaiseTheAxis(t *testing.T) {
	if ticks, top := yTicks(2000.01, Unit{}); top != 2000 || !slices.Equal(ticks, []float64{0, 500, 1000, 1500, 2000}) {
		t.Errorf("%v up to %v", ticks, top)
	}
}

func TestTicksOfSmallPercentagesAreNotRounded(t *testing.T) {
	for v, want := range map[float64]string{0.0025: "0.25 %", 0.0075: "0.75 %", 0.05: "5 %", 0.125: "12.5 %", 1: "100 %", 0: "0 %"} {
		if got := (Unit{Percent: true}).Format(v); got != want {
			t.Errorf("%v is written %q, want %q", v, got, want)
		}
	}
}
