package yson

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// drawText draws strings of arbitrary bytes, and often strings that need escapes or look like syntax.
func drawText(t *rapid.T, label string) string {
	return rapid.OneOf(
		rapid.SampledFrom([]string{"", "a", "cpu", "$value", "$$", "$attributes", "true", "1", "\x00", "\xff", "\"", "\\", "п", "\x7f", "a\nb", "\\x41"}),
		rapid.StringN(0, 12, 40),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 12), func(b []byte) string { return string(b) }),
		rapid.Map(rapid.IntRange(500, 600), func(n int) string { return strings.Repeat("x", n) }),
	).Draw(t, label)
}

func drawEntries(t *rapid.T, depth int, label string) []Entry {
	var entries []Entry
	seen := map[string]bool{}
	for range rapid.IntRange(0, 4).Draw(t, label) {
		key := drawText(t, "key")
		if !seen[key] {
			seen[key] = true
			entries = append(entries, Pair(key, drawNode(t, depth)))
		}
	}
	return entries
}

func drawNode(t *rapid.T, depth int) Node {
	kinds := []Kind{EntityKind, BooleanKind, Int64Kind, Uint64Kind, DoubleKind, StringKind, ListKind, MapKind}
	if depth == 0 {
		kinds = kinds[:6]
	}
	var n Node
	switch rapid.SampledFrom(kinds).Draw(t, "kind") {
	case BooleanKind:
		n = Boolean(rapid.Bool().Draw(t, "boolean"))
	case Int64Kind:
		n = Int64(rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{0, -1, math.MinInt64, math.MaxInt64, 1 << 53, 1<<53 + 1})).Draw(t, "int64"))
	case Uint64Kind:
		n = Uint64(rapid.OneOf(rapid.Uint64(), rapid.SampledFrom([]uint64{0, 1 << 63, math.MaxUint64})).Draw(t, "uint64"))
	case DoubleKind:
		n = Double(rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{0, 1, 1e21, 1e-7, 1e15, math.NaN(), math.Inf(1), math.Inf(-1),
			math.MaxFloat64, math.SmallestNonzeroFloat64})).Draw(t, "double"))
	case StringKind:
		n = String(drawText(t, "string"))
	case ListKind:
		var items []Node
		for range rapid.IntRange(0, 4).Draw(t, "items") {
			items = append(items, drawNode(t, depth-1))
		}
		n = List(items...)
	case MapKind:
		n = Map(drawEntries(t, depth-1, "entries")...)
	}
	if depth > 0 && rapid.IntRange(0, 3).Draw(t, "attributed") == 0 {
		n = n.WithAttributes(drawEntries(t, depth-1, "attributes")...)
	}
	return n
}

// fatal is the part of testing.T that rapid.T has too.
type fatal interface {
	Helper()
	Fatalf(format string, args ...any)
}

// checkRoundTrips writes n in every notation and reads it again.
func checkRoundTrips(t fatal, n Node) {
	t.Helper()
	for _, format := range []Format{Text, Pretty, Binary} {
		data, err := Append(nil, n, format)
		if err != nil {
			t.Fatalf("%v cannot be written in %v: %v", n, format, err)
		}
		back, err := Parse(data)
		if err != nil || !back.Equal(n) {
			t.Fatalf("%v in %v is %q, read as %v, %v", n, format, data, back, err)
		}
		again, err := Append(nil, back, format)
		if err != nil || !bytes.Equal(again, data) {
			t.Fatalf("%v in %v is first %q and then %q, %v", n, format, data, again, err)
		}
	}
	// JSON with types loses nothing.
	for _, options := range []JSONOptions{
		{AnnotateWithTypes: true, StringifyNaN: true},
		{AnnotateWithTypes: true, Stringify: true, Pretty: true},
		{AnnotateWithTypes: true, StringifyNaN: true, Attributes: AttributesAlways},
	} {
		checkJSON(t, n, n, options)
	}
	if plain, ok := withoutTypes(n); ok {
		checkJSON(t, n, plain, JSONOptions{})
		checkJSON(t, n, plain, JSONOptions{Pretty: true, Attributes: AttributesAlways})
		if isText(n) {
			checkJSON(t, n, plain, JSONOptions{UTF8: true})
		}
		checkJSON(t, n, bare(plain), JSONOptions{Plain: true})
		checkJSON(t, n, bare(plain), JSONOptions{Attributes: AttributesNever})
	}
}

