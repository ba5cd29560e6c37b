package chart

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// slack is the fraction by which a value may exceed a round one and still count as equal: sums of
// rounded values are not exact.
const slack = 1e-4

// yTicks returns round values from zero up to at least the largest one, and the last of them.
func yTicks(largest float64, unit Unit) (ticks []float64, top float64) {
	if !(largest > 0) || math.IsInf(largest, 0) {
		largest = 1
	}
	step := roundStep(largest/4, unit)
	for i := 0; ; i++ {
		v := step * float64(i)
		ticks = append(ticks, v)
		if v >= largest*(1-slack) || i > 20 {
			return ticks, v
		}
	}
}

// roundStep returns the smallest of 1, 2, 2.5, 5 times a power of ten, or of two for binary units,
// that is at least least.
func roundStep(least float64, unit Unit) float64 {
	if unit.Binary && least >= 1 {
		return math.Pow(2, math.Ceil(math.Log2(least)-1e-9))
	}
	if unit.Duration {
		return stepOf(timeSteps, least)
	}
	if unit.Whole {
		least = max(least, 1)
	}
	power := math.Pow(10, math.Floor(math.Log10(least)))
	for _, factor := range []float64{1, 2, 2.5, 5, 10} {
		step := factor * power
		if step >= least*(1-slack) && (!unit.Whole || step == math.Trunc(step)) {
			return step
		}
	}
	return 10 * power
}

// timeSteps are round spans of time in seconds.
var timeSteps = []float64{
	1, 2, 5, 10, 15, 30, 60, 2 * 60, 5 * 60, 10 * 60, 15 * 60, 30 * 60, 3600, 2 * 3600, 3 * 3600, 6 * 3600, 12 * 3600,
	day, 2 * day, 5 * day, 7 * day, 14 * day, 30 * day, 60 * day, 90 * day, 180 * day, 365 * day,
}

const day = 86400.0

func stepOf(steps []float64, least float64) float64 {
	for _, s := range steps {
		if s >= least*(1-1e-9) {
			return s
		}
	}
	last := steps[len(steps)-1]
	return math.Ceil(least/last) * last
}

// tick is a position on the time axis, in seconds, and its label.
type tick struct {
	at    float64
	label string
}

// timeTicks returns round times from zero to the end, at most about ten.
func timeTicks(end float64) (ticks []tick) {
	step := stepOf(timeSteps, end/10)
	for at := 0.0; at <= end*(1+1e-9) && len(ticks) < 20; at += step {
		ticks = append(ticks, tick{at, FormatTime(at)})
	}
	return ticks
}

// dateTicks returns round dates and times of day from a date until end seconds later, at most about
// ten. A date whose year differs from the previous tick's includes the year.
func dateTicks(start time.Time, end float64) (ticks []tick) {
	start = start.UTC()
	step := stepOf(timeSteps, end/10)
	midnight := start.Truncate(24 * time.Hour)
	year := start.Year()
	for i := math.Ceil(start.Sub(midnight).Seconds() / step); len(ticks) < 20; i++ {
		date := midnight.Add(time.Duration(step*i) * time.Second)
		at := date.Sub(start).Seconds()
		if at > end*(1+1e-9) {
			break
		}
		layout := "2 Jan"
		switch {
		case date.Second() != 0:
			layout = "15:04:05"
		case date.Hour() != 0 || date.Minute() != 0:
			layout = "15:04"
		case date.Year() != year:
			layout, year = "2 Jan 2006", date.Year()
		}
		ticks = append(ticks, tick{at, date.Format(layout)})
	}
	return ticks
}

// FormatTime writes seconds in short form: 90 is 1m30s, 93600 is 1d2h.
func FormatTime(seconds float64) string {
	if seconds < 0 || math.IsNaN(seconds) || math.IsInf(seconds, 0) {
		return "–"
	}
	if seconds < 10 && seconds != math.Trunc(seconds) {
		return trim(seconds, 2) + "s"
	}
	rest := int64(math.Round(seconds))
	var b strings.Builder
	parts := 0
	for _, unit := range []struct {
		seconds int64
		name    string
	}{{86400, "d"}, {3600, "h"}, {60, "m"}, {1, "s"}} {
		n := rest / unit.seconds
		rest %= unit.seconds
		// Two units are precise enough.
		if n > 0 && parts < 2 {
			b.WriteString(strconv.FormatInt(n, 10) + unit.name)
			parts++
		} else if parts > 0 {
			parts = 2
		}
	}
	if b.Len() == 0 {
		return "0"
	}
	return b.String()
}

// Format writes a value as an axis shows it.
func (u Unit) Format(v float64) string {
	switch {
	case u.Percent:
		if math.Abs(v) < 0.1 {
			return trim(v*100, 2) + " %" // 0.25 % is a tick of an idle cluster
		}
		return trim(v*100, 1) + " %"
	case u.Duration:
		return FormatTime(v)
	case u.Binary:
		return scaled(v, 1024, [...]string{" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"})
	}
	return scaled(v, 1000, [...]string{"", "k", "M", "G", "T", "P", "E"})
}

// scaled writes a value with a prefix, three digits at most.
func scaled(v, base float64, prefixes [7]string) string {
	i := 0
	// 2000 is easier to read than 2k, 20k than 20000.
	for ; i < len(prefixes)-1 && (math.Abs(v) >= base*10 || math.Abs(v) >= base && (base == 1024 || i > 0)); i++ {
		v /= base
	}
	switch m := math.Abs(v); {
	case m == 0:
		return "0"
	case m < 0.01:
		return strconv.FormatFloat(v, 'g', 2, 64)
	case m < 10:
		return trim(v, 2) + prefixes[i]
	case m < 100:
		return trim(v, 1) + prefixes[i]
	}
	return trim(v, 0) + prefixes[i]
}

// trim writes a number with at most the given number of decimals.
func trim(v float64, decimals int) string {
	text := strconv.FormatFloat(v, 'f', decimals, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	if text == "-0" {
		return "0"
	}
	return text
}
