package yson

import (
	"bytes"
	"errors"
	"testing"
	"testing/iotest"

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

// FuzzReadText reads arbitrary bytes in every shape. The Reader must not panic and must read a stream
// as it reads bytes; what it accepts must survive a round trip through every notation.
func FuzzReadText(f *testing.F) {
	expected.Corpus(f)
	addReadings(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, shape := range []Shape{Single, ListFragment, MapFragment} {
			n, err := ParseFragment(data, shape)
			streamed := Copy(NewWriter(nil, Text, shape), NewReader(iotest.OneByteReader(bytes.NewReader(data)), shape))
			if err == nil {
				if streamed != nil {
					t.Fatalf("%q is read as bytes, but as a stream gives %v", data, streamed)
				}
				checkRoundTripsUnlessDeep(t, n, shape)
				continue
			}
			var syntax *SyntaxError
			if !errors.As(err, &syntax) || syntax.Offset < 0 || syntax.Offset > int64(len(data)) || syntax.Line < 1 || syntax.Column < 1 {
				t.Fatalf("%q gives %v", data, err)
			}
			if line, column := lineAndColumn(data[:syntax.Offset]); line != syntax.Line || column != syntax.Column {
				t.Fatalf("%q: %v, but byte %d is in line %d, column %d", data, err, syntax.Offset, line, column)
			}
			// The only check that a stream of tokens lacks is the one for duplicate keys.
			if streamed == nil && !bytes.Contains([]byte(err.Error()), []byte("for the second time")) {
				t.Fatalf("%q is read as a stream, but as bytes gives %v", data, err)
			}
		}
		if attributes, rest, err := CutAttributes(data); err == nil && !bytes.HasSuffix(data, rest) {
			t.Fatalf("%q has attributes %v and then %q", data, Map(attributes...), rest)
		}
	})
}

// checkRoundTripsUnlessDeep skips fragments of full depth, which are one level too deep as a value.
func checkRoundTripsUnlessDeep(t *testing.T, n Node, shape Shape) {
	if _, err := Append(nil, n, Text); shape != Single && errors.Is(err, errTooDeep) {
		return
	}
	checkRoundTrips(t, n)
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
