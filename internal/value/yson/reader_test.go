package yson

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"
)

// readings lists inputs with their meaning. Inputs that name an issue or a paragraph come from the
// description of the HTTP API; the bytes of binary scalars were computed by hand.
var readings = []struct {
	name  string
	input string
	want  Node
}{
	{"a bare word", `abc-1.x_Y`, String("abc-1.x_Y")},
	{"a word that other languages know", `null`, String("null")},
	{"an empty string", `""`, String("")},
	{"every escape", `"\n\t\r\\\"\'\a\b\f\v\x41\xfF\101\0"`, String("\n\t\r\\\"'\a\b\f\vA\xffA\x00")},
	{"octal escapes end where a byte does", `"\4000\08\18"`, String(" 00\x008\x018")},
	{"one hexadecimal digit", `"\x1g"`, String("\x01g")},
	{"bytes that need no escape", "\"п\n\x00\"", String("п\n\x00")},
	{"a binary string", "\x01\x06abc", String("abc")},
	{"an empty binary string", "\x01\x00", String("")},
	{"a binary string with a length of two bytes", "\x01\x80\x01" + strings.Repeat("x", 64), String(strings.Repeat("x", 64))},
	{"zero", `0`, Int64(0)},
	{"a signed number", `+123`, Int64(123)},
	{"the smallest int64", `-9223372036854775808`, Int64(math.MinInt64)},
	{"the largest int64", `9223372036854775807`, Int64(math.MaxInt64)},
	{"a binary int64", "\x02\x05", Int64(-3)},
	{"the smallest int64 in binary", "\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", Int64(math.MinInt64)},
	{"a uint64", `123u`, Uint64(123)},
	{"the largest uint64", `18446744073709551615u`, Uint64(math.MaxUint64)},
	{"a binary uint64", "\x06\xac\x02", Uint64(300)},
	{"a double", `-1.5`, Double(-1.5)},
	{"a double with nothing behind the point", `10.`, Double(10)},
	{"a double by its exponent", `1e5`, Double(1e5)},
	{"a double with a signed exponent", `2.5E-3`, Double(0.0025)},
	{"not a number", `%nan`, Double(math.NaN())},
	{"infinity", `%inf`, Double(math.Inf(1))},
	{"infinity with a sign", `%+inf`, Double(math.Inf(1))},
	{"negative infinity", `%-inf`, Double(math.Inf(-1))},
	{"a binary double", "\x03\x00\x00\x00\x00\x00\x00\xf8\x3f", Double(1.5)},
	{"true", `%true`, Boolean(true)},
	{"false", `%false`, Boolean(false)},
	{"binary true", "\x05", Boolean(true)},
	{"binary false", "\x04", Boolean(false)},
	{"the entity", ` # `, Entity()},
	{"an empty list", `[]`, List()},
	{"a list", `[1;a;"b"]`, List(Int64(1), String("a"), String("b"))},
	{"a semicolon behind the last item", `[1;]`, List(Int64(1))},
	{"an empty map", `{ }`, Map()},
	{"a map keeps its order", `{b=1;a=2;}`, Map(Pair("b", Int64(1)), Pair("a", Int64(2)))},
	{"quoted and binary keys", "{\"b c\"=1;\x01\x02a=2}", Map(Pair("b c", Int64(1)), Pair("a", Int64(2)))},
	{"white space everywhere", " \t\r\n\v\f{ a = [ 1 ; 2 ; ] ; } \n", Map(Pair("a", List(Int64(1), Int64(2))))},
	{"text and binary mixed", "{cpu=\x02\xc8\x01;\x01\x0cmemory=<unit=\x01\x04GB>10u}",
		Map(Pair("cpu", Int64(100)), Pair("memory", Uint64(10).WithAttributes(Pair("unit", String("GB")))))},
	{"attributes on a scalar", `<append=%true>"//tmp/t"`, String("//tmp/t").WithAttributes(Pair("append", Boolean(true)))},
	{"attributes on an entity", `<a=1>#`, Entity().WithAttributes(Pair("a", Int64(1)))},
	{"attributes on everything", `<a=<b=c>d>{k=<e=f>[<g=h>1]}`,
		Map(Pair("k", List(Int64(1).WithAttributes(Pair("g", String("h")))).WithAttributes(Pair("e", String("f"))))).
			WithAttributes(Pair("a", String("d").WithAttributes(Pair("b", String("c")))))},
	{"no attributes in brackets", `<>1`, Int64(1)},
	{"a header format", `<format=text>yson`, String("yson").WithAttributes(Pair("format", String("text")))},
	{"a string parameter with attributes", `{job_id=<address="n:1";error={code=1}>"1-2-3-4"}`,
		Map(Pair("job_id", String("1-2-3-4").WithAttributes(Pair("address", String("n:1")), Pair("error", Map(Pair("code", Int64(1)))))))},
	{"resources as people type them", `{cpu=100}`, Map(Pair("cpu", Int64(100)))},
}

