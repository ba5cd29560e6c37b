package yson

import (
	"fmt"
	"math"
	"strconv"
)

// ParseJSON reads one JSON document as a Node. Of the options only UTF8 and Plain matter: "$value",
// "$attributes" and "$type" are always recognised, and "$incomplete" is ignored. Whole numbers are
// exact: int64 if they fit, else uint64. Errors are of type *SyntaxError.
func ParseJSON(data []byte, options JSONOptions) (Node, error) {
	p := jsonParser{data: data, utf8: options.UTF8, plain: options.Plain}
	p.build.reset()
	p.build.expect(len(data))
	var n Node
	if p.value(&n, 0, false) && p.space() {
		p.fail(p.pos, "there is more after the end of the document")
	}
	if p.err != nil {
		return Node{}, p.err
	}
	return n, nil
}

type jsonParser struct {
	data        []byte
	pos         int
	utf8, plain bool
	scratch     []byte
	build       builder
	err         error
}

// fail records an error at a place. It returns false, as do all functions that find one.
func (p *jsonParser) fail(at int, format string, args ...any) bool {
	if p.err == nil {
		at = min(at, len(p.data))
		line, column := lineAndColumn(p.data[:at])
		p.err = &SyntaxError{Notation: "JSON", Message: fmt.Sprintf(format, args...),
			Offset: int64(at), Line: line, Column: column, truncated: at == len(p.data)}
	}
	return false
}

// space skips white space and reports whether something follows it.
func (p *jsonParser) space() bool {
	for p.pos < len(p.data) {
		switch p.data[p.pos] {
		case ' ', '\t', '\n', '\r':
			p.pos++
		default:
			return true
		}
	}
	return false
}

// next skips white space and returns the byte after it, zero at the end.
func (p *jsonParser) next() byte {
	if p.space() {
		return p.data[p.pos]
	}
	return 0
}

func (p *jsonParser) found() string {
	if p.pos >= len(p.data) {
		return "but the document ends"
	}
	return "not " + quoteByte(p.data[p.pos])
}

// value reads a value whose containers are at this depth. A bare value is the value under "$value",
// and has no "$value" itself.
func (p *jsonParser) value(n *Node, depth int, bare bool) bool {
	switch c := p.next(); {
	case c == '{':
		return p.object(n, depth, bare)
	case c == '[':
		return p.list(n, depth)
	case c == '"':
		text, ok := p.text()
		n.kind, n.text = StringKind, p.build.copyText(text)
		return ok
	case c == '-' || isDigit(c):
		return p.number(n)
	case p.word("true"):
		*n = Boolean(true)
	case p.word("false"):
		*n = Boolean(false)
	case p.word("null"):
		*n = Entity()
	default:
		return p.fail(p.pos, "a value must be here, %s", p.found())
	}
	return true
}

func (p *jsonParser) word(word string) bool {
	end := p.pos + len(word)
	if end > len(p.data) || string(p.data[p.pos:end]) != word || end < len(p.data) && inWord[p.data[end]] {
		return false
	}
	p.pos = end
	return true
}

func (p *jsonParser) number(n *Node) bool {
	start := p.pos
	for p.pos < len(p.data) && inNumber[p.data[p.pos]] {
		p.pos++
	}
	word := p.data[start:p.pos]
	double, ok := jsonNumber(word)
	if !ok {
		return p.fail(start, "%s is not a number", shorten(word))
	}
	token, number, why := parseNumber(word)
	switch {
	case token == DoubleToken:
		n.kind, n.number = DoubleKind, number
	case token == Int64Token:
		n.kind, n.number = Int64Kind, number
	case !double:
		u, err := strconv.ParseUint(string(word), 10, 64)
		if err != nil {
			return p.fail(start, "%s does not fit into 64 bits", shorten(word))
		}
		n.kind, n.number = Uint64Kind, u
	default:
		return p.fail(start, "%s %s", shorten(word), why)
	}
	return true
}

