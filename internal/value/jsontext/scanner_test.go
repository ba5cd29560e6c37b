package jsontext

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

func ExampleScanner() {
	s := Scanner{Data: []byte(`{"nodes": [{"cpu": 8, "tags": ["ssd"]}, {"cpu": 4.5}]}`)}
	sum := 0.0
	s.Peek()
	s.Open()
	for {
		key, _, more := s.Key()
		if !more {
			break
		}
		if string(key) != "nodes" || s.Peek() != List {
			s.Skip()
			continue
		}
		for s.Open(); s.Item(); {
			s.Peek()
			s.Open()
			for key, _, more := s.Key(); more; key, _, more = s.Key() {
				if string(key) == "cpu" && s.Peek() == Number {
					n, _ := s.Number()
					cpu, _ := n.Float64()
					sum += cpu
					continue
				}
				s.Skip()
			}
		}
	}
	fmt.Println(sum, s.End())
	// Output: 12.5 true
}

// decode reads a value as encoding/json does into an any, with numbers as they are written.
func decode(s *Scanner) any {
	switch s.Peek() {
	case True:
		s.Word()
		return true
	case False:
		s.Word()
		return false
	case Null:
		s.Word()
	case Number:
		n, _ := s.Number()
		return json.Number(n.Text)
	case String:
		text, _ := s.Text()
		return string(text)
	case List:
		items := []any{}
		for s.Open(); s.Item(); {
			items = append(items, decode(s))
		}
		return items
	case Object:
		entries := map[string]any{}
		s.Open()
		for {
			text, _, more := s.Key()
			if !more {
				return entries
			}
			key := string(text)
			entries[key] = decode(s)
		}
	}
	return nil
}