func TestReadingGivesTheValue(t *testing.T) {
	for _, c := range readings {
		t.Run(c.name, func(t *testing.T) {
			got, err := Parse([]byte(c.input))
			if err != nil || !got.Equal(c.want) {
				t.Errorf("%q is %v, %v; want %v", c.input, got, err, c.want)
			}
			r := NewReader(iotest.OneByteReader(strings.NewReader(c.input)), Single)
			got, err = r.ReadNode()
			if err != nil || !got.Equal(c.want) {
				t.Errorf("%q, byte by byte, is %v, %v; want %v", c.input, got, err, c.want)
			}
			if _, err := r.Next(); err != io.EOF {
				t.Errorf("%q is followed by %v, want io.EOF", c.input, err)
			}
		})
	}
}

func TestTheSignOfZeroIsKept(t *testing.T) {
	for _, format := range []Format{Text, Pretty, Binary} {
		data, err := Append(nil, Double(math.Copysign(0, -1)), format)
		if err != nil {
			t.Fatal(err)
		}
		n, err := Parse(data)
		if f, _ := n.Double(); err != nil || !math.Signbit(f) || f != 0 {
			t.Errorf("-0 in %v is read as %v, %v", format, n, err)
		}
	}
}

func TestBadInputIsRefusedAtItsPlace(t *testing.T) {
	for _, c := range []struct {
		name         string
		input        string
		shape        Shape
		offset       int64
		line, column int
		message      string
	}{
		{"nothing", ``, Single, 0, 1, 1, "the input is empty"},
		{"only space", " \n ", Single, 3, 2, 2, "the input is empty"},
		{"two values", `1 2`, Single, 2, 1, 3, "more after the end"},
		{"a semicolon behind a single value", `1;`, Single, 1, 1, 2, "more after the end"},
		{"an open list", "[1;\n 2", Single, 6, 2, 3, `ends inside "["`},
		{"an open map", `{a=1`, Single, 4, 1, 5, `ends inside "{"`},
		{"open attributes", `<a=1`, Single, 4, 1, 5, `ends inside "<"`},
		{"attributes without a value", `<a=1>`, Single, 5, 1, 6, "ends after attributes"},
		{"attributes of nothing in a list", `[<a=1>;2]`, Single, 6, 1, 7, "after attributes must come a value"},
		{"attributes twice", `<a=1><b=2>3`, Single, 5, 1, 6, "attributes only once"},
		{"a key alone", `{a}`, Single, 2, 1, 3, `after a key must come "=", not "}"`},
		{"a key at the end", `{a`, Single, 2, 1, 3, `after a key must come "=", but the input ends`},
		{"a key without a value", `{a=;}`, Single, 3, 1, 4, `a value must be here, not ";"`},
		{"a key fragment without a value", `a=`, MapFragment, 2, 1, 3, "ends after a key"},
		{"a number as a key", `{1=2}`, Single, 1, 1, 2, `a key must be here, a string, not "1"`},
		{"a key with attributes", `{<a=1>b=2}`, Single, 1, 1, 2, `a key must be here`},
		{"a comma", `[1,2]`, Single, 2, 1, 3, `not ","; items are separated by ";"`},
		{"a colon", `{a:1}`, Single, 2, 1, 3, `not ":"; keys and values are separated by "="`},
		{"single quotes", `'a'`, Single, 0, 1, 1, "strings stand in double quotes"},
		{"an empty item", `[1;;2]`, Single, 3, 1, 4, `a value must be here, not ";"`},
		{"the wrong bracket", "[1}", Single, 2, 1, 3, `"[" is open, so "}" cannot be closed here`},
		{"a bracket too many", "]", ListFragment, 0, 1, 1, `"]" closes nothing`},
		{"a bracket instead of a value", "{a=}", Single, 3, 1, 4, "a value must be here"},
		{"an open string", "[\n\"abc", Single, 2, 2, 1, "no closing quote"},
		{"a string that ends in a backslash", `"abc\`, Single, 0, 1, 1, "no closing quote"},
		{"a string whose last quote is escaped", `"abc\"`, Single, 0, 1, 1, "no closing quote"},
		{"an unknown escape", `"ab\qc"`, Single, 3, 1, 4, `\q is no escape`},
		{"an escape without digits", `"\xg"`, Single, 1, 1, 2, `\x is no escape`},
		{"a word that begins as a number", `[12ab]`, Single, 1, 1, 2, `"12a" is not a number; a string that begins`},
		{"a guid without quotes", `1-2-3-4`, Single, 0, 1, 1, `"1-2-3-4" is not a number`},
		{"a sign", `-`, Single, 0, 1, 1, `"-" is not a number`},
		{"two points", `1.2.3`, Single, 0, 1, 1, `"1.2.3" is not a number`},
		{"a negative uint64", `-1u`, Single, 0, 1, 1, "is negative"},
		{"a number beyond int64", `9223372036854775808`, Single, 0, 1, 1, `a uint64 ends in "u"`},
		{"a number below int64", `-9223372036854775809`, Single, 0, 1, 1, "does not fit into an int64"},
		{"a number beyond 64 bits", `18446744073709551616u`, Single, 0, 1, 1, "does not fit into 64 bits"},
		{"a number far beyond 64 bits", `99999999999999999999999`, Single, 0, 1, 1, "does not fit into 64 bits"},
		{"a double beyond its range", `1e999`, Single, 0, 1, 1, "too large for a double"},
		{"an unknown literal", `%True`, Single, 0, 1, 1, `"%True" is not one of %true`},
		{"a strange byte", "\x07", Single, 0, 1, 1, `a value must be here, not \x07`},
		{"a short binary string", "\x01\x06ab", Single, 0, 1, 1, "has 3 bytes, but the input ends after 2"},
		{"a huge binary string", "\x01\xfe\xff\xff\xff\x0fab", Single, 0, 1, 1, "has 2147483647 bytes, but the input ends after 2"},
		{"a binary string of negative length", "\x01\x05ab", Single, 0, 1, 1, "negative: -3"},
		{"a length beyond 32 bits", "\x01\xff\xff\xff\xff\x7f", Single, 0, 1, 1, "longer than 5 bytes or too large"},
		{"a binary number beyond 64 bits", "\x06\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", Single, 0, 1, 1, "too large"},
		{"a binary number without end", "\x02\x80", Single, 0, 1, 1, "ends inside a binary number"},
		{"a short binary double", "\x031234567", Single, 0, 1, 1, "ends inside a binary double"},
		{"a key twice", "{a=1;\nb=2;a=3}", Single, 10, 2, 5, `key "a" is here for the second time`},
		{"a quoted key twice", `{a=1;"\x61"=3}`, Single, 5, 1, 6, `key "a" is here for the second time`},
		{"a key twice in a fragment", "a=1;a=2", MapFragment, 4, 1, 5, `key "a" is here for the second time`},
		{"an attribute twice", "<a=1;a=2>3", Single, 5, 1, 6, `key "a" is here for the second time`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParseFragment([]byte(c.input), c.shape)
			checkSyntaxError(t, err, "YSON", c.offset, c.line, c.column, c.message)
			if strings.Contains(c.name, "twice") && c.message != "attributes only once" {
				return // a stream does not remember where keys were
			}
			r := NewReader(iotest.OneByteReader(strings.NewReader(c.input)), c.shape)
			for err = nil; err == nil; {
				_, err = r.Next()
			}
			checkSyntaxError(t, err, "YSON", c.offset, c.line, c.column, c.message)
			if _, again := r.Next(); again != err {
				t.Errorf("a second call returns %v", again)
			}
		})
	}
}

