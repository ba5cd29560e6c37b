package yson

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
)

// Format is how YSON is written. Parse accepts all formats, mixed.
type Format uint8

const (
	Text   Format = iota // one line
	Pretty               // an item on each line, four spaces for each level
	Binary               // scalars and keys as bytes
)

// String returns the name of the format as the attribute "format" has it.
func (f Format) String() string {
	switch f {
	case Text:
		return "text"
	case Pretty:
		return "pretty"
	case Binary:
		return "binary"
	}
	return fmt.Sprintf("Format(%d)", uint8(f))
}

// Append appends one value to dst. Keys and strings are always quoted in text, and ";" follows every
// item, the last one included, as in YT itself. Append fails only for a Node that nests deeper than
// MaxDepth.
func Append(dst []byte, n Node, format Format) ([]byte, error) {
	w := writer{format: format, b: dst}
	if !w.node(&n, 0) {
		return w.b, errTooDeep
	}
	return w.b, nil
}

// writer appends to b. Its functions return false if a value nests too deep.
type writer struct {
	format Format
	b      []byte
}

// node writes a value and its attributes at this depth.
func (w *writer) node(n *Node, depth int) bool {
	if attributes := n.Attributes(); len(attributes) > 0 {
		if !w.entries('<', attributes, '>', depth) {
			return false
		}
		if w.format == Pretty {
			w.b = append(w.b, ' ')
		}
	}
	switch n.kind {
	case EntityKind:
		w.b = append(w.b, '#')
	case BooleanKind:
		w.b = appendBoolean(w.b, n.number != 0, w.format)
	case Int64Kind:
		w.b = appendInt64(w.b, int64(n.number), w.format)
	case Uint64Kind:
		w.b = appendUint64(w.b, n.number, w.format)
	case DoubleKind:
		w.b = appendDouble(w.b, math.Float64frombits(n.number), w.format)
	case StringKind:
		w.b = appendString(w.b, n.text, w.format)
	case ListKind:
		return w.items(n.Items(), depth)
	case MapKind:
		return w.entries('{', n.Entries(), '}', depth)
	}
	return true
}

func (w *writer) items(items []Node, depth int) bool {
	if depth == MaxDepth {
		return false
	}
	w.b = append(w.b, '[')
	for i := range items {
		w.line(depth + 1)
		if !w.node(&items[i], depth+1) {
			return false
		}
		w.b = append(w.b, ';')
	}
	if len(items) > 0 {
		w.line(depth)
	}
	w.b = append(w.b, ']')
	return true
}

func (w *writer) entries(open byte, entries []Entry, shut byte, depth int) bool {
	if depth == MaxDepth {
		return false
	}
	w.b = append(w.b, open)
	for i := range entries {
		w.line(depth + 1)
		w.b = appendString(w.b, entries[i].Key, w.format)
		if w.format == Pretty {
			w.b = append(w.b, " = "...)
		} else {
			w.b = append(w.b, '=')
		}
		if !w.node(&entries[i].Value, depth+1) {
			return false
		}
		w.b = append(w.b, ';')
	}
	if len(entries) > 0 {
		w.line(depth)
	}
	w.b = append(w.b, shut)
	return true
}

// line starts a line of pretty text.
func (w *writer) line(depth int) {
	if w.format == Pretty {
		w.b = appendIndent(append(w.b, '\n'), depth)
	}
}

const indentation = "                                                                "

// appendIndent appends four spaces for each level.
func appendIndent(b []byte, depth int) []byte {
	spaces := 4 * depth
	for spaces > len(indentation) {
		b = append(b, indentation...)
		spaces -= len(indentation)
	}
	return append(b, indentation[:spaces]...)
}

func appendBoolean(b []byte, value bool, format Format) []byte {
	switch {
	case format == Binary && value:
		return append(b, trueMarker)
	case format == Binary:
		return append(b, falseMarker)
	case value:
		return append(b, "%true"...)
	}
	return append(b, "%false"...)
}

func appendInt64(b []byte, value int64, format Format) []byte {
	if format == Binary {
		return binary.AppendVarint(append(b, int64Marker), value)
	}
	return strconv.AppendInt(b, value, 10)
}

func appendUint64(b []byte, value uint64, format Format) []byte {
	if format == Binary {
		return binary.AppendUvarint(append(b, uint64Marker), value)
	}
	return append(strconv.AppendUint(b, value, 10), 'u')
}

func appendDouble(b []byte, value float64, format Format) []byte {
	switch {
	case format == Binary:
		return binary.LittleEndian.AppendUint64(append(b, doubleMarker), math.Float64bits(value))
	case value != value:
		return append(b, "%nan"...)
	case math.IsInf(value, 1):
		return append(b, "%inf"...)
	case math.IsInf(value, -1):
		return append(b, "%-inf"...)
	}
	b, whole := appendDecimal(b, value)
	if whole {
		b = append(b, '.')
	}
	return b
}

// appendDecimal writes a finite number so that it reads back as the same, without an exponent if
// that is short. It reports whether the result looks like a whole number.
func appendDecimal(b []byte, value float64) (result []byte, whole bool) {
	magnitude := math.Abs(value)
	if magnitude != 0 && (magnitude < 1e-6 || magnitude >= 1e21) {
		return strconv.AppendFloat(b, value, 'e', -1, 64), false
	}
	return strconv.AppendFloat(b, value, 'f', -1, 64), value == math.Trunc(value)
}

const upperHex = "0123456789ABCDEF"

// plainInText is the set of bytes that need no escape between quotes.
var plainInText = func() (set [256]bool) {
	for c := 0x20; c < 0x7f; c++ {
		set[c] = c != '"' && c != '\\'
	}
	return set
}()

func appendString[S string | []byte](b []byte, s S, format Format) []byte {
	if format == Binary {
		b = binary.AppendVarint(append(b, stringMarker), int64(len(s)))
		return append(b, s...)
	}
	b = append(b, '"')
	from := 0
	for i := range len(s) {
		c := s[i]
		if plainInText[c] {
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
			b = append(b, '\\', 'x', upperHex[c>>4], upperHex[c&15])
		}
	}
	b = append(b, s[from:]...)
	return append(b, '"')
}
