package yson

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
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
		offset       int64
		line, column int
		message      string
	}{
		{"nothing", ``, 0, 1, 1, "the input is empty"},
		{"only space", " \n ", 3, 2, 2, "the input is empty"},
		{"two values", `1 2`, 2, 1, 3, "more after the end"},
		{"a semicolon behind a single value", `1;`, 1, 1, 2, "more after the end"},
		{"an open list", "[1;\n 2", 6, 2, 3, `ends inside "["`},
		{"an open map", `{a=1`, 4, 1, 5, `ends inside "{"`},
		{"open attributes", `<a=1`, 4, 1, 5, `ends inside "<"`},
		{"attributes without a value", `<a=1>`, 5, 1, 6, "ends after attributes"},
		{"attributes of nothing in a list", `[<a=1>;2]`, 6, 1, 7, "after attributes must come a value"},
		{"attributes twice", `<a=1><b=2>3`, 5, 1, 6, "attributes only once"},
		{"a key alone", `{a}`, 2, 1, 3, `after a key must come "=", not "}"`},
		{"a key at the end", `{a`, 2, 1, 3, `after a key must come "=", but the input ends`},
		{"a key without a value", `{a=;}`, 3, 1, 4, `a value must be here, not ";"`},
		{"a number as a key", `{1=2}`, 1, 1, 2, `a key must be here, a string, not "1"`},
		{"a key with attributes", `{<a=1>b=2}`, 1, 1, 2, `a key must be here`},
		{"a comma", `[1,2]`, 2, 1, 3, `not ","; items are separated by ";"`},
		{"a colon", `{a:1}`, 2, 1, 3, `not ":"; keys and values are separated by "="`},
		{"single quotes", `'a'`, 0, 1, 1, "strings stand in double quotes"},
		{"an empty item", `[1;;2]`, 3, 1, 4, `a value must be here, not ";"`},
		{"empty attributes without a value", `<>`, 2, 1, 3, "ends after attributes"},
		{"attributes without a value in a map", `{a=<b=1>`, 8, 1, 9, `ends inside "{"`},
		{"a bracket too many", "]", 0, 1, 1, `a value must be here, not "]"`},
		{"the wrong bracket", "[1}", 2, 1, 3, `"[" is open, so "}" cannot be closed here`},
		{"a bracket instead of a value", "{a=}", 3, 1, 4, "a value must be here"},
		{"an open string", "[\n\"abc", 2, 2, 1, "no closing quote"},
		{"a string that ends in a backslash", `"abc\`, 0, 1, 1, "no closing quote"},
		{"a string whose last quote is escaped", `"abc\"`, 0, 1, 1, "no closing quote"},
		{"an unknown escape", `"ab\qc"`, 3, 1, 4, `\q is no escape`},
		{"an escape without digits", `"\xg"`, 1, 1, 2, `\x is no escape`},
		{"a word that begins as a number", `[12ab]`, 1, 1, 2, `"12a" is not a number; a string that begins`},
		{"a guid without quotes", `1-2-3-4`, 0, 1, 1, `"1-2-3-4" is not a number`},
		{"a sign", `-`, 0, 1, 1, `"-" is not a number`},
		{"two points", `1.2.3`, 0, 1, 1, `"1.2.3" is not a number`},
		{"a negative uint64", `-1u`, 0, 1, 1, "is negative"},
		{"a number beyond int64", `9223372036854775808`, 0, 1, 1, `a uint64 ends in "u"`},
		{"a number below int64", `-9223372036854775809`, 0, 1, 1, "does not fit into an int64"},
		{"a number beyond 64 bits", `18446744073709551616u`, 0, 1, 1, "does not fit into 64 bits"},
		{"a number far beyond 64 bits", `99999999999999999999999`, 0, 1, 1, "does not fit into 64 bits"},
		{"a double beyond its range", `1e999`, 0, 1, 1, "too large for a double"},
		{"an unknown literal", `%True`, 0, 1, 1, `"%True" is not one of %true`},
		{"a strange byte", "\x07", 0, 1, 1, `a value must be here, not \x07`},
		{"a short binary string", "\x01\x06ab", 0, 1, 1, "has 3 bytes, but the input ends after 2"},
		{"a huge binary string", "\x01\xfe\xff\xff\xff\x0fab", 0, 1, 1, "has 2147483647 bytes, but the input ends after 2"},
		{"a binary string of negative length", "\x01\x05ab", 0, 1, 1, "negative: -3"},
		{"a length beyond 32 bits", "\x01\xff\xff\xff\xff\x7f", 0, 1, 1, "longer than 5 bytes or too large"},
		{"a binary number beyond 64 bits", "\x06\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 0, 1, 1, "too large"},
		{"a binary number without end", "\x02\x80", 0, 1, 1, "ends inside a binary number"},
		{"a short binary double", "\x031234567", 0, 1, 1, "ends inside a binary double"},
		{"a key twice", "{a=1;\nb=2;a=3}", 10, 2, 5, `key "a" is here for the second time`},
		{"a quoted key twice", `{a=1;"\x61"=3}`, 5, 1, 6, `key "a" is here for the second time`},
		{"an attribute twice", "<a=1;a=2>3", 5, 1, 6, `key "a" is here for the second time`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse([]byte(c.input))
			checkSyntaxError(t, err, "YSON", c.offset, c.line, c.column, c.message)
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

func TestNodesSurviveTheirInput(t *testing.T) {
	data := []byte(`{key="value \x41";list=[a;b]}`)
	n, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	before := n.String()
	clear(data)
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