// jsonNumber checks the grammar -?(0|[1-9][0-9]*)(.[0-9]+)?([eE][+-]?[0-9]+)? and reports whether
// there is a fraction or an exponent.
func jsonNumber(word []byte) (double, ok bool) {
	digits := func() bool {
		from := len(word)
		for len(word) > 0 && isDigit(word[0]) {
			word = word[1:]
		}
		return len(word) < from
	}
	skip := func(c byte) bool {
		found := len(word) > 0 && word[0] == c
		if found {
			word = word[1:]
		}
		return found
	}
	skip('-')
	if !skip('0') && !digits() {
		return false, false
	}
	if skip('.') {
		double = true
		if !digits() {
			return false, false
		}
	}
	if skip('e') || skip('E') {
		double = true
		if !skip('+') {
			skip('-')
		}
		if !digits() {
			return false, false
		}
	}
	return double, len(word) == 0
}

func (p *jsonParser) list(n *Node, depth int) bool {
	if depth == MaxDepth {
		return p.fail(p.pos, "%s", tooDeepMessage)
	}
	n.kind = ListKind
	mark := len(p.build.nodes)
	p.pos++
	for first := true; ; first = false {
		c := p.next()
		if c == ']' && first {
			break
		}
		var item Node
		if !p.value(&item, depth+1, false) {
			return false
		}
		p.build.pushNode(item)
		if c = p.next(); c == ']' {
			break
		}
		if c != ',' {
			return p.fail(p.pos, `after an item must come "," or "]", %s`, p.found())
		}
		p.pos++
	}
	p.pos++
	if items := p.build.takeNodes(mark); len(items) > 0 {
		n.more = p.build.newMore()
		n.more.items = items
	}
	return true
}

// A jsonWrapper collects an object's information about the value under its "$value".
type jsonWrapper struct {
	start      int  // of the object
	bare       bool // the object cannot be a wrapper
	value      Node
	attributes Node
	typeName   string
	has        [4]bool // in the order of wrapperKeys
	at         [4]int
}

var wrapperKeys = [4]string{valueKey, attributesKey, typeKey, incompleteKey}

// object reads a map, or a value with attributes or a type.
func (p *jsonParser) object(n *Node, depth int, bare bool) bool {
	wrapper := jsonWrapper{start: p.pos, bare: bare}
	mark := len(p.build.entries)
	p.pos++
	for first := true; ; first = false {
		c := p.next()
		if c == '}' && first {
			break
		}
		if c != '"' {
			return p.fail(p.pos, "a key must be here, a string in double quotes, %s", p.found())
		}
		if !p.entry(&wrapper, depth) {
			return false
		}
		if c = p.next(); c == '}' {
			break
		}
		if c != ',' {
			return p.fail(p.pos, `after a value must come "," or "}", %s`, p.found())
		}
		p.pos++
	}
	p.pos++
	if wrapper.has != [4]bool{} {
		return p.unwrap(n, &wrapper, mark)
	}
	if depth == MaxDepth {
		return p.fail(wrapper.start, "%s", tooDeepMessage)
	}
	n.kind = MapKind
	if twice := p.build.duplicate(p.build.entries[mark:]); twice >= 0 {
		return p.fail(int(p.build.offsets[mark+twice]), "%s", duplicateMessage(p.build.entries[mark+twice].Key))
	}
	if entries := p.build.takeEntries(mark); len(entries) > 0 {
		n.more = p.build.newMore()
		n.more.entries = entries
	}
	return true
}

// entry reads a key and its value, into the wrapper if the key is one of its four.
func (p *jsonParser) entry(wrapper *jsonWrapper, depth int) bool {
	at := p.pos
	key, ok := p.text()
	if !ok {
		return false
	}
	special := -1
	if !p.plain && len(key) > 0 && key[0] == '$' {
		for i, name := range wrapperKeys {
			if string(key) == name {
				special = i
			}
		}
		switch {
		case special >= 0 && wrapper.bare: // refused before its value is read: wrappers cost no depth
			return p.fail(at, "key %q cannot stand directly under another such key", key)
		case special >= 0:
		case len(key) > 1 && key[1] == '$':
			key = key[1:]
		default:
			return p.fail(at, `key %s begins with a single "$"; write it with "$$"`, shorten(key))
		}
	}
	if special < 0 && depth == MaxDepth {
		return p.fail(at, "%s", tooDeepMessage)
	}
	entry := Entry{}
	if special < 0 {
		entry.Key = p.build.copyKey(key)
	} else if wrapper.has[special] {
		return p.fail(at, "%s", duplicateMessage(wrapperKeys[special]))
	}
	if c := p.next(); c != ':' {
		return p.fail(p.pos, `after a key must come ":", %s`, p.found())
	}
	p.pos++
	if special >= 0 {
		wrapper.has[special], wrapper.at[special] = true, at
		return p.special(wrapper, wrapperKeys[special], depth)
	}
	if !p.value(&entry.Value, depth+1, false) {
		return false
	}
	p.build.push(entry, int64(at))
	return true
}

