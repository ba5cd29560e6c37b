package document

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Kind is the kind of a Value.
type Kind uint8

const (
	NullKind Kind = iota
	BoolKind
	IntKind   // a whole number that fits into int64
	UintKind  // a whole number; the parsers use it only above the range of int64
	FloatKind // any other number, NaN and the infinities included
	StringKind
	ListKind
	MapKind
)

var kindNames = [...]string{"null", "bool", "int", "uint", "float", "string", "list", "map"}

// String returns the name of the kind.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// MaxDepth is the deepest nesting of lists and maps: far deeper than people write, and shallow enough to recurse.
const MaxDepth = 100

// Position is a place in a text, counted from one. The zero Position means that the value was not read from a text.
type Position struct {
	Line, Column int32
}

// IsZero reports whether the position is unknown.
func (p Position) IsZero() bool { return p.Line == 0 }

// String returns "line:column".
func (p Position) String() string { return fmt.Sprintf("%d:%d", p.Line, p.Column) }

// Value is a node of a document. It is immutable: slices that its methods return
// must not be modified. The zero Value is null.
type Value struct {
	kind    Kind
	at      Position
	number  uint64 // the bits of a bool, int64, uint64 or float64
	text    string
	content *content // of a list or map that is not empty
}

// content keeps most Values, which are neither lists nor maps, small.
type content struct {
	items   []Value
	entries []Entry
}

// Entry is a key and its value in a map.
type Entry struct {
	Key   string
	At    Position // of the key
	Value Value
}

// Null returns the null value.
func Null() Value { return Value{} }

// Bool returns a boolean value.
func Bool(b bool) Value {
	v := Value{kind: BoolKind}
	if b {
		v.number = 1
	}
	return v
}

// Int returns a whole number.
func Int(i int64) Value { return Value{kind: IntKind, number: uint64(i)} }

// Uint returns a whole number. If the difference between signed and unsigned does not matter, use Int for numbers that fit into int64.
func Uint(u uint64) Value { return Value{kind: UintKind, number: u} }

// Float returns a floating point number.
func Float(f float64) Value { return Value{kind: FloatKind, number: math.Float64bits(f)} }

// Number returns f as a whole number if it is one that float64 holds exactly, and as a floating point number otherwise: 2 is written
// "2", not "2.0".
func Number(f float64) Value {
	const exact = 1 << 53
	if f == math.Trunc(f) && math.Abs(f) <= exact {
		return Int(int64(f))
	}
	return Float(f)
}

// Text returns a string value.
func Text(s string) Value { return Value{kind: StringKind, text: s} }

// List returns a list of the items, which it keeps.
func List(items ...Value) Value {
	v := Value{kind: ListKind}
	if len(items) > 0 {
		v.content = &content{items: items}
	}
	return v
}

// Map returns a map with the entries in this order. It keeps the slice and does not check for duplicate keys.
func Map(entries ...Entry) Value {
	v := Value{kind: MapKind}
	if len(entries) > 0 {
		v.content = &content{entries: entries}
	}
	return v
}

// Pair returns an entry that comes from no text, for maps and for the facts of a Problem.
func Pair(key string, value Value) Entry { return Entry{Key: key, Value: value} }

// At returns v with another position.
func (v Value) At(p Position) Value {
	v.at = p
	return v
}

// Kind returns the kind of v.
func (v Value) Kind() Kind { return v.kind }

// Position returns where v was read.
func (v Value) Position() Position { return v.at }

// IsNull reports whether v is null.
func (v Value) IsNull() bool { return v.kind == NullKind }

// Bool returns a boolean.
func (v Value) Bool() (value, ok bool) { return v.number != 0, v.kind == BoolKind }

// Int64 returns a whole number that fits. A float without a fraction counts as a whole number as long as float64 distinguishes it from
// its neighbours.
func (v Value) Int64() (value int64, ok bool) {
	switch v.kind {
	case IntKind:
		return int64(v.number), true
	case UintKind:
		return int64(v.number), v.number <= math.MaxInt64
	case FloatKind:
		const exact = 1 << 53
		f := math.Float64frombits(v.number)
		if f == math.Trunc(f) && math.Abs(f) <= exact {
			return int64(f), true
		}
	}
	return 0, false
}

// Uint64 returns a whole number that is not negative, as Int64 does.
func (v Value) Uint64() (value uint64, ok bool) {
	if v.kind == UintKind {
		return v.number, true
	}
	i, ok := v.Int64()
	return uint64(i), ok && i >= 0
}

// Float64 returns any number.
func (v Value) Float64() (value float64, ok bool) {
	switch v.kind {
	case IntKind:
		return float64(int64(v.number)), true
	case UintKind:
		return float64(v.number), true
	case FloatKind:
		return math.Float64frombits(v.number), true
	}
	return 0, false
}