func checkSyntaxError(t *testing.T, err error, notation string, offset int64, line, column int, message string) {
	t.Helper()
	var syntax *SyntaxError
	if !errors.As(err, &syntax) {
		t.Fatalf("error is %v, want a *SyntaxError", err)
	}
	if syntax.Offset != offset || syntax.Line != line || syntax.Column != column || syntax.Notation != notation {
		t.Errorf("error is %v, want it in %s at byte %d, line %d, column %d", err, notation, offset, line, column)
	}
	if !strings.Contains(syntax.Error(), message) {
		t.Errorf("error is %q, want %q in it", err, message)
	}
}

func TestInputThatEndsTooEarlyIsCalledSo(t *testing.T) {
	for input, truncated := range map[string]bool{`[1;`: true, `"a`: true, "\x01\x06a": true, `[1;}`: false, `{a=1;a=1}`: false} {
		_, err := Parse([]byte(input))
		if err == nil || errors.Is(err, io.ErrUnexpectedEOF) != truncated {
			t.Errorf("%q gives %v; io.ErrUnexpectedEOF: want %v", input, err, truncated)
		}
	}
}

func TestDepthIsLimited(t *testing.T) {
	for _, c := range []struct{ name, open, value, close string }{
		{"lists", "[", "#", "]"},
		{"maps", "{a=", "#", "}"},
		{"attributes in attributes", "<a=", "#", ">#"},
	} {
		t.Run(c.name, func(t *testing.T) {
			nested := func(depth int) []byte {
				return []byte(strings.Repeat(c.open, depth) + c.value + strings.Repeat(c.close, depth))
			}
			n, err := Parse(nested(MaxDepth))
			if err != nil {
				t.Fatalf("%d levels: %v", MaxDepth, err)
			}
			for _, format := range []Format{Text, Pretty, Binary} {
				data, err := Append(nil, n, format)
				if err != nil {
					t.Fatal(err)
				}
				if back, err := Parse(data); err != nil || !back.Equal(n) {
					t.Errorf("%d levels do not come back from %v: %v", MaxDepth, format, err)
				}
			}
			_, err = Parse(nested(MaxDepth + 1))
			checkSyntaxError(t, err, "YSON", int64(MaxDepth*len(c.open)), 1, MaxDepth*len(c.open)+1, "deeper than 256 levels")
			_, err = Parse([]byte(strings.Repeat(c.open, 1<<20)))
			checkSyntaxError(t, err, "YSON", int64(MaxDepth*len(c.open)), 1, MaxDepth*len(c.open)+1, "deeper than 256 levels")
		})
	}
}

