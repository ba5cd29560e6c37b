package nodefilter_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/value/nodefilter"
	"github.com/weirhq/weir/test/expected"
)

func mustParse(t testing.TB, text string) nodefilter.Filter {
	t.Helper()
	f, err := nodefilter.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func hasAny(tags ...string) func(string) bool {
	return func(tag string) bool { return slices.Contains(tags, tag) }
}

func TestMatches(t *testing.T) {
	cases := []struct {
		formula string
		tags    string
		want    bool
	}{
		{"", "", true},
		{"  \t\n", "x", true},
		{"internal", "internal", true},
		{"internal", "external", false},
		{"!internal", "external", true},
		{"!!internal", "internal", true},
		{"a & b", "a b", true},
		{"a & b", "a", false},
		{"a | b", "b", true},
		{"a | b & c", "a", true}, // & binds tighter than |
		{"(a | b) & c", "a", false},
		{"a & b | c", "c", true},
		{"!a & b", "b", true}, // ! binds tighter than &
		{"!(a & b)", "b", true},
		{"!a | b", "a b", true},
		{"rack-1 & gpu_a100 & cluster/foo & a.b:c", "rack-1 gpu_a100 cluster/foo a.b:c", true},
		{"42&тег", "42 тег", true},
		{"%true", "", true},
		{"%false", "x", false},
		{"a & %true", "a", true},
		{"!%false & a", "a", true},
	}
	for _, c := range cases {
		if got := mustParse(t, c.formula).Matches(hasAny(strings.Fields(c.tags)...)); got != c.want {
			t.Errorf("%q on tags %q: %v", c.formula, c.tags, got)
		}
	}
	if !(nodefilter.Filter{}).Matches(hasAny()) || !(nodefilter.Filter{}).IsEmpty() {
		t.Error("the zero filter does not match everything")
	}
}

func TestMatchesAsksOnlyWhatItNeedsInTheOrderOfTheText(t *testing.T) {
	cases := []struct{ formula, tags, asked string }{
		{"a & b & c", "", "a"},
		{"a | b | c", "a", "a"},
		{"a & (b | c) & d", "a c", "a b c d"},
		{"a & (b | c) & d", "a", "a b c"},
		{"!(a | b) & c", "b", "a b"},
		{"%true | a", "", ""},
		{"%false & a | b", "b", "b"},
	}
	for _, c := range cases {
		var asked []string
		mustParse(t, c.formula).Matches(func(tag string) bool {
			asked = append(asked, tag)
			return slices.Contains(strings.Fields(c.tags), tag)
		})
		if got := strings.Join(asked, " "); got != c.asked {
			t.Errorf("%q asked for %q; want %q", c.formula, got, c.asked)
		}
	}
}

func TestStringIsCanonical(t *testing.T) {
	for formula, want := range map[string]string{
		"":                    "",
		" a&b|c ":             "a & b | c",
		"a&(b|c)":             "a & (b | c)",
		"((a))":               "a",
		"(a&b)&c":             "a & b & c",
		"a&(b&c)":             "a & b & c",
		"a|(b|(c&d))":         "a | b | c & d",
		"!a":                  "!a",
		"! (a)":               "!a",
		"!!a":                 "a",
		"!(!a)":               "a",
		"!(!(!(a&b)))":        "!(a & b)",
		"!((!(a)))&b":         "a & b",
		"!(a|b)&!(c&d)":       "!(a | b) & !(c & d)",
		"%true&a":             "%true & a",
		"!!(!!(a|b))&c":       "(a | b) & c",
		"x & !(y & !(z | w))": "x & !(y & !(z | w))",
	} {
		f := mustParse(t, formula)
		if f.String() != want {
			t.Errorf("%q prints as %q; want %q", formula, f, want)
		}
		if f != mustParse(t, want) {
			t.Errorf("%q and %q are different filters", formula, want)
		}
	}
}

func TestTokenCount(t *testing.T) {
	cases := []struct {
		formula string
		tokens  int
	}{
		{"", 0},
		{"b & (a | !b) & %true", 8},
		{"((a))", 1},
		{"!(!a)", 1},
	}
	for _, c := range cases {
		f := mustParse(t, c.formula)
		if f.TokenCount() != c.tokens {
			t.Errorf("%q has %d tokens; want %d", c.formula, f.TokenCount(), c.tokens)
		}
	}
}

func TestErrorsPointAtTheCharacter(t *testing.T) {
	cases := []struct {
		formula string
		offset  int
		message string
	}{
		{"a & & b", 4, "expected a tag, ! or ( between & and &"},
		{"a && b", 3, "write a single &"},
		{"a || b", 3, "write a single |"},
		{"a &", 3, "expected a tag, ! or ( after &"},
		{"| a", 0, "expected a tag, ! or ( before |"},
		{"(& a)", 1, "expected a tag, ! or ( before &"},
		{"a b", 2, "expected & or | before b"},
		{"a !b", 2, "expected & or | before !"},
		{"a (b)", 2, "expected & or | before ("},
		{"(a) b", 4, "expected & or | before b"},
		{"a and b", 2, `expected & or |; write & for "and"`},
		{"not a", 4, `expected & or |; write ! for "not"`},
		{"a & ()", 5, "there is nothing between the parentheses"},
		{"!", 1, "expected a tag, ! or ( after !"},
		{"(a | b", 0, "this ( is never closed"},
		{"(a | (b", 5, "this ( is never closed"},
		{"a)", 1, "this ) has no ( before it"},
		{")", 0, "this ) has no ( before it"},
		{"!)", 1, "expected a tag, ! or ( between ! and )"},
		{"%maybe", 0, "a tag cannot begin with %; the constants are %true and %false"},
		{"a\x00b", 1, "character U+0000 cannot be part of a tag"},
		{"a & b\xff", 5, "byte 0xff is not UTF-8"},
		{"a " + strings.Repeat("x", 100), 2, "expected & or | before " + strings.Repeat("x", 40) + "…"},
	}
	for _, c := range cases {
		f, err := nodefilter.Parse(c.formula)
		var syntax *nodefilter.SyntaxError
		if !errors.As(err, &syntax) {
			t.Errorf("%q: parsed as %q, error %v", c.formula, f, err)
			continue
		}
		if syntax.Offset != c.offset || syntax.Message != c.message || syntax.Text != c.formula {
			t.Errorf("%q: offset %d, message %q; want %d, %q", c.formula, syntax.Offset, syntax.Message, c.offset, c.message)
		}
		if f != (nodefilter.Filter{}) {
			t.Errorf("%q: filter %q together with an error", c.formula, f)
		}
	}
}

func TestErrorShowsThePlace(t *testing.T) {
	cases := map[string]string{
		"a & & b":   "node filter, character 5: expected a tag, ! or ( between & and &\na & & b\n    ^",
		"тег & ":    "node filter, character 7: expected a tag, ! or ( after &\nтег & \n      ^",
		"a\n\tb":    "node filter, character 4: expected & or | before b\na  b\n   ^",
		"(a | \x01": "node filter, character 6: character U+0001 cannot be part of a tag\n(a |  \n     ^",
		strings.Repeat("a&", 50) + "&" + strings.Repeat("b", 50): "node filter, character 101: write a single &\n" +
			"…" + strings.Repeat("a&", 15) + "&" + strings.Repeat("b", 29) + "…\n" + strings.Repeat(" ", 31) + "^",
	}
	for formula, want := range cases {
		_, err := nodefilter.Parse(formula)
		if err == nil {
			t.Errorf("%q was accepted", formula)
		} else if diff := cmp.Diff(want, err.Error()); diff != "" {
			t.Errorf("%q: %s", formula, diff)
		}
	}
}

func TestMegabytesOfNestingAreHarmless(t *testing.T) {
	const size = 1 << 20
	for _, text := range []string{strings.Repeat("(", size), strings.Repeat("!", size), strings.Repeat("(a&", size/3)} {
		if _, err := nodefilter.Parse(text); err == nil {
			t.Errorf("%.5s… was accepted", text)
		}
	}
	const depth = 1 << 14
	nested := strings.Repeat("!(a | ", depth) + "b" + strings.Repeat(")", depth)
	if f := mustParse(t, nested); f.String() != nested || !f.Matches(hasAny("b")) || f.TokenCount() != 3*depth+1 {
		t.Error("a deep formula is wrong")
	}
	if f := mustParse(t, strings.Repeat("(", size/3)+"a"+strings.Repeat(")", size/3)); f.String() != "a" {
		t.Error("needless parentheses stayed")
	}
	if _, err := nodefilter.Parse(strings.Repeat("a", size+1)); err == nil || !strings.Contains(err.Error(), "longer than") || len(err.Error()) > 300 {
		t.Errorf("a formula of more than 1 MiB: %.300v", err)
	}
	// The text is within the limit; with spaces around every operator it would not be.
	if _, err := nodefilter.Parse(strings.Repeat("a|", size/3) + "a"); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("a formula of 0.7 MiB without spaces: %.300v", err)
	}
}

