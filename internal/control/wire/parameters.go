package wire

import (
	"math"
	"time"

	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/ypath"
	"github.com/weirhq/weir/internal/value/yson"
)

// Parameters are the parameters of a command. Keys that a command does not read are ignored; the
// entity counts as not given.
type Parameters struct{ Node yson.Node }

// Get returns a parameter under the first of its names that is given.
func (p Parameters) Get(names ...string) (yson.Node, bool) {
	for _, name := range names {
		if n, ok := p.Node.Get(name); ok && !n.IsEntity() {
			return n, true
		}
	}
	return yson.Entity(), false
}

// Has reports whether a parameter was given.
func (p Parameters) Has(names ...string) bool {
	_, ok := p.Get(names...)
	return ok
}

// Missing is the error for a missing required parameter.
func Missing(name string) *Error {
	return Errorf(CodeGeneric, "Missing required parameter /%s", name).With("parameter", yson.String(name))
}

// WrongType is the error for a parameter of the wrong type.
func WrongType(name, expected string, n yson.Node) *Error {
	return Errorf(CodeGeneric, "Error parsing parameter /%s: it has invalid type: expected %s, actual %s", name, expected, n.Kind()).
		With("parameter", yson.String(name))
}

// Text returns a string. Attributes that came with it are dropped.
func (p Parameters) Text(name, otherwise string) (string, error) {
	n, ok := p.Get(name)
	if !ok {
		return otherwise, nil
	}
	s, ok := n.Text()
	if !ok {
		return "", WrongType(name, "string", n)
	}
	return s, nil
}

// NeedText returns a required string.
func (p Parameters) NeedText(name string) (string, error) {
	if !p.Has(name) {
		return "", Missing(name)
	}
	return p.Text(name, "")
}

// Boolean returns a boolean. Query strings have no booleans, so it also accepts their words and
// numbers.
func (p Parameters) Boolean(name string, otherwise bool) (bool, error) {
	n, ok := p.Get(name)
	if !ok {
		return otherwise, nil
	}
	if b, ok := n.Boolean(); ok {
		return b, nil
	}
	if s, ok := n.Text(); ok {
		switch s {
		case "true", "%true", "1":
			return true, nil
		case "false", "%false", "0":
			return false, nil
		}
	}
	if i, ok := n.Int64(); ok && (i == 0 || i == 1) {
		return i == 1, nil
	}
	return false, WrongType(name, "boolean", n)
}

// Integer returns a whole number.
func (p Parameters) Integer(name string, otherwise int64) (int64, error) {
	n, ok := p.Get(name)
	if !ok {
		return otherwise, nil
	}
	i, ok := n.Int64()
	if !ok {
		return 0, WrongType(name, "int64", n)
	}
	return i, nil
}

// Duration returns a duration: milliseconds, or text with units.
func (p Parameters) Duration(name string, otherwise time.Duration) (time.Duration, error) {
	n, ok := p.Get(name)
	if !ok {
		return otherwise, nil
	}
	if text, ok := n.Text(); ok {
		d, err := document.ParseDuration(text)
		if err != nil {
			return 0, Errorf(CodeGeneric, "Error parsing parameter /%s", name).Because(err)
		}
		return d, nil
	}
	ms, ok := n.Int64()
	switch {
	case !ok:
		return 0, WrongType(name, "int64", n)
	case ms < 0 || ms > math.MaxInt64/int64(time.Millisecond):
		return 0, Errorf(CodeGeneric, "Error parsing parameter /%s: %d milliseconds are out of range", name, ms)
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// Moment returns a time; the zero time if it was not given.
func (p Parameters) Moment(name string) (time.Time, error) {
	text, err := p.Text(name, "")
	if err != nil || text == "" {
		return time.Time{}, err
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, Errorf(CodeGeneric, "Error parsing parameter /%s: %q is no time such as 2026-01-31T23:59:59.123456Z", name, document.Shorten(text))
}

// ID returns an identifier; the zero one if it was not given.
func (p Parameters) ID(name string) (guid.ID, error) {
	text, err := p.Text(name, "")
	if err != nil || text == "" {
		return guid.ID{}, err
	}
	id, err := guid.Parse(text)
	if err != nil {
		return id, Errorf(CodeGeneric, "Error parsing parameter /%s", name).Because(err)
	}
	return id, nil
}

// NeedID returns a required identifier.
func (p Parameters) NeedID(name string) (guid.ID, error) {
	if !p.Has(name) {
		return guid.ID{}, Missing(name)
	}
	return p.ID(name)
}

// TextList returns a list of strings; nil if it was not given. One string is a
// list of one.
func (p Parameters) TextList(name string) ([]string, error) {
	n, ok := p.Get(name)
	if !ok {
		return nil, nil
	}
	if s, ok := n.Text(); ok {
		return []string{s}, nil
	}
	if n.Kind() != yson.ListKind {
		return nil, WrongType(name, "list", n)
	}
	list := make([]string, 0, len(n.Items()))
	for _, item := range n.Items() {
		s, ok := item.Text()
		if !ok {
			return nil, WrongType(name, "list of strings", item)
		}
		list = append(list, s)
	}
	return list, nil
}

// Mapping returns a map; an empty one if it was not given.
func (p Parameters) Mapping(name string) (yson.Node, error) {
	n, ok := p.Get(name)
	switch {
	case !ok:
		return yson.Map(), nil
	case n.Kind() != yson.MapKind:
		return n, WrongType(name, "map", n)
	}
	return n, nil
}

// Document returns a map as a document; an empty one if it was not given.
func (p Parameters) Document(name string) (document.Value, error) {
	n, err := p.Mapping(name)
	if err != nil {
		return document.Null(), err
	}
	return ToDocument(n)
}

// Path returns a required path. Attributes that came with it, in either notation, are dropped.
func (p Parameters) Path(name string) (ypath.Path, error) {
	text, err := p.NeedText(name)
	if err != nil {
		return ypath.Path{}, err
	}
	_, rest, err := yson.CutAttributes([]byte(text))
	if err != nil {
		return ypath.Path{}, Errorf(CodeGeneric, "Error parsing parameter /%s", name).Because(err)
	}
	path, err := ypath.Parse(string(rest))
	if err != nil {
		return path, Errorf(CodeGeneric, "Error parsing parameter /%s", name).Because(err)
	}
	return path, nil
}

// AttributeNamesOf reads the parameter "attributes": a list of names, or a map
// with "keys". Nil means that it was not given.
func (p Parameters) AttributeNamesOf(name string) ([]string, error) {
	n, given := p.Get(name)
	if given && n.Kind() == yson.MapKind {
		if keys, there := n.Get("keys"); there {
			return Parameters{yson.Map(yson.Pair(name, keys))}.TextList(name)
		}
		return nil, nil
	}
	return p.TextList(name)
}

// textInto is a text parameter and its destination.
type textInto struct {
	name string
	into *string
}

// TextInto returns a text parameter with its destination; see [Parameters.TextsInto].
func TextInto(name string, into *string) textInto { return textInto{name, into} }

// TextsInto reads optional text parameters.
func (p Parameters) TextsInto(list ...textInto) (err error) {
	for _, t := range list {
		if *t.into, err = p.Text(t.name, ""); err != nil {
			return err
		}
	}
	return nil
}
