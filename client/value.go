package client

import (
	"iter"

	"github.com/weirhq/weir/internal/value/yson"
)

// Value is a value of unknown shape: a specification, an attribute, a whole answer. As in
// JSON, it is null, a boolean, a number, a string, a list or a map. Unlike JSON, it
// distinguishes integers from floats, preserves the order of keys, and can have attributes.
// The zero Value is null. Values are immutable.
type Value struct{ node yson.Node }

// ParseValue parses YSON, the notation of YTsaurus: {pool=research; weight=2.}.
func ParseValue(text string) (Value, error) {
	node, err := yson.Parse([]byte(text))
	return Value{node}, err
}

// Get returns the value at a path of map keys. It is null if there is none.
func (v Value) Get(keys ...string) Value { return Value{field(v.node, keys...)} }

// Items returns the items of a list; of any other value, none.
func (v Value) Items() []Value {
	items := make([]Value, len(v.node.Items()))
	for i, item := range v.node.Items() {
		items[i] = Value{item}
	}
	return items
}

// Entries iterates over the keys and values of a map, in its order; of any other value,
// over nothing.
func (v Value) Entries() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		for _, e := range v.node.Entries() {
			if !yield(e.Key, Value{e.Value}) {
				return
			}
		}
	}
}

// Attribute returns the named attribute of the value. It is null if there is none.
func (v Value) Attribute(name string) Value {
	node, _ := v.node.Attribute(name)
	return Value{node}
}

// IsNull reports whether the value is null.
func (v Value) IsNull() bool { return v.node.IsEntity() }

// Text returns the value if it is a string.
func (v Value) Text() (text string, ok bool) { return v.node.Text() }

// Bool returns the value if it is a boolean.
func (v Value) Bool() (value, ok bool) { return v.node.Boolean() }

// Int returns the value if it is an integer.
func (v Value) Int() (number int64, ok bool) { return v.node.Int64() }

// Float returns the value if it is a number.
func (v Value) Float() (number float64, ok bool) { return v.node.Double() }

// Any returns the value as nil, bool, int64, uint64, float64, string, []any or
// map[string]any. It omits attributes.
func (v Value) Any() any { return plain(v.node) }

func plain(n yson.Node) any {
	switch n.Kind() {
	case yson.BooleanKind:
		value, _ := n.Boolean()
		return value
	case yson.Int64Kind:
		value, _ := n.Int64()
		return value
	case yson.Uint64Kind:
		value, _ := n.Uint64()
		return value
	case yson.DoubleKind:
		value, _ := n.Double()
		return value
	case yson.StringKind:
		value, _ := n.Text()
		return value
	case yson.ListKind:
		list := make([]any, len(n.Items()))
		for i, item := range n.Items() {
			list[i] = plain(item)
		}
		return list
	case yson.MapKind:
		entries := make(map[string]any, len(n.Entries()))
		for _, e := range n.Entries() {
			entries[e.Key] = plain(e.Value)
		}
		return entries
	}
	return nil
}

// String returns the value in YSON on one line.
func (v Value) String() string { return v.node.String() }

// Pretty returns the value in YSON with one item per line.
func (v Value) Pretty() string {
	text, err := yson.Append(nil, v.node, yson.Pretty)
	if err != nil { // nested too deep, which ParseValue and ValueOf reject
		return v.node.String()
	}
	return string(text)
}

// MarshalJSON returns the value with its attributes as JSON. If any string is not valid
// UTF-8, all strings are written with one code point up to U+00FF per byte.
func (v Value) MarshalJSON() ([]byte, error) {
	text, err := yson.AppendJSON(nil, v.node, yson.JSONOptions{UTF8: true, StringifyNaN: true})
	if err != nil {
		text, err = yson.AppendJSON(nil, v.node, yson.JSONOptions{StringifyNaN: true})
	}
	return text, err
}

// field returns the value at a path of map keys, or the entity if there is none.
func field(node yson.Node, keys ...string) yson.Node {
	for _, key := range keys {
		node, _ = node.Get(key)
	}
	return node
}

// firstText returns the only string of an answer, which the API wraps in a map.
func firstText(answer Value) string {
	for _, value := range answer.Entries() {
		answer = value
		break
	}
	text, _ := answer.Text()
	return text
}
