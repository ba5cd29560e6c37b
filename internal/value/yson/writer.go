package yson

import (
	"errors"
	"fmt"
	"io"
)

// Format is how YSON is written. Readers accept all formats, mixed.
type Format uint8

const (
	Text   Format = iota // one line; only fragments have a line for each item
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

// Append appends one value to dst. It fails only for a Node that nests deeper than MaxDepth.
func Append(dst []byte, n Node, format Format) ([]byte, error) {
	var w Writer
	w.reset(format, Single)
	w.buffer = dst
	w.node(&n)
	return w.buffer, w.Close()
}

// A Writer writes YSON token by token. Keys and strings are always quoted in text, and ";" follows
// every item, the last one included, as in YT itself.
//
// After an invalid call, such as a value where a key is expected, the Writer ignores everything
// that follows; Close returns the first such error. Values must be closed before Close.
type Writer struct {
	out    io.Writer // nil: everything stays in buffer
	buffer []byte
	err    error

	format Format
	shape  Shape
	state  writerState
	empty  bool // the innermost container has no item yet
	depth  int
	stack  [MaxDepth]Token // the Begin token of each open container
}

type writerState uint8

const (
	writesItem  writerState = iota // of a list: value
	writesKey                      // of a map or of attributes
	writesValue                    // after a key, or at the start of a Single
	writesBare                     // after attributes: a value without attributes
	writesEnd                      // nothing may follow
)

// flushAt is the buffer size at which a Writer writes. Longer strings make the buffer larger.
const flushAt = 32 << 10

// NewWriter returns a Writer to a stream. Without a stream it keeps everything for Bytes.
func NewWriter(out io.Writer, format Format, shape Shape) *Writer {
	w := new(Writer)
	w.Reset(out, format, shape)
	return w
}

// Reset makes w write a new output and keeps its buffer. The result of Bytes becomes invalid.
func (w *Writer) Reset(out io.Writer, format Format, shape Shape) {
	w.out, w.buffer = out, w.buffer[:0]
	w.reset(format, shape)
}

func (w *Writer) reset(format Format, shape Shape) {
	w.err, w.format, w.shape, w.depth, w.empty = nil, format, shape, 0, false
	w.state = w.topState()
}

func (w *Writer) topState() writerState {
	switch w.shape {
	case ListFragment:
		return writesItem
	case MapFragment:
		return writesKey
	}
	return writesValue
}

// Bytes returns what is not yet flushed: without a stream, everything.
func (w *Writer) Bytes() []byte { return w.buffer }

// Flush writes everything so far to the stream.
func (w *Writer) Flush() error {
	if w.out == nil || len(w.buffer) == 0 {
		return w.err
	}
	if _, err := w.out.Write(w.buffer); err != nil && w.err == nil {
		w.err = fmt.Errorf("YSON output: %w", err)
	}
	w.buffer = w.buffer[:0]
	return w.err
}

// Close flushes and returns the first error: of the stream, of an invalid call, or of an incomplete
// value. It does not close the stream.
func (w *Writer) Close() error {
	if w.err == nil && (w.depth > 0 || w.state == writesValue || w.state == writesBare) {
		w.err = errors.New("YSON output is not complete")
	}
	return w.Flush()
}

// Entity writes #.
func (w *Writer) Entity() {
	if w.beginValue() {
		w.buffer = append(w.buffer, '#')
		w.endValue()
	}
}

// Boolean writes a boolean.
func (w *Writer) Boolean(b bool) {
	if w.beginValue() {
		w.buffer = appendBoolean(w.buffer, b, w.format)
		w.endValue()
	}
}

// Int64 writes a signed whole number.
func (w *Writer) Int64(i int64) {
	if w.beginValue() {
		w.buffer = appendInt64(w.buffer, i, w.format)
		w.endValue()
	}
}

// Uint64 writes an unsigned whole number.
func (w *Writer) Uint64(u uint64) {
	if w.beginValue() {
		w.buffer = appendUint64(w.buffer, u, w.format)
		w.endValue()
	}
}

// Double writes a floating point number.
func (w *Writer) Double(f float64) {
	if w.beginValue() {
		w.buffer = appendDouble(w.buffer, f, w.format)
		w.endValue()
	}
}

// String writes a string.
func (w *Writer) String(s string) {
	if w.beginValue() {
		w.buffer = appendString(w.buffer, s, w.format)
		w.endValue()
	}
}

// StringBytes writes a string that is given as bytes.
func (w *Writer) StringBytes(s []byte) {
	if w.beginValue() {
		w.buffer = appendString(w.buffer, s, w.format)
		w.endValue()
	}
}

// Key writes the key of the next value.
func (w *Writer) Key(key string) {
	if w.beginKey() {
		w.buffer = appendString(w.buffer, key, w.format)
		w.endKey()
	}
}

// KeyBytes writes a key that is given as bytes.
func (w *Writer) KeyBytes(key []byte) {
	if w.beginKey() {
		w.buffer = appendString(w.buffer, key, w.format)
		w.endKey()
	}
}

// BeginList opens a list.
func (w *Writer) BeginList() {
	if w.beginValue() {
		w.open('[', BeginList, writesItem)
	}
}

// EndList closes a list.
func (w *Writer) EndList() {
	if w.close(']', BeginList, writesItem) {
		w.endValue()
	}
}

// BeginMap opens a map.
func (w *Writer) BeginMap() {
	if w.beginValue() {
		w.open('{', BeginMap, writesKey)
	}
}

// EndMap closes a map.
func (w *Writer) EndMap() {
	if w.close('}', BeginMap, writesKey) {
		w.endValue()
	}
}

// BeginAttributes opens the attributes of the next value.
func (w *Writer) BeginAttributes() {
	if w.state == writesBare {
		w.refuse("a value has attributes only once")
	}
	if w.beginValue() {
		w.open('<', BeginAttributes, writesKey)
	}
}

// EndAttributes closes attributes. Their value must follow.
func (w *Writer) EndAttributes() {
	if w.close('>', BeginAttributes, writesKey) {
		if w.format == Pretty {
			w.buffer = append(w.buffer, ' ')
		}
		w.state = writesBare
	}
}

// Node writes a whole value, attributes included.
func (w *Writer) Node(n Node) { w.node(&n) }

func (w *Writer) node(n *Node) {
	if w.err != nil {
		return
	}
	if attributes := n.Attributes(); len(attributes) > 0 {
		w.BeginAttributes()
		for i := range attributes {
			w.Key(attributes[i].Key)
			w.node(&attributes[i].Value)
		}
		w.EndAttributes()
	}
	switch n.kind {
	case EntityKind:
		w.Entity()
	case BooleanKind:
		w.Boolean(n.number != 0)
	case Int64Kind:
		w.Int64(int64(n.number))
	case Uint64Kind:
		w.Uint64(n.number)
	case DoubleKind:
		f, _ := n.Double()
		w.Double(f)
	case StringKind:
		w.String(n.text)
	case ListKind:
		w.BeginList()
		items := n.Items()
		for i := range items {
			w.node(&items[i])
		}
		w.EndList()
	case MapKind:
		w.BeginMap()
		entries := n.Entries()
		for i := range entries {
			w.Key(entries[i].Key)
			w.node(&entries[i].Value)
		}
		w.EndMap()
	}
}

// Copy writes everything that r has left to w as it is read, and closes w.
func Copy(w *Writer, r *Reader) error {
	for {
		token, err := r.Next()
		if err == io.EOF {
			return w.Close()
		}
		if err != nil {
			return err
		}
		switch token {
		case EntityToken:
			w.Entity()
		case BooleanToken:
			w.Boolean(r.Boolean())
		case Int64Token:
			w.Int64(r.Int64())
		case Uint64Token:
			w.Uint64(r.Uint64())
		case DoubleToken:
			w.Double(r.Double())
		case StringToken:
			w.StringBytes(r.Bytes())
		case KeyToken:
			w.KeyBytes(r.Bytes())
		case BeginList:
			w.BeginList()
		case EndList:
			w.EndList()
		case BeginMap:
			w.BeginMap()
		case EndMap:
			w.EndMap()
		case BeginAttributes:
			w.BeginAttributes()
		case EndAttributes:
			w.EndAttributes()
		}
		if w.err != nil {
			return w.err
		}
	}
}

// beginValue prepares for a value, and reports whether one may be written now.
func (w *Writer) beginValue() bool {
	switch {
	case w.err != nil:
		return false
	case w.state == writesItem:
		w.beginItem()
	case w.state == writesKey:
		return w.refuse("a value where a key must be")
	case w.state == writesEnd:
		return w.refuse("a second value where one may be")
	}
	return true
}

func (w *Writer) beginKey() bool {
	if w.err != nil {
		return false
	}
	if w.state != writesKey {
		return w.refuse("a key where none may be")
	}
	w.beginItem()
	return true
}

func (w *Writer) endKey() {
	if w.format == Pretty {
		w.buffer = append(w.buffer, " = "...)
	} else {
		w.buffer = append(w.buffer, '=')
	}
	w.state = writesValue
}

// beginItem starts the line of an item.
func (w *Writer) beginItem() {
	if w.format == Pretty {
		if w.empty && w.depth > 0 {
			w.buffer = append(w.buffer, '\n')
		}
		w.buffer = appendIndent(w.buffer, w.depth)
	}
	w.empty = false
}

func (w *Writer) endValue() {
	if w.depth == 0 {
		w.endTop()
		return
	}
	w.buffer = append(w.buffer, ';')
	if w.format == Pretty {
		w.buffer = append(w.buffer, '\n')
	}
	w.state = writesKey
	if w.stack[w.depth-1] == BeginList {
		w.state = writesItem
	}
	if w.out != nil && len(w.buffer) >= flushAt {
		_ = w.Flush()
	}
}

func (w *Writer) endTop() {
	if w.shape == Single {
		w.state = writesEnd
		return
	}
	w.buffer = append(w.buffer, ';')
	if w.format != Binary {
		w.buffer = append(w.buffer, '\n')
	}
	w.state = w.topState()
	if w.out != nil && len(w.buffer) >= flushAt {
		_ = w.Flush()
	}
}

func (w *Writer) open(bracket byte, token Token, state writerState) {
	if w.depth == MaxDepth {
		w.err = errTooDeep
		return
	}
	w.stack[w.depth] = token
	w.depth++
	w.buffer = append(w.buffer, bracket)
	w.state, w.empty = state, true
}

// close writes the closing bracket if the innermost container matches token and is between two
// items.
func (w *Writer) close(bracket byte, token Token, state writerState) bool {
	if w.err != nil {
		return false
	}
	if w.depth == 0 || w.stack[w.depth-1] != token || w.state != state {
		return w.refuse(fmt.Sprintf("%q where it closes nothing", bracket))
	}
	w.depth--
	if w.format == Pretty && !w.empty {
		w.buffer = appendIndent(w.buffer, w.depth)
	}
	w.buffer = append(w.buffer, bracket)
	w.empty = false
	return true
}

func (w *Writer) refuse(what string) bool {
	if w.err == nil {
		w.err = errors.New("YSON output has " + what)
	}
	return false
}