func checkJSON(t fatal, n, want Node, options JSONOptions) {
	t.Helper()
	data, err := AppendJSON(nil, n, options)
	if err != nil {
		t.Fatalf("%v cannot be written as JSON %+v: %v", n, options, err)
	}
	back, err := ParseJSON(data, options)
	if err != nil || !back.Equal(want) {
		t.Fatalf("%v as JSON %+v is %s, read as %v, %v", n, options, data, back, err)
	}
	if !options.UTF8 {
		for _, c := range data {
			if c >= 0x7f {
				t.Fatalf("JSON has the byte %#x: %s", c, data)
			}
		}
	}
}

// withoutTypes returns n after a round trip through JSON without types: unsigned numbers that fit are
// signed. It returns false if JSON cannot hold one of the numbers.
func withoutTypes(n Node) (Node, bool) {
	ok := true
	converted := rewrite(n, func(n Node) Node {
		switch n.kind {
		case Uint64Kind:
			if i, fits := n.Int64(); fits {
				n.kind, n.number = Int64Kind, uint64(i)
			}
		case DoubleKind:
			f, _ := n.Double()
			ok = ok && !math.IsNaN(f) && !math.IsInf(f, 0)
		}
		return n
	})
	return converted, ok
}

// bare returns n without any attributes.
func bare(n Node) Node { return rewrite(n, func(n Node) Node { return n.WithAttributes() }) }

// isText reports whether every string of n is UTF-8.
func isText(n Node) bool {
	ok := true
	rewrite(n, func(n Node) Node {
		ok = ok && utf8.ValidString(n.text)
		for _, e := range slices.Concat(n.Entries(), n.Attributes()) {
			ok = ok && utf8.ValidString(e.Key)
		}
		return n
	})
	return ok
}

// rewrite applies f to n and everything inside it, innermost first.
func rewrite(n Node, f func(Node) Node) Node {
	entries := func(old []Entry) []Entry {
		var result []Entry
		for _, e := range old {
			result = append(result, Pair(e.Key, rewrite(e.Value, f)))
		}
		return result
	}
	var items []Node
	for _, item := range n.Items() {
		items = append(items, rewrite(item, f))
	}
	switch n.kind {
	case ListKind:
		return f(List(items...).WithAttributes(entries(n.Attributes())...))
	case MapKind:
		return f(Map(entries(n.Entries())...).WithAttributes(entries(n.Attributes())...))
	}
	return f(n.WithAttributes(entries(n.Attributes())...))
}

func TestEveryValueComesBackFromEveryNotation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkRoundTrips(t, drawNode(t, 4)) })
}

// Each scalar and key of a document is written in text or binary at random, with random white space
// in between.
func TestAnyMixtureOfTextAndBinaryIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := drawNode(t, 4)
		coin := func() bool { return rapid.Bool().Draw(t, "coin") }
		var b []byte
		space := func() {
			if coin() {
				b = append(b, rapid.SampledFrom([]string{" ", "\n", "\t \r\n", "\v\f"}).Draw(t, "space")...)
			}
		}
		format := func() Format {
			if coin() {
				return Binary
			}
			return Text
		}
		var write func(n Node)
		entries := func(open, shut byte, entries []Entry) {
			b = append(b, open)
			for i, e := range entries {
				space()
				b = appendString(b, e.Key, format())
				space()
				b = append(b, '=')
				space()
				write(e.Value)
				space()
				if i < len(entries)-1 || coin() {
					b = append(b, ';')
				}
			}
			space()
			b = append(b, shut)
		}
		write = func(n Node) {
			if len(n.Attributes()) > 0 || rapid.IntRange(0, 7).Draw(t, "empty attributes") == 0 {
				entries('<', '>', n.Attributes())
				space()
			}
			switch n.kind {
			case ListKind:
				b = append(b, '[')
				for i, item := range n.Items() {
					space()
					write(item)
					space()
					if i < len(n.Items())-1 || coin() {
						b = append(b, ';')
					}
				}
				b = append(b, ']')
			case MapKind:
				entries('{', '}', n.Entries())
			default:
				var err error
				if b, err = Append(b, n.WithAttributes(), format()); err != nil {
					t.Fatal(err)
				}
			}
		}
		space()
		write(n)
		space()
		if got, err := Parse(b); err != nil || !got.Equal(n) {
			t.Fatalf("%q is %v, %v; want %v", b, got, err, n)
		}
	})
}

// parseNumber has a fast path for short decimals; it must agree with strconv.
func TestDoublesAreReadToTheLastBit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[-+]?[0-9]{1,20}\.[0-9]{0,24}(e[-+]?[0-9]{1,2})?`).Draw(t, "text")
		want, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		n, err := Parse([]byte(text))
		if got, ok := n.Double(); err != nil || !ok || math.Float64bits(got) != math.Float64bits(want) {
			t.Fatalf("%s is read as %v, %v; want %v", text, got, err, want)
		}
	})
}
