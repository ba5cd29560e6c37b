// Package pathtree is the tree of paths: what get, set, list and create work on.
//
// It owns how a path leads to a node, the attributes that every node has, the plain
// nodes that people store, and the nodes through which clients read and change
// pools, users, cluster nodes and settings. Each node checks the permissions for
// its own changes; the code that walks the tree for a [Request] checks those for
// reading.
//
// # Adding a part of the tree
//
// A part of the tree is an [Object] at a path: a row of the table of mounts in
// mounts.go, or a field of [Live] if it shows live state.
//
// Embed [Bare] and implement Kind, then what the node has: Child and Keys for maps,
// Value for documents (shape [DocumentShape]: paths then lead into the value
// without further code), Attribute and AttributeNames. Nodes that can be changed
// implement [AttributesEditor], [ValueEditor], [Parent], [Remover] or [Mover], and
// check permissions there. For a computed tree there is [LazyMap], whose children
// are computed on request, and [Computed], a value as a node.
package pathtree
