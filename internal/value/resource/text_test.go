package resource_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/value/resource"
)

func TestParseAmountReadsWhatPeopleWrite(t *testing.T) {
	cases := []struct {
		kind resource.Kind
		text string
		want int64
	}{
		{resource.CPU, "1.5", 150},
		{resource.CPU, " 2 ", 200},
		{resource.CPU, "0", 0},
		{resource.CPU, "0.005", 1},
		{resource.CPU, "0.0049999", 0},
		{resource.CPU, "1.005", 101}, // a float64 would give 100
		{resource.CPU, ".5", 50},
		{resource.CPU, "5.", 500},
		{resource.CPU, "1e3", 100_000},
		{resource.CPU, "1E+2", 10_000},
		{resource.CPU, "0e999999999999", 0},
		{resource.Memory, "64GiB", 64 << 30},
		{resource.Memory, "64Gi", 64 << 30},
		{resource.Memory, "64G", 64e9},
		{resource.Memory, "64 GB", 64e9},
		{resource.Memory, "10TB", 10e12},
		{resource.Memory, "512MiB", 512 << 20},
		{resource.Memory, "1.5 GiB", 3 << 29},
		{resource.Memory, "1.3 KiB", 1331},
		{resource.Memory, "0.1tib", 109_951_162_778},
		{resource.Memory, "123", 123},
		{resource.Memory, "123 B", 123},
		{resource.Memory, "1e9", 1e9},
		{resource.Memory, "1e3 KiB", 1000 << 10},
		{resource.Memory, "1E", 1e18},
		{resource.Memory, "1e", 1e18},
		{resource.Memory, "1EiB", 1 << 60},
		{resource.Memory, "1e0EiB", 1 << 60},
		{resource.UserSlots, "1000", 1000},
		{resource.UserSlots, "1e3", 1000},
		{resource.GPU, "8.0", 8},
		{resource.Network, "100", 100},
		{resource.UserSlots, "2305843009213693950", resource.Unlimited - 1},
	}
	for _, c := range cases {
		got, err := resource.ParseAmount(c.kind, c.text)
		if err != nil || got != c.want {
			t.Errorf("ParseAmount(%v, %q) = %d, %v; want %d", c.kind, c.text, got, err, c.want)
		}
	}
}

func TestParseAmountRefusesBadTextWithAReason(t *testing.T) {
	cases := []struct {
		kind resource.Kind
		text string
		want error
		says string
	}{
		{resource.CPU, "", resource.ErrEmpty, `cpu "": amount is empty`},
		{resource.CPU, "  ", resource.ErrEmpty, ""},
		{resource.CPU, "-1", resource.ErrNegative, `cpu "-1": amount must not be negative`},
		{resource.Memory, "-1 GiB", resource.ErrNegative, ""},
		{resource.CPU, "--1", resource.ErrSyntax, ""},
		{resource.CPU, "-", resource.ErrSyntax, ""},
		{resource.CPU, "+1", resource.ErrSyntax, ""},
		{resource.CPU, "NaN", resource.ErrNotFinite, ""},
		{resource.CPU, "inf", resource.ErrNotFinite, ""},
		{resource.CPU, "unlimited", resource.ErrNotFinite, ""},
		{resource.CPU, "500m", resource.ErrUnit, "cpu is written in cores, 0.5 and not 500m"},
		{resource.CPU, "5 cores", resource.ErrUnit, "cpu has no units"},
		{resource.UserSlots, "1k", resource.ErrUnit, "user_slots has no units"},
		{resource.GPU, "1.5", resource.ErrFractional, `gpu "1.5": amount must be a whole number`},
		{resource.Memory, "1.5", resource.ErrFractional, "whole number of bytes"},
		{resource.Memory, "1.5B", resource.ErrFractional, ""},
		{resource.Memory, "0.0001KB", resource.ErrFractional, ""},
		{resource.Memory, "1e-999999999999999", resource.ErrFractional, ""},
		{resource.Memory, "64 parsecs", resource.ErrUnit, "memory units are B, kB"},
		{resource.Memory, "64 GiB GiB", resource.ErrSyntax, ""},
		{resource.Memory, "GiB", resource.ErrSyntax, ""},
		{resource.Memory, "1,5GiB", resource.ErrSyntax, ""},
		{resource.Memory, "0x10", resource.ErrSyntax, ""},
		{resource.Memory, "1_000", resource.ErrSyntax, ""},
		{resource.Memory, "1e400", resource.ErrTooLarge, ""},
		{resource.Memory, "1e999999999999999", resource.ErrTooLarge, ""},
		{resource.Memory, "3EiB", resource.ErrTooLarge, ""},
		{resource.CPU, "23058430092136939.51", resource.ErrTooLarge, ""},
		{resource.UserSlots, "2305843009213693951", resource.ErrTooLarge, ""},
		{resource.CPU, strings.Repeat("9", 1000), resource.ErrTooLarge, "999…"},
	}
	for _, c := range cases {
		got, err := resource.ParseAmount(c.kind, c.text)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("ParseAmount(%v, %q) = %d, %v; want %v with %q", c.kind, c.text, got, err, c.want, c.says)
		}
		if err != nil && len(err.Error()) > 250 {
			t.Errorf("ParseAmount(%v, …): message of %d characters", c.kind, len(err.Error()))
		}
	}
}

