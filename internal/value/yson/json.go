package yson

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
)

// JSONOptions are the attributes of the format "json". The zero value has YT's defaults.
type JSONOptions struct {
	// Pretty writes an item on each line, with four spaces for each level (format=pretty).
	Pretty bool
	// UTF8 treats strings as UTF-8 text (encode_utf8=false). Otherwise every byte is one code point
	// up to U+00FF, in both directions.
	UTF8 bool
	// Attributes selects when "$attributes" is written (attributes_mode).
	Attributes AttributesMode
	// AnnotateWithTypes writes scalars as {"$type":"int64","$value":1}. They read back as exactly
	// the same Node, uint64 included.
	AnnotateWithTypes bool
	// Stringify writes numbers and booleans as strings. Only with AnnotateWithTypes can they be
	// distinguished from strings again.
	Stringify bool
	// StringifyNaN writes NaN and the infinities as the strings "nan", "inf" and "-inf"
	// (stringify_nan_and_infinity). Otherwise they are an error, because JSON does not have them.
	StringifyNaN bool
	// Plain gives "$" no meaning: keys are not doubled, attributes neither written nor read.
	Plain bool
	// StringLimit, unless zero, cuts longer strings to this many bytes and marks them with
	// "$incomplete" (string_length_limit). With UTF8 it cuts between characters.
	StringLimit int
}

// AttributesMode selects when attributes are written to JSON. Reading does not depend on it.
type AttributesMode uint8

const (
	AttributesOnDemand AttributesMode = iota // where there are any
	AttributesAlways                         // on every value, empty ones too
	AttributesNever
)

// Keys with a special meaning. All other keys that start with "$" have it doubled.
const (
	valueKey      = "$value"
	attributesKey = "$attributes"
	typeKey       = "$type"
	incompleteKey = "$incomplete"
)

// A JSONError reports which value of a Node cannot be written as JSON.
type JSONError struct {
	Path    string // "/key/3/@attribute", empty for the whole
	Message string
}

func (e *JSONError) Error() string {
	if e.Path == "" {
		return "value as JSON: " + e.Message
	}
	return fmt.Sprintf("value of %s as JSON: %s", e.Path, e.Message)
}

// AppendJSON appends a value to dst as JSON, all in ASCII unless options.UTF8 is set. An error is of
// type *JSONError; dst then ends with an incomplete value.
func AppendJSON(dst []byte, n Node, options JSONOptions) ([]byte, error) {
	w := jsonWriter{JSONOptions: options, b: dst}
	if options.Plain {
		w.Attributes = AttributesNever
	}
	if w.Attributes == AttributesNever {
		w.AnnotateWithTypes, w.StringLimit = false, 0
	}
	err := w.node(&n, 0)
	return w.b, err
}

type jsonWriter struct {
	JSONOptions
	b      []byte
	levels int // of JSON, which has more than the Node where there are attributes
}

func (w *jsonWriter) node(n *Node, depth int) error {
	attributes := n.Attributes()
	wrapped := false
	switch w.Attributes {
	case AttributesAlways:
		wrapped = true
	case AttributesNever:
		attributes = nil
	default:
		wrapped = len(attributes) > 0
	}
	scalar := BooleanKind <= n.kind && n.kind <= StringKind
	cut := n.kind == StringKind && w.StringLimit > 0 && len(n.text) > w.StringLimit
	if !wrapped && !cut && !(w.AnnotateWithTypes && scalar) {
		return w.bare(n, n.text, depth)
	}
	text := n.text
	w.open('{')
	if wrapped {
		w.specialKey(attributesKey)
		if err := w.entries(attributes, depth, "/@"); err != nil {
			return err
		}
		w.comma()
	}
	if cut {
		text = text[:w.cutAt(text)]
		w.specialKey(incompleteKey)
		w.b = append(w.b, "true"...)
		w.comma()
	}
	if w.AnnotateWithTypes && scalar {
		w.specialKey(typeKey)
		w.b = append(w.b, '"')
		w.b = append(w.b, n.kind.String()...)
		w.b = append(w.b, '"')
		w.comma()
	}
	w.specialKey(valueKey)
	if err := w.bare(n, text, depth); err != nil {
		return err
	}
	w.shut('}')
	return nil
}

// cutAt returns how much of a long string is kept.
func (w *jsonWriter) cutAt(text string) int {
	end := w.StringLimit
	if w.UTF8 {
		for end > 0 && !utf8.RuneStart(text[end]) {
			end--
		}
	}
	return end
}

