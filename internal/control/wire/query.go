package wire

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/weirhq/weir/internal/value/yson"
)

// Limits on what a query string may build.
const (
	maxQueryDepth = 32
	maxQueryPairs = 10_000
)

// branch is a value under construction: text, a list or a map.
type branch struct {
	text   *string
	isList bool
	keys   []string
	items  map[string]*branch
}

// QueryParameters reads a query string: a=1&b[c]=x&l[]=y. Whole numbers are
// numbers, everything else is text.
func QueryParameters(raw string) (yson.Node, error) {
	root := &branch{}
	for n, pair := range strings.Split(raw, "&") {
		if pair == "" {
			continue
		}
		if n >= maxQueryPairs {
			return yson.Node{}, Errorf(CodeGeneric, "The query string has more than %d parameters", maxQueryPairs)
		}
		rawKey, rawValue, _ := strings.Cut(pair, "=")
		key, err := url.QueryUnescape(rawKey)
		value, err2 := url.QueryUnescape(rawValue)
		if err != nil || err2 != nil {
			return yson.Node{}, Errorf(CodeGeneric, "Error parsing the query string at %q", CutText(pair, 200))
		}
		if err := root.put(key, value); err != nil {
			return yson.Node{}, err
		}
	}
	return root.node(), nil
}

// put sets the value under a key such as b[c][].
func (b *branch) put(key, value string) error {
	refuse := func(why string) error {
		return Errorf(CodeGeneric, "Error parsing the query parameter %q: %s", CutText(key, 200), why)
	}
	name, rest, nested := strings.Cut(key, "[")
	path := []string{name}
	if nested {
		inner, ok := strings.CutSuffix(rest, "]")
		if !ok {
			return refuse("a bracket is not closed")
		}
		path = append(path, strings.Split(inner, "][")...)
	}
	if len(path) > maxQueryDepth {
		return refuse("it is nested too deep")
	}
	at := b
	for i, part := range path {
		next, why := at.step(part, i > 0)
		if why != "" {
			return refuse(why)
		}
		at = next
	}
	if at.items != nil {
		return refuse("it is both a value and a map or a list")
	}
	at.text = &value
	return nil
}

// step goes to a child, creating it if it does not exist. Inside brackets, an empty part or a
// number is a position in a list.
func (b *branch) step(part string, inBrackets bool) (next *branch, why string) {
	if b.text != nil {
		return nil, "it is both a value and a map or a list"
	}
	index, err := strconv.ParseUint(part, 10, 31)
	isPlace := inBrackets && (part == "" || err == nil)
	if b.items == nil {
		b.items, b.isList = map[string]*branch{}, isPlace
	}
	if b.isList != isPlace {
		return nil, "it is both a map and a list"
	}
	if isPlace && (part == "" || index >= uint64(len(b.keys))) {
		part = strconv.Itoa(len(b.keys))
	}
	if b.items[part] == nil {
		b.items[part] = &branch{}
		b.keys = append(b.keys, part)
	}
	return b.items[part], ""
}

func (b *branch) node() yson.Node {
	switch {
	case b.text != nil:
		if i, err := strconv.ParseInt(*b.text, 10, 64); err == nil {
			return yson.Int64(i)
		}
		return yson.String(*b.text)
	case b.isList:
		items := make([]yson.Node, len(b.keys))
		for i, key := range b.keys {
			items[i] = b.items[key].node()
		}
		return yson.List(items...)
	}
	if value, ok := b.items["$value"]; ok {
		n := value.node()
		if attributes, ok := b.items["$attributes"]; ok {
			return n.WithAttributes(attributes.node().Entries()...)
		}
		return n
	}
	entries := make([]yson.Entry, len(b.keys))
	for i, key := range b.keys {
		entries[i] = yson.Pair(key, b.items[key].node())
	}
	return yson.Map(entries...)
}

// Merge merges one map over another, key by key, recursively.
func Merge(under, over yson.Node) yson.Node {
	if under.Kind() != yson.MapKind || over.Kind() != yson.MapKind {
		return over
	}
	entries := make([]yson.Entry, 0, len(under.Entries())+len(over.Entries()))
	place := make(map[string]int, cap(entries))
	for _, e := range under.Entries() {
		place[e.Key] = len(entries)
		entries = append(entries, e)
	}
	for _, e := range over.Entries() {
		if i, there := place[e.Key]; there {
			entries[i].Value = Merge(entries[i].Value, e.Value)
			continue
		}
		place[e.Key] = len(entries)
		entries = append(entries, e)
	}
	attributes := over.Attributes()
	if len(attributes) == 0 {
		attributes = under.Attributes()
	}
	return yson.Map(entries...).WithAttributes(attributes...)
}
