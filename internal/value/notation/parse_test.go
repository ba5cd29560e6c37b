package notation

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/value/document"
)

func mustYAML(t testing.TB, text string) document.Value {
	t.Helper()
	v, err := ParseYAML("test.yaml", []byte(text))
	if err != nil {
		t.Fatalf("ParseYAML(%q): %v", document.Shorten(text), err)
	}
	return v
}

func mustJSON(t testing.TB, text string) document.Value {
	t.Helper()
	v, err := ParseJSON("test.json", []byte(text))
	if err != nil {
		t.Fatalf("ParseJSON(%q): %v", document.Shorten(text), err)
	}
	return v
}

func TestScalarsAreReadAsWhatTheyAre(t *testing.T) {
	cases := []struct {
		yaml, json string
		want       document.Value
	}{
		{"null", "null", document.Null()},
		{"~", "", document.Null()},
		{"", "", document.Null()},
		{"true", "true", document.Bool(true)},
		{"yes", "", document.Text("yes")},
		{"0", "0", document.Int(0)},
		{"-7", "-7", document.Int(-7)},
		{"+7", "", document.Int(7)},
		{"1_000", "", document.Int(1000)},
		{"0x10", "", document.Int(16)},
		{"0o17", "", document.Int(15)},
		{"9223372036854775807", "9223372036854775807", document.Int(math.MaxInt64)},
		{"-9223372036854775808", "-9223372036854775808", document.Int(math.MinInt64)},
		{"9223372036854775808", "9223372036854775808", document.Uint(1 << 63)},
		{"18446744073709551615", "18446744073709551615", document.Uint(math.MaxUint64)},
		{"1.5", "1.5", document.Float(1.5)},
		{"2.0", "2.0", document.Float(2)},
		{"1e3", "1e3", document.Float(1000)},
		{".nan", "", document.Float(math.NaN())},
		{".inf", "", document.Float(math.Inf(1))},
		{"-.inf", "", document.Float(math.Inf(-1))},
		{"text", `"text"`, document.Text("text")},
		{"'5'", `"5"`, document.Text("5")},
		{"2026-01-31", "", document.Text("2026-01-31")},
		{"[1, a]", `[1, "a"]`, document.List(document.Int(1), document.Text("a"))},
		{"{b: 1, a: [2]}", `{"b": 1, "a": [2]}`, document.Map(document.Pair("b", document.Int(1)), document.Pair("a", document.List(document.Int(2))))},
		{"{}", "{}", document.Map()},
		{"[]", "[]", document.List()},
	}
	for _, c := range cases {
		if got := mustYAML(t, c.yaml); !got.Equal(c.want) || got.Kind() != c.want.Kind() {
			t.Errorf("YAML %q is %v (%v), want %v (%v)", c.yaml, got, got.Kind(), c.want, c.want.Kind())
		}
		if c.json == "" {
			continue
		}
		if got := mustJSON(t, c.json); !got.Equal(c.want) || got.Kind() != c.want.Kind() {
			t.Errorf("JSON %q is %v (%v), want %v (%v)", c.json, got, got.Kind(), c.want, c.want.Kind())
		}
	}
}

func TestKeysKeepTheirOrderAndAnyScalarIsAKey(t *testing.T) {
	v := mustYAML(t, "z: 1\na: 2\n123: 3\nnull: 4\ntrue: 5\n")
	var keys []string
	for _, e := range v.Entries() {
		keys = append(keys, e.Key)
	}
	if got, want := strings.Join(keys, " "), "z a 123 null true"; got != want {
		t.Errorf("keys are %q, want %q", got, want)
	}
}

func TestPositionsAreThoseOfTheText(t *testing.T) {
	check := func(v document.Value, path, want string, key bool) {
		t.Helper()
		parts := strings.Split(path, "/")
		var at document.Position
		for _, part := range parts {
			found := false
			for _, e := range v.Entries() {
				if e.Key == part {
					v, at, found = e.Value, e.At, true
				}
			}
			if !found {
				t.Fatalf("no key %q in %q", part, path)
			}
		}
		if !key {
			at = v.Position()
		}
		if at.String() != want {
			t.Errorf("%s is at %v, want %s", path, at, want)
		}
	}
	y := mustYAML(t, "# comment\na:\n  b: 1\n  ключ: [x]\n")
	check(y, "a/b", "3:3", true)
	check(y, "a/b", "3:6", false)
	check(y, "a/ключ", "4:9", false)
	j := mustJSON(t, "{\n  \"a\": {\"b\": 1,\n    \"ключ\" : [\"x\"]}}")
	check(j, "a", "2:3", true)
	check(j, "a/b", "2:14", false)
	check(j, "a/ключ", "3:5", true)
	check(j, "a/ключ", "3:14", false)
}