// bare writes a value without its attributes.
func (w *jsonWriter) bare(n *Node, text string, depth int) error {
	switch n.kind {
	case StringKind:
		return w.text(text)
	case ListKind:
		return w.items(n.Items(), depth)
	case MapKind:
		return w.entries(n.Entries(), depth, "/")
	case EntityKind:
		w.b = append(w.b, "null"...)
		return nil
	case DoubleKind:
		f, _ := n.Double()
		return w.double(f)
	}
	if w.Stringify {
		w.b = append(w.b, '"')
	}
	switch n.kind {
	case BooleanKind:
		w.b = strconv.AppendBool(w.b, n.number != 0)
	case Int64Kind:
		w.b = strconv.AppendInt(w.b, int64(n.number), 10)
	case Uint64Kind:
		w.b = strconv.AppendUint(w.b, n.number, 10)
	}
	if w.Stringify {
		w.b = append(w.b, '"')
	}
	return nil
}

func (w *jsonWriter) double(f float64) error {
	name := ""
	switch {
	case f != f:
		name = "nan"
	case math.IsInf(f, 1):
		name = "inf"
	case math.IsInf(f, -1):
		name = "-inf"
	}
	if name != "" && !w.StringifyNaN && !w.Stringify {
		return &JSONError{Message: name + " is no number in JSON"}
	}
	quoted := name != "" || w.Stringify
	if quoted {
		w.b = append(w.b, '"')
	}
	if name != "" {
		w.b = append(w.b, name...)
	} else {
		var whole bool
		if w.b, whole = appendDecimal(w.b, f); whole {
			w.b = append(w.b, ".0"...)
		}
	}
	if quoted {
		w.b = append(w.b, '"')
	}
	return nil
}

func (w *jsonWriter) items(items []Node, depth int) error {
	if depth == MaxDepth {
		return &JSONError{Message: tooDeepMessage}
	}
	if len(items) == 0 {
		w.b = append(w.b, "[]"...)
		return nil
	}
	w.open('[')
	for i := range items {
		if i > 0 {
			w.comma()
		}
		w.newline()
		if err := w.node(&items[i], depth+1); err != nil {
			return inside("/", strconv.Itoa(i), err)
		}
	}
	w.shut(']')
	return nil
}

func (w *jsonWriter) entries(entries []Entry, depth int, slash string) error {
	if depth == MaxDepth {
		return &JSONError{Message: tooDeepMessage}
	}
	if len(entries) == 0 {
		w.b = append(w.b, "{}"...)
		return nil
	}
	w.open('{')
	for i := range entries {
		if i > 0 {
			w.comma()
		}
		w.newline()
		key := entries[i].Key
		if !w.Plain && key != "" && key[0] == '$' {
			key = "$" + key
		}
		if err := w.text(key); err != nil {
			return inside(slash, entries[i].Key, err)
		}
		w.colon()
		if err := w.node(&entries[i].Value, depth+1); err != nil {
			return inside(slash, entries[i].Key, err)
		}
	}
	w.shut('}')
	return nil
}

// inside adds a step to the path of an error while the calls return.
func inside(slash, step string, err error) error {
	var problem *JSONError
	if errors.As(err, &problem) {
		problem.Path = slash + step + problem.Path
	}
	return err
}

func (w *jsonWriter) open(bracket byte) {
	w.b = append(w.b, bracket)
	w.levels++
}

// shut closes a container that is not empty.
func (w *jsonWriter) shut(bracket byte) {
	w.levels--
	w.newline()
	w.b = append(w.b, bracket)
}

func (w *jsonWriter) newline() {
	if w.Pretty {
		w.b = appendIndent(append(w.b, '\n'), w.levels)
	}
}

func (w *jsonWriter) comma() { w.b = append(w.b, ',') }

func (w *jsonWriter) colon() {
	w.b = append(w.b, ':')
	if w.Pretty {
		w.b = append(w.b, ' ')
	}
}

func (w *jsonWriter) specialKey(key string) {
	w.newline()
	w.b = append(w.b, '"')
	w.b = append(w.b, key...)
	w.b = append(w.b, '"')
	w.colon()
}

const lowerHex = "0123456789abcdef"

// text writes a string byte by byte or character by character.
func (w *jsonWriter) text(s string) error {
	if w.UTF8 && !utf8.ValidString(s) {
		return &JSONError{Message: "the string is not UTF-8, which encode_utf8=false requires"}
	}
	b := append(w.b, '"')
	from := 0
	for i := range len(s) {
		c := s[i]
		if plainInText[c] || c >= 0x80 && w.UTF8 {
			continue
		}
		b = append(b, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', lowerHex[c>>4], lowerHex[c&15])
		}
	}
	b = append(b, s[from:]...)
	w.b = append(b, '"')
	return nil
}
