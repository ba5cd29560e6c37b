package yson

import (
	"bytes"
	"fmt"
	"io"
	"math"

	"github.com/weirhq/weir/internal/value/jsontext"
)

// Shape is the structure of the top level of an input or output.
type Shape uint8

const (
	Single       Shape = iota // one value
	ListFragment              // values, each followed by ";", as the rows of a table are
	MapFragment               // key=value, each followed by ";"
)

// A Token is a piece of a YSON stream. A value is a scalar, or everything from a Begin to its End;
// attributes come before the value they belong to.
type Token uint8

const (
	NoToken Token = iota
	EntityToken
	BooleanToken
	Int64Token
	Uint64Token
	DoubleToken
	StringToken
	BeginList
	EndList
	BeginMap
	EndMap
	BeginAttributes
	EndAttributes
	KeyToken // of a map or of attributes; its value follows
)

var tokenNames = [...]string{"nothing", "an entity", "a boolean", "an int64", "a uint64", "a double", "a string",
	`"["`, `"]"`, `"{"`, `"}"`, `"<"`, `">"`, "a key"}

// String describes the token.
func (t Token) String() string {
	if int(t) < len(tokenNames) {
		return tokenNames[t]
	}
	return fmt.Sprintf("Token(%d)", uint8(t))
}

// A Reader reads YSON token by token, text and binary in any mixture. Its zero value reads
// nothing until Reset or ResetBytes. An error is final.
//
// The next token depends on what came before:
//
//	             ┌────────────────────────── ";" ──────────────────────────┐
//	             ▼                                                         │
//	list:    wantItem ── "<" … ">" ──► wantBareValue ── value ──► wantSeparator
//	map:     wantKey ── key ──► wantEquals ── "=" ──► wantValue ──┘
//
// and every container is left by its closing bracket from wantItem or wantKey, or from
// wantSeparator.
type Reader struct {
	in    io.Reader // nil: data is all there is
	data  []byte    // data[pos:] is unread
	pos   int
	owned []byte // the buffer behind data while in is read

	base       int64 // offset of data[0] in the input
	linesBelow int   // newlines before data[0]
	columnBase int   // bytes between data[0] and the newline before it

	shape Shape
	state readerState
	depth int
	stack [MaxDepth]Token // the Begin token of each open container

	number  uint64
	text    []byte
	keyAt   int64  // where the last key starts
	scratch []byte // for strings that had to be unescaped
	err     error
	build   builder
}

type readerState uint8

const (
	wantValue readerState = iota
	wantBareValue
	wantItem
	wantKey
	wantEquals
	wantSeparator
	wantEnd
)

// initialBuffer is the initial buffer size of a Reader of a stream. The buffer grows to the longest string.
const initialBuffer = 32 << 10

// largestKept is the largest buffer that Reset keeps.
const largestKept = 1 << 20

// NewReader returns a Reader of a stream.
func NewReader(in io.Reader, shape Shape) *Reader {
	r := new(Reader)
	r.Reset(in, shape)
	return r
}

// Reset makes r read another stream and keeps its buffers unless they have become large. The Reader may read ahead in in.
// Nodes that r has read stay valid.
func (r *Reader) Reset(in io.Reader, shape Shape) {
	if r.owned == nil || cap(r.owned) > largestKept {
		r.owned = make([]byte, 0, initialBuffer)
	}
	r.reset(r.owned[:0], shape)
	r.in = in
}

// ResetBytes makes r read data, which it does not copy and which must not change while r reads it.
func (r *Reader) ResetBytes(data []byte, shape Shape) { r.reset(data, shape) }

func (r *Reader) reset(data []byte, shape Shape) {
	r.in, r.data, r.pos = nil, data, 0
	r.base, r.linesBelow, r.columnBase = 0, 0, 0
	r.shape, r.depth, r.err, r.text = shape, 0, nil, nil
	if cap(r.scratch) > largestKept {
		r.scratch = nil
	}
	r.state = r.startState()
	r.build.reset()
}

func (r *Reader) startState() readerState {
	switch r.shape {
	case ListFragment:
		return wantItem
	case MapFragment:
		return wantKey
	}
	return wantValue
}

// Boolean returns the value of a BooleanToken.
func (r *Reader) Boolean() bool { return r.number != 0 }

// Int64 returns the value of an Int64Token.
func (r *Reader) Int64() int64 { return int64(r.number) }

// Uint64 returns the value of a Uint64Token.
func (r *Reader) Uint64() uint64 { return r.number }

// Double returns the value of a DoubleToken.
func (r *Reader) Double() float64 { return math.Float64frombits(r.number) }

