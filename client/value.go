package client

import (
	"iter"

	"github.com/weirhq/weir/internal/value/yson"
)

// Value is a value whose shape is not known beforehand: a specification, an attribute, a
// whole answer. Like JSON it is null, a boolean, a number, a string, a list or a map;
// unlike JSON it tells integers from floats, keeps the order of keys, and any value may
// have attributes. The zero Value is null. Values do not change.
type Value struct{ node yson.Node }

// ParseValue reads a value in YSON, the notation of YTsaurus: {pool=research; weight=2.}.
func ParseValue(text string) (Value, error) {
	node, err := yson.Parse([]byte(text))
	return Value{node}, err
}

// Get walks down maps by their keys. What is not there is null.
func (v Value) Get(keys ...string) Value { return Value{field(v.node, keys...)} }

// Items are the items of a list; anything else has none.
func (v Value) Items() []Value {
	items := make([]Value, len(v.node.Items()))
	for i, item := range v.node.Items() {
		items[i] = Value{item}
	}
	return items
}

// Entries are the keys and values of a map, in its order; anything else has none.
func (v Value) Entries() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		for _, e := range v.node.Entries() {
			if !yield(e.Key, Value{e.Value}) {
				return
			}
		}
	}
}

// Attribute is an attribute of the value; null if it has none of this name.
func (v Value) Attribute(name string) Value {
	node, _ := v.node.Attribute(name)
	return Value{node}
}

// IsNull says whether the value is null.
func (v Value) IsNull() bool { return v.node.IsEntity() }

// Text is the value of a string.
func (v Value) Text() (text string, ok bool) { return v.node.Text() }

// Bool is the value of a boolean.
func (v Value) Bool() (value, ok bool) { return v.node.Boolean() }

// Int is the value of a whole number.
func (v Value) Int() (number int64, ok bool) { return v.node.Int64() }

// Float is the value of any number.
func (v Value) Float() (number float64, ok bool) { return v.node.Double() }

// Any is the value as nil, bool, int64, uint64, float64, string, []any or map[string]any.
// Attributes are left out.
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

// String is the value in YSON, in one line.
func (v Value) String() string { return v.node.String() }

// Pretty is the value in YSON, an item on each line.
func (v Value) Pretty() string {
	text, err := yson.Append(nil, v.node, yson.Pretty)
	if err != nil { // it nests too deep, which neither ParseValue nor ValueOf lets through
		return v.node.String()
	}
	return string(text)
}

// MarshalJSON writes the value with its attributes. Strings that are not UTF-8 make all
// strings be written with one code point up to U+00FF for each byte.
func (v Value) MarshalJSON() ([]byte, error) {
	text, err := yson.AppendJSON(nil, v.node, yson.JSONOptions{UTF8: true, StringifyNaN: true})
	if err != nil {
		text, err = yson.AppendJSON(nil, v.node, yson.JSONOptions{StringifyNaN: true})
	}
	return text, err
}

// field walks down maps; what is not there is the entity.
func field(node yson.Node, keys ...string) yson.Node {
	for _, key := range keys {
		node, _ = node.Get(key)
	}
	return node
}

// firstText is the one string of an answer, which the API wraps in a map.
func firstText(answer Value) string {
	for _, value := range answer.Entries() {
		answer = value
		break
	}
	text, _ := answer.Text()
	return text
}