func TestAnchorsAliasesAndMergeKeys(t *testing.T) {
	v := mustYAML(t, `
defaults: &d {weight: 1, mode: fifo}
more: &m {weight: 7, limit: 9}
a: *d
b: {<<: *d, weight: 2}
c:
  <<: [*d, *m]
`)
	want := map[string]string{
		"a": "{weight: 1, mode: fifo}",
		"b": "{weight: 2, mode: fifo}",
		"c": "{weight: 1, mode: fifo, limit: 9}",
	}
	for key, text := range want {
		if got, _ := v.Get(key); got.String() != text {
			t.Errorf("%s is %v, want %s", key, got, text)
		}
	}
}

func problemOf(t *testing.T, err error) document.Problem {
	t.Helper()
	var ps document.Problems
	if !errors.As(err, &ps) || len(ps) != 1 {
		t.Fatalf("error is %v (%T), want one problem", err, err)
	}
	return ps[0]
}

func TestBadTextIsRefusedWithPlaceAndRule(t *testing.T) {
	laughs := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for _, c := range []string{"ab", "bc", "cd", "de", "ef", "fg", "gh"} {
		laughs += c[1:] + ": &" + c[1:] + " [" + strings.Repeat("*"+c[:1]+",", 9) + "*" + c[:1] + "]\n"
	}
	deepAlias := "a: &a " + strings.Repeat("[", 60) + strings.Repeat("]", 60) + "\nb: " +
		strings.Repeat("[", 60) + "*a" + strings.Repeat("]", 60)
	cases := []struct {
		name, yaml, json string
		rule             document.Rule
		text             string
	}{
		{"duplicate key", "a: 1\nb: 2\na: 3\n", "{\"a\": 1,\n\"b\": 2,\n\"a\": 3}", document.RuleDuplicateKey, `key "a" is here for the second time; the first is at line 1`},
		{"duplicate among many", "{" + strings.Repeat("a: 1, ", 1) + manyKeys("%s: 0, ") + "k20: 1}", "{" + manyKeys(`"%s": 0, `) + `"k20": 1}`, document.RuleDuplicateKey, `key "k20"`},
		{"second document", "a: 1\n---\nb: 2\n", `{"a": 1} {"b": 2}`, document.RuleSeveral, ""},
		{"syntax", "a: [1, 2\nb: }", `{"a": [1, 2}`, document.RuleSyntax, ""},
		{"too early an end", "{a: [", `{"a": [1,`, document.RuleSyntax, ""},
		{"missing comma", "", `[1 2]`, document.RuleSyntax, ""},
		{"empty", "", " ", document.RuleSyntax, "empty"},
		{"not UTF-8", "a: \xff", "\"\xff\"", document.RuleSyntax, "UTF-8"},
		{"whole number beyond 64 bits", "a: 18446744073709551616", `18446744073709551616`, document.RuleOutOfRange, "64 bits"},
		{"negative number beyond 64 bits", "a: -9223372036854775809", `-9223372036854775809`, document.RuleOutOfRange, "64 bits"},
		{"float beyond range", "", `1e999`, document.RuleOutOfRange, "range"},
		{"leading zero", "a: 0777", "", document.RuleOutOfRange, "octal"},
		{"unknown tag", "a: !thing 5", "", document.RuleSyntax, "tag !thing"},
		{"binary tag", "a: !!binary aGk=", "", document.RuleSyntax, "tag !!binary"},
		{"set", "a: !!set {x}", "", document.RuleSyntax, "tag !!set"},
		{"key that is a list", "[1, 2]: 3", `{[1]: 2}`, document.RuleSyntax, ""},
		{"alias of itself", "a: &a [*a]", "", document.RuleTooDeep, "contains itself"},
		{"unknown alias", "a: *nobody", "", document.RuleSyntax, "nobody"},
		{"merge of a scalar", "<<: 5", "", document.RuleWrongType, "merge key"},
		{"aliases that expand to too much", laughs, "", document.RuleTooLarge, "aliases"},
		{"aliases that nest too deep", deepAlias, "", document.RuleTooDeep, "100 levels"},
		{"101 levels", strings.Repeat("[", 101) + strings.Repeat("]", 101), strings.Repeat("[", 101) + strings.Repeat("]", 101), document.RuleTooDeep, "100 levels"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			check := func(err error) {
				t.Helper()
				if err == nil {
					t.Fatal("no error")
				}
				p := problemOf(t, err)
				if p.Rule != c.rule || !strings.Contains(p.Message, c.text) {
					t.Errorf("problem is %s %q, want %s with %q", p.Rule, p.Message, c.rule, c.text)
				}
				if p.Position.IsZero() {
					t.Errorf("%v has no place", p)
				}
			}
			if c.yaml != "" {
				_, err := ParseYAML("x.yaml", []byte(c.yaml))
				check(err)
			}
			if c.json != "" {
				_, err := ParseJSON("x.json", []byte(c.json))
				check(err)
			}
		})
	}
}