// Bytes returns the bytes of a StringToken or KeyToken. They are valid until the next call of
// Next, Skip or ReadNode and must not be modified.
func (r *Reader) Bytes() []byte { return r.text }

// Offset returns the number of input bytes that have been read as tokens.
func (r *Reader) Offset() int64 { return r.base + int64(r.pos) }

// Depth returns the number of open containers.
func (r *Reader) Depth() int { return r.depth }

// Next returns the next token, or io.EOF after the last one.
func (r *Reader) Next() (Token, error) {
	if r.err != nil {
		return NoToken, r.err
	}
	c, more := r.peek()
	switch r.state {
	case wantEquals:
		if !more || c != '=' {
			return r.refuseAt(0, more, `after a key must come "="`+hint(c, more))
		}
		r.pos++
		r.state = wantValue
		c, more = r.peek()
	case wantSeparator:
		if more && c == ';' {
			r.pos++
			r.state = r.itemState()
			c, more = r.peek()
		} else if more && closers[c] == NoToken {
			return r.refuseAt(0, true, `between items must stand ";"`+hint(c, more))
		}
	}
	if !more {
		return r.endOfInput()
	}
	switch r.state {
	case wantValue, wantBareValue:
		return r.value(c)
	case wantItem:
		if closers[c] == NoToken {
			return r.value(c)
		}
	case wantKey:
		if closers[c] == NoToken {
			return r.key(c)
		}
	case wantEnd:
		return r.refuseAt(0, true, "there is more after the end of the value"+hint(c, true))
	}
	return r.closing(c)
}

// value reads the token that starts with c where a value is expected.
func (r *Reader) value(c byte) (Token, error) {
	switch starts[c] {
	case startsWord:
		return r.scalar(StringToken, r.scanWord())
	case startsQuoted:
		return r.scalar(StringToken, r.scanQuoted())
	case startsNumber:
		token, ok := r.scanNumber()
		return r.scalar(token, ok)
	case startsPercent:
		token, ok := r.scanPercent()
		return r.scalar(token, ok)
	case startsBinary:
		token, ok := r.scanBinary(c)
		return r.scalar(token, ok)
	case startsEntity:
		r.pos++
		return r.scalar(EntityToken, true)
	case startsContainer:
		return r.opening(c)
	}
	if r.state == wantBareValue {
		return r.refuseAt(0, true, "after attributes must come a value"+hint(c, true))
	}
	return r.refuseAt(0, true, "a value must be here"+hint(c, true))
}

func (r *Reader) scalar(token Token, ok bool) (Token, error) {
	if !ok || r.err != nil { // a stream that breaks may end a word too early
		return NoToken, r.err
	}
	r.endValue()
	return token, nil
}

func (r *Reader) key(c byte) (Token, error) {
	var ok bool
	r.keyAt = r.Offset()
	switch starts[c] {
	case startsWord:
		ok = r.scanWord()
	case startsQuoted:
		ok = r.scanQuoted()
	default:
		if c != stringMarker {
			return r.refuseAt(0, true, "a key must be here, a string"+hint(c, true))
		}
		ok = r.scanBinaryString()
	}
	if !ok || r.err != nil {
		return NoToken, r.err
	}
	r.state = wantEquals
	return KeyToken, nil
}

func (r *Reader) opening(c byte) (Token, error) {
	token, state := BeginMap, wantKey
	switch c {
	case '[':
		token, state = BeginList, wantItem
	case '<':
		if r.state == wantBareValue {
			return r.refuseAt(0, true, "a value has attributes only once")
		}
		token = BeginAttributes
	}
	if r.depth == MaxDepth {
		return r.refuseAt(0, true, tooDeepMessage)
	}
	r.stack[r.depth] = token
	r.depth++
	r.pos++
	r.state = state
	return token, nil
}

// closers maps each closing bracket to its token.
var closers = [256]Token{']': EndList, '}': EndMap, '>': EndAttributes}

func (r *Reader) closing(c byte) (Token, error) {
	token := closers[c]
	if r.depth == 0 {
		return r.refuseAt(0, true, fmt.Sprintf("%v closes nothing", token))
	}
	// End tokens follow their Begin tokens.
	if open := r.stack[r.depth-1]; token != open+1 {
		return r.refuseAt(0, true, fmt.Sprintf("%v is open, so %v cannot be closed here", open, token))
	}
	r.pos++
	r.depth--
	if token == EndAttributes {
		r.state = wantBareValue
	} else {
		r.endValue()
	}
	return token, nil
}

// endValue is called after every value.
func (r *Reader) endValue() {
	r.state = wantSeparator
	if r.depth == 0 && r.shape == Single {
		r.state = wantEnd
	}
}