// FuzzScanner compares the Scanner with encoding/json. They agree on what is JSON and what it says,
// except that encoding/json replaces bytes that are not UTF-8 and halves of surrogate pairs and
// accepts duplicate keys, all of which the Scanner refuses.
func FuzzScanner(f *testing.F) {
	for _, seed := range []string{
		`null`, ` { "a" : [ 1 , 2.5 , -0 , 1e5 , true , "x\u00e9\ud83d\ude00" ] , "b" : { } } `, `[[[]]]`, `"\ud800"`, `"\ud800\u0041"`,
		`18446744073709551615`, `-9223372036854775809`, `1e999`, `{"a":1,"a":2}`, `{"a":{"b":1,"\u0062":2}}`, `[1,]`, `{"a":1,}`, `{"a"}`, `{,}`,
		`1 2`, ` `, ``, `{"":""}`, `nul`, `nullx`, `truefalse`, `01`, `-`, `1.`, `.5`, `1e`, `1e+`, `+1`, `"\x"`, `"\u12g4"`, "\"\xff\"", "\"\n\"", "\"\x7f\"",
		`[1 2]`, `[1}`, `{"a":1]`, `{"a" 1}`, `{1:2}`, `"abc`, `"\`, `[`, `{`, `{"a":`, `"\"\\\/\b\f\n\r\t"`, "\v1", "\x00", `0.1e-7`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := Scanner{Data: data}
		got := decode(&s)
		valid := s.End()
		if err := s.Err(); err != nil && (err.Offset < 0 || err.Offset > len(data) || err.Message == "" ||
			(err.Code == Truncated) != (err.Offset == len(data))) {
			t.Fatalf("%q: error %+v", data, err)
		}
		skip := Scanner{Data: data}
		if skipped := skip.Skip() && skip.End(); skipped != valid || !valid && *skip.Err() != *s.Err() {
			t.Fatalf("%q: read with %v, skipped with %v", data, s.Err(), skip.Err())
		}
		if !valid && (!utf8.Valid(data) || s.Err().Code == Duplicate || strings.Contains(s.Err().Message, "half of a pair")) {
			return
		}
		if valid != json.Valid(data) {
			t.Fatalf("%q: encoding/json says %v, the Scanner %v", data, json.Valid(data), s.Err())
		}
		if !valid {
			return
		}
		var want any
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.UseNumber()
		if err := decoder.Decode(&want); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%q is %#v, encoding/json reads %#v, %v", data, got, want, err)
		}
	})
}

// FuzzNumber compares the conversion of numbers with that of encoding/json.
func FuzzNumber(f *testing.F) {
	for _, seed := range []string{"0", "-0", "-0.0", "1.5", "9007199254740993", "9007199254740993.0", "0.1", "123456789012345678901.5", "1e22", "1e-400",
		"18446744073709551615", "18446744073709551616", "-9223372036854775808", "-9223372036854775809", "0.00000000000000000000001", "1e309", "00", "5e-324"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, ok := ParseNumber(text)
		isNumber := json.Valid([]byte(text)) && text == strings.TrimSpace(text) && strings.IndexByte("-0123456789", text[0]) >= 0
		if ok != isNumber {
			t.Fatalf("%q: a number %v, want %v", text, ok, isNumber)
		}
		if !ok {
			return
		}
		var i int64
		if got, ok := n.Int64(); (json.Unmarshal([]byte(text), &i) == nil) != ok || ok && got != i {
			t.Errorf("%s as int64: %d, %v; want %d", text, got, ok, i)
		}
		var u uint64
		if got, ok := n.Uint64(); (json.Unmarshal([]byte(text), &u) == nil) != ok || ok && got != u {
			t.Errorf("%s as uint64: %d, %v; want %d", text, got, ok, u)
		}
		var d float64
		if got, ok := n.Float64(); (json.Unmarshal([]byte(text), &d) == nil) != ok || ok && math.Float64bits(got) != math.Float64bits(d) {
			t.Errorf("%s as float64: %v, %v; want %v", text, got, ok, d)
		}
	})
}

// FuzzAppendQuote compares with encoding/json, and reads back.
func FuzzAppendQuote(f *testing.F) {
	for _, seed := range []string{"", "a", "\"\\/\b\f\n\r\t\x00\x1f\x7f", "п😀", "\xff", "\u2028\u2029", "\ufffd", "<&>", "\xed\xa0\x80"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := AppendQuote(nil, text)
		var want bytes.Buffer
		encoder := json.NewEncoder(&want)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(text); err != nil || string(got)+"\n" != want.String() {
			t.Fatalf("%q is %s, encoding/json writes %s, %v", text, got, want.Bytes(), err)
		}
		s := Scanner{Data: got}
		if back, _ := s.Text(); !s.End() || string(back) != strings.ToValidUTF8(text, "\ufffd") && utf8.ValidString(text) {
			t.Fatalf("%q is %s and reads back as %q, %v", text, got, back, s.Err())
		}
	})
}

func TestExactNumbersAreOfTheNarrowestType(t *testing.T) {
	for text, want := range map[string]Type{
		"0": Int64, "-0": Int64, "9223372036854775807": Int64, "9223372036854775808": Uint64, "18446744073709551615": Uint64,
		"18446744073709551616": NoType, "-9223372036854775808": Int64, "-9223372036854775809": NoType,
		"1.0": Float64, "1e3": Float64, "1e999": NoType, "-1e999": NoType, "01": NoType,
	} {
		s := Scanner{Data: []byte(text)}
		if got, _ := s.Exact(); got != want || (s.Err() == nil) != (want != NoType) {
			t.Errorf("%s is of type %d, %v; want %d", text, got, s.Err(), want)
		}
	}
}

func TestErrorsHaveACodeAndAnOffset(t *testing.T) {
	for _, c := range []struct {
		text   string
		code   Code
		offset int
	}{
		{"", Truncated, 0},
		{"[1,", Truncated, 3},
		{`{"a"`, Truncated, 4},
		{`"abc`, Truncated, 4},
		{`"\u00`, Truncated, 5},
		{"[1 2]", Syntax, 3},
		{"[nul]", Syntax, 1},
		{"1 2", Trailing, 2},
		{strings.Repeat("[", 4), TooDeep, 3},
		{`[{"a":1,"b":2,"a":3}]`, Duplicate, 14},
		{`[{"a":1,"\u0061":3}]`, Duplicate, 8},
	} {
		s := Scanner{Data: []byte(c.text), MaxDepth: 3}
		if s.Skip() && s.End() {
			t.Errorf("%s was read", c.text)
		} else if err := s.Err(); err.Code != c.code || err.Offset != c.offset {
			t.Errorf("%s: %+v, want code %d at %d", c.text, err, c.code, c.offset)
		}
	}
}

func TestTheFirstErrorStays(t *testing.T) {
	s := Scanner{Data: []byte(`[1, x, 3]`)}
	for s.Open(); s.Item(); {
		s.Skip()
	}
	s.Refuse(TooDeep, 0, "a later error")
	if err := s.Err(); err == nil || err.Code != Syntax || err.Offset != 4 {
		t.Errorf("error %v", err)
	}
	if s.Peek() != None || s.Item() || s.End() {
		t.Error("the Scanner continues after an error")
	}
}

func TestDuplicatesAreFoundAmongFewAndMany(t *testing.T) {
	for _, count := range []int{1, 15, 16, 17, 18, 100} {
		for twice := range count {
			var text []byte
			for i := range count {
				text = fmt.Appendf(text, `,"k%d":{"k0":0}`, i)
			}
			text[0] = '{'
			at := len(text) + 1
			text = fmt.Appendf(text, `,"\u006b%d":0}`, twice)
			s := Scanner{Data: text}
			first := bytes.Index(text, fmt.Appendf(nil, `"k%d"`, twice))
			if s.Skip() || s.Err().Code != Duplicate || s.Err().Offset != at || s.Err().First != first {
				t.Errorf("%s: %+v, want key k%d at %d and %d", text, s.Err(), twice, first, at)
			}
			s = Scanner{Data: text, Duplicates: true}
			if !s.Skip() {
				t.Errorf("%s: %v", text, s.Err())
			}
		}
	}
}