// Text returns a string.
func (v Value) Text() (value string, ok bool) { return v.text, v.kind == StringKind }

// Items returns the items of a list, and nil for any other kind.
func (v Value) Items() []Value {
	if v.content == nil {
		return nil
	}
	return v.content.items
}

// Entries returns the entries of a map in order, and nil for any other kind.
func (v Value) Entries() []Entry {
	if v.content == nil {
		return nil
	}
	return v.content.entries
}

// Get returns the value under exactly this key of a map.
func (v Value) Get(key string) (Value, bool) {
	entries := v.Entries()
	for i := range entries {
		if entries[i].Key == key {
			return entries[i].Value, true
		}
	}
	return Value{}, false
}

// With returns the map v with the value under key set. An existing key keeps its position; a new one is last. Null counts as an empty
// map.
func (v Value) With(key string, value Value) Value {
	entries := slices.Clone(v.Entries())
	i := slices.IndexFunc(entries, func(e Entry) bool { return e.Key == key })
	if i < 0 {
		entries = append(entries, Pair(key, value))
	} else {
		entries[i].Value = value
	}
	return Map(entries...).At(v.at)
}

// Without returns the map v without key.
func (v Value) Without(key string) Value {
	if v.kind == MapKind {
		v.content = Map(slices.DeleteFunc(slices.Clone(v.Entries()), func(e Entry) bool { return e.Key == key })...).content
	}
	return v
}

// Equal reports whether two values are equal apart from their positions. The order of keys matters; 5 signed equals 5 unsigned; NaN
// equals NaN.
func (v Value) Equal(w Value) bool {
	if v.kind != w.kind {
		return v.equalAcrossSigns(w)
	}
	switch v.kind {
	case StringKind:
		return v.text == w.text
	case ListKind:
		return slices.EqualFunc(v.Items(), w.Items(), Value.Equal)
	case MapKind:
		return slices.EqualFunc(v.Entries(), w.Entries(), func(a, b Entry) bool {
			return a.Key == b.Key && a.Value.Equal(b.Value)
		})
	case FloatKind:
		a, b := math.Float64frombits(v.number), math.Float64frombits(w.number)
		return a == b || a != a && b != b
	}
	return v.number == w.number
}

func (v Value) equalAcrossSigns(w Value) bool {
	whole := func(k Kind) bool { return k == IntKind || k == UintKind }
	return whole(v.kind) && whole(w.kind) && v.number == w.number && v.number <= math.MaxInt64
}

// formatFloat writes f so that it reads back as the same float and not as a
// whole number.
func formatFloat(f float64) string {
	text := strconv.FormatFloat(f, 'g', -1, 64)
	if !strings.ContainsAny(text, ".eEnN") {
		text += ".0"
	}
	return text
}

// String returns v on one line, for messages: {cpu: 100, memory: 64GiB}.
func (v Value) String() string {
	var b strings.Builder
	v.appendTo(&b)
	return b.String()
}

func (v Value) appendTo(b *strings.Builder) {
	switch v.kind {
	case NullKind:
		b.WriteString("null")
	case BoolKind:
		b.WriteString(strconv.FormatBool(v.number != 0))
	case IntKind:
		b.WriteString(strconv.FormatInt(int64(v.number), 10))
	case UintKind:
		b.WriteString(strconv.FormatUint(v.number, 10))
	case FloatKind:
		b.WriteString(strconv.FormatFloat(math.Float64frombits(v.number), 'g', -1, 64))
	case StringKind:
		appendWord(b, v.text)
	case ListKind:
		b.WriteByte('[')
		for i, item := range v.Items() {
			if i > 0 {
				b.WriteString(", ")
			}
			item.appendTo(b)
		}
		b.WriteByte(']')
	case MapKind:
		b.WriteByte('{')
		for i, e := range v.Entries() {
			if i > 0 {
				b.WriteString(", ")
			}
			appendWord(b, e.Key)
			b.WriteString(": ")
			e.Value.appendTo(b)
		}
		b.WriteByte('}')
	}
}

// appendWord quotes text that could be read as something else.
func appendWord(b *strings.Builder, text string) {
	for i, c := range []byte(text) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c == '<'
		inner := '0' <= c && c <= '9' || strings.IndexByte("-./$>%", c) >= 0
		if !letter && (i == 0 && (c < '0' || c > '9') || !inner) {
			b.WriteString(strconv.Quote(text))
			return
		}
	}
	if text == "" {
		text = `""`
	}
	b.WriteString(text)
}

// Shorten keeps messages about hostile text short.
func Shorten(text string) string {
	const longest = 100
	if len(text) <= longest {
		return text
	}
	cut := longest
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}