func TestParseLimitTakesTheWordsForNoLimit(t *testing.T) {
	for _, text := range []string{"unlimited", "Unlimited", " inf ", "infinity", "∞"} {
		if v, err := resource.ParseLimit(resource.Memory, text); err != nil || v != resource.Unlimited {
			t.Errorf("ParseLimit(%q) = %d, %v", text, v, err)
		}
	}
	if _, err := resource.ParseLimit(resource.CPU, "-inf"); err == nil {
		t.Error("-inf was taken as a limit")
	}
}

func TestFormatAmountIsForPeople(t *testing.T) {
	cases := []struct {
		kind         resource.Kind
		amount       int64
		human, exact string
	}{
		{resource.CPU, 150, "1.5", "1.5"},
		{resource.CPU, 105, "1.05", "1.05"},
		{resource.CPU, 100, "1", "1"},
		{resource.CPU, -150, "-1.5", "-1.5"},
		{resource.CPU, 0, "0", "0"},
		{resource.CPU, resource.Unlimited, "unlimited", "unlimited"},
		{resource.CPU, math.MaxInt64, "unlimited", "unlimited"},
		{resource.CPU, math.MinInt64, "-unlimited", "-unlimited"},
		{resource.UserSlots, 12345, "12345", "12345"},
		{resource.Memory, 64 << 30, "64 GiB", "64GiB"},
		{resource.Memory, 3 << 29, "1.5 GiB", "1.5GiB"},
		{resource.Memory, 5 << 28, "1.25 GiB", "1.25GiB"},
		{resource.Memory, 1<<30 + 1, "1 GiB", "1073741825"},
		{resource.Memory, 1<<30 - 1, "1 GiB", "1073741823"},
		{resource.Memory, 1<<30 + 1<<20, "1 GiB", "1025MiB"},
		{resource.Memory, 10e12, "9.09 TiB", "9765625000KiB"},
		{resource.Memory, 1023, "1023 B", "1023"},
		{resource.Memory, 0, "0 B", "0"},
		{resource.Memory, -(1 << 20), "-1 MiB", "-1MiB"},
	}
	for _, c := range cases {
		if got := resource.FormatAmount(c.kind, c.amount); got != c.human {
			t.Errorf("FormatAmount(%v, %d) = %q; want %q", c.kind, c.amount, got, c.human)
		}
		if got := resource.FormatExact(c.kind, c.amount); got != c.exact {
			t.Errorf("FormatExact(%v, %d) = %q; want %q", c.kind, c.amount, got, c.exact)
		}
	}
}

