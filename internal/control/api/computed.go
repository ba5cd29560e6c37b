package api

import (
	"github.com/weirhq/weir/internal/value/yson"
)

// lazyMap is a directory whose children are made when they are asked for. It
// cannot be changed.
type lazyMap struct {
	bare
	// list returns the keys in their order.
	list func() ([]string, error)
	// get returns a child, or nil.
	get func(key string) (object, error)
	// opaque maps are the entity when something above them is read.
	opaque bool
}

func (m lazyMap) kind() string { return "map_node" }

func (m lazyMap) shape() shape {
	if m.opaque {
		return opaqueShape
	}
	return mapShape
}

func (m lazyMap) child(_ *call, key string) (object, error) { return m.get(key) }

func (m lazyMap) keys(*call) ([]string, error) { return m.list() }

// computed is a value as a node: paths go into it. It cannot be changed.
type computed struct {
	bare
	get func() (yson.Node, error)
}

// valueNode is a node with this value.
func valueNode(n yson.Node) object {
	return computed{get: func() (yson.Node, error) { return n, nil }}
}

func (v computed) kind() string { return "document" }

func (v computed) shape() shape { return documentShape }

func (v computed) value(*call) (yson.Node, error) { return v.get() }