// special reads the value of one of the four keys.
func (p *jsonParser) special(wrapper *jsonWrapper, key string, depth int) bool {
	at := p.pos
	if p.space() {
		at = p.pos
	}
	switch key {
	case valueKey:
		return p.value(&wrapper.value, depth, true)
	case attributesKey:
		if !p.value(&wrapper.attributes, depth, true) {
			return false
		}
		if wrapper.attributes.kind != MapKind {
			return p.fail(at, `the value of "$attributes" must be an object`)
		}
		return true
	}
	var n Node
	if !p.value(&n, depth, true) {
		return false
	}
	if key == typeKey {
		if n.kind != StringKind {
			return p.fail(at, `the value of "$type" must be a string`)
		}
		wrapper.typeName = n.text
	}
	return true
}

// unwrap turns a wrapper into a Node.
func (p *jsonParser) unwrap(n *Node, wrapper *jsonWrapper, mark int) bool {
	if !wrapper.has[0] {
		for i := range wrapperKeys {
			if wrapper.has[i] {
				return p.fail(wrapper.at[i], "key %q needs a key %q beside it", wrapperKeys[i], valueKey)
			}
		}
	}
	if len(p.build.entries) > mark {
		return p.fail(int(p.build.offsets[mark]), `key %s cannot stand beside "$value"`, shorten([]byte(p.build.entries[mark].Key)))
	}
	*n = wrapper.value
	if wrapper.has[2] && !p.convert(n, wrapper) {
		return false
	}
	if attributes := wrapper.attributes.Entries(); len(attributes) > 0 {
		if n.more == nil {
			n.more = p.build.newMore()
		}
		n.more.attributes = attributes
	}
	return true
}

// convert converts the value of a wrapper to the type it names. Strings become any value that they
// spell, whole numbers any number.
func (p *jsonParser) convert(n *Node, wrapper *jsonWrapper) bool {
	converted, known := n.as(wrapper.typeName)
	switch {
	case !known:
		return p.fail(wrapper.at[2], `%q is no "$type"; there are string, int64, uint64, double and boolean`, wrapper.typeName)
	case converted.kind.String() != wrapper.typeName:
		return p.fail(wrapper.at[0], `this value, of type %v, is not of its "$type" %q`, n.kind, wrapper.typeName)
	}
	*n = converted
	return true
}

// as returns a scalar converted to the named type. A value that cannot be converted is returned
// unchanged.
func (n Node) as(typeName string) (converted Node, known bool) {
	switch typeName {
	case "string":
	case "int64":
		if i, ok := n.Int64(); ok {
			return Int64(i), true
		}
		if i, err := strconv.ParseInt(n.text, 10, 64); err == nil {
			return Int64(i), true
		}
	case "uint64":
		if u, ok := n.Uint64(); ok {
			return Uint64(u), true
		}
		if u, err := strconv.ParseUint(n.text, 10, 64); err == nil {
			return Uint64(u), true
		}
	case "double":
		if f, ok := n.Double(); ok {
			return Double(f), true
		}
		if f, ok := doubleFromText(n.text); ok {
			return Double(f), true
		}
	case "boolean":
		switch n.text {
		case "true", "false":
			return Boolean(n.text == "true"), true
		}
	default:
		return n, false
	}
	return n, true
}

// doubleFromText reads a number from a string, more strictly than strconv, which also accepts
// hexadecimal numbers and "infinity".
func doubleFromText(text string) (float64, bool) {
	switch text {
	case "nan":
		return math.NaN(), true
	case "inf":
		return math.Inf(1), true
	case "-inf":
		return math.Inf(-1), true
	}
	if _, ok := jsonNumber([]byte(text)); !ok {
		return 0, false
	}
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil
}
