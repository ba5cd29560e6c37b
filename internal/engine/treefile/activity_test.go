package treefile

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestWindowsSayWhenOperationsAreActive(t *testing.T) {
	for _, test := range []struct {
		text   string
		inside []time.Duration
		beside []time.Duration
	}{
		{"12h-24h every 24h", []time.Duration{12 * time.Hour, 23 * time.Hour, 36 * time.Hour, 47 * time.Hour}, []time.Duration{0, 11 * time.Hour, 24 * time.Hour, 35 * time.Hour, 48 * time.Hour}},
		{"6h-7h", []time.Duration{6 * time.Hour, 7*time.Hour - 1}, []time.Duration{0, 7 * time.Hour, 30 * time.Hour}},
		{"1d-", []time.Duration{24 * time.Hour, 1000 * time.Hour}, []time.Duration{0, 24*time.Hour - 1}},
		{" 0s - 10m every 1h ", []time.Duration{0, 9 * time.Minute, 65 * time.Minute}, []time.Duration{10 * time.Minute, 59 * time.Minute}},
		{"30h-31h every 24h", []time.Duration{30 * time.Hour, 54 * time.Hour}, []time.Duration{6 * time.Hour, 31 * time.Hour}},
	} {
		w, err := ParseWindow(test.text)
		if err != nil {
			t.Errorf("%q: %v", test.text, err)
			continue
		}
		for _, at := range test.inside {
			if !w.contains(at) {
				t.Errorf("%q does not contain %v", test.text, at)
			}
		}
		for _, at := range test.beside {
			if w.contains(at) {
				t.Errorf("%q contains %v", test.text, at)
			}
		}
	}
}

func TestWrongWindowsAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                   `must be a time like "12h-24h", "12h-24h every 24h" or "12h-"`,
		"12h":                `must be a time like "12h-24h", "12h-24h every 24h" or "12h-"`,
		"noon-24h":           `begins with "noon", which is no duration`,
		"12h-late":           `ends with "late", which is no duration`,
		"12h-13h every day":  `repeats every "day", which is no duration`,
		"12h-12h":            "must end after it begins",
		"12h-11h":            "must end after it begins",
		"1h-2h every 0s":     "must repeat after a positive time",
		"1h- every 2h":       "cannot repeat without an end",
		"0h-12h every 6h":    "is longer than the time after which it repeats, 6h",
		"1h-2h every 1h30mm": `repeats every "1h30mm", which is no duration`,
	} {
		if _, err := ParseWindow(text); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

func TestActivityChangesOnlyWhereItSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		minutes := func(name string, least, most int) time.Duration {
			return time.Duration(rapid.IntRange(least, most).Draw(t, name)) * time.Minute
		}
		var a Activity
		for range rapid.IntRange(1, 3).Draw(t, "windows") {
			w := Window{From: minutes("from", 0, 50)}
			length := minutes("length", 1, 30)
			w.To = w.From + length
			if rapid.Bool().Draw(t, "repeats") {
				w.Every = length + minutes("gap", 0, 30)
			}
			a = append(a, w)
		}
		for at, end := time.Duration(0), 4*time.Hour; at < end; {
			next := a.next(at)
			if next <= at {
				t.Fatalf("after %v comes %v", at, next)
			}
			for now := at; now < min(next, end); now += time.Minute {
				if a.Active(now) != a.Active(at) {
					t.Fatalf("%v: changes at %v, between %v and %v", a, now, at, next)
				}
			}
			at = next
		}
	})
}
