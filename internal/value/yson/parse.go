package yson

import (
	"fmt"

	"github.com/weirhq/weir/internal/value/jsontext"
)

// Parse reads one value. Text and binary may be mixed.
func Parse(data []byte) (Node, error) {
	p := newParser(data)
	var n Node
	if p.value(&n, 0, 0) {
		if c, more := p.peek(); more {
			p.fail(p.pos, "there is more after the end of the value"+hint(c, true))
		}
	}
	if p.err != nil {
		return Node{}, p.err
	}
	return n, nil
}

// CutAttributes reads attributes at the start of data, as rich paths have them:
// <append=%true>//tmp/t. It returns the rest, which need not be YSON. Without attributes rest is
// data.
func CutAttributes(data []byte) (attributes []Entry, rest []byte, err error) {
	if len(data) == 0 || data[0] != '<' {
		return nil, data, nil
	}
	p := newParser(data)
	attributes, ok := p.entries('<', '>', 0)
	if !ok {
		return nil, data, p.err
	}
	return attributes, data[p.pos:], nil
}

// parser builds a Node from bytes. Its functions return false on an error, which is then in err.
// A container is named by its opening bracket, zero at the top.
type parser struct {
	data    []byte
	pos     int
	scratch []byte // for strings that had to be unescaped
	build   builder
	err     error
}

func newParser(data []byte) *parser {
	p := &parser{data: data}
	p.build.expect(len(data))
	return p
}

// fail records an error at an offset. At the end of the data it is that the input ends too early.
func (p *parser) fail(at int, message string) bool { return p.failed(at, at >= len(p.data), message) }

// truncated records that the input ends inside the token at pos.
func (p *parser) truncated(message string) bool { return p.failed(p.pos, true, message) }

func (p *parser) failed(at int, truncated bool, message string) bool {
	line, column := lineAndColumn(p.data[:at])
	p.err = &SyntaxError{Notation: "YSON", Message: message, Offset: int64(at), Line: line, Column: column, truncated: truncated}
	return false
}

// peek returns the next byte that is not white space, without reading it.
func (p *parser) peek() (c byte, more bool) {
	for ; p.pos < len(p.data); p.pos++ {
		if c = p.data[p.pos]; starts[c] != startsSpace {
			return c, true
		}
	}
	return 0, false
}

// value reads a value and its attributes in a container at this depth.
func (p *parser) value(n *Node, within byte, depth int) bool {
	c, more := p.peek()
	var attributes []Entry
	bare, expected := false, "a value must be here"
	if c == '<' {
		var ok bool
		if attributes, ok = p.entries('<', '>', depth); !ok {
			return false
		}
		if c, more = p.peek(); c == '<' {
			return p.fail(p.pos, "a value has attributes only once")
		}
		bare, expected = true, "after attributes must come a value"
	}
	ok := false
	switch {
	case !more && within != 0:
		return p.fail(p.pos, endsInside(within))
	case !more && bare:
		return p.fail(p.pos, "the input ends after attributes, before their value")
	case !more:
		return p.fail(p.pos, "the input is empty; there must be a value")
	case c == '[':
		ok = p.list(n, depth)
	case c == '{':
		var entries []Entry
		n.kind = MapKind
		if entries, ok = p.entries('{', '}', depth); len(entries) > 0 {
			n.more = p.build.newMore()
			n.more.entries = entries
		}
	case starts[c] == startsNothing:
		return p.fail(p.pos, expected+hint(c, true))
	default:
		ok = p.scalar(n, c)
	}
	if ok && len(attributes) > 0 {
		if n.more == nil {
			n.more = p.build.newMore()
		}
		n.more.attributes = attributes
	}
	return ok
}

func endsInside(open byte) string { return fmt.Sprintf(`the input ends inside "%c"`, open) }

// open enters a container.
func (p *parser) open(depth int) bool {
	if depth == MaxDepth {
		return p.fail(p.pos, tooDeepMessage)
	}
	p.pos++
	return true
}

// item moves to the next item of a container and reports whether there is one. At the end it leaves
// the container.
func (p *parser) item(open, shut byte, first bool) (another, ok bool) {
	c, more := p.peek()
	if more && !first {
		if c == ';' {
			p.pos++
			c, more = p.peek()
		} else if !closes(c) {
			return false, p.fail(p.pos, `between items must stand ";"`+hint(c, true))
		}
	}
	switch {
	case !more:
		return false, p.fail(p.pos, endsInside(open))
	case c == shut:
		p.pos++
		return false, true
	case closes(c):
		return false, p.fail(p.pos, fmt.Sprintf(`"%c" is open, so "%c" cannot be closed here`, open, c))
	}
	return true, true
}

func closes(c byte) bool { return c == ']' || c == '}' || c == '>' }

func (p *parser) list(n *Node, depth int) bool {
	if !p.open(depth) {
		return false
	}
	n.kind = ListKind
	mark := len(p.build.nodes)
	for first := true; ; first = false {
		another, ok := p.item('[', ']', first)
		if !ok {
			return false
		}
		if !another {
			break
		}
		var item Node
		if !p.value(&item, '[', depth+1) {
			return false
		}
		p.build.pushNode(item)
	}
	if items := p.build.takeNodes(mark); len(items) > 0 {
		n.more = p.build.newMore()
		n.more.items = items
	}
	return true
}

// entries reads the keys and values of a map or of attributes.
func (p *parser) entries(open, shut byte, depth int) (entries []Entry, ok bool) {
	if !p.open(depth) {
		return nil, false
	}
	b := &p.build
	mark := len(b.entries)
	for first := true; ; first = false {
		another, ok := p.item(open, shut, first)
		if !ok {
			return nil, false
		}
		if !another {
			break
		}
		at := p.pos
		key, ok := p.key()
		if !ok {
			return nil, false
		}
		entry := Entry{Key: b.copyKey(key)}
		if !p.value(&entry.Value, open, depth+1) {
			return nil, false
		}
		b.push(entry, at)
	}
	if twice := b.duplicate(b.entries[mark:]); twice >= 0 {
		key := b.entries[mark+twice].Key
		return nil, p.fail(b.offsets[mark+twice], fmt.Sprintf("key %s is here for the second time", jsontext.Excerpt([]byte(key))))
	}
	return b.takeEntries(mark), true
}

// key reads a key and the "=" after it. The result is valid until the next string is read.
func (p *parser) key() (key []byte, ok bool) {
	switch c := p.data[p.pos]; {
	case starts[c] == startsWord:
		key, ok = p.word(), true
	case c == '"':
		key, ok = p.quoted()
	case c == stringMarker:
		key, ok = p.binaryString()
	default:
		return nil, p.fail(p.pos, "a key must be here, a string"+hint(c, true))
	}
	if !ok {
		return nil, false
	}
	if c, more := p.peek(); c != '=' {
		return nil, p.fail(p.pos, `after a key must come "="`+hint(c, more))
	}
	p.pos++
	return key, true
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
