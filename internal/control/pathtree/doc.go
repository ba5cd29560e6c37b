// Package pathtree is the tree of paths: what get, set, list and create work on.
//
// It owns how a path leads to a node, what every node has, the plain nodes that
// people store, and the nodes through which pools, users, nodes of the cluster and
// settings are read and changed. A change checks permissions here, at the node;
// reading is checked by whoever walks the tree for a [Request].
//
// # Adding a part of the tree
//
// A part of the tree is an [Object] at a path: a row of the table of mounts, which
// is in mounts.go, or of [Live] if it shows live state.
//
// Embed [Bare] and implement Kind, and then what the node has: Child and Keys for
// maps, Value for documents (shape [DocumentShape]: paths then go into the value by
// themselves), Attribute and AttributeNames. Nodes that can be changed implement
// [AttributesEditor], [ValueEditor], [Parent], [Remover] or [Mover], and check
// permissions there. For a tree that is computed there is [LazyMap], whose children
// are made when they are asked for, and [Computed], a value as a node.
package pathtree
