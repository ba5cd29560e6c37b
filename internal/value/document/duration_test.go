package document

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"30s": 30 * time.Second, "1d": 24 * time.Hour, "1d12h": 36 * time.Hour, "1.5d": 36 * time.Hour,
		"-1d1h": -25 * time.Hour, "0": 0, "0d": 0, "500ms": 500 * time.Millisecond, "1d1ns": 24*time.Hour + 1,
		"106751d": 106751 * 24 * time.Hour,
	} {
		got, err := ParseDuration(text)
		if err != nil || got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "5", "1d5", "1h1d", "1d-1h", "1d+1h", "1dd", "106752d", "1e3d", "200000000d", "x"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
	for d, want := range map[time.Duration]string{
		0: "0s", 90 * time.Second: "1m30s", time.Hour: "1h", 25 * time.Hour: "1d1h", 24 * time.Hour: "1d",
		time.Hour + time.Second: "1h0m1s", -time.Minute: "-1m", 1500 * time.Microsecond: "1.5ms", 20 * time.Minute: "20m",
	} {
		if got := FormatDuration(d); got != want {
			t.Errorf("%d is written %q, want %q", d, got, want)
		}
	}
}

func TestDurationsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(-1<<62, 1<<62).Draw(t, "d"))
		if back, err := ParseDuration(FormatDuration(d)); err != nil || back != d {
			t.Fatalf("%v is written %q and read as %v, %v", d, FormatDuration(d), back, err)
		}
		d = d.Abs()
		for _, style := range []Style{ForPeople, ForPrograms} {
			r := NewReader("")
			if back, ok := readDuration(r, writeDuration(d, style)); !ok || back != d {
				t.Fatalf("%v is read back as %v: %v", d, back, r.Problems())
			}
		}
	})
}

func FuzzDuration(f *testing.F) {
	for _, seed := range []string{"30s", "1d12h", "-1.5d", "1h1d", "d", "106751d23h47m16s"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseDuration(text)
		if err != nil {
			return
		}
		if back, err := ParseDuration(FormatDuration(d)); err != nil || back != d {
			t.Fatalf("%q is %v, written %q, read as %v, %v", text, d, FormatDuration(d), back, err)
		}
	})
}
