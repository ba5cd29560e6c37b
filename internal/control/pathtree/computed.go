package pathtree

import (
	"github.com/weirhq/weir/internal/value/yson"
)

// LazyMap is a directory whose children are computed on request. It is read-only.
type LazyMap struct {
	Bare
	// List returns the keys in their order.
	List func() ([]string, error)
	// Get returns a child, or nil.
	Get func(key string) (Object, error)
	// Opaque maps appear as the entity when an ancestor is read.
	Opaque bool
}

// Kind is that of a directory.
func (m LazyMap) Kind() string { return "map_node" }

// Shape is that of a directory, or opaque if the map is.
func (m LazyMap) Shape() Shape {
	if m.Opaque {
		return OpaqueShape
	}
	return MapShape
}

// Child computes a child.
func (m LazyMap) Child(_ *Request, key string) (Object, error) { return m.Get(key) }

// Keys lists the children.
func (m LazyMap) Keys(*Request) ([]string, error) { return m.List() }

// Computed is a value as a node: paths lead into it. It is read-only.
type Computed struct {
	Bare
	Get func() (yson.Node, error)
}

// ValueNode returns a node with this value.
func ValueNode(n yson.Node) Object {
	return Computed{Get: func() (yson.Node, error) { return n, nil }}
}

// Kind is that of a document.
func (v Computed) Kind() string { return "document" }

// Shape is that of a document.
func (v Computed) Shape() Shape { return DocumentShape }

// Value computes the value.
func (v Computed) Value(*Request) (yson.Node, error) { return v.Get() }
