package document

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Durations reads durations that are not negative. A bare number is milliseconds, as
// everywhere in YTsaurus; text has units: 500ms, 30s, 2m, 1h30m, 24h, 1d.
var Durations = NewType(Shape{Kind: "duration", Says: durationSays, Minimum: Int(0)},
	readDuration, writeDuration, same[time.Duration])

const durationSays = "a duration like 30s, 5m, 1d or a number of milliseconds"

func readDuration(r *Reader, v Value) (time.Duration, bool) {
	if text, ok := v.Text(); ok {
		d, err := ParseDuration(text)
		if err != nil {
			mustBe(r, v, RuleBadFormat, durationSays)
			return 0, false
		}
		if d < 0 {
			mustBe(r, v, RuleOutOfRange, "a duration that is not negative")
			return 0, false
		}
		return d, true
	}
	ms, whole := v.Int64()
	f, number := v.Float64()
	const longest = int64(math.MaxInt64 / time.Millisecond)
	switch {
	case !number:
		mustBe(r, v, RuleWrongType, durationSays)
	case f < 0:
		mustBe(r, v, RuleOutOfRange, "a duration that is not negative")
	case math.IsNaN(f) || math.IsInf(f, 0):
		mustBe(r, v, RuleNotFinite, "a finite duration")
	case f >= float64(longest):
		mustBe(r, v, RuleOutOfRange, "a duration of at most 290 years")
	case !whole:
		mustBe(r, v, RuleWrongType, "a whole number of milliseconds or a duration like 1.5s")
	default:
		return time.Duration(ms) * time.Millisecond, true
	}
	return 0, false
}

func writeDuration(d time.Duration, style Style) Value {
	if style == ForPrograms && d%time.Millisecond == 0 {
		return Int(int64(d / time.Millisecond))
	}
	return Text(FormatDuration(d))
}

const day = 24 * time.Hour

// ParseDuration is time.ParseDuration with days: "1d", "1d12h", "1.5d".
func ParseDuration(text string) (time.Duration, error) {
	days, rest, found := strings.Cut(text, "d")
	if !found {
		return time.ParseDuration(text)
	}
	// Hours have the same grammar as days, and the sign belongs to the first part.
	inHours, err := time.ParseDuration(days + "h")
	if err != nil || strings.ContainsAny(days, "hmsnuµμ") || inHours.Abs() > math.MaxInt64/24 {
		return 0, fmt.Errorf("%q is not a duration", Shorten(text))
	}
	total := inHours * 24
	if rest == "" {
		return total, nil
	}
	part, err := time.ParseDuration(rest)
	if err != nil || part < 0 || strings.HasPrefix(rest, "+") {
		return 0, fmt.Errorf("%q is not a duration", Shorten(text))
	}
	if total < 0 || strings.HasPrefix(days, "-") {
		part = -part
	}
	if sum := total + part; (sum < total) == (part < 0) {
		return sum, nil
	}
	return 0, fmt.Errorf("%q is too long", Shorten(text))
}

// FormatDuration writes d without needless zeros so that ParseDuration returns
// it: "30s", "2m", "1d12h".
func FormatDuration(d time.Duration) string {
	if d < 0 {
		return "-" + strings.TrimPrefix(FormatDuration(-d), "-")
	}
	days, rest := d/day, d%day
	text := ""
	if rest > 0 || days == 0 {
		text = rest.String()
		if strings.HasSuffix(text, "m0s") {
			text = strings.TrimSuffix(text, "0s")
		}
		if strings.HasSuffix(text, "h0m") {
			text = strings.TrimSuffix(text, "0m")
		}
	}
	if days > 0 {
		text = fmt.Sprintf("%dd%s", days, text)
	}
	return text
}
