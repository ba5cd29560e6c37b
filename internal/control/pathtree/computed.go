package pathtree

import (
	"github.com/weirhq/weir/internal/value/yson"
)

// LazyMap is a directory whose children are made when they are asked for. It
// cannot be changed.
type LazyMap struct {
	Bare
	// List returns the keys in their order.
	List func() ([]string, error)
	// Get returns a child, or nil.
	Get func(key string) (Object, error)
	// Opaque maps are the entity when something above them is read.
	Opaque bool
}

// Kind is that of a directory.
func (m LazyMap) Kind() string { return "map_node" }

// Shape is that of a directory, or of what is not read from above.
func (m LazyMap) Shape() Shape {
	if m.Opaque {
		return OpaqueShape
	}
	return MapShape
}

// Child makes a child.
func (m LazyMap) Child(_ *Request, key string) (Object, error) { return m.Get(key) }

// Keys lists the children.
func (m LazyMap) Keys(*Request) ([]string, error) { return m.List() }

// Computed is a value as a node: paths go into it. It cannot be changed.
type Computed struct {
	Bare
	Get func() (yson.Node, error)
}

// ValueNode is a node with this value.
func ValueNode(n yson.Node) Object {
	return Computed{Get: func() (yson.Node, error) { return n, nil }}
}

// Kind is that of a document.
func (v Computed) Kind() string { return "document" }

// Shape is that of a document.
func (v Computed) Shape() Shape { return DocumentShape }

// Value computes the value.
func (v Computed) Value(*Request) (yson.Node, error) { return v.Get() }