// itemState is the state in which the next item of the innermost container starts.
func (r *Reader) itemState() readerState {
	if r.depth == 0 {
		return r.startState()
	}
	if r.stack[r.depth-1] == BeginList {
		return wantItem
	}
	return wantKey
}

func (r *Reader) endOfInput() (Token, error) {
	switch {
	case r.depth > 0:
		return r.refuseAt(0, false, fmt.Sprintf("the input ends inside %v", r.stack[r.depth-1]))
	case r.state == wantBareValue:
		return r.refuseAt(0, false, "the input ends after attributes, before their value")
	case r.state == wantValue && r.shape == Single:
		return r.refuseAt(0, false, "the input is empty; there must be a value")
	case r.state == wantValue:
		return r.refuseAt(0, false, "the input ends after a key, before its value")
	case r.err == nil:
		r.err = io.EOF
	}
	return NoToken, r.err
}

// Skip reads to the end of the value that starts with the next token, attributes included. Like ReadNode it returns io.EOF if
// the input has no further value.
func (r *Reader) Skip() error {
	depth := r.depth
	for {
		token, err := r.Next()
		if err != nil {
			return err
		}
		if r.depth < depth || r.depth == depth && token == KeyToken {
			return r.misuse(token)
		}
		if r.depth == depth && token != EndAttributes {
			return nil
		}
	}
}

// misuse reports a call of Skip or ReadNode where no value starts. It is the caller's error, but bad input may lead to it.
func (r *Reader) misuse(token Token) error {
	r.fail(0, false, fmt.Sprintf("%v stands where a value was to be read", token))
	return r.err
}

// fill appends more input to data. It drops what is in front of pos, so positions that must survive are counted from pos. It
// returns false if there is no more.
func (r *Reader) fill() bool {
	if r.in == nil {
		return false
	}
	if dropped := r.data[:r.pos]; len(dropped) > 0 {
		if lines := bytes.Count(dropped, newline); lines > 0 {
			r.linesBelow += lines
			r.columnBase = len(dropped) - 1 - bytes.LastIndexByte(dropped, '\n')
		} else {
			r.columnBase += len(dropped)
		}
		r.base += int64(len(dropped))
		r.data = r.data[:copy(r.data, r.data[r.pos:])]
		r.pos = 0
	}
	if len(r.data) == cap(r.data) {
		r.data = append(make([]byte, 0, 2*cap(r.data)), r.data...)
	}
	r.owned = r.data
	for range 100 {
		n, err := r.in.Read(r.data[len(r.data):cap(r.data)])
		r.data = r.data[:len(r.data)+n]
		if err != nil {
			r.in = nil
			if err != io.EOF {
				r.err = fmt.Errorf("YSON input: %w", err)
			}
		}
		if n > 0 || err != nil {
			return n > 0
		}
	}
	r.in, r.err = nil, fmt.Errorf("YSON input: %w", io.ErrNoProgress)
	return false
}

// peek returns the next byte that is not white space, without reading it.
func (r *Reader) peek() (c byte, more bool) {
	if r.pos < len(r.data) && starts[r.data[r.pos]] != startsSpace {
		return r.data[r.pos], true
	}
	return r.skipSpace()
}

func (r *Reader) skipSpace() (c byte, more bool) {
	for {
		for r.pos < len(r.data) {
			c = r.data[r.pos]
			if starts[c] != startsSpace {
				return c, true
			}
			r.pos++
		}
		if !r.fill() {
			return 0, false
		}
	}
}

// refuseAt ends reading with an error at pos+ahead. Without more input the error is that the input ended, or the read error.
func (r *Reader) refuseAt(ahead int, more bool, message string) (Token, error) {
	r.fail(ahead, !more, message)
	return NoToken, r.err
}

// fail is refuseAt for scanners: it returns false, as they do.
func (r *Reader) fail(ahead int, truncated bool, message string) bool {
	if r.err != nil {
		return false // the stream broke; errors that follow from this are not worth reporting
	}
	at := min(r.pos+ahead, len(r.data))
	line, column := lineAndColumn(r.data[:at])
	if line == 1 {
		column += r.columnBase
	}
	r.err = &SyntaxError{
		Notation: "YSON", Message: message, truncated: truncated,
		Offset: r.base + int64(at), Line: line + r.linesBelow, Column: column,
	}
	return false
}

// hint names what was found instead, and suggests the YSON form to users who think of JSON.
func hint(c byte, more bool) string {
	switch {
	case !more:
		return ", but the input ends"
	case c == ',':
		return `, not ","; items are separated by ";"`
	case c == ':':
		return `, not ":"; keys and values are separated by "="`
	case c == '\'':
		return `, not "'"; strings stand in double quotes`
	}
	return ", not " + jsontext.QuoteByte(c)
}
