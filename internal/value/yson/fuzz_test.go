package yson

import (
	"bytes"
	"errors"
	"testing"

	"github.com/weirhq/weir/test/expected"
)

// addReadings adds all inputs of the tests to a fuzz target, and some truncated or invalid ones.
func addReadings(f *testing.F) {
	for _, c := range readings {
		f.Add([]byte(c.input))
	}
	for _, seed := range []string{
		"", "[", "{a=1;a=2}", "<a=1>", `"\q"`, "\x01\xfe\xff\xff\xff\x0f", "1;2;3", "a=1;b=2", "[1,2]", "12ab", "%nan;%inf", "\x03\x00\x00",
	} {
		f.Add([]byte(seed))
	}
}

// FuzzReadText parses arbitrary bytes: what is accepted survives a round trip through every notation,
// and an error has its place.
func FuzzReadText(f *testing.F) {
	expected.Corpus(f)
	addReadings(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := Parse(data)
		if err == nil {
			checkRoundTrips(t, n)
		} else {
			var syntax *SyntaxError
			if !errors.As(err, &syntax) || syntax.Offset < 0 || syntax.Offset > int64(len(data)) {
				t.Fatalf("%q gives %v", data, err)
			}
			if line, column := lineAndColumn(data[:syntax.Offset]); line != syntax.Line || column != syntax.Column {
				t.Fatalf("%q: %v, but byte %d is in line %d, column %d", data, err, syntax.Offset, line, column)
			}
		}
		if attributes, rest, err := CutAttributes(data); err == nil && !bytes.HasSuffix(data, rest) {
			t.Fatalf("%q has attributes %v and then %q", data, Map(attributes...), rest)
		}
	})
}

// FuzzRoundTrip reads YSON, writes it as text, pretty, binary and JSON with many options, and reads
// the results again.
func FuzzRoundTrip(f *testing.F) {
	addReadings(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := Parse(data)
		if err != nil {
			n = List(String(string(data)), Map(Pair(string(data), Entity().WithAttributes(Pair(string(data), Boolean(true))))))
		}
		checkRoundTrips(t, n)
	})
}

// FuzzReadJSON parses arbitrary bytes as JSON.
func FuzzReadJSON(f *testing.F) {
	for _, seed := range []string{
		`null`, `{"a": [1, 2.5, -0, 1e5, true, "x\u00e9"], "b": {}}`, `[[[]]]`, `"\ud83d\ude00"`, `18446744073709551615`, `{"a":1,"a":2}`,
		`{"$attributes":{"a":1},"$value":"b"}`, `{"$type":"uint64","$value":"1"}`, `{"$$x":{"$value":null}}`, `{"$value":{"$value":1}}`,
		`[1,]`, `{"a"}`, `1 2`, ` `, `{"":""}`, `{"$incomplete":true,"$value":""}`, `"п"`, `{"$type":"double","$value":"nan"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, options := range []JSONOptions{{}, {UTF8: true}, {Plain: true}} {
			n, err := ParseJSON(data, options)
			if err == nil {
				checkRoundTrips(t, n)
				continue
			}
			var syntax *SyntaxError
			if !errors.As(err, &syntax) || syntax.Offset < 0 || syntax.Offset > int64(len(data)) {
				t.Fatalf("%q gives %v", data, err)
			}
		}
	})
}