func TestVectorsPrintTheirComponentsInOrder(t *testing.T) {
	var a resource.Amounts
	a[resource.Memory], a[resource.CPU] = 64<<30, 10_000
	cases := []struct {
		got  fmt.Stringer
		want string
	}{
		{a, "cpu=100, memory=64GiB"},
		{resource.Amounts{}, "nothing"},
		{resource.Partial{}, "unset"},
		{resource.Partial{}.With(resource.Memory, 1).With(resource.UserSlots, 0), "user_slots=0, memory=1"},
		{resource.Partial{}.With(resource.CPU, resource.Unlimited), "cpu=unlimited"},
		{resource.Volume{resource.CPU: 86.4e6, resource.Memory: 1.5 * (1 << 30)}, "86.4M core·s, 1.5 GiB·s"},
		{resource.Volume{}, "nothing"},
	}
	for _, c := range cases {
		if c.got.String() != c.want {
			t.Errorf("got %q; want %q", c.got, c.want)
		}
	}
}

func TestFormatVolumeKeepsThreeDigits(t *testing.T) {
	cases := []struct {
		kind   resource.Kind
		volume float64
		want   string
	}{
		{resource.CPU, 0, "0 core·s"},
		{resource.CPU, 60_000, "60k core·s"},
		{resource.CPU, 86.4e6, "86.4M core·s"},
		{resource.CPU, 999.96, "1k core·s"},
		{resource.CPU, -1234.5, "-1.23k core·s"},
		{resource.UserSlots, 12.34, "12.3 slot·s"},
		{resource.GPU, 4.321e15, "4.32P gpu·s"},
		{resource.Memory, 4 << 40, "4 TiB·s"},
		{resource.Memory, 1023.9, "1 KiB·s"},
		{resource.Memory, 512, "512 B·s"},
		{resource.Network, 1e30, "1000000Y net·s"},
		{resource.CPU, math.Inf(1), "+Inf core·s"},
	}
	for _, c := range cases {
		if got := resource.FormatVolume(c.kind, c.volume); got != c.want {
			t.Errorf("FormatVolume(%v, %g) = %q; want %q", c.kind, c.volume, got, c.want)
		}
	}
}

func TestJSONHasExactNumbers(t *testing.T) {
	a := resource.Amounts{10, 150, 0, 1<<53 + 1, resource.Unlimited}
	const want = `{"user_slots":10,"cpu":1.5,"gpu":0,"memory":9007199254740993,"network":"unlimited"}`
	got, err := json.Marshal(a)
	if err != nil || string(got) != want {
		t.Fatalf("got %s, %v; want %s", got, err, want)
	}
	got, err = json.Marshal(resource.Partial{}.With(resource.CPU, 5))
	if err != nil || string(got) != `{"cpu":0.05}` {
		t.Fatalf("got %s, %v", got, err)
	}
}

func TestJSONRefusesWhatItDoesNotKnow(t *testing.T) {
	for text, says := range map[string]string{
		`{"cpus": 1}`:                        `unknown resource "cpus"`,
		`{"memory": 1, "user_memory": 2}`:    "memory is given twice",
		`{"cpu": true}`:                      "want a number or a string",
		`{"cpu": {"x": 1}}`:                  "want a number or a string",
		`{"gpu": 0.5}`:                       "whole number",
		`[1]`:                                "want an object",
		`{"memory": "64 parsecs"}`:           "wrong unit",
		`{"cpu": 1e99}`:                      "too large",
		`{"cpu": 1, "memory": "--1"}`:        "negative",
		`{"user_slots": 1, "user_slots": 1}`: "user_slots is given twice",
	} {
		p := resource.Partial{}.With(resource.GPU, 7)
		err := json.Unmarshal([]byte(text), &p)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: error %v; want one with %q", text, err, says)
		}
		if p != (resource.Partial{}.With(resource.GPU, 7)) {
			t.Errorf("%s: the value changed in spite of the error", text)
		}
	}
}

