package ypath

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weirhq/weir/test/expected"
)

func child(name string) Step     { return Step{Kind: Child, Name: name} }
func attribute(name string) Step { return Step{Kind: Attribute, Name: name} }

// paths lists texts with their meaning; printed is the canonical text, if it differs.
var paths = []struct {
	name    string
	text    string
	want    Path
	printed string
}{
	{"the root", "/", Path{}, ""},
	{"a child", "//sys", Path{Steps: []Step{child("sys")}}, ""},
	{"a key inside an attribute", "//sys/pools/a/@integral_guarantees/resource_flow",
		Path{Steps: []Step{child("sys"), child("pools"), child("a"), attribute("integral_guarantees"), child("resource_flow")}}, ""},
	{"all attributes", "//sys/@", Path{Steps: []Step{child("sys"), {Kind: AllAttributes}}}, ""},
	{"all attributes of the root", "//@", Path{Steps: []Step{{Kind: AllAttributes}}}, ""},
	{"an attribute of the root", "//@id", Path{Steps: []Step{attribute("id")}}, ""},
	{"an attribute of a value in an attribute", "//a/@b/@c", Path{Steps: []Step{child("a"), attribute("b"), attribute("c")}}, ""},
	{"an object", "#1-2-3e9-ffffffff", Path{Object: "1-2-3e9-ffffffff"}, ""},
	{"an attribute of an object", "#0-25-3ec012f-406daf5c/@type", Path{Object: "0-25-3ec012f-406daf5c", Steps: []Step{attribute("type")}}, ""},
	{"a link itself", "//sys/pools&/@target_path", Path{Steps: []Step{child("sys"), {Kind: Child, Name: "pools", Stay: true}, attribute("target_path")}}, ""},
	{"a link at the end", "//a&", Path{Steps: []Step{{Kind: Child, Name: "a", Stay: true}}}, ""},
	{"a link that is an object", "#1-2-3-4&/@", Path{Object: "1-2-3-4", Stay: true, Steps: []Step{{Kind: AllAttributes}}}, ""},
	{"a root that stays", "/&/a", Path{Stay: true, Steps: []Step{child("a")}}, ""},
	{"every child", "//tmp/*", Path{Steps: []Step{child("tmp"), {Kind: EveryChild}}}, ""},
	{"every attribute", "//tmp/@*", Path{Steps: []Step{child("tmp"), {Kind: EveryAttribute}}}, ""},
	{"an address", "//sys/cluster_nodes/localhost:40000/@state",
		Path{Steps: []Step{child("sys"), child("cluster_nodes"), child("localhost:40000"), attribute("state")}}, ""},
	{"an ephemeral pool", "//sys/pools/hub$user", Path{Steps: []Step{child("sys"), child("pools"), child("hub$user")}}, ""},
	{"the root pool", "//x/<Root>/y", Path{Steps: []Step{child("x"), child("<Root>"), child("y")}}, ""},
	{"hyphens", "//sys/pools/a/@integral-guarantees", Path{Steps: []Step{child("sys"), child("pools"), child("a"), attribute("integral-guarantees")}}, ""},
	{"a list modifier", "//sys/cluster_nodes/n/@user_tags/end",
		Path{Steps: []Step{child("sys"), child("cluster_nodes"), child("n"), attribute("user_tags"), child("end")}}, ""},
	{"every escape", `//\\\/\@\&\*\[\{\x00\xFf/b`, Path{Steps: []Step{child("\\/@&*[{\x00\xff"), child("b")}}, `//\\\/\@\&\*\[\{\x00\xff/b`},
	{"an escape that was not needed", `//\x61b`, Path{Steps: []Step{child("ab")}}, "//ab"},
	{"bytes as they are", "//п", Path{Steps: []Step{child("п")}}, `//\xd0\xbf`},
	{"closing brackets", "//a]}", Path{Steps: []Step{child("a]}")}}, ""},
	{"a name that begins as an id", "//#1", Path{Steps: []Step{child("#1")}}, ""},
	{"spaces", "// a ", Path{Steps: []Step{child(" a ")}}, ""},
}

