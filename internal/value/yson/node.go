package yson

import (
	"fmt"
	"math"
	"slices"
)

// Kind is the kind of a Node.
type Kind uint8

const (
	EntityKind Kind = iota
	BooleanKind
	Int64Kind
	Uint64Kind
	DoubleKind
	StringKind
	ListKind
	MapKind
)

var kindNames = [...]string{"entity", "boolean", "int64", "uint64", "double", "string", "list", "map"}

// String returns the name of the kind as YT writes it.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// A Node is a value with its attributes. It is immutable: slices that it was given or that its
// methods return must not be modified. The zero Node is the entity without attributes.
type Node struct {
	kind   Kind
	number uint64 // the bits of a boolean, int64, uint64 or double
	text   string
	more   *more // nil for a scalar without attributes, which most Nodes are
}

// more is the part that only some Nodes have.
type more struct {
	items      []Node
	entries    []Entry
	attributes []Entry
}

// An Entry is a key and its value, in a map or among attributes. Keys are bytes, as strings are.
type Entry struct {
	Key   string
	Value Node
}

// Entity returns the value that YSON writes as # and JSON as null.
func Entity() Node { return Node{} }

// Boolean returns %true or %false.
func Boolean(b bool) Node {
	n := Node{kind: BooleanKind}
	if b {
		n.number = 1
	}
	return n
}

// Int64 returns a signed whole number.
func Int64(i int64) Node { return Node{kind: Int64Kind, number: uint64(i)} }

// Uint64 returns an unsigned whole number.
func Uint64(u uint64) Node { return Node{kind: Uint64Kind, number: u} }

// Double returns a floating point number.
func Double(f float64) Node { return Node{kind: DoubleKind, number: math.Float64bits(f)} }

// String returns a string. It may hold any bytes.
func String(s string) Node { return Node{kind: StringKind, text: s} }

// List returns a list of the items, which it keeps.
func List(items ...Node) Node {
	n := Node{kind: ListKind}
	if len(items) > 0 {
		n.more = &more{items: items}
	}
	return n
}

// Map returns a map with the entries in this order. It keeps the slice. Keys must differ; the
// parsers check that, other callers must.
func Map(entries ...Entry) Node {
	n := Node{kind: MapKind}
	if len(entries) > 0 {
		n.more = &more{entries: entries}
	}
	return n
}

// Pair returns an Entry.
func Pair(key string, value Node) Entry { return Entry{Key: key, Value: value} }

// Kind returns the kind of n.
func (n Node) Kind() Kind { return n.kind }

// IsEntity reports whether n is the entity.
func (n Node) IsEntity() bool { return n.kind == EntityKind }

// Boolean returns a boolean.
func (n Node) Boolean() (value, ok bool) {
	return n.kind == BooleanKind && n.number != 0, n.kind == BooleanKind
}

// Int64 returns a whole number of either kind that fits. A double is not a whole number, even
// without a fraction.
func (n Node) Int64() (value int64, ok bool) {
	switch n.kind {
	case Int64Kind:
		return int64(n.number), true
	case Uint64Kind:
		if n.number <= math.MaxInt64 {
			return int64(n.number), true
		}
	}
	return 0, false
}

// Uint64 returns a whole number of either kind that is not negative.
func (n Node) Uint64() (value uint64, ok bool) {
	switch n.kind {
	case Uint64Kind:
		return n.number, true
	case Int64Kind:
		if int64(n.number) >= 0 {
			return n.number, true
		}
	}
	return 0, false
}

// Double returns any number: whole ones are accepted where a double is expected.
func (n Node) Double() (value float64, ok bool) {
	switch n.kind {
	case DoubleKind:
		return math.Float64frombits(n.number), true
	case Int64Kind:
		return float64(int64(n.number)), true
	case Uint64Kind:
		return float64(n.number), true
	}
	return 0, false
}

// Text returns the bytes of a string.
func (n Node) Text() (value string, ok bool) { return n.text, n.kind == StringKind }

// Items returns the items of a list, and nil for any other kind.
func (n Node) Items() []Node {
	if n.more == nil {
		return nil
	}
	return n.more.items
}

// Entries returns the entries of a map in order, and nil for any other kind.
func (n Node) Entries() []Entry {
	if n.more == nil {
		return nil
	}
	return n.more.entries
}

// Get returns the value under a key of a map. It scans the entries: callers that look up many keys
// of a large map should index it.
func (n Node) Get(key string) (Node, bool) { return find(n.Entries(), key) }

// With returns the map n with the value under key set: an existing key keeps its position, a new
// one is last. A Node that is not a map becomes one. Attributes stay.
func (n Node) With(key string, value Node) Node {
	entries := slices.Clone(n.Entries())
	i := slices.IndexFunc(entries, func(e Entry) bool { return e.Key == key })
	if i < 0 {
		entries = append(entries, Pair(key, value))
	} else {
		entries[i].Value = value
	}
	return Map(entries...).WithAttributes(n.Attributes()...)
}

// Without returns the map n without a key.
func (n Node) Without(key string) Node {
	entries := slices.Clone(n.Entries())
	kept := slices.DeleteFunc(entries, func(e Entry) bool { return e.Key == key })
	if len(kept) == len(entries) {
		return n
	}
	return Map(kept...).WithAttributes(n.Attributes()...)
}

// Attributes returns the attributes of n in their order.
func (n Node) Attributes() []Entry {
	if n.more == nil {
		return nil
	}
	return n.more.attributes
}

// Attribute returns the attribute of this name.
func (n Node) Attribute(name string) (Node, bool) { return find(n.Attributes(), name) }

// WithAttributes returns n with these attributes and no others. It keeps the slice. Without any
// it returns the bare value; YSON has no difference between no attributes and <>.
func (n Node) WithAttributes(attributes ...Entry) Node {
	if len(attributes) == 0 {
		attributes = nil
	}
	switch {
	case n.more == nil && attributes == nil:
	case n.more == nil:
		n.more = &more{attributes: attributes}
	case attributes == nil && n.more.items == nil && n.more.entries == nil:
		n.more = nil
	default:
		n.more = &more{items: n.more.items, entries: n.more.entries, attributes: attributes}
	}
	return n
}

func find(entries []Entry, key string) (Node, bool) {
	for i := range entries {
		if entries[i].Key == key {
			return entries[i].Value, true
		}
	}
	return Node{}, false
}

// Equal reports whether two Nodes are equal: of one kind, with the same attributes, keys in the
// same order. 5 is not 5u; NaN equals NaN.
func (n Node) Equal(other Node) bool {
	if n.kind != other.kind {
		return false
	}
	switch n.kind {
	case DoubleKind:
		a, b := math.Float64frombits(n.number), math.Float64frombits(other.number)
		if a != b && (a == a || b == b) {
			return false
		}
	case StringKind:
		if n.text != other.text {
			return false
		}
	default:
		if n.number != other.number {
			return false
		}
	}
	return n.more == other.more ||
		slices.EqualFunc(n.Items(), other.Items(), Node.Equal) &&
			slices.EqualFunc(n.Entries(), other.Entries(), Entry.equal) &&
			slices.EqualFunc(n.Attributes(), other.Attributes(), Entry.equal)
}

func (e Entry) equal(other Entry) bool { return e.Key == other.Key && e.Value.Equal(other.Value) }

// String returns n as text YSON on one line, for messages.
func (n Node) String() string {
	text, err := Append(nil, n, Text)
	if err != nil {
		return "(" + err.Error() + ")"
	}
	return string(text)
}