func TestJSONReadsHumanStrings(t *testing.T) {
	var a resource.Amounts
	err := json.Unmarshal([]byte(`{"cpu": "1.5", "user_memory": "1 GiB", "network": "inf"}`), &a)
	want := resource.Amounts{0, 150, 0, 1 << 30, resource.Unlimited}
	if err != nil || a != want {
		t.Fatalf("got %v, %v; want %v", a, err, want)
	}
}

func drawAmount(t *rapid.T) int64 {
	return rapid.OneOf(
		rapid.Int64Range(0, 100_000),
		rapid.Custom(func(t *rapid.T) int64 {
			return rapid.Int64Range(0, 4096).Draw(t, "units") << rapid.IntRange(0, 48).Draw(t, "shift")
		}),
		rapid.Int64Range(0, resource.Unlimited),
		rapid.Just(resource.Unlimited),
	).Draw(t, "amount")
}

func TestExactTextReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k, v := rapid.SampledFrom(resource.Kinds[:]).Draw(t, "kind"), drawAmount(t)
		got, err := resource.ParseLimit(k, resource.FormatExact(k, v))
		if err != nil || got != v {
			t.Fatalf("%q reads back as %d, %v; want %d", resource.FormatExact(k, v), got, err, v)
		}
	})
}

func TestHumanTextIsNearTheAmount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k, v := rapid.SampledFrom(resource.Kinds[:]).Draw(t, "kind"), drawAmount(t)
		text := resource.FormatAmount(k, v)
		got, err := resource.ParseLimit(k, text)
		if err != nil && v < resource.Unlimited-resource.Unlimited/1000 { // rounding may reach 2 EiB
			t.Fatalf("%q: %v", text, err)
		}
		if err == nil && math.Abs(float64(got-v)) > 0.005*float64(v) {
			t.Fatalf("%q reads as %d, too far from %d", text, got, v)
		}
		if k != resource.Memory && got != v {
			t.Fatalf("%q reads as %d; want exactly %d", text, got, v)
		}
	})
}

func TestJSONRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p, back resource.Partial
		var a, backAmounts resource.Amounts
		for _, k := range resource.Kinds {
			a[k] = drawAmount(t)
			if rapid.Bool().Draw(t, "negative") {
				a[k] = -a[k]
			}
			if rapid.Bool().Draw(t, "set") {
				p = p.With(k, a[k])
			}
		}
		for _, pair := range []struct{ from, to any }{{p, &back}, {a, &backAmounts}} {
			text, err := json.Marshal(pair.from)
			if err == nil {
				err = json.Unmarshal(text, pair.to)
			}
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
		}
		if back != p || backAmounts != a {
			t.Fatalf("got %v and %v; want %v and %v", back, backAmounts, p, a)
		}
	})
}

// The parser agrees with strconv on every plain decimal that float64 holds with
// enough precision.
func TestParseAmountAgreesWithFloats(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strconv.FormatFloat(rapid.Float64Range(0, 1e9).Draw(t, "cores"), 'f', rapid.IntRange(0, 2).Draw(t, "decimals"), 64)
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		got, err := resource.ParseAmount(resource.CPU, text)
		if err != nil || got != resource.FromFloat(resource.CPU, f) {
			t.Fatalf("%q: got %d, %v; FromFloat gives %d", text, got, err, resource.FromFloat(resource.CPU, f))
		}
	})
}

func FuzzParseAmount(f *testing.F) {
	for _, text := range []string{"1.5", "64GiB", "10TB", "1e9", "-1", "inf", "nan", "", "1.5 GiB", "1e-400", ".", "e", "1EiB", "9223372036854775807"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, k := range resource.Kinds {
			v, err := resource.ParseAmount(k, text)
			if err != nil {
				if v != 0 {
					t.Fatalf("%v %q: %d together with %v", k, text, v, err)
				}
				continue
			}
			if v < 0 || v >= resource.Unlimited {
				t.Fatalf("%v %q: %d is out of range", k, text, v)
			}
			if back, err := resource.ParseAmount(k, resource.FormatExact(k, v)); err != nil || back != v {
				t.Fatalf("%v %q: %d reads back as %d, %v", k, text, v, back, err)
			}
		}
	})
}
