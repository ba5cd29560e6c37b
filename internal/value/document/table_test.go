package document_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	. "github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/test/expected"
)

type color uint8

type inner struct {
	Depth Optional[int]
	Ratio Optional[float64]
}

type sample struct {
	Count    Optional[int]
	Ratio    Optional[float64]
	Wait     Optional[time.Duration]
	Name     string
	Color    Optional[color]
	Words    Optional[[]string]
	One      Optional[[]string]
	Inner    inner
	Maybe    Optional[inner]
	Named    []Named[inner]
	Loose    Optional[Value]
	Flag     Optional[bool]
	Extras   Extras
	Embedded inner
}

var innerTable = NewTable(
	Maybe("depth", "How deep.", func(s *inner) *Optional[int] { return &s.Depth }, AtLeast(Ints, 0).Default(3)),
	Maybe("ratio", "How much.", func(s *inner) *Optional[float64] { return &s.Ratio }, Between(Numbers, 0, 1)),
)

func embedded() []Option[inner] {
	return []Option[inner]{
		Maybe("embedded_depth", "", func(s *inner) *Optional[int] { return &s.Depth }, Ints.Default(1)),
		Maybe("embedded_ratio", "", func(s *inner) *Optional[float64] { return &s.Ratio }, Above(Numbers, 0)),
	}
}

var sampleTable = NewTable(append([]Option[sample]{
	Maybe("count", "A number.", func(s *sample) *Optional[int] { return &s.Count }, Between(Ints, 1, 10).Default(4)).Alias("number", "how_many"),
	Maybe("ratio", "", func(s *sample) *Optional[float64] { return &s.Ratio }, Above(Numbers, 0)),
	Maybe("wait", "", func(s *sample) *Optional[time.Duration] { return &s.Wait }, Between(Durations, time.Second, time.Hour)),
	Plain("name", "", func(s *sample) *string { return &s.Name }, Words.Default("nobody")),
	Maybe("color", "", func(s *sample) *Optional[color] { return &s.Color },
		Enum(Word[color]{"dark_red", 1, []string{"maroon"}}, Word[color]{"blue", 2, nil}, Word[color]{"green", 3, nil})),
	Maybe("words", "", func(s *sample) *Optional[[]string] { return &s.Words }, Distinct(ListOf(Words), func(a, b string) bool { return a == b })),
	Maybe("one", "", func(s *sample) *Optional[[]string] { return &s.One }, OneOrMore(Words)),
	Section("inner", "", func(s *sample) *inner { return &s.Inner }, innerTable),
	Maybe("maybe", "", func(s *sample) *Optional[inner] { return &s.Maybe }, innerTable.Type()),
	Plain("named", "", func(s *sample) *[]Named[inner] { return &s.Named }, MapOf(innerTable.Type())),
	Maybe("loose", "", func(s *sample) *Optional[Value] { return &s.Loose }, Anything),
	Maybe("flag", "", func(s *sample) *Optional[bool] { return &s.Flag }, Bools),
	Kept("old", "it is old", func(s *sample) *Extras { return &s.Extras }),
}, Within(embedded(), func(s *sample) *inner { return &s.Embedded })...)...,
).KeepingUnknown(func(s *sample) *Extras { return &s.Extras })

func read(t testing.TB, text string) (sample, *Reader) {
	t.Helper()
	r := NewReader("f")
	var s sample
	sampleTable.Read(r, expected.Document(t, text), &s)
	return s, r
}

