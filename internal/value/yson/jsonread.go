package yson

import (
	"math"
	"strconv"

	"github.com/weirhq/weir/internal/value/jsontext"
)

// ParseJSON reads one JSON document as a Node. Of the options only UTF8 and Plain matter: "$value",
// "$attributes" and "$type" are always recognised, and "$incomplete" is ignored. Whole numbers are
// exact: int64 if they fit, else uint64. Errors are of type *SyntaxError.
func ParseJSON(data []byte, options JSONOptions) (Node, error) {
	p := jsonParser{Scanner: jsontext.Scanner{Data: data, Bytes: !options.UTF8}, plain: options.Plain}
	p.build.expect(len(data))
	var n Node
	if !p.value(&n, 0, false) || !p.End() {
		err := p.Err()
		line, column := lineAndColumn(data[:err.Offset])
		return Node{}, &SyntaxError{Notation: "JSON", Message: err.Message,
			Offset: int64(err.Offset), Line: line, Column: column, truncated: err.Code == jsontext.Truncated}
	}
	return n, nil
}

// jsonParser builds Nodes from JSON. Its functions return false on an error, which the Scanner then
// has.
type jsonParser struct {
	jsontext.Scanner
	plain bool
	build builder
}

// fail records an error that JSON does not know about.
func (p *jsonParser) fail(at int, format string, args ...any) bool {
	return p.Refuse(jsontext.Syntax, at, format, args...)
}

// value reads a value whose containers are at this depth. A bare value is the value under "$value",
// and has no "$value" itself.
func (p *jsonParser) value(n *Node, depth int, bare bool) bool {
	switch p.Peek() {
	case jsontext.None:
		return false
	case jsontext.Object:
		return p.object(n, depth, bare)
	case jsontext.List:
		return p.list(n, depth)
	case jsontext.String:
		text, ok := p.Text()
		n.kind, n.text = StringKind, p.build.copyText(text)
		return ok
	case jsontext.Number:
		var number jsontext.Type
		number, n.number = p.Exact()
		n.kind = numberKinds[number]
		return number != jsontext.NoType
	case jsontext.True:
		*n = Boolean(true)
	case jsontext.False:
		*n = Boolean(false)
	case jsontext.Null:
		*n = Entity()
	}
	p.Word()
	return true
}

var numberKinds = [...]Kind{jsontext.Int64: Int64Kind, jsontext.Uint64: Uint64Kind, jsontext.Float64: DoubleKind}

func (p *jsonParser) list(n *Node, depth int) bool {
	if depth == MaxDepth {
		return p.fail(p.Offset(), "%s", tooDeepMessage)
	}
	n.kind = ListKind
	mark := len(p.build.nodes)
	for p.Open(); p.Item(); {
		var item Node
		if !p.value(&item, depth+1, false) {
			return false
		}
		p.build.pushNode(item)
	}
	if items := p.build.takeNodes(mark); len(items) > 0 {
		n.more = p.build.newMore()
		n.more.items = items
	}
	return p.Err() == nil
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
	wrapper := jsonWrapper{start: p.Offset(), bare: bare}
	mark := len(p.build.entries)
	p.Open()
	for {
		key, at, more := p.Key()
		if !more {
			break
		}
		if !p.entry(&wrapper, key, at, depth) {
			return false
		}
	}
	if p.Err() != nil {
		return false
	}
	if wrapper.has != [4]bool{} {
		return p.unwrap(n, &wrapper, mark)
	}
	if depth == MaxDepth {
		return p.fail(wrapper.start, "%s", tooDeepMessage)
	}
	n.kind = MapKind
	if entries := p.build.takeEntries(mark); len(entries) > 0 {
		n.more = p.build.newMore()
		n.more.entries = entries
	}
	return true
}

// entry reads the value of a key, into the wrapper if the key is one of its four.
func (p *jsonParser) entry(wrapper *jsonWrapper, key []byte, at, depth int) bool {
	if !p.plain && len(key) > 0 && key[0] == '$' {
		for i, name := range wrapperKeys {
			if string(key) == name {
				return p.special(wrapper, i, at, depth)
			}
		}
		if len(key) == 1 || key[1] != '$' {
			return p.fail(at, `key %s begins with a single "$"; write it with "$$"`, jsontext.Excerpt(key))
		}
		key = key[1:]
	}
	if depth == MaxDepth {
		return p.fail(at, "%s", tooDeepMessage)
	}
	entry := Entry{Key: p.build.copyKey(key)}
	if !p.value(&entry.Value, depth+1, false) {
		return false
	}
	p.build.push(entry, at)
	return true
}

// special reads the value of one of the four keys, by its place in wrapperKeys.
func (p *jsonParser) special(wrapper *jsonWrapper, which, keyAt, depth int) bool {
	key := wrapperKeys[which]
	if wrapper.bare { // refused before its value is read: wrappers cost no depth
		return p.fail(keyAt, "key %q cannot stand directly under another such key", key)
	}
	wrapper.has[which], wrapper.at[which] = true, keyAt
	at := p.Offset()
	var n Node
	if !p.value(&n, depth, true) {
		return false
	}
	switch key {
	case valueKey:
		wrapper.value = n
	case attributesKey:
		if n.kind != MapKind {
			return p.fail(at, `the value of "$attributes" must be an object`)
		}
		wrapper.attributes = n
	case typeKey:
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
		return p.fail(p.build.offsets[mark], `key %s cannot stand beside "$value"`, jsontext.Excerpt([]byte(p.build.entries[mark].Key)))
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
	n, ok := jsontext.ParseNumber(text)
	if !ok {
		return 0, false
	}
	return n.Float64()
}