func TestTextForms(t *testing.T) {
	type config struct {
		Filter nodefilter.Filter `json:"nodes_filter"`
	}
	var c config
	if err := json.Unmarshal([]byte(`{"nodes_filter": "a&(b|c)"}`), &c); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(c)
	if err != nil || string(text) != `{"nodes_filter":"a \u0026 (b | c)"}` {
		t.Errorf("got %s, %v", text, err)
	}
	if err := json.Unmarshal([]byte(`{"nodes_filter": "a&"}`), &c); err == nil || c.Filter.IsEmpty() {
		t.Errorf("error %v; the filter is now %q", err, c.Filter)
	}
}

// formula is the simple twin: a tree that evaluates itself, and is printed with all
// parentheses and random spaces.
type formula interface {
	eval(has func(string) bool) bool
	print(space func() string) string
}

type (
	leaf     string
	not      struct{ operand formula }
	and      struct{ left, right formula }
	or       struct{ left, right formula }
	constant bool
)

func (f leaf) eval(has func(string) bool) bool { return has(string(f)) }
func (f not) eval(has func(string) bool) bool  { return !f.operand.eval(has) }
func (f and) eval(has func(string) bool) bool  { return f.left.eval(has) && f.right.eval(has) }
func (f or) eval(has func(string) bool) bool   { return f.left.eval(has) || f.right.eval(has) }
func (f constant) eval(func(string) bool) bool { return bool(f) }
func (f leaf) print(func() string) string      { return string(f) }
func (f constant) print(func() string) string  { return fmt.Sprintf("%%%v", bool(f)) }
func (f not) print(space func() string) string { return "!" + space() + f.operand.print(space) }
func (f and) print(space func() string) string { return infix(f.left, f.right, "&", space) }
func (f or) print(space func() string) string  { return infix(f.left, f.right, "|", space) }
func infix(a, b formula, op string, space func() string) string {
	return "(" + a.print(space) + space() + op + space() + b.print(space) + space() + ")"
}