func TestSyntaxErrorsNameTheirLine(t *testing.T) {
	for text, line := range map[string]int32{
		"a: {x: 1\n":                 2, // where the text ends
		"a: 1\nb: {x: 1\n":           2,
		"a: 1\nb:\n  c: 1\n d: 2\n":  4,
		"a: 1\nb: 2\n  c: 3\n":       3,
		"a: [1,\n2\n b: 3":           3,
		"\n\na: \t@x":                3,
		"a: 1\n\n\n- b":              4,
		"a: 1\nb: [*here, *there]\n": 2,
	} {
		_, err := ParseYAML("", []byte(text))
		if p := problemOf(t, err); p.Line != line {
			t.Errorf("%q: the error is at line %d, want %d: %v", text, p.Line, line, p)
		}
	}
}

func manyKeys(format string) string {
	var b strings.Builder
	for _, k := range "0123456789" {
		b.WriteString(strings.ReplaceAll(format, "%s", "k1"+string(k)))
		b.WriteString(strings.ReplaceAll(format, "%s", "k2"+string(k)))
	}
	return b.String()
}

func TestMaximalNestingIsAccepted(t *testing.T) {
	text := strings.Repeat("[", document.MaxDepth) + strings.Repeat("]", document.MaxDepth)
	mustYAML(t, text)
	mustJSON(t, text)
}

// Each input is ten megabytes of nesting, in every style that the notations have.
func TestTenMegabytesOfNestingAreRefusedQuickly(t *testing.T) {
	const size = 10 << 20
	fill := func(s string) []byte { return []byte(strings.Repeat(s, size/len(s))) }
	stairs := func() []byte {
		var b strings.Builder
		for indent := 0; b.Len() < size; indent++ {
			b.WriteString(strings.Repeat(" ", indent) + "a:\n")
		}
		return []byte(b.String())
	}
	for name, data := range map[string][]byte{
		"brackets":      fill("["),
		"spaced":        fill("[ "),
		"lines":         fill("[\n"),
		"flow maps":     fill("{a: "),
		"dashes":        fill("- "),
		"question":      fill("? "),
		"stairs":        stairs(),
		"JSON in a map": fill(`{"a":`),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseYAML("big.yaml", data)
			if p := problemOf(t, err); p.Rule != document.RuleTooDeep {
				t.Errorf("YAML: %v", p)
			}
			if data[0] != '[' && name != "JSON in a map" {
				return
			}
			_, err = ParseJSON("big.json", data)
			if p := problemOf(t, err); p.Rule != document.RuleTooDeep {
				t.Errorf("JSON: %v", p)
			}
		})
	}
}

func TestTheKindOfTextFollowsFromTheNameOfTheFile(t *testing.T) {
	if _, err := Parse("a.JSON", []byte("a: 1")); err == nil {
		t.Error("YAML was read from a JSON file")
	}
	v, err := Parse("a.yml", []byte("a: 1"))
	if err != nil || v.String() != "{a: 1}" {
		t.Errorf("got %v, %v", v, err)
	}
}

func TestTextsThatYAMLWouldMisreadAreQuoted(t *testing.T) {
	for _, text := range []string{
		"", " ", "null", "~", "true", "5", "1.5", ".nan", "0777", "- a", "a: b", "a #b", "*x", "&x", "!x", "<<",
		"line\nbreak", "tab\t", "\u0085", "\u2028", "\ufeff", "'", `"`, "\\", "2026-01-31", "{", "ends ", "\r\n", "=",
	} {
		v := document.Map(document.Pair(text, document.List(document.Text(text))))
		yaml, err := YAML(v)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if back := mustYAML(t, string(yaml)); !back.Equal(v) {
			t.Errorf("%q is written %q and read as %v", text, yaml, back)
		}
		json, err := v.JSON("  ")
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if back := mustJSON(t, string(json)); !back.Equal(v) {
			t.Errorf("%q is written %q and read as %v", text, json, back)
		}
	}
}

func TestJSONHasNoNaN(t *testing.T) {
	for _, f := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if _, err := document.List(document.Float(f)).JSON(""); err == nil {
			t.Errorf("%v was written", f)
		}
	}
}