func TestFragmentsAreReadOneByOne(t *testing.T) {
	input := "{a=1;};\n<x=y>{a=\x02\x04};#"
	want := List(Map(Pair("a", Int64(1))), Map(Pair("a", Int64(2))).WithAttributes(Pair("x", String("y"))), Entity())
	r := NewReader(iotest.HalfReader(strings.NewReader(input)), ListFragment)
	var rows []Node
	for {
		row, err := r.ReadNode()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	if got := List(rows...); !got.Equal(want) {
		t.Errorf("rows are %v, want %v", got, want)
	}
	if got, err := ParseFragment([]byte(input), ListFragment); err != nil || !got.Equal(want) {
		t.Errorf("the whole is %v, %v; want %v", got, err, want)
	}

	input = `a=1; "b" = [2]; c=<d=e>f;`
	r.Reset(iotest.OneByteReader(strings.NewReader(input)), MapFragment)
	var entries []Entry
	for {
		token, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil || token != KeyToken {
			t.Fatalf("token %v, %v; want a key", token, err)
		}
		entry := Entry{Key: string(r.Bytes())}
		if entry.Value, err = r.ReadNode(); err != nil {
			t.Fatal(err)
		}
		entries = append(entries, entry)
	}
	want = Map(Pair("a", Int64(1)), Pair("b", List(Int64(2))), Pair("c", String("f").WithAttributes(Pair("d", String("e")))))
	if got := Map(entries...); !got.Equal(want) {
		t.Errorf("entries are %v, want %v", got, want)
	}
	if got, err := ParseFragment([]byte(input), MapFragment); err != nil || !got.Equal(want) {
		t.Errorf("the whole is %v, %v; want %v", got, err, want)
	}
}

func TestEmptyFragmentsAreEmpty(t *testing.T) {
	for _, input := range []string{"", " \n"} {
		if n, err := ParseFragment([]byte(input), ListFragment); err != nil || !n.Equal(List()) {
			t.Errorf("%q as a list fragment is %v, %v", input, n, err)
		}
		if n, err := ParseFragment([]byte(input), MapFragment); err != nil || !n.Equal(Map()) {
			t.Errorf("%q as a map fragment is %v, %v", input, n, err)
		}
	}
}

func TestSkipPassesOverWholeValues(t *testing.T) {
	var r Reader
	r.ResetBytes([]byte(`[1;<a=[b]>{c=[d]};{};"e";2]`), Single)
	next := func(want Token) {
		t.Helper()
		if got, err := r.Next(); err != nil || got != want {
			t.Fatalf("token %v, %v; want %v", got, err, want)
		}
	}
	next(BeginList)
	for range 4 {
		if err := r.Skip(); err != nil {
			t.Fatal(err)
		}
	}
	next(Int64Token)
	if r.Int64() != 2 || r.Depth() != 1 {
		t.Errorf("after four skipped items comes %d at depth %d", r.Int64(), r.Depth())
	}
	if err := r.Skip(); err == nil || !strings.Contains(err.Error(), `"]" stands where a value was to be read`) {
		t.Errorf("the end of the list is skipped: %v", err)
	}

	r.ResetBytes([]byte(`{a=1}`), Single)
	next(BeginMap)
	if err := r.Skip(); err == nil {
		t.Error("a key is skipped as if it were a value")
	}
}

func TestListsAreWalkedWithComplete(t *testing.T) {
	var r Reader
	r.ResetBytes([]byte(`{rows=[{a=1};<b=2>3]}`), Single)
	var rows []Node
	for depth := -1; ; {
		token, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case token == BeginList:
			depth = r.Depth()
		case token == EndList:
			depth = -1
		case r.Depth() >= depth && depth >= 0:
			row, err := r.Complete(token)
			if err != nil {
				t.Fatal(err)
			}
			rows = append(rows, row)
		}
	}
	if got, want := List(rows...), List(Map(Pair("a", Int64(1))), Int64(3).WithAttributes(Pair("b", Int64(2)))); !got.Equal(want) {
		t.Errorf("rows are %v, want %v", got, want)
	}
}

