package api

import (
	"math"
	"time"

	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/ypath"
	"github.com/weirhq/weir/internal/value/yson"
)

// parameters are what a command was given. Keys that a command does not ask for
// are not looked at; the entity is the same as nothing.
type parameters struct{ node yson.Node }

// get returns a parameter under the first of its names that is there.
func (p parameters) get(names ...string) (yson.Node, bool) {
	for _, name := range names {
		if n, ok := p.node.Get(name); ok && !n.IsEntity() {
			return n, true
		}
	}
	return yson.Entity(), false
}

// has says whether a parameter was given.
func (p parameters) has(names ...string) bool {
	_, ok := p.get(names...)
	return ok
}

func missing(name string) *Error {
	return errorf(codeGeneric, "Missing required parameter /%s", name).with("parameter", yson.String(name))
}

func wrongType(name, expected string, n yson.Node) *Error {
	return errorf(codeGeneric, "Error parsing parameter /%s: it has invalid type: expected %s, actual %s", name, expected, n.Kind()).
		with("parameter", yson.String(name))
}

// text returns a string. Attributes that came with it are dropped.
func (p parameters) text(name, otherwise string) (string, error) {
	n, ok := p.get(name)
	if !ok {
		return otherwise, nil
	}
	s, ok := n.Text()
	if !ok {
		return "", wrongType(name, "string", n)
	}
	return s, nil
}

// needText returns a string that must be there.
func (p parameters) needText(name string) (string, error) {
	if !p.has(name) {
		return "", missing(name)
	}
	return p.text(name, "")
}

// boolean returns a truth. Query strings have no booleans, so their words and
// numbers will do.
func (p parameters) boolean(name string, otherwise bool) (bool, error) {
	n, ok := p.get(name)
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
	return false, wrongType(name, "boolean", n)
}

// integer returns a whole number.
func (p parameters) integer(name string, otherwise int64) (int64, error) {
	n, ok := p.get(name)
	if !ok {
		return otherwise, nil
	}
	i, ok := n.Int64()
	if !ok {
		return 0, wrongType(name, "int64", n)
	}
	return i, nil
}

// duration returns a length of time: milliseconds, or text with units.
func (p parameters) duration(name string, otherwise time.Duration) (time.Duration, error) {
	n, ok := p.get(name)
	if !ok {
		return otherwise, nil
	}
	if text, ok := n.Text(); ok {
		d, err := document.ParseDuration(text)
		if err != nil {
			return 0, errorf(codeGeneric, "Error parsing parameter /%s", name).because(err)
		}
		return d, nil
	}
	ms, ok := n.Int64()
	switch {
	case !ok:
		return 0, wrongType(name, "int64", n)
	case ms < 0 || ms > math.MaxInt64/int64(time.Millisecond):
		return 0, errorf(codeGeneric, "Error parsing parameter /%s: %d milliseconds are out of range", name, ms)
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// moment returns a time; the zero time if it was not given.
func (p parameters) moment(name string) (time.Time, error) {
	text, err := p.text(name, "")
	if err != nil || text == "" {
		return time.Time{}, err
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, errorf(codeGeneric, "Error parsing parameter /%s: %q is no time such as 2026-01-31T23:59:59.123456Z", name, document.Shorten(text))
}

// id returns an identifier; the zero one if it was not given.
func (p parameters) id(name string) (guid.ID, error) {
	text, err := p.text(name, "")
	if err != nil || text == "" {
		return guid.ID{}, err
	}
	id, err := guid.Parse(text)
	if err != nil {
		return id, errorf(codeGeneric, "Error parsing parameter /%s", name).because(err)
	}
	return id, nil
}

// needID returns an identifier that must be there.
func (p parameters) needID(name string) (guid.ID, error) {
	if !p.has(name) {
		return guid.ID{}, missing(name)
	}
	return p.id(name)
}

// textList returns a list of strings; nil if it was not given. One string is a
// list of one.
func (p parameters) textList(name string) ([]string, error) {
	n, ok := p.get(name)
	if !ok {
		return nil, nil
	}
	if s, ok := n.Text(); ok {
		return []string{s}, nil
	}
	if n.Kind() != yson.ListKind {
		return nil, wrongType(name, "list", n)
	}
	list := make([]string, 0, len(n.Items()))
	for _, item := range n.Items() {
		s, ok := item.Text()
		if !ok {
			return nil, wrongType(name, "list of strings", item)
		}
		list = append(list, s)
	}
	return list, nil
}

// mapping returns a map; an empty one if it was not given.
func (p parameters) mapping(name string) (yson.Node, error) {
	n, ok := p.get(name)
	switch {
	case !ok:
		return yson.Map(), nil
	case n.Kind() != yson.MapKind:
		return n, wrongType(name, "map", n)
	}
	return n, nil
}

// document returns a map as a document; an empty one if it was not given.
func (p parameters) document(name string) (document.Value, error) {
	n, err := p.mapping(name)
	if err != nil {
		return document.Null(), err
	}
	return toDocument(n)
}

// path returns a path that must be there. Attributes that came with it, in either
// notation, are dropped.
func (p parameters) path(name string) (ypath.Path, error) {
	text, err := p.needText(name)
	if err != nil {
		return ypath.Path{}, err
	}
	_, rest, err := yson.CutAttributes([]byte(text))
	if err != nil {
		return ypath.Path{}, errorf(codeGeneric, "Error parsing parameter /%s", name).because(err)
	}
	path, err := ypath.Parse(string(rest))
	if err != nil {
		return path, errorf(codeGeneric, "Error parsing parameter /%s", name).because(err)
	}
	return path, nil
}

// attributeNamesOf reads the parameter "attributes": a list of names, or a map
// with "keys". Nil means that it was not given.
func (p parameters) attributeNamesOf(name string) ([]string, error) {
	n, given := p.get(name)
	if given && n.Kind() == yson.MapKind {
		if keys, there := n.Get("keys"); there {
			return parameters{yson.Map(yson.Pair(name, keys))}.textList(name)
		}
		return nil, nil
	}
	return p.textList(name)
}

// textInto is a parameter that is text and where it goes.
type textInto struct {
	name string
	into *string
}

// textsInto reads parameters that are text and may be left out.
func (p parameters) textsInto(list ...textInto) (err error) {
	for _, t := range list {
		if *t.into, err = p.text(t.name, ""); err != nil {
			return err
		}
	}
	return nil
}
