package api

import (
	"cmp"
	"slices"

	"github.com/weirhq/weir/internal/value/ypath"
	"github.com/weirhq/weir/internal/value/yson"
)

// folder is a directory of the scheduler's view: few children, each made when it
// is asked for.
type folder struct {
	bare
	list []folderChild
	// opaque ones are the entity when something above them is read.
	opaque bool
}

func (f folder) shape() shape {
	if f.opaque {
		return opaqueShape
	}
	return mapShape
}

type folderChild struct {
	key string
	get func(c *call) (object, error)
}

// childAt makes a child of a folder.
func childAt(key string, get func(c *call) object) folderChild {
	return folderChild{key, func(c *call) (object, error) { return get(c), nil }}
}

// childValue makes a child of a folder that is a value.
func childValue(key string, get func(c *call) (yson.Node, error)) folderChild {
	return childAt(key, func(c *call) object { return computed{get: func() (yson.Node, error) { return get(c) }} })
}

func (folder) kind() string { return "map_node" }

func (f folder) keys(*call) ([]string, error) {
	keys := make([]string, len(f.list))
	for i := range f.list {
		keys[i] = f.list[i].key
	}
	return keys, nil
}

func (f folder) child(c *call, key string) (object, error) {
	i := slices.IndexFunc(f.list, func(t folderChild) bool { return t.key == key })
	if i < 0 {
		return nil, nil
	}
	return f.list[i].get(c)
}

// table is a directory of the scheduler's view with many children of one kind.
// Read as a whole it is one value, which is made in one go; a path into it makes
// only the child that it leads to.
type table struct {
	bare
	whole func() (yson.Node, error)
	list  func() ([]string, error)
	get   func(key string) (object, error)
	// text writes the whole with some fields; it may be nil.
	text func(as format, fields []string) ([][]byte, error)
	// parts says that somebody wants children and not the whole.
	parts bool
}

func (table) kind() string { return "map_node" }

func (t table) shape() shape {
	if t.parts {
		return mapShape
	}
	return documentShape
}

func (t table) keys(*call) ([]string, error)              { return t.list() }
func (t table) child(_ *call, key string) (object, error) { return t.get(key) }
func (t table) value(*call) (yson.Node, error)            { return t.whole() }

// written writes the whole at once.
func (t table) written(c *call, as format) ([][]byte, bool, error) {
	if t.text == nil {
		return nil, false, nil
	}
	fields, err := c.requestedFields()
	if err != nil {
		return nil, false, err
	}
	text, err := t.text(as, fields)
	if err != nil {
		return nil, false, errorf(codeGeneric, "The answer cannot be written in this format").because(err)
	}
	return text, true, nil
}

func (t table) as(c *call, key string) object { t.parts = c.wantsParts(key); return t }

// wantsParts says whether a request is about children of a directory with this
// name rather than about the directory as a whole. A wrong answer costs time and
// changes nothing else.
func (c *call) wantsParts(key string) bool {
	if c.commandName == "list" {
		return true
	}
	path, err := c.parameters.path("path")
	if err != nil {
		return true
	}
	for i, step := range path.Steps {
		if step.Kind == ypath.Child && step.Name == key && i+1 < len(path.Steps) && path.Steps[i+1].Kind == ypath.Child {
			return true
		}
	}
	return false
}

// sortedKeys lists the keys of a map in their order.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