func TestABrokenStreamIsReportedAsSuch(t *testing.T) {
	broken := errors.New("the wire was cut")
	for _, input := range []string{"", "[", "[12", "{ab", `"ab`, "\x01\x06a", "<a=1>", "12", "%tr", "[1;"} {
		r := NewReader(io.MultiReader(strings.NewReader(input), iotest.ErrReader(broken)), Single)
		_, err := r.ReadNode()
		if !errors.Is(err, broken) {
			t.Errorf("%q followed by a broken stream gives %v", input, err)
		}
	}
	r := NewReader(stuckReader{}, Single)
	if _, err := r.Next(); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a reader without progress gives %v", err)
	}
}

type stuckReader struct{}

func (stuckReader) Read([]byte) (int, error) { return 0, nil }

func TestLongStreamsAreReadThroughASmallBuffer(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", initialBuffer/4)
	var b bytes.Buffer
	w := NewWriter(&b, Text, ListFragment)
	const rows = 3000
	for i := range rows {
		w.BeginMap()
		w.Key("index")
		w.Int64(int64(i))
		if i%1000 == 7 {
			w.Key("long")
			w.String(long)
		}
		w.EndMap()
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	size := b.Len()
	b.WriteString("{index=}")
	r := NewReader(&b, ListFragment)
	for i := range rows {
		row, err := r.ReadNode()
		if err != nil {
			t.Fatal(err)
		}
		index, _ := row.Get("index")
		text, _ := row.Get("long")
		if got, _ := index.Int64(); got != int64(i) || i%1000 == 7 != (text.text == long) {
			t.Fatalf("row %d is %.100v", i, row)
		}
	}
	_, err := r.ReadNode()
	checkSyntaxError(t, err, "YSON", int64(size)+7, rows+1, 8, "a value must be here")
	if cap(r.owned) > 8*len(long) {
		t.Errorf("the buffer grew to %d bytes for strings of %d", cap(r.owned), len(long))
	}
}

func TestNodesSurviveTheirInput(t *testing.T) {
	data := []byte(`{key="value \x41";list=[a;b]}`)
	var r Reader
	r.ResetBytes(data, Single)
	n, err := r.ReadNode()
	if err != nil {
		t.Fatal(err)
	}
	before := n.String()
	clear(data)
	r.ResetBytes([]byte(`{other="text \x42";tsil=[c;d]}`), Single)
	if _, err := r.ReadNode(); err != nil {
		t.Fatal(err)
	}
	if n.String() != before {
		t.Errorf("a Node changed from %s to %v", before, n)
	}
}

func TestAttributesAreCutFromRichPaths(t *testing.T) {
	for _, c := range []struct {
		name, input string
		attributes  Node
		rest        string
	}{
		{"a rich path", `<append=%true;x="<>">//tmp/t{a,b}[#1:#2]`, Map(Pair("append", Boolean(true)), Pair("x", String("<>"))), `//tmp/t{a,b}[#1:#2]`},
		{"a plain path", `//tmp/t`, Map(), `//tmp/t`},
		{"no attributes", `<>//tmp`, Map(), `//tmp`},
		{"nothing", ``, Map(), ``},
	} {
		t.Run(c.name, func(t *testing.T) {
			attributes, rest, err := CutAttributes([]byte(c.input))
			if err != nil || !Map(attributes...).Equal(c.attributes) || string(rest) != c.rest {
				t.Errorf("got %v, %q, %v", Map(attributes...), rest, err)
			}
		})
	}
	_, _, err := CutAttributes([]byte(`<a=1//tmp`))
	checkSyntaxError(t, err, "YSON", 4, 1, 5, `between items must stand ";", not "/"`)
}

func TestManyKeysAreComparedToo(t *testing.T) {
	for _, count := range []int{2, 32, 33, 100, 1024, 1025, 3000} {
		var b []byte
		b = append(b, "[{"...)
		for i := range count {
			b = append(b, 'k')
			b = appendInt64(b, int64(i), Text)
			b = append(b, "=#;"...)
		}
		good := append(bytes.Clone(b), "};{k0=1;k1=2}]"...)
		if n, err := Parse(good); err != nil || len(n.Items()[0].Entries()) != count {
			t.Errorf("%d different keys: %v", count, err)
		}
		at := int64(len(b))
		bad := append(b, "k0=#;k1=#}]"...)
		_, err := Parse(bad)
		checkSyntaxError(t, err, "YSON", at, 1, int(at)+1, `key "k0" is here for the second time`)
	}
}
