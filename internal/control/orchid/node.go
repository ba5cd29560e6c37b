package orchid

import (
	"cmp"
	"slices"

	"github.com/weirhq/weir/internal/control/pathtree"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/value/ypath"
	"github.com/weirhq/weir/internal/value/yson"
)

// folder is a directory of the scheduler's view with few children, each computed on request.
type folder struct {
	pathtree.Bare
	list []folderChild
	// opaque folders appear as the entity when an ancestor is read.
	opaque bool
}

func (f folder) Shape() pathtree.Shape {
	if f.opaque {
		return pathtree.OpaqueShape
	}
	return pathtree.MapShape
}

type folderChild struct {
	key string
	get func(c *pathtree.Request) (pathtree.Object, error)
}

// childAt makes a child of a folder.
func childAt(key string, get func(c *pathtree.Request) pathtree.Object) folderChild {
	return folderChild{key, func(c *pathtree.Request) (pathtree.Object, error) { return get(c), nil }}
}

// childValue makes a child of a folder that is a value.
func childValue(key string, get func(c *pathtree.Request) (yson.Node, error)) folderChild {
	return childAt(key, func(c *pathtree.Request) pathtree.Object {
		return pathtree.Computed{Get: func() (yson.Node, error) { return get(c) }}
	})
}

func (folder) Kind() string { return "map_node" }

func (f folder) Keys(*pathtree.Request) ([]string, error) {
	keys := make([]string, len(f.list))
	for i := range f.list {
		keys[i] = f.list[i].key
	}
	return keys, nil
}

func (f folder) Child(c *pathtree.Request, key string) (pathtree.Object, error) {
	i := slices.IndexFunc(f.list, func(t folderChild) bool { return t.key == key })
	if i < 0 {
		return nil, nil
	}
	return f.list[i].get(c)
}

// table is a directory of the scheduler's view with many children of one kind. Read as a whole it
// is one value, built at once; a path into it builds only the child that it leads to.
type table struct {
	pathtree.Bare
	whole func() (yson.Node, error)
	list  func() ([]string, error)
	get   func(key string) (pathtree.Object, error)
	// text writes the whole with some fields; it may be nil.
	text func(as wire.Format, fields []string) ([][]byte, error)
	// parts reports whether the request reads children and not the whole.
	parts bool
}

func (table) Kind() string { return "map_node" }

func (t table) Shape() pathtree.Shape {
	if t.parts {
		return pathtree.MapShape
	}
	return pathtree.DocumentShape
}

func (t table) Keys(*pathtree.Request) ([]string, error)                       { return t.list() }
func (t table) Child(_ *pathtree.Request, key string) (pathtree.Object, error) { return t.get(key) }
func (t table) Value(*pathtree.Request) (yson.Node, error)                     { return t.whole() }

// Written writes the whole at once.
func (t table) Written(c *pathtree.Request, as wire.Format) ([][]byte, bool, error) {
	if t.text == nil {
		return nil, false, nil
	}
	fields, err := requestedFields(c)
	if err != nil {
		return nil, false, err
	}
	text, err := t.text(as, fields)
	if err != nil {
		return nil, false, wire.Errorf(wire.CodeGeneric, "The answer cannot be written in this format").Because(err)
	}
	return text, true, nil
}

func (t table) as(c *pathtree.Request, key string) pathtree.Object {
	t.parts = wantsParts(c, key)
	return t
}

// wantsParts reports whether a request is about children of a directory with this name rather than
// about the directory as a whole. A wrong answer costs time and changes nothing else.
func wantsParts(c *pathtree.Request, key string) bool {
	if c.Command == "list" {
		return true
	}
	path, err := c.Parameters.Path("path")
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

// SortedKeys lists the keys of a map in order.
func SortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