func TestPathsAreReadAndPrinted(t *testing.T) {
	for _, c := range paths {
		t.Run(c.name, func(t *testing.T) {
			got, err := Parse(c.text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.text, diff)
			}
			printed := c.printed
			if printed == "" {
				printed = c.text
			}
			if got.String() != printed {
				t.Errorf("%s is printed as %s, want %s", c.text, got, printed)
			}
		})
	}
}

func TestBadPathsAreRefusedAtTheirPlace(t *testing.T) {
	for _, c := range []struct {
		name    string
		text    string
		offset  int
		message string
	}{
		{"nothing", "", 0, "the path is empty"},
		{"one slash", "/sys", 0, `a path begins with "//"`},
		{"no slash", "sys/pools", 0, `a path begins with "//"`},
		{"an attribute of nothing", "/@id", 0, `a path begins with "//"`},
		{"only slashes", "//", 1, `does not end with "/"`},
		{"a slash at the end", "//sys/", 5, `does not end with "/"`},
		{"two slashes inside", "//sys//pools", 6, `between two "/" must be a name`},
		{"steps behind all attributes", "//a/@/b", 5, `nothing can follow "/@"`},
		{"steps behind every child", "//a/*/b", 5, `nothing can follow "/*"`},
		{"a name that goes on behind an asterisk", "//a/*b", 5, `nothing can follow "/*"`},
		{"steps behind every attribute", "//a/@*/b", 6, `nothing can follow "/@*"`},
		{"an at sign in a name", "//a@b", 3, `"@" stands only behind "/"; in a name it is written "\@"`},
		{"an asterisk in a name", "//a*", 3, `"*" stands only behind "/"; in a name it is written "\*"`},
		{"two at signs", "//a/@@b", 5, `nothing can follow "/@"`},
		{"an ampersand twice", "//a&&", 4, `"&" stands only behind a root or a child, and only once`},
		{"an ampersand behind an attribute", "//a/@b&", 6, `"&" stands only behind a root or a child`},
		{"an ampersand instead of a name", "//a/&", 4, `after "/" must come a name`},
		{"an ampersand twice at the root", "/&&", 2, "only once"},
		{"a name behind an ampersand", "//a&b", 4, `here must come "/" or the end`},
		{"columns", "//t{a,b}", 3, `columns and ranges belong to tables, which are not here; in a name it is written "\{"`},
		{"ranges", "//t[#1:#2]", 3, "columns and ranges"},
		{"ranges instead of a name", "//t/[", 4, `after "/" must come a name`},
		{"attributes in front", "<append=%true>//t", 0, "attributes before a path are YSON"},
		{"a backslash at the end", `//a\`, 3, `ends after "\"`},
		{"an unknown escape", `//a\n`, 3, `after "\" must come one of \ / @ & * [ { or xHH`},
		{"short digits", `//a\x1`, 3, "two hexadecimal digits"},
		{"wrong digits", `//a\x1g`, 3, "two hexadecimal digits"},
		{"no id", "#", 1, "the id of an object"},
		{"a short id", "#1-2-3/@x", 1, "the id of an object"},
		{"a long number in an id", "#1-2-3-123456789", 1, "the id of an object"},
		{"an id that is no number", "#1-2-3-x", 1, "the id of an object"},
		{"a name behind an id", "#1-2-3-4@x", 8, `"@" stands only behind "/"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse(c.text)
			var syntax *SyntaxError
			if !errors.As(err, &syntax) || syntax.Offset != c.offset || !strings.Contains(syntax.Message, c.message) {
				t.Errorf("error is %v, want %q at byte %d", err, c.message, c.offset)
			}
		})
	}
}

func TestErrorsShowThePathAndThePlace(t *testing.T) {
	_, err := Parse("//sys/")
	if want := `path "//sys/", character 6: a path does not end with "/"`; err.Error() != want {
		t.Errorf("error is %q, want %q", err, want)
	}
	_, err = Parse("//" + strings.Repeat("a", 10_000) + "@")
	if len(err.Error()) > 400 {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
}

func TestStepsAreReadWithoutARoot(t *testing.T) {
	for text, want := range map[string][]Step{
		"":         nil,
		"/a/@b":    {child("a"), attribute("b")},
		"/@":       {{Kind: AllAttributes}},
		"/x&/y":    {{Kind: Child, Name: "x", Stay: true}, child("y")},
		`/a\/b/-1`: {child("a/b"), child("-1")},
	} {
		got, err := ParseSteps(text)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%q: %v (-want +got):\n%s", text, err, diff)
		}
		if printed := FormatSteps(got); printed != text {
			t.Errorf("%q is printed as %q", text, printed)
		}
	}
	for _, text := range []string{"a", "&", "//a", "/", "@a"} {
		if _, err := ParseSteps(text); err == nil {
			t.Errorf("%q is read as steps", text)
		}
	}
}

func TestSuffixesOfRichPathsAreCut(t *testing.T) {
	for text, want := range map[string][2]string{
		"//t{a,b}[#1:#2]": {"//t", "{a,b}[#1:#2]"},
		"//t[a]":          {"//t", "[a]"},
		`//t\[x\\{a}`:     {`//t\[x\\`, "{a}"},
		"//t":             {"//t", ""},
		`//t\`:            {`//t\`, ""},
	} {
		if path, suffix := CutSuffix(text); path != want[0] || suffix != want[1] {
			t.Errorf("%s is cut into %q and %q", text, path, suffix)
		}
	}
}

func TestStepsArePlacesInLists(t *testing.T) {
	for _, c := range []struct {
		name   string
		step   Step
		isOne  bool
		length int
		index  int
		inside bool
	}{
		{"an index", child("0"), true, 3, 0, true},
		{"the last index", child("2"), true, 3, 2, true},
		{"an index behind the end", child("3"), true, 3, 0, false},
		{"a negative index", child("-1"), true, 3, 2, true},
		{"a negative index before the beginning", child("-4"), true, 3, 0, false},
		{"an item of an empty list", child("0"), true, 0, 0, false},
		{"the beginning", child("begin"), true, 3, 0, true},
		{"the end", child("end"), true, 3, 3, true},
		{"the beginning of an empty list", child("begin"), true, 0, 0, true},
		{"the end of an empty list", child("end"), true, 0, 0, true},
		{"before an item", child("before:1"), true, 3, 1, true},
		{"before the last item", child("before:-1"), true, 3, 2, true},
		{"behind an item", child("after:1"), true, 3, 2, true},
		{"behind the last item", child("after:-1"), true, 3, 3, true},
		{"behind no item", child("after:3"), true, 3, 0, false},
		{"a huge index", child("9223372036854775807"), true, 3, 0, false},
		{"the most negative index", child("-9223372036854775808"), true, 3, 0, false},
		{"a name", child("first"), false, 0, 0, false},
		{"before nothing", child("before:"), false, 0, 0, false},
		{"before a name", child("before:x"), false, 0, 0, false},
		{"a plus sign", child("+1"), false, 0, 0, false},
		{"a number beyond 64 bits", child("9223372036854775808"), false, 0, 0, false},
		{"an attribute", attribute("0"), false, 0, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			position, ok := c.step.Position()
			if ok != c.isOne {
				t.Fatalf("%q is a position: %v", c.step.Name, ok)
			}
			if !ok {
				return
			}
			if index, inside := position.Resolve(c.length); index != c.index || inside != c.inside {
				t.Errorf("%q in a list of %d is at %d, %v; want %d, %v", c.step.Name, c.length, index, inside, c.index, c.inside)
			}
		})
	}
}

func drawPath(t *rapid.T) Path {
	var p Path
	if rapid.Bool().Draw(t, "object") {
		p.Object = rapid.StringMatching(`[0-9a-f]{1,8}(-[0-9a-f]{1,8}){3}`).Draw(t, "id")
	}
	p.Stay = rapid.Bool().Draw(t, "stay at the root")
	names := rapid.OneOf(rapid.SampledFrom([]string{"a", "@", "*", "&", "\\", "/", "[", "{", "\x00", "\xff", "п", "-1", "begin"}),
		rapid.StringN(1, 8, 20), rapid.Map(rapid.SliceOfN(rapid.Byte(), 1, 8), func(b []byte) string { return string(b) }))
	count := rapid.IntRange(0, 6).Draw(t, "steps")
	for i := range count {
		kind := rapid.SampledFrom([]StepKind{Child, Child, Attribute, AllAttributes, EveryChild, EveryAttribute}).Draw(t, "kind")
		if i < count-1 && kind > Attribute {
			kind = Child
		}
		step := Step{Kind: kind}
		if kind == Child || kind == Attribute {
			step.Name = names.Draw(t, "name")
		}
		if kind == Child {
			step.Stay = rapid.Bool().Draw(t, "stay")
		}
		p.Steps = append(p.Steps, step)
	}
	return p
}

func TestEveryPathComesBackFromItsText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPath(t)
		text := p.String()
		back, err := Parse(text)
		if err != nil || !equal(back, p) {
			t.Fatalf("%#v is printed as %q, read as %#v, %v", p, text, back, err)
		}
		for i := range len(text) {
			if text[i] < 0x20 || text[i] >= 0x7f {
				t.Fatalf("%q has the byte %#x", text, text[i])
			}
		}
		if path, suffix := CutSuffix(text + "{a}"); path != text || suffix != "{a}" {
			t.Fatalf("%q with columns is cut into %q and %q", text, path, suffix)
		}
		steps, err := ParseSteps(FormatSteps(p.Steps))
		if err != nil || !slices.Equal(steps, p.Steps) {
			t.Fatalf("steps %v come back as %v, %v", p.Steps, steps, err)
		}
	})
}

