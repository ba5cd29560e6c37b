package yson

import (
	"errors"
	"math"
	"strings"
	"testing"
)

func TestJSONIsWrittenAsYTDoes(t *testing.T) {
	attributed := Map(Pair("hello", String("world").WithAttributes(Pair("mood", Int64(42)))))
	for _, c := range []struct {
		name    string
		node    Node
		options JSONOptions
		want    string
	}{
		{"scalars", List(Int64(-1), Uint64(math.MaxUint64), Double(3.5), Double(2), Boolean(true), Boolean(false), Entity(), String("")), JSONOptions{},
			`[-1,18446744073709551615,3.5,2.0,true,false,null,""]`},
		{"numbers beyond those of JavaScript", List(Int64(1<<53+1), Int64(math.MinInt64)), JSONOptions{}, `[9007199254740993,-9223372036854775808]`},
		{"the order of keys", Map(Pair("b", Int64(1)), Pair("a", Map())), JSONOptions{}, `{"b":1,"a":{}}`},
		{"bytes as code points", String("п\xff\x00\x7f"), JSONOptions{}, `"\u00d0\u00bf\u00ff\u0000\u007f"`},
		{"text as text", String("п\n\x01"), JSONOptions{UTF8: true}, `"п\n\u0001"`},
		{"escapes", String("\"\\\n\r\t/"), JSONOptions{}, `"\"\\\n\r\t/"`},
		{"keys that begin with a dollar", Map(Pair("$value", String("foo")), Pair("$$attributes", String("bar")), Pair("$", Int64(1)), Pair("a$", Int64(2))), JSONOptions{},
			`{"$$value":"foo","$$$attributes":"bar","$$":1,"a$":2}`},
		{"keys in plain JSON", Map(Pair("$value", Int64(1).WithAttributes(Pair("a", Int64(2))))), JSONOptions{Plain: true}, `{"$value":1}`},
		{"attributes on demand", attributed, JSONOptions{}, `{"hello":{"$attributes":{"mood":42},"$value":"world"}}`},
		{"attributes of attributes", Entity().WithAttributes(Pair("foo", String("bar").WithAttributes(Pair("x", List())))), JSONOptions{},
			`{"$attributes":{"foo":{"$attributes":{"x":[]},"$value":"bar"}},"$value":null}`},
		{"attributes never", attributed, JSONOptions{Attributes: AttributesNever}, `{"hello":"world"}`},
		{"attributes always", attributed, JSONOptions{Attributes: AttributesAlways},
			`{"$attributes":{},"$value":{"hello":{"$attributes":{"mood":{"$attributes":{},"$value":42}},"$value":"world"}}}`},
		{"types", Map(Pair("a", Int64(1)), Pair("b", List(Uint64(2), Double(3), Boolean(true), String("s"), Entity()))), JSONOptions{AnnotateWithTypes: true},
			`{"a":{"$type":"int64","$value":1},"b":[{"$type":"uint64","$value":2},{"$type":"double","$value":3.0},{"$type":"boolean","$value":true},{"$type":"string","$value":"s"},null]}`},
		{"types of strings", Int64(1), JSONOptions{AnnotateWithTypes: true, Stringify: true}, `{"$type":"int64","$value":"1"}`},
		{"everything as strings", List(Int64(1), Uint64(2), Double(2.5), Boolean(true), Entity(), Double(math.Inf(1))), JSONOptions{Stringify: true},
			`["1","2","2.5","true",null,"inf"]`},
		{"no types without attributes", Int64(1), JSONOptions{AnnotateWithTypes: true, Attributes: AttributesNever}, `1`},
		{"no numbers", List(Double(math.NaN()), Double(math.Inf(1)), Double(math.Inf(-1))), JSONOptions{StringifyNaN: true}, `["nan","inf","-inf"]`},
		{"long strings", attributed.With("x", String("AAAAA")), JSONOptions{StringLimit: 4, AnnotateWithTypes: true},
			`{"hello":{"$attributes":{"mood":{"$type":"int64","$value":42}},"$incomplete":true,"$type":"string","$value":"worl"},"x":{"$incomplete":true,"$type":"string","$value":"AAAA"}}`},
		{"long text is cut between characters", String("пп"), JSONOptions{StringLimit: 3, UTF8: true}, `{"$incomplete":true,"$value":"п"}`},
		{"indented", Map(Pair("hello", List(Int64(1), Map(), List())), Pair("x", Entity().WithAttributes(Pair("y", Int64(2))))), JSONOptions{Pretty: true}, `{
    "hello": [
        1,
        {},
        []
    ],
    "x": {
        "$attributes": {
            "y": 2
        },
        "$value": null
    }
}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := AppendJSON([]byte("x"), c.node, c.options)
			if err != nil || string(got) != "x"+c.want {
				t.Errorf("got %s, %v\nwant x%s", got, err, c.want)
			}
		})
	}
}

func TestWhatJSONCannotSayIsRefusedByPath(t *testing.T) {
	for _, c := range []struct {
		name    string
		node    Node
		options JSONOptions
		path    string
		message string
	}{
		{"NaN", Double(math.NaN()), JSONOptions{}, "", "nan is no number in JSON"},
		{"infinity inside", Map(Pair("a", List(Int64(1), Double(math.Inf(-1))))), JSONOptions{}, "/a/1", "-inf is no number"},
		{"bytes in an attribute", List(Entity().WithAttributes(Pair("b", String("\xff")))), JSONOptions{UTF8: true}, "/0/@b", "not UTF-8"},
		{"bytes in a key", Map(Pair("\xff", Entity())), JSONOptions{UTF8: true}, "/\xff", "not UTF-8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := AppendJSON(nil, c.node, c.options)
			var problem *JSONError
			if !errors.As(err, &problem) || problem.Path != c.path || !strings.Contains(problem.Error(), c.message) {
				t.Errorf("error is %v, want %q at %q", err, c.message, c.path)
			}
		})
	}
}

func TestJSONIsReadAsYTDoes(t *testing.T) {
	for _, c := range []struct {
		name    string
		input   string
		options JSONOptions
		want    Node
	}{
		{"scalars", ` [ 1 , -2.5 , 1e3 , true , false , null , "a" ] `, JSONOptions{},
			List(Int64(1), Double(-2.5), Double(1000), Boolean(true), Boolean(false), Entity(), String("a"))},
		{"an integer from 2^63 on", `[9223372036854775807,9223372036854775808,18446744073709551615]`, JSONOptions{},
			List(Int64(math.MaxInt64), Uint64(1<<63), Uint64(math.MaxUint64))},
		{"numbers beyond those of JavaScript", `9007199254740993`, JSONOptions{}, Int64(1<<53 + 1)},
		{"code points as bytes, escaped", `"\u00d0\u00bf"`, JSONOptions{}, String("п")},
		{"code points as bytes, raw", `"Ð¿"`, JSONOptions{}, String("п")},
		{"text as text", `"п\u043f\ud83d\ude00"`, JSONOptions{UTF8: true}, String("пп😀")},
		{"escapes", `"\"\\\/\b\f\n\r\t\u0041` + "\x7f" + `"`, JSONOptions{}, String("\"\\/\b\f\n\r\tA\x7f")},
		{"the order of keys", `{"b":1,"a":{}}`, JSONOptions{}, Map(Pair("b", Int64(1)), Pair("a", Map()))},
		{"doubled dollars", `{"$$value":1,"$$$x":2,"$$":3}`, JSONOptions{}, Map(Pair("$value", Int64(1)), Pair("$$x", Int64(2)), Pair("$", Int64(3)))},
		{"dollars in plain JSON", `{"$value":1,"$x":2}`, JSONOptions{Plain: true}, Map(Pair("$value", Int64(1)), Pair("$x", Int64(2)))},
		{"attributes", `{"$attributes":{"append":true},"$value":"//tmp/t"}`, JSONOptions{}, String("//tmp/t").WithAttributes(Pair("append", Boolean(true)))},
		{"attributes behind the value", `{"$value":{"a":1},"$attributes":{"b":{"$value":2}}}`, JSONOptions{},
			Map(Pair("a", Int64(1))).WithAttributes(Pair("b", Int64(2)))},
		{"empty attributes", `{"$attributes":{},"$value":[1]}`, JSONOptions{}, List(Int64(1))},
		{"a value alone", `{"$value":1}`, JSONOptions{}, Int64(1)},
		{"types spelt by strings", `[{"$type":"int64","$value":"-1"},{"$type":"uint64","$value":"1"},{"$type":"double","$value":"nan"},{"$type":"boolean","$value":"true"},{"$type":"string","$value":"1"}]`,
			JSONOptions{}, List(Int64(-1), Uint64(1), Double(math.NaN()), Boolean(true), String("1"))},
		{"types of numbers", `[{"$type":"int64","$value":1},{"$type":"uint64","$value":1},{"$type":"double","$value":1},{"$type":"boolean","$value":true}]`,
			JSONOptions{}, List(Int64(1), Uint64(1), Double(1), Boolean(true))},
		{"an incomplete string", `{"$incomplete":true,"$type":"string","$value":"AA"}`, JSONOptions{}, String("AA")},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ParseJSON([]byte(c.input), c.options)
			if err != nil || !got.Equal(c.want) {
				t.Errorf("%s is %v, %v; want %v", c.input, got, err, c.want)
			}
		})
	}
}

func TestBadJSONIsRefusedAtItsPlace(t *testing.T) {
	deep := strings.Repeat(`[`, MaxDepth)
	for _, c := range []struct {
		name         string
		input        string
		options      JSONOptions
		offset       int64
		line, column int
		message      string
	}{
		{"nothing", "", JSONOptions{}, 0, 1, 1, "a value must be here, but the document ends"},
		{"two values", "1\n2", JSONOptions{}, 2, 2, 1, "more after the end"},
		{"a word", "nul", JSONOptions{}, 0, 1, 1, `a value must be here, not "n"`},
		{"a longer word", "nullx", JSONOptions{}, 0, 1, 1, `a value must be here, not "n"`},
		{"YSON", "{a=1}", JSONOptions{}, 1, 1, 2, `a key must be here, a string in double quotes, not "a"`},
		{"an open list", "[1", JSONOptions{}, 2, 1, 3, `after an item must come "," or "]", but the document ends`},
		{"a comma too many", "[1,]", JSONOptions{}, 3, 1, 4, "a value must be here"},
		{"a comma too many in an object", `{"a":1,}`, JSONOptions{}, 7, 1, 8, "a key must be here"},
		{"an open object", `{"a":1`, JSONOptions{}, 6, 1, 7, `after a value must come "," or "}"`},
		{"a key alone", `{"a"}`, JSONOptions{}, 4, 1, 5, `after a key must come ":"`},
		{"a zero in front", "[01]", JSONOptions{}, 1, 1, 2, `"01" is not a number`},
		{"a point at the end", "1.", JSONOptions{}, 0, 1, 1, `"1." is not a number`},
		{"an exponent alone", "1e", JSONOptions{}, 0, 1, 1, `"1e" is not a number`},
		{"a number beyond 64 bits", "18446744073709551616", JSONOptions{}, 0, 1, 1, "does not fit into 64 bits"},
		{"a double beyond its range", "1e999", JSONOptions{}, 0, 1, 1, "too large"},
		{"an open string", `"abc`, JSONOptions{}, 4, 1, 5, "no closing quote"},
		{"a newline in a string", "\"a\nb\"", JSONOptions{}, 2, 1, 3, "must be escaped"},
		{"an unknown escape", `"a\x41"`, JSONOptions{}, 2, 1, 3, `\x is no escape`},
		{"short digits", `"\u12g4"`, JSONOptions{}, 1, 1, 2, "four hexadecimal digits"},
		{"a character that is no byte", `"aп"`, JSONOptions{}, 2, 1, 3, "U+043F in a string: each character stands for one byte"},
		{"an escape that is no byte", `"a\u0100"`, JSONOptions{}, 2, 1, 3, "U+0100"},
		{"half a pair", `"\ud83dx"`, JSONOptions{UTF8: true}, 1, 1, 2, "half of a pair"},
		{"half a pair and something else", `"\ud83d\u0041"`, JSONOptions{UTF8: true}, 1, 1, 2, "half of a pair"},
		{"bytes that are no text", "\"\xff\"", JSONOptions{}, 1, 1, 2, `\xff in a string is not UTF-8`},
		{"a key twice", `{"a":1,"a":2}`, JSONOptions{}, 7, 1, 8, `key "a" is here for the second time`},
		{"a value twice", `{"$value":1,"$value":2}`, JSONOptions{}, 12, 1, 13, `key "$value" is here for the second time`},
		{"a single dollar", `{"$x":1}`, JSONOptions{}, 1, 1, 2, `begins with a single "$"`},
		{"attributes without a value", `{"$attributes":{}}`, JSONOptions{}, 1, 1, 2, `"$attributes" needs a key "$value"`},
		{"a type without a value", `{"a":{"$type":"int64"}}`, JSONOptions{}, 6, 1, 7, `"$type" needs a key "$value"`},
		{"a key beside a value", `{"$value":1,"a":2}`, JSONOptions{}, 12, 1, 13, `key "a" cannot stand beside "$value"`},
		{"a value in a value", `{"$value":{"$value":1}}`, JSONOptions{}, 11, 1, 12, "cannot stand directly under another"},
		{"very many values in values", strings.Repeat(`{"$value":`, 1<<20), JSONOptions{}, 11, 1, 12, "cannot stand directly under another"},
		{"attributes that are a list", `{"$attributes": [],"$value":1}`, JSONOptions{}, 16, 1, 17, "must be an object"},
		{"a type that is a number", `{"$type":1,"$value":1}`, JSONOptions{}, 9, 1, 10, "must be a string"},
		{"an unknown type", `{"$type":"int","$value":1}`, JSONOptions{}, 1, 1, 2, `"int" is no "$type"`},
		{"another type", `{"$type":"int64","$value":1.5}`, JSONOptions{}, 17, 1, 18, "of type double, is not of its"},
		{"a number that is not of its type", `{"$type":"uint64","$value":-1}`, JSONOptions{}, 18, 1, 19, "of type int64"},
		{"a string that spells no number", `{"$type":"double","$value":"0x1"}`, JSONOptions{}, 18, 1, 19, "of type string"},
		{"too many lists", deep + "[", JSONOptions{}, MaxDepth, 1, MaxDepth + 1, "deeper than 256"},
		{"a map too deep", deep + `{"a":1}`, JSONOptions{}, MaxDepth + 1, 1, MaxDepth + 2, "deeper than 256"},
		{"an empty map too deep", deep + `{}`, JSONOptions{}, MaxDepth, 1, MaxDepth + 1, "deeper than 256"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParseJSON([]byte(c.input), c.options)
			checkSyntaxError(t, err, "JSON", c.offset, c.line, c.column, c.message)
		})
	}
}

func TestJSONIsReadAsDeepAsYSON(t *testing.T) {
	n := Entity()
	for i := range MaxDepth - 1 {
		n = List(n).WithAttributes(Pair("a", Int64(int64(i))))
	}
	n = Map(Pair("x", n))
	for _, options := range []JSONOptions{{}, {AnnotateWithTypes: true}, {Pretty: true}} {
		data, err := AppendJSON(nil, n, options)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := ParseJSON(data, options); err != nil || !back.Equal(n) {
			t.Errorf("%+v: %d levels do not come back: %v", options, MaxDepth, err)
		}
	}
}