var tagNames = []string{"a", "b-1", "c/d", "e.f:g", "тег"}

func drawFormula(t *rapid.T, depth int) formula {
	choice := rapid.IntRange(0, 9).Draw(t, "node")
	if depth == 0 {
		choice %= 3
	}
	switch {
	case choice < 2:
		return leaf(rapid.SampledFrom(tagNames).Draw(t, "tag"))
	case choice == 2:
		return constant(rapid.Bool().Draw(t, "constant"))
	case choice < 5:
		return not{drawFormula(t, depth-1)}
	case choice < 8:
		return and{drawFormula(t, depth-1), drawFormula(t, depth-1)}
	}
	return or{drawFormula(t, depth-1), drawFormula(t, depth-1)}
}

func drawText(t *rapid.T, f formula) string {
	return f.print(func() string { return rapid.SampledFrom([]string{"", " ", "\t"}).Draw(t, "space") })
}

// eachAssignment calls visit for every subset of the tags.
func eachAssignment(visit func(has func(string) bool)) {
	for set := range 1 << len(tagNames) {
		visit(func(tag string) bool { return set&(1<<slices.Index(tagNames, tag)) != 0 })
	}
}

func TestTruthTablesAgreeWithTheTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFormula(t, 5)
		filter := mustParseRapid(t, drawText(t, f))
		eachAssignment(func(has func(string) bool) {
			if filter.Matches(has) != f.eval(has) {
				t.Fatalf("%q is wrong", filter)
			}
		})
		if mustParseRapid(t, filter.String()) != filter {
			t.Fatalf("%q does not read back", filter)
		}
	})
}

func mustParseRapid(t *rapid.T, text string) nodefilter.Filter {
	f, err := nodefilter.Parse(text)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return f
}

func TestMatchesDoesNotAllocate(t *testing.T) {
	f := mustParse(t, "a & (b | !c) & !(d | e)")
	has := func(tag string) bool { return tag == "a" }
	if n := testing.AllocsPerRun(100, func() { f.Matches(has) }); n != 0 {
		t.Errorf("%g allocations", n)
	}
}

func BenchmarkMatches(b *testing.B) {
	f := mustParse(b, "internal & (rack-1 | rack-2) & !(gpu_a100 | gpu_v100)")
	tags := map[string]bool{"internal": true, "rack-2": true}
	has := func(tag string) bool { return tags[tag] }
	b.ReportAllocs()
	for b.Loop() {
		f.Matches(has)
	}
}

func FuzzParse(f *testing.F) {
	expected.Corpus(f)
	for _, text := range []string{"", "a", "a&b|!c", "((a))", "!(a|b)", "a &", "%true", "%x", "a\xffb", "!!!a", "(", ")", "a and b"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		filter, err := nodefilter.Parse(text)
		if err != nil {
			var syntax *nodefilter.SyntaxError
			if !errors.As(err, &syntax) || syntax.Offset < 0 || syntax.Offset > len(text) || err.Error() == "" {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		again, err := nodefilter.Parse(filter.String())
		if err != nil || again != filter {
			t.Fatalf("%q prints as %q, which reads as %q, %v", text, filter, again, err)
		}
		all := filter.Matches(func(string) bool { return true })
		if filter.IsEmpty() && (!all || filter.TokenCount() > 0) {
			t.Fatalf("%q is empty, has %d tokens and matches all nodes: %v", text, filter.TokenCount(), all)
		}
	})
}