func TestEveryProblemOfAMapIsReported(t *testing.T) {
	cases := []struct{ name, yaml, want string }{
		{"nothing", "", ""},
		{"not a map", "[1]", "f:1:1: must be a map, not a list"},
		{"unknown key", "cuont: 5", `f:1:1: cuont: unknown option; did you mean "count"?`},
		{"unknown key near an alias", "how_manny: 5", `f:1:1: how_manny: unknown option; did you mean "how_many"?`},
		{"unknown key near nothing", "zzzzzz: 5", `f:1:1: zzzzzz: unknown option`},
		{"two names", "count: 1\nhow-many: 2", `f:2:1: count: "count" and "how-many" are two names of one option; give only one of them (the first is at line 1)`},
		{"two spellings", "dark: 1\nembedded-depth: 1\nembedded_depth: 2",
			"f:1:1: dark: unknown option\n" + `f:3:1: embedded_depth: "embedded-depth" and "embedded_depth" are two names of one option; give only one of them (the first is at line 2)`},
		{"wrong type", "count: x", `f:1:8: count: must be a whole number, not "x"`},
		{"fraction", "count: 1.5", `f:1:8: count: must be a whole number, not 1.5`},
		{"null", "count:", `f:1:7: count: must be a whole number, not null`},
		{"out of range", "count: 11", `f:1:8: count: must be a whole number from 1 to 10, not 11`},
		{"too large", "count: 9223372036854775808", `f:1:8: count: must be a whole number, not 9223372036854775808`},
		{"not above", "ratio: 0", `f:1:8: ratio: must be a number greater than 0, not 0`},
		{"not finite", "ratio: .nan", `f:1:8: ratio: must be a finite number, not NaN`},
		{"infinite", "ratio: .inf", `f:1:8: ratio: must be a finite number, not +Inf`},
		{"short wait", "wait: 10ms", `f:1:7: wait: must be a duration like 30s, 5m, 1d or a number of milliseconds from 1s to 1h, not "10ms"`},
		{"no duration", "wait: soon", `f:1:7: wait: must be a duration like 30s, 5m, 1d or a number of milliseconds, not "soon"`},
		{"negative duration", "wait: -5s", `f:1:7: wait: must be a duration that is not negative, not "-5s"`},
		{"negative number as duration", "wait: -5", `f:1:7: wait: must be a duration that is not negative, not -5`},
		{"duration of a fraction", "wait: 1.5", `f:1:7: wait: must be a whole number of milliseconds or a duration like 1.5s, not 1.5`},
		{"duration of 300 years", "wait: 9223372036854775807", `f:1:7: wait: must be a duration of at most 290 years, not 9223372036854775807`},
		{"empty word", "name: ''", `f:1:7: name: must be a string that is not empty, not ""`},
		{"number for a word", "name: 5", `f:1:7: name: must be a string, not 5`},
		{"unknown word", "color: bleu", `f:1:8: color: must be one of dark_red, blue, green, not "bleu"; did you mean "blue"?`},
		{"number for an enum", "color: 1", `f:1:8: color: must be one of dark_red, blue, green, not 1`},
		{"repeated", "words: [a, b, a]", `f:1:15: words: "a" is in the list twice`},
		{"item", "words: [a, 5]", `f:1:12: words/1: must be a string, not 5`},
		{"not a list", "words: a", `f:1:8: words: must be a list, not "a"`},
		{"nested", "inner: {depth: -1, ratoi: 2}",
			"f:1:16: inner/depth: must be a whole number of at least 0, not -1\n" + `f:1:20: inner/ratoi: unknown option; did you mean "ratio"?`},
		{"nested in a free map", "named: {x: {ratio: 2}, y: 7}",
			"f:1:20: named/x/ratio: must be a number from 0 to 1, not 2\nf:1:27: named/y: must be a map, not 7"},
		{"within", "embedded_ratio: -1", `f:1:17: embedded_ratio: must be a number greater than 0, not -1`},
		{"several", "count: 0\nratio: x\nfoo: 1",
			"f:1:8: count: must be a whole number from 1 to 10, not 0\nf:2:8: ratio: must be a number, not \"x\"\nf:3:1: foo: unknown option"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, r := read(t, c.yaml)
			if got := r.Problems().Error(); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestAGoodMapIsReadWhole(t *testing.T) {
	s, r := read(t, `
how-many: 7
ratio: 2
wait: 90s
name: x
color: dark-red
words: [a, b]
one: c
inner: {depth: 1}
maybe: {}
named: {x: {ratio: 0.5}, y: }
loose: {any: [thing]}
flag: true
old: [1]
embedded-depth: 9
`)
	if err := r.Problems().Err(); err != nil {
		t.Fatal(err)
	}
	if w := r.Warnings(); len(w) != 1 || w[0].Rule != RuleNotSupported || !strings.Contains(w.Error(), "it is old") {
		t.Errorf("warnings are %v", w)
	}
	want := "{count: 7, ratio: 2, wait: 1m30s, name: x, color: dark_red, words: [a, b], one: [c], inner: {depth: 1}, " +
		"maybe: {}, named: {x: {ratio: 0.5}, y: {}}, loose: {any: [thing]}, flag: true, old: [1], embedded_depth: 9}"
	if got := sampleTable.Write(&s, ForPeople).String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got, _ := sampleTable.Write(&s, ForPrograms).Get("wait"); !got.Equal(Int(90000)) {
		t.Errorf("wait is written %v for programs", got)
	}
	if v, ok := s.Maybe.Get(); !ok || v != (inner{}) {
		t.Error("an empty map is not told from none")
	}
}

func TestUnknownKeysAreKeptOnRequest(t *testing.T) {
	r := NewReader("f")
	r.KeepUnknown = true
	var s sample
	sampleTable.Read(r, expected.Document(t, "mine: {a: 1}\ncount: 3\ninner: {yours: 1}"), &s)
	if got, want := r.Problems().Error(), "f:3:9: inner/yours: unknown option"; got != want {
		t.Errorf("problems are %q, want %q: a section has nowhere to keep", got, want)
	}
	if w := r.Warnings(); len(w) != 1 || w[0].Rule != RuleUnknownKey || w[0].Path != "mine" {
		t.Errorf("warnings are %v", w)
	}
	if got, want := sampleTable.Write(&s, ForPeople).String(), "{count: 3, mine: {a: 1}}"; got != want {
		t.Errorf("written as %s, want %s", got, want)
	}
}

func TestKeysOfOthersArePassedOver(t *testing.T) {
	r := NewReader("f")
	var s sample
	sampleTable.Read(r, expected.Document(t, "operations: 5\ncount: 3\noperation: 1"), &s, "operations")
	if got, want := r.Problems().Error(), `f:3:1: operation: unknown option; did you mean "operations"?`; got != want {
		t.Errorf("problems are %q, want %q", got, want)
	}
}

func TestWrongOptionsAreNamed(t *testing.T) {
	r := NewReader("")
	var s sample
	wrong := sampleTable.Read(r, expected.Document(t, "how_many: 0\nratio: 1\ninner: {depth: x}\ncolor: blue\ncolor-: 1"), &s)
	if want := []string{"count", "inner"}; !slices.Equal(wrong, want) {
		t.Errorf("wrong are %v, want %v", wrong, want)
	}
	if s.Count.IsSet() || s.Ratio.Value() != 1 || s.Color.Value() != 2 {
		t.Errorf("read %+v", s)
	}
}

func TestDefaultsFillOnlyWhatIsUnset(t *testing.T) {
	s, _ := read(t, "inner: {ratio: 0.5}\ncount: 2\nmaybe: {}")
	sampleTable.FillDefaults(&s)
	want := "{count: 2, name: nobody, inner: {depth: 3, ratio: 0.5}, maybe: {depth: 3}, embedded_depth: 1}"
	if got := sampleTable.Write(&s, ForPeople).String(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestFillPutsOneStructUnderAnother(t *testing.T) {
	over, _ := read(t, "count: 2\ninner: {ratio: 0.5}\nmaybe: {depth: 1}\nold: 1")
	under, _ := read(t, "count: 9\nname: u\ninner: {ratio: 0.1, depth: 7}\nmaybe: {depth: 2, ratio: 1}\nold: 2\nwords: [w]")
	sampleTable.Fill(&over, &under)
	want := "{count: 2, name: u, words: [w], inner: {depth: 7, ratio: 0.5}, maybe: {depth: 1, ratio: 1}, old: 1}"
	if got := sampleTable.Write(&over, ForPeople).String(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestDiffNamesEveryOptionThatDiffers(t *testing.T) {
	a, _ := read(t, "count: 2\ninner: {ratio: 0.5}\nmaybe: {depth: 1}\nold: 1\nwait: 2m")
	b, _ := read(t, "name: u\ninner: {ratio: 0.1, depth: 7}\nmaybe: {depth: 1}\nold: 2\nwait: 120000\nnamed: {x: {}}")
	var got []string
	for _, c := range sampleTable.Diff(&a, &b) {
		got = append(got, c.String())
	}
	want := []string{
		"count: 2 → unset", "name: unset → u", "inner/depth: unset → 7", "inner/ratio: 0.5 → 0.1",
		"named: unset → {x: {}}", "old: 1 → 2",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if sampleTable.Equal(&a, &b) || !sampleTable.Equal(&a, &a) {
		t.Error("Equal is wrong")
	}
}

func TestKeptValuesAreNotSharedBetweenCopies(t *testing.T) {
	a, _ := read(t, "old: 1")
	b := a
	sampleTable.Read(NewReader(""), expected.Document(t, "old: 2"), &b)
	if v, _ := a.Extras.Get("old"); !v.Equal(Int(1)) {
		t.Errorf("the first copy has %v", v)
	}
}

func TestTablesDescribeThemselves(t *testing.T) {
	infos := sampleTable.Options()
	count := infos[0]
	if count.Name != "count" || !slices.Equal(count.Aliases, []string{"number", "how_many"}) || count.Doc != "A number." ||
		!count.Default.Equal(Int(4)) || count.Shape.Kind != "integer" || !count.Shape.Maximum.Equal(Int(10)) {
		t.Errorf("count is described as %+v", count)
	}
	if name, ok := sampleTable.Resolve("how-many"); !ok || name != "count" {
		t.Errorf("how-many is %q, %v", name, ok)
	}
	if _, ok := sampleTable.Resolve("how"); ok {
		t.Error("an unknown key was resolved")
	}
	for _, info := range infos {
		if info.Name == "inner" && len(info.Shape.Options) != 2 {
			t.Errorf("the section has %d options", len(info.Shape.Options))
		}
	}
}

func TestATableWithTwoOptionsOfOneNamePanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("it did not")
		}
	}()
	at := func(s *inner) *Optional[int] { return &s.Depth }
	NewTable(Maybe("a_b", "", at, Ints), Maybe("c", "", at, Ints).Alias("a-b"))
}

func TestLongKeysDoNotMakeLongMessages(t *testing.T) {
	long := strings.Repeat("k", 100_000)
	r := NewReader("f")
	var s sample
	sampleTable.Read(r, Map(Pair(long, Int(1)), Pair("name", List(Text(long))), Pair("color", Text(long)), Pair("wait", Text(long))), &s)
	if got := len(r.Problems().Error()); got > 1000 {
		t.Errorf("the messages have %d bytes", got)
	}
}

func TestAKeptUnknownKeyIsWarnedAboutWithTheNearestName(t *testing.T) {
	r := NewReader("f")
	r.KeepUnknown = true
	var s sample
	sampleTable.Read(r, expected.Document(t, "cuont: 5\nzzzzzz: 1"), &s)
	want := "f:1:1: cuont: unknown option; it is kept but has no effect; did you mean \"count\"?\n" +
		"f:2:1: zzzzzz: unknown option; it is kept but has no effect"
	if got := r.Warnings().Error(); got != want || r.HasProblems() {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if nearest, _ := r.Warnings()[0].Fact("nearest").Text(); nearest != "count" {
		t.Errorf("nearest is %q", nearest)
	}
}

func TestFindReturnsTheEntryUnderAnyName(t *testing.T) {
	v := expected.Document(t, "name: x\nhow-many: 7")
	e, ok := sampleTable.Find(v, "count")
	if !ok || e.Key != "how-many" || e.At.Line != 2 {
		t.Errorf("%+v, %v", e, ok)
	}
	if _, ok := sampleTable.Find(v, "ratio"); ok {
		t.Error("an option that is not there was found")
	}
}