func FuzzYPath(f *testing.F) {
	expected.Corpus(f)
	for _, c := range paths {
		f.Add(c.text)
	}
	for _, seed := range []string{"", "//", "//a/", "//a@b", `//a\`, `//a\x1`, "#1-2-3", "//a/@/b", "//t{a}[#1]", "<a=b>//c", "/&&"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		path, suffix := CutSuffix(text)
		if path+suffix != text {
			t.Fatalf("%q is cut into %q and %q", text, path, suffix)
		}
		p, err := Parse(text)
		if err != nil {
			var syntax *SyntaxError
			if !errors.As(err, &syntax) || syntax.Offset < 0 || syntax.Offset > len(text) {
				t.Fatalf("%q gives %v", text, err)
			}
			return
		}
		if suffix != "" {
			t.Fatalf("%q is read although it has the suffix %q", text, suffix)
		}
		back, err := Parse(p.String())
		if err != nil || !equal(back, p) {
			t.Fatalf("%q is %#v, printed %q, read as %#v, %v", text, p, p, back, err)
		}
		for _, step := range p.Steps {
			if position, ok := step.Position(); ok {
				if index, inside := position.Resolve(5); inside && (index < 0 || index > 5) {
					t.Fatalf("%q is at %d in a list of 5", step.Name, index)
				}
			}
		}
	})
}

func equal(p, q Path) bool {
	return p.Object == q.Object && p.Stay == q.Stay && slices.Equal(p.Steps, q.Steps)
}

// BenchmarkParse parses a path of five steps with an attribute and an escape, as in a request for one
// option of a pool.
func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(`//sys/pool_trees/physical/research\/x/@strong_guarantee_resources/cpu`); err != nil {
			b.Fatal(err)
		}
	}
}
